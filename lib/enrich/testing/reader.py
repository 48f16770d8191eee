"""Read scenario files, and hold each against the project: every fault at its line, all of them at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

from enrich.answers.reasons import MATCHED, list_meanings
from enrich.base.errors import ConfigError, Fault
from enrich.base.names import identify
from enrich.base.spec import DataType
from enrich.base.words import did_you_mean
from enrich.project.project import Project, sort_jobs
from enrich.project.shape import build_model, describe
from enrich.project.yamlfile import PathStep, Tree, read_tree
from enrich.testing.cells import CellError, read_type, type_cell
from enrich.testing.lake import name_tables
from enrich.testing.scenario import (
    ABOUT_JOBS,
    ABOUT_RUNS,
    ABOUT_TARGETS,
    KIND,
    LOAD,
    WRITES,
    Commit,
    ExpectedJob,
    ExpectedTarget,
    Given,
    Round,
    RoundEntry,
    Scenario,
    ScenarioFile,
    Status,
    TypedRow,
    Write,
    WrittenRow,
    WrittenRows,
)

_STATUSES = get_args(Status)


def read_scenario(project: Project, path: Path) -> Scenario:
    """Read one file; a ConfigError has one fault for each thing that is wrong."""
    path = path.absolute()
    inside = path.is_relative_to(project.dir)
    tree = read_tree(path, str(path.relative_to(project.dir)) if inside else str(path))
    file, faults = build_model(ScenarioFile, tree, KIND)
    if file is None:
        raise ConfigError.of(faults)
    reader = _Reader(project, file, tree, faults)
    scenario = reader.build(path.stem)
    if faults:
        raise ConfigError.of(sorted(dict.fromkeys(faults), key=attrgetter("place")))
    return scenario


@dataclass
class _Reader:
    """Builds one scenario and gathers what is wrong with it."""

    project: Project
    file: ScenarioFile
    tree: Tree
    faults: list[Fault]
    tables: dict[str, Given] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()
    targets: dict[str, str] = field(default_factory=dict)  # reference of a target -> its job

    def fault(self, message: str, *path: PathStep) -> None:
        self.fault_at(message, self.tree.line(*path))

    def fault_at(self, message: str, line: int) -> None:
        self.faults.append(Fault(message, f"{self.tree.name}:{line}"))

    def build(self, stem: str) -> Scenario:
        if not self.file.rounds:
            self.fault("there are no rounds", "rounds")
        self.build_tables()
        self.choose_jobs()
        self.targets = {self.project.jobs[job].target.table: job for job in self.jobs}
        return Scenario(
            self.tree.name,
            self.file.title or stem,
            self.file.about or "",
            self.tables,
            self.jobs,
            self.file.partial,
            tuple(self.build_round(number, each) for number, each in enumerate(self.file.rounds, 1)),
        )

    # --- tables ------------------------------------------------------------------------------------------------------

    def build_tables(self) -> None:
        names = name_tables(self.project)
        known = {source.table: None for job in self.project.jobs.values() for source in job.sources.values()}
        for reference, table in self.file.tables.items():
            try:
                name = names.get(identify(self.project.location(self.project.resolve(reference))))
            except ConfigError:
                name = None
            if name is None:
                self.fault(f"no job reads a table {reference!r}{did_you_mean(reference, known)}", "tables", reference)
                continue
            if twin := next((other for other, each in self.tables.items() if each.name == name), None):
                self.fault(f"{reference!r} is the same table as {twin!r}", "tables", reference)
            columns: dict[str, DataType] = {}
            for column, text in table.columns.items():
                try:
                    columns[column] = read_type(text)
                except ConfigError as error:
                    self.fault(error.message, "tables", reference, "columns", column)
                    columns[column] = "string"
            for key in table.key:
                if key not in table.columns:
                    self.fault(
                        f"the key {key!r} is not a column{did_you_mean(key, table.columns)}", "tables", reference, "key"
                    )
            its_key = tuple(each for each in table.key if each in columns)
            rows = self.read_typed(columns, table.rows, "tables", reference, "rows")
            self.tables[reference] = Given(name, its_key, columns, rows)

    # --- rows and keys -----------------------------------------------------------------------------------------------

    def read_rows(self, value: Any, *path: PathStep) -> WrittenRows:
        """Return the rows at a path, as they are written."""
        line = self.tree.line(*path)
        if not isinstance(value, list | tuple):
            self.fault_at(f"rows are a list of mappings, not {describe(value)}", line)
            return WrittenRows((), line, ())
        found = []
        for index, row in enumerate(value):
            at = self.tree.line(*path, index)
            if isinstance(row, dict):
                found.append(WrittenRow(row, at))
            else:
                self.fault_at(f"a row is a mapping of columns and values, not {describe(row)}", at)
        return WrittenRows(tuple(found), line, tuple(dict.fromkeys(name for row in found for name in row.cells)))

    def read_typed(self, columns: Mapping[str, DataType], value: Any, *path: PathStep) -> tuple[TypedRow, ...]:
        """Return rows of a given table; columns that a row does not name are null."""
        return self.type_rows(columns, self.read_rows(value, *path))

    def type_rows(self, columns: Mapping[str, DataType], written: WrittenRows) -> tuple[TypedRow, ...]:
        for name in written.columns:
            if name not in columns:
                line = next(row.line for row in written.rows if name in row.cells)
                self.fault_at(f"the table has no column {name!r}{did_you_mean(name, columns)}", line)
        return tuple(self.type_cells(columns, row.cells, row.line) for row in written.rows)

    def type_cells(self, columns: Mapping[str, DataType], cells: Mapping[str, Any], line: int) -> TypedRow:
        try:
            return {name: type_cell(cells.get(name), name, kind) for name, kind in columns.items()}
        except CellError as error:
            self.fault_at(str(error), line)
            return {}

    def read_keys(self, table: Given, value: Any, *path: PathStep) -> tuple[TypedRow, ...]:
        """Return the keys of rows to delete: key column -> value."""
        found = []
        for index, key in enumerate(self.read_list(value, *path)):
            line = self.tree.line(*path, index)
            named = key if isinstance(key, dict) else {table.key[0]: key} if len(table.key) == 1 else {}
            if sorted(named) == sorted(table.key):
                found.append(self.type_cells({name: table.columns[name] for name in table.key}, named, line))
            else:
                self.fault_at(f"a key is a mapping of {', '.join(table.key)}", line)
        return tuple(found)

    def read_list(self, value: Any, *path: PathStep) -> list[Any]:
        if isinstance(value, list):
            return value
        self.fault(f"keys are a list, not {describe(value)}", *path)
        return []

    # --- jobs --------------------------------------------------------------------------------------------------------

    def choose_jobs(self) -> None:
        """Choose the jobs that are named, or else those that the given tables are enough for."""
        names, given = name_tables(self.project), {table.name for table in self.tables.values()}
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
            chosen, fed = [], set(given)
            while more := [
                job
                for job, sources in read.items()
                if job not in chosen and written[job] not in given and set(sources.values()) <= fed
            ]:
                chosen += more
                fed |= {written[job] for job in more}
            if not chosen and not self.faults:
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
        self.jobs = tuple(sort_jobs(chosen, self.project))

    def check_jobs(self, names: Collection[str], known: Collection[str], *path: PathStep) -> list[str]:
        for name in names:
            if name not in known:
                self.fault(f"there is no job {name!r} here{did_you_mean(name, known)}", *path)
        return [name for name in names if name in known]

    # --- rounds ------------------------------------------------------------------------------------------------------

    def build_round(self, number: int, each: RoundEntry) -> Round:
        path = ("rounds", number - 1)
        jobs = self.jobs if each.run is None else self.check_jobs(each.run, self.jobs, *path, "run")
        if not jobs and not self.faults:
            for key in ABOUT_RUNS:
                if key in each.model_fields_set:
                    self.fault(f"the round runs no job, so that {key!r} means nothing", *path, key)
        if each.doctor is not None:
            self.check_jobs([each.doctor], self.jobs, *path, "doctor")
        options = {name: getattr(each, name) for name in ("full_refresh", "accept")}
        own = tuple(self.build_writes(each, path))
        if own and each.commits:
            message = "give either 'commits' or 'load', 'insert', 'upsert', 'update' and 'delete'"
            self.fault(message, *path, "commits")
        others = [tuple(self.build_writes(one, (*path, "commits", at))) for at, one in enumerate(each.commits)]
        return Round(
            number,
            each.title,
            self.tree.line(*path),
            tuple([own, *others] if own else others),
            each.doctor,
            tuple(job for job in self.jobs if job in jobs),
            options,
            each.exit_code,
            self.tree.line(*path, "exit_code"),
            self.build_targets(each, path),
            self.build_results(each, path, jobs),
        )

    # --- what happens ------------------------------------------------------------------------------------------------

    def build_writes(self, commit: Commit, path: tuple[PathStep, ...]) -> Iterator[Write]:
        for verb in (LOAD, *WRITES):
            for reference, value in getattr(commit, verb).items():
                at = (*path, verb, reference)
                table, line = self.tables.get(reference), self.tree.line(*at)
                if table is None:
                    known = did_you_mean(reference, self.tables)
                    self.fault(f"there is no given table {reference!r}{known}", *at)
                elif verb == LOAD:
                    yield Write(verb, reference, (), line, value)
                elif verb == "update":  # rows with the columns that they name: all name the key and the same columns
                    written = self.read_rows(value, *at)
                    for row in written.rows:
                        if missing := [name for name in (*table.key, *written.columns) if name not in row.cells]:
                            text = f"the row does not name {missing[0]!r}; rows of one update name the same columns"
                            self.fault_at(text, row.line)
                    rows = self.type_rows(table.columns, written)
                    named = [{name: row[name] for name in written.columns if name in row} for row in rows]
                    yield Write(verb, reference, tuple(named), line)
                elif verb == "delete":
                    yield Write(verb, reference, self.read_keys(table, value, *at), line)
                else:
                    yield Write(verb, reference, self.read_typed(table.columns, value, *at), line)

    # --- what is expected --------------------------------------------------------------------------------------------

    def build_targets(self, each: RoundEntry, path: tuple[PathStep, ...]) -> dict[str, ExpectedTarget]:
        named = dict.fromkeys(name for key in ABOUT_TARGETS for name in getattr(each, key))
        found: dict[str, ExpectedTarget] = {}
        for name in named:
            keys = [key for key in ABOUT_TARGETS if name in getattr(each, key)]
            lines = {key: self.tree.line(*path, key, name) for key in keys}
            if name not in self.targets:
                known = did_you_mean(name, self.targets)
                self.fault(f"{name!r} is not the target of a job that runs{known}", *path, keys[0], name)
                continue
            if "expect" in keys and len({"changed", "gone"} & set(keys)):
                self.fault("give either 'expect', or 'changed' and 'gone'", *path, "expect", name)
            values: dict[str, Any] = {}
            for key in keys:
                value = getattr(each, key)[name]
                if key == "gone":
                    value = tuple(self.read_list(value, *path, key, name))
                elif key != "quarantine" or isinstance(value, bool) or not isinstance(value, int):
                    value = self.read_rows(value, *path, key, name)
                values["whole" if key == "expect" else key] = value
            found[name] = ExpectedTarget(self.targets[name], **values, lines=lines)
        return found

    def build_results(
        self, each: RoundEntry, path: tuple[PathStep, ...], jobs: Collection[str]
    ) -> dict[str, ExpectedJob]:
        statuses = self.read_status(each.status, path, jobs)
        named = dict.fromkeys([*statuses, *(name for key in ABOUT_JOBS for name in getattr(each, key))])
        found: dict[str, ExpectedJob] = {}
        for name in named:
            lines = {key: self.tree.line(*path, key, name) for key in ("status", *ABOUT_JOBS)}
            where = next((key for key in ABOUT_JOBS if name in getattr(each, key)), "status")
            known = self.jobs if where == "why" else jobs
            if not self.check_jobs([name], known, *path, where, name):
                continue
            why, aliases = None, self.project.jobs[name].sources
            if name in each.why:
                why, words = self.read_rows(each.why[name], *path, "why", name), list_meanings()
                for row in why.rows:
                    for word in (str(row.cells.get(alias, MATCHED)) for alias in aliases):
                        if word not in words:
                            self.fault_at(f"{word!r} is not a reason{did_you_mean(word, words)}", row.line)
                if why.rows and not set(why.columns) & set(aliases):
                    self.fault(f"the rows name none of the aliases {', '.join(aliases)}", *path, "why", name)
            found[name] = ExpectedJob(statuses.get(name), each.findings.get(name), each.counts.get(name), why, lines)
        return found

    def read_status(self, status: Any, path: tuple[PathStep, ...], jobs: Collection[str]) -> dict[str, str]:
        if status is None:
            return {}
        named = status if isinstance(status, dict) else dict.fromkeys(jobs, status)
        for job, word in named.items():
            at = (*path, "status", job)
            if not isinstance(word, str):
                self.fault(f"a status is a word, or a mapping of jobs and words, not {describe(word)}", *at)
            elif word not in _STATUSES:
                known = f"{', '.join(_STATUSES)}{did_you_mean(word, _STATUSES, '')}"
                self.fault(f"'status' is {word!r}, but must be one of {known}", *at)
        return named
