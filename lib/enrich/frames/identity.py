"""How the rows of a table are told apart: by the left key, and where there is none by the lookup's; pairs by both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import Affected, name_left_key, name_right_key, quote
from enrich.frames.columns import has_null


@dataclass(frozen=True)
class Identity:
    """How a table's rows are told apart.

    Attributes:
        left: Columns that hold the left key.
        right: Columns that hold the lookup's key; they count only where the left key has a null.
        has_pairs: Whether they always count, as in an interval join: a left key has a row for each partner.
    """

    left: tuple[str, ...]
    right: tuple[str, ...] = ()
    has_pairs: bool = False

    @property
    def keys(self) -> list[str]:
        """The columns of both keys in staged frames."""
        return [*name_left_key(len(self.left)), *name_right_key(len(self.right))]

    @property
    def names(self) -> list[str]:
        """The identity's columns in staged frames."""
        return self.keys

    def of(self, prefix: str = "") -> dict[str, Column]:
        """Return staged name -> expression over the table's columns (below ``prefix``)."""

        def column(name: str) -> Column:
            return F.col(prefix + quote(name))

        lefts = {name: column(of) for name, of in zip(name_left_key(len(self.left)), self.left, strict=True)}
        rights = {name: column(of) for name, of in zip(name_right_key(len(self.right)), self.right, strict=True)}
        if not self.has_pairs:
            lookup_only = reduce(or_, [part.isNull() for part in lefts.values()])
            rights = {name: F.when(lookup_only, part) for name, part in rights.items()}
        return {**lefts, **rights}

    def same(self, ours: Column, theirs: Column) -> Column:
        """Compare one part; with right keys a part may be null on both sides."""
        return ours.eqNullSafe(theirs) if self.right else ours == theirs


def keep_affected(rows: DataFrame, affected: Affected, identity: Identity) -> DataFrame:
    """Return the rows that have an affected key. A left key stands for all its rows, a right one for that without left.

    Args:
        rows: The identity's columns.
        affected: The keys.
        identity: How the rows are told apart.
    """
    if not identity.has_pairs:
        return _join_keys(rows, _unite_keys(affected), identity, "left_semi")
    kept = _join_keys(rows, affected.left, identity, "left_semi")
    if affected.right is None:
        return kept
    return kept.unionByName(_join_keys(rows.where(_is_lookup_only(identity)), affected.right, identity, "left_semi"))


def drop_affected(rows: DataFrame, affected: Affected, identity: Identity) -> DataFrame:
    """Return the rows that ``keep_affected`` leaves out."""
    if not identity.has_pairs:
        return _join_keys(rows, _unite_keys(affected), identity, "left_anti")
    kept = _join_keys(rows, affected.left, identity, "left_anti")
    if affected.right is None:
        return kept
    return _join_keys(kept, affected.right, identity, "left_anti", _is_lookup_only(identity))


def _is_lookup_only(identity: Identity) -> Column:
    """Tell the rows without left side apart."""
    return has_null(name_left_key(len(identity.left)))


def _join_keys(rows: DataFrame, keys: DataFrame, identity: Identity, how: str, only: Column | None = None) -> DataFrame:
    names = [name for name in identity.names if name in keys.columns]
    renamed = keys.withColumnsRenamed({name: f"{name}_of" for name in names})
    condition = reduce(and_, [identity.same(F.col(name), F.col(f"{name}_of")) for name in names])
    return rows.join(renamed, on=condition if only is None else condition & only, how=how)


def _unite_keys(affected: Affected) -> DataFrame:
    """Return the affected keys of both sides, null on the side that they do not have."""
    if affected.right is None:
        return affected.left
    return affected.left.unionByName(affected.right, allowMissingColumns=True)
