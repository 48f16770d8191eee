"""Measure tables, their files and commits as logs tell it: how much, in what shape, what can be skipped; no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from enrich.base.result import Extent
from enrich.base.spec import quote
from enrich.delta.tables import actions, exists, open_log

if TYPE_CHECKING:
    from arro3.core import Table

    from enrich.project.models import Optimize

MEASURED, MEASURED_FIRST = "delta.dataSkippingStatsColumns", "delta.dataSkippingNumIndexedCols"
"""Which columns have statistics in the log; where there is no such list, how many of the first do."""
SMALL_FILE = 32 * 2**20  # bytes below which a file is put together with others
SMALL_TABLE = 8 * 2**20  # bytes up to which a MERGE writes files anew: deletion vectors take seven more Spark jobs


def measure_table(uri: str, below: int | None = None) -> Extent:
    """Count the files of a table, all or those of fewer bytes, and their bytes; none where there is no table yet."""
    every = read_sizes(open_log(uri).get_add_actions(flatten=True)) if exists(uri) else []
    sizes = [size for size in every if below is None or size < below]
    return Extent(len(sizes), sum(sizes))


def read_sizes(files: Table) -> list[int]:
    """Return the bytes of each file that a log has."""
    return [size or 0 for size in files.column("size_bytes").to_pylist()]


def measure_commit(uri: str, version: int) -> Extent:
    """Count the files that a commit wrote; none where the log does not hold the commit.

    A file that gets a deletion vector is removed and added again: only the vector was written. (Delta's protocol.)
    """
    found = actions(uri, version) or []
    removed = {each["remove"]["path"]: each["remove"].get("deletionVector") for each in found if "remove" in each}
    added = [each["add"] for each in found if "add" in each]
    files = [each["cdc"] for each in found if "cdc" in each] + [each for each in added if each["path"] not in removed]
    vectors = [each.get("deletionVector") or {} for each in added]
    written = [each for each in vectors if each.get("storageType") in ("u", "p") and each not in removed.values()]
    count = len(files) + len({each["pathOrInlineDv"] for each in written})
    return Extent(count, sum(each.get("size") or 0 for each in files) + sum(each["sizeInBytes"] for each in written))


def find_need(uri: str, limits: Optimize | None) -> str | None:
    """Return why a table's files should be put together after a commit, with the limit; None when they need not be."""
    if limits is None or not limits.after_commit:
        return None
    small = measure_table(uri, SMALL_FILE).files
    return f"{small} small files (small_files is {limits.small_files})" if small >= limits.small_files else None


def list_statistics(measured: Sequence[str]) -> dict[str, str]:
    """Return the property by which the log gets the least and the greatest values of these columns and of no other."""
    return {MEASURED: ",".join(map(quote, measured))} if measured else {MEASURED_FIRST: "0"}
