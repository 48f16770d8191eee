"""Read and write single files and objects beside tables: commits of a log, copies for executors, reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from enrich.base.errors import EnvironmentFault, RunFailed
from enrich.base.failures import STORES, describe_unreadable, require_extra
from enrich.base.stores import find_options

if TYPE_CHECKING:
    from deltalake.fs import DeltaStorageHandler


def find_local_path(uri: str) -> Path | None:
    """Return the local path of ``uri``; None for object stores."""
    parsed = urlparse(uri)
    if parsed.scheme == "file":
        return Path(unquote(parsed.path))
    return Path(uri) if len(parsed.scheme) < 2 else None  # one letter is a drive of Windows


def open_files(uri: str) -> DeltaStorageHandler:
    """Open a directory of an object store."""
    from deltalake.fs import DeltaStorageHandler

    return DeltaStorageHandler(uri, options=find_options(uri))


def read_commit_file(uri: str, version: int, size: int = -1, kind: str = "json") -> bytes | None:
    """Read the file of a table's commit, or the note beside it (``crc``), or the first bytes; None where none is."""
    if version < 0:
        return None
    local, name = find_local_path(uri), f"_delta_log/{version:020d}.{kind}"
    try:
        if local is not None:
            with (local / name).open("rb") as file:
                return file.read(size)
        found: bytes = open_files(uri).open_input_file(name).read(None if size < 0 else size)
    except FileNotFoundError:
        return None
    except Exception as error:
        raise describe_unreadable(uri, error) from error
    return found


def write_object(uri: str, name: str, content: str | Path) -> None:
    """Put a text, or a copy of a file, below a directory of an object store; it appears whole, over what was there."""
    import obstore

    store = open_store(uri)
    if store is None:
        scheme = uri.partition(":")[0]
        raise EnvironmentFault(f"enrich cannot write files to {scheme}:", hint="let `state` in conf/ be another place")
    obstore.put(store, name, content.encode() if isinstance(content, str) else content)


def list_objects(uri: str, folder: str = "") -> list[str]:
    """Return the paths below a folder of a directory of an object store, relative to it, marks of directories too."""
    from pyarrow.fs import FileSelector

    try:
        infos = open_files(uri).get_file_info_selector(FileSelector(folder, allow_not_found=True, recursive=True))
    except Exception as error:
        raise RunFailed(f"cannot list {uri} ({type(error).__name__})", hint="check the storage") from error
    return [info.path for info in infos]


def open_store(uri: str) -> Any:
    """Open a directory of an object store for writes with a condition; None where the scheme has none (``hdfs``)."""
    if not uri.startswith(("s3a://", "gs://", "abfs://", "abfss://")):
        return None
    require_extra(STORES)
    from obstore.store import from_url

    options = find_options(uri)
    plain = options.pop("aws_allow_http", None) == "true"
    return from_url(uri, config=options, client_options={"allow_http": True} if plain else None)  # type: ignore[call-overload]
