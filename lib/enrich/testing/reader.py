"""Read scenario files, and hold each against the project: every fault at its line, all of them at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from enrich.base.errors import ConfigError, Fault, did_you_mean
from enrich.base.names import identify
from enrich.base.spec import DataType
from enrich.config.project import Project, sort_jobs
from enrich.config.shape import build_model, describe
from enrich.config.yamlfile import PathStep, Tree, read_tree
from enrich.diagnosis.answers import MATCHED, list_meanings
from enrich.testing import models
from enrich.testing.models import ABOUT_JOBS, ABOUT_RUNS, ABOUT_TARGETS, KIND, LOAD, WRITES, ScenarioFile, Status
from enrich.testing.redirect import name_tables
from enrich.testing.rows import RowReader
from enrich.testing.scenario import ExpectedJob, ExpectedTarget, Given, Round, Scenario, Write, WrittenRows
from enrich.testing.types import read_type

FOLDER = "tests"
_STATUSES = get_args(Status)


def find_files(project: Project) -> list[Path]:
    """Return the scenario files of a project: ``tests/*.yml`` and ``tests/*.yaml``, by name."""
    found = [*(project.dir / FOLDER).glob("*.yml"), *(project.dir / FOLDER).glob("*.yaml")]
    return sorted(path for path in found if not path.name.startswith("."))


def read_scenarios(project: Project, paths: Collection[Path]) -> list[Scenario]:
    """Read files.

    Raises:
        ConfigError: With the faults of all files.
    """
    found: list[Scenario] = []
    faults: list[Fault] = []
    for path in paths:
        try:
            found.append(read_scenario(project, path))
        except ConfigError as error:
            faults += error.faults
    if faults:
        raise ConfigError.of(faults)
    return found


def read_scenario(project: Project, path: Path) -> Scenario:
    """Read one file.

    Raises:
        ConfigError: With one fault for each thing that is wrong.
    """
    path = path.absolute()
    inside = path.is_relative_to(project.dir)
    tree = read_tree(path, str(path.relative_to(project.dir)) if inside else str(path))
    file, faults = build_model(ScenarioFile, tree, KIND)
    if file is None:
        raise ConfigError.of(faults)
    reader = _Reader(project, file, RowReader(tree, faults))
    scenario = reader.build(path.stem)
    if reader.rows.faults:
        raise ConfigError.of(sorted(dict.fromkeys(reader.rows.faults), key=_line_of))
    return scenario


def _line_of(fault: Fault) -> int:
    return int((fault.where or "0").rpartition(":")[2])


@dataclass
class _Reader:
    """Builds one scenario and gathers what is wrong with it."""

    project: Project
    file: ScenarioFile
    rows: RowReader

    @property
    def tree(self) -> Tree:
        return self.rows.tree

    def fault(self, message: str, *path: PathStep) -> None:
        self.rows.fault(message, self.tree.line(*path))

    def build(self, stem: str) -> Scenario:
        if not self.file.rounds:
            self.fault("there are no rounds", "rounds")
        tables = self.build_tables()
        jobs = self.choose_jobs(tables)
        targets = {self.project.jobs[job].target.table: job for job in jobs}
        rounds = _Rounds(self, tables, jobs, targets)
        return Scenario(
            self.tree.name,
            self.file.title or stem,
            self.file.about or "",
            tables,
            jobs,
            self.file.partial,
            tuple(rounds.build(number, each) for number, each in enumerate(self.file.rounds, 1)),
        )

    # --- tables ------------------------------------------------------------------------------------------------------

    def build_tables(self) -> dict[str, Given]:
        names = name_tables(self.project)
        known = {source.table: None for job in self.project.jobs.values() for source in job.sources.values()}
        found: dict[str, Given] = {}
        for reference, table in self.file.tables.items():
            name = self.find_name(reference, names)
            if name is None:
                self.fault(f"no job reads a table {reference!r}{did_you_mean(reference, known)}", "tables", reference)
                continue
            if twin := next((other for other, each in found.items() if each.name == name), None):
                self.fault(f"{reference!r} is the same table as {twin!r}", "tables", reference)
            columns = self.read_columns(reference, table)
            for key in table.key:
                if key not in table.columns:
                    self.fault(
                        f"the key {key!r} is not a column{did_you_mean(key, table.columns)}", "tables", reference, "key"
                    )
            given = Given(name, tuple(key for key in table.key if key in columns), columns, ())
            rows = self.rows.read_typed(given, table.rows, "tables", reference, "rows")
            found[reference] = replace(given, rows=rows)
        return found

    def find_name(self, reference: str, names: Mapping[str, str]) -> str | None:
        """Return the name of a table in the scenario's lake; None when no job has it."""
        try:
            return names.get(identify(self.project.location(reference)))
        except ConfigError:
            return None

    def read_columns(self, reference: str, table: models.Table) -> dict[str, DataType]:
        found: dict[str, DataType] = {}
        for name, text in table.columns.items():
            try:
                found[name] = read_type(text)
            except ConfigError as error:
                self.fault(error.message, "tables", reference, "columns", name)
                found[name] = "string"
        return found

    # --- jobs --------------------------------------------------------------------------------------------------------

    def choose_jobs(self, tables: Mapping[str, Given]) -> tuple[str, ...]:
        """Return the jobs of the scenario, in their order."""
        names, given = name_tables(self.project), {table.name for table in tables.values()}
        read = {
            name: {
                source.table: names[identify(self.project.location(source.table))] for source in job.sources.values()
            }
            for name, job in self.project.jobs.items()
        }
        written = {
            name: names[identify(self.project.location(job.target.table))] for name, job in self.project.jobs.items()
        }
        if self.file.jobs is not None:
            chosen = self.check_jobs(self.file.jobs, self.project.jobs, "jobs")
        else:
            chosen = _find_fed_jobs(read, written, given)
            if not chosen and not self.rows.faults:
                self.fault("the given tables are not enough for any job; give all sources of one", "tables")
        there = given | {written[job] for job in chosen}
        for job in chosen:
            if written[job] in given:
                self.fault(f"the target of job {job!r} is a given table; leave out one of them", "jobs")
            for reference, name in read[job].items():
                if name not in there:
                    message = (
                        f"job {job!r} reads {reference!r}, which is neither given nor the target of a job that runs"
                    )
                    self.fault(message, "jobs" if self.file.jobs is not None else "tables")
        return tuple(sort_jobs(chosen, self.project))

    def check_jobs(self, names: Collection[str], known: Collection[str], *path: PathStep) -> list[str]:
        for name in names:
            if name not in known:
                self.fault(f"there is no job {name!r} here{did_you_mean(name, known)}", *path)
        return [name for name in names if name in known]


def _find_fed_jobs(read: Mapping[str, Mapping[str, str]], written: Mapping[str, str], given: set[str]) -> list[str]:
    """Return the jobs whose sources are given tables or targets of such jobs; not those whose target is given."""
    there, chosen = set(given), list[str]()
    while True:
        more = [
            job
            for job, sources in read.items()
            if job not in chosen and written[job] not in given and set(sources.values()) <= there
        ]
        if not more:
            return chosen
        chosen += more
        there |= {written[job] for job in more}


@dataclass
class _Rounds:
    """Builds the rounds of a scenario."""

    reader: _Reader
    tables: Mapping[str, Given]
    jobs: tuple[str, ...]
    targets: Mapping[str, str]

    def build(self, number: int, each: models.RoundEntry) -> Round:
        path = ("rounds", number - 1)
        line = self.reader.tree.line
        jobs = self.jobs if each.run is None else self.reader.check_jobs(each.run, self.jobs, *path, "run")
        if not jobs and not self.reader.rows.faults:
            for key in ABOUT_RUNS:
                if key in each.model_fields_set:
                    self.reader.fault(f"the round runs no job, so that {key!r} means nothing", *path, key)
        if each.doctor is not None:
            self.reader.check_jobs([each.doctor], self.jobs, *path, "doctor")
        options = {name: getattr(each, name) for name in ("full_refresh", "retry_quarantined", "accept")}
        return Round(
            number,
            each.title,
            line(*path),
            tuple(self.build_commits(each, path)),
            each.doctor,
            tuple(job for job in self.jobs if job in jobs),
            options,
            each.exit_code,
            line(*path, "exit_code"),
            self.build_targets(each, path),
            self.build_results(each, path, jobs),
        )

    # --- what happens ------------------------------------------------------------------------------------------------

    def build_commits(self, each: models.RoundEntry, path: tuple[PathStep, ...]) -> Iterator[tuple[Write, ...]]:
        own = tuple(self.build_writes(each, path))
        if own and each.commits:
            message = "give either 'commits' or 'load', 'insert', 'upsert', 'update' and 'delete'"
            self.reader.fault(message, *path, "commits")
        if own:
            yield own
        for index, commit in enumerate(each.commits):
            yield tuple(self.build_writes(commit, (*path, "commits", index)))

    def build_writes(self, commit: models.Commit, path: tuple[PathStep, ...]) -> Iterator[Write]:
        rows = self.reader.rows
        reads = {"update": rows.read_updates, "delete": rows.read_keys}
        for verb in (LOAD, *WRITES):
            for reference, value in getattr(commit, verb).items():
                at = (*path, verb, reference)
                table, line = self.tables.get(reference), self.reader.tree.line(*at)
                if table is None:
                    known = did_you_mean(reference, self.tables)
                    self.reader.fault(f"there is no given table {reference!r}{known}", *at)
                elif verb == LOAD:
                    yield Write(verb, reference, (), line, value)
                else:
                    yield Write(verb, reference, reads.get(verb, rows.read_typed)(table, value, *at), line)

    # --- what is expected --------------------------------------------------------------------------------------------

    def build_targets(self, each: models.RoundEntry, path: tuple[PathStep, ...]) -> dict[str, ExpectedTarget]:
        named = dict.fromkeys(name for key in ABOUT_TARGETS for name in getattr(each, key))
        found: dict[str, ExpectedTarget] = {}
        for name in named:
            keys = [key for key in ABOUT_TARGETS if name in getattr(each, key)]
            lines = {key: self.reader.tree.line(*path, key, name) for key in keys}
            if name not in self.targets:
                known = did_you_mean(name, self.targets)
                self.reader.fault(f"{name!r} is not the target of a job that runs{known}", *path, keys[0], name)
                continue
            if "expect" in keys and len({"changed", "gone"} & set(keys)):
                self.reader.fault("give either 'expect', or 'changed' and 'gone'", *path, "expect", name)
            values = {key: self.read_expected(key, getattr(each, key)[name], (*path, key, name)) for key in keys}
            found[name] = ExpectedTarget(
                self.targets[name],
                values.get("expect"),
                values.get("changed"),
                values.get("gone"),
                values.get("quarantine"),
                lines,
            )
        return found

    def read_expected(self, key: str, value: Any, path: tuple[PathStep, ...]) -> Any:
        if key == "gone":
            return tuple(self.reader.rows.read_list(value, *path))
        if key == "quarantine" and isinstance(value, int) and not isinstance(value, bool):
            return value
        return self.reader.rows.read(value, *path)

    def build_results(
        self, each: models.RoundEntry, path: tuple[PathStep, ...], jobs: Collection[str]
    ) -> dict[str, ExpectedJob]:
        statuses = self.read_status(each.status, path, jobs)
        named = dict.fromkeys([*statuses, *(name for key in ABOUT_JOBS for name in getattr(each, key))])
        found: dict[str, ExpectedJob] = {}
        for name in named:
            lines = {key: self.reader.tree.line(*path, key, name) for key in ("status", *ABOUT_JOBS)}
            where = next((key for key in ABOUT_JOBS if name in getattr(each, key)), "status")
            known = self.jobs if where == "why" else jobs
            if not self.reader.check_jobs([name], known, *path, where, name):
                continue
            why = self.read_why(name, each.why[name], (*path, "why", name)) if name in each.why else None
            found[name] = ExpectedJob(statuses.get(name), each.findings.get(name), each.counts.get(name), why, lines)
        return found

    def read_status(self, status: Any, path: tuple[PathStep, ...], jobs: Collection[str]) -> dict[str, str]:
        if status is None:
            return {}
        named = status if isinstance(status, dict) else dict.fromkeys(jobs, status)
        for job, word in named.items():
            at = (*path, "status", job)
            if not isinstance(word, str):
                self.reader.fault(f"a status is a word, or a mapping of jobs and words, not {describe(word)}", *at)
            elif word not in _STATUSES:
                known = f"{', '.join(_STATUSES)}{did_you_mean(word, _STATUSES, '')}"
                self.reader.fault(f"'status' is {word!r}, but must be one of {known}", *at)
        return named

    def read_why(self, job: str, value: Any, path: tuple[PathStep, ...]) -> WrittenRows:
        written = self.reader.rows.read(value, *path)
        aliases = self.reader.project.jobs[job].sources
        for row in written.rows:
            for alias in aliases:
                word = str(row.cells.get(alias, MATCHED))
                if word not in (known := list_meanings()):
                    self.reader.rows.fault(f"{word!r} is not a reason{did_you_mean(word, known)}", row.line)
        if written.rows and not set(written.columns) & set(aliases):
            self.reader.fault(f"the rows name none of the aliases {', '.join(aliases)}", *path)
        return written
