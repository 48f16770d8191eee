"""A key as a person writes it: ``u1``, ``country=DE,number=7``, or one ``NAME=VALUE`` for each column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from enrich.base.errors import ConfigError

KeyText = str | Mapping[str, object] | Sequence[str]
"""One text, a mapping of column and value, or one ``NAME=VALUE`` for each column."""


def key_of(key: KeyText, columns: Sequence[str]) -> dict[str, str]:
    """Return column -> text of a key in any form.

    For a key of one column, one text is the value as it stands, commas and equal signs included. For a composite key
    it is ``k1=v1,k2=v2`` in any order; a value may hold commas, as long as what follows none of them reads ``,k2=``.

    Raises:
        ConfigError: It is no key of these columns, or can be read in two ways; it is not quoted.
    """
    if isinstance(key, str):
        if len(columns) == 1:
            return {columns[0]: key}
        names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
        before, *rest = re.split(f"(?:^|,)({names})=", key, flags=re.IGNORECASE)
        pairs = list(zip(rest[::2], rest[1::2], strict=True))
        is_whole = not before
    elif isinstance(key, Mapping):
        pairs, is_whole = [(str(name), str(value)) for name, value in key.items()], True
    else:
        parts = [part.partition("=") for part in key]
        pairs, is_whole = [(name, value) for name, _, value in parts], all(sign for _, sign, _ in parts)
    found = {_find_column(name, columns): value for name, value in pairs}
    if not is_whole or len(found) != len(pairs) or sorted(found) != sorted(columns):
        raise _refuse(columns)
    return found


def names_all(key: KeyText, columns: Sequence[str]) -> bool:
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
