"""Every planted bug is caught by a reduced differential run, and without one nothing is found.

Projects are bootstrapped and the second window's changes written once per job; each bug then runs on a copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from differential.engines import enrich_engine
from differential.generator import make_histories
from differential.planted import BUGS, Bug, write_during_the_run
from differential.trial import Tally, Trial
from differential.worlds import WORLDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED, HISTORIES = 20261121, 300
IN_SOAK = {
    "changes_of_list_elements_ignored",
    "left_for_inner",
    "no_guard_at_all",
    "empty_list_is_null",
    "null_ids_are_duplicates",
    "condition_is_ignored",
    "chained_changes_stop",
    "old_references_forgotten",
    "mirror_order_ignored",
    "null_order_wins",
}
"""Bugs that are planted with ENRICH_SOAK=1 alone: each has a sibling that is planted always."""
PLANTED = [bug for bug in BUGS if os.environ.get("ENRICH_SOAK") or bug.name not in IN_SOAK]
JOBS = sorted({(bug.world, bug.shape) for bug in BUGS})
Prepared = Callable[[str, str], Trial]


@pytest.fixture(scope="module")
def prepared(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Gives a job's trial after its first run, with the second window written and a third one to come."""
    found: dict[tuple[str, str], Trial] = {}

    def prepare(world_name: str, shape: str) -> Trial:
        if (world_name, shape) not in found:
            world = WORLDS[world_name].only(shape)
            histories = list(make_histories(world, HISTORIES, 3, SEED))
            trial = Trial(tmp_path_factory.mktemp(shape) / "p", world, histories, enrich_engine(interpreted), seed=SEED)
            trial.run(0, trial.write(0))
            assert not trial.failures, trial.failures[0]
            trial.write(1)
            found[world_name, shape] = trial
        return found[world_name, shape]

    return prepare


def _second_run(trial: Trial, patch: pytest.MonkeyPatch, bug: Bug | None, *, late_writer: bool) -> None:
    if bug is not None:
        bug.plant(patch)
    if late_writer:
        write_during_the_run(patch, lambda: trial.write(2))
    trial.run(1, set())


QUIET = [pytest.param(*job, False, id=job[1]) for job in JOBS if job[1] in ("fk_full", "list_keep", "mirror_last")]
LATE = [pytest.param(b.world, b.shape, True, id=f"{b.shape}_with_a_late_writer") for b in BUGS if b.late_writer]


@pytest.mark.parametrize(("world", "shape", "late_writer"), [*QUIET, *LATE])
def test_nothing_planted_nothing_found(
    world: str, shape: str, late_writer: bool, prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = prepared(world, shape).fork(tmp_path / "p")
    _second_run(trial, monkeypatch, None, late_writer=late_writer)
    assert not trial.failures, trial.failures[0]


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_planted_bug_is_caught(
    bug: Bug, prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, totals: dict[str, Tally]
) -> None:
    trial = prepared(bug.world, bug.shape).fork(tmp_path / "p")
    _second_run(trial, monkeypatch, bug, late_writer=bug.late_writer)
    totals.setdefault("planted bugs", Tally()).add(trial.tally)
    whats = {failure.what for failure in trial.failures}
    assert whats, "the planted bug survived"
    assert "the job did not succeed" not in whats, f"the variant crashes instead of being wrong: {trial.failures[0]}"


def test_enough_bugs_are_planted() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 25
