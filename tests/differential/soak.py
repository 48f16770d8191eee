"""The long version: a million history-runs in lanes, resumable.

    PYTHONPATH=lib:tests python -m differential.soak --progress soak.jsonl [--history-runs 1000000] [--minutes 80]
    PYTHONPATH=lib:tests python -m differential.soak --progress acts.jsonl --lane administrators [--goal 20000]

A lane ends before --minutes are over; start it again with the same progress file and it goes on with the next chunk.
A chunk is one world with 3,000 histories of 5 windows and a seed of its own; its line in the file holds the tally.
After it, one of its targets is rebuilt, which must change nothing. Every eighth chunk also cuts 2,000 histories of two
jobs into many windows and into one, and compares.
A fifth of the history-runs is of joins in time and of histories, which are also computed again, cut into other runs.
Every second one of the other chunks is of the chains: other random jobs each time, constants that all histories share,
and in every second one of these tables whose columns change. Four chunks are played on the ways of small tables, the
next four on those of large ones. In every third chunk one table changes a window, on the ways that a run itself takes
for large tables.

The lane of administrators plays all worlds in turn, with a rule in each job and all that ``differential.acts`` knows,
until --goal histories are played: every second time around with columns that are renamed and dropped, otherwise with
partitions, RESTORE and lost commits.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from differential.acts import administered, plan_acts
from differential.alterations import plan_alterations
from differential.engines import enrich_engine
from differential.generator import make_histories, make_shared
from differential.invariants import compare_cuts, cut_by_table, recut_history, refresh_one
from differential.jobs import with_random_jobs
from differential.project import job_file
from differential.shrink import halves, kept_histories, save_case, shrink
from differential.trial import Engine, Script, Trial
from differential.worlds import TIMED, WORLDS
from enrich.delta.sink import hold_settings
from kit.session import INTERPRETED, compile_quickly, forget_tables, small_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from differential.spec import World

WINDOWS, RANDOM_JOBS, CUT, HISTORIES = 5, 6, 2_000, 3_000
ADMINISTRATORS = "administrators"
ACT_WINDOWS, ACT_JOBS, ACT_HISTORIES = 4, 3, 720


def main(arguments: list[str] | None = None) -> int:
    """Play chunks until the goal or the time is reached; 0 when no history differed, 3 when more lanes are needed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--progress", type=Path, required=True)
    parser.add_argument("--history-runs", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=80.0)
    parser.add_argument("--histories", type=int, help="of a chunk")
    parser.add_argument("--seed", type=int, default=1, help="of the first chunk; every chunk has its own")
    parser.add_argument("--worlds", default="", help="play these alone, with commas between them")
    parser.add_argument("--lane", choices=("all", ADMINISTRATORS), default="all")
    parser.add_argument("--goal", type=int, default=20_000, help="histories of the lane of administrators")
    options = parser.parse_args(arguments)
    done, count = _read(options.progress), options.histories or HISTORIES
    compile_quickly()
    spark = small_session()
    engines = [enrich_engine(spark, other_ways=other) for other in (False, True)]
    end, longest = time.monotonic() + 60 * options.minutes, 0.0
    acts = options.lane == ADMINISTRATORS
    counted, goal = ("histories", options.goal) if acts else ("history_runs", options.history_runs)
    while sum(line[counted] for line in done) < goal:
        started = time.monotonic()
        if started + 1.3 * longest > end:
            break
        number = len(done)
        seed = options.seed + number
        if acts:
            names = options.worlds.split(",") if options.worlds else list(WORLDS)
            mapped = number // len(names) % 2 == 1
            chosen = names[number % len(names)], seed, options.histories or ACT_HISTORIES
            line = _chunk_of_acts(chosen, mapped, engines[seed % 2], spark)
        else:
            name = _choose_world(done, options.worlds)
            line = _chunk(name, seed, count, engines[number // 4 % 2], spark)
        if number % 8 == 0 and not acts:
            line["failures"] += _cuts(number // 8, seed, min(CUT, count), spark)
        spark.range(1).count()  # a chunk that lost its JVM says nothing of the engine: fail here, before it is kept
        done.append(line)
        with options.progress.open("a", encoding="utf-8") as progress:
            progress.write(json.dumps(line) + "\n")
        longest = max(longest, time.monotonic() - started)
        _say(f"{json.dumps(line)}")
    spark.stop()
    total = sum(line[counted] for line in done)
    failures = sum(line["failures"] for line in done)
    told = counted.replace("_", "-")
    _say(f"{total:,} of {goal:,} {told} in {len(done)} chunks from seed {options.seed}, {failures} failures")
    return 1 if failures else 0 if total >= goal else 3


def _choose_world(done: list[dict[str, Any]], only: str) -> str:
    """Return the next world: a fifth of the history-runs is about time, every second other chunk about chains."""
    if only:
        return only.split(",")[len(done) % len(only.split(","))]
    timed = [line["history_runs"] for line in done if line["world"] in TIMED]
    if 5 * sum(timed) < sum(line["history_runs"] for line in done):
        return TIMED[len(timed) % len(TIMED)]
    others = [world for world in WORLDS if world != "chains" and world not in TIMED]
    names = [name for world in others for name in (world, "chains")]
    return names[(len(done) - len(timed)) % len(names)]


def _read(progress: Path) -> list[dict[str, Any]]:
    if not progress.exists():
        return []
    return [json.loads(line) for line in progress.read_text(encoding="utf-8").splitlines()]


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _cuts(number: int, seed: int, count: int, spark: SparkSession) -> int:
    """Compare many windows with one, over a job that was wrong once and a random one; return how much differs.

    Every second time, over two random jobs with joins in time.
    """
    world = with_random_jobs(WORLDS["chains"].only("back_before_lone"), 1, seed)
    if number % 2:
        world = with_random_jobs(WORLDS["times"].only(), 2, seed)
    with tempfile.TemporaryDirectory(prefix="soak-") as base:
        _, faults = compare_cuts(Path(base), world, count, seed, spark)
    for fault in faults:
        _say(f"{fault}\n{json.dumps([shape.tree for shape in world.shapes])}")
    return len(faults)


def _chunk(name: str, seed: int, count: int, engine: Engine, spark: SparkSession) -> dict[str, Any]:
    """Play one chunk; keep the first failing history, shrunk."""
    world, started = with_random_jobs(WORLDS[name], RANDOM_JOBS, seed), time.monotonic()
    by_table = seed % 3 == 0
    script = _make_script(world, count, seed, by_table=by_table)
    engine = enrich_engine(spark, large=True) if by_table else engine
    with tempfile.TemporaryDirectory(prefix="soak-") as base:
        trial = Trial(Path(base) / "p", world, script, engine, seed=seed)
        failures = trial.play()
        changed = [] if failures else [*refresh_one(trial, spark, seed), *recut_history(trial, spark, seed)]
    for fault in changed:
        _say(fault)
    for failure in [f for f in failures if f.history is not None][:1]:
        smallest = shrink(world, failure.shape, script, failure.history or 0, engine)
        if smallest is not None:
            _say(f"kept {save_case(world, failure.shape, smallest, failure.what)}")
    for failure in failures[:5]:
        job = next(shape.tree for shape in world.shapes if shape.name == failure.shape)
        _say(f"{failure}\n{json.dumps(job)}")
    told = {"world": name, "seed": seed, "seconds": round(time.monotonic() - started)}
    return {**told, "failures": len(failures) + len(changed), **asdict(trial.tally)}


def _make_script(world: World, count: int, seed: int, *, by_table: bool) -> Script:
    """Make what a chunk plays; with ``by_table``, one table changes a window, and no table's columns."""
    histories = [*kept_histories(world.name), *make_histories(world, count, 2 if by_table else WINDOWS, seed)]
    if not by_table:
        alterations = plan_alterations(world, WINDOWS, seed) if seed // 2 % 2 == 0 else ()
        return Script(histories, make_shared(world, WINDOWS, seed), alterations)
    names, shared = [table.name for table in world.tables], make_shared(world, 2, seed)
    cut = [cut_by_table(half, names) for each in histories for half in halves(each)]
    return Script(cut, None if shared is None else cut_by_table(shared, names))


def _chunk_of_acts(chosen: tuple[str, int, int], mapped: bool, engine: Engine, spark: SparkSession) -> dict[str, Any]:
    """Play one chunk among administrators; tell what they did to what differs."""
    (name, seed, count), started = chosen, time.monotonic()
    base_world = with_random_jobs(WORLDS[name], ACT_JOBS, seed)
    world = administered(base_world, seed, jobs=ACT_JOBS, mapped=mapped)
    script = Script(
        list(make_histories(world, count, ACT_WINDOWS, seed)),
        make_shared(world, ACT_WINDOWS, seed),
        plan_acts(world, ACT_WINDOWS, seed),
    )
    forget_tables(spark)
    with tempfile.TemporaryDirectory(prefix="soak-") as base, hold_settings(spark, INTERPRETED):
        trial = Trial(Path(base) / "p", world, script, engine, seed=seed)
        failures = trial.play()
        changed = [] if failures else refresh_one(trial, spark, seed)
    for fault in changed:
        _say(fault)
    for failure in failures[:5]:
        (shape,) = (each for each in world.shapes if each.name == failure.shape)
        tables = (*shape.aliases().values(), shape.name, "")
        mine = [astuple(each) for each in script.alterations if each.window <= failure.window and each.table in tables]
        _say(f"world {name}, seed {seed}, mapped {mapped}: {failure}\n{mine}\n{job_file(world, shape)}")
    told = {"world": name, "seed": seed, "mapped": mapped, "seconds": round(time.monotonic() - started)}
    told |= {"failures": len(failures) + len(changed), "refusals": dict(trial.refusals)}
    return {**told, "acts": Counter(each.action for each in script.alterations), **asdict(trial.tally)}


if __name__ == "__main__":
    sys.exit(main())
