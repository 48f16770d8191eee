"""A key as a person writes it: ``u1``, ``country=DE,number=7``, or one ``NAME=VALUE`` for each column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from enrich.base.errors import ConfigError

KeyText = object
"""One text, a mapping of column and value, one ``NAME=VALUE`` for each column, or the values in the columns' order.

A value that is no text is taken as the text that a cast makes a value of its type of; a single one is a key as well.
"""


def key_of(key: KeyText, columns: Sequence[str]) -> dict[str, str]:
    """Return column -> text of a key in any form.

    For a key of one column, one text is the value as it stands, commas and equal signs included. For a composite key
    it is ``k1=v1,k2=v2`` in any order; a value may hold commas, as long as what follows none of them reads ``,k2=``.

    Raises:
        ConfigError: It is no key of these columns, or can be read in two ways; it is not quoted.
    """
    if not isinstance(key, str | Mapping | Sequence) or isinstance(key, bytes):
        key = [key]
    if isinstance(key, Sequence) and not isinstance(key, str) and not _is_named(key):
        if len(key) != len(columns):
            raise _refuse(columns)
        return {column: _write_value(value) for column, value in zip(columns, key, strict=True)}
    if isinstance(key, str):
        if len(columns) == 1:
            return {columns[0]: key}
        names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
        before, *rest = re.split(f"(?:^|,)({names})=", key, flags=re.IGNORECASE)
        pairs = list(zip(rest[::2], rest[1::2], strict=True))
        is_whole = not before
    elif isinstance(key, Mapping):
        pairs, is_whole = [(str(name), _write_value(value)) for name, value in key.items()], True
    else:
        parts = [str(part).partition("=") for part in key]
        pairs, is_whole = [(name, value) for name, _, value in parts], all(sign for _, sign, _ in parts)
    found = {_find_column(name, columns): value for name, value in pairs}
    if not is_whole or len(found) != len(pairs) or sorted(found) != sorted(columns):
        raise _refuse(columns)
    return found


def names_all(key: KeyText, columns: Sequence[str]) -> bool:
    """Return whether a key names these columns and no others; a key of one text names none."""
    if isinstance(key, str) or not isinstance(key, Mapping | Sequence) or not _is_named(key):
        return False
    given = key if isinstance(key, Mapping) else [str(part).partition("=")[0] for part in key]
    return sorted(_find_column(str(name), columns) for name in given) == sorted(columns)


def _is_named(key: Mapping[str, object] | Sequence[object]) -> bool:
    """Return whether a key says which value is of which column."""
    return isinstance(key, Mapping) or any(isinstance(part, str) and "=" in part for part in key)


def _write_value(value: object) -> str:
    """Return a value as ``enrich why`` reads it.

    Raises:
        ConfigError: It is null, which is no part of a key.
    """
    if value is None:
        raise ConfigError("a part of the key is None", hint="a key has no nulls; rows with one are in the quarantine")
    return value.hex() if isinstance(value, bytes) else str(value)


def _find_column(name: str, columns: Sequence[str]) -> str:
    """Return the column that a name means: exactly, else but for case; the name itself when there is none."""
    if name in columns:
        return name
    return next((each for each in columns if each.lower() == name.lower()), name)


def _refuse(columns: Sequence[str]) -> ConfigError:
    example = ",".join(f"{name}=..." for name in columns)
    options = " ".join(f"--key {name}=..." for name in columns)
    if len(columns) == 1:
        return ConfigError(f"the key has the wrong form; its column is {columns[0]}", hint=f"write {options}")
    return ConfigError(
        f"the key has the wrong form; its columns are {', '.join(columns)}",
        hint=f"write {example}, or, if the values contain commas or equal signs, {options}",
    )
