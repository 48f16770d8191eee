"""By changes or everything anew: CPU seconds at 0.1 to 60 % changed rows, with two widths of rows, as ratios.

Each way has a target of its own over the same sources. Every step updates other rows of the driving source, and lets
both ways follow, in an order that turns from step to step. The first round warms up the JVM and is not counted. What a
run by changes takes beyond 1.3 times a full refresh is what it would save by turning into one (docs/adr/0041).

    make bench-ways
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

import machine
from costs import measured
from delta.tables import DeltaTable
from pyspark.sql import functions as F
from shapes import Site, number, pick
from worlds import open_site

import enrich

SHARES = (0.001, 0.01, 0.1, 0.3, 0.6)
WIDTHS = {"narrow": 2, "wide": 40}
"""How many columns driving source and target have beside key, price and owner; half of them are texts."""
WAYS = ("changes", "anew")
BOUND = 1.3


def write_job(width: str, way: str) -> str:
    """Return the job file of one way."""
    more = "".join(f"  c{each}: items_{width}.c{each}\n" for each in range(WIDTHS[width]))
    return (
        f"job: {width}_{way}\nsources:\n  items_{width}: {{table: items_{width}, key: id}}\n"
        f"  owners: {{table: owners, key: owner_id}}\nfrom: items_{width}\n"
        f"join:\n  owners: {{kind: foreign_key, on: items_{width}.owner_id, how: left}}\n"
        f"select:\n  id: items_{width}.id\n  price: items_{width}.price\n  owner: owners.name\n{more}"
        f"target: {{table: {width}_{way}}}\n"
    )


def write_sources(site: Site, width: str) -> None:
    """Write the driving source in the order of its keys, and, once, what it refers to."""
    count = max(site.rows // 100, 50)
    if not Path(site.path("owners")).exists():
        name = F.md5(number().cast("string")).alias("name")
        site.write_source("owners", site.spark.range(0, count, 1, 1).select(number().alias("owner_id"), name))
    more = [
        (F.md5(F.concat(number(), F.lit(each))) if each % 2 else pick(10 + each, 100_000)).alias(f"c{each}")
        for each in range(WIDTHS[width])
    ]
    price, owner = (pick(2, 100_000) / 100).alias("price"), pick(1, count).alias("owner_id")
    site.write_source(f"items_{width}", site.spark.range(0, site.rows, 1, 4).select(number(), price, owner, *more))


def change(site: Site, width: str, share: float, turn: int) -> None:
    """Update a share of the rows, other ones each turn."""
    chosen = F.pmod(F.xxhash64("id", F.lit(turn)), F.lit(1_000_000)) < int(share * 1_000_000)
    DeltaTable.forPath(site.spark, site.path(f"items_{width}")).update(chosen, {"price": F.col("price") + 1})


def run(site: Site, width: str, way: str) -> enrich.RunResult:
    """Run the job of one way."""
    result = enrich.run(site.project, [f"{width}_{way}"], spark=site.spark, full_refresh=way == "anew")
    if result.exit_code:
        raise SystemExit(f"enrich: {result.to_dict()}")
    return result


def main() -> None:
    """Measure, and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shares", type=float, nargs="*", default=SHARES)
    parser.add_argument("--widths", nargs="*", default=list(WIDTHS), choices=WIDTHS)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found: dict[tuple[str, float], dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        jobs = {f"{width}_{way}": write_job(width, way) for width in asked.widths for way in WAYS}
        site = open_site(Path(folder) / "project", asked.rows, jobs)
        for width in asked.widths:
            write_sources(site, width)
            for way in WAYS:
                run(site, width, way)
            for turn in range((asked.rounds + 1) * len(asked.shares)):
                share, counts = asked.shares[turn % len(asked.shares)], turn >= len(asked.shares)
                change(site, width, share, turn)
                for way in WAYS[:: 1 if turn % 2 else -1]:
                    cost, done = measured(partial(run, site, width, way), Path(folder), site.spark)
                    said = f"{cost.cpu:.2f} CPU s, {cost.written / 1e6:.1f} MB written, {cost.read / 1e6:.0f} MB read"
                    spent = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in done.jobs[0].stages.items())
                    print(f"{width} {share:.1%} {way}: {said}; {spent}", file=sys.stderr, flush=True)
                    if counts:
                        found.setdefault((width, share), {}).setdefault(way, []).append(cost.cpu)
    medians = {place: {way: statistics.median(each) for way, each in ways.items()} for place, ways in found.items()}
    print(f"{'rows':8}{'changed':>10}{'by changes':>14}{'anew':>10}{'ratio':>8}  verdict")
    for (width, share), each in medians.items():
        ratio = each["changes"] / each["anew"]
        verdict = "reached" if ratio <= BOUND else "missed"
        print(f"{width:8}{share:10.1%}{each['changes']:14.2f}{each['anew']:10.2f}{ratio:8.2f}  {verdict}")
    if asked.json:
        places = {f"{width} {share}": each for (width, share), each in medians.items()}
        asked.json.write_text(json.dumps({"machine": machine.describe(), "cpu": places}, indent=1))


if __name__ == "__main__":
    main()
