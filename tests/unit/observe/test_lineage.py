"""OpenLineage events, sent by the real client and held against the standard's classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import enrich
from enrich.base.errors import Blocked, Locked, RunFailed
from enrich.base.names import CatalogName
from enrich.base.result import JobResult
from enrich.observe.lineage import Sender, describe_schema, describe_words, name_dataset
from enrich.progress.plan import Plan
from enrich.project.models import Lineage, Source
from kit.lineage import check_event, check_schema, list_facets
from kit.listener import listen
from unit.observe.conftest import GetTask

RUN_ID = "0123456789abcdef0123456789abcdef"
Send = Callable[..., list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide this machine's settings of the client."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OPENLINEAGE_PARENT_ID", raising=False)


@pytest.fixture
def send(shop: Path) -> Send:
    """Send the events of a job to a file, and return them."""

    def _send(*ends: tuple[JobResult, Plan | None]) -> list[dict[str, Any]]:
        sender = Sender(enrich.load_project(shop), RUN_ID, Lineage(file="events/lineage.jsonl"), None)
        for result, task in ends:
            sender.start(result.job)
            sender.end(result, task)
        events = [json.loads(line) for line in (shop / "events" / "lineage.jsonl").read_text().splitlines()]
        for event in events:
            check_event(event)
        return events

    return _send


def test_a_run_has_a_start_and_an_end(send: Send, get_task: GetTask, created: JobResult) -> None:
    start, end = send((created, get_task("wide")))
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["job"]["namespace"] == "enrich/dev"
    assert end["job"]["name"] == "wide"
    assert end["run"]["facets"]["processing_engine"]["name"] == "enrich"
    assert "parent" not in end["run"]["facets"]
    (other, _) = send((replace(created, job="inverse", sources={}), get_task("inverse")))[2:]
    assert other["run"]["runId"] != start["run"]["runId"], "a run of enrich is one of each job"


@pytest.mark.parametrize(
    ("error", "kind"), [(RunFailed("f"), "FAIL"), (Blocked("b"), "FAIL"), (Locked("l"), "ABORT")], ids=str
)
def test_a_bad_end_says_why_and_names_no_output(
    send: Send, get_task: GetTask, created: JobResult, error: enrich.EnrichError, kind: str
) -> None:
    _, end = send((created.failed_with(error), get_task("wide")))
    assert end["eventType"] == kind
    assert end["run"]["facets"]["errorMessage"]["message"] == str(error)
    assert end["outputs"] == []
    assert len(end["inputs"]) == 4


def test_a_job_that_did_not_get_far_names_no_tables(send: Send) -> None:
    _, end = send((JobResult("wide", "failed").failed_with(RunFailed("x")), None))
    assert (end["eventType"], end["inputs"], end["outputs"]) == ("FAIL", [], [])


def test_inputs_have_versions_schemas_and_assertions(
    send: Send, shop: Path, get_task: GetTask, created: JobResult
) -> None:
    _, end = send((created, get_task("wide")))
    inputs = {Path(each["name"]).name: each for each in end["inputs"]}
    assert set(inputs) == {"orders", "notes", "sellers", "articles"}, "a table with two aliases is one input"
    orders = inputs["orders"]
    assert (orders["namespace"], orders["name"]) == ("file", str(shop / "lake" / "orders"))
    assert orders["facets"]["version"]["datasetVersion"] == "0"
    fields = {each["name"]: each["type"] for each in orders["facets"]["schema"]["fields"]}
    assert fields == {"id": "string", "seller": "string", "items": "array<string>"}
    (boss,) = [each for each in inputs["sellers"]["facets"]["schema"]["fields"] if each["name"] == "boss"]
    assert (boss["type"], [each["name"] for each in boss["fields"]]) == ("struct<id:string>", ["id"])
    assertions = orders["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [(each["assertion"], each["success"], each["severity"]) for each in assertions] == [
        ("key_not_null", False, "warn"),
        ("key_unique", True, "error"),
    ]
    assert inputs["sellers"].get("inputFacets", {}) == {}, "a rule about a join says nothing of its table"
    parameters = {each["key"]: each["value"] for each in end["run"]["facets"]["executionParameters"]["parameters"]}
    assert parameters["mode"] == "bootstrap"
    assert parameters["sources.orders.to"] == "0"
    assert "sources.orders.from" not in parameters


def test_words_of_the_files_are_documentation_and_ownership(shop: Path) -> None:
    source = Source(table="t", key=("id",), description="What it is", owner="crm")
    job = enrich.load_project(shop).jobs["wide"].model_copy(update={"description": "Wide", "owner": "shop"})
    for told, of_job, description, owner in ((source, False, "What it is", "crm"), (job, True, "Wide", "shop")):
        facets = describe_words(told, of_job=of_job)
        kind = "Job" if of_job else "Dataset"
        assert {type(each).__name__ for each in facets.values()} == {
            f"Documentation{kind}Facet",
            f"Ownership{kind}Facet",
        }
        assert (facets["documentation"].description, facets["ownership"].owners[0].name) == (description, owner)
    assert describe_words(Source(table="t", key=("id",))) == {}
    (field, _) = describe_schema({"a": "string", "b": "long"}, {"a": "said", "": "of the table"})["schema"].fields
    assert (field.name, field.type, field.description) == ("a", "string", "said")


def test_findings_are_tests_of_the_run(send: Send, get_task: GetTask, created: JobResult) -> None:
    _, end = send((created, get_task("wide")))
    tests = end["run"]["facets"]["test"]["tests"]
    assert [(each["name"], each["status"], each["severity"]) for each in tests] == [
        ("expect_column_values_to_not_be_null(seller)", "fail", "warn"),
        ("key_not_null in orders", "fail", "warn"),
        ("key_unique(id) in orders", "pass", "error"),
        ("match_rate in sellers", "skip", "warn"),
    ]
    assert tests[0]["params"] == {"action": "quarantine", "scope": "changed", "checked": 3, "failed": 1}


def test_the_target_has_version_counts_and_column_lineage(
    send: Send, shop: Path, get_task: GetTask, created: JobResult
) -> None:
    _, end = send((created, get_task("wide")))
    target, held = end["outputs"]
    assert (target["name"], held["name"]) == (str(shop / "lake" / "wide"), str(shop / "lake" / "wide__quarantine"))
    facets = target["facets"]
    assert facets["version"]["datasetVersion"] == "0"
    assert facets["lifecycleStateChange"]["lifecycleStateChange"] == "CREATE"
    assert facets["dataQualityMetrics"]["rowCount"] == 3
    assert facets["dataQualityMetrics"]["columnMetrics"] == {"seller": {"nullCount": 1}}
    statistics = target["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (3, 2048, 1)
    assert held["outputFacets"]["outputStatistics"]["rowCount"] == 1
    lineage = facets["columnLineage"]
    assert list(lineage["fields"]) == ["boss", "both", "id", "items", "note", "seller"]
    (seller,) = lineage["fields"]["seller"]["inputFields"]
    assert (seller["name"], seller["field"]) == (str(shop / "lake" / "sellers"), "id")
    assert seller["transformations"] == [{"type": "DIRECT", "subtype": "IDENTITY"}]


def test_the_parent_run_comes_from_the_scheduler(
    send: Send, get_task: GetTask, created: JobResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = "0190b2a1-7b7e-7c7d-8000-0123456789ab"
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/prod/dag.task/{run}")
    start, _ = send((created, get_task("wide")))
    parent = start["run"]["facets"]["parent"]
    assert (parent["job"]["namespace"], parent["job"]["name"]) == ("airflow/prod", "dag.task")
    assert parent["run"]["runId"] == run


def test_every_facet_of_the_standard_that_is_kept_here_was_checked(
    send: Send, get_task: GetTask, created: JobResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that create a table of a catalog and that fail, for a scheduler: together they have all facets."""
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", "airflow/dag.task/0190b2a1-7b7e-7c7d-8000-0123456789ab")
    task = get_task("wide")
    named = replace(task, place=replace(task.place, location=CatalogName(("main", "crm", "wide"))))
    events = send((created, named), (created.failed_with(RunFailed("f")), task))
    seen = {facet["_schemaURL"].split("#")[0].rpartition("/")[2] for facet in list_facets(events)}
    kept = Path(__file__).parents[2] / "kit" / "openlineage" / "facets"
    assert seen == {path.name for path in kept.iterdir()}


