"""Print results for people: short aligned tables. Machines read ``--output json``.

Everything printed goes through ``clean``: a message may quote a file, and a file may hold terminal escapes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import click

from enrich.base import hints
from enrich.base.errors import format_bytes
from enrich.base.result import UNCHANGED, Extent, Finding, JobResult, RunResult, SourceWindow

_CHANGED = ("created", "updated")
_COLOURS = {"blocked": "red", "failed": "red", "skipped": "yellow", "locked": "yellow"}
_COLOURS |= dict.fromkeys(_CHANGED, "green")


def clean(text: str) -> str:
    r"""Return ``text`` with everything that a terminal would obey or hide shown as an escape; line breaks stay.

    ``"a\x1b[31m"`` becomes ``a\x1b[31m`` with a visible backslash; a zero-width space becomes ``\u200b``.
    """
    return "".join(
        char if char == "\n" or char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def measure_width(text: str) -> int:
    """Return how many columns of a terminal ``text`` takes; wide East Asian characters take two, accents none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in click.unstyle(text)
    )


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Lay out rows under a header, columns two blanks apart; ``right`` names the columns that align right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(measure_width(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        for column, text in enumerate(line):
            gap = " " * (widths[column] - measure_width(text))
            line[column] = gap + text if column in right else text + gap
    return "\n".join("  ".join(line).rstrip() for line in lines)


def format_count(number: int, noun: str) -> str:
    """Return ``1 row`` or ``2 rows``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_reasons(reasons: Mapping[str, int], near_misses: Mapping[str, int]) -> str:
    """Return why rows fail a rule, by reasons and kinds of near misses: ``3 near miss (2 invisible, 1 case)``."""

    def told(counts: Mapping[str, int]) -> dict[str, str]:
        return {word: f"{rows} {word.removesuffix('_at').replace('_', ' ')}" for word, rows in counts.items()}

    shown = told(reasons)
    if "near_miss" in shown and near_misses:
        shown["near_miss"] += f" ({', '.join(told(near_misses).values())})"
    return ", ".join(shown.values())


def format_window(alias: str, window: SourceWindow) -> str:
    """Return ``accounts 3->7 (12)``: the versions consumed and the keys that changed; ``start`` at a first run."""
    start = "start" if window.start is None else str(window.start)
    return f"{alias} {start}->{window.to} ({window.changes})"


def format_run(result: RunResult, *, quiet: bool = False) -> str:
    """Return the table of jobs of one run, each job's findings below its line, and the run's outcome last."""
    header = ("job", "status", "mode", "inserted", "updated", "deleted", "windows")
    rows = [
        (
            clean(job.job),
            click.style(job.status, fg=_COLOURS.get(job.status)),
            job.mode or "-",
            str(job.counts.inserted),
            str(job.counts.updated),
            str(job.counts.deleted),
            ", ".join(format_window(alias, window) for alias, window in job.sources.items()) or "-",
        )
        for job in result.jobs
    ]
    first, *lines = format_table(header, rows, right=(3, 4, 5)).split("\n")
    shown = [first]
    for line, job in zip(lines, result.jobs, strict=True):
        shown += [line, *(f"  {note}" for note in list_notes(job))]
    if result.dry_run:
        shown.append("dry run: nothing was written; this is what a run would do")
    if not quiet:
        done = sum(job.status in _CHANGED for job in result.jobs)
        last = f"{format_count(done, 'job')} changed" if done else "nothing to do"
        last = f"exit {result.exit_code}" if result.exit_code else last
        shown.append(clean(f"run {result.run_id}, deployment {result.deployment}: {last}"))
    return "\n".join(shown)


def list_notes(job: JobResult) -> list[str]:
    """Return the lines below a job: counts that are not always there, findings, the error."""
    rare = ("null_foreign_key", "null_list_id", "null_value")
    told = [f"{job.counts.quarantined} quarantined"] if job.counts.quarantined else []
    told += [format_count(n, name.replace("_", " ")) for name in rare if (n := getattr(job.counts, f"{name}s"))]
    lines = [", ".join(told)] if told else []
    for alias, window in job.sources.items():
        if window.gap is not None:
            first, last = window.gap[0] + 1, window.gap[1]
            lines.append(clean(f"versions {first} to {last} of {alias} were left out, because of --allow-gap"))
        if window.compared:
            lines.append(clean(f"the change feed of {alias} does not tell all: its rows at both ends were compared"))
    is_silent = all(each.success is None and each.error is None for each in job.findings)
    if is_silent and len(job.findings) > 1 and job.status != UNCHANGED:
        lines.append(f"{len(job.findings)} rules, 0 rows checked")
    elif not (is_silent and job.status == UNCHANGED):  # then no row was to be judged
        lines += [format_finding(finding) for finding in job.findings if finding.success is not True]
    for other, rows in job.quarantined_upstream.items():
        held = f"{format_count(rows, 'row')} quarantined upstream, by job {other}"
        lines.append(clean(f"{held}: `{hints.report(other)}` says why"))
    if job.optimized is not None:
        removed, added = format_extent(job.optimized.removed), format_extent(job.optimized.added)
        lines.append(f"OPTIMIZE of the target: {removed}, became {added}; {job.optimized.why}")
    if job.error is not None:
        lines += [click.style("error", fg="red") + f" {clean(line)}" for line in job.error.splitlines()]
    return lines


def format_extent(found: Extent) -> str:
    """Return ``120 files, 1.5 MB``."""
    return f"{format_count(found.files, 'file')}, {format_bytes(found.bytes)}"


def format_finding(finding: Finding) -> str:
    """Return one line about a rule that did not pass; a rule that judged no row says so, it has not passed."""
    columns = ", ".join(finding.column_list or filter(None, [finding.column]))
    name = f"{finding.expectation}({columns})" if columns else finding.expectation
    name += f" in {finding.source}" if finding.source else ""
    if finding.error is not None:
        verdict = f"raised an error: {finding.error}"
    elif finding.success is None:
        return clean(f"{name}: 0 rows checked")  # without its action, which would read as if it had been taken
    else:
        verdict = f"{finding.failed} of {format_count(finding.checked, 'row')} failed"
    if finding.at_least is not None and finding.success is False:
        verdict += f", at least {finding.at_least} must pass"
    if finding.at_most is not None and finding.success is False:
        verdict += f", at most {finding.at_most} may fail"
    if finding.tolerated:
        verdict += ", which is tolerated"
    if finding.accepted:
        verdict += ", accepted for this run"
    return clean(f"{finding.action} {name}: {verdict}")
