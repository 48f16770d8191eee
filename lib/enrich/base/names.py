"""Names that Delta's commands give to columns of their own, beside those of a table; case does not count.

A source may have columns of these names, which are never read beside Delta's. ``tests/spark/test_taken_names.py`` asks
Delta whether they are all, and none too many.
"""

from __future__ import annotations

import re

FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp", "__is_cdc")
"""What stands in a change feed, or in its files, beside the columns of the table."""
MERGE_COLUMNS = (
    "_row_id_",
    "_file_name_",
    "_source_row_present_",
    "_target_row_present_",
    "_row_dropped_",
    "__delta_internal_is_row_deleted",
)
"""What a MERGE, and its reading of deletion vectors, adds to the rows of the target: it fails where this has them."""
VECTOR_COLUMNS = ("_metadata", "filepath", "dvfilepath", "rowindexcol", "deletionvectorid")
"""What a MERGE adds only where it writes deletion vectors."""

_NO_LETTER = re.compile(r"\W+", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def suggest_name(name: str) -> str:
    """Return a name that a column can have instead of one that is taken."""
    return f"source_{_NO_LETTER.sub('_', name).strip('_') or 'column'}"


def suggest_item(name: str, expression: str) -> str:
    """Return an item of ``select`` under which a target can have what would be its column ``name``."""
    return f"select: {{{suggest_name(name)}: {expression}}}"


def name_path(alias: str, column: str) -> str:
    """Return the expression of a source's column."""
    return f"{alias}.{column}" if _PLAIN.fullmatch(column) else f"{alias}.`{column.replace('`', '``')}`"
