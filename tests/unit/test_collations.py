"""Text with a collation: the log tells it, and a job that uses it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from enrich import ConfigError, load_project
from enrich.delta.tables import read_state
from enrich.project.compile import compile_job

CI = "string collate UTF8_LCASE"
JOB = """\
job: people
sources:
  people: {table: people, key: id}
from: people
select:
  id: people.id
  mail: people.mail
target: {table: kept}
"""


def field(name: str, kind: object, **collations: str) -> dict[str, object]:
    """Return a field as Delta writes it: collations stand in its metadata, path within the field -> provider.name."""
    marks = {"__COLLATIONS": {path.replace("_", "."): each for path, each in collations.items()}} if collations else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": marks}


def test_the_log_tells_where_collations_are(tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [field("x", "string", x="icu.UNICODE_CI.75.1"), field("y", "string")]}
    strings = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    fields = [
        field("id", "string"),
        field("mail", "string", mail="spark.UTF8_LCASE"),
        field("pairs", strings, pairs_value="spark.UTF8_LCASE"),
        field("deep", {"type": "array", "elementType": inner, "containsNull": True}),
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = {"id": "1", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": {}}},
    ]
    log = tmp_path / "_delta_log" / f"{0:020d}.json"
    log.parent.mkdir()
    log.write_text("\n".join(map(json.dumps, actions)))
    found = read_state(str(tmp_path)).columns
    assert (found["id"], found["mail"]) == ("string", CI)
    assert (found["pairs"]["keyType"], found["pairs"]["valueType"]) == ("string", CI)  # type: ignore[index]
    deep = found["deep"]["elementType"]["fields"]  # type: ignore[index]
    assert [each["type"] for each in deep] == ["string collate UNICODE_CI", "string"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"id": CI, "mail": "string"}, 3),
        ({"id": "string", "mail": CI}, 7),
        ({"id": "string", "mail": {"type": "array", "elementType": CI, "containsNull": True}}, 7),
    ],
)
def test_a_used_column_with_a_collation_is_refused_and_an_unused_one_is_not(
    tmp_path: Path, columns: dict[str, object], line: int
) -> None:
    for name, text in {"jobs/people.yml": JOB, "conf/dev.yml": "lake: ./lake\n"}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    job = load_project(tmp_path).jobs["people"]
    with pytest.raises(ConfigError) as caught:
        compile_job(job, {"people": columns})  # type: ignore[dict-item]
    assert caught.value.exit_code == 2
    fault = next(each for each in caught.value.faults if each.where == f"jobs/people.yml:{line}")
    assert "collate UTF8_LCASE" in fault.message
    assert "leave it out" in fault.message
    compile_job(job, {"people": {"id": "string", "mail": "string", "unused": CI}})
