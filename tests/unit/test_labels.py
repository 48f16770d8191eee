"""How a quarantine's rows are counted by their reasons, also those that somebody else has put there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from enrich.base.result import Quarantine
from enrich.delta.tables import count_labelled_rows


def test_rows_without_reasons_are_counted(tmp_path: Path) -> None:
    reasons = pa.array([["a"], ["a", "b"], [], None, None], pa.list_(pa.string()))
    write_deltalake(tmp_path / "t", pa.table({"_failed": reasons}))
    found = count_labelled_rows(str(tmp_path / "t"), "_failed")
    assert Quarantine.of(found) == Quarantine(5, {"": 3, "a": 2, "b": 1})
