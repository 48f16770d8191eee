"""``enrich doctor``: what may keep the jobs of a deployment from running, or make them dear; and what repairs it.

Reads files, logs and the runs table. No JVM starts and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from enrich.base.errors import EnrichError, find_gravest
from enrich.base.result import name_deployment

OK, ADVICE, FAULT, UNKNOWN = "ok", "advice", "fault", "unknown"


@dataclass(frozen=True)
class Diagnosis:
    """What one check found.

    Attributes:
        check: Which check it was.
        level: ``ok``; ``advice`` where something costs or shows more than need be; ``fault`` where runs will fail or
            lose something; ``unknown`` where the check is not possible without Spark.
        about: The program, directory or table.
        message: What was found.
        repair: The statement or command that repairs it; None where there is nothing to repair.
        exit_code: What a run would end with; 0 unless it is a fault.
    """

    check: str
    level: str
    about: str
    message: str
    repair: str | None = None
    exit_code: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the check's part of the JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class Checkup:
    """What one ``enrich doctor`` found, in the order of the checks."""

    deployment: str
    found: tuple[Diagnosis, ...]

    @property
    def exit_code(self) -> int:
        """The most serious exit code of the faults; advice alone gives 0."""
        return find_gravest([each.exit_code for each in self.found])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich doctor --output json``."""
        checks = [each.to_dict() for each in self.found]
        return {**name_deployment(self.deployment), "exit_code": self.exit_code, "checks": checks}


def describe_fault(check: str, about: str, error: EnrichError) -> Diagnosis:
    """Return an error that a run would end with as what a check found."""
    return Diagnosis(check, FAULT, about, error.message, error.hint, error.exit_code)


def settle(check: str, about: str, found: Iterator[Diagnosis], well: str) -> Iterator[Diagnosis]:
    """Yield what a check found, or, where that is nothing, that all is well."""
    problems = list(found)
    yield from problems or [Diagnosis(check, OK, about, well)]
