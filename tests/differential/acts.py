"""What administrators do between two commits: to sources, whose rows stay or come back, to targets, and to runs.

==============  =======================================================================================
partition       a source is overwritten with other partition columns, or with none: the same rows
repartition     the same, in the commit in which rows change
restore         a source goes back some versions, or to what a run has seen (``@0``); the next write undoes it
gain            a column is added; the rows that are there have null in it
field           a struct gains a field: null in the rows that are there
varchar         a CHAR column becomes VARCHAR: Spark no longer fills it with blanks
unfed           the change feed is off for a commit
compact         OPTIMIZE
checkpoint      a checkpoint
hole, empty     a commit of the window is lost, or its file is empty, behind a checkpoint
expire, vacuum  old commits, or the files that no longer belong to the table, are removed
die             a run ends between the quarantine's commit and the target's
since           the next run takes older commits once more, or those since a run (``@0``)
rewind          a target is restored to an earlier version
foresee         a target gains the column that a source will gain later, with a DEFAULT
retain          a target forgets the numbers of its transactions after a second
==============  =======================================================================================

They are planned as alterations. Their table is a source's or a target's, or a job's for ``die``; ``since`` has none.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from differential import reader
from differential.alterations import Alteration, altered, plan_alterations
from differential.columns import Column
from differential.spec import CHAR, Shape, Table, World, not_null, target_types
from faults.stops import Crash, crash_on, hooked

if TYPE_CHECKING:
    from differential.trial import Trial
    from differential.writer import SourceWriter

LATE = 9
"""A slot behind all commits of a window."""
GAPS = ("hole", "empty", "expire", "vacuum")
"""What may leave a range of a source unreadable, so that a run asks for a full refresh."""
SILENT = ("varchar", "field", *GAPS)
"""What lets a job refuse, with a command that leads on."""
RESHAPING = ("field", "varchar")
"""What changes values without a commit of rows; what a run counts then is not asked."""
_ADVICE = re.compile(r"`enrich (run [^` ]+ --full-refresh|verify [^` ]+ --repair)`")
_PARTITIONABLE = ("int", "bool", "long", "code", "order", "day")
_WEIGHTS = {
    "partition": 5,
    "repartition": 6,
    "twice": 4,
    "restore": 4,
    "gain": 2,
    "field": 2,
    "varchar": 3,
    "unfed": 5,
    "compact": 1,
    "checkpoint": 1,
}
_PADDING = 12


def administered(world: World, seed: int, *, jobs: int | None = None, mapped: bool = False) -> World:
    """Return a world for administrators: jobs with a rule each, tables with column mapping or with a CHAR column.

    Args:
        world: Any world.
        seed: Decides what is chosen.
        jobs: How many jobs are kept; with them the jobs that they read.
        mapped: Columns can be renamed and dropped.
    """
    from differential.worlds import needed

    rng = random.Random(f"administered/{seed}/{world.name}")
    if jobs is not None and len(world.shapes) > jobs:
        names = {s.name for each in rng.sample(world.shapes, jobs) for s in needed(world, each.name).shapes}
        world = world.only(*names)
    world = replace(world, shapes=tuple(_guarded(world, shape, rng) for shape in world.shapes))
    told = list_told(world)
    if mapped:
        return replace(world, tables=tuple(replace(t, is_mapped=t.name not in told) for t in world.tables))
    open_to = [t for t in world.tables if t.name not in told and any(c.kind == "text" for c in t.columns)]
    if not open_to or rng.random() < 0.3:
        return world
    table = rng.choice(open_to)
    name = rng.choice([column.name for column in table.columns if column.kind == "text"])
    return world.having(replace(table, chars=((name, _PADDING),)))


def list_told(world: World) -> frozenset[str]:
    """Return the sources of histories: every commit of them counts."""
    return frozenset(shape.source for shape in world.shapes if shape.past is not None)


def _guarded(world: World, shape: Shape, rng: random.Random) -> Shape:
    """Give a job a rule that holds rows back, where it has none."""
    names = [name for name in target_types(world, shape) if name not in (*shape.key, *shape.right_key)]
    if shape.rules or not names or rng.random() < 0.2:
        return shape
    return replace(shape, rules=(not_null(rng.choice(names)),))


def plan_acts(world: World, windows: int, seed: int) -> list[Alteration]:
    """Return what administrators do in all windows."""
    rng = random.Random(f"acts/{seed}/{world.name}")
    plan = _Plan(world, rng)
    if any(table.is_mapped for table in world.tables):
        plan.found += plan_alterations(world, windows, seed)
    for window in range(windows):
        for table in world.tables if window else ():
            if rng.random() < 0.6:
                plan.alter(window, table)
        if window and rng.random() < 0.25:
            plan.lose(window)
        if rng.random() < (0.6 if window else 0.2):
            plan.kill(window)
        if window and rng.random() < 0.5:
            plan.found.append(Alteration(window, LATE, "", "since", ""))
        if window and rng.random() < 0.5:
            plan.meddle(window)
        if window > 1 and rng.random() < 0.5:
            plan.repeat(window)
    return plan.found


@dataclass
class _Plan:
    """What is planned so far."""

    world: World
    rng: random.Random

    def __post_init__(self) -> None:
        self.found: list[Alteration] = []
        self.told = list_told(self.world)
        self.changed = {column for table in self.world.tables for column, _ in table.chars}

    def add(self, window: int, slot: int, table: str, action: str, column: str = "") -> None:
        """Plan an act."""
        self.found.append(Alteration(window, slot, table, action, column))

    def alter(self, window: int, table: Table) -> None:
        """Plan something that a source's rows outlast."""
        rng, slot = self.rng, self.rng.choice((0, 0, 1, 2))
        parts = [column.name for column in table.columns if column.kind in _PARTITIONABLE]
        structs = [column.name for column in table.columns if column.kind in ("struct", "ref")]
        action = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        if table.chars and rng.random() < 0.5:
            action = "varchar"
        elif structs and rng.random() < 0.2:
            action = "field"
        columns = ",".join(rng.sample(parts, min(len(parts), rng.choice((0, 1, 1, 2)))))
        is_plain = not table.is_mapped and table.name not in self.told
        can = {
            "partition": bool(parts) and not table.is_mapped and not table.chars,
            "restore": not table.is_mapped,
            "gain": is_plain and not _is_full(self.world, table),
            "field": is_plain and bool(structs),
            "varchar": is_plain and bool(table.chars) and (table.name, action) not in self._done(),
            "unfed": table.name not in self.told,
        }
        can |= {"repartition": can["partition"], "twice": can["partition"], "compact": not table.is_mapped}
        if not can.get(action, True):
            return
        details = {
            "restore": str(rng.choice((1, 2, 3, 5))),
            "gain": f"gained{window}",
            "field": rng.choice([*structs, ""]),
        }
        if action == "twice":
            self.add(window, slot, table.name, "partition", columns)
            self.add(window, slot + 1, table.name, "repartition", rng.choice(("", rng.choice(parts))))
            return
        self.add(window, slot, table.name, action, details.get(action, columns))

    def _done(self) -> set[tuple[str, str]]:
        return {(each.table, each.action) for each in self.found}

    def lose(self, window: int) -> None:
        """Plan that a part of a source's past goes."""
        tables = [table.name for table in self.world.tables if not table.is_mapped and table.name not in self.told]
        action = self.rng.choice((*GAPS[:2], *GAPS))
        if tables:
            slot = LATE if action in ("hole", "empty") else self.rng.choice((0, LATE))
            self.add(window, slot, self.rng.choice(tables), action)

    def kill(self, window: int) -> None:
        """Plan that a run dies, in the middle of a window: of the jobs that hold rows back, a few."""
        held = [shape.name for shape in self.world.shapes if shape.rules]
        slot = self.rng.choice((1, 1, 2))
        for name in self.rng.sample(held, min(len(held), 3)):
            self.add(window, slot, name, "die")
        if held and window and self.rng.random() < 0.7:
            self.add(window, LATE, "", "since")

    def repeat(self, window: int) -> None:
        """Plan that a run which dies sees a source as the run before the last one did, and that no feed tells."""
        pairs = [(s.name, table) for s in self.world.shapes if s.rules for table in s.aliases().values()]
        open_to = {t.name for t in self.world.tables if not t.is_mapped and t.name not in self.told}
        pairs = [(job, table) for job, table in pairs if table in open_to]
        if pairs:
            job, table = self.rng.choice(pairs)
            before = f"@{window - 2}"
            self.add(window - 1, 0, table, "unfed")
            self.add(window, 0, table, "restore", before)
            self.add(window, 0, job, "die")
            self.add(window, LATE, "", "since", before)

    def meddle(self, window: int) -> None:
        """Plan something that is done to a target."""
        shape = self.rng.choice(self.world.shapes)
        action = self.rng.choice(("rewind", "rewind", "foresee", "retain"))
        self.add(
            window, 0, shape.name, action, f"gained{window}" if action == "foresee" else str(self.rng.randint(1, 4))
        )


