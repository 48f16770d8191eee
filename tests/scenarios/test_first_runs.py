"""First runs write before they know whether they may: what they commit, and that nothing is left where they may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from enrich.delta import drafts, sink
from kit.lab import Lab, Rows

PEOPLE: Rows = [{"id": 1, "town": 7, "size": 2}, {"id": 2, "town": 8, "size": 1}, {"id": 3, "town": None, "size": 4}]
JOB = """job: {name}
sources: {{p: {{table: people, key: id}}, t: {{table: towns, key: id}}}}
from: p
join: {{t: {{kind: foreign_key, on: p.town, how: left}}}}
select: {{id: p.id, town: t.name, share: 8 / p.size}}
{more}target: {{table: {name}, cluster_by: [town, id]}}
"""


def _open(lab: Lab, *jobs: str, more: str = "") -> None:
    lab.table("people", "id", dict.fromkeys(("id", "town", "size"), pa.int64()), PEOPLE)
    lab.table("towns", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": 7, "name": "Bern"}])
    for name in jobs:
        lab.job(JOB.format(name=name, more=more))


def _refuse_nulls(column: str) -> dict[str, Any]:
    return {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": column}}


def _describe(lab: Lab, name: str) -> dict[str, Any]:
    """Return all that must not depend on the way in which a table was created."""
    log = DeltaTable(lab.path(name))
    (entry,) = log.history()
    record, properties = json.loads(entry["userMetadata"]), entry["operationParameters"]["properties"]
    (commit,) = (Path(lab.path(name)) / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    lines = {kind: told for each in actions for kind, told in each.items()}
    kept = ("rows", "nulls", "lookups")
    return {
        "rows": sorted(lab.rows(name), key=lambda each: int(each["id"])),
        "protocol": {key: sorted(each) if isinstance(each, list) else each for key, each in lines["protocol"].items()},
        "metadata": {key: lines["metaData"][key] for key in ("schemaString", "partitionColumns", "configuration")},
        "domain": lines["domainMetadata"],
        "number": lines["txn"]["version"],
        "entry": [entry["operation"], {**entry["operationParameters"], "properties": json.loads(properties)}],
        "state": {key: record["state"][key] for key in kept},
    }


def test_a_drafted_table_is_that_which_is_created_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    _open(lab, "drafted", "created")
    seen: list[drafts.Draft] = []
    commit = sink.commit_draft

    def watch(session: Any, draft: drafts.Draft, given: sink.Commit) -> None:
        seen.append(draft)
        commit(session, draft, given)

    monkeypatch.setattr(sink, "commit_draft", watch)
    ours = lab.run("drafted")
    assert [each.is_tried for each in seen] == [True]
    monkeypatch.setattr(sink, "draft_table", lambda *_: None)
    theirs = lab.run("created")
    assert (ours.status, ours.counts, ours.lookups) == (theirs.status, theirs.counts, theirs.lookups)
    assert _describe(lab, "drafted") == _describe(lab, "created")


@pytest.mark.parametrize(
    "release", ["other classes", pytest.param("other methods", marks=pytest.mark.soak), "other frames"]
)
def test_other_releases_create_tables_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    _open(lab, "t")
    if release == "other classes":
        monkeypatch.setattr(drafts, "JavaClass", str)
    elif release == "other methods":
        monkeypatch.setattr(drafts, "make_sequence", lambda *_: "none of Scala's")
    else:  # found when the files are written
        monkeypatch.setattr(drafts, "ClassicDataFrame", None)
    assert lab.run("t").status == "created"
    assert len(lab.rows("t")) == len(list(Path(lab.path("t")).glob("part-*"))) + 2 == 3


def test_a_closed_gate_leaves_no_file(lab: Lab) -> None:
    _open(lab, "t", more="expectations: s\n")
    lab.suite("s", _refuse_nulls("town"))
    assert lab.run("t").exit_code == 3
    table = Path(lab.path("t"))
    assert not table.exists()
    (table / "_delta_log").mkdir(parents=True)
    killed = table / "part-00000-killed.snappy.parquet"
    killed.touch()
    assert lab.run("t").exit_code == 3
    assert {each.name for each in table.iterdir()} == {"_delta_log", killed.name}
    lab.suite("s", _refuse_nulls("id"))
    assert lab.run("t").status == "created"


def test_a_value_that_fails_leaves_no_file(lab: Lab) -> None:
    _open(lab, "t")
    lab.put("people", {"id": 4, "town": 7, "size": 0})
    failed = lab.run("t")
    assert (failed.exit_code, "share" in str(failed.error)) == (2, True)
    assert not Path(lab.path("t")).exists()


def test_files_that_went_are_not_committed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    _open(lab, "t")
    commit = sink.commit_draft
    times = iter(range(2))

    def lose(session: Any, draft: drafts.Draft, given: sink.Commit) -> None:
        if next(times) == 0:
            for each in Path(lab.path("t")).glob("*part-*"):
                each.unlink()
        commit(session, draft, given)

    monkeypatch.setattr(sink, "commit_draft", lose)
    result = lab.run("t")
    assert result.status == "created", result.error
    assert len(lab.rows("t")) == 3
