"""Hand over the result of a run: text or one JSON line on stdout, and the same JSON in ``--result-file``."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enrich.cli.process import say_result
from enrich.console import run_text
from enrich.errors import ConfigError, EnrichError
from enrich.result import UNCHANGED, JobResult, RunResult


def json_line(data: dict[str, Any]) -> str:
    """Return ``data`` as one compact line of ASCII, which any terminal, pipe and XCom can hold."""
    return json.dumps(data, separators=(",", ":"))


class ResultFile:
    """A file that appears whole or not at all.

    Making one proves that it can be written, before the run starts; ``write`` replaces the file in one step.

    Raises:
        ConfigError: The file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            mode = path.stat().st_mode if path.exists() else None
            if mode is not None and not stat.S_ISREG(mode):
                raise ConfigError(f"--result-file {str(path)!r} is not a regular file")
            handle, self._scratch = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            os.close(handle)
            Path(self._scratch).chmod(0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
        except OSError as error:
            raise ConfigError(
                f"--result-file {str(path)!r} cannot be written: {error.strerror}", hint="nothing was run"
            ) from error

    def write(self, text: str) -> None:
        """Put ``text`` and a line break into the file."""
        Path(self._scratch).write_text(text + "\n", encoding="utf-8")
        Path(self._scratch).replace(self.path)

    def drop(self) -> None:
        """Remove what was prepared; does nothing after ``write``."""
        Path(self._scratch).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@dataclass(frozen=True)
class Delivery:
    """Where a run's result goes.

    Attributes:
        output: ``text`` or ``json``.
        file: Receives the JSON, whatever ``output`` is.
        skip_code: The exit code when there was nothing to do, else None.
        quiet: Leave out the text's last line.
    """

    output: str
    file: ResultFile | None = None
    skip_code: int | None = None
    quiet: bool = False

    def hand_over(self, result: RunResult) -> int:
        """Deliver a run's result and return the exit code of the process."""
        self._put(result.to_dict(), run_text(result, quiet=self.quiet))
        idle = result.exit_code == 0 and all(job.status == UNCHANGED for job in result.jobs)
        return self.skip_code if idle and self.skip_code is not None else result.exit_code

    def refuse(self, target: str, error: EnrichError, exit_code: int, done: Sequence[JobResult] = ()) -> None:
        """Deliver that a run did not start, or did not end: the jobs that were done, and the error.

        As text this is stderr's matter.
        """
        jobs = [job.to_dict() for job in done]
        data = {"run_id": None, "target": target, "exit_code": exit_code, "jobs": jobs, "error": str(error)}
        self._put(data, None)

    def _put(self, data: dict[str, Any], text: str | None) -> None:
        line = json_line(data)
        if self.file is not None:
            self.file.write(line)
        shown = line if self.output == "json" else text
        if shown is not None:
            say_result(shown)
