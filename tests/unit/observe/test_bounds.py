"""Whatever it waits for, a run waits so long and no longer."""

from __future__ import annotations

import threading

import pytest

from enrich.observe.run import TooLate, run_within


def test_work_is_waited_for() -> None:
    done = threading.Event()
    run_within(5, done.set)
    assert done.is_set()


def test_work_that_takes_longer_is_left_behind() -> None:
    go = threading.Event()
    with pytest.raises(TooLate):
        run_within(0.2, go.wait)  # for ever
    (left,) = [each for each in threading.enumerate() if each.name == "enrich-observe"]
    assert left.daemon, "it must not keep the process alive"
    go.set()
    left.join()


def test_what_work_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        run_within(5, lambda: 1 / 0)
