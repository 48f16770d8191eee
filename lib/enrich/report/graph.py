"""Draw the project: tables and jobs in layers from left to right, as SVG or as text for Mermaid.

people ─┐                      A box is a job with its target, or a table that no job writes. What feeds it stands
├─▸ clean ──▸ orders   in layers to its left; a line that passes a layer has a place in it, as a box has.
bought ─┘
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise
from statistics import fmean

from enrich.base.console import clean
from enrich.report.models import JobReport, Report
from enrich.report.text import format_verdict

# Others have the fourth, none.
COLOURS = {"passed": "good", "warned": "warn", "skipped": "warn", "failed": "bad", "blocked": "bad"}
WIDTH, HEIGHT, _ACROSS, _DOWN, _LINE = 224, 46, 56, 14, 12
_SWEEPS = 4  # how often the boxes of a layer are put beside what they are joined to
SIZE = WIDTH, HEIGHT
_LONGEST = 24  # characters of a name in a box; its title has the whole


@dataclass(eq=False)
class Node:
    """A box, or where a line passes a layer; ``x`` and ``y`` are its left upper corner."""

    name: str
    job: JobReport | None = None
    number: int = 0  # of the job in the report, from 1; 0 for tables
    after: list[Node] = field(default_factory=list)  # what feeds it
    before: list[Node] = field(default_factory=list)  # what it feeds
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    is_bend: bool = False
    title: str = ""  # what the box is, in a sentence

    @property
    def height(self) -> int:
        """How much of a layer it takes."""
        return _LINE if self.is_bend else HEIGHT

    @property
    def colour(self) -> str:
        """The state of the last run, as one of four."""
        return COLOURS.get(self.job.verdict, "none") if self.job is not None else "table"

    @property
    def lines(self) -> tuple[str, str]:
        """What stands in the box."""
        names = clean(self.name), "table" if self.job is None else format_verdict(self.job.verdict)
        return names[0] if len(names[0]) <= _LONGEST else f"{names[0][: _LONGEST - 9]}…{names[0][-8:]}", names[1]

    def tell(self) -> str:
        """Return what the box is, in a sentence."""
        what = f"table {self.name}" if self.job is None else f"job {self.name}, {format_verdict(self.job.verdict)}"
        what += f", target {self.job.target}" if self.job is not None and self.job.target != self.name else ""
        for verb, others in (("reads", self.after), ("feeds", self.before)):
            what += f"; {verb} {', '.join(each.name for each in others)}" if others else ""
        return clean(what)


@dataclass(frozen=True)
class Picture:
    """Boxes and lines, and how large it is."""

    nodes: Sequence[Node]
    lines: Sequence[str]  # the ``d`` of each path
    width: float
    height: float


def list_nodes(report: Report) -> list[Node]:
    """Return jobs, and tables that no job of the report writes, with what feeds them, in an order of their own."""
    jobs = {job.job: Node(job.job, job, number) for number, job in enumerate(report.worst_first, start=1)}
    tables: dict[str, Node] = {}
    for node in jobs.values():
        for read in node.job.reads if node.job is not None else ():
            other = jobs.get(read.job or "") or tables.setdefault(read.table, Node(read.table))
            if other is not node and other not in node.after:
                node.after.append(other)
                other.before.append(node)
    nodes = [*(tables[name] for name in sorted(tables)), *(jobs[name] for name in sorted(jobs))]
    for node in nodes:
        node.title = node.tell()
    return nodes


def select_near(nodes: Sequence[Node]) -> list[Node]:
    """Return the jobs in which there is something to do, and what is next to them; all else is cut off from these."""
    wanting = [node for node in nodes if node.job is not None and node.job.to_do]
    near = {each for node in wanting for each in (node, *node.after, *node.before)}
    for node in near:
        node.after, node.before = ([each for each in found if each in near] for found in (node.after, node.before))
    return [node for node in nodes if node in near]


def draw_picture(listed: Sequence[Node]) -> Picture:
    """Place boxes and lines: parts that are not joined stand side by side, the largest first."""
    parts = [(part, *_place(part)) for part in _split(listed)]
    parts.sort(key=lambda each: (-len(each[0]), each[0][0].name))
    widest = max([1100.0, *(width for _, _, width, _ in parts)])
    x = y = row = 0.0
    for _, chains, width, height in parts:
        if x and x + width > widest:
            x, y, row = 0.0, y + row + _ACROSS / 2, 0.0
        for node in {node: None for chain in chains for node in chain}:
            node.x, node.y = node.x + x, node.y + y
        x, row = x + width + _ACROSS, max(row, height)
    nodes = [node for part, *_ in parts for node in part]
    lines = [_draw(chain) for _, chains, *_ in parts for chain in chains if len(chain) > 1]
    return Picture(nodes, lines, max((node.x for node in nodes), default=0.0) + WIDTH, y + row)


def _split(nodes: Iterable[Node]) -> Iterable[list[Node]]:
    """Yield nodes that are joined, directly or through others, each part in the order of ``nodes``."""
    left = list(nodes)
    while left:
        part = {left[0]}
        while more := {each for node in part for each in (*node.after, *node.before)} - part:
            part |= more
        yield [node for node in left if node in part]
        left = [node for node in left if node not in part]


def _place(part: Sequence[Node]) -> tuple[list[list[Node]], float, float]:
    """Give the nodes of a part their places; return its lines, each with its bends, or a node alone, and its size.

    Longest paths make the layers; tables stand right before what reads them first. In a layer, nodes stand in the order
    of the mean places of what they are joined to, looked at from the left and from the right in turns.
    """
    for node in TopologicalSorter({node: node.after for node in part}).static_order():
        node.layer = max((each.layer + 1 for each in node.after), default=0)
    for node in part:
        if node.job is None:
            node.layer = min(each.layer for each in node.before) - 1
    chains, layers = _join(part)
    beside = defaultdict[Node, list[Node]](list)
    for left, right in {pair: None for chain in chains for pair in pairwise(chain)}:
        beside[left].append(right)
        beside[right].append(left)
    place = {node: float(index) for layer in layers.values() for index, node in enumerate(layer)}
    for sweep in range(_SWEEPS):
        for number in sorted(layers, reverse=bool(sweep % 2)):
            step = 1 if sweep % 2 else -1
            for node in layers[number]:
                near = [place[other] for other in beside[node] if other.layer == number + step]
                place[node] = fmean(near) if near else place[node]
            layers[number].sort(key=place.__getitem__)
            place |= {node: float(index) for index, node in enumerate(layers[number])}
    heights = {number: sum(node.height + _DOWN for node in layer) - _DOWN for number, layer in layers.items()}
    for number, layer in layers.items():
        y = (max(heights.values()) - heights[number]) / 2
        for node in layer:
            node.x, node.y = number * (WIDTH + _ACROSS), y
            y += node.height + _DOWN
    return chains, (max(layers) + 1) * (WIDTH + _ACROSS) - _ACROSS, max(heights.values())


def _join(part: Sequence[Node]) -> tuple[list[list[Node]], dict[int, list[Node]]]:
    """Return each node alone, and each line with the places where it passes a layer; and the nodes of each layer.

    Lines from one box go together as far as they can.
    """
    chains, layers = [[node] for node in part], defaultdict[int, list[Node]](list)
    for node in part:
        layers[node.layer].append(node)
        bends: dict[int, Node] = {}
        for other in node.before:
            for layer in range(node.layer + 1, other.layer):
                if layer not in bends:
                    bends[layer] = Node("", layer=layer, is_bend=True)
                    layers[layer].append(bends[layer])
            chains.append([node, *[bends[layer] for layer in range(node.layer + 1, other.layer)], other])
    return chains, layers


def _draw(chain: Sequence[Node]) -> str:
    """Return the path of a line, from the right side of the first box to the left side of the last one."""
    middles = [(node, node.y + node.height / 2) for node in chain]
    path = f"M{middles[0][0].x + WIDTH:g} {middles[0][1]:g}"
    for (left, y), (right, end) in pairwise(middles):
        half = (left.x + WIDTH + right.x) / 2
        path += f"C{half:g} {y:g} {half:g} {end:g} {right.x:g} {end:g}"
        path += f"H{right.x + WIDTH:g}" if right.is_bend else ""
    return path


def format_mermaid(report: Report) -> str:
    """Return the picture as a flowchart in Mermaid's words; every name stands as text, whatever is in it."""
    nodes = list_nodes(report)
    names = {node: f"n{number}" for number, node in enumerate(nodes)}
    lines = ["flowchart LR"]
    for node, name in names.items():
        first, second = (
            "".join(char if char.isalnum() or char in " _.-/" else f"#{ord(char)};" for char in text)
            for text in (clean(node.name), node.lines[1])
        )
        lines.append(f'  {name}["{first}<br>{second}"]' if node.job else f'  {name}[("{first}")]')
    lines += [f"  {names[node]} --> {names[other]}" for node in nodes for other in node.before]
    for colour, style in _STYLES.items():
        if found := [name for node, name in names.items() if node.colour == colour]:
            lines += [f"  classDef {colour} {style}", f"  class {','.join(found)} {colour}"]
    return "\n".join(lines)


_STYLES = {
    "bad": "stroke:#b3202c,stroke-width:3px",
    "warn": "stroke:#a86500,stroke-width:3px",
    "good": "stroke:#14703a,stroke-width:3px",
    "none": "stroke:#737d88,stroke-dasharray:4",
}
