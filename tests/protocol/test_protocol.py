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


def test_no_state_within_two_acts_is_lost(player: Player, request: pytest.FixtureRequest) -> None:
    states = Explorer(player).explore(begin(), frozenset([*ACTS, *OF_RUNS]), 2, 1_000_000)
    assert states > 14_000
    request.config.stash[COUNTED]["the protocol"] = f"{states:,} states within two acts of others"


@pytest.mark.soak
def test_no_state_within_four_acts_is_lost(player: Player) -> None:
    assert Explorer(player).explore(begin(), frozenset([*ACTS, *OF_RUNS]), 4, 10_000_000)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str, player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, acts, bound = PLANTED[name]
    clean = Explorer(player)
    plant(monkeypatch)
    with pytest.raises(Fault):
        clean.explore(begin(), frozenset(acts.split(",")), bound, 30_000)
