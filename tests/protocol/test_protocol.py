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
from protocol.player import GROUPS, JOB, Player, playing


@pytest.fixture
def player(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Player]:
    with playing(tmp_path, getattr(request, "param", JOB)) as found:
        yield found


EVERYTHING = ",".join([*ACTS, *OF_RUNS])
EXPLORED = {
    EVERYTHING: 2,
    "order,restore,kill,second,since": 3,  # what the protocol was made for
}
"""Acts, and how many of them: 100,000 states. The soak goes on to four acts of all kinds."""
OF_GROUPS = {
    "another,restore,kill,since,until": 3,
    "order,intrude,lose_feed,vacuum,replace_source,second,refresh,repair": 2,
}
"""The same for a job whose rows move by what came and went, where that is all that a run takes."""


@pytest.mark.parametrize(
    ("player", "explored", "least"),
    [(JOB, EXPLORED, 100_000), (GROUPS, OF_GROUPS, 10_000)],
    ids=["a join", "groups"],
    indirect=["player"],
)
def test_no_state_within_some_acts_is_lost(
    player: Player, explored: dict[str, int], least: int, request: pytest.FixtureRequest
) -> None:
    states, told = set[int](), []
    for acts, bound in explored.items():
        found = Explorer(player)
        count = found.explore(begin(), frozenset(acts.split(",")), bound, 1_000_000)
        states |= found.seen
        told.append(f"{count:,} within {bound} acts of {'all kinds' if acts == EVERYTHING else acts}")
    assert len(states) >= least
    name = f"the protocol of {request.node.callspec.id}"
    request.config.stash[COUNTED][name] = f"{len(states):,} states: {', '.join(told)}"


@pytest.mark.soak
def test_no_state_within_four_acts_is_lost(player: Player) -> None:
    """Ten million of them: most of an hour, and 4 GB."""
    assert Explorer(player).explore(begin(), frozenset(EVERYTHING.split(",")), 4, 10_000_000) >= 10_000_000


@pytest.mark.parametrize(
    ("name", "player"), [(n, each.job) for n, each in PLANTED.items()], ids=PLANTED, indirect=["player"]
)
def test_a_planted_fault_is_found(name: str, player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    found = Explorer(player)
    first = found.lead(*planted.before)
    planted.plant(monkeypatch)
    with pytest.raises(Fault):
        found.explore(first, frozenset(planted.acts.split(",")), planted.bound, 30_000)
