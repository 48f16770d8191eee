"""The goals, what decides each of them, and the verdict."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

Costs = Mapping[str, Mapping[str, list[dict[str, Any]]]]
"""World -> rival -> the costs of each round, as ``Cost`` names them."""

REACHED, MISSED, OPEN = "reached", "missed", "not measured"


@dataclass(frozen=True)
class Figures:
    """All that was measured at one scale."""

    scale: float
    costs: Costs

    def median(self, world: str, rival: str, what: str) -> float | None:
        """Return the median of one figure; None when it was not measured."""
        found = self.costs.get(world, {}).get(rival)
        return float(statistics.median(each.get(what, 0) for each in found)) if found else None

    def ratio(self, world: str, rival: str, other: tuple[str, str], what: str = "cpu") -> float | None:
        """Return the median, over the rounds, of a rival's figure by that of the other world and rival."""
        ours = self.costs.get(world, {}).get(rival)
        theirs = self.costs.get(other[0], {}).get(other[1])
        if not ours or not theirs:
            return None
        return float(statistics.median(a[what] / max(b[what], 1e-9) for a, b in zip(ours, theirs, strict=False)))


@dataclass(frozen=True)
class Goal:
    """One goal.

    Attributes:
        name: ``P1`` to ``P9``; ``T`` for TPC-H, ``L`` for LHBench.
        text: What is to be reached.
        bound: The figure to be reached.
        find: Gives the figure; None when it was not measured.
        at_most: Whether the figure may be smaller, or greater.
        least: The smallest scale at which the goal counts.
        floor: Gives the figure that the floor by itself has: no run can be better.
        why: What a run does beyond the floor, as its stages and plans showed (docs/adr 16, 27 and 28).
    """

    name: str
    text: str
    bound: float
    find: Callable[[Figures], float | None]
    at_most: bool = True
    least: float = 0.0
    floor: Callable[[Figures], float | None] = lambda _: None
    why: str = ""

    def judge(self, figures: Figures) -> dict[str, Any]:
        """Return goal, bound, figure, verdict, the floor's figure, and what a run does beyond it."""
        found = self.find(figures)
        if found is None:
            verdict = OPEN
        elif figures.scale < self.least:
            verdict = f"counts from scale {self.least:g} on"
        else:
            verdict = REACHED if (found <= self.bound if self.at_most else found >= self.bound) else MISSED
        bound = f"{'<=' if self.at_most else '>='} {self.bound:g}"
        told = {"goal": self.name, "text": self.text, "bound": bound, "figure": found, "verdict": verdict}
        return {**told, "floor": self.floor(figures), "why": self.why}


def _cheaper(world: str, rival: str, what: str = "cpu", of: str = "enrich") -> Callable[[Figures], float | None]:
    """By how much enrich is cheaper than a rival; rebuilds are worlds, measured once a round for all others."""
    theirs = (rival, "rebuild") if rival.startswith("rebuild") else (world, rival)
    return lambda figures: figures.ratio(*theirs, (world, of), what)


def _dearer(world: str, rival: str, what: str = "cpu", of: str = "enrich") -> Callable[[Figures], float | None]:
    return lambda figures: figures.ratio(world, of, (world, rival), what)


def _step(text: str, bound: float, of: tuple[str, str], why: str) -> Goal:
    """Return the goal that a figure (the second of ``of``) of a world (the first) grows little with the table."""
    world, what = of
    return Goal(
        "P3", text, bound, lambda each: each.ratio(world, "enrich", (world, "enrich_small"), what), least=1, why=why
    )


def _plain(world: str, rival: str, what: str, unit: float = 1.0) -> Callable[[Figures], float | None]:
    def find(figures: Figures) -> float | None:
        found = figures.median(world, rival, what)
        return None if found is None else found / unit

    return find


def _rows_a_second(figures: Figures) -> float | None:
    wall = figures.median("tenth", "enrich", "wall")
    return None if wall is None else figures.scale * 1_000_000 / wall


def _give(figure: float, _: Figures) -> float:
    return figure


_one = partial(_give, 1.0)


def _ten_commits(figures: Figures) -> float | None:
    """Ten bare MERGEs by one job."""
    one = figures.ratio("warm", "merge", ("warm", "enrich"))
    return None if one is None else 10 * one


