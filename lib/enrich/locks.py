"""One run per job at a time, on one machine: a lock that the operating system drops when the process dies.

Between machines, and where a file system has no locks, the transaction number of the commit decides instead.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from enrich.errors import EnvironmentFault, Locked
from enrich.faults import point
from enrich.tables import local_path

log = logging.getLogger("enrich")


@contextmanager
def held(state: str, job: str, run_id: str) -> Iterator[None]:
    """Hold the lock of a job.

    Args:
        state: The state directory; object stores have no locks.
        job: The job's name.
        run_id: Noted in the lock's file for whoever is refused.

    Raises:
        Locked: Another process holds it.
        EnvironmentFault: The state directory cannot be written.
    """
    local = local_path(state)
    if local is None:
        yield
        return
    point("lock.before")
    path = local / "locks" / f"{job}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write {path} ({type(error).__name__})", hint="check the permissions of the state directory"
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked(f"job {job!r} is held by {_holder(path)}", hint="run again when it has ended") from None
        except OSError as error:  # a mount that knows no locks
            log.warning("%s: no lock can be had on %s (%s)", job, path, type(error).__name__)
        point("lock.taken")
        since = datetime.now(UTC).isoformat(timespec="seconds")
        note = {"run_id": run_id, "host": socket.gethostname(), "pid": os.getpid(), "since": since}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(note).encode(), 0)
        point("lock.noted")
        yield
    finally:
        os.close(handle)
    point("lock.released")


def _holder(path: Path) -> str:
    try:
        note = json.loads(path.read_text())
        return f"run {note['run_id']} (host {note['host']}, pid {int(note['pid'])}, since {note['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another run"
