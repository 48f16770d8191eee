"""Files that appear whole or not at all: what a reader opens is the old content or the new one."""

from __future__ import annotations

import os
import stat
import uuid
from pathlib import Path
from typing import Self

from enrich.base.errors import ConfigError


class WholeFile:
    """A file that appears whole or not at all.

    Making one proves that it can be written, before anything else is done; ``write`` replaces the file in one step.
    As a context it drops, at its end, what was prepared and not written. Where a link stands, the file that it leads to
    is replaced.

    Args:
        path: The file; its directory must exist.
        named: What messages call it, an option for instance.
        hint: What messages add.

    Raises:
        ConfigError: The file cannot be written.
    """

    def __init__(self, path: Path, named: str, hint: str | None = None) -> None:
        try:
            mode = path.stat().st_mode if path.exists() else None
            if mode is not None and not stat.S_ISREG(mode):
                raise ConfigError(f"{named} {str(path)!r} is not a regular file")
            self.path = path.resolve()
            self._scratch = self.path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:12]}")
            # The umask holds for the mode that is given here: as with every new file, the process's own.
            os.close(os.open(self._scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600))
            if mode is not None:
                self._scratch.chmod(stat.S_IMODE(mode))
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
        self._scratch.replace(self.path)

    def drop(self) -> None:
        """Remove what was prepared; does nothing after ``write``."""
        self._scratch.unlink(missing_ok=True)
