"""Find a project directory, read its files, hold them against each other, and put its jobs into an order.

``load_project`` reads every file before it complains, so that one call shows all that is wrong. A job comes after those
whose targets, or their quarantines, it reads. Tables are compared by where they are, not by how a file spells them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from operator import attrgetter
from pathlib import Path

from enrich.base import hints
from enrich.base.errors import ConfigError, Fault
from enrich.base.names import QUARANTINE_SUFFIX, CatalogName, Location, find_quarantine, identify
from enrich.base.stores import remember_settings
from enrich.base.suites import Suite
from enrich.base.words import did_you_mean
from enrich.project.checks import check_job
from enrich.project.models import Job, Places, Settings, Tables
from enrich.project.querynames import NO_TABLES, expand_query
from enrich.project.settings import check_lengths, load_settings, locate, parse_catalog_schema, resolve_directory
from enrich.project.shape import JOB, TABLES, build_model
from enrich.project.suitefiles import load_suite
from enrich.project.yamlfile import Tree, read_tree

_YAML = (".yml", ".yaml")
MISNAMED = "tables.yaml"
_BARE = re.compile(r"\w[\w-]*")
_MORE = re.compile(r"(.{500}).+", re.DOTALL)


@dataclass(frozen=True)
class Project:
    """What a project's files say for one deployment."""

    dir: Path  # the project directory, absolute
    deployment: str  # the deployment, ``conf/<deployment>.yml``
    settings: Settings  # what this file says
    jobs: dict[str, Job]  # the jobs by name
    suites: dict[str, Suite]  # those that jobs name, or all of them, by the file's name without its ending
    deployments: tuple[str, ...]  # the names of all deployments
    tables: Tree = NO_TABLES  # what tables.yml says

    @property
    def lake(self) -> str | None:
        """Absolute path or URI below which bare table names are; None with a catalog."""
        return None if self.settings.lake is None else resolve_directory(self.settings.lake, self.dir)

    @property
    def state(self) -> str:
        """Absolute path or URI of the runs table, the locks and the reports."""
        if self.settings.state is not None:
            return resolve_directory(self.settings.state, self.dir)
        return f"{(self.lake or str(self.dir)).rstrip('/')}/_enrich"

    def resolve(self, name: str) -> str:
        """Return the reference of a table that a user names beside the files; jobs have those of tables.yml already."""
        return str(self.tables.mapping(name).get("table", name))

    def location(self, reference: str) -> Location:
        """Return the absolute path, URI or catalog name of a reference's table; a ConfigError if it is none."""
        place, own = self.settings.sources, self.locate_own(reference)
        if place is None or not _BARE.fullmatch(reference) or identify(own) in self.makers:
            return own
        return self._locate(reference, place)

    def locate_own(self, reference: str) -> Location:
        """Return where a table is that enrich writes; a bare name stands in the deployment's own lake or catalog."""
        return self._locate(reference, self.settings)

    def _locate(self, reference: str, place: Settings | Places) -> Location:
        lake = None if place.lake is None else resolve_directory(place.lake, self.dir)
        return locate(reference, self.dir, lake, parse_catalog_schema(place.catalog) if place.catalog else None)

    @cached_property
    def makers(self) -> dict[str, str]:
        """Which job writes a target or a quarantine, by the identity of its place."""
        return _find_makers({name: self.locate_own(job.target.table) for name, job in self.jobs.items()})

    def explain_read_only(self, location: Location) -> str | None:
        """Return why a table is never written, if it lies below ``sources`` of the deployment."""
        place = self.settings.sources
        if place is None:
            return None
        if place.catalog is not None:
            schema = place.catalog.lower().split(".")
            # A name with fewer parts may mean the same schema, in the session's catalog.
            named = str(location).lower().split(".")[:-1] if isinstance(location, CatalogName) else []
            count = min(len(schema), len(named))
            is_below = count > 0 and schema[-count:] == named[-count:]
        else:
            above = identify(resolve_directory(place.lake or "", self.dir))
            is_below = isinstance(location, str) and f"{identify(location)}/".startswith(f"{above.rstrip('/')}/")
        said = f"lies below 'sources' of conf/{self.deployment}.yml, where nothing is written"
        return f"{str(location)!r} {said}" if is_below else None

    def suite(self, job: Job) -> Suite | None:
        """Return the suite that a job names; None when it names none."""
        return self.suites.get(job.expectations) if job.expectations else None


