"""The files of a table's commits, and what these say of their time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.progress.continuity import list_files

if TYPE_CHECKING:
    from enrich.delta.sink import Commit


def find_commit(table: Path, version: int) -> Path:
    """Return the file of a commit."""
    return table / "_delta_log" / f"{version:020d}.json"


def rewrite_commit(table: Path, version: int, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Let a commit consist of other actions: those that ``change`` gives for its own."""
    file = find_commit(table, version)
    actions = [change(json.loads(line)) for line in file.read_text().splitlines()]
    file.write_text("\n".join(json.dumps(action) for action in actions if action is not None))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def edit_commit(table: Path, version: int, kind: str, **told: Any) -> None:
    """Let the actions of one kind in a commit say something else, or more."""
    rewrite_commit(table, version, lambda action: {k: v | told if k == kind else v for k, v in action.items()})


def note_files(table: Path) -> None:
    """Note beside the latest commit which files the table has, as Spark does: a run lists them by it, without a job.

    Nothing is noted where a commit has gone.
    """
    found: dict[str, Any] = {}
    files: dict[str, dict[str, Any]] = {}
    *_, last = commits = sorted((table / "_delta_log").glob("*[0-9].json"))
    texts = [file.read_text("utf-8").splitlines() for file in commits]
    if len(commits) <= int(last.stem) or not all(texts):
        return
    for action in [json.loads(line) for lines in texts for line in lines]:
        ((kind, told),) = action.items()
        found[kind] = told
        if kind in ("add", "remove"):
            files.pop(told["path"], None)
        if kind == "add":
            files[told["path"]] = told | {"dataChange": False}
    note = {
        "txnId": str(found["commitInfo"]["timestamp"]),  # for want of an id, what that commit alone says of itself
        "tableSizeBytes": sum(each["size"] for each in files.values()),
        "numFiles": len(files),
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": found["metaData"],
        "protocol": found["protocol"],
        "allFiles": list(files.values()),
    }
    last.with_suffix(".crc").write_text(json.dumps(note))


def date_commit(table: Path, version: int, at: float) -> None:
    """Let a commit tell another time, in milliseconds since 1970."""
    edit_commit(table, version, "commitInfo", timestamp=int(at))


def age_commit(table: Path, version: int, days: float) -> None:
    """Let a commit and the files that it added be so many days old, in what they say and in what the storage says."""
    at = time.time() - days * 86_400
    told = {"add": "modificationTime", "remove": "deletionTimestamp", "commitInfo": "timestamp"}
    for kind, name in told.items():
        edit_commit(table, version, kind, **{name: int(at * 1000)})
    actions = [json.loads(line) for line in find_commit(table, version).read_text().splitlines()]
    for path in [path for kind in ("add", "cdc") for path in list_files(actions, kind)]:
        known = (table / path).stat().st_mtime  # with a deletion vector, an older file is added once more
        os.utime(table / path, (min(at, known), min(at, known)))
    (table / "_delta_log" / f".{version:020d}.json.crc").unlink(missing_ok=True)
    os.utime(find_commit(table, version), (at, at))


def forget_numbers(table: Path) -> None:
    """Let Delta forget the transaction numbers of all commits: they are old, and the table keeps none for so long."""
    for file in sorted((table / "_delta_log").glob("*[0-9].json")):
        edit_commit(table, int(file.stem), "txn", lastUpdated=1)
    for file in (table / "_delta_log").glob("*.crc"):
        file.unlink()


def make_commit(application: str, number: int, record: str, base: int | None = None) -> Commit:
    """Return a commit of which nobody looks whether the log has it."""
    from enrich.delta.sink import Commit

    return Commit("t", lambda: None, base, application, number, record, bool)
