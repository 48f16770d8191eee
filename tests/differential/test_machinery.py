"""The machinery itself, without a JVM: it agrees with itself on a right engine, and catches wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from differential.engines import stand_in
from differential.generator import History, is_valid, make_histories
from differential.shrink import shrink
from differential.spec import Shape
from differential.trial import Trial, play
from differential.worlds import WORLDS


@pytest.mark.parametrize("name", WORLDS)
def test_model_and_duckdb_agree_and_a_right_engine_passes(name: str, tmp_path: Path, seed: int) -> None:
    world = WORLDS[name]
    histories = list(make_histories(world, 40, 4, seed))
    assert all(is_valid(world, history) for history in histories)
    tally, failures = play(tmp_path / "p", world, histories, stand_in(world), seed=seed)
    assert not failures, failures[0]
    assert tally.history_runs == 40 * 4 * len(world.shapes)
    assert tally.rows_compared > 200
    assert tally.source_commits > 10


def test_the_same_seed_makes_the_same_histories() -> None:
    world = WORLDS["lists"]
    assert list(make_histories(world, 20, 5, 3)) == list(make_histories(world, 20, 5, 3))
    assert list(make_histories(world, 20, 5, 3)) != list(make_histories(world, 20, 5, 4))


def _without_a_row(_: Shape, rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def _twice(_: Shape, rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows, rows.slice(0, 1)])


def _null_in_last_column(shape: Shape, rows: pa.Table) -> pa.Table:
    """Only the history 3, only the column "mail"."""
    place = rows.schema.get_field_index("mail")
    mine = [str(key).startswith("h00003|") for key in rows.column("k").to_pylist()]
    cells = ["wrong" if is_mine else cell for is_mine, cell in zip(mine, rows.column(place).to_pylist(), strict=True)]
    return rows.set_column(place, "mail", pa.array(cells, rows.schema.field(place).type))


@pytest.mark.parametrize("spoil", [_without_a_row, _null_in_last_column])
def test_a_wrong_engine_is_caught(spoil: Callable[[Shape, pa.Table], pa.Table], tmp_path: Path) -> None:
    world = WORLDS["pair"].only("table_full")
    histories = list(make_histories(world, 20, 2, 5))
    _, failures = play(tmp_path / "p", world, histories, stand_in(world, spoil), seed=1)
    assert {"rows"} <= {failure.what for failure in failures}
    if spoil is _null_in_last_column:
        assert {failure.history for failure in failures if failure.what == "rows"} == {3}


def test_a_surplus_row_is_caught(tmp_path: Path) -> None:
    world = WORLDS["pair"].only("table_inner")
    histories = list(make_histories(world, 20, 1, 5))
    _, failures = play(tmp_path / "p", world, histories, stand_in(world, _twice), seed=1)
    assert next(failure.what for failure in failures) == "rows"


def test_wrong_counts_and_status_are_caught(tmp_path: Path) -> None:
    world = WORLDS["pair"].only("table_inner")
    right = stand_in(world)

    def liar(base: Path, jobs: object) -> object:
        (report,) = right(base, ["table_inner"])["jobs"]
        return {"jobs": [{**report, "updated": report["updated"] + 1}]}

    _, failures = play(tmp_path / "p", world, list(make_histories(world, 5, 1, 5)), liar, seed=1)  # type: ignore[arg-type]
    assert {failure.what for failure in failures} == {"counts"}


def test_a_failing_history_is_shrunk_to_its_core(tmp_path: Path) -> None:
    world = WORLDS["pair"].only("table_inner")

    def no_empty_mail(_: Shape, rows: pa.Table) -> pa.Table:
        return rows.filter(pa.array([mail != "y" for mail in rows.column("mail").to_pylist()], pa.bool_()))

    engine = stand_in(world, no_empty_mail)
    histories = list(make_histories(world, 60, 4, 11))
    _, failures = play(tmp_path / "p", world, histories, engine, seed=1)
    numbers = [failure.history for failure in failures if failure.history is not None]
    shortest = min((histories[number] for number in numbers), key=History.size)  # a long one takes minutes
    assert shortest.size() > 8
    smallest = shrink(world, "table_inner", shortest, engine)
    assert smallest is not None
    assert smallest.size() == 2
    assert len(smallest.windows) == 1


def test_the_writer_leaves_what_it_was_told(tmp_path: Path) -> None:
    from differential import reader

    world = WORLDS["foreign_key"]
    trial = Trial(tmp_path / "p", world, list(make_histories(world, 30, 4, 2)), stand_in(world), seed=3)
    for window in range(4):
        trial.write(window)
        for name, writer in trial.writers.items():
            found = {row["rid"]: row for row in reader.rows(tmp_path / "p" / "lake" / name)}
            assert found == writer.rows