def load_project(
    path: str | os.PathLike[str] | None = None,
    target: str = "dev",
    *,
    all_suites: bool = False,
    needs_jobs: bool = True,
    environ: Mapping[str, str] | None = None,
) -> Project:
    """Read a project's files, as ``enrich.load_project``, which also checks expressions and columns.

    ``environ``: what ``${NAME}`` in ``conf/`` stands for; None: this process's environment. The faults of a ConfigError
    are in the order of files and lines.
    """
    reader = _Reader(find_project(path, needs_jobs=needs_jobs), os.environ if environ is None else environ)
    deployments = reader.files("conf", _YAML)
    settings = reader.settings(target, deployments)
    files = reader.files("jobs", _YAML)
    if not files and needs_jobs:
        reader.faults.append(Fault(f"there are no job files; `{hints.init_from('TABLE...')}` writes one", "jobs"))
    trees = {stem: tree for stem, name in files.items() if (tree := reader.tree(name)) is not None}
    declared, told = reader.tables()
    told_places = {fault.where for fault in told}
    jobs = {}
    for stem, found in trees.items():
        tree, faults = expand_query(found, declared)
        reader.faults += faults
        if faults:
            continue
        trees[stem] = tree
        job, faults = build_model(Job, tree, JOB)
        reader.faults += [fault for fault in faults + check_job(tree) if fault.where not in told_places]
        if job is not None:
            job._tree = tree
            jobs[stem] = job
    suites = reader.suites(trees, all_suites=all_suites)
    whole = (jobs, suites, tuple(deployments), declared)
    project = None if settings is None else Project(reader.base, target, settings, *whole)
    reader.faults += check_tables(trees, reader.base, project)
    if reader.faults or project is None:
        short = dict.fromkeys(Fault(_MORE.sub(r"\1...", each.message), each.where) for each in reader.faults)
        raise ConfigError.of(sorted(short, key=attrgetter("place")))
    tables = [name for job in jobs.values() for name in (job.target.table, *(s.table for s in job.sources.values()))]
    places = [place for place in map(project.location, tables) if isinstance(place, str)]
    remember_settings([project.state, *places], project.settings.spark.conf)
    return project


def find_project(path: str | os.PathLike[str] | None = None, *, needs_jobs: bool = True) -> Path:
    """Return the project directory: ``path``, or the nearest parent of the current directory that is one.

    Where no jobs are needed, ``path`` or the current directory may have conf/ alone. Where there is none, a ConfigError
    says what to do.
    """
    try:
        start = Path(path if path is not None else ".").resolve()
        for candidate in [start] if path is not None else [start, *start.parents]:
            if (candidate / "jobs").is_dir() and (candidate / "conf").is_dir():
                return candidate
        if not needs_jobs and (start / "conf").is_dir():
            return start
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"the project directory cannot be read: {type(error).__name__}") from None
    missing = [f"{part}/" for part in ("jobs", "conf") if not (start / part).is_dir()]
    if path is None and len(missing) > 1:
        message = f"no project here: neither {start} nor a directory above it has jobs/ and conf/"
        raise ConfigError(message, hint=f"change into a project, give --project-dir DIR, or run `{hints.init()}`")
    said = f"it has no {' and no '.join(missing)}" if start.is_dir() else "no such directory"
    first = {"jobs/": "write jobs/<job>.yml", "conf/": "write conf/dev.yml with 'lake: ./lake'"}
    hint = first.get(" ".join(missing)) or f"run `{hints.init(str(start))}` to make one"
    raise ConfigError(f"{start} is not a project: {said}", hint=hint)