def _beat(name: str, text: str, bound: float, sides: tuple[str, str], why: str, least: float = 1) -> Goal:
    """Return the goal that enrich is so many times cheaper in a world (the first side) than a rival (the second)."""
    floor = _cheaper(*sides, of="floor")
    return Goal(name, text, bound, _cheaper(*sides), at_most=False, least=least, floor=floor, why=why)


def _near_floor(text: str, world: str, why: str) -> Goal:
    """Return the goal that enrich is near the floor in a world."""
    return Goal("P7", f"{text}: by the floor (CPU)", 3.5, _dearer(world, "floor"), least=1, floor=_one, why=why)


def _fall(text: str, world: str, before: float) -> Goal:
    """Return the goal that a world's CPU seconds have fallen to 0.6 of what the page had of 50b20f1."""
    figure = _plain(world, "enrich", "cpu")
    return Goal("P7", f"{text}: CPU s, {before:g} before", 0.6 * before, figure, least=1, why=_MOMENTS)


_OLD_ROWS = (
    "The run searches the target's keys for the places of its old rows, and reads or computes what these were, to write"
    " only what differs, also after a crash"
)
_LOOKUP = f"{_OLD_ROWS}, and searches the products for those of the ten merchants"
_REBUILD = f"{_LOOKUP}. The rebuild joins one small table, which Spark sends to every task: the cheapest kind there is"
_QUERIES = "Fixed costs of Spark's queries: those for the feeds, the old rows, the comparison and the counts"
_MERCHANT = (
    "An UPDATE is told the new value. The run reads the merchant's products, joins them, compares them with the old"
    " rows of the target, and keeps what differs"
)
_HEAP = (
    "The figure is that of the whole process, which takes the rivals' steps, too. The JVM may take a heap of a quarter"
    " of the machine's memory, and keeps it"
)
_WRITTEN = "is hashed for the proof, counted, and written with small pages"
_FIRST = f"Sources are searched for two rows with one key; every row {_WRITTEN}"
_TENTH = (
    "The only goal in seconds of the clock against a figure from elsewhere: 43,000 to 54,000 rows a second on two other"
    f" cores, so it depends on the machine. {_OLD_ROWS}; where so many rows have gone from files, OPTIMIZE follows"
)
_NEWEST = (
    "The changed rows are among the newest 2 % of the keys: ten times as many. The run reads the pages of the target"
    " that have such keys, for the old rows"
)
_VECTORS = "A deletion vector for each file that has some of the rows, and the larger table has more such files"
_EVERYWHERE = (
    f"{_OLD_ROWS}: of every file its footer and the index of its pages, which a larger table has more of, and the pages"
    " that may have such a key"
)
_DELETES = f"{_OLD_ROWS}, and counts the partners that the deleted rows had"
_ACCOUNTS = f"{_OLD_ROWS}, and looks the accounts up"
_MIRROR = f"All values are searched for the changed ones. {_OLD_ROWS}"
_MOMENTS = f"All rows of the keys are read from both tables, and joined by time. {_OLD_ROWS}"
_TAKEN_APART = f"All lists are taken apart to find the persons of the ten addresses. {_OLD_ROWS}"


_SEVEN = (
    "Orders, parts and other large lookups are searched for what the changed lines refer to, one after another: the"
    f" join in the table of the stages. {_OLD_ROWS}: the difference there"
)
_FIRST_WIDE = (
    "Seven sources are searched for two rows with one key, which takes most of the Spark jobs; every row, 38 columns"
    f" wide, {_WRITTEN}"
)
_ROW = "OPTIMIZE follows when a hundred small files have come together"

TPCH = (
    ("rf1", "0.1 % new orders", 6),
    ("rf2", "0.1 % of the orders deleted", 6),
    ("lines", "0.1 % of the lines", 4),
    ("line", "one line", 10),
    ("customers", "ten customers", 4),
    ("suppliers", "ten suppliers", 2.5),
    ("parts", "ten parts", 3),
    ("nation", "one nation", 1),
)
"""The worlds of TPC-H, and how much cheaper than a rebuild a run shall be; of a nation nothing was asked."""


