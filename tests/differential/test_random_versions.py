"""Random histories of a table: its versions after many runs and after one, compared with two references; planted bugs.

All runs are of one table whose writers' clocks disagree, so the commits' order and their times are not the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from differential import reader
from differential.clocks import read_raw_times, read_times, skew_times
from differential.columns import history_of
from differential.comparison import Tally
from differential.engines import enrich_engine
from differential.generator import make_histories
from differential.planted import _histories
from differential.trial import Trial
from differential.versions import (
    BUGS,
    WORLD,
    Plant,
    as_told,
    ask_duckdb,
    expect,
    order_by_time,
    read_states,
    text,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES, WINDOWS = 300, 3
COLUMNS = {
    "many": ("name", "amount"),
    "one": ("name", "amount"),
    "wide": ("flags", "tags", "m"),
    "spoiled": ("name", "amount"),
}
ORDER = "commits_are_ordered_by_time"
NAMES = [*BUGS, ORDER]


def write_job(base: Path, name: str) -> None:
    listed, unique = (
        ", ".join(COLUMNS[name]),
        "trusted" if name == "spoiled" else "checked",
    )  # a rule may see a bug, too
    (base / "jobs" / f"{name}.yml").write_text(
        f"job: {name}\nkind: history\nsources: {{things: {{table: things, key: k, unique: {unique}}}}}\nfrom: things\n"
        f"history: {{columns: [{listed}]}}\ntarget: {{table: {name}}}\n"
    )


class Played:
    """One table, played in windows, and the histories that jobs have made of it."""

    def __init__(self, base: Path, spark: SparkSession, seed: int) -> None:
        self.base, self.spark, self.table = base / "p", spark, base / "p" / "lake" / "things"
        histories = list(make_histories(WORLD, HISTORIES, WINDOWS, seed))
        self.trial = Trial(self.base, WORLD, histories, enrich_engine(spark), seed=seed)
        for name in COLUMNS:
            write_job(self.base, name)
        first = 0
        for window in range(WINDOWS):
            self.trial.write(window)
            skew_times(self.table, first)
            first = reader.version(self.table) + 1
            self.run("many")
            if window == 0:
                self.run("spoiled")
        self.run("one", "wide")
        self.times = read_times(self.table)

    def run(self, *names: str, **options: Any) -> None:
        """Run jobs, which must succeed."""
        report = enrich_engine(self.spark, **options)(self.base, names)
        assert [each["error"] for each in report["jobs"]] == [None] * len(names)

    def told(self, name: str) -> list[Any]:
        """Return what a job has made of the table."""
        return as_told(reader.rows(self.base / "lake" / name), COLUMNS[name])


@pytest.fixture(scope="module")
def played(
    interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int, totals: dict[str, Tally]
) -> Played:
    found = Played(tmp_path_factory.mktemp("versions"), interpreted, seed)
    totals["histories of rows"] = found.trial.tally
    return found


@pytest.mark.parametrize("name", ["many", "one", "wide"])
def test_versions_equal_both_references_however_the_commits_are_cut(played: Played, name: str) -> None:
    states = read_states(played.table, COLUMNS[name])
    wanted = expect(states, played.times)
    assert [(*each[:3], text(each[3])) for each in wanted] == ask_duckdb(states, played.times)
    assert len(wanted) > 2 * HISTORIES
    assert played.told(name) == wanted


def test_another_run_and_a_replay_change_nothing(played: Played) -> None:
    before = reader.version(played.base / "lake" / "many")
    played.run("many")
    played.run("many", since="v2")
    assert reader.version(played.base / "lake" / "many") == before


def test_planted_bugs_are_caught_each_in_its_own_histories(played: Played) -> None:
    plants: dict[str, Plant] = {**BUGS, ORDER: order_by_time(read_raw_times(played.table))}
    with pytest.MonkeyPatch.context() as patch:
        for place, name in enumerate(NAMES):
            plants[name](patch, _histories(place, len(NAMES) + 1))
        played.run("spoiled")
    wanted, found = expect(read_states(played.table, COLUMNS["spoiled"]), played.times), played.told("spoiled")
    wrong = {history_of(each[0]) for each in {*wanted} ^ {*found}}
    caught = {number % (len(NAMES) + 1) for number in wrong if number is not None}
    assert caught == set(range(len(NAMES))), [name for place, name in enumerate(NAMES) if place not in caught]
