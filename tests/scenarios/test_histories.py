"""``kind: history`` on real tables: versions of a source's rows, however its commits are cut into runs."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

import enrich
from differential.clocks import read_raw_times
from enrich.answers import question
from enrich.answers.inspection import read_status
from enrich.answers.verification import Discrepancy, VerifyResult
from enrich.cli.checks import format_verification
from enrich.delta import reads, tables
from enrich.progress import cursor
from kit.commits import date_commit, find_commit
from kit.lab import Lab, Prepared
from kit.project import hold_nulls

JOB = """job: versions
kind: history
sources: {s: {table: source, key: id}}
from: s
history: {columns: [mail]}
target: {table: versions}
"""
Told = list[tuple[Any, ...]]
AT = datetime(2026, 1, 1, tzinfo=UTC)


def row(key: str | None, mail: str | None, note: str = "n") -> dict[str, Any]:
    return {"id": key, "mail": mail, "note": note}


def write_past(lab: Lab) -> None:
    """Nine commits: u1 goes a -> b -> a, u2 goes and returns, u3 changes but for its note, u4 comes late."""
    lab.table("source", "id", {"id": pa.string(), "mail": pa.string(), "note": pa.string()})  # 0
    lab.put("source", row("u1", "a"), row("u2", "x"), row("u3", "p"))  # 1
    lab.put("source", row("u1", "b"))  # 2
    lab.put("source", row("u1", "a"))  # 3
    lab.drop("source", "id = 'u2'")  # 4
    lab.put("source", row("u3", "p", "other"))  # 5
    lab.put("source", row("u2", "x"), row("u4", None))  # 6
    lab.put("source", row("u4", "q"))  # 7
    DeltaTable(lab.path("source")).optimize.compact()  # 8
    lab.job(JOB)


PAST: Told = [
    ("u1", 1, 2, "a"),
    ("u1", 2, 3, "b"),
    ("u1", 3, None, "a"),
    ("u2", 1, 4, "x"),
    ("u2", 6, None, "x"),
    ("u3", 1, None, "p"),
    ("u4", 6, 7, None),
    ("u4", 7, None, "q"),
]


@pytest.fixture
def past(prepared: Prepared) -> Lab:
    """Give the commits and their job, which has not run yet."""
    return prepared("past", write_past)


def begin_past(lab: Lab) -> None:
    """Run the job over the first rows of the past."""
    write_past(lab)
    assert lab.run(until="v1").counts.inserted == 3


@pytest.fixture
def begun(prepared: Prepared) -> Lab:
    """Give the history as it was after the commit of the first rows; the rest of the past is there to be read."""
    return prepared("begun past", begin_past)


def told(lab: Lab, name: str = "versions", *columns: str) -> Told:
    """Return a history with the commits' versions in place of their times."""
    times = tables.read_commits(tables.open_log(lab.path("source")))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    versions: dict[Any, Any] = {epoch + timedelta(milliseconds=at): version for version, at in times.items()}
    versions |= {None: None, datetime(1, 1, 1, tzinfo=UTC): "beginning"}
    found = [
        (each["id"], versions[each["valid_from"]], versions[each["valid_to"]], *[each[c] for c in columns or ["mail"]])
        for each in lab.rows(name)
    ]
    return sorted(found, key=lambda each: (each[0] or "", str(each[1])))


def verify(lab: Lab, **how: Any) -> Any:
    """Verify the history."""
    (check,) = enrich.verify(enrich.load_project(lab.home), ["versions"], spark=lab.spark, **how).jobs
    return check


def lose_feed(lab: Lab, version: int) -> None:
    """Take away what the feed of a commit is read from, as VACUUM does."""
    found = tables.actions(lab.path("source"), version) or []
    for each in found:
        for kind in ("cdc", "add", "remove"):
            if kind in each:
                (Path(lab.path("source")) / each[kind]["path"]).unlink(missing_ok=True)


