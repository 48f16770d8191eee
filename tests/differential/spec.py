"""What is played: tables, jobs and worlds (tables with the jobs over them), as plain data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from differential.columns import TYPES, Column

Row = dict[str, Any]
Scope = dict[str, Any]

CHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Delta keeps, beside a text column, that it is CHAR or VARCHAR."""
RID = Column("rid", "key", None, 0.0)
"""Physical identity of a source row, known to the writer alone: a key update is an update of the row with this rid."""


@dataclass(frozen=True)
class Table:
    """A source table; ``rid`` is added as its last column.

    Attributes:
        unique: Further column sets that the generator keeps free of duplicates (nulls aside).
        is_shared: All histories of a trial see its rows, and none changes them: a history of its own does.
        is_mapped: It is written with column mapping, so that its columns can be renamed and dropped.
        chars: Text columns that are declared CHAR, and their lengths: Spark fills them with blanks.
        gained: Names of columns that it gained while it was played; histories know nothing of them.
        order: Columns by which the last event of a key is found: the table is a log.
        gone: A text column of a log and the value with which it says that the key has no row.
        holds: Rows that share their key are no rows of it.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    unique: tuple[tuple[str, ...], ...] = ()
    is_shared: bool = False
    is_mapped: bool = False
    chars: tuple[tuple[str, int], ...] = ()
    gained: frozenset[str] = frozenset()
    order: tuple[str, ...] = ()
    gone: tuple[str, str] | None = None
    holds: bool = False

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The declared columns and ``rid``."""
        return (*self.columns, RID)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema with which the table is written."""
        told = {name: {CHAR: f"char({length})"} for name, length in self.chars}
        return pa.schema([pa.field(each.name, each.type, metadata=told.get(each.name)) for each in self.all_columns])

    def column(self, name: str) -> Column:
        """Return the column called ``name``."""
        return next(column for column in self.all_columns if column.name == name)


@dataclass(frozen=True)
class Expr:
    """One expression in three languages.

    Attributes:
        text: Spark SQL, as in the job's file.
        fn: Its value over a scope: alias -> row or None, ``key`` -> coalesced key as a row.
        type: Arrow type of its value.
        duck: DuckDB's text, where it differs.
        like: An expression that has the same type.
        tree: What ``differential.expressions.build`` made it from, as JSON.
    """

    text: str
    fn: Callable[[Scope], Any]
    type: pa.DataType | None = None
    duck: str | None = None
    like: Expr | None = None
    tree: Any = None

    @property
    def sql(self) -> str:
        """The text for DuckDB."""
        return self.duck or re.sub(r"`([^`]*)`", r'"\1"', self.text)

    @property
    def is_path(self) -> bool:
        """True when it only names a column, and so cannot fail."""
        return re.fullmatch(r"[A-Za-z_]\w*(\.(`[^`]*`|[A-Za-z_]\w*))*", self.text) is not None


def col(path: str, type_: pa.DataType | None = None) -> Expr:
    """Return the expression that is just the path ``alias.column`` (or deeper, or the bare alias ``key`` or a list)."""
    steps = [step.strip("`") for step in re.findall(r"`[^`]*`|[^.]+", path)]

    def value(scope: Scope) -> Any:
        found: Any = scope
        for step in steps:
            found = None if found is None else found[step]
        if steps == ["key"] and found is not None:
            (found,) = found.values()
        return found

    return Expr(path, value, type_, tree=path)


@dataclass(frozen=True)
class Join:
    """One join of a job, in the words of a job's file; ``on``, ``at``, ``gone`` and ``elements`` are expressions.

    ``valid_from`` of an as-of join is not said: it is the last part of the lookup's key.
    """

    table: str
    kind: str
    how: str = "left"
    on: tuple[Expr, ...] = ()
    elements: Expr | None = None
    element_key: str | None = None
    duplicates: str = "keep"
    unmatched: str = "keep"
    at: Expr | None = None
    valid_to: str | None = None
    inclusive: bool = False
    gone: Expr | None = None
    match: tuple[str, ...] = ()
    time: str = ""
    between: tuple[str | int | float, ...] = ()

    @property
    def references(self) -> tuple[Expr, ...]:
        """The expressions that must not be null: ``on`` and ``at``."""
        return self.on if self.at is None else (*self.on, self.at)


@dataclass(frozen=True)
class Mirror:
    """A mirror's declaration, in the words of a job's file."""

    value: tuple[str, ...]
    conflict: str = "fail"
    order: str | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Past:
    """A history's declaration, in the words of a job's file; all columns but the key where ``columns`` is None."""

    columns: tuple[str, ...] | None = None
    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    on_delete: str = "end"


@dataclass(frozen=True)
class Rule:
    """One expectation.

    Attributes:
        fails: True for a target row that breaks it.
        judges: True for a target row that it looks at.
    """

    type: str
    column: str
    fails: Callable[[Row], bool]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    judges: Callable[[Row], bool] = lambda _: True

    @property
    def reason(self) -> str:
        """How the quarantine names the rule."""
        return f"{self.type}:{self.column}"


def not_null(column: str) -> Rule:
    """Find rows wanting that have a null in ``column``."""
    return Rule("expect_column_values_to_not_be_null", column, lambda row: row[column] is None)


def one_of(column: str, *values: Any) -> Rule:
    """Find rows wanting whose ``column`` is another value; Great Expectations ignores nulls."""

    def fails(row: Row) -> bool:
        return row[column] is not None and row[column] not in values

    def judges(row: Row) -> bool:
        return row[column] is not None

    return Rule("expect_column_values_to_be_in_set", column, fails, {"value_set": list(values)}, judges)


@dataclass(frozen=True)
class Shape:
    """One job.

    Attributes:
        name: Of the job and of its target.
        source: Name of the driving table; also its alias unless ``alias`` says otherwise.
        joins: Alias -> join, left to right.
        select: Target column -> expression; None for the default.
        key: Target columns that are the target's key.
        right_key: Those that identify a row without a left side (right and full foreign-key joins), or with the key a
            pair (interval joins).
        change_feed: Whether the target has a change feed, which is then checked as well.
        rules: The job's suite, all with the action quarantine.
        is_trusted: Whether nobody looks for two rows with one key in its driving source.
        tree: What ``differential.jobs`` made it from, as JSON; None for jobs that a world names.
    """

    name: str
    source: str
    key: tuple[str, ...]
    right_key: tuple[str, ...] = ()
    joins: Mapping[str, Join] = field(default_factory=dict)
    select: Mapping[str, Expr] | None = None
    where: Expr | None = None
    mirror: Mirror | None = None
    past: Past | None = None
    change_feed: bool = False
    cluster_by: tuple[str, ...] = ()
    alias: str | None = None
    rules: tuple[Rule, ...] = ()
    is_trusted: bool = False
    tree: Any = None

    @property
    def driving(self) -> str:
        """Alias of the driving source."""
        return self.alias or self.source

    @property
    def has_pairs(self) -> bool:
        """Whether a row is identified by its key and its right key."""
        return any(join.kind == "interval" for join in self.joins.values())

    def aliases(self) -> dict[str, str]:
        """Return alias -> table, the driving source first."""
        return {self.driving: self.source, **{alias: join.table for alias, join in self.joins.items()}}


@dataclass(frozen=True)
class World:
    """Tables, the jobs over them, and what the generator must know.

    Attributes:
        pools: Pool of keys -> (fewest, most) keys of it in one history.
        shapes: In an order in which a job stands after the jobs whose targets it reads.
        shared: Pool of keys that all histories share -> its keys, those that are referred to most first.
        anchor: A key that every pool of text keys holds, so that expressions can name it; None for none.
    """

    name: str
    tables: tuple[Table, ...]
    shapes: tuple[Shape, ...]
    pools: Mapping[str, tuple[int, int]]
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    anchor: str | None = None

    def table(self, name: str) -> Table:
        """Return the source table ``name``, or the target of that name seen as a table."""
        for table in self.tables:
            if table.name == name:
                return table
        shape = next(shape for shape in self.shapes if shape.name == name)
        return Derived(name, shape.key, tuple(Typed(n, "", given=t) for n, t in target_types(self, shape).items()))

    def only(self, *names: str) -> World:
        """Return this world with the named jobs alone."""
        return replace(self, shapes=tuple(s for s in self.shapes if s.name in names))

    def having(self, table: Table) -> World:
        """Return this world with another table of the same name."""
        return replace(self, tables=tuple(table if each.name == table.name else each for each in self.tables))


@dataclass(frozen=True)
class Typed(Column):
    """A column of a target: it is of no kind, but of a type that is given."""

    given: pa.DataType = None

    @property
    def type(self) -> pa.DataType:
        """The column's Arrow type."""
        return self.given


