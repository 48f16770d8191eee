"""The files of a table's commits, and what these say of their time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def find_commit(table: Path, version: int) -> Path:
    """Return the file of a commit."""
    return table / "_delta_log" / f"{version:020d}.json"


def rewrite_commit(table: Path, version: int, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Let a commit consist of other actions: those that ``change`` gives for its own."""
    file = find_commit(table, version)
    actions = [change(json.loads(line)) for line in file.read_text().splitlines()]
    file.write_text("\n".join(json.dumps(action) for action in actions if action is not None))


def edit_commit(table: Path, version: int, kind: str, **told: Any) -> None:
    """Let the actions of one kind in a commit say something else, or more."""
    rewrite_commit(table, version, lambda action: {k: v | told if k == kind else v for k, v in action.items()})


def date_commit(table: Path, version: int, at: float) -> None:
    """Let a commit tell another time, in milliseconds since 1970."""
    edit_commit(table, version, "commitInfo", timestamp=int(at))
