"""What can be read of a job file that may hold faults, and what every check of it asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from enrich.base.errors import Fault
from enrich.config.yamlfile import PathStep, Tree

if TYPE_CHECKING:
    from enrich.config.kinds.syntax import JobSyntax

Named = tuple[str, tuple[PathStep, ...]]
"""A column that the file names, and its place."""


@dataclass(frozen=True)
class Draft:
    """What can be read of a job file that may hold faults: only sources and joins that are mappings, by alias.

    ``syntax`` is that of the job's kind; of a join job where the kind cannot be read.
    """

    syntax: JobSyntax
    tree: Tree
    root: dict[str, Any]
    sources: dict[str, dict[str, Any]]
    joins: dict[str, dict[str, Any]]
    faults: list[Fault] = field(default_factory=list)

    def fault(self, message: str, *path: PathStep) -> None:
        """Note a fault at the line of ``path``."""
        self.faults.append(Fault(message, self.tree.at(*path)))

    @property
    def driving(self) -> str | None:
        """The driving source's alias when it is one of the sources."""
        alias = self.root.get("from")
        return alias if isinstance(alias, str) and alias in self.sources else None

    def key(self, alias: str | None) -> tuple[str, ...]:
        """Return the key columns of a source; empty when they cannot be read."""
        return list_names(self.sources.get(alias or "", {}).get("key"))


def list_names(value: Any) -> tuple[str, ...]:
    """Return a name or a list of names as a tuple; empty when it is neither."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return ()


def name_once(columns: tuple[str, ...], *path: PathStep) -> Iterator[Named]:
    """Yield each column once with its place; a list that names one twice is told so by ``check_list``."""
    seen: set[str] = set()
    for index, name in enumerate(columns):
        if name.lower() not in seen:
            yield name, (*path, index)
        seen.add(name.lower())


def check_list(draft: Draft, holder: dict[str, Any], key: str, path: tuple[PathStep, ...]) -> None:
    """A list of columns or normalisers is not empty and holds none twice."""
    noun, wanted = "the column ", "name at least one column"
    if key == "normalise":
        noun, wanted = "", "name a normaliser or leave it out"
    if holder.get(key) == []:
        draft.fault(f"'{key}' is an empty list; {wanted}", *path, key)
    seen: set[str] = set()
    for index, name in enumerate(list_names(holder.get(key))):
        if name.lower() in seen:
            draft.fault(f"'{key}' names {noun}{name!r} twice", *path, key, index)
        seen.add(name.lower())