def _list_tpch(world: str, text: str, bound: float) -> list[Goal]:
    """Return the goals of a world of TPC-H: against a rebuild, the MERGE by hand and the floor, and its Spark jobs."""
    jobs = 25 if world == "line" else 30
    return [
        _beat("T", f"{text}: cheaper than a rebuild (CPU)", bound, (world, "rebuild_tpch"), _SEVEN),
        _beat("T", f"{text}: cheaper than MERGE by hand with vectors (CPU)", 1.5, (world, "hand_dv"), _SEVEN),
        Goal("T", f"{text}: by the floor (CPU)", 3.5, _dearer(world, "floor"), least=1, floor=_one, why=_SEVEN),
        Goal("T", f"{text}: Spark jobs", jobs, _plain(world, "enrich", "jobs"), why=_SEVEN),
    ]


def _list_merges(percent: str) -> list[Goal]:
    """Return the goals of a share of LHBench's rows, at both sizes: no rival is cheaper, and the floor is near."""
    found, world = [], f"merge_{percent}"
    for small, size in (("", ""), ("_small", ", a tenth of the table")):
        ours, text = f"enrich{small}", f"{percent} %{size}"
        hand = _cheaper(world, f"hand_dv{small}", of=ours)
        told = f"{text}: cheaper than MERGE by hand with vectors (CPU)"
        found.append(Goal("L", told, 1, hand, at_most=False, least=1, why=_OLD_ROWS))
        near = _dearer(world, f"floor{small}", of=ours)
        found.append(Goal("L", f"{text}: by the floor (CPU)", 3.5, near, least=1, floor=_one, why=_OLD_ROWS))
    return found


def _late(what: str) -> Callable[[Figures], float | None]:
    return lambda figures: figures.ratio("row", "enrich_late", ("row", "enrich_early"), what)


