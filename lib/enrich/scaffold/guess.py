"""Guess how tables refer to one another: keys from uniqueness, references from names of columns and from matches.

    orders(order_id, customer_id), customers(customer_id, name)
    -> orders: key order_id; customers: key customer_id; orders.customer_id refers to customers

A guess never decides anything by itself: it is written into a job file, with what it rests on, for a person to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from enrich.base.console import format_count
from enrich.base.errors import ConfigError
from enrich.base.schemas import fields_of, kind_of, strip_type
from enrich.base.spec import TEXT_TYPE, DataType
from enrich.storage import probe, tables
from enrich.storage.probe import SAMPLED_ROWS

_KEY_TYPES = frozenset({"string", "byte", "short", "integer", "long", "date"})
_MOST_COLUMNS = 24
"""Columns that are tried as a key, the likeliest first."""
_MOST_IN_PAIRS = 6
_ENDINGS = ("id", "key", "code", "uuid", "number", "no", "nr")
_GENERIC = frozenset({"id", "key", "code", "uuid", "guid", "number", "pk"})
_LEAST = {"ends like": 0.05, "holds values of": 0.5}
"""The share of matches that a column needs whose name alone does not say what it refers to."""


@dataclass(frozen=True)
class KnownTable:
    """A table as the guesses see it.

    Attributes:
        alias: What the job file calls it.
        reference: How the job file names it.
        columns: Name -> Delta type.
        key: The guessed key.
        basis: What the guess rests on.
    """

    alias: str
    reference: str
    uri: str
    columns: Mapping[str, DataType]
    key: tuple[str, ...]
    basis: str


@dataclass(frozen=True)
class Link:
    """A guessed join.

    Attributes:
        source: The table that refers; one that is joined already, or the driving one.
        column: Its column.
        lookup: The table that it refers to.
        basis: What the guess rests on.
        share: How many of the values that were looked up are keys, 0 to 1; None where there was none.
        field: Of a list of structs, the field that holds the key.
        shares_key: Whether the column is the key of its table, so that a table join fits.
        is_list: Whether the column is a list.
    """

    source: KnownTable
    column: str
    lookup: KnownTable
    basis: str
    share: float | None
    field: str | None = None
    shares_key: bool = False
    is_list: bool = False


def fold(name: str) -> str:
    """Return a name without case, blanks and underscores."""
    return re.sub(r"[\W_]", "", name).lower()


def find_singular(name: str) -> str:
    """Return the singular of a table's name, as far as English endings tell: ``categories`` -> ``category``."""
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if name.endswith(ending) and not name.endswith("ss") and len(name) > len(ending) + 1:
            return name.removesuffix(ending) + instead
    return name


def list_subjects(alias: str) -> list[str]:
    """Return what the names of keys may call the rows of a table: ``customer_accounts`` -> customeraccount, account."""
    words = re.split(r"[\W_]+", alias.lower())
    found = [find_singular("".join(words)), "".join(words), find_singular(words[-1])]
    return list(dict.fromkeys(word for word in found if word))


def read_table(alias: str, reference: str, uri: str) -> KnownTable:
    """Read a table's columns and guess its key.

    Raises:
        ConfigError: There is no table, or no column can be a key.
    """
    columns = tables.read_state(uri).columns
    simple = [name for name, kind in columns.items() if isinstance(kind, str) and kind in _KEY_TYPES]
    likely = sorted(simple, key=lambda name: _rank(name, alias))
    if not likely:
        raise ConfigError(f"{uri} has no column that can be a key", hint="write the job file by hand")
    rows = probe.count_rows(uri)
    if not rows:
        return KnownTable(
            alias, reference, uri, columns, (likely[0],), "the table is empty: guessed from the name alone"
        )
    seen = f"all {rows:,} rows" if rows <= SAMPLED_ROWS else f"the first {SAMPLED_ROWS:,} of {rows:,} rows"
    for key in (*((name,) for name in likely[:_MOST_COLUMNS]), *combinations(likely[:_MOST_IN_PAIRS], 2)):
        if probe.measure_uniqueness(uri, key).is_key:
            together = " are together" if len(key) > 1 else " is"
            return KnownTable(alias, reference, uri, columns, key, f"{' and '.join(key)}{together} unique in {seen}")
    found = probe.measure_uniqueness(uri, likely[:1])
    values = format_count(found.keys, "different value")
    basis = f"NO KEY WAS FOUND: {likely[0]} has {values} in {seen}; correct it before you run"
    return KnownTable(alias, reference, uri, columns, (likely[0],), basis)


