"""What must not matter: how a history is cut into runs, which way a run takes, and whether its state is still there.

That running again and rebuilding give the same, too, is asked of all worlds in ``test_random_histories``.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from differential import reader
from differential.comparison import Tally
from differential.engines import enrich_engine
from differential.generator import History, make_histories, make_shared
from differential.jobs import with_random_jobs
from differential.trial import Script, Trial
from differential.worlds import WORLDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES, WINDOWS = 250, 3


def _in_one_window(history: History) -> History:
    """Return the history with everything that follows the first run in one window."""
    return History((history.windows[0], [commit for window in history.windows[1:] for commit in window]))


def test_one_window_equals_many_windows_and_a_lost_state_directory_loses_nothing(
    interpreted: SparkSession, tmp_path: Path, seed: int, totals: dict[str, Tally]
) -> None:
    world = with_random_jobs(WORLDS["chains"].only("back_before_lone"), 1, seed + 1)
    script = Script(list(make_histories(world, HISTORIES, WINDOWS, seed + 1)), make_shared(world, WINDOWS, seed + 1))
    assert script.shared is not None
    short = Script([_in_one_window(each) for each in script.histories], _in_one_window(script.shared))
    engine = enrich_engine(interpreted)
    many = Trial(tmp_path / "many", world, script, engine, seed=seed)
    for window in range(WINDOWS):
        changed = many.write(window)
        if window == WINDOWS - 1:
            shutil.rmtree(many.base / "lake" / "_enrich")
        many.run(window, changed)
    one = Trial(tmp_path / "one", world, short, enrich_engine(interpreted, other_ways=True), seed=seed + 1)
    one.play()
    totals["metamorphic"] = many.tally
    for trial in (many, one):
        assert not trial.failures, f"{[shape.tree for shape in world.shapes]}\n{trial.failures[0]}"
    assert all(many.writers[name].rows == one.writers[name].rows for name in many.writers)
    for shape in world.shapes:
        rows = [Counter(map(repr, reader.rows(trial.base / "lake" / shape.name))) for trial in (many, one)]
        assert rows[0] == rows[1], shape.tree
