"""Measure tables, their files and commits as logs tell it: how much, in what shape, what can be skipped; no JVM."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from enrich.base.result import Extent
from enrich.base.spec import quote
from enrich.delta.stores import find_local_path, open_files
from enrich.delta.tables import actions, exists, open_log, read_history

if TYPE_CHECKING:
    from arro3.core import Table

    from enrich.base.spec import Range
    from enrich.project.models import Optimize

MEASURED, MEASURED_FIRST = "delta.dataSkippingStatsColumns", "delta.dataSkippingNumIndexedCols"
"""Which columns have statistics in the log; where there is no such list, how many of the first do."""
SMALL_FILE = 32 * 2**20
"""Bytes below which a file is put together with others."""
GONE = 0.05
"""Share of a file's rows that are gone from which on it is written anew, whatever its size; Delta's own."""
SMALL_TABLE = 8 * 2**20
"""Bytes of a table up to which a MERGE writes its files anew: deletion vectors take seven more Spark jobs."""
WORTH = 0.5
"""Share of a table's bytes from which on skipping is worth it: Spark compares all keys in other files with bounds."""

_NO_FILES = frozenset({"VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES"})
_EMAIL = re.compile(r"[^@\s]@[^@\s]+\.")
"""Delta cuts long texts, so the end of an address may be missing."""


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


def measure_shape(uri: str) -> Shape:
    """Measure a table's files; all is 0 where there is no table yet."""
    if not exists(uri):
        return Shape()
    files = open_log(uri).get_add_actions(flatten=True)
    sizes, told = _read_sizes(files), _read_records(files)
    small = [size for size in sizes if size < SMALL_FILE]
    return Shape(_sum(sizes), _sum(small), None if None in told else sum(told))


def measure_table(uri: str) -> Extent:
    """Count the files, and their bytes, that a table has at its latest version; none where there is no table yet."""
    return measure_shape(uri).whole


def _sum(sizes: Sequence[int]) -> Extent:
    return Extent(len(sizes), sum(sizes))


def _read_sizes(files: Table) -> list[int]:
    return [size or 0 for size in files.column("size_bytes").to_pylist()]


def _read_records(files: Table) -> list[Any]:
    """Return how many rows each file has, None where the log does not tell."""
    told = "num_records" in files.schema.names
    return list(files.column("num_records").to_pylist()) if told else [None] * files.num_rows


def measure_feed(uri: str, version: int) -> Extent:
    """Count the files that tell what a commit changed; nothing where the log does not hold the commit (any more)."""
    found = actions(uri, version) or []
    told = [each["cdc"] for each in found if "cdc" in each]
    told = told or [each[kind] for each in found for kind in ("add", "remove") if kind in each]
    return _sum([each.get("size") or 0 for each in told])


def measure_commit(uri: str, version: int) -> Extent:
    """Count the files that a commit wrote; nothing where the log does not hold the commit (any more).

    A commit that gives a deletion vector to a file removes the file and adds it again. It has written the vector, and
    not the file. (Delta's protocol, "Deletion Vectors".)
    """

    def name(action: Mapping[str, Any]) -> tuple[Any, ...]:  # several vectors may stand in one file
        vector = action.get("deletionVector") or {}
        return (vector.get("pathOrInlineDv"), vector.get("offset"))

    found = actions(uri, version) or []
    removed = {each["remove"]["path"]: each["remove"] for each in found if "remove" in each}
    added = [each["add"] for each in found if "add" in each]
    told = [each["cdc"] for each in found if "cdc" in each]
    told += [each for each in added if each["path"] not in removed]
    known = {name(each) for each in removed.values()}
    vectors = [each["deletionVector"] for each in added if each.get("deletionVector") and name(each) not in known]
    written = [each for each in vectors if each.get("storageType") in ("u", "p")]
    files = len(told) + len({each["pathOrInlineDv"] for each in written})
    return Extent(files, sum(each.get("size") or 0 for each in told) + sum(each["sizeInBytes"] for each in written))


def measure_files(uri: str, paths: Iterable[str]) -> Extent:
    """Count the files among paths in a table, and their bytes; directories, or nothing at all, do not count.

    The paths are relative to the table, or whole, as Delta or delta-rs list them.
    """
    local = find_local_path(uri)
    if local is not None:
        files = set()
        for path in paths:
            plain = path.removeprefix("file://").removeprefix("file:")
            places = (local / plain, local / unquote(plain))  # Delta writes some letters as escapes, and some not
            files.add(next((place for place in places if place.is_file()), None))
        return _sum([file.stat().st_size for file in files if file is not None])
    from pyarrow.fs import FileType, PyFileSystem

    place = uri.partition("://")[2]
    inside = {path.partition(place)[2].lstrip("/") if place in path else path for path in paths}
    infos = PyFileSystem(open_files(uri)).get_file_info(sorted(inside)) if inside else []
    return _sum([info.size or 0 for info in infos if info.type == FileType.File])


# --- Whether a table's files should be put in shape, and which of them that would be --------------------------------


def find_need(shape: Shape, rows: int | None, limits: Optimize) -> str | None:
    """Return why a table's files should be put in shape, with the limit; None when they need not be.

    How many rows the table has may not be known. In tables up to ``SMALL_TABLE`` rows that are gone cost nothing.
    """
    if shape.small.files >= limits.small_files:
        return f"{shape.small.files} small files (small_files is {limits.small_files})"
    if rows is None or not shape.records or shape.whole.bytes <= SMALL_TABLE:
        return None
    gone = max(0, shape.records - rows) / shape.records
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
    sizes = _read_sizes(files)
    if clustered:
        history = read_history(log)
        done = next((each for each in history if each.get("operation") not in _NO_FILES), {})
        is_done = done.get("operation") == "OPTIMIZE" and not anew and not awaits_clusters(history)
        return Extent() if is_done else _sum(sizes)
    vectors = (each for batch in log.deletion_vectors() for each in batch.to_struct_array().to_pylist())
    gone = {each["filepath"].rpartition("/")[2]: each["selection_vector"].count(False) for each in vectors}
    has_neighbours = sum(size < SMALL_FILE for size in sizes) > 1
    chosen = [
        size
        for path, size, rows in zip(files.column("path").to_pylist(), sizes, _read_records(files), strict=True)
        if (has_neighbours and size < SMALL_FILE) or (rows and gone.get(path.rpartition("/")[2], 0) / rows > GONE)
    ]
    return _sum(chosen)


# --- The least and the greatest values that a log has: of which columns, and which files they let a reader skip -----


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
        values = [value for value in files.column(name).to_pylist() if value is not None]
        if side in ("min", "max") and values:
            found[column] = found.get(column, False) or any(_EMAIL.search(str(value)) is not None for value in values)
    return found


def find_bounds(uri: str, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Find the nearest values around ranges of columns that a table's log has of its files anyway.

    A commit records the condition of its MERGE, and keys have no business there. But the least and greatest values of
    files are in the log, whatever is written. Between the two, a range is whole; so the condition matches the same
    rows, whoever has written to the table meanwhile. ``ranges``: top-level column -> what is looked for.

    Returns:
        Column -> bounds by which files are skipped, without the end that the log has no value for; none where few files
        are skipped, or the table is small.
    """
    if not ranges:
        return {}
    files = open_log(uri).get_add_actions(flatten=True)
    sizes = _read_sizes(files)
    if sum(sizes) <= SMALL_TABLE:
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
