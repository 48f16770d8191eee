"""Jobs as random texts of queries: each is the job that it says, and Spark answers it as the job does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from differential.comparison import Tally
from differential.engines import enrich_engine, stand_in
from differential.expressions import build, cols, fk
from differential.generator import make_histories, make_shared
from differential.invariants import compare_queries, define_jobs, open_answers
from differential.jobs import with_random_queries
from differential.project import write_job
from differential.spec import Shape, World, col
from differential.texts import Text, write_text
from differential.trial import Script, Trial
from differential.worlds import WORLDS
from enrich.project import querynames
from enrich.project.query import strip_parentheses, write_tokens
from kit.session import forget_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

FORMS = {
    "another name of FROM": r"\bs_\w+`? +(as +)?`?\w",
    "USING": r"\busing\b",
    "==": "==",
    "<=>": "<=>",
    "IS NOT DISTINCT FROM": r"\bis\s+not\s+distinct\b",
    "the lookup's side first": r"\bon (merchants|countries|parts|orders)\b",
    "a star": r"select \*",
    "a table's star": r"\w`?\.\*",
    "nvl": r"\bnvl\(",
    "ifnull": r"\bifnull\(",
    "coalesce of three": r"\bcoalesce\([^()]+,[^()]+,[^()]+\)",
    "a bare name": r"select `?\w+`?,",
    "joins in parentheses": r"\bfrom \(",
    "a condition in parentheses": r"\bwhere \(",
    "a remark": r"/\*",
    "a remark up to the line's end": "--",
    "a name in backticks": "`",
    "a semicolon": r";\s*$",
}


def _worlds_of_queries() -> dict[str, World]:
    """Return the worlds that have queries, with those jobs alone that are one and read no other job's target."""
    found = {}
    for name, world in WORLDS.items():
        tables = {table.name for table in world.tables}
        shapes = [each for each in world.shapes if {*each.aliases().values()} <= tables]
        queries = [each.name for each in shapes if write_text(world, each, "0", 0) is not None]
        if queries:
            found[name] = world.only(*queries)
    return found


QUERIES = _worlds_of_queries()


def test_texts_are_written_in_every_way() -> None:
    texts = [
        text.query
        for world in QUERIES.values()
        for shape in world.shapes
        for seed in range(6)
        if (text := write_text(world, shape, f"{shape.name}/{seed}", seed)) is not None
    ]
    for form, pattern in FORMS.items():
        assert any(re.search(pattern, text, re.IGNORECASE) for text in texts), form
    assert len({*texts}) == len(texts) > 150
    world = WORLDS["pair"]
    assert write_text(world, world.shapes[0], "1", 1) == write_text(world, world.shapes[0], "1", 1)


@pytest.mark.parametrize("name", QUERIES)
def test_each_text_is_the_job_that_it_says(name: str, tmp_path: Path, seed: int) -> None:
    """Two texts of a job have one definition, and the words that are no query have it, too."""
    world = QUERIES[name]
    trial = Trial(tmp_path / "p", world, Script([]), stand_in(world))
    before, found = define_jobs(trial.base), []
    for turn in range(2):
        trial.write_queries(seed, turn)
        found.append(define_jobs(trial.base))
    assert found[0] == found[1]
    same = [shape for shape, text in trial.texts.items() if text.is_same]
    assert {shape: found[0][shape] for shape in same} == {shape: before[shape] for shape in same}
    assert len(trial.texts) == len(world.shapes)


# --- Planted bugs: each misreads a text. ------------------------------------------------------------------------------


def _read_other_column(patch: pytest.MonkeyPatch) -> None:
    """Take the driving table's other reference where the lookup's side of an equality stands first."""
    read = querynames._Resolver._read_on

    def read_wrongly(self: Any, join: Any, scope: list[str]) -> Any:
        found, first = read(self, join, scope), strip_parentheses(join.on)[0].lower
        for name, (side, at) in found.items():
            if first == join.table.alias and side.text == "products.`m`":
                found[name] = replace(side, text="products.`m2`"), at
        return found

    patch.setattr(querynames._Resolver, "_read_on", read_wrongly)


