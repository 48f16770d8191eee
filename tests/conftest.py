"""What all tests share: one local Delta session, started when the first test asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every JVM of the tests compiles quickly rather than well: half the CPU seconds, for none of them runs for long.
os.environ["JAVA_TOOL_OPTIONS"] = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -XX:TieredStopAtLevel=1".strip()

TESTS = Path(__file__).parent
ORDER = ("unit", "cli", "spark", "scenarios", "differential", "property", "faults")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark unit tests, and run what is quick and says most first; the order within a directory stays."""

    def directory(item: pytest.Item) -> str:
        return item.path.relative_to(TESTS).parts[0]

    for item in items:
        if directory(item) == "unit":
            item.add_marker(pytest.mark.unit)
    items.sort(key=lambda item: ORDER.index(directory(item)) if directory(item) in ORDER else len(ORDER))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests: two cores, two shuffle partitions, UTC."""
    from enrich.config.models import Spark
    from enrich.session import get_session

    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "4g"}  # hundreds of jobs in one JVM
    session = get_session(Spark(master="local[2]", conf=conf))
    yield session
    session.stop()
