"""The worlds: every kind of join and mirror, as tables and jobs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from differential.columns import TYPES, Column
from differential.expressions import above, coalesce, cols, fk, upper
from differential.spec import Expr, Join, Mirror, Scope, Shape, Table, World, col, not_null, one_of
from differential.worlds_of_chains import chains
from differential.worlds_of_histories import histories
from differential.worlds_of_intervals import intervals
from differential.worlds_of_logs import doubled, logs
from differential.worlds_of_references import foreign_key, foreign_key_composite, tree
from differential.worlds_of_times import times
from differential.worlds_of_versions import versions, versions_in_chains


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
    wide = cols("k=key", "name=a.name", "amount=a.amount", "mail=b.mail", "flags=b.flags", "tags=b.tags", "m=b.m")
    ids = cols("a_id=a.k", "b_id=b.k")
    three = cols("k=key", "name=a.name", "mail=b.mail", "d=c.d", "day=c.day", "at=c.at", "raw=c.raw", "ok=c.ok")
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
                    "up": upper("a.name"),
                    "either": coalesce("b.mail", "a.name"),
                    "r1": flag,
                },
                where=_where_pair(),
            ),
            Shape("alone", "a", ("k",), select=cols("k=a.k", "name=a.name", "amount=a.amount"), where=above("a.n", 0)),
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
    both = cols("k1=key.k1", "k2=key.k2", "name=ca.name", "x=cb.x", "y=cb.y")
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

    def by_ids(**rules: Any) -> Join:
        return Join("addresses", "list", elements=ids, **rules)

    def by_items(**rules: Any) -> Join:
        return Join("addresses", "list", elements=items, element_key="id", **rules)

    person = cols("p=persons.p", "name=persons.name")
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
                joins={"shops": fk("shops", "inner", col("persons.m")), "addresses": by_ids()},
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
        "dealers": fk("dealers", "left", col("extra.m")),
        "places": Join("places", "list", elements=col("base.ids", TYPES["ikeys"])),
    }
    select = cols("k=base.k", "name=base.name", "m=extra.m", "dealer=dealers.name")
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
                select=cols("k=extra.k", "dealer=up.dealer", "places=up.places"),
            ),
            Shape(
                "mixed_full",
                "base",
                ("k",),
                ("m",),
                joins={
                    "extra": Join("extra", "table", "full"),
                    "dealers": fk("dealers", "full", col("extra.m")),
                    "places": Join("places", "list", elements=col("base.ids", TYPES["ikeys"])),
                },
                select={
                    **cols("k=key", "name=base.name", "m=dealers.m", "dealer=dealers.name"),
                    "places": col("places"),
                },
            ),
            Shape("top", "on_mixed", ("k",), select=cols("k=on_mixed.k", "dealer=on_mixed.dealer")),
        ),
        {"k": (1, 4), "m": (1, 2), "a": (1, 4)},
    )


WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        *(
            _pair(),
            _pair_composite(),
            foreign_key(),
            foreign_key_composite(),
            _lists(),
            _mirrors(),
            _mixed(),
            tree(),
            chains(),
            versions(),
            versions_in_chains(),
            intervals(),
            histories(),
            times(),
            logs(),
            doubled(),
        ),
    )
}

ALWAYS: dict[str, World] = {
    name: WORLDS[name].only(*names)
    for name, names in {
        "pair": ("table_three", "table_mixed_hows"),
        "foreign_key": ("fk_full",),
        "lists": ("list_two",),
        "chains": ("back_by_full", "guarded"),
        "intervals": ("interval_chained",),
        "histories": ("past", "past_at"),
        "logs": ("log_full", "log_near", "log_past", "log_mirror"),
        "doubled": ("doubled_both", "doubled_near", "doubled_past"),
    }.items()
}
"""The jobs that random histories play in every `make test`; the soak plays all.

All that have kept histories are among these and those of ``test_planted.py``, most of whose histories have bugs.
"""

TIMED = ("times", "histories", "versions_in_chains", "intervals", "versions")
"""The worlds of joins in time, and of histories."""


def needed(world: World, shape: str) -> World:
    """Return ``world`` with the job ``shape`` and the jobs that it reads."""
    names, todo = set(), [shape]
    by_name = {s.name: s for s in world.shapes}
    while todo:
        name = todo.pop()
        if name in by_name and name not in names:
            names.add(name)
            todo.extend(by_name[name].aliases().values())
    return world.only(*names)
