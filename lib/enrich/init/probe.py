"""Look at the first rows of tables, without Spark, to guess which columns are keys and which refer to them.

No value leaves this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from enrich.base import hints
from enrich.base.errors import RunFailed
from enrich.delta.tables import open_log, query_rows, quote_name

SAMPLED_ROWS = 100_000
SAMPLED_VALUES = 10_000


class Uniqueness(NamedTuple):
    """How unique columns are: the rows that were looked at, and the different values without a null among them."""

    rows: int
    keys: int

    @property
    def is_key(self) -> bool:
        """True when no two of the rows have one value, and none has a null."""
        return self.keys == self.rows


class Matches(NamedTuple):
    """How many different values of a reference there are, and how many of them are keys of another table."""

    values: int
    found: int


def count_rows(uri: str) -> int:
    """Return how many rows a table has."""
    return _count("SELECT count(*) AS rows FROM this", this=uri)["rows"]


def measure_uniqueness(uri: str, columns: Sequence[str]) -> Uniqueness:
    """Count the different values of one or several columns in the first rows of a table."""
    names = [quote_name(column) for column in columns]
    listed, filled = ", ".join(names), " AND ".join(f"{name} IS NOT NULL" for name in names)
    value = names[0] if len(names) == 1 else f"struct({listed})"
    found = _count(
        f"SELECT count(*) AS rows, count(DISTINCT CASE WHEN {filled} THEN {value} END) AS keys"  # noqa: S608
        f" FROM (SELECT {listed} FROM this LIMIT {SAMPLED_ROWS})",
        this=uri,
    )
    return Uniqueness(**found)


def measure_matches(
    uri: str, column: str, lookup: tuple[str, str], *, is_list: bool = False, field: str | None = None
) -> Matches:
    """Count how many of the first values of a column, or in its lists, are keys of a lookup, a place and its key."""
    name, (place, key) = quote_name(column), lookup
    reference = f"unnest({name})" if is_list else name
    value = "r" if field is None else "r['" + field.replace("'", "''") + "']"
    statement = (
        "SELECT count(DISTINCT r) AS values, count(DISTINCT CASE WHEN k IS NOT NULL THEN r END) AS found"  # noqa: S608
        f" FROM (SELECT DISTINCT r FROM (SELECT {value} AS r FROM"
        f" (SELECT {reference} AS r FROM a LIMIT {SAMPLED_ROWS}))"
        f" WHERE r IS NOT NULL LIMIT {SAMPLED_VALUES}) LEFT JOIN (SELECT {quote_name(key)} AS k FROM b) ON r = k"
    )
    return Matches(**_count(statement, a=uri, b=place))


def _count(statement: str, **places: str) -> dict[str, int]:
    """Return the row of a statement over tables, by the names that it has for them."""
    logs = {name: open_log(uri) for name, uri in places.items()}
    try:
        return query_rows(statement, **logs)[0]
    except Exception as error:  # noqa: BLE001 - whatever delta-rs raises
        raise RunFailed(
            f"the rows of {next(iter(places.values()))} cannot be read without Spark ({type(error).__name__})",
            hint=f"write the job file by hand; `{hints.init('examples')}` writes some into a directory",
        ) from None