@dataclass
class _Reader:
    """Reads the files of one project directory and gathers their faults."""

    base: Path
    environ: Mapping[str, str]
    faults: list[Fault] = field(default_factory=list)

    def files(self, folder: str, endings: tuple[str, ...]) -> dict[str, str]:
        """Return the files of a folder as ``{name without ending: path from the project directory}``, by name."""
        found: dict[str, str] = {}
        try:
            directory = self.base / folder
            entries = sorted(directory.iterdir()) if directory.is_dir() else []
        except OSError as error:
            self.faults.append(Fault(f"cannot be read: {error.strerror}", folder))
            return {}
        for entry in entries:
            if entry.name.startswith(".") or entry.suffix not in endings:
                continue
            name = f"{folder}/{entry.name}"
            if not name.isprintable():
                self.faults.append(Fault("the file's name is not printable text; rename it", ascii(name)))
            elif entry.stem in found:
                self.faults.append(Fault(f"{found[entry.stem]} has the same name; keep one of them", name))
            else:
                found[entry.stem] = name
        return found

    def tree(self, name: str) -> Tree | None:
        try:
            return read_tree(self.base / name, name)
        except ConfigError as error:
            self.faults += error.faults
            return None

    def settings(self, name: str, files: dict[str, str]) -> Settings | None:
        if name not in files:
            if files:
                message = f"there is no deployment {name!r}; known: {', '.join(files)}{did_you_mean(name, files, '')}"
            else:
                message = f"there is no deployment; write conf/{name}.yml with 'lake: ./lake'"
            self.faults.append(Fault(message, "conf"))
            return None
        if (tree := self.tree(files[name])) is None:
            return None
        settings, faults = load_settings(tree, self.base, self.environ)
        self.faults += faults
        return settings

    def tables(self) -> tuple[Tree, list[Fault]]:
        name = NO_TABLES.name
        if os.path.lexists(self.base / MISNAMED):
            self.faults.append(Fault(f"is not read; rename it to {name}", MISNAMED))
        if not os.path.lexists(self.base / name) or (tree := self.tree(name)) is None:
            return NO_TABLES, []
        known, first = tree.mapping(), dict[str, str]()
        filled = {table: {"table": table, **told} if isinstance(told, dict) else told for table, told in known.items()}
        _, faults = build_model(Tables, replace(tree, value=filled or tree.value), TABLES)
        for table, told in filled.items():
            if (other := first.setdefault(table.lower(), table)) != table:
                faults.append(Fault(f"the names {other!r} and {table!r} differ only in case", tree.at(table)))
            reference = told.get("table") if isinstance(told, dict) else None
            try:
                locate(reference if isinstance(reference, str) else table, self.base, str(self.base), None)
            except ConfigError as error:
                faults.append(Fault(error.message, tree.at(table, "table")))
        self.faults += faults
        return tree, faults

    def suites(self, trees: dict[str, Tree], *, all_suites: bool) -> dict[str, Suite]:
        files = self.files("expectations", (".json", *_YAML))
        wanted = set(files) if all_suites else set()
        for tree in trees.values():
            name = tree.mapping().get("expectations")
            if not isinstance(name, str) or not name.strip():
                continue
            if name in files:
                wanted.add(name)
            else:
                way_on = did_you_mean(name, files) or f"; write expectations/{name}.json, or correct the name"
                message = f"there is no suite {name!r} in expectations/{way_on}"
                self.faults.append(Fault(message, tree.at("expectations")))
        suites = {}
        for name in sorted(wanted):
            try:
                suites[name] = load_suite(self.base / files[name], files[name])
            except ConfigError as error:
                self.faults += error.faults
        return suites


@dataclass(frozen=True)
class _Table:
    """One table reference of a job file, as it is written, and where the table is."""

    job: str
    reference: str
    at: str
    location: Location
    place: str  # the same for every spelling of the location
    quarantine: str  # the place of its quarantine, if the job writes it


def check_tables(trees: dict[str, Tree], base: Path, project: Project | None) -> list[Fault]:
    """Return what is wrong in references to tables, whatever the settings, and what contradicts itself between jobs.

    That is who writes where, who reads what, in which order; references that are wrong are left out there. Without
    ``project`` nobody knows the places.
    """
    faults = []
    targets: dict[str, _Table] = {}
    sources: dict[str, list[_Table]] = {job: [] for job in trees}
    for job, tree in trees.items():
        # The target's reference is the first.
        for place in [("target",), *(("sources", alias) for alias in tree.mapping("sources"))]:
            reference, at = tree.mapping(*place).get("table"), tree.at(*place, "table")
            if not isinstance(reference, str) or not reference.strip():
                continue
            try:
                location = locate(reference, base, str(base), None)
                if place == ("target",):
                    names = location.split("/") if isinstance(location, str) else location.parts
                    check_lengths(names[-1:], QUARANTINE_SUFFIX)
                locate_one = project and (project.locate_own if place == ("target",) else project.location)
                location = locate_one(reference) if locate_one else location
            except ConfigError as error:
                faults.append(Fault(error.message, at))
                continue
            spots = (identify(each) for each in (location, find_quarantine(location)))
            table = _Table(job, reference, at, location, *spots)
            if place == ("target",):
                targets[job] = table
            else:
                sources[job].append(table)
    if project is None:
        return faults
    faults += list(_check_places(targets, sources, project))
    for job, target in targets.items():  # one that another job reads has a change feed
        if trees[job].mapping("target").get("change_feed") is False:
            reading = [name for name, read in sources.items() if any(target.place == each.place for each in read)]
            if reader := next((name for name in reading if name != job), None):
                message = f"'change_feed: false' is not possible: job {reader!r} reads the change feed of this target"
                faults.append(Fault(message, trees[job].at("target", "change_feed")))
    read = {job: [table.location for table in tables] for job, tables in sources.items()}
    if cycle := find_cycle(connect({job: table.location for job, table in targets.items()}, read)):
        faults.append(Fault(describe_cycle(cycle), trees[cycle[0]].at("sources")))
    return faults


