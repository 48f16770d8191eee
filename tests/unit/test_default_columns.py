"""The columns of a target without ``select``: each has a name of its own, and none that the quarantine needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enrich import ConfigError, load_project
from enrich.project.compile import compile_job

JOB = """\
job: plain
sources:
  s: {table: s, key: id}
  m: {table: m, key: id}
from: s
join:
  m: {kind: foreign_key, on: s.m}
target: {table: plain}
"""
CHAIN = """\
job: plain
sources:
  s: {table: s, key: id}
  a: {table: a, key: id}
  a_b: {table: a_b, key: id}
from: s
join:
  a: {kind: table, how: left}
  a_b: {kind: table, how: left}
target: {table: plain}
"""
HISTORY = """\
job: plain
kind: history
sources: {s: {table: s, key: id}}
from: s
target: {table: plain}
"""


def find_faults(base: Path, text: str, **tables: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is wrong with a job, and in which line."""
    for name, content in {"jobs/plain.yml": text, "conf/dev.yml": "lake: ./lake\n"}.items():
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(content)
    try:
        compile_job(load_project(base).jobs["plain"], tables)
    except ConfigError as error:
        return [(each.message, str(each.where).rpartition(":")[2]) for each in error.faults]
    return []


def test_a_lookups_column_never_takes_the_place_of_another(tmp_path: Path) -> None:
    s = {"id": "long", "m": "long", "m_name": "string"}
    assert find_faults(tmp_path, JOB, s=s, m={"id": "long", "city": "string"}) == []
    (fault,) = find_faults(tmp_path, JOB, s=s, m={"id": "long", "name": "string"})
    assert fault == ("without select, m.name would be a second target column 'm_name'; write a select", "7")
    text = {"id": "long", "c": "string"}
    (fault,) = find_faults(tmp_path, CHAIN, s={"id": "long"}, a={"id": "long", "b_c": "string"}, a_b=text)
    assert fault == ("without select, a_b.c would be a second target column 'a_b_c'; write a select", "9")


@pytest.mark.parametrize("name", ["_failed", "_Run_Id", "_commit_version"])
@pytest.mark.parametrize("job", [JOB, HISTORY], ids=["join", "history"])
def test_a_source_may_have_columns_of_a_quarantine_but_no_target(tmp_path: Path, job: str, name: str) -> None:
    s = {"id": "long", "m": "long", name: "string"}
    (fault,) = find_faults(tmp_path, job, s=s, m={"id": "long"})
    assert f"the target column {name!r} is a column of the" in fault[0]
    if job == JOB:
        chosen = job.replace("target:", f"select: {{id: s.id, other: s.{name}}}\ntarget:")
        assert find_faults(tmp_path, chosen, s=s, m={"id": "long"}) == []


def test_a_table_is_clustered_by_the_names_that_its_columns_have(tmp_path: Path) -> None:
    job = JOB.replace("{table: plain}", "{table: plain, cluster_by: [M]}")
    ((message, _),) = find_faults(tmp_path, job, s={"id": "long", "m": "long"}, m={"id": "long"})
    assert message.startswith("cluster_by names 'M', which is not a target column")
    assert "'m'" in message
