"""The lock of a job in an object store, on obstore's store in memory, which knows the same conditions as S3."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from enrich.base.errors import Locked
from enrich.storage.leases import LEASE, hold_lease

NAME = "locks/job.lock"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 23, tzinfo=UTC)

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
        with hold_lease(store, "another", "two", clock=clock):
            pass
    with hold_lease(store, "job", "two", clock=clock):
        assert read_note(store)["run_id"] == "two"


def test_the_lock_of_a_run_that_was_killed_ends_by_itself(store: Any, clock: Clock) -> None:
    held = hold_lease(store, "job", "killed", clock=clock)
    held.__enter__()
    clock.now += LEASE - timedelta(seconds=1)
    with pytest.raises(Locked), hold_lease(store, "job", "next", clock=clock):
        pass
    clock.now += timedelta(seconds=1)
    with hold_lease(store, "job", "next", clock=clock):
        assert read_note(store)["run_id"] == "next"
        held.__exit__(None, None, None)  # it was only slow: the lock is the other's, and stays so
        assert read_note(store)["run_id"] == "next"


def test_a_run_that_works_keeps_its_lock(store: Any, clock: Clock) -> None:
    with hold_lease(store, "job", "long", clock=clock, renewal=0.01):
        clock.now += 2 * LEASE
        until = clock.now + LEASE
        while datetime.fromisoformat(read_note(store)["until"]) != until:
            pass
        with pytest.raises(Locked), hold_lease(store, "job", "next", clock=clock):
            pass


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


def test_what_is_no_note_holds_nobody_up(store: Any) -> None:
    obstore.put(store, NAME, b"\xff{")
    with hold_lease(store, "job", "one"):
        assert read_note(store)["run_id"] == "one"
