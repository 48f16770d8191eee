"""Find the files of a dump, tell what format they have, and read their lines as text."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from enrich.base.errors import Blocked, ConfigError

CSV, JSON, PARQUET = "csv", "json", "parquet"
_ENDINGS = {
    ".csv": CSV, ".tsv": CSV, ".txt": CSV, ".json": JSON, ".jsonl": JSON, ".ndjson": JSON, ".parquet": PARQUET,
}  # fmt: skip
_GZIP = b"\x1f\x8b"
_LOG = "_delta_log"
_PARTITION = re.compile("[^=]+=.+")
_UTF8 = "utf-8-sig"
_WIDE = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
LONGEST_LINE = 64 * 1024 * 1024
"""Characters that a line, or a record of several lines, may have: what is longer has a quote that never ends."""


@dataclass(frozen=True)
class DumpFile:
    """One file of a dump, and what messages call it."""

    path: Path
    name: str


def list_files(given: Sequence[str]) -> list[DumpFile]:
    """Return the files that a command line names; of a directory, all files in it and below it, by name.

    What begins with a dot or an underscore is left out there: ``_SUCCESS`` and the like are no data.
    ``ConfigError``: there is no such file, a directory below the given one is named ``column=value``, or files are
    those of a Delta table.
    """
    found: list[DumpFile] = []
    for text in given:
        path = Path(text)
        if path.is_dir():
            _refuse_table(path)
            named = [each for each in sorted(path.rglob("*")) if each.is_file()]
            inside = [f for f in named if not any(p.startswith((".", "_")) for p in f.relative_to(path).parts)]
            if not inside:
                raise ConfigError(f"there is no file in the directory {text}", hint="name the files of the dump")
            for part in (part for each in inside for part in each.relative_to(path).parts[:-1]):
                # Rows below a directory that has a column in its name would silently lack it. A file that is named
                # itself is taken as it is. The directory's name is not told whole, for it holds a value.
                if _PARTITION.fullmatch(part):
                    column = part.partition("=")[0]
                    raise ConfigError(
                        f"{text} is partitioned: column {column!r} is in the names of directories, '{column}=...', and"
                        " these are not read",
                        hint="make the dump with this column in its files; to load it without the column, name the"
                        " files",
                    )
            found += [DumpFile(each, str(each)) for each in inside]
        elif path.exists():
            found.append(DumpFile(path, text))
        else:
            raise ConfigError(f"there is no file {text}", hint="name files or directories on this machine")
    for place in dict.fromkeys(each.path.parent for each in found):
        _refuse_table(place)
    return found


def _refuse_table(place: Path) -> None:
    """Refuse, by a ConfigError, a Delta table's directory and what is in it: files there may have deleted rows."""
    whole = place.resolve()
    for each in (whole, *whole.parents):
        is_table = False
        with suppress(PermissionError):  # above a directory that can be read may be some that cannot
            is_table = (each / _LOG).is_dir()
        if is_table:
            raise ConfigError(
                f"{each} is a Delta table, no dump: rows that are deleted are still in its files",
                hint="export the rows of the table and load these files, or name the table as the source of a job",
            )


def choose_format(files: Sequence[DumpFile]) -> str:
    """Return the format that the names of all files end in, ``.gz`` aside; ``csv`` where the endings say nothing.

    Two formats are a ConfigError.
    """
    found: dict[str, DumpFile] = {}
    for file in files:
        endings = [each.lower() for each in file.path.suffixes if each.lower() != ".gz"]
        found.setdefault(_ENDINGS.get(endings[-1] if endings else "", CSV), file)
    if len(found) > 1:
        told = " and ".join(f"{file.name} ({form})" for form, file in list(found.items())[:2])
        raise ConfigError(f"the files have several formats: {told}", hint="load one format at a time, or give --format")
    return next(iter(found))


def check_encoding(encoding: str) -> str:
    """Return the codec's name, or raise ConfigError; a byte order mark that begins UTF-8 is no part of the text."""
    try:
        found = codecs.lookup(encoding)
        "".encode(encoding)
    except (LookupError, ValueError, UnicodeError):
        raise ConfigError(f"--encoding {encoding!r} is not known", hint="for instance cp1252 or utf-16") from None
    return _UTF8 if found.name == "utf-8" else found.name


@contextmanager
def open_bytes(file: DumpFile) -> Iterator[IO[bytes]]:
    """Open a file, unpacked where it is gzip, which its first bytes tell.

    One that cannot be read is a ConfigError, a packed one that is damaged or cut off is Blocked.
    """
    try:
        with file.path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if not packed:
                yield raw
                return
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked  # type: ignore[misc]  # it has what a buffered reader needs
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise Blocked(f"{file.name} is damaged or cut off; nothing was written", hint="make the dump again") from None
    except OSError as error:
        told = error.strerror or type(error).__name__
        raise ConfigError(f"{file.name} cannot be read: {told}", hint="check the file and its permissions") from None


@contextmanager
def open_lines(file: DumpFile, encoding: str) -> Iterator[Iterator[str]]:
    """Open a file as lines of text, with the LF or CRLF that ends them; a CR alone ends none.

    Errors as ``open_bytes``; bytes of another encoding are a ConfigError, a line above ``LONGEST_LINE`` is Blocked.
    """
    with open_bytes(file) as raw:
        first = raw.read(4)
    for mark, name in _WIDE:  # it cannot stand in UTF-8; what is called UTF-16-LE may have one, which is no text either
        if first.startswith(mark) and (encoding == _UTF8 or encoding.startswith(name)):
            encoding = name
            break
    with open_bytes(file) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="\n") as text:
        yield _read_lines(file, text, encoding)


def _read_lines(file: DumpFile, text: io.TextIOWrapper, encoding: str) -> Iterator[str]:
    number = 0
    while True:
        try:
            line = text.readline(LONGEST_LINE)
        except UnicodeError as error:
            at = number + 1
            if isinstance(error, UnicodeDecodeError):  # the reader is ahead of the lines by one block
                at += error.object[: error.start].decode(encoding, "ignore").count("\n")
            raise ConfigError(
                f"{file.name}:{at}: there are bytes that are not {'UTF-8' if encoding == _UTF8 else encoding}; nothing"
                " was written",
                hint="give the encoding of the file: --encoding cp1252, --encoding utf-16, ...",
            ) from None
        if not line:
            return
        number += 1
        if len(line) >= LONGEST_LINE:
            raise refuse_long(file.name, number)
        yield line


def refuse_long(name: str, line: int) -> Blocked:
    """Return the refusal of a line, or of a record of several lines, that is longer than ``LONGEST_LINE``."""
    return Blocked(
        f"{name}:{line}: the line is longer than 64 MB; nothing was written", hint="check --format and the file"
    )