GOALS = (
    _beat("P1", "local 0.1 %: cheaper than a rebuild (CPU)", 2.5, ("near", "rebuild"), _REBUILD),
    _beat("P1", "scattered 0.1 %: cheaper than a rebuild (CPU)", 2.2, ("far", "rebuild"), _REBUILD),
    _beat(
        "P1", "scattered 0.1 % of the products alone: cheaper than a rebuild (CPU)", 5, ("alone", "rebuild"), _OLD_ROWS
    ),
    Goal("P1", "local: fewer bytes written", 200, _cheaper("near", "rebuild", "written"), at_most=False, least=1),
    Goal("P1", "scattered: fewer bytes written", 200, _cheaper("far", "rebuild", "written"), at_most=False, least=1),
    _beat("P2", "scattered: cheaper than MERGE by hand (CPU)", 6, ("far", "hand"), _LOOKUP),
    _beat("P2", "scattered: ... with deletion vectors", 2.5, ("far", "hand_dv"), _LOOKUP),
    _beat("P2", "local: ... with deletion vectors", 2.5, ("near", "hand_dv"), _LOOKUP),
    _step("1,000 local changes, table ten times as large (CPU)", 1.5, ("thousand_near", "cpu"), _NEWEST),
    _step("... bytes written", 1.1, ("thousand_near", "written"), _VECTORS),
    _step("1,000 scattered changes, ten times as large (CPU)", 1.5, ("thousand_far", "cpu"), _EVERYWHERE),
    _step("... bytes read", 2, ("thousand_far", "read"), _EVERYWHERE),
    Goal("P4", "one product, warm (CPU s)", 1.7, _plain("one", "enrich", "cpu"), least=1, why=_QUERIES),
    Goal("P4", "cold, one row: by the bare script, JVM's defaults (CPU)", 1, _dearer("cold", "bare")),
    Goal("P4", "cold, one row: by the bare script, our settings (CPU)", 1.3, _dearer("cold", "bare_fit")),
    Goal("P4", "warm, one row: by one bare MERGE (CPU)", 1.7, _dearer("warm", "merge"), floor=_one, why=_QUERIES),
    Goal("P4", "nothing to do, cold, no JVM (s)", 1, _plain("cold", "nothing", "wall")),
    Goal("1", "warm, one row: Spark jobs", 20, _plain("warm", "enrich", "jobs")),
    Goal(
        "P5",
        "first run: rows/s by a rebuild's",
        0.8,
        lambda figures: figures.ratio("first", "rebuild", ("first", "enrich"), "wall"),
        at_most=False,
        least=1,
        floor=_one,
        why=_FIRST,
    ),
    Goal("P5", "... peak RSS (GB)", 8, _plain("first", "enrich", "peak", 1e9), least=1, why=_HEAP),
    Goal(
        "P5",
        "a tenth of the products changed: rows/s",
        54_000,
        _rows_a_second,
        at_most=False,
        least=1,
        why=_TENTH,
    ),
    Goal(
        "P6",
        "one merchant with a tenth: by UPDATE (CPU)",
        4.5,
        _dearer("largest", "update"),
        least=1,
        floor=_one,
        why=_MERCHANT,
    ),
    Goal("P6", "... peak RSS (GB)", 4, _plain("largest", "enrich", "peak", 1e9), least=1, why=_HEAP),
    Goal("P6", "... longest task by the median of its stage", 3, _plain("largest", "enrich", "skew"), least=1),
    _near_floor("local 0.1 %", "near", _LOOKUP),
    _near_floor("scattered 0.1 %", "far", _LOOKUP),
    _near_floor("one product", "one", _QUERIES),
    _near_floor("deletes", "deletes", _DELETES),
    _near_floor("lists", "persons", _TAKEN_APART),
    _near_floor("equal keys", "accounts", _ACCOUNTS),
    _near_floor("mirror", "mirror", _MIRROR),
    _fall("as of", "versions", 8.57),
    _fall("as of, an account with a fifth of all clicks", "busy", 9.79),
    _fall("as of, an account with a fifth of all versions", "long", 13.75),
    Goal("P6", "as of, a fifth of all clicks: longest task", 3, _plain("busy", "enrich", "skew"), least=1),
    Goal("P6", "as of, a fifth of all versions: longest task", 3, _plain("long", "enrich", "skew"), least=1),
    _fall("interval", "payments", 6.99),
    Goal("P9", "ten jobs, one row each, a new process: by one job (CPU)", 4, _dearer("cold", "enrich", of="ten jobs")),
    Goal(
        "P9",
        "... in a warm process",
        4,
        lambda f: f.ratio("ten", "ten jobs", ("warm", "enrich")),
        floor=_ten_commits,
        why="Every job reads the feeds by itself, and makes its own commit",
    ),
    *(goal for world, text, bound in TPCH for goal in _list_tpch(world, text, bound)),
    *(
        _beat("T", f"SF10, {text}: cheaper than a rebuild (CPU)", 10, (world, "rebuild_tpch"), _SEVEN, least=10)
        for world, text, _ in TPCH[:2]
    ),
    Goal("T", "first run: by a rebuild (CPU)", 1.2, _dearer("first_tpch", "rebuild"), least=1, why=_FIRST_WIDE),
    *(goal for percent in ("0.0001", "0.001", "0.01", "0.1") for goal in _list_merges(percent)),
    Goal("L", "100 runs in a row: runs 91 to 100 by runs 11 to 20 (CPU)", 1.15, _late("cpu"), why=_ROW),
    Goal("L", "... data files after runs 91 to 100", 100, _plain("row", "enrich_late", "files"), why=_ROW),
    Goal("P9", "make demo: by the demo before", 0.2, lambda f: f.ratio("demo", "enrich", ("demo", "before"), "wall")),
)
"""All but P8."""

RULES_RUN, RULES_FIRST = 1.15, 1.3
"""P8: what rules may cost a run that merges, by the run without; and a first run, by its floor."""

_RULES = (
    "Besides the conditions themselves, Great Expectations has to build them, and Spark has to plan and compile them"
    " and to read the computed rows again. A run that updates rows evaluates them three times: on the affected rows,"
    " and for the state on the rows that differ, as they are and as they were"
)


def judge_rules(rows: Mapping[str, Any], shown: Mapping[str, str]) -> list[dict[str, Any]]:
    """Judge P8 by the figures of ``quality.py``.

    Args:
        rows: Kind of run -> suite -> its ratios to the run without.
        shown: Suite -> how it is called.
    """
    found = []
    for suite, text in shown.items():
        run, first = rows["updated"][suite]["ratios"], rows["created"][suite]["ratios"]
        for kind, figure, floor, bound in (
            ("a run that updates every row, by the run without (CPU)", run["cpu"], run["floor"], RULES_RUN),
            ("a first run, by its floor (CPU)", first["cpu"] / first["floor"], 1.0, RULES_FIRST),
        ):
            given = partial(_give, figure), partial(_give, floor)
            goal = Goal("P8", f"{text}: {kind}", bound, given[0], floor=given[1], why=_RULES)
            found.append(goal.judge(Figures(1.0, {})))
    return found
