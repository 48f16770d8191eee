"""What a round found against what it expects, without a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from enrich.base.result import Counts, Finding, JobResult, RunResult
from enrich.testing.compare import (
    FoundTable,
    compare_quarantine,
    compare_reasons,
    compare_rows,
    compare_run,
    compare_target,
)
from enrich.testing.scenario import (
    CountsEntry,
    ExpectedJob,
    ExpectedTarget,
    FindingEntry,
    Round,
    WrittenRow,
    WrittenRows,
)

COLUMNS = {"id": "string", "n": "long"}
A, B, C = {"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "c", "n": None}


def written(*rows: dict[str, Any]) -> WrittenRows:
    found = tuple(WrittenRow(row, 10 + number) for number, row in enumerate(rows))
    return WrittenRows(found, 9, tuple(dict.fromkeys(name for row in rows for name in row)))


def found(*rows: dict[str, Any], before: Sequence[dict[str, Any]] = ()) -> FoundTable:
    return FoundTable(("id",), COLUMNS, rows, before)


def texts(differences: Any) -> list[str]:
    return [f"{each.line} {each.what}: {each.text}" for each in differences]


def test_rows_are_compared_whatever_their_order() -> None:
    assert not texts(compare_rows("t", written(B, A), found(A, B), is_partial=False))
    (wrong,) = texts(compare_rows("t", written(A, C), found(A, B), is_partial=False))
    assert wrong.startswith("9 t: 2 of 3 rows differ, aligned by id")


def test_rows_name_all_columns_unless_partial() -> None:
    short = written({"id": "a"})
    assert texts(compare_rows("t", short, found(A), is_partial=False)) == [
        "9 t: the rows do not name all columns: n; name them, or write 'partial: true' into the file"
    ]
    assert not texts(compare_rows("t", short, found(A), is_partial=True))
    assert texts(compare_rows("t", short, found(A, B), is_partial=True))


def test_no_rows_are_expected_without_naming_columns() -> None:
    assert not texts(compare_rows("t", written(), found(), is_partial=False))
    assert "++ (no such row) | id=a n=1" in texts(compare_rows("t", written(), found(A), is_partial=False))[0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "a", "m": 1}, "there is no column 'm'"),
        ({"id": "a", "n": "x"}, "column 'n': 'x' is not a whole number"),
    ],
)
def test_rows_that_do_not_fit_the_target(row: dict[str, Any], message: str) -> None:
    assert message in texts(compare_rows("t", written(row), found(A), is_partial=True))[0]


def test_a_row_that_lacks_a_column_of_the_others_is_named() -> None:
    (wrong,) = texts(compare_rows("t", written(A, {"id": "b"}), found(A, B), is_partial=False))
    assert "the row on line 11 does not name 'n'" in wrong


def test_a_table_that_is_not_there_has_no_rows() -> None:
    nothing = FoundTable((), None, ())
    assert not texts(compare_rows("t", written(), nothing, is_partial=False))
    (wrong,) = texts(compare_rows("t", written({"id": None}), nothing, is_partial=False))
    assert wrong.startswith("9 t: there is no table\n1 of 1 rows differ")
    changed = ExpectedTarget("j", changed=written(A), lines={"changed": 9})
    assert texts(compare_target("t", changed, nothing, is_partial=False))


# --- changed and gone ------------------------------------------------------------------------------------------------


def target(changed: WrittenRows | None = None, gone: tuple[Any, ...] | None = None) -> ExpectedTarget:
    return ExpectedTarget("j", changed=changed, gone=gone, lines={"changed": 9, "gone": 20})


def compared(expected: ExpectedTarget, table: FoundTable, *, is_partial: bool = False) -> list[str]:
    return texts(compare_target("t", expected, table, is_partial=is_partial))


def test_changed_replaces_and_adds_rows_of_the_round_before() -> None:
    new = {"id": "a", "n": 7}
    assert not compared(target(written(new, C)), found(new, B, C, before=[A, B]))
    assert not compared(target(written()), found(A, B, before=[A, B]))
    assert "!= id=a n=>1< | id=a n=>7<" in compared(target(written()), found(new, B, before=[A, B]))[0]
    assert "-- id=b n=2" in compared(target(written(new)), found(new, before=[A, B]))[0]


def test_gone_takes_rows_away() -> None:
    assert not compared(target(gone=("a",)), found(B, before=[A, B]))
    assert not compared(target(gone=({"n": 1},)), found(B, before=[A, B]))
    assert not compared(target(written(C), ("a",)), found(B, C, before=[A, B]))
    assert compared(target(gone=("a",)), found(A, B, before=[A, B]))
    assert compared(target(gone=("z",)), found(A, before=[A])) == [
        "20 t: 1 of 1 keys were not in the table before the round"
    ]
    assert "there is no column 'm'" in compared(target(gone=({"m": 1},)), found(A, before=[A]))[0]
    assert compared(target(gone=("a",)), FoundTable(("id", "n"), COLUMNS, [A], [A])) == [
        "20 t: a key is a mapping of columns and values: id, n"
    ]


def test_changed_rows_may_be_partial() -> None:
    moved = {"id": "b", "n": 9}
    assert not compared(target(written({"id": "a"})), found(A, moved, before=[B]), is_partial=True)
    assert compared(target(written({"id": "a"})), found(A, moved, before=[B]))


# --- quarantine ------------------------------------------------------------------------------------------------------


def test_a_quarantine_is_a_number_or_rows() -> None:
    held = FoundTable(("id",), {**COLUMNS, "_run_id": "string"}, [{**A, "_run_id": "x"}])
    assert not texts(compare_quarantine("t", 1, 5, held, is_partial=False))
    assert not texts(compare_quarantine("t", written(A), 5, held, is_partial=False))
    assert texts(compare_quarantine("t", 0, 5, held, is_partial=False)) == [
        "5 quarantine of t: expected 0 rows, found 1\n  id=a n=1"
    ]
    assert texts(compare_quarantine("t", written(B), 5, held, is_partial=False))
    assert not texts(compare_quarantine("t", 0, 5, FoundTable((), None, ()), is_partial=False))


# --- results ---------------------------------------------------------------------------------------------------------

FAILED = Finding(0, "not_null", "n", "warn", 3, 2, False)
PASSED = Finding(1, "unique", "id", "fail", 3, 0, True)
SILENT = Finding(2, "unique", "n", "fail", 0, 0, None)


def result(job: JobResult, **expected: Any) -> list[str]:
    lines = dict.fromkeys(("status", "findings", "counts"), 4)
    wanted = ExpectedJob(lines=lines, **expected)
    each = Round(1, "t", 3, (), None, (job.job,), {}, 0, 3, {}, {job.job: wanted})
    return texts(compare_run(each, RunResult("r", "dev", (job,))))


def test_an_unexpected_block_says_why() -> None:
    blocked = JobResult("j", "blocked", findings=(FAILED, PASSED), error="blocked by not_null", exit_code=3)
    (wrong,) = result(blocked)
    assert wrong.splitlines() == [
        "3 exit code: expected 0, found 3",
        "j: blocked",
        "  warn not_null(n): 2 of 3 rows failed",
        "  blocked by not_null",
    ]
    (code, status) = result(blocked, status="updated")
    assert status == "4 status of j: expected updated, found blocked"
    assert code.count("not_null") == 2


@pytest.mark.parametrize(
    ("expected", "wrong"),
    [
        ([{"expectation": "not_null", "failed": 2}], None),
        ([{"column": "n"}, {"expectation": "unique", "success": True}], None),
        ([], "found, not expected: warn not_null(n): 2 of 3 rows failed"),
        ([{"failed": 3}], "expected, not found: failed: 3\nfound, not expected: warn not_null(n): 2 of 3 rows failed"),
        ([{"column": "n"}, {"column": "n"}], "expected, not found: column: n"),
        ([{"column": "n"}, {"expectation": "unique"}], "expected, not found: expectation: unique"),
    ],
)
def test_findings_that_failed_are_all_expected(expected: list[dict[str, Any]], wrong: str | None) -> None:
    job = JobResult("j", "updated", findings=(FAILED, PASSED, SILENT))
    findings = tuple(FindingEntry.model_validate(each) for each in expected)
    assert result(job, findings=findings) == ([] if wrong is None else [f"4 findings of j: {wrong}"])


def test_counts_and_statuses_are_compared() -> None:
    job = JobResult("j", "updated", counts=Counts(inserted=2))
    assert not result(job, status="updated", counts=CountsEntry.model_validate({"inserted": 2, "deleted": 0}))
    assert result(job, counts=CountsEntry.model_validate({"inserted": 1})) == [
        "4 counts of j: inserted: expected 1, found 2"
    ]


def test_reasons_are_compared_for_the_rows_and_aliases_that_are_named() -> None:
    told = {("a",): {"x": "matched", "y": "no_such_key"}, ("b",): {"x": "matched"}}
    rows = written({"id": "a", "y": "no_such_key"}, {"id": "b", "x": "matched"})
    assert not texts(compare_reasons("j", rows, found(A, B), told))
    (wrong,) = texts(compare_reasons("j", written({"id": "a", "x": "deleted_at"}), found(A), told))
    assert "!= id=a x=>deleted_at< | id=a x=>matched<" in wrong
    (absent,) = texts(compare_reasons("j", written({"id": "c", "x": "matched"}), found(A), told))
    assert "-- id=c x=matched" in absent
    (keyless,) = texts(compare_reasons("j", written({"x": "matched"}), found(A), told))
    assert keyless == "10 why j: the row does not name the key 'id'"
