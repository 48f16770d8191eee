"""The text of a row and the proof of a table as docs/proof.md tells them, in plain Python: what SQL is held against."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from enrich.base.spec import DataType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_row(row: Mapping[str, Any], kinds: Mapping[str, DataType]) -> bytes:
    """Return the text of a row; columns that it lacks are null."""
    found = b""
    for name in sorted(kinds, key=str.lower):
        value, label = row.get(name), name.lower().encode()
        if value is not None:
            found += b"%d:%s%s" % (len(label), label, write_value(value, kinds[name]))
    return found


def write_value(value: Any, kind: DataType) -> bytes:
    """Return the text of a value that is not null; times may be whole numbers, maps pairs."""
    if not isinstance(kind, str):
        match kind["type"]:
            case "struct":
                return b"(%s)" % write_row(value, {each["name"]: each["type"] for each in kind["fields"]})
            case "array":
                return b"[%s]" % b"".join(_write_element(each, kind["elementType"]) for each in value)
        pairs = value.items() if isinstance(value, Mapping) else value
        entries = [write_value(k, kind["keyType"]) + _write_element(v, kind["valueType"]) for k, v in pairs]
        return b"{%s}" % b"".join(sorted(entries))
    if kind == "string":
        text = value.encode() if isinstance(value, str) else bytes(value)
        return b"%d:%s" % (len(text), text)
    return _write_simple(value, kind).encode() + b";"


def _write_element(value: Any, kind: DataType) -> bytes:
    return b"-" if value is None else b"+" + write_value(value, kind)


def _write_simple(value: Any, kind: str) -> str:
    if kind == "boolean":
        return str(value).lower()
    if kind == "binary":
        return bytes(value).hex().upper()
    if kind in ("float", "double"):
        return _write_fraction(float(value))
    if kind == "date" and isinstance(value, date):
        return str((value - EPOCH.date()).days)
    if isinstance(value, datetime):
        return str((value.replace(tzinfo=value.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1))
    return f"{value:f}" if kind.startswith("decimal") else str(value)


def _write_fraction(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 2**-10 <= abs(value) < 2**53:
        return f"{math.trunc(value)}:{int((value - math.trunc(value)) * 2**62)}"
    head, _, exponent = value.hex().partition("p")
    whole, _, digits = head.partition(".")
    return f"{whole}.{digits.rstrip('0') or '0'}p{int(exponent)}"


def prove(rows: Iterable[Mapping[str, Any]], kinds: Mapping[str, DataType]) -> tuple[int, int, int]:
    """Return how many rows there are, and the sums of the two hashes of each."""
    digests = [hashlib.md5(write_row(row, kinds), usedforsecurity=False).digest() for row in rows]
    halves = [sum(int.from_bytes(each[at : at + 8], "big") for each in digests) % 2**64 for at in (0, 8)]
    return len(digests), halves[0], halves[1]