def test_a_history_is_the_source_of_another_job_of_the_same_run(past: Lab) -> None:
    """One window has the whole past, and a RESTORE of the source.

    A version begins in an hour, as a late clock said; when the log has forgotten why, later commits seem to come
    before, and no version is lost.
    """
    source = Path(past.path("source"))
    date_commit(source, 2, read_raw_times(source)[2] + 3_600_000)
    DeltaTable(source).restore(1)  # 9
    past.job(
        "job: open_versions\nsources: {v: {table: versions, key: [id, valid_from]}}\nfrom: v\n"
        "where: v.valid_to is null\ntarget: {table: open_versions}\n"
    )
    assert [each.status for each in past.run_all().jobs] == ["created", "created"]
    expected = [*PAST[:-1], ("u4", 7, 9, "q")]
    assert told(past) == expected
    assert told(past, "open_versions") == [each for each in expected if each[2] is None]

    before = {(each["id"], each["valid_from"]) for each in past.rows("versions")}
    DeltaTable(source).create_checkpoint()
    for version in range(8):
        find_commit(source, version).unlink()
    past.put("source", row("u1", "z"))  # 10
    planned = enrich.plan(enrich.load_project(past.home), spark=past.spark)
    assert json.dumps(planned.to_dict(), default=str)
    assert [(each.status, each.counts.inserted) for each in past.run_all().jobs] == [("updated", 1)] * 2
    after = {(each["id"], each["valid_from"]) for each in past.rows("versions")}
    assert before < after
    assert [each["mail"] for each in past.rows("open_versions") if each["id"] == "u1"] == ["z"]


@pytest.mark.soak
@pytest.mark.parametrize("cuts", [(1, 2, 3, 4, 5, 6, 7), (3, 5)], ids=["each commit", "three"])
def test_a_history_does_not_depend_on_the_cuts(past: Lab, cuts: tuple[int, ...]) -> None:
    for cut in cuts:
        past.run(until=f"v{cut}")
    found = past.run()
    assert told(past) == PAST
    assert found.error is None
    assert past.run().status == "unchanged"
    check = verify(past)
    assert (check.status, check.differences) == ("equal", [])


def test_what_is_erased_at_its_source_leaves_the_history_and_stays_away(past: Lab) -> None:
    past.job(JOB.replace("columns: [mail]", "columns: [mail], on_delete: erase"))
    past.run(until="v3")
    assert [each[:2] for each in told(past)] == [("u1", 1), ("u1", 2), ("u1", 3), ("u2", 1), ("u3", 1)]
    past.drop("source", "id = 'u1'")  # 9
    erased = past.run()
    assert (erased.counts.deleted, erased.counts.updated, erased.counts.inserted) == (4, 0, 3)
    expected = [each for each in PAST if each[0] != "u1" and each[:2] != ("u2", 1)]
    assert told(past) == expected, "u2 was deleted, and has begun anew"
    assert [each == "matched" for each in explain(past, "u1", "u2")] == [False, True]

    # Nothing brings them back: neither a target that was restored, nor a replay, nor a full refresh.
    DeltaTable(past.path("versions")).restore(0)
    past.run(since="v2")
    assert told(past) == expected
    refreshed = past.run(full_refresh=True)
    assert (refreshed.counts.inserted, refreshed.counts.updated, refreshed.counts.deleted) == (0, 0, 0)

    # Where the feed of the delete is lost, the rows at its end tell of it.
    past.drop("source", "id = 'u4'")  # 10
    past.put("source", row("u3", "late"))  # 11
    lose_feed(past, 10)
    assert past.run(allow_gap=True).status == "updated"
    assert {each[0] for each in told(past)} == {"u2", "u3"}

    # What somebody else puts back is found and removed again.
    gone = {"id": "u4", "valid_from": AT, "valid_to": AT + timedelta(days=1), "mail": "q"}
    past.append("versions", gone)
    repaired = verify(past, repair=True)
    assert (repaired.status, repaired.target) == ("repaired", Discrepancy(surplus=1))
    assert {each[0] for each in told(past)} == {"u2", "u3"}


def test_another_table_at_the_place_of_the_source(begun: Lab) -> None:
    before = begun.rows("versions")
    shutil.rmtree(begun.path("source"))
    columns = {"id": pa.string(), "mail": pa.string(), "note": pa.string()}
    begun.table("source", "id", columns, [row("u1", "new")])
    refused = begun.run("versions", full_refresh=True)
    assert (refused.exit_code, "'s' is another table now" in str(refused.error)) == (5, True), refused.error
    assert begun.rows("versions") == before


