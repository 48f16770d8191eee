"""Random group queries over random tables that change in every way: each target is what Spark answers to its query."""

from __future__ import annotations

import logging
import os
import random
import re
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

import enrich
from differential.worlds_of_groups import AGGREGATES, GAPS, HELD, KINDS, LOG, GroupWorld, make_query
from enrich.base.spec import LIVE, WEIGHT, Affected
from enrich.joins import group
from kit.counts import COUNTED
from kit.lab import Lab
from kit.session import forget_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

    from enrich.project.kinds.group import GroupSpec, Part


class Ways(logging.Handler):
    """Counts the groups that runs say they have moved by the changes, and those that they have computed anew."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.moved = self.anew = 0

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"groups that move by the changes: (\d+); computed anew: (\d+)", record.getMessage())
        if found:
            self.moved, self.anew = self.moved + int(found[1]), self.anew + int(found[2])


@pytest.fixture
def ways() -> Iterator[Ways]:
    log, counted = logging.getLogger("enrich"), Ways()
    level = log.level
    log.addHandler(counted)
    log.setLevel(logging.INFO)
    yield counted
    log.removeHandler(counted)
    log.setLevel(level)


def play(
    home: Path, spark: SparkSession, seed: int, queries: int, rounds: int, histories: int, *, verifies: bool = False
) -> int:
    """Play random queries on random histories; return how many runs of a query on a history were compared.

    Of each three queries one is over the table as it is, one takes it as a log, one without rows that share their key.
    The first query shows what makes its groups move, and the first round after the first run is a plain one. The others
    have all kinds of changes among them. On top of the first query stand groups of its groups, and facts beside those;
    they run every second time. With ``verifies``, `enrich verify` is asked at the end, too.
    """
    forget_tables(spark)
    chance = random.Random(seed)
    world = GroupWorld(Lab(home, spark), spark, chance, histories)
    world.begin()
    for number in range(queries):
        how = ("", LOG, HELD)[number % 3]
        # The contents of two events of one order are compared in their exact form, which of 0.0 and -0.0 is a text.
        world.add(f"q{number}", *make_query(chance, moves=not number, without="f" if how == LOG else ""), how)
    world.add_chain("q0")
    done, told = 0, [*world.queries.values()]
    for number, kinds in enumerate([[], ["put", "drop"], *world.deal(rounds - 2)]):
        acts = [world.change(each) for each in kinds]
        options: dict[str, object] = {}
        until = None
        if number > 1 and acts and chance.random() < 0.2:
            until = max(world.version() - 1, 2)
            options["until"] = f"v{until}"
        elif number > 1 and chance.random() < 0.25:
            options["since"] = "beginning"
        elif number > 1 and chance.random() < 0.25:
            acts.append("restored targets")
            for name in (*world.queries, *world.chain):
                log = DeltaTable(world.lab.path(name))
                if log.version():
                    log.restore(chance.randrange(log.version()))
        result = world.lab.run_all(*world.queries, **options)
        context = f"seed {seed}, round {number}, {acts}, {options}: {told}"
        if until is not None and any(job.exit_code == 2 for job in result.jobs):
            until, result = None, world.lab.run_all(*world.queries)  # the cursor was further already
        for job in result.jobs:
            assert job.exit_code == 0, f"{job.job}: {job.error}; {context}"
            wrong = world.compare(job.job, until)
            assert not wrong, f"{wrong[:6]}; {context}"
            done += histories
        for job in world.lab.run_all(*world.chain).jobs if number % 2 else ():
            assert job.exit_code == 0, f"{job.job}: {job.error}; {context}"
            wrong = world.compare_chain(job.job)
            assert not wrong, f"{wrong[:6]}; {context}"
            done += histories
    if verifies and until is None:
        verified = enrich.verify(enrich.load_project(home), spark=spark)
        assert {each.status for each in verified.jobs} == {"equal"}, f"seed {seed}"
    return done


def test_random_queries_of_groups(
    interpreted: SparkSession, tmp_path: Path, pytestconfig: pytest.Config, ways: Ways
) -> None:
    done = play(tmp_path / "p", interpreted, int(os.environ["ENRICH_TEST_SEED"]), queries=3, rounds=4, histories=28)
    kinds = f"{len(KINDS) + len(GAPS)} kinds of changes"
    said = f"{done}, {kinds}; {ways.moved} groups moved by changes, {ways.anew} computed anew beside them"
    pytestconfig.stash[COUNTED]["query-runs of groups"] = said
    assert done >= 300
    assert ways.moved, "no group has moved by its changes"


def test_every_aggregate_moves(interpreted: SparkSession, tmp_path: Path, ways: Ways) -> None:
    forget_tables(interpreted)
    world = GroupWorld(Lab(tmp_path / "p", interpreted), interpreted, random.Random(3), 12)
    world.begin()
    told = [f"{each} AS a{place}" for place, each in enumerate((*AGGREGATES, "count(d)", "count(w)"))]
    world.add("q", f"SELECT h, g, {', '.join(told)} FROM facts GROUP BY h, g", ("h", "g"))
    for kinds in ([], ["put"], ["drop"], ["move"], ["append"]):
        for each in kinds:
            world.change(each)
        found = world.lab.run("q")
        assert found.exit_code == 0, f"{kinds}: {found.error}"
        assert world.compare("q") == [], kinds
    assert ways.moved, "no group has moved by its changes"


# --- Planted bugs: each in the histories whose number says so; the others are right.

PLANTED = (
    "SELECT h, g, count(*) AS rows, count(n) AS known, sum(n) AS total, sum(n) FILTER (WHERE b) AS good,"
    " count(n) FILTER (WHERE b) AS goods, max(n) AS top, count(DISTINCT s) FILTER (WHERE n < 3) AS kinds"
    " FROM facts WHERE coalesce(w, 0) < 2 GROUP BY h, g"
)
BUGS = (
    "a_delete_does_not_subtract",
    "a_row_that_moves_stays_in_its_old_group",
    "a_greatest_that_went_stays",
    "a_group_stays_at_zero",
    "a_distinct_is_counted_twice",
    "a_null_becomes_a_group",
    "a_change_is_applied_twice",
    "a_filter_is_forgotten",
    "where_is_forgotten",
    "nulls_are_counted",
    "only_the_changed_rows_are_added_up",
)


def _is_of(bug: str, number: Column) -> Column:
    return number % (len(BUGS) + 1) == BUGS.index(bug)


def _plant_anew(patch: pytest.MonkeyPatch) -> None:
    """Plant bugs where groups are computed anew."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    find, take, make, derive = group.find_groups, group.take_keys, group.make_groups, group.derive_groups

    def find_wrongly(spec: GroupSpec, images: DataFrame) -> DataFrame:
        if WEIGHT not in images.columns:
            return find(spec, images)
        h, moved = F.col("h"), F.max(F.col(WEIGHT)).over(Window.partitionBy("id")) > 0
        lost = _is_of(BUGS[0], h) | (_is_of(BUGS[1], h) & F.col("moved")) | (_is_of(BUGS[2], h) & (F.col("n") > 5))
        is_lost = (F.col(WEIGHT) < 0) & F.coalesce(lost, F.lit(False))
        return find(spec, images.withColumn("moved", moved).where(~is_lost).drop("moved"))

    def take_wrongly(spec: GroupSpec, rows: DataFrame, *also: str) -> DataFrame:
        here = _is_of("where_is_forgotten", F.col("h"))
        found = take(spec, rows.where(~here), *also).unionByName(
            take(replace(spec, where=None), rows.where(here), *also)
        )
        text = F.when(_is_of("a_null_becomes_a_group", F.col("__enrich_k0")), F.coalesce("__enrich_k1", F.lit("")))
        return found.withColumn("__enrich_k1", F.coalesce(text, "__enrich_k1"))

    def make_wrongly(spec: GroupSpec, rows: DataFrame, *also: Any) -> DataFrame:
        wrong = {
            "a_distinct_is_counted_twice": lambda text: text.replace("DISTINCT ", ""),
            "a_filter_is_forgotten": lambda text: text.partition(" FILTER")[0],
            "nulls_are_counted": lambda text: "count(*)" if text.startswith("count(facts") else text,
        }
        mine = {bug: _is_of(bug, F.col("__enrich_k0")) for bug in wrong}
        found = make(spec, rows.where(~reduce(or_, mine.values())), *also)
        for bug, change in wrong.items():
            other = replace(spec, aggregates={name: change(text) for name, text in spec.aggregates.items()})
            found = found.unionByName(make(other, rows.where(mine[bug]), *also))
        return found

    def derive_wrongly(spec: GroupSpec, rows: DataFrame, affected: Affected | None, **how: bool) -> DataFrame:
        if affected is None:
            return derive(spec, rows, affected, **how)
        twice = rows.where(_is_of("a_change_is_applied_twice", F.col("h")) & (F.col("n") == 3))
        some = ~_is_of("only_the_changed_rows_are_added_up", F.col("h")) | (F.col("n") > 1)
        found = derive(spec, rows.unionByName(twice).where(F.coalesce(some, F.lit(False))), affected, **how)
        names = ["__enrich_k0", "__enrich_k1"]
        gone = affected.left.where(_is_of("a_group_stays_at_zero", F.col("__enrich_k0"))).join(
            found, names, "left_anti"
        )
        shown = {"h": F.col("__enrich_k0"), "g": F.col("__enrich_k1"), "rows": F.lit(0), LIVE: F.lit(True)}
        kinds = {field.name: field.dataType for field in found.schema}
        zero = gone.select(
            *names, *[shown.get(n, F.lit(None)).cast(kinds[n]).alias(n) for n in found.columns if n not in names]
        )
        return found.unionByName(zero.select(*found.columns))

    for name, wrong in (("find_groups", find_wrongly), ("take_keys", take_wrongly), ("make_groups", make_wrongly)):
        patch.setattr(group, name, wrong)
    patch.setattr(group, "derive_groups", derive_wrongly)
    patch.setattr(group, "can_move", lambda _: False)


