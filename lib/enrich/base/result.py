"""Say what a run did, for machines: the one model of a result.

Records of commits, the runs table, the JSON of ``enrich run --output json`` and of reports, their JSON Schemas and the
observers have their classes from here. No field ever holds a cell value. What a class says of its attributes stands in
its JSON Schema, too.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cache
from html import escape
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, model_serializer

from enrich.base.errors import EnrichError, find_gravest, show_text

CREATED, UPDATED, UNCHANGED = "created", "updated", "unchanged"
BLOCKED, FAILED, SKIPPED, LOCKED = "blocked", "failed", "skipped", "locked"
_STATUS_OF_CODE = {3: BLOCKED, 4: LOCKED}

# What a run does to its target; `compare` stands in plans alone: which rows differ is not known yet.
CREATE, REWRITE, COMPARE, MERGE, APPEND = "create", "rewrite", "compare", "merge", "append"
CURSOR, NOTHING = "cursor", "nothing"
BEFORE_ALL = -1  # the version before a table's first one
_MOST_ROWS = 50  # of a table in a notebook

_SPARSE, _FLAT = {"json": "only where it is neither None nor False"}, {"json": "its keys, and not itself"}


def _one_of(*words: str) -> Any:
    return Field(json_schema_extra={"enum": [*words]})


@cache
def _adapt(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _describe(schema: dict[str, Any], kind: Any) -> None:
    """Complete the schema of a class by its docstring, and by which keys may be left out."""
    schema["description"] = (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("``", "")
    for each in reversed(kind.__mro__):
        for name, text in re.findall(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)$", inspect.getdoc(each) or "", re.MULTILINE):
            if name in schema["properties"]:
                schema["properties"][name]["description"] = " ".join(text.replace("``", "").split())
    for each in schema["properties"].values():
        each.pop("default", None)  # of a key that is always there
    for sparse in (each for each in fields(kind) if each.metadata == _SPARSE):
        schema["required"].remove(sparse.name)
        if sparse.default is False:
            schema["properties"][sparse.name]["const"] = True


class Shown:
    """What a notebook shows as a small table, and a console in one line; both hold names, words and numbers alone."""

    def summarise(self) -> tuple[str, Sequence[Mapping[str, object]]]:
        """Return the line, and the rows of the table: column -> what stands there, the same columns in all."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {show_text(self.summarise()[0])}>"

    def _repr_html_(self) -> str:
        line, rows = self.summarise()
        parts = [
            f"<p>{_escape(line)}</p><table><tr>",
            *[f"<th>{_escape(name)}</th>" for row in rows[:1] for name in row],
        ]
        for row in rows[:_MOST_ROWS]:
            parts += ["</tr><tr>", *[f"<td>{_escape(cell)}</td>" for cell in row.values()]]
        more = f"<p>and {len(rows) - _MOST_ROWS} more</p>" if len(rows) > _MOST_ROWS else ""
        return f"{''.join(parts)}</tr></table>{more}"


def _escape(cell: object) -> str:
    return "" if cell is None else escape(show_text(str(cell)))


class ShownJobs(Shown):
    """What became of several jobs."""

    jobs: Sequence[Any]

    @property
    def exit_code(self) -> int:
        """The most serious of the exit codes of the jobs."""
        return find_gravest(job.exit_code for job in self.jobs)

    def show_jobs(self, *names: str) -> list[dict[str, object]]:
        """Return a row for each job, with some of its attributes."""
        return [{name: getattr(job, name) for name in names} for job in self.jobs]


