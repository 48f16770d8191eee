"""The lock of a job: where the file system has none, and where several people share it."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from enrich.base.errors import EnvironmentFault, Locked
from enrich.delta import locks


def test_a_mount_without_locks_is_said_and_not_taken_for_a_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with caplog.at_level(logging.WARNING, "enrich"), locks.hold_lock(str(tmp_path), "kept", "run-1"):
        assert "has no locks" in caplog.text


def test_a_lock_that_is_taken_names_its_holder(tmp_path: Path) -> None:
    with (
        locks.hold_lock(str(tmp_path), "kept", "run-1"),
        pytest.raises(Locked, match=r"run run-1 .* has the lock of job"),
        locks.hold_lock(str(tmp_path), "kept", "run-2"),
    ):
        pass


@pytest.fixture
def shared() -> Iterator[Path]:
    """A state directory that everybody may enter."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def test_the_umask_alone_decides_who_may_write_a_lock(shared: Path) -> None:
    before = os.umask(0o002)
    try:
        with locks.hold_lock(str(shared), "kept", "run-1"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((shared / "locks" / "kept.lock").stat().st_mode) == 0o664


def test_a_lock_that_may_only_be_read_can_be_taken_and_is_respected(shared: Path) -> None:
    """The second operator of a job that the first one has run before."""
    with locks.hold_lock(str(shared), "kept", "run-1"):
        pass
    path = shared / "locks" / "kept.lock"
    path.chmod(0o444)
    note = path.read_text()
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        with locks.hold_lock(str(shared), "kept", "run-2"), pytest.raises(Locked, match="another run"):  # noqa: SIM117
            with locks.hold_lock(str(shared), "kept", "run-3"):
                pass
    finally:
        if is_root:
            os.seteuid(0)
    assert path.read_text() == note == ""


def test_a_link_in_the_place_of_a_lock_is_refused_and_what_it_points_to_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("rows")
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "kept.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(EnvironmentFault, match="symbolic link"), locks.hold_lock(str(tmp_path), "kept", "run-1"):
        pass
    assert (tmp_path / "precious").read_text() == "rows"
