"""Which third of the tests marked ``sampled`` is played: every third one, the others with other seeds.

A run of a job takes seconds, and most of what these tests show is shown by random histories, too. ``make test`` plays
a third of them, ``make soak-faults`` and pytest by hand all of them.
"""

from __future__ import annotations

from typing import Any

import pytest

MARKER = "sampled(pool): with --sample, every third test function of the module; of a pool, every third module"

_SHARE = 3


def choose_tests(items: list[pytest.Item], seed: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests to play, in their order, and those that are left out."""
    pools: dict[str, list[str]] = {}
    units: dict[str, tuple[str, str]] = {}
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is None:
            continue
        pool = mark.args[0] if mark.args else _name_module(item)
        unit = _name_module(item) if mark.args else str(getattr(item, "originalname", item.name))
        units[item.nodeid] = pool, unit
        if unit not in pools.setdefault(pool, []):
            pools[pool].append(unit)

    def is_played(item: pytest.Item) -> bool:
        if item.nodeid not in units:
            return True
        pool, unit = units[item.nodeid]
        # Pools begin with the one or the other, so that not all of them play their first.
        return (pools[pool].index(unit) + seed + list(pools).index(pool)) % _SHARE == 0

    played = [item for item in items if is_played(item)]
    return played, [item for item in items if not is_played(item)]


def _name_module(item: Any) -> str:
    return str(item.path.stem)
