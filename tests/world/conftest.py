"""Fixtures of the tests that start a real outside system: ``make test-world`` runs them, ``make test`` does not.

A test here is skipped only where the machine truly cannot have the thing, and the reason says what is missing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.world import Environment, build_wheel, make_environment

HERE = Path(__file__).parent
LONGEST = ("test_cluster", "test_object_store", "test_airflow", "test_matrix", "test_tried_pages", "test_image")
"""Files that begin first, so that several processes end at about the same time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this directory, and begin with the longest; before those of other directories."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.world)
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """An environment outside the repository with the wheel and nothing but what it requires: no Spark."""
    environment = make_environment(tmp_path_factory.mktemp("base") / "venv")
    environment.install(wheel)
    return environment


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """An environment outside the repository with the wheel and all extras."""
    environment = make_environment(tmp_path_factory.mktemp("full") / "venv")
    environment.install(f"{wheel}[all]")
    return environment
