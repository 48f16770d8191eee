"""Name tables, and the columns that Delta's commands add to those of a table; the case of a column does not count.

``tests/spark/test_taken_names.py`` asks Delta whether they are all, and none too many.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

# In a change feed, or in its files, beside the columns of the table.
FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp", "__is_cdc")
# A MERGE, and its reading of deletion vectors, adds these to the rows of the target: it fails where that has them.
MERGE_COLUMNS = (
    "_row_id_", "_file_name_", "_source_row_present_", "_target_row_present_", "_row_dropped_",
    "__delta_internal_is_row_deleted",
)  # fmt: skip
# A MERGE adds these only where it writes deletion vectors.
VECTOR_COLUMNS = ("_metadata", "filepath", "dvfilepath", "rowindexcol", "deletionvectorid")

# What a commit by position calls of Delta's ``commands``, by class, and no release promises.
POSITIONAL = {
    "DeletionVectorBitmapGenerator": ("buildRowIndexSetsForFilesMatchingCondition",),
    "DMLWithDeletionVectorsHelper": ("findFilesWithMatchingRows", "processUnmodifiedData"),
}

QUARANTINE_SUFFIX = "__quarantine"
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")


@dataclass(frozen=True)
class CatalogName:
    """A table that a catalog knows, by two or three parts without quotes: catalog, schema, table."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


Location = str | CatalogName  # an absolute path, a URI, or a catalog name


def find_quarantine(target: Location) -> Location:
    """Return where the quarantine of a target is: beside it, under a longer name."""
    if isinstance(target, CatalogName):
        return CatalogName((*target.parts[:-1], target.parts[-1] + QUARANTINE_SUFFIX))
    return target + QUARANTINE_SUFFIX


def identify(location: Location) -> str:
    """Return a text that is equal for two spellings of one place (links resolved, catalog names without case)."""
    if isinstance(location, CatalogName):
        return f"catalog:{str(location).lower().removeprefix('spark_catalog.')}"  # Spark's own goes without saying
    return location if SCHEME.match(location) else os.path.realpath(location)
