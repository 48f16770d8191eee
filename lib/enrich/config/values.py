"""Which expression of a job file met a value that it cannot compute with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from enrich.base import hints
from enrich.base.errors import ConfigError, Fault
from enrich.base.values import ValueFault
from enrich.config.models import Job

_NAMES = re.compile(r"(?:\w+|`(?:[^`]|``)+`)(?:\s*\.\s*(?:\w+|`(?:[^`]|``)+`))*")


def explain_value_fault(job: Job, fault: ValueFault) -> ConfigError:
    """Return the error of a run that a value has ended: the lines of the expressions that it may be, and what helps.

    Running again helps as little as with any other slip in a file, so it is one of these.
    """
    written = list(_list_expressions(job))
    found = [each for each in written if fault.is_in(each[2])]
    found = found or [each for each in written if fault.fragment and fault.fragment in each[2]]
    found = found or [each for each in written if not _NAMES.fullmatch(each[2].strip())]
    if not found:
        said = f"job {job.job!r} cannot take a value ({fault.condition})"
        return ConfigError(said, hint="correct the row in its source, and run again", where=job.at("target"))
    remedy = fault.suggest(found[0][2] if len(found) == 1 else "")
    hint = f"correct the expression: {remedy}; then run `{hints.refresh(job.job)}`"
    places = dict.fromkeys((what, at) for what, at, _ in found)
    what = " or ".join(what for what, _ in places)
    said = f"{what} of job {job.job!r} cannot be computed for a row ({fault.condition})"
    where = ", ".join(dict.fromkeys(where for _, where in places))
    faults = [Fault(f"{what} cannot be computed for a row ({fault.condition}); {hint}", at) for what, at in places]
    return ConfigError(said, hint=hint, where=where, faults=faults)


def _list_expressions(job: Job) -> Iterator[tuple[str, str, str]]:
    """Yield what each expression of a job is, where it stands, and its text."""
    for alias, join in job.join.items():
        for option in ("on", "at", "gone", "elements"):
            given = getattr(join, option)
            for text in (given,) if isinstance(given, str) else given or ():
                yield f"{option!r} of the join of {alias!r}", job.at("join", alias, option), text
    if job.where is not None:
        yield "'where'", job.at("where"), job.where
    for name, text in (job.select or {}).items():
        yield f"column {name!r}", job.at("select", name), text
