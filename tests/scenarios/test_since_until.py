"""``--since``, ``--until`` and gaps on real tables: what a run takes, and that its target is the query it records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import enrich
from kit.lab import Lab

SOURCES = ("consents", "accounts")


def account(key: str, email: str) -> dict[str, Any]:
    return {"id": key, "email": email, "note": "n"}


def recorded(lab: Lab, target: str = "customers") -> dict[str, Any]:
    """The latest cursor in a target's log."""
    found = enrich.progress.cursor.read_record(lab.log(target)[0], target)
    assert found is not None
    return found


def rows_at(lab: Lab, table: str, version: int) -> dict[str, dict[str, Any]]:
    query = QueryBuilder().register("t", DeltaTable(lab.path(table), version=version)).execute("SELECT * FROM t")
    return {row["id"]: row for row in pa.table(query.read_all()).to_pylist()}


def full_join(lab: Lab, versions: dict[str, int]) -> list[dict[str, Any]]:
    """The job's query in plain Python."""
    consents, accounts = (rows_at(lab, name, versions[name]) for name in SOURCES)
    return [
        {"email": accounts.get(key, {}).get("email"), "id": key, "ok": consents.get(key, {}).get("ok")}
        for key in sorted({*consents, *accounts})
    ]


def assert_promise(lab: Lab) -> None:
    """The target is the query over the versions that its last commit records."""
    versions = {alias: mark["to"] for alias, mark in recorded(lab)["sources"].items()}
    assert sorted(lab.rows("customers"), key=lambda row: row["id"]) == full_join(lab, versions)


def at(lab: Lab, table: str, version: int) -> str:
    """A text for the instant of a commit."""
    times = {entry["version"]: entry["timestamp"] for entry in lab.log(table)}
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=times[version])).isoformat()


@pytest.fixture
def history(joined: Lab) -> Lab:
    """A target at consents 1, accounts 1, and four commits more on each: one change back and forth, one delete."""
    joined.put("accounts", account("u3", "3@example.com"))  # 2
    joined.put("accounts", account("u3", "three@example.com"))  # 3
    joined.put("accounts", account("u3", "3@example.com"), account("u9", "9@example.com"))  # 4
    joined.drop("accounts", "id = 'u1'")  # 5
    joined.put("consents", {"id": "u1", "ok": False})  # 2
    joined.drop("consents", "id = 'u2'")  # 3
    return joined


def test_until_then_catch_up_then_replay_and_widen(history: Lab) -> None:
    lab = history
    first = lab.run(until="accounts=v3")
    assert (first.mode, first.sources["accounts"].to, first.sources["consents"].to) == ("incremental", 3, 3)
    assert_promise(lab)

    below = lab.run(until="accounts=v2,consents=v0")
    assert (below.status, below.sources["accounts"].to, below.sources["consents"].to) == ("unchanged", 3, 3)

    # An empty interval, as Airflow 3 gives for cron schedules, says how far to go and skips nothing.
    point = at(lab, "accounts", 4)
    interval = lab.run(since=point, until=point)
    assert (interval.exit_code, interval.mode, interval.sources["accounts"].to) == (0, "replay", 4)
    assert_promise(lab)
    again = lab.run(since=point, until=point)
    assert (again.status, again.target_version) == ("unchanged", interval.target_version)

    last = lab.run()
    assert (last.status, last.sources["accounts"].to) == ("updated", 5)
    assert_promise(lab)

    # A replay recomputes what any commit of the window changed, also what a later one took back, and finds it right.
    version = last.target_version
    replay = lab.run(since="accounts=v1", until="accounts=v4,consents=v3")
    window = replay.sources["accounts"]
    assert (replay.mode, replay.status, replay.exit_code) == ("replay", "unchanged", 0)
    assert (window.start, window.to, window.changes, replay.counts.affected_keys) == (1, 5, 2, 2)
    assert replay.target_version == version
    assert_promise(lab)

    # Beside later changes it widens the window, and brings no findings of its own.
    assert lab.run(since="consents=v3,accounts=v5").status == "unchanged"
    lab.put("consents", {"id": "u9", "ok": True})  # 4
    wide = lab.run(since="consents=v3,accounts=v1")
    assert (wide.status, wide.mode, wide.counts.updated) == ("updated", "incremental", 1)
    assert (wide.sources["accounts"].start, wide.sources["accounts"].to) == (1, 5)
    assert (wide.counts.affected_keys, wide.findings) == (3, ())
    assert {alias: mark["from"] for alias, mark in recorded(lab)["sources"].items()} == {"consents": 3, "accounts": 5}
    assert_promise(lab)


