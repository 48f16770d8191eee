"""OpenLineage events of a real run, held against the JSON schemas of the standard itself.

The schemas are taken from a checkout of the standard's repository, whose ``spec`` directory ``ENRICH_OPENLINEAGE_SPEC``
names, or from the addresses that the events name.
"""

from __future__ import annotations

import json
import os
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

from kit.lab import Lab
from kit.project import hold_nulls

JOB = """\
job: wide
sources:
  orders: {table: orders, key: id}
  sellers: {table: sellers, key: id}
from: orders
join:
  sellers: {kind: foreign_key, on: orders.seller}
select: {id: orders.id, country: upper(sellers.country)}
where: size(orders.ids) > 0 or orders.seller is null
rules: [{rule: mass_change, at_most: 0.5}]
expectations: held
target: {table: wide}
"""

SPEC = os.environ.get("ENRICH_OPENLINEAGE_SPEC")
ROOT = "https://openlineage.io/spec/"


@cache
def read_checkout(directory: str) -> dict[str, Any]:
    """Return the schemas of a checkout by their identifiers."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in Path(directory).rglob("*.json")]
    return {each["$id"]: each for each in found if "$id" in each}


def find_sibling(known: dict[str, Any], address: str) -> Any:
    """Return the schema of the same facet and of the same major version: a checkout has one version of each."""
    major, name = address.removeprefix(ROOT).removeprefix("facets/").split("-")[0], address.rpartition("/")[2]
    (found,) = [key for key in known if key.endswith(f"/{name}") and f"/{major}-" in key]
    print(f"{found} stands in for {address}")  # noqa: T201 - told where the test fails
    return known[found]


def retrieve(address: str) -> Resource[Any]:
    """Return a schema of the standard."""
    if SPEC is not None:
        known = read_checkout(SPEC)
        return Resource.from_contents(known.get(address) or find_sibling(known, address))
    assert address.startswith(ROOT), address
    with urllib.request.urlopen(address, timeout=20) as answer:  # noqa: S310 - https, see above
        return Resource.from_contents(json.load(answer))


def validate(instance: Any, address: str) -> None:
    registry: Registry[Any] = Registry(retrieve=retrieve)  # type: ignore[call-arg]  # attrs by a decorator of its own
    validator = Draft202012Validator({"$ref": address}, registry=registry, format_checker=FormatChecker())
    faults = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(instance)]
    assert faults == [], address


def list_facets(node: Any) -> list[dict[str, Any]]:
    """Return all facets of an event."""
    if isinstance(node, list):
        return [each for item in node for each in list_facets(item)]
    if not isinstance(node, dict):
        return []
    here = [node] if "_schemaURL" in node else []
    return here + [each for item in node.values() for each in list_facets(item)]


@pytest.fixture
def _standard() -> None:
    if SPEC is None:
        try:
            retrieve(f"{ROOT}2-0-2/OpenLineage.json")
        except OSError as error:
            pytest.skip(
                f"the standard's schemas cannot be fetched ({error}): name a checkout's spec directory in"
                " ENRICH_OPENLINEAGE_SPEC"
            )


@pytest.mark.usefixtures("_standard")
def test_events_of_real_runs_are_of_the_standard(lab: Lab) -> None:
    """A first run with a quarantine, one that finds nothing to do, one that is blocked, and one that fails."""
    conf = lab.home / "conf" / "dev.yml"
    conf.write_text(f"{conf.read_text()}lineage: {{file: events.jsonl}}\n")
    lab.table("orders", "id", {"id": pa.int64(), "seller": pa.string(), "ids": pa.list_(pa.string())})
    lab.append("orders", *({"id": key, "seller": "s", "ids": ["s"]} for key in (1, 2, None)))
    lab.append("orders", {"id": 3, "seller": None, "ids": None})
    lab.table("sellers", "id", {"id": pa.string(), "country": pa.string()}, [{"id": "s", "country": "de"}])
    lab.suite("held", hold_nulls("country"))
    lab.job(JOB)
    assert [lab.run().status for _ in range(2)] == ["created", "unchanged"]
    lab.drop("orders", "id < 3")
    assert lab.run().status == "blocked"
    (lab.home / "jobs" / "wide.yml").write_text(JOB.replace("table: sellers, key", "table: nowhere, key"))
    assert lab.run().status == "failed"

    events = [json.loads(line) for line in (lab.home / "events.jsonl").read_text().splitlines()]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"] * 2 + ["START", "FAIL"] * 2
    seen = set()
    for event in events:
        validate(event, event["schemaURL"])
        for facet in list_facets(event):
            validate(facet, facet["_schemaURL"])
            seen.add(facet["_schemaURL"].rpartition("/")[2])
    expected = {
        *("ColumnLineageDatasetFacet", "DataQualityAssertionsDatasetFacet", "DataQualityMetricsDatasetFacet"),
        *("DatasetVersionDatasetFacet", "ErrorMessageRunFacet", "ExecutionParametersRunFacet", "JobTypeJobFacet"),
        *("LifecycleStateChangeDatasetFacet", "OutputStatisticsOutputDatasetFacet", "ProcessingEngineRunFacet"),
        *("SchemaDatasetFacet", "TestRunFacet"),
    }
    assert expected <= seen
