"""Write a job of joins as one SQL query, as far as SQL has words for its joins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from enrich.base.spec import JoinSpec, quote
from enrich.project.expressions import read_tokens
from enrich.project.expressions.lexer import tokenize
from enrich.project.expressions.reading import KEYWORDS, AnyName
from enrich.project.query import write_tokens

_WORDS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


def write_query(spec: JoinSpec, sources: Mapping[str, str]) -> str | None:
    """Return the query that gives a job's rows; None where there is none, as for list, as-of and interval joins.

    ``sources`` are the names that FROM has, by alias. Doubled keys, normalised keys and quarantined rows are no part of
    it.
    """

    def name_table(alias: str) -> str:
        return alias if sources[alias] == alias else f"{_spell(sources[alias])} AS {alias}"

    members = [spec.driving]
    lines = [f"FROM {name_table(spec.driving)}"]
    for step in spec.steps:
        if step.kind not in ("table", "foreign_key"):
            return None
        key = spec.sources[step.alias].key
        if step.shares_key:
            ours = [_write_key(spec, members, part) for part in range(len(key))]
        else:
            ours = [_write(spec, members, text) for text in step.on]
        pairs = [f"{our} = {step.alias}.{_spell(their)}" for our, their in zip(ours, key, strict=True)]
        lines.append(f"{_WORDS[step.how]} {name_table(step.alias)} ON {' AND '.join(pairs)}")
        if step.shares_key:
            members.append(step.alias)
    columns = []
    for each in spec.outputs:
        text = _write(spec, members, each.expression)
        columns.append(text if text.rpartition(".")[2] == _spell(each.name) else f"{text} AS {_spell(each.name)}")
    if spec.where is not None:
        lines.append(f"WHERE {_write(spec, members, spec.where)}")
    return "\n".join(["SELECT " + ",\n       ".join(columns), *lines])


def _write_key(spec: JoinSpec, members: Iterable[str], part: int) -> str:
    """Write a part of the key that all table joins share."""
    columns = [f"{alias}.{_spell(spec.sources[alias].key[part])}" for alias in members]
    return columns[0] if len(columns) == 1 else f"coalesce({', '.join(columns)})"


def _write(spec: JoinSpec, members: Iterable[str], text: str) -> str:
    """Write an expression of the job as SQL means it: its ``key`` is no word there, and its names are quoted."""
    reading = read_tokens(tokenize(text), AnyName())
    instead = {}
    for place, path in reading.columns.items():
        behind = place + 2 * len(reading.paths[place]) - 1
        if path[0] == "key" and spec.has_key:
            names = [name.lower() for name in spec.key_columns]
            part = names.index(path[1].lower()) if len(path) > 1 else 0
            instead[place] = behind, _write_key(spec, members, part)
        else:
            instead[place] = behind, ".".join((path[0], *map(_spell, path[1:])))
    return write_tokens(reading.tokens[:-1], instead)


def _spell(name: str) -> str:
    """Write a name, in backticks where it is no plain word."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name.lower() not in KEYWORDS else quote(name)
