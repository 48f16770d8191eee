"""Where tables and directories are: from a reference in a file to an absolute path, a URI or a catalog name.

Before: ``accounts`` | ``main.crm.accounts`` | ``./extra/accounts`` | ``s3a://bucket/accounts``
After:  ``/project/lake/accounts`` | ``CatalogName(("main", "crm", "accounts"))`` | ``/project/extra/accounts`` | as is
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from enrich.base.errors import ConfigError, show_text
from enrich.base.names import SCHEME, CatalogName, Location

SCHEMES = ("abfs", "abfss", "file", "gs", "hdfs", "s3a")
"""Schemes that a plain Spark (Hadoop's connectors) and delta-rs 1.6 both know.

Tried with deltalake 1.6.6: it also takes ``s3``, ``az``, ``adl`` and ``viewfs``, for which Hadoop has no connector by
that name or delta-rs no complete one; it takes neither ``s3n`` nor ``wasb``.
"""

_SPELLING = {"s3": "s3a", "s3n": "s3a", "gcs": "gs", "az": "abfss", "azure": "abfss", "adl": "abfss", "wasbs": "abfss"}
_NAME = re.compile(r"\w[\w-]*")
_TIME_TRAVEL = re.compile(r"@(?:v\d+|\d{17})/?$")
_LONGEST = 255
"""Bytes that a file system gives to a name."""
_FORBIDDEN = re.compile(r"[*?\[\]{}#%\\|^\x00-\x1f\x7f]")
_UNREADABLE = re.compile(r"[\[\]|^\\\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}")
"""What delta-rs 1.6 cannot open below a directory of that name; other letters do no harm there."""


def resolve_directory(text: str, base: Path) -> str:
    """Return the absolute path or URI of a directory that a file of ``conf/`` names (``lake``, ``state``).

    Args:
        text: A path, relative to ``base`` or absolute, or a URI.
        base: The project directory.

    Raises:
        ConfigError: The text is no path or its scheme is not known. The message does not repeat the text.
    """
    if not text.strip():
        raise ConfigError("it is empty; give a directory, such as ./lake")
    if text.startswith("~"):
        raise ConfigError("'~' is not expanded; write ${HOME} instead")
    if SCHEME.match(text):
        return _normalise_uri(text)
    if ":" in text.split("/", 1)[0]:
        raise ConfigError("it is neither a path nor a URI; a path is written ./x or /x, a URI scheme://bucket/x")
    _check_characters(text)
    return _require_readable(os.path.normpath(base / text))


def parse_catalog_schema(text: str) -> tuple[str, ...]:
    """Return the parts of the schema that ``catalog`` names.

    Raises:
        ConfigError: The text is not one or two names with a dot between them.
    """
    parts = tuple(text.split("."))
    if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise ConfigError("it must be a schema of a catalog, written catalog.schema or schema")
    return parts


def locate(reference: str, base: Path, lake: str | None, schema: tuple[str, ...] | None) -> Location:
    """Return where the table of a reference is.

    Args:
        reference: A bare name, a catalog name, or a path or URI.
        base: The project directory.
        lake: Absolute path or URI that bare names stand below, or None with a catalog.
        schema: The parts of the catalog schema that bare names stand in, or None with a lake.

    Raises:
        ConfigError: The reference is none of them, or holds ``..``.
    """
    named = f"table reference {reference!r}"
    if ".." in re.split(r"[/\\]", reference):
        raise ConfigError(f"{named} must not contain '..'; give the path from the root or the project")
    if match := SCHEME.match(reference):
        return _normalise_uri(reference, f"scheme {match.group(1)!r}")
    if reference.startswith(("/", "./")):
        _check_characters(reference)
        return _require_readable(_refuse_root(os.path.normpath(base / reference)))
    if "/" in reference:
        raise ConfigError(f"{named} is not a name; write ./{show_text(reference)} for a path")
    parts = tuple(reference.split("."))
    if not all(_NAME.fullmatch(part) for part in parts):
        if "${" in reference:
            raise ConfigError(f"{named}: variables are read in conf files only")
        raise ConfigError(
            f"{named} is not a table name (letters, digits, '_', '-', catalog names with dots);"
            " a path is written ./x, /x or scheme://bucket/x"
        )
    if len(parts) > 3:
        raise ConfigError(f"{named} has {len(parts)} parts; catalog.schema.table is the longest")
    check_lengths(parts)
    if len(parts) > 1:
        return CatalogName(parts)
    if schema is not None:
        return CatalogName((*schema, reference))
    return f"{(lake or str(base)).rstrip('/')}/{reference}"


def _normalise_uri(text: str, shown: str | None = None) -> str:
    """Return a URI in one spelling: scheme in lower case, no slash at the end, ``file:`` as a path.

    Messages hold no part of the URI but ``shown``: it may come from a variable or hold a password.
    """
    match = SCHEME.match(text)
    scheme = match.group(1).lower() if match else ""
    if scheme not in SCHEMES:
        known = ", ".join(SCHEMES)
        hint = f"; write {_SPELLING[scheme]}://" if scheme in _SPELLING else ""
        raise ConfigError(f"{shown or 'its scheme'} is not one that Spark and delta-rs both know ({known}){hint}")
    rest = text[len(scheme) + 1 :]
    _check_characters(rest)
    if ".." in rest.split("/"):
        raise ConfigError("a URI must not contain '..'")
    if scheme == "file":
        if rest.startswith("//") and not rest.startswith("///"):
            raise ConfigError("a file: URI names no host; write file:///x or /x")
        return _refuse_root(os.path.normpath("/" + rest.lstrip("/")))
    authority, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", "")
    if not authority:
        raise ConfigError(f"a URI names its bucket, container or host: {scheme}://name/path")
    if ":" in authority.partition("@")[0] and "@" in authority:
        raise ConfigError(
            "a URI must not contain a user and a password; give credentials by Spark settings or environment"
        )
    segments = [segment for segment in path.split("/") if segment not in ("", ".")]
    return "/".join([f"{scheme}://{authority}", *segments])


def _check_characters(text: str) -> None:
    """Refuse what Spark or delta-rs read as something else than a name."""
    if bad := _FORBIDDEN.search(text):
        raise ConfigError(f"a path must not contain {bad.group()!r}")
    if _TIME_TRAVEL.search(text):
        raise ConfigError("a path must not end in '@v<number>' or '@<time>': Delta reads that as a version")
    check_lengths(text.split("/"))


def _require_readable(path: str) -> str:
    """Return a path, unless it leads through a directory that delta-rs cannot open tables in.

    A file names such a directory by chance only: the project stands in it, or a link leads there.
    """
    for each in (path, os.path.realpath(path)):
        if bad := _UNREADABLE.search(each):
            raise ConfigError(
                f"tables cannot be below {show_text(each)!r}: the library that reads their logs cannot open a directory"
                f" with {bad.group()!r} in its name; rename that directory, or give one elsewhere"
            )
    return path


def check_lengths(names: Iterable[str], suffix: str = "") -> None:
    """Refuse names that no file system takes, ``suffix`` added to them; the length says enough of such a name."""
    for name in names:
        if (length := len((name + suffix).encode())) > _LONGEST:
            longer = f" with the {suffix!r} of its quarantine" if suffix else ""
            raise ConfigError(f"the name of a table or directory has {length} bytes{longer}, of {_LONGEST} possible")


def _refuse_root(path: str) -> str:
    if path.strip("/") == "":
        raise ConfigError("a table cannot be the root directory")
    return path
