"""Measure tables, their files and commits as logs tell it: how much, in what shape, what can be skipped; no JVM."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from enrich.base.result import Extent
from enrich.base.spec import quote
from enrich.delta.stores import open_files
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
    sizes = _read_sizes(open_log(uri).get_add_actions(flatten=True)) if exists(uri) else []
    return _sum([size for size in sizes if below is None or size < below])


def _sum(sizes: Sequence[int]) -> Extent:
    return Extent(len(sizes), sum(sizes))


def measure_near(uri: str, column: str, ends: tuple[int, int]) -> Extent:
    """Count the files that may have values of a column between two whole numbers, as the log tells it."""
    files = open_log(uri).get_add_actions(flatten=True)
    least, most = (_read_values(files, f"{end}.{column}") or [None] * files.num_rows for end in ("min", "max"))
    known = zip(_read_sizes(files), least, most, strict=True)
    return _sum([size for size, low, high in known if None in (low, high) or (low <= ends[1] and high >= ends[0])])


def find_share(uri: str, names: Collection[str]) -> float:
    """Return which part of a table's bytes some columns have, called as in its files, by the largest file's footer.

    It is all of them where that cannot be read.
    """
    files = open_log(uri).get_add_actions(flatten=True)
    sizes, used, whole = _read_sizes(files), 0, 0
    path = files.column("path").to_pylist()[sizes.index(max(sizes))] if sizes else ""
    for each in _read_chunks(uri, path):
        name, size = each["path_in_schema"], int(each["total_compressed_size"])
        whole += size
        used += size if any(name == known or name.startswith(f"{known}.") for known in names) else 0
    return used / whole if whole else 1.0


def find_ends(uri: str, versions: Iterable[int], column: str) -> tuple[int, int] | None:
    """Return the least and the greatest value of a column in the files that tell what commits changed.

    None where nobody knows, or where these are no whole numbers.
    """
    found: list[Any] = []
    for each in (file for version in versions for file in _list_told(uri, version)):
        told = json.loads(each.get("stats") or "{}")
        ends = [told.get(side, {}).get(column) for side in ("minValues", "maxValues")]
        if None in ends:
            chunks = [chunk for chunk in _read_chunks(uri, each["path"]) if chunk["path_in_schema"] == column]
            ends = [(chunk["statistics"] or {}).get(side) for chunk in chunks for side in ("min", "max")] or [None]
        found += ends
    return (min(found), max(found)) if found and all(type(each) is int for each in found) else None


def _read_chunks(uri: str, path: str) -> list[dict[str, Any]]:
    """Return what the footer of a file says of its columns; nothing where it cannot be read."""
    from pyarrow.fs import PyFileSystem
    from pyarrow.parquet import read_metadata

    try:
        with PyFileSystem(open_files(uri)).open_input_file(unquote(path)) as file:
            groups = read_metadata(file).to_dict()["row_groups"]
    except Exception:  # noqa: BLE001 - whatever the storage raises, or a file that is no Parquet; it is a forecast
        return []
    return [column for group in groups for column in group["columns"]]


def _read_sizes(files: Table) -> list[int]:
    return [size or 0 for size in files.column("size_bytes").to_pylist()]


def measure_feed(uri: str, version: int) -> Extent:
    """Count the files that tell what a commit changed; none where the log does not hold the commit."""
    return _sum([each.get("size") or 0 for each in _list_told(uri, version)])


def _list_told(uri: str, version: int) -> Iterable[dict[str, Any]]:
    """Return the files that tell what a commit changed, each once; OPTIMIZE changes nothing."""
    found = actions(uri, version) or []
    told = [each["cdc"] for each in found if "cdc" in each]
    changing = [each[kind] for each in found for kind in ("add", "remove") if each.get(kind, {}).get("dataChange")]
    return told or {each["path"]: each for each in changing}.values()


def only_brings(uri: str, versions: Iterable[int]) -> bool:
    """Tell whether commits have only added files of rows; not where the log does not hold them."""
    found = [each for version in versions for each in actions(uri, version) or [{"cdc": {}}]]
    return not any("cdc" in each or each.get("remove", {}).get("dataChange") for each in found)


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


def find_need(uri: str, limits: Optimize) -> str | None:
    """Return why a table's files should be put together, with the limit; None when they need not be."""
    small = measure_table(uri, SMALL_FILE).files
    return f"{small} small files (small_files is {limits.small_files})" if small >= limits.small_files else None


def list_statistics(measured: Sequence[str]) -> dict[str, str]:
    """Return the property by which the log gets the least and the greatest values of these columns and of no other."""
    return {MEASURED: ",".join(map(quote, measured))} if measured else {MEASURED_FIRST: "0"}


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
