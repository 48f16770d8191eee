"""Draw the pictures of the documentation as SVG: how each kind of join travels, and what a crash leaves.

``python docs/generators/pictures.py`` draws them anew; a unit test says when that is due. Colours follow the reader's
light or dark setting; each picture brings its own ground, so that it can be read on any page.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "img"

_STYLE = """\
text{font:15px system-ui,sans-serif;fill:#1f2430}.small{font-size:13px}.head{font-weight:600}
.ground{fill:#fbfbfd}.box{fill:#fff;stroke:#8a90a0}.a{fill:#d6e6ff;stroke:#1f5fbf}.b{fill:#ffe3c2;stroke:#b35c00}
.dead{fill:#fbd9d9;stroke:#b3261e}.line{fill:none;stroke-width:2}.la{stroke:#1f5fbf}.lb{stroke:#b35c00}.ln{stroke:#5b6170}
.ha{fill:#1f5fbf}.hb{fill:#b35c00}.hn{fill:#5b6170}
@media (prefers-color-scheme:dark){text{fill:#e8eaf0}.ground{fill:#1b1e27}.box{fill:#252936;stroke:#7c8294}
.a{fill:#1d3a66;stroke:#7fb0ff}.b{fill:#5a3712;stroke:#ffb066}.dead{fill:#5a2222;stroke:#ff8a80}.la{stroke:#7fb0ff}.lb{stroke:#ffb066}
.ln{stroke:#a4aaba}.ha{fill:#7fb0ff}.hb{fill:#ffb066}.hn{fill:#a4aaba}}"""
_ROW = 28


@dataclass
class Picture:
    """Shapes that are collected and written as one file."""

    title: str
    about: str
    width: int
    height: int
    shapes: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, style: str = "", anchor: str = "start") -> None:
        """Write words; ``y`` is their base line."""
        self.shapes.append(f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, style: str = "box", height: float = _ROW) -> None:
        """Draw a rectangle."""
        self.shapes.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{style}"/>')

    def arrow(self, start: tuple[float, float], end: tuple[float, float], style: str) -> None:
        """Draw a curved arrow that leaves and arrives horizontally."""
        (x1, y1), (x2, y2) = start, end
        middle = (x1 + x2) / 2
        path = f"M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2 - 9:g} {y2:g}"
        self.shapes.append(f'<path d="{path}" class="line l{style}"/>')
        self.shapes.append(f'<path d="M{x2:g} {y2:g}l-10 -5v10z" class="h{style}"/>')

    def table(self, place: tuple[float, float], width: float, name: str, rows: list[tuple[str, str]]) -> list[float]:
        """Draw a table of rows (text, style) and return the height of each row's middle."""
        x, y = place
        self.text(x, y - 8, name, "head")
        for number, (words, style) in enumerate(rows):
            self.box(x, y + number * (_ROW + 4), width, style or "box")
            self.text(x + 10, y + number * (_ROW + 4) + 19, words, "small")
        return [y + number * (_ROW + 4) + _ROW / 2 for number in range(len(rows))]

    def write(self) -> str:
        """Return the file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img"'
            f' aria-labelledby="t d"><title id="t">{escape(self.title)}</title><desc id="d">{escape(self.about)}</desc>'
            f"<style>{_STYLE}</style>"
            f'<rect width="{self.width}" height="{self.height}" rx="8" class="ground"/>'
        )
        return "\n".join([head, *self.shapes, "</svg>\n"])


@dataclass(frozen=True)
class Journey:
    """A picture of one kind of job: two changes (blue ``a``, orange ``b``), the keys that they affect, the target.

    Attributes:
        left: The driving source: its name, and its rows as (text, style).
        right: The lookup; None for a mirror.
        keys: The affected keys as (text, style).
        target: The target's rows as (text, style).
        to_keys: Arrows from a row to a key: (side, row, key, style).
        to_rows: Arrows from a key to a target row: (key, row, style).
    """

    file: str
    title: str
    about: str
    left: tuple[str, list[tuple[str, str]]]
    right: tuple[str, list[tuple[str, str]]] | None
    keys: tuple[str, list[tuple[str, str]]]
    target: tuple[str, list[tuple[str, str]]]
    to_keys: list[tuple[int, int, int, str]]
    to_rows: list[tuple[int, int, str]]


JOURNEYS = [
    Journey(
        "table-join",
        "How a table join travels",
        "A change of either side affects the row with the same key, and no other row.",
        ("consents (driving source)", [("u1: withdrawn", "a"), ("u2: given", ""), ("u3: given", "")]),
        ("accounts (lookup)", [("u1: one@…", ""), ("u2: new address", "b")]),
        ("affected keys", [("u1", "a"), ("u2", "b")]),
        ("target", [("u1: withdrawn, one@…", "a"), ("u2: given, new address", "b"), ("u3: given, null", "")]),
        [(0, 0, 0, "a"), (1, 1, 1, "b")],
        [(0, 0, "a"), (1, 1, "b")],
    ),
    Journey(
        "foreign-key-join",
        "How a foreign-key join travels",
        "A changed driving row affects its own target row. A changed lookup row affects every row that names it.",
        ("products (driving source)", [("P1: merchant M1", ""), ("P2: merchant M1", ""), ("P3: moves to M2", "a")]),
        ("merchants (lookup)", [("M1: renamed", "b"), ("M2: Nordic Goods", "")]),
        ("affected keys", [("P3", "a"), ("P1: names M1", "b"), ("P2: names M1", "b")]),
        ("target", [("P1: M1, new name", "b"), ("P2: M1, new name", "b"), ("P3: M2, Nordic Goods", "a")]),
        [(0, 2, 0, "a"), (1, 0, 1, "b"), (1, 0, 2, "b")],
        [(0, 2, "a"), (1, 0, "b"), (2, 1, "b")],
    ),
    Journey(
        "list-join",
        "How a list join travels",
        "A changed list affects its own target row. A changed lookup row affects every row whose list holds it.",
        ("persons (driving source)", [("ann: [a2, a1]", ""), ("bob: [a1]", ""), ("cleo: now [a2]", "a")]),
        ("addresses (lookup)", [("a1: new street", "b"), ("a2: Second Street", "")]),
        ("affected keys", [("cleo", "a"), ("ann: lists a1", "b"), ("bob: lists a1", "b")]),
        (
            "target",
            [("ann: [a2, a1 new street]", "b"), ("bob: [a1 new street]", "b"), ("cleo: [a2 Second Street]", "a")],
        ),
        [(0, 2, 0, "a"), (1, 0, 1, "b"), (1, 0, 2, "b")],
        [(0, 2, "a"), (1, 0, "b"), (2, 1, "b")],
    ),
    Journey(
        "mirror",
        "How a mirror travels",
        "A changed value affects two rows of the mirror: that of the old value and that of the new one.",
        ("master", [("K1: red, now blue", "a"), ("K2: green", ""), ("K3: white, deleted", "b")]),
        None,
        ("affected values", [("red", "a"), ("blue", "a"), ("white", "b")]),
        ("mirror (target)", [("red: deleted", "a"), ("blue: K1", "a"), ("green: K2", ""), ("white: deleted", "b")]),
        [(0, 0, 0, "a"), (0, 0, 1, "a"), (0, 2, 2, "b")],
        [(0, 0, "a"), (1, 1, "a"), (2, 3, "b")],
    ),
    Journey(
        "as-of-join",
        "How an as-of join travels",
        "A changed version affects the events between it and the next one. Other events of its key stay as they are.",
        ("events (driving source)", [("e1: ann, 09:10", ""), ("e2: ann, 10:20", ""), ("e3: ann, now 11:30", "a")]),
        ("versions (lookup)", [("ann, from 09:00", ""), ("ann, from 10:00: late", "b"), ("ann, from 11:00", "")]),
        ("affected keys", [("e3", "a"), ("e2: from 10 to 11", "b")]),
        ("target", [("e1: version of 09:00", ""), ("e2: version of 10:00", "b"), ("e3: version of 11:00", "a")]),
        [(0, 2, 0, "a"), (1, 1, 1, "b")],
        [(0, 2, "a"), (1, 1, "b")],
    ),
    Journey(
        "interval-join",
        "How an interval join travels",
        "A changed row affects its own pairs, and those of the rows that it is near, or was near before the change.",
        ("orders (driving source)", [("o1: 10:00", ""), ("o2: 12:00, cancelled", "a"), ("o3: 15:00", "")]),
        ("payments (lookup)", [("p1: 10:20, now 15:10", "b"), ("p2: 12:05", "")]),
        ("affected keys", [("o2", "a"), ("o1: was near p1", "b"), ("o3: is near p1", "b")]),
        ("target", [("o1 with p1: gone", "b"), ("o1 alone", "b"), ("o2 with p2: gone", "a"), ("o3 with p1", "b")]),
        [(0, 1, 0, "a"), (1, 0, 1, "b"), (1, 0, 2, "b")],
        [(0, 2, "a"), (1, 0, "b"), (1, 1, "b"), (2, 3, "b")],
    ),
    Journey(
        "history",
        "How a history travels",
        "Each commit counts for itself: what it changes ends the open version and begins another one.",
        ("accounts (source)", [("u1: 09:00 one@…", ""), ("u1: 10:00 uno@…", "a"), ("u2: 11:00 deleted", "b")]),
        None,
        ("affected keys", [("u1", "a"), ("u2", "b")]),
        (
            "history (target)",
            [("u1: one@…, 09 to 10", "a"), ("u1: uno@…, from 10", "a"), ("u2: two@…, 09 to 11", "b")],
        ),
        [(0, 1, 0, "a"), (0, 2, 1, "b")],
        [(0, 0, "a"), (0, 1, "a"), (1, 2, "b")],
    ),
]


def draw_journey(journey: Journey) -> str:
    """Return the picture of one kind of job."""
    below = 78 + len(journey.left[1]) * (_ROW + 4) + 34
    height = max(below + (len(journey.right[1]) * (_ROW + 4) if journey.right else -30), 220) + 46
    picture = Picture(journey.title, journey.about, 900, height)
    sides = [picture.table((24, 78), 230, *journey.left)]
    if journey.right:
        sides.append(picture.table((24, below), 230, *journey.right))
    keys = picture.table((400, 98), 160, *journey.keys)
    rows = picture.table((662, 98), 214, *journey.target)
    for side, row, key, style in journey.to_keys:
        picture.arrow((254, sides[side][row]), (400, keys[key]), style)
    for key, row, style in journey.to_rows:
        picture.arrow((560, keys[key]), (662, rows[row]), style)
    picture.text(24, 28, journey.title, "head")
    picture.text(24, height - 18, journey.about, "small")
    return picture.write()


CRASH = [
    ("intent", "a row in the runs table", "nothing but the intent", "takes the changes again;", "the intent is void"),
    (
        "quarantine",
        "its commit, with a number",
        "a quarantine that is ahead",
        "computes again the changes",
        "between the two tables",
    ),
    (
        "target",
        "rows and cursor, one commit",
        "a target that is complete",
        "starts at the new cursor;",
        "the log is the proof",
    ),
]
"""Each write of a run, what a crash right after it leaves, and what the next run does."""


def draw_crash() -> str:
    """Return the picture of a run that is killed."""
    about = "A run writes in this order. Whatever kills it, a reader of the target sees the old rows or the new ones."
    picture = Picture("What a crash leaves", about, 900, 330)
    picture.text(24, 28, "What a crash leaves", "head")
    for words, y in (("the run", 78), ("killed after it:", 168), ("the next run", 240)):
        picture.text(24, y, words, "small head")
    for number, (name, what, left, first, second) in enumerate(CRASH):
        x = 150 + number * 250
        picture.box(x, 48, 220, "a" if name == "target" else "box", 52)
        picture.text(x + 110, 70, f"{number + 1}. {name}", "head", "middle")
        picture.text(x + 110, 90, what, "small", "middle")
        if number:
            picture.arrow((x - 30, 74), (x, 74), "n")
        picture.box(x, 144, 220, "dead" if number < 2 else "a", 38)
        picture.text(x + 110, 168, left, "small", "middle")
        picture.box(x, 214, 220, "box", 50)
        picture.text(x + 110, 234, first, "small", "middle")
        picture.text(x + 110, 253, second, "small", "middle")
        picture.shapes.append(f'<path d="M{x + 110} 100V138" class="line ln"/>')
        picture.shapes.append(f'<path d="M{x + 110} 144l-5 -10h10z" class="hn"/>')
        picture.shapes.append(f'<path d="M{x + 110} 182V208" class="line ln"/>')
        picture.shapes.append(f'<path d="M{x + 110} 214l-5 -10h10z" class="hn"/>')
    picture.text(24, 304, about, "small")
    return picture.write()


def draw_all() -> dict[str, str]:
    """Return the pictures by the name of their file."""
    return {f"{journey.file}.svg": draw_journey(journey) for journey in JOURNEYS} | {"crash.svg": draw_crash()}


if __name__ == "__main__":
    for name, drawn in draw_all().items():
        (IMAGES / name).write_text(drawn, encoding="utf-8")
