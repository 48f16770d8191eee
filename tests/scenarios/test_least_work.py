"""A run reads and writes no more than it must: what the feed says is not read again, small files are written anew."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from enrich.delta import extents
from enrich.delta.sink import hold_settings
from enrich.frames import difference, join
from enrich.frames.columns import Ranges, keep_in_ranges
from enrich.joins import chain as chains
from enrich.project.settings import FORCED
from enrich.spark import ADAPTIVE, ADAPTIVE_BY_CHANGE, PARTITIONS
from enrich.steps import rows, run
from kit.lab import Lab, Prepared
from kit.project import SHOP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def open_shop(lab: Lab) -> None:
    lab.table("merchants", "id", {"id": pa.int64(), "name": pa.string()})
    lab.put("merchants", *[{"id": number, "name": f"merchant {number}"} for number in (1, 2, 3)])
    lab.table("products", "id", {"id": pa.int64(), "title": pa.string(), "merchant_id": pa.int64()})
    for numbers in ((1, 2), (3, 4, 5)):
        lab.append("products", *[{"id": each, "title": f"product {each}", "merchant_id": each % 3} for each in numbers])
    lab.job(SHOP)
    assert lab.run().status == "created"


@pytest.fixture
def shop(prepared: Prepared) -> Lab:
    """Give a shop after its first run; the products are in two files, the merchants in one."""
    return prepared("least work", open_shop)


def files(lab: Lab, table: str) -> list[Path]:
    """Return a table's data files."""
    paths = pa.table(DeltaTable(lab.path(table)).get_add_actions(flatten=True))["path"].to_pylist()
    return [Path(lab.path(table)) / path for path in paths]


def has_vectors(lab: Lab) -> bool:
    """Return whether the last commit to the target has marked rows as gone instead of writing their file anew."""
    path = Path(lab.path("shop"))
    log = path / "_delta_log" / f"{DeltaTable(path).version():020}.json"
    return any("deletionVector" in json.loads(line).get("add", {}) for line in log.read_text().splitlines())


def titles(lab: Lab) -> dict[int, tuple[str, str | None]]:
    return {row["id"]: (row["title"], row["merchant"]) for row in lab.rows("shop")}


def test_a_row_that_came_is_not_read_again(shop: Lab) -> None:
    """The files of the products may be gone: nothing of them is needed when some of their rows have new values.

    And a small target gets no deletion vectors.
    """
    shop.put("products", {"id": 1, "title": "new", "merchant_id": 2}, {"id": 4, "title": "new, too", "merchant_id": 9})
    for file in files(shop, "products"):
        file.rename(file.with_suffix(".gone"))
    result = shop.run()
    assert (result.error, result.counts.updated) == (None, 2)
    assert {key: titles(shop)[key] for key in (1, 4)} == {1: ("new", "merchant 2"), 4: ("new, too", None)}
    assert not has_vectors(shop)


