"""The rules between the jobs of a project: who writes where, who reads what, and in which order.

They read plain values, as ``checks`` does: a fault elsewhere in a file hides none of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from enrich.config import graph, places
from enrich.errors import ConfigError, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from enrich.config.places import Location
    from enrich.config.project import Project
    from enrich.config.yamlfile import Step, Tree


@dataclass(frozen=True)
class _Table:
    """One table reference of a job file.

    Attributes:
        job: The job.
        reference: What its file writes.
        at: Where it does.
        location: Where the table is.
        place: The same for every spelling of the location.
    """

    job: str
    reference: str
    at: str
    location: Location
    place: str


@dataclass(frozen=True)
class _Tables:
    """What the jobs write and read."""

    targets: dict[str, _Table]
    sources: dict[str, list[_Table]]


def check_references(trees: dict[str, Tree], base: Path) -> list[Fault]:
    """Return the faults of the table references themselves, whatever the settings."""
    faults = []
    for tree in trees.values():
        for path, reference in _references(tree):
            try:
                places.locate(reference, base, str(base), None)
            except ConfigError as error:
                faults.append(Fault(error.message, tree.at(*path)))
    return faults


def check_neighbours(trees: dict[str, Tree], project: Project) -> list[Fault]:
    """Return what contradicts itself between the jobs of a project."""
    tables = _locate(trees, project)
    edges = graph.connect(
        {job: table.location for job, table in tables.targets.items()},
        {job: [table.location for table in read] for job, read in tables.sources.items()},
    )
    faults = [*_shared_targets(tables), *_own_sources(tables), *_enclosed(tables, project.state)]
    faults += _refused_feeds(trees, tables)
    if cycle := graph.find_cycle(edges):
        faults.append(Fault(graph.describe_cycle(cycle), trees[cycle[0]].at("sources")))
    return faults


def _references(tree: Tree) -> Iterator[tuple[tuple[Step, ...], str]]:
    """Yield the table references of a job file with their paths, the target's first."""
    root = _mapping(tree.value)
    target = _mapping(root.get("target")).get("table")
    found: list[tuple[tuple[Step, ...], Any]] = [(("target", "table"), target)]
    for alias, source in _mapping(root.get("sources")).items():
        found.append((("sources", alias, "table"), _mapping(source).get("table")))
    yield from ((path, text) for path, text in found if isinstance(text, str) and text.strip())


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _locate(trees: dict[str, Tree], project: Project) -> _Tables:
    """Return the tables whose references are right."""
    tables = _Tables({}, {job: [] for job in trees})
    for job, tree in trees.items():
        for path, reference in _references(tree):
            try:
                location = project.location(reference)
            except ConfigError:
                continue
            table = _Table(job, reference, tree.at(*path), location, places.identity(location))
            if path[0] == "target":
                tables.targets[job] = table
            else:
                tables.sources[job].append(table)
    return tables


def _shared_targets(tables: _Tables) -> Iterator[Fault]:
    """A table has one writer, and a quarantine is nobody's target."""
    first: dict[str, _Table] = {}
    for table in tables.targets.values():
        if (other := first.setdefault(table.place, table)) is not table:
            yield Fault(f"the target {table.reference!r} is that of job {other.job!r} ({other.at}) already", table.at)
    quarantines = {
        places.identity(places.sibling(table.location, graph.QUARANTINE)): table for table in tables.targets.values()
    }
    for table in tables.targets.values():
        if (other := quarantines.get(table.place, table)) is not table:
            yield Fault(f"the target {table.reference!r} is the quarantine of job {other.job!r} ({other.at})", table.at)


def _own_sources(tables: _Tables) -> Iterator[Fault]:
    """No job reads what it writes."""
    for job, target in tables.targets.items():
        written = {
            target.place: "target",
            places.identity(places.sibling(target.location, graph.QUARANTINE)): "quarantine",
        }
        for source in tables.sources[job]:
            if kind := written.get(source.place):
                yield Fault(f"the source {source.reference!r} is the job's own {kind} ({target.at})", source.at)


def _enclosed(tables: _Tables, state: str) -> Iterator[Fault]:
    """No table that enrich writes is inside another table or the state, or around them."""
    everything = list(chain(tables.targets.values(), *tables.sources.values()))
    home = places.identity(state)
    for target in tables.targets.values():
        if target.place == home or _is_inside(target.place, home) or _is_inside(home, target.place):
            yield Fault(f"the target {target.reference!r} and the state directory must not hold each other", target.at)
        others = {other.reference for other in everything if _is_inside(target.place, other.place)}
        others |= {other.reference for other in everything if _is_inside(other.place, target.place)}
        for reference in sorted(others):
            yield Fault(
                f"the target {target.reference!r} and the table {reference!r} must not hold each other", target.at
            )


def _is_inside(inner: str, outer: str) -> bool:
    return inner.startswith(outer.rstrip("/") + "/")


def _refused_feeds(trees: dict[str, Tree], tables: _Tables) -> Iterator[Fault]:
    """A target that another job reads has a change feed."""
    for job, target in tables.targets.items():
        if _mapping(_mapping(trees[job].value).get("target")).get("change_feed") is not False:
            continue
        readers = [
            other for other, read in tables.sources.items() if any(target.place == table.place for table in read)
        ]
        if readers and readers != [job]:
            reader = next(name for name in readers if name != job)
            message = f"'change_feed: false' cannot be: job {reader!r} reads this target by its change feed"
            yield Fault(message, trees[job].at("target", "change_feed"))
