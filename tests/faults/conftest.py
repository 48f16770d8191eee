"""Fixtures of the fault tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scenarios.lab import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lab(tmp_path: Path, interpreted: SparkSession) -> Lab:
    """Give an empty project."""
    return Lab(tmp_path / "project", interpreted)
