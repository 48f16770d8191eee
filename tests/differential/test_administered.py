"""Random histories among administrators, compared after every run; the soak's lane of them plays all worlds.

In `make test` they play where bugs are planted among them: ``test_planted`` has the same job without a bug.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from differential.acts import ACTS, LATE, administered, plan_acts
from differential.alterations import Alteration
from differential.compare import canonical_row
from differential.comparison import Tally
from differential.engines import enrich_engine, stand_in
from differential.generator import make_histories, make_shared
from differential.trial import Script, Trial
from differential.worlds import WORLDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED, HISTORIES = 20261125, 300
PLAYED: dict[str, tuple[str, list[Alteration]]] = {
    "composite_full": (
        "pair_composite",
        [
            Alteration(1, 1, "ca", "repartition", "k2"),
            Alteration(1, 1, "composite_full", "die", ""),
            Alteration(1, 1, "cb", "unfed", ""),
            Alteration(2, 0, "ca", "restore", "3"),  # to other partition columns
            Alteration(2, 1, "composite_full", "die", ""),
            Alteration(2, LATE, "cb", "hole", ""),
            Alteration(2, LATE, "", "since", ""),
        ],
    ),
    "mirror_composite": (
        "mirrors",
        [
            Alteration(1, 0, "pairs", "partition", "w"),
            Alteration(1, 1, "pairs", "repartition", "j"),
            Alteration(1, 0, "mirror_composite", "retain", ""),
            Alteration(2, 0, "mirror_composite", "rewind", "1"),
            Alteration(2, 0, "pairs", "repartition", ""),
            Alteration(2, LATE, "pairs", "empty", ""),
        ],
    ),
}
"""Job -> its world, and what administrators do."""


@pytest.mark.soak
@pytest.mark.parametrize("job", PLAYED)
def test_every_target_is_right_among_administrators(
    job: str, interpreted: SparkSession, tmp_path: Path, totals: dict[str, Tally]
) -> None:
    name, acts = PLAYED[job]
    world = administered(WORLDS[name].only(job), SEED)
    script = Script(list(make_histories(world, HISTORIES, 3, SEED)), None, acts)
    trial = Trial(tmp_path / "p", world, script, enrich_engine(interpreted), seed=SEED)
    failures = trial.play()
    totals[f"administrators, {job}"] = trial.tally
    assert not failures, "\n".join(map(str, failures[:3]))


def test_every_act_is_planned_for_every_kind_of_world() -> None:
    for mapped, wanted in ((False, ACTS), (True, {"rename", "drop", "forget", "widen", "die", "since", "unfed"})):
        plans = [
            plan_acts(administered(world, seed, mapped=mapped), 4, seed)
            for world in WORLDS.values()
            for seed in range(20)
        ]
        assert {each.action for plan in plans for each in plan} >= wanted


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
            writer.runs.append(writer.version)
