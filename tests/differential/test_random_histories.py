"""Random histories of every kind of change over every kind of join and mirror, compared after every run.

Each world is played once; what must not matter (running again, rebuilding) is then asked of the same tables. Jobs that
are queries are written as the text of one, in other words for each run, and Spark answers the text itself. The first
histories of a world are those that once failed. ENRICH_TEST_SEED repeats a run, ENRICH_TEST_HISTORIES sets how many
histories a world plays (``python -m differential.soak`` is the resumable way to play a million).

More histories cost nearly nothing, and more runs of jobs seconds each: so few jobs play, with many histories.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from differential import reader
from differential.alterations import plan_alterations
from differential.comparison import Tally
from differential.engines import PLACED, enrich_engine
from differential.generator import make_histories, make_shared
from differential.invariants import (
    compare_printed,
    compare_queries,
    compare_smaller_cuts,
    open_answers,
    recut_history,
    refresh_one,
)
from differential.jobs import with_random_jobs, with_random_queries
from differential.shrink import halves, kept_histories, save_case, shrink
from differential.texts import write_text
from differential.trial import Script, Trial
from differential.worlds import ALWAYS, TIMED, WORLDS
from enrich.delta.sink import hold_settings
from kit.session import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from differential.spec import World

FULL_SIZE, WINDOWS = 800, 2
HISTORIES = int(os.environ.get("ENRICH_TEST_HISTORIES", str(FULL_SIZE)))
MORE_IN_TIME = 1.6
"""By how much more of them the worlds of joins in time play: few jobs, many histories."""
SEED = int(os.environ.get("ENRICH_TEST_SEED", "0"))  # chosen before the tests are collected
EVOLVING = "evolving"
"""The world in which columns of the sources change. It has a random job alone: that must not hide what was kept."""


def _with_queries(world: World, count: int) -> World:
    """Return a world over the tables of chains with random jobs besides, of which each can be written as a query."""
    made = with_random_queries(WORLDS["chains"], 6 * count, SEED)
    queries = [each for each in made.shapes if write_text(made, each, f"{SEED}/{each.name}", 0) is not None]
    return replace(world, shapes=(*world.shapes, *queries[:count]))


PLAYED = {
    **ALWAYS,
    "chains": _with_queries(ALWAYS["chains"], 2),
    EVOLVING: with_random_jobs(WORLDS["chains"].only(), 1, SEED),
    "times": with_random_jobs(WORLDS["times"].only(), 1, SEED),
}
WITHOUT_QUERIES = {"mirrors", "histories", "intervals", "times", "versions", "lists"}
"""Worlds of jobs for which SQL has no words."""
CUT = {"foreign_key": (), "intervals": ("interval_chained", "interval_then_inner")}
"""World -> its jobs (none: all) that are played once more from a copy of the first run, one table changing a window."""
COMPILED = list(PLAYED)[SEED % len(PLAYED)]
"""The world that is played with compiled plans, as users run them; the others are interpreted, which is cheaper."""
Played = Callable[[str], Trial]


@pytest.fixture(scope="module")
def first_runs() -> dict[str, Trial]:
    """Copies of worlds as they were after their first run."""
    return {}


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> SparkSession:
    """The session that answers queries."""
    return open_answers(spark)


@pytest.fixture(scope="module")
def differences() -> dict[str, list[str]]:
    """World -> what differed from Spark's answers to the texts of its queries, after each run."""
    return {}


@pytest.fixture(scope="module")
def played(
    spark: SparkSession,
    answers: SparkSession,
    differences: dict[str, list[str]],
    tmp_path_factory: pytest.TempPathFactory,
    totals: dict[str, Tally],
    first_runs: dict[str, Trial],
) -> Played:
    """Plays a world once, with everything that may happen to it."""

    @cache
    def play_world(name: str) -> Trial:
        world = PLAYED[name]
        kept = [half for each in kept_histories(name) for half in halves(each)]
        wanted = round(HISTORIES * MORE_IN_TIME) if world.name in TIMED else HISTORIES
        histories = [*kept, *make_histories(world, wanted - len(kept), WINDOWS, SEED)]
        alterations = plan_alterations(world, WINDOWS, SEED) if name == EVOLVING else ()
        script = Script(histories, make_shared(world, WINDOWS, SEED), alterations)
        engine = enrich_engine(spark, other_ways=(SEED + list(PLAYED).index(name)) % 2 == 1, large=True)
        trial = Trial(tmp_path_factory.mktemp(name.replace("/", "_")) / "p", world, script, engine, seed=SEED)
        with hold_settings(spark, {} if name == COMPILED else INTERPRETED):
            for window in range(WINDOWS):
                changed = trial.write(window)
                trial.write_queries(SEED, window)
                result = trial.run(window, changed)
                differences.setdefault(name, []).extend(compare_queries(trial, result, answers))
                if name in CUT and window == 0:
                    first_runs[name] = trial.fork(tmp_path_factory.mktemp("first") / "p")
        totals[f"random histories, {name}"] = trial.tally
        return trial

    return play_world


