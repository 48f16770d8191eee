r"""What stands in a dump's fields that may be meant otherwise: words for null, escapes, quotes; counted, never shown.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from enrich.dumps.badlines import SHOWN
from enrich.dumps.dialect import BACKSLASH, NULLS, Dialect
from enrich.dumps.layout import TEXTS, is_one

_NULL = ("NULL", "null", "Null", r"\N", "(null)", "(NULL)", "[NULL]", "[null]", "<null>", "<NULL>", "#N/A")
"""Words that mean null wherever they stand; not ``NA`` or ``None``, which may be a country or an answer."""
_NO_VALUE = (*_NULL, "NA", "N/A", "n/a", "NaN", "nan", "None", "none", "nil", "NIL", "-", "--", "?")
"""Words that mean null where a number, a time or the like should stand."""
_EMPTY = ""

_WORD, _EMPTY_TEXT, _MISFIT, _ESCAPES, _QUOTED_ESCAPES, _TORN, _QUOTES = range(7)


@dataclass(frozen=True)
class Notice:
    """Something that was read as documented, and that may be meant otherwise.

    Attributes:
        what: What was done with what.
        fields: How many fields, or lines where these could not be told apart.
        first: ``file:line`` of the first ones, at most ``SHOWN``.
        hint: What to give if it is meant otherwise.
    """

    what: str
    fields: int
    first: tuple[str, ...]
    hint: str

    def __str__(self) -> str:
        more = ", ..." if self.fields > len(self.first) else ""
        return f"{self.what}: {self.fields} ({', '.join(self.first)}{more}); {self.hint}"

    def to_dict(self) -> dict[str, Any]:
        """Return the notice as JSON has it."""
        return {"what": self.what, "fields": self.fields, "first": list(self.first), "hint": self.hint}


@dataclass
class Marks:
    """Counts what may be meant otherwise while a dump is read.

    Attributes:
        escapes_known: Whether the user has said what escapes; then nothing is told about it.
        nulls_known: Whether the user has said how null is written; then ``""`` is an empty text.
    """

    escapes_known: bool = False
    nulls_known: bool = False
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
        self._dialect = dialect
        name, lines = source
        if is_text:
            self._note_words(_WORD, fields, _spell(_NULL, dialect), name, lines)
            self._note_words(_EMPTY_TEXT, fields, _spell([_EMPTY], dialect)[1:], name, lines)
            used = pc.filter(fields, pc.is_in(fields, pa.array(dialect.nulls, pa.string())))
            self._nulls.update(used.unique().to_pylist())
            self._note_escapes(fields, name, lines)
        elif pc.any(wrong).as_py():
            misfit = pc.utf8_trim_whitespace(pc.if_else(wrong, fields, pa.scalar(None, pa.string())))
            self._note_words(_MISFIT, misfit, _spell(_NO_VALUE, dialect), name, lines)

    def _note_words(self, kind: int, fields: pa.Array, words: Sequence[str], name: str, lines: Sequence[int]) -> None:
        words = [each for each in words if each not in self._dialect.nulls]
        there = pc.is_in(fields, pa.array(words, pa.string()))
        if not words or not pc.any(there).as_py():
            return
        numbers = pa.array(lines, pa.int64())
        for each in pc.value_counts(fields.filter(there)).to_pylist():
            places = numbers.filter(pc.equal(fields, each["values"]))
            self._add(kind, each["values"], name, places[:SHOWN].to_pylist(), each["counts"])

    def _note_escapes(self, fields: pa.Array, name: str, lines: Sequence[int]) -> None:
        """Look for a backslash before what databases escape, where none is read as an escape."""
        dialect, numbers = self._dialect, pa.array(lines, pa.int64())
        if not dialect.quote:
            around = pc.match_substring_regex(fields, '(?s)^".*"$')
            if pc.any(around).as_py():
                self._add(_QUOTES, "", name, numbers.filter(around)[:SHOWN].to_pylist(), pc.sum(around).as_py())
            return
        if self.escapes_known or not pc.any(pc.match_substring(fields, BACKSLASH)).as_py():
            return
        quoted = pc.starts_with(fields, dialect.quote)
        quote = f"{dialect.quote}{dialect.quote}"
        for kind, which, after in (
            (_ESCAPES, pc.invert(quoted), r"[\\bfnrtv0]"),
            (_QUOTED_ESCAPES, quoted, rf"(?s)(?:[\\bfnrtv0\r\n]|{quote}.)"),
        ):
            found = pc.fill_null(pc.and_(which, pc.match_substring_regex(fields, rf"\\{after}")), False)
            if pc.any(found).as_py():
                self._add(kind, "", name, numbers.filter(found)[:SHOWN].to_pylist(), pc.sum(found).as_py())

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
        inside, outside, torn, around = (
            self._counts.get((kind, ""), 0) for kind in (_QUOTED_ESCAPES, _ESCAPES, _TORN, _QUOTES)
        )
        found = []
        if inside or outside:
            first = [each for kind in (_QUOTED_ESCAPES, _ESCAPES) for each in self._first.get((kind, ""), [])]
            options = [r"`--escape '\'` (within quotes, as Spark and MySQL write)"]
            options.insert(
                0 if outside and (self._dialect.delimiter == "\t" or not inside) else 1,
                "`--dialect text` (as COPY and INTO OUTFILE write by default)",
            )
            hint = f"if these are escapes, give {' or '.join(options)}"
            what = "fields with backslashes, read as they stand"
            found.append(Notice(what, inside + outside, tuple(first[:SHOWN]), hint))
        if torn:
            hint = "if quotes are part of the text, give `--quote ''`"
            found.append(Notice("lines with text behind a closing quote", torn, tuple(self._first[_TORN, ""]), hint))
        if around:
            hint = "if these are no part of the text, give `--quote '\"'`"
            found.append(Notice("fields loaded with quotes around them", around, tuple(self._first[_QUOTES, ""]), hint))
        return found


def is_text(kind: pa.DataType) -> bool:
    """Tell whether an empty text is a value of a type."""
    return is_one(kind, TEXTS) or pa.types.is_binary(kind)


def _spell(words: Iterable[str], dialect: Dialect) -> list[str]:
    """Return words as they may stand in a file, without quotes and with them."""
    found = list(words)
    return found + [f"{dialect.quote}{each}{dialect.quote}" for each in found] if dialect.quote else found
