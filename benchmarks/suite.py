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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import cold
import machine
import rivals
from costs import Cost, adopt_orphans, measured
from goals import GOALS, Figures
from shapes import PRODUCTS, Shape, Site
from tables import print_costs, print_verdicts
from worlds import BY_HAND, SHAPES, WORLDS, World, open_site

PRODUCTS_AT_SCALE_1 = 10_000_000
LONG_CHECKS = 1_000_000
"""Products beyond which targets are compared after several worlds instead of after each."""

APART = ("cold", "warm", "first", "demo")
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
        wanted = {world.shape.name for world in self.worlds} | ({PRODUCTS.name} if "first" in self.only else set())
        return [shape for shape in SHAPES if shape.name in wanted]

    @property
    def by_hand(self) -> bool:
        """True when targets are kept by hand, too."""
        return any(world.rivals == BY_HAND for world in self.worlds)

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


def measure_rebuild(site: Site, world: str, record: cold.Record) -> None:
    """Measure a full rebuild into a directory of its own."""
    folder = rivals.remove_target(site, PRODUCTS, "rebuild")
    record(world, "rebuild", measured(lambda: rivals.rebuild(site, PRODUCTS), folder, site.spark)[0])


def measure_first_run(site: Site, record: cold.Record) -> None:
    """Measure a first run of enrich."""
    folder = rivals.remove_target(site, PRODUCTS, "enrich")
    record("first", "enrich", measured(lambda: rivals.run_enrich(site, PRODUCTS), folder, site.spark)[0])


def prepare_site(site: Site, suite: Suite, rounds: int, record: cold.Record) -> None:
    """Write the sources, and the targets of all rivals; first runs of products are measured."""
    for shape in suite.shapes:
        say(f"{site.rows:,} products: writing the sources of {shape.name}")
        shape.write(site)
        for number in range(rounds if shape is PRODUCTS and "first" in suite.only else 0):
            steps = [partial(measure_rebuild, site, "first", record), partial(measure_first_run, site, record)]
            for step in steps[:: 1 if number % 2 else -1]:
                step()
        if not Path(site.path(shape.name)).exists():
            rivals.run_enrich(site, shape)
            if shape is PRODUCTS:
                rivals.rebuild(site, shape)
        rivals.check_targets(site, shape, ("enrich", "rebuild") if shape is PRODUCTS else ("enrich",))
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
    for place, world in enumerate(worlds):
        take_world(site, world, number, record)
        if small is not None and world.name.startswith("thousand"):
            take_world(small, world, number, lambda name, rival, cost: record(name, f"{rival}_small", cost))
        following = worlds[place + 1] if place + 1 < len(worlds) else None
        goes_on = following is not None and (following.shape, following.rivals) == (world.shape, world.rivals)
        if site.rows <= LONG_CHECKS or not goes_on:
            rivals.check_targets(site, world.shape, ("enrich", *world.rivals))
    if suite.by_hand:
        measure_rebuild(site, "rebuild", record)
        rivals.check_targets(site, PRODUCTS, ("enrich", "rebuild"))
    copy_targets(site, suite)


def copy_targets(site: Site, suite: Suite) -> None:
    """Give all rivals tables for a round to begin with."""
    for shape in suite.shapes:
        for rival in BY_HAND if shape is PRODUCTS and suite.by_hand else ("floor",):
            rivals.copy_target(site, shape, rival)


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


def main() -> int:
    """Measure and print."""
    args = read_arguments()
    only = tuple(args.only) if args.only else tuple(name for name in CHOICES if name != "demo")
    began = time.monotonic()
    suite = Suite(only, args.rounds, began + 60 * args.minutes)
    adopt_orphans()
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
