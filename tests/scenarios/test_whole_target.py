"""When the state of a target is counted, carried, left out and put right."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

import enrich
from enrich.answers.verification import Discrepancy
from enrich.base.result import State
from enrich.progress.cursor import Cursor
from enrich.steps import state
from kit.lab import Lab, Prepared
from kit.project import SHOP

JOB = f"""{SHOP}expectations: shop
rules:
  - {{rule: match_rate, join: merchants, at_least: 0.6, scope: target, action: fail}}
  - {{rule: null_foreign_keys, join: merchants, at_most: 1, scope: target}}
"""
NOT_NULL = "expect_column_values_to_not_be_null"


def _rule(type_: str, action: str = "warn", scope: str = "changed", **kwargs: Any) -> dict[str, Any]:
    meta = {"enrich": {"action": action, "scope": scope}}
    return {"type": type_, "kwargs": kwargs, "severity": "warning", "meta": meta}


def _begin(lab: Lab) -> None:
    lab.table(
        "products",
        "id",
        {"id": pa.int64(), "title": pa.string(), "merchant_id": pa.int64()},
        [{"id": i, "title": None if i == 3 else f"p{i}", "merchant_id": i % 3 or None} for i in range(1, 9)],
    )
    lab.table(
        "merchants", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": 1, "name": "m1"}, {"id": 2, "name": None}]
    )
    lab.job(JOB)
    lab.suite("shop", _rule(NOT_NULL, "fail", "target", column="title", mostly=0.5), _rule(NOT_NULL, column="merchant"))
    assert lab.run().error is None


@pytest.fixture
def shop(prepared: Prepared) -> Lab:
    """Its directory has a blank and an umlaut in its name, which delta-rs writes in another way than Spark."""
    return prepared("ein Geschäft", _begin)


FIRST = {
    "rows": 8,
    "rules": [
        {"index": 0, "checked": 8, "failed": 1, "error": None},
        {"index": 1, "checked": 8, "failed": 5, "error": None},
    ],
    "lookups": {"merchants": {"rows": 8, "matched": 6, "null_references": 2}},
    "nulls": {"id": 0, "title": 1, "merchant": 5},
}


def _recorded(lab: Lab) -> Any:
    """Return what the target's last commit says."""
    texts = (entry.get("userMetadata") for entry in lab.log("shop"))
    return next(json.loads(text) for text in texts if text)


def test_rules_about_the_whole_target_are_judged_before_anything_is_written(shop: Lab) -> None:
    """One more row without a title is nothing for a run, and one too many for the table."""
    assert _recorded(shop)["state"] == FIRST
    shop.put("products", *[{"id": i, "title": None, "merchant_id": 1} for i in (4, 5, 6)])
    done = shop.run()
    (title, merchant, rate, nulls) = done.findings
    assert (title.checked, title.failed, title.success, title.scope, title.scanned) == (8, 4, True, "target", False)
    assert (merchant.checked, merchant.failed, merchant.scope) == (3, 0, "changed")
    assert (rate.checked, rate.failed, rate.success, rate.scope) == (7, 0, True, "target")
    assert (nulls.checked, nulls.failed, nulls.success) == (8, 1, True)
    assert done.state is not None
    before = done.state.to_dict()

    shop.put("products", {"id": 7, "title": None, "merchant_id": 9})
    blocked = shop.run()
    assert (blocked.status, blocked.findings[0].failed, blocked.findings[0].success) == ("blocked", 5, False)
    assert blocked.state is not None
    assert blocked.state.to_dict() == before
    shop.put("products", *[{"id": i, "title": "t", "merchant_id": 9} for i in (1, 2, 7, 8)])
    blocked = shop.run()
    assert (blocked.status, [each.success for each in blocked.findings]) == ("blocked", [True, False, False, True])
    assert (blocked.findings[2].checked, blocked.findings[2].failed) == (7, 4)

    shop.drop("products", "merchant_id = 9")
    shop.put("products", {"id": 4, "title": "t", "merchant_id": 1}, {"id": 5, "title": "t", "merchant_id": 1})
    assert shop.run().error is None
    shop.drop("products", "id = 4")
    shop.put("products", {"id": 3, "title": "t", "merchant_id": None})
    deleted = shop.run()
    assert (deleted.counts.deleted, deleted.findings[0].checked, deleted.findings[1].checked) == (1, 3, 1)


def test_a_state_that_is_not_there_is_counted_by_the_next_run(shop: Lab) -> None:
    """Also where no source has moved, in a commit without data; then a run has nothing to do again."""
    record = _recorded(shop)
    known = Cursor.from_dict(record)
    old = replace(known, number=known.number + 1, base=0, state=None)
    rows = pa.Table.from_pylist([], schema=shop.schema("shop"))
    properties = CommitProperties(
        custom_metadata={"userMetadata": old.to_json()}, app_transactions=[Transaction("enrich/shop", old.number)]
    )
    write_deltalake(shop.path("shop"), rows, mode="append", commit_properties=properties)
    assert "state" not in _recorded(shop)

    assert shop.run(dry_run=True).state is None
    files = len(DeltaTable(shop.path("shop")).file_uris())
    done = shop.run()
    assert (done.status, done.strategy, done.state and done.state.to_dict()) == ("unchanged", "cursor", FIRST)
    assert len(DeltaTable(shop.path("shop")).file_uris()) == files
    version = done.target_version
    again = shop.run()
    assert (again.target_version, again.stages, again.state) == (version, {}, done.state)


