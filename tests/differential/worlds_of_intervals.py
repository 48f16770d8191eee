"""A world of interval joins: two streams of events that are near each other in time."""

from __future__ import annotations

from typing import Any

from differential.columns import Column
from differential.expressions import above, build, coalesce, cols, fk
from differential.spec import Join, Shape, Table, World, col, not_null, one_of

BY_HOURS: dict[str, Any] = {"at": col("orders.at"), "time": "ts", "between": ("-1h", "2h")}
BY_DAYS: dict[str, Any] = {"at": col("orders.day"), "time": "day", "between": ("-1d", "1d")}
BY_NUMBERS: dict[str, Any] = {"at": col("orders.n"), "time": "n", "between": (0, 1)}
BY_FRACTIONS: dict[str, Any] = {"at": col("orders.x"), "time": "x", "between": (-0.5, 1)}
AT_ONCE: dict[str, Any] = {"at": col("orders.at"), "time": "ts", "between": ("0s", "0s")}


def near(how: str, **times: Any) -> Join:
    """Join payments of the same order."""
    return Join("payments", "interval", how, (col("orders.o"),), match=("o",), **times)


def _tables() -> tuple[Table, Table, Table]:
    def times(name: str) -> tuple[Column, ...]:
        return Column(name, "moment"), Column("day", "day"), Column("n", "int"), Column("x", "tick")

    o, m = Column("o", "key", "o", 0.1), Column("m", "key", "m", 0.2)
    orders = Table(
        "orders",
        ("k",),
        (Column("k", "key", "k", 0.03), o, *times("at"), m, Column("title", "text"), Column("idle", "int")),
    )
    payments = Table(
        "payments",
        ("p",),
        (Column("p", "key", "p", 0.03), o, *times("ts"), m, Column("kind", "text", None, 0.3), Column("idle", "int")),
    )
    shops = Table("shops", ("m",), (Column("m", "key", "m", 0.02), Column("name", "text", None, 0.3)))
    return orders, payments, shops


def intervals() -> World:
    """Return the world."""
    columns = cols("k=orders.k", "p=payments.p", "at=orders.at", "ts=payments.ts", "kind=payments.kind")

    def job(name: str, join: Join, select: Any = None, **others: Any) -> Shape:
        return Shape(
            f"interval_{name}", "orders", ("k",), ("p",), joins={"payments": join}, select=select or columns, **others
        )

    by_shop = {
        "payments": near("full", **BY_HOURS),
        "shops": fk("shops", "left", coalesce("payments.m", "orders.m")),
    }
    shapes = (
        *(job(how, near(how, **BY_HOURS), change_feed=how == "full") for how in ("inner", "left", "right", "full")),
        job("days", near("full", **BY_DAYS), cols("k=orders.k", "p=payments.p", "day=orders.day", "then=payments.day")),
        job("numbers", near("right", **BY_NUMBERS), cols("k=orders.k", "p=payments.p", "n=orders.n", "m=payments.n")),
        job("fractions", near("full", **BY_FRACTIONS), cols("k=orders.k", "p=payments.p", "x=payments.x")),
        job("at_once", near("left", **AT_ONCE)),
        job(
            "expression",
            Join(
                "payments",
                "interval",
                "full",
                (coalesce("orders.o", "orders.m"),),
                match=("o",),
                **{**BY_NUMBERS, "at": build(["coalesce", "orders.n", ["number", 1]])},
            ),
            change_feed=True,
        ),
        Shape("interval_default", "orders", ("k",), ("payments_p",), joins={"payments": near("left", **BY_HOURS)}),
        job("gated", near("full", **BY_HOURS), rules=(not_null("kind"), one_of("kind", "x", "y", "null"))),
        Shape(
            "interval_chained",
            "orders",
            ("k",),
            ("p",),
            joins=by_shop,
            select={**columns, "shop": col("shops.name"), "m": col("shops.m")},
            where=above(["coalesce", "payments.n", ["number", 1]], 0),
            rules=(one_of("shop", "x", "y", "null", ""),),
            change_feed=True,
        ),
        Shape(
            "interval_then_inner",
            "orders",
            ("k",),
            ("p",),
            joins={"payments": near("left", **BY_HOURS), "shops": fk("shops", "inner", col("orders.m"))},
            select={**columns, "shop": col("shops.name")},
        ),
    )
    return World("intervals", _tables(), shapes, {"k": (1, 3), "p": (2, 7), "o": (1, 2), "m": (1, 2)})
