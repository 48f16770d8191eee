"""Spark's own view of the accepted expressions and of the allowed functions."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException

from enrich.delta.sink import hold_settings
from enrich.project.expressions import FUNCTIONS, ExpressionError, Scope, check_condition, parse_expression
from enrich.project.expressions.functions import split_words
from enrich.project.expressions.lexer import tokenize
from kit.session import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MUTANTS = 40_000 if os.environ.get("ENRICH_SOAK") else 10_000
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
    a: tuple[Any, ...] = ("x,y" * n, n, day, n + 0.25, n + 1, n == 1, moment, "2024-02-29", [n, 2, 3], [5, n], items)
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


def values(sides: DataFrame, *texts: str, how: Mapping[str, str] = INTERPRETED) -> list[list[str]]:
    """Evaluate the texts in one job; a list of the rows' values for each."""
    from pyspark.sql import functions as F

    with hold_settings(sides.sparkSession, how):
        results = sides.select(*[F.expr(text).alias(f"r{at}") for at, text in enumerate(texts)])
        assert results._jdf.queryExecution().analyzed().deterministic()
        rows = results.collect()
    return [[repr(row[at]) for row in rows] for at in range(len(texts))]


def values_without(sides: DataFrame, kept: dict[str, frozenset[tuple[str, ...]]]) -> dict[str, list[str]]:
    """Evaluate each text over nulls in all columns but its own ``kept`` ones; texts that keep the same share a job."""
    groups: dict[frozenset[tuple[str, ...]], list[str]] = {}
    for text, paths in kept.items():
        groups.setdefault(frozenset(path[:2] for path in paths), []).append(text)
    found: dict[str, list[str]] = {}
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
    split_words(
        """
        end.x case.x from.x interval.x date.x when.x like.x in distinct.x escape.x any.x not.x x.y not - ! is null like
        between and or case when then else end from date interval 'x' 1 day ( ) [ ] . , -> :: as int key addresses any
        all escape distinct true both leading +
        """
    )
)
HOSTILE = Scope(
    split_words("a b user consents end case not from interval date when like distinct escape any x"),
    split_words("addresses in"),
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
    for text in mutants(seed=20_000, count=MUTANTS):
        try:
            paths = parse_expression(text, HOSTILE).paths
            found = list(nodes(parser.parseExpression(text)))
        except (
            ExpressionError,
            ParseException,
            IllegalArgumentException,
            Py4JJavaError,
        ):  # Spark's parser computes, too
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
    assert parsed >= MUTANTS / 133


def test_every_allowed_function_is_one_of_spark(spark: SparkSession) -> None:
    known = {name for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert FUNCTIONS - known == SYNTAX


def test_no_allowed_function_is_aggregate_generator_window_or_known_as_non_deterministic(spark: SparkSession) -> None:
    catalog = spark._jsparkSession.sessionState().catalog()
    jvm: Any = spark._jvm
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
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


TODAYS = [
    "'to' || 'day'",
    "lower('TO' || 'DAY')",
    "reverse('yadot')",
    "array_join(array('to', 'day'), '')",
    "split('today,x', ',')[0]",
    "cast(x'746F646179' as string)",
    "decode(unhex('746F646179'), 'utf-8')",
    "cast(unhex('746F646179') as string)",
    "string(unhex('746F646179'))",
    "string(unhex(hex('today')))",
    "coalesce(x'746F646179', '')",
    "nvl(unhex('746F646179'), '')",
    """get_json_object('{"d": "today"}', '$.d')""",
    "from_csv('today', 'd string').d",
    "str_to_map('d:today')['d']",
    "conv('49845850', 10, 36)",
    "date_format(date '2024-01-01', \"'today'\")",
    "parse_url('https://host/today', 'PATH')",
    "'tod' || substr(typeof(a.i), 1, 0) || 'ay'",
]
"""Texts that Spark can compute without a row. All but one are ``today``, the other shows that a test can tell."""

WRAPPED = [
    "{}", "({})", "concat({}, '')", "trim({} || ' ')", "cast({} as string)", "substr({}, 1, 5)", "left({}, 9)",
    "array({}, 'x')[0]", "named_struct('d', {}).d", "map('d', {})['d']", "coalesce({}, 'x')", "if(true, {}, 'x')",
    "cast(array({}) as array<string>)[0]", "cast(struct({} as v) as struct<v:string>).v",
    "case when true then {} else 'x' end", "nvl({}, 'x')", "element_at(array({}), 1)", "greatest({}, '')",
]  # fmt: skip
"""What leaves such a text as it is."""

BESIDE_DATES = [
    "cast({} as date)", "try_cast({} as timestamp)", "({})::timestamp_ntz", "date({})", "timestamp({})",
    "to_date({})", "to_timestamp({})", "try_to_timestamp({})", "to_timestamp_ntz({})", "year({})", "hour({})",
    "dayname({})", "date_add({}, a.i)", "datediff(a.dt, {})", "months_between(a.ts, {})", "date_format({}, 'yyyy')",
    "trunc({}, 'month')", "date_trunc('day', {})", "last_day({})", "next_day({}, 'mon')", "extract(year from {})",
    "date_part('year', {})", "timestampadd(day, 1, {})", "timestampdiff(day, a.dt, {})",
    "from_utc_timestamp({}, 'UTC')", "convert_timezone('UTC', {})", "sequence({}, a.dt)", "a.dt < ({})",
    "({}) <=> a.ts", "a.dt in (a.dt, {})", "a.dt between ({}) and a.dt", "a.dt is distinct from ({})",
    "a.dt - ({})", "({}) + interval 1 day", "coalesce(a.dt, {})", "if(a.f, a.dt, {})", "nvl2(a.i, {}, a.dt)",
    "decode(a.i, 1, {}, a.dt)", "case when a.f then a.dt else {} end", "case a.dt when {} then 1 end",
    "array(a.dt, {})[1]", "map('x', a.dt, 'y', {})", "map(a.dt, 1)[{}]", "nullif(a.dt, {})",
    "transform(a.xs, x -> cast({} as date))", "try_add({}, interval 1 day)", "least(a.ts, {})",
    "equal_null(a.dt, {})", "(a.dt, a.i) in (({}, 1))", "struct(a.dt) = struct({})", "element_at(map(a.dt, 1), {})",
    "concat(array(a.dt), array({}))", "array_contains(array(a.dt), {})",
    "cast(transform(array({}), x -> x)[0] as date)", "date_from_unix_date({})", "a.dt like ({})", "concat(a.s, {})",
    "hash(a.dt, {})", "a.s = ({})",
]  # fmt: skip
"""Places where Spark casts a text to a date or a timestamp, and some where it does not, or refuses."""


def takes_the_clock(sides: DataFrame, text: str) -> bool:
    """Tell whether Spark puts the time of the run into an expression; false when it refuses the expression."""
    from pyspark.sql import functions as F

    rules = sides.sparkSession._jvm.org.apache.spark.sql.catalyst.optimizer  # type: ignore[union-attr]
    try:
        plan = sides.select(F.expr(text))._jdf.queryExecution().analyzed()
        plain = rules.ReplaceExpressions.apply(plan)
        return not rules.SpecialDatetimeValues.apply(plain).fastEquals(plain)
    except (AnalysisException, Py4JJavaError):
        return False


def test_no_accepted_expression_takes_the_clock(sides: DataFrame) -> None:
    rng = random.Random(20_260_101)
    texts = [place.format(text) for place in BESIDE_DATES for text in TODAYS[:1]]
    texts += [BESIDE_DATES[0].format(wrapped.format(text)) for wrapped in WRAPPED for text in TODAYS[:1]]
    texts += [BESIDE_DATES[0].format(text) for text in TODAYS]
    for _ in range(150):
        text = rng.choice(TODAYS)
        for wrapped in rng.choices(WRAPPED, k=rng.randint(0, 3)):
            text = wrapped.format(text)
        texts.append(rng.choice(BESIDE_DATES).format(text))
    clocks = [text for text in dict.fromkeys(texts) if takes_the_clock(sides, text)]
    assert len(clocks) >= 150
    accepted = []
    for text in clocks:
        try:
            parse_expression(text, SCOPE)
        except ExpressionError:
            continue
        accepted.append(text)
    assert accepted == []


def test_a_columns_text_is_never_the_clock(sides: DataFrame) -> None:
    """What the guard stands on: Spark knows the word in texts that need no row, and in no others."""
    for text in ("concat('to', 'day')", "'to' || substr(a.s, 1, 0) || 'day'"):
        assert takes_the_clock(sides, f"cast({text} as date)") is ("a.s" not in text)
    parse_expression("cast('to' || substr(a.s, 1, 0) || 'day' as date)", SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        "'${spark.app.name}' = 'x'",  # the substitution before parsing
        "a.dt < 'today'",  # the present time in a mere comparison
        "a.dt < 'today Europe/Berlin'",  # and with a time zone
        "a.dt < 'to' || 'day'",  # and put together
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
    assert all(len(found) == 2 for how in ({}, INTERPRETED) for found in values(sides, *longest, how=how))


def test_decimal_literals_keep_their_type(sides: DataFrame) -> None:
    assert values(sides, parse_expression("1.5BD", SCOPE).canonical) == [[repr(Decimal("1.5"))] * 2]
