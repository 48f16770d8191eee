"""The files of a table's commits, and what these say of their time."""

from __future__ import annotations

import json
from pathlib import Path


def find_commit(table: Path, version: int) -> Path:
    """Return the file of a commit."""
    return table / "_delta_log" / f"{version:020d}.json"


def date_commit(table: Path, version: int, at: float) -> None:
    """Let a commit tell another time, in milliseconds since 1970."""
    file = find_commit(table, version)
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for each in actions:
        if "commitInfo" in each:
            each["commitInfo"]["timestamp"] = int(at)
    file.write_text("\n".join(map(json.dumps, actions)))
