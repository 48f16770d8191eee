"""Groups as people meet them: a query or a file of its own, changed in every way, asked why, verified."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import enrich
from enrich.answers.question import explain
from kit.lab import Lab, Prepared

QUARANTINE = {"enrich": {"action": "quarantine"}}
REVENUE = """\
job: revenue
sources: {orders: {table: orders, key: id}}
query: |
  SELECT merchant, count(*) AS orders, sum(amount) AS revenue, max(day) AS last_day,
         count(DISTINCT customer) AS customers
  FROM orders
  WHERE status = 'paid'
  GROUP BY merchant
target: {table: revenue}
"""
COLUMNS = {
    "id": pa.int64(),
    "merchant": pa.string(),
    "amount": pa.decimal128(10, 2),
    "day": pa.int32(),
    "customer": pa.string(),
    "status": pa.string(),
}


def order(
    number: int, merchant: str | None, amount: str, day: int, customer: str, status: str = "paid"
) -> dict[str, object]:
    from decimal import Decimal

    return dict(zip(COLUMNS, (number, merchant, Decimal(amount), day, customer, status), strict=True))


def open_shop(lab: Lab) -> None:
    """Write five orders and their job."""
    rows = [order(1, "a", "1.50", 1, "x"), order(2, "a", "2.00", 9, "y"), order(3, "b", "7.00", 3, "x")]
    lab.table("orders", "id", COLUMNS, [*rows, order(4, "c", "1.00", 1, "x", "open"), order(5, None, "1.00", 1, "x")])
    lab.job(REVENUE)


def run_shop(lab: Lab) -> None:
    """Do the same, and run the job."""
    open_shop(lab)
    first = lab.run("revenue")
    assert first.status == "created", first.error
    assert shown(lab) == {"a": ("2", "3.50", "9", "2"), "b": ("1", "7.00", "3", "1")}
    (finding,) = first.findings
    assert (finding.expectation, finding.action, finding.checked, finding.failed) == ("group_not_null", "warn", 4, 1)


@pytest.fixture
def shop(prepared: Prepared) -> Lab:
    """Give five orders and their job, which has not run yet."""
    return prepared("orders of groups", open_shop)


@pytest.fixture
def begun(prepared: Prepared) -> Lab:
    """Give them after the first run."""
    return prepared("revenue", run_shop)


def shown(lab: Lab) -> dict[str, tuple[object, ...]]:
    return {row["merchant"]: tuple(str(v) for v in list(row.values())[1:]) for row in lab.rows("revenue")}


def test_groups_are_kept_right_over_crashes_and_why_they_are_there_or_not(
    begun: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash applies nothing twice, nor do two: a run ends what the second one has left, over more changes."""
    # The greatest goes, a row moves, and one comes that where kept out.
    begun.drop("orders", "id = 2")
    begun.put("orders", order(1, "c", "1.50", 1, "x"), order(4, "a", "1.00", 1, "x"), order(6, "a", "9.00", 4, "z"))
    project = enrich.load_project(begun.home)
    (plan,) = enrich.plan(project, spark=begun.spark).jobs
    assert plan.forecast is not None
    assert "more groups would move by the changes alone with count(amount) among the columns" in plan.forecast.why
    for point in ("target.before", "proof.before"):

        def crash(name: str, point: str = point) -> None:
            if name == point:
                raise KeyboardInterrupt

        monkeypatch.setattr("enrich.base.failpoints.hook", crash)
        with pytest.raises(KeyboardInterrupt):
            begun.run("revenue")
        monkeypatch.undo()

    # The last row of a group goes, and one comes that where keeps out.
    begun.drop("orders", "merchant = 'b'")
    begun.put("orders", order(6, "a", "8.00", 4, "z"), order(7, "d", "1.00", 4, "z", "open"))
    found = begun.run("revenue")
    assert (found.error, found.counts.inserted, found.counts.updated, found.counts.deleted) == (None, 0, 1, 1)
    assert shown(begun) == {"a": ("2", "9.00", "4", "2"), "c": ("1", "1.50", "1", "1")}
    told = dict(zip("abdA", explain(project, "revenue", "abdA", spark=begun.spark), strict=True))
    assert {key: (each.row.reason, each.rows) for key, each in told.items()} == {
        "a": ("matched", 2),
        "b": ("deleted_at", 0),
        "d": ("filtered_by_where", 0),
        "A": ("near_miss", 0),
    }
    where = "WHERE (orders.`status` = 'paid') AND orders.`merchant` = :merchant AND orders.`id` IS NOT NULL"
    version = DeltaTable(begun.path("orders")).version()
    assert told["a"].query == f"SELECT * FROM orders VERSION AS OF {version} AS orders {where}"
    traced = enrich.trace(project, "revenue", "b", spark=begun.spark)
    assert (traced.exit_code, {each.table for each in traced.places} >= {"orders", "revenue"}) == (3, True)


