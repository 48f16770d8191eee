"""What can be read of a job file that may hold faults, and what every check of it asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from enrich.base.errors import Fault
from enrich.config.yamlfile import PathStep, Tree


@dataclass(frozen=True)
class Draft:
    """What can be read of a job file that may hold faults: only sources and joins that are mappings, by alias."""

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

    @property
    def kind(self) -> str:
        """The job's kind; that of a join job where it cannot be read."""
        found = self.root.get("kind")
        return found if found in ("mirror", "history") else "join"

    @property
    def is_mirror(self) -> bool:
        """True for ``kind: mirror``."""
        return self.kind == "mirror"

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
