"""Which conditions cannot fail on any row: those that only compare values of one type."""

from __future__ import annotations

from pathlib import Path

import pytest

import enrich
from enrich.base.spec import DataType, JoinSpec
from enrich.project.compile import compile_job
from kit.project import CONF, write_project

JOB = """\
job: j
sources: {{o: {{table: orders, key: id}}, m: {{table: mails, key: id}}}}
from: o
join: {{m: {{kind: list, elements: o.mails}}}}
select: {{id: o.id}}
where: "{}"
target: {{table: t}}
"""
MAILS: DataType = {"type": "array", "elementType": "integer", "containsNull": True}
ORDERS: dict[str, DataType] = {
    "id": "integer",
    "text": "string",
    "day": "date",
    "at": "timestamp",
    "price": "decimal(10,2)",
}
ORDERS |= {"long": "decimal(38,2)", "ok": "boolean", "mails": MAILS}


def _compile(home: Path, where: str) -> JoinSpec:
    project = enrich.load_project(write_project(home, {"conf/dev.yml": CONF, "jobs/j.yml": JOB.format(where)}))
    tables: dict[str, dict[str, DataType]] = {"o": dict(ORDERS), "m": {"id": "integer", "address": "string"}}
    spec = compile_job(project.jobs["j"], tables, lambda _columns, _text: "boolean").spec
    assert isinstance(spec, JoinSpec)
    return spec


@pytest.mark.parametrize(
    ("where", "is_plain"),
    [
        ("o.text = 'a' and o.id > 5", True),
        ("not (o.ok or o.text in ('a', 'b')) and o.day is not null", True),
        ("o.id between 1 and 5.5 and o.text <=> 'x'", True),
        ("o.price > 5 and o.price < o.id and o.`ok` = true", True),
        ("o.day >= date '2020-01-01' and o.text is distinct from 'a'", True),
        ("o.mails = o.mails", True),
        ("o.mails = 'a'", False),
        ("o.text > 5", False),
        ("o.text between 'a' and 5", False),
        ("o.id in (1, '2')", False),
        ("o.day >= '2020-01-01'", False),
        ("o.long > 5", False),
        ("o.id + 1 > 5", False),
        ("o.id > -5", False),
        ("cast(o.text as int) > 5", False),
        ("o.text::int > 5", False),
        ("o.mails[0] = 5", False),
        ("o.text like 'a'", False),
        ("case when o.ok then o.id > 5 end", False),
    ],
)
def test_what_only_compares_cannot_fail(tmp_path: Path, where: str, is_plain: bool) -> None:
    assert _compile(tmp_path / "p", where).where_is_plain is is_plain


@pytest.mark.parametrize(
    ("where", "whole"),
    [("size(m) > 0", {"m"}), ("cast(m as string) > 'a'", {"m"}), ("array_contains(m.id, 5)", set()), ("o.ok", set())],
)
def test_lists_that_are_read_as_a_whole_are_known(tmp_path: Path, where: str, whole: set[str]) -> None:
    assert _compile(tmp_path / "p", where).read_whole == whole
