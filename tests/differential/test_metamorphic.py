"""What must not matter: how a history is cut into runs, running again, rebuilding, the order of files and jobs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from differential import reader
from differential.engines import enrich_engine
from differential.generator import History, make_histories
from differential.trial import Tally, Trial
from differential.worlds import WORLDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHOSEN = {"pair": "table_three", "foreign_key": "fk_chained_full", "lists": "list_beside_fk", "mirrors": "mirror_first"}
HISTORIES, WINDOWS = 125, 3


@dataclass
class Played:
    """Targets (as canonical rows) and result JSONs of one world's job, played in several ways."""

    many: Trial
    one: Trial
    shape: str
    again: list[tuple[Mapping[str, Any], int]]
    refreshed: Mapping[str, Any]
    before_refresh: Counter[str]


@pytest.fixture(scope="module", params=CHOSEN)
def played(
    request: pytest.FixtureRequest,
    interpreted: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    totals: dict[str, Tally],
) -> Played:
    shape = CHOSEN[request.param]
    world, engine = WORLDS[request.param].only(shape), enrich_engine(interpreted)
    histories = list(make_histories(world, HISTORIES, WINDOWS, seed + 1))
    base = tmp_path_factory.mktemp("metamorphic")
    many = Trial(base / "many", world, histories, engine, seed=seed)
    again = []
    for window in range(WINDOWS):
        many.run(window, many.write(window))
        version = reader.version(_target(many, shape))
        report = engine(many.base, [shape])["jobs"][0]
        later = reader.data_commits(_target(many, shape), version + 1, reader.version(_target(many, shape)))
        again.append((report, later))
        many.targets[shape].version = reader.version(_target(many, shape))
    merged = [History((h.windows[0], [c for window in h.windows[1:] for c in window])) for h in histories]
    one = Trial(base / "one", world, merged, engine, seed=seed)
    one.play()
    before = _rows(many, shape)
    refreshed = enrich_engine(interpreted, full_refresh=True)(many.base, [shape])["jobs"][0]
    totals[f"metamorphic, {world.name}"] = many.tally
    return Played(many, one, shape, again, refreshed, before)


def _target(trial: Trial, shape: str) -> Path:
    return trial.base / "lake" / shape


def _rows(trial: Trial, shape: str) -> Counter[str]:
    return Counter(repr(row) for row in reader.rows(_target(trial, shape)))


def test_one_window_equals_many_windows(played: Played) -> None:
    assert not played.many.failures, played.many.failures[0]
    assert not played.one.failures, played.one.failures[0]
    assert played.many.writers.keys() == played.one.writers.keys()
    assert all(played.many.writers[name].rows == played.one.writers[name].rows for name in played.many.writers)
    assert played.before_refresh == _rows(played.one, played.shape)


def test_the_same_run_twice_is_once_and_commits_no_data(played: Played) -> None:
    assert [report["status"] for report, _ in played.again] == ["unchanged"] * WINDOWS
    assert [data for _, data in played.again] == [0] * WINDOWS
    for report, _ in played.again:
        assert (report["inserted"], report["updated"], report["deleted"], report["quarantined"]) == (0, 0, 0, 0)


def test_full_refresh_equals_incremental(played: Played) -> None:
    assert played.refreshed["mode"] == "full_refresh"
    assert played.refreshed["status"] in ("updated", "unchanged")
    assert _rows(played.many, played.shape) == played.before_refresh
    assert (played.refreshed["inserted"], played.refreshed["deleted"]) == (0, 0)


def test_the_order_of_job_files_and_of_arguments_does_not_matter(
    interpreted: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Jobs on jobs, written and asked for in several orders."""
    world, engine = WORLDS["mixed"].only("mixed", "on_mixed", "top"), enrich_engine(interpreted)
    histories = list(make_histories(world, 40, 2, seed + 2))
    rng = random.Random(seed)

    def shuffled(base: Path, jobs: Any) -> Mapping[str, Any]:
        asked = list(jobs)
        rng.shuffle(asked)
        return engine(base, asked)

    found = []
    for number in range(2):
        trial = Trial(tmp_path / str(number), world, histories, shuffled, seed=seed + number)
        assert not trial.play(), trial.failures[0]
        found.append([_rows(trial, shape.name) for shape in world.shapes])
    assert found[0] == found[1]
