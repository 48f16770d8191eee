"""Hold what all steps of one job's run share: the session, the frames that are kept, the times that were taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType as SparkType

from enrich.base.result import Finding, JobResult
from enrich.base.spec import Affected, JoinSpec
from enrich.delta import extents, reads, sink
from enrich.delta.drafts import Draft
from enrich.delta.sink import BROADCAST, hold_settings
from enrich.frames import join, normalise
from enrich.frames.columns import lacks_value, unite
from enrich.frames.difference import Identity
from enrich.joins import find_step_kind
from enrich.progress.plan import OpenJob, Plan
from enrich.spark import ADAPTIVE, ADAPTIVE_BY_CHANGE, PARTITIONS

P = ParamSpec("P")
R = TypeVar("R")

LARGE_LOOKUP = 2**20  # bytes from which on a lookup is filtered by what the affected rows refer to
FEW = 100_000  # affected rows whose references are sent to every task, and that need no adaptive plans
_ROWS_A_TASK = 20_000  # of few affected rows: for less, a task costs more than its work
_FEW_FILES = 16  # files that are opened rather than asked for by Spark jobs, which cost more than a look at each
_IN_A_LIST = 10  # references that a list is taken to have, which nobody has counted


@dataclass
class Run:
    """One job's run inside Spark."""

    plan: Plan
    session: SparkSession
    cleanup: ExitStack
    # Told the result as soon as the log shows the job's commit, whatever becomes of the process then.
    committed: Callable[[JobResult], None] = lambda _: None
    publishes: bool = False  # whether what is computed is to be written
    draft: Draft | None = None  # the files of a target that is not there yet; they go when the run ends without it
    seconds: dict[str, float] = field(default_factory=dict)  # stage -> how long it took; fills as the stages end
    adapts: bool = field(init=False)  # whether the number of rows that it is about chooses how Spark works
    partitions: str = field(init=False)  # into which many rows are shuffled

    def __post_init__(self) -> None:
        conf = self.session.conf
        is_asked = conf.get(ADAPTIVE_BY_CHANGE, "false") == "true" and conf.get(ADAPTIVE, "true") == "true"
        self.adapts, self.partitions = is_asked and not self.plan.everything, str(conf.get(PARTITIONS))
        if self.adapts:
            self.cleanup.enter_context(hold_settings(self.session, {ADAPTIVE: "false", PARTITIONS: self.partitions}))

    def expect_rows(self, count: int) -> None:
        """Tell Spark by how many rows the next steps are about: few need no adaptive execution, and few tasks."""
        if self.adapts:
            self.session.conf.set(ADAPTIVE, str(count > FEW).lower())
            self.session.conf.set(PARTITIONS, self.count_tasks(count))

    def count_tasks(self, rows: int) -> str:
        """Return into how many parts Spark shall shuffle so many rows: few into no more than are worth a task.

        But joins that add rows and missing counts shuffle whole tables, and many elements of lists a whole lookup.
        """
        references = rows * (_IN_A_LIST if any(step.elements is not None for step in self.plan.spec.steps) else 1)
        is_whole = references > FEW or self.plan.spec.adds_rows or self.plan.lacks_state or not self.adapts
        return self.partitions if is_whole else str(min(int(self.partitions), 1 + rows // _ROWS_A_TASK))

    def are_few(self, count: int) -> bool:
        """Return whether affected rows are so few that what they refer to is sent to every task."""
        return count <= FEW

    def joining(self, affected: Affected | None) -> AbstractContextManager[None]:
        """Let joins of few rows, planned inside the block, sort both sides: broadcasting one takes a Spark job.

        A large lookup has been filtered by then, by keys that are broadcast all the same; but not where it adds rows.
        """
        few = affected is not None and self.are_few(affected.count)
        return hold_settings(self.session, {BROADCAST: "-1"} if few and not self.plan.spec.adds_rows else {})

    def keep(self, frame: DataFrame) -> DataFrame:
        """Persist a frame until the job ends."""
        self.cleanup.callback(frame.persist().unpersist)
        return reads.forget_past(frame)

    def snapshot(self, alias: str, version: int | None = None, *, null_keys: bool = False) -> DataFrame:
        """Return the rows of a source, at the window's end unless told otherwise, with a whole key or without."""
        source = self.plan.spec.sources[alias]
        is_null, rows = lacks_value(source.key), self.read_table(alias, version)
        return rows.where(is_null) if null_keys else normalise.derive_rows(rows.where(~is_null), source)

    def read_source(self, alias: str) -> DataFrame:
        """Return all rows of a source at the window's end."""
        if not self.plan.spec.sources[alias].is_derived:
            return self.read_table(alias)
        return unite([self.snapshot(alias, null_keys=each) for each in (False, True)])

    def read_table(self, alias: str, version: int | None = None) -> DataFrame:
        """Return all rows of a source's table, at the window's end unless told otherwise, with normalised keys."""
        source, state = self.plan.spec.sources[alias], self.plan.tables[alias]
        names, end = list(source.columns), self.plan.window[alias].to
        # What rows refer to is looked for by no literal that would leave files out.
        refers = any(step.alias == alias and step.on and step.at is None for step in self.plan.spec.steps)
        read = partial(reads.read_files, most=None if refers else _FEW_FILES)
        if version is None or version == end:
            rows = read(self.session, state.uri, end, names)
        else:  # the source may have gained columns since; these are known without a look at files
            like = reads.read_snapshot(self.session, state.uri, end, names)
            rows = read(self.session, state.uri, version, names, like=like)
        return normalise.normalise_keys(rows, source)

    def read_held(self, alias: str) -> DataFrame | None:
        """Return the rows of a source's table that are held because they share their key; None where none ever are."""
        source = self.plan.spec.sources[alias]
        if not source.holds_doubled:
            return None
        return normalise.find_held(self.read_table(alias).where(~lacks_value(source.key)), source)

    @cached_property
    def wants_places(self) -> bool:
        """Whether the target's old rows are to say where they stand."""
        return not self.plan.rewrites and sink.wants_places(self.plan.target.table)

    @cached_property
    def now(self) -> join.Sources:
        """All snapshots at the window's end."""
        return self.sources({})

    @cached_property
    def before(self) -> join.Sources:
        """All snapshots at the window's start; at its end, where it has none."""
        return self.sources({alias: each.start for alias, each in self.plan.window.items()})

    def sources(self, versions: Mapping[str, int | None]) -> join.Sources:
        """Return all snapshots, at other versions than the window's ends for those aliases that have one here."""
        spec = cast(JoinSpec, self.plan.spec)  # nobody asks for the snapshots that joins read where there are none
        snapshots = {alias: self.snapshot(alias, versions.get(alias)) for alias in spec.sources}
        logs = [alias for alias, source in spec.sources.items() if source.is_derived]
        rows = {alias: self.read_table(alias, versions.get(alias)) for alias in logs}
        whole = {alias: each.where(~lacks_value(spec.sources[alias].key)) for alias, each in rows.items()}
        return join.Sources(spec, snapshots, find_step_kind, tables=whole)

    def sources_for(self, affected: Affected | None) -> join.Sources:
        """Return all snapshots at the window's end, for a join of the affected rows; None: of all."""
        if affected is None or not self.are_few(affected.count):
            return self.now
        few_elements = self.are_few(_IN_A_LIST * affected.count)
        large = frozenset(alias for alias, has_elements in self._large.items() if not has_elements or few_elements)
        return replace(self.now, large=large, keep=compute_once, narrowed=affected.narrowed)

    @cached_property
    def _large(self) -> dict[str, bool]:
        """Alias -> whether a row has many references, of the lookups that are filtered by what few rows refer to."""
        lists = {step.alias: step.elements is not None for step in self.now.spec.steps if not step.shares_key}
        uris = {alias: self.plan.tables[alias].uri for alias in lists}
        return {alias: has for alias, has in lists.items() if extents.measure_table(uris[alias]).bytes >= LARGE_LOOKUP}


def compute_once(frame: DataFrame) -> DataFrame:
    """Return a frame that is computed once, when it is first read, and whose plan does not grow with its past."""
    # What reads a persisted frame twice has its physical plan twice: with each join of a chain it would grow.
    return frame.localCheckpoint(eager=False)


def build_finding(rule: str, action: str, counts: tuple[int, int], alias: str | None) -> Finding:
    """Return what a built-in rule found wanting: rows checked, and rows that failed."""
    return Finding(None, rule, None, action, counts[0], counts[1], success=False, source=alias)


def identify_rows(plan: OpenJob) -> Identity:
    """Return how the target's rows are told apart."""
    return Identity(plan.spec.identity, plan.spec.right_identity, plan.spec.interval_step is not None)


def read_target(run: Run, *, places: bool = False, noted: bool = False) -> DataFrame | None:
    """Return the target's rows at its pinned version, columns in its own order; None when it does not exist.

    With ``places``, they say where they stand. With ``noted``, few files are opened rather than asked for.
    """
    table = run.plan.target.table
    if table is None:
        return None
    # Another writer may have added a column in another case: MERGE does not look at the case either.
    ours = {name.lower(): name for name in run.plan.spec.columns}
    names = [ours[name.lower()] for name in table.columns if name.lower() in ours]
    read = partial(reads.read_files, most=_FEW_FILES) if noted else partial(reads.read_snapshot, places=places)
    rows = read(run.session, table.uri, table.version, names)
    return rows if not run.plan.spec.remembers else reads.fit_rows(rows, list_kinds(run, names))


def list_kinds(run: Run, names: Sequence[str]) -> dict[str, SparkType]:
    """Return the types that columns of a history's source have at the window's end, where some are nested."""
    spec = run.plan.spec
    if all(isinstance(spec.sources[spec.driving].columns.get(name, ""), str) for name in names):
        return {}
    return {field.name: field.dataType for field in run.read_source(spec.driving).schema.fields}


def measure(stage: str) -> Callable[[Callable[Concatenate[Run, P], R]], Callable[Concatenate[Run, P], R]]:
    """Let a step add its wall-clock time to the ``seconds`` of the run."""

    def decorate(step: Callable[Concatenate[Run, P], R]) -> Callable[Concatenate[Run, P], R]:
        @wraps(step)
        def measured(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> R:
            started = time.monotonic()
            try:
                return step(run, *args, **kwargs)
            finally:
                run.seconds[stage] = round(run.seconds.get(stage, 0.0) + time.monotonic() - started, 3)

        return measured

    return decorate
