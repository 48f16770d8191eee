"""A quarantine that somebody tampered with, and a crash between its commit and the target's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from enrich import merge
from scenarios.lab import Lab

NO_EMAIL = "expect_column_values_to_not_be_null:email"


@pytest.fixture
def held(consents: Lab) -> Lab:
    """Customers without an e-mail wait in the quarantine: u3 at first."""
    consents.suite(
        "mails",
        {
            "type": "expect_column_values_to_not_be_null",
            "kwargs": {"column": "email"},
            "meta": {"enrich": {"action": "quarantine"}},
        },
    )
    job = consents.home / "jobs" / "customers.yml"
    job.write_text(job.read_text() + "expectations: mails\n")
    first = consents.run()
    assert (first.status, first.counts.inserted, first.counts.quarantined) == ("created", 2, 1), first.error
    return consents


def tables(lab: Lab) -> tuple[set[str], set[str]]:
    """Return the ids in the target and in the quarantine."""
    return {row["id"] for row in lab.rows("customers")}, {row["id"] for row in lab.rows("customers__quarantine")}


def test_rows_in_quarantine_are_tried_again_when_asked(held: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    # u3 heals, u2 is held; then somebody restores the quarantine to an older version: both tables hold u3 now.
    held.put("accounts", {"id": "u3", "email": "3@example.com", "note": "n"})
    assert held.run().counts.inserted == 1
    held.drop("accounts", "id = 'u2'")
    assert held.run().counts.quarantined == 1
    assert tables(held) == ({"u1", "u3"}, {"u2"})
    table = f"delta.`{held.path('customers__quarantine')}`"
    held.spark.sql(f"INSERT INTO {table} SELECT * FROM {table} VERSION AS OF 0")
    assert tables(held) == ({"u1", "u3"}, {"u2", "u3"})

    # No source has moved: a plain run sees nothing to do, and says what the quarantine holds.
    with monkeypatch.context() as patched:
        patched.setattr("enrich.session.borrowed_session", lambda _: pytest.fail("a session was opened"))
        idle = held.run()
    assert (idle.status, idle.to_dict()["quarantine"]) == ("unchanged", {"rows": 2, "reasons": {NO_EMAIL: 2}})
    assert held.run(retry_quarantined=True, dry_run=True).status == "updated"
    retried = held.run(retry_quarantined=True)
    assert (retried.status, retried.counts.affected_keys, retried.counts.quarantined) == ("updated", 2, 0)
    assert retried.to_dict()["quarantine"] == {"rows": 1, "reasons": {NO_EMAIL: 1}}
    assert tables(held) == ({"u1", "u3"}, {"u2"})

    # In vain, and together with a window; then with nothing held, without a session.
    version = held.log("customers")[0]["version"]
    in_vain = held.run(retry_quarantined=True)
    assert (in_vain.status, in_vain.findings[0].checked, in_vain.target_version) == ("unchanged", 1, version)
    assert held.log("customers")[0]["version"] == version, "no source moved, so there is nothing to record"
    held.put("accounts", {"id": "u2", "email": "2@example.com", "note": "n"})
    held.drop("consents", "id = 'u1'")
    both = held.run(retry_quarantined=True)
    assert (both.counts.inserted, both.counts.updated, both.counts.affected_keys) == (1, 1, 2)
    assert tables(held) == ({"u1", "u2", "u3"}, set())
    monkeypatch.setattr("enrich.session.borrowed_session", lambda _: pytest.fail("a session was opened"))
    assert held.run(retry_quarantined=True).status == "unchanged"


def test_a_crash_between_the_two_commits_converges(held: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    held.put("accounts", {"id": "u3", "email": "3@example.com", "note": "n"})
    held.drop("accounts", "id = 'u1'")
    whole, target = merge.merge, held.path("customers")

    def crashing(session: Any, uri: str, *rest: Any) -> None:
        if uri.rstrip("/").endswith("customers"):
            raise OSError("the disk is full")
        whole(session, uri, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(merge, "merge", crashing)
        crashed = held.run()
    assert (crashed.status, crashed.exit_code) == ("failed", 1)
    assert tables(held) == ({"u1", "u2"}, {"u1"}), "the quarantine was written, the target was not"

    # Before the next run the source goes back to what the target's cursor knows: u1 and u3 have not changed since.
    held.put("accounts", {"id": "u1", "email": "1@example.com", "note": "n"})
    held.drop("accounts", "id = 'u3'")
    healed = held.run()  # takes the quarantine back to what goes with the target
    assert (healed.sources["accounts"].changes, healed.counts.affected_keys) == (0, 0)
    assert tables(held) == ({"u1", "u2"}, {"u3"})

    # The same when the target is taken back and its quarantine is not.
    held.put("accounts", {"id": "u3", "email": "3@example.com", "note": "n"})
    assert held.run().counts.inserted == 1
    assert tables(held) == ({"u1", "u2", "u3"}, set())
    held.spark.sql(f"RESTORE TABLE delta.`{target}` TO VERSION AS OF 1")
    held.drop("accounts", "id = 'u3'")
    assert held.run().exit_code == 0
    assert tables(held) == ({"u1", "u2"}, {"u3"})
    assert held.run(full_refresh=True).status == "unchanged", "a recompute gives the same"


def test_lone_lookup_rows_and_values_of_a_mirror_are_tried_again_too(lab: Lab) -> None:
    lab.table("products", "id", {"id": pa.int64(), "merchant": pa.string()}, [{"id": 1, "merchant": "m1"}])
    lab.table(
        "merchants",
        "id",
        {"id": pa.string(), "code": pa.int64(), "name": pa.string()},
        [{"id": f"m{i}", "code": i, "name": "c" if i == 3 else None} for i in (1, 2, 3)],
    )
    lab.suite(
        "named",
        {
            "type": "expect_column_values_to_not_be_null",
            "kwargs": {"column": "name"},
            "meta": {"enrich": {"action": "quarantine"}},
        },
    )
    lab.job(
        "job: wide\nsources:\n  products: {table: products, key: id}\n  merchants: {table: merchants, key: id}\n"
        "from: products\njoin:\n  merchants: {kind: foreign_key, on: products.merchant, how: full}\n"
        "select: {id: products.id, merchant: merchants.id, name: merchants.name}\ntarget: {table: wide}\n"
        "expectations: named\n"
    )
    lab.job(
        "job: mirror\nkind: mirror\nsources:\n  merchants: {table: merchants, key: id}\nfrom: merchants\n"
        "mirror: {value: code, conflict: first, columns: [name]}\ntarget: {table: mirror}\nexpectations: named\n"
    )
    jobs = ("wide", "mirror")
    assert [each.quarantine.rows for each in lab.run_all().jobs if each.quarantine] == [2, 2]
    right = {job: lab.rows(f"{job}__quarantine") for job in jobs}
    assert {(row["id"], row["merchant"]) for row in right["wide"]} == {(1, "m1"), (None, "m2")}
    for job in jobs:
        lab.spark.sql(f"UPDATE delta.`{lab.path(f'{job}__quarantine')}` SET name = 'tampered'")
    retried = lab.run_all(retry_quarantined=True)
    found = {each.job: (each.status, each.counts.affected_keys) for each in retried.jobs}
    assert found == {"wide": ("updated", 3), "mirror": ("updated", 2)}  # product 1, and the merchants m1 and m2
    for job in jobs:
        found = [{**row, "_run_id": None} for row in lab.rows(f"{job}__quarantine")]
        assert found == [{**row, "_run_id": None} for row in right[job]]
