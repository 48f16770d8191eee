"""A lock in an object store: one object a job, changed only by writes that fail if somebody else has changed it.

The holder renews it while it works. Who does not, for as long as a lease lasts, has died; then another may take it.
It spares the second run's work. That no commit is lost does not depend on it, for the target's log decides.

The holder's clock does not count: the lock says that it is released, and its age is taken from the store, which
dates what is written. Who looks at it compares that with its own clock. One that is ahead takes a lock too early, and
then one of the two works in vain; one that is behind waits longer for a run that was killed. S3 answers nobody whose
clock is off by more than a quarter of an hour.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from enrich.base.errors import EnvironmentFault, Locked
from enrich.base.failpoints import pass_point

if TYPE_CHECKING:
    from obstore import UpdateVersion

log = logging.getLogger("enrich")

LEASE = timedelta(seconds=60)
"""How long a lock outlives its last renewal."""

RENEWAL = 15.0
"""Seconds between two renewals."""


def read_clock() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


@dataclass
class _Lease:
    """A lock that this process holds, or has lost.

    Attributes:
        store: The state directory.
        name: The object below it.
        note: Who holds it.
        mark: The object's tag and generation since the last write; None when somebody else has written it.
    """

    store: Any
    name: str
    note: dict[str, Any]
    mark: UpdateVersion | None

    def write(self, *, held: bool = True) -> bool:
        """Write the lock anew, if it is still ours; return whether nothing went wrong."""
        if self.mark is None:
            return True
        try:
            written = self._replace(held=held)
        except Exception as error:  # noqa: BLE001 - the next renewal may succeed; without one, the lease ends
            log.info("the lock %s could not be renewed (%s)", self.name, type(error).__name__)
            return False
        if not written:
            log.warning("the lock %s was taken by another run; the target's log decides which one commits", self.name)
        return True

    def _replace(self, *, held: bool) -> bool:
        """Write over the last write of this process; return False when somebody else has written since.

        A write can reach the store and its answer not reach us. Then the store has a newer object than ``mark`` says,
        and refuses the next write, although nobody has taken the lock. So what is there is read first.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotFoundError, PreconditionError

        for _ in range(2):
            try:
                self.mark = _mark(obstore.put(self.store, self.name, _format(self.note, held=held), mode=self.mark))
            except (AlreadyExistsError, NotFoundError, PreconditionError, FileNotFoundError):
                self.mark = _find_own(self.store, self.name, self.note)
                if self.mark is None:
                    return False
            else:
                return True
        # Ours again, and newer than what was read in between: this write has arrived, and only its answer is lost.
        return True


@contextmanager
def hold_lease(
    store: Any,
    job: str,
    run_id: str,
    table: str | None = None,
    *,
    clock: Callable[[], datetime] = read_clock,
    renewal: float = RENEWAL,
) -> Iterator[None]:
    """Hold the lock of a job in a state directory that is in an object store.

    Args:
        store: The state directory, as ``stores.open_store`` gives it.
        job: The job, or the name of the lock where there is none.
        run_id: Told to whoever is refused.
        table: What messages call the table that is loaded under this lock; None: a job has it.
        clock: Tells the time.
        renewal: Seconds between two renewals.

    Raises:
        Locked: Another run holds it.
        EnvironmentFault: The state directory cannot be written.
    """
    pass_point("lock.before")
    lease = _take(store, job, run_id, clock, table)
    pass_point("lock.taken")
    if lease is None:
        yield
        return
    done = threading.Event()

    def renew() -> None:
        while not done.wait(renewal):
            lease.write()

    thread = threading.Thread(target=renew, name=f"lock of {job}", daemon=True)
    thread.start()
    try:
        pass_point("lock.noted")
        yield
    finally:
        done.set()
        thread.join()
        if not lease.write(held=False):
            log.warning("the lock %s could not be released; it ends within a minute by itself", lease.name)
    pass_point("lock.released")


def describe_hold(job: str, table: str | None) -> str:
    """Return what the holder of a lock does, for whoever is refused: nobody knows a load by the name of its lock."""
    return f"has the lock of job {job!r}" if table is None else f"is loading table {table}"


def _take(store: Any, job: str, run_id: str, clock: Callable[[], datetime], table: str | None) -> _Lease | None:
    """Take the lock; None where the store knows no conditions."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    name, now = f"locks/{job}.lock", clock()
    since = now.isoformat(timespec="seconds")
    note = {"run_id": run_id, "host": socket.gethostname(), "pid": os.getpid(), "since": since}
    mode: Any = "create"
    try:
        try:
            found = obstore.get(store, name)
            text, mark, since_renewal = bytes(found.bytes()), _mark(found.meta), now - found.meta["last_modified"]
        except FileNotFoundError:
            pass
        else:
            if since_renewal < LEASE and (holder := _find_holder(text)) is not None:
                raise Locked(f"{holder} {describe_hold(job, table)}", hint="run again when it has ended")
            mode = mark
        try:
            taken = _mark(obstore.put(store, name, _format(note, held=True), mode=mode))
        except (AlreadyExistsError, PreconditionError):
            # The client sends a write again whose answer is lost: then it is our own lock that is in the way.
            if (own := _find_own(store, name, note)) is None:
                taken_now = f"has just taken the lock of job {job!r}" if table is None else describe_hold(job, table)
                raise Locked(f"another run {taken_now}", hint="run again when it has ended") from None
            taken = own
    except (NotSupportedError, NotImplementedError):
        who = table or job
        log.warning("%s: the object store of the state directory knows no conditional writes, so no locks", who)
        return None
    except Locked:
        raise
    except Exception as error:
        raise EnvironmentFault(
            f"cannot write {name} in the state directory ({type(error).__name__})",
            hint="check the address of the object store, the credentials and their permissions",
        ) from error
    return _Lease(store, name, note, taken)


def _find_own(store: Any, name: str, note: Mapping[str, Any]) -> UpdateVersion | None:
    """Return the mark of a lock that is there if the lease of ``note`` has written it; None if not, or if none is."""
    import obstore

    try:
        found = obstore.get(store, name)
        told = json.loads(bytes(found.bytes()))
    except (FileNotFoundError, ValueError):
        return None
    # The id alone names the run; host and process are compared in case an id is ever handed on to another process.
    is_ours = isinstance(told, dict) and all(told.get(key) == note[key] for key in ("run_id", "host", "pid"))
    return _mark(found.meta) if is_ours else None


def _mark(told: Mapping[str, Any]) -> UpdateVersion:
    """Return what a write names that may only replace what it has seen: S3 looks at the tag, Google at the generation.

    Args:
        told: What the store says of an object that was read or written.
    """
    found: UpdateVersion = {}  # obstore refuses None
    if told.get("e_tag") is not None:
        found["e_tag"] = told["e_tag"]
    if told.get("version") is not None:
        found["version"] = told["version"]
    return found


def _format(note: dict[str, Any], *, held: bool) -> bytes:
    return json.dumps({**note, "held": held}).encode()


def _find_holder(text: bytes) -> str | None:
    """Return who holds a lock; None when it was released, or says nothing."""
    try:
        note = json.loads(text)
        told = f"run {note['run_id']} (host {note['host']}, pid {int(note['pid'])}, since {note['since']})"
    except (ValueError, KeyError, TypeError):
        return None
    return f"{told}, which renews it at least every minute," if note.get("held", True) else None
