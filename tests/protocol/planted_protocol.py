"""Plant faults in the real decisions: each is what the product would do without one of the protocol's rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from enrich.progress import continuity, cursor, target
from enrich.steps import publish
from protocol import lake as model


def ask_delta_alone(patch: pytest.MonkeyPatch) -> None:
    """Know a number only as long as Delta does (fault 9): a target whose numbers expire is refused for ever."""
    patch.setattr(cursor, "find_number", lambda log, job, _: log.transaction_version(cursor.name_application(job)))


def ignore_the_quarantine(patch: pytest.MonkeyPatch) -> None:
    """Take the quarantine for what the target's record names, whatever stands in it."""
    patch.setattr(continuity, "find_apart", lambda *_: {})


def ignore_restores(patch: pytest.MonkeyPatch) -> None:
    """Take the latest record of a log for that of its rows: a stale window after a RESTORE."""
    walk = target._walk

    def blind(entries: list[dict[str, Any]], job: str) -> Any:
        return walk(
            [{**each, "operation": "OPTIMIZE"} if each["operation"] == "RESTORE" else each for each in entries], job
        )

    patch.setattr(target, "_walk", blind)


def ignore_table_ids(patch: pytest.MonkeyPatch) -> None:
    """Go on with whatever table is at a source's place."""
    patch.setattr(continuity, "goes_on", lambda *_: True)


def ignore_commits_of_sources(patch: pytest.MonkeyPatch) -> None:
    """Compare a source's table id, and not which commit is under the number: a backup that went on by itself."""
    patch.setattr(
        continuity, "goes_on", lambda table, mark: mark.table_id == table.table_id and table.version >= mark.to
    )


def ignore_numbers(patch: pytest.MonkeyPatch) -> None:
    """Commit without a compare-and-swap of the transaction number, and without a look before."""
    commit = model.commit

    def unnumbered(uri: str, *given: Any, **how: Any) -> None:
        found = model.find_table(uri)
        assert found is not None
        model.Here.lake = model.Here.lake.put(uri, found.but(number=None))
        commit(uri, *given, **how)

    patch.setattr(model, "commit", unnumbered)
    patch.setattr(publish, "refuse_if_beaten", lambda *_, **__: None)


def ignore_drift(patch: pytest.MonkeyPatch) -> None:
    """Go on over rows of other writers."""
    patch.setattr(cursor, "list_changing", lambda *_: ())


def look_no_more(patch: pytest.MonkeyPatch) -> None:
    """Do not look after a commit what came between the plan and it, neither the run nor the next ones."""
    patch.setattr(publish, "refuse_drift", lambda *_: None)
    patch.setattr(cursor, "list_others_between", lambda *_: ())


def commit_the_cursor_apart(patch: pytest.MonkeyPatch) -> None:
    """Believe the latest intent, not the commit: the cursor stands in a table of its own, written before the rows."""
    read = target.read_target

    def believing(uri: str, job: str, runs: Any, label: str) -> Any:
        found = read(uri, job, runs, label)
        intents = [each for each in model.Here.lake.runs if each[0] == "intent"]
        if not intents or found.cursor is None:
            return found
        return replace(found, cursor=cursor.Cursor.from_dict(json.loads(intents[-1][3])))

    from enrich.operations import workplace

    patch.setattr(workplace, "read_target", believing)


def commit_the_target_first(patch: pytest.MonkeyPatch) -> None:
    """Name the quarantine's number without writing it, when the run has nothing new to tell of the target."""
    stage = publish.stage_difference

    def hasty(*given: Any) -> Any:
        found = stage(*given)
        return replace(found, quarantine=None) if found.target.difference.is_empty else found

    patch.setattr(publish, "stage_difference", hasty)


PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, int]] = {
    # name -> what plants it; the acts by which it is found; how many of them it takes
    each.__name__: (each, acts, bound)
    for each, acts, bound in (
        (ask_delta_alone, "forget", 1),
        (ignore_the_quarantine, "order,kill", 3),
        (ignore_restores, "order,restore", 3),
        (ignore_table_ids, "order,replace_source", 3),
        (ignore_commits_of_sources, "order,replace_source", 4),
        (ignore_numbers, "order,second", 3),
        (ignore_drift, "intrude", 1),
        (look_no_more, "order,intrude", 2),
        (commit_the_cursor_apart, "order,kill", 2),
        (commit_the_target_first, "order", 2),
    )
}
