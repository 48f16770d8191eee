"""The demo's script: made-up tables, what other systems commit to them, and what each target must then contain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from enrich.base.errors import ConfigError

STORY = Path(__file__).parent / "story"

Row = tuple[Any, ...]
"""A target row: one value a column of the section, then the reason in sections that tell one."""


@dataclass(frozen=True)
class Table:
    """A source: its key column, and the type of each column."""

    key: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Commit:
    """What another system writes at once: rows by table, and deleted keys by table."""

    upsert: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    delete: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def tables(self) -> list[str]:
        """The tables that this touches."""
        return list(dict.fromkeys([*self.upsert, *self.delete]))


@dataclass(frozen=True)
class Round:
    """Commits, a run, and what it must change.

    Attributes:
        heal: Whether the lines that `enrich doctor keys` suggests go into the job file before a full refresh.
        changed: Rows of the target that are new or different.
        gone: Keys that leave the target.
        quarantine: Rows that the quarantine must hold; None: not looked at.
    """

    title: str
    status: str
    exit_code: int
    commits: tuple[Commit, ...]
    heal: bool
    changed: tuple[Row, ...]
    gone: frozenset[str]
    quarantine: int | None


@dataclass(frozen=True)
class Section:
    """One job's story.

    Attributes:
        runs: The jobs of each run; the last one's target is looked at.
        why: The sources whose reasons are told; a row's is that of the first of them that has no partner.
    """

    name: str
    title: str
    about: str
    job: str
    runs: tuple[str, ...]
    tables: Mapping[str, Table]
    columns: tuple[str, ...]
    why: tuple[str, ...]
    rounds: tuple[Round, ...]


def read_sections(names: tuple[str, ...] = ()) -> list[Section]:
    """Return the sections of the story in order, or those named.

    Raises:
        ConfigError: There is no section of that name.
    """
    story = [read_section(path) for path in sorted(STORY.glob("*.yml"))]
    known = [section.name for section in story]
    for name in names:
        if name not in known:
            raise ConfigError(f"the demo has no section {name!r}", hint=f"its sections are {', '.join(known)}")
    return [section for section in story if not names or section.name in names]


def read_section(path: Path) -> Section:
    """Read one section of the story; its file is part of the package."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Section(
        name=data["name"],
        title=data["title"],
        about=data["about"],
        job=data["job"],
        runs=tuple(data.get("runs", [data["job"]])),
        tables={name: Table(**table) for name, table in data["tables"].items()},
        columns=tuple(data["columns"]),
        why=tuple(data.get("why", [])),
        rounds=tuple(read_round(each) for each in data["rounds"]),
    )


def read_round(data: Mapping[str, Any]) -> Round:
    """Read one round."""
    return Round(
        title=data["title"],
        status=data["status"],
        exit_code=data.get("exit_code", 0),
        commits=tuple(Commit(**commit) for commit in data.get("commits", [])),
        heal=data.get("heal", False),
        changed=tuple(tuple(row) for row in data.get("set", [])),
        gone=frozenset(data.get("gone", [])),
        quarantine=data.get("quarantine"),
    )


def compute_expected_tables(section: Section) -> Iterator[tuple[Round, dict[Any, Row]]]:
    """Yield each round with the whole table that must stand after it, by key."""
    table: dict[Any, Row] = {}
    for each in section.rounds:
        table = {key: row for key, row in table.items() if key not in each.gone}
        table |= {row[0]: row for row in each.changed}
        yield each, table
