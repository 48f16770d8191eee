"""A quarantine that somebody tampered with, and a crash between its commit and the target's."""

from __future__ import annotations

import shutil
from typing import Any

import pyarrow as pa
import pytest

from enrich.delta import sink
from faults.stops import Crash, crash_on, hooked
from kit.lab import Lab, Prepared
from kit.project import hold_nulls
from scenarios.conftest import open_consents

WRITTEN = "CREATE TABLE AS SELECT"


def run_held(lab: Lab) -> None:
    """Hold customers without an e-mail, and run the job."""
    open_consents(lab)
    lab.suite("mails", hold_nulls("email"))
    job = lab.home / "jobs" / "customers.yml"
    job.write_text(job.read_text() + "expectations: mails\n")
    first = lab.run()
    assert (first.status, first.counts.inserted, first.counts.quarantined) == ("created", 2, 1), first.error


@pytest.fixture
def held(prepared: Prepared) -> Lab:
    """Customers without an e-mail wait in the quarantine: u3 at first."""
    return prepared("held", run_held)


def tables(lab: Lab) -> tuple[set[str], set[str]]:
    """Return the ids in the target and in the quarantine."""
    return {row["id"] for row in lab.rows("customers")}, {row["id"] for row in lab.rows("customers__quarantine")}


@pytest.mark.soak
def test_a_crash_between_the_two_commits_converges(held: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    held.put("accounts", {"id": "u3", "email": "3@example.com", "note": "n"})
    held.drop("accounts", "id = 'u1'")
    whole, target = sink.write_difference, held.path("customers")

    def crashing(session: Any, uri: str, *rest: Any) -> None:
        if uri.rstrip("/").endswith("customers"):
            raise OSError("the disk is full")
        whole(session, uri, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(sink, "write_difference", crashing)
        crashed = held.run()
    assert (crashed.status, crashed.exit_code) == ("failed", 1)
    assert tables(held) == ({"u1", "u2"}, {"u1"}), "the quarantine was written, the target was not"

    # Before the next run the source goes back to what the target's cursor knows: u1 and u3 have not changed since.
    held.put("accounts", {"id": "u1", "email": "1@example.com", "note": "n"})
    held.drop("accounts", "id = 'u3'")
    healed = held.run()  # takes again what the quarantine contains and the target does not
    assert (healed.mode, healed.sources["accounts"].changes, healed.counts.affected_keys) == ("incremental", 2, 2)
    assert tables(held) == ({"u1", "u2"}, {"u3"})
    assert [entry["operation"] for entry in held.log("customers__quarantine")] == ["MERGE", "MERGE", WRITTEN]

    # The same when the target is taken back and its quarantine is not.
    held.put("accounts", {"id": "u3", "email": "3@example.com", "note": "n"})
    assert held.run().counts.inserted == 1
    assert tables(held) == ({"u1", "u2", "u3"}, set())
    held.spark.sql(f"RESTORE TABLE delta.`{target}` TO VERSION AS OF 1")
    held.drop("accounts", "id = 'u3'")
    assert held.run().exit_code == 0
    assert tables(held) == ({"u1", "u2"}, {"u3"})
    assert held.run(full_refresh=True).status == "unchanged", "a recompute gives the same"


def crash(lab: Lab) -> None:
    """Run, and die between the quarantine's commit and the target's."""
    with pytest.raises(Crash), hooked(crash_on("quarantine.after")):
        lab.run()


@pytest.mark.parametrize("how", ["restore", pytest.param("crash", marks=pytest.mark.soak)])
def test_a_quarantine_that_was_dropped_is_not_taken_for_the_new_one_with_its_number(held: Lab, how: str) -> None:
    """The new one counts from 1 again, as the one did that the target's record, or an older one, names."""
    held.drop("accounts", "id = 'u1'")
    shutil.rmtree(held.path("customers__quarantine"))
    if how == "crash":
        crash(held)
    else:
        assert held.run().exit_code == 0
        held.spark.sql(f"RESTORE TABLE delta.`{held.path('customers')}` TO VERSION AS OF 0")
    assert tables(held) == ({"u1", "u2"}, {"u1", "u3"})
    held.put("accounts", {"id": "u1", "email": "1@example.com", "note": "n"})
    assert held.run().exit_code == 0
    assert tables(held) == ({"u1", "u2"}, {"u3"})
    assert held.run().status == "unchanged"


@pytest.mark.soak
def test_rows_without_key_that_a_dead_run_has_left_leave_the_quarantine(held: Lab) -> None:
    held.append("consents", {"id": None, "ok": True})
    crash(held)
    assert tables(held) == ({"u1", "u2"}, {"u3", None})
    held.drop("consents", "id IS NULL")
    assert held.run().exit_code == 0
    assert tables(held) == ({"u1", "u2"}, {"u3"})
    assert held.run().status == "unchanged"


@pytest.mark.soak
def test_lookup_rows_to_which_only_a_dead_run_saw_a_reference_come_back(lab: Lab) -> None:
    """Merchant m2 waits as a row of its own, is referred to for a moment, and nothing of that is in any window."""
    lab.table("products", "id", {"id": pa.int64(), "merchant": pa.string()}, [{"id": 1, "merchant": "m1"}])
    merchants: list[dict[str, object]] = [{"id": "m1", "name": "one"}, {"id": "m2", "name": None}]
    lab.table("merchants", "id", {"id": pa.string(), "name": pa.string()}, merchants)
    hold = {"enrich": {"action": "quarantine"}}
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}, "meta": hold}
    lab.suite("named", rule)
    lab.job(
        "job: wide\nsources:\n  products: {table: products, key: id}\n  merchants: {table: merchants, key: id}\n"
        "from: products\njoin:\n  merchants: {kind: foreign_key, on: products.merchant, how: full}\n"
        "select: {id: products.id, merchant: merchants.id, name: merchants.name}\ntarget: {table: wide}\n"
        "expectations: named\n"
    )
    lab.run()

    def waiting() -> list[tuple[int | None, str]]:
        return [(row["id"], row["merchant"]) for row in lab.rows("wide__quarantine")]

    assert waiting() == [(None, "m2")]
    lab.put("products", {"id": 1, "merchant": "m2"})
    crash(lab)
    assert waiting() == [(1, "m2")]
    lab.put("products", {"id": 1, "merchant": "m1"})
    assert lab.run().exit_code == 0
    assert waiting() == [(None, "m2")]
    assert [row["id"] for row in lab.rows("wide")] == [1]


