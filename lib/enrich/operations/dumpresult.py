"""What ``enrich load`` is asked for, what it did, and why it refuses a dump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from enrich.base.errors import Blocked, ConfigError
from enrich.base.result import name_deployment
from enrich.dumps import files
from enrich.dumps.badlines import BadLines

FAIL = "fail"
CREATED, UPDATED, UNCHANGED, REFUSED = "created", "updated", "unchanged", "refused"
MAX_DELETE = 0.5


@dataclass(frozen=True)
class DumpOptions:
    """How files are read and what is done with their rows; the options of ``enrich load``.

    Attributes:
        form: ``csv json parquet``; None: as the files' names end.
        delimiter: Of CSV; None: found in the first line.
        columns: The names of the columns.
        header: Whether each CSV file begins with the names of the columns.
        types: ``id string, at timestamp``, for columns that no table has yet.
        encoding: Of text.
        complete: Whether rows that the dump lacks are deleted.
        max_delete: The greatest share of the rows that may be deleted then.
        bad_rows: ``fail`` or ``skip``.
    """

    form: str | None = None
    delimiter: str | None = None
    columns: Sequence[str] | None = None
    header: bool = True
    types: str | None = None
    encoding: str = "utf-8"
    complete: bool = False
    max_delete: float = MAX_DELETE
    bad_rows: str = FAIL


@dataclass(frozen=True)
class LoadResult:
    """What one ``enrich load`` did, or why it refused the dump.

    Attributes:
        status: ``created updated unchanged refused``; a dry run says what would be.
        version: The table's version that holds the dump; None when there is no table (yet).
        read: Rows of the dump, the bad ones too.
        unchanged: Rows that stood in the table as they are.
        skipped: Bad lines that were left out.
        faults: What is wrong with the lines.
        error: Why the dump was refused, in one line.
    """

    run_id: str
    deployment: str
    table: str
    status: str
    dry_run: bool
    version: int | None = None
    read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: int = 0
    faults: tuple[BadLines, ...] = ()
    error: str | None = None
    exit_code: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich load --output json``."""
        head = {"run_id": self.run_id, **name_deployment(self.deployment), "exit_code": self.exit_code}
        names = ("table", "status", "dry_run", "version", "read", "inserted", "updated", "deleted", "unchanged")
        told = {name: getattr(self, name) for name in (*names, "skipped")}
        return {**head, **told, "faults": [each.to_dict() for each in self.faults], "error": self.error}


class RefusedDump(Blocked):
    """A dump is not loaded because of its rows; nothing was written.

    Args:
        message: What is wrong.
        hint: The next step.
        read: Rows of the dump.
        faults: What is wrong with its lines.
    """

    def __init__(self, message: str, hint: str, read: int, faults: Sequence[BadLines] = ()) -> None:
        super().__init__(message, hint=hint)
        self.read = read
        self.faults = tuple(faults)


def refuse_lines(read: int, faults: Sequence[BadLines]) -> RefusedDump:
    """Return the refusal of a dump that has bad lines."""
    told = "; ".join(map(str, faults))
    return RefusedDump(
        f"the dump is refused, nothing was written: {told}",
        "correct the lines, or leave them out with --bad-rows skip",
        read,
        faults,
    )


def check_options(how: DumpOptions, key: Sequence[str]) -> None:
    """Refuse options that say nothing together.

    Raises:
        ConfigError: Naming them.
    """
    if not key or not all(key):
        raise ConfigError("--key names no column", hint="give the columns of the table's key: --key id")
    if len({name.lower() for name in key}) < len(key):
        raise ConfigError("--key names a column twice")
    if how.delimiter is not None and (len(how.delimiter) != 1 or how.delimiter in '"\r\n'):
        raise ConfigError("--delimiter is one character, and no quote", hint="for instance ';' or '\\t'")
    if not 0 <= how.max_delete <= 1:
        raise ConfigError(f"--max-delete {how.max_delete} is no share", hint="give a number from 0 to 1")
    if how.max_delete != MAX_DELETE and not how.complete:
        raise ConfigError("--max-delete goes with --complete: without it nothing is deleted")


def check_form(how: DumpOptions, form: str) -> None:
    """Refuse options that the format does not have.

    Raises:
        ConfigError: Naming them.
    """
    if form != files.CSV and (how.delimiter is not None or not how.header):
        raise ConfigError(f"--delimiter and --no-header are for CSV, and the dump is {form}", hint="see --format")
    if form == files.PARQUET and how.encoding != "utf-8":
        raise ConfigError("--encoding is for text, and the dump is Parquet", hint="see --format")
    if form == files.CSV and how.header and how.columns:
        raise ConfigError(
            "--columns is for CSV without a header, and the first line is taken for one", hint="add --no-header"
        )
