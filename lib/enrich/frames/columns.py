"""Build the conditions and forms of columns that several verbs need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from operator import and_, or_
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.classic.column import Column as ClassicColumn

from enrich.base.result import Proof
from enrich.base.spec import LISTED, Range, SourceSpec, name_inside, quote

WriteRow = Callable[..., str]  # ``base.rowforms.write_row``
Keep = Callable[[DataFrame], DataFrame]  # computes a frame once, as ``Run.keep`` does
_HASH, _HALVES = "__enrich_hash", ("__enrich_h0", "__enrich_h1")
_PARTS = ("({} & 4294967295) - 2147483648", "shiftright({}, 32)")
PARTS = [part.format(half) for half in _HALVES for part in _PARTS]
"""The parts of a hashed row's two numbers, about as often below zero as above: sums of 64 bits would overflow."""
_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63, "date": 31}  # of numbers and days, without the sign
_DIGITS = 15  # digits of a decimal that a fraction of 64 bits keeps

Ranges = Mapping[str, Range]  # column -> the least and the greatest value


def count_with_ranges(rows: DataFrame, names: Sequence[str], *more: Column | str) -> tuple[Row, Ranges]:
    """Count rows, and find the ranges of those columns ``names`` that are whole numbers, short decimals or dates.

    Out: the number of rows and the values of the aggregates ``more``; the ranges.
    """
    # Others are left out: timestamps, for Python's have another meaning where clocks are put back; fractions, because
    # of NaN; texts, of which Delta keeps but the beginnings; long decimals, which delta-rs keeps as fractions in the
    # log, so that Delta would skip files that have the value.
    kinds = {name: rows.schema[name].dataType for name in names}
    shorts = {n for n, kind in kinds.items() if isinstance(kind, T.DecimalType) and kind.precision <= _DIGITS}
    known = {name: kind for name, kind in kinds.items() if name in shorts or kind.typeName() in _BITS}
    days = {name for name, kind in known.items() if isinstance(kind, T.DateType)}
    ends = [F.unix_date(end(quote(n))) if n in days else end(quote(n)) for n in known for end in (F.min, F.max)]
    found = aggregate(rows, F.count("*"), *more, *ends)
    first = 1 + len(more)
    pairs = zip(known.items(), found[first::2], found[first + 1 :: 2], strict=True)
    return found[:first], {n: _round(least, most, kind) for (n, kind), least, most in pairs if least is not None}


