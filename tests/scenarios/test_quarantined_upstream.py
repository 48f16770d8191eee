"""Rows that are missing because a job upstream holds them: `why`, `failing` and `run` say so, and which job it is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import enrich
from enrich.testing.play import find_all_reasons
from kit.lab import Lab, Prepared
from kit.project import AFTER, CLEAN, hold_nulls

TEXT, AT = pa.string(), pa.timestamp("us", tz="UTC")
COPIED = "job: copied\nsources: {c: {table: clean, key: id}}\nfrom: c\ntarget: {table: copied}\n"
ORDERS = """\
job: orders
sources: {o: {table: bought, key: id}, p: {table: copied, key: id}, f: {table: copied, key: id}}
from: o
join: {p: {kind: foreign_key, on: o.person}, f: {kind: list, elements: o.friends}}
select: {id: o.id, mail: p.mail, friends: f}
expectations: named
target: {table: orders}
"""
RATES = """\
job: rates
sources: {r: {table: given, key: [id, since]}}
from: r
expectations: rates
target: {table: rates}
"""
PRICED = """\
job: priced
sources: {o: {table: bought, key: id}, r: {table: rates, key: [id, since]}}
from: o
join: {r: {kind: as_of, on: o.person, at: o.at, valid_from: since}}
select: {id: o.id, rate: r.rate}
target: {table: priced}
"""


def moment(day: int) -> Any:
    return pa.scalar(day * 86_400_000_000, AT).as_py()


def open_orders(lab: Lab) -> None:
    """Write people of whom one has no address, orders of three persons, and jobs that read one another's targets."""
    lab.table("people", "id", {"id": TEXT, "mail": TEXT}, [{"id": "a", "mail": "a@b"}, {"id": "b", "mail": None}])
    bought = [
        {"id": "1", "person": "a", "friends": ["a", "b"], "at": moment(5)},
        {"id": "2", "person": "b", "friends": ["a"], "at": moment(5)},
        {"id": "3", "person": "zz", "friends": None, "at": moment(5)},
    ]
    kinds = {"id": TEXT, "person": TEXT, "friends": pa.list_(TEXT), "at": AT}
    lab.table("bought", "id", kinds, bought)
    given = [{"id": key, "since": moment(1), "rate": rate} for key, rate in (("a", "x"), ("b", None))]
    lab.table("given", "id", {"id": TEXT, "since": AT, "rate": TEXT}, given)
    lab.suite("clean", hold_nulls("mail"))
    lab.suite("rates", hold_nulls("rate"))
    lab.suite("named", {**hold_nulls("mail"), "meta": {"enrich": {"action": "warn"}}})
    for each in (CLEAN, COPIED, ORDERS, AFTER, RATES, PRICED):
        lab.job(each)


def test_what_is_quarantined_upstream_is_told(prepared: Prepared) -> None:
    held = prepared("quarantined_upstream", open_orders)
    result = held.run_all()
    assert result.exit_code == 0
    found = {job.job: job.quarantined_upstream for job in result.jobs}
    assert found == {
        "clean": {},
        "copied": {"clean": 1},
        "orders": {"clean": 1},
        "after": {"clean": 1},
        "rates": {},
        "priced": {"rates": 1},
    }

    project = enrich.load_project(held.home)

    def tell(reason: Any) -> tuple[str, str | None]:
        return reason.reason, reason.job

    upstream = ("quarantined_upstream", "clean")
    copied = enrich.why(project, "copied", "b", "mail", spark=held.spark)
    assert tell(copied.row) == upstream, "its driving row is held"
    every = find_all_reasons(project, "orders", held.spark)
    assert tell(every["2",]["p"]) == upstream, "two jobs further"
    first = every["1",]["f"]
    assert (tell(first), first.elements) == (upstream, {"matched": 1, "quarantined_upstream": 1})
    assert tell(every["3",]["p"]) == ("no_such_key", None)
    priced = find_all_reasons(project, "priced", held.spark)
    assert tell(priced["2",]["r"]) == ("quarantined_upstream", "rates"), "no version is left"

    # Of a null that is copied, test_why_across_jobs.py asks.
    (rule,) = enrich.failing(project, "orders", spark=held.spark).rules
    assert rule.reasons == {"quarantined_upstream": 1, "no_such_key": 1}
    assert {each.reason.job for each in rule.causes} == {"clean", None}

    # Once the row is healed, nothing is held.
    held.put("people", {"id": "b", "mail": "b@b"})
    assert not any(job.quarantined_upstream for job in held.run_all("clean", "copied").jobs)
