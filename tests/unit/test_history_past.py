"""What a history does whose source has forgotten its past; the tables are written by delta-rs, and no JVM starts."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

import enrich
from enrich.answers.inspection import read_status
from enrich.base.errors import HistoryError, RefreshNeeded
from enrich.operations.workplace import Workplace
from enrich.progress.cursor import Cursor, Mark, name_application
from enrich.progress.decision import decide_plan
from enrich.progress.plan import OpenJob, Options, Plan
from enrich.progress.since import read_ends
from enrich.progress.window import find_versions
from enrich.project.project import load_project
from kit.commits import age_commit
from kit.project import write_project
from unit.config.small_project import CONF, HISTORY

FEED = {"delta.enableChangeDataFeed": "true"}
SOURCE = pa.schema([("person_id", pa.string()), ("name", pa.string()), ("mail", pa.string())])


@dataclass
class Past:
    """A project whose only job is a history, its source, and a target that consists of records."""

    home: Path

    @property
    def people(self) -> Path:
        """The source."""
        return self.home / "lake" / "people"

    def workplace(self) -> Workplace:
        """Open the project anew."""
        return Workplace(load_project(self.home), ["names"], run_id="run")

    def open_job(self) -> OpenJob:
        """Open the job against its tables."""
        workplace = self.workplace()
        return workplace.open_job(workplace.project.jobs["names"])

    def put(self, *keys: str) -> None:
        """Give the source rows, a commit each."""
        for key in keys:
            row = [{"person_id": key, "name": "n", "mail": "m"}]
            write_deltalake(self.people, pa.Table.from_pylist(row, schema=SOURCE), mode="append", configuration=FEED)

    def consume(self, to: int, *, first: int = 0, table: str = "names", **more: Any) -> None:
        """Commit what a run notes that has taken the source up to a version, with a row."""
        opened = self.open_job()
        columns = dict(opened.spec.sources["people"].columns)
        mark = Mark(opened.tables["people"].table_id, None, to, columns, first=first)
        number = opened.target.number + 1
        record = Cursor("run", "names", number, opened.definition, {"people": mark}, opened.spec.columns)
        record = replace(record, base=None if opened.target.table is None else opened.target.table.version, **more)
        own = CommitProperties(
            {"userMetadata": record.to_json()}, app_transactions=[Transaction(name_application("names"), number)]
        )
        rows = pa.table({name: pa.array(["x"], pa.string()) for name in record.columns})
        write_deltalake(self.home / "lake" / table, rows, mode="append", commit_properties=own)

    def forget(self, version: int) -> None:
        """Let the log of the source begin with a version, as Delta's cleanup does."""
        DeltaTable(self.people, version=version).create_checkpoint()
        for each in range(version):
            (self.people / "_delta_log" / f"{each:020d}.json").unlink()


@pytest.fixture
def past(tmp_path: Path) -> Past:
    """Give a source of five versions, the first three of which are days old."""
    found = Past(tmp_path)
    write_project(tmp_path, {"conf/dev.yml": CONF, "jobs/names.yml": HISTORY})
    found.put(*"abcde")
    for version, days in enumerate((4, 3, 2)):
        age_commit(found.people, version, days)
    return found


def reopen(past: Past, **how: Any) -> Plan:
    """Open the job as a run does."""
    since, until = read_ends(how.pop("since", None), how.pop("until", None), datetime.now(UTC))
    opened = past.open_job()
    ends = find_versions("names", opened.tables, "--until", until)
    return decide_plan(replace(opened, until=ends, options=Options(since, until, **how)))


@pytest.mark.parametrize(
    ("first", "since", "again"),
    [
        (2, "90d", (2, 4)),
        (2, "people=2020-01-01", (2, 4)),
        (2, "60h", (2, 4)),
        (0, "60h", (1, 4)),
        (0, "90d", (0, 4)),
        (2, "36h", (2, 4)),
        (2, "v3", (3, 4)),
        (4, "90d", None),
    ],
)
def test_a_time_before_a_history_begins_means_its_beginning(
    past: Past, first: int, since: str, again: tuple[int, int] | None
) -> None:
    """A line in a crontab says 2d every night, also in the first two after the change feed was switched on."""
    past.consume(4, first=first)
    task = reopen(past, since=since)
    ranges = None if again is None else (again,)
    assert (task.again.get("people"), task.window["people"].start, task.everything) == (ranges, 4, False)


def test_a_time_before_the_feed_begins_means_where_it_does(past: Past) -> None:
    past.consume(4)
    past.forget(2)
    assert reopen(past, since="90d").again == {"people": ((2, 4),)}
    with pytest.raises(HistoryError, match="begins only with version 2"):
        reopen(past, since="v0")


