"""Random histories: abstract rows, small key pools so that operations collide, every kind of change on purpose.

A history is JSON: ``{"windows": [[commit, ...], ...]}``; a commit is a list of ``[table, rid, row]``, ``row`` the
whole new row (list of abstract values in the table's column order) or None for a delete. Everything else (key update,
swap, delete and insert of one key, A -> B -> A, touch) is made of these.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from differential.columns import DOMAINS, TAGS, Column
from differential.spec import Table, World

Op = list[Any]
Commit = list[Op]
Window = list[Commit]
State = dict[str, dict[int, list[Any]]]


@dataclass(frozen=True)
class History:
    """Windows of commits of operations; a run of the engine stands after each window."""

    windows: tuple[Window, ...]

    def size(self) -> int:
        """Return the number of operations."""
        return sum(len(commit) for window in self.windows for commit in window)


def apply(state: State, commit: Commit) -> None:
    """Apply one commit to an abstract state."""
    for table, rid, row in commit:
        rows = state.setdefault(table, {})
        if row is None:
            rows.pop(rid, None)
        else:
            rows[rid] = row


def is_valid(world: World, history: History) -> bool:
    """Tell whether no source has two rows with one key (or one value declared unique) after any commit."""
    state: State = {}
    for window in history.windows:
        for commit in window:
            apply(state, commit)
            if any(_clashes(world.table(name), rows) for name, rows in state.items()):
                return False
    return True


def _clashes(table: Table, rows: dict[int, list[Any]]) -> bool:
    if table.order or table.holds:
        return False
    names = [column.name for column in table.columns]
    for columns in (table.key, *table.unique):
        places = [names.index(name) for name in columns]
        keys = [tuple(_hashable(row[place]) for place in places) for row in rows.values()]
        live = [key for key in keys if None not in key]
        if len(live) != len(set(live)):
            return True
    return False


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass
class Generator:
    """Makes one history of a world.

    Attributes:
        windows: How many; the first is what the first run finds.
        plain: Take plain tags as keys (for readable cases).
    """

    world: World
    rng: random.Random
    windows: int = 5
    plain: bool = False
    state: State = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    pools: dict[str, list[Any]] = field(default_factory=dict)
    next_rid: int = 0

    def make(self) -> History:
        """Return a new history, valid by construction."""
        rng = self.rng
        self.tables = [table for table in self.world.tables if not table.is_shared]
        self.state, self.next_rid = {table.name: {} for table in self.tables}, 0
        self.pools = {pool: self._pool(pool, *bounds) for pool, bounds in self.world.pools.items()}
        self.pools |= {pool: list(tags) for pool, tags in self.world.shared.items()}
        busy = rng.choice((0.5, 0.8, 1.0))
        windows: list[Window] = [self._bootstrap()]
        for _ in range(self.windows - 1):
            window = self._window() if rng.random() < busy else []
            windows.append(window)
        return History(tuple(windows))

    def _pool(self, name: str, low: int, high: int) -> list[Any]:
        size = self.rng.randint(low, high)
        if self.rng.random() < 0.05:
            size = high * self.rng.choice((2, 2, 5))
        kinds = {c.kind for table in self.world.tables for c in table.columns if c.pool == name}
        if kinds - {"key", "keys", "items", "ref"}:
            return list(range(size))
        if self.plain:
            return list("abcdefghijklmnopqrstuvwxyz"[:size])
        tags = self.rng.sample(TAGS, min(size, len(TAGS)))
        anchor = self.world.anchor
        return tags if anchor is None else [anchor, *[tag for tag in tags if tag != anchor]][:size]

    def _bootstrap(self) -> Window:
        if self.rng.random() < 0.15:
            return []
        commit: Commit = []
        for table in self.tables:
            share = self.rng.choice((0.0, 0.5, 0.9, 1.3))
            tries = max(len(self.pools[c.pool]) for c in table.columns if c.name in table.key and c.pool is not None)
            for _ in range(round(share * tries * len(table.key))):
                self._do(commit, self._insert(table))
        return [commit]

    def _window(self) -> Window:
        commits: Window = []
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            commit: Commit = []
            for _ in range(self.rng.choice((1, 2, 3, 4))):
                self._do(commit, self._operation())
            commits.append(commit)
        if self.rng.random() < 0.15:
            commits += self._there_and_back()
        return commits

    def _do(self, commit: Commit, ops: list[Op]) -> None:
        """Take ``ops`` into ``commit`` if each touches a row that it has not touched and the state stays valid."""
        touched = {(table, rid) for table, rid, _ in commit}
        if not ops or any((table, rid) in touched for table, rid, _ in ops):
            return
        before = {name: dict(rows) for name, rows in self.state.items()}
        apply(self.state, ops)
        if any(_clashes(self.world.table(name), self.state[name]) for name in {op[0] for op in ops}):
            self.state = before
            return
        commit.extend(ops)

    def _operation(self) -> list[Op]:
        table = self.rng.choice(self.tables)
        rows = self.state[table.name]
        if not rows:
            return self._insert(table)
        makers = {
            "insert": 4,
            "delete": 4,
            "update": 4,
            "refer": 4,
            "rekey": 2,
            "swap": 1,
            "touch": 1,
            "replace": 2,
            "idle": 1,
        }
        kind = self.rng.choices(list(makers), list(makers.values()))[0]
        if kind == "insert":
            return self._insert(table)
        rid = self.rng.choice(list(rows))
        found: list[Op] = getattr(self, f"_{kind}")(table, rid, rows[rid])
        return found

    def _insert(self, table: Table) -> list[Op]:
        self.next_rid += 1
        return self._fitting(
            lambda: [[table.name, self.next_rid, [self._value(c, c.name in table.key) for c in table.columns]]]
        )

    def _fitting(self, make: Callable[[], list[Op]]) -> list[Op]:
        """Return the first of a few tries that gives no two rows one key, else the last."""
        ops: list[Op] = []
        for _ in range(4):
            ops = make()
            after = {name: dict(self.state[name]) for name in {op[0] for op in ops}}
            apply(after, ops)
            if not any(_clashes(self.world.table(name), rows) for name, rows in after.items()):
                break
        return ops

    def _delete(self, table: Table, rid: int, _row: list[Any]) -> list[Op]:
        return [[table.name, rid, None]]

    def _change(self, table: Table, rid: int, row: list[Any], columns: list[str]) -> list[Op]:
        if not columns:
            return []
        chosen = self.rng.sample(columns, min(len(columns), self.rng.choice((1, 1, 2))))
        new = [
            self._value(c, c.name in table.key) if c.name in chosen else cell
            for c, cell in zip(table.columns, row, strict=True)
        ]
        return [[table.name, rid, new]]

    def _update(self, table: Table, rid: int, row: list[Any]) -> list[Op]:
        return self._change(table, rid, row, [c.name for c in table.columns if c.name not in table.key])

    def _refer(self, table: Table, rid: int, row: list[Any]) -> list[Op]:
        references = [c.name for c in table.columns if c.name not in table.key and c.pool is not None]
        return self._change(table, rid, row, references) or self._update(table, rid, row)

    def _idle(self, table: Table, rid: int, row: list[Any]) -> list[Op]:
        return self._change(table, rid, row, [c.name for c in table.columns if c.name == "idle"])

    def _rekey(self, table: Table, rid: int, row: list[Any]) -> list[Op]:
        return self._fitting(lambda: self._change(table, rid, row, list(table.key)))

    def _touch(self, table: Table, rid: int, row: list[Any]) -> list[Op]:
        return [[table.name, rid, list(row)]]

    def _replace(self, table: Table, rid: int, row: list[Any]) -> list[Op]:
        """Delete and insert of one key in one commit: another physical row."""
        (made,) = self._update(table, rid, row) or [[table.name, rid, list(row)]]
        self.next_rid += 1
        return [[table.name, rid, None], [table.name, self.next_rid, made[2]]]

    def _swap(self, table: Table, rid: int, row: list[Any]) -> list[Op]:
        """Two rows exchange everything but their keys (or, as often, their keys)."""
        other = self.rng.choice(list(self.state[table.name]))
        if other == rid:
            return []
        mine, theirs, keep = list(row), list(self.state[table.name][other]), self.rng.random() < 0.5
        for place, column in enumerate(table.columns):
            if (column.name in table.key) == keep:
                mine[place], theirs[place] = theirs[place], mine[place]
        return [[table.name, rid, mine], [table.name, other, theirs]]

    def _there_and_back(self) -> Window:
        """A -> B -> A, or an insert and its delete, over two commits of one window."""
        table = self.rng.choice(self.tables)
        before = {rid: list(row) for rid, row in self.state[table.name].items()}
        there: Commit = []
        if before and self.rng.random() < 0.7:
            rid = self.rng.choice(list(before))
            kind = self.rng.choice((self._update, self._rekey, self._delete))
            self._do(there, kind(table, rid, before[rid]))
        else:
            self._do(there, self._insert(table))
        back: Commit = [[name, rid, before.get(rid)] for name, rid, _ in there]
        apply(self.state, back)
        return [there, back] if there else []

    def shared_commit(self, share: float) -> Commit:
        """Return a commit in which the first keys of every shared table change, and a few of the others."""
        commit: Commit = []
        for table in self.tables:
            rows, keys = self.state[table.name], list(self.pools[table.columns[0].pool or ""])
            live = {row[0]: rid for rid, row in rows.items()}
            chosen = self.rng.sample(keys, round(len(keys) * (0.08 if rows else share)))
            for key in dict.fromkeys([*[key for key in keys[:2] if self.rng.random() < 0.7], *chosen]):
                cells = [key, *[self._value(column, is_key=False) for column in table.columns[1:]]]
                if key not in live:
                    self.next_rid += 1
                    commit.append([table.name, self.next_rid, cells])
                else:
                    commit.append([table.name, live[key], None if self.rng.random() < 0.4 else cells])
        apply(self.state, commit)
        return commit

    def _value(self, column: Column, is_key: bool) -> Any:
        rng = self.rng
        if rng.random() < column.nulls:
            return None
        if is_key and column.pool is not None:
            return rng.choice(self.pools[column.pool])
        if column.pool is None:
            return rng.randrange(len(DOMAINS[column.kind]))
        if column.kind in ("keys", "ikeys"):
            return [self._tag(column.pool, 0.1) for _ in range(rng.choice((0, 1, 2, 3, 5)))]
        if column.kind == "items":
            return [self._item(column.pool) for _ in range(rng.choice((0, 1, 2, 3)))]
        if column.kind == "ref":
            return [self._tag(column.pool, 0.2), rng.randrange(3)]
        return self._tag(column.pool, 0.0)

    def _item(self, pool: str) -> list[Any] | None:
        if self.rng.random() < 0.07:
            return None
        return [self._tag(pool, 0.1), self.rng.choice((None, 0, 1)), self.rng.choice((None, 1, 2))]

    def _tag(self, pool: str, nulls: float) -> Any:
        """Return a key of the pool, the first ones far more often (Zipf)."""
        if self.rng.random() < nulls:
            return None
        keys = self.pools[pool]
        return self.rng.choices(keys, [1 / rank for rank in range(1, len(keys) + 1)])[0]


def make_histories(world: World, count: int, windows: int, seed: int) -> Iterator[History]:
    """Yield ``count`` random histories of ``world``; the same ones for the same seed."""
    rng = random.Random(f"{seed}/{world.name}")
    for _ in range(count):
        yield Generator(world, rng, windows).make()


def make_shared(world: World, windows: int, seed: int) -> History | None:
    """Return the history of the tables that all histories share; None when the world has none.

    The keys that jobs name as constants come and go with every window, the others now and then.
    """
    rng, tables = random.Random(f"shared/{seed}/{world.name}"), [table for table in world.tables if table.is_shared]
    if not tables:
        return None
    generator = Generator(world, rng, tables=tables, state={table.name: {} for table in tables})
    generator.pools = {pool: list(tags) for pool, tags in world.shared.items()}
    return History(tuple([generator.shared_commit(0.6) for _ in range(1 if n == 0 else 2)] for n in range(windows)))
