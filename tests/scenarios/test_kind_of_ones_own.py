"""A kind of join from outside the package: registered, and known to runs, plans, `why`, state, report and schema."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

import enrich
from enrich.answers.question import explain
from enrich.project import kinds
from kit.anti_join import AntiJoin
from kit.command import Call
from kit.lab import Lab, Row

JOB = """\
job: callable
sources:
  orders: {table: orders, key: id}
  blocked: {table: blocked, key: id}
  customers: {table: customers, key: id}
from: orders
join:
  blocked: {kind: anti, on: orders.customer}
  customers: {kind: foreign_key, on: orders.customer}
select: {id: orders.id, customer: orders.customer, name: customers.name}
target: {table: callable, change_feed: true}
"""
HISTORIES, ROUNDS = 80, 4
CUSTOMERS = ("c1", "c2", "c3")


@pytest.fixture(autouse=True)
def anti() -> Iterator[None]:
    """Register the kind."""
    kinds.register(AntiJoin())
    yield
    del kinds.JOINS["anti"]


def open_orders(lab: Lab) -> None:
    text = pa.string()
    lab.table("orders", "id", {"id": text, "customer": text, "note": text})
    lab.table("blocked", "id", {"id": text, "since": text})
    lab.table("customers", "id", {"id": text, "name": text})
    lab.job(JOB)


def test_random_histories(lab: Lab, seed: int) -> None:
    """Each history has keys of its own, so that one run carries all of them."""
    open_orders(lab)
    rng, tables = random.Random(seed), {name: dict[str, Row]() for name in ("orders", "blocked", "customers")}
    removed = added = 0
    before: set[str] = set()
    for number in range(ROUNDS):
        for history in range(HISTORIES):
            for table, rows in tables.items():
                alter(rng, table, rows, f"h{history}-")
        for table, rows in tables.items():
            keep = ", ".join(f"'{key}'" for key in rows)
            lab.drop(table, f"id NOT IN ({keep})")
            lab.put(table, *rows.values())
        result = lab.run()
        assert result.status == ("created" if number == 0 else "updated"), result
        expected = derive(tables)
        assert {row["id"]: row for row in lab.rows("callable")} == expected, f"round {number} of seed {seed}"
        removed, added, before = removed + len(before - set(expected)), added + len(set(expected) - before), {*expected}
        blocked = sum(row["customer"] in tables["blocked"] for row in tables["orders"].values())
        assert result.state is not None
        assert result.state.lookups["blocked"].matched == blocked
    assert removed > HISTORIES // 2
    assert added > HISTORIES // 2
    assert lab.run().status == "unchanged"


def alter(rng: random.Random, table: str, rows: dict[str, Row], home: str) -> None:
    """Change one row of a history's table, or none."""
    if table == "orders":
        key = f"{home}o{rng.randrange(4)}"
        customer = rng.choice([*CUSTOMERS, None])
        row: Row = {"id": key, "customer": customer and home + customer, "note": rng.choice("xy")}
    else:
        key = home + rng.choice(CUSTOMERS)
        row = {"id": key, "since" if table == "blocked" else "name": rng.choice("ab")}
    if rng.random() < 0.4:
        rows.pop(key, None)
    else:
        rows[key] = row


def derive(tables: dict[str, dict[str, Row]]) -> dict[str, Row]:
    """Return the target as the kind means it."""
    return {
        key: {
            "id": key,
            "customer": row["customer"],
            "name": tables["customers"].get(row["customer"], {}).get("name"),
        }
        for key, row in tables["orders"].items()
        if row["customer"] not in tables["blocked"]
    }


@pytest.mark.usefixtures("terminal")
def test_everything_else_knows_it(lab: Lab, call: Call) -> None:
    open_orders(lab)
    lab.put("orders", {"id": "o1", "customer": "c1", "note": "x"}, {"id": "o2", "customer": "c2", "note": "x"})
    lab.put("orders", {"id": "o3", "customer": None, "note": "x"})
    lab.put("blocked", {"id": "c1", "since": "a"})
    assert lab.run().status == "created"
    assert [row["id"] for row in lab.rows("callable")] == ["o2", "o3"]

    project = enrich.load_project(lab.home)

    def why(*keys: str) -> list[dict[str, Any]]:
        return [each.to_dict() for each in explain(project, "callable", keys, spark=lab.spark)]

    first, second, third = why("o1", "o2", "o3")
    assert first["row"] == {"reason": "has_partner", "source": "blocked"}
    assert second["row"] == {"reason": "matched"}
    assert second["lookups"]["blocked"] == {"reason": "no_such_key"}
    assert third["in_target"]

    lab.put("blocked", {"id": "c2", "since": "a"})
    lab.drop("blocked", "id = 'c1'")
    planned = call("plan", "--output", "json")
    assert planned.exit_code == 0, planned.output
    assert {"orders", "blocked"} <= set(json.loads(planned.stdout)["jobs"][0]["sources"])
    ran = call("run", "--output", "json")
    assert ran.exit_code == 0, ran.output
    jsonschema.validate(json.loads(ran.stdout), json.loads(call("schema", "result").stdout))
    assert [row["id"] for row in lab.rows("callable")] == ["o1", "o3"]
    assert why("o2")[0]["row"] == {"reason": "has_partner", "source": "blocked"}
    assert call("verify").exit_code == 0
    assert call("status").exit_code == 0
    report = json.loads(call("report", "--format", "json").stdout)
    (job,) = report["jobs"]
    assert job["now"]["lookups"]["blocked"]["kind"] == "anti"
    schema = json.loads(call("schema", "job").stdout)
    assert "anti" in schema["definitions"]["Join"]["properties"]["kind"]["enum"]


def test_faults_of_its_files_have_their_lines(lab: Lab) -> None:
    open_orders(lab)
    text = JOB.replace("kind: anti, on: orders.customer", "kind: anti, how: left").replace(
        "select: {id: orders.id, customer: orders.customer, name: customers.name}\n", ""
    )
    lab.job(text)
    with pytest.raises(enrich.ConfigError) as caught:
        enrich.load_project(lab.home)
    told = [str(fault) for fault in caught.value.faults]
    for message in ("'how' is not for kind anti", "kind anti needs 'on'", "a job with an anti join needs 'select'"):
        assert any(message in each and "callable.yml:8" in each for each in told), told
