"""Explore the protocol: no state within some acts is one from which the promise does not come back; planted faults are.

`python -m protocol.explorer` goes as far as it is told, and prints how one gets to a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.counts import COUNTED
from protocol.explorer import ACTS, OF_RUNS, Explorer, Fault, begin
from protocol.planted_protocol import PLANTED
from protocol.player import Player, playing


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Player]:
    with playing(tmp_path) as found:
        yield found


OF_TABLES = "order,restore,kill,second,since"
"""What the protocol was made for: runs that meet, die and are asked again, over tables that go back."""


def test_no_state_within_some_acts_is_lost(player: Player, request: pytest.FixtureRequest) -> None:
    wide, deep = Explorer(player), Explorer(player)
    wide.explore(begin(), frozenset([*ACTS, *OF_RUNS]), 2, 1_000_000)
    deep.explore(begin(), frozenset(OF_TABLES.split(",")), 3, 1_000_000)
    states = len(wide.seen | deep.seen)
    assert states >= 100_000
    told = f"{states:,} states: {len(wide.seen):,} within two acts of {len([*ACTS, *OF_RUNS])} kinds"
    request.config.stash[COUNTED]["the protocol"] = f"{told}, {len(deep.seen):,} within three of {OF_TABLES}"


@pytest.mark.soak
def test_no_state_within_four_acts_is_lost(player: Player) -> None:
    assert Explorer(player).explore(begin(), frozenset([*ACTS, *OF_RUNS]), 4, 10_000_000)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str, player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    found = Explorer(player)
    first = found.lead(*planted.before)
    planted.plant(monkeypatch)
    with pytest.raises(Fault):
        found.explore(first, frozenset(planted.acts.split(",")), planted.bound, 30_000)