def _check_places(targets: dict[str, _Table], sources: dict[str, list[_Table]], project: Project) -> Iterator[Fault]:
    """Check where tables are.

    A table has one writer, and a quarantine is nobody's target. No job reads what it writes. No table that enrich
    writes is inside another table or the state, or around them, and none is where nothing is written.
    """
    home = identify(project.state)
    written = ((each.location, each.at) for each in targets.values())
    for location, at in ((project.state, f"conf/{project.deployment}.yml"), *written):
        if said := project.explain_read_only(location):
            yield Fault(f"{said}; give 'lake', 'state' and targets another place", at)
    first: dict[str, _Table] = {}
    quarantines = {table.quarantine: table for table in targets.values()}
    everything = list(chain(targets.values(), *sources.values()))
    for job, target in targets.items():
        name = f"the target {target.reference!r}"
        if (other := first.setdefault(target.place, target)) is not target:
            yield Fault(f"{name} is already that of job {other.job!r} ({other.at})", target.at)
        if (other := quarantines.get(target.place, target)) is not target:
            yield Fault(f"{name} is the quarantine of job {other.job!r} ({other.at})", target.at)
        own = {target.place: "target", target.quarantine: "quarantine"}
        for source in sources[job]:
            if kind := own.get(source.place):
                yield Fault(f"the source {source.reference!r} is the job's own {kind} ({target.at})", source.at)
        if target.place == home or _are_nested(target.place, home):
            yield Fault(f"{name} and the state directory must not be nested", target.at)
        for reference in sorted({each.reference for each in everything if _are_nested(target.place, each.place)}):
            yield Fault(f"{name} and the table {reference!r} must not be nested", target.at)


def _are_nested(*both: str) -> bool:
    outer, inner = sorted(both, key=len)
    return inner.startswith(outer.rstrip("/") + "/")


def sort_jobs(jobs: Iterable[str], project: Project) -> list[str]:
    """Return ``jobs`` so that each comes after those that it reads from, directly or through others; else by name.

    Jobs that read each other in a circle are a ConfigError, which prints it.
    """
    wanted = set(jobs)
    edges = find_edges(project)
    if cycle := find_cycle(edges):
        raise ConfigError.of([Fault(describe_cycle(cycle), project.jobs[cycle[0]].at("sources"))])
    sorter = TopologicalSorter(edges)
    sorter.prepare()
    result: list[str] = []
    waiting: list[str] = []
    while sorter.is_active():
        waiting = sorted([*waiting, *sorter.get_ready()])
        result.append(waiting.pop(0))
        sorter.done(result[-1])
    return [job for job in result if job in wanted]


def find_edges(project: Project) -> dict[str, tuple[str, ...]]:
    """Return for each job of the project those whose target it reads."""
    jobs = project.jobs.items()
    targets = {name: project.location(job.target.table) for name, job in jobs}
    sources = {name: [project.location(each.table) for each in job.sources.values()] for name, job in jobs}
    return connect(targets, sources)


def _find_makers(targets: Mapping[str, Location]) -> dict[str, str]:
    makers = {identify(find_quarantine(place)): job for job, place in targets.items()}
    return makers | {identify(place): job for job, place in targets.items()}


def connect(targets: Mapping[str, Location], sources: Mapping[str, Iterable[Location]]) -> dict[str, tuple[str, ...]]:
    """Return for each job the others that it reads from, by name."""
    makers, edges = _find_makers(targets), {}
    for job, read in sources.items():
        found = {makers.get(identify(place)) for place in read}
        edges[job] = tuple(sorted(name for name in found if name is not None and name != job))
    return edges


def find_cycle(edges: Mapping[str, tuple[str, ...]]) -> list[str] | None:
    """Return a circle, as data flows: each job feeds the next, and the last is the first again."""
    try:
        TopologicalSorter(dict(sorted(edges.items()))).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][1:]  # the first is the last again
        first = circle.index(min(circle))
        return [*circle[first:], *circle[:first], circle[first]]
    return None


def describe_cycle(cycle: list[str]) -> str:
    """Return the message for jobs that wait for each other."""
    return f"jobs read each other in a circle: {' -> '.join(cycle)}; let one of them read a source table instead"
