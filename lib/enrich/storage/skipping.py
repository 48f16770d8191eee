"""Between which values of its log a table is looked into: files with none of them are not read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from enrich.storage import shape
from enrich.storage.tables import open_log

if TYPE_CHECKING:
    from arro3.core import Table

    from enrich.base.spec import Range

WORTH = 0.5
"""Share of a table's bytes from which on skipping is worth it: Spark compares all keys in other files with bounds."""


def find_bounds(uri: str, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Find the nearest values around ranges of columns that a table's log has of its files anyway.

    A commit records the condition of its MERGE, and keys have no business there. But the least and greatest values of
    files are in the log, whatever is written. Between the two, a range is whole; so the condition matches the same
    rows, whoever has written to the table meanwhile.

    Args:
        uri: The table.
        ranges: Top-level column -> the least and the greatest value that is looked for.

    Returns:
        Column -> bounds by which files are skipped, without the end that the log has no value for; none where few files
        are skipped, or the table is small.
    """
    if not ranges:
        return {}
    files = open_log(uri).get_add_actions(flatten=True)
    sizes = [size or 0 for size in files.column("size_bytes").to_pylist()]
    if sum(sizes) <= shape.SMALL_TABLE:
        return {}
    found: dict[str, Range] = {}
    skipped: set[int] = set()
    for column, wanted in ranges.items():
        least, most = (_read_values(files, f"{end}.{column}") for end in ("min", "max"))
        known = [value for value in (*least, *most) if value is not None]
        lower = max((value for value in known if value <= wanted.least), default=None)
        upper = min((value for value in known if value >= wanted.most), default=None)
        below = {i for i, value in enumerate(most) if lower is not None and value is not None and value < lower}
        above = {i for i, value in enumerate(least) if upper is not None and value is not None and value > upper}
        if below or above:
            found[column] = replace(wanted, least=lower, most=upper)
        skipped |= below | above
    return found if sum(sizes[i] for i in skipped) >= WORTH * sum(sizes) else {}


def _read_values(files: Table, name: str) -> list[Any]:
    """Return one value a file, None where the log has none: whole numbers, decimals, and days since 1970."""
    import pyarrow as pa

    if name not in files.schema.names:
        return []
    values = pa.chunked_array(files.column(name))
    kind = values.type
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        return []
    return list(values.to_pylist())
