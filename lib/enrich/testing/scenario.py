"""A scenario as it is played: what its file says, checked against the project; given rows have their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from enrich.base.spec import DataType
from enrich.testing.models import CountsEntry, Dump, FindingEntry

TypedRow = Mapping[str, Any]
"""A row with the values that Arrow takes."""


@dataclass(frozen=True)
class WrittenRow:
    """A row as a file has it.

    Attributes:
        cells: Column -> plain value, or text of a text table.
        line: Where it stands.
    """

    cells: Mapping[str, Any]
    line: int


@dataclass(frozen=True)
class WrittenRows:
    """Rows that are expected; their types are those of the table that is found.

    Attributes:
        rows: The rows.
        line: Where they begin.
        columns: The columns that they name.
    """

    rows: tuple[WrittenRow, ...]
    line: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Given:
    """A given table.

    Attributes:
        name: Its name in the scenario's lake.
        key: Its key columns.
        columns: Column -> type.
        rows: The rows before the first round.
    """

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, DataType]
    rows: tuple[TypedRow, ...]


@dataclass(frozen=True)
class Write:
    """One Delta commit of another system.

    Attributes:
        verb: ``load``, ``insert``, ``upsert``, ``update`` or ``delete``.
        table: The table's reference.
        rows: The rows; for ``delete`` the keys; none for ``load``.
        line: Where it stands.
        dump: What ``load`` loads.
    """

    verb: str
    table: str
    rows: tuple[TypedRow, ...]
    line: int
    dump: Dump | None = None


@dataclass(frozen=True)
class ExpectedTarget:
    """What a round expects of one target.

    Attributes:
        job: The job that writes it.
        whole: All of its rows.
        changed: The rows that are new or different.
        gone: Keys that left; a mapping, or a single value.
        quarantine: The number of rows in the quarantine, or these rows.
        lines: Key of the file -> where it stands.
    """

    job: str
    whole: WrittenRows | None = None
    changed: WrittenRows | None = None
    gone: tuple[Any, ...] | None = None
    quarantine: int | WrittenRows | None = None
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ExpectedJob:
    """What a round expects of one job's result.

    Attributes:
        status: How it ends.
        findings: The findings that failed; None: not compared.
        counts: Numbers of the result.
        why: Rows with the target's key and aliases.
        lines: Key of the file -> where it stands.
    """

    status: str | None = None
    findings: tuple[FindingEntry, ...] | None = None
    counts: CountsEntry | None = None
    why: WrittenRows | None = None
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Round:
    """One round: commits, a run, and what must be there after it.

    Attributes:
        number: From 1.
        title: What it shows.
        line: Where it stands.
        commits: What other systems write before the run.
        doctor: The job that is mended before the run.
        jobs: The jobs that run.
        options: Options of the run by the names that ``enrich.run`` has for them.
        exit_code: The run's exit code.
        targets: Target's reference -> what is expected of it.
        results: Job -> what is expected of its result.
    """

    number: int
    title: str
    line: int
    commits: tuple[tuple[Write, ...], ...]
    doctor: str | None
    jobs: tuple[str, ...]
    options: Mapping[str, Any]
    exit_code: int
    exit_line: int
    targets: Mapping[str, ExpectedTarget]
    results: Mapping[str, ExpectedJob]


@dataclass(frozen=True)
class Scenario:
    """One scenario file.

    Attributes:
        file: The file as messages name it.
        title: What it shows.
        about: More about it; empty when the file says nothing.
        tables: Reference -> given table.
        jobs: The jobs that run, in their order.
        is_partial: Whether only the columns that expected rows name are compared.
        rounds: The rounds.
    """

    file: str
    title: str
    about: str
    tables: Mapping[str, Given]
    jobs: tuple[str, ...]
    is_partial: bool
    rounds: tuple[Round, ...]
