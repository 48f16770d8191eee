"""Single files and objects beside tables: commits of a log, copies for executors, reports.

A local path is opened as such; an object store with delta-rs, and where a write has a condition with obstore.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from enrich.base.errors import EnvironmentFault, RunFailed
from enrich.base.extras import STORES, require_extra
from enrich.base.failures import describe_unreadable
from enrich.base.stores import find_options

if TYPE_CHECKING:
    from deltalake.fs import DeltaStorageHandler

_PROBE = "conditional_writes"


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


def read_file(uri: str, name: str, size: int = -1) -> bytes | None:
    """Read a file below a directory, or its first bytes; None where there is none.

    Raises:
        EnvironmentFault: A permission is missing.
        RunFailed: The storage did not answer.
    """
    local = find_local_path(uri)
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
    """Put an object below a directory of an object store; it appears whole, over the one that was there.

    Args:
        uri: The directory.
        name: The object's path below it.
        content: A text, or the file that is copied.

    Raises:
        EnvironmentFault: The scheme has none, or the package that does it is not installed.
    """
    import obstore

    obstore.put(_require_store(uri), name, content.encode() if isinstance(content, str) else content)


def delete_object(uri: str, name: str) -> None:
    """Remove an object below a directory of an object store."""
    import obstore

    obstore.delete(_require_store(uri), name)


def _require_store(uri: str) -> Any:
    store = open_store(uri)
    if store is None:
        scheme = uri.partition(":")[0]
        raise EnvironmentFault(f"enrich cannot write files to {scheme}:", hint="let `state` in conf/ be another place")
    return store


def list_objects(uri: str, folder: str = "") -> list[str]:
    """Return the paths of what is below a directory of an object store, relative to it, marks of directories too.

    Args:
        uri: The directory.
        folder: Only what is below this folder of it.

    Raises:
        RunFailed: The storage did not answer.
    """
    from pyarrow.fs import FileSelector

    try:
        infos = open_files(uri).get_file_info_selector(FileSelector(folder, allow_not_found=True, recursive=True))
    except Exception as error:
        raise RunFailed(f"cannot list {uri} ({type(error).__name__})", hint="check the storage") from error
    return [info.path for info in infos]


def open_store(uri: str) -> Any:
    """Open a directory of an object store for writes with a condition; None where the scheme has none (``hdfs``).

    Raises:
        EnvironmentFault: The package that does it is not installed.
    """
    if not uri.startswith(("s3a://", "gs://", "abfs://", "abfss://")):
        return None
    require_extra(STORES)
    from obstore.store import from_url

    options = find_options(uri)
    plain = options.pop("aws_allow_http", None) == "true"
    return from_url(uri, config=options, client_options={"allow_http": True} if plain else None)  # type: ignore[call-overload]


def require_conditional_writes(uri: str) -> None:
    """Check that the store of a table refuses to write an object that exists, if it is asked to.

    A server that does not know conditions ignores them, and commits to the table would overwrite each other.

    Raises:
        EnvironmentFault: It does not, or it cannot be asked.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, NotSupportedError

    directory = f"{uri.rstrip('/').rpartition('/')[0]}/_enrich"
    store = open_store(directory)
    try:
        obstore.put(store, _PROBE, b"{}", mode="create")
        obstore.put(store, _PROBE, b"{}", mode="create")
    except AlreadyExistsError:
        return
    except (NotSupportedError, NotImplementedError):
        pass
    except Exception as error:
        raise EnvironmentFault(
            f"cannot write {directory}/{_PROBE} ({type(error).__name__})",
            hint="check the address, the credentials and their permissions",
        ) from error
    with suppress(Exception):
        obstore.delete(store, _PROBE)
    raise EnvironmentFault(
        f"the object store of {uri} does not know conditional writes (If-None-Match), so two runs could overwrite each"
        " other's commits",
        hint="use a server that has them",
    )
