"""Small tables in a process that has long been running: one changed row against one bare MERGE, ten jobs against one.

A process of its own, for the JVM is set for small tables here. It prints one line of JSON: world -> rival -> costs.

    python benchmarks/warm.py DIRECTORY ROUNDS
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import rivals
from bare import TINY
from cold import TEN
from costs import Cost, measured
from shapes import PRODUCTS
from worlds import WORLDS, open_site

import enrich

ROWS = 1000


def main(base: str, rounds: str) -> int:
    """Measure and print."""
    jobs = {name: PRODUCTS.job.replace(PRODUCTS.name, name) for name in (PRODUCTS.name, *TEN)}
    site = open_site(Path(base), ROWS, jobs, TINY)
    PRODUCTS.write(site)
    if enrich.run(site.project, spark=site.spark).exit_code:
        raise SystemExit("the first run failed")
    rivals.rebuild(site, PRODUCTS)
    rivals.copy_target(site, PRODUCTS, "floor")
    change = next(world.change for world in WORLDS if world.name == "one")
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def record(number: int, world: str, rival: str, cost: Cost) -> None:
        if number > 1:  # the JVM is slow in the first two rounds
            found.setdefault(world, {}).setdefault(rival, []).append(asdict(cost))

    def run(*names: str) -> None:
        if enrich.run(site.project, names, spark=site.spark).exit_code:
            raise SystemExit("a run failed")

    for number in range(int(rounds) + 2):
        before = rivals.read_versions(site, PRODUCTS)
        change(site, number)
        ready = rivals.make_ready(site, PRODUCTS, before)
        steps: dict[tuple[str, str], Callable[[], None]] = {
            ("warm", "enrich"): lambda: run(PRODUCTS.name),
            ("warm", "merge"): partial(rivals.write_ready, site, PRODUCTS, ready),
            ("ten", "ten jobs"): lambda: run(*TEN),
        }
        order = list(steps.items())
        for (world, rival), step in order[:: 1 if number % 2 else -1]:
            record(number, world, rival, measured(step, site.lake, site.spark)[0])
        record(number, "nothing_warm", "enrich", measured(lambda: run(PRODUCTS.name), site.lake, site.spark)[0])
        rivals.check_targets(site, PRODUCTS, ("enrich", "floor"))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
