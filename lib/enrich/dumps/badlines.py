"""What is wrong with the lines of a dump: causes, counts, and where the first lines are; never a value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

SHOWN = 10
"""How many line numbers a refusal gives for each cause."""

FIELDS = "wrong number of fields"
NULL_KEY = "null in the key"
REPEATED = "key that stands twice"
SYNTAX = "line that cannot be parsed"
UNKNOWN = "field that is not among the columns"


@dataclass(frozen=True)
class BadLines:
    """One cause, and the lines that have it.

    Attributes:
        cause: What is wrong.
        lines: How many lines.
        first: ``file:line`` of the first ones, at most ``SHOWN``.
    """

    cause: str
    lines: int
    first: tuple[str, ...]

    def __str__(self) -> str:
        more = ", ..." if self.lines > len(self.first) else ""
        return f"{self.cause}: {self.lines} {'line' if self.lines == 1 else 'lines'} ({', '.join(self.first)}{more})"

    def to_dict(self) -> dict[str, Any]:
        """Return the cause as JSON has it."""
        return {"cause": self.cause, "lines": self.lines, "first": list(self.first)}


@dataclass
class BadLineCounts:
    """Counts the bad lines of one dump by their causes.

    Attributes:
        lines: Lines with at least one fault.
    """

    lines: int = 0
    _counts: dict[str, int] = field(default_factory=dict)
    _first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, cause: str, name: str, lines: Iterable[int], *, count: int | None = None) -> None:
        """Note lines of a file, ascending; ``count`` where there are more of them than are named."""
        numbers = list(lines)
        self._counts[cause] = self._counts.get(cause, 0) + (len(numbers) if count is None else count)
        first = self._first.setdefault(cause, [])
        first += [f"{name}:{number}" for number in numbers[: SHOWN - len(first)]]

    def has(self, cause: str) -> bool:
        """Tell whether a line has this fault."""
        return cause in self._counts

    def list(self) -> tuple[BadLines, ...]:
        """Return the causes in the order in which they came up."""
        return tuple(BadLines(cause, count, tuple(self._first[cause])) for cause, count in self._counts.items())
