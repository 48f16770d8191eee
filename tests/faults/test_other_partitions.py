"""A source is overwritten with other partition columns: Delta reads null where files have a value in another place.

One source is read by a job with a composite key, a mirror, a history and a job that counts partners. Each test plays
what somebody does to the source and compares all four with what they should hold; the bugs that are planted show that
this comparison would tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from enrich import load_project, plan, verify
from enrich.base.result import JobResult
from enrich.delta import reads, tables
from enrich.delta.tables import Told
from enrich.steps import source_changes
from faults.shop import SOAK
from kit.lab import FEED, Lab, Prepared

Row = tuple[Any, ...]

JOBS = """\
job: keyed
sources: {o: {table: orders, key: [place, id]}}
from: o
target: {table: keyed}
---
job: mirrored
kind: mirror
sources: {o: {table: orders, key: id}}
from: o
mirror: {value: place, conflict: first}
target: {table: mirrored}
---
job: told
kind: history
sources: {o: {table: orders, key: id}}
from: o
target: {table: told}
---
job: named
sources: {o: {table: orders, key: id}, p: {table: places, key: place}}
from: o
join: {p: {kind: foreign_key, on: o.place}}
select: {id: o.id, place: o.place, name: p.name}
target: {table: named}
"""


def write_orders(lab: Lab) -> None:
    """Write three orders and two places; run four jobs."""
    lab.table("places", "place", {"place": pa.string(), "name": pa.string()}, [{"place": "a", "name": "A"}])
    schema = pa.schema([("id", pa.int32()), ("place", pa.string()), ("amount", pa.int32())])
    DeltaTable.create(lab.path("orders"), schema, partition_by=["amount"], configuration=FEED)
    lab.append("orders", order(1, "a", 1), order(2, "c", 2), order(3, "b", 1))
    for job in JOBS.split("---\n"):
        lab.job(job)
    assert {each.status for each in lab.run_all().jobs} == {"created"}


def order(key: int, place: str, amount: int) -> dict[str, object]:
    """Return a row of the source."""
    return {"id": key, "place": place, "amount": amount}


@pytest.fixture
def orders(prepared: Prepared) -> Lab:
    """Give the orders, the places, and the four targets."""
    return prepared("orders", write_orders)


def repartition(lab: Lab, *by: str, without: int = 0) -> None:
    """Overwrite the orders with all of them but one, and with other partition columns."""
    kept = [row for row in lab.rows("orders") if row["id"] != without]
    data = pa.Table.from_pylist(kept, schema=lab.schema("orders"))
    write_deltalake(lab.path("orders"), data, mode="overwrite", schema_mode="overwrite", partition_by=[*by])


def rows(lab: Lab, job: str, *columns: str) -> set[Row]:
    return {tuple(row[name] for name in columns) for row in lab.rows(job)}


def list_differing(lab: Lab, said: set[Row]) -> list[str]:
    """Return the jobs whose targets do not hold what they should: ``said`` are all versions that the table ever had."""
    source = rows(lab, "orders", "id", "place", "amount")
    names = {row["place"]: row["name"] for row in lab.rows("places")}
    right = {
        "keyed": source,
        "mirrored": {(place, min(key for key, other, _ in source if other == place)) for _, place, _ in source},
        "named": {(key, place, names.get(place)) for key, place, _ in source},
    }
    columns = {"keyed": ("id", "place", "amount"), "mirrored": ("place", "id"), "named": ("id", "place", "name")}
    found = [job for job, wanted in right.items() if rows(lab, job, *columns[job]) != wanted]
    versions = lab.rows("told")
    is_open = {tuple(each[name] for name in ("id", "place", "amount")) for each in versions if each["valid_to"] is None}
    told = {tuple(each[name] for name in ("id", "place", "amount")) for each in versions}
    return [*found, *(["told"] if (is_open, told) != (source, said) else [])]


BEGUN = {(1, "a", 1), (2, "c", 2), (3, "b", 1)}


def there_at_once(lab: Lab) -> set[Row]:
    """The overwrite is the first commit of the window, and a row goes with it."""
    repartition(lab, "place", without=2)
    return BEGUN


def there_after_changes(lab: Lab) -> set[Row]:
    """Commits before and after the overwrite have changes of their own."""
    lab.change("orders", "id = 1", amount="7")
    lab.append("orders", order(4, "d", 4))
    repartition(lab, "place", without=2)
    lab.change("orders", "id = 3", place="'z'")
    return BEGUN | {(1, "a", 7), (4, "d", 4), (3, "z", 1)}


def there_and_back(lab: Lab) -> set[Row]:
    """Both ends of the window, and the table now, have the same partition columns: only the log tells."""
    repartition(lab, "place")
    lab.change("orders", "id = 1", amount="7")
    DeltaTable(lab.path("orders")).restore(1)
    lab.drop("orders", "id = 2")
    return BEGUN | {(1, "a", 7)}


@pytest.mark.parametrize(
    "play",
    [pytest.param(there_at_once, marks=pytest.mark.soak), there_after_changes, there_and_back],
    ids=lambda each: each.__name__,
)
def test_a_source_is_overwritten_with_other_partition_columns(orders: Lab, play: Callable[[Lab], set[Row]]) -> None:
    said = play(orders)
    if play is there_after_changes:
        planned = {each.job: each.sources["o"].compared for each in plan_all(orders)}
        assert planned == dict.fromkeys(("keyed", "mirrored", "told", "named"), True)
    done = orders.run_all().jobs
    assert [each.error for each in done] == [None] * 4
    assert all(each.sources["o"].compared for each in done)
    assert list_differing(orders, said) == []
    counted = next(each for each in done if each.job == "named").state
    assert counted is not None
    if SOAK:  # what `verify` says, the comparison above says
        assert {check.status for check in verify(load_project(orders.home), spark=orders.spark).jobs} == {"equal"}
    assert {each.status for each in orders.run_all().jobs} == {"unchanged"}


def plan_all(lab: Lab) -> Any:
    return plan(load_project(lab.home), spark=lab.spark).jobs


@pytest.mark.soak
def test_a_window_that_ends_before_the_overwrite_is_read_as_the_table_was_then(orders: Lab) -> None:
    """Also for a record of a release that did not know partition columns."""
    orders.append("orders", order(4, "d", 4))
    orders.change("orders", "id = 1", amount="7")
    repartition(orders, "place", without=2)
    orders.drop("orders", "id = 3")
    done = orders.run_all(until="o=v3").jobs
    assert [each.error for each in done] == [None] * 4
    assert not any(each.sources["o"].compared for each in done)
    then = {(1, "a", 7), (2, "c", 2), (3, "b", 1), (4, "d", 4)}
    assert rows(orders, "keyed", "id", "place", "amount") == then
    assert rows(orders, "told", "id", "place", "amount") == then | {(1, "a", 1)}
    assert [each.error for each in orders.run_all().jobs] == [None] * 4
    assert list_differing(orders, then | {(1, "a", 1)}) == []


def read_by_the_latest(patch: pytest.MonkeyPatch) -> None:
    """Plant the bug: a feed is read as Delta does, and nobody looks at partition columns."""
    patch.setattr(source_changes, "read_range", lambda *_: Told())
    patch.setattr(tables, "read_range", lambda *_: Told())
    patch.setattr(reads, "_find_snapshot", lambda _, latest, __, **___: latest)


def look_at_the_ends_alone(patch: pytest.MonkeyPatch) -> None:
    """Plant the bug: a window whose two ends have the same partition columns is taken to be whole."""
    read = tables.read_range

    def plant(uri: str, window: tuple[int, int], partitions: Any = None) -> Told:
        ends = [getattr(tables.state_at(uri, version), "partitions", None) for version in window]
        return Told() if ends[0] == ends[1] else read(uri, window, partitions)

    patch.setattr(tables, "read_range", plant)


@pytest.mark.parametrize(
    ("bug", "play", "caught"),
    [
        (read_by_the_latest, there_after_changes, ["keyed", "mirrored", "told"]),
        (look_at_the_ends_alone, there_and_back, ["told"]),  # for the others, what is null comes and goes
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_planted_bug_is_caught(
    orders: Lab,
    monkeypatch: pytest.MonkeyPatch,
    bug: Callable[[pytest.MonkeyPatch], None],
    play: Callable[[Lab], set[Row]],
    caught: list[str],
) -> None:
    said = play(orders)
    bug(monkeypatch)
    done: list[JobResult] = list(orders.run_all().jobs)
    failed = {each.job for each in done if each.error is not None}
    assert failed | set(list_differing(orders, said)) == set(caught), [each.error for each in done]
