"""A directory of this process for what Spark puts on disk, and the removal of those that killed processes left.

Spark's shuffle files, cached blocks and logs hold rows of the tables: they must not outlive the run.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from enrich.base.errors import EnvironmentFault

PREFIX = "enrich-run-"
"""How the names of our processes' private directories begin."""

FRESH = "enrich-new-"
"""How they begin until they are locked: the sweep of another process would take an unlocked one for a dead one's."""

_private: list[Path] = []


def make_private_directory() -> Path:
    """Return a directory of this process for what Spark puts on disk, rows among it; gone at the process's end.

    A killed process cannot remove its own: the next one does.
    """
    if not _private or not _private[0].is_dir():
        try:
            fresh = Path(tempfile.mkdtemp(prefix=FRESH))
            _locks.append(lock_directory(fresh))
            _private[:] = [fresh.rename(fresh.with_name(PREFIX + fresh.name.removeprefix(FRESH)))]
            sweep(fresh.parent)
        except OSError as error:
            raise EnvironmentFault(
                f"no temporary directory can be created: {error.strerror}", hint="free some space or set TMPDIR"
            ) from error
        atexit.register(shutil.rmtree, _private[0], ignore_errors=True)
    return _private[0]


_locks: list[int | None] = []


def lock_directory(directory: Path) -> int | None:
    """Lock a directory of ours for the life of the holder; None when somebody holds it.

    A process id would not do: two containers may share a temporary directory and not their processes.
    """
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def sweep(parent: Path) -> None:
    """Remove the directories of our processes that are no more."""
    for left in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            handle = lock_directory(left)
            if handle is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(handle)