def test_a_lookup_that_alone_has_changed_is_not_read_and_few_rows_are_shuffled_into_one_part(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_tasks, told = run.Run.count_tasks, []

    def listening(self: run.Run, count: int) -> str:
        told.append(count_tasks(self, count))
        return told[-1]

    monkeypatch.setattr(run.Run, "count_tasks", listening)
    shop.put("merchants", {"id": 2, "name": "renamed"})
    shop.drop("merchants", "id = 1")
    for file in files(shop, "merchants"):
        file.rename(file.with_suffix(".gone"))
    with hold_settings(shop.spark, {ADAPTIVE: "true", ADAPTIVE_BY_CHANGE: "true", PARTITIONS: "6"}):
        result = shop.run()
        assert [shop.spark.conf.get(each) for each in (ADAPTIVE, PARTITIONS)] == ["true", "6"]
    assert (result.error, result.counts.updated) == (None, 4)
    assert (set(told), result.state and result.state.lookups["merchants"].matched) == ({"1"}, 2)
    assert [titles(shop)[key][1] for key in (1, 2, 3, 4, 5)] == [None, "renamed", None, None, "renamed"]


def test_a_feed_that_brings_two_rows_of_one_key_is_not_believed(shop: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer's feed may lack what it removed: then the table says which rows there are."""
    from enrich.base.spec import WEIGHT
    from enrich.delta import reads

    read = reads.read_change_feed
    monkeypatch.setattr(reads, "read_change_feed", lambda *args, **how: read(*args, **how).where(f"{WEIGHT} > 0"))
    for title in ("first", "second"):
        shop.put("products", {"id": 1, "title": title, "merchant_id": 1})
    assert shop.run().error is None
    assert titles(shop)[1] == ("second", "merchant 1")


@pytest.fixture
def large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every table count as large."""
    monkeypatch.setattr(extents, "SMALL_TABLE", -1)
    monkeypatch.setattr(extents, "find_need", lambda *_: None)  # OPTIMIZE would be the last commit


@pytest.mark.usefixtures("large_tables")
@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_large_lookup_is_filtered_by_what_few_rows_refer_to_and_a_large_target_gets_deletion_vectors(
    shop: Lab, monkeypatch: pytest.MonkeyPatch, *, few: bool
) -> None:
    asked: list[frozenset[str]] = []
    sources_for = run.Run.sources_for

    def listening(self: run.Run, affected: Any) -> Any:
        asked.append(sources_for(self, affected).large)
        return sources_for(self, affected)

    monkeypatch.setattr(run.Run, "sources_for", listening)
    monkeypatch.setattr(run, "LARGE_LOOKUP", 0)
    monkeypatch.setattr(run, "FEW", 1 if few else 0)
    shop.put("products", {"id": 1, "title": "new", "merchant_id": 3})
    assert shop.run().counts.updated == 1
    assert set(asked) == {frozenset({"merchants"} if few else ())}
    assert titles(shop)[1] == ("new", "merchant 3")
    assert has_vectors(shop)


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_list_counts_as_several_references(shop: Lab, monkeypatch: pytest.MonkeyPatch, *, few: bool) -> None:
    """Nobody knows how long the lists of the affected rows are when it is decided whether references are sent."""
    asked: list[frozenset[str]] = []
    join_all = join.join_all

    def listening(sources: Any, affected: Any) -> Any:
        if affected is not None:  # without, the types of the rows are asked for
            asked.append(sources.large)
        return join_all(sources, affected)

    ids = {"id": pa.int64(), "ids": pa.list_(pa.int64())}
    shop.table("baskets", "id", ids, [{"id": 1, "ids": [1, 2]}])
    shop.job(
        "job: lists\nsources: {baskets: {table: baskets, key: id}, merchants: {table: merchants, key: id}}\n"
        "from: baskets\njoin: {merchants: {kind: list, elements: baskets.ids}}\n"
        "select: {id: baskets.id, merchants: merchants}\ntarget: {table: lists}\n"
    )
    assert shop.run("lists").error is None
    monkeypatch.setattr(join, "join_all", listening)
    monkeypatch.setattr(run, "LARGE_LOOKUP", 0)
    monkeypatch.setattr(run, "FEW", 10 if few else 9)
    shop.put("baskets", {"id": 1, "ids": [2, 1]})
    assert shop.run("lists").error is None
    assert set(asked) == {frozenset({"merchants"} if few else ())}


def chain(length: int) -> str:
    """Return a job in which each lookup's key is read off the one before."""
    aliases = [f"m{number}" for number in range(length)]
    joins = {"m0": "products.merchant_id"} | {after: f"{before}.id" for before, after in pairwise(aliases)}
    return "\n".join(
        [
            "job: chain\nsources:\n  products: {table: products, key: id}",
            *[f"  {alias}: {{table: merchants, key: id}}" for alias in aliases],
            "from: products\njoin:",
            *[f"  {alias}: {{kind: foreign_key, on: {on}}}" for alias, on in joins.items()],
            f"select: {{id: products.id, title: products.title, merchant: {aliases[-1]}.name}}",
            "target: {table: chain}\n",
        ]
    )


def test_the_plan_grows_with_the_joins_and_not_with_their_powers(shop: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a large lookup is filtered by is read twice: without a cut, eight joins had a plan of hundreds of tables."""
    shop.job(chain(8))
    assert shop.run("chain").status == "created"
    leaves: list[int] = []
    keep = run.Run.keep

    def listening(self: run.Run, frame: Any) -> Any:
        leaves.append(frame._jdf.queryExecution().analyzed().collectLeaves().size())
        return keep(self, frame)

    monkeypatch.setattr(run.Run, "keep", listening)
    monkeypatch.setattr(run, "LARGE_LOOKUP", 0)
    shop.put("products", {"id": 1, "title": "new", "merchant_id": 3})
    assert shop.run("chain").counts.updated == 1
    assert {row["id"]: row["merchant"] for row in shop.rows("chain")}[1] == "merchant 3"
    assert 0 < max(leaves) <= 40


def listen_to_places(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let looks at the keys of a target note what they tell."""
    found, look = list[str](), difference.place_rows

    def listening(*given: Any) -> DataFrame | None:
        told = look(*given)
        found.append("read" if told is None else "at hand")
        return told

    monkeypatch.setattr(difference, "place_rows", listening)
    return found


@pytest.mark.usefixtures("large_tables")
def test_new_rows_are_looked_for_by_their_keys_alone(shop: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that has come may be there all the same: its row went in versions that were left out."""
    found = listen_to_places(monkeypatch)
    shop.append("products", {"id": 6, "title": "new", "merchant_id": 3}, {"id": 7, "title": "new", "merchant_id": 9})
    assert shop.run().counts.inserted == 2
    assert found == ["at hand"]
    shop.drop("products", "id = 1")
    shop.append("products", {"id": 1, "title": "again", "merchant_id": 3}, {"id": 8, "title": "new", "merchant_id": 3})
    version = DeltaTable(shop.path("products")).version()
    counts = shop.run(since=f"products=v{version - 1}", allow_gap=True).counts
    assert (found, counts.inserted, counts.updated) == (["at hand", "read"], 1, 1)
    shop.change("products", "id = 6", title="'other'")
    assert shop.run().counts.updated == 1
    assert found == ["at hand", "read"], "what has changed is there"
    assert {key: titles(shop)[key] for key in (1, 6, 7, 8)} == {
        1: ("again", "merchant 3"),
        6: ("other", "merchant 3"),
        7: ("new", None),
        8: ("new", "merchant 3"),
    }


@pytest.mark.usefixtures("large_tables")
def test_behind_a_gap_nobody_knows_what_rows_were(shop: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target has product 1 as it was before the versions that were left out; its feed does not tell that."""
    found = listen_to_places(monkeypatch)
    shop.put("products", {"id": 1, "title": "left out", "merchant_id": 9})
    shop.put("products", {"id": 1, "title": "product 1", "merchant_id": 1}, {"id": 4, "title": "new", "merchant_id": 9})
    version = DeltaTable(shop.path("products")).version()
    result = shop.run(since=f"products=v{version - 1}", allow_gap=True)
    assert (found, result.counts.updated) == ([], 1), "product 1 is what the target has"
    shop.put("products", {"id": 4, "title": "newer", "merchant_id": 1})
    assert (shop.run().counts.updated, found) == (1, [])
    expected = {1: ("product 1", "merchant 1"), 4: ("newer", "merchant 1")}
    assert {key: titles(shop)[key] for key in expected} == expected


@pytest.mark.usefixtures("large_tables")
def test_what_rows_were_is_joined_and_not_read_where_a_lookup_changes(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, join_before = listen_to_places(monkeypatch), chains._join_before
    shop.put("merchants", {"id": 2, "name": "renamed"})
    shop.put("products", {"id": 1, "title": "moved", "merchant_id": 2})
    assert shop.run().counts.updated == 3
    assert found == ["at hand"]
    assert {key: titles(shop)[key] for key in (1, 2, 5)} == {
        1: ("moved", "renamed"),
        2: ("product 2", "renamed"),
        5: ("product 5", "renamed"),
    }

    # A row that is there for another reason than the sources is read.
    def lose_rows(*given: Any) -> tuple[DataFrame, Any]:
        before, partners = join_before(*given)
        assert before is not None
        return before.limit(1), partners

    monkeypatch.setattr(chains, "_join_before", lose_rows)
    shop.put("merchants", {"id": 2, "name": "again"})
    assert shop.run().counts.updated == 3
    assert found == ["at hand", "read"]
    assert {titles(shop)[key][1] for key in (1, 2, 5)} == {"again"}


@pytest.mark.usefixtures("large_tables")
def test_a_lookup_that_gains_a_row_without_key_changes_nothing(shop: Lab) -> None:
    shop.append("merchants", {"id": None, "name": "nobody"})
    assert shop.run().status == "unchanged"


def run_twice(lab: Lab) -> None:
    lab.table("items", "id", {"id": pa.int64(), "name": pa.string()})
    lab.job("job: kept\nsources:\n  items: {table: items, key: id}\nfrom: items\ntarget: {table: kept}\n")
    for keys in ((10, 20), (30, 33, 35, 40)):
        lab.append("items", *[{"id": key, "name": "old"} for key in keys])
        assert lab.run().exit_code == 0


@pytest.fixture
def kept(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Give a large target in two files, with keys from 10 to 20 and from 30 to 40."""
    lab = prepared("two files", run_twice)
    monkeypatch.setattr(extents, "SMALL_TABLE", -1)
    return lab


def names(lab: Lab) -> dict[int, str]:
    return {row["id"]: row["name"] for row in lab.rows("kept")}


def test_only_files_that_may_have_changed_keys_are_read(kept: Lab) -> None:
    """The other may be gone, and no key is in the commit."""
    before = names(kept)
    kept.put("items", {"id": 33, "name": "new"}, {"id": 34, "name": "came"})
    kept.drop("items", "id = 35")
    told = pa.table(DeltaTable(kept.path("kept")).get_add_actions(flatten=True)).to_pylist()
    (outside,) = [Path(kept.path("kept"), each["path"]) for each in told if each["min.id"] != 30]
    outside.rename(outside.with_suffix(".gone"))
    result = kept.run()
    counts = result.counts
    assert (result.error, counts.inserted, counts.updated, counts.deleted) == (None, 1, 1, 1)
    outside.with_suffix(".gone").rename(outside)
    assert names(kept) == {**{key: name for key, name in before.items() if key != 35}, 33: "new", 34: "came"}
    assert DeltaTable(kept.path("kept")).history(1)[0]["operationParameters"]["predicate"] == "[]"


def write_many(lab: Lab) -> None:
    lab.table("items", "id", {"id": pa.int64(), "name": pa.string()})
    lab.job("job: kept\nsources:\n  items: {table: items, key: id}\nfrom: items\ntarget: {table: kept}\n")
    lab.append("items", *[{"id": key, "name": f"item {key}"} for key in range(40_000)])
    assert lab.run().status == "created"


def test_few_keys_are_looked_for_page_by_page(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies between them is not read, although it is in the same row group of one file."""
    lab = prepared("forty pages", write_many)
    found: list[Ranges] = []
    list_values = rows._list_values

    def note(*given: Any) -> Ranges:
        found.append(list_values(*given))
        return found[-1]

    monkeypatch.setattr(rows, "_list_values", note)
    keys = (0, 20_000, 39_999)
    lab.put("items", *[{"id": key, "name": "new"} for key in keys])
    assert lab.run().counts.updated == len(keys)
    assert names(lab) == {key: "new" if key in keys else f"item {key}" for key in range(40_000)}
    assert sorted(found[0]["__enrich_k0"].values) == list(keys)
    at_first = lab.spark.read.format("delta").option("versionAsOf", 0).load(lab.path("kept"))
    with hold_settings(lab.spark, FORCED):
        read = keep_in_ranges(at_first, {"id": found[0]["__enrich_k0"]})
        assert read.count() == len(keys)
        plan = read._jdf.queryExecution().executedPlan()
        read._jdf.queryExecution().toRdd().count()
    assert plan.collectLeaves().head().metrics().apply("numOutputRows").value() == 3_000
