"""Random writers and random administrators: after each run the reference, or a refusal that its own advice repairs."""

from __future__ import annotations

import random
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

import enrich
from enrich.answers.verification import Check
from enrich.base.result import JobResult
from enrich.delta.sink import hold_settings
from faults.shop import HOLDING, JOBS, KEYS, SOAK, SOURCES, TABLES, TIMELESS, Shop, open_shop
from faults.stops import Crash, crash_on, hooked
from kit.counts import COUNTED
from kit.lab import Lab
from kit.session import VACUUM_AT_ONCE

pytestmark = pytest.mark.soak

PARTS = 10 if SOAK else 1
ACTIONS = 1_000 if SOAK else 60
"""The acts of a part."""
RUNS = 300 if SOAK else 5
WRITTEN = tuple(JOBS) if SOAK else ("offers", "checked")
"""The jobs that run among random writers."""
ROUND, HARSH = 12, 4
ADVICE = re.compile(r"ALTER TABLE delta\.`[^`]+` SET TBLPROPERTIES \([^)]+\)|`enrich [^`]+`")


def test_consecutive_runs_among_random_writers(lab: Lab, pytestconfig: pytest.Config, seed: int) -> None:
    """Writers go on while a run is under way; what it must hold is the view at the versions that it reports."""
    shop = open_shop(lab, *WRITTEN, seed=seed)
    lab.run_all()
    stop, broken = threading.Event(), list[Exception]()
    tally: Counter[str] = Counter()
    running = WRITTEN[0]

    def write() -> None:
        try:
            while not stop.wait(1.0):  # every second time, what the run under way reads
                shop.change(shop.random.choice([running, shop.random.choice(WRITTEN)]))
        except Exception as error:  # noqa: BLE001 - told by the other thread
            broken.append(error)

    def versions(job: str) -> dict[str, int]:
        return {table: DeltaTable(lab.path(table)).version() for table in SOURCES[job]}

    latest = {job: versions(job) for job in WRITTEN}
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        for number in range(RUNS):
            job = running = WRITTEN[number % len(WRITTEN)]
            while versions(job) == latest[job] and not broken:
                time.sleep(0.05)
            assert not broken, broken
            result = lab.run(job)
            assert result.exit_code == 0, result.error
            at = latest[job] = {alias: window.to for alias, window in result.sources.items()}
            assert shop.found(job) == shop.expected(job, at), (number, job, at)
            if job in HOLDING:
                assert shop.found(f"{job}__quarantine") == shop.held(job, at), (number, at)
            tally["commits consumed"] += sum(each.to - (each.start or 0) for each in result.sources.values())
            tally["runs"] += 1
            tally["runs that changed rows"] += result.status == "updated"
            tally["runs overtaken by a writer"] += versions(job) != at
    finally:
        stop.set()
        writer.join()
    lab.run_all()
    shop.assert_current(*WRITTEN)
    assert tally["runs"] == RUNS
    assert tally["runs that changed rows"] > RUNS * 2 // 3
    assert tally["runs overtaken by a writer"]
    pytestconfig.stash[COUNTED]["runs among random writers"] = _told(tally)


def _told(tally: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(tally.items()))


Action = Callable[[str], bool]


