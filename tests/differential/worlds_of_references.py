"""Worlds of foreign keys: plain, chained, composite, by expression, and within one table."""

from __future__ import annotations

from differential.columns import TYPES, Column
from differential.expressions import above, coalesce, cols, fk, marked
from differential.spec import Expr, Join, Scope, Shape, Table, World, col, not_null, one_of


def _products() -> tuple[Table, Table, Table]:
    products = Table(
        "products",
        ("p",),
        (
            *(Column("p", "key", "p", 0.02), Column("title", "text"), Column("price", "int"), Column("idle", "int")),
            *(Column("m", "key", "m", 0.2), Column("m2", "key", "m", 0.3)),
        ),
    )
    merchants = Table(
        "merchants",
        ("m",),
        (
            Column("m", "key", "m", 0.02),
            Column("name", "text", None, 0.3),
            Column("c", "key", "c"),
            Column("idle", "int"),
        ),
    )
    countries = Table("countries", ("c",), (Column("c", "key", "c", 0.02), Column("name", "struct")))
    return products, merchants, countries


def foreign_key() -> World:
    products, merchants, countries = _products()
    columns = cols("p=products.p", "title=products.title", "m=products.m", "m_id=merchants.m", "name=merchants.name")
    to_m = col("products.m")
    chain = {"merchants": fk("merchants", "left", to_m), "countries": fk("countries", "left", col("merchants.c"))}
    return World(
        "foreign_key",
        (products, merchants, countries),
        (
            *(
                Shape(
                    f"fk_{how}",
                    "products",
                    ("p",),
                    ("m_id",) if how in ("right", "full") else (),
                    joins={"merchants": fk("merchants", how, to_m)},
                    select=columns,
                    change_feed=how in ("left", "full"),
                    cluster_by=("m", "p") if how == "left" else (),
                )
                for how in ("inner", "left", "right", "full")
            ),
            Shape(
                "fk_chained",
                "products",
                ("p",),
                joins=chain,
                select={**columns, "country": col("countries.name"), "land": marked("merchants.c")},
                where=above("products.price", 0),
            ),
            Shape(
                "fk_chained_full",
                "products",
                ("p",),
                ("merchants_m",),
                joins={
                    "merchants": fk("merchants", "full", to_m),
                    "countries": fk("countries", "left", col("merchants.c")),
                },
            ),
            Shape(
                "fk_gated",
                "products",
                ("p",),
                ("m_id",),
                joins={"merchants": fk("merchants", "full", to_m)},
                select=columns,
                rules=(not_null("name"), one_of("title", "x", "y")),
            ),
            Shape(
                "fk_full_at_the_end",
                "products",
                ("p",),
                ("c_id",),
                joins={
                    "merchants": fk("merchants", "inner", to_m),
                    "countries": fk("countries", "full", col("merchants.c")),
                },
                select={
                    "p": col("products.p"),
                    "m": col("merchants.name"),
                    "c_id": col("countries.c"),
                    "c": col("countries.name"),
                },
            ),
            Shape(
                "fk_twice",
                "products",
                ("p",),
                joins={"one": fk("merchants", "left", to_m), "two": fk("merchants", "inner", col("products.m2"))},
                select=cols("p=products.p", "one=one.name", "two=two.name"),
            ),
            Shape(
                "fk_where_lookup",
                "products",
                ("p",),
                joins={"merchants": fk("merchants", "inner", to_m)},
                select=cols("p=products.p", "name=merchants.name"),
                where=Expr(
                    "merchants.c IS NOT NULL", lambda s: s["merchants"] is not None and s["merchants"]["c"] is not None
                ),
            ),
        ),
        {"p": (2, 12), "m": (1, 4), "c": (1, 2)},
    )


def foreign_key_composite() -> World:
    lines = Table(
        "lines",
        ("o", "pos"),
        (
            *(Column("o", "key", "o", 0.03), Column("pos", "code", "i", 0.03), Column("q", "int")),
            *(Column("pa", "key", "pa"), Column("pb", "code", "pb"), Column("alt", "key", "o", 0.5)),
            Column("ref", "ref", "o", 0.2),
        ),
    )
    parts = Table(
        "parts", ("b", "a"), (Column("a", "key", "pa", 0.03), Column("b", "code", "pb", 0.03), Column("label", "text"))
    )
    orders = Table("orders", ("o",), (Column("o", "key", "o", 0.03), Column("at", "ts"), Column("idle", "int")))
    line = cols("o=lines.o", "pos=lines.pos", "q=lines.q")
    on = (col("lines.pb"), col("lines.pa"))
    either = coalesce("lines.alt", "lines.o")
    return World(
        "foreign_key_composite",
        (lines, parts, orders),
        (
            Shape(
                "fk_composite_full",
                "lines",
                ("o", "pos"),
                ("b", "a"),
                joins={"parts": fk("parts", "full", *on)},
                select={**line, **cols("a=parts.a", "b=parts.b", "label=parts.label")},
            ),
            Shape("fk_composite_default", "lines", ("o", "pos"), joins={"parts": fk("parts", "inner", *on)}),
            Shape(
                "fk_part_of_key",
                "lines",
                ("o", "pos"),
                ("oo",),
                joins={"orders": fk("orders", "right", col("lines.o"))},
                select={**line, **cols("oo=orders.o", "at=orders.at")},
                change_feed=True,
            ),
            Shape(
                "fk_expression",
                "lines",
                ("o", "pos"),
                joins={"orders": fk("orders", "inner", either)},
                select={**line, **cols("at=orders.at")},
            ),
            Shape(
                "fk_nested",
                "lines",
                ("o", "pos"),
                joins={"orders": fk("orders", "left", col("lines.ref.id")), "parts": fk("parts", "left", *on)},
                select={**line, **cols("at=orders.at", "since=lines.ref.since", "label=parts.label")},
            ),
        ),
        {"o": (1, 3), "i": (1, 3), "pa": (1, 2), "pb": (1, 2)},
    )


def tree() -> World:
    """One table under several aliases: rows that name their parent, and list their friends."""
    nodes = Table(
        "nodes",
        ("k",),
        (
            *(Column("k", "key", "k", 0.03), Column("up", "key", "k", 0.2), Column("name", "text", None, 0.3)),
            *(Column("friends", "keys", "k"), Column("idle", "int")),
        ),
    )
    up = {"parent": fk("nodes", "left", col("nodes.up"))}
    return World(
        "tree",
        (nodes,),
        (
            Shape(
                "self_full",
                "nodes",
                ("k",),
                ("parent_k",),
                joins={"parent": fk("nodes", "full", col("nodes.up"))},
                select=cols("k=nodes.k", "name=nodes.name", "parent_k=parent.k", "parent=parent.name"),
                where=Expr("parent.name IS NOT NULL OR nodes.k IS NOT NULL", _has_a_name),
            ),
            Shape(
                "self_chained",
                "nodes",
                ("k",),
                joins={**up, "grand": fk("nodes", "inner", col("parent.up"))},
                select=cols("k=nodes.k", "parent=parent.name", "grand=grand.name"),
                change_feed=True,
            ),
            Shape(
                "self_list",
                "nodes",
                ("k",),
                joins={"known": Join("nodes", "list", elements=col("nodes.friends", TYPES["keys"]))},
                select={"k": col("nodes.k"), "friends": col("known")},
            ),
        ),
        {"k": (2, 8)},
    )


def _has_a_name(scope: Scope) -> bool:
    named = scope["parent"] is not None and scope["parent"]["name"] is not None
    return named or scope["nodes"] is not None
