"""What the makers of random jobs share."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from differential.spec import Table, World

Job = dict[str, Any]


@dataclass
class Maker:
    """Makes one job.

    Attributes:
        aliases: Alias -> table, of what has been joined so far, lists left out.
        joins: The joins so far.
        lists: Aliases of list joins.
        right_key: What tells rows without left side apart, if there are any.
    """

    world: World
    rng: random.Random
    aliases: dict[str, Table] = field(default_factory=dict)
    joins: dict[str, Job] = field(default_factory=dict)
    lists: list[str] = field(default_factory=list)
    right_key: str | None = None

    def name_alias(self, table: str) -> str:
        """Return an alias that is free: the table's name, with a number where it is joined already."""
        number = sum(each.name == table for each in self.aliases.values())
        number += sum(self.joins[alias]["table"] == table for alias in self.lists)
        return table if number == 0 else f"{table}{number + 1}"

    def choose_how(self, weights: tuple[int, ...]) -> str:
        """Return how a foreign key joins; only one join of a job may add rows of its lookup."""
        how = self.rng.choices(("inner", "left", "right", "full"), weights)[0]
        if self.right_key is not None:
            return {"right": "inner", "full": "left"}.get(how, how)
        return how