class Derived(Table):
    """A target that another job reads: it has no ``rid``."""

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The target's columns."""
        return self.columns


def default_select(world: World, shape: Shape) -> dict[str, Expr]:
    """Return the columns of a job without ``select``, by the rules of docs/semantics.md."""
    driving, selected = world.table(shape.source), {}
    coalesced = any(join.kind == "table" and join.how in ("right", "full") for join in shape.joins.values())
    lists = {join.elements.text: alias for alias, join in shape.joins.items() if join.elements is not None}
    for column in driving.all_columns:
        path = f"{shape.driving}.`{column.name}`"
        if coalesced and column.name in driving.key:
            path = "key" if len(driving.key) == 1 else f"key.`{column.name}`"
        path = lists.get(f"{shape.driving}.{column.name}", path)
        selected[column.name] = col(path, column.type)
    for alias, join in shape.joins.items():
        if join.kind == "list":
            continue
        lookup = world.table(join.table)
        keys_too = join.kind == "interval" or (join.kind == "foreign_key" and join.how in ("right", "full"))
        for column in lookup.all_columns:
            if column.name not in lookup.key or keys_too:
                selected[f"{alias}_{column.name}"] = col(f"{alias}.`{column.name}`", column.type)
    return selected


def selection(world: World, shape: Shape) -> dict[str, Expr]:
    """Return target column -> expression."""
    return dict(shape.select) if shape.select is not None else default_select(world, shape)