def test_a_rule_about_a_column_that_its_source_has_just_gained(shop: Lab) -> None:
    """No row has changed: the commit that moves the cursor adds the column, and counts its rule."""
    shop.job(
        "job: all\nsources: {merchants: {table: merchants, key: id}}\nfrom: merchants\n"
        "target: {table: all}\nexpectations: all\n"
    )
    shop.suite("all", _rule(NOT_NULL, column="name"))
    assert shop.run("all").status == "created"
    shop.spark.sql(f"ALTER TABLE delta.`{shop.path('merchants')}` ADD COLUMNS (size int)")
    shop.suite("all", _rule(NOT_NULL, column="name"), _rule(NOT_NULL, column="size"))
    done = shop.run("all")
    assert (done.status, done.strategy) == ("unchanged", "cursor")
    assert done.state is not None
    assert [(each.checked, each.failed, each.error) for each in done.state.rules] == [(2, 1, None), (2, 2, None)]
    assert done.state.nulls["size"] == 2


def test_a_rule_that_is_added_is_counted_once(shop: Lab) -> None:
    """A dry run says that it is not counted yet; a rule that raises is none of the gate's, unless it judges."""
    raising = _rule("expect_column_values_to_match_json_schema", column="title", json_schema={"type": "object"})
    shop.suite("shop", _rule(NOT_NULL, "warn", "target", column="id"), raising, _rule(NOT_NULL, column="merchant"))
    dry = shop.run(dry_run=True)
    assert dry.state is not None
    assert [each.checked for each in dry.state.rules] == [None, None, 8]
    done = shop.run()
    assert (done.status, done.exit_code) == ("unchanged", 0)
    assert done.state is not None
    first, broken, kept = done.state.rules
    assert (first.checked, first.failed) == (8, 0)
    assert (broken.checked, broken.failed, broken.error is not None) == (None, None, True)
    assert (kept.index, kept.checked, kept.failed) == (2, 8, 5)
    assert [each.checked for each in done.findings[:3]] == [0, 0, 0]
    shop.put("products", {"id": 4, "title": None, "merchant_id": 1})
    done = shop.run()
    assert done.exit_code == 0
    assert done.state is not None
    assert [(each.checked, each.error is not None) for each in done.state.rules] == [
        (8, False),
        (None, True),
        (8, False),
    ]


def test_verify_tells_a_wrong_state_and_repairs_it(shop: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    count = state.count_target

    def miscount(*args: Any) -> state.Counted:
        found, scanned = count(*args)
        return replace(found, rows=found.rows + 1), scanned

    with monkeypatch.context() as patch:
        patch.setattr(state, "count_target", miscount)
        shop.put("products", {"id": 1, "title": "new", "merchant_id": 1})
        assert shop.run().error is None
    project = enrich.load_project(shop.home)
    (check,) = enrich.verify(project, spark=shop.spark).jobs
    assert (check.status, check.exit_code, check.target) == ("different", 6, Discrepancy())
    found = check.to_dict()["state"]
    assert (found["equal"], found["recorded"]["rows"], found["counted"]["rows"]) == (False, 9, 8)
    assert "its recorded state" in str(check.error)
    (check,) = enrich.verify(project, repair=True, spark=shop.spark).jobs
    assert check.status == "repaired"
    assert State.from_dict(_recorded(shop)["state"]).rows == 8


def test_rules_see_columns_in_the_order_of_the_table(lab: Lab) -> None:
    """A column that a source gains is the last one of the table, wherever the job has it."""
    lab.table("products", "id", {"id": pa.int64(), "title": pa.string(), "merchant_id": pa.int64()})
    lab.table("merchants", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": 1, "name": "m1"}])
    lab.job(re.sub("select: .*\n", "", JOB))
    kind = "expect_table_columns_to_match_ordered_list"

    def see(names: list[str], **how: Any) -> list[bool | None]:
        rules = [_rule(kind, scope=scope, column_list=names) for scope in ("changed", "target")]
        lab.suite("shop", _rule(NOT_NULL, column="id"), *rules)
        lab.put("products", {"id": len(lab.log("products")), "title": "t", "merchant_id": 1})
        result = lab.run(**how)
        assert result.error is None
        assert lab.schema("shop").names == names
        return [each.success for each in result.findings if each.expectation == kind]

    first = ["id", "title", "merchant_id", "merchants_name"]
    assert see(first) == [True, True]
    DeltaTable(lab.path("products")).alter.add_columns([Field("note", PrimitiveType("string"))])
    gained = [*first, "note"]
    assert see(gained) == [True, True]
    assert see(gained) == [True, True]
    assert see(gained, full_refresh=True) == [True, True]
    lab.job(re.sub("select: .*\n", "where: products.id > 0\n", JOB))
    assert see([*first[:3], "note", "merchants_name"], full_refresh=True) == [True, True]  # the table is written anew