def _round(least: Any, most: Any, kind: T.DataType) -> Range:
    """Return a range of whole numbers with round ends, so that the next run's range of as many keys has the same ones.

    Spark writes numbers into the code that it makes of a query, and compiles all code that it has not seen.
    """
    if isinstance(least, int):
        step, bound = 1 << max((most - least) // 32, 1).bit_length() - 1, 1 << _BITS[kind.typeName()]
        least, most = max(least // step * step, -bound), min(-(-most // step) * step, bound - 1)
    return Range(least, most, isinstance(kind, T.DateType))


def write_key(part: Column, kind: T.DataType) -> Column:
    """Return a part of a key as text, as ``enrich why`` reads it."""
    return F.hex(part) if isinstance(kind, T.BinaryType) else part.cast("string")


def aggregate(frame: DataFrame, *columns: Column | str) -> Row:
    """Compute aggregates over all rows of a frame; a text takes one call into the JVM, a column one for each part."""
    found = frame.agg(*[F.expr(each) if isinstance(each, str) else each for each in columns]).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    return found


def add_up(numbers: Column) -> Column:
    """Return the sum of a column; 0 where there is nothing to add."""
    return F.coalesce(F.sum(numbers), F.lit(0))


def unite(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all frames, of which there is at least one; their columns have the same names."""
    return reduce(lambda a, b: a.unionByName(b), frames)


def are_equal(ours: Sequence[str], theirs: Sequence[str]) -> Column:
    """Tell whether columns are equal, pair by pair; null equals nothing."""
    return reduce(and_, [F.col(our) == F.col(their) for our, their in zip(ours, theirs, strict=True)])


def take_column(name: str) -> Column:
    """Return a column of a source, from a frame in which its rows have not been packed yet."""
    return F.col(quote(name_inside(name)))


def name_parts(columns: Sequence[str], names: Sequence[str]) -> list[Column]:
    """Return columns of a source under other names, in order: a key's parts as the verbs name them."""
    return [take_column(column).alias(name) for column, name in zip(columns, names, strict=True)]


def lacks_value(columns: Sequence[str]) -> Column:
    """Return whether any of some columns of a source is null. NaN is no null."""
    return has_null([name_inside(name) for name in columns])


def mark_rows(names: Sequence[str], *, proves: bool) -> dict[str, Column]:
    """Return what is counted of all rows: ``rows``, which is always true, and ``n0 ..``, that a column is null.

    ``proves``: the rows are hashed, and their ``PARTS`` are summed, as ``h0 ..``.
    """
    parts = {f"h{i}": F.expr(part) for i, part in enumerate(PARTS if proves else ())}
    return {"rows": F.lit(True), **{f"n{i}": F.col(quote(name)).isNull() for i, name in enumerate(names)}, **parts}


def hash_rows(rows: DataFrame, write_row: WriteRow | None, names: Sequence[str], row: str = "") -> DataFrame:
    """Add the two numbers of the hash of these columns, which may lie in a struct ``row``; none without their text."""
    if write_row is None:
        return rows
    schema = cast(T.StructType, rows.schema[row].dataType) if row else rows.schema
    text = write_row({name: schema[name].dataType.jsonValue() for name in names}, inside=quote(row) if row else "")
    digest, *halves = _hash_text(rows.sparkSession._jvm)
    # One after the other: Spark would compute the hash for each of its parts.
    hashed = rows.withColumn(_HASH, F.expr(text)).withColumn(_HASH, digest)
    return hashed.withColumns(dict(zip(_HALVES, halves, strict=True))).drop(_HASH)


@cache
def _hash_text(jvm: Any) -> tuple[Column, Column, Column]:
    """Return the MD5 of a text ``_HASH``, and the two numbers, with a sign, of an MD5 ``_HASH``.

    By what Spark's functions call: ``md5`` writes a text, and ``conv`` takes longer to read it than all else of a hash.
    """
    text = quote(_HASH)

    def invoke(place: str, name: str, kind: str, argument: str) -> Column:
        spark, sequence = jvm.org.apache.spark, jvm.java.util.List.of
        find, make = spark.sql.classic.ExpressionUtils, spark.api.python.PythonUtils.toSeq
        of = spark.util.Utils.classForName(place, True, False), getattr(spark.sql.types.DataTypes, kind), name
        arguments = make(sequence(find.expression(F.expr(argument)._jc))), make(sequence())
        how = True, True, True, jvm.scala.Option.empty()
        return ClassicColumn(find.column(spark.sql.catalyst.expressions.objects.StaticInvoke(*of, *arguments, *how)))

    try:
        begin = "org.apache.spark.unsafe.types.ByteArray", "getPrefix", "LongType"  # of eight bytes
        digest = invoke("org.apache.commons.codec.digest.DigestUtils", "md5", "BinaryType", f"CAST({text} AS BINARY)")
        return digest, invoke(*begin, text), invoke(*begin, f"substr({text}, 9)")
    except (Py4JError, TypeError, AttributeError):  # another Spark
        halves = [F.expr(f"CAST(conv(substr({text}, {start}, 16), 16, -10) AS BIGINT)") for start in (1, 17)]
        return F.expr(f"md5({text})"), halves[0], halves[1]


def read_proof(rows: int, parts: Sequence[int]) -> Proof | None:
    """Return the proof of rows by the sums of ``PARTS``; None where nothing was summed."""
    if not parts:
        return None
    one, two = ((low + (rows << 31) + (high << 32)) % 2**64 for low, high in (parts[:2], parts[2:]))
    return rows, one, two


def keep_in_ranges(rows: DataFrame, ranges: Ranges, width: int = 1) -> DataFrame:
    """Leave out rows with other keys, by literals, by which Delta skips files and Parquet row groups and pages.

    ``width``: how many columns are read, each of them in a place of its own for each key that is listed.
    """
    for name, each in ranges.items():
        column, build = F.col(quote(name)), F.date_from_unix_date if each.is_day else F.lit  # Python has not all dates
        least, most = build(F.lit(each.least)), build(F.lit(each.most))
        are_few = 0 < len(each.values) * width <= LISTED
        rows = rows.where(column.isin([*each.values]) if are_few else column.between(least, most))
    return rows


def pack_rows(rows: DataFrame, source: SourceSpec, names: Sequence[str]) -> DataFrame:
    """Return the rows of a source as its key parts, named ``names``, and one struct column under its alias."""
    return rows.select(*name_parts(source.key, names), pack_columns(source.columns).alias(source.alias))


def pack_columns(columns: Iterable[str]) -> Column:
    """Return columns of a source as one struct, in which they have their own names."""
    return F.expr(call("struct", *[" AS ".join([quote(name_inside(name)), quote(name)]) for name in columns]))


def call(function: str, *parts: str) -> str:
    """Return the text of a call, for ``F.expr``: a column of a thousand parts takes one call into the JVM."""
    return "".join([function, "(", ", ".join(parts), ")"])


def evaluate_where(is_there: Column, expression: str, *, is_plain: bool = False) -> Column:
    """Evaluate an expression on the rows where ``is_there`` holds, and give null on the others: there it may fail.

    One that ``is_plain`` cannot fail, so Spark may move it to where it spares most.
    """
    if is_plain:
        return F.when(is_there, F.expr(expression))
    # A condition is not enough. Where rows are filtered later on, Spark turns outer joins into inner ones, moves what
    # was computed on one side alone below the join, and then knows that each row there is a row. It moves nothing past
    # what it takes for random, as the number of a partition is, and does not look whether that is less than zero.
    return F.when(is_there & (F.spark_partition_id() >= 0), F.expr(expression))


def has_null(names: Sequence[str]) -> Column:
    """Return whether any of some columns is null. NaN is no null."""
    return reduce(or_, [F.col(quote(name)).isNull() for name in names])


def drop_nulls(frame: DataFrame, names: Sequence[str] | None = None) -> DataFrame:
    """Return the rows that have no null in some columns (None: in any). ``dropna`` would take NaN for null, too."""
    return frame.where(reduce(and_, [F.col(quote(name)).isNotNull() for name in names or frame.columns]))


def make_comparable(column: Column, kind: T.DataType) -> Column:
    """Return ``column`` in a form in which equal values look equal, so that it can be grouped, compared and hashed.

    ``<=>`` is not defined on maps, and two maps with the same entries in another order are the same value: a map
    becomes its entries in the order of their keys. -0.0 equals 0.0, but is not written like it: it becomes 0.0.
    """
    return _transform(column, kind, F.array_sort, lambda number, its: number + F.lit(0.0).cast(its))


def make_exact(column: Column, kind: T.DataType) -> Column:
    """Return ``column`` in a form that can be grouped, in which values look equal only if every function takes them so.

    ``map_keys`` tells two maps with the same entries in another order apart, and a cast to text -0.0 from 0.0.
    """

    def write(number: Column, _: T.DataType) -> Column:
        return F.struct(number, F.when(number == 0, number.cast("string")))

    return _transform(column, kind, lambda entries: entries, write)


def _transform(
    column: Column,
    kind: T.DataType,
    of_entries: Callable[[Column], Column],
    of_fraction: Callable[[Column, T.DataType], Column],
) -> Column:
    """Return ``column`` with other forms of the maps and fractions in it, of the entries in maps, too."""
    if not has_forms(kind):
        return column
    if isinstance(kind, T.FloatType | T.DoubleType):
        return of_fraction(column, kind)

    def go_on(part: Column, its: T.DataType) -> Column:
        return _transform(part, its, of_entries, of_fraction)

    def rebuild(struct: Column, kinds: Mapping[str, T.DataType]) -> Column:
        return F.struct(*[go_on(struct.getField(name), its).alias(name) for name, its in kinds.items()])

    if isinstance(kind, T.MapType):
        entry = {"key": kind.keyType, "value": kind.valueType}
        return of_entries(F.transform(F.map_entries(column), lambda each: rebuild(each, entry)))
    if isinstance(kind, T.ArrayType):
        element = kind.elementType
        return F.transform(column, lambda each: go_on(each, element))
    fields = {each.name: each.dataType for each in kind.fields}  # type: ignore[attr-defined]
    return F.when(column.isNotNull(), rebuild(column, fields))


def has_forms(kind: T.DataType) -> bool:
    """Tell whether a type has values that are equal and yet written in several forms."""
    if isinstance(kind, T.MapType | T.FloatType | T.DoubleType):
        return True
    if isinstance(kind, T.ArrayType):
        return has_forms(kind.elementType)
    return isinstance(kind, T.StructType) and any(has_forms(field.dataType) for field in kind.fields)
