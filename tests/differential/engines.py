"""What can be put under test: enrich itself, and a stand-in (a rebuild in DuckDB) that proves the machinery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from differential import oracle, reader
from differential.clocks import read_times
from differential.compare import canonical_row
from differential.model import identity, judged, keyless, net_change, null_counts
from differential.spec import Shape, World, target_types
from differential.writer import assignments
from enrich.base.spec import SourceSpec
from enrich.delta.sink import hold_settings
from kit.session import forget_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from differential.trial import Engine


PLACED: Counter[str] = Counter()
"""How often what rows of a target were was at hand, and how often all of their columns had to be read."""


def enrich_engine(spark: SparkSession, *, other_ways: bool = False, large: bool = False, **options: Any) -> Engine:
    """Return enrich as an engine; ``options`` go to ``enrich.run``.

    Args:
        spark: The session.
        other_ways: Take the ways that are meant for tables of other sizes: see ``on_other_ways``.
        large: Take every table for a large one, and else the ways that a run chooses.
    """
    import enrich

    runs = count(1)

    def run(base: Path, jobs: Sequence[str], **more: Any) -> Mapping[str, Any]:
        number = next(runs)
        if number % 10 == 0:
            forget_tables(spark)
        ways = on_other_ways(spark, number) if other_ways else on_large_tables() if large else nullcontext()
        with ways:
            return enrich.run(enrich.load_project(base), jobs=list(jobs), spark=spark, **options, **more).to_dict()

    return run


@contextmanager
def on_large_tables() -> Iterator[None]:
    """Let runs take every table for a large one, inside the block, and count what becomes of its old rows."""
    from enrich.delta import extents
    from enrich.frames import difference

    place = difference.place_rows

    def place_counted(*given: Any) -> DataFrame | None:
        found = place(*given)
        PLACED["read" if found is None else "at hand"] += 1
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extents, "SMALL_TABLE", -1)
        patch.setattr(difference, "place_rows", place_counted)
        yield


@contextmanager
def on_other_ways(spark: SparkSession, number: int) -> Iterator[None]:
    """Switch every choice that makes runs cheaper to the other side, inside the block.

    The tables of these tests are so small that runs would never write deletion vectors, shuffle rows for a MERGE, nor
    filter a lookup before it is joined, nor cut the times of a key in pieces, nor shuffle the target for the rows of
    changed keys; what a run knows from the feed, it reads from the tables here; partners are always counted anew; and
    every commit is followed by OPTIMIZE. Adaptive execution is on, as for many rows, and hashes all joins that it can.
    No count is spared, keys are counted one by one, and every commit with rows is one by position, or a MERGE with all
    clauses, in which nulls are compared.

    Some choices exclude others, so that runs take them by turns, by their ``number``. Every second run is one about
    many rows, which looks for each key in the pages of files; the others know no ranges of keys. Of target and
    quarantine, one is written by position, and the other one in the next run; but where a table has other columns than
    its rows, or another commit came in between. And of each four two search no source for two rows with one key (no
    table of these tests has such).
    """
    from enrich.delta import extents, positions, sink
    from enrich.frames import changes, columns, difference
    from enrich.joins import as_of, chain
    from enrich.project import compile as compiler
    from enrich.steps import rows, run

    merge = sink._merge

    def merge_whole(session: SparkSession, uri: str, changed: sink.Changed) -> None:
        every = {letter: changed.operations.get(letter, 0) for letter in "IUD"}
        merge(session, uri, replace(changed, operations=every, has_nulls=True))

    opened, wants = positions.open_table, sink.wants_places

    def is_turn(uri: str) -> bool:
        name, mark, _ = Path(uri).name.partition("__")
        return (len(name) + len(mark) // 2 + number) % 2 == 0

    def open_surely(session: SparkSession, uri: str, version: int | None, changed: sink.Changed) -> Any:
        found = opened(session, uri, version, changed)
        if changed.old is not None:
            assert not isinstance(found, str) or "other columns" in found or "another version" in found, found
        return found

    hashing = {"spark.sql.adaptive.enabled": "true", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    with on_large_tables(), pytest.MonkeyPatch.context() as patch, hold_settings(spark, hashing):
        patch.setattr(positions, "FEW", 0)
        patch.setattr(sink, "touches_rows", bool)
        patch.setattr(sink, "_merge", merge_whole)
        patch.setattr(positions, "open_table", open_surely)
        patch.setattr(sink, "wants_places", lambda table: wants(table) and is_turn(table.uri))
        patch.setattr(extents, "find_need", lambda *_: "always")
        patch.setattr(run, "LARGE_LOOKUP", 0)
        patch.setattr(as_of, "_TOGETHER", 2)
        patch.setattr(as_of, "_FEW", 2)
        patch.setattr(difference, "_SENT", -1)
        patch.setattr(chain, "_keeps_partners", lambda *_: False)
        patch.setattr(chain, "find_known_rows", lambda *_: None)
        patch.setattr(changes, "count_by_key", _count_one_by_one)
        if number % 8 != 4:  # then, changed driving rows alone are joined as they were beside what they are
            patch.setattr(chain, "_take_counts", lambda *_: None)
        if number % 2:
            patch.setattr(run, "FEW", -1)
            patch.setattr(rows, "PAGES_WORTH", 1e9)
            patch.setattr(chain, "find_moved_rows", lambda *_, **__: None)
        else:
            patch.setattr(rows, "count_with_ranges", lambda left, _: ((left.count(),), {}))
            patch.setattr(columns, "_BITS", {})
            patch.setattr(columns, "_DIGITS", 0)
        if number % 4 > 1:
            patch.setattr(compiler, "SourceSpec", lambda *given: replace(SourceSpec(*given), trusted=True))
        yield


def _count_one_by_one(keys: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    from enrich.frames.changes import KEYS, ROWS

    return keys.groupBy(*keys.columns).agg(F.count("*").alias(ROWS), F.lit(1).alias(KEYS))


def stand_in(world: World, spoil: Callable[[Shape, pa.Table], pa.Table] = lambda _, rows: rows) -> Engine:
    """Return an engine that rebuilds every target in DuckDB and writes the difference; ``spoil`` may make it wrong."""

    def run(base: Path, jobs: Sequence[str], **_: Any) -> Mapping[str, Any]:
        tables = {t.name: reader.read(base / "lake" / t.name) for t in world.tables}
        reports = []
        for shape in world.shapes:
            if shape.name in jobs:
                used = {name: tables[name] for name in shape.aliases().values()}
                tables[shape.name] = spoil(shape, _rebuild(base, world, shape, used))
                good, bad = judged(shape, tables[shape.name].to_pylist())
                bad += keyless(world, shape, {name: rows.to_pylist() for name, rows in used.items()})
                held = base / "lake" / f"{shape.name}__quarantine"
                tables[shape.name] = pa.Table.from_pylist(
                    good, schema=pa.schema(list(target_types(world, shape).items()))
                )
                report = _publish(base / "lake" / shape.name, world, shape, tables[shape.name])
                nulls = null_counts(world, shape, {name: rows.to_pylist() for name, rows in used.items()})
                reports.append({**_with_quarantine(report, held, world, shape, bad), **nulls})
        return {"jobs": reports}

    return run


def _rebuild(base: Path, world: World, shape: Shape, used: Mapping[str, pa.Table]) -> pa.Table:
    if shape.past is None:
        return oracle.answer(world, shape, used)
    path = base / "lake" / shape.source
    snapshots = [(at, reader.read(path, version)) for version, at in enumerate(read_times(path))]
    return oracle.answer_past(world, shape, snapshots)


def _with_quarantine(
    report: dict[str, Any], path: Path, world: World, shape: Shape, bad: list[dict[str, Any]]
) -> dict[str, Any]:
    """Overwrite the quarantine and count what is new in it."""
    types = target_types(world, shape)
    schema = pa.schema([*types.items(), ("_failed", pa.list_(pa.string()))])
    maps = frozenset(name for name, type_ in types.items() if pa.types.is_map(type_))

    def split(rows: list[dict[str, Any]]) -> tuple[dict[Any, Any], Counter[Any]]:
        keyed, lone = {}, []
        for row in rows:
            content = canonical_row(row, schema.names, maps)
            if row["_failed"] in (["key_not_null"], ["key_unique"]):  # several may share one key
                lone.append(content)
            else:
                keyed[identity(shape, row)] = content
        return keyed, Counter(lone)

    before, after = split(reader.rows(path) if reader.exists(path) else []), split(bad)
    if before == after:
        return {**report, "quarantined": 0}
    write_deltalake(str(path), pa.Table.from_pylist(bad, schema=schema), mode="overwrite")
    come = len(after[0].keys() - before[0].keys()) + (after[1] - before[1]).total()
    status = "updated" if report["status"] == "unchanged" else report["status"]
    return {**report, "status": status, "quarantined": come}


def _publish(path: Path, world: World, shape: Shape, rows: pa.Table) -> dict[str, Any]:
    schema = pa.schema(list(target_types(world, shape).items()))
    columns = schema.names
    maps = frozenset(f.name for f in schema if pa.types.is_map(f.type))

    def keyed(found: list[dict[str, Any]]) -> dict[Any, Any]:
        return {identity(shape, row): canonical_row(row, columns, maps) for row in found}

    new = rows.to_pylist()
    if not reader.exists(path):
        feed = {"delta.enableChangeDataFeed": "true"} if shape.change_feed else None
        write_deltalake(str(path), pa.Table.from_pylist(new, schema=schema), configuration=feed)
        return {"job": shape.name, "status": "created", **net_change({}, keyed(new))}
    before, after = keyed(reader.rows(path)), keyed(new)
    wanted = net_change(before, after)
    if wanted.total():
        _replace_changed(path, shape, schema, new, before)
    return {"job": shape.name, "status": "updated" if wanted.total() else "unchanged", **wanted}


def _replace_changed(
    path: Path, shape: Shape, schema: pa.Schema, new: list[dict[str, Any]], before: dict[Any, Any]
) -> None:
    """One delta-rs MERGE of the changed rows, so that the change feed holds nothing else."""
    maps = frozenset(f.name for f in schema if pa.types.is_map(f.type))
    current = {identity(shape, row): row for row in new}
    rows = [
        {**row, "gone_": False}
        for key, row in current.items()
        if before.get(key) != canonical_row(row, schema.names, maps)
    ]
    old = {identity(shape, row): row for row in reader.rows(path)}
    rows += [{**row, "gone_": True} for key, row in old.items() if key not in current]
    data = pa.Table.from_pylist(rows, schema=schema.append(pa.field("gone_", pa.bool_())))
    keys = (*shape.key, *shape.right_key)
    on = " AND ".join(f'(t."{key}" IS NOT DISTINCT FROM s."{key}")' for key in keys)
    if shape.right_key and not shape.has_pairs:
        left = shape.key[0]
        on = (
            f'(t."{left}" IS NOT NULL AND t."{left}" = s."{left}" '
            + "".join(f'AND t."{key}" = s."{key}" ' for key in shape.key[1:])
            + f') OR (t."{left}" IS NULL AND s."{left}" IS NULL AND {on})'
        )
    values = assignments(schema.names)
    merge = DeltaTable(str(path)).merge(data, on, source_alias="s", target_alias="t")
    merge = merge.when_matched_delete(predicate="s.gone_").when_matched_update(updates=values)
    merge.when_not_matched_insert(updates=values, predicate="NOT s.gone_").execute()
