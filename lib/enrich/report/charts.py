"""The geometry of the page's small charts: numbers in, coordinates out. The template draws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enrich.report.models import JobReport, RuleNow, Run

LINE_WIDTH, LINE_HEIGHT, PAD = 120.0, 28.0, 3.0
BARS_HEIGHT, BAR, GAP = 72.0, 14.0, 4.0
SLICES_WIDTH = 600.0
CELL, STRIP_GAP, STRIP_HEIGHT, LONGEST_STRIP = 5.0, 1.0, 24.0, 30
MOST_STEPS = 10


@dataclass(frozen=True)
class Line:
    """A line over the runs; a run without a value leaves a gap.

    Attributes:
        paths: The points of each unbroken stretch, as SVG writes them.
        dots: Values that stand alone, and the last one.
        told: The chart in words.
    """

    paths: tuple[str, ...]
    dots: tuple[tuple[str, str], ...]
    told: str


def draw_line(
    values: Sequence[float | None], what: str, show: Callable[[Any], str] = str, top: float | None = None
) -> Line | None:
    """Draw one value a run; None for less than two.

    Args:
        values: What is known of each run.
        what: What the values say of "the last N runs"; for those who do not see the line, as are the last ten values.
        show: Writes such a value.
        top: The value at the upper edge; None: the highest.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    height = top or max(known) or 1.0
    step = (LINE_WIDTH - 2 * PAD) / (len(values) - 1)

    def point(place: int, value: float) -> tuple[str, str]:
        share = min(1.0, value / height)
        return f"{PAD + place * step:.1f}", f"{LINE_HEIGHT - PAD - share * (LINE_HEIGHT - 2 * PAD):.1f}"

    stretches: list[list[tuple[str, str]]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            stretches.append([])
        else:
            stretches[-1].append(point(place, value))
    last = next(stretch[-1] for stretch in reversed(stretches) if stretch)
    single = [stretch[0] for stretch in stretches if len(stretch) == 1 and stretch[0] != last]
    paths = tuple(" ".join(",".join(each) for each in stretch) for stretch in stretches if len(stretch) > 1)
    return Line(paths, (*single, last), f"{what} the last {len(known)} runs: {', '.join(map(show, known[-10:]))}")


@dataclass(frozen=True)
class Bar:
    """One run: how many rows it changed, as three parts on top of one another.

    Attributes:
        x: Its left side.
        parts: Class, top and height of each part.
        told: The run in words.
        mark: ``blocked`` or ``failed`` for a run that wrote nothing for that reason, else empty.
    """

    x: str
    parts: tuple[tuple[str, str, str], ...]
    told: str
    mark: str = ""


def draw_bars(runs: Sequence[Run]) -> tuple[Bar, ...]:
    """Draw the rows that each run inserted, updated and deleted."""
    highest = max((run.inserted + run.updated + run.deleted for run in runs), default=0) or 1
    found = []
    for place, run in enumerate(runs):
        base, parts = BARS_HEIGHT, []
        for kind, count in (("inserted", run.inserted), ("updated", run.updated), ("deleted", run.deleted)):
            if count:
                height = max(1.5, count / highest * (BARS_HEIGHT - 8))
                base -= height
                parts.append((kind, f"{base:.1f}", f"{height:.1f}"))
        told = f"{run.at}: {run.status}, {run.inserted} inserted, {run.updated} updated, {run.deleted} deleted"
        mark = run.status if run.status in ("blocked", "failed") else ""
        found.append(Bar(f"{place * (BAR + GAP):.1f}", tuple(parts), told, mark))
    return tuple(found)


@dataclass(frozen=True)
class Slice:
    """One stage's part of the time.

    Attributes:
        place: Counts the stages, for their colours.
    """

    name: str
    seconds: float
    x: str
    width: str
    place: int


def draw_slices(stages: Mapping[str, float]) -> tuple[Slice, ...]:
    """Draw the stages one after the other on one bar."""
    whole = sum(stages.values()) or 1.0
    found, x = [], 0.0
    for place, (name, seconds) in enumerate(stages.items()):
        width = seconds / whole * SLICES_WIDTH
        found.append(Slice(name, seconds, f"{x:.1f}", f"{width:.1f}", place % 6))
        x += width
    return tuple(found)


@dataclass(frozen=True)
class Cell:
    """What one rule said of the table after one run.

    Attributes:
        kind: ``failing``, ``passing``, or empty where it is not known.
    """

    x: str
    y: str
    height: str
    kind: str
    told: str


@dataclass(frozen=True)
class Strip:
    """A rule's history over the last runs.

    Attributes:
        told: The strip in words.
    """

    cells: tuple[Cell, ...]
    width: float
    told: str


def draw_strip(rule: RuleNow, runs: Sequence[Run]) -> Strip | None:
    """Draw a cell for each of the last runs: the higher it is, the more rows fail; None where nothing is known."""
    history = list(zip(rule.trend, rule.checked_trend, runs, strict=True))[-LONGEST_STRIP:]
    known = [failed for failed, _, _ in history if failed is not None]
    if not known:
        return None
    highest, cells = max(known) or 1, []
    for place, (failed, checked, run) in enumerate(history):
        height = 2.0 if not failed else 5.0 + failed / highest * (STRIP_HEIGHT - 5.0)
        kind = "" if failed is None else "failing" if failed else "passing"
        told = f"{run.at}: " + ("not known" if failed is None else f"{failed:,} of {checked or 0:,} rows fail")
        cells.append(
            Cell(f"{place * (CELL + STRIP_GAP):.1f}", f"{STRIP_HEIGHT - height:.1f}", f"{height:.1f}", kind, told)
        )
    told = f"failing after the last {len(known)} runs: {', '.join(f'{each:,}' for each in known[-10:])}"
    return Strip(tuple(cells), len(cells) * (CELL + STRIP_GAP) - STRIP_GAP, told)


@dataclass(frozen=True)
class TrendStep:
    """A run after which another number of rows fails a rule."""

    run: Run
    before: int | None
    failed: int
    checked: int | None


def list_changes(job: JobReport) -> list[tuple[RuleNow, list[TrendStep]]]:
    """Return the rules whose failing rows changed in the history, each with the runs that changed them.

    The latest run comes first, and the first count only where rows fail.
    """
    found = []
    for rule in () if job.now is None else job.now.rules:
        steps: list[TrendStep] = []
        before = None
        for failed, checked, run in zip(rule.trend, rule.checked_trend, job.runs, strict=True):
            if failed is not None and failed != (before or 0):
                steps.append(TrendStep(run, before, failed, checked))
            before = before if failed is None else failed
        if steps:
            found.append((rule, steps[::-1]))
    return found