def test_lost_feeds(begun: Lab) -> None:
    lose_feed(begun, 2)
    lost = begun.run()
    assert (lost.exit_code, "--allow-gap" in str(lost.error)) == (5, True)
    found = begun.run(allow_gap=True)
    assert found.error is None
    record = cursor.read_record(begun.log("versions")[0], "versions")
    assert record is not None
    (mark,) = cursor.Cursor.from_dict(record).sources.values()
    assert mark.gaps
    end = mark.gaps[-1][1]
    assert mark.gaps == ((1, end),)
    kept = [each for each in told(begun) if each[0] in ("u1", "u3")]
    assert kept == [("u1", 1, None, "a"), ("u3", 1, None, "p")]
    refused = begun.run(full_refresh=True)
    assert (refused.exit_code, "would forget" in str(refused.error)) == (5, True)
    assert told(begun)[0] == ("u1", 1, None, "a")
    begun.put("source", row("u1", "z"))
    begun.run()
    assert ("u1", 9, None, "z") in told(begun)

    # No repair can close the gap: nothing advises one, and one that is made all the same commits nothing.
    said = f"versions 2 to {end} of s are not in this history"
    (status,) = read_status(enrich.load_project(begun.home))
    assert status.note == said
    before = len(begun.log("versions"))
    kept = verify(begun, repair=True)
    assert (kept.status, len(begun.log("versions"))) == ("equal", before)
    assert f"versions: {said}" in format_verification(VerifyResult("", "dev", (kept,))).splitlines()


def test_a_gap_over_what_the_feed_tells_is_closed_by_a_repair(begun: Lab, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "enrich"):
        assert begun.run(since="v3", allow_gap=True).status == "updated"
    (warning,) = [text for record in caplog.records if "left out" in (text := record.getMessage())]
    assert warning == (
        "versions: versions 2 to 3 of source s are left out: what differs is recorded as a change of version 3"
    )
    repaired = verify(begun, repair=True)
    assert (repaired.status, told(begun)) == ("repaired", PAST)
    shown = format_verification(VerifyResult("", "dev", (repaired,))).splitlines()
    assert "versions: versions 2 to 3 of s were left out, and their changes are in the target now" in shown
    (status,) = read_status(enrich.load_project(begun.home))
    assert status.note is None


def test_a_column_that_is_not_used_may_be_renamed_dropped_or_widened(lab: Lab) -> None:
    """Each commit on both sides is told, before a used struct gains a field as well; a full refresh reads the same."""
    table = f"delta.`{lab.path('source')}`"
    lab.spark.sql(
        f"CREATE TABLE {table} (id STRING, mail STRING, note STRING, size INT, who STRUCT<first: STRING>) USING delta"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true',"
        " 'delta.enableTypeWidening' = 'true')"
    )

    def change(value: str, *then: str) -> None:
        lab.spark.sql(f"UPDATE {table} SET mail = '{value}'")
        for each in then:
            lab.spark.sql(f"ALTER TABLE {table} {each}")

    lab.spark.sql(f"INSERT INTO {table} VALUES ('u1', 'a', 'n', 1, struct('A'))")  # 1
    lab.job(JOB.replace("[mail]", "[mail, who]"))
    lab.run(until="v1")
    change("b", "RENAME COLUMN note TO remark")
    change("c", "ALTER COLUMN size TYPE BIGINT")
    change("d", "DROP COLUMN remark", "ADD COLUMN who.last STRING")
    change("e")  # 9
    expected = [("u1", 1, 2, "a"), ("u1", 2, 4, "b"), ("u1", 4, 6, "c"), ("u1", 6, 9, "d"), ("u1", 9, None, "e")]
    found = lab.run()
    assert (found.error, told(lab)) == (None, expected)
    assert lab.run(full_refresh=True).status == "unchanged"


def test_a_column_that_is_not_used_may_go_with_a_table_that_is_written_anew(begun: Lab) -> None:
    source = DeltaTable(begun.path("source"))
    rows = pa.Table.from_pylist([{"id": "u1", "mail": "y"}, {"id": "u3", "mail": "p"}])
    write_deltalake(source, rows, mode="overwrite", schema_mode="overwrite")  # 9
    begun.put("source", {"id": "u1", "mail": "z"})  # 10
    source.update_incremental()
    source.alter.add_columns([Field("more", PrimitiveType("integer"))])  # 11
    begun.put("source", {"id": "u4", "mail": "new", "more": 1})  # 12
    found = begun.run()
    ends = {("u1", 3): 9, ("u2", 6): 9, ("u4", 7): 9}
    anew = [("u1", 9, 10, "y"), ("u1", 10, None, "z"), ("u4", 12, None, "new")]
    expected = [(*each[:2], ends.get(each[:2], each[2]), each[3]) for each in PAST] + anew
    assert (found.error, told(begun)) == (None, sorted(expected, key=lambda each: (each[0], str(each[1]))))
    check = verify(begun)
    assert (check.status, check.gaps) == ("equal", {})


