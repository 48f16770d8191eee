"""The figures as tables: on the terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goals import Figures
from worlds import REBUILT, WORLDS, name_whole

UNITS = {
    "wall": 1.0,
    "cpu": 1.0,
    "written": 1e6,
    "read": 1e6,
    "shuffled": 1e6,
    "jobs": 1.0,
    "tasks": 1.0,
    "peak": 1e9,
    "files": 1.0,
}
HEADS = ("wall s", "CPU s", "written MB", "read MB", "shuffled MB", "jobs", "tasks", "peak GB", "files")
DIGITS = (2, 2, 2, 1, 1, 0, 0, 1, 0)

TITLES = {
    "cold": "cold process, 1,000 products, one changed",
    "warm": "long-running process, 1,000 products, one changed",
    "ten": "the same, ten jobs",
    "nothing_warm": "the same, nothing changed",
    **{name_whole("first", shape): "first run" for shape in REBUILT},
    **{name_whole("rebuild", shape): "after all changes of a round" for shape in REBUILT},
    "row": "LHBench: 100 runs in a row, 0.01 % of the rows each",
    "demo": "enrich demo",
    **{world.name: world.title for world in WORLDS},
}
_BOTH = {
    "enrich": "enrich",
    "rebuild": "full rebuild",
    "hand_dv": "MERGE by hand, deletion vectors",
    "floor": "floor",
}
_SIZES = {"": "", "_small": ", a tenth of the table"}
RIVALS = {
    "hand": "MERGE by hand",
    "enrich_early": "enrich, runs 11 to 20",
    "enrich_late": "enrich, runs 91 to 100",
    **{f"{name}{small}": f"{text}{told}" for name, text in _BOTH.items() for small, told in _SIZES.items()},
    "update": "plain UPDATE",
    "merge": "one bare MERGE",
    "bare": "bare script, JVM's defaults",
    "bare_fit": "bare script, our settings",
    "nothing": "enrich, nothing changed",
    "ten jobs": "enrich, ten jobs",
    "before": "enrich demo, before",
}


def list_costs(figures: Figures) -> list[tuple[str, str, tuple[float, ...]]]:
    """Return world, rival and the medians in the units of ``HEADS``."""
    return [
        (world, rival, tuple((figures.median(world, rival, what) or 0.0) / unit for what, unit in UNITS.items()))
        for world, by_rival in figures.costs.items()
        for rival in by_rival
    ]


def format_numbers(values: Sequence[float]) -> list[str]:
    """Return medians as text; a zero was not measured, or is one."""
    return [f"{value:,.{digits}f}" if value else "-" for value, digits in zip(values, DIGITS, strict=True)]


def format_figure(figure: float | None) -> str:
    """Return a goal's figure with three digits that count."""
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def print_costs(figures: Figures) -> None:
    """Print the medians of all that was measured."""
    print(f"\n{'':50} {'':32}" + "".join(f"{head:>12}" for head in HEADS))
    for world, rival, values in list_costs(figures):
        shown = "".join(f"{text:>12}" for text in format_numbers(values))
        print(f"{TITLES[world]:50} {RIVALS[rival]:32}{shown}")


def print_verdicts(verdicts: Sequence[Mapping[str, Any]]) -> None:
    """Print goal, figure and verdict."""
    print(f"\n     {'goal':56} {'bound':>10} {'figure':>10}  verdict")
    for each in verdicts:
        figure = format_figure(each["figure"])
        print(f"{each['goal']:4} {each['text']:56} {each['bound']:>10} {figure:>10}  {each['verdict']}")
