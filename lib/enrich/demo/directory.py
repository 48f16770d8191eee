"""The demo's directory: a project of its own, known by a marker, so that only an earlier demo is ever deleted."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from enrich.base import hints
from enrich.base.errors import ConfigError

MARKER = ".enrich-demo"
_MARK = "Written by `enrich demo`, which deletes this directory's content when it starts again.\n"
PROJECT = Path(__file__).parent / "project"
PARTS = ("conf", "jobs", "expectations")


def start_over(directory: Path, jobs: Collection[str] | None = None) -> Path:
    """Make ``directory`` a fresh copy of the demo's project and return its absolute path.

    Args:
        directory: Where to.
        jobs: The jobs that it shall have: the others' sources do not exist. None: all.

    Raises:
        ConfigError: The directory holds something that is not an earlier demo.
    """
    directory = directory.absolute()
    marker = directory / MARKER
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise _refuse(directory, "is not a directory")
    if directory.exists() and any(directory.iterdir()):
        if marker.is_symlink() or not marker.is_file() or marker.read_text(encoding="utf-8") != _MARK:
            raise _refuse(directory, "is not empty and is not the directory of an earlier demo")
        _delete_content(directory)
    directory.mkdir(parents=True, exist_ok=True)
    marker.write_text(_MARK, encoding="utf-8")
    (directory / ".gitignore").write_text("*\n", encoding="utf-8")
    compiled = shutil.ignore_patterns("__pycache__")  # pip compiles the DAG beside the jobs where it installs us
    for part in PARTS:
        shutil.copytree(PROJECT / part, directory / part, copy_function=shutil.copyfile, ignore=compiled)
    for file in (directory / "jobs").iterdir():
        if jobs is not None and file.stem not in jobs:
            file.unlink()
    return directory


def _delete_content(directory: Path) -> None:
    """Delete what the directory holds, the marker last: a demo stopped halfway is still known as one."""
    for path in sorted(directory.iterdir(), key=lambda path: path.name == MARKER):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _refuse(directory: Path, what: str) -> ConfigError:
    return ConfigError(f"{str(directory)!r} {what}", hint=f"name another directory: `{hints.demo('another-demo')}`")