def test_a_target_that_was_created_anew_beside_its_quarantine_goes_with_it(held: Lab) -> None:
    held.put("accounts", {"id": "u2", "email": None, "note": "n"})
    crash(held)
    held.put("accounts", {"id": "u2", "email": "2@example.com", "note": "n"})
    shutil.rmtree(held.path("customers"))
    assert held.run().status == "created"
    assert tables(held) == ({"u1", "u2"}, {"u3"})
    assert held.run().status == "unchanged"


def test_rows_that_were_held_before_are_not_counted_again_when_the_rules_change(held: Lab) -> None:
    held.append("consents", {"id": None, "ok": True})
    assert held.run().counts.quarantined == 1
    held.suite("mails", hold_nulls("email"), hold_nulls("id"))
    again = held.run(full_refresh=True)
    assert (again.strategy, again.counts.quarantined, again.quarantine and again.quarantine.rows) == ("rewrite", 0, 2)
    held.suite("mails", hold_nulls("email"))
    held.drop("accounts", "id = 'u2'")
    again = held.run(full_refresh=True)
    assert (again.strategy, again.counts.quarantined, again.quarantine and again.quarantine.rows) == ("rewrite", 1, 3)
    assert tables(held) == ({"u1"}, {None, "u2", "u3"})


def test_mostly_leaves_the_tables_as_they_are_however_a_history_is_cut(lab: Lab) -> None:
    # One row of four is bad. Half of the rows may be: the bad one is held all the same, whatever came with it.
    lab.suite(
        "named",
        {
            "type": "expect_column_values_to_not_be_null",
            "kwargs": {"column": "name", "mostly": 0.5},
            "meta": {"enrich": {"action": "quarantine"}},
        },
    )
    lab.table("items", "id", {"id": pa.int64(), "name": pa.string()})
    for job in ("often", "once"):
        lab.job(
            f"job: {job}\nsources:\n  items: {{table: items, key: id}}\nfrom: items\n"
            f"select: {{id: items.id, name: items.name}}\ntarget: {{table: {job}}}\nexpectations: named\n"
        )
    lab.put("items", {"id": 2, "name": None})
    first = lab.run("often")
    lab.put("items", *({"id": number, "name": "n"} for number in (1, 3, 4)))
    verdicts = [each.findings[0].success for each in (first, lab.run("often"), lab.run("once"))]
    assert verdicts == [False, True, True]
    for job in ("often", "once"):
        held = lab.rows(f"{job}__quarantine") if lab.exists(f"{job}__quarantine") else []
        assert ([row["id"] for row in lab.rows(job)], [row["id"] for row in held]) == ([1, 3, 4], [2]), job
