"""Let one run per job work at a time on a machine, by a lock that the operating system drops when the process dies.

Between machines, and where there are no locks, the transaction number of the commit decides: an object store has to
refuse a commit that is there.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from types import ModuleType

from enrich.base.errors import EnvironmentFault, Locked
from enrich.base.failpoints import pass_point
from enrich.delta.stores import find_local_path, open_store

_PROBE = "conditional_writes"
fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: files and logs can be read there, but no job can run
    fcntl = None

log = logging.getLogger("enrich")


@contextmanager
def hold_lock(state: str, job: str, run_id: str, table: str | None = None) -> Iterator[None]:
    """Hold the lock of a job in its state directory, or raise ``Locked``; ``table``: what is loaded under it."""
    if fcntl is None:
        raise EnvironmentFault(
            "a job cannot run on this system: it has no file locks of the POSIX kind",
            hint="on Windows, run enrich inside WSL; `ls`, `validate`, `status` and `report` work without",
        )
    local = find_local_path(state)
    if local is None:
        open_store(state)  # it has no locks; a missing package is told before the work
        yield
        return
    pass_point("lock.before")
    path = local / "locks" / f"{job}.lock"
    flags = os.O_NOFOLLOW | os.O_CLOEXEC  # a link is refused: what it points to would be emptied
    writable = True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:  # another operator's; whoever may read it can lock it
            handle, writable = os.open(path, flags | os.O_RDONLY), False
    except OSError as error:
        raise EnvironmentFault(
            f"cannot open {path}: {error.strerror}", hint="check the permissions of the state directory"
        ) from error
    noted = False
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            does = f"has the lock of job {job!r}" if table is None else f"is loading table {table}"
            holder = path.read_text(errors="replace") or "another run"
            raise Locked(f"{holder} {does}", hint="run again when it has ended") from None
        except OSError as error:  # a mount that knows no locks
            log.warning("%s: the file system of %s has no locks (%s)", table or job, path, type(error).__name__)
        pass_point("lock.taken")
        if writable:
            since = datetime.now(UTC).isoformat(timespec="seconds")
            os.ftruncate(handle, 0)
            note = f"run {run_id} (host {socket.gethostname()}, pid {os.getpid()}, since {since})"
            os.pwrite(handle, note.encode(), 0)
            noted = True
        pass_point("lock.noted")
        yield
    finally:
        if noted:  # who may only read the file cannot say that it holds the lock now
            os.ftruncate(handle, 0)
        os.close(handle)
    pass_point("lock.released")


def require_conditional_writes(uri: str) -> None:
    """Raise ``EnvironmentFault`` unless the store of a table refuses to write an object that exists, if it is asked."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, NotSupportedError

    directory = f"{uri.rstrip('/').rpartition('/')[0]}/_enrich"
    store = open_store(directory)
    try:
        obstore.put(store, _PROBE, b"{}", mode="create")
        obstore.put(store, _PROBE, b"{}", mode="create")
    except AlreadyExistsError:
        return
    except (NotSupportedError, NotImplementedError):
        pass
    except Exception as error:
        raise EnvironmentFault(
            f"cannot write {directory}/{_PROBE} ({type(error).__name__})",
            hint="check the address, the credentials and their permissions",
        ) from error
    with suppress(Exception):
        obstore.delete(store, _PROBE)
    raise EnvironmentFault(
        f"the object store of {uri} has no conditional writes (If-None-Match): runs could overwrite commits",
        hint="use a server that has them",
    )