class Told:
    """What is told as JSON; its classes are frozen dataclasses."""

    __pydantic_config__ = ConfigDict(
        extra="forbid", json_schema_extra=_describe, json_schema_serialization_defaults_required=True
    )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values as in the JSON."""
        kind: Any = type(self)
        found: dict[str, Any] = _adapt(kind).dump_python(self, mode="json", by_alias=True, warnings=False)
        return found

    @model_serializer(mode="wrap")
    def _tell(self, tell):  # type: ignore[no-untyped-def]  # a type would take the place of the class in its schema
        forms = {each.name: each.metadata for each in fields(self)}  # type: ignore[arg-type]  # a dataclass
        found: dict[str, Any] = {}
        for name, value in tell(self).items():
            if forms.get(name) == _FLAT:
                found |= value
            elif forms.get(name) != _SPARSE or (value is not None and value is not False):
                found[name] = value
        return found


@dataclass(frozen=True)
class Finding(Told):
    """What one rule says about the run: its verdict over the rows that it judged; see docs/quality.md.

    Attributes:
        index: Position in the suite; null for other rules.
        expectation: The type of the expectation, or the name of the rule.
        column: The rule's column, if it has exactly one.
        checked: Rows that it judged.
        failed: Rows that failed; 0 or 1 for rules with one verdict for all rows.
        success: The verdict; null if it judged no row, or raised an error.
        error: The class of what it raised, never its text.
        source: The alias, for rules about a source or a join.
        column_list: Its columns, if it has several.
        rule: Position among the job's own ``rules``; None for others.
        at_least: Threshold of a job rule: a share.
        at_most: Threshold of a job rule: a share, or a number of rows.
        accepted: Without --accept, it would have blocked the run.
        scope: The rows that it judged: those that the run touched, or the whole target.
        scanned: The whole target was read for it.
        tolerated: Rows failed, and no more than tolerate allows: there is nothing to act upon.
    """

    index: int | None
    expectation: str
    column: str | None
    action: Annotated[str, _one_of("warn", "quarantine", "fail")]
    checked: int
    failed: int
    success: bool | None
    error: str | None = None
    scope: Annotated[str, _one_of("changed", "target")] = "changed"
    column_list: tuple[str, ...] | None = field(default=None, metadata=_SPARSE)
    source: str | None = field(default=None, metadata=_SPARSE)
    at_least: int | float | None = field(default=None, metadata=_SPARSE)
    at_most: int | float | None = field(default=None, metadata=_SPARSE)
    accepted: bool = field(default=False, metadata=_SPARSE)
    scanned: bool = field(default=False, metadata=_SPARSE)
    tolerated: bool = field(default=False, metadata=_SPARSE)
    rule: Annotated[int | None, Field(exclude=True)] = None
    where: Annotated[str | None, Field(exclude=True)] = field(default=None, compare=False)  # its line, in messages

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


def resolve_threshold(threshold: int | float, of: int) -> int | Fraction:
    """Return how many rows of ``of`` a threshold stands for: rows when whole, else a share, exactly as written.

    As floats, 29 rows of 100 would be more than a share of 0.29.
    """
    return Fraction(repr(threshold)) * of if isinstance(threshold, float) else threshold


_FROM = "The last version consumed before, or that of --since; null when all rows are computed."


@dataclass(frozen=True)
class SourceWindow(Told):
    """The versions of one source that the run consumed.

    Attributes:
        start: The last version already contained in the target; None at the first run.
        to: The pinned version.
        changes: Keys with a net change; in the first run: rows.
        gap: Versions that --allow-gap left out: from the one after the first to the second.
        compared: The source's rows at both ends were compared, because its change feed does not tell all of them.
    """

    start: Annotated[int | None, Field(alias="from", description=_FROM)]
    to: int
    changes: int = 0
    gap: tuple[int, int] | None = field(default=None, metadata=_SPARSE)
    compared: bool = field(default=False, metadata=_SPARSE)


@dataclass(frozen=True)
class Counts(Told):
    """Rows of one job's run, by what happened to them.

    Attributes:
        quarantined: Rows that this run put into the quarantine.
    """

    affected_keys: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    quarantined: int = 0
    null_foreign_keys: int = 0
    null_list_ids: int = 0
    null_values: int = 0


@dataclass(frozen=True)
class LookupState(Told):
    """How one join went: over all driving rows, or over those that a run computed; for lists, over their elements.

    Attributes:
        rows: Those that reach the join; before ``where``.
        matched: Those with a partner.
        null_references: Those whose reference is null; always 0 in table joins.
    """

    rows: int = 0
    matched: int = 0
    null_references: int = 0

    def __add__(self, other: LookupState) -> LookupState:
        return LookupState(
            self.rows + other.rows, self.matched + other.matched, self.null_references + other.null_references
        )

    def __neg__(self) -> LookupState:
        return LookupState(-self.rows, -self.matched, -self.null_references)


Proof = tuple[int, int, int]
"""How many rows a table holds, and the sums, modulo 2^64, of two hashes of each: docs/proof.md."""


def add_proofs(one: Proof | None, two: Proof | None) -> Proof | None:
    """Return the proof of all rows of both; None where one is not known."""
    if one is None or two is None:
        return None
    return one[0] + two[0], (one[1] + two[1]) % 2**64, (one[2] + two[2]) % 2**64


Lookups = Mapping[str, LookupState]  # alias -> how its join went


@dataclass(frozen=True)
class Lookup(LookupState):
    """How one join went for the rows that the run computed.

    Attributes:
        kind: What the job file calls the kind of join.
    """

    kind: str = ""


@dataclass(frozen=True)
class Quarantine(Told):
    """What is in the quarantine after the run.

    Attributes:
        rows: All of its rows.
        reasons: Rule -> number of rows; a row may have several reasons.
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


