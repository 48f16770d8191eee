"""Random histories among administrators, compared after every run; the soak's lane of them plays all worlds.

The seeds are fixed: each is of a script with the acts that the test names.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from differential.acts import administered, plan_acts
from differential.compare import canonical_row
from differential.comparison import Tally
from differential.engines import enrich_engine, stand_in
from differential.generator import make_histories, make_shared
from differential.trial import Script, Trial
from differential.worlds import WORLDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOWS, HISTORIES = 3, 300


class Played(NamedTuple):
    """A job among administrators, and acts of the script that must not get lost."""

    world: str
    job: str
    seed: int
    acts: frozenset[str]


PLAYED = [
    Played(
        "pair_composite", "composite_full", 7, frozenset({"repartition", "rewind", "die", "since", "hole", "retain"})
    ),
    Played("foreign_key", "fk_gated", 7, frozenset({"repartition", "rewind", "die", "since", "unfed", "foresee"})),
]


@pytest.mark.parametrize("played", PLAYED, ids=[each.job for each in PLAYED])
def test_every_target_is_right_among_administrators(
    played: Played, interpreted: SparkSession, tmp_path: Path, totals: dict[str, Tally]
) -> None:
    name, seed = played.world, played.seed
    world = administered(WORLDS[name].only(played.job), seed)
    script = Script(list(make_histories(world, HISTORIES, WINDOWS, seed)), None, plan_acts(world, WINDOWS, seed))
    assert {each.action for each in script.alterations} >= played.acts
    trial = Trial(tmp_path / "p", world, script, enrich_engine(interpreted), seed=seed)
    failures = trial.play()
    totals[f"administrators, {played.job}"] = trial.tally
    assert not failures, "\n".join([*map(str, failures[:3]), *map(str, script.alterations)])


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", ["foreign_key", "pair"])
def test_sources_hold_what_the_writer_says(name: str, *, mapped: bool, tmp_path: Path, seed: int) -> None:
    """Whatever administrators do to them."""
    whole = administered(WORLDS[name], seed, mapped=mapped)
    acts = [each for each in plan_acts(whole, 4, seed) if each.table in {table.name for table in whole.tables}]
    world = whole.only()
    script = Script(list(make_histories(world, 20, 4, seed)), make_shared(world, 4, seed), acts)
    trial = Trial(tmp_path / "p", world, script, stand_in(world), seed=seed)
    for window in range(4):
        trial.write(window)
        for writer in trial.writers.values():
            columns = writer.table.all_columns
            names, maps = [each.name for each in columns], frozenset(e.name for e in columns if e.kind == "map")
            rows, found = writer.view(), writer.read().to_pylist()
            assert Counter(canonical_row(row, names, maps) for row in found) == Counter(
                canonical_row(row, names, maps) for row in rows
            )
            writer.seen = writer.version
