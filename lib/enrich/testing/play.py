"""Play a scenario round by round: other systems commit, jobs run, and what is there is held against the file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base.errors import EnrichError, EnvironmentFault
from enrich.base.names import find_quarantine
from enrich.base.result import RunResult
from enrich.dumps.load import load
from enrich.dumps.result import DumpOptions
from enrich.observe.run import run
from enrich.operations.workplace import Workplace
from enrich.project.models import Source, Spark
from enrich.project.project import Project
from enrich.project.yamlfile import load_tree
from enrich.testing.compare import (
    FoundTable,
    Mismatch,
    compare_quarantine,
    compare_reasons,
    compare_run,
    compare_target,
)
from enrich.testing.lake import CommitRefused, Lake, redirect
from enrich.testing.scenario import Round, Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.answers.reasons import KeyReport, Reason

Reasons = Mapping[tuple[Any, ...], Mapping[str, str]]  # key of a target row -> alias -> reason


@dataclass
class Stage:
    """Where a scenario is played."""

    project: Project  # the project; all of its tables are in ``lake``
    spark: SparkSession
    lake: Lake
    # Puts what `enrich doctor keys` suggests into a job, and returns the project with it.
    mend: Callable[[Project, KeyReport], Project]
    tables: dict[str, FoundTable] = field(default_factory=dict)  # job -> what its target held after the last round


@dataclass(frozen=True)
class Played:
    """What came of a round."""

    round: Round
    result: RunResult | None  # what the run gave; None when there was none
    report: KeyReport | None  # what `enrich doctor keys` said; None when it was not asked
    tables: Mapping[str, FoundTable]  # job -> its target after the round
    reasons: Mapping[str, Reasons]  # job -> the reasons of its rows, for the jobs that the round asks about
    differences: tuple[Mismatch, ...]
    seconds: float


SETTINGS = {
    # On tables of ten rows every partition more is a task more.
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Nobody looks at descriptions of plans.
    "spark.sql.maxPlanStringLength": "0",
    # Room for what hundreds of small queries throw away.
    "spark.driver.extraJavaOptions": "-Xms1g -Xmn512m -XX:MetaspaceSize=256m",
}
"""How Spark is set for scenarios; what they give does not depend on it."""


def get_session() -> SparkSession:
    """Return the session of scenarios: the active one, or a small local one."""
    from enrich.spark import session

    return session.get_session(Spark(master="local[2]", conf=SETTINGS, jars=None), lambda: 0)


def set_stage(project: Project, scenario: Scenario, directory: Path, spark: SparkSession) -> Stage:
    """Return a stage in an empty directory, with the given tables."""
    stage = Stage(redirect(project, directory), spark, Lake(directory), mend_in_memory)
    give_tables(stage, scenario)
    return stage


def give_tables(stage: Stage, scenario: Scenario) -> None:
    """Write the given tables; rows of a table that is there already are replaced or added by their keys."""
    for table in scenario.tables.values():
        stage.lake.define(table.name, table.key, table.columns, table.rows)


def play_round(stage: Stage, scenario: Scenario, each: Round) -> Played:
    """Play one round; what is wrong with the machine is an EnvironmentFault."""
    began = time.monotonic()
    before = {job: found.rows for job, found in stage.tables.items()}
    result, report, differences = None, None, list[Mismatch]()
    reasons: dict[str, Reasons] = {}
    try:
        if (refused := _commit_all(stage, scenario, each)) is not None:
            differences.append(refused)
        elif each.doctor is not None:
            from enrich.answers.near_misses import doctor_keys

            report = doctor_keys(stage.project, each.doctor, spark=stage.spark)
            stage.project = stage.mend(stage.project, report)
        if each.jobs and not differences:
            result = run(stage.project, each.jobs, spark=stage.spark, **each.options)
    except EnvironmentFault:
        raise
    except EnrichError as error:
        differences.append(Mismatch(each.line, "run", str(error)))
    stage.tables = {}
    for job in scenario.jobs:
        name, key = stage.project.jobs[job].target.table, tuple[str, ...]()
        columns = stage.lake.columns(name)
        if columns is not None:
            with suppress(EnrichError):  # else the job's sources do not say what identifies a row
                spec = Workplace(stage.project, [job], run_id="").open_job(stage.project.jobs[job]).spec
                key = (*spec.identity, *spec.right_identity)
        stage.tables[job] = FoundTable(key, columns, stage.lake.rows(name), before.get(job, ()))
    if not differences:
        if result is not None:
            differences += compare_run(each, result)
        for reference, expected in each.targets.items():
            found, is_partial = stage.tables[expected.job], scenario.is_partial
            differences += compare_target(reference, expected, found, is_partial=is_partial)
            if expected.quarantine is not None:
                name = str(find_quarantine(stage.project.jobs[expected.job].target.table))
                table = FoundTable(found.key, stage.lake.columns(name), stage.lake.rows(name))
                line = expected.lines["quarantine"]
                differences += compare_quarantine(reference, expected.quarantine, line, table, is_partial=is_partial)
        differences += _compare_reasons(stage, each, reasons)
    seconds = time.monotonic() - began
    return Played(each, result, report, dict(stage.tables), reasons, tuple(differences), seconds)


def _commit_all(stage: Stage, scenario: Scenario, each: Round) -> Mismatch | None:
    """Commit what other systems write; return the first commit that is not possible."""
    from deltalake.exceptions import DeltaError

    for commit in each.commits:
        for write in commit:
            given = scenario.tables[write.table]
            try:
                if (dump := write.dump) is None:
                    stage.lake.commit(given.name, write.verb, write.rows)
                    continue
                header = None if dump.header else False
                how = DumpOptions(form="csv", header=header, **dump.model_dump(exclude={"text", "header"}))
                with tempfile.TemporaryDirectory() as directory:
                    file = Path(directory) / f"{given.name}.csv"
                    file.write_bytes(dump.text.encode())
                    done = load(stage.project, write.table, [str(file)], key=given.key, options=how, spark=stage.spark)
                if done.error is not None:
                    raise CommitRefused(done.error)
            except (CommitRefused, DeltaError) as error:
                return Mismatch(write.line, f"{write.verb} into {write.table}", str(error))
    return None


def _compare_reasons(stage: Stage, each: Round, reasons: dict[str, Reasons]) -> Iterator[Mismatch]:
    for job, expected in each.results.items():
        if expected.why is None:
            continue
        try:
            told = find_all_reasons(stage.project, job, stage.spark)
        except EnvironmentFault:
            raise
        except EnrichError as error:
            yield Mismatch(expected.lines["why"], f"why {job}", str(error))
            continue
        reasons[job] = {key: {alias: why.reason for alias, why in each.items()} for key, each in told.items()}
        found = stage.tables[job]
        count = len(next(iter(told), found.key))
        table = FoundTable(found.key[:count], found.columns, found.rows)
        yield from compare_reasons(job, expected.why, table, reasons[job])


def find_all_reasons(project: Project, name: str, spark: SparkSession) -> dict[tuple[Any, ...], dict[str, Reason]]:
    """Return for every row of a job's target, by its key, why it has a partner in each source, or why not."""
    from enrich.answers import evidence, opened_job
    from enrich.base.spec import name_left_key, quote
    from enrich.frames.columns import drop_nulls
    from enrich.steps.run import read_target

    workplace, plan = opened_job.open_recorded(project, name, spark)
    if plan.target.table is None:
        return {}

    def answer(run: opened_job.Inquiry) -> dict[tuple[Any, ...], dict[str, Reason]]:
        spec, rows = run.plan.spec, read_target(run)
        assert rows is not None  # noqa: S101 - the table is there
        names = name_left_key(len(spec.identity))
        keys = drop_nulls(rows.select(*[quote(each) for each in spec.identity]).toDF(*names)).distinct()
        side, *_ = opened_job.list_sides(spec)
        asked = evidence.list_questions(run, side, opened_job.build_affected(run, side, run.keep(keys)))
        found = evidence.find_reasons(run, asked)
        pairs = [
            (tuple(row[: len(names)]), found.get(tuple(row[len(names) :])))
            for row in keys.select(*names, *opened_job.write_keys(keys, names).values()).collect()
        ]
        return {key: told for key, told in pairs if told is not None}

    return opened_job.answer_inside(workplace, plan, answer)


def mend_in_memory(project: Project, report: KeyReport) -> Project:
    """Return the project with the suggested lines in the job, whose file stays as it is."""
    job = project.jobs[report.job]
    sources = dict(job.sources)
    for join in report.joins:
        for alias, line in join.suggestion.lines.items() if join.suggestion is not None else ():
            sources[alias] = Source.model_validate(load_tree(line, "suggestion").value[alias])
    mended = job.model_copy(update={"sources": sources})
    jobs = {**project.jobs, report.job: mended}
    return Project(project.dir, project.deployment, project.settings, jobs, project.suites, project.deployments)
