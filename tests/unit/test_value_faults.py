"""A value that Spark cannot compute with: the line of the expression, and the function that helps; never the value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import enrich
from enrich.base.failures import INSTEAD, find_value_fault
from enrich.operations.workplace import Workplace
from enrich.project.expressions import FUNCTIONS
from enrich.project.models import explain_value_fault
from kit.project import CONF, write_project

CANARY = "jane@example.com"
JOB = """\
job: j
sources:
  o: {table: orders, key: id}
  p: {table: parts, key: part}
from: o
join:
  p:
    kind: foreign_key
    on: cast(o.part as int)
select:
  id: o.id
  share: o.x / o.y
  first: o.list[0]
where: coalesce(cast(o.part as int), 0) > 0
target: {table: t}
"""


@dataclass
class _Place:
    text: str
    start: int

    def fragment(self) -> str:
        return self.text

    def startIndex(self) -> int:  # noqa: N802 - as in Spark
        return self.start


class _Thrown(Exception):
    """As pyspark gives it, with what Java has beside it."""

    def __init__(self, condition: str, state: str, *places: _Place) -> None:
        super().__init__(f"The value '{CANARY}' ...")
        self.told = condition, state, places

    def getCondition(self) -> str:  # noqa: N802 - as in pyspark
        return self.told[0]

    def getSqlState(self) -> str:  # noqa: N802 - as in pyspark
        return self.told[1]

    def getQueryContext(self) -> tuple[_Place, ...]:  # noqa: N802 - as in pyspark
        return self.told[2]


@pytest.mark.parametrize(
    ("error", "lines", "helps"),
    [
        (
            _Thrown("CAST_INVALID_INPUT", "22018", _Place("cast(o.part as int)", 0)),
            [9],
            "try_cast(o.part as int) gives null there",
        ),
        (_Thrown("CAST_INVALID_INPUT", "22018", _Place("cast(o.part as int)", 9)), [14], "try_cast"),
        (_Thrown("DIVIDE_BY_ZERO", "22012", _Place("o.x / o.y", 0)), [12], "try_divide"),
        (_Thrown("INVALID_ARRAY_INDEX", "22003", _Place("o.list[0]", 0)), [13], "get"),
        (_Thrown("DUPLICATED_MAP_KEY", "23505"), [9, 14, 12, 13], "case when"),
    ],
)
def test_the_expression_is_found(tmp_path: Path, error: _Thrown, lines: list[int], helps: str) -> None:
    home = write_project(tmp_path / "p", {"conf/dev.yml": CONF, "jobs/j.yml": JOB})
    fault = find_value_fault(error)
    assert fault is not None
    found = explain_value_fault(enrich.load_project(home).jobs["j"], fault)
    assert found.exit_code == 2
    assert [each.where for each in found.faults] == [f"jobs/j.yml:{line}" for line in lines]
    assert str(found).startswith(", ".join(f"jobs/j.yml:{line}" for line in lines))
    assert helps in str(found)
    assert "`enrich run j --full-refresh`" in str(found)
    assert CANARY not in str(found)


QUERY = """\
job: j
sources: {orders: {table: orders, key: id}}
query: |
  SELECT o.*,
    upper(x) AS u,
    CAST(x AS INT) AS n
  FROM orders AS o
  WHERE CAST(x AS DATE) > DATE '2024-01-01'
target: {table: t}
"""


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("CAST(o.`x` AS INT)", "jobs/j.yml:6:5", "column 'n'"),
        ("CAST(o.`x` AS DATE)", "jobs/j.yml:8:9", "'where'"),
    ],
)
def test_the_expression_of_a_query_is_found(tmp_path: Path, text: str, place: str, what: str) -> None:
    """Spark has the names written out, and a star tells its columns only over the tables."""
    home = write_project(tmp_path / "p", {"conf/dev.yml": CONF, "jobs/j.yml": QUERY})
    write_deltalake(str(home / "lake" / "orders"), pa.table({"id": [1], "x": ["1"]}))
    project = enrich.load_project(home)
    thrown = _Thrown("CAST_INVALID_INPUT", "22018", _Place(text, 0))
    found = Workplace(project, ["j"]).describe(project.jobs["j"], thrown)
    assert str(found).startswith(f"{place}: {what} of job 'j' cannot be computed")


def test_a_sum_that_overflows_is_told_from_other_aggregates(tmp_path: Path) -> None:
    """Spark does not say of which."""
    job = (
        "job: j\nkind: group\nsources: {o: {table: orders, key: id}}\nfrom: o\ngroup: {by: o.m}\nselect:\n"
        "  m: o.m\n  n: count(*)\n  s: sum(o.x)\n  mean: avg(o.y)\ntarget: {table: t}\n"
    )
    home = write_project(tmp_path / "p", {"conf/dev.yml": CONF, "jobs/j.yml": job})
    for condition in ("ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"):
        fault = find_value_fault(_Thrown(condition, "22003"))
        assert fault is not None
        found = explain_value_fault(enrich.load_project(home).jobs["j"], fault)
        assert [each.where for each in found.faults] == ["jobs/j.yml:9", "jobs/j.yml:10"]
        assert "cast what is added up to a larger type" in str(found)


@pytest.mark.parametrize(
    "error",
    [
        _Thrown("DELTA_VERSION_NOT_FOUND", "22003"),
        _Thrown("FAILED_READ_FILE.FILE_NOT_EXIST", "KD001"),
        _Thrown("", ""),
        ValueError("CAST_INVALID_INPUT"),
    ],
)
def test_files_logs_and_machines_are_no_values(error: Exception) -> None:
    assert find_value_fault(error) is None


def test_what_helps_may_be_called() -> None:
    named = re.findall(r"try_\w+|\bget\b", INSTEAD)
    assert len(named) == 5
    assert set(named) <= set(FUNCTIONS)
