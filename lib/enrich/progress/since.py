"""What ``--since`` and ``--until`` say: a version, an instant or the beginning. Text alone; no table is looked at.

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
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from enrich.base.errors import ConfigError, suggest

log = logging.getLogger("enrich")

FORMS = "2026-11-01T00:00Z, 2026-11-01, 2026-11-01T00:00+02:00, 3d, 12h, 30m, 2w, v42, alias=v42, beginning"

_VERSION = re.compile(r"v([0-9]{1,18})")
_DURATION = re.compile(r"([0-9]{1,9})([mhdw])")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class Version:
    """A version of one source."""

    number: int

    def __str__(self) -> str:
        return f"v{self.number}"


@dataclass(frozen=True)
class Instant:
    """A point in time, in UTC."""

    at: datetime

    def __str__(self) -> str:
        return self.at.isoformat(timespec="auto").replace("+00:00", "Z")


@dataclass(frozen=True)
class Beginning:
    """Before the first version."""

    def __str__(self) -> str:
        return "beginning"


Moment = Version | Instant | Beginning
Said = str | Iterable[str] | None


@dataclass(frozen=True)
class Asked:
    """One option, read.

    Attributes:
        option: Its name, for messages.
        every: What it says of all sources that it does not name.
        named: Alias -> what it says of that source.
    """

    option: str
    every: Moment | None = None
    named: Mapping[str, Moment] = field(default_factory=dict)

    def of(self, alias: str) -> Moment | None:
        """Return what the option says of a source; None for nothing."""
        return self.named.get(alias, self.every)

    def spell(self, aliases: Collection[str]) -> str | None:
        """Return the option's value for a job with these sources, as on a command line; None where it says nothing."""
        named = [f"{alias}={each}" for alias, each in self.named.items() if alias in aliases]
        return ",".join([*([str(self.every)] if self.every is not None else []), *named]) or None


@dataclass(frozen=True)
class Bounds:
    """What a run was told about its window.

    Attributes:
        since: Widens the window backwards; None: it starts at the cursor.
        until: Ends the window; None: it ends at the latest version.
        allow_gap: ``since`` may lie beyond the cursor, and histories may leave out what no feed tells any more.
    """

    since: Asked | None = None
    until: Asked | None = None
    allow_gap: bool = False

    @property
    def replays(self) -> bool:
        """True when the run is told both ends."""
        return self.since is not None and self.until is not None

    def spell(self, option: str, aliases: Collection[str]) -> str | None:
        """Return the value of ``since`` or ``until`` for a job with these sources, as on a command line."""
        asked: Asked | None = getattr(self, option)
        return None if asked is None else asked.spell(aliases)

    def is_point(self, alias: str) -> bool:
        """Return whether both ends of a source's window are one moment.

        Airflow's data interval is such a point for cron schedules: it says how far to go, not what to leave out.
        """
        if self.since is None or self.until is None:
            return False
        return self.since.of(alias) is not None and self.since.of(alias) == self.until.of(alias)


def read_asked(
    jobs: Mapping[str, Collection[str]],
    ends: tuple[Said, Said],
    *,
    allow_gap: bool = False,
    full_refresh: bool = False,
    histories: bool = False,
) -> Bounds:
    """Read both ends of a run that begins now, hold them against its jobs, and log which instants they mean.

    ``histories`` says whether some of these are; their feeds may be lost, so ``allow_gap`` may stand by itself.

    Raises:
        ConfigError: As ``read_bounds`` and ``check``, or ``since`` beside ``full_refresh``.
    """
    found = read_bounds(*ends, allow_gap=allow_gap, now=datetime.now(UTC), alone=histories and not full_refresh)
    if full_refresh and found.since is not None:
        raise ConfigError("--full-refresh computes every row, so --since has no effect", hint="leave one of them out")
    check(found, jobs)
    for asked in filter(None, (found.since, found.until)):
        told = [str(asked.every)] if isinstance(asked.every, Instant) else []
        told += [f"{alias}={each}" for alias, each in asked.named.items() if isinstance(each, Instant)]
        if told:
            log.info("%s is %s", asked.option, ", ".join(told))
    return found


