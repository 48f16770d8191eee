"""From which columns each column of a target comes: read off the compiled job, in the words of OpenLineage.

email: accounts.contact_mail_address    ->  email        accounts.contact_mail_address   DIRECT    IDENTITY
join: accounts by consents' key         ->  whole table  consents.customer_id            INDIRECT  JOIN
where: products.price > 0               ->  whole table  products.price                  INDIRECT  FILTER
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from enrich.base.schemas import find
from enrich.base.spec import HistorySpec, JobSpec, JoinSpec, MirrorSpec, Step
from enrich.expressions import parse_expression

IDENTITY, TRANSFORMATION, AGGREGATION = "IDENTITY", "TRANSFORMATION", "AGGREGATION"
JOIN, FILTER, GROUP_BY, SORT = "JOIN", "FILTER", "GROUP_BY", "SORT"

Source = tuple[str, str]
"""Alias and column."""


@dataclass(frozen=True)
class ColumnSources:
    """Where the rows of a target come from, column by column.

    Attributes:
        direct: Target column -> (alias, column) -> ``IDENTITY``, ``TRANSFORMATION`` or ``AGGREGATION``.
        indirect: (alias, column) -> what it decides for all rows: ``JOIN``, ``FILTER``, ``GROUP_BY``, ``SORT``.
    """

    direct: Mapping[str, Mapping[Source, str]]
    indirect: Mapping[Source, tuple[str, ...]]


def trace_columns(spec: JobSpec) -> ColumnSources:
    """Return which columns of which sources each column of the target, and the choice of its rows, comes from."""
    if isinstance(spec, HistorySpec):
        return _trace_history(spec)
    return _trace_mirror(spec) if isinstance(spec, MirrorSpec) else _Joins(spec).trace()


def _trace_history(spec: HistorySpec) -> ColumnSources:
    """The times come from no column. One version is what a key's columns say while none of them changes."""
    direct: dict[str, dict[Source, str]] = {name: {(spec.driving, name): IDENTITY} for name in spec.source.columns}
    times = {name: dict[Source, str]() for name in (spec.valid_from, spec.valid_to)}
    found = {**direct, **times}
    pairs = [((spec.driving, name), GROUP_BY) for name in (*spec.key, *spec.tracked)]
    return ColumnSources({name: found[name] for name in spec.columns}, _gather(pairs))


def _gather(pairs: Iterable[tuple[Source, str]]) -> dict[Source, tuple[str, ...]]:
    found: dict[Source, tuple[str, ...]] = {}
    for source, word in pairs:
        if word not in found.get(source, ()):
            found[source] = (*found.get(source, ()), word)
    return found


def _trace_mirror(spec: MirrorSpec) -> ColumnSources:
    master, collects = spec.driving, spec.conflict == "collect"
    direct: dict[str, dict[Source, str]] = {name: {(master, name): IDENTITY} for name in (*spec.value, *spec.extra)}
    if collects and len(spec.key) > 1:
        direct["keys"] = {(master, name): AGGREGATION for name in spec.key}
    else:
        direct |= {name: {(master, name): AGGREGATION if collects else IDENTITY} for name in spec.key}
    chooses = spec.conflict in ("first", "last")
    order = ([spec.order] if spec.order is not None else []) + list(spec.key) if chooses else []
    pairs = [((master, name), GROUP_BY) for name in spec.value] + [((master, name), SORT) for name in order]
    return ColumnSources(direct, _gather(pairs))


@dataclass(frozen=True)
class _Anything:
    """A scope that knows every name: the expressions were checked when the job was compiled."""

    reserved: frozenset[str] = field(default_factory=frozenset)

    def resolve(self, parts: tuple[str, ...], where: str) -> tuple[str, ...]:  # noqa: ARG002 - the parser's interface
        return parts


@dataclass(frozen=True)
class _Joins:
    """Traces one join job."""

    spec: JoinSpec

    def trace(self) -> ColumnSources:
        direct = {}
        for output in self.spec.outputs:
            columns = dict.fromkeys(self.follow(output.paths))
            plain = output.is_plain and len(columns) == 1 and not any(self.changes(each) for each in columns)
            direct[output.name] = dict.fromkeys(columns, IDENTITY if plain else TRANSFORMATION)
        pairs = [(source, JOIN) for step in self.spec.steps for source in self.join(step)]
        if self.spec.where is not None:
            pairs += [(source, FILTER) for source in self.read(self.spec.where)]
        return ColumnSources(direct, _gather(pairs))

    def changes(self, source: Source) -> bool:
        """Return whether a column is not taken as it is: keys that are brought into one form, lists."""
        spec = self.spec.sources[source[0]]
        return bool(spec.normalise and source[1] in spec.key) or self.list_step(source[0]) is not None

    def list_step(self, alias: str) -> Step | None:
        return next((step for step in self.spec.steps if step.alias == alias and step.elements is not None), None)

    def join(self, step: Step) -> Iterator[Source]:
        """Yield what decides which rows a join puts together."""
        texts = step.references if step.elements is None else (step.elements,)
        texts += (step.gone,) if step.gone is not None else ()
        if step.shares_key:
            yield from ((self.spec.driving, name) for name in self.spec.key_columns)
        near = step.interval
        for text in (*texts, *((near.at,) if near is not None else ())):
            yield from self.read(text)
        names = (*near.match, near.time) if near is not None else self.spec.sources[step.alias].key
        yield from ((step.alias, name) for name in names)
        if step.valid_to is not None:
            yield step.alias, step.valid_to

    def read(self, text: str) -> Iterator[Source]:
        """Yield the columns that an expression reads."""
        return self.follow(parse_expression(text, _Anything()).paths)

    def follow(self, paths: Iterable[tuple[str, ...]]) -> Iterator[Source]:
        """Yield the columns that are meant by what an expression refers to."""
        for alias, *rest in sorted(paths):
            if alias == "key" and self.spec.has_key:
                yield from self.key(rest)
            elif step := self.list_step(alias):
                yield from self.read(step.elements or "")
                yield from ((alias, name) for name in self.spec.sources[alias].columns)
            elif alias in self.spec.sources and rest:
                yield alias, find(rest[0], self.spec.sources[alias].columns) or rest[0]

    def key(self, rest: list[str]) -> Iterator[Source]:
        """Yield the columns of the coalesced key: those of all tables that may bring a row by themselves."""
        names = self.spec.key_columns
        wanted = find(rest[0], names) if rest else names[0]
        sides = [step.alias for step in self.spec.steps if step.shares_key and step.keeps_right]
        for alias in (self.spec.driving, *sides):
            yield alias, self.spec.sources[alias].key[names.index(wanted or names[0])]
