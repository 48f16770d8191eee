"""What people are told of tables: comments of targets follow the words of the files, and nothing else moves."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from enrich.delta import drafts
from kit.lab import Lab, Prepared

TABLES = """\
people: {key: id, columns: {size: {description: In metres}}}
towns: {key: id}
"""
JOB = """\
job: wide
description: People's \\"towns\\"
query: |
  SELECT p.id, t.name AS town, p.size, p.size * 2 AS twice, p.size + 0 AS same
  FROM people AS p LEFT JOIN towns AS t ON p.town = t.id
columns: {twice: {description: 'Two times the size, \\ and more'}}
target: {table: wide}
"""
SAID = {"": 'People\'s \\"towns\\"', "town": "What it is called", "size": "In metres"}
SAID |= {"twice": "Two times the size, \\ and more"}


def _open(lab: Lab) -> None:
    numbers = dict.fromkeys(("id", "town", "size"), pa.int64())
    lab.table("people", "id", numbers, [{"id": 1, "town": 7, "size": 2}])
    name = pa.field("name", pa.string(), metadata={"comment": "What it is called"})
    DeltaTable.create(
        lab.path("towns"),
        pa.schema([pa.field("id", pa.int64()), name]),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    lab.keys["towns"] = "id"
    lab.put("towns", {"id": 7, "name": "Bern"})
    (lab.home / "tables.yml").write_text(TABLES)
    lab.job(JOB)


def _comments(lab: Lab) -> dict[str, str]:
    log = DeltaTable(lab.path("wide"))
    fields = json.loads(log.schema().to_json())["fields"]
    found = {each["name"]: each["metadata"]["comment"] for each in fields if "comment" in each["metadata"]}
    return found | ({"": log.metadata().description} if log.metadata().description else {})


def _definition(lab: Lab) -> Any:
    return next(json.loads(each["userMetadata"])["definition"] for each in lab.log("wide") if "userMetadata" in each)


def _create(lab: Lab) -> None:
    _open(lab)
    assert lab.run().status == "created"


@pytest.fixture
def described(prepared: Prepared) -> Lab:
    """Give the target after its first run."""
    return prepared("described", _create)


def _assert_created(lab: Lab) -> None:
    assert _comments(lab) == SAID
    assert len(lab.log("wide")) == 1


def test_a_target_is_drafted_with_its_comments(described: Lab) -> None:
    _assert_created(described)


def test_a_target_is_created_at_once_with_its_comments(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "write_draft", lambda *_: None)
    _create(lab)
    _assert_created(lab)


def test_comments_follow_the_words(described: Lab) -> None:
    lab = described
    definition = _definition(lab)
    lab.job(JOB.replace("description: People's", "description: Our people's"))
    (lab.home / "tables.yml").write_text(TABLES.replace("In metres", "In feet") + "more: {key: id}\n")
    again = lab.run()
    assert (again.status, again.strategy) == ("unchanged", "nothing")
    said = {**SAID, "": 'Our people\'s \\"towns\\"', "size": "In feet"}
    assert _comments(lab) == said
    versions = len(lab.log("wide"))
    assert lab.run().status == "unchanged"
    assert len(lab.log("wide")) == versions  # nothing was left to say

    # Rows and words at once; then another definition, whose table is written anew.
    lab.put("towns", {"id": 7, "name": "Thun"})
    lab.job(JOB.replace("Two times", "Twice"))
    assert lab.run().counts.updated == 1
    said |= {"": SAID[""], "twice": "Twice the size, \\ and more"}
    assert _comments(lab) == said
    assert _definition(lab) == definition
    lab.job(JOB.replace("Two times", "Twice").replace("p.size + 0 AS same", "p.size + 1 AS more"))
    assert lab.run(full_refresh=True).strategy == "rewrite"
    assert _comments(lab) == said
    assert lab.run().status == "unchanged"
    assert lab.rows("wide") == [{"id": 1, "town": "Thun", "size": 2, "twice": 4, "more": 3}]


def test_what_nobody_says_stays(described: Lab) -> None:
    lab = described
    lab.spark.sql(f"ALTER TABLE delta.`{lab.path('wide')}` ALTER COLUMN same COMMENT 'by hand'")
    (lab.home / "tables.yml").write_text(TABLES.replace(", columns: {size: {description: In metres}}", ""))
    versions = len(lab.log("wide"))
    assert lab.run().status == "unchanged"
    assert _comments(lab) == {**SAID, "same": "by hand"}
    assert len(lab.log("wide")) == versions
