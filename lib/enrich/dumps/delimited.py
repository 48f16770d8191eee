"""Delimited text -> batches, with the line on which every record begins; ``dialect`` says what its fields mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import Blocked, ConfigError
from enrich.dumps import files
from enrich.dumps.badlines import FIELDS, SYNTAX
from enrich.dumps.batches import CHARACTERS, ROWS, Batch, Reading
from enrich.dumps.convert import convert_texts
from enrich.dumps.dialect import BACKSLASH, Dialect
from enrich.dumps.files import DumpFile, open_lines
from enrich.dumps.marks import is_text

DELIMITERS = (",", ";", "\t", "|")

_SEPARATOR = re.compile('"?sep=(.)"?', re.IGNORECASE)
"""What Excel writes, and reads, above the header."""
_SOME = 10_000
LONGEST_TRIED = 1024 * 1024
"""Characters of a first record with which delimiters are tried: one with a quote that never ends is not read whole."""


@dataclass
class Records:
    """The records of one file, and the last one.

    Attributes:
        lines: The file's lines.
        dialect: How they are written.
        longest: Characters that a record of several lines may have.
        count: Lines that have been read.
        start: The line on which the last record begins.
        text: The last record as it stands in the file.
    """

    lines: Iterator[str]
    dialect: Dialect
    longest: int
    count: int = 0
    start: int = 0
    text: str = ""

    def read(self, name: str) -> Iterator[list[str] | None]:
        """Return the fields of each record as they stand there; None for one with wrong quotes or a lone CR.

        Empty lines are left out, and so are a first line that says what the delimiter is (Excel's ``sep=;``) and the
        line by which PostgreSQL ends a text.

        Raises:
            Blocked: A quote is not closed up to the end of the file; what it has swallowed nobody knows.
        """
        dialect = self.dialect
        ends = None if dialect.quote or not dialect.escape else f"{dialect.escape}."
        for line in self.lines:
            self.count += 1
            self.start, self.text = self.count, line.rstrip("\r\n")
            if not self.text or self.text == ends or (self.count == 1 and _SEPARATOR.fullmatch(self.text)):
                continue
            if dialect.goes_on(line):
                self.text = self._join_escaped(name, line)
            found = dialect.split(self.text)
            if found is None and dialect.quote and dialect.is_open(line):
                whole = self._join_quoted(name, line)
                found = dialect.split(self.text) if whole else None
            yield found

    def read_header(self, name: str) -> list[str] | None:
        """Return the names in the first record; None without any.

        Raises:
            ConfigError: It has wrong quotes, or a CR within.
        """
        for found in self.read(name):
            if found is None:
                raise ConfigError(
                    f"{name}:{self.start}: the header cannot be parsed",
                    hint="check its quotes and --delimiter; lines end with LF or CRLF, not with CR alone",
                )
            return ["" if each in self.dialect.nulls else self.dialect.read(each) or "" for each in found]
        return None

    def _join_quoted(self, name: str, line: str) -> bool:
        """Put the lines together over which quotes reach; tell whether they end where a field may end."""
        dialect, parts, opened = self.dialect, _Parts(line), self.count
        hint = "correct the line, or make the dump again: it may be cut off"
        other = (
            r"if a backslash escapes quotes, give --escape '\'"
            if f"{BACKSLASH}{dialect.quote}" in line
            else ("if quotes are part of the text, give --quote ''")
        )
        while True:
            line = next(self.lines, "")
            self.count += bool(line)
            if not line or parts.add(line) > self.longest:
                long = "" if not line else " within 64 MB"
                raise Blocked(
                    f"{name}:{opened}: a quote is not closed{long}; nothing was written", hint=f"{hint}; {other}"
                )
            closed = dialect.find_close(line) if dialect.quote in line else None
            if closed is None:
                continue
            rest = line[closed:].rstrip("\r\n")
            if rest and rest[0] == dialect.delimiter and dialect.is_open(line[closed + 1 :]):
                opened = self.count
                continue
            self.text = parts.join().rstrip("\r\n")
            return not rest or rest[0] == dialect.delimiter

    def _join_escaped(self, name: str, line: str) -> str:
        """Return the lines of a record of which each but the last ends with an escape."""
        parts = _Parts(line)
        while self.dialect.goes_on(line):
            line = next(self.lines, "")
            if not line:
                break
            self.count += 1
            if parts.add(line) > self.longest:
                raise files.refuse_long(name, self.start)
        return parts.join().removesuffix("\n").removesuffix("\r")  # an escaped one before it stays


class _Parts:
    """Lines that are put together, without an object for each: there may be millions before they are too long."""

    def __init__(self, line: str) -> None:
        self._joined, self._last, self._size = list[str](), [line], len(line)

    def add(self, line: str) -> int:
        """Add a line, and return how long they are together."""
        self._last.append(line)
        self._size += len(line)
        if len(self._last) >= _SOME:
            self._joined.append("".join(self._last))
            self._last.clear()
        return self._size

    def join(self) -> str:
        """Return all lines as one text."""
        return "".join([*self._joined, *self._last])


@contextmanager
def open_records(file: DumpFile, encoding: str, dialect: Dialect, longest: int | None = None) -> Iterator[Records]:
    """Open a file as records."""
    with open_lines(file, encoding) as lines:
        yield Records(lines, dialect, files.LONGEST_LINE if longest is None else longest)


def read_header(file: DumpFile, encoding: str, dialect: Dialect, longest: int | None = None) -> list[str] | None:
    """Return the header of a file, as ``Records.read_header``."""
    with open_records(file, encoding, dialect, longest) as records:
        return records.read_header(file.name)


def find_separator(file: DumpFile, encoding: str) -> str | None:
    """Return the delimiter that the first line of a file names; None where it is another line."""
    with open_lines(file, encoding) as lines:
        found = _SEPARATOR.fullmatch(next(lines, "").rstrip("\r\n"))
    return None if found is None else found[1]


def read_batches(file: DumpFile, records: Records, order: Sequence[int], reading: Reading) -> Iterator[Batch]:
    """Return the rows of a file, whose header has been read.

    Args:
        file: The file.
        records: Its records.
        order: For each column of ``reading.schema``, its place in a record.
        reading: Counts lines that give no row.
    """
    width = len(order)
    rows: list[Sequence[str | None]] = []
    lines: list[int] = []
    bad: list[bool] = []
    size = 0
    for found in records.read(file.name):
        row: Sequence[str | None] | None = found
        is_bad = found is not None and len(found) != width
        if found is None or is_bad:
            reading.marks.note_bad(records.dialect, records.text, (file.name, records.start), is_torn=found is None)
        if found is not None and is_bad:
            row = _keep_key(found, order, reading)
        if row is None:
            reading.refuse(SYNTAX if found is None else FIELDS, file.name, records.start)
            continue
        if is_bad:
            reading.faults.add(FIELDS, file.name, [records.start])
        rows.append(row)
        lines.append(records.start)
        bad.append(is_bad)
        size += len(records.text)
        if len(rows) >= ROWS or size >= CHARACTERS:
            yield _convert(_Raw(rows, lines, bad), order, reading, (file.name, records.dialect))
            rows, lines, bad, size = [], [], [], 0
    if rows:
        yield _convert(_Raw(rows, lines, bad), order, reading, (file.name, records.dialect))


def _keep_key(row: list[str], order: Sequence[int], reading: Reading) -> Sequence[str | None] | None:
    """Return the key of a record with too few fields, and nulls; None where the key may be another one.

    With too many fields, the delimiter may stand in the key without quotes: ``Smith, John,5``. With
    too few, a line break may: so the key is known when it stands first, and a delimiter behind it ends it.
    """
    places = sorted(order[at] for at in reading.key)
    if places != list(range(len(places))) or not len(places) < len(row) < len(order):
        return None
    return [*row[: len(places)], *[None] * (len(order) - len(places))]


@dataclass(frozen=True)
class _Raw:
    """Records as they stand in the file, with their lines; the fields that a bad one lacks are None."""

    rows: Sequence[Sequence[str | None]]
    lines: list[int]
    bad: list[bool]


def _convert(raw: _Raw, order: Sequence[int], reading: Reading, source: tuple[str, Dialect]) -> Batch:
    name, dialect = source
    fields = list(zip(*raw.rows, strict=True))
    columns, wrong = [], []
    for place, column in zip(order, reading.schema, strict=True):
        found = pa.array(fields[place], pa.string())
        texts, there = _read_fields(found, column.type, dialect)
        columns.append(convert_texts(texts, column.type))
        wrong.append(pc.and_(there, columns[-1].is_null()))
        reading.marks.note_column(dialect, found, wrong[-1], (name, raw.lines), is_text=is_text(column.type))
    return Batch(columns, wrong, raw.lines, raw.bad)


def _read_fields(fields: pa.Array, kind: pa.DataType, dialect: Dialect) -> tuple[pa.Array, pa.Array]:
    """Return what fields mean, and where there is a value: in a column of another type than text, nothing is null."""
    texts, there = dialect.read_column(fields)
    if is_text(kind):
        return texts, there
    trimmed = pc.utf8_trim_whitespace(fields)
    is_null = pc.or_(pc.is_in(trimmed, pa.array(dialect.nulls, pa.string())), pc.fill_null(pc.equal(texts, ""), False))
    return pc.if_else(is_null, pa.scalar(None, pa.string()), texts), pc.and_not(there, is_null)
