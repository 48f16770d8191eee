"""Random tables and random queries with GROUP BY; Spark's own answer to the query's text is the reference.

All histories share one table, its commits and the runs: the number of the history is a part of every group's key, so
that one run of a job plays its query on each of them.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from differential.compare import canonical_row
from kit.lab import FEED, Lab

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG, HELD = "latest: {order: [w, n], delete: s = 'X'}", "doubled_keys: quarantine"
"""How the table is a source: as a log, or without the rows that share their key. Of both the key is ``e``."""
COLUMNS = {
    "id": pa.string(),
    "e": pa.string(),
    "h": pa.int32(),
    "g": pa.string(),
    "w": pa.int32(),
    "n": pa.int64(),
    "d": pa.decimal128(10, 2),
    "f": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "t": pa.timestamp("us", "UTC"),
    "unused": pa.int32(),
}
KEYS_OF_A_HISTORY = 9
KINDS = ("put", "drop", "append", "update", "move", "overwrite", "restore", "compact", "keyless", "unused", "late",
         "grow")  # fmt: skip
GAPS = ("lost", "unfed")
"""What can happen to the table; of what ``GAPS`` do, the feed tells nothing, so that no group moves by it."""
_GROUPS = ("g", "w", "upper(g)", "coalesce(g, '-')", "n % 3", "date_trunc('MONTH', t)", "f", "w > 1", "(w + 1)", "s")
AGGREGATES = (
    "count(*)", "count(n)", "count(1)", "sum(n)", "sum(d)", "avg(n)", "avg(d)", "avg(w)", "sum(w)", "min(n)", "max(n)",
    "min(s)", "max(s)", "max(t)", "min(f)", "max(d)", "bool_and(b)", "bool_or(b)", "bool_or(n > 3)",
    "count(DISTINCT n)",
    "count(DISTINCT s)", "count(DISTINCT f)", "count(DISTINCT lower(s))", "array_sort(array_agg(DISTINCT s))",
    "array_sort(array_agg(DISTINCT n))", "sum(CASE WHEN b THEN n ELSE -n END)", "max(coalesce(s, '?'))", "sum(n * 2)",
)  # fmt: skip
_FILTERS = ("b", "n > 2", "s IS NOT NULL", "d < 5", "g = 'a' OR w IS NULL", "NOT b")
_CONDITIONS = ("n > 1", "b", "s <> 'x'", "d IS NOT NULL AND n < 9", "coalesce(w, 0) < 3", "f > 0 OR g = 'b'")
_AROUND = (
    "coalesce({a}, 0) + {b}", "CASE WHEN {b} > 1 THEN {a} END", "{a} BETWEEN {b} AND 7", "-{a} + {b}",
    "try_divide({a}, {b})", "concat('n', {a}, ' of ', {b})", "h * 1000 + {b}", "{a} IS NULL OR {b} = 2",
)  # fmt: skip
_NUMBERS = ("sum(n)", "sum(d)", "max(n)", "count(n)", "avg(d)", "count(DISTINCT s)", "min(w) FILTER (WHERE b)")


def make_query(chance: random.Random, *, moves: bool = False, without: str = "") -> tuple[str, tuple[str, ...]]:
    """Return a query over ``facts``, and the names of its key.

    Args:
        chance: What it is drawn from.
        moves: It shows what makes groups move.
        without: A column that it does not use; empty for none.
    """

    def fit(texts: tuple[str, ...]) -> list[str]:
        return [each for each in texts if without not in find_columns(each)]

    by = ["h", *chance.sample(fit(_GROUPS), chance.choice([0, 1, 1, 1, 2]))]
    if chance.random() < 0.5:
        chance.shuffle(by)
    items, grouped, keys = [], [], []
    for place, each in enumerate(by):
        name = each if each.isalpha() and chance.random() < 0.7 else f"k{place}"
        items.append(each if name == each else f"{each} AS {name}")
        renamed = name != each and not each.isalpha() and chance.random() < 0.5
        grouped.append(name if renamed else each)
        keys.append(name)
    aggregates = [each for each in fit(AGGREGATES) if not moves or not each.startswith("avg")]
    for place in range(chance.randint(2, 5)):
        aggregate = chance.choice(aggregates)
        if chance.random() < 0.25 and not aggregate.startswith("array_sort"):
            aggregate += f" FILTER (WHERE {chance.choice(_FILTERS)})"
        if not moves and chance.random() < 0.25:
            aggregate = chance.choice(_AROUND).format(a=chance.choice(_NUMBERS), b="count(*)")
        items.append(f"{aggregate} AS a{place}")
    if moves or chance.random() < 0.5:
        items += ["count(*) AS rows", "count(d) AS many", "sum(d) AS total", "avg(d) AS mean", "count(n) AS known"]
    if chance.random() < 0.3:
        chance.shuffle(items)
    where = f" WHERE {chance.choice(fit(_CONDITIONS))}" if chance.random() < 0.5 else ""
    return f"SELECT {', '.join(items)} FROM facts{where} GROUP BY {', '.join(grouped)}", tuple(keys)


def find_columns(text: str) -> list[str]:
    """Return the columns of ``facts`` that a text names, in the table's order."""
    words = set(re.findall(r"\w+", re.sub(r"'[^']*'", "", text)))
    return [name for name in COLUMNS if name in words]


