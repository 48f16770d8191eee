"""Hand over the result of a run: text or one JSON line on stdout, and the same JSON in ``--result-file``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from enrich.base.console import format_run
from enrich.base.errors import EnrichError
from enrich.base.files import WholeFile
from enrich.base.result import UNCHANGED, JobResult, RunResult, name_deployment
from enrich.cli.process import say_result


def format_json_line(data: dict[str, Any]) -> str:
    """Return ``data`` as one compact line of ASCII, which any terminal, pipe and XCom can hold."""
    return json.dumps(data, separators=(",", ":"))


def say_found(output: str, data: dict[str, Any], text: str) -> int:
    """Write what a command found to stdout, as JSON or as a text for people; return 0."""
    say_result(format_json_line(data) if output == "json" else text)
    return 0


def describe_end(deployment: str, error: EnrichError, exit_code: int, done: Sequence[Any]) -> dict[str, Any]:
    """Return the JSON of a command that did not start, or did not end: the jobs that were done, and the error."""
    jobs = [job.to_dict() for job in done]
    return {**name_deployment(deployment), "exit_code": exit_code, "jobs": jobs, "error": str(error)}


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
    file: WholeFile | None = None
    skip_code: int | None = None
    quiet: bool = False

    def hand_over(self, result: RunResult) -> int:
        """Deliver a run's result and return the exit code of the process."""
        self._put(result.to_dict(), format_run(result, quiet=self.quiet))
        idle = result.exit_code == 0 and all(job.status == UNCHANGED for job in result.jobs)
        return self.skip_code if idle and self.skip_code is not None else result.exit_code

    def refuse(self, deployment: str, error: EnrichError, exit_code: int, done: Sequence[JobResult]) -> None:
        """Deliver that a run did not start, or did not end, as JSON only: people read the error on stderr."""
        self._put({"run_id": None, **describe_end(deployment, error, exit_code, done)}, None)

    def _put(self, data: dict[str, Any], text: str | None) -> None:
        line = format_json_line(data)
        if self.file is not None:
            self.file.write(line)
        shown = line if self.output == "json" else text
        if shown is not None:
            say_result(shown)
