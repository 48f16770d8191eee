"""How a history is cut into runs, which way a run takes, and whether its state is still there must not matter.

Of one job here, which was wrong once; ``soak`` asks it of many.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from differential.comparison import Tally
from differential.invariants import compare_cuts
from differential.worlds import WORLDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = 500


def test_one_window_equals_many_windows_and_a_lost_state_directory_loses_nothing(
    interpreted: SparkSession, tmp_path: Path, seed: int, totals: dict[str, Tally]
) -> None:
    world = WORLDS["chains"].only("back_before_lone")
    totals["metamorphic"], faults = compare_cuts(tmp_path, world, HISTORIES, seed + 1, interpreted)
    assert not faults, f"{[shape.tree for shape in world.shapes]}\n" + "\n".join(faults)
