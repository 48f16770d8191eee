"""What a run did, for machines: the JSON of ``enrich run --output json`` and of the runs table.

No field ever holds a cell value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from enrich.base.errors import EnrichError, find_gravest
from enrich.base.state import State

CREATED, UPDATED, UNCHANGED = "created", "updated", "unchanged"
BLOCKED, FAILED, SKIPPED, LOCKED = "blocked", "failed", "skipped", "locked"

_STATUS_OF_CODE = {3: BLOCKED, 4: LOCKED}


@dataclass(frozen=True)
class Finding:
    """One rule's verdict over the rows of a run; see ``docs/quality.md``.

    Attributes:
        index: Position of the rule in its suite; None for built-in rules.
        expectation: Great Expectations' type, or the built-in rule's name.
        column: The rule's ``column``, when it has exactly one.
        action: ``warn``, ``quarantine`` or ``fail``.
        checked: Rows that the rule judged.
        failed: Rows that it found wanting; 0 or 1 for aggregates.
        success: The verdict; None when the rule raised or judged no row.
        error: The class of what went wrong, never its text.
        source: The source's alias, for rules about a source or a join.
        column_list: The rule's columns, when it has several.
        rule: Position among the job's own ``rules``; None for others.
        bound: Threshold of one of these: ``("at_most", 0.05)``.
        accepted: True when the rule would block and the run was told to accept it.
        scope: ``changed`` when it judged what the run touched, ``target`` when it judged the whole target.
        scanned: True when the whole target was read for it.
        tolerated: True when rows failed, and no more than ``tolerate`` allows: there is nothing to act upon.
        where: ``file:line`` of the rule in its suite; in messages alone.
    """

    index: int | None
    expectation: str
    column: str | None
    action: str
    checked: int
    failed: int
    success: bool | None
    error: str | None = None
    source: str | None = None
    column_list: tuple[str, ...] | None = None
    rule: int | None = None
    bound: tuple[str, int | float] | None = None
    accepted: bool = False
    scope: str = "changed"
    scanned: bool = False
    tolerated: bool = False
    where: str | None = field(default=None, compare=False)

    @property
    def is_failing(self) -> bool:
        """True when it is to be acted upon: rows failed that are not tolerated, or the rule raised an error."""
        return self.error is not None or (self.success is False and not self.tolerated)

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands: expectations in the suite's order, what built-in rules found, the job's own rules."""
        if self.index is not None:
            return 0, self.index
        return (1, 0) if self.rule is None else (2, self.rule)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as in the result JSON; what follows ``scope`` only where it applies."""
        names = ("index", "expectation", "column", "action", "checked", "failed", "success", "error", "scope")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.column_list is not None:
            found["column_list"] = list(self.column_list)
        if self.source is not None:
            found["source"] = self.source
        if self.bound is not None:
            found[self.bound[0]] = self.bound[1]
        if self.accepted:
            found["accepted"] = True
        if self.scanned:
            found["scanned"] = True
        if self.tolerated:
            found["tolerated"] = True
        return found


def resolve_threshold(threshold: int | float, of: int) -> int | Fraction:
    """Return how many rows of ``of`` a threshold stands for: rows when whole, else a share, exactly as written.

    As floats, 29 rows of 100 would be more than a share of 0.29.
    """
    return Fraction(repr(threshold)) * of if isinstance(threshold, float) else threshold


BEFORE_ALL = -1
"""The version before a table's first one."""


@dataclass(frozen=True)
class SourceWindow:
    """The versions of one source that a run consumed.

    Attributes:
        start: The last version already contained in the target; None at the first run.
        to: The pinned version.
        changes: Net changed keys in the window (at the first run: rows).
        gap: Versions between the cursor and ``start`` that this run skips; None for none.
        compared: True when the source's rows at both ends were compared, because its feed does not tell all.
    """

    start: int | None
    to: int
    changes: int = 0
    gap: tuple[int, int] | None = None
    compared: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the window as in the result JSON."""
        found: dict[str, Any] = {"from": self.start, "to": self.to, "changes": self.changes}
        if self.gap is not None:
            found["gap"] = list(self.gap)
        return {**found, "compared": True} if self.compared else found


@dataclass(frozen=True)
class Counts:
    """Rows of one job's run, by what happened to them."""

    affected_keys: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    quarantined: int = 0
    null_foreign_keys: int = 0
    null_list_ids: int = 0
    null_values: int = 0


@dataclass(frozen=True)
class Lookup:
    """How one join of a job went for the rows that a run computed.

    Attributes:
        kind: What the job file calls the kind of join.
        rows: Driving rows that reached the join, for lists their elements; before ``where``.
        matched: Those with a partner.
        null_references: Those whose foreign key or id is null; always 0 in table joins.
    """

    kind: str
    rows: int
    matched: int
    null_references: int


@dataclass(frozen=True)
class Quarantine:
    """What a job's quarantine holds after a run.

    Attributes:
        rows: All of its rows.
        reasons: Reason -> rows that it holds; a row with two reasons counts for both.
    """

    rows: int
    reasons: Mapping[str, int]

    @staticmethod
    def of(labelled: Iterable[tuple[Iterable[str], int]]) -> Quarantine:
        """Add up pairs of a row's reasons and how many rows have them."""
        total, reasons = 0, Counter[str]()
        for texts, rows in labelled:
            total += rows
            reasons.update(dict.fromkeys(texts, rows))
        return Quarantine(total, dict(sorted(reasons.items())))


