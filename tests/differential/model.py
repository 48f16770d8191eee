"""First reference: the joins over plain dictionaries, row by row, straight from docs/semantics.md.

``truth(world, shape, tables)`` is the whole target. No incremental step, no SQL, nothing of enrich.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from differential.spec import Join, Mirror, Row, Scope, Shape, Table, World, list_tracked, selection

Tables = Mapping[str, list[Row]]
Key = tuple[Any, ...]


def key_of(row: Row, columns: Iterable[str]) -> Key | None:
    """Return the row's key; None when any part of it is null."""
    key = tuple(row[name] for name in columns)
    return None if any(part is None for part in key) else key


def keyed(table: Table, rows: Iterable[Row]) -> dict[Key, Row]:
    """Return the rows by key, without those whose key is null; two rows with one key are an error of the test.

    Of a log it is the last event of each key; where doubled keys are held, only keys with one row.
    """
    found: dict[Key, Row] = {}
    held = {id(row) for row in find_doubled(table, rows)}
    for row in rows:
        key = key_of(row, table.key)
        if key is None or id(row) in held:
            continue
        if table.order and key in found:
            found[key] = max(found[key], row, key=lambda each: _rank(table, each))
            continue
        assert key not in found, f"{table.name}: two rows with one key"
        found[key] = row
    if table.gone is None:
        return found
    column, value = table.gone
    return {key: row for key, row in found.items() if row[column] != value}


def _rank(table: Table, event: Row) -> list[Any]:
    """Return what orders the events of a key: null is least; of one order, their contents."""
    names = (*table.order, *(column.name for column in table.all_columns))
    return [(event[name] is not None, 0 if event[name] is None else event[name]) for name in names]


def find_doubled(table: Table, rows: Iterable[Row]) -> list[Row]:
    """Return the rows of a table that are held because they share their key."""
    if not table.holds:
        return []
    counts = Counter(key_of(row, table.key) for row in rows)
    return [row for row in rows if (key := key_of(row, table.key)) is not None and counts[key] > 1]


def truth(world: World, shape: Shape, tables: Tables) -> list[Row]:
    """Return the rows of the target of ``shape`` over the current ``tables``."""
    if shape.mirror is not None:
        return _mirror(world.table(shape.source), shape.mirror, tables[shape.source])
    scopes = [scope for scope in scopes_of(world, shape, tables) if _kept(shape, scope)]
    columns = selection(world, shape)
    return [{name: expr.fn(scope) for name, expr in columns.items()} for scope in scopes]


