"""How the rows of a table are told apart: by the left key, and where there is none by the lookup's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import Affected, name_left_key, name_right_key, quote


@dataclass(frozen=True)
class Identity:
    """How a table's rows are told apart.

    Attributes:
        left: Columns that hold the left key.
        right: Columns that hold the lookup's key; they count only where the left key has a null.
    """

    left: tuple[str, ...]
    right: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The identity's columns in staged frames."""
        return [*name_left_key(len(self.left)), *name_right_key(len(self.right))]

    def of(self, prefix: str = "") -> dict[str, Column]:
        """Return staged name -> expression over the table's columns (below ``prefix``)."""

        def column(name: str) -> Column:
            return F.col(prefix + quote(name))

        lefts = {name: column(of) for name, of in zip(name_left_key(len(self.left)), self.left, strict=True)}
        lone = reduce(or_, [part.isNull() for part in lefts.values()])
        rights = zip(name_right_key(len(self.right)), self.right, strict=True)
        return {**lefts, **{name: F.when(lone, column(of)) for name, of in rights}}

    def same(self, ours: Column, theirs: Column) -> Column:
        """Compare one part; with right keys a part may be null on both sides."""
        return ours.eqNullSafe(theirs) if self.right else ours == theirs


def unite_keys(affected: Affected) -> DataFrame:
    """Return the affected keys of both sides, null on the side that they do not have."""
    if affected.right is None:
        return affected.left
    return affected.left.unionByName(affected.right, allowMissingColumns=True)
