"""What rules about the whole target cost: a run that changes 10,000 of 10,000,000 rows, with ten row rules.

Three jobs join the same products with their merchants: without a suite, with ten rules of scope ``changed``, and with
the same ten of scope ``target``. Each round changes products all over the table and runs the three, in turning order,
in one process. The first round warms up and is not counted. The rules of scope ``target`` are judged by the state that
the target's commits keep; the goal is 1.05 times the CPU seconds of scope ``changed``.

    make bench-state
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from costs import measured
from quality import Rules, rules, write_project, write_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOAL = 1.05
MERCHANTS = 100_000


def scoped(found: Rules, scope: str) -> Rules:
    """Return rules with a scope."""
    return [{**rule, "meta": {"enrich": {"scope": scope}}} for rule in found]


def change_products(spark: SparkSession, table: Path, rows: int, count: int, turn: int) -> None:
    """Change ``count`` of ``rows`` products, at even distances, as another system would."""
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    changed = spark.range(count).select(
        (F.col("id") * (rows // count) + turn).alias("product_id"), F.lit(turn).alias("turn")
    )
    title = F.when(F.col("s.turn") % 2 == 0, F.concat("t.title", F.lit("'")))
    merge = DeltaTable.forPath(spark, str(table)).alias("t").merge(changed.alias("s"), "t.product_id = s.product_id")
    merge.whenMatchedUpdate(set={"title": title, "price": F.col("t.price") + 1}).execute()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--changed", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds, after one that is not")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    args = parser.parse_args()

    import enrich
    from enrich.spark.session import get_session

    base = Path(tempfile.mkdtemp(prefix="enrich-bench-"))
    try:
        suites = {"none": [], **{scope: scoped(rules(10), scope) for scope in ("changed", "target")}}
        write_project(base, suites)
        project = enrich.load_project(base)
        spark = get_session(project.settings.spark)
        write_sources(spark, base / "lake", args.rows, MERCHANTS)
        for name in suites:
            first = enrich.run(project, [name], spark=spark).jobs[0]
            sys.stdout.write(f"first run, {name}: {first.status}\n")
            sys.stdout.flush()
        seconds: dict[str, list[float]] = {name: [] for name in suites}
        for number in range(args.rounds + 1):
            change_products(spark, base / "lake" / "products", args.rows, args.changed, number)
            names = list(suites)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                cost, done = measured(partial(enrich.run, project, [name], spark=spark), base / "lake")
                result = done.jobs[0]
                if result.counts.updated != args.changed:
                    raise SystemExit(f"{name}: {result.status}: {result.error}")
                if any(each.scanned for each in result.findings):
                    raise SystemExit(f"{name}: a rule has read the whole target")
                if number:
                    seconds[name].append(cost.cpu)
        found = {name: statistics.median(each) for name, each in seconds.items()}
        ratio = found["target"] / found["changed"]
        for name, each in seconds.items():
            told = ", ".join(f"{value:.1f}" for value in each)
            sys.stdout.write(f"{name:8} {found[name]:6.1f} CPU s (rounds: {told})\n")
        reached = "reached" if ratio <= GOAL else "missed"
        sys.stdout.write(f"target / changed {ratio:.2f}, goal {GOAL}: {reached}\n")
        if args.json is not None:
            args.json.write_text(json.dumps({"cpu": seconds, "ratio": ratio}, indent=2))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
