"""Second reference: each job as one DuckDB query over the source tables as delta-rs reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import duckdb
import pyarrow as pa

from differential.model import bound_of
from differential.spec import Join, Mirror, Shape, Table, World, element_type, list_tracked, selection, target_types


def answer(world: World, shape: Shape, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return the target of ``shape`` over ``tables`` (table name -> its current rows), computed by DuckDB."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
    for name, rows in tables.items():
        connection.register(name, rows)
    found = connection.sql(query(world, shape)).to_arrow_table()
    connection.close()
    return found


def answer_past(world: World, shape: Shape, snapshots: Sequence[tuple[int, pa.Table]]) -> pa.Table:
    """Return the target of a history over the snapshots of all versions of its source, each with its time."""
    assert shape.past is not None
    table, past = world.table(shape.source), shape.past
    tracked = list_tracked(table, past)
    names = [column.name for column in table.all_columns] if table.order else [*table.key, *tracked]
    parts = [
        rows.select(names).append_column("v_", pa.array([version] * len(rows), pa.int64()))
        for version, (_, rows) in enumerate(snapshots)
    ]
    ends = {"v_": range(len(snapshots)), "at_": [at * 1000 for at, _ in snapshots]}
    schema = pa.schema([("v_", pa.int64()), ("at_", pa.timestamp("us", tz="UTC"))])
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
    connection.register("all_", pa.concat_tables(parts))
    connection.register("times_", pa.table({n: pa.array(list(c), schema.field(n).type) for n, c in ends.items()}))
    keys, image = ", ".join(map(_name, table.key)), ", ".join(f"{_name(n)} := {_name(n)}" for n in tracked)
    live = " AND ".join(f"{_name(k)} IS NOT NULL" for k in table.key)
    source = _reduced("all_", table, "v_")
    shown = {past.valid_from: "f.from_", past.valid_to: "t.at_"}
    kept = ""
    if past.on_delete == "erase":  # the rows since a key was last away, of keys that are there at the end
        life = f"sum((last_ IS NULL OR last_ < v_ - 1)::INT) OVER (PARTITION BY {keys} ORDER BY v_)"
        last = f"max(v_) OVER k = {len(parts) - 1} AND life_ = max(life_) OVER k"
        kept = f"l AS (SELECT *, {life} AS life_ FROM w), "
        kept += f"e AS (SELECT * FROM l WINDOW k AS (PARTITION BY {keys}) QUALIFY {last}), "
    columns = ", ".join(f"{shown.get(n, 'f.' + _name(n))} AS {_name(n)}" for n in target_types(world, shape))
    found = connection.sql(
        f"WITH i AS (SELECT {keys}, v_, struct_pack({image}) AS image_ FROM {source} AS r_ WHERE {live}), "
        f"w AS (SELECT *, lag(v_) OVER k AS last_, lag(image_) OVER k AS was_ FROM i "
        f"WINDOW k AS (PARTITION BY {keys} ORDER BY v_)), {kept}"
        "b AS (SELECT *, (last_ IS NULL OR last_ < v_ - 1 OR image_ IS DISTINCT FROM was_)::INT AS new_ "
        f"FROM {'e' if kept else 'w'}), "
        f"n AS (SELECT *, sum(new_) OVER (PARTITION BY {keys} ORDER BY v_) AS n_ FROM b), "
        f"g AS (SELECT {keys}, arg_min(image_, v_) AS image_, min(v_) AS v_, max(v_) + 1 AS until_ FROM n "
        f"GROUP BY {keys}, n_), "
        f"f AS (SELECT {keys}, until_, at_ AS from_, "
        f"{', '.join(f'image_.{_name(n)} AS {_name(n)}' for n in tracked)} FROM g JOIN times_ USING (v_)) "
        f"SELECT {columns} FROM f LEFT JOIN times_ AS t ON t.v_ = f.until_"
    ).to_arrow_table()
    connection.close()
    return found


def query(world: World, shape: Shape) -> str:
    """Return the DuckDB query of a job."""
    if shape.mirror is not None:
        return _mirror(world.table(shape.source), shape.mirror)
    driving = world.table(shape.source)
    keys = ", ".join(f"{_name(shape.driving)}.{_name(k)} AS k{i}" for i, k in enumerate(driving.key))
    steps = [f"s0 AS (SELECT {_name(shape.driving)}, {keys} FROM ({_live(driving)}) AS {_name(shape.driving)})"]
    aliases = [shape.driving]
    for number, (alias, join) in enumerate(shape.joins.items(), 1):
        step = {
            "table": _table,
            "foreign_key": _foreign_key,
            "as_of": _as_of,
            "list": _list,
            "interval": _interval,
        }[join.kind]
        body = step(world, shape, alias, aliases, f"s{number - 1}")
        steps.append(f"s{number} AS ({body})")
        aliases.append(alias)
    last = f"s{len(shape.joins)}"
    columns = ", ".join(f"{expr.sql} AS {_name(name)}" for name, expr in selection(world, shape).items())
    where = f" WHERE {shape.where.sql}" if shape.where is not None else ""
    return f"WITH {', '.join(steps)}, f AS {_with_key(driving, last)} SELECT {columns} FROM f{where}"


def _with_key(driving: Table, step: str) -> str:
    """Return the rows of a step with ``key``, as expressions may name it."""
    if len(driving.key) == 1:
        return f"(SELECT *, k0 AS key FROM {step})"
    parts = ", ".join(f"'{k}': k{i}" for i, k in enumerate(driving.key))
    return f"(SELECT *, {{{parts}}} AS key FROM {step})"


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _live(table: Table) -> str:
    whole = " AND ".join(f"{_name(k)} IS NOT NULL" for k in table.key)
    return f"SELECT * FROM {_reduced(_name(table.name), table)} AS r_ WHERE {whole}"


def _reduced(rows: str, table: Table, *also: str) -> str:
    """Return what a table's rows are as a source: of a log the last event of each key, or none; no doubled keys."""
    keys = ", ".join([*also, *map(_name, table.key)])
    if table.holds:
        lone = " OR ".join([f"{_name(k)} IS NULL" for k in table.key] + [f"count(*) OVER (PARTITION BY {keys}) = 1"])
        return f"(SELECT * FROM {rows} QUALIFY {lone})"
    if not table.order:
        return rows
    order = [f"{_name(name)} DESC NULLS LAST" for name in (*table.order, *(each.name for each in table.all_columns))]
    last = f"SELECT * FROM {rows} QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {', '.join(order)}) = 1"
    is_there = "true" if table.gone is None else f"{_name(table.gone[0])} IS DISTINCT FROM '{table.gone[1]}'"
    return f"(SELECT * FROM ({last}) AS l_ WHERE {is_there})"


