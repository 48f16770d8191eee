"""Choose the columns of a dump: what they are called, where they stand, and which types they have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from enrich.base.errors import ConfigError, show_text
from enrich.base.names import FEED_COLUMNS, MERGE_COLUMNS
from enrich.base.schemas import build_struct, fields_of
from enrich.base.spec import PREFIX, DataType
from enrich.base.words import did_you_mean
from enrich.delta.tables import make_arrow_schema
from enrich.project.checks import NOT_IN_COLUMN
from enrich.project.statictypes import read_ddl_type

TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
BYTES = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view,
)  # fmt: skip
LISTS = (
    pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view,
    pa.types.is_large_list_view,
)  # fmt: skip
"""Arrow's types that are one type in Delta."""
LONGEST_DECIMAL = 38

_PLAIN = (
    (pa.bool_(), (pa.types.is_boolean,)),
    (pa.int8(), (pa.types.is_int8,)),
    (pa.int16(), (pa.types.is_int16, pa.types.is_uint8)),
    (pa.int32(), (pa.types.is_int32, pa.types.is_uint16)),
    (pa.int64(), (pa.types.is_int64, pa.types.is_uint32)),
    (pa.decimal128(20, 0), (pa.types.is_uint64,)),
    (pa.float32(), (pa.types.is_float32, pa.types.is_float16)),
    (pa.float64(), (pa.types.is_float64,)),
    (pa.date32(), (pa.types.is_date,)),
    (pa.string(), (*TEXTS, pa.types.is_null)),
    (pa.binary(), BYTES),
)


def read_columns(text: str) -> dict[str, DataType]:
    """Return the columns that a text declares, in order; raise ConfigError where it does not, or names one twice."""
    found = read_ddl_type(f"struct<{text}>")
    if found is None:
        raise ConfigError(
            f"--types: {show_text(text)!r} does not name columns, each once, and their types",
            hint="write it as Spark SQL does: --types 'id bigint, at timestamp, amount decimal(10,2), `a b` string'",
        )
    return fields_of(found)


def make_schema(columns: Mapping[str, DataType]) -> pa.Schema:
    """Return Delta columns as Arrow columns that may be null; ``ConfigError`` for what no dump can hold (variant)."""
    schema, unfit = split_columns(columns)
    if unfit:
        raise _refuse_type(unfit[0])
    return schema


def split_columns(columns: Mapping[str, DataType]) -> tuple[pa.Schema, list[str]]:
    """Return Delta columns as Arrow columns that may be null, and the names of those that no dump can hold."""
    fields, unfit = [], []
    for name, kind in columns.items():
        try:
            fields.append(make_arrow_schema({name: _drop_collations(kind)}).field(0))
        except Exception:  # noqa: BLE001 - whatever delta-rs raises for a type that it does not know
            unfit.append(name)
    void = [each.name for each in fields if pa.types.is_null(each.type)]
    return pa.schema([each for each in fields if each.name not in void]), unfit + void


def _refuse_type(name: str) -> ConfigError:
    return ConfigError(f"column {name!r} has a type that no dump can hold", hint="make the dump without this column")


def _drop_collations(kind: Any) -> Any:
    if kind == "variant":
        raise ValueError(kind)
    if isinstance(kind, str):
        return kind.split(" collate ")[0]
    if "fields" in kind:
        return build_struct({each["name"]: _drop_collations(each["type"]) for each in kind["fields"]})
    parts = {part: _drop_collations(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind}
    return {**kind, **parts, **{part: True for part in ("containsNull", "valueContainsNull") if part in kind}}


@dataclass(frozen=True)
class Known:
    """The types that are known before the dump is read."""

    table: pa.Schema | None = None  # the table's columns; None when there is no table yet
    types: pa.Schema = field(default_factory=lambda: pa.schema([]))  # the columns that ``--types`` names
    unfit: Sequence[str] = ()  # the table's columns beside ``table``: no dump can hold a variant, nor a void
    partitions: Sequence[str] = ()  # the columns that make partitions, and in which an empty text is null

    def names(self) -> list[str]:
        """Return the table's columns and those that ``--types`` adds; nothing without a table."""
        if self.table is None:
            return []
        there = {name.lower() for name in self.table.names}
        return [*self.table.names, *[name for name in self.types.names if name.lower() not in there]]


@dataclass(frozen=True)
class Named:
    """The columns of a dump as it calls them, or as the user does."""

    schema: pa.Schema  # names and types; type null where the dump knows none
    # The places of those whose names come from a first line alone: it may be a person, and is not told.
    hidden: frozenset[int] = frozenset()
    header: tuple[str, ...] = ()  # what the first line says, where ``schema`` has other names
    file: str = ""  # the file with this line

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self.schema.names)

    def tell(self, at: int) -> str:
        """Return what messages call a column."""
        if at in self.hidden:
            return f"field {at + 1} of the first line of {self.file}"
        return f"column {show_text(self.names[at])!r}"


def name_columns(
    names: Sequence[str], *, hidden: frozenset[int] = frozenset(), header: Sequence[str] = (), file: str = ""
) -> Named:
    """Return columns of which only the names are known."""
    return Named(pa.schema([pa.field(name, pa.null()) for name in names]), hidden, tuple(header), file)


