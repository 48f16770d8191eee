"""Tell from logs and from footers of files what a run would read, for forecasts; no JVM."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from enrich.base.result import Extent
from enrich.delta.extents import read_sizes
from enrich.delta.stores import open_files
from enrich.delta.tables import actions, list_changed, open_log

if TYPE_CHECKING:
    from arro3.core import Table


def measure_near(uri: str, column: str, ends: tuple[int, int]) -> Extent:
    """Count the files that may have values of a column between two whole numbers, as the log tells it."""
    files = open_log(uri).get_add_actions(flatten=True)
    least, most = (_read_values(files, f"{end}.{column}") or [None] * files.num_rows for end in ("min", "max"))
    known = zip(read_sizes(files), least, most, strict=True)
    sizes = [size for size, low, high in known if None in (low, high) or (low <= ends[1] and high >= ends[0])]
    return Extent(len(sizes), sum(sizes))


def _read_values(files: Table, name: str) -> list[Any]:
    """Return one value a file, None where the log has none: whole numbers, decimals, and days since 1970."""
    import pyarrow as pa

    if name not in files.schema.names:
        return []
    values = pa.chunked_array(files.column(name))
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif not (pa.types.is_integer(values.type) or pa.types.is_decimal(values.type)):
        return []
    return list(values.to_pylist())


def find_share(uri: str, names: Collection[str]) -> float:
    """Return which part of a table's bytes some columns have, called as in its files, by the largest file's footer.

    It is all of them where that cannot be read.
    """
    files = open_log(uri).get_add_actions(flatten=True)
    sizes = read_sizes(files)
    path = files.column("path").to_pylist()[sizes.index(max(sizes))] if sizes else ""
    chunks = [(each["path_in_schema"], int(each["total_compressed_size"])) for each in _read_chunks(uri, path)]
    used = [size for name, size in chunks if any(name == known or name.startswith(f"{known}.") for known in names)]
    return sum(used) / sum(size for _, size in chunks) if chunks else 1.0


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


def measure_feed(uri: str, versions: Iterable[int]) -> Extent:
    """Count the files that tell what commits changed, each once; none where the log does not hold a commit."""
    told = {each["path"]: each.get("size") or 0 for version in versions for each in _list_told(uri, version)}
    return Extent(len(told), sum(told.values()))


def _list_told(uri: str, version: int) -> Iterable[dict[str, Any]]:
    """Return the files that tell what a commit changed, each once; OPTIMIZE changes nothing."""
    found = actions(uri, version) or []
    told = [each["cdc"] for each in found if "cdc" in each]
    return told or {file["path"]: file for _, file in list_changed(found)}.values()
