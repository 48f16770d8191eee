"""Notifications, sent to a real server on loopback."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from enrich.base.errors import Blocked, HistoryError, RunFailed
from enrich.base.result import Finding, JobResult
from enrich.observe.notify import EndedRun, NotDelivered, Recipient, build_body, build_event, post
from enrich.project.models import Notify, Reference
from kit.listener import listen

RUN = EndedRun("shop", "prod", "f00d", 5)
FAILED = JobResult("orders", "failed").failed_with(HistoryError("the log of orders has expired", hint="run x"))
FINDING = Finding(0, "mass_change", None, "fail", 100, 90, success=False)
BLOCKED = JobResult("customers", "updated", findings=(FINDING, replace(FINDING, success=True))).failed_with(
    Blocked("b")
)
GOOD = JobResult("persons", "unchanged")


def settings(**more: Any) -> Notify:
    return Notify(url=Reference(env="HOOK"), **more)


def events(results: list[JobResult], previous: dict[str, str], **more: Any) -> Any:
    return build_event(settings(**more), RUN, results, previous)


@pytest.mark.parametrize(
    ("status", "previous", "event"),
    [
        ("failed", None, "failure"),
        ("failed", "failed", "failure"),
        ("blocked", "updated", "block"),
        ("updated", "failed", "recovery"),
        ("unchanged", "blocked", "recovery"),
        ("created", None, None),
        ("updated", "unchanged", None),
        ("skipped", "failed", None),
        ("locked", "failed", None),
    ],
)
def test_what_happened_to_a_job(status: str, previous: str | None, event: str | None) -> None:
    found = events([JobResult("a", status)], {"a": previous} if previous is not None else {})
    assert (found["event"] if found is not None else None) == event


def test_the_payload_is_as_documented() -> None:
    found = events([FAILED, BLOCKED, GOOD], {"customers": "updated", "persons": "failed"})
    at = found.pop("at")
    assert at.endswith("+00:00")
    jobs = found.pop("jobs")
    assert found == {
        "version": 1,
        "event": "failure",
        "project": "shop",
        "deployment": "prod",
        "run_id": "f00d",
        "exit_code": 5,
    }
    assert [(job["job"], job["event"], job["previous_status"]) for job in jobs] == [
        ("orders", "failure", None),
        ("customers", "block", "updated"),
        ("persons", "recovery", "failed"),
    ]
    assert jobs[0]["error"] == "the log of orders has expired; run x"
    assert jobs[1]["findings"] == [FINDING.to_dict()]
    assert list(jobs[2]) == ["job", "owner", "event", "status", "previous_status", "exit_code", "error", "findings"]


def test_only_what_was_asked_for_is_told() -> None:
    assert events([GOOD], {"persons": "updated"}) is None
    assert events([FAILED, GOOD], {"persons": "failed"}, on=("block",)) is None
    found = events([FAILED, GOOD], {"persons": "failed"}, on=("recovery",))
    assert (found["event"], [job["job"] for job in found["jobs"]]) == ("recovery", ["persons"])


WARNED = JobResult("stock", "updated", findings=(replace(FINDING, action="warn"),))


def test_a_warning_is_told_to_those_who_ask_for_it() -> None:
    assert events([WARNED], {}) is None
    assert events([WARNED], {}, on=("warn",))["jobs"][0]["event"] == "warn"
    assert (
        events([JobResult("stock", "updated", findings=(replace(FINDING, tolerated=True),))], {}, on=("warn",)) is None
    )
    both = events([WARNED, FAILED], {}, on=("failure", "warn"))
    assert both["event"] == "failure", "the gravest names the event"
    healed = events([WARNED], {"stock": "failed"}, on=("warn", "recovery"))
    assert healed["event"] == "warn"
    assert events([WARNED], {"stock": "failed"})["event"] == "recovery"


def test_a_job_that_is_late_is_told_with_its_time() -> None:
    def tell(seconds: float, **more: Any) -> Any:
        return build_event(settings(on=("late",), **more), RUN, [FAILED], {}, {}, {"orders": seconds})

    assert tell(3600.0) is None
    found = tell(3601.0)
    assert (found["event"], found["jobs"][0]["waiting_seconds"]) == ("late", 3601.0)
    assert tell(700.0, max_lag="10m")["event"] == "late"
    assert build_event(settings(), RUN, [GOOD], {}, {}, {"persons": 1e9}) is None, "who does not ask is not told"
    with pytest.raises(ValidationError, match="duration"):
        settings(max_lag="soon")


def test_blocked_is_another_word_for_block() -> None:
    assert events([BLOCKED], {}, on=("blocked",))["event"] == "block"


def test_repeat_false_tells_the_first_of_equal_endings() -> None:
    assert events([FAILED], {"orders": "failed"}, repeat=False) is None
    assert events([FAILED], {"orders": "blocked"}, repeat=False)["event"] == "failure"
    assert events([FAILED], {}, repeat=False)["event"] == "failure"
    assert events([FAILED], {"orders": "failed"})["event"] == "failure"
    assert events([GOOD], {"persons": "failed"}, repeat=False)["event"] == "recovery"


def test_the_owner_is_named() -> None:
    found = build_event(settings(), RUN, [FAILED, BLOCKED], {}, {"orders": "crm", "customers": None})
    assert found is not None
    assert [job["owner"] for job in found["jobs"]] == ["crm", None]
    text = json.loads(build_body(settings(text="{jobs}"), found))["text"]
    assert text.splitlines()[0].startswith("orders, of crm: failure (failed), exit 5")
    assert text.splitlines()[1].startswith("customers: block (blocked)")


def test_a_text_for_chat_programs() -> None:
    template = "enrich {deployment} ended with {exit_code} ({event}): {jobs} {unknown"
    found = events([FAILED, GOOD], {"persons": "failed"})
    body = json.loads(build_body(settings(text=template), found))
    assert body == {
        "text": "enrich prod ended with 5 (failure): orders: failure (failed), exit 5: the log of orders has expired;"
        " run x\npersons: recovery (unchanged) {unknown"
    }


def recipient(url: str, timeout: int = 5, **headers: str) -> Recipient:
    return Recipient(settings(timeout=timeout), url, headers)


def test_a_post_with_its_headers() -> None:
    with listen() as listener:
        post(recipient(f"{listener.url}hook?a=b", Authorization="Bearer s3cret"), b'{"a": 1}')
    ((path, headers, body),) = listener.received
    assert (path, body) == ("/hook?a=b", b'{"a": 1}')
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize("code", [500, 503, 429, 408])
def test_what_may_pass_is_tried_again_with_growing_pauses(code: int) -> None:
    pauses: list[float] = []
    with listen(code, code, 204) as listener:
        post(recipient(listener.url, 60), b"{}", pauses.append)
    assert len(listener.received) == 3
    assert pauses == [0.5, 1.0]


def test_attempts_are_bounded() -> None:
    pauses: list[float] = []
    with listen(500) as listener, pytest.raises(NotDelivered, match="HTTP 500, after 6 attempts"):
        post(recipient(listener.url, 60), b"{}", pauses.append)
    assert (len(listener.received), pauses) == (6, [0.5, 1.0, 2.0, 4.0, 8.0])


@pytest.mark.parametrize("code", [400, 401, 404, 302, 307])
def test_what_does_not_pass_is_tried_once_and_no_redirect_is_followed(code: int) -> None:
    with listen(code) as listener, pytest.raises(NotDelivered, match=f"HTTP {code}, after 1 attempt$"):
        post(recipient(listener.url, Authorization="s3cret"), b"{}")
    assert [path for path, _, _ in listener.received] == ["/"]


def test_the_time_is_bounded_and_the_address_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("enrich.observe.notify.time", SimpleNamespace(monotonic=lambda: now[0]))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/s3cret"
        with pytest.raises(NotDelivered) as caught:
            post(recipient(url, 2), b"{}", pause)
    assert now == [1.5], "the third pause would end too late"
    assert str(caught.value) == "ConnectionRefusedError, after 3 attempts"


def test_a_server_that_never_answers_is_given_up() -> None:
    with listen(delay=1.5) as listener, pytest.raises(NotDelivered, match=r"Timeout.*, after 1 attempt"):
        post(recipient(listener.url, 1), b"{}")


def test_secrets_are_in_no_text_of_the_recipient() -> None:
    assert "s3cret" not in repr(recipient("http://h/s3cret", X="s3cret"))


def test_errors_are_told_without_values() -> None:
    found = events([JobResult("a", "failed").failed_with(RunFailed("job 'a' failed: SparkException"))], {})
    assert found["jobs"][0]["error"] == "job 'a' failed: SparkException"
