"""What rules cost: runs that stage 1,000,000 rows with a suite of 1, 10 and 50 row rules, as ratios to the run without.

The suites hold rules of all kinds, every fourth a pattern or nearly so; a last one of 50 holds no pattern. Each job
joins the same products with their merchants into a target of its own, in one process. A round runs all of them twice,
the order turning from round to round: first into targets that do not exist, the cheapest run of this size, then after
every merchant has got another name, which a MERGE brings to every product. The first round warms up and is not counted.
For each suite there is a floor, too: what Spark takes for the same conditions, written by hand, in one aggregate over
the persisted rows.

    make bench-quality
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
from typing import TYPE_CHECKING, Any

import machine
from costs import CONF, measured
from goals import RULES_RUN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

JOB = """\
job: {name}
sources:
  products: {{table: products, key: product_id}}
  merchants: {{table: merchants, key: merchant_id}}
from: products
join:
  merchants: {{kind: foreign_key, on: products.merchant_id, how: left}}
select:
  product_id: products.product_id
  title: products.title
  price: products.price
  merchant_id: products.merchant_id
  merchant_name: merchants.name
  email: merchants.email
target: {{table: {name}}}
{suite}"""
KINDS = {"created": "first runs", "updated": "runs after every merchant changed"}
"""The status that a run must end with -> what it is."""


Rules = list[dict[str, Any]]


def rules(count: int, *, patterns: bool = True) -> Rules:
    """Return row rules of the kinds that suites hold: nulls, bounds, sets, lengths, patterns, pairs."""
    found: list[tuple[str, dict[str, Any]]] = []
    for turn in range(count):
        found += [
            ("expect_column_values_to_not_be_null", {"column": ("title", "email", "merchant_name")[turn % 3]}),
            ("expect_column_values_to_match_regex", {"column": "email", "regex": f"^[^@ ]{{{1 + turn},}}@[^@ ]+$"}),
            ("expect_column_values_to_be_between", {"column": "price", "min_value": 0, "max_value": 990 + turn}),
            ("expect_column_value_lengths_to_be_between", {"column": "title", "min_value": 1, "max_value": 20 + turn}),
            ("expect_column_values_to_not_match_regex", {"column": "title", "regex": f"^\\s*$|\\bbad{turn}\\b"}),
            ("expect_column_values_to_not_be_in_set", {"column": "merchant_id", "value_set": [-1 - turn, -99]}),
            (
                "expect_column_pair_values_a_to_be_greater_than_b",
                {"column_A": "product_id", "column_B": "merchant_id", "or_equal": True, "mostly": 1 - turn / 1000},
            ),
        ]
    found = [each for each in found if patterns or "regex" not in each[1]]
    return [{"type": kind, "kwargs": kwargs, "severity": "warning"} for kind, kwargs in found[:count]]


def by_hand(rule: dict[str, Any]) -> Column:
    """Return the condition of a row that breaks one of ``rules``, as one would write it without enrich and GX."""
    from pyspark.sql import functions as F

    kind, kwargs = rule["type"], rule["kwargs"]
    column = F.col(kwargs.get("column", "product_id"))
    if kind == "expect_column_values_to_not_be_null":
        return column.isNull()
    if kind == "expect_column_values_to_match_regex":
        return ~column.rlike(kwargs["regex"])
    if kind == "expect_column_values_to_not_match_regex":
        return column.rlike(kwargs["regex"])
    if kind == "expect_column_values_to_be_between":
        return ~column.between(kwargs["min_value"], kwargs["max_value"])
    if kind == "expect_column_value_lengths_to_be_between":
        return ~F.length(column).between(kwargs["min_value"], kwargs["max_value"])
    if kind == "expect_column_values_to_not_be_in_set":
        return column.isin(kwargs["value_set"])
    return ~(F.col(kwargs["column_A"]) >= F.col(kwargs["column_B"]))


def floor(rows: DataFrame, suite: Rules) -> float:
    """Return the CPU seconds of one aggregate that counts, over persisted rows, those that break each of the rules."""
    from pyspark.sql import functions as F

    if not suite:
        return 0.0
    counts = [F.count_if(by_hand(rule)) for rule in suite]
    return measured(lambda: rows.agg(*counts).collect(), Path(__file__).parent)[0].cpu


def write_project(base: Path, suites: dict[str, Rules]) -> None:
    """Write a project with a job for each suite, under its name; an empty suite is none."""
    for folder in ("conf", "jobs", "expectations"):
        (base / folder).mkdir()
    (base / "conf" / "dev.yml").write_text(CONF)
    for name, suite in suites.items():
        (base / "jobs" / f"{name}.yml").write_text(
            JOB.format(name=name, suite=f"expectations: {name}\n" if suite else "")
        )
        if suite:
            (base / "expectations" / f"{name}.json").write_text(json.dumps({"name": name, "expectations": suite}))


def write_sources(spark: SparkSession, lake: Path, count: int, merchants: int) -> None:
    """Write the two source tables, with change feed, as another system would."""
    from pyspark.sql import functions as F

    number = F.col("id")
    products = spark.range(count).select(
        number.alias("product_id"),
        F.concat(F.lit("product "), number).alias("title"),
        (number % 1000).cast("double").alias("price"),
        (number % merchants).alias("merchant_id"),
    )
    names = spark.range(merchants).select(
        number.alias("merchant_id"),
        F.concat(F.lit("merchant "), number).alias("name"),
        F.when(number % 50 != 0, F.concat(F.lit("mail"), number, F.lit("@example.com"))).alias("email"),
    )
    for name, rows in {"products": products, "merchants": names}.items():
        rows.repartition(4).write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(lake / name))


def rename_merchants(spark: SparkSession, table: Path) -> None:
    """Give every merchant another name, as another system would."""
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    DeltaTable.forPath(spark, str(table)).update(set={"name": F.concat("name", F.lit("'"))})


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rules", type=int, nargs="+", default=[1, 10, 50], help="how many, suite by suite")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds, after one that is not")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    args = parser.parse_args()

    import enrich
    from enrich.spark.session import get_session

    base = Path(tempfile.mkdtemp(prefix="enrich-bench-"))
    try:
        suites = {"none": [], **{f"rules_{count}": rules(count) for count in args.rules}}
        suites["no_patterns"] = rules(max(args.rules), patterns=False)
        write_project(base, suites)
        project = enrich.load_project(base)
        spark = get_session(project.settings.spark)
        write_sources(spark, base / "lake", args.rows, 10_000)
        seconds: dict[str, dict[str, list[dict[str, float]]]] = {kind: {name: [] for name in suites} for kind in KINDS}
        for number in range(args.rounds + 1):
            names = list(suites)
            names = names[number % len(names) :] + names[: number % len(names)]
            for name in names:
                shutil.rmtree(base / "lake" / name, ignore_errors=True)
            for kind in KINDS:
                if kind == "updated":
                    rename_merchants(spark, base / "lake" / "merchants")
                for name in names:
                    cost, done = measured(partial(enrich.run, project, [name], spark=spark), base / "lake")
                    result = done.jobs[0]
                    if result.status != kind or result.counts.inserted + result.counts.updated != args.rows:
                        raise SystemExit(f"{name}: {result.status}: {result.error}")
                    if number:
                        seconds[kind][name].append({"run": cost.wall, "cpu": cost.cpu, **result.stages})
        persisted = spark.read.format("delta").load(str(base / "lake" / "none")).persist()
        persisted.count()
        floors = {
            name: statistics.median([floor(persisted, suite) for _ in range(5)][1:]) for name, suite in suites.items()
        }
        rows = {kind: report(kind, suites, seconds[kind], floors) for kind in KINDS}
        if args.json is not None:
            shown = dict(map(_name_suite, list(suites.items())[1:]))
            found = {"rules": rows, "shown": shown, "machine": machine.describe()}
            args.json.write_text(json.dumps(found, indent=2) + "\n")
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0


def _name_suite(suite: tuple[str, Rules]) -> tuple[str, str]:
    """Return a suite's name, and how the page calls it."""
    return suite[0], f"{len(suite[1])} row rules, {_count_patterns(suite[1])} of them patterns"


