"""Random histories of every kind of change over every kind of join and mirror, compared after every run.

ENRICH_TEST_SEED repeats a run, ENRICH_TEST_HISTORIES sets how many histories a world plays, ENRICH_SOAK=1 plays every
job of every world (``python -m differential.soak`` is the resumable way to play a million).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from differential.engines import enrich_engine
from differential.generator import make_histories
from differential.shrink import save_case, shrink
from differential.trial import Tally, play
from differential.worlds import IN_MAKE_TEST, WORLDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FULL_SIZE, WINDOWS = 340, 3
HISTORIES = int(os.environ.get("ENRICH_TEST_HISTORIES", str(FULL_SIZE)))
PLAYED = WORLDS if os.environ.get("ENRICH_SOAK") else {name: WORLDS[name].only(*IN_MAKE_TEST[name]) for name in WORLDS}


@pytest.mark.parametrize("name", PLAYED)
def test_every_target_equals_the_truth_after_every_run(
    name: str, spark: SparkSession, tmp_path: Path, seed: int, totals: dict[str, Tally]
) -> None:
    world, engine = PLAYED[name], enrich_engine(spark)
    histories = list(make_histories(world, HISTORIES, WINDOWS, seed))
    tally, failures = play(tmp_path / "p", world, histories, engine, seed=seed)
    totals[f"random histories, {name}"] = tally
    if not failures:
        return
    first = next((f for f in failures if f.history is not None), failures[0])
    kept = "nothing (the difference belongs to no single history)"
    if first.history is not None:
        smallest = shrink(world, first.shape, histories[first.history], engine)
        kept = "nothing (the history alone does not fail)"
        if smallest is not None:
            kept = str(save_case(world, first.shape, smallest, first.what))
    pytest.fail(f"seed {seed}: {len(failures)} failures; kept {kept}\n" + "\n".join(map(str, failures[:5])))


def test_enough_was_compared(totals: dict[str, Tally], seed: int) -> None:
    """The counts are of what happened; the worlds above must have been played in this session."""
    tallies = [tally for name, tally in totals.items() if name.startswith("random histories, ")]
    if len(tallies) < len(PLAYED):
        pytest.skip("not every world was played in this session")
    total = Tally()
    for tally in tallies:
        total.add(tally)
    totals["random histories, all"] = total
    print(f"seed {seed}: {total}")  # noqa: T201 - the counts are what this test is about
    share = min(1.0, HISTORIES / FULL_SIZE)
    assert total.history_runs >= 20_000 * share
    assert total.history_runs_with_changes >= 10_000 * share
    assert total.rows_compared >= 20_000 * share
    assert total.quarantine_rows >= 2_000 * share
    assert total.job_runs == WINDOWS * sum(len(world.shapes) for world in PLAYED.values())
