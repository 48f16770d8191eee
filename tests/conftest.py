"""What all tests share: one local Delta session, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNIT = Path(__file__).parent / "unit"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if UNIT in item.path.parents:
            item.add_marker(pytest.mark.unit)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests: two cores, two shuffle partitions, UTC."""
    from enrich.config.models import Spark
    from enrich.session import get_session

    session = get_session(Spark(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}))
    yield session
    session.stop()
