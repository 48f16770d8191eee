"""What must not matter: a rebuild, how a history is cut into runs, which way a run takes, whether its state is lost.

`make test` and the soak ask the same: here are the questions, there how often and over how many histories.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from deltalake import DeltaTable

import enrich
from differential import reader
from differential.comparison import Tally, Target
from differential.engines import enrich_engine
from differential.generator import History, make_histories, make_shared
from differential.spec import Table, World
from differential.trial import Script, Trial
from enrich.delta.sink import hold_settings
from kit.session import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def compare_smaller_cuts(first: Trial, whole: Trial) -> tuple[Tally, list[str]]:
    """Go on after a first run in smaller windows than ``whole`` did; return what was played, and what differs.

    What ``whole`` took in one run, ``first`` takes in two, and loses its state directory in between.
    """
    first.script = Script([_in_smaller_windows(each) for each in first.histories])
    first.histories = list(first.script.histories)
    for window in range(1, first.script.windows):
        changed = first.write(window)
        if window == first.script.windows - 1:
            shutil.rmtree(first.base / "lake" / "_enrich")
        first.run(window, changed)
    faults = [str(failure) for failure in first.failures[:1]]
    assert all(first.writers[name].rows == whole.writers[name].rows for name in whole.writers)
    for shape in whole.world.shapes:
        rows = [_count_rows(whole.targets[shape.name], trial.base / "lake" / shape.name) for trial in (first, whole)]
        if rows[0] != rows[1]:
            faults.append(f"smaller windows give other rows: {shape.name}")
    return first.tally, faults


def _in_smaller_windows(history: History) -> History:
    """Return the history with the first commit after the first run in a window of its own."""
    begun, rest = history.windows
    return History((begun, rest[:1], rest[1:]))


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


def compare_query(trial: Trial, name: str, spark: SparkSession) -> list[str] | None:
    """Return what differs between a job and itself as a query; None where SQL has no words for it.

    Spark's answer to the query is what target and quarantine contain, and the job written as this query has the same
    definition: there is nothing to do. Keys that are brought into one form are not compared: Spark does not do that.
    """
    project = enrich.load_project(trial.base)
    job, lake, faults = project.jobs[name], trial.base / "lake", []
    if any(source.normalise for source in job.sources.values()):
        return None
    try:
        text = enrich.sql(project, name)
    except enrich.ConfigError:
        return None
    session = spark.newSession()
    for alias, source in job.sources.items():
        rows = session.read.format("delta").load(str(lake / source.table))
        rows.createOrReplaceTempView("table_of_source")
        session.sql(declare(trial.world.table(source.table))).createOrReplaceTempView(alias)
    target = trial.targets[name]
    answer = Counter(map(target.canonical, session.sql(text).toArrow().to_pylist()))
    quarantine = lake / f"{job.target.table}__quarantine"
    held = reader.rows(quarantine) if reader.exists(quarantine) else []
    found = [
        *reader.rows(lake / job.target.table),
        *(row for row in held if not {"key_not_null", "key_unique"} & {*row["_failed"]}),
    ]
    there = Counter(map(target.canonical, found))
    if answer != there:
        missing, surplus = (answer - there).total(), (there - answer).total()
        faults.append(f"{name}: {missing} rows of the query are missing, {surplus} are too many")
    file = trial.base / "jobs" / f"{name}.yml"
    written = yaml.safe_load(before := file.read_text())
    if "select" in written:
        parts = {key: value for key, value in written.items() if key not in ("from", "join", "select", "where")}
        file.write_text(yaml.safe_dump({**parts, "query": text}))
        status = enrich.run(enrich.load_project(trial.base), [name], spark=spark).jobs[0]
        file.write_text(before)
        if status.status != "unchanged":
            faults.append(f"{name} as a query is {status.status}: {status.error}")
    return faults
