"""The built-in rules of a job: what they count, what they block, and how a wanted change is let through."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import enrich
from enrich.base.errors import ConfigError
from enrich.base.result import JobResult
from kit.lab import Lab

JOB = """\
job: wide
sources:
  orders: {table: orders, key: id}
  sellers: {table: sellers, key: id}
  articles: {table: articles, key: id}
from: orders
join:
  sellers: {kind: foreign_key, on: orders.seller}
  articles: {kind: list, elements: orders.items}
select:
  id: orders.id
  seller: sellers.name
  items: articles
target: {table: wide}
rules:
  - {rule: match_rate, join: sellers, at_least: 0.5, action: fail}
  - {rule: null_foreign_keys, join: sellers, at_most: 0.1}
  - {rule: new_orphans, join: sellers, at_most: 0}
  - {rule: new_orphans, join: articles, at_most: 1}
  - {rule: mass_change, at_most: 0.5}
"""


def verdicts(result: JobResult) -> list[tuple[str, int, int, bool | None]]:
    """Return the findings as (rule, checked, failed, success)."""
    return [(each.expectation, each.checked, each.failed, each.success) for each in result.findings]


def order(number: int, seller: str | None, *items: str) -> dict[str, Any]:
    return {"id": number, "seller": seller, "items": list(items)}


@pytest.fixture
def orders(lab: Lab) -> Lab:
    """Ten orders: eight with their seller, one without any, one whose seller is not there."""
    sellers = ["a", "a", "b", "b", "c", "c", "c", "c", None, "x"]
    lab.table(
        "orders",
        "id",
        {"id": pa.int64(), "seller": pa.string(), "items": pa.list_(pa.string())},
        [order(number, seller, "i1", f"i{number % 3}") for number, seller in enumerate(sellers)],
    )
    lab.table(
        "sellers",
        "id",
        {"id": pa.string(), "name": pa.string()},
        [{"id": each, "name": each.upper()} for each in "abc"],
    )
    lab.table(
        "articles", "id", {"id": pa.string(), "title": pa.string()}, [{"id": f"i{i}", "title": "t"} for i in range(3)]
    )
    lab.job(JOB)
    return lab


def test_rules_count_what_a_run_judges_and_block_what_looks_like_an_accident(orders: Lab) -> None:
    first = orders.run()
    assert (first.status, first.exit_code) == ("created", 0), first.error
    assert verdicts(first) == [
        ("match_rate", 9, 1, True),
        ("null_foreign_keys", 10, 1, True),
        ("new_orphans", 9, 1, False),  # at a first run every orphan is new
        ("new_orphans", 10, 0, True),
        ("mass_change", 0, 0, None),
    ]

    # Nothing to judge: no verdict, which is no pass.
    assert verdicts(orders.run()) == [
        (name, 0, 0, None) for name in ("match_rate", "null_foreign_keys", "new_orphans", "new_orphans", "mass_change")
    ]

    # One orphan stays one, two orders lose their seller, and three orders lose an article.
    orders.put("orders", order(9, "x", "i1"), order(4, "c", "i2"), order(5, "c"), order(6, "c", "i1"))
    orders.drop("sellers", "id = 'a'")
    orders.drop("articles", "id = 'i0'")
    second = orders.run()
    assert second.status == "updated", second.error
    # Orders 0 and 1 (seller a), 3 (item i0) and those that were put; of 0, 3, 6, 9 two have given i0 up.
    assert verdicts(second) == [
        ("match_rate", 7, 3, True),
        ("null_foreign_keys", 7, 0, True),
        ("new_orphans", 7, 2, False),
        ("new_orphans", 6, 2, False),
        ("mass_change", 10, 3, True),  # the sellers of 0 and 1, and an article of 3 (and of 0)
    ]
    before = orders.rows("wide")

    # A source that somebody has emptied.
    orders.drop("sellers", "true")
    blocked = orders.run()
    assert (blocked.status, blocked.exit_code, blocked.counts.updated) == ("blocked", 3, 0)
    assert "match_rate (sellers): 6 of 6 rows" in str(blocked.error)
    assert "`enrich run wide --accept match_rate --accept mass_change`" in str(blocked.error)
    assert [each.success for each in blocked.findings] == [False, True, False, True, False]
    again = orders.run(accept=["match_rate"])
    assert (again.status, again.exit_code) == ("blocked", 3)
    assert (again.findings[0].action, again.findings[0].accepted) == ("warn", True)
    assert verdicts(again)[-1] == ("mass_change", 10, 6, False)
    assert "mass_change: 6 of 10 rows" in str(again.error)
    assert orders.rows("wide") == before
    DeltaTable(orders.path("sellers")).restore(2)

    # The driving source emptied: no row is judged, and yet all would go.
    orders.drop("orders", "true")
    emptied = orders.run()
    assert (emptied.status, verdicts(emptied)[0], verdicts(emptied)[-1]) == (
        "blocked",
        ("match_rate", 0, 0, None),
        ("mass_change", 10, 10, False),
    )
    assert orders.rows("wide") == before
    assert not orders.exists("wide__quarantine")
    wanted = orders.run(accept=["mass_change"])
    assert (wanted.status, wanted.exit_code, wanted.counts.deleted) == ("updated", 0, 10)
    assert wanted.to_dict()["findings"][-1]["accepted"] is True
    assert orders.rows("wide") == []


def test_what_nobody_declared_cannot_be_accepted(orders: Lab) -> None:
    project = enrich.load_project(orders.home)
    with pytest.raises(ConfigError, match=r"'mass_chance'.*it can be mass_change, match_rate"):
        enrich.run(project, accept=["mass_chance"], spark=orders.spark)
    with pytest.raises(ConfigError, match="'new_orphans'"):
        enrich.run(project, accept=["new_orphans"], spark=orders.spark)  # it only warns


def test_a_full_refresh_of_another_definition_is_guarded_too(consents: Lab) -> None:
    job = consents.home / "jobs" / "customers.yml"
    job.write_text(job.read_text() + "rules: [{rule: mass_change, at_most: 1}]\n")
    assert consents.run().status == "created"
    # A rule is no part of the definition; a condition is.
    job.write_text(job.read_text().replace("at_most: 1", "at_most: 0.4"))
    assert consents.run().status == "unchanged"
    job.write_text(job.read_text().replace("target:", "where: accounts.email = 'nobody'\ntarget:"))
    blocked = consents.run(full_refresh=True)
    assert (blocked.status, verdicts(blocked)) == ("blocked", [("mass_change", 3, 3, False)])
    assert len(consents.rows("customers")) == 3
    # Rows of another type cannot be compared with the old ones: only how many there are is known.
    job.write_text(job.read_text().replace("  ok: consents.ok", "  ok: cast(consents.ok as string)"))
    blocked = consents.run(full_refresh=True)
    assert (blocked.status, verdicts(blocked)) == ("blocked", [("mass_change", 3, 3, False)])
    job.write_text(job.read_text().replace("where: accounts.email = 'nobody'\n", ""))
    refreshed = consents.run(full_refresh=True)
    assert (refreshed.status, verdicts(refreshed)) == ("updated", [("mass_change", 3, 0, True)])


def test_conflicting_values_of_a_mirror(lab: Lab) -> None:
    lab.table(
        "master",
        "k",
        {"k": pa.string(), "v": pa.string()},
        [{"k": "a", "v": "1"}, {"k": "b", "v": "1"}, {"k": "c", "v": "2"}, {"k": "d", "v": "3"}],
    )
    lab.job(
        "job: mirror\nkind: mirror\nsources:\n  m: {table: master, key: k}\nfrom: m\n"
        "mirror: {value: v, conflict: first}\ntarget: {table: mirror}\n"
        "rules:\n  - {rule: value_conflicts, at_most: 1}\n  - {rule: value_conflicts, at_most: 0.5, action: fail}\n"
        "  - {rule: mass_change, at_most: 1}\n"
    )
    first = lab.run()
    assert (first.status, first.lookups) == ("created", {})
    assert verdicts(first)[:2] == [("value_conflicts", 3, 1, True), ("value_conflicts", 3, 1, True)]
    lab.put("master", {"k": "e", "v": "3"})
    second = lab.run()
    assert (second.status, verdicts(second)[:2]) == (
        "blocked",
        [("value_conflicts", 1, 1, True), ("value_conflicts", 1, 1, False)],
    )
    lab.drop("master", "k <> 'e'")
    third = lab.run()
    assert (third.status, verdicts(third)[2]) == ("blocked", ("mass_change", 3, 2, False))
    assert [row["v"] for row in lab.rows("mirror")] == ["1", "2", "3"]
