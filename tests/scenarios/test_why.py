"""Every reason code, each from a history that leads to it; what `failing` and `doctor keys` make of the same lake.

All jobs have run once, and whole targets are asked about at once: no test writes.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import enrich
from enrich.answers.question import explain
from enrich.answers.reasons import FailingRows, Why, format_keys
from kit import command
from kit.lab import Lab
from kit.project import hold_nulls
from kit.session import forget_tables
from scenarios.references import (
    MIRROR,
    NOT_NULL,
    PAIRS,
    SHELF,
    VALUE,
    check_against_why,
    find_rule,
    list_keys,
    open_references,
    rule,
)

if TYPE_CHECKING:
    from click.testing import Result
    from pyspark.sql import SparkSession

    from kit.command import Call

PAIRS_LEFT = PAIRS.replace("job: pairs", "job: pairs_left").replace("{table: pairs}", "{table: pairs_left}")
PAIRS_LEFT = PAIRS_LEFT.replace("how: inner", "how: left") + "expectations: pairs\n"
RICH_MIRROR = MIRROR.replace("value: name", "value: name, conflict: first, columns: [country]")
RICH_MIRROR += "expectations: mirrored\n"
KEYS = ("p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p0", "P1 ")
LONE_KEYS = ("m6", "m7", "m8", "m9", "m11", "m2", "m10", "M6", "mX")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, interpreted: SparkSession) -> Lab:
    """Give the lake after a run of each job, and rows that came after it."""
    forget_tables(interpreted)
    lab = Lab(Path(tmp_path_factory.mktemp("why")) / "project", interpreted)
    open_references(lab)
    rows = (("m6", "other", "de"), ("m7", None, "de"), ("m8", "last", "xx"), ("m9", "hidden", "de"))
    lab.append("merchants", *[{"id": key, "name": name, "country": code} for key, name, code in rows])
    lab.append("merchants", {"id": "m11", "name": "nowhere", "country": None})
    (lab.home / "jobs" / "wide.yml").unlink()
    of_products = {"row_condition": {"type": "nullity", "column": {"name": "id"}, "is_null": False}}
    titled = hold_nulls("title")
    lab.suite(
        "shelf",
        {**titled, "kwargs": titled["kwargs"] | of_products},
        rule(NOT_NULL, column="country"),
        rule(NOT_NULL, column="merchant"),
        rule("expect_column_values_to_be_null", column="tags"),
        rule("expect_compound_columns_to_be_unique", column_list=["country", "merchant"]),
        rule(
            "expect_select_column_values_to_be_unique_within_record",
            column_list=["country", "merchant", "title"],
            ignore_row_if="never",
        ),
        rule(NOT_NULL, column="id"),
        rule("expect_column_values_to_not_be_in_set", "quarantine", column="merchant_id", value_set=["m7"]),
    )
    lab.suite("pairs", rule(NOT_NULL, column="stock"))
    in_set = rule("expect_column_values_to_be_in_set", column="country", value_set=["de"])
    lab.suite("mirrored", in_set, rule(NOT_NULL, column="country"))
    for job in (SHELF, PAIRS_LEFT, RICH_MIRROR):
        lab.job(job)

    # Before the first run nothing is known, and nothing is started to find that out.
    unknown = enrich.why(enrich.load_project(lab.home), "shelf", "p1", "merchant")
    assert unknown.to_dict()["columns"] == {"merchant": {"reason": "not_yet_run"}}
    assert not unknown.in_target

    assert lab.run_all().exit_code == 0
    lab.append("merchants", {"id": "m3", "name": f"{VALUE}3", "country": "de"})
    lab.append("merchants", {"id": "m5", "name": "other", "country": "de"})
    lab.append("merchants", {"id": "m10", "name": "late", "country": "de"})
    lab.append("products", {"id": "p11", "title": "x", "merchant": "m1", "tags": None, "price": 1})
    return lab


@pytest.fixture
def call(lake: Lab) -> Iterator[Call]:
    """The command line in the lake's project."""

    def call(*args: object, **environment: str) -> Result:
        with contextlib.chdir(lake.home):
            return command.call(*args, **environment)

    with command.restored():
        yield call


def ask(lake: Lab, job: str, keys: Sequence[object]) -> list[Why]:
    return explain(enrich.load_project(lake.home), job, keys, spark=lake.spark)