def _is_full(world: World, table: Table) -> bool:
    """Tell whether lists show all columns of a table, so that a new one changes the type of a target's column."""
    return any(join.kind == "list" and join.table == table.name for s in world.shapes for join in s.joins.values())


# --- sources


def play_on_source(writer: SourceWriter, act: Alteration) -> bool:
    """Do something to a source; return whether it is an act of this module that could be done."""
    found: Callable[[SourceWriter, str], object] | None = _SOURCE_ACTS.get(act.action)
    if found is None or (writer.table.is_mapped and act.action == "gain"):
        return False
    if not writer.is_widened:  # delta-rs can do nothing with it
        found(writer, act.column)
        writer.remember()
    return True


def _partition(writer: SourceWriter, columns: str) -> None:
    _repartition(writer, columns)
    writer.lay_out()


def _repartition(writer: SourceWriter, columns: str) -> None:
    writer.layout = [column for column in columns.split(",") if column]


def _restore(writer: SourceWriter, steps: str) -> None:
    version = writer.runs[int(steps[1:])] if steps.startswith("@") else writer.version - int(steps)
    version = max(writer.floor, version)
    if version == writer.version:
        return
    rows = writer.past[max(each for each in writer.past if each <= version)]
    table = DeltaTable(writer.path)
    table.restore(version)
    writer.is_unfed = table.metadata().configuration["delta.enableChangeDataFeed"] == "false"
    writer.believed = writer.believed if writer.believed is not None else dict(writer.rows)
    writer.rows = {row["rid"]: row for row in rows}


