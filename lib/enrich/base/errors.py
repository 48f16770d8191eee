"""Define the exceptions of enrich, each with the exit code of ``docs/operations.md`` and its reader's next step.

Messages name what, where and the next command. They never hold a cell value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_UNITS = ("B", "kB", "MB", "GB", "TB")
# What helps a history that can neither go on nor be computed again.
ANOTHER_TARGET = "let the job write to another target, and keep the old one"


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong in a project's files, and ``where``: ``file:line`` below its directory, or the file."""

    message: str
    where: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    @property
    def place(self) -> tuple[str, int, int]:
        """Return file, line and column, by which faults are sorted."""
        found = re.match(r"(.*?):(\d+)(?::(\d+))?", self.where or "")
        return (found[1], int(found[2]), int(found[3] or 0)) if found else (self.where or "", 0, 0)


class EnrichError(Exception):
    """A failure that enrich foresaw: what happened and where, and the next command or the correction; a line each."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class RunFailed(EnrichError):
    """Storage, Spark or a conflict stopped the job; running again may help."""


class Conflict(RunFailed):
    """Somebody else's commit came between a job's plan and its own; a fresh plan may succeed."""


class SourceMoved(Conflict):
    """The version of a source that a job was planned on is gone; a plan on a later one may succeed."""


class ConfigError(EnrichError):
    """The project's files, or a job against its tables, are wrong; nothing was written.

    ``faults`` are what is wrong, each with its place; without them it is the one thing that the message says.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, hint: str | None = None, where: str | None = None, faults: Iterable[Fault] = ()
    ) -> None:
        self.where = where
        super().__init__(message, hint=hint)
        self.faults: tuple[Fault, ...] = tuple(faults) or (Fault(str(self)),)

    def __str__(self) -> str:
        return f"{self.where}: {super().__str__()}" if self.where else super().__str__()

    @classmethod
    def of(cls, faults: Iterable[Fault]) -> ConfigError:
        """Build one error from all the faults found, in the order of the files."""
        found = tuple(faults)
        return cls("\n".join(str(fault) for fault in found), faults=found)


class Blocked(EnrichError):
    """A blocking rule failed; the target is untouched."""

    exit_code = 3


class Locked(EnrichError):
    """Another run holds the job, or won the race for it."""

    exit_code = 4


class HistoryError(EnrichError):
    """A source's history cannot be read whole, or the job's definition changed."""

    exit_code = 5


class RefreshNeeded(HistoryError):
    """A full refresh helps, which the hint names; ``instead`` says what helps a history whose refresh is refused.

    That is so where its source has forgotten what the target knows.
    """

    def __init__(self, message: str, *, hint: str, instead: str = ANOTHER_TARGET) -> None:
        self.instead = instead
        super().__init__(message, hint=hint)


class DriftError(EnrichError):
    """The target is not in the state that its cursor records."""

    exit_code = 6


class EnvironmentFault(EnrichError):
    """Java, jars, permissions or disk are missing."""

    exit_code = 7


GRAVITY = (143, 130, 7, 1, 6, 5, 2, 3, 4, 0)
"""Exit codes, the gravest first; a run of several jobs ends with the gravest of theirs."""


def find_gravest(codes: Iterable[int]) -> int:
    """Return the exit code that decides a run whose jobs ended with ``codes``."""
    return min(codes, key=GRAVITY.index, default=0)


def show_text(text: str) -> str:
    """Return a user's text as a message may hold it: control characters escaped, long ones cut."""
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 120 else f"{text[:120]}..."


def refuse_text(name: str, given: object) -> None:
    """Refuse one text where a caller's list is expected, for its letters would be taken for the elements."""
    if isinstance(given, str | bytes):
        raise ConfigError(f"{name} is one text", hint=f"give a list: {name}=[...]")


def spell_size(count: int) -> str:
    """Return a size that ``parse_size`` reads, of three digits, which is no smaller."""
    power = min(len(_UNITS) - 1, (len(str(count)) - 1) // 3)
    step = 10 ** max(0, len(str(count)) - 3)
    return f"{-(-count // step) * step / 1000**power:.12g}{_UNITS[power]}"


def format_bytes(count: int) -> str:
    """Return bytes in the unit that leaves one to three digits before the point: ``27 B``, ``1.5 MB``."""
    power = min(len(_UNITS) - 1, (len(str(count)) - 1) // 3)
    return f"{count} B" if power == 0 else f"{count / 1000**power:.1f} {_UNITS[power]}"
