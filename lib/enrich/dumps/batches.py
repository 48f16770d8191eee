"""Rows of a dump on their way from a file to the stage."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from enrich.dumps.badlines import BadLineCounts
from enrich.dumps.marks import Marks

ROWS = 50_000
"""Rows that are held in memory at once ..."""
CHARACTERS = 16 * 1024 * 1024
"""... or fewer, when they are this long together."""


@dataclass(frozen=True)
class Batch:
    """Some rows of one file.

    Attributes:
        columns: The dump's columns in their types, null where a value does not convert.
        wrong: For each column, where a value does not convert.
        lines: The line on which each row begins; in Parquet, its number in the file.
        bad: Where a row has another fault, which is counted already; what it has in its key is right.
    """

    columns: list[pa.Array]
    wrong: list[pa.Array]
    lines: list[int]
    bad: list[bool]


@dataclass
class Reading:
    """What has been found out about a dump while it is read.

    Attributes:
        schema: The dump's columns, in the spelling and types of the table.
        key: The positions of the key's columns.
        faults: The bad lines.
        marks: What may be meant otherwise than it was read.
        rows: Rows that were read, the bad ones too.
        keyless: Bad lines of which the key is not known.
    """

    schema: pa.Schema
    key: tuple[int, ...]
    faults: BadLineCounts = field(default_factory=BadLineCounts)
    marks: Marks = field(default_factory=Marks)
    rows: int = 0
    keyless: int = 0

    def refuse(self, cause: str, name: str, line: int) -> None:
        """Count a line that gives no row at all."""
        self.faults.add(cause, name, [line])
        self.faults.lines += 1
        self.keyless += 1
        self.rows += 1


def find_lost(before: pa.Array, after: pa.Array) -> pa.Array:
    """Tell where a value was and none is any more."""
    return pc.and_(before.is_valid(), after.is_null())