@pytest.fixture(scope="module")
def told(lake: Lab) -> dict[str, Why]:
    """Give the answers about rows of `shelf`.

    Rows that only a lookup has are asked for by its key, under the target's names: as `enrich why --key merchant_id=m6`
    gives it, and as Python does.
    """
    alone = [[f"merchant_id={LONE_KEYS[0]}"], *[{"MERCHANT_ID": key} for key in LONE_KEYS[1:]]]
    return dict(zip((*KEYS, *LONE_KEYS), [*ask(lake, "shelf", KEYS), *ask(lake, "shelf", alone)], strict=True))


def test_every_reason(told: dict[str, Why]) -> None:
    """All rows of a target, and those that are not in it: the row, what it refers to, and its cells."""
    every = {key: told[key].to_dict() for key in KEYS}
    assert [key for key in every if every[key]["in_target"]] == ["p1", "p2", "p3", "p4", "p5", "p6", "p9"]
    merchants = {key: every[key]["lookups"]["merchants"] for key in ("p1", "p2", "p3", "p4", "p5", "p6", "p9")}
    arrived = merchants["p6"].pop("at")
    deleted = merchants["p5"].pop("at")
    assert deleted <= arrived
    assert merchants == {
        "p1": {"reason": "matched"},
        "p2": {"reason": "foreign_key_null"},
        "p3": {"reason": "no_such_key"},
        "p4": {"reason": "near_miss", "kind": "case"},
        "p5": {"reason": "deleted_at", "version": 3},
        "p6": {"reason": "arrived_after_window", "version": 6},
        "p9": {"reason": "matched"},
    }
    assert {each["lookups"]["products"]["reason"] for each in every.values() if each["in_target"]} == {"matched"}
    assert every["p2"]["lookups"]["tags"] == {"reason": "matched"}  # empty: nothing to miss
    assert every["p1"]["lookups"]["tags"] == {"reason": "matched", "elements": {"matched": 1}}
    assert every["p9"]["lookups"]["tags"]["elements"] == {"matched": 2}
    assert every["p3"]["lookups"]["tags"]["reason"] == "foreign_key_null"
    several = every["p4"]["lookups"]["tags"]
    assert (several["reason"], several["version"]) == ("deleted_at", 3)
    assert several["elements"] == dict.fromkeys(
        ["matched", "deleted_at", "no_such_key", "near_miss", "foreign_key_null"], 1
    )

    assert every["p9"]["row"] == {"reason": "matched"}
    assert every["p9"]["lookups"]["countries"] == {"reason": "no_such_key"}
    assert every["p9"]["columns"] == {
        "id": {"reason": "matched"},
        "title": {"reason": "matched"},
        "merchant_id": {"reason": "matched"},
        "merchant": {"reason": "value_null_in_lookup", "source": "merchants"},
        "country": {"reason": "no_such_key", "source": "countries"},
        "tags": {"reason": "matched"},
    }
    assert every["p7"]["columns"]["title"] == {"reason": "filtered_by_where"}
    assert every["p8"]["row"] == {"reason": "quarantined", "rules": [f"{NOT_NULL}:title"]}
    row = every["p0"]["row"]
    assert (row["reason"], row["version"], row["source"]) == ("deleted_at", 2, "products")
    near = {"reason": "near_miss", "kind": "combination"}
    assert every["P1 "]["row"] == {**near, "source": "products"}
    # Nothing refers to the lookups of a row that is not there.
    assert every["P1 "]["lookups"] == {
        "products": near,
        **{each: {**near, "source": "products"} for each in ("merchants", "countries", "tags")},
    }


