"""From which columns the columns of a target come."""

from __future__ import annotations

from pathlib import Path

from enrich.project.kinds import JOBS
from unit.observe.conftest import GetTask


def test_each_kind_of_join_is_traced(get_task: GetTask) -> None:
    traced = JOBS[get_task("wide").spec.kind].find_origins(get_task("wide").spec)
    lists = {
        ("articles", "id"): "TRANSFORMATION",
        ("articles", "title"): "TRANSFORMATION",
        ("orders", "items"): "TRANSFORMATION",
    }
    assert {column: dict(sources) for column, sources in traced.items()} == {
        # The coalesced key of a full join comes from both sides.
        "id": {("orders", "id"): "TRANSFORMATION", ("notes", "id"): "TRANSFORMATION"},
        "seller": {("sellers", "id"): "IDENTITY"},
        "boss": {("again", "country"): "IDENTITY"},
        "note": {("notes", "note"): "TRANSFORMATION"},
        "items": lists,
        "both": {**lists, ("orders", "seller"): "TRANSFORMATION"},
    }


def test_a_mirror_is_traced(get_task: GetTask) -> None:
    traced = JOBS[get_task("inverse").spec.kind].find_origins(get_task("inverse").spec)
    assert {column: dict(sources) for column, sources in traced.items()} == {
        "country": {("sellers", "country"): "IDENTITY"},
        "id": {("sellers", "id"): "IDENTITY"},
    }


def test_a_mirror_that_collects_aggregates_its_keys(shop: Path, get_task: GetTask) -> None:
    job = shop / "jobs" / "inverse.yml"
    text = job.read_text().replace("conflict: last, order: since", "conflict: collect")
    job.write_text(text.replace("key: id", "key: [id, since]"))
    traced = JOBS[get_task("inverse").spec.kind].find_origins(get_task("inverse").spec)
    assert traced["keys"] == {("sellers", "id"): "AGGREGATION", ("sellers", "since"): "AGGREGATION"}


def test_a_key_in_another_form_is_not_taken_as_it_is(shop: Path, get_task: GetTask) -> None:
    job = shop / "jobs" / "wide.yml"
    job.write_text(
        job.read_text()
        .replace("how: full", "how: left")
        .replace("table: orders, key: id", "table: orders, key: id, normalise: trim")
    )
    assert JOBS[get_task("wide").spec.kind].find_origins(get_task("wide").spec)["id"] == {
        ("orders", "id"): "TRANSFORMATION"
    }


def test_a_left_join_takes_the_key_from_the_driving_source(shop: Path, get_task: GetTask) -> None:
    job = shop / "jobs" / "wide.yml"
    job.write_text(job.read_text().replace("how: full", "how: left"))
    assert JOBS[get_task("wide").spec.kind].find_origins(get_task("wide").spec)["id"] == {("orders", "id"): "IDENTITY"}
