"""Tables for chains of mixed joins, and the jobs of them that are always played; ``jobs`` makes random ones.

``zones`` is shared: its keys carry no history's number, so that a job can name one of them as a constant.
"""

from __future__ import annotations

from typing import Any

from differential.columns import Column
from differential.jobs import shape_of
from differential.spec import Table, World

ZONES = ("de", "fr", *(f"z{number:03d}" for number in range(300)))


def _tables() -> tuple[Table, ...]:
    name, n, idle = Column("name", "text"), Column("n", "int", None, 0.1), Column("idle", "int")
    z, ids = Column("z", "shared", "z", 0.35), Column("ids", "keys", "a")

    def key(name: str, pool: str, nulls: float) -> Column:
        return Column(name, "key", pool, nulls)

    def table(name: str, *columns: Column, is_shared: bool = False) -> Table:
        return Table(name, (columns[0].name,), columns, is_shared=is_shared, is_mapped=True)

    m, c = key("m", "m", 0.2), key("c", "c", 0.35)
    ref = Column("ref", "ref", "m", 0.2)
    return (
        table(
            "lines", key("k", "k", 0.04), key("up", "k", 0.3), m, c, z, ref, ids, name, n, Column("total", "int"), idle
        ),
        table("extra", key("k", "k", 0.02), m, c, name, n, idle),
        table("stock", key("k", "k", 0.0), m, z, ids, name, n, idle),
        table("makers", key("m", "m", 0.02), key("up", "m", 0.3), c, ids, name, n, idle),
        table("lands", key("c", "c", 0.02), z, name, n, idle),
        table("places", key("a", "a", 0.02), c, name, n, idle),
        table(
            "zones", Column("z", "shared", "z", 0.0), Column("up", "shared", "z", 0.3), name, n, idle, is_shared=True
        ),
    )


def _job(name: str, source: str, joins: dict[str, Any], select: dict[str, Any], **others: Any) -> dict[str, Any]:
    key = [each for each in select if each in ("k", "m")][:1]
    return {"name": name, "source": source, "key": key, "joins": joins, "select": select, **others}


def _table(table: str, how: str) -> dict[str, Any]:
    return {"table": table, "kind": "table", "how": how}


def _to(table: str, how: str, on: Any) -> dict[str, Any]:
    return {"table": table, "kind": "foreign_key", "how": how, "on": [on]}


_EITHER = ["coalesce", "lines.m", "stock.m"]
_GERMAN = ["coalesce", "lines.z", ["text", "de"]]
NAMED: tuple[dict[str, Any], ...] = (
    # A row that the first join removes comes back with the second one, and then the foreign key falls back.
    _job(
        "back_by_full",
        "lines",
        {
            "extra": _table("extra", "inner"),
            "stock": _table("stock", "full"),
            "makers": _to("makers", "left", _EITHER),
        },
        {"k": "key", "lines_k": "lines.k", "stock_k": "stock.k", "maker": "makers.name"},
        change_feed=True,
    ),
    _job(
        "back_before_lone",
        "lines",
        {
            "extra": _table("extra", "right"),
            "stock": _table("stock", "full"),
            "makers": _to("makers", "full", _EITHER),
        },
        {"k": "key", "makers_m": "makers.m", "maker": "makers.name", "name": "lines.name"},
        right_key=["makers_m"],
    ),
    # Rows that only a lookup has get a constant key.
    _job(
        "constant_after_chain",
        "lines",
        {
            "makers": _to("makers", "left", "lines.m"),
            "lands": _to("lands", "full", "makers.c"),
            "zones": _to("zones", "left", _GERMAN),
        },
        {"k": "lines.k", "lands_c": "lands.c", "land": "lands.name", "zone": "zones.name"},
        right_key=["lands_c"],
        change_feed=True,
    ),
    # As a query, a star: no other table lacks the columns that all sources have.
    _job(
        "starred",
        "back_by_full",
        {"extra": _table("extra", "left")},
        {
            "k": "key",
            **{name: f"back_by_full.{name}" for name in ("lines_k", "stock_k", "maker")},
            **{name: f"extra.{name}" for name in ("m", "c", "name", "n", "idle", "rid")},
        },
    ),
    # What a condition keeps out must not fail.
    _job(
        "guarded",
        "lines",
        {"makers": _to("makers", "left", ["if", ["above", "lines.n", 0], "lines.m", "lines.ref.id"])},
        {"k": "lines.k", "m": "makers.m", "name": "makers.name", "per": ["ratio", "lines.total", "lines.n"]},
        where=["above", "lines.n", 0],
        rules=[["not_null", "name"]],
    ),
    _job(
        "guarded_by_joins",
        "stock",
        {
            "extra": _table("extra", "inner"),
            "makers": _to("makers", "left", ["only_where", ["is_not_null", "extra.k"], "stock.m"]),
            "places": {
                "table": "places",
                "kind": "list",
                "elements": ["only_where", ["is_not_null", "extra.k"], "stock.ids"],
            },
        },
        {"k": "key", "maker": "makers.name", "places": "places"},
    ),
)
"""Jobs in JSON: the wrong cases that were known when these worlds were made, and what a condition guards."""


def chains() -> World:
    """Return the world with its named jobs."""
    pools = {"k": (1, 4), "m": (1, 3), "c": (1, 2), "a": (1, 4), "z": (1, 1)}
    shapes = tuple(shape_of(job) for job in NAMED)
    return World("chains", _tables(), shapes, pools, {"z": ZONES}, anchor="a")
