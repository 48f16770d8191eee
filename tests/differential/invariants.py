"""What must not matter: a rebuild, how a history is cut into runs, which way a run takes, whether its state is lost.

`make test` and the soak ask the same: here are the questions, there how often and over how many histories.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from deltalake import DeltaTable

import enrich
from differential import reader
from differential.comparison import Tally, Target
from differential.engines import enrich_engine
from differential.generator import History, make_histories, make_shared
from differential.project import write_job
from differential.spec import Table, World
from differential.texts import Text
from differential.trial import Engine, Script, Trial
from enrich.delta.sink import hold_settings
from enrich.operations.workplace import Workplace
from enrich.project.querynames import list_sources
from kit.session import INTERPRETED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

WINDOWS = 3


def refresh_one(trial: Trial, spark: SparkSession, seed: int) -> list[str]:
    """Rebuild the target of one job that was played, another one with every seed; return what that has changed."""
    shape = random.Random(seed).choice(trial.world.shapes).name
    with hold_settings(spark, INTERPRETED):
        (report,) = enrich_engine(spark, full_refresh=True)(trial.base, [shape])["jobs"]
    found = (report["error"], report["mode"], report["status"])
    return [] if found == (None, "full_refresh", "unchanged") else [f"a full refresh of {shape}: {found}"]


def recut_history(trial: Trial, spark: SparkSession, seed: int) -> list[str]:
    """Compute a history of the same commits again, cut into other runs; return what differs.

    In between, its target is restored to its first version, and changes are taken again.
    """
    rng = random.Random(f"cuts/{seed}")
    shapes = [shape for shape in trial.world.shapes if shape.past is not None]
    if not shapes:
        return []
    shape = rng.choice(shapes)
    lake, again = trial.base / "lake", f"{shape.name}_again"
    job = yaml.safe_load((trial.base / "jobs" / f"{shape.name}.yml").read_text(encoding="utf-8"))
    job |= {"job": again, "target": {"table": again}}
    (trial.base / "jobs" / f"{again}.yml").write_text(yaml.safe_dump(job), encoding="utf-8")
    last = reader.version(lake / shape.source)
    cuts = sorted(rng.sample(range(last), min(2, last)))
    steps: list[dict[str, Any]] = [*[{"until": f"v{cut}"} for cut in cuts], {}, {"since": f"v{cuts[0]}"}]
    with hold_settings(spark, INTERPRETED):
        reports = []
        for number, options in enumerate(steps):
            if number == len(cuts):
                DeltaTable(str(lake / again)).restore(0)
            reports += enrich_engine(spark, **options)(trial.base, [again])["jobs"]
    (trial.base / "jobs" / f"{again}.yml").unlink()
    told = [(report["error"], report["mode"]) for report in reports if report["error"] is not None]
    faults = [f"{again}, cut at {cuts}: {each}" for each in told]
    if reports[-1]["status"] != "unchanged":
        faults.append(f"{again}, cut at {cuts}: taking changes again has changed something")
    for suffix in ("", "__quarantine"):
        target = trial.targets[shape.name]
        pair = [_count_rows(target, lake / f"{name}{suffix}") for name in (shape.name, again)]
        if pair[0] != pair[1]:
            faults.append(f"{shape.name}{suffix}, cut at {cuts} instead, has other rows: {(pair[0] - pair[1])!r:.300}")
    return faults


def _count_rows(target: Target, path: Path) -> Counter[Any]:
    """Count the rows of a target or of its quarantine, in the form in which -0.0 is 0.0."""
    rows = reader.rows(path) if reader.exists(path) else []
    return Counter((target.canonical(row), tuple(row.get("_failed") or ())) for row in rows)


def compare_cuts(base: Path, world: World, histories: int, seed: int, spark: SparkSession) -> tuple[Tally, list[str]]:
    """Play the same histories in many windows and in one; return what was played in many, and what differs.

    The first run is the same for both. The many lose their state directory before the last one; the one run after the
    first goes the other ways.
    """
    script = Script(list(make_histories(world, histories, WINDOWS, seed)), make_shared(world, WINDOWS, seed))
    shared = None if script.shared is None else _in_one_window(script.shared)
    short = Script([_in_one_window(each) for each in script.histories], shared)
    many = Trial(base / "many", world, script, enrich_engine(spark), seed=seed)
    many.run(0, many.write(0))
    one = many.fork(base / "one")
    one.script, one.histories, one.engine = short, list(short.histories), enrich_engine(spark, other_ways=True)
    for window in range(1, WINDOWS):
        changed = many.write(window)
        if window == WINDOWS - 1:
            shutil.rmtree(many.base / "lake" / "_enrich")
        many.run(window, changed)
    one.run(1, one.write(1))
    faults = [str(failure) for trial in (many, one) for failure in trial.failures[:1]]
    assert all(many.writers[name].rows == one.writers[name].rows for name in many.writers)
    for shape in world.shapes:
        rows = [_count_rows(many.targets[shape.name], trial.base / "lake" / shape.name) for trial in (many, one)]
        if rows[0] != rows[1]:
            faults.append(f"one window gives other rows than many: {shape.tree}")
    return many.tally, faults


def compare_smaller_cuts(first: Trial, whole: Trial, by_table: Engine) -> tuple[Tally, list[str]]:
    """Go on after a first run in smaller windows than ``whole`` did; return what was played, and what differs.

    What ``whole`` took in one run, ``first`` takes in several: a commit, then all others table by table with the engine
    ``by_table``. Before the last one it loses its state directory.
    """
    names = list(first.writers)
    first.script = Script([cut_by_table(each, names) for each in first.histories])
    first.histories = list(first.script.histories)
    for window in range(1, first.script.windows):
        changed = first.write(window)
        if window == first.script.windows - 1:
            shutil.rmtree(first.base / "lake" / "_enrich")
        first.run(window, changed)
        first.engine = by_table
    faults = [str(failure) for failure in first.failures[:1]]
    assert all(first.writers[name].rows == whole.writers[name].rows for name in whole.writers)
    for shape in first.world.shapes:
        rows = [_count_rows(whole.targets[shape.name], trial.base / "lake" / shape.name) for trial in (first, whole)]
        if rows[0] != rows[1]:
            faults.append(f"smaller windows give other rows: {shape.name}")
    return first.tally, faults


def cut_by_table(history: History, names: Iterable[str]) -> History:
    """Return a history of two windows with the first commit after its first run in one, the rest in one a table."""
    begun, rest = history.windows
    return History((begun, rest[:1], *[[[op for op in each if op[0] == name] for each in rest[1:]] for name in names]))


def _in_one_window(history: History) -> History:
    """Return the history with everything that follows the first run in one window."""
    return History((history.windows[0], [commit for window in history.windows[1:] for commit in window]))


def declare(table: Table) -> str:
    """Return the rows of a source as it is declared, in Spark's SQL over ``table_of_source``."""
    keys = ", ".join(f"`{key}`" for key in table.key)
    whole = " AND ".join(f"`{key}` IS NOT NULL" for key in table.key)
    names = ", ".join(f"`{column.name}`" for column in table.all_columns)
    order = [f"`{name}` DESC NULLS LAST" for name in (*table.order, *(each.name for each in table.all_columns))]
    place = f"row_number() OVER (PARTITION BY {keys} ORDER BY {', '.join(order)})" if table.order else "1"
    place = f"count(*) OVER (PARTITION BY {keys})" if table.holds else place
    is_there = "true" if table.gone is None else f"`{table.gone[0]}` IS DISTINCT FROM '{table.gone[1]}'"
    ranked = f"SELECT *, {place} AS n_ FROM table_of_source WHERE {whole}"
    return f"SELECT {names} FROM ({ranked}) WHERE n_ = 1 AND {is_there}"


