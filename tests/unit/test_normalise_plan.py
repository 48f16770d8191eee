"""`normalise` on its way from the job file into the compiled job, and what it is refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enrich import ConfigError, Project, load_project
from enrich.base.spec import CompiledJob
from enrich.project.compile import compile_job

JOB = """\
job: orders
sources:
  orders: {table: orders, key: order_id}
  customers: {table: customers, key: [region, number]MORE}
from: orders
join:
  customers: {kind: foreign_key, on: [orders.region, orders.number]}
select: {order_id: orders.order_id, name: customers.name}
target: {table: wide}
"""


def project(base: Path, more: str) -> Project:
    for name, text in {"jobs/orders.yml": JOB.replace("MORE", more), "conf/dev.yml": "lake: ./lake\n"}.items():
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(text)
    return load_project(base)


def plan(base: Path, more: str = "", region: str = "string") -> CompiledJob:
    keys = {"region": region, "number": "long"}
    tables: dict[str, dict[str, Any]] = {
        "orders": {"order_id": "long", **keys},
        "customers": {**keys, "name": "string"},
    }
    return compile_job(project(base, more).jobs["orders"], tables)


def test_the_steps_reach_the_engine_in_their_order(tmp_path: Path) -> None:
    assert plan(tmp_path, ", normalise: [trim, lower]").spec.sources["customers"].normalise == ("trim", "lower")
    assert plan(tmp_path, ", normalise: trim").spec.sources["customers"].normalise == ("trim",)
    assert plan(tmp_path).spec.sources["customers"].normalise == ()


def test_the_steps_are_part_of_what_the_job_means(tmp_path: Path) -> None:
    texts = ["", ", normalise: trim", ", normalise: [trim, lower]", ", normalise: [lower, trim]"]
    meanings = [plan(tmp_path, each).meaning for each in texts]
    assert all(a != b for i, a in enumerate(meanings) for b in meanings[:i])
    assert "normalise" not in meanings[0]
    assert plan(tmp_path, ", normalise: [trim]").meaning == meanings[1]


def test_a_key_without_text_is_refused_with_its_columns(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, ", normalise: trim", region="integer")
    assert caught.value.exit_code == 2
    (fault,) = caught.value.faults
    assert fault.where == "jobs/orders.yml:4"
    assert fault.message == "'normalise' needs a text column in the key; key column 'region' is int, 'number' is bigint"
