"""An interval join on its way from the job file into the compiled job, and what it is refused for."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from enrich import ConfigError, load_project
from enrich.base.spec import CompiledJob, Interval
from enrich.project.compile import check_file, compile_job
from enrich.project.kinds.interval import find_bound_faults, read_bound

JOB = """\
job: paid
sources:
  orders: {table: orders, key: id}
  payments: {table: payments, key: [bank, number]}
  shops: {table: shops, key: shop}
from: orders
join:
  payments:
    kind: interval
    on: orders.id
    match: order_id
    at: orders.ts
    time: ts
    between: [-1h, 24h]
    how: full
  shops: {kind: foreign_key, on: payments.shop}
select: {id: orders.id, bank: payments.bank, number: payments.number, shop: shops.name}
target: {table: paid}
"""
TABLES: dict[str, dict[str, Any]] = {
    "orders": {"id": "long", "ts": "timestamp", "day": "date", "n": "integer", "local": "timestamp_ntz"},
    "payments": {
        "bank": "string", "number": "long", "order_id": "long", "ts": "timestamp", "day": "date", "n": "integer",
        "shop": "string", "tags": {"type": "array", "elementType": "string", "containsNull": True},
    },
    "shops": {"shop": "string", "name": "string"},
}  # fmt: skip


def plan(base: Path, *edits: tuple[str, str]) -> CompiledJob:
    text = JOB
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    for name, content in {"jobs/paid.yml": text, "conf/dev.yml": "lake: ./lake\n"}.items():
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(content)
    job = load_project(base).jobs["paid"]
    assert check_file(job) == []
    return compile_job(job, TABLES)


def faults(base: Path, *edits: tuple[str, str]) -> list[tuple[int, str]]:
    with pytest.raises(ConfigError) as caught:
        plan(base, *edits)
    assert caught.value.exit_code == 2
    return [(int(each.where.rpartition(":")[2]), each.message) for each in caught.value.faults if each.where]


def test_what_the_engine_gets(tmp_path: Path) -> None:
    spec = plan(tmp_path).spec
    step = spec.interval_step
    hour = Decimal(3_600_000_000)
    assert step is not None
    assert (step.alias, step.how, step.on) == ("payments", "full", ("orders.id",))
    assert step.interval == Interval(("order_id",), "orders.ts", "ts", -hour, 24 * hour)
    assert (spec.identity, spec.right_identity) == (("id",), ("bank", "number"))
    assert set(spec.sources["payments"].columns) == {"bank", "number", "order_id", "ts", "shop"}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_both_keys_identify_a_row_whatever_is_kept(tmp_path: Path, how: str) -> None:
    assert plan(tmp_path, ("how: full", f"how: {how}")).spec.right_identity == ("bank", "number")


def test_without_select_the_lookups_key_comes_along(tmp_path: Path) -> None:
    select = "select: {id: orders.id, bank: payments.bank, number: payments.number, shop: shops.name}\n"
    spec = plan(tmp_path, (select, ""), ("    how: full\n", ""), ("match: order_id", "match: order_id")).spec
    names = ["id", "ts", "day", "n", "local", *[f"payments_{name}" for name in TABLES["payments"]], "shops_name"]
    assert list(spec.columns) == names
    assert spec.right_identity == ("payments_bank", "payments_number")


def test_each_bound_is_part_of_what_the_job_means(tmp_path: Path) -> None:
    edits = [("24h", "25h"), ("-1h", "-2h"), ("match: order_id", "match: number"), ("at: orders.ts", "at: orders.ts")]
    meanings = [plan(tmp_path, edit).meaning for edit in edits]
    assert all(a != b for i, a in enumerate(meanings) for b in meanings[:i])


@pytest.mark.parametrize(
    ("column", "between", "lower", "upper"),
    [
        ("ts", "[0s, 90s]", 0, 90_000_000),
        ("ts", "[0, 10m]", 0, 600_000_000),
        ("day", "[-2d, 48h]", -2, 2),
        ("n", "[-1, 2.5]", -1, Decimal("2.5")),
        ("n", "[0, 0]", 0, 0),
    ],
)
def test_bounds_count_as_the_times_do(tmp_path: Path, column: str, between: str, lower: Any, upper: Any) -> None:
    spec = plan(
        tmp_path,
        ("at: orders.ts", f"at: orders.{column}"),
        ("time: ts", f"time: {column}"),
        ("[-1h, 24h]", between),
    ).spec
    found = spec.interval_step.interval  # type: ignore[union-attr]
    assert found is not None
    assert (found.lower, found.upper) == (lower, upper)


FAULTS = [
    ([("id: orders.id, bank", "bank")], 17, "the target's key is not selected completely; select orders.id"),
    ([("number: payments.number, ", "")], 17, "an interval join needs the lookup's key in the target"),
    ([("time: ts", "time: day")], 12, "orders.ts is timestamp and payments.day is date"),
    ([("time: ts", "time: tss")], 13, "'tss' is not a column of 'payments'"),
    ([("time: ts", "time: shop"), ("at: orders.ts", "at: payments.shop")], 12, "payments"),
    ([("time: ts", "time: tags")], 13, "'tags' of type array<string> cannot be compared"),
    ([("match: order_id", "match: bank")], 10, "orders.id is bigint and payments.bank is string"),
    ([("match: order_id", "match: order")], 11, "'order' is not a column of 'payments'"),
    ([("[-1h, 24h]", "[-1, 24]")], 14, "give the bounds a unit: 90s, 10m, 1h, 2d"),
    ([("orders.ts", "orders.day"), ("time: ts", "time: day")], 14, "write the bounds as whole days: 2d"),
    ([("orders.ts", "orders.n"), ("time: ts", "time: n")], 14, "write the bounds as numbers"),
    ([("[-1h, 24h]", "[24h, -1h]")], 14, "the first bound of 'between' is greater than the second"),
    ([("[-1h, 24h]", "[-1h]")], 14, "'between' needs two bounds"),
    ([("[-1h, 24h]", "[-1h, 24]")], 14, "has a duration and a number"),
    ([("[-1h, 24h]", "[-1h, 1y]")], 14, "'between' has '1y'; write a duration such as 90s, 10m, 1h or 2d"),
    ([("[-1h, 24h]", "24h")], 14, "'between' must be a list of two bounds"),
    ([("[-1h, 24h]", "[true, 24h]")], 14, "'between'"),
    ([("on: orders.id", "on: [orders.id, orders.n]")], 10, "'on' has 2 expressions, but 'match' has 1 column"),
    ([("    match: order_id\n", "")], 8, "kind interval needs 'match'"),
    ([("    how: full", "    elements: orders.x")], 15, "'elements' is not for kind interval, only for list"),
    ([("on: payments.shop", "on: payments.shop, how: full")], 16, "no right or full join follows an interval join"),
    ([("kind: foreign_key, on: payments.shop", "kind: table")], 16, "no key to share; use kind: foreign_key"),
    (
        [("kind: foreign_key, on", "kind: interval, match: shop, at: orders.ts, time: name, between: [0, 1], on")],
        16,
        "a job has at most one interval join, and has one ('payments', line 8)",
    ),
]


@pytest.mark.parametrize(("edits", "line", "message"), FAULTS)
def test_what_makes_no_sense_is_refused_at_its_line(
    tmp_path: Path, edits: list[tuple[str, str]], line: int, message: str
) -> None:
    found = faults(tmp_path, *edits)
    assert any(line == at and message in text for at, text in found), found


def test_an_interval_join_is_the_first(tmp_path: Path) -> None:
    shops = "  shops: {kind: foreign_key, on: payments.shop}\n"
    moved = [(shops, ""), ("join:\n", "join:\n  shops: {kind: foreign_key, on: orders.name}\n")]
    assert (10, "an interval join is the first join; put 'payments' before 'shops'") in faults(tmp_path, *moved)


@pytest.mark.parametrize(
    ("value", "amount"),
    [("90s", 90), ("-1h", -3600), ("+10m", 600), ("2d", 172_800), (" 1s ", 1), (5, 5), (-0.5, Decimal("-0.5"))],
)
def test_a_bound_is_read(value: Any, amount: Any) -> None:
    found = read_bound(value)
    assert found is not None
    assert found.amount == amount


@pytest.mark.parametrize(
    "value", ["", "h", "1", "1.5h", "1 h", "1H", "1y", "--1h", "\u0661h", "99999999999999d", True, float("nan"), 10**19]
)
def test_what_is_no_bound_is_refused(value: Any) -> None:
    assert read_bound(value) is None
    assert len(find_bound_faults([value, value])) == 2