def test_a_group_that_is_left_out_stops_no_run(shop: Lab) -> None:
    shop.job(
        "job: shares\nsources: {orders: {table: orders, key: id}}\nquery: |\n"
        "  SELECT merchant, count(*) AS orders, 8 div (sum(10 div (day - 4)) + 9) AS share\n"
        "  FROM orders GROUP BY merchant\n"
        "target: {table: shares}\n"
    )
    shop.put("orders", order(6, None, "1.00", 4, "x"))  # its group has a null: no value of it is computed
    found = shop.run("shares")
    assert (found.exit_code, [each.expectation for each in found.findings]) == (0, ["group_not_null"]), found.error
    assert enrich.verify(enrich.load_project(shop.home), ["shares"], spark=shop.spark).jobs[0].status == "equal"


MONTHS = """\
job: months
kind: group
sources: {orders: {table: orders, key: id}}
from: orders
group: {by: [orders.day div 10, upper(orders.merchant)]}
select:
  who: upper(orders.merchant)
  decade: orders.day div 10
  mean: sum(orders.amount) / count(*)
  days: array_sort(array_agg(DISTINCT orders.day))
target: {table: months, change_feed: true}
expectations: months
"""
BIG = """\
job: big
sources: {months: {table: months, key: [decade, who]}}
query: |
  SELECT who, count(*) AS decades FROM months WHERE mean > 1 GROUP BY who
target: {table: big}
"""


def test_what_makes_a_group_may_be_computed_and_a_suite_may_hold_it(shop: Lab) -> None:
    shop.job(MONTHS)
    shop.job(BIG)
    held = {"column": "mean", "max_value": 5}
    shop.suite("months", {"type": "expect_column_values_to_be_between", "kwargs": held, "meta": QUARANTINE})
    months, big = shop.run_all("months", "big").jobs
    assert (months.status, months.counts.quarantined, big.status) == ("created", 1, "created"), (
        months.error,
        big.error,
    )
    assert {(row["who"], row["decade"]): row["days"] for row in shop.rows("months")} == {
        ("A", 0): [1, 9],
        ("C", 0): [1],
    }
    assert [(row["who"], row["_failed"]) for row in shop.rows("months__quarantine")] == [
        ("B", ["expect_column_values_to_be_between:mean"])
    ]

    # A source's row without a key waits beside the groups that are held; a held group heals.
    shop.append("orders", {**order(0, "z", "3.00", 3, "x"), "id": None})
    shop.put("orders", order(6, "b", "0.50", 4, "y"))
    months, big = shop.run_all("months", "big").jobs
    assert (months.status, months.counts.inserted, months.counts.quarantined) == ("updated", 1, 1), months.error
    assert [(row["who"], row["_failed"]) for row in shop.rows("months__quarantine")] == [("Z", ["key_not_null"])]
    assert {row["who"]: row["decades"] for row in shop.rows("big")} == {"A": 1, "B": 1}

    project = enrich.load_project(shop.home)
    (verified,) = enrich.verify(project, ["months"], spark=shop.spark).jobs
    assert (verified.status, verified.state_is_equal) == ("equal", True)
    asked = [{"who": who, "decade": 0} for who in "BYZ"]
    there, other, keyless = (each.to_dict() for each in explain(project, "months", asked, spark=shop.spark))
    assert (there["in_target"], there["rows"], there["columns"]["mean"]) == (True, 2, {"reason": "matched"})
    assert (other["in_target"], other["rows"], other["row"]["reason"]) == (False, 0, "no_such_key")
    condition = "WHERE (orders.day div 10) = :decade AND (upper(orders.merchant)) = :who AND orders.`id` IS NOT NULL"
    assert there["query"].endswith(f" AS orders {condition}")
    for who, told in (("B", there), ("Z", keyless)):  # the row without a key is none of the group's
        query = told["query"].replace(":decade", "0").replace(":who", f"'{who}'")
        rows = shop.spark.sql(query.replace("FROM orders", f"FROM delta.`{shop.path('orders')}`"))
        assert rows.count() == told["rows"]
    with pytest.raises(enrich.ConfigError, match="the key of 'months' is computed of columns"):
        enrich.trace(project, "months", {"who": "B", "decade": 0}, spark=shop.spark)


