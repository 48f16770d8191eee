"""Where an error comes from, for ``--debug``: classes and lines of code, never a message or a value.

Messages of Spark and of other libraries quote cells, and so may local variables; neither is read here.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Any

log = logging.getLogger("enrich")

_MOST_CAUSES, _MOST_JVM_FRAMES = 8, 40


def tell_frames(error: BaseException) -> None:
    """Log the frames of an error and of its causes at level debug, where that level is shown."""
    if log.isEnabledFor(logging.DEBUG):
        frames = list(list_frames(error))
        log.debug("where it comes from, without messages and values:\n%s", "\n".join(frames), extra={"frames": frames})


def list_frames(error: BaseException) -> Iterator[str]:
    """Yield the class of an error, its frames, those of the JVM behind it, and then the same of its causes."""
    current: BaseException | None = error
    for depth in range(_MOST_CAUSES):
        if current is None:
            return
        yield f"{'caused by ' if depth else ''}{type(current).__name__}"
        for frame in traceback.extract_tb(current.__traceback__):
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        yield from _list_jvm_frames(current)
        current = current.__cause__ or current.__context__  # that of "from None", too: its text stays hidden


def _list_jvm_frames(error: BaseException) -> Iterator[str]:
    """Yield classes and frames of the Java exception behind an error, as long as its JVM answers."""
    java: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    try:
        for _ in range(_MOST_CAUSES):
            if java is None:
                return
            yield f"  in the JVM: {java.getClass().getName()}"
            frames = java.getStackTrace()
            for index in range(min(len(frames), _MOST_JVM_FRAMES)):  # each one is asked of the JVM
                yield f"    {frames[index].toString()}"
            java = java.getCause()
    except Exception:  # noqa: BLE001 - the JVM may be gone; what is told so far is told
        return
