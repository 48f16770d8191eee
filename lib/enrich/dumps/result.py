"""Say what ``enrich load`` is asked for, what it did, what is wrong with lines of a dump, and why one is refused.

Causes, counts, and where the first lines are; never a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from enrich.base.console import clean, format_count
from enrich.base.errors import Blocked, ConfigError, refuse_text
from enrich.base.result import name_deployment
from enrich.dumps import files

if TYPE_CHECKING:
    import pyarrow as pa

NULLS = ("", r"\N")  # how null is written where nothing else is said
BACKSLASH = "\\"

_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class Dialect:
    r"""How one file is written: what separates, encloses and escapes, and what null is.

    =====================  =========  =====  ======  =============  =============================================
    dialect                delimiter  quote  escape  null           written by
    =====================  =========  =====  ======  =============  =============================================
    csv                    found      ``"``  none    empty, ``\N``  PostgreSQL's CSV, Excel, pandas, SSMS, ...
    csv, ``--escape '\'``  found      ``"``  ``\``   empty, ``\N``  Spark, MySQL with ENCLOSED BY
    text                   tab        none   ``\``   ``\N``         PostgreSQL's COPY, MySQL's INTO OUTFILE
    =====================  =========  =====  ======  =============  =============================================

    A quote within quotes is doubled, or comes after an escape. With quotes, an escape counts between them alone, as
    Spark, PostgreSQL and MySQL write it; without quotes, it counts everywhere. Null is compared with a field as it
    stands in the file, quotes and escapes included: so ``NULL`` and ``"NULL"`` can be two things, as in databases.
    """

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


FAIL = "fail"
CREATED, UPDATED, UNCHANGED, REFUSED = "created", "updated", "unchanged", "refused"
MAX_DELETE = 0.5
CSV_DIALECT, TEXT_DIALECT = "csv", "text"
DIALECTS = {CSV_DIALECT: Dialect(), TEXT_DIALECT: Dialect("\t", quote="", escape=BACKSLASH, nulls=(r"\N",))}


SHOWN = 10  # how many line numbers a refusal gives for each cause

FIELDS = "wrong number of fields"
NULL_KEY = "null in the key"
REPEATED = "key that stands twice"
SYNTAX = "line that cannot be parsed"
UNKNOWN = "field that is not among the columns"


@dataclass(frozen=True)
class DumpOptions:
    """How files are read and what is done with their rows; the options of ``enrich load``."""

    form: str | None = None  # ``csv json parquet``; None: as the files' names end
    dialect: str = CSV_DIALECT  # ``csv``, or ``text``: as COPY of PostgreSQL and INTO OUTFILE of MySQL write by default
    delimiter: str | None = None  # of CSV; None: found in the first line
    quote: str | None = None  # what stands around fields of CSV, ``""``: nothing; None: as ``dialect`` says
    # What takes the meaning away from the next character, ``""``: nothing; None: as ``dialect`` says.
    escape: str | None = None
    null: Sequence[str] | None = None  # how null is written in CSV, as it stands in the file; None: as ``dialect`` says
    columns: Sequence[str] | None = None
    # Whether each CSV file begins with the names of the columns, or with others than ``columns``; None: it does, unless
    # there are ``columns``.
    header: bool | None = None
    types: str | None = None  # ``id string, at timestamp``, for columns that no table has yet
    encoding: str = "utf-8"
    complete: bool = False  # whether rows that the dump lacks are deleted
    max_delete: float = MAX_DELETE  # the greatest share of the rows that may be deleted then
    bad_rows: str = FAIL


@dataclass(frozen=True)
class BadLines:
    """One cause, and the lines that have it."""

    cause: str
    lines: int
    first: tuple[str, ...]  # ``file:line`` of the first ones, at most ``SHOWN``

    def __str__(self) -> str:
        more = ", ..." if self.lines > len(self.first) else ""
        return f"{self.cause}: {self.lines} {'line' if self.lines == 1 else 'lines'} ({', '.join(self.first)}{more})"


@dataclass(frozen=True)
class Notice:
    """Something that was read as documented, and that may be meant otherwise."""

    what: str  # what was done with what
    fields: int  # how many fields, or lines where these could not be told apart
    first: tuple[str, ...]  # ``file:line`` of the first ones, at most ``SHOWN``
    hint: str  # what to give if it is meant otherwise

    def __str__(self) -> str:
        more = ", ..." if self.fields > len(self.first) else ""
        return f"{self.what}: {self.fields} ({', '.join(self.first)}{more}); {self.hint}"


@dataclass(frozen=True)
class LoadResult:
    """What one ``enrich load`` did, or why it refused the dump."""

    run_id: str
    deployment: str
    table: str
    status: str  # ``created updated unchanged refused``; a dry run says what would be
    dry_run: bool
    version: int | None = None  # the table's version that holds the dump; None when there is no table (yet)
    read: int = 0  # rows of the dump, the bad ones too
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0  # rows that stood in the table as they are
    skipped: int = 0
    faults: tuple[BadLines, ...] = ()
    error: str | None = None  # why the dump was refused, in one line
    exit_code: int = 0
    warnings: tuple[Notice, ...] = ()  # what was read as documented, and may be meant otherwise

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich load --output json``."""
        head = {"run_id": self.run_id, **name_deployment(self.deployment), "exit_code": self.exit_code}
        names = ("table", "status", "dry_run", "version", "read", "inserted", "updated", "deleted", "unchanged")
        told = {name: getattr(self, name) for name in (*names, "skipped")}
        faults, warnings = (
            [asdict(each) | {"first": list(each.first)} for each in found] for found in (self.faults, self.warnings)
        )
        return {**head, **told, "faults": faults, "warnings": warnings, "error": self.error}


