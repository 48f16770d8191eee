"""Find from which version on the change feed of a table is whole: read off its log, and asked of the storage."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlparse

from enrich.base.errors import RunFailed
from enrich.delta import stores, tables
from enrich.delta.tables import TableState, keeps_values

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


def _can_open(uri: str, version: int) -> bool:
    return tables.state_at(uri, version) is not None and tables.find_damage(uri, version) is None


def find_feed_start(
    table: TableState, stop: int = 0, *, readable: bool = True, used: Collection[str] | None = None
) -> int:
    """Return the first version, not before ``stop``, from which on the feed up to ``table``'s version is whole.

    A commit leads back to the one before it when the log holds it, the table recorded its changes, all columns kept
    their values (CHAR matters in the ``used`` ones), and the files in which it tells what it changed are still there.
    Rows and time of the version must be there too; those of ``stop`` itself only if it shall be ``readable``.
    """
    uri, version = table.uri, table.version
    missing: set[str] = set()
    whole = [version]
    while table.has_change_feed and version > stop:
        found = tables.actions(uri, version)
        if found is None:
            break
        gone = {path for path in list_files(found, "remove") if not _exist(uri, [path])}
        before = (missing - set(list_files(found, "add"))) | gone
        has_schema = any("metaData" in each for each in found)
        if has_schema and not _keeps_columns(uri, version, used):
            break
        # Where Delta's feed would say null, the snapshots at both sides are compared.
        if has_schema and tables.read_range(uri, (version - 1, version)).repartitioned:
            if missing or before or not (_can_open(uri, version - 1) and _can_open(uri, version)):
                break
        elif not _has_files(uri, found):
            break
        missing = before
        version -= 1
        if not missing:
            whole.append(version)
    if version == stop and not readable:
        return version
    has_rows = (each for each in sorted(whole) if _can_open(uri, each))
    return next((each for each in has_rows if tables.actions(uri, each) is not None), table.version)


def has_lost_changes(uri: str, consumed: int, latest: int) -> bool:
    """Return whether files or commits are gone in which the versions after ``consumed`` tell what they changed."""
    commits = (tables.actions(uri, version) for version in range(consumed + 1, latest + 1))
    return any(found is None or not _has_files(uri, found) for found in commits)


def _has_files(uri: str, found: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the files are there in which a commit tells what it changed."""
    recorded = list(list_files(found, "cdc"))
    changing = [each for each in found for kind in ("add", "remove") if each.get(kind, {}).get("dataChange")]
    return _exist(uri, recorded or [*list_files(changing, "add"), *list_files(changing, "remove")])


def _keeps_columns(uri: str, version: int, used: Collection[str] | None) -> bool:
    """Return whether the feed was on before a commit too, and all columns kept their values."""
    before, after = tables.state_at(uri, version - 1), tables.state_at(uri, version)
    if before is None or after is None or before.table_id != after.table_id:
        return False
    if not before.has_change_feed or not after.has_change_feed:
        return False
    kept = all(
        name in after.columns and keeps_values(kind, after.columns[name]) for name, kind in before.columns.items()
    )
    kept = kept and all(after.chars.get(name) == before.chars.get(name) for name in used or before.columns)
    return kept and all(there.items() <= after.layout[name].items() for name, there in before.layout.items())


def list_files(found: Iterable[Mapping[str, Any]], kind: str) -> Iterator[str]:
    """Yield the files of the actions of one kind, deletion vectors too."""
    for each in found:
        if kind in each:
            yield unquote(each[kind]["path"])
            vector = each[kind].get("deletionVector") or {}
            if vector.get("storageType") == "u":  # an optional prefix, and a UUID in Z85
                prefix, letters = vector["pathOrInlineDv"][:-20], vector["pathOrInlineDv"][-20:]
                name = f"deletion_vector_{uuid.UUID(bytes=base64.b85decode(letters.translate(_TO_B85)))}.bin"
                yield f"{prefix}/{name}" if prefix else name
            elif vector.get("storageType") == "p":  # a whole path, as clones have it
                yield unquote(vector["pathOrInlineDv"])


def _exist(uri: str, paths: Iterable[str]) -> bool:
    """Return whether files are there; those outside of the table's directory are taken to be."""
    inside = [path for path in paths if not urlparse(path).scheme and not path.startswith("/")]
    local = stores.find_local_path(uri)
    if local is not None or not inside:
        return local is None or all((local / path).exists() for path in inside)
    try:
        return all(int(each.type) != 0 for each in stores.open_files(uri).get_file_info(inside))
    except Exception as error:
        raise RunFailed(f"cannot read the files of {uri} ({type(error).__name__})", hint="check the storage") from error