def read_bounds(since: Said, until: Said, *, allow_gap: bool, now: datetime, alone: bool = False) -> Bounds:
    """Read the three options as on the command line; several moments are comma-separated, or a sequence.

    Durations count from ``now``, when the run began, in UTC. ``alone`` says that ``allow_gap`` may stand by itself.

    Raises:
        ConfigError: A form that is none of ``FORMS``, ends that are the wrong way round, ``allow_gap`` by itself.
    """
    found = Bounds(_read_end("--since", since, now), _read_end("--until", until, now), allow_gap)
    if allow_gap and found.since is None and not alone:
        raise ConfigError("--allow-gap goes with --since", hint="leave it out, or give --since as well")
    if found.since is not None and found.until is not None:
        for alias in {*found.since.named, *found.until.named, ""}:
            start, end = found.since.of(alias), found.until.of(alias)
            is_later = isinstance(start, Instant) and isinstance(end, Instant) and start.at > end.at
            if is_later or (isinstance(start, Version) and isinstance(end, Version) and start.number > end.number):
                raise ConfigError("--since is later than --until", hint="exchange the two values")
    return found


def _read_end(option: str, given: Said, now: datetime) -> Asked | None:
    if given is None:
        return None
    parts = [part.strip() for text in ([given] if isinstance(given, str) else given) for part in text.split(",")]
    found: dict[str, Moment] = {}
    for part in parts:
        before, equals, form = part.rpartition("=")
        moment, alias = read_moment(option, form.strip(), now, whole=part), before.strip()
        if equals and not alias:
            raise _refuse_unknown(option, part)
        if alias in found:
            raise ConfigError(f"{option} is given twice for {repr(alias) if alias else 'every source'}")
        found[alias] = moment
    return Asked(option, found.pop("", None), found) if parts else None


def read_moment(option: str, text: str, now: datetime, whole: str | None = None) -> Moment:
    """Read one form.

    Raises:
        ConfigError: It is none of ``FORMS``, or a time that no calendar has.
    """
    if text == "beginning":
        return Beginning()
    if found := _VERSION.fullmatch(text):
        return Version(int(found[1]))
    try:
        if found := _DURATION.fullmatch(text):
            return Instant(now - timedelta(**{_UNITS[found[2]]: int(found[1])}))
        if _TIME.fullmatch(text):
            at = datetime.fromisoformat(text)
            return Instant(at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC))
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{option} {whole or text!r}: there is no such time", hint=f"valid forms are {FORMS}"
        ) from None
    raise _refuse_unknown(option, whole if whole is not None else text)


def read_duration(option: str, text: str) -> timedelta:
    """Read a duration: ``30m``, ``12h``, ``3d``, ``2w``.

    Raises:
        ConfigError: It is none, or longer than any calendar.
    """
    found = _DURATION.fullmatch(text.strip())
    try:
        if found:
            return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        pass
    raise ConfigError(f"{option} {text!r} is not a duration", hint="valid forms are 30m, 12h, 3d, 2w")


def _refuse_unknown(option: str, text: str) -> ConfigError:
    return ConfigError(f"{option} {text!r} is not a version, time or duration", hint=f"valid forms are {FORMS}")


def check(found: Bounds, jobs: Mapping[str, Collection[str]]) -> None:
    """Hold the options against the jobs to run: job -> its aliases.

    Raises:
        ConfigError: A source that no job has, or a bare version for a job with several sources.
    """
    known = {alias for aliases in jobs.values() for alias in aliases}
    for asked in filter(None, (found.since, found.until)):
        for alias in asked.named:
            if alias not in known:
                hint = suggest(alias, known, f"the sources are {', '.join(sorted(known))}")
                raise ConfigError(f"{asked.option}: no job to run has a source {alias!r}", hint=hint)
        if isinstance(asked.every, Version):
            for job, aliases in jobs.items():
                open_to_doubt = [alias for alias in aliases if alias not in asked.named]
                if len(aliases) > 1 and open_to_doubt:
                    meant = ",".join(f"{alias}={asked.every}" for alias in open_to_doubt)
                    raise ConfigError(
                        f"{asked.option} {asked.every}: job {job!r} has several sources, each with versions of its own",
                        hint=f"name the source: {asked.option} {meant}",
                    )
