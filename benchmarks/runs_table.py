"""What the runs table costs after a year of ten jobs every ten minutes: 525,600 outcomes, and half as many intents.

The year is written in files as tidying leaves them, the log as two days of it are kept; the last two hundred rows are
appended one by one, as runs do. Then everything that reads or writes the table is timed, each several times in turn:
the commands as processes of their own, with the start of Python.

    make bench-runs
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costs import CONF, size_of

if TYPE_CHECKING:
    import pyarrow as pa

JOB = "job: {name}\nsources:\n  items: {{table: items, key: id}}\nfrom: items\ntarget: {{table: {name}}}\n"
GOAL = 2.0
"""Seconds that each of them may take."""
ROWS_A_FILE, COMMITS_KEPT = 20_000, 2 * 144 * 15

YEAR = """\
CREATE TABLE runs AS
WITH slots AS (
    SELECT slot.range AS n, job.range AS j, 'job' || j AS job, hash(n, j) AS luck,
        CASE WHEN n = 0 THEN 'created' WHEN luck % 5000 = 0 THEN 'blocked' WHEN luck % 999 = 0 THEN 'failed'
            WHEN n % 2 = 0 THEN 'updated' ELSE 'unchanged' END AS status
    FROM range($slots) slot, range($jobs) job
), events AS (
    SELECT *, 'outcome' AS event FROM slots
    UNION ALL SELECT *, 'intent' FROM slots WHERE status IN ('created', 'updated', 'failed')
)
SELECT md5(n || job) AS run_id, job, $lake || '/' || job AS target, event,
    CASE WHEN event = 'intent' OR status IN ('created', 'updated') THEN n + 1 END AS number,
    now() - to_minutes(10 * ($slots - n)) + to_microseconds(1000 * j + (event = 'outcome')::int) AS "at",
    CASE WHEN event = 'outcome' THEN status END AS status, 'incremental' AS mode,
    CASE WHEN event = 'outcome' THEN 0 END::int AS exit_code, 4.2::double AS seconds,
    CASE WHEN event = 'intent' THEN to_json({job: job, number: n, sources: {items: {'from': n, 'to': n + 1}}})
    ELSE to_json({
        affected_keys: luck % 999, inserted: luck % 99, updated: luck % 97, deleted: 0, error: NULL, target_version: n,
        findings: list_transform(range(8), lambda i: {
            index: i, expectation: 'expect_column_values_to_not_be_null', 'column': 'column_' || i, action: 'warn',
            checked: luck % 999, failed: hash(luck, i) % 9, success: hash(luck, i) % 9 = 0, error: NULL}),
        lookups: {merchants: {kind: 'foreign_key', rows: 999, matched: luck % 998, null_references: 0}},
        quarantine: {rows: n % 9, reasons: {'expect_column_values_to_not_be_null:email': 3}},
        sources: {items: {'from': n, 'to': n + (status <> 'unchanged')::int, changes: luck % 96}},
        stages: {changes: luck % 8999 / 1000, 'join': luck % 7999 / 1000, write: luck % 6999 / 1000}
    }) END::varchar AS document