def test_rows_that_only_the_right_side_has(lake: Lab, told: dict[str, Why]) -> None:
    lone = {key: told[key].to_dict() for key in LONE_KEYS}
    matched, nothing = {"reason": "matched"}, {"reason": "foreign_key_null", "elements": {"foreign_key_null": 1}}
    assert lone["m6"]["in_target"]
    assert lone["m6"]["lookups"] == {
        "products": {"reason": "no_such_key"},
        "merchants": matched,
        "countries": matched,
        "tags": nothing,
    }
    assert lone["m6"]["columns"] == {
        "id": {"reason": "no_such_key", "source": "products"},
        "title": {"reason": "no_such_key", "source": "products"},
        "merchant_id": matched,
        "merchant": matched,
        "country": matched,
        "tags": {**nothing, "source": "tags"},
    }
    assert lone["m8"]["columns"]["country"] == {"reason": "no_such_key", "source": "countries"}
    moments = {key: lone[key]["row"].pop("at", None) is not None for key in lone}
    assert moments == {key: key in ("m2", "m10") for key in lone}
    assert {key: lone[key]["row"] for key in lone} == {
        "m6": matched,
        "m7": {"reason": "quarantined", "rules": ["expect_column_values_to_not_be_in_set:merchant_id"]},
        "m8": matched,
        "m9": {"reason": "filtered_by_where"},
        "m11": matched,
        "m2": {"reason": "deleted_at", "version": 3, "source": "merchants"},
        "m10": {"reason": "arrived_after_window", "version": 8, "source": "merchants"},
        "M6": {"reason": "near_miss", "kind": "case", "source": "merchants"},
        "mX": {"reason": "no_such_key", "source": "merchants"},
    }
    with pytest.raises(enrich.ConfigError, match="no lookup-only row of 'merchants' with this key") as caught:
        ask(lake, "shelf", [{"merchant_id": "m1"}])
    assert caught.value.hint == "ask for the driving row, by its id"


def test_what_a_chain_of_table_joins_keeps_says_nothing_of_what_was_found(
    tmp_path: Path, interpreted: SparkSession
) -> None:
    lab, columns = Lab(tmp_path / "project", interpreted), {"id": pa.int64(), "v": pa.string()}
    for name, keys in {"a": (1, 3, 5, 7), "b": (3, 6, 7), "c": (3, 5, 6, 7), "d": (2, 7)}.items():
        lab.table(name, "id", columns, [{"id": key, "v": None if key == 7 else name} for key in keys])
    lab.job(
        f"job: chain\nsources: {{{', '.join(f'{name}: {{table: {name}, key: id}}' for name in 'abcd')}}}\n"
        "query: |\n  SELECT coalesce(c.id, d.id) AS id, a.v AS a, b.v AS b, c.v AS c, d.v AS d\n"
        "  FROM a JOIN b ON a.id = b.id RIGHT JOIN c ON a.id = c.id FULL JOIN d ON c.id = d.id\n"
        "target: {table: chain}\n"
    )
    assert lab.run().exit_code == 0
    found, said = explain(enrich.load_project(lab.home), "chain", [1, 2, 3, 5, 6, 7], spark=interpreted), {}
    for key, answer in zip((1, 2, 3, 5, 6, 7), found, strict=True):
        told = {"row": answer.row, **answer.columns}.items()
        said[key] = {name: (reason.reason, reason.source) for name, reason in told if reason.reason != "matched"}
    of_a, of_b, of_c, of_d = [("no_such_key", name) for name in "abcd"]
    assert said == {
        1: dict.fromkeys(("row", "id", "a", "b", "c", "d"), of_c),  # b would give it no row
        2: {"a": of_a, "b": of_a, "c": of_c},
        3: {"d": of_d},
        5: {"a": of_b, "b": of_b, "d": of_d},
        6: {"a": of_a, "b": of_a, "d": of_d},
        7: {"a": ("value_null", "a"), **{name: ("value_null_in_lookup", name) for name in "bcd"}},
    }


