"""The benchmark: enrich against what people use instead, with a verdict on every goal.

Scale 1 is 10 million products; all other tables follow. Every round changes the sources for one world after the other
and lets enrich and its rivals follow, in an order that turns from round to round. A round at a tenth of the scale comes
first and is not counted: it warms up the JVM. Outside the measured time, the rows of every target are compared
with the join of the sources; a wrong one ends the benchmark. CPU seconds are those of all processes.

    make bench SCALE=0.1
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import cold
import machine
import rivals
from costs import Cost, adopt_orphans, measured, watch_stages
from goals import GOALS, Figures
from public import MERGE, TPCH
from shapes import PRODUCTS, Shape, Site
from tables import print_costs, print_verdicts
from worlds import REBUILT, SHAPES, WORLDS, World, change_share, name_whole, open_site

from enrich.delta.tables import open_log

PRODUCTS_AT_SCALE_1 = 10_000_000
LONG_CHECKS = 1_000_000
"""Products beyond which targets are compared after several worlds instead of after each."""

APART = ("cold", "warm", "first", "first_tpch", "row", "demo")
CHOICES = (*APART, *(world.name for world in WORLDS))


@dataclass
class Suite:
    """One run of the benchmark.

    Attributes:
        deadline: No new round begins that would end later, by the clock of ``time.monotonic``.
        costs: World -> rival -> the costs of each round.
    """

    only: tuple[str, ...]
    rounds: int
    deadline: float
    costs: dict[str, dict[str, list[dict[str, float]]]] = field(default_factory=dict)

    @property
    def worlds(self) -> list[World]:
        """The worlds that are wanted."""
        return [world for world in WORLDS if world.name in self.only]

    @property
    def shapes(self) -> list[Shape]:
        """The shapes that they need."""
        apart = {"first": PRODUCTS, "first_tpch": TPCH, "row": MERGE}
        wanted = [*(world.shape for world in self.worlds), *(apart[name] for name in self.only if name in apart)]
        return [shape for shape in SHAPES if shape in wanted]

    def list_rivals(self, shape: Shape) -> set[str]:
        """Return all rivals that keep targets of this shape."""
        return {rival for world in self.worlds if world.shape is shape for rival in world.rivals}

    def record(self, world: str, rival: str, cost: Cost) -> None:
        """Keep a cost, and show it."""
        self.costs.setdefault(world, {}).setdefault(rival, []).append(asdict(cost))
        say(f"{world:14} {rival:12} {cost.wall:8.2f} s  {cost.cpu:8.2f} CPU s  {cost.written / 1e6:9.2f} MB")


def say(text: str) -> None:
    """Print a line of progress on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def forget(world: str, rival: str, cost: Cost) -> None:
    """Take a cost that is not counted."""
    say(f"{world:14} {rival:12} {cost.wall:8.2f} s  not counted")


def measure_whole(site: Site, shape: Shape, world: str, rival: str, record: cold.Record) -> None:
    """Measure a full rebuild, or a first run of enrich, into a directory of its own."""
    folder, step = rivals.remove_target(site, shape, rival), rivals.rebuild if rival == "rebuild" else rivals.run_enrich
    record(world, rival, measured(partial(step, site, shape), folder, site.spark)[0])


def prepare_site(site: Site, suite: Suite, rounds: int, record: cold.Record) -> None:
    """Write the sources, and the targets of all rivals; first runs are measured where that is wanted."""
    for shape in suite.shapes:
        say(f"{site.rows:,} products: writing the sources of {shape.name}")
        shape.write(site)
        world, kept = name_whole("first", shape), ["enrich", *(["rebuild"] if shape in REBUILT else [])]
        times = rounds if shape is PRODUCTS else 1  # the first run of TPC-H takes minutes
        for number in range(times if world in suite.only else 0):
            for rival in kept[:: 1 if number % 2 else -1]:
                measure_whole(site, shape, world, rival, record)
        if not Path(site.path(shape.name)).exists():
            rivals.run_enrich(site, shape)
            if shape in REBUILT:
                rivals.rebuild(site, shape)
        rivals.check_targets(site, shape, tuple(kept))
    copy_targets(site, suite)


def take_world(site: Site, world: World, number: int, record: cold.Record) -> None:
    """Change the sources, and let enrich and its rivals follow."""
    shape = world.shape
    before = rivals.read_versions(site, shape)
    world.change(site, number)
    steps: dict[str, Callable[[], None]] = {"enrich": partial(rivals.run_enrich, site, shape)}
    for rival in world.rivals:
        if rival == "floor":
            steps[rival] = partial(rivals.write_ready, site, shape, rivals.make_ready(site, shape, before))
        elif rival == "update":
            steps[rival] = partial(rivals.update_products, site, shape)
        else:
            target = rivals.name_target(rival, shape)
            steps[rival] = partial(rivals.merge_by_hand, site, shape, target, before)
    names = list(steps)
    turn = number % len(names)
    for name in names[turn:] + names[:turn]:
        folder = site.lake / rivals.name_target(name, shape)
        record(world.name, name, measured(steps[name], folder, site.spark)[0])


