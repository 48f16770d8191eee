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


EVERYTHING = ",".join([*ACTS, *OF_RUNS])
EXPLORED = {
    EVERYTHING: 2,
    "order,restore,kill,second,since": 3,  # what the protocol was made for
    "order,another,drop": 3,
    "order,replace_source,second": 3,
    "order,kill,lose,second,merge": 3,
}
"""Acts, and how many of them."""


def test_no_state_within_some_acts_is_lost(player: Player, request: pytest.FixtureRequest) -> None:
    states, told = set[int](), []
    for acts, bound in EXPLORED.items():
        found = Explorer(player)
        count = found.explore(begin(), frozenset(acts.split(",")), bound, 1_000_000)
        states |= found.seen
        told.append(f"{count:,} within {bound} acts of {'all kinds' if acts == EVERYTHING else acts}")
    assert len(states) >= 100_000
    request.config.stash[COUNTED]["the protocol"] = f"{len(states):,} states: {', '.join(told)}"


@pytest.mark.soak
def test_no_state_within_four_acts_is_lost(player: Player) -> None:
    """Ten million of them: about half an hour, and 3 GB."""
    assert Explorer(player).explore(begin(), frozenset(EVERYTHING.split(",")), 4, 10_000_000) >= 10_000_000


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str, player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    found = Explorer(player)
    first = found.lead(*planted.before)
    planted.plant(monkeypatch)
    with pytest.raises(Fault):
        found.explore(first, frozenset(planted.acts.split(",")), planted.bound, 30_000)