CHEAP = REVENUE.replace("key: id", "key: id, unique: trusted").replace(
    "sum(amount) AS revenue",
    "sum(amount) AS revenue, count(amount) AS amounts, avg(amount) AS mean, min(day) AS first_day",
)


def open_cheap(lab: Lab) -> None:
    open_shop(lab)
    lab.job(CHEAP)
    lab.append("orders", order(8, "a", "4.00", 5, "y"))
    assert lab.run("revenue").status == "created"


@pytest.fixture
def cheap(prepared: Prepared) -> Lab:
    """Give the orders, one more among them, and groups that move by what came and went."""
    return prepared("cheap groups", open_cheap)


def hide(lab: Lab, table: str) -> list[Path]:
    """Take a table's data files away, and return where they are now; its feed stays."""
    paths = pa.table(DeltaTable(lab.path(table)).get_add_actions(flatten=True))["path"].to_pylist()
    return [Path(lab.path(table), path).rename(Path(lab.path(table), path + ".gone")) for path in paths]


def test_groups_move_without_a_read_of_the_source(cheap: Lab) -> None:
    """The files of the source may be gone: what came and went is all that a run needs, while no extreme goes."""
    assert shown(cheap)["a"] == ("3", "7.50", "3", "2.500000", "1", "9", "2")
    # An amount changes, a row goes whose customer another one brings, a group comes, one loses its last row.
    cheap.put(
        "orders", order(2, "a", "6.25", 9, "y"), order(9, "d", "1.00", 4, "z"), order(3, "b", "7.00", 3, "x", "open")
    )
    cheap.put("orders", order(8, "a", "4.00", 5, "y", "open"), order(7, "a", "0.75", 1, "y"))
    hidden = hide(cheap, "orders")
    found = cheap.run("revenue")
    assert (found.error, found.counts.updated, found.counts.inserted, found.counts.deleted) == (None, 1, 1, 1)
    expected = {"a": ("3", "8.50", "3", "2.833333", "1", "9", "2"), "d": ("1", "1.00", "1", "1.000000", "4", "4", "1")}
    assert shown(cheap) == expected
    for file in hidden:
        file.rename(file.with_suffix(""))

    # The last day goes: only the source tells the one before.
    cheap.drop("orders", "id = 2")
    hidden = hide(cheap, "orders")
    assert cheap.run("revenue").exit_code != 0
    for file in hidden:
        file.rename(file.with_suffix(""))
    assert cheap.run("revenue").counts.updated == 1
    assert shown(cheap)["a"] == ("2", "2.25", "2", "1.125000", "1", "1", "2")


