"""Stage the rows that are kept out of the target, as the quarantine table holds them.

The quarantine is the function of the pinned sources that the target is, for the rows that the target may not have: a
row that passes again leaves it, a row that is deleted at its source disappears from it, nothing is appended twice.

Rows with a whole key are told apart by the target's key. Rows of the driving source that have a null in their key have
nothing to be told apart by but their content: as a multiset, they are exactly those of the pinned snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import DataType as SparkType

from enrich.base.spec import COPIES, FAILED_COLUMN, KEY_NOT_NULL, quote
from enrich.frames.columns import make_comparable
from enrich.frames.difference import Identity

_CONTENT = "__enrich_content"
_EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
"""How JSON tells all values apart: by default it cuts timestamps to milliseconds and leaves out nulls."""


@dataclass(frozen=True)
class QuarantineIdentity(Identity):
    """How the rows of a quarantine are told apart: by the target's key, or by their content when they have none.

    Attributes:
        columns: The target's columns.
        stored: Those that the table does not have in their type yet -> what takes their place, over its columns.
    """

    columns: tuple[T.StructField, ...] = ()
    stored: Mapping[str, Column] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The identity's columns in staged frames."""
        return [*self.keys, _CONTENT]

    def of(self, prefix: str = "") -> dict[str, Column]:
        """Return staged name -> expression over the table's columns (below ``prefix``)."""
        lacks_key = is_keyless(prefix)
        keyed = {name: F.when(~lacks_key, part) for name, part in super().of(prefix).items()}
        return {**keyed, _CONTENT: F.when(lacks_key, hash_content(self.columns, prefix, self.stored))}

    def same(self, ours: Column, theirs: Column) -> Column:
        """Compare one part, which may be null on both sides."""
        return ours.eqNullSafe(theirs)


def stage_rows(bad: DataFrame, keyless: DataFrame | None, columns: Sequence[T.StructField]) -> DataFrame:
    """Put the rows that the quarantine gets into one frame.

    Args:
        bad: The columns of the target's identity, the target's columns and ``_failed``; one row per identity.
        keyless: The target's columns and ``_failed`` of the rows without key; None for none.
        columns: The target's columns.

    Returns:
        The same with the quarantine's identity and ``COPIES``, one row for all rows without key of one content.
    """
    failing = bad.withColumns({_CONTENT: F.lit(None).cast("string"), COPIES: F.lit(1).cast("long")})
    if keyless is None:
        return failing
    values = [F.any_value(quote(name)).alias(name) for name in keyless.columns]
    counted = keyless.groupBy(hash_content(columns).alias(_CONTENT)).agg(F.count("*").alias(COPIES), *values)
    return failing.unionByName(counted, allowMissingColumns=True)


def hash_content(
    columns: Sequence[T.StructField], prefix: str = "", stored: Mapping[str, Column] | None = None
) -> Column:
    """Return a fingerprint of a row's values in some columns, which are below the prefix unless they are ``stored``.

    Texts go in as bytes: JSON has the same character for all bytes that are no UTF-8.
    """
    stored, parts = stored or {}, []
    for i, each in enumerate(columns):
        kind = _read_as_bytes(each.dataType)
        column = stored.get(each.name, F.col(prefix + quote(each.name)))
        parts.append(make_comparable(column.cast(kind), kind).alias(f"c{i}"))
    return F.sha2(F.to_json(F.struct(*parts), _EXACT), 256)


def _read_as_bytes(kind: SparkType) -> SparkType:
    """Return a type with binaries in place of its texts."""
    if isinstance(kind, T.StructType):
        fields = [T.StructField(each.name, _read_as_bytes(each.dataType)) for each in kind.fields]
        return T.StructType(fields)
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_read_as_bytes(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(_read_as_bytes(kind.keyType), _read_as_bytes(kind.valueType))
    return T.BinaryType() if isinstance(kind, T.StringType) else kind


def is_keyless(prefix: str = "") -> Column:
    """Tell the rows without key apart in the quarantine table."""
    return F.coalesce(F.array_contains(F.col(prefix + FAILED_COLUMN), KEY_NOT_NULL), F.lit(False))
