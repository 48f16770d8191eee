"""Counts of the differential tests; ``tests/conftest.py`` prints them at the end."""

from __future__ import annotations

import pytest

from differential.comparison import Tally
from kit.counts import COUNTED

TOTALS: dict[str, Tally] = {}


@pytest.fixture(scope="session")
def totals() -> dict[str, Tally]:
    """Tallies of what was really compared, by test group."""
    return TOTALS


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[COUNTED].update({name: str(tally) for name, tally in TOTALS.items()})
