"""The query that lists the doubled keys of a source, for people: its rows stay theirs, and no message shows one."""

from __future__ import annotations

from collections.abc import Iterable

from enrich.base.result import Finding
from enrich.base.spec import TEXT_TYPE, SourceSpec, quote
from enrich.progress.task import Task

KEY_UNIQUE = "key_unique"

_FORMS = {
    "visible": r"regexp_replace({}, '[\\p{{Cc}}\\p{{Cf}}]+', '')",
    "trim": r"regexp_replace({}, '^\\p{{IsWhite_Space}}+|\\p{{IsWhite_Space}}+\\z', '')",
    "lower": "lower({})",
    "integer": r"regexp_replace({}, '^(-?[0-9]+)\\.0+\\z', '$1')",
    "unpad": "regexp_replace({}, '(?s)^0+(?=.)', '')",
}
"""Normalisers as Spark SQL writes them, after ``enrich.frames.normalise``; ``nfc`` has no function there."""


def suggest_queries(task: Task, findings: Iterable[Finding]) -> str:
    """Return the end of a sentence that lists the doubled keys of each source in which there are some; or nothing."""
    aliases = dict.fromkeys(each.source for each in findings if each.expectation == KEY_UNIQUE and each.source)
    return "".join(f". This lists the doubled keys of {alias}: {_build_query(task, alias)}" for alias in aliases)


def _build_query(task: Task, alias: str) -> str:
    table, source = task.tables[alias], task.spec.sources[alias]
    keys = ", ".join(_write_key(source, name) for name in source.key)
    filled = " AND ".join(f"{quote(name)} IS NOT NULL" for name in source.key)
    parts = (
        f"SELECT {keys}, count(*) AS count",
        f"FROM delta.{quote(table.uri)} VERSION AS OF {table.version}",
        f"WHERE {filled}",
        "GROUP BY ALL HAVING count(*) > 1",
    )
    return " ".join(parts) + (
        " (without the normaliser nfc, for which SQL has nothing)" if "nfc" in source.normalise else ""
    )


def _write_key(source: SourceSpec, name: str) -> str:
    """Return a key column as the engine sees it, after the normalisers of its source."""
    text = quote(name)
    if source.columns[name] != TEXT_TYPE or not source.normalise:
        return text
    for step in source.normalise:
        text = _FORMS[step].format(text) if step in _FORMS else text
    return f"{text} AS {quote(name)}"
