"""Read a join job: a driving source, lookups joined to it one after another, columns and a condition over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from enrich.base.schemas import find
from enrich.base.spec import CompiledJob, JoinSpec
from enrich.project.expressions import parse_expression
from enrich.project.expressions.reading import AnyName
from enrich.project.kinds.syntax import IDENTITY, TRANSFORMATION, ColumnSources, Draft, JobSyntax, Named, Source

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
        """Follow its expressions."""
        found, lists = {}, _find_lists(spec)
        # Keys that are brought into one form are not taken as they are.
        keys = {(source.alias, name) for source in spec.sources.values() if source.normalise for name in source.key}
        for output in spec.outputs:
            columns = dict.fromkeys(_follow(spec, output.paths))
            plain = output.is_plain and len(columns) == 1 and not any(c in keys or c[0] in lists for c in columns)
            found[output.name] = dict.fromkeys(columns, IDENTITY if plain else TRANSFORMATION)
        return found


def _find_lists(spec: JoinSpec) -> dict[str, str]:
    return {step.alias: step.elements for step in spec.steps if step.elements is not None}


def _follow(spec: JoinSpec, paths: Iterable[tuple[str, ...]]) -> Iterator[Source]:
    """Yield the columns that are meant by what an expression refers to."""
    lists = _find_lists(spec)
    for alias, *rest in sorted(paths):
        if alias == "key" and spec.has_key:  # all tables that may bring a row by themselves
            names = spec.key_columns
            place = names.index(find(rest[0], names) or names[0]) if rest else 0
            sides = [step.alias for step in spec.steps if step.shares_key and step.keeps_right]
            yield from ((side, spec.sources[side].key[place]) for side in (spec.driving, *sides))
        elif alias in lists:
            yield from _follow(spec, parse_expression(lists[alias], AnyName()).paths)
            yield from ((alias, name) for name in spec.sources[alias].columns)
        elif alias in spec.sources and rest:
            yield alias, find(rest[0], spec.sources[alias].columns) or rest[0]
