"""Run the command of a task, and say what its exit code and its output mean to Airflow. Needs no Airflow.

========================  ==========  ==========================================================================
exit code                 verdict     what Airflow does
========================  ==========  ==========================================================================
0                         success     stores the result, and tells who waits for the target's asset
99                        skip        marks the task as skipped; the asset is not updated
2, 3, 5, 6                fail        fails the task, whatever ``retries`` says: somebody has to act first
1, 4, 7, 130, 143, ...    retry       tries again, as often as ``retries`` says; a signal's number is such a code
========================  ==========  ==========================================================================
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from enrich.base.errors import ConfigError

SKIP_CODE = 99  # what `enrich run` ends with when there was nothing to do

NO_RETRY = frozenset({2, 3, 5, 6})  # exit codes after which running again does not help (`docs/operations.md`)

Verdict = Literal["success", "skip", "fail", "retry"]

_SET_HERE = {
    "--project-dir": "give project_dir to the operator",
    "--target": "give target to the operator",
    "--select": "a task runs one job",
    "--output": "the task reads the JSON",
    "--skip-code": f"a task that has nothing to do is skipped by the code {SKIP_CODE}",
    "--dry-run": "a task that writes nothing must not say that its target was updated; use a BashOperator",
}


@dataclass(frozen=True)
class Command:
    """One call of ``enrich run``."""

    project_dir: str  # the project directory, absolute
    job: str
    target: str = "dev"
    executable: tuple[str, ...] = ("enrich",)  # how ``enrich`` is called, as a list of words
    arguments: Sequence[str] = ()  # further options of ``enrich run``, as a list of words

    def line(self, until: datetime | None = None) -> list[str]:
        """Return the words of the command, which no shell reads; ``until`` has a time zone. Errors as ``check``."""
        self.check(ends=until is not None)
        place = ["--project-dir", self.project_dir, "--target", self.target]
        own = ["--output", "json", "--skip-code", str(SKIP_CODE)]
        end = [] if until is None else ["--until", until.isoformat()]
        return [*self.executable, *place, "run", *own, *end, *self.arguments, "--", self.job]

    def check(self, *, ends: bool = False) -> None:
        """Refuse, by a ConfigError, options that the task sets itself; ``ends``: ``--until`` is one of them."""
        if isinstance(self.arguments, str):
            message = f"arguments of job {self.job!r} must be a list of words, not text"
            raise ConfigError(message, hint="write ['--full-refresh'], for instance")
        known = {**_SET_HERE, **({"--until": "until_interval_end gives it already"} if ends else {})}
        for word in self.arguments:
            option = word.partition("=")[0]
            if option in known:
                raise ConfigError(f"arguments of job {self.job!r} must not have {option}", hint=known[option])
        if not self.executable or not all(self.executable):
            raise ConfigError("executable is empty", hint="leave it out, or name the command enrich on the worker")


def decide(exit_code: int) -> Verdict:
    """Return what an exit code means to Airflow; negative codes are signals, as Python has them."""
    if exit_code == 0:
        return "success"
    if exit_code == SKIP_CODE:
        return "skip"
    return "fail" if exit_code in NO_RETRY else "retry"


def read_result(stdout: str) -> dict[str, Any] | None:
    """Return the result, which is the last line of the output; None when this is no JSON object."""
    lines = stdout.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def describe_end(job: str, exit_code: int, result: Mapping[str, Any] | None) -> str:
    """Return one line that says how a run ended, and what it said itself; results hold no cell values."""
    ended = f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
    if result is None:
        told = "it printed no result; its messages are in the log above"
    else:
        errors = [each.get("error") for each in result.get("jobs") or () if each.get("error")]
        told = "; ".join(errors) or result.get("error") or "its messages are in the log above"
    advice = "; running again does not help before this is done" if decide(exit_code) == "fail" else ""
    return f"enrich run {job} {ended}: {told}{advice}"


def describe_success(result: Mapping[str, Any]) -> str:
    """Return one line with what a run did to its target."""
    counts = ("inserted", "updated", "deleted", "quarantined")
    jobs = result.get("jobs") or ()
    return "; ".join(
        f"{each.get('job')}: {each.get('status')}, " + ", ".join(f"{each.get(name, 0)} {name}" for name in counts)
        for each in jobs
    )


# --- a process in a group of its own, which never outlives the task that started it ----------------------------------

GRACE_SECONDS = 4.0
"""After SIGTERM, until the group is killed. Airflow 3 kills the task itself after 5."""


class Child:
    """A process whose stderr is followed while it runs.

    ``enrich`` takes its JVM with it when it is asked to end. Where something else ends it (the kernel, for want of
    memory), its JVM would live on and might commit: whatever is left of the group when the process ends is killed.
    """

    def __init__(self, line: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start the process; an OSError where it cannot be started."""
        self._stdout = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `follow`, whatever happens
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a list of words, and no shell
                list(line),
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=self._stdout,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError:
            self._stdout.close()
            raise
        self._reaper = threading.Thread(target=self._reap, name="enrich-reaper", daemon=True)
        self._reaper.start()

    def follow(self, say: Callable[[str], object]) -> tuple[int, str]:
        """Wait for the end, and hand over each line of stderr meanwhile; return the exit code and stdout.

        An exception that comes from outside, such as Airflow's timeout, ends the process before it goes on.
        """
        stderr = self._process.stderr
        assert stderr is not None  # noqa: S101 - it is a pipe
        try:
            with stderr:
                for line in stderr:
                    say(line.decode(errors="replace").rstrip())
            self._reaper.join()
            self._stdout.seek(0)
            return self._process.returncode, self._stdout.read().decode(errors="replace")
        finally:
            self.end()
            self._reaper.join()
            self._stdout.close()

    def end(self) -> None:
        """Ask the process to end, and kill its group if it does not; returns at once.

        Safe in a signal handler: it neither waits nor takes a lock that the interrupted code may have.
        """
        if self._reaper.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)
            killer = threading.Timer(GRACE_SECONDS, self._kill_group)
            killer.daemon = True
            killer.start()

    def _reap(self) -> None:
        self._process.wait()
        self._kill_group()

    def _kill_group(self) -> None:
        if self._reaper.is_alive():  # else it has done so, and the group's number may be another one's
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says so of a group of zombies
                os.killpg(self._process.pid, signal.SIGKILL)
