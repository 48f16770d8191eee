"""The lock of a job in an object store, on obstore's store in memory, which knows the same conditions as S3.

Google Cloud Storage has other conditions, of the number of an object's generation; a small server has these.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import obstore
import pytest
from obstore.store import GCSStore, MemoryStore

from enrich.base.errors import Locked
from enrich.storage.leases import LEASE, hold_lease

NAME = "locks/job.lock"


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)  # the store dates what is written

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def store() -> Any:
    return MemoryStore()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def read_note(store: Any) -> dict[str, Any]:
    return dict(json.loads(bytes(obstore.get(store, NAME).bytes())))


def test_a_second_run_is_refused_until_the_first_has_ended(store: Any, clock: Clock) -> None:
    with hold_lease(store, "job", "one", clock=clock):
        second = hold_lease(store, "job", "two", clock=clock)
        with pytest.raises(Locked, match=r"run one .* has the lock of job 'job'"), second:
            pass
        loading = hold_lease(store, "job", "two", "accounts", clock=clock)
        with pytest.raises(Locked, match=r"run one .* is loading table accounts; run again"), loading:
            pass
        with hold_lease(store, "another", "two", clock=clock):
            pass
    with hold_lease(store, "job", "two", clock=clock):
        assert read_note(store)["run_id"] == "two"


def test_the_lock_of_a_run_that_was_killed_ends_by_itself(store: Any, clock: Clock) -> None:
    held = hold_lease(store, "job", "killed", clock=clock)
    held.__enter__()
    clock.now += LEASE - timedelta(seconds=20)
    with pytest.raises(Locked), hold_lease(store, "job", "next", clock=clock):
        pass
    clock.now += timedelta(minutes=1)
    with hold_lease(store, "job", "next", clock=clock):
        assert read_note(store)["run_id"] == "next"
        held.__exit__(None, None, None)  # it was only slow: the lock is the other's, and stays so
        assert read_note(store)["run_id"] == "next"


def test_a_run_that_works_keeps_its_lock(store: Any, clock: Clock) -> None:
    with hold_lease(store, "job", "long", clock=clock, renewal=0.01):
        taken = obstore.head(store, NAME)["last_modified"]
        while (renewed := obstore.head(store, NAME)["last_modified"]) <= taken + timedelta(seconds=0.1):
            pass
        clock.now = renewed + LEASE - timedelta(seconds=0.05)  # later than a minute after it was taken
        with pytest.raises(Locked), hold_lease(store, "job", "next", clock=clock):
            pass


@pytest.mark.parametrize("ahead", [timedelta(hours=6), timedelta(hours=-6)])
def test_the_clock_of_the_holder_does_not_count(store: Any, clock: Clock, ahead: timedelta) -> None:
    def other() -> datetime:
        return clock.now + ahead

    with hold_lease(store, "job", "ended", clock=other):
        pass
    held = hold_lease(store, "job", "killed", clock=other)
    held.__enter__()
    with pytest.raises(Locked, match="run killed "), hold_lease(store, "job", "early", clock=clock):
        pass
    clock.now += 2 * LEASE
    with hold_lease(store, "job", "next", clock=clock):
        assert read_note(store)["run_id"] == "next"


def test_of_two_runs_that_see_a_free_lock_one_gets_it(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def both(real: Any) -> Any:
        def put(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(obstore, "put", real)
            real(store, NAME, b"somebody was faster")
            return real(*args, **options)

        return put

    monkeypatch.setattr(obstore, "put", both(obstore.put))
    with pytest.raises(Locked, match="another run has just taken"), hold_lease(store, "job", "one"):
        pass


def send_twice(real: Any) -> Any:
    """Put as a client does that gets no answer to a write that has reached the store: it sends the write again."""

    def put(*args: Any, **options: Any) -> Any:
        real(*args, **options)
        return real(*args, **options)

    return put


def test_a_lost_answer_to_the_first_write_is_no_other_run(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(obstore, "put", send_twice(obstore.put))
        held = hold_lease(store, "job", "one")
        held.__enter__()
    assert (read_note(store)["run_id"], read_note(store)["held"]) == ("one", True)
    held.__exit__(None, None, None)
    with hold_lease(store, "job", "two"):  # the first has released it
        assert read_note(store)["run_id"] == "two"


def test_a_lost_answer_to_a_renewal_loses_no_lock(
    store: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "enrich")
    with hold_lease(store, "job", "one", clock=clock, renewal=0.01):
        with monkeypatch.context() as patched:
            patched.setattr(obstore, "put", send_twice(obstore.put))
            wait_for_renewals(store, 2)
        wait_for_renewals(store, 2)
        with pytest.raises(Locked, match="run one "), hold_lease(store, "job", "two", clock=clock):
            pass
        monkeypatch.setattr(obstore, "put", send_twice(obstore.put))
    assert not read_note(store)["held"]
    assert not caplog.records


def wait_for_renewals(store: Any, number: int) -> None:
    for _ in range(number):
        known = obstore.head(store, NAME)["e_tag"]
        for _ in range(500):
            if obstore.head(store, NAME)["e_tag"] == known:
                time.sleep(0.01)
        assert obstore.head(store, NAME)["e_tag"] != known, "nobody renews it"


def test_what_is_no_note_holds_nobody_up(store: Any) -> None:
    obstore.put(store, NAME, b"\xff{")
    with hold_lease(store, "job", "one"):
        assert read_note(store)["run_id"] == "one"


class Google(ThreadingHTTPServer):
    """Keeps objects in memory, with their generations."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), GoogleHandler)
        self.objects: dict[str, tuple[int, bytes]] = {}
        self.conditions: list[str | None] = []
        self.refuses = False


