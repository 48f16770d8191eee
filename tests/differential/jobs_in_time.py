"""Random jobs with joins in time: an interval first, then versions, foreign keys and lists on what came before it."""

from __future__ import annotations

from typing import Any

from differential.columns import TYPES
from differential.expressions import Tree
from differential.maker import Job, Maker

BETWEEN: dict[str, tuple[tuple[Any, Any], ...]] = {
    "at": (("-1h", "2h"), ("0s", "0s"), ("-2h", "-1h"), ("1s", "1h"), ("-90m", "59m"), ("-1d", "2d")),
    "day": (("-1d", "1d"), ("0d", "0d"), ("1d", "2d"), ("-3d", "-1d")),
    "n": ((0, 1), (-1, 1), (-2, -1), (1, 2), (0, 0)),
    "b": ((0, 1), (-1, 1), (-2, 0), (1, 3)),
    "d": ((-1.25, 0.5), (0, 0), (-2, 0), (1, 2)),
    "x": ((-0.5, 1), (0, 0), (-1, -0.5), (0.5, 1.5)),
}
"""Column of a time -> bounds, both inclusive, some of which leave the moment itself out."""
EVENTS = ("calls", "notes")
VERSIONS = {"accounts": ("until", "gone"), "rates": ("upto", None), "firms_past": ("valid_to", None)}
"""Table with versions -> its column of the end, and of a thing that is gone."""
KEYS = {"e": "calls", "p": "notes", "f": "firms", "a": "places"}


class TimeJobMaker(Maker):
    """Makes one job over the tables of the world of times, where a key has the same name in every table.

    ``right_key`` is the column that identifies a row without left side, or with the key a pair.
    """

    def make(self, name: str) -> Job:
        """Return a job with one to four joins, of which one at least is a join in time."""
        rng = self.rng
        driving = rng.choice(EVENTS)
        self.aliases = {driving: self.world.table(driving)}
        first = rng.random() < 0.6
        if first:
            self._add_interval(driving)
        kinds = [rng.choice(("as_of", "as_of", "foreign_key", "list")) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
        for kind in kinds if first else ["foreign_key", "as_of", *kinds][rng.randrange(2) :]:
            getattr(self, f"_add_{kind}")()
        key = self.aliases[driving].key[0]
        job: Job = {"name": name, "source": driving, "joins": self.joins, "change_feed": rng.random() < 0.5}
        if rng.random() < 0.15 and first and len(self.joins) == 1:
            (alias,) = self.joins
            return {**job, "key": [key], "right_key": [f"{alias}_{self.aliases[alias].key[0]}"], "select": None}
        select = self._select(f"{driving}.{key}")
        job |= {"key": ["k"], "select": select}
        if self.right_key is not None:
            job["right_key"] = [self.right_key]
        if rng.random() < 0.3:
            job["where"] = self._where()
        if rng.random() < 0.4:
            name = rng.choice([column for column in select if column.endswith("_name")])
            job["rules"] = [rng.choice((["not_null", name], ["one_of", name, "x", "y", "null"]))]
        return job

    def _paths(self, name: str) -> list[Tree]:
        """Return what names a key, over all that is joined so far."""
        return [f"{a}.{name}" for a, table in self.aliases.items() if any(c.name == name for c in table.columns)]

    def _times(self, like: str) -> list[Tree]:
        """Return all columns of a type."""
        wanted = TYPES[like]
        return [f"{a}.{c.name}" for a, table in self.aliases.items() for c in table.columns if c.type == wanted]

    def _one_of(self, paths: list[Tree]) -> Tree:
        """Return one of some paths, or the first that is not null of two."""
        if len(paths) > 1 and self.rng.random() < 0.35:
            return ["coalesce", *self.rng.sample(paths, 2)]
        return self.rng.choice(paths)

    def _add_interval(self, driving: str) -> None:
        rng = self.rng
        table = rng.choice([*EVENTS, next(each for each in EVENTS if each != driving)])
        alias, time = self.name_alias(table), rng.choice(list(BETWEEN))
        match = rng.choice((["u"], ["f"], ["u", "f"], ["f", "u"]))
        at: Tree = f"{driving}.{time}"
        if time == "n" and rng.random() < 0.3:
            at = ["coalesce", at, ["number", 1]]
        on: list[Tree] = [f"{driving}.{name}" for name in match]
        if rng.random() < 0.3:
            on[0] = ["coalesce", on[0], ["own", f"{driving}.{self.aliases[driving].key[0]}", self.world.anchor]]
        self.joins[alias] = {
            "table": table,
            "kind": "interval",
            "how": rng.choice(("inner", "left", "right", "full")),
            "on": on,
            "at": at,
            "match": match,
            "time": time,
            "between": list(rng.choice(BETWEEN[time])),
        }
        self.aliases[alias] = self.world.table(table)
        self.right_key = f"{alias}_id"

    def _add_as_of(self) -> None:
        rng = self.rng
        there = [name for name in VERSIONS if name != "firms_past" or any(s.name == name for s in self.world.shapes)]
        name = rng.choice(there)
        table, alias = self.world.table(name), self.name_alias(name)
        *parts, _ = table.key
        paths = [self._paths(part) for part in parts]
        moments = self._times("int" if name == "rates" else "moment")
        if not all(paths) or not moments:
            return
        valid_to, gone = VERSIONS[name]
        join: Job = {"table": name, "kind": "as_of", "how": rng.choice(("left", "left", "inner"))}
        join |= {"on": [self._one_of(each) for each in paths], "at": self._one_of(moments)}
        if rng.random() < 0.6:
            join |= {"valid_to": valid_to, "inclusive": rng.random() < 0.4}
        if gone is not None and rng.random() < 0.5:
            join["gone"] = f"{alias}.{gone}"
        self.joins[alias], self.aliases[alias] = join, table

    def _add_foreign_key(self) -> None:
        name = self.rng.choice([key for key in KEYS if key != "a"])
        alias, paths = self.name_alias(KEYS[name]), self._paths(name)
        if name == "f" or not paths:  # most often: others are joined by their own key
            name, alias, paths = "f", self.name_alias("firms"), self._paths("f")
        how = self.choose_how((3, 4, 1, 2))
        if how in ("right", "full"):
            self.right_key = f"{alias}_id"
        on = [self._one_of(paths)]
        self.joins[alias] = {"table": KEYS[name], "kind": "foreign_key", "how": how, "on": on}
        self.aliases[alias] = self.world.table(KEYS[name])

    def _add_list(self) -> None:
        alias = self.name_alias("places")
        elements = self._one_of(self._paths("ids"))
        rules = {"duplicates": self.rng.choice(("keep", "drop")), "unmatched": self.rng.choice(("keep", "drop"))}
        self.joins[alias] = {"table": "places", "kind": "list", "elements": elements, **rules}
        self.lists.append(alias)

    def _select(self, key: str) -> dict[str, Tree]:
        select: dict[str, Tree] = {"k": key}
        for alias, table in self.aliases.items():
            select |= {f"{alias}_id": f"{alias}.{table.key[0]}", f"{alias}_name": f"{alias}.name"}
        times = [path for kind in ("moment", "int") for path in self._times(kind)]
        select |= {f"t{i}": path for i, path in enumerate(self.rng.sample(times, min(3, len(times))))}
        return select | {alias: alias for alias in self.lists}

    def _where(self) -> Tree:
        alias = self.rng.choice(list(self.aliases))
        if self.rng.random() < 0.5:
            return ["is_not_null", f"{alias}.{self.aliases[alias].key[0]}"]
        return ["above", ["coalesce", f"{alias}.n", ["number", 1]], 0]
