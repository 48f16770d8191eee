"""Describe a job as the engine runs it: names resolved against the sources' schemas, expressions checked. Frames carry

* ``__enrich_k0 ..``: the parts of the left key, coalesced over table joins; null in a row that has no left side,
* ``__enrich_r0 ..``: the parts of the lookup's key in a row without left side (right and full foreign-key joins), and
  in every row of an interval join that has a row of the lookup,
* one struct column per joined alias, null where the join found no partner, and one array column per list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DataType = str | dict[str, Any]
"""A type as Delta's schema JSON writes it: ``"string"``, ``"decimal(10,2)"``, ``{"type": "struct", ...}``."""


def quote(*parts: str) -> str:
    """Return a dotted identifier with every part in backticks: ``quote("a", "b.c")`` is ```a`.`b.c```."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def quote_literal(text: str) -> str:
    """Return a text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


PREFIX = "__enrich_"  # of the names of all columns that enrich itself puts into frames


def name_inside(column: str) -> str:
    """Return what a source's column is called in frames beside those of enrich; within structs it keeps its name."""
    return f"{PREFIX}own_{column}" if column.lower().startswith(PREFIX) else column


LIVE = "__enrich_live"  # true when the row belongs to the target (before quality rules)
WEIGHT = "__enrich_weight"  # how often a row image came (> 0) or went (< 0)
COMMIT = "__enrich_commit"  # the version of the commit that a row image comes from
OPERATION = "__enrich_op"  # what leads from the old row to the new one: I, U or D
COPIES = "__enrich_copies"  # how often a row shall stand in a table
PLACE = "__enrich_place"  # where a row stands in a table: ``FILE`` and ``ROW``
FILE, ROW = "__enrich_file", "__enrich_row"
WAS = "__enrich_was"  # a row as it was, in a struct
HOLDERS = "__enrich_holders"  # how many keys of the master hold a mirror's value

# In the order in which each leaves nothing to the ones before it.
NORMALISERS = ("visible", "nfc", "trim", "lower", "integer", "unpad")
TEXT_TYPE = "string"  # of the keys that can be normalised

FAILED_COLUMN, RUN_ID_COLUMN = "_failed", "_run_id"
KEYLESS = KEY_NOT_NULL, KEY_UNIQUE = "key_not_null", "key_unique"
"""Why the quarantine holds rows that no key tells apart."""
MATCHED, TOO_EARLY, ENDED, GONE, OUT_OF_INTERVAL = "matched", "too_early", "ended", "gone", "out_of_interval"
"""The reason of a reference that has a partner, and those for which a kind says that it has none."""


def name_partners(alias: str) -> str:
    """Return the column that says how one join went for a row; null where a row has no left side.

    ``rows`` are driving rows (0 or 1) or list elements, ``matched`` those with a partner, ``nulls`` null references.
    """
    return f"__enrich_partners_{alias}"


def name_parts_of(letter: str, count: int) -> list[str]:
    """Return the columns of so many parts, of a key for instance: ``__enrich_k0 ..``."""
    return [f"{PREFIX}{letter}{i}" for i in range(count)]


name_left_key = partial(name_parts_of, "k")
name_right_key = partial(name_parts_of, "r")  # the lookup's key in a row without left side, or in a pair
name_reference = partial(name_parts_of, "j")  # a referenced key


@dataclass(frozen=True)
class KnownRows:
    """Rows of a source at the window's end that were read on the way to the affected keys."""

    rows: DataFrame  # __enrich_k* and the source's struct, one row a key
    others: DataFrame | None = None  # __enrich_k*, the affected keys whose rows have to be read still
    read: bool = False  # whether some of ``rows`` are read from the source's table, as nothing else tells them


@dataclass(frozen=True)
class Range:
    """The least and the greatest value of a column whose kind is exact in logs: whole number, short decimal, date."""

    least: Any
    most: Any
    is_day: bool = False  # dates are days since 1970, because Python has not all dates
    values: tuple[int, ...] = ()  # all of them, where a read may look for each


LISTED = 2000
"""Pages of all columns together that are looked for one by one: with 5,000, that costs more than it spares."""


