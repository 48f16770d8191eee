"""The text of a row is the same in Spark, in DuckDB and in Python, whatever the row holds."""

from __future__ import annotations

import math
import os
import random
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from enrich.base.rowforms import DUCKDB, SPARK, write_query, write_row
from enrich.base.spec import DataType
from enrich.frames import columns
from kit import rowforms
from kit.counts import COUNTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = [
    "",
    "a",
    "A",
    "'",
    "''",
    '"',
    "\\",
    "\\'",
    "`",
    "é",
    "e\u0301",
    "🎈",
    "\0",
    "\n",
    "1:a",
    ";",
    ")",
    "]}",
    "-",
    "+",
    "x" * 300,
    "İ",
]
NAMES = [
    "id",
    "Name",
    "ein Wert",
    "q'uote",
    'q"uote',
    "back\\slash",
    "dotted.name",
    "é",
    "日本",
    "select",
    "x" * 40,
    "a",
    "b",
    "B2",
    "{x}",
]
FRACTIONS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    1 / 3,
    1e16,
    2.0**53 + 2,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    2.225073858507201e-308,
]
FRACTIONS += [math.nextafter(end, to) for end in (2.0**-10, 2.0**53) for to in (0.0, end, math.inf)]
FRACTIONS += [-each for each in FRACTIONS[-6:]]
FRACTIONS += [
    1.7976931348623157e308,
    math.inf,
    -math.inf,
    math.nan,
    -math.nan,
    2e-3,
    2.0**-1074 * 3,
    1e22,
    9007199254740993.0,
    0.5,
]
FRACTIONS += [math.nextafter(2.0**n, side) for n in (0, 3, 29, 1000, -5, -500, -1021) for side in (0, math.inf)]
DAYS = [0, -1, 1, -719162, 2932896, 18262, -141427, -141428]
MICROS = [
    0,
    -1,
    1,
    999_999,
    -62_135_596_800_000_000,
    253_402_300_799_999_999,
    1_774_745_999_999_999,
    -12_219_292_800_000_001,
]
SIMPLE = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def make_type(rng: random.Random, depth: int = 0) -> tuple[DataType, pa.DataType]:
    """Return a random type, as Delta and as Arrow have it."""
    decimals = [(1, 0), (1, 1), (10, 2), (18, 18), (38, 0), (38, 10), (38, 38)]
    simple = [*SIMPLE.items(), *((f"decimal({p},{s})", pa.decimal128(p, s)) for p, s in decimals)]
    if depth == 3 or rng.random() < (0.5 if depth else 0.6):
        return rng.choice(simple)
    match rng.choice(["struct", "array", "map"]):
        case "array":
            kind, arrow = make_type(rng, depth + 1)
            return {"type": "array", "elementType": kind, "containsNull": True}, pa.list_(arrow)
        case "map":
            key, value = (
                rng.choice([each for each in simple if each[0] not in ("float", "double")]),
                make_type(rng, depth + 1),
            )
            kind = {"type": "map", "keyType": key[0], "valueType": value[0], "valueContainsNull": True}
            return kind, pa.map_(key[1], value[1])
    fields = {name: make_type(rng, depth + 1) for name in rng.sample(NAMES, rng.randint(1, 3))}
    listed = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, (kind, _) in fields.items()]
    return {"type": "struct", "fields": listed}, pa.struct([(name, arrow) for name, (_, arrow) in fields.items()])


def make_value(rng: random.Random, kind: DataType) -> Any:
    """Return a value of a type, as Arrow takes it: times are whole numbers."""
    if rng.random() < 0.15:
        return None
    if isinstance(kind, str):
        return make_simple(rng, kind)
    match kind["type"]:
        case "struct":
            return {each["name"]: make_value(rng, each["type"]) for each in kind["fields"]}
        case "array":
            return [make_value(rng, kind["elementType"]) for _ in range(rng.choice([0, 1, 2, 3]))]
    pairs: dict[Any, Any] = {}
    for _ in range(rng.choice([0, 1, 2, 4])):
        pairs.setdefault(make_simple(rng, kind["keyType"]), make_value(rng, kind["valueType"]))
    return list(pairs.items())


def make_simple(rng: random.Random, kind: str) -> Any:
    if kind.startswith("decimal"):
        precision, scale = map(int, kind[8:-1].split(","))
        most = 10**precision - 1
        unscaled = rng.choice([0, 1, -1, most, -most, rng.randint(-most, most), min(most, 50)])
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    bits = {"byte": 8, "short": 16, "integer": 32, "long": 64}
    if kind in bits:
        least = -(2 ** (bits[kind] - 1))
        return rng.choice([0, 1, -1, least, -least - 1, rng.randint(least, -least - 1)])
    fraction = rng.choice(FRACTIONS) if rng.random() < 0.7 else struct.unpack("<d", rng.randbytes(8))[0]
    single: float = struct.unpack("<f", rng.randbytes(4))[0]
    return {
        "boolean": rng.random() < 0.5,
        "double": fraction,
        "float": rng.choice([single, 0.0, -0.0, math.nan, math.inf, 0.5, 1.401298464324817e-45]),
        "date": rng.choice([*DAYS, rng.randint(-719162, 2932896)]),
        "string": "".join(rng.choices(TEXTS, k=rng.choice([1, 1, 2]))),
        "binary": rng.choice([b"", b"\0", b"a", rng.randbytes(5)]),
    }.get(kind, rng.choice([*MICROS, rng.randint(MICROS[4], MICROS[5])]))


