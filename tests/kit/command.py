"""The command line: in this process through click's runner, or as a process of its own."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from click.testing import CliRunner, Result

from kit.project import ROOT

Call = Callable[..., Result]
Start = Callable[..., subprocess.CompletedProcess[str]]


def call(*args: object, **environment: str) -> Result:
    """Run a command in this process; the result has stdout, stderr and exit_code."""
    from enrich.cli import cli

    return CliRunner().invoke(cli, [str(arg) for arg in args], env=environment, prog_name="enrich")


def parse(command: str) -> tuple[str, dict[str, object]]:
    """Read a command as the command line does, without running it; unknown commands and options are UsageErrors."""
    from enrich.cli import cli

    program, *words = shlex.split(command)
    assert program.rpartition("/")[2] == "enrich"
    found: click.Command = cli
    context = cli.make_context("enrich", words)
    while isinstance(found, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, known, rest = found.resolve_command(context, rest)
        assert known is not None
        found, context = known, known.make_context(name, rest, parent=context)
    return str(context.info_name), context.params


@contextmanager
def restored() -> Iterator[None]:
    """Take back, after the block, what the command line sets up for a process of its own: log and signal handlers."""
    logger = logging.getLogger("enrich")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    kept, root = (logger.handlers, logger.level, logger.propagate), logging.getLogger().handlers[:]
    hook = sys.unraisablehook
    yield
    sys.unraisablehook = hook
    logging.captureWarnings(capture=False)
    logging.getLogger().handlers[:] = root
    logger.handlers, logger.level, logger.propagate = kept
    for number, handler in handlers.items():
        signal.signal(number, handler)


def line(*args: object) -> list[str]:
    """Return a command as a process of its own is started with it."""
    return [sys.executable, "-m", "enrich", *map(str, args)]


def environment(**changes: str | None) -> dict[str, str]:
    """Return this process's environment for a command: this code, no settings of this machine; None takes one away."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("ENRICH_")}
    known |= {"PYTHONPATH": str(ROOT / "lib")}
    for name, value in changes.items():
        known.pop(name, None)
        if value is not None:
            known[name] = value
    return known


def start(*args: object, cwd: Path | None = None, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own."""
    known = environment(**changes)
    return subprocess.run(line(*args), capture_output=True, text=True, cwd=cwd, env=known, timeout=300, check=False)