def _table(world: World, shape: Shape, alias: str, aliases: list[str], before: str) -> str:
    join = shape.joins[alias]
    lookup, key_count = world.table(join.table), len(world.table(shape.source).key)
    on = " AND ".join(f"s.k{i} = x_.{_name(k)}" for i, k in enumerate(lookup.key))
    keys = ", ".join(f"coalesce(s.k{i}, x_.{_name(lookup.key[i])}) AS k{i}" for i in range(key_count))
    carried = ", ".join(f"s.{_name(a)}" for a in aliases)
    return (
        f"SELECT {carried}, x_ AS {_name(alias)}, {keys} FROM {before} AS s "
        f"{join.how.upper()} JOIN ({_live(lookup)}) AS x_ ON {on}"
    )


def _foreign_key(world: World, shape: Shape, alias: str, aliases: list[str], before: str) -> str:
    join = shape.joins[alias]
    lookup, key_count = world.table(join.table), len(world.table(shape.source).key)
    on = " AND ".join(f"({expr.sql}) = x_.{_name(k)}" for expr, k in zip(join.on, lookup.key, strict=True))
    carried = ", ".join([*(_name(a) for a in aliases), *(f"k{i}" for i in range(key_count))])
    return (
        f"SELECT {carried}, x_ AS {_name(alias)} FROM {_with_key(world.table(shape.source), before)} AS s "
        f"{join.how.upper()} JOIN ({_live(lookup)}) AS x_ ON {on}"
    )


def _as_of(world: World, shape: Shape, alias: str, aliases: list[str], before: str) -> str:
    join = shape.joins[alias]
    assert join.at is not None
    lookup, key_count = world.table(join.table), len(world.table(shape.source).key)
    *parts, start = lookup.key
    on = [f"({expr.sql}) = x_.{_name(k)}" for expr, k in zip(join.on, parts, strict=True)]
    on.append(f"({join.at.sql}) >= x_.{_name(start)}")
    carried = ", ".join([*(_name(a) for a in aliases), *(f"k{i}" for i in range(key_count))])
    found = f"f_.{_name(alias)}"
    holds = [f"{found}.{_name(start)} IS NOT NULL"]
    if join.valid_to is not None:
        end = f"{found}.{_name(join.valid_to)}"
        holds.append(f"({end} IS NULL OR at_ {'<=' if join.inclusive else '<'} {end})")
    if join.gone is not None:
        holds.append(f"NOT coalesce({join.gone.sql}, false)")
    version = f"CASE WHEN {' AND '.join(holds)} THEN {found} END"
    kept = f" WHERE {' AND '.join(holds)}" if join.how == "inner" else ""
    return (
        f"SELECT {carried}, {version} AS {_name(alias)} FROM (SELECT {carried}, ({join.at.sql}) AS at_, "
        f"x_ AS {_name(alias)} FROM {_with_key(world.table(shape.source), before)} AS s "
        f"ASOF LEFT JOIN ({_live(lookup)}) AS x_ ON {' AND '.join(on)}) AS f_{kept}"
    )


