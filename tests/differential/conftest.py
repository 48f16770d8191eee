"""Seed, counts, and what is printed at the end."""

from __future__ import annotations

import os
import random

import pytest

from differential.trial import Tally

SEED = int(os.environ.get("ENRICH_TEST_SEED") or random.SystemRandom().randrange(1_000_000))
TOTALS: dict[str, Tally] = {}


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of all random histories: ENRICH_TEST_SEED, else a fresh one that is printed."""
    return SEED


@pytest.fixture(scope="session")
def totals() -> dict[str, Tally]:
    """Tallies of what was really compared, by test group."""
    return TOTALS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TOTALS:
        return
    terminalreporter.section("differential tests")
    terminalreporter.write_line(f"seed {SEED} (repeat with ENRICH_TEST_SEED={SEED})")
    for name, tally in TOTALS.items():
        terminalreporter.write_line(f"{name}: {tally}")
