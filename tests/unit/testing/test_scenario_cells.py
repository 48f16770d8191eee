"""The types of a scenario's cells."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from enrich.base.errors import ConfigError
from enrich.project.yamlfile import load_tree
from enrich.testing.cells import CellError, convert_cell, read_type


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", '"7"', "7"),
        ("string", "null", None),
        ("string", '"null"', "null"),
        ("string", '" a\\u200b"', " a\u200b"),
        ("string", '""', ""),
        ("string", "it's", "it's"),
        ("int", "7", 7),
        ("long", "-9223372036854775808", -(2**63)),
        ("double", "7", 7.0),
        ("float", "0.1", 0.10000000149011612),
        ("boolean", "true", True),
        ("decimal(10,2)", "1.5", Decimal("1.50")),
        ("decimal", '"12"', Decimal(12)),
        ("decimal(38,0)", '"12345678901234567890"', Decimal(12345678901234567890)),
        ("date", "2026-01-31", date(2026, 1, 31)),
        ("timestamp", "2026-01-31T12:00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("timestamp", "2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("timestamp_ntz", "2026-01-31T12:00:00", datetime(2026, 1, 31, 12)),  # noqa: DTZ001 - it has none
        ("binary", '"cafe"', b"\xca\xfe"),
        ("strings", "[a, null]", ["a", None]),
        ("flags", "{a: true}", [("a", True)]),
        ("map<int,string>", "{1: x}", [(1, "x")]),
        ("struct<a: int, `b c`: string>", "{a: 1}", {"a": 1, "b c": None}),
        ("array<struct<a: array<int>>>", "[{a: [1]}]", [{"a": [1]}]),
    ],
)
def test_cells_have_the_type_of_their_column(kind: str, text: str, value: Any) -> None:
    found = convert_cell(load_tree(f"[{text}]", "cell").value[0], read_type(kind))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "cell", "message"),
    [
        ("string", 7, "7 is not text; put it in quotes"),
        ("int", 7.0, "7.0 is not a whole number"),
        ("int", True, "True is not a whole number"),
        ("tinyint", 128, "not a whole number of type tinyint"),
        ("double", "7", "'7' is not a number"),
        ("double", True, "not a number"),
        ("boolean", 1, "not true or false"),
        ("boolean", "yes", "'yes' is not true or false"),
        ("decimal(3,1)", 1.25, "not a number of type decimal(3,1)"),
        ("decimal(3,1)", 100, "not a number of type decimal(3,1)"),
        ("decimal(3,1)", "x", "not a number of type decimal(3,1)"),
        ("date", "31.1.2026", "not a date, such as"),
        ("date", 2026, "not a date"),
        ("timestamp", "noon", "not a timestamp"),
        ("timestamp_ntz", "2026-01-31T12:00:00Z", "not a timestamp without offset"),
        ("binary", "x", "hexadecimal"),
        ("array<int>", 1, "not a list"),
        ("array<int>", ["x"], "not a whole number"),
        ("map<int,int>", {"x": 1}, "not a mapping with keys of type int"),
        ("flags", [1], "not a mapping of keys and values"),
        ("struct<street: string>", {"stret": "x"}, "no field 'stret'; did you mean 'street'?"),
    ],
)
def test_a_cell_of_another_type_is_refused(kind: str, cell: Any, message: str) -> None:
    with pytest.raises(CellError) as caught:
        convert_cell(cell, read_type(kind))
    assert message in str(caught.value)


def test_a_long_cell_is_cut_in_messages() -> None:
    with pytest.raises(CellError) as caught:
        convert_cell("x" * 1000, "long")
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    "kind", ["strng", "varchar(10)", "variant", "interval day", "string; drop", "array<>", "", "a.b"]
)
def test_an_unknown_type_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match="is not a type that a test can have"):
        read_type(kind)


def test_a_misspelt_type_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'string'"):
        read_type("strng")