@dataclass
class Administrator:
    """Does what administrators do, to the tables of one job at a time.

    An action returns False, or raises what Delta raises, when the tables do not allow it; then it is tried again later.
    """

    shop: Shop
    random: random.Random
    done: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    trail: list[str] = field(default_factory=list)
    decks: dict[bool, list[Action]] = field(default_factory=lambda: {True: [], False: []})

    @property
    def lab(self) -> Lab:
        """The lake."""
        return self.shop.lab

    def kinds(self, *, harsh: bool) -> list[Action]:
        """Return the actions as often as they shall come: what a run heals by itself, and what mostly asks for help."""
        if harsh:
            return [
                *(self.vacuum, self.expire, self.feed_off, self.recreate, self.drop_target, self.write_to_target),
                *(self.drop_quarantine, self.refresh, self.vacuum_target, self.expire_target, self.lose_commit),
            ]
        often = [self.overwrite, self.empty, self.optimize, self.restore, self.add_column, self.feed_off_and_on]
        often += [self.repartition, self.die]
        target = [self.restore_target, self.optimize_target, self.widen_target, self.retain_target]
        target.append(self.restore_quarantine)
        return [*[self.change] * 6, *often * 3, self.checkpoint, *target, self.lose_state, self.old_state]

    def act(self, job: str, *, harsh: bool) -> None:
        """Do the next thing that can be done: all kinds come before one comes again, what could not be done first."""
        deck = self.decks[harsh]
        while True:
            for action in list(deck):
                if self.possible(action, job):
                    deck.remove(action)
                    self.done[action.__name__] += 1
                    self.trail.append(f"{action.__name__} {job}")
                    return
            more = [action for action in self.kinds(harsh=harsh) if action not in deck]
            self.random.shuffle(more)
            deck.extend(more)

    def possible(self, action: Action, job: str) -> bool:
        """Do it, and return whether it was done."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            return action(job)
        except (DeltaError, PySparkException, Py4JJavaError) as error:
            self.done[f"{action.__name__} refused by Delta"] += 1
            self.trail.append(f"{action.__name__} {job}: {type(error).__name__}")
            return False

    def source(self, job: str) -> DeltaTable:
        """Open one of a job's sources."""
        return DeltaTable(self.lab.path(self.random.choice(SOURCES[job])))

    def sql(self, statement: str, table: str) -> bool:
        """Let Spark change a table, written as {}; return whether that made a commit."""
        before = DeltaTable(self.lab.path(table)).version()
        self.lab.spark.sql(statement.replace("{}", f"delta.`{self.lab.path(table)}`"))
        return DeltaTable(self.lab.path(table)).version() > before

    # --- sources

    def change(self, job: str) -> bool:
        self.shop.change(job)
        return True

    def overwrite(self, job: str) -> bool:
        table = self.random.choice(SOURCES[job])
        rows = [self.shop.row(table, key) for key in self.random.sample(KEYS, 4)]
        data = pa.Table.from_pylist(rows, schema=self.lab.schema(table))
        write_deltalake(self.lab.path(table), data, mode="overwrite")
        return True

    def repartition(self, job: str) -> bool:
        """Overwrite a source with other partition columns; one row goes, and one changes."""
        table = self.random.choice(SOURCES[job])
        columns = [name for name, kind in TABLES[table].items() if name != "id" and not pa.types.is_list(kind)]
        rows = {row["id"]: row for row in self.lab.rows(table)[1:]} | {0: self.shop.row(table, 0)}
        data = pa.Table.from_pylist(list(rows.values()), schema=self.lab.schema(table))
        layout = self.random.choice([columns[:1], columns[:1], []])
        write_deltalake(self.lab.path(table), data, mode="overwrite", schema_mode="overwrite", partition_by=layout)
        return True

    def empty(self, job: str) -> bool:
        return bool(self.source(job).delete()["num_deleted_rows"])

    def optimize(self, job: str) -> bool:
        return bool(self.source(job).optimize.compact()["numFilesRemoved"])

    def vacuum(self, job: str) -> bool:
        return bool(self.source(job).vacuum(0, dry_run=False, enforce_retention_duration=False))

    def restore(self, job: str) -> bool:
        table = self.source(job)
        table.restore(self.random.randrange(max(0, table.version() - 8), table.version() + 1))
        return True

    def add_column(self, job: str) -> bool:
        table = self.source(job)
        table.alter.add_columns([Field(f"extra{table.version()}", PrimitiveType("string"), nullable=True)])
        return True

    def checkpoint(self, job: str) -> bool:
        self.source(job).create_checkpoint()
        return True

    def expire(self, job: str) -> bool:
        return self._expire(self.random.choice(SOURCES[job]))

    def _expire(self, name: str) -> bool:
        """Do what Delta's log cleanup does: keep the latest checkpoint and what comes after it."""
        table = DeltaTable(self.lab.path(name))
        table.create_checkpoint()
        log = (Path(self.lab.path(name)) / "_delta_log").glob("*.json")
        old = [commit for commit in log if int(commit.stem) < table.version()]
        for commit in old:
            commit.unlink()
        return bool(old)

    def lose_commit(self, job: str) -> bool:
        """Let the commit before the latest be gone, or its file be empty, behind a checkpoint."""
        table = self.source(job)
        lost = Path(self.lab.path(Path(table.table_uri).name)) / "_delta_log" / f"{table.version() - 1:020d}.json"
        if not lost.exists():
            return False
        table.create_checkpoint()
        lost.write_bytes(b"") if self.random.random() < 0.5 else lost.unlink()
        return True

    def feed_off(self, job: str) -> bool:
        self.source(job).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
        self.shop.change(job)
        return True

    def feed_off_and_on(self, job: str) -> bool:
        table = self.random.choice(SOURCES[job])
        DeltaTable(self.lab.path(table)).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
        self.lab.put(table, self.shop.row(table, self.random.choice(KEYS)))
        DeltaTable(self.lab.path(table)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
        return True

    def recreate(self, job: str) -> bool:
        table = self.random.choice(SOURCES[job])
        shutil.rmtree(self.lab.path(table))
        self.lab.table(table, "id", TABLES[table], [self.shop.row(table, key) for key in self.random.sample(KEYS, 3)])
        return True

    # --- targets, quarantine, state

    def restore_target(self, job: str) -> bool:
        return self._restore(job)

    def _restore(self, table: str) -> bool:
        latest = DeltaTable(self.lab.path(table)).version() if self.lab.exists(table) else 0
        version = self.random.randrange(max(0, latest - 5), max(1, latest))
        return latest > 0 and self.sql(f"RESTORE TABLE {{}} TO VERSION AS OF {version}", table)

    def optimize_target(self, job: str) -> bool:
        return self.lab.exists(job) and self.sql("OPTIMIZE {}", job)

    def widen_target(self, job: str) -> bool:
        if not self.lab.exists(job):
            return False
        version = DeltaTable(self.lab.path(job)).version()
        return self.sql(f"ALTER TABLE {{}} ADD COLUMNS (_seen{version} string)", job)

    def retain_target(self, job: str) -> bool:
        short = "'delta.setTransactionRetentionDuration' = 'interval 1 seconds'"
        return self.lab.exists(job) and self.sql(f"ALTER TABLE {{}} SET TBLPROPERTIES ({short})", job)

    def drop_target(self, job: str) -> bool:
        return self._drop(job)

    def _drop(self, table: str) -> bool:
        found = self.lab.exists(table)
        if found:
            shutil.rmtree(self.lab.path(table))
        return found

    def write_to_target(self, job: str) -> bool:
        if not self.lab.exists(job):
            return False
        columns = {"customers": "email", "offers": "price", "homes": "cities", "lookup": "id"}
        column = columns.get(job, "amount")
        how = [
            f"DELETE FROM {{}} WHERE {column} IS NOT NULL",
            f"UPDATE {{}} SET {column} = NULL WHERE {column} IS NOT NULL",
            "INSERT INTO {} SELECT * FROM {}",
        ]
        return self.sql(self.random.choice(how), job)

    def vacuum_target(self, job: str) -> bool:
        tables = [table for table in (job, f"{job}__quarantine") if self.lab.exists(table)]
        with hold_settings(self.lab.spark, VACUUM_AT_ONCE):
            for table in tables:
                self.lab.spark.sql(f"VACUUM delta.`{self.lab.path(table)}` RETAIN 0 HOURS")
        return bool(tables)

    def expire_target(self, job: str) -> bool:
        tables = [table for table in (job, f"{job}__quarantine") if self.lab.exists(table)]
        return bool(tables) and self._expire(self.random.choice(tables))

    def restore_quarantine(self, job: str) -> bool:
        return self._restore(f"{job}__quarantine")

    def drop_quarantine(self, job: str) -> bool:
        return self._drop(f"{job}__quarantine")

    def lose_state(self, _: str) -> bool:
        state = self.lab.home / "lake" / "_enrich"
        found = state.exists()
        if found:
            shutil.rmtree(state)
        return found

    def old_state(self, _: str) -> bool:
        """Put the state directory back as it was at the last backup, and take another one."""
        state, backup, fresh = self.lab.home / "lake" / "_enrich", self.lab.home / "backup", self.lab.home / "fresh"
        if not state.exists():
            return False
        shutil.copytree(state, fresh)
        found = backup.exists()
        if found:
            shutil.rmtree(state)
            shutil.move(backup, state)
        shutil.move(fresh, backup)
        return found

    def refresh(self, job: str) -> bool:
        self.settle(self.run(job, full_refresh=True))
        return True

    # --- what every run must come to

    def die(self, job: str) -> bool:
        """Let a run end between the quarantine's commit and the target's; more changes come before the next one."""
        with suppress(Crash), hooked(crash_on("target.before")):
            self.lab.run(job)
        self.shop.change(job)
        return True

    def run(self, job: str, *, full_refresh: bool = False, since: str | None = None) -> JobResult:
        """Run a job, and count it."""
        result = self.lab.run(job, full_refresh=full_refresh, since=since)
        self.runs[f"{result.mode} {result.status}"] += 1
        self.trail.append(f"run {job} {since or ''}: {result.mode} {result.status} {result.error or ''}")
        return result

    def settle(self, result: JobResult) -> None:
        """Follow a refusal's own advice until the job succeeds, then compare; once more has nothing to do."""
        job = result.job
        for _ in range(4):
            if not result.exit_code:
                break
            result = self.advised(result)
        assert result.exit_code == 0, result.error
        self.shop.assert_current(job)
        again = self.lab.run(job)
        assert (again.status, again.exit_code) == ("unchanged", 0), again.error

    def advised(self, refused: JobResult | Check) -> JobResult:
        """Do what a refusal says, by one of the ways that it names, and run again."""
        self.refusals[f"exit {refused.exit_code}"] += 1
        job, advice = refused.job, str(refused.error)
        assert refused.exit_code in (2, 5, 6), advice
        found = ADVICE.findall(advice)
        statements = [each for each in found if each.startswith("ALTER")]
        for statement in statements:
            self.lab.spark.sql(statement)
        commands = {
            f"`enrich run {job} --full-refresh`": self.refreshed,
            f"`enrich verify {job} --repair`": self.mended,
        }
        assert statements or found, advice
        assert all(each in commands for each in found if each not in statements), advice
        if statements:
            return self.run(job)
        return commands[self.random.choice(found)](job)

    def refreshed(self, job: str) -> JobResult:
        return self.run(job, full_refresh=True)

    def mended(self, job: str) -> JobResult:
        """Repair the target; where that is refused, its own advice is next."""
        (check,) = enrich.verify(enrich.load_project(self.lab.home), [job], repair=True, spark=self.lab.spark).jobs
        self.trail.append(f"verify --repair {job}: {check.status} {check.error or ''}")
        self.runs[f"verify --repair {check.status}"] += 1
        return self.advised(check) if check.exit_code else self.run(job)


@contextmanager
def told_when_it_fails(administrator: Administrator) -> Iterator[None]:
    """Say what led to a failure."""
    try:
        yield
    except BaseException:
        print("\n".join(["what led to it:", *administrator.trail[-40:]]))  # noqa: T201 - pytest shows it
        raise


@pytest.mark.parametrize("part", range(PARTS))
def test_random_administrators(lab: Lab, pytestconfig: pytest.Config, seed: int, part: int) -> None:
    chosen = seed + part
    shop = open_shop(lab, *TIMELESS, seed=chosen)
    lab.run_all()
    for job in HOLDING:
        shop.change(job)
        lab.run(job)  # else its quarantine has nothing yet to be restored to
    administrator = Administrator(shop, random.Random(chosen))
    wanted = {action.__name__ for harsh in (True, False) for action in administrator.kinds(harsh=harsh)}
    names: list[str] = []
    number = 0
    with told_when_it_fails(administrator):
        while number * ROUND < ACTIONS or (wanted - set(administrator.done) and number * ROUND < 3 * ACTIONS):
            if not names:
                names = administrator.random.sample(TIMELESS, len(TIMELESS))
            job = names.pop()
            # First `checked` and others, then the rest: what is done to a quarantine can only be done there.
            harsh = 0 if (number // len(TIMELESS) + TIMELESS.index(job)) % 2 else HARSH
            turns = [True] * harsh + [False] * (ROUND - harsh)
            administrator.random.shuffle(turns)
            for turn in turns:
                administrator.act(job, harsh=turn)
            since = administrator.random.choice((None, None, "beginning"))
            administrator.settle(administrator.run(job, since=since))
            number += 1
    done = Counter({name: n for name, n in administrator.done.items() if "refused" not in name})
    counted = pytestconfig.stash[COUNTED]
    name = f"administrators, part {part}"
    counted[name] = f"seed {chosen}, {sum(done.values())} actions: {_told(administrator.done)}"
    counted[f"{name}: runs"] = _told(administrator.runs)
    counted[f"{name}: refusals"] = _told(administrator.refusals)
    assert sum(done.values()) >= ACTIONS
    assert set(done) == wanted
    assert done["change"] >= ACTIONS // 10
    assert administrator.refusals.total() >= ACTIONS // 60
