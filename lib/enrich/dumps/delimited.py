r"""Delimited text (CSV) -> batches, with the line on which every record begins.

What stands in quotes is text, also when nothing stands in them; a quote inside is doubled. An unquoted field of no
characters is null, as PostgreSQL writes it, and so is an unquoted ``\N``, as MySQL and PostgreSQL write it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from enrich.base.errors import Blocked, ConfigError
from enrich.dumps.badlines import FIELDS, SYNTAX
from enrich.dumps.batches import CHARACTERS, ROWS, Batch, Reading, find_lost
from enrich.dumps.convert import convert_texts
from enrich.dumps.files import LONGEST_LINE, DumpFile, open_lines

DELIMITERS = (",", ";", "\t", "|")
NULL = r"\N"


@dataclass
class Records:
    """The records of one file, and the lines of the last one.

    Attributes:
        lines: The file's lines.
        delimiter: One character.
        count: Lines that have been read.
        start: The line on which the last record begins.
        raw: The lines of the last record.
    """

    lines: Iterator[str]
    delimiter: str
    count: int = 0
    start: int = 0
    raw: list[str] = field(default_factory=list)

    def read(self, name: str) -> Iterator[list[str | None] | None]:
        """Return records, nulls among their fields; None for one with wrong quotes or a lone CR outside of them.

        Empty lines are left out.

        Raises:
            Blocked: A quote is not closed up to the end of the file; what it has swallowed nobody knows.
        """
        reader = csv.reader(self._follow(), delimiter=self.delimiter, strict=True)
        ends = re.escape(self.delimiter)
        fields = re.compile(rf'("[^"]*(?:""[^"]*)*"|[^{ends}\r\n]*)(?:{ends}|\r?\n|\r|$)')
        while True:
            self.start = self.count + 1
            self.raw.clear()
            try:
                found: list[str | None] = [*next(reader)]
            except StopIteration:
                return
            except csv.Error as error:
                if "unexpected end of data" in str(error) or "field larger" in str(error):
                    raise Blocked(
                        f"{name}:{self.start}: a quote is not closed; nothing was written",
                        hint="correct the line, or make the dump again: it may be cut off",
                    ) from None
                yield None
                continue
            if not found:
                continue  # an empty line
            if "" in found or NULL in found:
                self._mark_nulls(found, fields)
            yield found

    def read_header(self, name: str) -> list[str] | None:
        """Return the fields of the first record; None without any.

        Raises:
            ConfigError: It has wrong quotes, or a CR within.
        """
        for found in self.read(name):
            if found is None:
                raise ConfigError(
                    f"{name}:{self.start}: the header cannot be parsed",
                    hint="check its quotes and --delimiter; lines end with LF or CRLF, not with CR alone",
                )
            return ["" if each is None else each for each in found]
        return None

    def _follow(self) -> Iterator[str]:
        for line in self.lines:
            self.raw.append(line)
            self.count += 1
            yield line

    def _mark_nulls(self, found: list[str | None], fields: re.Pattern[str]) -> None:
        """Put null where nothing, or the mark of null, stands without quotes."""
        text = "".join(self.raw)
        shown: Sequence[str] = ()
        if '""' in text or f'"{NULL}"' in text:
            shown = [each[1] for each in fields.finditer(text)]
        for at, each in enumerate(found):
            if each in ("", NULL) and not (shown and shown[at].startswith('"')):
                found[at] = None


@contextmanager
def open_records(file: DumpFile, encoding: str, delimiter: str) -> Iterator[Records]:
    """Open a file as records; a field may be as long as a line."""
    before = csv.field_size_limit(LONGEST_LINE)
    try:
        with open_lines(file, encoding) as lines:
            yield Records(lines, delimiter)
    finally:
        csv.field_size_limit(before)


def read_header(file: DumpFile, encoding: str, delimiter: str) -> list[str] | None:
    """Return the header of a file, as ``Records.read_header``."""
    with open_records(file, encoding, delimiter) as records:
        return records.read_header(file.name)


def read_batches(file: DumpFile, records: Records, order: Sequence[int], reading: Reading) -> Iterator[Batch]:
    """Return the rows of a file, whose header has been read.

    Args:
        file: The file.
        records: Its records.
        order: For each column of ``reading.schema``, its place in a record.
        reading: Counts lines that give no row.
    """
    width = len(order)
    rows: list[list[str | None]] = []
    lines: list[int] = []
    bad: list[bool] = []
    size = 0
    for found in records.read(file.name):
        row, is_bad = found, found is not None and len(found) != width
        if row is not None and is_bad:
            row = _keep_key(row, order, reading)
        if row is None:
            reading.refuse(SYNTAX if found is None else FIELDS, file.name, records.start)
            continue
        if is_bad:
            reading.faults.add(FIELDS, file.name, [records.start])
        rows.append(row)
        lines.append(records.start)
        bad.append(is_bad)
        size += sum(map(len, records.raw))
        if len(rows) >= ROWS or size >= CHARACTERS:
            yield _convert(rows, lines, bad, order, reading.schema)
            rows, lines, bad, size = [], [], [], 0
    if rows:
        yield _convert(rows, lines, bad, order, reading.schema)


def _keep_key(row: list[str | None], order: Sequence[int], reading: Reading) -> list[str | None] | None:
    """Return the key of a record with too few fields, and nulls; None where the key may be another one.

    With too many fields, the delimiter may stand in the key without quotes: ``Smith, John,5``. With
    too few, a line break may: so the key is known when it stands first, and a delimiter behind it ends it.
    """
    places = sorted(order[at] for at in reading.key)
    if places != list(range(len(places))) or not len(places) < len(row) < len(order):
        return None
    return [*row[: len(places)], *[None] * (len(order) - len(places))]


def _convert(
    rows: list[list[str | None]], lines: list[int], bad: list[bool], order: Sequence[int], schema: pa.Schema
) -> Batch:
    fields = list(zip(*rows, strict=True))
    texts = [pa.array(fields[place], pa.string()) for place in order]
    columns = [convert_texts(each, field.type) for each, field in zip(texts, schema, strict=True)]
    wrong = [find_lost(before, after) for before, after in zip(texts, columns, strict=True)]
    return Batch(columns, wrong, lines, bad)