@dataclass(frozen=True)
class Affected:
    """Keys whose target rows may differ."""

    left: DataFrame  # __enrich_k*, distinct, not null
    # __enrich_r*, distinct, not null: keys of the lookup of a right, full or interval join, for rows without left side.
    right: DataFrame | None = None
    count: int = 0  # once they are counted
    ranges: Mapping[str, Range] = field(default_factory=dict)  # of parts of ``left`` by which files are skipped
    # Of the driving source or the lookup of a table join: affected rows that need not be read.
    known: Mapping[str, KnownRows] = field(default_factory=dict)
    # __enrich_k* and the driving source's struct, of rows that went: joined, they are the target's rows before.
    went: DataFrame | None = None
    # Alias -> the rows of a lookup that these may refer to, where they are at hand or a join has looked for them.
    narrowed: dict[str, DataFrame] = field(default_factory=dict)

    def has_few_places(self, width: int) -> bool:
        """Tell whether a read of so many columns looks for each key by itself."""
        if len(self.ranges) < len(self.left.columns):  # a part of the key that is everywhere leaves out no page
            return False
        return self.count == 1 or 0 < max(len(each.values) for each in self.ranges.values()) * width <= LISTED


@dataclass(frozen=True)
class Latest:
    """How the events of a log become rows: of each key the event that is greatest by ``order``."""

    order: tuple[str, ...]  # columns; null is the least value
    gone: str | None = None  # a condition over the event's columns; true: there is no row


@dataclass(frozen=True)
class SourceSpec:
    """One alias of a job, with its used columns, key columns first."""

    alias: str
    key: tuple[str, ...]
    columns: dict[str, DataType]
    trusted: bool = False  # two rows with one key are not searched
    normalise: tuple[str, ...] = ()  # what brings text keys into one form, in this order
    latest: Latest | None = None  # the table's rows are events
    holds_doubled: bool = False  # rows that share their key are no rows of the source, and are no reason to stop

    @property
    def is_derived(self) -> bool:
        """True when it depends on the other rows of its key whether a row of the table is a row of the source."""
        return self.latest is not None or self.holds_doubled

    @property
    def is_searched(self) -> bool:
        """True when two rows of it with one key are looked for, which end a run."""
        return not self.trusted and not self.is_derived


@dataclass(frozen=True)
class Interval:
    """Which rows of a lookup are near a row in time: ``lower <= time - at <= upper`` in microseconds, days, numbers."""

    match: tuple[str, ...]  # the lookup's columns that ``on`` equals, in its order
    at: str  # an expression
    time: str  # the lookup's column
    lower: Decimal
    upper: Decimal


@dataclass(frozen=True)
class Step:
    """One join, in the job's order."""

    alias: str
    kind: str
    how: str
    # Expressions, one per key column of the lookup; of an as-of join, without the last one; of an interval join, one
    # per ``match``.
    on: tuple[str, ...] = ()
    elements: str | None = None  # the expression that gives a list join's array
    element_key: str | None = None  # the struct field that holds the id; None for an array of ids
    element_fields: tuple[str, ...] = ()  # the other ones, in order
    drop_duplicates: bool = False  # of elements: the first one of each id is kept
    drop_unmatched: bool = False
    reads: frozenset[str] = frozenset()  # what ``on``, ``at`` or ``elements`` reads: aliases, and ``key``
    # The columns, with their aliases, on whose values it depends which partners a row has.
    decisive: frozenset[tuple[str, str]] = frozenset()
    is_plain: bool = True  # ``on``, ``at``, ``gone`` or ``elements`` only names columns, and so cannot fail
    at: str | None = None  # the moment that an as-of join asks for; it meets the last part of the lookup's key
    valid_to: str | None = None  # the lookup's column with a version's end; None: until the next one
    is_inclusive: bool = False  # the version still holds at its end
    gone: str | None = None  # the condition by which a version says that the thing does not exist
    interval: Interval | None = None
    module: str = ""  # that does what the kind does; empty: the one of enrich.joins that has the kind's name

    @property
    def references(self) -> tuple[str, ...]:
        """The expressions that meet the parts of the lookup's key: ``on`` and, in an as-of join, ``at``."""
        return self.on if self.at is None else (*self.on, self.at)

    @property
    def keeps_right(self) -> bool:
        """True when a row of the lookup without partner makes a row of its own."""
        return self.how in ("right", "full")

    @property
    def shares_key(self) -> bool:
        """True when the lookup has the driving source's key, so that no expression refers to it."""
        return not self.references and self.elements is None and self.interval is None