def _interval(world: World, shape: Shape, alias: str, aliases: list[str], before: str) -> str:
    """A range join."""
    join, key_count = shape.joins[alias], len(world.table(shape.source).key)
    assert join.at is not None
    lookup = world.table(join.table)
    on = [f"({expr.sql}) = x_.{_name(name)}" for expr, name in zip(join.on, join.match, strict=True)]
    at, time, kind = f"({join.at.sql})", f"x_.{_name(join.time)}", lookup.column(join.time).type
    lower, upper = (bound_of(value) for value in join.between)
    if pa.types.is_date(kind):
        apart, lower, upper = f"{time} - {at}", lower.days, upper.days
    elif pa.types.is_timestamp(kind):
        apart = f"epoch_us({time}) - epoch_us({at})"
        lower, upper = (bound // timedelta(microseconds=1) for bound in (lower, upper))
    else:
        apart = f"CAST({time} AS DOUBLE) - CAST({at} AS DOUBLE)"
    on.append(f"({apart}) BETWEEN {lower} AND {upper}")
    carried = ", ".join([*(_name(a) for a in aliases), *(f"k{i}" for i in range(key_count))])
    return (
        f"SELECT {carried}, x_ AS {_name(alias)} FROM {_with_key(world.table(shape.source), before)} AS s "
        f"{join.how.upper()} JOIN ({_live(lookup)}) AS x_ ON {' AND '.join(on)}"
    )


def _list(world: World, shape: Shape, alias: str, aliases: list[str], before: str) -> str:
    join = shape.joins[alias]
    assert join.elements is not None
    lookup, struct = world.table(join.table), element_type(world, shape, alias).value_type
    id_ = f"e.{_name(join.element_key)}" if join.element_key else "e"
    key = _name(lookup.key[0])
    payload = {c.name for c in lookup.all_columns}
    fields = [f"{_name(lookup.key[0])} := id"]
    fields += [
        f"{_name(f.name)} := " + (f"x_.{_name(f.name)}" if f.name in payload else f"e.{_name(f.name)}")
        for f in list(struct)[1:]
    ]
    kept = ["true"]
    if join.duplicates == "drop":
        kept.append("(id IS NULL OR first = 1)")
    if join.unmatched == "drop":
        kept.append(f"x_.{key} IS NOT NULL")
    # Rows that only a lookup has share their key, null: every row gets a number.
    rows = _with_key(world.table(shape.source), before)
    return (
        f"WITH o AS MATERIALIZED (SELECT *, {join.elements.sql} AS l_, row_number() OVER () AS r_ FROM {rows}), "
        f"u AS (SELECT r_, unnest(l_) AS e, unnest(range(len(l_))) AS i FROM o WHERE len(l_) > 0), "
        f"n AS (SELECT *, {id_} AS id, row_number() OVER (PARTITION BY r_, {id_} ORDER BY i) AS first FROM u), "
        f"g AS (SELECT r_, list(struct_pack({', '.join(fields)}) ORDER BY i) AS made FROM n "
        f"LEFT JOIN ({_live(lookup)}) AS x_ ON n.id = x_.{key} WHERE {' AND '.join(kept)} GROUP BY r_) "
        f"SELECT o.* EXCLUDE (l_, r_, key), "
        f"CASE WHEN l_ IS NULL THEN NULL ELSE coalesce(made, []) END AS {_name(alias)} FROM o LEFT JOIN g USING (r_)"
    )


def _mirror(master: Table, mirror: Mirror) -> str:
    values = ", ".join(_name(v) for v in mirror.value)
    live = f"{_live(master)} AND " + " AND ".join(f"{_name(v)} IS NOT NULL" for v in mirror.value)
    keys = [_name(k) for k in master.key]
    if mirror.conflict == "collect":
        packed = keys[0] if len(keys) == 1 else "struct_pack(" + ", ".join(f"{k} := {k}" for k in keys) + ")"
        name = keys[0] if len(keys) == 1 else "keys"
        return f"SELECT {values}, list({packed} ORDER BY {', '.join(keys)}) AS {name} FROM ({live}) GROUP BY {values}"
    way = "DESC" if mirror.conflict == "last" else "ASC"
    order = [f"{_name(mirror.order)} {way} NULLS LAST"] if mirror.order else []
    order += [f"{key} {way}" for key in keys]
    columns = ", ".join([values, *keys, *(_name(c) for c in mirror.columns)])
    ranked = f"SELECT *, row_number() OVER (PARTITION BY {values} ORDER BY {', '.join(order)}) AS rank_ FROM ({live})"
    return f"SELECT {columns} FROM ({ranked}) WHERE rank_ = 1"


__all__ = ["Join", "answer", "query"]