def test_groups_that_somebody_takes_out_of_the_quarantine_are_whole_when_they_come_back(begun: Lab) -> None:
    rule = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "revenue", "min_value": 5}}
    begun.suite("revenue", {**rule, "meta": QUARANTINE})
    begun.job(REVENUE + "expectations: revenue\n")
    assert begun.run("revenue", full_refresh=True).counts.quarantined == 1
    DeltaTable(begun.path("revenue__quarantine")).delete()
    begun.put("orders", order(6, "a", "10.00", 4, "z"))
    assert begun.run("revenue").exit_code == 0
    assert shown(begun) == {"a": ("3", "13.50", "9", "3"), "b": ("1", "7.00", "3", "1")}
    begun.put("orders", order(7, "a", "1.00", 4, "z"))
    assert begun.run("revenue").mode == "incremental"
    assert shown(begun)["a"] == ("4", "14.50", "9", "3")


def test_a_zero_that_changes_its_sign_is_shown_as_the_rows_have_it(lab: Lab) -> None:
    columns = {"id": pa.int64(), "g": pa.string(), "x": pa.float64()}
    lab.table(
        "facts", "id", columns, [dict(zip(columns, each, strict=True)) for each in ((1, "a", 0.0), (2, "b", 2.0))]
    )
    query = """\
SELECT g, count(*) AS n, CAST(min(x) AS STRING) AS least, CAST(max(x) AS STRING) AS most,
       CAST(array_sort(array_agg(DISTINCT x)) AS STRING) AS every, min(x) AS lo, max(x) AS hi,
       array_sort(array_agg(DISTINCT x)) AS list
FROM facts
GROUP BY g"""
    text = query.replace("\n", "\n  ")
    lab.job(
        f"job: zeros\nsources: {{facts: {{table: facts, key: id}}}}\nquery: |\n  {text}\ntarget: {{table: zeros}}\n"
    )
    assert lab.run("zeros").status == "created"
    for sign in (-1.0, 1.0):
        lab.put("facts", {"id": 1, "g": "a", "x": sign * 0.0})
        assert lab.run("zeros").exit_code == 0
        (row,) = [each for each in lab.rows("zeros") if each["g"] == "a"]
        zero = str(sign * 0.0)
        assert (row["least"], row["most"], row["every"]) == (zero, zero, "[0.0]")  # as Spark's DISTINCT has it


def test_a_sum_that_overflows_is_named(shop: Lab) -> None:
    shop.job(REVENUE.replace("sum(amount) AS revenue", "sum(id + 4611686018427387904) AS revenue"))
    found = shop.run("revenue")
    assert found.exit_code == 2
    assert "revenue" in str(found.error)
    assert shop.job(REVENUE.replace("sum(amount)", "sum(CAST(amount AS DOUBLE))"))
    found = shop.run("revenue")
    assert (found.exit_code, "order of the rows" in str(found.error)) == (2, True), found.error
    assert "revenue.yml:4:" in str(found.error)


def test_the_plan_says_that_sums_of_many_digits_read_the_source(shop: Lab) -> None:
    """Spark's types may lose their last digit, so that no group moves by them."""
    shop.job(
        "job: wide\nsources: {orders: {table: orders, key: id}}\nquery: |\n"
        "  SELECT merchant, count(*) AS orders, count(amount) AS known,\n"
        "         sum(CAST(amount AS DECIMAL(38, 10))) AS revenue, count(CAST(amount AS DECIMAL(38, 10))) AS more\n"
        "  FROM orders GROUP BY merchant\n"
        "target: {table: wide}\n"
    )
    assert shop.run("wide").status == "created"
    shop.put("orders", order(6, "a", "1.00", 4, "x"))
    (plan,) = enrich.plan(enrich.load_project(shop.home), ["wide"], spark=shop.spark).jobs
    assert plan.forecast is not None
    said = "only groups in which sum(CAST(orders.`amount` AS DECIMAL(38, 10))) may have changed are computed from all"
    assert said in str(plan.forecast.why)


