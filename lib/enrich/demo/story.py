"""The demo's script: made-up tables, what other systems commit to them, and what each target must then contain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from enrich.base.errors import ConfigError

STORY = Path(__file__).parent / "story"

Row = tuple[Any, ...]
"""A target row: one value a column of the section, then the reason in sections that tell one."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Table(_Part):
    """A source: its key column, and the type of each column."""

    key: str
    columns: dict[str, str]


class Commit(_Part):
    """What another system writes at once: rows by table, and deleted keys by table."""

    upsert: dict[str, list[dict[str, Any]]] = {}
    delete: dict[str, list[str]] = {}

    @property
    def tables(self) -> list[str]:
        """The tables that this touches."""
        return list(dict.fromkeys([*self.upsert, *self.delete]))


class Round(_Part):
    """Commits, a run, and what it must change.

    Attributes:
        heal: Whether the lines that `enrich doctor keys` suggests go into the job file before a full refresh.
        changed: Rows of the target that are new or different.
        gone: Keys that leave the target.
        quarantine: Rows that the quarantine must hold; None: not looked at.
    """

    title: str
    status: str
    exit_code: int = 0
    commits: tuple[Commit, ...] = ()
    heal: bool = False
    changed: tuple[Row, ...] = Field((), alias="set")
    gone: frozenset[str] = frozenset()
    quarantine: int | None = None


class Section(_Part):
    """One job's story; its file is part of the package.

    Attributes:
        runs: The jobs of each run, where it is not the one job; the last one's target is looked at.
        why: The sources whose reasons are told; a row's is that of the first of them that has no partner.
    """

    name: str
    title: str
    about: str
    job: str
    runs: tuple[str, ...] = ()
    tables: dict[str, Table]
    columns: tuple[str, ...]
    why: tuple[str, ...] = ()
    rounds: tuple[Round, ...]


def read_sections(names: tuple[str, ...] = ()) -> list[Section]:
    """Return the sections of the story in order, or those named.

    Raises:
        ConfigError: There is no section of that name.
    """
    files = sorted(STORY.glob("*.yml"))
    story = [Section.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))) for path in files]
    known = [section.name for section in story]
    for name in names:
        if name not in known:
            raise ConfigError(f"the demo has no section {name!r}", hint=f"its sections are {', '.join(known)}")
    return [section for section in story if not names or section.name in names]


def compute_expected_tables(section: Section) -> Iterator[tuple[Round, dict[Any, Row]]]:
    """Yield each round with the whole table that must stand after it, by key."""
    table: dict[Any, Row] = {}
    for each in section.rounds:
        table = {key: row for key, row in table.items() if key not in each.gone}
        table |= {row[0]: row for row in each.changed}
        yield each, table
