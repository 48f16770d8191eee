"""The worlds of as-of joins: events with the versions of things that were valid at a moment."""

from __future__ import annotations

from differential.columns import Column
from differential.expressions import as_of, coalesce, cols, fk
from differential.spec import Shape, Table, World, col, not_null


def _tables() -> tuple[Table, ...]:
    clicks = Table(
        "clicks",
        ("e",),
        (
            *(Column("e", "key", "e", 0.02), Column("u", "key", "u", 0.1), Column("at", "code", "t", 0.1)),
            *(Column("d", "key", "d", 0.2), Column("n", "int"), Column("idle", "int")),
        ),
    )
    accounts = Table(
        "accounts",
        ("u", "since"),
        (
            *(Column("u", "key", "u", 0.02), Column("since", "code", "t", 0.02), Column("until", "code", "t", 0.4)),
            *(Column("mail", "text"), Column("gone", "bool", None, 0.3), Column("f", "key", "f", 0.2)),
            Column("idle", "int"),
        ),
    )
    devices = Table(
        "devices", ("d",), (Column("d", "key", "d", 0.02), Column("owner", "key", "u"), Column("made", "code", "t"))
    )
    firms = Table("firms", ("f",), (Column("f", "key", "f", 0.02), Column("name", "text")))
    rates = Table(
        "rates",
        ("f", "u", "since"),
        (
            *(Column("u", "key", "u", 0.02), Column("f", "key", "f", 0.02), Column("since", "code", "t", 0.02)),
            *(Column("rate", "decimal"), Column("until", "code", "t", 0.6)),
        ),
    )
    return clicks, accounts, devices, firms, rates


def versions() -> World:
    """Events and the versions of one table: few tables, so that their changes meet."""
    clicks, accounts, *_ = _tables()
    at, user, gone = col("clicks.at"), col("clicks.u"), col("accounts.gone")
    event = cols("e=clicks.e", "at=clicks.at", "n=clicks.n")
    mail = cols("mail=accounts.mail")
    return World(
        "versions",
        (clicks, accounts),
        (
            Shape(
                "as_of_all",
                "clicks",
                ("e",),
                joins={"accounts": as_of("accounts", "left", at, user, valid_to="until", gone=gone)},
                select={**event, **mail},
                change_feed=True,
            ),
            Shape(
                "as_of_inner",
                "clicks",
                ("e",),
                joins={"accounts": as_of("accounts", "inner", at, user, valid_to="until", inclusive=True)},
            ),
            Shape(
                "as_of_twice",
                "clicks",
                ("e",),
                joins={
                    "accounts": as_of("accounts", "left", at, user),
                    "before": as_of("accounts", "inner", col("accounts.until"), col("accounts.u")),
                },
                select={**event, **mail, **cols("before=before.mail")},
            ),
        ),
        {"e": (2, 12), "u": (1, 2), "t": (2, 8), "d": (1, 3), "f": (1, 2)},
    )


def versions_in_chains() -> World:
    """As-of joins behind and before other joins, and with several parts of a key."""
    at, user, gone = col("clicks.at"), col("clicks.u"), col("accounts.gone")
    event = cols("e=clicks.e", "at=clicks.at", "n=clicks.n")
    mail = cols("mail=accounts.mail")
    ends = as_of("accounts", "left", at, user, valid_to="until", gone=gone)
    return World(
        "versions_in_chains",
        _tables(),
        (
            Shape(
                "as_of_between",
                "clicks",
                ("e",),
                joins={
                    "devices": fk("devices", "inner", col("clicks.d")),
                    "accounts": as_of(
                        "accounts", "inner", coalesce("clicks.at", "devices.made"), col("devices.owner"), gone=gone
                    ),
                    "firms": fk("firms", "left", col("accounts.f")),
                },
                select={**event, **mail, **cols("since=accounts.since", "name=firms.name")},
            ),
            Shape(
                "as_of_composite",
                "clicks",
                ("e",),
                joins={
                    "accounts": ends,
                    "rates": as_of("rates", "left", at, col("accounts.f"), user, valid_to="until", inclusive=True),
                },
                rules=(not_null("rates_rate"),),
            ),
            Shape(
                "as_of_before_full",
                "clicks",
                ("e",),
                ("f",),
                joins={"accounts": ends, "firms": fk("firms", "full", col("accounts.f"))},
                select={**event, **mail, **cols("f=firms.f", "name=firms.name")},
            ),
            Shape(
                "as_of_behind_full",
                "clicks",
                ("e",),
                ("d",),
                joins={
                    "devices": fk("devices", "full", col("clicks.d")),
                    "accounts": as_of("accounts", "left", col("devices.made"), col("devices.owner"), valid_to="until"),
                },
                select={**event, **mail, **cols("d=devices.d", "since=accounts.since")},
            ),
        ),
        {"e": (2, 12), "u": (1, 3), "t": (2, 8), "d": (1, 3), "f": (1, 2)},
    )
