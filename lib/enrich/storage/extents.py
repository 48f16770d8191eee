"""How much tables hold, and how much commits added, as their logs say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from enrich.base.result import Extent
from enrich.storage.stores import find_local_path, open_files
from enrich.storage.tables import actions, exists, open_log


def measure_table(uri: str) -> Extent:
    """Count the files, and their bytes, that a table has at its latest version; none where there is no table yet."""
    if not exists(uri):
        return Extent()
    sizes = open_log(uri).get_add_actions(flatten=True).column("size_bytes").to_pylist()
    return Extent(len(sizes), sum(filter(None, sizes)))


def measure_feed(uri: str, version: int) -> Extent:
    """Count the files that tell what a commit changed; nothing where the log does not hold the commit (any more)."""
    found = actions(uri, version) or []
    told = [each["cdc"] for each in found if "cdc" in each]
    told = told or [each[kind] for each in found for kind in ("add", "remove") if kind in each]
    return Extent(len(told), sum(each.get("size") or 0 for each in told))


def measure_commit(uri: str, version: int) -> Extent:
    """Count the files that a commit wrote; nothing where the log does not hold the commit (any more).

    A commit that gives a deletion vector to a file removes the file and adds it again. It has written the vector, and
    not the file. (Delta's protocol, "Deletion Vectors".)
    """
    found = actions(uri, version) or []
    removed = {each["remove"]["path"]: each["remove"] for each in found if "remove" in each}
    added = [each["add"] for each in found if "add" in each]
    told = [each["cdc"] for each in found if "cdc" in each]
    told += [each for each in added if each["path"] not in removed]
    vectors = [each.get("deletionVector") or {} for each in added]
    known = {_name_vector(each.get("deletionVector") or {}) for each in removed.values()}
    written = [each for each in vectors if each.get("storageType") in ("u", "p") and _name_vector(each) not in known]
    files = len(told) + len({each["pathOrInlineDv"] for each in written})
    return Extent(files, sum(each.get("size") or 0 for each in told) + sum(each["sizeInBytes"] for each in written))


def _name_vector(vector: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells a deletion vector from others; several may stand in one file."""
    return (vector.get("pathOrInlineDv"), vector.get("offset"))


def measure_files(uri: str, paths: Iterable[str]) -> Extent:
    """Count the files among paths, and their bytes; paths that are directories, or nothing at all, do not count.

    Args:
        uri: The table that they are in.
        paths: Relative to it, or whole, as Delta or delta-rs list them.
    """
    sizes = dict(_find_files(uri, paths))
    return Extent(len(sizes), sum(sizes.values()))


def _find_files(uri: str, paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield where each path is that is a file, and its bytes."""
    local = find_local_path(uri)
    if local is not None:
        yield from ((str(file), file.stat().st_size) for path in paths if (file := _find_file(local, path)) is not None)
        return
    from pyarrow.fs import FileType, PyFileSystem

    place = uri.partition("://")[2]
    inside = {path.partition(place)[2].lstrip("/") if place in path else path for path in paths}
    infos = PyFileSystem(open_files(uri)).get_file_info(sorted(inside)) if inside else []
    yield from ((info.path, info.size or 0) for info in infos if info.type == FileType.File)


def _find_file(table: Path, path: str) -> Path | None:
    """Return the file that a path means; Delta writes some letters as escapes, and some not."""
    plain = path.removeprefix("file://").removeprefix("file:")
    return next((file for each in (plain, unquote(plain)) if (file := table / each).is_file()), None)
