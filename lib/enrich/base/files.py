"""Write files that appear whole or not at all, and keep rows on disk in a directory that ends with the process."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Self

from enrich.base.errors import ConfigError, EnvironmentFault


class WholeFile:
    """A file that appears whole or not at all; where a link stands, the file that it leads to is replaced.

    Making one proves that it can be written, before anything else is done; ``write`` replaces the file in one step.
    As a context it drops, at its end, what was prepared and not written. Messages call it ``named`` and add ``hint``.

    Raises:
        ConfigError: The file cannot be written.
    """

    def __init__(self, path: Path, named: str, hint: str | None = None) -> None:
        try:
            if path.exists() and not path.is_file():
                raise ConfigError(f"{named} {str(path)!r} is not a regular file")
            self.path = path.resolve()
            self._scratch = self.path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:12]}")
            self._scratch.touch(exist_ok=False)
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that lead to one another
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise ConfigError(f"{named} {str(path)!r} cannot be written: {reason}", hint=hint) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def write(self, text: str) -> None:
        """Put ``text`` and a line break into the file."""
        self._scratch.write_text(text + "\n", encoding="utf-8")
        if self.path.exists():
            shutil.copymode(self.path, self._scratch)
        self._scratch.replace(self.path)

    def drop(self) -> None:
        """Remove what was prepared and not written."""
        self._scratch.unlink(missing_ok=True)


PREFIX = "enrich-run-"  # how the names of our processes' private directories begin

_private: list[Path] = []
_locks: list[int | None] = []


def make_private_directory() -> Path:
    """Return a directory of this process for what Spark puts on disk, rows among it; gone at the process's end.

    A killed process cannot remove its own: the next one does.
    """
    if not _private or not _private[0].is_dir():
        try:
            # It gets its name when it is locked: the sweep of another process would take it for a dead one's.
            fresh = Path(tempfile.mkdtemp(prefix="enrich-new-"))
            _locks.append(lock_directory(fresh))
            _private[:] = [fresh.rename(fresh.with_name(f"{PREFIX}{fresh.name.removeprefix('enrich-new-')}"))]
            sweep(fresh.parent)
        except OSError as error:
            told = f"no temporary directory can be created: {error.strerror}"
            raise EnvironmentFault(told, hint="free some space or set TMPDIR") from error
        atexit.register(shutil.rmtree, _private[0], ignore_errors=True)
    return _private[0]


def lock_directory(directory: Path) -> int | None:
    """Lock a directory of ours for the life of the holder; None when somebody holds it.

    A process id would not do: two containers may share a temporary directory and not their processes.
    """
    import fcntl  # Windows has none, and reads files with this module, too

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
            if (handle := lock_directory(left)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(handle)
