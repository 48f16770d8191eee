"""The world of histories: what tables said and when, and jobs that join these versions in the same run."""

from __future__ import annotations

from typing import Any

from differential.columns import Column
from differential.expressions import as_of, cols, fk
from differential.spec import Past, Rule, Shape, Table, World, col, not_null, one_of


def _tables() -> tuple[Table, ...]:
    things = Table(
        "things",
        ("k",),
        (
            *(Column("k", "key", "k", 0.03), Column("name", "text"), Column("amount", "double")),
            *(Column("flags", "struct"), Column("tags", "array"), Column("m", "map"), Column("owner", "key", "o", 0.2)),
            Column("idle", "int"),
        ),
    )
    pairs = Table(
        "pairs",
        ("k", "j"),
        (Column("k", "key", "k", 0.03), Column("j", "code", "j", 0.03), Column("raw", "binary"), Column("n", "int")),
    )
    events = Table(
        "events",
        ("e",),
        (Column("e", "key", "e", 0.02), Column("k", "key", "k", 0.1), Column("at", "moment"), Column("idle", "int")),
    )
    owners = Table("owners", ("o",), (Column("o", "key", "o", 0.02), Column("name", "text", None, 0.3)))
    return things, pairs, events, owners


def is_null(column: str) -> Rule:
    """Find rows wanting that have a value in ``column``."""
    return Rule("expect_column_values_to_be_null", column, lambda row: row[column] is not None)


def histories() -> World:
    """Return the world."""
    at, key = col("events.at"), col("events.k")

    def past(name: str, *columns: str, source: str = "things", **others: Any) -> Shape:
        names = {each: others.pop(each) for each in ("valid_from", "valid_to", "on_delete") if each in others}
        made = Past(columns or None, **names)
        keys = ("k", "j") if source == "pairs" else ("k",)
        return Shape(name, source, (*keys, made.valid_from), past=made, **others)

    told = as_of("past", "left", at, key, valid_to="valid_to")
    shapes = (
        past("past", "name", "amount", "owner", change_feed=True),
        past("past_whole"),
        past("past_nested", "flags", "tags", "m", valid_from="since", valid_to="upto", change_feed=True),
        past("past_of_pairs", source="pairs"),
        past("past_gated", "name", rules=(one_of("name", "x", "y", "null", ""),)),
        past("past_without_open", "name", "owner", rules=(not_null("valid_to"),), is_trusted=True),
        past("past_erased", "name", "owner", rules=(is_null("valid_to"),), change_feed=True, on_delete="erase"),
        Shape(
            "past_at",
            "events",
            ("e",),
            joins={"past": told, "owners": fk("owners", "left", col("past.owner"))},
            select=cols("e=events.e", "at=events.at", "name=past.name", "since=past.valid_from", "owner=owners.name"),
            change_feed=True,
        ),
        Shape(
            "past_twice",
            "events",
            ("e",),
            joins={
                "past": told,
                "before": as_of("past_without_open", "inner", col("past.valid_from"), col("past.k")),
            },
            select=cols("e=events.e", "name=past.name", "was=before.name", "upto=before.valid_to"),
        ),
    )
    return World("histories", _tables(), shapes, {"k": (1, 4), "j": (1, 2), "e": (2, 8), "o": (1, 2)})
