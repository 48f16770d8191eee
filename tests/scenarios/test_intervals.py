"""One interval join from its first run on: its result, plan, verify, `why`, `doctor keys` and what comes late."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import enrich
from enrich.answers.question import explain
from kit.lab import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = """job: paid
sources:
  orders: {table: orders, key: k}
  payments: {table: payments, key: p}
from: orders
join:
  payments: {kind: interval, on: orders.o, match: o, at: orders.ts, time: ts, between: [-1h, 24h], how: full}
select: {k: orders.k, p: payments.p, amount: payments.amount}
target: {table: paid}
"""
MOMENT = pa.timestamp("us", tz="UTC")


def at(hour: int, day: int = 2) -> datetime:
    return datetime(2026, 3, day, hour, tzinfo=UTC)


def test_what_comes_late_is_paired_late(interpreted: SparkSession, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", interpreted)
    lab.job(JOB + "expectations: amounts\n")
    held = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "amount", "max_value": 5}}
    lab.suite("amounts", {**held, "meta": {"enrich": {"action": "quarantine"}}})
    orders = [("k1", "a", at(12)), ("k2", "b", at(12)), ("k3", None, at(12)), ("k4", "d", None), ("k5", "e", at(12))]
    lab.table(
        "orders",
        "k",
        {"k": pa.string(), "o": pa.string(), "ts": MOMENT},
        [{"k": k, "o": o, "ts": ts} for k, o, ts in orders],
    )
    payments = [("p1", "a", at(11)), ("p2", "a", at(12, 3)), ("p3", "b", at(13, 3)), ("p4", "d", at(12))]
    lab.table(
        "payments",
        "p",
        {"p": pa.string(), "o": pa.string(), "ts": MOMENT, "amount": pa.int32()},
        [{"p": p, "o": o, "ts": ts, "amount": 1} for p, o, ts in payments],
    )
    result = lab.run("paid").to_dict()
    assert (result["status"], result["error"]) == ("created", None)
    assert result["lookups"]["payments"] == {"kind": "interval", "rows": 5, "matched": 1, "null_references": 1}
    assert (result["null_foreign_keys"], result["affected_keys"]) == (1, 7)
    pairs = {("k1", "p1"), ("k1", "p2")}
    lone = {("k2", None), ("k3", None), ("k4", None), ("k5", None), (None, "p3"), (None, "p4")}
    assert {(row["k"], row["p"]) for row in lab.rows("paid")} == pairs | lone
    project = enrich.load_project(lab.home)
    why = partial(ask, lab)
    assert why("k1", "k2", "k3", "k4", "k5") == {
        "k1": ("matched", "matched"),
        "k2": ("out_of_interval", "out_of_interval"),
        "k3": ("foreign_key_null", "foreign_key_null"),
        "k4": ("foreign_key_null", "foreign_key_null"),
        "k5": ("no_such_key", "no_such_key"),
    }
    assert [*why({"p": "p3"}).values()] == [("matched", "matched")]
    with pytest.raises(enrich.ConfigError, match="its columns are k"):  # of a pair, each side is asked about by itself
        why({"k": "k1", "p": "p2"})
    report = enrich.doctor_keys(project, "paid", spark=interpreted).to_dict()
    (join,) = report["joins"]
    assert (join["join"], join["kind"], join["unmatched"]) == ("payments", "interval", 1)

    # p1 moves out of reach, p3 into it; k5 gets its first partners, and is held with one of them; k1's p2 is deleted,
    # so k1 is alone again.
    lab.put("payments", {"p": "p1", "o": "a", "ts": at(10), "amount": 1})
    lab.put("payments", {"p": "p3", "o": "b", "ts": at(12, 3), "amount": 1}, {"p": "p5", "o": "e", "ts": at(1)})
    assert why("k2", "k5") == {"k2": ("arrived_after_window",) * 2, "k5": ("no_such_key",) * 2}, "p5 is no partner"
    lab.put("payments", *[{"p": p, "o": "e", "ts": at(12), "amount": n} for p, n in (("p5", 9), ("p6", 1))])
    lab.drop("payments", "p = 'p2'")
    result = lab.run("paid").to_dict()
    counts = [result[name] for name in ("inserted", "updated", "deleted")]
    assert (result["status"], result["mode"], counts) == ("updated", "incremental", [4, 0, 5])
    lone = {("k1", None), ("k3", None), ("k4", None), (None, "p1"), (None, "p4")}
    assert {(row["k"], row["p"]) for row in lab.rows("paid")} == {("k2", "p3"), ("k5", "p6")} | lone
    assert [(row["k"], row["p"]) for row in lab.rows("paid__quarantine")] == [("k5", "p5")]
    assert [reason for reason, _ in why("k5").values()] == ["matched"]


def test_what_pairs_of_one_row_refer_to_changes_for_one_of_them(interpreted: SparkSession, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", interpreted)
    job = JOB.replace("from:", "  shops: {table: shops, key: s}\nfrom:")
    job = job.replace("select:", "  shops: {kind: foreign_key, on: payments.s}\nselect:")
    lab.job(job.replace("amount: payments.amount", "shop: shops.name"))
    text = pa.string()
    lab.table("orders", "k", {"k": text, "o": text, "ts": MOMENT}, [{"k": "k1", "o": "a", "ts": at(12)}])
    paid = [{"p": p, "o": "a", "ts": at(hour), "s": s} for p, hour, s in (("p1", 12, "s1"), ("p2", 13, "s2"))]
    lab.table("payments", "p", {"p": text, "o": text, "ts": MOMENT, "s": text}, paid)
    lab.table("shops", "s", {"s": text, "name": text}, [{"s": "s1", "name": "one"}, {"s": "s2", "name": "two"}])
    assert lab.run("paid").status == "created"
    lab.put("shops", {"s": "s2", "name": "second"})
    assert lab.run("paid").counts.updated == 1
    assert {(row["p"], row["shop"]) for row in lab.rows("paid")} == {("p1", "one"), ("p2", "second")}


def ask(lab: Lab, *keys: object) -> dict[str, tuple[str, str]]:
    """Ask why rows that are there have no payment, and why the amount is null."""
    found = explain(enrich.load_project(lab.home), "paid", keys, "amount", spark=lab.spark)
    assert all(each.in_target for each in found)
    told = [(each.lookups["payments"].reason, each.columns["amount"].reason) for each in found]
    return dict(zip(map(str, keys), told, strict=True))
