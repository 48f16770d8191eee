"""Rows that a join drops, and rows of a lookup that nothing refers to, are evaluated by no expression that may fail."""

from __future__ import annotations

import pyarrow as pa

import enrich
from enrich.delta.sink import hold_settings
from kit.lab import Lab, Row
from kit.session import COMPILED

SOURCES = """\
sources:
  o: {table: orders, key: id}
  p: {table: parts, key: part}
  v: {table: versions, key: [part, since]}
  g: {table: groups, key: number}
  m: {table: mails, key: mail}
"""
JOBS = {
    # A condition of one side alone, which Spark moves below the join.
    "driving": ("p: {kind: foreign_key, on: o.part, how: inner}", "o.id", "cast(o.text as int) / o.n > 0"),
    "lookup": ("p: {kind: foreign_key, on: o.part}", "o.id", "cast(p.text as int) > 0"),
    # What a later join refers by: to be looked for on the rows that changes lead to, too.
    "later": (
        "p: {kind: foreign_key, on: o.part, how: inner}\n  g: {kind: foreign_key, on: cast(p.text as int)}",
        "cast(g.text as int)",
        "g.number = 7",
    ),
    "as_of": (
        "v: {kind: as_of, on: o.part, at: o.n, valid_from: since, gone: cast(v.text as int) = 1, how: inner}",
        "cast(o.text as int)",
        "cast(o.text as int) > 0",
    ),
    "interval": (
        "p: {kind: interval, on: o.part, match: part, at: o.n, time: n, between: [-1, 1], how: inner}",
        "p.part",
        "cast(o.text as int) > 0 and cast(p.text as int) > 0",
    ),
    "list": (
        """p: {kind: foreign_key, on: o.part, how: inner}
  m: {kind: list, elements: "filter(o.mails, each -> cast(o.text as int) > 0)", unmatched: drop}""",
        "size(m)",
        "exists(m, each -> cast(each.text as int) > 0)",
    ),
}


def _order(number: int, part: str, text: str) -> Row:
    return {"id": number, "part": part, "text": text, "n": int(part == "a"), "mails": [part]}


def _open(lab: Lab, *names: str) -> None:
    """Write a good row and a bad one of each table, the bad ones without partner, and jobs over them."""
    text, number = pa.string(), pa.int32()
    columns = {"id": number, "part": text, "text": text, "n": number, "mails": pa.list_(text)}
    lab.table("orders", "id", columns, [_order(1, "a", "5"), _order(2, "none", "bad")])
    for table, key, kind, good, bad in (
        ("parts", "part", text, "a", "unused"),
        ("groups", "number", number, 7, 8),
        ("mails", "mail", text, "a", "unused"),
    ):
        rows = [{key: good, "text": "7", "n": 1}, {key: bad, "text": "bad", "n": 1}]
        lab.table(table, key, {key: kind, "text": text, "n": number}, rows)
    versions = [{"part": part, "since": 0, "text": said} for part, said in (("a", "7"), ("unused", "bad"))]
    lab.table("versions", "part", {"part": text, "since": number, "text": text}, versions)
    for name in names:
        joins, value, where = JOBS[name]
        used = "".join(
            f"{each}\n" for each in SOURCES.splitlines() if f"  {each[2]}:" not in each or _reads(joins, each)
        )
        select = f"{{id: o.id, part: p.part, x: '{value}'}}" if name == "interval" else f"{{id: o.id, x: '{value}'}}"
        body = f'from: o\njoin:\n  {joins}\nselect: {select}\nwhere: "{where}"\ntarget: {{table: {name}}}\n'
        lab.job(f"job: {name}\n{used}{body}")


def _reads(joins: str, source: str) -> bool:
    alias = source.strip()[0]
    return alias == "o" or f"{alias}: {{kind" in joins


def test_no_plan_evaluates_what_the_joins_drop(lab: Lab) -> None:
    _open(lab, *JOBS)
    with hold_settings(lab.spark, COMPILED):
        first = lab.run_all()
        assert {each.job: each.error for each in first.jobs} == dict.fromkeys(JOBS)
        lab.append("orders", _order(3, "a", "6"), _order(4, "none", "worse"))
        lab.append("parts", {"part": "new", "text": "worse", "n": 1})
        lab.append("versions", {"part": "new", "since": 0, "text": "worse"})
        lab.put("groups", {"number": 7, "text": "8", "n": 1})
        second = lab.run_all()
        checked = enrich.verify(enrich.load_project(lab.home), ["list"], spark=lab.spark)
    assert {each.job: each.error for each in second.jobs} == dict.fromkeys(JOBS)
    assert [(each.status, each.error) for each in checked.jobs] == [("equal", None)]
    assert {name: [row["id"] for row in lab.rows(name)] for name in JOBS} == {name: [1, 3] for name in JOBS}
    assert [row["x"] for row in lab.rows("later")] == [8, 8]
