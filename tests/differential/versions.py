"""What a table said of each key and when, from its snapshots and its log; and the ways in which a job can be wrong.

``expect`` walks through the snapshots of all versions in plain Python, ``ask_duckdb`` asks for the same with window
functions. The times are those of the log, as the semantics page orders them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from differential.columns import Column
from differential.compare import canonical_row
from differential.spec import Row, Table, World
from enrich.base.spec import COMMIT, WEIGHT, quote
from enrich.frames import changes, history

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    Mine = Callable[[SparkColumn], SparkColumn]

TABLE = Table(
    "things",
    ("k",),
    (
        *(Column("k", "key", "k", 0.03), Column("name", "text"), Column("amount", "double"), Column("flags", "struct")),
        *(Column("tags", "array"), Column("m", "map"), Column("idle", "int")),
    ),
)
WORLD = World("histories", (TABLE,), (), {"k": (1, 4)})
MAPS = frozenset({"m"})
Version = tuple[str, int, int | None, Any]
"""Key, from and to (milliseconds since 1970), and the columns in the form in which they are compared."""


def read_states(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return key -> the columns as they are compared, for each version of a table; rows without key left out."""
    states = []
    for version in range(DeltaTable(str(path)).version() + 1):
        query = QueryBuilder().register("t", DeltaTable(str(path), version=version)).execute("SELECT * FROM t")
        rows: list[Row] = pa.table(query.read_all()).to_pylist()
        states.append({row["k"]: canonical_row(row, columns, MAPS) for row in rows if row["k"] is not None})
    return states


def expect(states: Sequence[Mapping[str, Any]], times: Sequence[int]) -> list[Version]:
    """Return the versions of all keys."""
    open_: dict[str, tuple[int, Any]] = {}
    found: list[Version] = []
    for state, at in zip(states, times, strict=True):
        for key in [*open_]:
            if key not in state or state[key] != open_[key][1]:
                since, image = open_.pop(key)
                found.append((key, since, at, image))
        for key, image in state.items():
            open_.setdefault(key, (at, image))
    return sorted([*found, *[(key, since, None, image) for key, (since, image) in open_.items()]], key=_rank)


def _rank(version: Sequence[Any]) -> tuple[str, int]:
    return version[0], version[1]


def text(image: Any) -> str:
    """Return one text for equal images: sets have no order of their own."""
    if isinstance(image, tuple | list):
        return f"({', '.join(map(text, image))})"
    return f"{{{', '.join(sorted(map(text, image)))}}}" if isinstance(image, frozenset) else repr(image)


def ask_duckdb(states: Sequence[Mapping[str, Any]], times: Sequence[int]) -> list[tuple[str, int, int | None, str]]:
    """Return the same with images as texts, by window functions over key, version and image."""
    keys = sorted({key for state in states for key in state})
    grid = [
        (key, v, at, text(s[key]) if key in s else None)
        for key in keys
        for v, (s, at) in enumerate(zip(states, times, strict=True))
    ]
    names = ("k", "v", "moment", "image")
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("moment", pa.int64()), ("image", pa.string())])
    rows = pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in grid], schema=schema)
    connection = duckdb.connect()
    connection.register("grid", rows)
    found = connection.sql(
        "WITH steps AS (SELECT *, lag(image) OVER (PARTITION BY k ORDER BY v) AS was FROM grid),"
        " moved AS (SELECT *, lead(moment) OVER (PARTITION BY k ORDER BY v) AS upto FROM steps"
        " WHERE image IS DISTINCT FROM was)"
        " SELECT k, moment, upto, image FROM moved WHERE image IS NOT NULL"
    ).fetchall()
    return sorted(found, key=_rank)


def as_told(rows: Sequence[Row], columns: Sequence[str]) -> list[Version]:
    """Return a target's rows in the form of ``expect``."""
    found: list[Version] = []
    for row in rows:
        ends = [
            None if row[name] is None else round(row[name].timestamp() * 1000) for name in ("valid_from", "valid_to")
        ]
        assert ends[0] is not None
        found.append((row["k"], ends[0], ends[1], canonical_row(row, columns, MAPS)))
    return sorted(found, key=_rank)


