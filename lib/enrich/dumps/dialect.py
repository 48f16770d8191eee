r"""Read fields of delimited text by how it is written: what separates, encloses and escapes, and what null is.

=====================  =========  =====  ======  =============  =============================================
dialect                delimiter  quote  escape  null           written by
=====================  =========  =====  ======  =============  =============================================
csv                    found      ``"``  none    empty, ``\N``  PostgreSQL's CSV, Excel, pandas, SSMS, ...
csv, ``--escape '\'``  found      ``"``  ``\``   empty, ``\N``  Spark, MySQL with ENCLOSED BY
text                   tab        none   ``\``   ``\N``         PostgreSQL's COPY, MySQL's INTO OUTFILE
=====================  =========  =====  ======  =============  =============================================

A quote within quotes is doubled, or comes after an escape. With quotes, an escape counts between them alone, as Spark,
PostgreSQL and MySQL write it; without quotes, it counts everywhere. Null is compared with a field as it stands in the
file, quotes and escapes included: so ``NULL`` and ``"NULL"`` can be two things, as they are in databases.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

NULLS = ("", r"\N")  # how null is written where nothing else is said
BACKSLASH = "\\"

_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class Dialect:
    """How one file is written."""

    delimiter: str = ""  # one character; empty: not known yet
    quote: str = '"'  # one character; empty: a quote is text like any other
    escape: str = ""  # one character; empty: none
    nulls: tuple[str, ...] = NULLS  # how null is written

    def split(self, record: str) -> list[str] | None:
        """Return the fields as they stand in a record without its end; None where a quote or a CR is misplaced."""
        if self.quote and self.quote not in record:
            return None if "\r" in record else record.split(self.delimiter)
        if not self.quote and (not self.escape or self.escape not in record):
            return record.split(self.delimiter)
        found: list[str] = self._fields.findall(record + self.delimiter)
        is_whole = sum(map(len, found)) + len(found) == len(record) + 1
        return found if is_whole else None

    def is_open(self, text: str) -> bool:
        """Tell whether a text that begins with a field ends within quotes."""
        return self._opens.match(text) is not None

    def goes_on(self, line: str) -> bool:
        """Tell whether the end of a line is escaped, where escapes count outside of quotes."""
        if self.quote or not self.escape:
            return False
        text = line.rstrip("\r\n")
        return (len(text) - len(text.rstrip(self.escape))) % 2 == 1

    def read(self, field: str) -> str | None:
        """Return what a field means, null aside; None where bytes that are written as numbers are no text."""
        if self.quote and field.startswith(self.quote):
            inner = field[1:-1]
            return self._pairs.sub(self._read_pair, inner) if self._pairs.search(inner) else inner
        if self.quote or not self.escape:
            return field
        try:
            return self._escaped.sub(self._read_escaped, field)
        except UnicodeDecodeError:
            return None

    def read_column(self, fields: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return what fields mean, and where there is a value: one without a meaning is null, and none of them."""
        import pyarrow as pa
        import pyarrow.compute as pc  # heavy, and what a load is asked for is known without it

        is_null = pc.fill_null(pc.is_in(fields, pa.array(self.nulls, pa.string())), False)
        texts = pc.if_else(is_null, pa.scalar(None, pa.string()), fields)
        there = texts.is_valid()
        if not self.quote and not self.escape:
            return texts, there
        touched = pc.starts_with(texts, self.quote) if self.quote else pc.match_substring(texts, self.escape)
        touched = pc.fill_null(touched, False)
        if not pc.any(touched).as_py():
            return texts, there
        if self.quote and not self.escape:
            inner = pc.replace_substring(pc.utf8_slice_codeunits(texts, 1, -1), self.quote * 2, self.quote)
            return pc.if_else(touched, inner, texts), there
        meant = pa.array([self.read(each) for each in texts.filter(touched).to_pylist()], pa.string())
        return pc.replace_with_mask(texts, touched, meant), there

    @cached_property
    def _fields(self) -> re.Pattern[str]:
        end, quote, escape = map(re.escape, (self.delimiter, self.quote, self.escape))
        if not quote:
            return re.compile(rf"([^{end}{escape}]*+(?:{escape}.[^{end}{escape}]*+)*+){end}", re.DOTALL)
        return re.compile(rf"({quote}{self._inside}{quote}|[^{quote}{end}\r\n][^{end}\r\n]*+|){end}", re.DOTALL)

    @cached_property
    def _opens(self) -> re.Pattern[str]:
        end, quote = re.escape(self.delimiter), re.escape(self.quote)
        whole = rf"(?:{quote}{self._inside}{quote}|[^{quote}{end}][^{end}]*+)?+{end}"
        return re.compile(rf"(?:{whole})*+{quote}{self._inside}\Z", re.DOTALL)

    @cached_property
    def closes(self) -> re.Pattern[str]:
        """Where the quotes end that a line begins in."""
        return re.compile(self._inside + re.escape(self.quote), re.DOTALL)

    @property
    def _inside(self) -> str:
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        pairs = rf"{quote}{quote}|{escape}." if escape else quote + quote
        return rf"[^{quote}{escape}]*+(?:(?:{pairs})[^{quote}{escape}]*+)*+"

    @cached_property
    def _pairs(self) -> re.Pattern[str]:
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        return re.compile(rf"{quote}{quote}|{escape}." if escape else quote + quote, re.DOTALL)

    def _read_pair(self, found: re.Match[str]) -> str:
        first, second = found[0][0], found[0][1]
        if first == self.quote or second in (self.quote, self.escape, self.delimiter, "\n", "\r"):
            return second
        return "\0" if second == "0" else found[0]  # MySQL writes the character 0 so; a path of Windows stays one

    @cached_property
    def _escaped(self) -> re.Pattern[str]:
        if self.escape != BACKSLASH:
            return re.compile(rf"{re.escape(self.escape)}.", re.DOTALL)
        return re.compile(r"(?:\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}))+|\\.", re.DOTALL)

    def _read_escaped(self, found: re.Match[str]) -> str:
        text = found[0]
        if self.escape != BACKSLASH or not (text[1] in "01234567" or (text[1] == "x" and len(text) > 2)):
            return _CONTROLS.get(text[1], text[1]) if self.escape == BACKSLASH else text[1]
        parts = text.split(BACKSLASH)[1:]
        codes = [int(each[1:], 16) if each[0] == "x" else int(each, 8) & 0xFF for each in parts]
        return bytes(codes).decode()