class RefusedDump(Blocked):
    """A dump is not loaded because of its rows; nothing was written."""

    def __init__(
        self, message: str, hint: str, read: int, faults: Sequence[BadLines] = (), warnings: Sequence[Notice] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.read = read
        self.faults = tuple(faults)
        self.warnings = tuple(warnings)


def refuse_lines(read: int, faults: Sequence[BadLines], warnings: Sequence[Notice] = ()) -> RefusedDump:
    """Return the refusal of a dump that has bad lines; ``warnings`` may say which option it needs."""
    told = "; ".join(map(str, faults))
    hint = "; ".join(["correct the lines, or leave them out with --bad-rows skip", *map(str, warnings)])
    return RefusedDump(f"the dump is refused, nothing was written: {told}", hint, read, faults, warnings)


def check_options(how: DumpOptions, key: Sequence[str]) -> None:
    """Refuse, by a ConfigError, options that say nothing together."""
    refuse_text("null", how.null)
    if not key or not all(key):
        raise ConfigError("--key names no column", hint="give the columns of the table's key: --key id")
    if len({name.lower() for name in key}) < len(key):
        raise ConfigError("--key names a column twice")
    if how.delimiter is not None and (len(how.delimiter) != 1 or how.delimiter in '"\r\n\\'):
        raise ConfigError("--delimiter is one character, and no quote", hint="for instance ';' or '\\t'")
    for option, text in (("--quote", how.quote), ("--escape", how.escape)):
        if text and (len(text) != 1 or text in "\r\n" or text == how.delimiter):
            raise ConfigError(f"{option} is one character, and not the delimiter", hint=f"or none: {option} ''")
    if how.dialect not in DIALECTS:
        raise ConfigError("--dialect is not known", hint=f"it can be {' or '.join(DIALECTS)}")
    if not 0 <= how.max_delete <= 1:
        raise ConfigError(f"--max-delete {how.max_delete} is no share", hint="give a number from 0 to 1")
    if how.max_delete != MAX_DELETE and not how.complete:
        raise ConfigError("--max-delete goes with --complete: without it nothing is deleted")


def choose_dialect(how: DumpOptions) -> Dialect:
    """Return how CSV is written: as the dialect says, but for what is given."""
    given: dict[str, Any] = {"delimiter": how.delimiter, "quote": how.quote, "escape": how.escape}
    given["nulls"] = None if how.null is None else tuple(how.null)
    found = replace(DIALECTS[how.dialect], **{name: value for name, value in given.items() if value is not None})
    return replace(found, escape="") if found.escape == found.quote else found


def check_form(how: DumpOptions, form: str) -> None:
    """Refuse, by a ConfigError, options that the format does not have."""
    of_csv = {
        "--dialect": how.dialect != CSV_DIALECT,
        "--delimiter": how.delimiter is not None,
        "--quote": how.quote is not None,
        "--escape": how.escape is not None,
        "--null": how.null is not None,
        "--header": how.header is True,
        "--no-header": how.header is False,
    }
    given = [name for name, is_given in of_csv.items() if is_given]
    if form != files.CSV and given:
        verb = "is" if len(given) == 1 else "are"
        raise ConfigError(f"{' and '.join(given)} {verb} for CSV, and the dump is {form}", hint="see --format")
    if form == files.PARQUET and how.encoding != "utf-8":
        raise ConfigError("--encoding is for text, and the dump is Parquet", hint="see --format")


def format_load(table: str, found: LoadResult) -> str:
    """Return what was done with a table, named as the user did, in a line, and what is wrong with lines of the dump."""
    if found.status == REFUSED:
        dry = "; dry run: a run would be refused, too" if found.dry_run else ""
        return clean(f"{table}: refused, {format_count(found.read, 'row')} read{dry}")
    version = "" if found.version is None else f", version {found.version}"
    counts = f"{format_count(found.inserted, 'row')} inserted, {found.updated} updated, {found.deleted} deleted"
    lines = [f"{table}: {found.status}{version}: {counts}, {found.unchanged} unchanged"]
    if found.skipped:
        lines += [f"{format_count(found.skipped, 'line')} left out", *[f"  {each}" for each in found.faults]]
    if found.dry_run:
        lines.append("dry run: nothing was written")
    return clean("\n".join(lines))
