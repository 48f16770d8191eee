"""Hold what a round found against what it expects: rows of targets and quarantines, results, findings, reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enrich.base.console import format_count, format_finding
from enrich.base.result import JobResult, RunResult
from enrich.base.spec import RUN_ID_COLUMN, DataType
from enrich.base.words import did_you_mean
from enrich.testing.cells import CellError, type_cell
from enrich.testing.differ import Row, canonical, show_cell, side_by_side
from enrich.testing.scenario import ExpectedJob, ExpectedTarget, Round, TypedRow, WrittenRows


@dataclass(frozen=True)
class Mismatch:
    """One thing that is not as expected."""

    line: int
    what: str  # the table, or what of the run
    text: str  # what differs, in one line or several; it may hold values of the test


@dataclass(frozen=True)
class FoundTable:
    """A target or a quarantine after a round."""

    key: tuple[str, ...]  # the columns by which rows are aligned
    columns: Mapping[str, DataType] | None  # column -> type; None when there is no table
    rows: Sequence[Row]
    before: Sequence[Row] = ()


# --- tables ----------------------------------------------------------------------------------------------------------


def compare_target(name: str, expected: ExpectedTarget, found: FoundTable, *, is_partial: bool) -> Iterator[Mismatch]:
    """Yield how a target differs from the rows expected, or from what it was, less ``gone``, with ``changed``."""
    if expected.whole is not None:
        yield from compare_rows(name, expected.whole, found, is_partial=is_partial)
    if expected.changed is None and expected.gone is None:
        return
    line = expected.lines.get("changed") or expected.lines["gone"]
    changed, line_of_gone = expected.changed or WrittenRows((), line, ()), expected.lines.get("gone", line)
    if found.columns is None:
        if changed.rows or expected.gone:
            yield Mismatch(line, name, "there is no table")
        return
    at = line_of_gone
    try:
        gone = [_type_key(key, found) for key in expected.gone or ()]
        at = line
        new = _type_rows(changed, found.columns, is_partial=is_partial)
    except CellError as error:
        yield Mismatch(at, name, str(error))
        return
    if missing := sum(not any(_is_same(key, row) for row in found.before) for key in gone):
        yield Mismatch(line_of_gone, name, f"{missing} of {len(gone)} keys were not in the table before the round")
    left_or_changed = [*gone, *({each: row.get(each) for each in found.key} for row in new)]
    left = [row for row in found.before if not any(_is_same(key, row) for key in left_or_changed)]
    yield from _compare([*left, *new], changed, found, name, is_partial=is_partial)


def compare_rows(name: str, expected: WrittenRows, found: FoundTable, *, is_partial: bool) -> Iterator[Mismatch]:
    """Yield how all rows of a table differ from those that are written."""
    if found.columns is None:
        if expected.rows:
            key = [each for each in found.key if each in expected.columns]
            picture = side_by_side([row.cells for row in expected.rows], [], key)
            yield Mismatch(expected.line, name, f"there is no table\n{picture}")
        return
    try:
        wanted = _type_rows(expected, found.columns, is_partial=is_partial)
    except CellError as error:
        yield Mismatch(expected.line, name, str(error))
        return
    yield from _compare(wanted, expected, found, name, is_partial=is_partial)


def _compare(
    wanted: Sequence[Row], expected: WrittenRows, found: FoundTable, name: str, *, is_partial: bool
) -> Iterator[Mismatch]:
    """Yield how the rows of a table differ from typed rows, in the columns that are to be compared."""
    columns = expected.columns if is_partial and expected.rows else tuple(found.columns or ())
    ours, theirs = (
        [{each: row[each] for each in columns if each in row} for row in rows] for rows in (wanted, found.rows)
    )
    if picture := side_by_side(ours, theirs, [each for each in found.key if each in columns]):
        yield Mismatch(expected.line, name, picture)


def compare_quarantine(
    name: str, expected: int | WrittenRows, line: int, found: FoundTable, *, is_partial: bool
) -> Iterator[Mismatch]:
    """Yield how a quarantine differs: in the number of its rows, or in its rows."""
    what = f"quarantine of {name}"
    # Nobody can expect the id of a run.
    columns = None if found.columns is None else {k: kind for k, kind in found.columns.items() if k != RUN_ID_COLUMN}
    rows = [{each: cell for each, cell in row.items() if each != RUN_ID_COLUMN} for row in found.rows]
    if not isinstance(expected, int):
        table = FoundTable(found.key, columns, rows)
        yield from compare_rows(what, expected, table, is_partial=is_partial)
    elif len(rows) != expected:
        listed = ["  " + " ".join(f"{each}={show_cell(cell)}" for each, cell in row.items()) for row in rows]
        told = f"expected {format_count(expected, 'row')}, found {len(rows)}"
        yield Mismatch(line, what, "\n".join([told, *listed]))


def _type_rows(expected: WrittenRows, columns: Mapping[str, DataType], *, is_partial: bool) -> list[TypedRow]:
    """Return written rows with the types of the table that was found; CellError: cells or columns do not fit."""
    faults = [
        f"there is no column {each!r}{did_you_mean(each, columns)}" for each in expected.columns if each not in columns
    ]
    missing = [name for name in columns if name not in expected.columns]
    if missing and expected.rows and not is_partial:
        hint = "name them, or write 'partial: true' into the file"
        faults.append(f"the rows do not name all columns: {', '.join(missing)}; {hint}")
    short = next((row for row in expected.rows if len(row.cells) < len(expected.columns)), None)
    if short is not None and not missing:
        lacking = next(name for name in expected.columns if name not in short.cells)
        faults.append(f"the row on line {short.line} does not name {lacking!r}, which another row names")
    if faults:
        raise CellError("\n".join(faults))
    return [{name: type_cell(cell, name, columns[name]) for name, cell in row.cells.items()} for row in expected.rows]


def _type_key(key: Any, found: FoundTable) -> dict[str, Any]:
    """Return a key of ``gone`` as column -> value."""
    columns = found.columns or {}
    if not isinstance(key, Mapping):
        if len(found.key) != 1:
            raise CellError(f"a key is a mapping of columns and values: {', '.join(found.key)}")
        key = {found.key[0]: key}
    for name in key:
        if name not in columns:
            raise CellError(f"there is no column {name!r}{did_you_mean(name, columns)}")
    return {name: type_cell(cell, name, columns[name]) for name, cell in key.items()}


def _is_same(part: Row, row: Row) -> bool:
    """Return whether a row has the cells of ``part``."""
    return bool(part) and all(canonical(row.get(name)) == canonical(cell) for name, cell in part.items())


# --- results ---------------------------------------------------------------------------------------------------------


def compare_run(expected: Round, result: RunResult) -> Iterator[Mismatch]:
    """Yield how a run differs: exit code, and each job's status, findings and numbers.

    A job that did not end as expected says why: its error, and the rules that failed.
    """
    told: list[str] = []
    if result.exit_code != expected.exit_code:
        told = [line for job in result.jobs if job.exit_code for line in list_ends(job)]
        text = "\n".join([f"expected {expected.exit_code}, found {result.exit_code}", *told])
        yield Mismatch(expected.exit_line, "exit code", text)
    found = {job.job: job for job in result.jobs}
    for name, wanted in expected.results.items():
        job = found.get(name)
        if job is None:  # asked about by `why` alone
            continue
        if wanted.status is not None and job.status != wanted.status:
            lines = [f"expected {wanted.status}, found {job.status}", *([] if told else list_ends(job))]
            yield Mismatch(wanted.lines["status"], f"status of {name}", "\n".join(lines))
        yield from _compare_findings(name, wanted, job)
        given = {} if wanted.counts is None else wanted.counts.model_dump(exclude_unset=True)
        have = {key: getattr(job.counts, key) for key in given}
        if wrong := [
            f"{key}: expected {value}, found {have[key]}" for key, value in given.items() if have[key] != value
        ]:
            yield Mismatch(wanted.lines["counts"], f"counts of {name}", "\n".join(wrong))


def list_ends(job: JobResult) -> list[str]:
    """Return why a job ended as it did, in lines."""
    lines = [f"{job.job}: {job.status}"]
    lines += [f"  {format_finding(each)}" for each in job.findings if each.success is False or each.error is not None]
    return lines + ([f"  {job.error}"] if job.error is not None else [])


def _compare_findings(name: str, wanted: ExpectedJob, job: JobResult) -> Iterator[Mismatch]:
    if wanted.findings is None:
        return
    left = [each for each in job.findings if each.success is not None or each.error is not None]
    absent = []
    for each in wanted.findings:
        given = each.model_dump(include=each.model_fields_set)
        match = next(
            (
                other
                for other in left
                if (other.success is True) == each.success
                and all(getattr(other, key) == value for key, value in given.items() if key != "success")
            ),
            None,
        )
        if match is None:
            told = ", ".join(f"{key}: {value}" for key, value in given.items()) or "any that failed"
            absent.append(f"expected, not found: {told}")
        else:
            left.remove(match)
    surplus = [each for each in left if each.success is not True]
    if not absent and not surplus:
        return
    lines = absent + [f"found, not expected: {format_finding(each)}" for each in surplus]
    yield Mismatch(wanted.lines["findings"], f"findings of {name}", "\n".join(lines))


def compare_reasons(
    name: str, expected: WrittenRows, found: FoundTable, reasons: Mapping[tuple[Any, ...], Mapping[str, str]]
) -> Iterator[Mismatch]:
    """Yield how the reasons of a job's rows differ from those that are written.

    Args:
        name: The job.
        expected: Rows with the target's key, and a column for each alias.
        found: The target; its key is that of the reasons.
        reasons: Key -> alias -> reason.
    """
    aliases = [each for each in expected.columns if each not in found.key]
    known = {tuple(map(canonical, key)): told for key, told in reasons.items()}
    wanted, have = [], []
    for row in expected.rows:
        try:
            key = {each: type_cell(row.cells[each], each, (found.columns or {})[each]) for each in found.key}
        except (CellError, KeyError) as error:
            text = str(error) if isinstance(error, CellError) else f"the row does not name the key {error}"
            yield Mismatch(row.line, f"why {name}", text)
            continue
        told = known.get(tuple(map(canonical, key.values())))
        wanted.append({**key, **{each: str(row.cells[each]) for each in aliases if each in row.cells}})
        if told is not None:
            have.append({**key, **{each: told.get(each, "(none)") for each in aliases if each in row.cells}})
    if picture := side_by_side(wanted, have, list(found.key)):
        yield Mismatch(expected.line, f"why {name}", picture)