def take_round(site: Site, small: Site | None, suite: Suite, number: int, record: cold.Record) -> None:
    """Take all worlds; those of 1,000 changes at the small site, too.

    At the end the rivals get new tables to begin with.
    """
    worlds = [world for world in suite.worlds if number or world.warms_up]

    def record_small(world: str, rival: str, cost: Cost) -> None:
        record(world, f"{rival}_small", cost)

    for place, world in enumerate(worlds):
        take_world(site, world, number, record)
        if small is not None and world.is_small_too:
            take_world(small, world, number, record_small)
        following = worlds[place + 1] if place + 1 < len(worlds) else None
        goes_on = following is not None and (following.shape, following.rivals) == (world.shape, world.rivals)
        if site.rows <= LONG_CHECKS or not goes_on:
            rivals.check_targets(site, world.shape, ("enrich", *world.rivals))
            if small is not None and world.is_small_too:
                rivals.check_targets(small, world.shape, ("enrich", *world.rivals))
    for shape in REBUILT:
        if "hand_dv" in suite.list_rivals(shape):
            measure_whole(site, shape, name_whole("rebuild", shape), "rebuild", record)
            rivals.check_targets(site, shape, ("enrich", "rebuild"))
            if small is not None and shape is MERGE:
                measure_whole(small, shape, name_whole("rebuild", shape), "rebuild", record_small)
    for each in (site, small):
        if each is not None:
            copy_targets(each, suite)


def copy_targets(site: Site, suite: Suite) -> None:
    """Give all rivals tables for a round to begin with."""
    for shape in suite.shapes:
        for rival in (suite.list_rivals(shape) - {"update"}) | {"floor"}:
            rivals.copy_target(site, shape, rival)


def take_row(site: Site, record: cold.Record) -> None:
    """Let enrich follow 100 changes, one after the other; the first ten runs are not counted."""
    change, rows = change_share(1e-4), Path(site.path(MERGE.name))
    for number in range(1, 101):
        change(site, 1000 + number)
        cost = measured(lambda: rivals.run_enrich(site, MERGE), rows, site.spark)[0]
        if number in range(11, 21) or number > 90:
            files = len(open_log(str(rows)).file_uris())
            record("row", "enrich_early" if number < 90 else "enrich_late", replace(cost, files=files))
    rivals.check_targets(site, MERGE, ("enrich",))


def measure_worlds(base: Path, suite: Suite, scale: float) -> None:
    """Measure all worlds at the scale and, where that is a goal, at a tenth of it."""
    rows = int(scale * PRODUCTS_AT_SCALE_1)
    small, site = open_site(base / "small", max(rows // 10, 1000)), open_site(base / "whole", rows)
    prepare_site(small, suite, 1, forget)
    take_round(small, None, suite, 0, forget)
    prepare_site(site, suite, suite.rounds, suite.record)
    longest = 0.0
    for number in range(1, suite.rounds + 1 if suite.worlds else 0):
        start = time.monotonic()
        if number > 1 and start + longest > suite.deadline:
            say(f"no time for round {number}")
            break
        say(f"round {number}")
        take_round(site, small, suite, number, suite.record)
        longest = max(longest, time.monotonic() - start)
    if "row" in suite.only:
        take_row(small, suite.record)


def measure_warm(base: Path, suite: Suite) -> None:
    """Measure small tables in a process of their own."""
    command = [sys.executable, str(Path(__file__).with_name("warm.py")), str(base), str(suite.rounds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit("small tables could not be measured")
    for world, by_rival in json.loads(done.stdout.splitlines()[-1]).items():
        for rival, found in by_rival.items():
            for cost in found:
                suite.record(world, rival, Cost(**cost))


def read_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="1 (the default) is 10 million products")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds at most (default: 5)")
    parser.add_argument("--minutes", type=float, default=55, help="begin no round that would end later (default: 55)")
    parser.add_argument("--only", nargs="+", choices=CHOICES, metavar="NAME", help=f"of: {', '.join(CHOICES)}")
    parser.add_argument("--demo-before", type=float, metavar="S", help="seconds that `make demo` took before, here")
    parser.add_argument("--dir", type=Path, help="where the tables are written; default: the system's directory")
    parser.add_argument("--json", type=Path, metavar="F", help="write all figures to F; page.py makes a page of it")
    return parser.parse_args(given)


def was_interrupted(error: BaseException | None) -> bool:
    """Tell whether an error came of a signal: what tidies up behind one may fail, too, for the JVM still works."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or was_interrupted(error.__context__))


def main() -> int:
    """Measure and print."""
    args = read_arguments()
    only = tuple(args.only) if args.only else tuple(name for name in CHOICES if name != "demo")
    began = time.monotonic()
    suite = Suite(only, args.rounds, began + 60 * args.minutes)
    adopt_orphans()
    watch_stages()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    base = Path(tempfile.mkdtemp(prefix="enrich-bench-", dir=args.dir))
    try:
        if "cold" in only:
            cold.measure_cold(base / "cold", args.rounds, suite.record)
        if "demo" in only:
            cold.measure_demo(base / "demo", suite.record)
            if args.demo_before:
                suite.record("demo", "before", Cost(args.demo_before, 0.0))
        if "warm" in only:
            measure_warm(base / "warm", suite)
        if suite.shapes:
            measure_worlds(base, suite, args.scale)
    except BaseException as error:
        if not was_interrupted(error):
            raise
        say("ended early: what was measured until now counts")
    finally:
        shutil.rmtree(base, ignore_errors=True)
    figures = Figures(args.scale, suite.costs)
    verdicts = [goal.judge(figures) for goal in GOALS]
    print_costs(figures)
    print_verdicts(verdicts)
    if args.json is not None:
        seconds = time.monotonic() - began
        found = {"scale": args.scale, "seconds": seconds, "machine": machine.describe(), "goals": verdicts}
        args.json.write_text(json.dumps({**found, "costs": suite.costs}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
