"""Which of the tests marked ``sampled`` are played: every sixth one, the others with other seeds.

A run of a job takes seconds, and most of what these tests show is shown by random histories, too. ``make test`` plays
a sixth of them, but at least one of each module or pool; ``make soak-faults`` and pytest by hand play all of them.
"""

from __future__ import annotations

from typing import Any

import pytest

ALWAYS = "always: a test of a sampled module that is played every time, because nothing else shows what it shows"
MARKER = "sampled(pool): with --sample, every sixth test function of the module, or module of the pool; at least one"

_SHARE = 6


def choose_tests(items: list[pytest.Item], seed: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests to play, in their order, and those that are left out."""
    pools: dict[str, list[str]] = {}
    units: dict[str, tuple[str, str]] = {}
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is None or item.get_closest_marker("always"):
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
        number = pools[pool].index(unit) + seed + list(pools).index(pool)
        return number % min(_SHARE, len(pools[pool])) == 0

    played = [item for item in items if is_played(item)]
    return played, [item for item in items if not is_played(item)]


def _name_module(item: Any) -> str:
    return str(item.path.stem)