def test_failing_rows(lake: Lab, told: dict[str, Why]) -> None:
    """Chained foreign keys, a list, lookup-only rows, composite keys, a mirror."""
    project = enrich.load_project(lake.home)

    def fail(job: str) -> FailingRows:
        return enrich.failing(project, job, spark=lake.spark, show_keys=True)

    def ask_for(answer: FailingRows, *more: dict[str, str]) -> Iterator[tuple[dict[str, str], Why]]:
        """Ask for the rows, and others."""
        keys = {json.dumps(row.key): dict(row.key) for each in answer.rules for row in each.rows}
        asked = [*keys.values(), *more]
        return zip(asked, ask(lake, answer.job, asked), strict=True)

    found = fail("shelf")
    assert [each.index for each in found.rules] == [0, 1, 2, 3, 5, 6, 7]  # uniqueness judges no row by itself
    assert (find_rule(found, 0).failed, find_rule(found, 7).failed) == (0, 0)
    assert list_keys(find_rule(found, 1)) == {"p2", "p3", "p4", "p5", "p6", "p9", "m8", "m11"}
    assert find_rule(found, 2).reasons["value_null_in_lookup"] == 1
    assert find_rule(found, 3).reasons == {"deleted_at": 1, "matched": 3}
    assert find_rule(found, 5).failed
    alone = find_rule(found, 6)
    assert {row.key["merchant_id"] for row in alone.rows} == {"m6", "m8", "m11"}
    assert {row.reason.reason for row in alone.rows} == {"no_such_key"}
    check_against_why(found, [({"id" if key in KEYS else "merchant_id": key}, each) for key, each in told.items()])

    pairs = fail("pairs_left")
    assert {tuple(row.key.items()) for row in pairs.rules[0].rows} == {
        (("country", "AT"), ("number", "7")),
        (("country", "a,number=8"), ("number", "7")),
    }
    assert pairs.rules[0].reasons == {"near_miss": 1, "no_such_key": 1}
    check_against_why(pairs, ask_for(pairs))

    mirrored = fail("mirrored")
    assert [each.reasons for each in mirrored.rules] == [{"matched": 1}, {"value_null": 1}]
    lost = {"name": f"{VALUE}2"}
    told_of = list(ask_for(mirrored, lost))
    assert told_of.pop()[1].row.reason == "deleted_at"
    check_against_why(mirrored, told_of)


def test_a_key_that_is_none(lake: Lab) -> None:
    for wrong in ("country=de", "country=de,number=s3cret"):
        with pytest.raises(enrich.ConfigError) as caught:
            ask(lake, "pairs", [wrong])
        assert VALUE not in str(caught.value)


@pytest.mark.usefixtures("terminal")
def test_the_command_line(call: Call) -> None:
    """It says the same, and shows keys only to a terminal."""
    shown = call("why", "shelf", "p4", "merchant", "--show-keys")
    assert (shown.exit_code, shown.stdout) == (0, "near_miss: case; in merchants; key 'm1'\n")
    as_json = call("why", "pairs", "--key", "country=a,number=8", "--key", "number=7", "--output", "json")
    assert json.loads(as_json.stdout)["row"] == {"reason": "no_such_key", "source": "stock"}
    assert VALUE not in shown.output + as_json.output
    for args in (("why", "nope", "p1"), ("why", "shelf", "p1", "nope"), ("why", "shelf"), ("doctor", "keys", "nope")):
        assert call(*args).exit_code == 2
    assert call("why", "shelf", "p1", "--show-keys", "--output", "json").exit_code == 2


def test_doctor_looks_at_all_keys_at_once(lake: Lab, call: Call) -> None:
    project = enrich.load_project(lake.home)
    report = enrich.doctor_keys(project, "shelf", spark=lake.spark, show_keys=True)
    joins = {each.pop("join"): each for each in report.to_dict()["joins"]}
    assert joins["merchants"] == {
        "kind": "foreign_key",
        "references": 9,
        "unmatched": 3,
        "near_misses": {"case": 1},
        "suggestion": {
            "normalise": ["lower"],
            "heals": 1,
            "lines": {"merchants": "merchants: {table: merchants, key: id, normalise: [lower]}"},
        },
    }
    assert joins["tags"]["near_misses"] == {"invisible": 1}
    assert joins["countries"]["near_misses"] == {}
    text = format_keys(report)
    assert "  invisible: '\\u200bt1' nearly matches 't1'\n" in text
    assert "      tags: {table: tags, key: id, normalise: [visible]}" in text
    pairs = call("doctor", "keys", "pairs", "--join", "stock", "--output", "json")
    assert pairs.exit_code == 0
    ((join,),) = [json.loads(pairs.stdout)["joins"]]
    assert join["suggestion"]["lines"] == {
        "prices": "prices: {table: prices, key: [country, number], normalise: [lower]}",
        "stock": "stock: {table: stock, key: [country, number], normalise: [lower]}",
    }
    assert VALUE not in pairs.stdout
    assert call("doctor", "keys", "mirrored").exit_code == 0
    assert call("doctor", "keys", "shelf", "--join", "nope").exit_code == 2