def _plant_moving(patch: pytest.MonkeyPatch) -> None:
    """Plant the same bugs where groups move by what came and went."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    take, tell, move, add_up = group.take_keys, group._tell_changes, group._Mover.move, group._Mover.was
    whole, here = group.move_groups, F.col("__enrich_k0")

    def take_wrongly(spec: GroupSpec, rows: DataFrame, *also: str) -> DataFrame:
        forgets = _is_of("where_is_forgotten", F.col("h"))
        found = take(spec, rows.where(~forgets), *also).unionByName(
            take(replace(spec, where=None), rows.where(forgets), *also)
        )
        text = F.when(_is_of("a_null_becomes_a_group", here), F.coalesce("__enrich_k1", F.lit("")))
        found = found.withColumn("__enrich_k1", F.coalesce(text, "__enrich_k1"))
        if WEIGHT not in also:
            return found
        stays = F.max(F.col(WEIGHT)).over(Window.partitionBy("facts.id")) > 0
        found = found.withColumn("moved", stays)
        lost = _is_of(BUGS[0], here) | (_is_of(BUGS[1], here) & F.col("moved"))
        found = found.where((F.col(WEIGHT) > 0) | ~lost).drop("moved")
        return found.unionByName(found.where(_is_of("a_change_is_applied_twice", here)))

    def tell_wrongly(name: str, part: Part, kind: Any) -> list[Column]:
        wrong = {"a_filter_is_forgotten": replace(part, condition=None)}
        if part.function == "count" and not part.is_distinct:
            wrong["nulls_are_counted"] = replace(part, argument=None)
        found = tell(name, part, kind)
        names = [f"{name}_{each}" for each in ("come", "came", "gone", "went")]
        names = names if len(found) > 2 else names[::2]
        for bug, other in wrong.items():
            pairs = zip(found, tell(name, other, kind), strict=True)
            found = [F.when(_is_of(bug, here), bad).otherwise(good) for good, bad in pairs]
        return [each.alias(title) for each, title in zip(found, names, strict=True)]

    def move_wrongly(self: Any, name: str) -> tuple[Column, Column]:
        part, (value, sure) = self.shown.spec.parts[name], move(self, name)
        if part.function == "max":
            return value, _is_of("a_greatest_that_went_stays", here) | sure
        if part.is_distinct:
            mine, twice = _is_of("a_distinct_is_counted_twice", here), F.size(f"{name}_came")
            return F.when(mine, F.coalesce(self.was(name), F.lit(0)) + twice).otherwise(value), mine | sure
        return value, sure

    def forget(self: Any, name: str | None) -> Column:
        return F.when(~_is_of("only_the_changed_rows_are_added_up", here), add_up(self, name))

    def keep_at_zero(*args: Any) -> DataFrame | None:
        found = whole(*args)
        return found and found.withColumn(LIVE, F.col(LIVE) | _is_of("a_group_stays_at_zero", here))

    for name, wrong in (("take_keys", take_wrongly), ("_tell_changes", tell_wrongly), ("move_groups", keep_at_zero)):
        patch.setattr(group, name, wrong)
    patch.setattr(group._Mover, "move", move_wrongly)
    patch.setattr(group._Mover, "was", forget)


def test_planted_bugs_are_caught(interpreted: SparkSession, tmp_path: Path) -> None:
    forget_tables(interpreted)
    world = GroupWorld(Lab(tmp_path / "p", interpreted), interpreted, random.Random(1), 25 * (len(BUGS) + 1))
    world.begin()
    world.add("q", PLANTED, ("h", "g"))
    assert world.lab.run("q").status == "created"
    for plant in (_plant_anew, _plant_moving):
        for kinds in ("put", "drop", "move", "append", "drop", "put"):
            world.change(kinds)
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            found = world.lab.run("q")
        assert found.status == "updated", found.error
        places = {history % (len(BUGS) + 1) for history, _ in world.compare("q")}
        survived = [bug for number, bug in enumerate(BUGS) if number not in places]
        assert not survived, f"a planted bug survived: {plant.__name__}"
        assert len(BUGS) not in places, f"something was found in histories without a bug: {plant.__name__}"
        world.lab.run("q", full_refresh=True)
    assert world.compare("q") == []


@pytest.mark.soak
def test_twenty_thousand_query_runs(interpreted: SparkSession, tmp_path: Path) -> None:
    seed, done = int(os.environ["ENRICH_TEST_SEED"]), 0
    while done < 20_000:
        seed += 1
        done += play(tmp_path / str(seed), interpreted, seed, queries=6, rounds=8, histories=60, verifies=True)
