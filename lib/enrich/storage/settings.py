"""Settings of a session that hold for one statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def hold_settings(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Let a session have other settings inside the block; what is set there under these names is undone as well."""
    before = {name: session.conf.get(name, None) for name in values}
    for name, value in values.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            session.conf.unset(name) if old is None else session.conf.set(name, old)
