"""Spark is asked: what ``validate`` refuses without it, it refuses; and a type that is told is its type."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich import ConfigError
from enrich.base.schemas import build_struct, strip_type
from enrich.base.spec import DataType
from enrich.project.expressions import FUNCTIONS, ExpressionError, Scope, parse_expression
from enrich.project.expressions.functions import LAMBDAS, explain_function
from enrich.project.statictypes import check_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ASKED = 2_000 if os.environ.get("ENRICH_SOAK") else 60
"""How many expressions Spark is asked about, of those that are refused and of those whose type is told."""
AGGREGATES, WINDOWS, GENERATORS = "agg_funcs", "window_funcs", "generator_funcs"


def array(element: DataType) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(key: DataType, value: DataType) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


COLUMNS: dict[str, DataType] = {
    "b": "boolean", "by": "byte", "h": "short", "i": "integer", "l": "long", "f": "float", "d": "double",
    "c": "decimal(10,2)", "s": "string", "y": "binary", "dt": "date", "t": "timestamp", "n": "timestamp_ntz",
    "ai": array("integer"), "as": array("string"), "ad": array("date"), "ay": array("binary"),
    "aa": array(array("integer")), "ar": array(build_struct({"x": "integer", "z": "string"})),
    "ms": mapping("string", "integer"), "md": mapping("date", build_struct({"x": "date"})),
    "r": build_struct({"x": "integer", "w": build_struct({"v": "date"})}),
}  # fmt: skip
LITERALS = (
    *("1", "'a'", "true", "null", "1.5", "2L", "3D", "date '2026-01-01'", "timestamp '2026-01-01 00:00:00'", "x'00'"),
    *("'2026-01-01'", "'1'", "interval 1 day", "interval 2 months", "-1", "1e3", "7S"),
)
OPERATORS = ("=", "<", "<=>", "!=", *"+-*/%&|^", "div", "||", "<<", ">>", "and", "or", "like", "rlike")
CASTS = (
    "int",
    "string",
    "date",
    "boolean",
    "decimal(10,2)",
    "timestamp",
    "double",
    "binary",
    "bigint",
    "array<string>",
)
SPECIAL = {"cast", "try_cast", "extract", "from_json", "from_csv", "schema_of_json", "timestampadd", "timestampdiff"}
NAMES = sorted(FUNCTIONS - LAMBDAS - SPECIAL)
SCOPE = Scope(frozenset({"a"}))
FRAME: dict[str, DataType] = {"a": build_struct(COLUMNS)}


def make(chance: random.Random, depth: int) -> str:
    """Return an expression of any types; most do not go together."""

    def part() -> str:
        return make(chance, depth - 1)

    if depth == 0 or chance.random() < 0.2:
        return chance.choice(LITERALS) if chance.random() < 0.3 else f"a.`{chance.choice(list(COLUMNS))}`"
    forms = [
        lambda: f"({part()} {chance.choice(OPERATORS)} {part()})",
        lambda: f"({part()} {chance.choice(['', 'not '])}in ({part()}, {part()}))",
        lambda: f"({part()} between {part()} and {part()})",
        lambda: f"case when {part()} then {part()} else {part()} end",
        lambda: f"case {part()} when {part()} then {part()} end",
        lambda: f"{chance.choice(['cast', 'try_cast'])}({part()} as {chance.choice(CASTS)})",
        lambda: f"({part()})[{part()}]",
        lambda: f"({part()}).{chance.choice('xzvw')}",
        lambda: f"{chance.choice(['-', '~', 'not '])}({part()})",
        lambda: f"{chance.choice(['transform', 'filter', 'exists', 'forall'])}({part()}, q -> q = {part()})",
    ]
    name, count = chance.choice(NAMES), chance.choice([1, 1, 2, 2, 3])
    forms += [lambda: f"{name}({', '.join(part() for _ in range(count))})"] * 4
    return chance.choice(forms)()


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], T.StructType.fromJson(build_struct(FRAME)))


def check(text: str) -> tuple[DataType | None, str | None]:
    """Return what is known without Spark: a type, or why the expression is refused."""
    try:
        return check_types(FRAME, text), None
    except ConfigError as error:
        return None, str(error)


def find_type(frame: DataFrame, text: str) -> DataType | None:
    """Return the type that Spark gives an expression; None when it refuses it."""
    try:
        found: DataType = frame.select(F.expr(text).alias("x")).schema["x"].dataType.jsonValue()
    except PySparkException:
        return None
    return strip_type(found)


def test_spark_refuses_what_is_refused_and_types_what_is_typed(frame: DataFrame, seed: int) -> None:
    chance = random.Random(seed)
    refused, typed = 0, 0
    while min(refused, typed) < ASKED:
        text = make(chance, chance.choice([1, 1, 2, 2, 3]))
        try:
            parse_expression(text, SCOPE)
        except ExpressionError:
            continue
        kind, error = check(text)
        refused, typed = refused + (error is not None), typed + (kind is not None)
        if error is not None and refused <= ASKED:
            assert find_type(frame, text) is None, (text, error)
        if kind is not None and typed <= ASKED:
            assert find_type(frame, text) in (strip_type(kind), None), text


def test_every_function_that_is_no_scalar_is_known(spark: SparkSession) -> None:
    """What Spark calls aggregates, window functions and generators is refused as that."""
    catalog = spark._jsparkSession.sessionState().catalog()
    words = {AGGREGATES: "is an aggregate", WINDOWS: "is a window function", GENERATORS: "makes several rows"}
    missing = []
    for name in (row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()):
        known = explain_function(name)
        if name in FUNCTIONS or not name.isidentifier():
            continue
        identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)  # type: ignore[union-attr]
        try:
            group = catalog.lookupFunctionInfo(identifier).getGroup()
        except PySparkException:  # case, and functions of tables
            continue
        if group in words and (known is None or words[group] not in known[0]):
            missing.append(name)
    assert missing == []