@pytest.mark.parametrize("name", PLAYED)
def test_every_target_equals_the_truth_after_every_run(name: str, played: Played, spark: SparkSession) -> None:
    trial = played(name)
    if not trial.failures:
        return
    first = next((f for f in trial.failures if f.history is not None), trial.failures[0])
    kept = "nothing (the difference belongs to no single history)"
    if first.history is not None:
        with hold_settings(spark, INTERPRETED):
            world = trial.first_world
            smallest = shrink(world, first.shape, trial.script, first.history, trial.engine)
        kept = "nothing (the history alone does not fail)"
        if smallest is not None:
            kept = str(save_case(world, first.shape, smallest, first.what))
    text = trial.texts.get(first.shape)
    job = trial.shape(first.shape).tree if text is None else text.query
    texts = "\n".join(map(str, trial.failures[:5]))
    pytest.fail(f"seed {SEED}: {len(trial.failures)} failures; kept {kept}; job {job}\n{texts}")


@pytest.mark.parametrize("name", PLAYED)
def test_a_query_is_what_spark_answers_to_its_text(
    name: str, played: Played, differences: dict[str, list[str]], answers: SparkSession
) -> None:
    """After each run, in other words each time; and what is printed as a query is one."""
    trial = played(name)
    assert differences[name] == []
    assert trial.texts or name in (*WITHOUT_QUERIES, EVOLVING), "no job of this world is a query"
    printed = compare_printed(trial, answers)
    assert [fault for faults in printed.values() for fault in faults] == []
    assert trial.texts.keys() <= printed.keys()


@pytest.mark.parametrize("name", PLAYED)
def test_a_run_without_changes_commits_no_data(name: str, played: Played) -> None:
    """Nor does one of the same jobs in other words: what was a query is none."""
    trial = played(name)
    trial.write_in_other_words()
    before = {shape.name: reader.version(trial.base / "lake" / shape.name) for shape in trial.world.shapes}
    reports = trial.engine(trial.base, list(before))["jobs"]
    assert {report["job"]: report["status"] for report in reports} == dict.fromkeys(before, "unchanged")
    for report in reports:
        path = trial.base / "lake" / report["job"]
        assert reader.data_commits(path, before[report["job"]] + 1, reader.version(path)) == 0
        assert (report["inserted"], report["updated"], report["deleted"], report["quarantined"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("name", list(PLAYED)[SEED % 5 :: 5])
def test_a_full_refresh_equals_what_the_runs_have_made(name: str, played: Played, spark: SparkSession) -> None:
    """Of one job of every fifth world, others with another seed."""
    assert refresh_one(played(name), spark, SEED) == []


def test_a_history_is_the_same_however_its_commits_are_cut(played: Played, spark: SparkSession) -> None:
    assert recut_history(played("histories"), spark, SEED) == []


@pytest.mark.parametrize("name", CUT)
def test_one_window_equals_smaller_windows_and_a_lost_state_directory_loses_nothing(
    name: str, played: Played, first_runs: dict[str, Trial], spark: SparkSession, totals: dict[str, Tally]
) -> None:
    """Also whichever way a run takes: the first small window goes the ways that are meant for tables of other sizes."""
    whole = played(name)
    first = first_runs[name]
    first.world = first.world.only(*CUT[name] or whole.targets)
    first.engine = enrich_engine(spark, other_ways=True)
    with hold_settings(spark, INTERPRETED):
        totals[f"metamorphic, {name}"], faults = compare_smaller_cuts(first, whole, enrich_engine(spark, large=True))
    assert not faults, "\n".join(faults)
    assert len(first.histories) >= 500 * min(1.0, HISTORIES / FULL_SIZE)


def test_enough_was_compared(totals: dict[str, Tally]) -> None:
    """The counts are of what happened; the worlds above must have been played in this session."""
    tallies = [tally for name, tally in totals.items() if name.startswith("random histories, ")]
    if len(tallies) < len(PLAYED):
        pytest.skip("not every world was played in this session")
    total = Tally()
    for tally in tallies:
        total.add(tally)
    totals["random histories, all"] = total
    print(f"seed {SEED}: {total}, old rows {dict(PLACED)}")  # noqa: T201 - the counts are what this test is about
    share = min(1.0, HISTORIES / FULL_SIZE)
    in_time = [totals[f"random histories, {name}"] for name, world in PLAYED.items() if world.name in TIMED]
    assert sum(tally.history_runs for tally in in_time) >= 10_000 * share
    assert total.history_runs >= 20_000 * share
    assert total.history_runs_with_changes >= 15_000 * share
    assert total.rows_compared >= 30_000 * share
    assert total.quarantine_rows >= 1_500 * share
    assert total.alterations >= 2
    assert PLACED["at hand"] >= 5 * share
    assert total.query_runs >= 10_000 * share
