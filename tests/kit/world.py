"""Real outside things for tests/world: environments that pip fills, programs that are started and ended, ports."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.project import ROOT

SHIPPED = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "MANIFEST.in",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "constraints.txt",
)
"""What a distribution is built from, beside lib/."""

Done = subprocess.CompletedProcess[str]

KEPT = ("HOME", "PATH", "LANG", "LC_ALL", "TMPDIR", "JAVA_HOME", "XDG_CACHE_HOME", "ENRICH_CACHE", "NETRC")
"""Variables that a command gets from this process; those for pip and for proxies come in addition."""


def clean_environment(**changes: str) -> dict[str, str]:
    """Return an environment for a command that must not find this source tree: no PYTHONPATH, no settings of enrich."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.lower().endswith("_proxy")}
    kept |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    kept.pop("PIP_CONSTRAINT", None)
    return kept | changes


def run(command: Sequence[object], *, cwd: Path, timeout: float = 300, **changes: str) -> Done:
    """Run a command to its end in ``clean_environment``; its exit code is for the caller to look at."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean_environment(**changes),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def must_run(command: Sequence[object], *, cwd: Path, timeout: float = 900, **changes: str) -> str:
    """Run a command that must end with 0; return its stdout."""
    done = run(command, cwd=cwd, timeout=timeout, **changes)
    assert done.returncode == 0, (
        f"{command[:4]} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout


@dataclass(frozen=True)
class Environment:
    """A virtual environment of its own, outside of the source tree.

    Attributes:
        home: Its directory.
    """

    home: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.home / "bin" / "python"

    def command(self, name: str) -> Path:
        """Return a command that is installed there."""
        return self.home / "bin" / name

    def install(self, *requirements: object, constraints: Path | None = ROOT / "constraints.txt") -> None:
        """Install with pip, as a user would; pip takes its index from the machine's settings."""
        pinned = ["-c", str(constraints)] if constraints else []
        quiet = ["--quiet", "--disable-pip-version-check"]
        must_run([self.python, "-m", "pip", "install", *quiet, *pinned, *requirements], cwd=self.home, timeout=1200)

    def enrich(self, *args: object, cwd: Path, timeout: float = 300, **changes: str) -> Done:
        """Run the installed command ``enrich``."""
        return run([self.command("enrich"), *args], cwd=cwd, timeout=timeout, **changes)


def make_environment(home: Path, python: str | Path = sys.executable) -> Environment:
    """Make an empty virtual environment."""
    must_run([python, "-m", "venv", "--clear", home], cwd=home.parent)
    return Environment(home)


def copy_tree_to_build(into: Path) -> Path:
    """Copy what a distribution is built from: a build in the tree itself would leave files there, and take old ones."""
    into.mkdir(parents=True)
    for name in SHIPPED:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, into)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc")
    shutil.copytree(ROOT / "lib", into / "lib", ignore=ignored)
    return into


def build_wheel(directory: Path) -> Path:
    """Build the wheel of this tree into ``directory``, in an isolated build environment."""
    source = copy_tree_to_build(directory / "source")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", directory]
    must_run([sys.executable, "-m", "pip", "wheel", *options, source], cwd=directory)
    (wheel,) = directory.glob("*.whl")
    return wheel


def find_free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(is_done: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for something outside; fails, naming ``what``, when it does not come."""
    end = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.1)


@contextmanager
def running(command: Sequence[object], *, cwd: Path, log: Path, **changes: str) -> Iterator[subprocess.Popen[bytes]]:
    """Keep a program running for the block, and end it with everything that it has started."""
    environment: Mapping[str, str] = clean_environment(**changes)
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process group: politely, then by force."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue
    process.wait(10)
