"""`why` and `failing` follow what is missing through the jobs that write the sources, to the table that is to blame."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import enrich
from enrich.answers import reasons
from kit.lab import Lab, Prepared
from kit.project import AFTER, CLEAN, hold_nulls

TEXT = pa.string()
ORDERS = """\
job: orders
sources: {o: {table: bought, key: id}, p: {table: clean, key: id}}
from: o
join: {p: {kind: foreign_key, on: o.person}}
select: {id: o.id, mail: p.mail}
target: {table: orders}
"""


def open_orders(lab: Lab) -> None:
    """Write people of whom one has no address, orders of three persons, and jobs that read one another's targets."""
    lab.table("people", "id", {"id": TEXT, "mail": TEXT}, [{"id": "a", "mail": "a@b"}, {"id": "b", "mail": None}])
    bought = [{"id": str(number), "person": person} for number, person in enumerate(("a", "b", "b", "zz"), start=1)]
    lab.table("bought", "id", {"id": TEXT, "person": TEXT}, bought)
    lab.suite("clean", hold_nulls("mail"))
    lab.suite("named", {**hold_nulls("mail"), "meta": {"enrich": {"action": "warn"}}})
    for each in (CLEAN, ORDERS, AFTER):
        lab.job(each)


def tell(reason: Any) -> list[tuple[str, str | None, str, str | None]]:
    return [(each.job, each.column, each.reason.reason, each.table) for each in reason.upstream]


def test_the_chain_leads_to_the_source_that_is_the_reason(prepared: Prepared) -> None:
    held = prepared("why_across_jobs", open_orders)
    assert held.run_all().exit_code == 0
    project = enrich.load_project(held.home)

    found = enrich.why(project, "after", "2", "mail", spark=held.spark)
    to_people = [
        ("orders", "mail", "quarantined_upstream", "clean"),
        ("clean", None, "quarantined", None),
        ("clean", "mail", "value_null", "people"),
    ]
    assert tell(found.columns["mail"]) == to_people
    held_by = "quarantined by job clean: enrich report clean"
    assert reasons.format_answer(found, "mail").split("\n") == [
        "value_null: in o",
        f"  because job orders, column mail: quarantined_upstream: in p; {held_by}, table clean",
        "    because job clean, row: quarantined: expect_column_values_to_not_be_null:mail",
        "      because job clean, column mail: value_null: in p, table people",
    ]
    told = found.to_dict()["columns"]["mail"]["upstream"][-1]
    assert told == {
        "job": "clean",
        "column": "mail",
        "table": "people",
        "reason": {"reason": "value_null", "source": "p"},
    }

    (rule,) = enrich.failing(project, "after", spark=held.spark).rules
    assert rule.reasons == {"value_null": 3}
    assert {(each.rows, *tell(each.reason)) for each in rule.causes} == {
        (2, *to_people),
        (1, ("orders", "mail", "no_such_key", "clean"), ("clean", None, "no_such_key", "people")),
    }
    assert sorted(each["rows"] for each in rule.to_dict()["upstream"]) == [1, 2]
