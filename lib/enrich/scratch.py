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

from enrich.errors import EnvironmentFault

PREFIX = "enrich-run-"
"""How the names of our processes' private directories begin."""

_private: list[Path] = []


def private_directory() -> Path:
    """Return a directory of this process for what Spark puts on disk, rows among it; gone at the process's end.

    A killed process cannot remove its own: the next one does.
    """
    if not _private or not _private[0].is_dir():
        try:
            _private[:] = [Path(tempfile.mkdtemp(prefix=PREFIX))]
            _locks.append(locked(_private[0]))
            sweep(_private[0].parent)
        except OSError as error:
            raise EnvironmentFault(
                f"no temporary directory can be made: {error.strerror}", hint="free some space or set TMPDIR"
            ) from error
        atexit.register(shutil.rmtree, _private[0], ignore_errors=True)
    return _private[0]


_locks: list[int | None] = []


def locked(directory: Path) -> int | None:
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
            handle = locked(left)
            if handle is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(handle)