def _gain(writer: SourceWriter, column: str) -> None:
    DeltaTable(writer.path).alter.add_columns([Field(column, PrimitiveType("string"), nullable=True)])
    act = Alteration(0, 0, writer.table.name, "gain", column)
    writer.reshape(altered(writer.table, act), lambda row: {**row, column: None})


def _field(writer: SourceWriter, column: str) -> None:
    if column in writer.widened or not column:
        return
    writer.widened.add(column)
    columns = tuple(_Wider(**vars(each)) if each.name == column else each for each in writer.table.columns)
    writer.reshape(replace(writer.table, columns=columns), lambda row: {**row, column: _with_field(row[column])})
    write_deltalake(writer.path, writer.table.schema.empty_table(), mode="append", schema_mode="merge")


@dataclass(frozen=True)
class _Wider(Column):
    """A struct that has gained a field."""

    @property
    def type(self) -> pa.DataType:
        narrow = Column(self.name, self.kind).type
        return pa.struct([*narrow, pa.field("more", pa.string())])


def _with_field(cell: Any) -> Any:
    return None if cell is None else {**cell, "more": cell.get("more")}


def _varchar(writer: SourceWriter, _: str) -> None:
    for name, _length in writer.table.chars:
        DeltaTable(writer.path).alter.set_column_metadata(name, {CHAR: "varchar(40)"})
    writer.reshape(replace(writer.table, chars=()), lambda row: row)


def _unfeed(writer: SourceWriter, _: str) -> None:
    writer.feed(on=False)


def _compact(writer: SourceWriter, _: str) -> None:
    DeltaTable(writer.path).optimize.compact()


def _checkpoint(writer: SourceWriter, _: str) -> None:
    DeltaTable(writer.path).create_checkpoint()


def _lose_commit(writer: SourceWriter, *, empty: bool) -> None:
    """Let a commit between the last run and the latest version be gone."""
    files = [
        Path(writer.path) / "_delta_log" / f"{number:020d}.json"
        for number in range(writer.runs[-1] + 1, writer.version)
    ]
    if files:
        DeltaTable(writer.path).create_checkpoint()
        file = writer.rng.choice(files)
        file.write_bytes(b"") if empty else file.unlink()
        writer.begin = writer.floor = writer.version


def _expire(writer: SourceWriter, _: str) -> None:
    DeltaTable(writer.path).create_checkpoint()
    for file in (Path(writer.path) / "_delta_log").glob("*.json"):
        if file.stem.isdigit() and int(file.stem) < writer.version:
            file.unlink()
    writer.begin = writer.floor = writer.version


