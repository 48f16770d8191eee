"""Replay the scripts that once failed and that are more than a history of a job that is always played.

The others are the first histories of ``test_random_histories`` and ``test_planted``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from differential.engines import enrich_engine
from differential.generator import is_valid
from differential.jobs import shape_of
from differential.planted import SUITES
from differential.shrink import is_plain, load_cases, script_of
from differential.trial import play
from differential.worlds import ALWAYS, WORLDS, needed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = load_cases()


@pytest.mark.parametrize("case", [case for case in CASES if not is_plain(case)], ids=lambda case: case["file"])
def test_kept_case_passes(case: dict[str, Any], interpreted: SparkSession, tmp_path: Path, seed: int) -> None:
    world, script = WORLDS[case["world"]], script_of(case)
    if "job" in case:
        world = replace(world, shapes=(*world.shapes, shape_of(case["job"])))
    assert all(is_valid(world, history) for history in script.histories)
    _, failures = play(tmp_path / "p", needed(world, case["shape"]), script, enrich_engine(interpreted), seed=seed)
    assert not failures, "\n".join(map(str, failures))


def test_every_other_case_is_one_of_a_job_that_is_always_played() -> None:
    played = {(world.name, shape.name) for world in ALWAYS.values() for shape in world.shapes}
    played |= {(suite.world, suite.shape) for suite in SUITES}
    for case in CASES:
        if is_plain(case):
            assert (case["world"], case["shape"]) in played, case["file"]
            assert is_valid(WORLDS[case["world"]], *script_of(case).histories)