def judged(shape: Shape, rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that the job's rules let pass, and those that they hold back, with ``_failed``."""
    good, bad = [], []
    for row in rows:
        failed = [rule.reason for rule in shape.rules if rule.fails(row)]
        if failed:
            bad.append({**row, "_failed": failed})
        else:
            good.append(row)
    return good, bad


def keyless(world: World, shape: Shape, tables: Tables) -> list[Row]:
    """Return the driving rows with a null in their key as the quarantine must hold them, whatever ``where`` says.

    A row that a join removes finds nothing in the joins behind it. Of such a row, and of one that the condition keeps
    out, only columns are shown: an expression may be one that must not be evaluated then.
    """
    driving = world.table(shape.source)
    found = _show_apart(world, shape, tables, find_doubled(driving, tables[shape.source]), ["key_unique"])
    rows = [row for row in tables[shape.source] if key_of(row, driving.key) is None]
    return found + _show_apart(world, shape, tables, rows, ["key_not_null"])


def _show_apart(world: World, shape: Shape, tables: Tables, rows: list[Row], failed: list[str]) -> list[Row]:
    driving = world.table(shape.source)
    if shape.mirror is not None:
        return [{**_keyless_mirror(driving, shape.mirror, row), "_failed": failed} for row in rows]
    if shape.past is not None:
        ends = dict.fromkeys((shape.past.valid_from, shape.past.valid_to))
        shown_here = (*driving.key, *list_tracked(driving, shape.past))
        return [{**{name: row[name] for name in shown_here}, **ends, "_failed": failed} for row in rows]
    columns, found = selection(world, shape), []
    present = {alias: keyed(world.table(join.table), tables[join.table]) for alias, join in shape.joins.items()}
    for row in rows:
        scope: Scope = {shape.driving: row, "key": {name: row[name] for name in driving.key}}
        is_there = True
        for alias, join in shape.joins.items():
            if not is_there or join.kind == "table":
                key = key_of(row, driving.key)
                scope = {**scope, alias: present[alias].get(key) if key is not None and is_there else None}
            elif join.kind == "interval":
                scope = {**scope, alias: None}  # it would be a row for each partner
            elif join.kind == "foreign_key":
                (scope,) = _foreign_key_join([scope], alias, replace(join, how="left"), present[alias], shape)
            elif join.kind == "as_of":
                versions = _timelines(present[alias])
                (scope,) = _as_of_join([scope], alias, replace(join, how="left"), versions, world.table(join.table))
            else:
                scope = {**scope, alias: _elements(scope, join, world.table(join.table), present[alias])}
            is_there &= join.kind in ("list", "interval") or scope[alias] is not None or join.how in ("left", "full")
        is_guarded = not is_there or not _kept(shape, scope)
        shown = {n: None if is_guarded and not expr.is_path else expr.fn(scope) for n, expr in columns.items()}
        found.append({**shown, "_failed": failed})
    return found


def _keyless_mirror(master: Table, mirror: Mirror, row: Row) -> Row:
    values = {name: row[name] for name in mirror.value}
    if mirror.conflict != "collect":
        return {**values, **{name: row[name] for name in (*master.key, *mirror.columns)}}
    if len(master.key) == 1:
        return {**values, master.key[0]: [row[master.key[0]]]}
    return {**values, "keys": [{name: row[name] for name in master.key}]}


def null_counts(world: World, shape: Shape, tables: Tables) -> dict[str, int]:
    """Return what a first run must count: null foreign keys, null list ids, null values of a mirror."""
    nulls: Counter[str] = Counter(null_foreign_keys=0, null_list_ids=0, null_values=0)
    if shape.past is not None:
        return dict(nulls)
    if shape.mirror is None:
        scopes_of(world, shape, tables, nulls)
    else:
        master, mirror = world.table(shape.source), shape.mirror
        rows = keyed(master, tables[shape.source]).values()
        nulls["null_values"] = sum(key_of(row, mirror.value) is None for row in rows)
    return dict(nulls)


def count_partners(world: World, shape: Shape, tables: Tables) -> dict[str, dict[str, int]]:
    """Return alias -> how the join goes over all driving rows that reach it: rows, those matched, null references."""
    if shape.mirror is not None or shape.past is not None:
        return {}
    counts = {alias: Counter(rows=0, matched=0, null_references=0) for alias in shape.joins}
    scopes_of(world, shape, tables, partners=counts)
    return {alias: dict(each) for alias, each in counts.items()}


def _find_partners(
    scopes: list[Scope], alias: str, join: Join, lookup: tuple[Table, Mapping[Key, Row]], driving: str
) -> Counter[str]:
    """Count how a join goes for the rows that have come so far and have a driving row; for lists, for elements."""
    found: Counter[str] = Counter()
    table, rows = lookup
    timelines = _timelines(rows) if join.kind == "as_of" else {}
    events = _events(join, rows) if join.kind == "interval" else {}
    for scope in scopes:
        if scope[driving] is None:
            continue
        if join.kind == "as_of":
            has_null = any(expr.fn(scope) is None for expr in join.references)
            matched = _version(scope, alias, join, timelines, table) is not None
            found.update(rows=1, null_references=has_null, matched=matched)
            continue
        if join.kind == "interval":
            has_null = any(expr.fn(scope) is None for expr in join.on)
            found.update(rows=1, null_references=has_null, matched=bool(_near(scope, join, events)))
            continue
        for key in _list_references(scope, join):
            has_null = any(part is None for part in key)
            found.update(rows=1, null_references=has_null, matched=not has_null and key in rows)
    return found


def _list_references(scope: Scope, join: Join) -> list[Key]:
    """Return what a row refers to; a list's ids after ``duplicates: drop``."""
    if join.kind == "table":
        return [tuple(scope["key"].values())]
    if join.kind == "foreign_key":
        return [tuple(expr.fn(scope) for expr in join.on)]
    assert join.elements is not None
    found: list[Key] = []
    for element in join.elements.fn(scope) or ():
        id_ = element
        if join.element_key is not None:
            id_ = None if element is None else element[join.element_key]
        if join.duplicates == "keep" or id_ is None or (id_,) not in found:
            found.append((id_,))
    return found


def _nulls(scopes: list[Scope], join: Join, driving: str) -> Counter[str]:
    """Count what a join finds null in the rows that have come so far and have a driving row."""
    found: Counter[str] = Counter()
    for scope in scopes:
        if scope[driving] is None:
            continue
        if join.kind in ("foreign_key", "as_of", "interval"):
            wanted = join.on if join.kind == "interval" else join.references
            found["null_foreign_keys"] += any(expr.fn(scope) is None for expr in wanted)
        elif join.elements is not None:
            for element in join.elements.fn(scope) or ():
                is_null = element is None or (join.element_key is not None and element[join.element_key] is None)
                found["null_list_ids"] += is_null
    return found


def scopes_of(
    world: World,
    shape: Shape,
    tables: Tables,
    nulls: Counter[str] | None = None,
    partners: Mapping[str, Counter[str]] | None = None,
) -> list[Scope]:
    """Return the joined rows as scopes (alias -> row or None), before ``where``; count into ``nulls``, ``partners``."""
    driving = world.table(shape.source)
    scopes: list[Scope] = [
        {shape.driving: row, "key": dict(zip(driving.key, key, strict=True))}
        for key, row in keyed(driving, tables[shape.source]).items()
    ]
    for alias, join in shape.joins.items():
        lookup = world.table(join.table)
        rows = keyed(lookup, tables[join.table])
        if nulls is not None:
            nulls.update(_nulls(scopes, join, shape.driving))
        if partners is not None:
            partners[alias].update(_find_partners(scopes, alias, join, (lookup, rows), shape.driving))
        if join.kind == "table":
            scopes = _table_join(scopes, alias, join, rows, shape, driving)
        elif join.kind == "foreign_key":
            scopes = _foreign_key_join(scopes, alias, join, rows, shape)
        elif join.kind == "as_of":
            scopes = _as_of_join(scopes, alias, join, _timelines(rows), lookup)
        elif join.kind == "interval":
            scopes = _interval_join(scopes, alias, join, rows, shape)
        else:
            scopes = [{**scope, alias: _elements(scope, join, lookup, rows)} for scope in scopes]
    return scopes


def _kept(shape: Shape, scope: Scope) -> bool:
    return shape.where is None or shape.where.fn(scope) is True


def _missing(shape: Shape, upto: str) -> Scope:
    """Return the scope of a row that has nothing on the left of the join ``upto``."""
    aliases = [shape.driving, *shape.joins]
    return dict.fromkeys(aliases[: aliases.index(upto)])


def _table_join(
    scopes: list[Scope], alias: str, join: Join, rows: dict[Key, Row], shape: Shape, driving: Table
) -> list[Scope]:
    left = {tuple(scope["key"].values()): scope for scope in scopes if scope["key"] is not None}
    both = [key for key in left if key in rows]
    keys: list[Key] = list(both)
    if join.how in ("left", "full"):
        keys += [key for key in left if key not in rows]
    if join.how in ("right", "full"):
        keys += [key for key in rows if key not in left]
    nothing = _missing(shape, alias)
    found = [
        {**left.get(key, nothing), "key": dict(zip(driving.key, key, strict=True)), alias: rows.get(key)}
        for key in keys
    ]
    if join.how in ("left", "full"):  # rows that only the lookup of a foreign-key join has: they have no key to match
        found += [{**scope, alias: None} for scope in scopes if scope["key"] is None]
    return found


def _foreign_key_join(scopes: list[Scope], alias: str, join: Join, rows: dict[Key, Row], shape: Shape) -> list[Scope]:
    found, used = [], set()
    for scope in scopes:
        key: Key | None = tuple(expr.fn(scope) for expr in join.on)
        if key is not None and any(part is None for part in key):
            key = None
        right = rows.get(key) if key is not None else None
        if right is not None:
            used.add(key)
        if right is not None or join.how in ("left", "full"):
            found.append({**scope, alias: right})
    if join.how in ("right", "full"):
        nothing = {**_missing(shape, alias), "key": None}
        found += [{**nothing, alias: row} for key, row in rows.items() if key not in used]
    return found


def _timelines(rows: Mapping[Key, Row]) -> dict[Key, list[Row]]:
    """Return the versions of each thing, in the order in which they begin."""
    found: dict[Key, list[Row]] = defaultdict(list)
    for key in sorted(rows):
        found[key[:-1]].append(rows[key])
    return found


def _version(scope: Scope, alias: str, join: Join, timelines: Mapping[Key, list[Row]], lookup: Table) -> Row | None:
    """Return the version that holds at the row's moment: the last that has begun, if it has not ended and is there."""
    *key, moment = (expr.fn(scope) for expr in join.references)
    if moment is None or any(part is None for part in key):
        return None
    begun = [row for row in timelines.get(tuple(key), ()) if row[lookup.key[-1]] <= moment]
    if not begun:
        return None
    last = begun[-1]
    end = None if join.valid_to is None else last[join.valid_to]
    if end is not None and (end < moment if join.inclusive else end <= moment):
        return None
    return None if join.gone is not None and join.gone.fn({alias: last}) is True else last


def _as_of_join(
    scopes: list[Scope], alias: str, join: Join, timelines: Mapping[Key, list[Row]], lookup: Table
) -> list[Scope]:
    found = [{**scope, alias: _version(scope, alias, join, timelines, lookup)} for scope in scopes]
    return [scope for scope in found if join.how == "left" or scope[alias] is not None]


_UNITS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def bound_of(value: str | float) -> Any:
    """Return a bound of ``between`` as what the difference of two times is compared with."""
    return int(value[:-1]) * _UNITS[value[-1]] if isinstance(value, str) else value


def _events(join: Join, rows: Mapping[Key, Row]) -> dict[Key, list[tuple[Key, Row]]]:
    """Return the rows that an interval join may find, by what they match; those with a null there are not among them.

    To compare each row with each other one would take minutes where there are thousands.
    """
    found: dict[Key, list[tuple[Key, Row]]] = defaultdict(list)
    for key, row in rows.items():
        wanted = key_of(row, join.match)
        if wanted is not None and row[join.time] is not None:
            found[wanted].append((key, row))
    return found


def _near(scope: Scope, join: Join, events: Mapping[Key, list[tuple[Key, Row]]]) -> list[Key]:
    """Return the keys of a row's partners in an interval join; both bounds are inclusive."""
    assert join.at is not None
    at, wanted = join.at.fn(scope), tuple(expr.fn(scope) for expr in join.on)
    if at is None or None in wanted:
        return []
    lower, upper = (bound_of(value) for value in join.between)
    return [key for key, row in events.get(wanted, ()) if lower <= row[join.time] - at <= upper]


def _interval_join(scopes: list[Scope], alias: str, join: Join, rows: dict[Key, Row], shape: Shape) -> list[Scope]:
    found, used, events = [], set(), _events(join, rows)
    for scope in scopes:
        near = _near(scope, join, events)
        used |= {*near}
        found += [{**scope, alias: rows[key]} for key in near]
        if not near and join.how in ("left", "full"):
            found.append({**scope, alias: None})
    if join.how in ("right", "full"):
        nothing = {**_missing(shape, alias), "key": None}
        found += [{**nothing, alias: row} for key, row in rows.items() if key not in used]
    return found


def _elements(scope: Scope, join: Join, lookup: Table, rows: dict[Key, Row]) -> list[Row] | None:
    assert join.elements is not None
    elements = join.elements.fn(scope)
    if elements is None:
        return None
    (key_name,) = lookup.key
    payload = [column.name for column in lookup.all_columns if column.name != key_name]
    own = [f.name for f in join.elements.type.value_type] if join.elements.type and join.element_key else []
    own = [name for name in own if name != join.element_key]
    result, seen = [], set()
    for element in elements:
        id_ = element
        if join.element_key is not None:
            id_ = None if element is None else element[join.element_key]
        if join.duplicates == "drop" and id_ is not None:
            if id_ in seen:
                continue
            seen.add(id_)
        right = None if id_ is None else rows.get((id_,))
        if right is None and join.unmatched == "drop":
            continue
        fields = {name: None if element is None else element[name] for name in own}
        result.append({key_name: id_, **fields, **{n: None if right is None else right[n] for n in payload}})
    return result


def _mirror(master: Table, mirror: Mirror, rows: list[Row]) -> list[Row]:
    holders: dict[Key, list[Row]] = defaultdict(list)
    for row in keyed(master, rows).values():
        value = key_of(row, mirror.value)
        if value is not None:
            holders[value].append(row)
    found = []
    for value, group in holders.items():
        values = dict(zip(mirror.value, value, strict=True))
        if mirror.conflict == "collect":
            keys = sorted(tuple(row[name] for name in master.key) for row in group)
            if len(master.key) == 1:
                found.append({**values, master.key[0]: [key[0] for key in keys]})
            else:
                found.append({**values, "keys": [dict(zip(master.key, key, strict=True)) for key in keys]})
            continue
        assert mirror.conflict != "fail" or len(group) == 1, "a history for conflict: fail holds a conflict"
        winner = _winner(master, mirror, group)
        found.append({**values, **{n: winner[n] for n in (*master.key, *mirror.columns)}})
    return found


def _winner(master: Table, mirror: Mirror, group: list[Row]) -> Row:
    """Return the row that holds the value: by (order, key); a row with a null order loses to every other."""

    def rank(row: Row) -> Key:
        return (row[mirror.order] if mirror.order else 0, *(row[name] for name in master.key))

    ordered = [row for row in group if mirror.order is None or row[mirror.order] is not None]
    if ordered:
        return (min if mirror.conflict == "first" else max)(ordered, key=rank)
    keys_only = sorted(group, key=lambda row: tuple(row[name] for name in master.key))
    return keys_only[0 if mirror.conflict == "first" else -1]


def identity(shape: Shape, row: Row) -> tuple[Any, ...]:
    """Return what identifies a target row: its key, or the lookup's key where it has no left side; a pair by both."""
    key = tuple(row[name] for name in shape.key)
    if shape.has_pairs:
        return ("pair", *key, *(row[name] for name in shape.right_key))
    if shape.right_key and all(part is None for part in key):
        return ("right", *(row[name] for name in shape.right_key))
    return ("left", *key)


def net_change(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Counter[str]:
    """Return how many rows a run must insert, update and delete between two targets given as identity -> row."""
    counts: Counter[str] = Counter(inserted=0, updated=0, deleted=0)
    for key in before.keys() | after.keys():
        if key not in before:
            counts["inserted"] += 1
        elif key not in after:
            counts["deleted"] += 1
        elif before[key] != after[key]:
            counts["updated"] += 1
    return counts
