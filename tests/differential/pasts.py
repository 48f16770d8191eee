"""First reference for histories: a walk through all snapshots of a table, in plain Python, from docs/semantics.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from differential.compare import canonical_row
from differential.model import key_of, keyed
from differential.spec import Row, Shape, World, list_tracked, target_types

Snapshot = tuple[int, Sequence[Row]]
"""A commit's time, in milliseconds since 1970, and the table's rows after it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def tell_past(world: World, shape: Shape, snapshots: Sequence[Snapshot]) -> list[Row]:
    """Return the target of a history over the snapshots of all versions of its source."""
    assert shape.past is not None
    table, past = world.table(shape.source), shape.past
    tracked, types = list_tracked(table, past), target_types(world, shape)
    maps = frozenset(name for name in tracked if pa.types.is_map(types[name]))
    opened: dict[Any, tuple[Any, Row]] = {}
    found: list[Row] = []
    for at, rows in snapshots:
        moment = _EPOCH + timedelta(milliseconds=at)
        there = keyed(table, rows)
        images = {key: canonical_row(row, tracked, maps) for key, row in there.items()}
        ended = [key for key, (image, _) in opened.items() if images.get(key) != image]
        found += [{**opened.pop(key)[1], past.valid_to: moment} for key in ended]
        if past.on_delete == "erase":
            found = [row for row in found if key_of(row, table.key) in there]
        for key, row in there.items():
            if key not in opened:
                shown = {name: row[name] for name in (*table.key, *tracked)}
                opened[key] = images[key], {**shown, past.valid_from: moment, past.valid_to: None}
    found += [row for _, row in opened.values()]
    return [{name: row[name] for name in types} for row in found]
