"""The worlds of sources whose rows depend on the others of their key: logs of events, and tables with doubled keys."""

from __future__ import annotations

from differential.columns import TYPES, Column
from differential.expressions import as_of, cols, fk
from differential.spec import Join, Mirror, Past, Shape, Table, World, col

_HOURS = ("-1h", "2h")


def logs() -> World:
    """Return the world of logs: events come late and again, are removed, and say that a key is gone.

    ``log_full`` and ``log_near`` have joins of all kinds between them, with a log on each side.
    Every job uses all columns of its logs: which of two events with one order wins depends on them.
    """
    people = Table(
        "people",
        ("p",),
        (
            *(Column("p", "key", "p", 0.03), Column("lsn", "order", "t", 0.1), Column("op", "text", None, 0.3)),
            *(Column("name", "text", None, 0.3), Column("m", "key", "m", 0.1)),
            *(Column("at", "moment"), Column("ids", "keys", "m")),
        ),
        order=("lsn",),
        gone=("op", "x"),
    )
    badges = Table(
        "badges",
        ("p",),
        (
            *(Column("p", "key", "p", 0.03), Column("lsn", "order", "t", 0.1)),
            *(Column("op", "text", None, 0.3), Column("n", "int")),
        ),
        order=("lsn",),
        gone=("op", "y"),
    )
    visits = Table(
        "visits",
        ("v",),
        (
            *(Column("v", "key", "v", 0.03), Column("lsn", "order", "t", 0.1), Column("op", "text", None, 0.3)),
            *(Column("m", "key", "m", 0.1), Column("ts", "moment")),
        ),
        order=("lsn",),
        gone=("op", "x"),
    )
    shops = Table(
        "shops",
        ("m",),
        (
            *(Column("m", "key", "m", 0.03), Column("seq", "code", "t", 0.1), Column("lsn", "order", "t", 0.1)),
            *(Column("op", "text", None, 0.3), Column("n", "int")),
        ),
        order=("lsn", "seq"),
        gone=("op", ""),
    )
    terms = Table(
        "terms",
        ("m", "since"),
        (
            Column("m", "key", "m", 0.03),
            Column("since", "moment"),
            Column("lsn", "order", "t", 0.1),
            Column("n", "int"),
        ),
        order=("lsn",),
    )
    baskets = Table(
        "baskets",
        ("b",),
        (
            *(Column("b", "key", "b", 0.03), Column("ids", "keys", "m"), Column("p", "key", "p")),
            *(Column("m", "key", "m"), Column("at", "moment")),
        ),
    )
    ids, m = col("baskets.ids", TYPES["keys"]), col("people.m")
    near = Join("visits", "interval", "full", (m,), at=col("people.at"), match=("m",), time="ts", between=_HOURS)
    return World(
        "logs",
        (people, badges, visits, shops, terms, baskets),
        (
            Shape(
                "log_full",
                "people",
                ("p",),
                ("shops_m",),
                joins={"badges": Join("badges", "table", "full"), "shops": fk("shops", "full", m)},
                change_feed=True,
            ),
            Shape(
                "log_near",
                "people",
                ("p",),
                ("visits_v",),
                joins={
                    "visits": near,
                    "terms": as_of("terms", "left", col("visits.ts"), m),
                    "shops": Join("shops", "list", elements=col("people.ids", TYPES["keys"])),
                },
                change_feed=True,
            ),
            Shape("log_left", "people", ("p",), joins={"shops": fk("shops", "left", m)}, change_feed=True),
            Shape("log_alone", "people", ("p",)),
            Shape("log_past", "people", ("p", "valid_from"), past=Past(), change_feed=True),
            Shape("log_mirror", "people", ("m",), mirror=Mirror(("m",), "first", "lsn", ("op", "name"))),
            Shape("log_pair", "shops", ("m",), joins={"other": Join("shops", "table", "inner")}),
            Shape(
                "log_lists",
                "baskets",
                ("b",),
                joins={
                    "people": fk("people", "left", col("baskets.p")),
                    "terms": as_of("terms", "left", col("baskets.at"), col("baskets.m")),
                    "shops": Join("shops", "list", elements=ids),
                },
                select={
                    **cols("b=baskets.b", "name=people.name", "op=people.op", "lsn=people.lsn", "m=people.m"),
                    **cols("n=terms.n", "since=terms.lsn"),
                    "shops": col("shops"),
                },
            ),
        ),
        {"p": (1, 4), "m": (1, 3), "t": (1, 3), "b": (1, 3), "v": (1, 4)},
    )


def doubled() -> World:
    """Return the world of tables in which keys are doubled now and then, and these rows are held."""
    things = Table(
        "things",
        ("k",),
        (
            *(Column("k", "key", "k", 0.03), Column("name", "text"), Column("m", "key", "m", 0.1)),
            *(Column("at", "moment"), Column("ids", "keys", "m"), Column("idle", "int")),
        ),
        holds=True,
    )
    hits = Table(
        "hits",
        ("v",),
        (Column("v", "key", "v", 0.03), Column("m", "key", "m", 0.1), Column("ts", "moment")),
        holds=True,
    )
    rates = Table(
        "rates",
        ("m", "since"),
        (Column("m", "key", "m", 0.03), Column("since", "moment"), Column("n", "int")),
        holds=True,
    )
    dealers = Table("dealers", ("m",), (Column("m", "key", "m", 0.03), Column("name", "text")), holds=True)
    extra = Table("extra", ("k",), (Column("k", "key", "k", 0.03), Column("n", "int")), holds=True)
    m = col("things.m")
    select = cols("k=things.k", "name=things.name", "m=things.m", "dealer=dealers.name", "n=extra.n")
    joins = {"extra": Join("extra", "table", "left"), "dealers": fk("dealers", "left", m)}
    in_time = {
        "hits": Join("hits", "interval", "full", (m,), at=col("things.at"), match=("m",), time="ts", between=_HOURS),
        "rates": as_of("rates", "left", col("hits.ts"), m),
        "dealers": Join("dealers", "list", elements=col("things.ids", TYPES["keys"])),
    }
    return World(
        "doubled",
        (things, dealers, extra, hits, rates),
        (
            Shape("doubled_both", "things", ("k",), joins=joins, select=select, change_feed=True),
            Shape("doubled_near", "things", ("k",), ("hits_v",), joins=in_time, change_feed=True),
            Shape("doubled_alone", "things", ("k",)),
            Shape("doubled_full", "things", ("k",), ("dealers_m",), joins={"dealers": fk("dealers", "full", m)}),
            Shape("doubled_past", "things", ("k", "valid_from"), past=Past(("name",))),
            Shape("doubled_mirror", "things", ("m",), mirror=Mirror(("m",), "collect")),
        ),
        {"k": (1, 4), "m": (1, 2), "v": (1, 4)},
    )