def test_a_replay_that_ends_before_the_history_begins_takes_nothing_again(past: Past) -> None:
    past.consume(4, first=3)
    assert reopen(past, since="90d", until="60h").again == {}


def test_a_version_before_a_history_begins_is_refused(past: Past) -> None:
    past.consume(4, first=2)
    with pytest.raises(HistoryError, match="before version 2 of source 'people'"):
        reopen(past, since="v1")


def test_a_time_never_hides_that_the_feed_after_the_cursor_is_lost(past: Past) -> None:
    past.consume(1)
    past.forget(3)
    with pytest.raises(HistoryError, match=r"--allow-gap"):
        reopen(past, since="90d")


def test_changes_that_may_be_gone_are_left_out_by_a_history(past: Past) -> None:
    """What the target knows, a full refresh would forget, so it is not advised."""
    past.consume(1)
    DeltaTable(past.people).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 hours"})
    (status,) = read_status(load_project(past.home))
    assert status.note == (
        "changes of people that are waiting may be gone already: run `enrich run names`; if it is refused,"
        " run `enrich run names --allow-gap`"
    )
    found = enrich.diagnose(load_project(past.home)).found
    (fault,) = [each for each in found if each.check == "retention" and each.level == "fault"]
    assert fault.repair == "enrich run names; if it is refused, enrich run names --allow-gap"


def test_a_quarantine_that_is_gone_is_made_good_by_a_repair_where_a_full_refresh_would_forget(past: Past) -> None:
    past.consume(2)
    past.consume(4, quarantine_number=1, quarantine_run="run")
    assert reopen(past).mode == "full_refresh"
    past.forget(3)
    with pytest.raises(HistoryError, match="would forget") as refused:
        reopen(past)
    text = str(refused.value)
    assert "--repair`; what only the quarantine had begins with version 3 of source 'people', or is lost" in text
    assert "another target" not in text


def test_a_quarantine_of_which_nobody_knows_what_it_contains_is_read_at_an_older_version(past: Past) -> None:
    past.consume(2, table="names__quarantine", quarantine_number=1)
    past.consume(4, quarantine_number=1, quarantine_run="another")
    past.consume(2, table="names__quarantine", quarantine_number=2, definition="another")
    past.forget(3)
    with pytest.raises(HistoryError, match=r"run `enrich verify names --repair`$"):
        reopen(past)


def tell(past: Past) -> str:
    """Return why the next run would be refused, as `enrich status` and a run tell it."""
    (status,) = read_status(load_project(past.home))
    return str(status.refused)


ELSEWHERE = (
    "or let the job write to another target, and keep the old one; or run `enrich run names --full-refresh`, which is"
    " refused where it would forget versions"
)


def test_another_definition_needs_another_target_or_a_full_refresh(past: Past) -> None:
    past.consume(4)
    job = past.home / "jobs" / "names.yml"
    job.write_text(job.read_text().replace("[name, mail]", "[name]"))
    assert f"take the change back, {ELSEWHERE}" in tell(past)
    job.write_text(job.read_text().replace("table: names", "table: names_2"))
    assert decide_plan(past.open_job()).mode == "bootstrap"


def test_where_a_full_refresh_may_not_help_something_else_is_advised_first(past: Past) -> None:
    past.consume(4)
    kept = past.home / "lake" / "kept"
    shutil.copytree(past.people, kept)
    shutil.rmtree(past.people)
    past.put(*"abcdef")
    assert f"put the right table back, {ELSEWHERE}" in tell(past)
    shutil.rmtree(past.people)
    shutil.move(kept, past.people)
    assert tell(past) == "None"
    past.forget(3)
    fewer = pa.schema([each for each in SOURCE if each.name != "mail"])
    rows = pa.Table.from_pylist([{"person_id": "x", "name": "n"}], schema=fewer)
    write_deltalake(past.people, rows, mode="overwrite", schema_mode="overwrite")
    assert "column 'mail' of source 'people' is gone" in tell(past)
    assert f"{ELSEWHERE.removeprefix('or ').partition(';')[0]}; or correct the job file" in tell(past)


def test_a_replay_of_a_version_that_is_forgotten_asks_for_a_later_one(past: Past) -> None:
    past.consume(4)
    past.forget(3)
    workplace = past.workplace()
    with pytest.raises(RefreshNeeded) as refused:
        reopen(past, since="v0")
    known = workplace.describe(workplace.project.jobs["names"], refused.value)
    assert (known.exit_code, str(known.hint).split(";")[0]) == (5, "name a later version in --since, or leave it out")
