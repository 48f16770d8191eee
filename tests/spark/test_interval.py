"""Interval joins: the four hows, every kind of time at its bounds, and how many rows are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from enrich.base.spec import LIVE, Interval, JoinSpec, Output, SourceSpec, Step, name_partners
from enrich.frames.join import Sources, join_all
from enrich.joins import find_step_kind, interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR, DAY = 3_600_000_000, 86_400_000_000
NAN, INF = float("nan"), float("inf")
Times = Sequence[tuple[str, Any]]
"""Each time as a text that Spark casts, and as a number."""


def moments(*texts: str) -> Times:
    """Return moments with their microseconds since 1970."""
    start = datetime(1970, 1, 1, tzinfo=UTC)
    found = [(text, datetime.fromisoformat(text).replace(tzinfo=UTC) - start) for text in texts]
    return [(text, (each.days * 86_400 + each.seconds) * 1_000_000 + each.microseconds) for text, each in found]


CLOCK = moments(
    *("2026-03-29 12:00:00", "2026-03-29 11:00:00", "2026-03-29 10:59:59.999999", "2026-03-29 14:00:00"),
    *("2026-03-29 14:00:00.000001", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "1969-12-31 22:00:00"),
    *("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "9999-12-31 22:00:00", "2026-03-29 02:30:00"),
)
ENDS = [("-290308-12-21T20:00:00", -9223372036800000000), ("+294247-01-10T04:00:00", 9223372036800000000)]
"""In the first and the last day that Spark has."""
DATES = [
    (text, (datetime.fromisoformat(text) - datetime(1970, 1, 1)).days)  # noqa: DTZ001 - dates
    for text in (
        *("2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02", "1969-12-31", "1970-01-01", "1970-01-02"),
        *("0001-01-01", "9999-12-31", "9999-12-30"),
    )
]
WHOLE = [(str(n), n) for n in (0, 1, 2, 3, -1, -2, -3, 10**18, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1)]
FRACTIONS = [(str(n), n) for n in (0.0, -0.0, 0.5, 1.0, -0.5, 1e300, -1e300, 2.0**53, 1e-300, 0.25)]
FRACTIONS += [("NaN", NAN), ("Infinity", INF), ("-Infinity", -INF)]
CENTS = [(str(n), n) for n in map(Decimal, ("0.00", "0.10", "0.11", "-0.10", "-0.11", "99999999.99", "99999999.89"))]
ATOMS = [(f"{n:f}", n) for n in map(Decimal, ("0", "0.1", "-0.1", "0.100000000000000001", "0.000000000000000001", "7"))]
KINDS: dict[str, tuple[str, Times, Any, Any]] = {
    "timestamp": ("timestamp", CLOCK, -HOUR, 2 * HOUR),
    "timestamp at once": ("timestamp", CLOCK, 0, 0),
    "timestamp far off": ("timestamp", CLOCK, 3_650_000 * DAY, 3_653_000 * DAY),
    "timestamp_ntz": ("timestamp_ntz", [*CLOCK, *ENDS], -HOUR, 2 * HOUR),
    "date": ("date", DATES, -1, 1),
    "date after": ("date", DATES, 1, 2),
    "long": ("bigint", WHOLE, -1, 1),
    "long far off": ("bigint", WHOLE, -(10**18), -(10**18) + 1),
    "long between fractions": ("bigint", WHOLE, Decimal("-1.5"), Decimal("0.5")),
    "long between nothing": ("bigint", WHOLE, Decimal("0.2"), Decimal("0.8")),
    "double": ("double", FRACTIONS, Decimal("-0.5"), Decimal("0.5")),
    "double at once": ("double", FRACTIONS, 0, 0),
    "decimal": ("decimal(10,2)", CENTS, Decimal("-0.10"), Decimal("0.10")),
    "decimal of all digits": ("decimal(38,18)", ATOMS, Decimal("-0.1"), Decimal("0.1")),
}


def by(how: str, lower: Any, upper: Any) -> Step:
    near = Interval(("o",), "l.at", "ts", Decimal(lower), Decimal(upper))
    return Step("r", "interval", how, on=("l.o",), interval=near)


@pytest.mark.parametrize("name", KINDS)
def test_both_bounds_belong_to_the_interval(name: str, spark: SparkSession) -> None:
    kind, times, lower, upper = KINDS[name]
    texts = [(i, text) for i, (text, _) in enumerate([*times, (None, None)])]
    sides = spark.createDataFrame(texts, "n int, t string")
    left = sides.selectExpr("n k", "'o' __enrich_f0", f"cast(t as {kind}) {interval.AT}")
    right = sides.selectExpr("n r", "'o' __enrich_m0", f"cast(t as {kind}) {interval.TIME}")
    found = [tuple(row) for row in interval.find_pairs(left, right, by("inner", lower, upper)).collect()]
    limits = (float(lower), float(upper)) if kind == "double" else (lower, upper)
    expected = {
        (i, j) for i, (_, at) in enumerate(times) for j, (_, time) in enumerate(times)
        if limits[0] <= time - at <= limits[1]
    }  # fmt: skip
    assert len(found) == len(set(found))
    assert set(found) == expected


LEFT = "o string, k string, at int"
RIGHT = "o string, p string, ts int"
ORDERS = [("a", "k1", 10), ("a", "k2", 10), ("b", "k3", 10), (None, "k4", 10), ("a", "k5", None), ("c", "k6", 10)]
PAYMENTS = [
    *(("a", "p1", 9), ("a", "p2", 12), ("a", "p3", 12), ("a", "p4", 8), ("a", "p5", 13), ("b", "p6", 11)),
    *((None, "p7", 10), ("a", "p8", None), ("d", "p9", 10)),
]
PAIRS: set[Any] = {(k, p) for k in ("k1", "k2") for p in ("p1", "p2", "p3")} | {("k3", "p6")}
LONE_LEFT = {("k4", None), ("k5", None), ("k6", None)}
LONE_RIGHT = {(None, "p4"), (None, "p5"), (None, "p7"), (None, "p8"), (None, "p9")}
EXPECTED: dict[str, set[Any]] = {
    "inner": PAIRS,
    "left": PAIRS | LONE_LEFT,
    "right": PAIRS | LONE_RIGHT,
    "full": PAIRS | LONE_LEFT | LONE_RIGHT,
}


def sources(spark: SparkSession, how: str) -> Sources:
    specs = {
        "l": SourceSpec("l", ("k",), {"k": "string", "o": "string", "at": "integer"}),
        "r": SourceSpec("r", ("p",), {"p": "string", "o": "string", "ts": "integer"}),
    }
    plain = ("k", "l.k"), ("p", "r.p")
    outputs = tuple(Output(name, path, frozenset({tuple(path.split("."))}), is_plain=True) for name, path in plain)
    spec = JoinSpec("job", specs, "l", (by(how, -1, 2),), outputs, None, ("k",), ("p",))
    rows = {"l": spark.createDataFrame(ORDERS, LEFT), "r": spark.createDataFrame(PAYMENTS, RIGHT)}
    return Sources(spec, rows, find_step_kind)


@pytest.mark.parametrize("how", EXPECTED)
def test_a_side_without_partner_is_alone(how: str, spark: SparkSession) -> None:
    rows = join_all(sources(spark, how), None).collect()
    live = [row for row in rows if row[LIVE]]
    assert len(live) == len(EXPECTED[how])
    assert {(row["k"], row["p"]) for row in live} == EXPECTED[how]
    assert {(row["__enrich_k0"], row["__enrich_r0"]) for row in live} == EXPECTED[how]
    told = [row[name_partners("r")] for row in rows if row[name_partners("r")] is not None]
    assert [sum(each[part] for each in told) for part in ("rows", "matched", "nulls")] == [6, 3, 1]


def test_large_lookups_are_filtered_by_what_is_asked(spark: SparkSession) -> None:
    one = sources(spark, "full")
    few = replace(one, large=frozenset({"r"}))
    live = [row for row in join_all(few, None).collect() if row[LIVE]]
    assert {(row["k"], row["p"]) for row in live} == EXPECTED["full"]


def test_one_key_with_many_rows_is_no_cross_product(spark: SparkSession) -> None:
    """100,000 rows on both sides, one match: at most thrice as many are compared as are near."""
    count, apart = 100_000, 10
    left: DataFrame = spark.range(count).selectExpr("id k", "'o' __enrich_f0", f"id * {apart} {interval.AT}")
    right: DataFrame = spark.range(count).selectExpr("id r", "'o' __enrich_m0", f"id * {apart} {interval.TIME}")
    step = by("inner", 0, 2 * apart)
    candidates = interval.find_candidates(left, right, step)
    assert "BroadcastNestedLoopJoin" not in candidates._jdf.queryExecution().toString()
    assert "CartesianProduct" not in candidates._jdf.queryExecution().toString()
    pairs = 3 * count - 3
    assert interval.find_pairs(left, right, step).count() == pairs
    assert pairs <= candidates.count() <= 3 * pairs
