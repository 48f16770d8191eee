"""Tell somebody when a job fails, is blocked, late, warned, or succeeds again: an HTTP POST of JSON.

    {"version": 1, "event": "failure", "project": "shop", "deployment": "prod", "run_id": "...", "exit_code": 1,
     "at": "...", "jobs": [{"job": "customers", "event": "failure", "status": "failed", "previous_status": "updated",
     "exit_code": 1, "error": "...", "findings": [...]}]}

Names, numbers and messages of enrich, never a cell value. Neither the address nor a header is ever told.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from types import MappingProxyType
from typing import Any

from enrich.base.result import BLOCKED, FAILED, LOCKED, SKIPPED, JobResult
from enrich.base.words import parse_duration
from enrich.project.models import FIELD, Notify

VERSION = 1
FAILURE, BLOCK, LATE, WARN, RECOVERY = "failure", "block", "late", "warn", "recovery"
GRAVITY = (FAILURE, BLOCK, LATE, WARN, RECOVERY)  # the gravest first: it names the event of a run with several jobs
_BAD = {FAILED: FAILURE, BLOCKED: BLOCK}
_SAME = {"blocked": BLOCK}  # another word for it in conf/
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before another attempt
_PASSING = frozenset({408, 425, 429})  # answers after which another attempt may succeed, beside all from 500 on
_LONGEST_ATTEMPT = 10.0


class NotDelivered(Exception):
    """Nobody took the message; says why without the address."""


@dataclass(frozen=True)
class Recipient:
    """Who is told, with the secrets in place."""

    settings: Notify
    url: str = field(repr=False)  # the address; kept out of every text that is shown
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class EndedRun:
    """What is said of the run as a whole."""

    project: str
    deployment: str
    run_id: str
    exit_code: int


def build_event(
    settings: Notify,
    run: EndedRun,
    results: Iterable[JobResult],
    previous: Mapping[str, str],
    owners: Mapping[str, str | None] = MappingProxyType({}),
    waiting: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Any] | None:
    """Return what a recipient is told of a run; None when there is nothing for it.

    ``previous``: job -> its status before, of the last run that neither skipped nor waited. ``waiting``: job -> seconds
    for which the oldest change has been waiting that its target lacks.
    """
    jobs: list[dict[str, Any]] = []
    limit, wanted = parse_duration(settings.max_lag) or 0, {_SAME.get(on, on) for on in settings.on}
    for result in (each for each in results if each.status not in (SKIPPED, LOCKED)):
        before = previous.get(result.job)
        failing = [each for each in result.findings if each.is_failing]
        is_warned = result.status not in _BAD and any(not each.tolerated for each in failing)
        is_late = (seconds := waiting.get(result.job, 0.0)) > limit
        said = (_BAD.get(result.status), LATE if is_late else None, WARN if is_warned else None)
        recovery = RECOVERY if before in _BAD and result.status not in _BAD else None
        event = next((each for each in (*said, recovery) if each in wanted), None)
        again = event in (FAILURE, BLOCK) and before is not None and _BAD.get(before) == event
        if event is not None and (settings.repeat or not again):
            told: dict[str, Any] = {
                "job": result.job,
                "owner": owners.get(result.job),
                "event": str(event),
                "status": result.status,
                "previous_status": before,
            }
            told |= {"exit_code": result.exit_code, "error": result.error}
            late = {"waiting_seconds": seconds} if event == LATE else {}
            jobs.append({**told, "findings": [each.to_dict() for each in failing], **late})
    if not jobs:
        return None
    return {
        "version": VERSION,
        "event": min((job["event"] for job in jobs), key=GRAVITY.index),
        **vars(run),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "jobs": jobs,
    }


def build_body(settings: Notify, event: Mapping[str, Any]) -> bytes:
    """Return the JSON to send: the whole event, or the text that the recipient wants, with the event's fields put in.

    ``{jobs}`` becomes a line for each job.
    """
    if settings.text is None:
        return json.dumps(event).encode()
    lines = [
        job["job"]
        + ("" if job["owner"] is None else f", of {job['owner']}")
        + f": {job['event']} ({job['status']})"
        + ("" if job["error"] is None else f", exit {job['exit_code']}: {job['error']}")
        for job in event["jobs"]
    ]
    known = {**event, "jobs": "\n".join(lines)}
    return json.dumps({"text": FIELD.sub(lambda match: str(known[match[1]]), settings.text)}).encode()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: it would carry the headers, and with them the secrets, to another place."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def post(recipient: Recipient, body: bytes, pause: Callable[[float], None] = time.sleep) -> None:
    """Send ``body``, several times when it fails for a reason that may pass; NotDelivered when the time is up."""
    opener, end = urllib.request.build_opener(_NoRedirect), time.monotonic() + recipient.settings.timeout
    headers = {"Content-Type": "application/json", "User-Agent": "enrich", **recipient.headers}
    request = urllib.request.Request(recipient.url, body, headers, method="POST")  # noqa: S310 - http or https only
    for attempt, seconds in enumerate((*_PAUSES, None), start=1):
        left = end - time.monotonic()
        why, passes = _attempt(opener, request, min(max(left, 0.1), _LONGEST_ATTEMPT))
        if why is None:
            return
        if not passes or seconds is None or time.monotonic() + seconds >= end:
            raise NotDelivered(f"{why}, after {attempt} attempt{'s' if attempt > 1 else ''}")
        pause(seconds)


def _attempt(
    opener: urllib.request.OpenerDirector, request: urllib.request.Request, seconds: float
) -> tuple[str | None, bool]:
    """Send a request once; return why it failed, None for success, and whether another attempt may succeed."""
    try:
        with opener.open(request, timeout=seconds):
            return None, False
    except urllib.error.HTTPError as error:
        with error:
            return f"HTTP {error.code}", error.code in _PASSING or error.code >= 500
    except urllib.error.URLError as error:
        reason = error.reason
        return type(reason).__name__ if isinstance(reason, BaseException) else type(error).__name__, True
    except (OSError, HTTPException) as error:
        return type(error).__name__, True
