"""Read a join job: a driving source, lookups joined to it one after another, columns and a condition over them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from enrich.base.schemas import find
from enrich.base.spec import CompiledJob, JoinSpec, quote
from enrich.project.expressions import parse_expression, read_tokens
from enrich.project.expressions.lexer import tokenize
from enrich.project.expressions.reading import KEYWORDS, AnyName
from enrich.project.kinds.syntax import IDENTITY, TRANSFORMATION, ColumnSources, Draft, JobSyntax, Source
from enrich.project.query import write_tokens

if TYPE_CHECKING:
    from enrich.project.compile import Compiler


_WORDS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


class Joins(JobSyntax):
    """``kind: join``, or no ``kind``."""

    name = "join"
    joins = selects = True
    rules = ("match_rate", "null_foreign_keys", "new_orphans", "mass_change")
    names_columns_in = ("select",)

    def check(self, draft: Draft) -> None:
        """Its select is not empty; each kind of join checks itself."""
        if draft.root.get("select") == {}:
            draft.fault("'select' is empty; leave it out to select every column", "select")

    def compile(self, compiler: Compiler) -> CompiledJob:
        """Resolve joins, columns and condition."""
        return compiler.compile_joins()

    def write_query(self, spec: JoinSpec, sources: Mapping[str, str]) -> str | None:
        """Write it, if it has table and foreign-key joins only: list, as-of and interval joins have no words in SQL.

        Doubled keys, normalised keys and quarantined rows are no part of the query.
        """
        from enrich.project.kinds import JOINS

        if not all(JOINS[step.kind].in_sql for step in spec.steps):
            return None
        members = [spec.driving]
        lines = [f"FROM {name_table(sources, spec.driving)}"]
        for step in spec.steps:
            key = spec.sources[step.alias].key
            if step.shares_key:
                ours = [_write_key(spec, members, part) for part in range(len(key))]
            else:
                ours = [_write(spec, members, text) for text in step.on]
            theirs = [f"{spell_name(step.alias)}.{spell_name(column)}" for column in key]
            pairs = [" = ".join(pair) for pair in zip(ours, theirs, strict=True)]
            lines.append(f"{_WORDS[step.how]} {name_table(sources, step.alias)} ON {' AND '.join(pairs)}")
            if step.shares_key:
                members.append(step.alias)
        columns = []
        for each in spec.outputs:
            text, name = _write(spec, members, each.expression), spell_name(each.name)
            columns.append(text if text.rpartition(".")[2] == name else f"{text} AS {name}")
        if spec.where is not None:
            lines.append(f"WHERE {_write(spec, members, spec.where)}")
        return "\n".join(["SELECT " + ",\n       ".join(columns), *lines])

    def find_origins(self, spec: JoinSpec) -> ColumnSources:
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


def _write_key(spec: JoinSpec, members: Iterable[str], part: int) -> str:
    """Write a part of the key that all table joins share."""
    columns = [f"{spell_name(alias)}.{spell_name(spec.sources[alias].key[part])}" for alias in members]
    return columns[0] if len(columns) == 1 else f"coalesce({', '.join(columns)})"


def _write(spec: JoinSpec, members: Iterable[str], text: str) -> str:
    """Write an expression of the job as SQL means it: its ``key`` is no word there, and its names are quoted."""
    reading = read_tokens(tokenize(text), AnyName())
    instead: dict[int, tuple[int, str]] = {}
    for place, path in reading.columns.items():
        behind = place + 2 * len(reading.paths[place]) - 1
        if path[0] == "key" and spec.has_key:
            part = [each.lower() for each in spec.key_columns].index(path[1].lower()) if len(path) > 1 else 0
            instead |= reading.exchange(place, behind, _write_key(spec, members, part), reading.paths[place][-1])
        else:
            instead[place] = behind, ".".join(map(spell_name, path))
    return write_tokens(reading.tokens[:-1], instead)


def name_table(sources: Mapping[str, str], alias: str) -> str:
    """Write a table of a query, by its name in ``sources``, and its alias where that is another one."""
    own, name = spell_name(sources[alias]), spell_name(alias)
    return own if own == name else f"{own} AS {name}"


def spell_name(name: str) -> str:
    """Write a name as a query has it: in backticks where it is no plain word."""
    is_word = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name.lower() not in KEYWORDS | {"lateral", "values"}
    return name if is_word else quote(name)