def open_answers(spark: SparkSession) -> SparkSession:
    """Return a session for queries beside the engine's, with views of its own and plans that are interpreted."""
    session = spark.newSession()
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
    return session


def compare_queries(trial: Trial, result: Mapping[str, Any], answers: SparkSession) -> list[str]:
    """Return what differs between the jobs that are queries now and Spark's answers to their texts.

    The answers are over the sources as declared, at the versions that the run has pinned; what target and quarantine
    contain is compared. ``answers`` is a session as ``open_answers`` gives it.
    """
    reports, faults = {report["job"]: report for report in result["jobs"]}, []
    shown = _Shown(answers)
    for name, text in trial.texts.items():
        places = {trial.shape(name).aliases()[alias]: alias for alias in text.sources.values()}
        read = {table: reader.version(trial.base / "lake" / table) for table in places}
        pinned = {table: reports[name]["sources"][alias]["to"] for table, alias in places.items()}
        assert read == pinned, f"{name}: {read} are no longer the pinned versions {pinned}"
        _show_tables(trial, {alias: trial.shape(name).aliases()[each] for alias, each in text.sources.items()}, shown)
        faults += _compare_answer(trial, name, text.query, answers)
        trial.tally.query_runs += len(trial.histories)
    return faults


@dataclass
class _Shown:
    """The rows of tables as they are declared, each table read once."""

    answers: SparkSession
    rows: dict[str, DataFrame] = field(default_factory=dict)