def test_the_schemas_find_what_is_wrong(send: Send, get_task: GetTask, created: JobResult) -> None:
    _, event = send((created, get_task("wide")))
    event["outputs"][0]["facets"]["columnLineage"]["fields"]["id"]["inputFields"][0].pop("namespace")
    event["run"]["runId"] = 7
    with pytest.raises(AssertionError, match="runId"):
        check_schema(event, event["schemaURL"])
    facet = event["outputs"][0]["facets"]["columnLineage"]
    with pytest.raises(AssertionError, match="'namespace' is a required property"):
        check_schema(facet, facet["_schemaURL"])


def test_events_go_to_a_server_with_the_key(shop: Path) -> None:
    with listen(200) as listener:
        settings = Lineage(url=listener.url, namespace="shop")
        sender = Sender(enrich.load_project(shop), RUN_ID, settings, "s3cret")
        sender.start("wide")
        sender.abort("wide")
        sender.client.close()
    assert [path for path, _, _ in listener.received] == ["/api/v1/lineage"] * 2
    assert {headers["Authorization"] for _, headers, _ in listener.received} == {"Bearer s3cret"}
    assert [event["eventType"] for event in listener.bodies] == ["START", "ABORT"]
    for event in listener.bodies:
        check_event(event)
        assert event["job"]["namespace"] == "shop"


@pytest.mark.parametrize(
    ("location", "uri", "name"),
    [
        ("/lake/a", "/lake/a", ("file", "/lake/a")),
        ("s3a://bucket/lake/a", None, ("s3://bucket", "lake/a")),
        ("gs://bucket/a", None, ("gs://bucket", "a")),
        ("abfss://c@x.dfs.core.windows.net/a/b", None, ("abfss://c@x.dfs.core.windows.net", "a/b")),
        ("hdfs://name:8020/a", None, ("hdfs://name:8020", "/a")),
        (CatalogName(("main", "crm", "a")), "s3a://bucket/x", ("s3://bucket", "x")),
        (CatalogName(("main", "crm", "a")), None, ("mine", "main.crm.a")),
    ],
)
def test_datasets_are_named_as_the_standard_says(location: Any, uri: str | None, name: tuple[str, str]) -> None:
    found = name_dataset(location, uri, "mine")
    assert (found.namespace, found.name) == name


@pytest.mark.parametrize(
    "spoil",
    [
        lambda event: event.pop("eventTime"),
        lambda event: event["run"].update(runId="no id"),
        lambda event: event["job"].update(extra=1),
        lambda event: event["run"]["facets"]["processing_engine"].pop("version"),
        lambda event: event["inputs"][0]["facets"]["version"].update(datasetVersion=1),
        lambda event: event["outputs"][0]["facets"].update(wrong=event["run"]["facets"]["processing_engine"]),
    ],
)
def test_the_check_finds_what_is_wrong(send: Send, get_task: GetTask, created: JobResult, spoil: Any) -> None:
    _, event = send((created, get_task("wide")))
    spoil(event)
    with pytest.raises((AssertionError, ValueError)):
        check_event(event)
