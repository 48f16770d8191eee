"""Write docs/benchmarks.md, and the pictures beside it, from the figures of ``suite.py``.

    python benchmarks/page.py FIGURES.json [FIGURES.json ...]

With several files, for several scales, each gets a part of the page, in the order given. The figures of ``quality.py``
are a part of their own. Goals are judged here, so that the page says what ``goals.py`` says now.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from goals import GOALS, MISSED, OPEN, REACHED, Figures, judge_rules
from moments import CLICKS, PAYMENTS
from tables import HEADS, RIVALS, TITLES, format_figure, format_numbers, list_costs
from worlds import WORLDS

DOCS = Path(__file__).parent.parent / "docs"
CPU = HEADS.index("CPU s")
BAR, LEFT, WIDTH = 18, 500, 420
TIMED = {world.name for world in WORLDS if world.shape in (CLICKS, PAYMENTS)}
"""The worlds of joins in time: measured alone, they are a part of their own."""

INTRODUCTION = """\
# Benchmarks

Written by `benchmarks/page.py` from the figures of `make bench`; do not edit. Every figure is a median over rounds in
which enrich and its rivals followed the same changes in turn, in one process and on one machine. CPU seconds are those
of all processes; they decide, for they depend less on what else the machine does.

- **full rebuild**: read both tables with plain Spark, join, overwrite. Measured once a round.
- **MERGE by hand**: the change feeds of all sources, the affected keys, the join restricted to them, one MERGE, as
  Delta's documentation shows it; without and with deletion vectors on its target.
- **floor**: only what no run can avoid, one commit of rows that are ready, into a copy of enrich's own target.
- **plain UPDATE**: the floor of a change that reaches very many rows.
- **read MB**: what the system handed to the processes, from the disk or from its cache. What tasks wrote for one
  another is in it.

The rows of all targets are compared with the join of the sources after the changes; a difference ends the benchmark.
"""


def draw_bars(title: str, bars: Sequence[tuple[str, float]]) -> str:
    """Return a bar chart as SVG that can be read on light and dark pages."""
    most = max((value for _, value in bars), default=1.0) or 1.0
    height = 30 + len(bars) * (BAR + 6)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}"',
        f' role="img" font-family="sans-serif" font-size="12"><title>{escape(title)}</title>',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="4" y="16" font-weight="bold">{escape(title)}</text>',
    ]
    for place, (name, value) in enumerate(bars):
        top, width = 26 + place * (BAR + 6), max(1.0, WIDTH * value / most)
        colour = "#1f6feb" if name.split(": ")[-1].startswith("enrich") else "#9aa4b2"
        parts += [
            f'<text x="{LEFT - 6}" y="{top + 13}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{width:.0f}" height="{BAR}" fill="{colour}"/>',
            f'<text x="{LEFT + width + 5:.0f}" y="{top + 13}">{value:,.1f}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def write_part(found: Mapping[str, Any], images: Path) -> list[str]:
    """Return the part of one scale as Markdown, and write its pictures."""
    figures = Figures(found["scale"], found["costs"])
    size = f"{found['scale'] * 10:g} million products"
    in_time = set(figures.costs) <= TIMED
    if in_time:  # the sizes of `moments.py`
        size = (
            f"joins in time: {found['scale'] * 5:g} million clicks and versions, {found['scale'] * 2:g} million orders"
        )
    head = f"{_describe(found)}. The whole took {found['seconds'] / 60:.0f} minutes."
    goals = [goal.judge(figures) for goal in GOALS]
    lines = [f"## {size[0].upper()}{size[1:]}", "", head, "", *_list_verdicts(goals)]
    lines += ["", f"| change | by | rounds | {' | '.join(HEADS)} |", "|---|---|" + "---:|" * (len(HEADS) + 1)]
    rows = list_costs(figures)
    for world, rival, values in rows:
        rounds = len(figures.costs[world][rival])
        lines.append(f"| {TITLES[world]} | {RIVALS[rival]} | {rounds} | {' | '.join(format_numbers(values))} |")
    images.mkdir(parents=True, exist_ok=True)
    small = [row for row in rows if row[0] in ("cold", "warm", "ten", "nothing_warm")]
    large = [row for row in rows if row not in small and row[0] not in ("demo", "first")]
    for name, title, part in (("small", "small tables", small), ("time" if in_time else "large", size, large)):
        if part:
            file = images / f"{name}-{found['scale'] * 10:g}m.svg"
            bars = [(f"{TITLES[world]}: {RIVALS[rival]}", values[CPU]) for world, rival, values in part]
            file.write_text(draw_bars(f"CPU seconds, {title}", bars), encoding="utf-8")
            lines += ["", f"![CPU seconds, {title}](img/{file.name})"]
    return [*lines, *_explain_missed(goals)]


def write_rules(found: Mapping[str, Any]) -> list[str]:
    """Return the part about rules as Markdown."""
    goals = judge_rules(found["rules"], found["shown"])
    head = "A million joined rows, written for the first time and then all updated, with and without a suite"
    head = f"{head} ([quality.md](quality.md#what-it-costs)). {_describe(found)}."
    return ["## Rules", "", head, "", *_list_verdicts(goals), *_explain_missed(goals)]


def _describe(found: Mapping[str, Any]) -> str:
    """Return what the figures were measured on."""
    return ", ".join(f"{name} {value}" for name, value in found["machine"].items())


def _list_verdicts(goals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of the goals that were measured."""
    lines = ["| | goal | bound | figure | verdict |", "|---|---|---:|---:|---|"]
    for each in goals:
        if each["verdict"] != OPEN:
            verdict = f"**{each['verdict']}**" if each["verdict"] == MISSED else each["verdict"]
            figure = format_figure(each["figure"])
            lines.append(f"| {each['goal']} | {each['text']} | {each['bound']} | {figure} | {verdict} |")
    return lines


def _explain_missed(goals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how many goals were missed, and a line for each of them."""
    judged = [each for each in goals if each["verdict"] in (REACHED, MISSED)]
    missed = [each for each in judged if each["verdict"] == MISSED]
    return ["", f"Missed: {len(missed)} of {len(judged)}.", "", *map(_explain, missed)] if missed else []


def _explain(goal: Mapping[str, Any]) -> str:
    """Return the line of a goal that was missed: the figure, that of the floor, and what a run does beyond it."""
    floor = f" The floor alone: {format_figure(goal['floor'])}." if goal["floor"] is not None else ""
    why = f"{goal['why']}." if goal["why"] else "Why was not examined."
    return f"- {goal['goal']}, {goal['text']}: {format_figure(goal['figure'])}, not {goal['bound']}.{floor} {why}"


def main(*files: str) -> int:
    """Write the page."""
    read = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    parts = [write_rules(each) if "rules" in each else write_part(each, DOCS / "img") for each in read]
    text = "\n".join([INTRODUCTION, *("\n".join([*part, ""]) for part in parts)])
    (DOCS / "benchmarks.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
