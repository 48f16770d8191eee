"""Fixtures of the fault tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scenarios.lab import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""A quarter less CPU on tables of ten rows. What is at stake here is which commits there are; how rows are computed
is for the differential suite, which runs compiled code as users do."""


@pytest.fixture
def lab(tmp_path: Path, spark: SparkSession) -> Iterator[Lab]:
    """Give an empty project, in a session that does not compile its plans."""
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield Lab(tmp_path / "project", spark)
    for name in INTERPRETED:
        spark.conf.unset(name)
