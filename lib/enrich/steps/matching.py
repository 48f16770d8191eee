"""Which rows of its table a staged row matches, and between which keys the table is looked into for them."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as F

from enrich.base.spec import OPERATION, name_left_key, quote
from enrich.frames.columns import is_within
from enrich.frames.difference import Difference
from enrich.frames.identity import Identity
from enrich.storage import skipping, writes

_MATCHES = "__enrich_matches"


def match_rows(found: Difference, identity: Identity, uri: str) -> writes.Changed:
    """Return the staged rows and what they match in the table at ``uri``, below ``t``.

    Where rows may have copies, inserts match none: beside one there may be a ``D`` that takes all rows of its key.
    """
    if found.has_copies:
        rows = found.rows.withColumn(_MATCHES, F.col(OPERATION) != "I")
        return writes.Changed(rows, {**identity.of("t."), _MATCHES: F.lit(True)}, True, found.operations)
    changed = writes.Changed(found.rows, identity.of("t."), bool(identity.right), found.operations)
    if identity.right or not writes.touches_rows(found.operations):  # the left key may be null; an append reads nothing
        return changed
    names = zip(identity.left, name_left_key(len(identity.left)), strict=True)
    ranges = {column: found.ranges[name] for column, name in names if name in found.ranges}
    bounds = skipping.find_bounds(uri, ranges)
    return replace(changed, near=[is_within(F.col("t." + quote(column)), ends) for column, ends in bounds.items()])