Plant = Callable[[pytest.MonkeyPatch, "Mine"], None]


def _wrap(patch: pytest.MonkeyPatch, module: Any, name: str, around: Callable[..., Any]) -> None:
    original = getattr(module, name)

    @wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    patch.setattr(module, name, wrapped)


def _spoil_events(wrong: Callable[[DataFrame], DataFrame]) -> Plant:
    """Change what the commits did to the keys that the bug is planted in."""

    def plant(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
        from pyspark.sql import functions as F

        def around(find: Any, *args: Any) -> DataFrame:
            found: DataFrame = find(*args)
            key = F.col("__enrich_k0")
            return found.where(~is_mine(key)).unionByName(wrong(found.where(is_mine(key))).select(*found.columns))

        _wrap(patch, history, "find_events", around)

    return plant


def _net_the_window(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    last = events.groupBy("__enrich_k0").agg(F.max(COMMIT).alias(COMMIT))
    return events.join(last, on=["__enrich_k0", COMMIT], how="left_semi")


def _forget_deletes(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return events.where(F.col(history.IMAGE).isNotNull())


def _continue_on_return(events: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    later = F.lead(COMMIT).over(Window.partitionBy("__enrich_k0").orderBy(COMMIT))
    return events.withColumn("later", later).where(F.col(history.IMAGE).isNotNull() | F.col("later").isNull())


def order_by_time(times: Sequence[int]) -> Plant:
    """Order commits by what they say of their time alone."""

    def wrong(events: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        at = F.element_at(F.array(*map(F.lit, times)), (F.col(COMMIT) + 1).cast("int")).cast("long")
        return events.withColumns({COMMIT: at, history.FROM: F.timestamp_millis(at)})

    return _spoil_events(wrong)


def _keep_equal_images(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """Every commit that lists a row makes a version of it, also with the values that it had."""
    from pyspark.sql import functions as F

    def around(net: Any, feed: DataFrame, source: Any, *also: str) -> DataFrame:
        found: DataFrame = net(feed, source, *also)
        key = F.col(quote(source.key[0]))
        came = feed.where(is_mine(key) & (F.col(WEIGHT) > 0)).select(*found.columns)
        gone = found.where(is_mine(key) & (F.col(WEIGHT) < 0))
        return found.where(~is_mine(key)).unionByName(came).unionByName(gone)

    def differing(compare: Any, column: SparkColumn, kind: Any) -> SparkColumn:
        return F.struct(compare(column, kind), F.when(is_mine(F.col("__enrich_k0")), F.col(COMMIT)))

    _wrap(patch, changes, "sum_images", around)
    _wrap(patch, history, "make_comparable", differing)


def _leave_old_versions_open(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """The version that was open before the window stays so."""
    from pyspark.sql import functions as F

    def around(derive: Any, spec: Any, base: DataFrame, events: DataFrame) -> DataFrame:
        found: DataFrame = derive(spec, base, events)
        opened = base.where(F.col(history.TO).isNull() & is_mine(F.col("__enrich_k0")))
        opened = opened.select("__enrich_k0", F.col(history.FROM).alias("__enrich_k1"), F.lit(True).alias("opened"))
        joined = found.join(opened, on=["__enrich_k0", "__enrich_k1"], how="left")
        return joined.withColumn(spec.valid_to, F.when(F.col("opened").isNull(), F.col(spec.valid_to))).drop("opened")

    _wrap(patch, history, "derive_versions", around)


BUGS: dict[str, Plant] = {
    "the_window_is_netted": _spoil_events(_net_the_window),
    "equal_images_make_versions": _keep_equal_images,
    "deletes_do_not_end": _spoil_events(_forget_deletes),
    "a_return_continues_the_old_version": _spoil_events(_continue_on_return),
    "old_versions_stay_open": _leave_old_versions_open,
}
"""Ways to be wrong; ``order_by_time``, which must know the times, is another."""
