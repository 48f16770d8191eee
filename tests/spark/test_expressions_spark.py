"""Spark's own view of the accepted expressions and of the allowed functions."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import ParseException

from enrich.expressions import FUNCTIONS, ExpressionError, Scope, check_condition, parse_expression
from enrich.expressions.functions import words
from enrich.expressions.lexer import tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = Path(__file__).parents[1] / "unit" / "test_expressions_accepted.txt"
TEXTS = [line.rpartition(" ##")[0] for line in CASES.read_text("utf-8").splitlines() if not line.startswith("#")]
SCOPE = Scope(frozenset({"a", "b", "user", "consents"}), frozenset({"addresses"}), key=True)

# In Spark's grammar, and so in no list of its functions.
SYNTAX = {"timestampadd", "timestampdiff", "try_cast"}

COMMON = "s string, i int, dt date, d double"
ITEMS = "array<struct<name: string, n: int, subs: array<struct<z: int>>>>"
SCHEMA = f"""
    a struct<{COMMON}, j int, f boolean, ts timestamp, s2 string, xs array<int>, ys array<int>, items {ITEMS},
      m map<string, string>, mi map<string, int>, st struct<x: int, y: struct<z: string>>,
      `c.d` int, `e``f` int, `größe` int, order int, `end` int, `select` int, js string, url string>,
    b struct<{COMMON}>, user struct<id: int, user: string, current_date: string>,
    consents struct<consents: map<string, boolean>>, key struct<id: int, part: string>,
    addresses array<struct<id: int, street: string, city: string>>
"""


def row(n: int) -> tuple[Any, ...]:
    """One row without a null in it, so that whatever an expression reads shows in its value."""
    day, moment = dt.date(2024, 2, 27 + n), dt.datetime(2024, 2, 3, 12, n, tzinfo=dt.UTC)
    items = [("p", n, [(n,), (7,)]), ("q", 3, [(5,)])]
    a = ("x,y" * n, n, day, n + 0.25, n + 1, n == 1, moment, "2024-02-29", [n, 2, 3], [5, n], items)
    a += ({"k": "v", "x,y" * n: "w"}, {"x": n, "y": 4}, (n, ("deep",)), 10 + n, 20 + n, 30 + n, 40 + n, 50 + n, 60 + n)
    a += (f'{{"p": {n}}}', f"https://host{n}/path")
    b = ("x" * n, 3 - n, dt.date(2023, 12, n), n * 2.5)
    return (a, b, (n, "me", "c"), ({"retargeter2": n == 1},), (n, "part"), [(n, "street", "city"), (9, "road", "town")])


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([row(1), row(2)], SCHEMA).coalesce(1).cache()


def without(sides: DataFrame, paths: frozenset[tuple[str, ...]]) -> DataFrame:
    """Put null into every column, two levels deep, that is not in ``paths``."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    kept = {path[:2] for path in paths}
    columns = []
    for field in sides.schema:
        whole = (field.name,) in kept or (
            not isinstance(field.dataType, StructType) and any(field.name == k[0] for k in kept)
        )
        if whole or not isinstance(field.dataType, StructType):
            columns.append(F.col(field.name) if whole else F.lit(None).cast(field.dataType).alias(field.name))
            continue
        parts = []
        for part in field.dataType:
            quoted = "`" + part.name.replace("`", "``") + "`"
            value = F.col(f"`{field.name}`.{quoted}") if (field.name, part.name) in kept else F.lit(None)
            parts.append(value.cast(part.dataType).alias(part.name))
        columns.append(F.struct(*parts).alias(field.name))
    return sides.select(*columns)


def values(sides: DataFrame, *texts: str) -> list[list[str]]:
    """Evaluate the texts in one job; a list of the rows' values for each."""
    from pyspark.sql import functions as F

    results = sides.select(*[F.expr(text).alias(f"r{at}") for at, text in enumerate(texts)])
    assert results._jdf.queryExecution().analyzed().deterministic()
    rows = results.collect()
    return [[repr(row[at]) for row in rows] for at in range(len(texts))]


def values_without(sides: DataFrame, kept: dict[str, frozenset[tuple[str, ...]]]) -> dict[str, list[str]]:
    """Evaluate each text over nulls in all columns but its own ``kept`` ones; texts that keep the same share a job."""
    groups: dict[frozenset[tuple[str, ...]], list[str]] = {}
    for text, paths in kept.items():
        groups.setdefault(frozenset(path[:2] for path in paths), []).append(text)
    found = {}
    for paths, texts in groups.items():
        found.update(zip(texts, values(without(sides, paths), *texts), strict=True))
    return found


@pytest.fixture(scope="module")
def expected(sides: DataFrame) -> dict[str, list[str]]:
    return dict(zip(TEXTS, values(sides, *TEXTS), strict=True))


def test_spark_reads_the_claimed_columns_and_no_other(sides: DataFrame, expected: dict[str, list[str]]) -> None:
    assert values_without(sides, {text: parse_expression(text, SCOPE).paths for text in TEXTS}) == expected


def test_canonical_text_means_the_same(sides: DataFrame, expected: dict[str, list[str]]) -> None:
    canonicals = [parse_expression(text, SCOPE).canonical for text in TEXTS]
    assert dict(zip(TEXTS, values(sides, *canonicals), strict=True)) == expected


def test_a_column_left_out_of_the_claim_would_show(sides: DataFrame, expected: dict[str, list[str]]) -> None:
    """The comparison above can fail: for most expressions, nulls in one claimed column change the value."""
    less: dict[str, frozenset[tuple[str, ...]]] = {}
    for text in TEXTS[::2]:
        paths = parse_expression(text, SCOPE).paths
        if paths:
            less[text] = paths - {min(paths)}
    unseen = [text for text, found in values_without(sides, less).items() if found == expected[text]]
    assert len(less) >= 70
    assert len(unseen) <= len(less) / 8, unseen