def _vacuum(writer: SourceWriter, _: str) -> None:
    DeltaTable(writer.path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    writer.floor = writer.version


_SOURCE_ACTS: dict[str, Callable[[SourceWriter, str], object]] = {
    "partition": _partition,
    "repartition": _repartition,
    "restore": _restore,
    "gain": _gain,
    "field": _field,
    "varchar": _varchar,
    "unfed": _unfeed,
    "compact": _compact,
    "checkpoint": _checkpoint,
    "hole": lambda writer, _: _lose_commit(writer, empty=False),
    "empty": lambda writer, _: _lose_commit(writer, empty=True),
    "expire": _expire,
    "vacuum": _vacuum,
}


# --- runs and targets


def play_on_job(trial: Trial, act: Alteration) -> None:
    """Do something to a job's target, or let a run of it die."""
    target, path = trial.targets[act.table], trial.base / "lake" / act.table
    target.is_reshaped = True  # the run's counts are of what others have done as well
    if act.action == "die":
        with suppress(Crash), hooked(crash_on("target.before")):
            trial.engine(trial.base, [act.table])
    elif reader.exists(path):
        _TARGET_ACTS[act.action](path, act.column)


def _sql(path: Path, *statements: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    for statement in statements:
        spark.sql(statement.replace("{}", f"delta.`{path}`"))


def _rewind(path: Path, steps: str) -> None:
    latest = DeltaTable(str(path)).version()
    if latest:
        _sql(path, f"RESTORE TABLE {{}} TO VERSION AS OF {max(0, latest - int(steps))}")


def _foresee(path: Path, column: str) -> None:
    if column not in {field.name for field in DeltaTable(str(path)).schema().fields}:
        _sql(
            path,
            "ALTER TABLE {} SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
            f"ALTER TABLE {{}} ADD COLUMNS ({column} STRING)",
            f"ALTER TABLE {{}} ALTER COLUMN {column} SET DEFAULT 'foreign'",
        )


def _retain(path: Path, _: str) -> None:
    _sql(path, "ALTER TABLE {} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 seconds')")


_TARGET_ACTS: dict[str, Callable[[Path, str], None]] = {"rewind": _rewind, "foresee": _foresee, "retain": _retain}


ACTS = frozenset({*_SOURCE_ACTS, *_TARGET_ACTS, "die", "since"})
"""All acts of this module."""


def choose_since(trial: Trial, window: int) -> list[str]:
    """Return what ``--since`` says of every source: a version that the targets contain; nothing where none is known."""
    acts = {each.action: each.column for each in trial.script.alterations if each.window == window}
    lost = any(writer.begin for writer in trial.writers.values())
    if "since" not in acts or ("rewind" in acts and lost):
        return []
    found: dict[str, int] = {}
    for shape in trial.world.shapes:
        for alias, table in shape.aliases().items():
            version = 0
            if table in trial.writers and "rewind" not in acts:
                writer = trial.writers[table]
                last = writer.runs[int(acts["since"][1:]) if acts["since"] else -1]
                version = last if acts["since"] else trial.rng.randint(min(writer.begin, last), last)
                version = max(version, min(writer.begin, writer.runs[-1]))
            found[alias] = min(version, found.get(alias, version))
    return [f"{alias}=v{version}" for alias, version in found.items()]


def follow_advice(trial: Trial, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Do what refusals say, where an act of the script allows to refuse; return the result of all jobs.

    A refusal that no act explains stays, and fails the job.
    """
    reports: dict[str, Any] = {report["job"]: report for report in result["jobs"]}
    if not any(each.action in SILENT for each in trial.script.alterations):
        return result
    for _ in range(len(reports)):
        told = {name: _ADVICE.search(report["error"] or "") for name, report in reports.items()}
        refused = [name for name, advice in told.items() if advice is not None]
        if not refused:
            break
        trial.refusals.update(_shortened(reports[name]["error"]) for name in refused)
        for name in refused:
            trial.targets[name].is_reshaped = True
        skipped = [name for name, report in reports.items() if report["status"] == "skipped"]
        for names, options in ((refused, {"full_refresh": True}), (skipped, {})):
            if names:
                reports |= {each["job"]: each for each in trial.engine(trial.base, names, **options)["jobs"]}
    return {"jobs": list(reports.values())}


def _shortened(error: str) -> str:
    return re.sub(r"'[^']*'|\d+|`[^`]*`", "..", error)[:120]