def test_a_key_that_stands_twice_and_keys_that_are_null(past: Lab) -> None:
    past.append("source", row(None, "lost"))  # 9
    held = past.run()
    assert held.status == "created"
    (kept,) = past.rows("versions__quarantine")
    assert (kept["id"], kept["valid_from"], kept["mail"], kept["_failed"]) == (None, None, "lost", ["key_not_null"])
    past.append("source", row("u1", "twice"))  # 10
    past.drop("source", "mail = 'twice'")  # 11
    blocked = past.run()
    assert (blocked.status, blocked.exit_code) == ("blocked", 3)
    assert "key_unique" in [each.expectation for each in blocked.findings if not each.success]
    passed = past.run(since="v11", allow_gap=True)
    assert passed.error is None
    assert [each for each in told(past) if each[0] == "u1"] == [each for each in PAST if each[0] == "u1"]


def test_versions_that_somebody_takes_out_of_the_quarantine_are_not_lost(past: Lab) -> None:
    past.suite("versions", hold_nulls("valid_to"))
    past.job(JOB + "expectations: versions\n")
    assert past.run(until="v5").status == "created"
    DeltaTable(past.path("versions__quarantine")).delete()
    past.put("source", row("u1", "z"), row("u3", "z"))  # 9
    assert past.run().exit_code == 0
    ended = [(*each[:2], each[2] or 9, each[3]) for each in PAST if each[0] in ("u1", "u3")]
    ended += [each for each in PAST if each[0] in ("u2", "u4") and each[2] is not None]
    assert told(past) == sorted(ended)
    opened = [("u1", 9, None, "z"), ("u2", 6, None, "x"), ("u3", 9, None, "z"), ("u4", 7, None, "q")]
    assert told(past, "versions__quarantine") == opened


