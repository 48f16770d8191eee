"""What `why` and `doctor keys` print, and that nothing of it can do anything to a terminal."""

from __future__ import annotations

from pathlib import Path

from enrich.answers.near_misses import suggest_lines
from enrich.answers.reasons import JoinKeys, KeyReport, Reason, Suggestion, Why, format_answer, format_keys
from enrich.operations.loading import load_project
from enrich.project.models import Job
from kit.project import write_project

NEAR = Reason("near_miss", kind="invisible", found="\u200bu1\x1b[31m\u202e\n")


def test_a_row_is_told_line_by_line() -> None:
    deleted = Reason("deleted_at", version=4, at="2026-11-21T10:00:00+00:00", source="b")
    cells = {"x": deleted, "y": Reason("near_miss", elements={"matched": 2, "near_miss": 1}, source="c")}
    text = format_answer(Why("job", 3, Reason("quarantined", rules=("r:x", "s")), {"a": NEAR}, cells), None)
    assert text.splitlines() == [
        "about   what  reason       detail",
        "row           quarantined  r:x, s",
        r"source  a     near_miss    invisible; key '\u200bu1\x1b[31m\u202e\n'",
        "column  x     deleted_at   version 4 of 2026-11-21T10:00:00+00:00; in b",
        "column  y     near_miss    2 matched, 1 near_miss; in c",
    ]


def test_a_column_is_told_in_one_line() -> None:
    told = Why("job", 3, Reason("matched"), {}, {"x": Reason("deleted_at", version=4, source="b")})
    assert format_answer(told, "x") == "deleted_at: version 4; in b"
    assert format_answer(Why("job", 3, Reason("matched"), {}, {"x": Reason("matched")}), "X") == "matched"


def test_a_report_is_told_join_by_join() -> None:
    suggestion = Suggestion(["trim"], 2, {"m": "m: {table: t, key: id, normalise: [trim]}"})
    joins = (
        JoinKeys("m", "table", 9, 7, {"blank": 2, "case": 3}, suggestion, (("blank", " a", "a\x07"),)),
        JoinKeys("n", "list", 1, 0, {}),
    )
    assert format_keys(KeyReport("job", "jobs/job.yml", joins)).splitlines() == [
        "m (table): 7 of 9 references without a partner, near misses among them: 5",
        "         2  blank",
        "         3  case",
        r"  blank: ' a' nearly matches 'a\x07'",
        "  to make 2 references match, write in jobs/job.yml and run `enrich run job --full-refresh`:",
        "    sources:",
        "      m: {table: t, key: id, normalise: [trim]}",
        "",
        "n (list): 0 of 1 reference without a partner",
    ]
    assert "no joins" in format_keys(KeyReport("job", "jobs/job.yml", ()))


def test_the_json_of_a_report_holds_no_keys() -> None:
    suggestion = Suggestion(["trim"], 2, {"m": "m: {}"})
    joins = (JoinKeys("m", "table", 9, 7, {"blank": 2}, suggestion, (("blank", "secret", "secret"),)),)
    told = KeyReport("job", "jobs/job.yml", joins).to_dict()
    assert told == {
        "job": "job",
        "file": "jobs/job.yml",
        "joins": [
            {
                "join": "m",
                "kind": "table",
                "references": 9,
                "unmatched": 7,
                "near_misses": {"blank": 2},
                "suggestion": {"normalise": ["trim"], "heals": 2, "lines": {"m": "m: {}"}},
            }
        ],
    }


def test_the_suggested_line_is_of_the_source_that_the_file_has(tmp_path: Path) -> None:
    query = "query: |\n  SELECT p.id, q.x FROM people AS p LEFT JOIN others AS q ON p.id = q.id\n"
    sources = "sources: {people: {table: t, key: id}, others: {table: u, key: id}}\n"
    files = {"conf/dev.yml": "lake: ./lake\n", "jobs/j.yml": f"job: j\n{sources}{query}target: {{table: out}}\n"}
    job = load_project(write_project(tmp_path, files)).jobs["j"]
    lines = suggest_lines(job, ["p", "q"], ["trim"])
    assert lines == {
        "p": "people: {table: t, key: id, normalise: [trim]}",
        "q": "others: {table: u, key: id, normalise: [trim]}",
    }


def test_the_suggested_line_keeps_what_the_source_says() -> None:
    sources = {
        "a": {"table": "yes", "key": ["x y", "no"], "unique": "trusted", "normalise": ["trim"]},
        "b": {"table": "./b", "key": "id", "owner": "crm", "columns": {"mail": {"private": True}}},
    }
    job = Job.model_validate({"job": "j", "sources": sources, "from": "a", "target": {"table": "t"}})
    assert suggest_lines(job, ["a", "b"], ("visible", "lower")) == {
        "a": "a: {table: 'yes', key: [x y, 'no'], unique: trusted, normalise: [visible, trim, lower]}",
        "b": "b: {table: ./b, key: id, owner: crm, columns: {mail: {private: true}}, normalise: [visible, lower]}",
    }