KEYWORDS = sorted(
    words(
        """
        end.x case.x from.x interval.x date.x when.x like.x in distinct.x escape.x any.x not.x x.y not - ! is null like
        between and or case when then else end from date interval 'x' 1 day ( ) [ ] . , -> :: as int key addresses any
        all escape distinct true both leading +
        """
    )
)
HOSTILE = Scope(
    words("a b user consents end case not from interval date when like distinct escape any x"),
    words("addresses in"),
    key=True,
)


def mutants(seed: int, count: int) -> Iterator[str]:
    """Yield accepted texts with pieces put in, taken out and exchanged at random."""
    rng = random.Random(seed)
    pool = [[token.text for token in tokenize(text)[:-1]] for text in TEXTS]
    for _ in range(count):
        pieces = list(rng.choice(pool))
        for _ in range(rng.randint(1, 4)):
            at, other = rng.randrange(len(pieces) + 1), rng.choice(pool)
            start, end = sorted((rng.randrange(len(other) + 1), rng.randrange(len(other) + 1)))
            new = rng.choice([[rng.choice(KEYWORDS)], [rng.choice(KEYWORDS)], [], other[start:end]])
            pieces[at : at + rng.randint(0, 1)] = new
        yield " ".join(pieces)


def nodes(expression: Any) -> Iterator[Any]:
    yield expression
    children = expression.children().iterator()
    while children.hasNext():
        yield from nodes(children.next())


def test_spark_parses_mutants_to_the_claimed_names_and_functions(spark: SparkSession) -> None:
    """Aliases that are keywords, keywords where names stand: Spark and the grammar must see the same references."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    parsed = 0
    for text in mutants(seed=20_000, count=40_000):
        try:
            paths = parse_expression(text, HOSTILE).paths
            found = list(nodes(parser.parseExpression(text)))
        except (ExpressionError, ParseException):
            continue
        parsed += 1
        for node in found:
            kind = node.getClass().getSimpleName()
            assert not kind.endswith(("Subquery", "ListQuery", "Exists", "WindowExpression", "UnresolvedStar")), text
            if kind in ("UnresolvedAttribute", "UnresolvedFunction"):
                name = tuple(node.nameParts().mkString("\n").split("\n"))
                if kind == "UnresolvedFunction":
                    assert len(name) == 1, text
                    assert name[0].lower() in FUNCTIONS | {"between", "not"}, text
                else:  # Spark takes (a.x).y for a.x.y
                    assert any(name[: len(path)] == path for path in paths), (text, name)
    assert parsed >= 300


def test_every_allowed_function_is_one_of_spark(spark: SparkSession) -> None:
    known = {name for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert FUNCTIONS - known == SYNTAX


def test_no_allowed_function_is_aggregate_generator_window_or_known_as_non_deterministic(spark: SparkSession) -> None:
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    refused = {}
    for name in sorted(FUNCTIONS - SYNTAX):
        info = catalog.lookupFunctionInfo(identifier(name))
        if info.getGroup() in ("agg_funcs", "window_funcs", "generator_funcs") or "non-deterministic" in info.getNote():
            refused[name] = (info.getGroup(), info.getNote())
    assert refused == {}
    assert "non-deterministic" in catalog.lookupFunctionInfo(identifier("rand")).getNote()
    assert catalog.lookupFunctionInfo(identifier("sum")).getGroup() == "agg_funcs"


def test_bare_names_like_functions_are_columns_when_there_is_such_a_column(spark: SparkSession) -> None:
    """`check_condition` lets the names of columns through, whatever Spark calls so otherwise."""
    names = [
        "current_date",
        "current_user",
        "user",
        "session_user",
        "order",
        "group",
        "left",
        "values",
        "window",
        "table",
    ]
    rows = spark.range(1).selectExpr(*[f"'mine' as `{name}`" for name in names])
    for name in names:
        condition = check_condition(f"{name} = 'mine'", names)
        assert values(rows, condition.text) == [["True"]], name


@pytest.mark.parametrize(
    "text",
    [
        "'${spark.app.name}' = 'x'",  # the substitution before parsing
        "a.dt < 'today'",  # the present time in a mere comparison
        "cast('n\\ow' as date) = a.dt",  # and behind an escape
        "`reflect`('java.lang.Math', 'abs', 1) = '1'",  # a call of a name in backticks
        "(select max(id) from range(3)) = 2",  # a query is an expression
        "unix_timestamp() > 0",  # the present time in a function that is otherwise allowed
        "`current_user` = 'x'",  # a name in backticks that is no column
        "a.s !> 'x'",  # an operator that sqlglot does not know
    ],
)
def test_what_is_refused_here_would_run_in_spark(sides: DataFrame, text: str) -> None:
    """Characterisation: these refusals are needed. When Spark stops to take such a text, we want to know."""
    from pyspark.sql import functions as F

    assert len(sides.select(F.expr(text)).collect()) == 2
    with pytest.raises(ExpressionError):
        parse_expression(text, SCOPE)


def test_limits_are_below_those_of_spark(sides: DataFrame) -> None:
    longest = ["+".join(["a.i"] * 500), "abs(" * 30 + "a.i" + ")" * 30, "(" * 30 + "a.i" + ")" * 30]
    for text in longest:
        parse_expression(text, SCOPE)
    assert all(len(found) == 2 for found in values(sides, *longest))


def test_decimal_literals_keep_their_type(sides: DataFrame) -> None:
    assert values(sides, parse_expression("1.5BD", SCOPE).canonical) == [[repr(Decimal("1.5"))] * 2]
