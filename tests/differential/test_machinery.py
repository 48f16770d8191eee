"""The machinery itself, without a JVM: it agrees with itself on a right engine, and catches wrong ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import differential
from differential.alterations import plan_alterations
from differential.compare import canonical_row
from differential.engines import stand_in
from differential.generator import History, is_valid, make_histories, make_shared
from differential.jobs import random_jobs, shape_of, with_random_jobs
from differential.jobs_in_time import BETWEEN, VERSIONS
from differential.shrink import load_cases, save_case, script_of, shrink
from differential.spec import Shape
from differential.trial import Script, Trial, play
from differential.worlds import WORLDS

IN_THE_SOAK = WORLDS.keys() - {"foreign_key", "histories"}
"""Model and DuckDB are compared in every world that is played; two worlds show that a right engine passes."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.soak] if name in IN_THE_SOAK else []) for name in WORLDS]
)
def test_model_and_duckdb_agree_and_a_right_engine_passes(name: str, tmp_path: Path, seed: int) -> None:
    world = with_random_jobs(WORLDS[name], 4, seed)
    script = Script(list(make_histories(world, 40, 2, seed)), make_shared(world, 2, seed))
    assert all(is_valid(world, history) for history in script.histories)
    tally, failures = play(tmp_path / "p", world, script, stand_in(world), seed=seed)
    assert not failures, failures[0]
    assert tally.history_runs == 40 * 2 * len(world.shapes)
    assert tally.rows_compared > 100  # of half as many histories, one seed gave 87
    assert tally.source_commits >= len(world.tables)


def test_the_references_share_no_code_with_enrich() -> None:
    """Nothing of enrich is imported by the model, the oracle, or by what they import in their turn."""
    folder = Path(differential.__file__).parent
    todo, seen = ["model", "oracle"], set()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            text = (folder / f"{name}.py").read_text(encoding="utf-8")
            assert not re.search(r"^\s*(from|import) (enrich|pyspark)\b", text, re.MULTILINE), name
            todo += re.findall(r"^from differential\.(\w+) import", text, re.MULTILINE)
    assert {"spec", "columns"} <= seen


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
    shortest = min(numbers, key=lambda number: histories[number].size())  # a long one takes minutes
    assert histories[shortest].size() > 8
    smallest = shrink(world, "table_inner", Script(histories), shortest, engine)
    assert smallest is not None
    (history,) = smallest.histories
    assert history.size() == 2
    assert len(history.windows) == 1


def test_a_script_is_shrunk_with_what_its_history_shares(tmp_path: Path) -> None:
    """The wrong row comes from the shared table: that history is kept, as far as it is needed, and the job with it."""
    zones = {"table": "zones", "kind": "foreign_key", "how": "left", "on": [["text", "de"]]}
    select = {"k": "lines.k", "zone": "zones.name"}
    job: dict[str, Any] = {
        "name": "random_1",
        "source": "lines",
        "joins": {"zones": zones},
        "key": ["k"],
        "select": select,
    }
    world = replace(WORLDS["chains"], shapes=(shape_of(job),))

    def no_zone(_: Shape, rows: pa.Table) -> pa.Table:
        return rows.filter(pa.array([zone is None for zone in rows.column("zone").to_pylist()], pa.bool_()))

    line, zone = ["a", *[None] * 10], [None, 1, 1, 1]
    first = [["lines", 1, line], ["lines", 2, ["b", *line[1:]]], ["lands", 3, ["a", None, 1, 1, 1]]]
    shared = [["zones", 1, ["z001", *zone]]], [["zones", 2, ["z002", *zone]], ["zones", 3, ["de", *zone]]]
    script = Script([History(([first], []))], History(([shared[0]], [shared[1]])))
    smallest = shrink(world, job["name"], script, 0, stand_in(world, no_zone))
    assert smallest is not None
    assert [history.size() for history in smallest.histories] == [1]
    assert smallest.shared == History(([[]], [shared[1][1:]]))
    path = save_case(world, job["name"], smallest, "a note", tmp_path / "cases")
    (case,) = load_cases(tmp_path / "cases")
    assert path.name == case["file"]
    assert script_of(case) == smallest
    assert case["job"] == {**job, "name": case["shape"]}


def test_the_same_seed_makes_the_same_jobs_and_all_kinds_of_them() -> None:
    world = WORLDS["chains"]
    assert random_jobs(world, 5, 3) == random_jobs(world, 5, 3)
    jobs = random_jobs(world, 200, 3)
    joins = [join for job in jobs for join in job["joins"].values()]
    assert {(join["kind"], join.get("how")) for join in joins} == {
        *(("table", how) for how in ("inner", "left", "right", "full")),
        *(("foreign_key", how) for how in ("inner", "left", "right", "full")),
        ("list", None),
    }
    on = [str(join.get("on", join.get("elements"))) for join in joins]
    for word in ("coalesce", "['text', 'de']", "'own'", "'is_null'", "'array'", "'key'"):
        assert any(word in text for text in on), word
    assert {len(job["joins"]) for job in jobs} == {2, 3, 4}
    assert any("per" in (job["select"] or {}) for job in jobs)
    assert any(job["select"] is None for job in jobs)


def test_random_jobs_in_time_are_of_all_kinds() -> None:
    world = WORLDS["times"]
    assert random_jobs(world, 5, 3) == random_jobs(world, 5, 3)
    jobs = random_jobs(world, 300, 3)
    joins = [join for job in jobs for join in job["joins"].values()]
    assert {(join["kind"], join.get("how")) for join in joins} == {
        *(("interval", how) for how in ("inner", "left", "right", "full")),
        *(("foreign_key", how) for how in ("inner", "left", "right", "full")),
        *(("as_of", how) for how in ("inner", "left")),
        ("list", None),
    }
    near = [join for join in joins if join["kind"] == "interval"]
    assert {join["time"] for join in near} == set(BETWEEN)
    assert {len(join["match"]) for join in near} == {1, 2}
    assert {join["table"] for join in joins if join["kind"] == "as_of"} == set(VERSIONS)
    chains = {kinds for job in jobs for kinds in pairwise(join["kind"] for join in job["joins"].values())}
    others = ("as_of", "foreign_key", "list")
    assert chains >= {(one, other) for one in ("interval", *others) for other in others}


@pytest.mark.parametrize("name", ["foreign_key", "chains"])
def test_the_writer_leaves_what_it_was_told(name: str, tmp_path: Path, seed: int) -> None:
    """Whatever becomes of the columns of its tables."""
    world = WORLDS[name].only()
    script = Script(
        list(make_histories(world, 30, 4, seed)), make_shared(world, 4, seed), plan_alterations(world, 4, seed)
    )
    trial = Trial(tmp_path / "p", world, script, stand_in(world), seed=seed)
    for window in range(4):
        trial.write(window)
        for writer in trial.writers.values():
            names = [column.name for column in writer.table.all_columns]
            found = writer.read()
            assert set(found.column_names) == set(names)
            rows = Counter(canonical_row(row, names) for row in found.to_pylist())
            assert rows == Counter(canonical_row(row, names) for row in writer.rows.values())
    assert trial.tally.alterations == len(script.alterations)
