"""Read a join job: a driving source, lookups joined to it one after another, columns and a condition over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enrich.base.schemas import find
from enrich.base.spec import CompiledJob, JoinSpec, Step
from enrich.project.expressions import parse_expression
from enrich.project.expressions.reading import AnyName
from enrich.project.kinds.syntax import (
    FILTER,
    IDENTITY,
    JOIN,
    TRANSFORMATION,
    ColumnSources,
    Draft,
    JobSyntax,
    Named,
    Source,
    gather,
)

if TYPE_CHECKING:
    from enrich.project.compile import Compiler


class Joins(JobSyntax):
    """``kind: join``, or no ``kind``."""

    name = "join"
    joins = True
    rules = ("match_rate", "null_foreign_keys", "new_orphans", "mass_change")
    names_columns_in = ("select",)

    def check(self, draft: Draft) -> None:
        """Its select is not empty; each kind of join checks itself."""
        if draft.root.get("select") == {}:
            draft.fault("'select' is empty; leave it out to select every column", "select")

    def list_target_columns(self, draft: Draft) -> Iterator[Named]:
        """Yield those of ``select``."""
        yield from ((name, ("select", name)) for name in draft.tree.mapping("select"))

    def compile(self, compiler: Compiler) -> CompiledJob:
        """Resolve joins, columns and condition."""
        return compiler.compile_joins()

    def trace(self, spec: JoinSpec) -> ColumnSources:
        """Read its expressions."""
        return _Tracer(spec).trace()


@dataclass(frozen=True)
class _Tracer:
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
        return ColumnSources(direct, gather(pairs))

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
        return self.follow(parse_expression(text, AnyName()).paths)

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