@dataclass(frozen=True)
class Extent(Told):
    """How much is read or written."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Extent) -> Extent:
        return Extent(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True)
class Compaction(Told):
    """What OPTIMIZE did to a table.

    Attributes:
        version: The version that it made.
        removed: The files that were put together or written anew.
        added: The files that stand in their place.
        why: The reason.
    """

    version: int
    removed: Extent
    added: Extent
    why: str


@dataclass(frozen=True)
class RuleState(Told):
    """What one row rule says of all rows of the target, as recorded.

    Attributes:
        index: Position in the suite, as the run read it.
        checked: Rows that the rule judges; null if they are not counted yet, or if it raised an error.
        failed: Rows that fail; null like checked.
        error: Class of the error that the rule raised on a row of the target.
    """

    index: int
    checked: int | None = None
    failed: int | None = None
    error: str | None = None
    rule: Annotated[str, Field(exclude=True)] = ""  # SuiteRule.fingerprint

    @property
    def is_counted(self) -> bool:
        """True when there are counts."""
        return self.checked is not None and self.failed is not None


@dataclass(frozen=True)
class State(Told):
    """What the whole target holds, as recorded by a run.

    It is kept in the record of the target's commit, so that it is one with the rows, and stands in every result.

    Attributes:
        rows: Its rows.
        rules: One entry for each rule that judges a row by itself, in the order of the suite.
        lookups: Alias -> how the join went.
        nulls: Column -> rows of the target where it is null.
    """

    rows: int = 0
    rules: tuple[RuleState, ...] = ()
    lookups: Lookups = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    # Of its rows, kept like their counts; None where nobody knows it.
    proof: Annotated[Proof | None, Field(exclude=True)] = field(default=None, compare=False)

    @staticmethod
    def from_dict(found: Mapping[str, Any], fingerprints: Sequence[str] = ()) -> State:
        """Read a state back; ``fingerprints`` are those of its rules, which stand beside it in the record."""
        names = [*fingerprints, *[""] * (len(found["rules"]) - len(fingerprints))]
        return State(
            found["rows"],
            tuple(RuleState(**each, rule=name) for each, name in zip(found["rules"], names, strict=True)),
            {alias: LookupState(**each) for alias, each in found["lookups"].items()},
            dict(found["nulls"]),
        )

    def under(self, rules: Sequence[RuleState]) -> State:
        """Return this state with an entry for each of ``rules``, told apart by their fingerprints.

        It is not counted where there is none; those of rules that have left the suite are gone.
        """
        known = {each.rule: each for each in self.rules}
        kept = [replace(known[each.rule], index=each.index) if each.rule in known else each for each in rules]
        return replace(self, rules=tuple(kept))


@dataclass(frozen=True)
class JobResult(Told):
    """What the run did to one target.

    Attributes:
        mode: null when the job did not get that far.
        sources: By alias.
        error: What went wrong, and the next step; null for jobs that succeeded.
        lookups: Alias -> how its join went; empty for mirrors and for runs that computed no row.
        quarantine: What it contains after the run; null without one, and when the job did not get that far.
        quarantined_upstream: Job that this one reads, directly or not: rows that its quarantine contains; only where it
            does.
        stages: Seconds of each stage; empty when no JVM was needed.
        strategy: What was done to the target; null when nothing was decided.
        written: What the target's commit added; null without one.
        state: What the whole target holds when the run ends; null when nobody can say, or when there is no target.
        optimized: What put the target in shape after its commit; null when that was not needed, or did not succeed.
    """

    job: str
    status: Annotated[str, _one_of(CREATED, UPDATED, UNCHANGED, BLOCKED, FAILED, SKIPPED, LOCKED)]
    mode: Annotated[str, _one_of("bootstrap", "incremental", "full_refresh", "replay")] | None = None
    sources: dict[str, SourceWindow] = field(default_factory=dict)
    counts: Counts = field(default=Counts(), metadata=_FLAT)
    target_version: int | None = None
    findings: tuple[Finding, ...] = ()
    error: str | None = None
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    quarantine: Quarantine | None = None
    quarantined_upstream: Mapping[str, int] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)
    strategy: Annotated[str, _one_of(CREATE, REWRITE, MERGE, APPEND, CURSOR, NOTHING)] | None = None
    written: Extent | None = None
    state: State | None = None
    optimized: Compaction | None = None
    exit_code: Annotated[int, Field(exclude=True)] = 0
    seconds: Annotated[float, Field(exclude=True)] = 0.0
    number: Annotated[int | None, Field(exclude=True)] = None  # of its commit's transaction

    def with_findings(self, found: Iterable[Finding]) -> JobResult:
        """Return this result with ``found`` in their places; a verdict takes the place of "0 rows checked"."""
        known: dict[Any, Finding] = {}
        for each in (*self.findings, *found):
            known[each.place if each.place[0] != 1 else (each.expectation, each.source)] = each
        return replace(self, findings=tuple(sorted(known.values(), key=lambda each: each.place)))

    def failed_with(self, error: EnrichError) -> JobResult:
        """Return this result ended by ``error``, with nothing counted as written."""
        status = _STATUS_OF_CODE.get(error.exit_code, FAILED)
        state = self.state if status == BLOCKED else None
        return replace(self, status=status, counts=Counts(), error=str(error), exit_code=error.exit_code, state=state)


def name_deployment(name: str) -> dict[str, str]:
    """Return the JSON keys that name a deployment; ``target`` says the same."""
    return {"target": name, "deployment": name}


@dataclass(frozen=True, repr=False)
class RunResult(ShownJobs, Told):
    """What one run did.

    Attributes:
        deployment: The deployment: conf/<deployment>.yml.
        jobs: In the order in which they ran.
        dry_run: Nothing was written: this is what a run would do.
    """

    run_id: str
    deployment: str
    jobs: tuple[JobResult, ...] = ()
    dry_run: bool = False

    def summarise(self) -> tuple[str, list[dict[str, object]]]:
        """Return how the run ended, and its jobs."""
        jobs = [
            {"job": j.job, "status": j.status, "mode": j.mode, **vars(j.counts), "error": j.error} for j in self.jobs
        ]
        return f"run {self.run_id}, deployment {self.deployment}: exit {self.exit_code}, jobs {len(jobs)}", jobs

    def to_dict(self) -> dict[str, Any]:
        """Return the result JSON of ``enrich run --output json``."""
        head = {"run_id": self.run_id, **name_deployment(self.deployment), "exit_code": self.exit_code}
        return {**head, "dry_run": self.dry_run, **super().to_dict()}