def _show_tables(trial: Trial, tables: Mapping[str, str], shown: _Shown) -> None:
    """Let queries find the rows of tables as they are declared; ``tables`` has alias -> table."""
    for alias, table in tables.items():
        if table not in shown.rows:
            rows = shown.answers.read.format("delta").load(str(trial.base / "lake" / table))
            rows.createOrReplaceTempView("table_of_source")
            shown.rows[table] = shown.answers.sql(declare(trial.world.table(table)))
        shown.rows[table].createOrReplaceTempView(alias)


def _compare_answer(trial: Trial, name: str, text: str, answers: SparkSession) -> list[str]:
    """Return how the rows of a job differ from those of a query."""
    target, lake = trial.targets[name], trial.base / "lake"
    answer = Counter(map(target.canonical, answers.sql(text).toArrow().to_pylist()))
    quarantine = lake / f"{name}__quarantine"
    held = reader.rows(quarantine) if reader.exists(quarantine) else []
    found = [
        *reader.rows(lake / name),
        *(row for row in held if not {"key_not_null", "key_unique"} & {*row["_failed"]}),
    ]
    there = Counter(map(target.canonical, found))
    if answer == there:
        return []
    missing, surplus = (answer - there).total(), (there - answer).total()
    return [f"{name}: {missing} rows of the query are missing, {surplus} are too many: {text}"]


def compare_printed(trial: Trial, answers: SparkSession) -> dict[str, list[str]]:
    """Return for each job that ``enrich sql`` prints what is wrong with it.

    Spark's answer to the printed query is what the job has made, and the job written as this query is the same job.
    """
    project, before = enrich.load_project(trial.base), define_jobs(trial.base)
    shown, found = _Shown(answers), dict[str, list[str]]()
    for name, job in project.jobs.items():
        try:
            text = enrich.sql(project, name)
        except enrich.ConfigError:
            continue
        _show_tables(trial, {each: job.sources[alias].table for alias, each in list_sources(job).items()}, shown)
        found[name] = _compare_answer(trial, name, text, answers)
        if name in trial.texts and trial.texts[name].is_same:
            printed = Text(text, {source: alias for alias, source in list_sources(job).items()}, is_same=True)
            write_job(trial.base, trial.world, trial.shape(name), printed)
    others = {name for name, meaning in define_jobs(trial.base).items() if meaning != before[name]}
    return {
        name: [*faults, *["it is another job as it is printed"] * (name in others)] for name, faults in found.items()
    }


def define_jobs(base: Path) -> dict[str, Any]:
    """Return what each job of a project means, as its definition's hash has it; no JVM."""
    project = enrich.load_project(base)
    opened = Workplace(project, [*project.jobs], run_id="")
    return {name: opened.open_job(job).compiled.meaning for name, job in project.jobs.items()}
