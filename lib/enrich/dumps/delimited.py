"""Read delimited text in batches, with the line on which each record begins; ``dialect`` says what fields mean."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import Blocked, ConfigError
from enrich.dumps import files
from enrich.dumps.convert import convert_texts
from enrich.dumps.files import DumpFile, open_lines
from enrich.dumps.layout import is_text
from enrich.dumps.reading import Batch, Reading, gather
from enrich.dumps.result import BACKSLASH, FIELDS, SYNTAX, Dialect

DELIMITERS = (",", ";", "\t", "|")

SEPARATOR = re.compile('"?sep=(.)"?', re.IGNORECASE)  # what Excel writes, and reads, above the header
LONGEST_TRIED = 1024 * 1024
"""Characters of a first record with which delimiters are tried: one with a quote that never ends is not read whole."""


@dataclass
class RecordReader:
    """Reads the records of one file, and holds the last one."""

    lines: Iterator[str]
    dialect: Dialect
    longest: int  # characters that a record of several lines may have
    count: int = 0  # lines that have been read
    start: int = 0  # the line on which the last record begins
    text: str = ""  # the last record as it stands in the file

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
            if not self.text or self.text == ends or (self.count == 1 and SEPARATOR.fullmatch(self.text)):
                continue
            if dialect.goes_on(line):  # each line of the record but the last ends with an escape
                parts = _hold(line)
                while dialect.goes_on(line) and (line := next(self.lines, "")):
                    self.count += 1
                    parts.write(line)
                    if parts.tell() > self.longest:
                        raise files.refuse_long(name, self.start)
                self.text = parts.getvalue().removesuffix("\n").removesuffix("\r")  # an escaped one before it stays
            found = dialect.split(self.text)
            if found is None and dialect.quote and dialect.is_open(line):
                whole = self._join_quoted(name, line)
                found = dialect.split(self.text) if whole else None
            yield found

    def read_header(self, name: str) -> list[str] | None:
        """Return the names in the first record, None without any; wrong quotes or a CR in it are a ConfigError."""
        for found in self.read(name):
            if found is None:
                raise ConfigError(
                    f"{name}:{self.start}: the header cannot be parsed",
                    hint="check its quotes and --delimiter; lines end with LF or CRLF, not with CR alone",
                )
            return ["" if each in self.dialect.nulls else self.dialect.read(each) or "" for each in found]
        return None

    def has_late_quote(self) -> bool:
        """Tell whether a field of the last record has a quote, and does not begin with it."""
        quote = self.dialect.quote
        fields = self.dialect.split(self.text) or [] if quote else []
        return any(quote in each and not each.startswith(quote) for each in fields)

    def _join_quoted(self, name: str, line: str) -> bool:
        """Put the lines together over which quotes reach; tell whether they end where a field may end."""
        dialect, parts, opened = self.dialect, _hold(line), self.count
        hint = "correct the line, or make the dump again: it may be cut off"
        other = (
            r"if a backslash escapes quotes, give --escape '\'"
            if f"{BACKSLASH}{dialect.quote}" in line
            else ("if quotes are part of the text, give --quote ''")
        )
        while True:
            line = next(self.lines, "")
            self.count += bool(line)
            parts.write(line)
            if not line or parts.tell() > self.longest:
                long = "" if not line else " within 64 MB"
                raise Blocked(
                    f"{name}:{opened}: a quote is not closed{long}; nothing was written", hint=f"{hint}; {other}"
                )
            closed = dialect.closes.match(line) if dialect.quote in line else None
            if closed is None:
                continue
            rest = line[closed.end() :].rstrip("\r\n")
            if rest and rest[0] == dialect.delimiter and dialect.is_open(line[closed.end() + 1 :]):
                opened = self.count
                continue
            self.text = parts.getvalue().rstrip("\r\n")
            return not rest or rest[0] == dialect.delimiter


def _hold(line: str) -> io.StringIO:
    """Return a buffer with a line: there may be millions before they are too long together."""
    buffer = io.StringIO(newline="")
    buffer.write(line)
    return buffer


@contextmanager
def open_records(file: DumpFile, encoding: str, dialect: Dialect, longest: int | None = None) -> Iterator[RecordReader]:
    """Open a file as records."""
    with open_lines(file, encoding) as lines:
        yield RecordReader(lines, dialect, files.LONGEST_LINE if longest is None else longest)


def read_header(file: DumpFile, encoding: str, dialect: Dialect, longest: int | None = None) -> list[str] | None:
    """Return the header of a file, as ``RecordReader.read_header``."""
    with open_records(file, encoding, dialect, longest) as records:
        return records.read_header(file.name)


def read_batches(file: DumpFile, records: RecordReader, order: Sequence[int], reading: Reading) -> Iterator[Batch]:
    """Return the rows of a file whose header has been read; ``order`` has the place of each column in a record."""
    for each in gather(_read_rows(file, records, order, reading)):
        fields = list(zip(*each.rows, strict=True))
        columns, wrong = [], []
        for place, column in zip(order, reading.schema, strict=True):
            found = pa.array(fields[place], pa.string())
            texts, there = records.dialect.read_column(found)
            if not is_text(column.type):  # of another type, a text that is empty or blank around a null is null, too
                trimmed = pc.utf8_trim_whitespace(found)
                is_null = pc.is_in(trimmed, pa.array(records.dialect.nulls, pa.string()))
                is_null = pc.or_(is_null, pc.fill_null(pc.equal(texts, ""), False))
                texts, there = pc.if_else(is_null, pa.scalar(None, pa.string()), texts), pc.and_not(there, is_null)
            columns.append(convert_texts(texts, column.type))
            wrong.append(pc.and_(there, columns[-1].is_null()))
            source = (file.name, each.lines)
            reading.marks.note_column(records.dialect, found, wrong[-1], source, is_text=is_text(column.type))
        yield Batch(columns, wrong, each.lines, each.bad)


def _read_rows(
    file: DumpFile, records: RecordReader, order: Sequence[int], reading: Reading
) -> Iterator[tuple[Sequence[str | None], int, bool, int]]:
    """Yield records as they stand in the file; the fields that a bad one lacks are None."""
    for found in records.read(file.name):
        row: Sequence[str | None] | None = found
        is_bad = found is not None and len(found) != len(order)
        if found is None or is_bad:
            reading.marks.note_bad(records.dialect, records.text, (file.name, records.start), is_torn=found is None)
        if found is not None and is_bad:
            # With too many fields, the delimiter may stand in the key without quotes: `Smith, John,5`. With too few, a
            # line break may: so the key is known when it stands first, and a delimiter behind it ends it.
            places = sorted(order[at] for at in reading.key)
            is_known = places == list(range(len(places))) and len(places) < len(found) < len(order)
            row = [*found[: len(places)], *[None] * (len(order) - len(places))] if is_known else None
        if row is None:
            reading.refuse(SYNTAX if found is None else FIELDS, file.name, records.start)
            continue
        if is_bad:
            reading.faults.add(FIELDS, file.name, [records.start])
        yield row, records.start, is_bad, len(records.text)
