"""In what shape a table's files are: how many are small, and how much of them nobody reads; from its log, no JVM."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from enrich.base.result import Extent
from enrich.base.spec import quote
from enrich.storage.tables import exists, open_log, read_history

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from enrich.config.models import Optimize

MEASURED, MEASURED_FIRST = "delta.dataSkippingStatsColumns", "delta.dataSkippingNumIndexedCols"
"""Which columns have statistics in the log; where there is no such list, how many of the first do."""

_NO_FILES = frozenset({"VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES"})

_ENDS = ("min", "max")
_EMAIL = re.compile(r"[^@\s]@[^@\s]+\.")
"""Delta cuts long texts, so the end of an address may be missing."""

SMALL_FILE = 32 * 2**20
"""Bytes below which a file is put together with others."""

GONE = 0.05
"""Share of a file's rows that are gone from which on it is written anew, whatever its size; Delta's own."""

SMALL_TABLE = 8 * 2**20
"""Bytes of a table up to which a MERGE writes its files anew: deletion vectors take seven more Spark jobs."""


@dataclass(frozen=True)
class Shape:
    """The files of a table at its latest version.

    Attributes:
        whole: All files.
        small: Those below ``SMALL_FILE``.
        records: Rows in the files, those that deletion vectors mark among them; None where a file does not tell.
    """

    whole: Extent = field(default_factory=Extent)
    small: Extent = field(default_factory=Extent)
    records: int | None = 0

    def compute_gone(self, rows: int) -> float:
        """Return which share of the rows in the files is gone, when the table has ``rows`` rows; 0 when unknown."""
        return max(0, self.records - rows) / self.records if self.records else 0.0


def measure_shape(uri: str) -> Shape:
    """Measure a table's files; all is 0 where there is no table yet."""
    if not exists(uri):
        return Shape()
    files = open_log(uri).get_add_actions(flatten=True)
    sizes = [size or 0 for size in files.column("size_bytes").to_pylist()]
    small = [size for size in sizes if size < SMALL_FILE]
    told = files.column("num_records").to_pylist() if "num_records" in files.schema.names else [None] * len(sizes)
    records = None if None in told else sum(told)
    return Shape(Extent(len(sizes), sum(sizes)), Extent(len(small), sum(small)), records)


def find_need(shape: Shape, rows: int | None, limits: Optimize) -> str | None:
    """Return why a table's files should be put in shape, with the limit; None when they need not be.

    Args:
        shape: The table's files.
        rows: How many rows the table has; None when that is not known.
        limits: From when on it is worth it. In tables up to ``SMALL_TABLE`` rows that are gone cost nothing.
    """
    if shape.small.files >= limits.small_files:
        return f"{shape.small.files} small files (small_files is {limits.small_files})"
    gone = shape.compute_gone(rows) if rows is not None and shape.whole.bytes > SMALL_TABLE else 0.0
    if gone >= limits.deleted_rows:
        return f"{gone:.0%} of the rows in its files are gone (deleted_rows is {limits.deleted_rows})"
    return None


def awaits_clusters(history: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether files may be clustered by other columns than the table is now: OPTIMIZE passes these over.

    True after CLUSTER BY, until an OPTIMIZE FULL has written them anew. What the log has forgotten is long ago.
    """
    for entry in history:
        how = entry.get("operationParameters") or {}
        if entry.get("operation") == "OPTIMIZE" and str(how.get("isFull")).lower() == "true":
            return False
        if entry.get("operation") == "CLUSTER BY":
            return bool(how.get("newClusteringColumns"))
    return False


def foresee_compaction(uri: str, *, clustered: bool, anew: bool = False) -> Extent:
    """Measure the files that OPTIMIZE would write anew; of a clustered table, at most.

    Only Delta knows which files of a clustered table are clustered. None is, unless OPTIMIZE came last; with ``anew``,
    as the columns are others now, none is in any case.
    """
    log = open_log(uri)
    files = log.get_add_actions(flatten=True)
    names, sizes = files.column("path").to_pylist(), files.column("size_bytes").to_pylist()
    if clustered:
        history = read_history(log)
        done = next((each for each in history if each.get("operation") not in _NO_FILES), {})
        is_done = done.get("operation") == "OPTIMIZE" and not anew and not awaits_clusters(history)
        return Extent() if is_done else Extent(len(sizes), sum(sizes))
    told = files.column("num_records").to_pylist() if "num_records" in files.schema.names else [None] * len(sizes)
    gone = _count_gone(log)
    small = {name for name, size in zip(names, sizes, strict=True) if size < SMALL_FILE}
    chosen = small if len(small) > 1 else set()
    for name, rows in zip(names, told, strict=True):
        if rows and gone.get(name.rpartition("/")[2], 0) / rows > GONE:
            chosen = chosen | {name}
    found = [size for name, size in zip(names, sizes, strict=True) if name in chosen]
    return Extent(len(found), sum(found))


def _count_gone(log: DeltaTable) -> dict[str, int]:
    """Return how many rows the deletion vectors of a table mark, by the name of the file."""
    found: dict[str, int] = {}
    for batch in log.deletion_vectors():
        for each in batch.to_struct_array().to_pylist():
            found[each["filepath"].rpartition("/")[2]] = sum(not stays for stays in each["selection_vector"])
    return found


def list_statistics(measured: Sequence[str]) -> dict[str, str]:
    """Return the property by which the log gets the least and the greatest values of these columns and of no other.

    Without columns, this holds only where the table has no list of them.
    """
    return {MEASURED: ",".join(map(quote, measured))} if measured else {MEASURED_FIRST: "0"}


def find_measured_columns(uri: str) -> dict[str, bool]:
    """Return the top-level columns of which a table's log has the smallest and greatest values.

    Returns:
        Column -> whether such a value looks like an e-mail address. No value leaves this function.
    """
    files = open_log(uri).get_add_actions(flatten=True)
    found: dict[str, bool] = {}
    for name in files.schema.names:
        side, _, column = name.partition(".")
        values = [value for value in files.column(name).to_pylist() if value is not None] if side in _ENDS else []
        if values:
            found[column] = found.get(column, False) or any(_EMAIL.search(str(value)) is not None for value in values)
    return found
