"""What a history needs before it runs: columns that fit, and a feed that is whole from a version on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from enrich.base.errors import ConfigError
from enrich.delta import tables
from enrich.progress import continuity
from enrich.project.compile import compile_job
from enrich.project.kinds import JOBS
from enrich.project.kinds.history import HistorySpec
from enrich.project.project import load_project
from kit.project import write_project
from unit.config.small_project import CONF, HISTORY, Edits, edited

PEOPLE = {"person_id": "string", "name": "string", "mail": "string", "note": "string"}
FEED = {"delta.enableChangeDataFeed": "true"}


def compiled(base: Path, edits: Edits, columns: dict[str, str]) -> HistorySpec:
    project = load_project(write_project(base, {"conf/dev.yml": CONF, "jobs/names.yml": edited(HISTORY, edits)}))
    spec = compile_job(project.jobs["names"], {"people": dict(columns)}).spec
    assert isinstance(spec, HistorySpec)
    return spec


def test_a_target_has_key_times_and_columns(tmp_path: Path) -> None:
    spec = compiled(tmp_path, {}, PEOPLE)
    assert spec.columns == ("person_id", "since", "until", "name", "mail")
    assert spec.identity == ("person_id", "since")
    assert list(spec.source.columns) == ["person_id", "name", "mail"]


def test_lineage_leads_to_the_columns_and_the_times_come_from_none(tmp_path: Path) -> None:
    found = JOBS[compiled(tmp_path, {}, PEOPLE).kind].find_origins(compiled(tmp_path, {}, PEOPLE))
    assert list(found) == ["person_id", "since", "until", "name", "mail"]
    assert (found["mail"], found["since"]) == ({("people", "mail"): "IDENTITY"}, {})


def test_all_columns_are_taken_when_none_is_named(tmp_path: Path) -> None:
    spec = compiled(tmp_path, {9: "  start: beginning"}, PEOPLE)
    assert (spec.tracked, spec.from_beginning) == (("name", "mail", "note"), True)


@pytest.mark.parametrize(
    ("edits", "columns", "line", "words"),
    [
        ({9: "  columns: [name, male]"}, PEOPLE, 9, "'male' is not a column of 'people' (table people); did you mean"),
        ({9: None}, {**PEOPLE, "Since": "date"}, 6, "are one name for Spark"),
        ({}, {**PEOPLE, "mail": "variant"}, 9, "column 'mail' of 'people' is variant"),
        ({9: None, 10: "target: {table: names, cluster_by: [nam]}"}, PEOPLE, 9, "'nam', which is not a target column"),
    ],
)
def test_columns_that_do_not_fit(tmp_path: Path, edits: Edits, columns: dict[str, str], line: int, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compiled(tmp_path, edits, columns)
    assert caught.value.exit_code == 2
    (fault,) = caught.value.faults
    assert (fault.where, words in fault.message) == (f"jobs/names.yml:{line}", True), fault


def write(path: Path, *ids: str, mode: str = "append", configuration: dict[str, str | None] | None = None) -> None:
    rows = pa.table({"id": pa.array(ids, pa.string())})
    write_deltalake(str(path), rows, mode=mode, configuration=configuration)  # type: ignore[call-overload]


def start(path: Path, *stop: int, readable: bool = True) -> int:
    return continuity.find_feed_start(tables.read_state(str(path)), *stop, readable=readable)


def test_a_feed_is_whole_from_where_it_was_switched_on(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write(table, "a")
    write(table, "b")
    assert start(table) == 1
    DeltaTable(str(table)).alter.set_table_properties(FEED)  # 2
    write(table, "c")
    DeltaTable(str(table)).delete("id = 'a'")  # 4
    assert start(table) == 2
    assert start(table, 3) == 3
    DeltaTable(str(table)).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})  # 5
    DeltaTable(str(table)).alter.set_table_properties(FEED)  # 6
    assert start(table) == 6


def test_a_feed_is_whole_from_where_its_files_and_its_log_are(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write(table, "a", configuration=dict(FEED))
    for each in "bcd":  # 1, 2, 3
        write(table, each)
    DeltaTable(str(table)).optimize.compact()  # 4
    assert start(table) == 0
    added = [each["add"]["path"] for each in tables.actions(str(table), 2) or [] if "add" in each]
    (table / added[0]).unlink()
    assert start(table) == 4, "versions 2 and 3 have lost a file, and so has the feed of 2"
    assert start(table, 2, readable=False) == 2, "no commit after 2 needs the file for its feed"
    assert start(table, 1, readable=False) == 4


def test_a_deletion_vector_is_found_by_its_name() -> None:
    # The example of Delta's protocol.
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"}
    found = continuity.list_files([{"add": {"path": "file", "deletionVector": vector}}], "add")
    assert list(found) == ["file", "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"]
