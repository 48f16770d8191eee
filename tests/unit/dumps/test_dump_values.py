"""What counts as a value of a type, in text, JSON and Arrow; and types as a command line declares them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from enrich.base.errors import ConfigError
from enrich.dumps.convert import convert_column, convert_texts, convert_values
from enrich.dumps.layout import make_schema, read_columns, split_columns
from enrich.dumps.stage import name_type

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
        (pa.binary(), {"ä": "ä".encode(), "": b"", "0x1": b"0x1", "x0a": b"x0a"}, []),
        (pa.binary(), {r"\x0a1b": b"\n\x1b", "0x0A1B": b"\n\x1b", r"\x": b"", "ä": "ä".encode(), "": b""}, []),
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
    found, bad = convert_values([{"x": "1"}, {}, {"2": "3"}], pa.map_(pa.int32(), pa.int64()))
    assert (found.to_pylist(), bad) == ([None, [], [(2, 3)]], [True, False, False])


@pytest.mark.parametrize(
    ("kind", "good", "half"),
    [
        (pa.string(), "a", "a\ud800"),
        (pa.int64(), "1", "\udfff"),
        (pa.list_(pa.string()), ["a"], ["\ud800", "a"]),
        (pa.struct([("a", pa.string())]), {"a": "a"}, {"a": "\ud800"}),
        (pa.struct([("a", pa.string())]), {"a": "a"}, {"\ud800": "a"}),
        (pa.map_(pa.string(), pa.string()), {"a": "a"}, {"\ud800": "a"}),
        (pa.map_(pa.string(), pa.string()), {"a": "a"}, {"a": "\ud800"}),
    ],
)
def test_half_a_character_is_no_text(kind: pa.DataType, good: Any, half: Any) -> None:
    found, bad = convert_values([good, half, None], kind)
    assert (bad, found.is_valid().to_pylist()[::2]) == ([False, True, False], [True, False])
    assert found[0].as_py() == convert_values([good], kind)[0][0].as_py()


def test_arrow_columns_convert_value_by_value() -> None:
    assert convert_column(pa.array([1.0, 1.5, None]), pa.int64()).to_pylist() == [1, None, None]
    assert convert_column(pa.array([10**9, 1], pa.timestamp("ns")), MOMENTS).to_pylist()[1] is None
    assert convert_column(pa.array(["1", "x"]).dictionary_encode(), pa.int64()).to_pylist() == [1, None]
    assert convert_column(pa.array([True]), pa.date32()).to_pylist() == [None]


BERLIN = pa.timestamp("us", "Europe/Berlin")
NOON, MIDNIGHT = datetime(2026, 1, 31, 12), datetime(2026, 1, 31)  # noqa: DTZ001 - timestamps without a zone
DAY = date(2026, 1, 31)


@pytest.mark.parametrize(
    ("old", "kind", "good", "bad"),
    [
        (pa.int64(), pa.decimal128(10, 2), {5: Decimal(5), -7: Decimal(-7)}, [10**8, 2**62]),
        (pa.int32(), pa.decimal128(4, 2), {99: Decimal(99)}, [100]),
        (pa.uint64(), pa.int64(), {5: 5}, [2**63]),
        (pa.int64(), pa.float64(), {2**53: 2.0**53}, [2**53 + 1]),
        (pa.int64(), pa.bool_(), {0: False, 1: True}, [2, -1]),
        (pa.int64(), MOMENTS, {}, [0]),
        (pa.int32(), pa.date32(), {}, [5]),
        (pa.float64(), pa.bool_(), {0.0: False, 1.0: True}, [1.5]),
        (pa.float64(), pa.int64(), {2.0: 2}, [2.5, 1e30, float("inf")]),
        (pa.float64(), pa.decimal128(10, 1), {1.2: Decimal("1.2"), 1e2: Decimal(100)}, [1.25, 1e10, float("inf")]),
        (pa.float64(), pa.float32(), {0.5: 0.5, float("inf"): float("inf")}, [1e300, -1e300]),
        (pa.decimal128(19, 2), pa.float64(), {Decimal("0.10"): 0.1}, [Decimal("12345678901234567.25")]),
        (pa.decimal256(60, 2), pa.decimal128(5, 1), {Decimal("0.10"): Decimal("0.1")}, [Decimal("0.15")]),
        (pa.timestamp("us"), pa.date32(), {MIDNIGHT: DAY}, [NOON]),
        (BERLIN, pa.date32(), {}, [NOON, MIDNIGHT]),
        (BERLIN, pa.timestamp("us"), {}, [NOON]),
        (BERLIN, MOMENTS, {NOON: NOON.replace(tzinfo=UTC)}, []),
        (pa.timestamp("us"), MOMENTS, {NOON: NOON.replace(tzinfo=UTC)}, []),
        (pa.date32(), pa.timestamp("us"), {DAY: MIDNIGHT}, []),
        (pa.time64("us"), pa.string(), {time(1, 2): "01:02:00.000000"}, []),
        (pa.large_binary(), pa.string(), {b"a": "a"}, [b"\xff"]),
        (pa.float16(), pa.float64(), {np.float16(0.5): 0.5}, []),
        (pa.string_view(), pa.int64(), {"5": 5}, ["x"]),
    ],
)
def test_arrow_values_are_kept_or_do_not_convert(
    old: pa.DataType, kind: pa.DataType, good: dict[Any, Any], bad: list[Any]
) -> None:
    found = convert_column(pa.array([*good, *bad, None], old), kind)
    assert (found.type, found.to_pylist()) == (kind, [*good.values(), *[None] * (len(bad) + 1)])


def test_a_number_of_floating_point_becomes_the_nearest_one() -> None:
    assert convert_column(pa.array([0.1]), pa.float32()).equals(pa.array([0.1], pa.float32()))


def test_an_arrow_struct_has_its_fields_by_name_and_no_others() -> None:
    column = pa.array([{"B": 1, "a": 1.0}, {"B": 1, "a": 1.5}, None, {"B": None, "a": None}])
    kind = pa.struct([("a", pa.int8()), ("b", pa.int64()), ("c", pa.string())])
    wanted = [{"a": 1, "b": 1, "c": None}, None, None, {"a": None, "b": None, "c": None}]
    assert convert_column(column, kind).to_pylist() == wanted
    assert convert_column(column, pa.struct([("a", pa.int64())])).to_pylist() == [None] * 4
    assert convert_column(column[1:], pa.list_(kind)).to_pylist() == [None] * 3


@pytest.mark.parametrize(
    "shape", [pa.list_, pa.large_list, pa.list_view, lambda kind: pa.list_(pa.field("element", kind, nullable=False))]
)
def test_an_arrow_list_is_lost_where_an_item_is(shape: Callable[[pa.DataType], pa.DataType]) -> None:
    column = pa.array([[1.0], [], None, [2.0, 2.5], [3.0, 4.0]], shape(pa.float64()))
    for cut in range(len(column)):
        found = convert_column(column[cut:], pa.list_(pa.int64()))
        found.validate(full=True)
        assert found.type == pa.list_(pa.int64())
        assert found.to_pylist() == [[1], [], None, None, [3, 4]][cut:]


def test_an_arrow_map_is_lost_where_a_key_or_an_item_is() -> None:
    pairs = [[(1, 1.0)], None, [(300, 1.0)], [], [(2, 1.5)], [(3, 2.0), (4, None)]]
    column = pa.array(pairs, pa.map_(pa.int32(), pa.float64()))
    for cut in range(len(column)):
        found = convert_column(column[cut:], pa.map_(pa.int8(), pa.int64()))
        found.validate(full=True)
        assert found.to_pylist() == [[(1, 1)], None, None, [], None, [(3, 2), (4, None)]][cut:]


def test_types_are_read_as_spark_sql_declares_them() -> None:
    found = read_columns("id bigint, at timestamp, amount decimal(10,2), tags array<string>, `a b` map<string, int>")
    assert list(found) == ["id", "at", "amount", "tags", "a b"]
    assert (found["id"], found["amount"]) == ("long", "decimal(10,2)")
    schema = make_schema(found)
    assert [name_type(each.type) for each in list(schema)[:3]] == ["bigint", "timestamp", "decimal(10,2)"]
    assert make_schema({"c": "string collate UTF8_LCASE"}).field("c").type == pa.string()


@pytest.mark.parametrize("text", ["id", "id nothing", "", "id int, ID string", "id int,"])
def test_types_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--types"):
        read_columns(text)


def test_a_column_that_no_dump_can_hold_is_named() -> None:
    with pytest.raises(ConfigError, match="column 'v' has a type that no dump can hold"):
        make_schema({"v": "variant"})
    schema, unfit = split_columns({"v": "variant", "id": "long", "n": "void"})
    assert (schema.names, unfit) == (["id"], ["v", "n"])