def _rank(column: str, alias: str) -> int:
    """Return how likely a column's name is that of the key of its table, the likeliest first."""
    name = fold(column)
    for subject in list_subjects(alias):
        if name in [subject + ending for ending in _ENDINGS]:
            return 0
    if name in _GENERIC:
        return 1
    return 2 if name.endswith(_ENDINGS) else 3


def find_links(found: Sequence[KnownTable]) -> tuple[KnownTable, list[Link]]:
    """Return the driving table and the joins that reach the most others from it, in the order in which they apply.

    The driving table is the first from which the most others can be reached.
    """
    links = [link for each in found for other in found if each is not other for link in _guess_links(each, other)]
    reached = {each.alias: _reach(each, links) for each in found}
    driving = max(found, key=lambda each: len(reached[each.alias]))  # of several the first
    return driving, reached[driving.alias]


def _reach(driving: KnownTable, links: Sequence[Link]) -> list[Link]:
    """Return a join for each table that can be reached, the best first; table and list joins from ``driving`` alone."""
    chosen: list[Link] = []
    while True:
        known = [driving.alias, *(link.lookup.alias for link in chosen)]
        possible = [
            link
            for link in links
            if link.source.alias in known
            and link.lookup.alias not in known
            and (link.source is driving or not (link.shares_key or link.is_list))
        ]
        if not possible:
            return chosen
        chosen.append(max(possible, key=lambda link: (link.share or 0, -known.index(link.source.alias))))


def _guess_links(source: KnownTable, lookup: KnownTable) -> Iterator[Link]:
    """Yield how one table may refer to another, by names and types; then by matches."""
    if len(lookup.key) > 1:
        return
    (key,) = lookup.key
    for column, field, kind in _list_references(source):
        is_list = kind_of(source.columns[column]) == "array"
        if strip_type(kind) != strip_type(lookup.columns[key]):
            continue
        likeness = _compare_names(field or column, lookup, is_list=is_list and field is None)
        if likeness is None and field is not None:  # `lines: [{id: ...}]` may say of what they are by the list's name
            likeness = _compare_names(column, lookup, is_list=True) if fold(field) in _GENERIC else None
        if likeness is None and is_list and kind == TEXT_TYPE:
            likeness = "holds values of"
        if likeness is None:
            continue
        shared = (column,) == source.key and fold(column) == fold(key) and not is_list
        matches = probe.measure_matches(source.uri, column, (lookup.uri, key), is_list=is_list, field=field)
        share = matches.found / matches.values if matches.values else None
        if (share or 0) < _LEAST.get(likeness, 0):
            continue
        counted = f"{matches.found:,} of {matches.values:,} different values are in {lookup.alias}"
        name = column if field is None else f"{field} in {column}"
        basis = f"{name} {likeness} the key {key} of {lookup.alias}; {counted if matches.values else 'it has no value'}"
        yield Link(source, column, lookup, basis, share, field, shares_key=shared, is_list=is_list)


def _list_references(source: KnownTable) -> Iterator[tuple[str, str | None, DataType]]:
    """Yield what may hold a key: columns, elements of lists, and fields of structs in lists, with their types."""
    for column, kind in source.columns.items():
        if isinstance(kind, str) or kind_of(kind) != "array":
            yield column, None, kind
            continue
        element: DataType = kind["elementType"]
        if isinstance(element, str):
            yield column, None, element
        elif kind_of(element) == "struct":
            yield from ((column, name, each) for name, each in (fields_of(element) or {}).items())


def _compare_names(column: str, lookup: KnownTable, *, is_list: bool) -> str | None:
    """Return how the name of a column resembles that of a lookup's key; None where it does not."""
    name, key = fold(column), fold(lookup.key[0])
    if is_list:
        name = fold(find_singular(column.lower()))
    subjects = list_subjects(lookup.alias)
    names = {subject + ending for subject in subjects for ending in _ENDINGS} | {s + key for s in subjects}
    names |= set(subjects) | ({key} if key not in _GENERIC else set())
    if name in names:
        return "has the name of"
    return "ends like" if any(name.endswith(each) for each in names if len(each) > 2) else None
