"""Read what ``--since`` and ``--until`` say, and the other options of a run: text alone, no table is looked at.

====================================  =============================================================
``2026-11-01T00:00Z``                 the last version committed at or before that instant
``2026-11-01``, ``2026-11-01T08:00``  the same; without a zone the time is UTC
``2026-11-01T00:00+02:00``            the same; an offset counts, a zone's name does not
``3d`` ``12h`` ``30m`` ``2w``         so long before the run began; a day has 24 hours
``v42``                               version 42, for jobs with one source
``orders=v42``                        version 42 of the source ``orders``; any other form may stand there, too
``beginning``                         before the first version
====================================  =============================================================
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from enrich.base.errors import ConfigError
from enrich.base.result import BEFORE_ALL
from enrich.base.words import parse_duration, suggest
from enrich.progress.plan import Asked, Moment, Options, find_moment, spell

log = logging.getLogger("enrich")

FORMS = "2026-11-01T00:00Z, 2026-11-01, 2026-11-01T00:00+02:00, 3d, 12h, 30m, 2w, v42, alias=v42, beginning"

_VERSION = re.compile(r"v([0-9]{1,18})")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)

Said = str | Iterable[str] | None


def read_options(
    jobs: Mapping[str, Collection[str]], since: Said, until: Said, *, histories: bool = False, **how: Any
) -> Options:
    """Read what a run that begins now is asked for, hold it against its jobs, and log which instants it means.

    ``jobs``: job -> its aliases. ``since`` and ``until`` are as on the command line: several moments are comma-
    separated, or a sequence. ``histories``: some jobs are histories, whose feeds may be lost, so ``allow_gap`` may
    stand by itself. ``how``: the other fields of ``Options``. What cannot be honoured is a ConfigError.
    """
    found = Options(*read_ends(since, until, datetime.now(UTC)), **how)
    if found.allow_gap and not found.since and (found.full_refresh or not histories):
        raise ConfigError("--allow-gap goes with --since", hint="leave it out, or give --since as well")
    if found.full_refresh and found.since:
        raise ConfigError("--full-refresh computes every row, so --since has no effect", hint="leave one of them out")
    for option, asked in (("--since", found.since), ("--until", found.until)):
        _check(option, asked, jobs)
        if told := [spell(alias, each) for alias, each in asked.items() if isinstance(each, datetime)]:
            log.info("%s is %s", option, ", ".join(told))
    return found


def read_ends(since: Said, until: Said, now: datetime) -> tuple[Asked, Asked]:
    """Read both options; durations count from ``now``, when the run began, in UTC.

    A form that is none of ``FORMS``, two for one source, or ends that are the wrong way round are a ConfigError.
    """
    starts, ends = _read_end("--since", since, now), _read_end("--until", until, now)
    for alias in {*starts, *ends, ""}:
        match find_moment(starts, alias), find_moment(ends, alias):
            case (datetime() as start, datetime() as end) if start > end:
                raise ConfigError("--since is later than --until", hint="exchange the two values")
            case (int() as start, int() as end) if start > end != BEFORE_ALL:
                raise ConfigError("--since is later than --until", hint="exchange the two values")
    return starts, ends


def _read_end(option: str, given: Said, now: datetime) -> Asked:
    texts = [given] if isinstance(given, str) else given or ()
    found: dict[str, Moment] = {}
    for part in [part.strip() for text in texts for part in text.split(",")]:
        before, equals, form = part.rpartition("=")
        alias = before.strip()
        moment = None if equals and not alias else read_moment(option, form.strip(), now, part)
        if moment is None:
            raise ConfigError(f"{option} {part!r} is not a version, time or duration", hint=f"valid forms are {FORMS}")
        if alias in found:
            raise ConfigError(f"{option} is given twice for {repr(alias) if alias else 'every source'}")
        found[alias] = moment
    return dict(sorted(found.items(), key=lambda each: each[0] != ""))  # what is said of all stands first


def read_moment(option: str, text: str, now: datetime, whole: str) -> Moment | None:
    """Read one form, which messages show as ``whole``; None when it is none. A time of no calendar is a ConfigError."""
    if text == "beginning":
        return BEFORE_ALL
    if found := _VERSION.fullmatch(text):
        return int(found[1])
    try:
        if (seconds := parse_duration(text)) is not None:
            return now - timedelta(seconds=seconds)
        if _TIME.fullmatch(text):
            at = datetime.fromisoformat(text)
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ConfigError(f"{option} {whole!r}: there is no such time", hint=f"valid forms are {FORMS}") from None
    return None


def _check(option: str, asked: Asked, jobs: Mapping[str, Collection[str]]) -> None:
    """Refuse a source that no job has, and a bare version for a job with several sources."""
    known = {alias for aliases in jobs.values() for alias in aliases}
    for alias in asked:
        if alias and alias not in known:
            hint = suggest(alias, known, f"the sources are {', '.join(sorted(known))}")
            raise ConfigError(f"{option}: no job to run has a source {alias!r}", hint=hint)
    every = asked.get("", BEFORE_ALL)
    if isinstance(every, datetime) or every == BEFORE_ALL:
        return
    for job, aliases in jobs.items():
        open_to_doubt = [alias for alias in aliases if alias not in asked]
        if len(aliases) > 1 and open_to_doubt:
            raise ConfigError(
                f"{option} v{every}: job {job!r} has several sources, each with versions of its own",
                hint=f"name the source: {option} {','.join(f'{alias}=v{every}' for alias in open_to_doubt)}",
            )