def reduce_rows(rows: DataFrame, how: str, text: str) -> DataFrame:
    """Return the rows of the source of a query: each by itself, those that share a key apart, or of a log the last."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if not how:
        return rows.where("id IS NOT NULL")
    rows, same = rows.where("e IS NOT NULL"), Window.partitionBy("e")
    if how == HELD:
        return rows.withColumn("many", F.count("*").over(same)).where("many = 1")
    # Of one order, the greater contents win, among the columns that the job uses.
    order = [F.col(name).desc_nulls_last() for name in ("w", "n", *find_columns(f"{text} s"))]
    last = rows.withColumn("place", F.row_number().over(same.orderBy(*order))).where("place = 1")
    return last.where("NOT coalesce(s = 'X', false)")


@dataclass
class GroupWorld:
    """One table of many histories, jobs of groups over it, and Spark beside them."""

    lab: Lab
    spark: SparkSession
    chance: random.Random
    histories: int
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    queries: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    hows: dict[str, str] = field(default_factory=dict)
    chain: dict[str, str] = field(default_factory=dict)
    keyless: int = 0

    def begin(self) -> None:
        """Make the table."""
        self.lab.table("facts", "id", COLUMNS)
        for history in range(self.histories):
            for number in range(self.chance.randint(0, KEYS_OF_A_HISTORY)):
                self._draw(history, number)
        self.lab.append("facts", *self.rows.values())

    def add(self, name: str, text: str, keys: tuple[str, ...], how: str = "") -> None:
        """Write a job; ``how`` the table is its source: ``LOG``, ``HELD``, or as it is."""
        self.queries[name], self.hows[name] = (text, keys), how
        declared = f"key: e, {how}" if how else "key: id"
        source = f"sources: {{facts: {{table: facts, {declared}}}}}"
        rules = "rules: [{rule: mass_change, at_most: 1.0}]\n" if how == LOG else ""
        self.lab.job(f"job: {name}\n{source}\nquery: |\n  {text}\ntarget: {{table: {name}}}\n{rules}")

    def _draw(self, history: int, number: int | None) -> dict[str, Any]:
        """Draw a row; its values come from few, so that groups meet, and nulls are among them."""
        pick = self.chance.choice
        row: dict[str, Any] = {
            "id": None if number is None else f"h{history:04}|{number}",
            "e": None if number is None else f"h{history:04}|{number // 2}",
            "h": history,
            "g": pick(["a", "b", "A", "", None]),
            "w": pick([0, 1, 2, None]),
            "n": pick([0, 1, 2, 3, 5, 7, 2**40, None]),
            "d": pick([Decimal("0.10"), Decimal("0.20"), Decimal("7.00"), Decimal("-3.33"), None]),
            "f": pick([0.0, -0.0, 1.5, float("nan"), None]),
            "s": pick(["x", "X", "yy", "é", None]),
            "b": pick([True, False, None]),
            "t": pick([datetime(2026, 1, 31, tzinfo=UTC), datetime(2026, 2, 1, 5, tzinfo=UTC), None]),
            "unused": self.chance.randint(0, 9),
        }
        if number is not None:
            self.rows[row["id"]] = row
        return row

    def deal(self, rounds: int) -> list[list[str]]:
        """Return what happens in some rounds: all kinds once, in a random order, and gaps in the last round alone."""
        kinds = self.chance.sample(KINDS, len(KINDS))
        dealt = [kinds[place::rounds] for place in range(rounds)]
        dealt[-1] += GAPS
        self.chance.shuffle(dealt[-1])
        return dealt

    def change(self, what: str) -> str:
        """Make what one kind of change is to some of the histories; return which."""
        touched = [h for h in range(self.histories) if self.chance.random() < 0.6] or [0]
        getattr(self, f"_{what}")(touched)
        return what

    def _list_mine(self, touched: list[int]) -> list[str]:
        return [key for key in self.rows if int(key[1:5]) in touched]

    def _put(self, touched: list[int]) -> None:
        numbers = [(h, self.chance.randrange(KEYS_OF_A_HISTORY)) for h in touched for _ in range(2)]
        put = [self._draw(*each) for each in numbers]
        self.lab.put("facts", *{row["id"]: row for row in put}.values())

    def _drop(self, touched: list[int]) -> None:
        mine = self._list_mine(touched)
        gone = [key for key in mine if self.chance.random() < 0.4] or mine[:1]
        if gone:
            self.lab.drop("facts", f"id IN ({', '.join(map(repr, gone))})")
        for key in gone:
            del self.rows[key]

    def _append(self, touched: list[int]) -> None:
        fresh = [(h, n) for h in touched for n in range(KEYS_OF_A_HISTORY) if f"h{h:04}|{n}" not in self.rows]
        rows = [self._draw(*each) for each in fresh if self.chance.random() < 0.5]
        if rows:
            self.lab.append("facts", *rows)

    def _update(self, touched: list[int]) -> None:
        self._assign("w = 1", "g", "a", touched)

    def _lost(self, touched: list[int]) -> None:
        """What the feed would tell is gone: the run compares the two snapshots."""
        self._assign("n = 2", "n", 3, touched)
        shutil.rmtree(Path(self.lab.path("facts"), "_change_data"), ignore_errors=True)

    def _unfed(self, touched: list[int]) -> None:
        """The feed is off for a while."""
        log = DeltaTable(self.lab.path("facts"))
        log.alter.set_table_properties(dict.fromkeys(FEED, "false"))
        self._assign("w = 2", "w", 0, touched)
        log.update_incremental()
        log.alter.set_table_properties(FEED)

    def _late(self, touched: list[int]) -> None:
        """Events come that are older than one of their key that is there already."""
        free = [(h, n) for h in touched for n in range(KEYS_OF_A_HISTORY) if f"h{h:04}|{n}" not in self.rows]
        rows = [self._draw(*each) for each in free if f"h{each[0]:04}|{each[1] ^ 1}" in self.rows]
        for row in rows:
            row |= {"w": 0, "n": 0}
        if rows:
            self.lab.append("facts", *rows)

    def _grow(self, _touched: list[int]) -> None:
        """A column comes that no query uses."""
        log = DeltaTable(self.lab.path("facts"))
        log.alter.add_columns([Field(f"more{log.version()}", PrimitiveType("string"), nullable=True)])

    def _assign(self, condition: str, column: str, value: Any, touched: list[int]) -> None:
        name, _, number = condition.partition(" = ")
        for key in self._list_mine(touched):
            if self.rows[key][name] == int(number):
                self.rows[key][column] = value
        self.lab.change("facts", f"{condition} AND h IN ({', '.join(map(str, touched))})", **{column: repr(value)})

    def _move(self, touched: list[int]) -> None:
        """Rows change their key, and nothing else; all are written anew."""
        for key in self._list_mine(touched):
            if int(key[6:]) < KEYS_OF_A_HISTORY and self.chance.random() < 0.3:
                other = f"{key[:6]}{KEYS_OF_A_HISTORY + int(key[6:])}"
                self.rows[other] = self.rows.pop(key) | {"id": other}
        self._overwrite(touched)

    def _overwrite(self, _touched: list[int]) -> None:
        data = pa.Table.from_pylist(list(self.rows.values()), schema=self.lab.schema("facts"))
        write_deltalake(self.lab.path("facts"), data, mode="overwrite")

    def _restore(self, _touched: list[int]) -> None:
        log = DeltaTable(self.lab.path("facts"))
        if log.version() > 3:
            log.restore(max(1, log.version() - self.chance.randint(1, 3)))
            log.alter.set_table_properties(FEED)  # it may have been off there
        self.rows = {row["id"]: row for row in self.lab.rows("facts") if row["id"] is not None}

    def _compact(self, _touched: list[int]) -> None:
        DeltaTable(self.lab.path("facts")).optimize.compact()

    def _keyless(self, touched: list[int]) -> None:
        self.lab.append("facts", *[self._draw(history, None) for history in touched])

    def _unused(self, _touched: list[int]) -> None:
        self.lab.change("facts", "n > 1", unused="unused + 1")

    def version(self) -> int:
        """Return the table's version."""
        return DeltaTable(self.lab.path("facts")).version()

    def compare(self, name: str, version: int | None = None) -> list[tuple[int, str]]:
        """Return how a target differs from Spark's answer at a version of the table: histories, and what it is."""
        text, keys = self.queries[name]
        rows = self.spark.read.format("delta").option("versionAsOf", self.version() if version is None else version)
        facts = reduce_rows(rows.load(self.lab.path("facts")), self.hows[name], text)
        facts.createOrReplaceTempView("facts")
        wanted = [row.asDict() for row in self.spark.sql(text).collect()]
        self.spark.catalog.dropTempView("facts")
        wanted = [row for row in wanted if all(row[key] is not None for key in keys)]
        return self._differ(name, wanted, name_history(text, keys))

    def _differ(self, name: str, wanted: list[dict[str, Any]], history: str) -> list[tuple[int, str]]:
        found = [row.asDict() for row in self.spark.read.format("delta").load(self.lab.path(name)).collect()]
        columns = list(wanted[0] if wanted else found[0]) if wanted or found else []
        ours, theirs = (Counter(canonical_row(row, columns) for row in side) for side in (found, wanted))
        at = columns.index(history) if columns else 0
        sides = {"lacks": theirs - ours, "has": ours - theirs}
        return [(row[at][1], f"{side} {name} {row}") for side, rows in sides.items() for row in rows]

    def add_chain(self, name: str) -> None:
        """Write two jobs on top of a query that moves: groups of its groups, and each fact beside those."""
        text, keys = self.queries[name]
        each = f"SELECT {name_history(text, keys)} AS h, count(*) AS groups, sum(rows) AS size, max(total) AS most"
        self.chain = {
            "again": f"{each}, sum(known) AS known FROM {name} GROUP BY h",
            "beside": "SELECT facts.id, facts.h, facts.n, again.groups, again.size, again.most FROM facts"
            " LEFT JOIN again ON facts.h = again.h",
        }
        below = f"{name}: {{table: {name}, key: [{', '.join(keys)}]}}"
        sources = {"again": below, "beside": "facts: {table: facts, key: id}, again: {table: again, key: h}"}
        for job, query in self.chain.items():
            self.lab.job(f"job: {job}\nsources: {{{sources[job]}}}\nquery: |\n  {query}\ntarget: {{table: {job}}}\n")

    def compare_chain(self, job: str) -> list[tuple[int, str]]:
        """Return how a target on top differs from Spark's answer over the tables as they are now."""
        for table in ("facts", "again", *self.queries):
            self.spark.read.format("delta").load(self.lab.path(table)).createOrReplaceTempView(table)
        keyless = " WHERE id IS NOT NULL" if job == "beside" else ""
        wanted = [row.asDict() for row in self.spark.sql(self.chain[job] + keyless).collect()]
        for table in ("facts", "again", *self.queries):
            self.spark.catalog.dropTempView(table)
        return self._differ(job, wanted, "h")


def name_history(text: str, keys: tuple[str, ...]) -> str:
    """Return the column of a query that holds the number of the history."""
    return next(key for key in keys if key == "h" or f"h AS {key}," in text or f"h AS {key} " in text)
