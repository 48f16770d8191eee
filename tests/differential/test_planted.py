"""Every planted bug is caught in its own histories, and nothing is found in those without one.

A job is bootstrapped and the second window's changes written once; each suite of bugs then runs on a copy. The
histories that once failed stand first, once in the histories of each bug.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import pytest

from differential import planted_acts
from differential.acts import administered
from differential.alterations import Alteration
from differential.comparison import Failure, Tally
from differential.engines import enrich_engine
from differential.generator import make_histories, make_shared
from differential.planted import SUITES, Bug, Suite, write_during_the_run
from differential.shrink import halves, kept_histories
from differential.trial import Script, Trial
from differential.worlds import WORLDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED, HISTORIES_OF_A_BUG = 20261121, 100
BUGS = [(suite, bug) for suite in SUITES for bug in suite.bugs]
Outcome = Callable[[Suite], list[Failure]]


@pytest.fixture(scope="module")
def outcome(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory, totals: dict[str, Tally]) -> Outcome:
    """Gives what was found after the second run of a suite's job, with its bugs planted."""

    @cache
    def prepared(
        world_name: str, shape: str, copies: int, count: int, acts: tuple[Alteration, ...], last: int
    ) -> Trial:
        world = WORLDS[world_name].only(shape)
        world = administered(world, SEED) if acts else world
        kept = [half for history in kept_histories(world_name) for half in halves(history) for _ in range(copies)]
        script = Script([*kept, *make_histories(world, count, 3, SEED)], make_shared(world, 3, SEED), acts)
        trial = Trial(tmp_path_factory.mktemp(shape) / "p", world, script, enrich_engine(interpreted), seed=SEED)
        for window in range(last):
            trial.run(window, trial.write(window))
            assert not trial.failures, trial.failures[0]
        trial.write(last)
        return trial

    @cache
    def found(suite: Suite) -> list[Failure]:
        copies = suite.groups if kept_histories(suite.world) else 1
        count = HISTORIES_OF_A_BUG * max(suite.groups, 4)
        ready = prepared(suite.world, suite.shape, copies, count, suite.acts, suite.last)
        trial = ready.fork(tmp_path_factory.mktemp(suite.name) / "p")
        with pytest.MonkeyPatch.context() as patch:
            suite.plant(patch)
            if suite.is_late:
                write_during_the_run(patch, lambda: trial.write(2))
            trial.run(suite.last, set())
        totals.setdefault("planted bugs", Tally()).add(trial.tally)
        return trial.failures

    return found


def _in_histories_of(place: int, suite: Suite, failures: list[Failure]) -> list[Failure]:
    return [f for f in failures if f.history is not None and f.history % suite.groups == place]


@pytest.mark.parametrize(("suite", "bug"), BUGS, ids=lambda each: each.name)
def test_planted_bug_is_caught(suite: Suite, bug: Bug, outcome: Outcome) -> None:
    failures = outcome(suite)
    crashes = [failure for failure in failures if failure.what == "the job did not succeed"]
    assert not crashes, f"the variant crashes instead of being wrong: {crashes[0]}"
    mine = failures if suite.groups == 1 else _in_histories_of(suite.bugs.index(bug), suite, failures)
    assert mine, "the planted bug survived"


@pytest.mark.parametrize("suite", [suite for suite in SUITES if suite.groups > 1], ids=lambda suite: suite.name)
def test_nothing_planted_nothing_found(suite: Suite, outcome: Outcome) -> None:
    others = _in_histories_of(len(suite.bugs), suite, outcome(suite))
    assert not others, others[0]


@pytest.mark.parametrize("acts", [planted_acts.ACTS, planted_acts.LOST], ids=["many", "a hole"])
def test_nothing_planted_nothing_found_among_administrators(acts: tuple[Alteration, ...], outcome: Outcome) -> None:
    assert outcome(Suite("as it is", planted_acts.WORLD, planted_acts.SHAPE, (), acts=acts)) == []


def test_enough_bugs_are_planted() -> None:
    assert len({bug.name for _, bug in BUGS}) == len(BUGS) >= 61
