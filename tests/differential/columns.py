"""Columns of the generated tables: abstract values (small, JSON) and the typed cells that they become.

A history knows only abstract values. ``render`` turns one into a cell, and puts the history's number into every key
and every reference to a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

TAGS = (
    *(
        "a",
        "b",
        "c",
        "d",
        "fk",
        "fk1",
        "fk11",
        "Tombstone",
        "null",
        "NULL",
        "",
        " ",
        "  ",
        "a ",
        " a",
        "a|b",
        "|",
        "||",
    ),
    *("it's", '"q"', "`t`", "%", "_", "a%", "\\", "\\n", "\n", "\t", "A", "0", "00", "1e0", "NaN", "true", "--", ";"),
    *("\u00e9", "e\u0301", "\U0001f600", "\u200fx", "\u200bx", "\ufeffx", "\u0130", "\u00df", "ss", "${x}", "{}", "$"),
)
"""What follows the history's number in a text key: every pair of these is two different keys."""

NAN = float("nan")
HOUR, _NOON = 3_600_000_000, datetime(2026, 3, 29, 12, tzinfo=UTC)
DOMAINS: dict[str, tuple[Any, ...]] = {
    "text": ("", "x", "y", "null", "caf\u00e9", "cafe\u0301", " x", "Tombstone"),
    "int": (0, 1, 2, 3, -1, 2**31 - 1),
    "long": (0, 1, 2, -1, 2**63 - 1),
    "bool": (True, False),
    "double": (0.0, -0.0, NAN, 1.5, float("inf"), -1e300),
    "decimal": (Decimal("0.00"), Decimal("0.10"), Decimal("-1.25"), Decimal("99999999.99")),
    "date": (date(1970, 1, 1), date(2024, 2, 29), date(1899, 12, 31), date(9999, 12, 31)),
    "ts": (
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, 0, 2, tzinfo=UTC),
        datetime(1901, 12, 13, 20, 45, tzinfo=UTC),
    ),
    "moment": (
        *(_NOON + timedelta(microseconds=each) for each in (0, 1, HOUR, HOUR + 1, -HOUR, -HOUR - 1, 2 * HOUR)),
        *(datetime(1901, 12, 13, 20, 45, tzinfo=UTC), datetime(2261, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ),
    "day": (*(date(2024, 2, 28) + timedelta(days=each) for each in range(5)), date(1, 1, 1), date(9999, 12, 31)),
    "tick": (0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 2.5, NAN, float("inf"), -1e300),
    "binary": (b"", b"\x00", b"\x00\x00", b"\xff\xfe", b"x"),
    "struct": ({"a": 1, "b": "x"}, {"a": None, "b": "x"}, {"a": None, "b": None}, {"a": 1, "b": ""}),
    "array": ([], ["x"], ["x", None], [None], ["x", "y"], ["y", "x"]),
    "map": ({}, {"r1": True}, {"r1": False}, {"r1": True, "r2": None}, {"r2": None}),
}
TYPES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "decimal": pa.decimal128(10, 2),
    "date": pa.date32(),
    "ts": pa.timestamp("us", tz="UTC"),
    "moment": pa.timestamp("us", tz="UTC"),
    "day": pa.date32(),
    "tick": pa.float64(),
    "binary": pa.binary(),
    "struct": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "array": pa.list_(pa.string()),
    "map": pa.map_(pa.string(), pa.bool_()),
    "key": pa.string(),
    "shared": pa.string(),
    "ikey": pa.int64(),
    "code": pa.int32(),
    "order": pa.int64(),
    "keys": pa.list_(pa.string()),
    "ikeys": pa.list_(pa.int64()),
    "items": pa.list_(pa.struct([("id", pa.string()), ("note", pa.string()), ("n", pa.int32())])),
    "ref": pa.struct([("id", pa.string()), ("since", pa.int32())]),
    "key_int": pa.int32(),
    "key_decimal": pa.decimal128(12, 2),
    "key_date": pa.date32(),
    "key_ts": pa.timestamp("us", tz="UTC"),
    "key_binary": pa.binary(),
}
_DAY, _INSTANT = date(1, 1, 1), datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Column:
    """One column of a generated table.

    Attributes:
        kind: A name of ``TYPES``. ``key``, ``ikey``, ``keys``, ``ikeys``, ``items`` and ``ref`` hold the
            number of the history; ``shared`` holds a key that all histories share.
        pool: The set of keys that the column takes its values from; None for plain values.
        nulls: Share of nulls among new values.
    """

    name: str
    kind: str
    pool: str | None = None
    nulls: float = 0.15

    @property
    def type(self) -> pa.DataType:
        """The column's Arrow type."""
        return TYPES[self.kind]


NUMBER_LENGTH = 7
"""How many characters of a text key are the number of its history."""
SHARED = 99_999
"""The number of the history of tables that all histories share: of its rows' identities, not of their keys."""


def render_key(tag: Any, history: int) -> str | None:
    """Return the text key of ``tag`` in one history."""
    return None if tag is None else f"h{history:05d}|{tag}"


def render(kind: str, value: Any, history: int) -> Any:
    """Return the cell that the abstract ``value`` stands for in ``history``."""
    if value is None:
        return None
    if kind == "key":
        return render_key(value, history)
    if kind.startswith("key_") or kind == "ikey":
        return _typed_key(kind, history, value)
    if kind == "keys":
        return [render_key(tag, history) for tag in value]
    if kind == "ikeys":
        return [None if tag is None else history * 1000 + tag for tag in value]
    if kind == "items":
        return [None if item is None else _item(item, history) for item in value]
    if kind == "ref":
        return {"id": render_key(value[0], history), "since": value[1]}
    return DOMAINS[kind][value] if kind in DOMAINS else value


def _typed_key(kind: str, history: int, value: int) -> Any:
    number = history * 1000 + value
    makers: dict[str, Callable[[], Any]] = {
        "ikey": lambda: number,
        "key_int": lambda: number,
        "key_decimal": lambda: Decimal(number) / 100,
        "key_date": lambda: _DAY + timedelta(days=number),
        "key_ts": lambda: _INSTANT + timedelta(microseconds=number),
        "key_binary": lambda: render_key("", history).encode() + bytes([0, value, 0xFF]),  # type: ignore[union-attr]
    }
    return makers[kind]()


def _item(item: list[Any], history: int) -> dict[str, Any]:
    tag, note, number = item
    return {"id": render_key(tag, history), "note": None if note is None else f"n{note}", "n": number}


_NUMBERED = re.compile(r"h(\d{5})\|")


def history_of(cell: Any) -> int | None:
    """Return the number of the history that a key cell belongs to; None for cells that do not tell."""
    if isinstance(cell, str):
        match = _NUMBERED.match(cell)
        return int(match[1]) if match else None
    if isinstance(cell, bytes):
        return int(cell[1:6])
    if isinstance(cell, Decimal):
        return int(cell * 100) // 1000
    if isinstance(cell, datetime):
        return (cell - _INSTANT) // timedelta(microseconds=1) // 1000
    if isinstance(cell, date):
        return (cell - _DAY).days // 1000
    return cell // 1000 if isinstance(cell, int) and not isinstance(cell, bool) else None


def without_number(cell: Any) -> Any:
    """Return a cell with the histories' numbers taken out of its text keys, at any depth."""
    if isinstance(cell, str):
        return _NUMBERED.sub("", cell)
    if isinstance(cell, list):
        return [without_number(item) for item in cell]
    if isinstance(cell, dict):
        return {name: without_number(value) for name, value in cell.items()}
    return cell
