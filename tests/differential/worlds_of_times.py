"""Tables for random jobs with joins in time; a key has the same name in every table."""

from __future__ import annotations

from differential.columns import Column
from differential.spec import Past, Shape, Table, World


def _key(name: str, nulls: float) -> Column:
    return Column(name, "key", name, nulls)


def _tables() -> tuple[Table, ...]:
    name, n, idle = Column("name", "text"), Column("n", "int", None, 0.1), Column("idle", "int")

    def events(table: str, key: str) -> Table:
        times = (
            *(Column("at", "moment"), Column("day", "day"), n, Column("b", "long", None, 0.1)),
            *(Column("d", "decimal"), Column("x", "tick"), Column("ids", "keys", "a")),
        )
        return Table(table, (key,), (_key(key, 0.03), _key("u", 0.1), _key("f", 0.2), *times, name, idle))

    since, gone = Column("since", "moment", None, 0.02), Column("gone", "bool", None, 0.3)
    return (
        events("calls", "e"),
        events("notes", "p"),
        Table(
            "accounts",
            ("u", "since"),
            (_key("u", 0.02), since, Column("until", "moment", None, 0.5), gone, _key("f", 0.2), n, name, idle),
        ),
        Table(
            "rates",
            ("f", "u", "n"),
            (_key("f", 0.02), _key("u", 0.02), Column("n", "code", "t", 0.02), Column("upto", "int", None, 0.5), name),
        ),
        Table("firms", ("f",), (_key("f", 0.02), name, _key("u", 0.2), n, idle)),
        Table("places", ("a",), (_key("a", 0.02), name)),
    )


def times() -> World:
    """Return the world."""
    past = Shape("firms_past", "firms", ("f", "valid_from"), past=Past(("name", "u", "n")), change_feed=True)
    pools = {"e": (1, 4), "p": (1, 4), "u": (1, 2), "f": (1, 2), "a": (1, 3), "t": (2, 5)}
    return World("times", _tables(), (past,), pools, anchor="a")
