r"""Hold what is found out about a dump while it is read: its rows, its bad lines, and what may be meant otherwise.

Words for null, escapes and quotes are counted, never shown:

=========================================  ==================================  ==========================
in the file                                what is done with it                what is told
=========================================  ==================================  ==========================
``NULL`` or ``"\N"`` in a text column      it is loaded as a text              a warning, ``--null NULL``
``""`` in a text column, where no field    it is loaded as an empty text       a warning, ``--null '""'``
of such a column is null
``NULL`` in a column of another type       the line is bad                     ``--null NULL``
``C:\\dir`` in a text column               it is loaded as it stands           a warning, ``--dialect``
``"a \"b\" c"``                            the line is bad                     ``--escape '\'``
=========================================  ==================================  ==========================
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from enrich.dumps.result import BACKSLASH, NULLS, SHOWN, BadLines, Dialect, Notice

ROWS = 50_000
"""Rows that are held in memory at once ..."""
CHARACTERS = 16 * 1024 * 1024
"""... or fewer, when they are this long together."""

_Row = TypeVar("_Row")


@dataclass
class Records(Generic[_Row]):
    """Some records of one file as they are read, with the lines on which they begin."""

    rows: list[_Row] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    bad: list[bool] = field(default_factory=list)


def gather(found: Iterable[tuple[_Row, int, bool, int]]) -> Iterator[Records[_Row]]:
    """Put records together as far as the memory shall hold them: what they hold, line, whether bad, characters."""
    held, size = Records[_Row](), 0
    for row, line, is_bad, length in found:
        held.rows.append(row)
        held.lines.append(line)
        held.bad.append(is_bad)
        size += length
        if len(held.rows) >= ROWS or size >= CHARACTERS:
            yield held
            held, size = Records[_Row](), 0
    if held.rows:
        yield held


@dataclass(frozen=True)
class Batch:
    """Some rows of one file."""

    columns: list[pa.Array]  # the dump's columns in their types, null where a value does not convert
    wrong: list[pa.Array]  # for each column, where a value does not convert
    lines: list[int]  # the line on which each row begins; in Parquet, its number in the file
    bad: list[bool]  # where a row has another fault, which is counted already; what it has in its key is right


@dataclass
class BadLineCounts:
    """Counts the bad lines of one dump by their causes; ``lines`` are those with at least one."""

    lines: int = 0
    _counts: dict[str, int] = field(default_factory=dict)
    _first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, cause: str, name: str, lines: Sequence[int]) -> None:
        """Note lines of a file, ascending."""
        self._counts[cause] = self._counts.get(cause, 0) + len(lines)
        first = self._first.setdefault(cause, [])
        first += [f"{name}:{number}" for number in lines[: SHOWN - len(first)]]

    def list(self) -> tuple[BadLines, ...]:
        """Return the causes in the order in which they came up."""
        return tuple(BadLines(cause, count, tuple(self._first[cause])) for cause, count in self._counts.items())


# --- what may be meant otherwise -------------------------------------------------------------------------------------

_NULL = ("NULL", "null", "Null", r"\N", "(null)", "(NULL)", "[NULL]", "[null]", "<null>", "<NULL>", "#N/A")
"""Words that mean null wherever they stand; not ``NA`` or ``None``, which may be a country or an answer."""
_NO_VALUE = (*_NULL, "NA", "N/A", "n/a", "NaN", "nan", "None", "none", "nil", "NIL", "-", "--", "?")
"""Words that mean null where a number, a time or the like should stand."""
_EMPTY = ""

_WORD, _EMPTY_TEXT, _MISFIT, _ESCAPES, _QUOTED_ESCAPES, _TORN, _QUOTES = range(7)


@dataclass
class Marks:
    """Counts what may be meant otherwise while a dump is read."""

    escapes_known: bool = False  # whether the user has said what escapes; then nothing is told about it
    nulls_known: bool = False  # whether the user has said how null is written; then ``""`` is an empty text
    _counts: dict[tuple[int, str], int] = field(default_factory=dict)
    _first: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    _nulls: set[str] = field(default_factory=set)
    _dialect: Dialect = field(default_factory=Dialect)

    def _add(self, kind: int, word: str, name: str, lines: Iterable[int], count: int) -> None:
        self._counts[kind, word] = self._counts.get((kind, word), 0) + count
        first = self._first.setdefault((kind, word), [])
        for line in lines:
            if len(first) == SHOWN:
                break
            if (place := f"{name}:{line}") not in first:
                first.append(place)

    def note_column(
        self, dialect: Dialect, fields: pa.Array, wrong: pa.Array, source: tuple[str, Sequence[int]], *, is_text: bool
    ) -> None:
        """Look through one column of some records.

        Args:
            dialect: How the fields are read.
            fields: As they stand in the file.
            wrong: Where a value does not convert.
            source: The file, and the line of each record.
            is_text: Whether the column is one of texts.
        """
        self._dialect, (name, lines) = dialect, source

        def note(kind: int, word: str, where: pa.Array) -> None:
            where = pc.fill_null(where, False)
            if pc.any(where).as_py():
                numbers = pa.array(lines, pa.int64()).filter(where)[:SHOWN]
                self._add(kind, word, name, numbers.to_pylist(), pc.sum(where).as_py())

        def note_words(kind: int, fields: pa.Array, words: Sequence[str]) -> None:
            sought = pa.array([each for each in words if each not in dialect.nulls], pa.string())
            for word in fields.filter(pc.is_in(fields, sought)).unique().to_pylist():
                note(kind, word, pc.equal(fields, word))

        if not is_text:
            if pc.any(wrong).as_py():
                misfit = pc.utf8_trim_whitespace(pc.if_else(wrong, fields, pa.scalar(None, pa.string())))
                note_words(_MISFIT, misfit, _spell(_NO_VALUE, dialect))
            return
        note_words(_WORD, fields, _spell(_NULL, dialect))
        note_words(_EMPTY_TEXT, fields, _spell([_EMPTY], dialect)[1:])
        used = pc.filter(fields, pc.is_in(fields, pa.array(dialect.nulls, pa.string())))
        self._nulls.update(used.unique().to_pylist())
        if not dialect.quote:
            note(_QUOTES, "", pc.match_substring_regex(fields, '(?s)^".*"$'))
        elif not self.escapes_known and pc.any(pc.match_substring(fields, BACKSLASH)).as_py():
            # A backslash stands before what databases escape, and none is read as an escape.
            quoted, inside = pc.starts_with(fields, dialect.quote), rf"(?s)\\(?:[\\bfnrtv0\r\n]|{dialect.quote * 2}.)"
            outside = pc.match_substring_regex(fields, r"\\[\\bfnrtv0]")
            note(_ESCAPES, "", pc.and_(pc.invert(quoted), outside))
            note(_QUOTED_ESCAPES, "", pc.and_(quoted, pc.match_substring_regex(fields, inside)))

    def note_bad(self, dialect: Dialect, text: str, place: tuple[str, int], *, is_torn: bool) -> None:
        """Look through a line that cannot be parsed, or has a wrong number of fields, for the reason."""
        self._dialect = dialect
        name, line = place
        if dialect.quote and not self.escapes_known:
            if BACKSLASH + dialect.quote in text:
                self._add(_QUOTED_ESCAPES, "", name, [line], 1)
                return
            if BACKSLASH + dialect.delimiter in text or text.endswith(BACKSLASH):
                self._add(_ESCAPES, "", name, [line], 1)
                return
        if is_torn and dialect.quote and dialect.quote in text:
            self._add(_TORN, "", name, [line], 1)

    def tell(self) -> tuple[Notice, ...]:
        """Return what is to be told."""
        told = {
            _WORD: "loaded as texts",
            _EMPTY_TEXT: "loaded as empty texts",
            _MISFIT: "in columns of other types than text",
        }
        kept = [each for each in self._dialect.nulls if each and (each not in NULLS or each in self._nulls)]
        kept += [each for each in self._dialect.nulls if not each and self.nulls_known]
        found = self._list_escapes()
        for (kind, word), count in sorted(self._counts.items(), key=lambda each: (each[0][0], -each[1])):
            if kind not in told or (kind == _EMPTY_TEXT and (self.nulls_known or self._nulls)):
                continue
            option = " ".join(f"--null {shlex.quote(each)}" for each in (word, *kept))
            hint = f"if that is null, give `{option}`"
            found.append(Notice(f"fields {word} {told[kind]}", count, tuple(self._first[kind, word]), hint))
        return tuple(found)

    def _list_escapes(self) -> list[Notice]:
        def list_first(*kinds: int) -> tuple[str, ...]:
            return tuple([each for kind in kinds for each in self._first.get((kind, ""), [])][:SHOWN])

        inside, outside, torn, around = (
            self._counts.get((kind, ""), 0) for kind in (_QUOTED_ESCAPES, _ESCAPES, _TORN, _QUOTES)
        )
        found = []
        if inside or outside:
            options = [r"`--escape '\'` (within quotes, as Spark and MySQL write)"]
            options.insert(
                0 if outside and (self._dialect.delimiter == "\t" or not inside) else 1,
                "`--dialect text` (as COPY and INTO OUTFILE write by default)",
            )
            hint, what = (
                f"if these are escapes, give {' or '.join(options)}",
                "fields with backslashes, read as they stand",
            )
            found.append(Notice(what, inside + outside, list_first(_QUOTED_ESCAPES, _ESCAPES), hint))
        if torn:
            hint = "if quotes are part of the text, give `--quote ''`"
            found.append(Notice("lines with text behind a closing quote", torn, list_first(_TORN), hint))
        if around:
            hint = "if these are no part of the text, give `--quote '\"'`"
            found.append(Notice("fields loaded with quotes around them", around, list_first(_QUOTES), hint))
        return found


def _spell(words: Iterable[str], dialect: Dialect) -> list[str]:
    """Return words as they may stand in a file, without quotes and with them."""
    found = list(words)
    return found + [f"{dialect.quote}{each}{dialect.quote}" for each in found] if dialect.quote else found


# --- all of it -------------------------------------------------------------------------------------------------------


@dataclass
class Reading:
    """What has been found out about a dump while it is read."""

    schema: pa.Schema  # the dump's columns, in the spelling and types of the table
    key: tuple[int, ...]  # the positions of the key's columns
    partitions: Sequence[int] = ()  # and of the partitions' that are texts: Delta stores an empty one as null
    faults: BadLineCounts = field(default_factory=BadLineCounts)
    marks: Marks = field(default_factory=Marks)
    rows: int = 0  # rows that were read, the bad ones too
    keyless: int = 0  # bad lines of which the key is not known

    def refuse(self, cause: str, name: str, line: int) -> None:
        """Count a line that gives no row at all."""
        self.faults.add(cause, name, [line])
        self.faults.lines += 1
        self.keyless += 1
        self.rows += 1
