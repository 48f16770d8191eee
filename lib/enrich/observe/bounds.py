"""Work that may take so long and no longer, whatever it waits for: a name server, a full pipe, a disk that is away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context


class TooLate(TimeoutError):
    """The time was up; the work may still go on, but nobody waits for it."""


def run_within(seconds: float, work: Callable[[], object]) -> None:
    """Do ``work`` in a thread that does not keep the process alive, and wait for it, but not for longer.

    Raises:
        TooLate: It took longer.
        Exception: What ``work`` raised.
    """
    raised: list[Exception] = []

    def do() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - handed over to the thread that waits
            raised.append(error)

    # With the context of the caller: what is logged there belongs to the same run and job.
    thread = threading.Thread(target=copy_context().run, args=(do,), name="enrich-observe", daemon=True)
    thread.start()
    thread.join(max(seconds, 0.0))
    if raised:
        raise raised[0]
    if thread.is_alive():
        raise TooLate
