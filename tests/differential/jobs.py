"""Jobs as JSON, and random ones: legal chains of two to four mixed joins over a world's tables, the weirder the better.

What SQL allows and nobody would write is wanted here: one table under three aliases, a foreign key that falls back to a
constant, a full join behind an inner one, a list of what another lookup names.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from differential.expressions import Tree, build
from differential.jobs_in_time import TimeJobMaker
from differential.maker import Job, Maker
from differential.spec import Join, Shape, Table, World, not_null, one_of

_RULES = {"not_null": not_null, "one_of": one_of}


def shape_of(job: Mapping[str, Any]) -> Shape:
    """Return the job that ``job`` describes."""
    return Shape(
        job["name"],
        job["source"],
        tuple(job["key"]),
        tuple(job.get("right_key", ())),
        joins={alias: _join_of(join) for alias, join in job["joins"].items()},
        select=None if job["select"] is None else {name: build(tree) for name, tree in job["select"].items()},
        where=None if job.get("where") is None else build(job["where"]),
        change_feed=job.get("change_feed", False),
        rules=tuple(_RULES[name](*arguments) for name, *arguments in job.get("rules", ())),
        tree=job,
    )


def _join_of(join: Mapping[str, Any]) -> Join:
    others = {name: join[name] for name in ("how", "duplicates", "unmatched") if name in join}
    elements = build(join["elements"]) if "elements" in join else None
    others |= {name: build(join[name]) for name in ("at", "gone") if name in join}
    others |= {name: join[name] for name in ("valid_to", "inclusive", "time") if name in join}
    others |= {name: tuple(join[name]) for name in ("match", "between") if name in join}
    return Join(
        join["table"], join["kind"], on=tuple(build(tree) for tree in join.get("on", ())), elements=elements, **others
    )


def random_jobs(world: World, count: int, seed: int) -> list[Job]:
    """Return ``count`` random jobs over the tables of ``world``; the same ones for the same seed."""
    rng = random.Random(f"jobs/{seed}/{world.name}")
    maker = TimeJobMaker if world.name == "times" else JobMaker
    return [maker(world, rng).make(f"random_{seed}_{number}") for number in range(count)]


def with_random_jobs(world: World, count: int, seed: int) -> World:
    """Return ``world`` with random jobs beside its own, where its tables are made for them."""
    if world.anchor is None:
        return world
    return replace(world, shapes=(*world.shapes, *map(shape_of, random_jobs(world, count, seed))))


def with_random_queries(world: World, count: int, seed: int) -> World:
    """Return a world of random jobs alone, over the tables of ``world``, for which SQL has words."""
    rng = random.Random(f"queries/{seed}/{world.name}")
    jobs = [QueryMaker(world, rng).make(f"random_{seed}_{number}") for number in range(count)]
    return replace(world, shapes=tuple(map(shape_of, jobs)))


class JobMaker(Maker):
    """Makes one job; ``right_key`` is the alias of its right or full foreign-key join."""

    kinds: tuple[float, ...] = (4, 5, 1.5)
    """How often a join is a table, a foreign-key, and a list join."""

    def make(self, name: str) -> Job:
        """Return a job with two to four joins."""
        rng = self.rng
        tables = [table for table in self.world.tables if not table.is_shared]
        driving = rng.choices(tables, [6, *[2] * (len(tables) - 1)])[0]
        self.aliases = {driving.name: driving}
        wanted = rng.choice((2, 3, 3, 4))
        while len(self.joins) < wanted:
            kind = rng.choices(("table", "foreign_key", "list"), self.kinds)[0]
            getattr(self, f"_add_{kind}")(driving)
        job = {"name": name, "source": driving.name, "joins": self.joins, "change_feed": rng.random() < 0.5}
        if rng.random() < 0.12 and not self.lists and self.right_key is None:
            return {**job, "key": [driving.key[0]], "select": None}
        select = self._select(driving)
        job |= {"key": ["k"], "select": select}
        if self.right_key is not None:
            job["right_key"] = [f"{self.right_key}_id"]
        if rng.random() < 0.4:
            job["where"] = self._where(select)
        if rng.random() < 0.3:
            names = [column for column in select if column.endswith("_name")]
            job["rules"] = [
                rng.choice((["not_null", rng.choice(names)], ["one_of", rng.choice(names), "x", "y", "null"]))
            ]
        return job

    @property
    def _has_key(self) -> bool:
        return any(join["kind"] == "table" for join in self.joins.values())

    def _note(self, alias: str, table: Table, join: Job) -> None:
        self.joins[alias] = join
        self.aliases[alias] = table

    def _choice(self, tables: Sequence[Table]) -> Table:
        """Choose a table, rather one that is not joined yet."""
        used = {table.name for table in self.aliases.values()}
        return self.rng.choices(tables, [1 if table.name in used else 5 for table in tables])[0]

    def _pool(self, table: Table) -> str:
        pool = table.column(table.key[0]).pool
        assert pool is not None
        return pool

    def _add_table(self, driving: Table) -> None:
        pool = self._pool(driving)
        table = self._choice([each for each in self.world.tables if self._pool(each) == pool])
        how = self.rng.choices(("inner", "left", "right", "full"), (3, 2, 2, 4))[0]
        self._note(self.name_alias(table.name), table, {"table": table.name, "kind": "table", "how": how})

    def _add_foreign_key(self, driving: Table) -> None:
        table = self._choice(self.world.tables)
        how = self.choose_how((3, 4, 2, 4))
        on = self._key_of(self._pool(table), driving)
        alias = self.name_alias(table.name)
        if on is None:
            return
        if how in ("right", "full"):
            self.right_key = alias
        self._note(alias, table, {"table": table.name, "kind": "foreign_key", "how": how, "on": [on]})

    def _add_list(self, driving: Table) -> None:
        paths = [
            f"{alias}.{c.name}" for alias, table in self.aliases.items() for c in table.columns if c.kind == "keys"
        ]
        choices: list[Tree] = [*paths, *paths]
        if len(paths) > 1:
            choices.append(["coalesce", *self.rng.sample(paths, 2)])
        fallback = [self._key_of("a", driving), self._key_of("a", driving)]
        if None not in fallback:
            choices += [["array", *fallback], *[["coalesce", path, ["array", *fallback]] for path in paths]]
        if not choices:
            return
        table = next(table for table in self.world.tables if self._pool(table) == "a")
        alias = self.name_alias(table.name)
        rules = {
            "duplicates": self.rng.choice(("keep", "drop")),
            "unmatched": self.rng.choice(("keep", "keep", "drop")),
        }
        self.joins[alias] = {"table": table.name, "kind": "list", "elements": self.rng.choice(choices), **rules}
        self.lists.append(alias)

    def _paths(self, pool: str, driving: Table) -> list[Tree]:
        """Return what names a key of ``pool``: columns of all aliases, and the coalesced key."""
        found: list[Tree] = []
        for alias, table in self.aliases.items():
            for column in table.columns:
                if column.pool == pool and column.kind in ("key", "shared"):
                    found.append(f"{alias}.{column.name}")
                elif column.pool == pool and column.kind == "ref":
                    found.append(f"{alias}.{column.name}.id")
        if self._has_key and self._pool(driving) == pool:
            found.append("key")
        return found

    def _constant(self, pool: str, driving: Table) -> Tree:
        """Return a key that does not depend on the row, or only on its history."""
        if pool in self.world.shared:
            return ["text", self.rng.choice(self.world.shared[pool][:2])]
        of: Tree = "key" if self._has_key and self.rng.random() < 0.7 else f"{driving.name}.{driving.key[0]}"
        if self.right_key is not None and self.rng.random() < 0.5:
            of = ["coalesce", of, f"{self.right_key}.{self.aliases[self.right_key].key[0]}"]
            if self.aliases[self.right_key].is_shared:
                of = of[1]
        return ["own", of, self.world.anchor]

    def _key_of(self, pool: str, driving: Table) -> Tree | None:
        """Return an expression for a key of ``pool``."""
        rng, paths, constant = self.rng, self._paths(pool, driving), self._constant(pool, driving)
        if not paths:
            return constant if rng.random() < 0.5 else None
        path, other = rng.sample([*paths, *(paths if len(paths) == 1 else ())], 2)
        kinds: dict[str, tuple[float, Tree]] = {
            "path": (6, path),
            "either": (4, ["coalesce", path, other]),
            "fallback": (4, ["coalesce", path, constant]),
            "constant": (0.7, constant),
            "if": (1, ["if", ["is_null", rng.choice(paths)], other, path]),
        }
        chosen = rng.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
        return kinds[chosen][1]

    def _select(self, driving: Table) -> dict[str, Tree]:
        select: dict[str, Tree] = {"k": "key" if self._has_key else f"{driving.name}.{driving.key[0]}"}
        for alias, table in self.aliases.items():
            select |= {f"{alias}_id": f"{alias}.{table.key[0]}", f"{alias}_name": f"{alias}.name"}
        select |= {alias: alias for alias in self.lists}
        if len(numbers := self._numbers()) > 1:
            select["some"] = ["coalesce", *self.rng.sample(numbers, 2)]
        return select

    def _numbers(self) -> list[Tree]:
        return [f"{alias}.n" for alias, table in self.aliases.items() if any(c.name == "n" for c in table.columns)]

    def _where(self, select: dict[str, Tree]) -> Tree:
        """Return a condition; one over a number guards a division by it."""
        alias = self.rng.choice(list(self.aliases))
        if self.rng.random() < 0.4:
            return ["is_not_null", f"{alias}.{self.aliases[alias].key[0]}"]
        number = self.rng.choice(self._numbers())
        if self.rng.random() < 0.5:
            number = ["coalesce", number, ["number", 1]]
        ratio = select["per"] = ["ratio", ["number", 6], number]
        guard = ["above", number, 0]
        if self.rng.random() < 0.5:  # what stands twice behind its guard is computed once, and not before it
            return ["both", guard, ["both", ["above", ratio, 0], ["above", ratio, -1]]]
        return guard


class QueryMaker(JobMaker):
    """Makes one job for which SQL has words."""

    kinds = (4, 5, 0)

    def _select(self, driving: Table) -> dict[str, Tree]:
        """Return columns, of which one compares two keys so that null is the same as null."""
        select = super()._select(driving)
        ids = [tree for name, tree in select.items() if name.endswith("_id")]
        return {**select, "same": ["same", *self.rng.sample(ids, 2)]}