@dataclass(frozen=True)
class Output:
    """One target column, and the Spark SQL expression over the joined frame that fills it."""

    name: str
    expression: str
    paths: frozenset[tuple[str, ...]]  # alias, column and fields; ``key`` and its part; a list's alias alone
    is_plain: bool = False  # only names a column, and so cannot fail


@dataclass(frozen=True)
class JoinSpec:
    """A join job."""

    kind: ClassVar[str] = "join"
    # Whether the target holds what its source may have forgotten: it is computed anew only where that can be read.
    remembers: ClassVar[bool] = False

    job: str
    sources: dict[str, SourceSpec]
    driving: str
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    where: str | None
    identity: tuple[str, ...]  # target columns that hold the left key, in the driving key's order
    right_identity: tuple[str, ...] = ()  # those of the lookup's key, in a right or full foreign-key or interval join
    read_whole: frozenset[str] = frozenset()  # lists of which an expression reads all columns of their lookups
    where_is_plain: bool = False  # only compares values of one type, and so cannot fail

    @property
    def has_key(self) -> bool:
        """True when the job has a table join, and with it the coalesced ``key``."""
        return any(step.shares_key for step in self.steps)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the left key's parts: the driving source's key columns."""
        return self.sources[self.driving].key

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns."""
        return tuple(output.name for output in self.outputs)

    @property
    def interval_step(self) -> Step | None:
        """The interval join, of which a job has at most one: the first."""
        return next((step for step in self.steps if step.interval is not None), None)

    @property
    def right_step(self) -> Step | None:
        """The right or full foreign-key or interval join, of which a job has at most one."""
        return next((step for step in self.steps if step.keeps_right and not step.shares_key), None)

    @property
    def adds_rows(self) -> bool:
        """True when a join makes rows of its own, from a look at more than the affected ones."""
        return self.right_step is not None or self.interval_step is not None


@dataclass(frozen=True)
class WithoutJoins:
    """A job that reads one source and joins nothing."""

    kind: ClassVar[str]
    remembers: ClassVar[bool] = False
    steps: ClassVar[tuple[Step, ...]] = ()
    read_whole: ClassVar[frozenset[str]] = frozenset()
    right_identity: ClassVar[tuple[str, ...]] = ()
    interval_step: ClassVar[Step | None] = None
    right_step: ClassVar[Step | None] = None
    adds_rows: ClassVar[bool] = False

    job: str
    sources: dict[str, SourceSpec]
    driving: str

    @property
    def identity(self) -> tuple[str, ...]:
        """The target's key."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns."""
        raise NotImplementedError

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The source's columns that are the first parts of the target's key, in its order."""
        return self.key

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The target's columns where expressions fill them."""
        return ()

    @property
    def source(self) -> SourceSpec:
        """The one source."""
        return self.sources[self.driving]

    @property
    def key(self) -> tuple[str, ...]:
        """The source's key columns."""
        return self.source.key


JobSpec = JoinSpec | WithoutJoins


def list_sharing(spec: JobSpec) -> list[str]:
    """Return the sources that have the driving source's key: itself, and the lookups of table joins."""
    return [spec.driving, *[step.alias for step in spec.steps if step.shares_key]]


Read = tuple[str, Collection[str] | None]
"""A source whose table a run reads once, and the columns that it reads; None: all used ones."""


@dataclass(frozen=True)
class CompiledJob:
    """A job ready to run."""

    spec: JobSpec
    meaning: dict[str, Any]  # what decides whether a target was made by the same job: hashed into every cursor
    complete: bool  # False when types that only Spark can find were left unchecked (no session yet)
    kinds: Mapping[str, DataType] = field(default_factory=dict)  # of a join's target columns, as far as known