SUMS = """\
job: {name}
sources: {{facts: {{table: {name}_facts, key: id, {how}}}}}
query: |
  SELECT g, count(*) AS rows, count(n) AS many, sum(n) AS total, max(n) AS top FROM facts GROUP BY g
target: {{table: {name}}}
"""
FACTS = {"id": pa.int64(), "lsn": pa.int64(), "op": pa.string(), "g": pa.string(), "n": pa.int64()}


def fact(number: int, lsn: int, g: str, n: int | None, op: str = "u") -> dict[str, object]:
    return dict(zip(FACTS, (number, lsn, op, g, n), strict=True))


def test_groups_of_a_log_and_of_doubled_keys(lab: Lab) -> None:
    """What came and went is what the events, or the rows that share their key, make of the source."""
    ways = {"logged": "latest: {order: [lsn], delete: \"op = 'd'\"}", "doubled": "doubled_keys: quarantine"}
    for name, how in ways.items():
        lab.table(f"{name}_facts", "id", FACTS)
        lab.append(f"{name}_facts", fact(1, 1, "a", 5), fact(2, 1, "a", 2), fact(3, 1, "b", 7), fact(4, 1, "b", None))
        lab.append(f"{name}_facts", fact(6, 1, "c", 4), fact(6, 2, "c", 9))
        lab.job(SUMS.format(name=name, how=how))
    assert {each.status for each in lab.run_all().jobs} == {"created"}
    # The log: 2 moves to b, an event of 1 is late, 3 is deleted, the last event of 6 goes.
    # The table: 2 is doubled and held, 5 comes, 6 is held no more.
    lab.append("logged_facts", fact(2, 2, "b", 3), fact(1, 0, "b", 99), fact(3, 2, "b", 7, "d"), fact(1, 4, "a", 6))
    lab.append("doubled_facts", fact(2, 2, "b", 3), fact(5, 2, "b", 1))
    for name in ways:
        lab.drop(f"{name}_facts", "id = 6 AND lsn = 2")
    for told in lab.run_all().jobs:
        assert told.error is None
    found = {name: {row.pop("g"): tuple(row.values()) for row in lab.rows(name)} for name in ways}
    assert found["logged"] == {"a": (1, 1, 6, 6), "b": (2, 1, 3, 3), "c": (1, 1, 4, 4)}
    assert found["doubled"] == {"a": (1, 1, 5, 5), "b": (3, 2, 8, 7), "c": (1, 1, 4, 4)}
    for name, rows in found.items():  # of which no query over the table's rows tells
        (answer,) = explain(enrich.load_project(lab.home), name, ["b"], spark=lab.spark)
        assert (answer.rows, answer.query) == (rows["b"][0], None)
        assert "query" not in answer.to_dict()


def test_no_group_moves_over_a_gap(cheap: Lab) -> None:
    cheap.put("orders", order(6, "a", "1.00", 4, "y"))
    cheap.put("orders", order(7, "b", "1.00", 2, "x"))
    end = DeltaTable(cheap.path("orders")).version()
    assert cheap.run("revenue", since=f"v{end - 1}", allow_gap=True).error is None
    assert (shown(cheap)["a"][0], shown(cheap)["b"][0]) == ("3", "2")  # 6 was left out
    cheap.put("orders", order(9, "a", "1.00", 4, "y"))
    assert cheap.run("revenue").error is None
    assert shown(cheap)["a"][:2] == ("5", "9.50")
    assert cheap.run("revenue", since="beginning").error is None
    cheap.put("orders", order(9, "a", "2.00", 4, "y"))
    assert cheap.run("revenue").error is None
    assert shown(cheap)["a"][:2] == ("5", "10.50")
