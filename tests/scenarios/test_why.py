"""Every reason code, each from a history that leads to it; and what `doctor keys` makes of the same lake."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import enrich
from enrich.testing.play import find_all_reasons
from kit.command import Call
from kit.project import hold_nulls
from scenarios.references import SHELF, VALUE

if TYPE_CHECKING:
    from kit.lab import Lab

Why = Callable[..., dict[str, Any]]


@pytest.mark.usefixtures("terminal")
def test_every_reason(lake: Lab, call: Call) -> None:
    project = enrich.load_project(lake.home)

    def why(job: str, key: Any, column: str | None = None) -> dict[str, Any]:
        return enrich.why(project, job, key, column, spark=lake.spark).to_dict()

    # Before the first run nothing is known, and nothing is started to find that out.
    assert why("wide", "p1", "merchant")["columns"] == {"merchant": {"reason": "not_yet_run"}}
    assert why("wide", "p1")["in_target"] is False

    assert lake.run_all().exit_code == 0
    lake.append("merchants", {"id": "m3", "name": f"{VALUE}3", "country": "de"})
    lake.append("merchants", {"id": "m5", "name": "other", "country": "de"})
    lake.append("products", {"id": "p11", "title": "x", "merchant": "m1", "tags": None, "price": 1})

    check_all_rows(project, lake)
    check_one_key(why)
    check_other_jobs(why)
    check_command_line(call)
    check_doctor(call)


@pytest.mark.usefixtures("terminal")
def test_rows_that_only_the_right_side_has(lake: Lab, call: Call) -> None:
    """They are asked for by the lookup's key, under the names of the target's columns."""
    lake.job(SHELF)
    warn = {**hold_nulls("country"), "meta": {"enrich": {"action": "warn"}}}
    lake.suite("shelf", warn, hold_nulls("name"))
    rows = {"m6": ("other", "de"), "m7": (None, "de"), "m8": ("other", "xx"), "m9": ("hidden", "de")}
    lake.append("merchants", *[{"id": key, "name": name, "country": code} for key, (name, code) in rows.items()])
    assert lake.run("shelf").exit_code == 0
    lake.append("merchants", {"id": "m10", "name": "late", "country": "de"})
    project = enrich.load_project(lake.home)

    def why(key: str) -> dict[str, Any]:
        return enrich.why(project, "shelf", {"MERCHANT_ID": key}, spark=lake.spark).to_dict()

    matched, nothing = {"reason": "matched"}, {"reason": "foreign_key_null", "elements": {"foreign_key_null": 1}}
    lone = why("m6")
    assert lone["in_target"]
    assert lone["lookups"] == {
        "products": {"reason": "no_such_key"},
        "merchants": matched,
        "countries": matched,
        "tags": nothing,
    }
    assert lone["columns"] == {
        "id": {"reason": "no_such_key", "source": "products"},
        "merchant_id": matched,
        "name": matched,
        "country": matched,
        "tags": {**nothing, "source": "tags"},
    }
    assert why("m8")["columns"]["country"] == {"reason": "no_such_key", "source": "countries"}
    assert why("m7")["row"] == {"reason": "quarantined", "rules": ["expect_column_values_to_not_be_null:name"]}
    assert why("m9")["row"] == {"reason": "filtered_by_where"}
    assert why("m2")["row"].items() >= {"reason": "deleted_at", "version": 3, "source": "merchants"}.items()
    assert why("m10")["row"].items() >= {"reason": "arrived_after_window", "source": "merchants"}.items()
    assert why("M6")["row"] == {"reason": "near_miss", "kind": "case", "source": "merchants"}
    assert why("mX")["row"] == {"reason": "no_such_key", "source": "merchants"}
    with pytest.raises(enrich.ConfigError, match="no lookup-only row of 'merchants' with this key") as caught:
        why("m1")
    assert caught.value.hint == "ask for the driving row, by its id"
    assert enrich.why(project, "shelf", "p1", spark=lake.spark).in_target
    shown = call("why", "shelf", "--key", "merchant_id=m6", "id")
    assert (shown.exit_code, shown.stdout) == (0, "no_such_key: in products\n")


def check_all_rows(project: enrich.Project, lake: Lab) -> None:
    every = {key[0]: told for key, told in find_all_reasons(project, "wide", lake.spark).items()}
    assert sorted(every) == ["p1", "p2", "p3", "p4", "p5", "p6", "p9"]
    merchants = {key: told["merchants"].to_dict() for key, told in every.items()}
    arrived = merchants["p6"].pop("at")
    deleted = merchants["p5"].pop("at")
    assert deleted <= arrived
    assert merchants == {
        "p1": {"reason": "matched"},
        "p2": {"reason": "foreign_key_null"},
        "p3": {"reason": "no_such_key"},
        "p4": {"reason": "near_miss", "kind": "case"},
        "p5": {"reason": "deleted_at", "version": 3},
        "p6": {"reason": "arrived_after_window", "version": 4},
        "p9": {"reason": "matched"},
    }
    assert {told["products"].reason for told in every.values()} == {"matched"}
    assert "tags" not in every["p2"]  # empty: nothing to miss
    assert every["p1"]["tags"].to_dict() == {"reason": "matched", "elements": {"matched": 1}}
    assert every["p9"]["tags"].elements == {"matched": 2}
    assert every["p3"]["tags"].reason == "foreign_key_null"
    told = every["p4"]["tags"].to_dict()
    assert (told["reason"], told["version"]) == ("deleted_at", 3)
    assert told["elements"] == dict.fromkeys(
        ["matched", "deleted_at", "no_such_key", "near_miss", "foreign_key_null"], 1
    )


def check_one_key(why: Why) -> None:
    """The row, its cells, and what keeps a row out."""
    found = why("wide", "p9")
    assert found["row"] == {"reason": "matched"}
    assert found["lookups"]["countries"] == {"reason": "no_such_key"}
    assert found["columns"] == {
        "id": {"reason": "matched"},
        "title": {"reason": "matched"},
        "merchant": {"reason": "value_null_in_lookup", "source": "merchants"},
        "country": {"reason": "no_such_key", "source": "countries"},
        "tags": {"reason": "matched"},
    }
    assert why("wide", "p7", "title")["columns"] == {"title": {"reason": "filtered_by_where"}}
    rule = "expect_column_values_to_not_be_null:title"
    assert why("wide", "p8")["row"] == {"reason": "quarantined", "rules": [rule]}
    row = why("wide", "p0")["row"]
    assert (row["reason"], row["version"], row["source"]) == ("deleted_at", 2, "products")
    near = {"reason": "near_miss", "kind": "combination"}
    found = why("wide", "P1 ")
    assert found["row"] == {**near, "source": "products"}
    # Nothing refers to the lookups of a row that is not there.
    assert found["lookups"] == {
        "products": near,
        **{each: {**near, "source": "products"} for each in ("merchants", "countries", "tags")},
    }


def check_other_jobs(why: Why) -> None:
    """Composite keys, keys that are no text, an inner join; a mirror's key is its value.

    Of rows that are there, test_failing.py asks.
    """
    missing = why("pairs", ["country=a,number=8", "number=7"])
    assert missing["row"] == {"reason": "no_such_key", "source": "stock"}
    for wrong in ("country=de", "country=de,number=s3cret"):
        with pytest.raises(enrich.ConfigError) as caught:
            why("pairs", wrong)
        assert VALUE not in str(caught.value)
    assert why("mirrored", f"{VALUE}2")["row"]["reason"] == "deleted_at"


def check_command_line(call: Call) -> None:
    """It says the same, and shows keys only to a terminal."""
    shown = call("why", "wide", "p4", "merchant", "--show-keys")
    assert (shown.exit_code, shown.stdout) == (0, "near_miss: case; in merchants; key 'm1'\n")
    as_json = call("why", "wide", "p4", "--output", "json")
    assert json.loads(as_json.stdout)["columns"]["merchant"] == {
        "reason": "near_miss",
        "kind": "case",
        "source": "merchants",
    }
    assert "m1" not in as_json.stdout
    assert VALUE not in shown.output + as_json.output
    for args in (("why", "nope", "p1"), ("why", "wide", "p1", "nope"), ("why", "wide"), ("doctor", "keys", "nope")):
        assert call(*args).exit_code == 2
    assert call("why", "wide", "p1", "--show-keys", "--output", "json").exit_code == 2


def check_doctor(call: Call) -> None:
    """All keys at once."""
    report = call("doctor", "keys", "wide", "--output", "json")
    assert report.exit_code == 0
    joins = {each.pop("join"): each for each in json.loads(report.stdout)["joins"]}
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
    text = call("doctor", "keys", "wide", "--join", "tags", "--show-keys").stdout
    assert "  invisible: '\\u200bt1' nearly matches 't1'\n" in text
    assert "      tags: {table: tags, key: id, normalise: [visible]}" in text
    pairs = call("doctor", "keys", "pairs").stdout
    assert "      prices: {table: prices, key: [country, number], normalise: [lower]}" in pairs
    assert "      stock: {table: stock, key: [country, number], normalise: [lower]}" in pairs
    assert call("doctor", "keys", "mirrored").exit_code == 0
    assert call("doctor", "keys", "wide", "--join", "nope").exit_code == 2
