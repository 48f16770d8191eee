"""The first line of a delimited file: the names of the columns, or a person. What nobody has typed is never told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from enrich.base.errors import ConfigError, show_text
from enrich.dumps.layout import Known, Named, find_name, find_twice, name_columns

HELP = (
    "if that line is a row already, give --no-header and --columns; to give the columns other names than it has,"
    " give --columns and --header"
)
_NAME = re.compile(r"[^\W\d][^@\s]*")
_WORDS = frozenset({"true", "false", "yes", "no", "null", "none", "nan", "nil"})
_DIGITS = 8
_LONGEST = 100


@dataclass(frozen=True)
class Expected:
    """What is known of the columns before the first line is read.

    Attributes:
        key: The columns of the key.
        known: The table's columns and those of ``--types``.
        is_header: Whether the user has said that the line has names.
    """

    key: Sequence[str]
    known: Known = field(default_factory=Known)
    is_header: bool = False

    def list_told(self) -> frozenset[str]:
        """Return the names, in small letters, that messages may have: those that the user or the table has given."""
        table = self.known.table.names if self.known.table is not None else []
        return frozenset(name.lower() for name in (*self.key, *self.known.types.names, *table))


def check(found: Sequence[str], expected: Expected, file: str) -> Named:
    """Return the columns that a first line names.

    Raises:
        ConfigError: It has a field without a name, one name twice, or not the key's; or it makes a new table, and a
            field does not look like a name.
    """
    told = expected.list_told()
    hidden = frozenset(at for at, name in enumerate(found) if name.lower() not in told)
    line = f"the first line of {file}"
    for name in expected.key:
        if find_name(name, found) is None:
            fields = f"{len(found)} field{'s' if len(found) > 1 else ''}"
            hint = f"check --key and --delimiter; {HELP}"
            raise ConfigError(f"{line} has {fields}, and no column {show_text(name)!r}", hint=hint)
    for at, name in enumerate(found, 1):
        if not name.strip():
            raise ConfigError(f"field {at} of {line} is empty, and so the column has no name", hint=HELP)
    if twice := find_twice(found):
        first, second = (at + 1 for at in twice)
        raise ConfigError(f"fields {first} and {second} of {line} are one name (case does not count)", hint=HELP)
    if expected.known.table is None and not expected.is_header:
        for at in sorted(hidden):
            if not _is_like_a_name(found[at]):
                hint = f"if it is one, give --header; {HELP}"
                raise ConfigError(f"field {at + 1} of {line} does not look like the name of a column", hint=hint)
    return name_columns(found, hidden=hidden, file=file)


def _is_like_a_name(text: str) -> bool:
    """Tell whether a text is rather a name than a value: an address, a number, a date, an account."""
    is_short = len(text) <= _LONGEST and sum(each.isdigit() for each in text) <= _DIGITS
    return is_short and text.lower() not in _WORDS and _NAME.match(text) is not None and "@" not in text


def rename(found: Sequence[str], columns: Sequence[str], file: str, *, is_header: bool) -> Named:
    """Return the columns under the names that the user gives in place of those in the first line.

    Raises:
        ConfigError: Their number differs, they are the line's in another order, or nobody has said what it is.
    """
    line = f"the first line of {file}"
    if len(found) != len(columns):
        hint = "name all of them in the order of the file; --delimiter says what stands between them"
        raise ConfigError(f"{line} has {len(found)} fields, and --columns names {len(columns)}", hint=hint)
    ours, theirs = ([name.lower() for name in names] for names in (columns, found))
    if ours != theirs and sorted(ours) == sorted(theirs):
        raise ConfigError(f"{line} has the names of --columns in another order", hint="leave out --columns")
    if ours != theirs and not is_header:
        raise ConfigError(
            f"--columns names the columns, but nothing says what {line} is",
            hint="give --header if it has other names for them, or --no-header if it is a row already",
        )
    return name_columns(columns, header=found, file=file)


def place(header: Sequence[str], named: Named, file: str) -> Sequence[int]:
    """Return where each column stands in the records of a file, by the file's own header.

    Raises:
        ConfigError: It has other names than the first file's.
    """
    first = named.header or named.names
    if len(header) != len(first):
        raise ConfigError(
            f"the first line of {file} has {len(header)} fields, that of {named.file} {len(first)}",
            hint="load files with the same columns together",
        )
    if [name.lower() for name in header] == [name.lower() for name in first]:
        return range(len(first))
    found = [find_name(name, header) for name in first]
    lacking = found.index(None) if None in found else None
    if lacking is not None or find_twice(header):
        what = "has other names" if lacking is None else f"does not name {named.tell(lacking)}"
        raise ConfigError(
            f"the first line of {file} {what}", hint="each file needs its own header; or give --no-header"
        )
    return [list(header).index(name) for name in found if name is not None]
