"""The rules between the jobs of a project: who writes where, who reads what, and in which order.

They read plain values, as ``checks`` does: a fault elsewhere in a file hides none of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.base.errors import ConfigError, Fault
from enrich.config import graph, places
from enrich.config.places import Location
from enrich.config.yamlfile import PathStep, Tree

if TYPE_CHECKING:
    from enrich.config.project import Project


@dataclass(frozen=True)
class _Table:
    """One table reference of a job file.

    Attributes:
        reference: What the job's file writes.
        at: Where it does.
        place: The same for every spelling of the location.
        quarantine: The place of its quarantine, if the job writes it.
    """

    job: str
    reference: str
    at: str
    location: Location
    place: str
    quarantine: str


_Targets = dict[str, _Table]
_Sources = dict[str, list[_Table]]


def check_references(trees: dict[str, Tree], base: Path) -> list[Fault]:
    """Return the faults of the table references themselves, whatever the settings."""
    faults = []
    for tree in trees.values():
        for path, reference in _list_references(tree):
            try:
                place = places.locate(reference, base, str(base), None)
                if path[0] == "target":
                    names = place.split("/") if isinstance(place, str) else place.parts
                    places.check_lengths(names[-1:], places.QUARANTINE_SUFFIX)
            except ConfigError as error:
                faults.append(Fault(error.message, tree.at(*path)))
    return faults


def check_neighbours(trees: dict[str, Tree], project: Project) -> list[Fault]:
    """Return what contradicts itself between the jobs of a project."""
    targets, sources = _locate(trees, project)
    edges = graph.connect(
        {job: table.location for job, table in targets.items()},
        {job: [table.location for table in read] for job, read in sources.items()},
    )
    faults = [*_find_shared_targets(targets), *_find_own_sources(targets, sources)]
    faults += [*_find_enclosed_tables(targets, sources, project.state), *_find_refused_feeds(trees, targets, sources)]
    if cycle := graph.find_cycle(edges):
        faults.append(Fault(graph.describe_cycle(cycle), trees[cycle[0]].at("sources")))
    return faults


def _list_references(tree: Tree) -> Iterator[tuple[tuple[PathStep, ...], str]]:
    """Yield the table references of a job file with their paths, the target's first."""
    for place in [("target",), *(("sources", alias) for alias in tree.mapping("sources"))]:
        reference = tree.mapping(*place).get("table")
        if isinstance(reference, str) and reference.strip():
            yield (*place, "table"), reference


def _locate(trees: dict[str, Tree], project: Project) -> tuple[_Targets, _Sources]:
    """Return the tables whose references are right: what each job writes, and what it reads."""
    targets: _Targets = {}
    sources: _Sources = {job: [] for job in trees}
    for job, tree in trees.items():
        for path, reference in _list_references(tree):
            try:
                location = project.location(reference)
            except ConfigError:
                continue
            spots = (places.identify(each) for each in (location, places.find_quarantine(location)))
            table = _Table(job, reference, tree.at(*path), location, *spots)
            if path[0] == "target":
                targets[job] = table
            else:
                sources[job].append(table)
    return targets, sources


def _find_shared_targets(targets: _Targets) -> Iterator[Fault]:
    """A table has one writer, and a quarantine is nobody's target."""
    first: dict[str, _Table] = {}
    for table in targets.values():
        if (other := first.setdefault(table.place, table)) is not table:
            yield Fault(f"the target {table.reference!r} is already that of job {other.job!r} ({other.at})", table.at)
    quarantines = {table.quarantine: table for table in targets.values()}
    for table in targets.values():
        if (other := quarantines.get(table.place, table)) is not table:
            yield Fault(f"the target {table.reference!r} is the quarantine of job {other.job!r} ({other.at})", table.at)


def _find_own_sources(targets: _Targets, sources: _Sources) -> Iterator[Fault]:
    """No job reads what it writes."""
    for job, target in targets.items():
        written = {target.place: "target", target.quarantine: "quarantine"}
        for source in sources[job]:
            if kind := written.get(source.place):
                yield Fault(f"the source {source.reference!r} is the job's own {kind} ({target.at})", source.at)


def _find_enclosed_tables(targets: _Targets, sources: _Sources, state: str) -> Iterator[Fault]:
    """No table that enrich writes is inside another table or the state, or around them."""
    everything = list(chain(targets.values(), *sources.values()))
    home = places.identify(state)
    for target in targets.values():
        if target.place == home or _are_nested(target.place, home):
            yield Fault(f"the target {target.reference!r} and the state directory must not be nested", target.at)
        for reference in sorted({each.reference for each in everything if _are_nested(target.place, each.place)}):
            yield Fault(f"the target {target.reference!r} and the table {reference!r} must not be nested", target.at)


def _are_nested(*both: str) -> bool:
    outer, inner = sorted(both, key=len)
    return inner.startswith(outer.rstrip("/") + "/")


def _find_refused_feeds(trees: dict[str, Tree], targets: _Targets, sources: _Sources) -> Iterator[Fault]:
    """A target that another job reads has a change feed."""
    for job, target in targets.items():
        if trees[job].mapping("target").get("change_feed") is not False:
            continue
        reading = [name for name, read in sources.items() if any(target.place == each.place for each in read)]
        if reader := next((name for name in reading if name != job), None):
            message = f"'change_feed: false' is not possible: job {reader!r} reads the change feed of this target"
            yield Fault(message, trees[job].at("target", "change_feed"))
