"""Remember which run and job this process works on, what it has written, and how commands in messages begin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_run: ContextVar[str | None] = ContextVar("enrich_run", default=None)
_job: ContextVar[str | None] = ContextVar("enrich_job", default=None)
written: ContextVar[str | None] = ContextVar("enrich_written", default=None)
command: ContextVar[tuple[str, ...]] = ContextVar("enrich_call", default=("enrich",))
"""The words with which a command begins: ``enrich``, and what names project and deployment."""


def begin_run(run_id: str | None) -> None:
    """Name the run of every line from here on, until the next one: errors come last."""
    _run.set(run_id)
    written.set(None)


def note_written(text: str) -> None:
    """Keep what is to be told of the tables if a signal ends the process now."""
    written.set(text)


@contextmanager
def work_on(job: str) -> Iterator[None]:
    """Name the job to which the lines inside belong."""
    token = _job.set(job)
    try:
        yield
    finally:
        _job.reset(token)


def current() -> tuple[str | None, str | None]:
    """Return the run's id and the job's name; None where there is none."""
    return _run.get(), _job.get()


@contextmanager
def work_at(target: str, directory: Path | None = None) -> Iterator[None]:
    """Let the commands in messages that are made inside be for a deployment, and for a project that was or is named."""
    words = command.get() if directory is None else ("enrich", "--project-dir", str(directory.absolute()))
    place = words[:3] if "--project-dir" in words else words[:1]
    token = command.set((*place, *(("--target", target) if target != "dev" else ())))
    try:
        yield
    finally:
        command.reset(token)