def make_table(rng: random.Random, rows: int) -> tuple[dict[str, DataType], list[dict[str, Any]], pa.Table]:
    """Return random columns, rows of them with other values each, and the same as a table."""
    chosen = {name: make_type(rng) for name in rng.sample(NAMES, rng.randint(1, 6))}
    kinds = {name: kind for name, (kind, _) in chosen.items()}
    values = [{name: make_value(rng, kind) for name, kind in kinds.items()} for _ in range(rows)]
    columns = [pa.array([row[name] for row in values], arrow) for name, (_, arrow) in chosen.items()]
    return kinds, values, pa.table(columns, names=list(chosen))


def open_duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def test_three_engines_write_one_text(spark: SparkSession, pytestconfig: pytest.Config) -> None:
    cells, seed = 0, os.environ["ENRICH_TEST_SEED"]
    for number in range(25):
        kinds, rows, table = make_table(random.Random(f"rowforms/{seed}/{number}"), 60)
        expected = [rowforms.write_row(row, kinds) for row in rows]
        frame = spark.createDataFrame(table)
        assert {each.name: each.dataType.simpleString() for each in frame.schema}.keys() == kinds.keys()
        in_spark = [bytes(each[0]) for each in frame.selectExpr(f"CAST({write_row(kinds, SPARK)} AS BINARY)").collect()]
        in_duckdb = open_duckdb().sql(f'SELECT {write_row(kinds, DUCKDB)} FROM "table"').fetchall()
        for found in (in_spark, [each[0].encode() for each in in_duckdb]):
            wrong = [(want, got, row) for want, got, row in zip(expected, found, rows, strict=True) if want != got]
            assert wrong == [], (number, kinds, wrong[0])
        cells += 2 * len(rows) * len(kinds)
    pytestconfig.stash[COUNTED]["cells written in Spark, DuckDB and Python"] = f"{cells}"


def test_the_sums_of_all_rows(spark: SparkSession, tmp_path: Any) -> None:
    kinds, rows, table = make_table(random.Random("sums"), 300)
    expected = rowforms.prove(rows, kinds)
    spark.createDataFrame(table).createOrReplaceTempView("rows_to_prove")
    told = spark.sql(write_query(kinds, SPARK, "rows_to_prove")).first()
    assert told is not None
    assert tuple(map(int, told)) == expected
    assert tuple(map(int, open_duckdb().sql(write_query(kinds, DUCKDB, '"table"')).fetchall()[0])) == expected
    spark.catalog.dropTempView("rows_to_prove")


@pytest.mark.parametrize("digest", ["binary", "string"])
def test_both_ways_to_sum_give_the_numbers_of_the_query(spark: SparkSession, digest: str) -> None:
    """By classes that Spark has, which give bytes, and by functions of SQL alone where it has others."""
    kinds, rows, table = make_table(random.Random("ways"), 300)
    frame, of_functions = spark.createDataFrame(table), columns._hash_text.__wrapped__(None)
    with pytest.MonkeyPatch.context() as patch:
        if digest == "string":
            patch.setattr(columns, "_hash_text", lambda _: of_functions)
        hashed = columns.hash_rows(frame, write_row, list(kinds))
        text = spark.sql(f"SELECT 'a' AS {columns._HASH}")
        assert text.select(columns._hash_text(spark._jvm)[0]).schema[0].dataType.simpleString() == digest
    count, *parts = columns.aggregate(hashed, "count(*)", *(f"sum({part})" for part in columns.PARTS))
    assert columns.read_proof(count, parts) == rowforms.prove(rows, kinds)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([{"a": "1", "b": None}], [{"a": None, "b": "1"}]),
        ([{"a": "x1:by", "b": None}], [{"a": "x", "b": "y"}]),
        ([{"a": "", "b": ""}], [{"a": "", "b": None}]),
        ([{"a": "1"}, {"a": "2"}], [{"a": "1"}, {"a": "1"}]),
        ([{"a": "1"}], [{"a": "1"}, {"a": "1"}]),
        ([{"a": "1", "b": "2"}, {"a": "3", "b": "4"}], [{"a": "1", "b": "4"}, {"a": "3", "b": "2"}]),
    ],
)
def test_other_rows_have_other_sums(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> None:
    kinds: dict[str, DataType] = {"a": "string", "b": "string"}
    assert rowforms.prove(one, kinds) != rowforms.prove(two, kinds)


def test_an_empty_column_and_another_order_change_no_sum() -> None:
    rows: list[dict[str, Any]] = [{"id": 7, "name": "Ann"}, {"id": 8, "name": None}]
    narrow: dict[str, DataType] = {"id": "integer", "name": "string"}
    assert rowforms.write_row(rows[0], narrow) == b"2:id7;4:name3:Ann"
    wide: dict[str, DataType] = {"paid": "date", "Name": "string", "id": "long"}
    again = [{"id": row["id"], "Name": row["name"]} for row in reversed(rows)]
    assert rowforms.prove(rows, narrow) == rowforms.prove(again, wide)