CREATE, REWRITE, COMPARE, MERGE, APPEND, CURSOR, NOTHING = (
    "create",
    "rewrite",
    "compare",
    "merge",
    "append",
    "cursor",
    "nothing",
)
"""What a run does to its target; ``compare`` stands in plans alone: which rows differ is not known yet."""


@dataclass(frozen=True)
class Extent:
    """How much is read or written."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Extent) -> Extent:
        return Extent(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True)
class Compaction:
    """What OPTIMIZE did to a table.

    Attributes:
        version: The version that it made.
        removed: The files that it has put together or written anew.
        added: The files that stand in their place.
        why: The reason.
    """

    version: int
    removed: Extent
    added: Extent
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as in the JSON."""
        return {"version": self.version, "removed": vars(self.removed), "added": vars(self.added), "why": self.why}


@dataclass(frozen=True)
class JobResult:
    """What one run did to one job's target.

    Attributes:
        status: ``created updated unchanged blocked failed skipped locked``.
        mode: ``bootstrap incremental full_refresh replay``; None when the job did not get that far.
        lookups: Alias -> how its join went; empty for mirrors and for runs that computed no row.
        quarantine: What the quarantine holds now; None without one, and when the job did not get that far.
        quarantined_upstream: Job that this one reads, directly or not -> rows in its quarantine, where there are any.
        stages: Stage of the flow -> seconds; empty when no JVM was needed.
        exit_code: This job's share in the run's exit code.
        error: One line with the next step, for jobs that did not succeed.
        number: The transaction number of the job's commit; None when it made none.
        strategy: ``create rewrite merge append cursor nothing``; None when nothing was decided.
        written: The files that the target's commit added; None without one.
        state: What the whole target holds when the run ends; None when nobody can say, or when there is no target.
        optimized: What put the target in shape after its commit; None when that was not needed, or did not succeed.
    """

    job: str
    status: str
    mode: str | None = None
    sources: dict[str, SourceWindow] = field(default_factory=dict)
    counts: Counts = Counts()
    target_version: int | None = None
    findings: tuple[Finding, ...] = ()
    error: str | None = None
    exit_code: int = 0
    seconds: float = 0.0
    number: int | None = None
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    quarantine: Quarantine | None = None
    quarantined_upstream: Mapping[str, int] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)
    strategy: str | None = None
    written: Extent | None = None
    state: State | None = None
    optimized: Compaction | None = None

    def with_findings(self, found: Iterable[Finding]) -> JobResult:
        """Return this result with ``found`` in their places; a verdict takes the place of "0 rows checked"."""
        known: dict[Any, Finding] = {}
        for each in (*self.findings, *found):
            known[each.place if each.place[0] != 1 else (each.expectation, each.source)] = each
        return replace(self, findings=tuple(sorted(known.values(), key=lambda each: each.place)))

    def to_dict(self) -> dict[str, Any]:
        """Return the job's part of the result JSON."""
        return {
            "job": self.job,
            "status": self.status,
            "mode": self.mode,
            "sources": {alias: window.to_dict() for alias, window in self.sources.items()},
            **vars(self.counts),
            "target_version": self.target_version,
            "findings": [finding.to_dict() for finding in self.findings],
            "error": self.error,
            "lookups": {alias: vars(lookup) for alias, lookup in self.lookups.items()},
            "quarantine": vars(self.quarantine) if self.quarantine is not None else None,
            "quarantined_upstream": dict(self.quarantined_upstream),
            "stages": dict(self.stages),
            "strategy": self.strategy,
            "written": vars(self.written) if self.written is not None else None,
            "state": self.state.to_dict() if self.state is not None else None,
            "optimized": self.optimized.to_dict() if self.optimized is not None else None,
        }

    def failed_with(self, error: EnrichError) -> JobResult:
        """Return this result ended by ``error``, with nothing counted as written."""
        status = _STATUS_OF_CODE.get(error.exit_code, FAILED)
        state = self.state if status == BLOCKED else None
        return replace(self, status=status, counts=Counts(), error=str(error), exit_code=error.exit_code, state=state)


def name_deployment(name: str) -> dict[str, str]:
    """Return the JSON keys that name a deployment; ``target`` is the older name of the same."""
    return {"target": name, "deployment": name}


@dataclass(frozen=True)
class RunResult:
    """What one ``enrich run`` did; of a dry run, which writes nothing, what a run would do."""

    run_id: str
    deployment: str
    jobs: tuple[JobResult, ...] = ()
    dry_run: bool = False

    @property
    def exit_code(self) -> int:
        """The most serious exit code of the jobs."""
        return find_gravest(job.exit_code for job in self.jobs)

    def to_dict(self) -> dict[str, Any]:
        """Return the result JSON of ``enrich run --output json``."""
        jobs = [job.to_dict() for job in self.jobs]
        head = {"run_id": self.run_id, **name_deployment(self.deployment)}
        return {**head, "exit_code": self.exit_code, "dry_run": self.dry_run, "jobs": jobs}