def test_since_beyond_the_cursor_needs_allow_gap_and_leaves_a_mark(
    history: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    lab = history
    before = lab.log("customers")
    refused = lab.run(since="accounts=v4")
    assert (refused.status, refused.exit_code) == ("failed", 2)
    assert "versions 2 to 4 are not in the target yet" in str(refused.error)
    assert "--allow-gap" in str(refused.error)
    assert lab.log("customers") == before

    skipped = lab.run(since="accounts=v4", allow_gap=True)
    assert (skipped.status, skipped.sources["accounts"].to_dict()["gap"]) == ("updated", [1, 4])
    assert any("versions 2 to 4 of source accounts are left out" in record.getMessage() for record in caplog.records)
    assert recorded(lab)["sources"]["accounts"]["gaps"] == [[1, 4]]
    lab.put("accounts", account("u4", "4@example.com"))
    lab.run()
    assert recorded(lab)["sources"]["accounts"]["gaps"] == [[1, 4]]
    with pytest.raises(AssertionError):
        assert_promise(lab)

    lab.run(full_refresh=True)
    assert "gaps" not in recorded(lab)["sources"]["accounts"]
    assert_promise(lab)


def test_a_gap_up_to_the_latest_version_is_recorded(history: Lab) -> None:
    lab = history
    skipped = lab.run(since="accounts=v5,consents=v3", allow_gap=True)
    assert (skipped.error, skipped.status, skipped.counts.affected_keys) == (None, "unchanged", 0)
    assert {alias: mark["gaps"] for alias, mark in recorded(lab)["sources"].items()} == {
        "consents": [[1, 3]],
        "accounts": [[1, 5]],
    }
    assert {alias: mark["to"] for alias, mark in recorded(lab)["sources"].items()} == {"consents": 3, "accounts": 5}


def test_until_holds_for_what_the_same_run_writes_but_not_at_a_first_run(consents: Lab) -> None:
    lab = consents
    lab.job(
        "job: copies\nsources:\n  customers: {table: customers, key: id}\nfrom: customers\ntarget: {table: copies}\n"
    )
    then = at(lab, "accounts", 1)
    first = lab.run_all(until=then)
    assert [(job.status, job.exit_code) for job in first.jobs] == [("created", 0), ("created", 0)]
    assert lab.rows("copies") == lab.rows("customers")

    lab.put("accounts", account("u3", "3@example.com"))
    now = at(lab, "accounts", 2)
    bounded = lab.run_all(until=now)
    assert [job.status for job in bounded.jobs] == ["updated", "unchanged"]
    assert [job.status for job in lab.run_all().jobs] == ["unchanged", "updated"]
    assert lab.rows("copies") == lab.rows("customers")


def test_tables_that_keep_in_commit_timestamps(history: Lab) -> None:
    """Delta's own time of a commit, in sources and target; the clock that the commit info also holds is told apart."""
    lab = history
    on = "ALTER TABLE delta.`{}` SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"
    for name in (*SOURCES, "customers"):
        lab.spark.sql(on.format(lab.path(name)))
    accounts = spark_table(lab, "accounts")  # delta-rs writes no such times
    accounts.update("id = 'u3'", {"email": "'third@example.com'"})
    accounts.update("id = 'u3'", {"email": "'drei@example.com'"})
    accounts.delete("id = 'u9'")
    own = DeltaTable(lab.path("accounts"))
    assert "inCommitTimestamp" in lab.log("accounts")[0]
    point = datetime.fromtimestamp(lab.log("accounts")[1]["inCommitTimestamp"] / 1000, UTC).isoformat()

    first = lab.run(until=point)
    assert (first.status, first.sources["accounts"].to) == ("updated", own.version() - 1)
    assert_promise(lab)
    last = lab.run(since=point)
    assert (last.status, last.sources["accounts"].to) == ("updated", own.version())
    assert_promise(lab)
    assert "inCommitTimestamp" in lab.log("customers")[0]
    assert lab.run().status == "unchanged"


def spark_table(lab: Lab, name: str) -> Any:
    """A table as Delta's own API has it."""
    from delta.tables import DeltaTable as SparkDeltaTable

    return SparkDeltaTable.forPath(lab.spark, lab.path(name))
