"""A command as a process in a group of its own, which never outlives the task that started it. Needs no Airflow."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence

GRACE_SECONDS = 4.0
"""After SIGTERM, until the group is killed. Airflow 3 kills the task itself after 5."""


class Child:
    """A process whose stderr is followed while it runs.

    ``enrich`` takes its JVM with it when it is asked to end. Where something else ends it (the kernel, for want of
    memory), its JVM would live on and might commit: whatever is left of the group when the process ends is killed.
    """

    def __init__(self, line: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start the process.

        Raises:
            OSError: It cannot be started.
        """
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
            killer = threading.Timer(GRACE_SECONDS, self._kill_if_alive)
            killer.daemon = True
            killer.start()

    def _reap(self) -> None:
        self._process.wait()
        self._kill_group()

    def _kill_if_alive(self) -> None:
        if self._reaper.is_alive():
            self._kill_group()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says so of a group of zombies
            os.killpg(self._process.pid, signal.SIGKILL)
