"""A key as a person writes it: ``u1``, ``country=DE,number=7``, or one ``NAME=VALUE`` for each column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from enrich.base.errors import ConfigError


def parse_key(text: str, columns: Sequence[str]) -> dict[str, str]:
    """Read a key of one text.

    A key of one column is the text as it stands, commas and equal signs included. A composite key is
    ``k1=v1,k2=v2`` in any order; a value may hold commas, as long as what follows none of them reads ``,k2=``.

    Args:
        text: What was written.
        columns: The key's columns.

    Returns:
        Column -> text.

    Raises:
        ConfigError: The text is no key of these columns, or can be read in two ways; it is not quoted.
    """
    if len(columns) == 1:
        return {columns[0]: text}
    names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
    found = list(re.finditer(f"(?:^|,)({names})=", text, re.IGNORECASE))
    named = [_find_column(each[1], columns) for each in found]
    if not found or found[0].start() != 0 or sorted(named) != sorted(columns):
        raise _refuse(columns)
    ends = [each.start() for each in found[1:]] + [len(text)]
    return {name: text[each.end() : end] for name, each, end in zip(named, found, ends, strict=True)}


def parse_parts(parts: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    """Read a key from one ``NAME=VALUE`` for each column; values may hold anything.

    Raises:
        ConfigError: A column is missing, unknown or given twice.
    """
    pairs = [part.partition("=") for part in parts]
    found = {_find_column(name, columns): value for name, sign, value in pairs if sign}
    if len(found) != len(parts) or sorted(found) != sorted(columns):
        raise _refuse(columns)
    return found


def key_of(key: str | Mapping[str, object] | Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    """Read a key in any form: one text, one ``NAME=VALUE`` for each column, or a mapping of column and value.

    Raises:
        ConfigError: It is no key of these columns.
    """
    if isinstance(key, str):
        return parse_key(key, columns)
    if isinstance(key, Mapping):
        found = {_find_column(str(name), columns): str(value) for name, value in key.items()}
        if len(found) != len(key) or sorted(found) != sorted(columns):
            raise _refuse(columns)
        return found
    return parse_parts(key, columns)


def names_all(key: str | Mapping[str, object] | Sequence[str], columns: Sequence[str]) -> bool:
    """Return whether a key names these columns and no others; a key of one text names none."""
    if isinstance(key, str):
        return False
    given = key if isinstance(key, Mapping) else [part.partition("=")[0] for part in key]
    return sorted(_find_column(str(name), columns) for name in given) == sorted(columns)


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