FROM events ORDER BY "at"
"""


def year(days: int, jobs: int, lake: str) -> Iterator[pa.Table]:
    """Yield the rows of runs every ten minutes up to now, oldest first, as many as one file holds."""
    import duckdb
    import pyarrow as pa

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    connection.execute(YEAR, {"slots": days * 144, "jobs": jobs, "lake": lake})
    for batch in connection.sql("FROM runs").to_arrow_reader(ROWS_A_FILE):
        yield pa.Table.from_batches([batch])


def build(project: Any, days: int, jobs: int) -> tuple[int, list[tuple[float, float]]]:
    """Write the year, then append; return how many rows there are, and the seconds of each append."""
    from deltalake import DeltaTable, WriterProperties, write_deltalake

    from enrich.delta.runs import OUTCOME as EVENT
    from enrich.delta.runs import RunRow, RunsTable

    runs = RunsTable(project.state)
    rows, dense = 0, WriterProperties(compression="ZSTD")
    for part in year(days, jobs, project.lake):
        write_deltalake(runs.uri, part, mode="append", writer_properties=dense)
        rows += len(part)
    table = DeltaTable(runs.uri)
    commit = json.dumps({"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE"}})
    for version in range(table.version() + 1, table.version() + 1 + COMMITS_KEPT):
        (Path(runs.uri) / "_delta_log" / f"{version:020}.json").write_text(commit)
    DeltaTable(runs.uri).create_checkpoint()
    seconds = []
    for number in range(200):
        name = f"job{number % jobs}"
        document = {"findings": [], "job": name, "sources": {"products": {"from": number, "to": number, "changes": 0}}}
        row = RunRow(f"last{number}", name, f"{project.lake}/{name}", EVENT, document, None, "unchanged", "incremental")
        seconds.append(measured(partial(runs.append, row)))
    return rows + len(seconds), seconds


def spent() -> float:
    """Return the CPU seconds of this process and of those that it has started and that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measured(step: Callable[[], object]) -> tuple[float, float]:
    """Return the wall and the CPU seconds of a step, with those of the processes that it starts."""
    start, before = time.perf_counter(), spent()
    step()
    return time.perf_counter() - start, spent() - before


def steps(project: Any, args: argparse.Namespace) -> dict[str, Callable[[], object]]:
    """Return what is timed."""
    from enrich import report
    from enrich.answers import inspection
    from enrich.delta.runs import RunsTable

    runs, target = RunsTable(project.state), f"{project.lake}/job1"

    def command(*arguments: str) -> Callable[[], object]:
        whole = [sys.executable, "-m", "enrich", "--project-dir", str(project.dir), *arguments]
        return lambda: subprocess.run(whole, check=True, capture_output=True)

    found: dict[str, Callable[[], object]] = {
        "status": lambda: inspection.read_status(project),
        "the report that a run leaves": lambda: report.write_latest(project),
        "the last number of a target": lambda: runs.last_number(target),
        "a cursor that its log forgot": lambda: runs.read_committed(target, 20_001),
        "enrich status": command("status"),
        "enrich report": command("report"),
    }
    return found if args.without_spark else {**found, f"enrich run, {args.jobs} idle jobs": command("run")}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-spark", action="store_true", help="no targets, and so no idle run")
    args = parser.parse_args()

    import pyarrow as pa
    from deltalake import write_deltalake

    import enrich

    missed, base = 0, Path(tempfile.mkdtemp(prefix="enrich-bench-"))
    try:
        for folder in ("jobs", "conf"):
            (base / folder).mkdir()
        (base / "conf" / "dev.yml").write_text(CONF)
        for number in range(args.jobs):
            (base / "jobs" / f"job{number}.yml").write_text(JOB.format(name=f"job{number}"))
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(base / "lake" / "items", pa.table({"id": [1, 2, 3]}), configuration=feed)
        project = enrich.load_project(base)
        if not args.without_spark:
            if enrich.run(project).exit_code:
                raise SystemExit("the first run failed")
            shutil.rmtree(Path(project.state) / "runs")
        rows, appends = build(project, args.days, args.jobs)
        written = Path(project.state) / "runs"
        print(f"{rows:,} rows, {size_of(written) / 1e6:.0f} MB, {len(list(written.glob('*.parquet')))} files")
        found = {"an append": appends, "the longest append": [max(appends)]}
        found |= {name: [measured(step) for _ in range(args.rounds)] for name, step in steps(project, args).items()}
        print(f"{'':30}   wall     CPU s")
        for name, each in found.items():
            wall, cpu = (statistics.median(part) for part in zip(*each, strict=True))
            missed += wall > GOAL
            print(f"{name:30} {wall:6.3f}  {cpu:6.3f}{'  MISSED' if wall > GOAL else ''}")
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
