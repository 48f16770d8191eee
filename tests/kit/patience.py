"""Waiting for what other processes and threads do, without a look at a clock."""

from __future__ import annotations

import time
from collections.abc import Callable

_PAUSE = 0.02
_PATIENCE = 300


def wait_until(is_there: Callable[[], object], what: str = "what another process does") -> None:
    """Wait until something is true.

    There is an end, so that a test that hangs says where. It is far beyond what the slowest machine needs: nothing is
    measured here, and a test that ends there shows that something never happens.
    """
    for _ in range(int(_PATIENCE / _PAUSE)):
        if is_there():
            return
        time.sleep(_PAUSE)
    raise TimeoutError(f"waited in vain for {what}")
