"""Let a job's file say one ``query`` where others have ``from``, ``join``, ``select`` and ``where``.

When a file is read, its columns are not known: `expand_query` writes what the query says for sure, for all who look at
jobs without tables. `rewrite` writes the whole, once the tables' columns are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from enrich.base.errors import ConfigError, Fault
from enrich.base.spec import DataType
from enrich.project.kinds.syntax import list_names
from enrich.project.query import Query, find_position, read_query
from enrich.project.querynames import Meaning, resolve_query
from enrich.project.yamlfile import PathStep, Tree

if TYPE_CHECKING:
    from enrich.project.models import Job

_INSTEAD = ("from", "join", "select", "where")


@dataclass(frozen=True)
class QueryTree(Tree):
    """A job's file as if it had the words that its query stands for; places are those in the query."""

    file: Tree
    query: Query
    places: Mapping[tuple[PathStep, ...], int]  # a path in this tree -> the offset in the query

    def at(self, *path: PathStep) -> str:
        """Return ``file:line:column`` of what the query says; of all else ``file:line``, as the file has it."""
        if path[:1] == ("sources",) and len(path) > 2:
            source = next((each.source for each in self.query.named if each.alias == path[1]), path[1])
            return self.file.at("sources", source, *path[2:])
        while path and path not in self.places:
            path = path[:-1]
        return _find_spot(self.file, self.query.text, self.places[path]) if path else self.file.at("query")

    def line(self, *path: PathStep) -> int:
        """Return the line of what stands at ``path``."""
        return int(self.at(*path).split(":")[1].partition(",")[0])


def _find_spot(file: Tree, text: str, offset: int) -> str:
    """Return where an offset of the query is; of a text that is no block, YAML has moved the lines."""
    line, column = find_position(text, offset)
    if ("query",) not in file.blocks:
        return f"{file.at('query')}, line {line}, column {column} of the query"
    first, indent = file.blocks["query",]
    return f"{file.name}:{first + line - 1}:{indent + column}"


def expand_query(tree: Tree) -> tuple[Tree, list[Fault]]:
    """Return a job's file with what its query means, as far as that is known without tables, and the query's faults."""
    root = tree.mapping()
    if "query" not in root:
        return tree, []
    text, kind = root["query"], root.get("kind", "join")
    faults = [
        Fault(f"{name!r} is what the query says already; keep one of the two", tree.at(name))
        for name in _INSTEAD
        if name in root
    ]
    if kind != "join":
        faults.append(Fault(f"a query is a job of joins, not of kind {kind!r}; leave 'kind' out", tree.at("kind")))
    if not isinstance(text, str):
        faults.append(Fault("'query' must be text: one SELECT, best as a block behind 'query: |'", tree.at("query")))
    if faults:
        return tree, faults
    sources = tree.mapping("sources")
    query = read_query(text, sources)
    if query.faults:
        return tree, _place(query.faults, tree, text)
    keys = {alias: list_names(tree.mapping("sources", alias).get("key")) for alias in sources}
    used = {each.source for each in query.named}
    if not all(keys[alias] for alias in used):  # a fault of its own, which the model tells
        return replace(tree, value={"from": query.named[0].source, **root}), []
    meaning = resolve_query(query, sources, keys, None, at_a_glance=True)
    if meaning.faults:
        return tree, _place(meaning.faults, tree, text)
    rest = {name: value for name, value in sources.items() if name not in used}
    parts = {**meaning.parts, "sources": {**meaning.parts["sources"], **rest}}
    value = {**root, **parts}
    return QueryTree(tree.name, value, tree.lines, tree.texts, tree.blocks, tree, query, meaning.places), []


def list_sources(job: Job) -> dict[str, str]:
    """Return what a job's file calls the source of each alias: a query may give it an alias of its own."""
    renamed = {each.alias: each.source for each in job._tree.query.named} if isinstance(job._tree, QueryTree) else {}
    return {alias: renamed.get(alias, alias) for alias in job.sources}


def rewrite(job: Job, tables: Mapping[str, dict[str, DataType]] | None) -> Job:
    """Return the job that a query means over its tables' columns, if given; a ConfigError has all its faults."""
    tree = cast(QueryTree, job._tree)
    sources = tree.file.mapping("sources")
    keys = {alias: list_names(source["key"]) for alias, source in sources.items()}
    meaning = resolve_query(tree.query, sources, keys, tables)
    if meaning.faults:
        raise ConfigError.of(_place(meaning.faults, tree.file, tree.query.text))
    return _replace_parts(job, meaning, replace(tree, places=meaning.places))


def _replace_parts(job: Job, meaning: Meaning, tree: QueryTree) -> Job:
    parts: dict[str, Any] = {
        "join": {alias: type(job).read_join(join) for alias, join in meaning.parts["join"].items()},
        "select": meaning.parts.get("select"),
        "where": meaning.parts.get("where"),
    }
    found = job.model_copy(update=parts)
    found._tree, found._stars = tree, meaning.stars
    return found


def _place(faults: list[tuple[int, str]], tree: Tree, text: str) -> list[Fault]:
    return [Fault(message, _find_spot(tree, text, at)) for at, message in faults]