def _take_right_side(patch: pytest.MonkeyPatch) -> None:
    """Take the right side's column for the bare name behind USING."""
    merge = querynames._Resolver._merge
    patch.setattr(
        querynames._Resolver,
        "_merge",
        lambda self, how, left, right, part: merge(self, how, left if part is not None else right, right, part),
    )


def _compare_by_equality(patch: pytest.MonkeyPatch) -> None:
    """Read ``<=>`` as ``=``, for which two nulls are not the same."""
    patch.setattr(querynames, "write_tokens", lambda *given: write_tokens(*given).replace("<=>", "="))


BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "reversed": _read_other_column,
    "using": _take_right_side,
    "null_safe": _compare_by_equality,
}


def _world_of_bugs() -> World:
    world, columns = WORLDS["foreign_key"], cols("p=products.p", "title=products.title", "m=products.m")
    joins = {"merchants": fk("merchants", "left", col("products.m"))}
    select = {**columns, "name": col("merchants.name")}
    same = {**select, "same": build(["same", "products.m", "products.m2"])}
    return replace(
        world,
        shapes=tuple(
            Shape(name, "products", ("p",), joins=joins, select=same if name == "null_safe" else select)
            for name in (*BUGS, "right")
        ),
    )


def _misread(trial: Trial, bugs: Iterable[str]) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        for bug in bugs:
            BUGS[bug](patch)
        return define_jobs(trial.base)


def test_planted_bugs_are_caught(interpreted: SparkSession, tmp_path: Path) -> None:
    """Each job is a text that one of the bugs misreads, and the last one a text that none does."""
    forget_tables(interpreted)
    world = _world_of_bugs()
    script = Script(list(make_histories(world, 40, 1, 5)))
    trial = Trial(tmp_path / "p", world, script, enrich_engine(interpreted), seed=5)
    trial.write(0)
    chosen: dict[str, Text] = {}
    for turn in range(100):
        trial.write_queries(turn, turn)
        right = define_jobs(trial.base)
        read = {bug: _misread(trial, [bug]) for bug in BUGS}
        for name, text in trial.texts.items():
            if {bug for bug in BUGS if read[bug][name] != right[name]} == {name} & {*BUGS}:
                chosen.setdefault(name, text)
        if len(chosen) == len(world.shapes):
            break
    trial.texts = chosen
    assert chosen.keys() == {*BUGS, "right"}
    for name, text in chosen.items():
        write_job(trial.base, world, trial.shape(name), text)
    with pytest.MonkeyPatch.context() as patch:
        for plant in BUGS.values():
            plant(patch)
        result = trial.run(0, set())
    caught = {fault.partition(":")[0] for fault in compare_queries(trial, result, open_answers(interpreted))}
    assert caught == {*BUGS}


@pytest.mark.soak
def test_twenty_thousand_query_runs(
    interpreted: SparkSession, tmp_path: Path, seed: int, totals: dict[str, Tally]
) -> None:
    """Random queries over random tables, each a job that is read anew in other words for each run.

    A run of a query is as many query-runs as there are histories in its tables, 60 here.
    """
    answers, total = open_answers(interpreted), totals.setdefault("queries, the soak", Tally())
    worlds, windows = [*QUERIES, "random", "random", "stars"], 4
    while total.query_runs < 20_000:
        seed += 1
        name, chains = worlds[seed % len(worlds)], WORLDS["chains"]
        world = {"random": with_random_queries(chains, 4, seed), "stars": chains.only("back_by_full", "starred")}.get(
            name, QUERIES.get(name, chains)
        )
        script = Script(list(make_histories(world, 60, windows, seed)), make_shared(world, windows, seed))
        forget_tables(interpreted)
        engine = enrich_engine(interpreted, other_ways=seed % 2 == 1)
        trial = Trial(tmp_path / str(seed), world, script, engine, seed=seed)
        for window in range(windows):
            changed = trial.write(window)
            trial.write_queries(seed, window)
            result = trial.run(window, changed)
            assert not trial.failures, f"seed {seed}, {name}: {trial.failures[0]}"
            assert compare_queries(trial, result, answers) == [], f"seed {seed}, {name}, window {window}"
        total.add(trial.tally)
