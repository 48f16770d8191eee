"""Replay the histories that once failed, all cases of a world in one trial."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from differential.engines import enrich_engine
from differential.generator import History, is_valid
from differential.shrink import load_cases
from differential.trial import Tally, play
from differential.worlds import WORLDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = load_cases()


@pytest.mark.parametrize("name", sorted({case["world"] for case in CASES}))
def test_kept_cases_pass(
    name: str, interpreted: SparkSession, tmp_path: Path, seed: int, totals: dict[str, Tally]
) -> None:
    cases = [case for case in CASES if case["world"] == name]
    histories = [History(tuple(case["windows"])) for case in cases]
    world = WORLDS[name].only(*_closure(name, {case["shape"] for case in cases}))
    assert all(is_valid(world, history) for history in histories)
    tally, failures = play(tmp_path / "p", world, histories, enrich_engine(interpreted), seed=seed)
    totals[f"kept cases, {name}"] = tally
    files = {failure.history: cases[failure.history]["file"] for failure in failures if failure.history is not None}
    assert not failures, f"{files}\n{failures[0]}"


def _closure(name: str, shapes: set[str]) -> set[str]:
    """Return the jobs and those whose targets they read."""
    from differential.shrink import needed

    return {s.name for shape in shapes for s in needed(WORLDS[name], shape).shapes}