def list_watches(world: World, shape: Shape) -> tuple[Rule, ...]:
    """Return what every job's suite warns of over its whole target: nulls in its first and its last column."""
    names = list(target_types(world, shape))
    return tuple(not_null(name) for name in dict.fromkeys((names[0], names[-1])))


def target_types(world: World, shape: Shape) -> dict[str, pa.DataType]:
    """Return target column -> Arrow type, in order."""
    if shape.past is not None:
        table, ends = world.table(shape.source), (shape.past.valid_from, shape.past.valid_to)
        types = {name: table.column(name).type for name in table.key} | dict.fromkeys(ends, TYPES["moment"])
        return types | {name: table.column(name).type for name in list_tracked(table, shape.past)}
    if shape.mirror is not None:
        return _mirror_types(world.table(shape.source), shape.mirror)
    return {name: _type(world, shape, expr) for name, expr in selection(world, shape).items()}


def _type(world: World, shape: Shape, expr: Expr) -> pa.DataType:
    if expr.text in shape.joins:
        return element_type(world, shape, expr.text)
    if expr.type is not None or expr.like is not None:
        return expr.type if expr.like is None else _type(world, shape, expr.like)
    alias, *rest = [step.strip("`") for step in re.findall(r"`[^`]*`|[^.]+", expr.text)]
    if alias == "key":
        table = world.table(shape.source)
        return table.column(rest[0] if rest else table.key[0]).type
    found = world.table(shape.aliases()[alias]).column(rest[0]).type
    for step in rest[1:]:
        found = found.field(step).type
    return found


def list_tracked(table: Table, past: Past) -> tuple[str, ...]:
    """Return the columns whose values make a version."""
    if past.columns is not None:
        return past.columns
    return tuple(column.name for column in table.all_columns if column.name not in table.key)


def element_type(world: World, shape: Shape, alias: str) -> pa.DataType:
    """Return the type of a list join's column: id, the struct's own fields, the lookup's columns."""
    join = shape.joins[alias]
    lookup = world.table(join.table)
    assert join.elements is not None
    elements = _type(world, shape, join.elements).value_type
    own = []
    if join.element_key is not None:
        own = [(f.name, f.type) for f in elements if f.name != join.element_key]
    rest = [(c.name, c.type) for c in lookup.all_columns if c.name not in lookup.key]
    return pa.list_(pa.struct([(lookup.key[0], lookup.column(lookup.key[0]).type), *own, *rest]))


def _mirror_types(master: Table, mirror: Mirror) -> dict[str, pa.DataType]:
    types = {name: master.column(name).type for name in mirror.value}
    keys = {name: master.column(name).type for name in master.key}
    if mirror.conflict != "collect":
        return {**types, **keys, **{name: master.column(name).type for name in mirror.columns}}
    if len(keys) == 1:
        return {**types, **{name: pa.list_(type_) for name, type_ in keys.items()}}
    return {**types, "keys": pa.list_(pa.struct(list(keys.items())))}


__all__ = ["TYPES", "Column", "Expr", "Join", "Mirror", "Row", "Scope", "Shape", "Table", "World", "col"]
