"""The worlds: every kind of join and mirror, as tables and jobs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from differential.columns import TYPES, Column
from differential.spec import Expr, Join, Mirror, Scope, Shape, Table, World, col, not_null, one_of

TEXT, INT = pa.string(), pa.int32()


def _fk(table: str, how: str, *on: Expr) -> Join:
    return Join(table, "foreign_key", how, on)


def _cols(*paths: str) -> dict[str, Expr]:
    """Select columns: ``name=alias.column``."""
    return {name: col(path) for name, path in (p.split("=") for p in paths)}


def _upper(path: str) -> Expr:
    inner = col(path)

    def value(scope: Scope) -> Any:
        found = inner.fn(scope)
        return None if found is None else found.upper()

    return Expr(f"upper({path})", value, TEXT)


def _marked(path: str) -> Expr:
    inner = col(path)
    return Expr(
        f"concat({path}, '!')", lambda s: None if inner.fn(s) is None else f"{inner.fn(s)}!", TEXT, f"{path} || '!'"
    )


def _coalesce(path: str, other: str, type_: pa.DataType) -> Expr:
    first, second = col(path), col(other)
    return Expr(f"coalesce({path}, {other})", lambda s: second.fn(s) if first.fn(s) is None else first.fn(s), type_)


def _above(path: str, bound: int) -> Expr:
    inner = col(path)
    return Expr(f"{path} > {bound}", lambda s: None if inner.fn(s) is None else inner.fn(s) > bound)


def _pair() -> World:
    a = Table(
        "a",
        ("k",),
        (
            *(Column("k", "key", "k", 0.03), Column("name", "text"), Column("n", "int"), Column("amount", "double")),
            Column("idle", "int"),
        ),
    )
    b = Table(
        "b",
        ("k",),
        (
            *(Column("k", "key", "k", 0.03), Column("mail", "text"), Column("flags", "struct")),
            *(Column("tags", "array"), Column("m", "map"), Column("idle", "int")),
        ),
    )
    c = Table(
        "c",
        ("ck",),
        (
            *(Column("ck", "key", "k", 0.03), Column("d", "decimal"), Column("day", "date"), Column("at", "ts")),
            *(Column("raw", "binary"), Column("ok", "bool"), Column("big", "long")),
        ),
    )
    wide = _cols("k=key", "name=a.name", "amount=a.amount", "mail=b.mail", "flags=b.flags", "tags=b.tags", "m=b.m")
    ids = _cols("a_id=a.k", "b_id=b.k")
    three = _cols("k=key", "name=a.name", "mail=b.mail", "d=c.d", "day=c.day", "at=c.at", "raw=c.raw", "ok=c.ok")
    flag = Expr("b.m['r1']", lambda s: None if s["b"] is None else dict(s["b"]["m"] or {}).get("r1"), pa.bool_())
    return World(
        "pair",
        (a, b, c),
        (
            *(
                Shape(f"table_{how}", "a", ("k",), joins={"b": Join("b", "table", how)}, select={**wide, **ids})
                for how in ("inner", "left", "right")
            ),
            Shape(
                "table_full",
                "a",
                ("k",),
                joins={"b": Join("b", "table", "full")},
                select={**wide, **ids},
                change_feed=True,
            ),
            Shape(
                "table_three",
                "a",
                ("k",),
                joins={"b": Join("b", "table", "left"), "c": Join("c", "table", "full")},
                select={**three, "big": col("c.big")},
            ),
            Shape(
                "table_where",
                "a",
                ("k",),
                joins={"b": Join("b", "table", "full")},
                select={
                    "k": col("key"),
                    "up": _upper("a.name"),
                    "either": _coalesce("b.mail", "a.name", TEXT),
                    "r1": flag,
                },
                where=_where_pair(),
            ),
            Shape(
                "alone", "a", ("k",), select=_cols("k=a.k", "name=a.name", "amount=a.amount"), where=_above("a.n", 0)
            ),
            Shape(
                "table_gated",
                "a",
                ("k",),
                joins={"b": Join("b", "table", "full")},
                select={**wide, **ids},
                rules=(not_null("mail"), one_of("name", "", "x", "y", "null")),
                change_feed=True,
            ),
            Shape(
                "table_mixed_hows",
                "a",
                ("k",),
                joins={"b": Join("b", "table", "right"), "c": Join("c", "table", "inner")},
            ),
        ),
        {"k": (1, 6)},
    )


def _where_pair() -> Expr:
    def value(scope: Scope) -> bool:
        n = None if scope["a"] is None else scope["a"]["n"]
        return (1 if n is None else n) > 0

    return Expr("coalesce(a.n, 1) > 0", value)


def _pair_composite() -> World:
    a = Table(
        "ca",
        ("k1", "k2"),
        (
            Column("k1", "key", "k", 0.03),
            Column("k2", "code", "j", 0.03),
            Column("name", "text"),
            Column("idle", "int"),
        ),
    )
    b = Table(
        "cb",
        ("b2", "b1"),
        (Column("b1", "code", "j", 0.03), Column("b2", "key", "k", 0.03), Column("x", "array"), Column("y", "double")),
    )
    both = _cols("k1=key.k1", "k2=key.k2", "name=ca.name", "x=cb.x", "y=cb.y")
    return World(
        "pair_composite",
        (a, b),
        (
            Shape("composite_full", "ca", ("k1", "k2"), joins={"cb": Join("cb", "table", "full")}, select=both),
            Shape("composite_default", "ca", ("k1", "k2"), joins={"cb": Join("cb", "table", "left")}, change_feed=True),
            Shape("composite_inner", "ca", ("k1", "k2"), joins={"cb": Join("cb", "table", "inner")}, select=both),
            Shape("composite_right", "ca", ("k1", "k2"), joins={"cb": Join("cb", "table", "right")}),
        ),
        {"k": (1, 3), "j": (1, 3)},
    )


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


def _foreign_key() -> World:
    products, merchants, countries = _products()
    columns = _cols("p=products.p", "title=products.title", "m=products.m", "m_id=merchants.m", "name=merchants.name")
    to_m = col("products.m")
    chain = {"merchants": _fk("merchants", "left", to_m), "countries": _fk("countries", "left", col("merchants.c"))}
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
                    joins={"merchants": _fk("merchants", how, to_m)},
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
                select={**columns, "country": col("countries.name"), "land": _marked("merchants.c")},
                where=_above("products.price", 0),
            ),
            Shape(
                "fk_chained_full",
                "products",
                ("p",),
                ("merchants_m",),
                joins={
                    "merchants": _fk("merchants", "full", to_m),
                    "countries": _fk("countries", "left", col("merchants.c")),
                },
            ),
            Shape(
                "fk_gated",
                "products",
                ("p",),
                ("m_id",),
                joins={"merchants": _fk("merchants", "full", to_m)},
                select=columns,
                rules=(not_null("name"), one_of("title", "x", "y")),
            ),
            Shape(
                "fk_full_at_the_end",
                "products",
                ("p",),
                ("c_id",),
                joins={
                    "merchants": _fk("merchants", "inner", to_m),
                    "countries": _fk("countries", "full", col("merchants.c")),
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
                joins={"one": _fk("merchants", "left", to_m), "two": _fk("merchants", "inner", col("products.m2"))},
                select=_cols("p=products.p", "one=one.name", "two=two.name"),
            ),
            Shape(
                "fk_where_lookup",
                "products",
                ("p",),
                joins={"merchants": _fk("merchants", "inner", to_m)},
                select=_cols("p=products.p", "name=merchants.name"),
                where=Expr("merchants.c IS NOT NULL", lambda s: s["merchants"]["c"] is not None),
            ),
        ),
        {"p": (2, 12), "m": (1, 4), "c": (1, 2)},
    )


def _foreign_key_composite() -> World:
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
    line = _cols("o=lines.o", "pos=lines.pos", "q=lines.q")
    on = (col("lines.pb"), col("lines.pa"))
    either = _coalesce("lines.alt", "lines.o", TEXT)
    return World(
        "foreign_key_composite",
        (lines, parts, orders),
        (
            Shape(
                "fk_composite_full",
                "lines",
                ("o", "pos"),
                ("b", "a"),
                joins={"parts": _fk("parts", "full", *on)},
                select={**line, **_cols("a=parts.a", "b=parts.b", "label=parts.label")},
            ),
            Shape("fk_composite_default", "lines", ("o", "pos"), joins={"parts": _fk("parts", "inner", *on)}),
            Shape(
                "fk_part_of_key",
                "lines",
                ("o", "pos"),
                ("oo",),
                joins={"orders": _fk("orders", "right", col("lines.o"))},
                select={**line, **_cols("oo=orders.o", "at=orders.at")},
                change_feed=True,
            ),
            Shape(
                "fk_expression",
                "lines",
                ("o", "pos"),
                joins={"orders": _fk("orders", "inner", either)},
                select={**line, **_cols("at=orders.at")},
            ),
            Shape(
                "fk_nested",
                "lines",
                ("o", "pos"),
                joins={"orders": _fk("orders", "left", col("lines.ref.id")), "parts": _fk("parts", "left", *on)},
                select={**line, **_cols("at=orders.at", "since=lines.ref.since", "label=parts.label")},
            ),
        ),
        {"o": (1, 3), "i": (1, 3), "pa": (1, 2), "pb": (1, 2)},
    )


def _lists() -> World:
    persons = Table(
        "persons",
        ("p",),
        (
            *(Column("p", "key", "p", 0.03), Column("name", "text"), Column("ids", "keys", "a"), Column("idle", "int")),
            *(Column("items", "items", "a"), Column("m", "key", "m")),
        ),
    )
    addresses = Table(
        "addresses",
        ("a",),
        (Column("a", "key", "a", 0.03), Column("street", "text", None, 0.3), Column("zip", "int")),
    )
    merchants = Table("shops", ("m",), (Column("m", "key", "m", 0.03), Column("shop", "text")))
    ids, items = col("persons.ids", TYPES["keys"]), col("persons.items", TYPES["items"])

    def by_ids(**rules: str) -> Join:
        return Join("addresses", "list", elements=ids, **rules)

    def by_items(**rules: str) -> Join:
        return Join("addresses", "list", elements=items, element_key="id", **rules)

    person = _cols("p=persons.p", "name=persons.name")
    one = {**person, "list": col("addresses")}
    return World(
        "lists",
        (persons, addresses, merchants),
        (
            Shape("list_keep", "persons", ("p",), joins={"addresses": by_ids()}, select=one, change_feed=True),
            Shape("list_distinct", "persons", ("p",), joins={"addresses": by_ids(duplicates="drop")}, select=one),
            Shape("list_matched", "persons", ("p",), joins={"addresses": by_ids(unmatched="drop")}, select=one),
            Shape("list_structs", "persons", ("p",), joins={"addresses": by_items()}, select=one),
            Shape(
                "list_default", "persons", ("p",), joins={"addresses": by_items(duplicates="drop", unmatched="drop")}
            ),
            Shape(
                "list_two",
                "persons",
                ("p",),
                joins={"first": by_ids(), "second": by_items(unmatched="drop")},
                select={**person, "first": col("first"), "second": col("second")},
            ),
            Shape(
                "list_beside_fk",
                "persons",
                ("p",),
                joins={"shops": _fk("shops", "inner", col("persons.m")), "addresses": by_ids()},
                select={**one, "shop": col("shops.shop")},
            ),
        ),
        {"p": (1, 4), "a": (1, 5), "m": (1, 2)},
    )


def _mirrors() -> World:
    columns = (Column("k", "key", "k", 0.03), Column("v", "key", "v", 0.15), Column("at", "order", "t", 0.2))
    master = Table("master", ("k",), (*columns, Column("note", "text"), Column("idle", "int")))
    single = Table("single", ("k",), (*columns, Column("note", "text")), unique=(("v",),))
    pairs = Table(
        "pairs",
        ("k", "j"),
        (
            *(Column("k", "key", "k", 0.03), Column("j", "code", "j", 0.03), Column("v", "key", "v", 0.1)),
            *(Column("w", "code", "j", 0.1), Column("at", "order", "t", 0.2)),
        ),
    )
    noted = ("note", "at")
    return World(
        "mirrors",
        (master, single, pairs),
        (
            Shape("mirror_fail", "single", ("v",), mirror=Mirror(("v",), "fail", columns=("note",))),
            Shape("mirror_first", "master", ("v",), mirror=Mirror(("v",), "first", "at", noted)),
            Shape("mirror_last", "master", ("v",), mirror=Mirror(("v",), "last", "at"), change_feed=True),
            Shape("mirror_collect", "master", ("v",), mirror=Mirror(("v",), "collect")),
            Shape("mirror_by_key", "master", ("v",), mirror=Mirror(("v",), "last")),
            Shape("mirror_composite", "pairs", ("v", "w"), mirror=Mirror(("v", "w"), "first", "at")),
            Shape("mirror_composite_collect", "pairs", ("v", "w"), mirror=Mirror(("v", "w"), "collect")),
        ),
        {"k": (1, 5), "v": (1, 4), "t": (1, 3), "j": (1, 2)},
    )


def _mixed() -> World:
    base = Table(
        "base",
        ("k",),
        (Column("k", "key", "k", 0.03), Column("name", "text"), Column("ids", "ikeys", "a"), Column("idle", "int")),
    )
    extra = Table("extra", ("k",), (Column("k", "key", "k", 0.03), Column("m", "key", "m"), Column("idle", "int")))
    dealers = Table("dealers", ("m",), (Column("m", "key", "m", 0.03), Column("name", "text")))
    places = Table("places", ("a",), (Column("a", "ikey", "a", 0.03), Column("street", "text")))
    joins = {
        "extra": Join("extra", "table", "left"),
        "dealers": _fk("dealers", "left", col("extra.m")),
        "places": Join("places", "list", elements=col("base.ids", TYPES["ikeys"])),
    }
    select = _cols("k=base.k", "name=base.name", "m=extra.m", "dealer=dealers.name")
    return World(
        "mixed",
        (base, extra, dealers, places),
        (
            Shape("mixed", "base", ("k",), joins=joins, select={**select, "places": col("places")}, change_feed=True),
            Shape(
                "on_mixed",
                "extra",
                ("k",),
                joins={"up": Join("mixed", "table", "left")},
                select=_cols("k=extra.k", "dealer=up.dealer", "places=up.places"),
            ),
            Shape(
                "mixed_full",
                "base",
                ("k",),
                ("m",),
                joins={
                    "extra": Join("extra", "table", "full"),
                    "dealers": _fk("dealers", "full", col("extra.m")),
                    "places": Join("places", "list", elements=col("base.ids", TYPES["ikeys"])),
                },
                select={
                    **_cols("k=key", "name=base.name", "m=dealers.m", "dealer=dealers.name"),
                    "places": col("places"),
                },
            ),
            Shape("top", "on_mixed", ("k",), select=_cols("k=on_mixed.k", "dealer=on_mixed.dealer")),
        ),
        {"k": (1, 4), "m": (1, 2), "a": (1, 4)},
    )


def _tree() -> World:
    """One table under several aliases: rows that name their parent, and list their friends."""
    nodes = Table(
        "nodes",
        ("k",),
        (
            *(Column("k", "key", "k", 0.03), Column("up", "key", "k", 0.2), Column("name", "text", None, 0.3)),
            *(Column("friends", "keys", "k"), Column("idle", "int")),
        ),
    )
    up = {"parent": _fk("nodes", "left", col("nodes.up"))}
    return World(
        "tree",
        (nodes,),
        (
            Shape(
                "self_full",
                "nodes",
                ("k",),
                ("parent_k",),
                joins={"parent": _fk("nodes", "full", col("nodes.up"))},
                select=_cols("k=nodes.k", "name=nodes.name", "parent_k=parent.k", "parent=parent.name"),
                where=Expr("parent.name IS NOT NULL OR nodes.k IS NOT NULL", _has_a_name),
            ),
            Shape(
                "self_chained",
                "nodes",
                ("k",),
                joins={**up, "grand": _fk("nodes", "inner", col("parent.up"))},
                select=_cols("k=nodes.k", "parent=parent.name", "grand=grand.name"),
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


IN_MAKE_TEST = {
    "pair": ("table_right", "table_three", "table_where", "table_gated"),
    "pair_composite": ("composite_full",),
    "foreign_key": ("fk_right", "fk_chained", "fk_gated", "fk_full_at_the_end"),
    "foreign_key_composite": ("fk_composite_full", "fk_nested"),
    "lists": ("list_structs", "list_two"),
    "mirrors": ("mirror_first", "mirror_collect", "mirror_fail"),
    "mixed": ("mixed", "on_mixed", "mixed_full"),
    "tree": ("self_full", "self_chained"),
}
"""The jobs that random histories play in `make test`; the soak plays all."""

WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        *(
            _pair(),
            _pair_composite(),
            _foreign_key(),
            _foreign_key_composite(),
            _lists(),
            _mirrors(),
            _mixed(),
            _tree(),
        ),
    )
}