class GoogleHandler(BaseHTTPRequestHandler):
    server: Google
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        found = self.server.objects.get(self.path)
        self.answer(404, 0, b"") if found is None else self.answer(200, *found)

    def do_PUT(self) -> None:
        body, expected = (
            self.rfile.read(int(self.headers["Content-Length"])),
            self.headers["x-goog-if-generation-match"],
        )
        generation, _ = self.server.objects.get(self.path, (0, b""))
        self.server.conditions.append(expected)
        if self.server.refuses:
            return self.answer(403, 0, b"")
        if expected is not None and int(expected) != generation:
            return self.answer(412, 0, b"")
        self.server.objects[self.path] = (generation + 1, body)
        return self.answer(200, generation + 1, body, b"")

    def answer(self, code: int, generation: int, of: bytes, body: bytes | None = None) -> None:
        sent = of if body is None else body
        self.send_response(code)
        self.send_header("ETag", f'"{hashlib.sha256(of).hexdigest()}"')
        self.send_header("x-goog-generation", str(generation))
        self.send_header("Last-Modified", self.date_time_string())
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        """Tell nobody."""


@contextmanager
def serve() -> Iterator[tuple[Google, Any]]:
    with Google() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        account = {"gcs_base_url": f"http://127.0.0.1:{server.server_port}", "disable_oauth": True}
        lacking = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        key = json.dumps({**account, **lacking})
        try:
            yield server, GCSStore("box", config={"service_account_key": key}, client_options={"allow_http": True})
        finally:
            server.shutdown()
            thread.join()


def test_google_looks_at_the_generation(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "enrich")
    with serve() as (server, google):
        for run in ("one", "two", "three"):
            with hold_lease(google, "job", run, renewal=0.01):
                second = hold_lease(google, "job", "another")
                with pytest.raises(Locked, match=f"run {run} "), second:
                    pass
                known = len(server.conditions)
                for _ in range(500):
                    if len(server.conditions) < known + 2:
                        time.sleep(0.01)
                assert len(server.conditions) >= known + 2
        assert server.conditions == [str(number) for number in range(len(server.conditions))]
        held = hold_lease(google, "job", "slow")
        held.__enter__()
        obstore.put(google, NAME, b"")
        held.__exit__(None, None, None)
        assert bytes(obstore.get(google, NAME).bytes()) == b""
    assert [record.getMessage() for record in caplog.records] == [
        f"the lock {NAME} was taken by another run; the target's log decides which one commits"
    ]


def test_google_loses_no_lock_by_a_lost_answer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "enrich")
    monkeypatch.setattr(obstore, "put", send_twice(obstore.put))
    with serve() as (_, google):
        for run in ("one", "two"):
            with hold_lease(google, "job", run):
                assert read_note(google)["run_id"] == run
            assert not read_note(google)["held"]
    assert not caplog.records


def test_a_lock_that_cannot_be_released_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "enrich")
    with serve() as (server, google), hold_lease(google, "job", "one"):
        server.refuses = True
    assert [record.getMessage() for record in caplog.records] == [
        f"the lock {NAME} could not be released; it ends within a minute by itself"
    ]