def _count_patterns(suite: Rules) -> int:
    return sum("regex" in rule["kwargs"] for rule in suite)


def report(
    kind: str,
    suites: dict[str, Rules],
    seconds: dict[str, list[dict[str, float]]],
    floors: dict[str, float],
) -> dict[str, Any]:
    """Print medians, the part that the rules took, and the ratios of each round's run to that round's run without.

    The ratio of the floor is that of a run without, plus the conditions written by hand, to the run without.
    """
    plain = seconds["none"]
    rows = {}
    print(f"{KINDS[kind]} (goal: a ratio of at most {RULES_RUN})")
    print("row rules patterns    run s  rules s    CPU s   ratio     CPU   floor")
    for name, suite in suites.items():
        found = seconds[name]
        middle = {part: statistics.median(each.get(part, 0.0) for each in found) for part in ("run", "rules", "cpu")}
        ratios = {
            part: statistics.median(each[part] / base[part] for each, base in zip(found, plain, strict=True))
            for part in ("run", "cpu")
        }
        ratios["floor"] = 1 + floors[name] / statistics.median(each["cpu"] for each in plain)
        rows[name] = {**middle, "ratios": ratios, "rounds": found}
        shown = f"{middle['run']:8.2f} {middle['rules']:8.2f} {middle['cpu']:8.2f}"
        print(
            f"{len(suite):9} {_count_patterns(suite):8} {shown} "
            + " ".join(f"{ratio:7.3f}" for ratio in ratios.values())
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
