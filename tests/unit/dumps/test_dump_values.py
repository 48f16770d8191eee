"""What counts as a value of a type, in text, JSON and Arrow; and types as a command line declares them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from enrich.base.errors import ConfigError
from enrich.compiler.ddl import read_columns
from enrich.dumps.convert import convert_column, convert_texts, convert_values
from enrich.dumps.stage import name_type
from enrich.storage.staging import make_arrow_schema

MOMENTS = pa.timestamp("us", "UTC")
MORNING = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.int64(), {"1": 1, "+2": 2, " -3 ": -3, "007": 7}, ["1.0", "x", "", "0x1F", "9" * 20, "1e3"]),
        (pa.int8(), {"127": 127}, ["128"]),
        (
            pa.decimal128(10, 2),
            {"1.10": Decimal("1.10"), "1.200": Decimal("1.20"), "1e2": Decimal(100), "-.5": Decimal("-0.50")},
            ["1.239", "123456789.00", "x", "", "nan"],
        ),
        (pa.float64(), {"1": 1.0, "+1.5": 1.5, "Infinity": float("inf"), ".5": 0.5}, ["1e999", "x", "", "1d", "0x1"]),
        (pa.bool_(), {"t": True, "F": False, "yes": True, "0": False, "TRUE": True}, ["x", "", "2"]),
        (pa.date32(), {"2026-01-31": date(2026, 1, 31)}, ["2026-02-30", "2026-1-1", "20260131", "31.01.2026", ""]),
        (
            MOMENTS,
            {
                "2026-01-31": datetime(2026, 1, 31, tzinfo=UTC),
                "2026-01-31 09:30": MORNING,
                "2026-01-31T09:30:00Z": MORNING,
                "2026-01-31 10:30:00+01": MORNING,
                "2026-01-31 10:30:00.000000000+01:00": MORNING,
                "2026-01-31 09:30:00 UTC": MORNING,
                "2026-01-31 11:30:00 +0200": MORNING,
                "2026-01-31 10:30+01:00": MORNING,
            },
            ["2026-01-31 25:00:00", "2026-01-31 09:30:00.123456789", "x", "", "09:30", "1769851800"],
        ),
        (pa.timestamp("us"), {"2026-01-31 09:30": MORNING.replace(tzinfo=None)}, ["2026-01-31T09:30:00Z", ""]),
        (pa.binary(), {"ä": "ä".encode()}, []),
        (pa.string(), {"": "", " a ": " a "}, []),
        (pa.list_(pa.int64()), {}, ["[1]"]),
    ],
)
def test_texts_convert_whole_or_not_at_all(kind: pa.DataType, good: dict[str, Any], bad: list[str]) -> None:
    texts = pa.array([*good, *bad, None], pa.string())
    assert convert_texts(texts, kind).to_pylist() == [*good.values(), *[None] * (len(bad) + 1)]


def test_nan_is_a_number() -> None:
    (found,) = convert_texts(pa.array(["NaN"]), pa.float64()).to_pylist()
    assert found != found  # noqa: PLR0124 - only NaN is not equal to itself


def test_nested_json_is_bad_where_a_part_is() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.bool_()))])
    found, bad = convert_values([{"a": "1", "b": [True, None]}, None, {"a": "x"}, {"c": "1"}, "q", {"b": ["?"]}], kind)
    assert bad == [False, False, True, True, True, True]
    assert found.to_pylist()[:2] == [{"a": 1, "b": [True, None]}, None]
    found, bad = convert_values([{"1": "2"}, None, {}, {"x": "1"}, []], pa.map_(pa.int32(), pa.int64()))
    assert (found.to_pylist()[:3], bad) == ([[(1, 2)], None, []], [False, False, False, True, True])
    found, bad = convert_values([{"x": "1"}, None], pa.map_(pa.int32(), pa.int64()))
    assert bad == [True, False]


def test_arrow_columns_convert_value_by_value() -> None:
    assert convert_column(pa.array([1.0, 1.5, None]), pa.int64()).to_pylist() == [1, None, None]
    assert convert_column(pa.array([10**9, 1], pa.timestamp("ns")), MOMENTS).to_pylist()[1] is None
    assert convert_column(pa.array(["1", "x"]).dictionary_encode(), pa.int64()).to_pylist() == [1, None]
    assert convert_column(pa.array([True]), pa.date32()).to_pylist() == [None]


def test_types_are_read_as_spark_sql_declares_them() -> None:
    found = read_columns("id bigint, at timestamp, amount decimal(10,2), tags array<string>, `a b` map<string, int>")
    assert list(found) == ["id", "at", "amount", "tags", "a b"]
    assert (found["id"], found["amount"]) == ("long", "decimal(10,2)")
    schema = make_arrow_schema(found)
    assert [name_type(each.type) for each in list(schema)[:3]] == ["bigint", "timestamp", "decimal(10,2)"]
    assert make_arrow_schema({"c": "string collate UTF8_LCASE"}).field("c").type == pa.string()


@pytest.mark.parametrize("text", ["id", "id nothing", "", "id int, ID string", "id int,"])
def test_types_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--types"):
        read_columns(text)


def test_a_column_that_no_dump_can_hold_is_named() -> None:
    with pytest.raises(ConfigError, match="column 'v' has a type that no dump can hold"):
        make_arrow_schema({"v": "variant"})
