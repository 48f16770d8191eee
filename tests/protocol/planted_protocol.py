"""Plant faults in the real decisions: each is what the product would do without one of the protocol's rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from differential import planting
from enrich.delta import tables
from enrich.joins import group
from enrich.progress import continuity, cursor, target
from enrich.steps import publish, source_changes
from protocol import lake as model
from protocol.player import GROUPS, JOB


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
    patch.setattr(cursor, "list_changing", lambda *_, **__: ())


def look_no_more(patch: pytest.MonkeyPatch) -> None:
    """Do not look after a commit what came between the plan and it, neither the run nor the next ones."""
    patch.setattr(publish, "refuse_drift", lambda *_: None)
    patch.setattr(cursor, "list_others_between", lambda *_: ())


def look_for_numbers_alone(patch: pytest.MonkeyPatch) -> None:
    """Look before a commit whether another run was faster, and not whether others have changed rows."""
    listed = publish._list_drift

    def later(plan: Any, table: Any, log: Any, version: int) -> tuple[int, ...]:
        return listed(plan, table, log, version) if version <= log.version() else ()

    patch.setattr(publish, "_list_drift", later)


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


def commit_the_cursor_behind(patch: pytest.MonkeyPatch) -> None:
    """Believe the latest outcome, not the commit: the cursor is written after the rows, so a sum is applied twice."""
    read = target.read_target

    def believing(uri: str, job: str, runs: Any, label: str) -> Any:
        found = read(uri, job, runs, label)
        numbers = [each[2] for each in model.Here.lake.runs if each[0] == "outcome"]
        known = [each for each in model.Here.lake.runs if each[0] == "intent" and each[2] in numbers]
        return replace(found, cursor=cursor.Cursor.from_dict(json.loads(known[-1][3]))) if known else found

    from enrich.operations import workplace

    patch.setattr(workplace, "read_target", believing)


def move_whatever_is_taken(patch: pytest.MonkeyPatch) -> None:
    """Move groups also by what is taken once more, or what does not begin where their target ends."""
    patch.setattr(group, "can_move", lambda plan: not plan.everything)


def commit_the_target_first(patch: pytest.MonkeyPatch) -> None:
    """Name the quarantine's number without writing it, when the run has nothing new to tell of the target."""
    stage = publish.stage_difference

    def hasty(*given: Any) -> Any:
        found = stage(*given)
        return replace(found, quarantine=None) if found.target.difference.is_empty else found

    patch.setattr(publish, "stage_difference", hasty)


def merge_ranges(patch: pytest.MonkeyPatch) -> None:
    """Read what ``--since`` names and what a dead run has taken as one range (fault 5).

    Where its feed is gone, its ends are compared alone: what came and went between them stays in the quarantine.
    """
    planting.wrap(patch, source_changes, "_read_again", planting.merge_ranges)


def ignore_what_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Take what a log has forgotten between a plan and its commit for nothing."""
    listed = cursor.list_others_between

    def known(entries: list[dict[str, Any]], bounds: tuple[int, int]) -> tuple[int, ...]:
        versions = {int(each["version"]) for each in entries}
        return tuple(each for each in listed(entries, bounds) if each in versions)

    patch.setattr(cursor, "list_others_between", known)


def ignore_the_targets_base(patch: pytest.MonkeyPatch) -> None:
    """Believe the record of a target that was dropped before its rows were appended."""
    find = target._walk

    def believing(entries: list[dict[str, Any]], job: str) -> Any:
        found = find(entries, job)
        return replace(found, base=None) if found.base is not None and found.base >= found.version else found

    patch.setattr(target, "_walk", believing)


def ignore_the_quarantines_base(patch: pytest.MonkeyPatch) -> None:
    """Believe the record of a quarantine that was dropped before its rows were appended."""
    find = target._walk

    def believing(entries: list[dict[str, Any]], job: str) -> Any:
        found = find(entries, job)
        return replace(found, record={**found.record, **NO_BASE}) if found.record is not None else found

    patch.setattr(target, "_walk", believing)


NO_BASE = {"quarantine_base": None}


def ignore_what_a_quarantine_met(patch: pytest.MonkeyPatch) -> None:
    """Believe the record of a quarantine that was taken back right before its rows were appended."""
    find = target._walk

    def believing(entries: list[dict[str, Any]], job: str) -> Any:
        found = find(entries, job)
        return replace(found, entries=[each for each in entries if each["operation"] != "RESTORE"])

    patch.setattr(target, "_walk", believing)


def ignore_that_sources_are_replaced(patch: pytest.MonkeyPatch) -> None:
    """Do not look before a commit whether the sources are still the tables that were pinned."""
    patch.setattr(tables, "fingerprint", lambda *_: None)


FED_LATE = (
    "the orders: 'a' becomes '-'",
    "the orders: 'a' becomes '5'",
    "the feed of the orders is lost",
    "a run starts",
)
"""A target over orders of which no feed tells what came and went before it."""


HELD_BEFORE = ("the orders: 'a' becomes '-'", "a run starts", "the orders: 'a' becomes '5'", "a run starts")
"""A quarantine that held an order, and holds none."""


class Planted(NamedTuple):
    """What plants a fault, the acts by which it is found, how many of them it takes, and what was done before."""

    plant: Callable[[pytest.MonkeyPatch], None]
    acts: str
    bound: int
    before: tuple[str, ...] = ()
    job: str = JOB


PLANTED: dict[str, Planted] = {
    each.plant.__name__: each
    for each in (
        Planted(ask_delta_alone, "forget", 1),
        Planted(ignore_the_quarantine, "order,kill", 3),
        Planted(ignore_restores, "order,restore", 3),
        Planted(ignore_table_ids, "order,replace_source", 3),
        Planted(ignore_commits_of_sources, "order,replace_source", 4),
        Planted(ignore_numbers, "order,second", 3),
        Planted(ignore_drift, "intrude", 1),
        Planted(look_no_more, "order,intrude", 2),
        Planted(look_for_numbers_alone, "order,restore", 3),
        Planted(commit_the_cursor_apart, "order,kill", 2),
        Planted(commit_the_cursor_behind, "another,kill", 2, job=GROUPS),
        Planted(move_whatever_is_taken, "order,another,kill,since", 3, job=GROUPS),
        Planted(commit_the_target_first, "order", 2),
        Planted(merge_ranges, "order,kill,since", 4, FED_LATE),
        Planted(ignore_what_is_forgotten, "refresh,intrude,forget", 3),
        Planted(ignore_the_targets_base, "optimize,drop", 2),
        Planted(ignore_the_quarantines_base, "order,another,drop", 3),
        Planted(ignore_what_a_quarantine_met, "another,restore", 2, HELD_BEFORE),
        Planted(ignore_that_sources_are_replaced, "order,replace_source", 3),
    )
}
