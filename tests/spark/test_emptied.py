"""What a value has lost, for all kinds of nested types, and between types that differ."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from enrich.frames.difference import tell_emptied

CASES = [
    ("1", "null", True),
    ("null", "1", False),
    ("1", "2", False),
    ("cast(null as int)", "null", False),
    ("named_struct('a', 1)", "named_struct('a', null)", True),
    ("named_struct('a', 1, 'b', 1)", "named_struct('A', 2)", False),
    ("named_struct('a', 1)", "named_struct('a', 'x', 'b', null)", False),
    ("named_struct('a', named_struct('b', 1))", "named_struct('a', named_struct('b', null))", True),
    ("cast(null as struct<a: int>)", "named_struct('a', null)", False),
    ("array(1, 2)", "array(1, null)", True),
    ("array(1, null)", "array(null, 2)", False),
    ("array(1)", "array()", False),
    ("array(1)", "null", True),
    ("array(array(1), array(2))", "array(array(1), array(null))", True),
    ("array(named_struct('a', 1, 'b', 2))", "array(named_struct('a', 1, 'b', null))", True),
    ("array(named_struct('a', 1))", "array(named_struct('b', null, 'a', 1))", False),
    ("array(named_struct('a', named_struct('b', 1)))", "array(named_struct('a', named_struct('b', null)))", True),
    ("map('x', 1)", "map('x', null)", True),
    ("map('x', 1, 'y', 1)", "map('x', 2)", False),
    ("map('x', named_struct('a', 1))", "map('x', named_struct('a', null))", True),
    ("map('x', array(map('y', 1)))", "map('x', array(map('y', null)))", True),
    ("array(1)", "named_struct('a', 1)", False),
]


def test_what_a_value_has_lost(spark: SparkSession) -> None:
    rows = spark.range(1)
    for i, (was, now, _) in enumerate(CASES):
        rows = rows.withColumns({f"w{i}": F.expr(was), f"n{i}": F.expr(now)})
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    found = rows.select(
        *[tell_emptied(F.col(f"w{i}"), kinds[f"w{i}"], F.col(f"n{i}"), kinds[f"n{i}"]) for i in range(len(CASES))]
    ).first()
    assert found is not None
    assert [(was, now, lost) for (was, now, _), lost in zip(CASES, found, strict=True)] == CASES