def test_verify_holds_open_versions_against_the_snapshot_whatever_the_feed_says(
    begun: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reads.read_change_feed

    def forget(*arguments: Any, **how: Any) -> Any:
        return read(*arguments, **how).where("id <> 'u4'")

    monkeypatch.setattr(reads, "read_change_feed", forget)
    assert begun.run().exit_code == 0
    assert "u4" not in {each[0] for each in told(begun)}
    found = verify(begun, repair=True)
    assert (found.status, found.target.missing) == ("repaired", 1)
    assert [each for each in told(begun) if each[0] == "u4"] == [("u4", 8, None, "q")]


def test_a_full_refresh_that_would_forget_versions_advises_no_run_that_is_refused(begun: Lab) -> None:
    sql = f"ALTER TABLE delta.`{begun.path('versions')}` SET TBLPROPERTIES ('delta.randomizeFilePrefixes' = 'false')"
    for _ in range(2):
        begun.spark.sql(sql)
    for table in ("versions", "source"):
        DeltaTable(begun.path(table)).create_checkpoint()
    shutil.rmtree(begun.home / "lake" / "_enrich")
    for table in ("versions", "source"):
        for version in range(2):
            find_commit(Path(begun.path(table)), version).unlink()
    refused = begun.run(full_refresh=True)
    assert refused.exit_code == 5
    assert "let the job write to another target" in str(refused.error)
    assert "run without it" not in str(refused.error)


def test_a_column_that_the_source_gains_and_one_that_it_loses(past: Lab) -> None:
    past.job(JOB.replace("history: {columns: [mail]}\n", ""))
    past.run()
    before = past.rows("versions")
    table = past.path("source")
    DeltaTable(table).alter.add_columns([Field("more", PrimitiveType("integer"))])  # 9
    past.put("source", {**row("u1", "a"), "more": 1})  # 10
    past.run()
    found = told(past, "versions", "mail", "more")
    assert {("u1", 3, 10, "a", None), ("u1", 10, None, "a", 1)} <= set(found)
    assert len(past.rows("versions")) == len(before) + 1
    past.spark.sql(
        f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name',"
        " 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    past.spark.sql(f"ALTER TABLE delta.`{table}` DROP COLUMN note")
    gone = past.run()
    assert (gone.exit_code, "'note'" in str(gone.error)) == (5, True)


def explain(lab: Lab, *keys: str) -> list[str]:
    """Ask why the rows of keys are as they are."""
    asked = [{"id": key} for key in keys]
    told = question.explain(enrich.load_project(lab.home), "versions", asked, "id", spark=lab.spark)
    return [each.row.reason for each in told]


def test_a_version_that_has_ended_is_none_that_its_key_is_asked_about(past: Lab) -> None:
    past.put("source", row("u8", None))  # 9
    moment = datetime.fromtimestamp(tables.read_commits(tables.open_log(past.path("source")))[9] / 1000, UTC)
    past.put("source", row("u8", "late"))  # 10
    past.drop("source", "id = 'u4'")  # 11
    past.suite("held", hold_nulls("mail"))
    past.suite("warned", {**hold_nulls("mail"), "meta": {"enrich": {"action": "warn"}}})
    past.job(JOB + "expectations: warned\n")
    past.job(
        JOB.replace("job: versions", "job: held").replace("table: versions", "table: held") + "expectations: held\n"
    )
    events = [{"event": "e", "id": "u8", "at": moment}]
    past.table("events", "event", {"event": pa.string(), "id": pa.string(), "at": pa.timestamp("us", "UTC")}, events)
    past.job(SEEN)
    assert past.run_all().exit_code == 0
    project = enrich.load_project(past.home)
    assert {(each["id"], each["mail"]) for each in past.rows("held__quarantine")} == {("u4", None), ("u8", None)}
    assert enrich.why(project, "held", "u8", spark=past.spark).row.reason == "matched"
    (rule,) = enrich.failing(project, "versions", spark=past.spark).rules
    assert rule.reasons == {"value_null": 2}, "also of the one whose source has lost it"
    cell = enrich.why(project, "seen", "e", "mail", spark=past.spark).columns["mail"]
    assert (cell.reason, cell.upstream) == ("value_null_in_lookup", ())


SEEN = """job: seen
sources:
  events: {table: events, key: event}
  versions: {table: versions, key: [id, valid_from]}
from: events
join:
  versions: {kind: as_of, on: events.id, at: events.at, valid_from: valid_from, valid_to: valid_to}
select: {event: events.event, mail: versions.mail}
target: {table: seen}
"""


@pytest.mark.soak
def test_a_history_is_the_lookup_of_an_as_of_join_of_the_same_run(past: Lab) -> None:
    at = {"early": datetime(2000, 1, 1, tzinfo=UTC), "late": datetime(2099, 1, 1, tzinfo=UTC)}
    kinds = {"event": pa.string(), "id": pa.string(), "at": pa.timestamp("us", tz="UTC")}
    events = [{"event": f"{key}_{when}", "id": key, "at": at[when]} for key in ("u1", "u2") for when in at]
    past.table("events", "event", kinds, events)
    past.job(SEEN)

    def mails() -> dict[str, str | None]:
        return {each["event"]: each["mail"] for each in past.rows("seen")}

    past.run_all()
    assert mails() == {"u1_early": None, "u1_late": "a", "u2_early": None, "u2_late": "x"}
    past.put("source", row("u1", "z"))
    past.drop("source", "id = 'u2'")
    assert [each.status for each in past.run_all().jobs] == ["updated", "updated"]
    assert mails() == {"u1_early": None, "u1_late": "z", "u2_early": None, "u2_late": None}


@pytest.mark.soak
def test_a_quarantine_that_is_ahead_of_its_target_by_more_than_the_feed_tells(past: Lab) -> None:
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "mail"}, "severity": "warning"}
    past.suite("versions", {**rule, "meta": {"enrich": {"action": "quarantine"}}})
    past.job(JOB + "expectations: versions\n")
    past.append("source", row("u5", None))  # 9
    past.run(until="v2")
    past.run(until="v6")
    past.put("source", row("u5", "late"))  # 10
    past.run()
    held = told(past, "versions__quarantine")
    assert held == [("u4", 6, 7, None), ("u5", 9, 10, None)]
    DeltaTable(past.path("versions")).restore(0)
    lose_feed(past, 4)
    refused = past.run()
    assert refused.exit_code == 5
    assert "--allow-gap" in str(refused.error)
    mended = past.run(allow_gap=True)
    assert (mended.error, mended.status) == (None, "updated")
    late = [each for each in PAST if each[3] is not None and each[1] > 4] + [("u5", 10, None, "late")]
    assert set(late) <= set(told(past))
    assert told(past, "versions__quarantine") == held
    assert past.run().status == "unchanged"
    assert verify(past).status == "equal"


@pytest.mark.soak
def test_a_quarantine_that_is_behind_its_target_by_more_than_the_feed_tells(past: Lab) -> None:
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "mail"}, "severity": "warning"}
    past.suite("versions", {**rule, "meta": {"enrich": {"action": "quarantine"}}})
    past.job(JOB + "expectations: versions\n")
    past.append("source", row("u5", None))  # 9
    past.run(until="v6")
    past.run()
    before = told(past), told(past, "versions__quarantine")
    DeltaTable(past.path("versions__quarantine")).restore(0)
    lose_feed(past, 7)
    assert past.run().error is None, "the version of the quarantine that the target's record names tells enough"
    assert (told(past), told(past, "versions__quarantine")) == before
    assert past.run().status == "unchanged"