def choose_columns(named: Named, known: Known) -> pa.Schema:
    """Return a dump's columns in the table's spelling and types, in the dump's order.

    Args:
        named: The columns as the dump calls them.
        known: Where types come from: the table, else ``--types``, else the dump's own (Parquet), else text.

    Raises:
        ConfigError: A column has no name or two columns have one; the table lacks a column that ``--types`` does not
            name; ``--types`` names one that the dump lacks; a new table can have no column of the dump's type.
    """
    for at, name in enumerate(named.names, 1):
        if not name.strip():
            raise ConfigError(
                f"column {at} of the dump has no name", hint="give the names with --columns, or write the dump anew"
            )
    if twice := find_twice(named.names):
        raise ConfigError(
            f"two columns of the dump are called {show_text(named.names[twice[0]])!r}",
            hint="give them two names (case does not count)",
        )
    found = [_choose_column(named, at, known) for at in range(len(named.names))]
    there = {each.name.lower() for each in found}
    for name in known.types.names:
        if name.lower() not in there:
            meant = did_you_mean(name, [each for at, each in enumerate(named.names) if at not in named.hidden], "")
            raise ConfigError(f"--types names {show_text(name)!r}, and the dump has no such column{meant}")
    return pa.schema(found)


def find_twice(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of two columns that have one name; None where all differ."""
    seen: dict[str, int] = {}
    for at, name in enumerate(names):
        if seen.setdefault(name.lower(), at) != at:
            return seen[name.lower()], at
    return None


def _choose_column(all_named: Named, at: int, known: Known) -> pa.Field:
    named, told = all_named.schema.field(at), all_named.tell(at)
    if named.name.lower().startswith(PREFIX):
        raise _refuse_name(named.name, "enrich's own columns begin like that")
    if (unfit := find_name(named.name, known.unfit)) is not None:
        raise _refuse_type(unfit)
    if known.table is not None and (ours := find_name(named.name, known.table.names)) is not None:
        return pa.field(ours, known.table.field(ours).type)
    if (typed := find_name(named.name, known.types.names)) is not None:
        kind = known.types.field(typed).type
    elif known.table is not None:
        meant = did_you_mean(named.name, known.table.names, "")
        if at in all_named.hidden:
            hint = "correct the header, or name the column in --types to add it; for a row already, give --no-header"
            raise ConfigError(f"{told} is no column of the table{meant}", hint=hint)
        raise ConfigError(
            f"the table has no {told}{meant}", hint="correct the header, or name the column in --types to add it"
        )
    else:
        kind = find_type(named.type)
        if kind is None:
            raise ConfigError(
                f"column {show_text(named.name)!r} has the type {named.type} in the dump, which no Delta table has",
                hint="give it a type with --types, for instance string, or leave it out with --columns",
            )
    if NOT_IN_COLUMN.search(named.name):
        hint = "correct the header; --delimiter says what stands between the columns"
        if all_named.hidden:
            hint += "; --columns and --header give other names; for a row already, give --no-header"
        raise ConfigError(f"{told}: no column may have one of ,;{{}}()=` or white space in its name", hint=hint)
    if named.name.lower() in (*MERGE_COLUMNS, *FEED_COLUMNS):
        raise _refuse_name(named.name, "Delta's commands have a column of that name, so that no row could be updated")
    return pa.field(named.name, kind)


def _refuse_name(name: str, why: str) -> ConfigError:
    """Name a column that enrich or Delta has itself: such a name is nobody's value."""
    letters = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    plain = f"source_{letters or 'column'}"
    return ConfigError(
        f"column {show_text(name)!r} cannot be loaded: {why}; nothing was written",
        hint=f"give the columns of a CSV file other names with --header --columns, this one for instance {plain}; write"
        " another dump anew with such a name",
    )


def find_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that a new table has for an Arrow type; None where it has none.

    ====================================  =======================================
    a Parquet file has                    the table has
    ====================================  =======================================
    timestamp of any unit and zone        timestamp, timestamp_ntz (microseconds)
    uint8, uint16, uint32, uint64         the next greater one
    float16                               float
    nothing but nulls                     string
    time, duration, decimal of 39 digits  none
    ====================================  =======================================
    """
    if isinstance(kind, pa.BaseExtensionType):
        return find_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return find_type(kind.value_type)
    if is_one(kind, LISTS):
        item = find_type(kind.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(kind):
        key, item = find_type(kind.key_type), find_type(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_struct(kind):
        inside = [(each.name, find_type(each.type)) for each in kind]
        return None if any(found is None for _, found in inside) else pa.struct(inside)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= LONGEST_DECIMAL else None
    return next((ours for ours, theirs in _PLAIN if is_one(kind, theirs)), None)


def find_name(name: str, names: Sequence[str]) -> str | None:
    """Return the column that a name means; case counts only where it decides."""
    if name in names:
        return name
    return next((each for each in names if each.lower() == name.lower()), None)


def spell_fields(found: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return an object with its fields in the columns' spelling: exact names first, then the first that fits.

    Args:
        found: The object. A field that fits no column, or one that another field has, keeps its name.
        names: The columns, by their names in small letters.
    """
    spelled: dict[str, Any] = {}
    for name, value in found.items():
        ours = names.get(name.lower(), name)
        spelled[name if ours in found or ours in spelled else ours] = value
    return spelled


def place_columns(names: Sequence[str], wanted: Sequence[str], what: str) -> tuple[int, ...]:
    """Return where the wanted columns stand among ``names``; a ConfigError where one is not there."""
    found = []
    for name in wanted:
        there = find_name(name, names)
        if there is None:
            raise ConfigError(f"{what} has no column {show_text(name)!r}{did_you_mean(name, names)}")
        found.append(list(names).index(there))
    return tuple(found)


def is_one(kind: pa.DataType, checks: Sequence[Callable[[pa.DataType], bool]]) -> bool:
    """Tell whether a type is one of several: ``TEXTS``, ``BYTES`` or ``LISTS``."""
    return any(check(kind) for check in checks)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether an empty text is a value of a type."""
    return is_one(kind, TEXTS) or pa.types.is_binary(kind)
