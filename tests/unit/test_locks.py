"""The lock of a job where the file system has none."""

from __future__ import annotations

import errno
import fcntl
import logging
from pathlib import Path

import pytest

from enrich import locks
from enrich.errors import Locked


def test_a_mount_without_locks_is_said_and_not_taken_for_a_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with caplog.at_level(logging.WARNING, "enrich"), locks.held(str(tmp_path), "kept", "run-1"):
        assert "no lock can be had" in caplog.text


def test_a_lock_that_is_taken_names_its_holder(tmp_path: Path) -> None:
    with locks.held(str(tmp_path), "kept", "run-1"), pytest.raises(Locked, match="held by run run-1"):  # noqa: SIM117
        with locks.held(str(tmp_path), "kept", "run-2"):
            pass
