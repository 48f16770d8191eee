"""Which run and which job this process works on, for the lines of its log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_run: ContextVar[str | None] = ContextVar("enrich_run", default=None)
_job: ContextVar[str | None] = ContextVar("enrich_job", default=None)


def begin_run(run_id: str | None) -> None:
    """Name the run to which every line belongs from here on; it stays until the next one, as errors come last."""
    _run.set(run_id)


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
