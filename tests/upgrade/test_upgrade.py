"""Lakes that earlier states of enrich have written go on: no full refresh, and every row right."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import enrich
from kit.lab import Lab
from upgrade.project import JOBS, begin, go_on, go_on_again

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAKES = sorted(Path(__file__).parent.glob("lake-*.tar.xz"))


@pytest.fixture
def fresh(tmp_path: Path, interpreted: SparkSession) -> Lab:
    """The same rounds, with everything computed at once at the end."""
    lab = begin(tmp_path / "fresh", interpreted)
    go_on(lab)
    go_on_again(lab)
    return lab


@pytest.mark.parametrize("packed", LAKES, ids=lambda path: path.name.split(".")[0])
def test_a_lake_of_an_earlier_state_goes_on(
    packed: Path, tmp_path: Path, interpreted: SparkSession, fresh: Lab
) -> None:
    with tarfile.open(packed) as found:
        found.extractall(tmp_path, filter="data")
    old = Lab(tmp_path / "project", interpreted)
    old.keys = dict(fresh.keys)

    went_on = old.run_all()
    assert {job.job: (job.status, job.mode) for job in went_on.jobs} == dict.fromkeys(
        JOBS, ("unchanged", "incremental")
    )

    go_on_again(old)
    went_on = old.run_all()
    assert {job.job: (job.status, job.mode) for job in went_on.jobs} == dict.fromkeys(JOBS, ("updated", "incremental"))
    (history,) = enrich.verify(enrich.load_project(old.home), ["merchants_history"], spark=interpreted).jobs
    assert history.status == "equal"

    fresh.run_all()
    for job in sorted(JOBS.keys() - {"merchants_history"}):  # whose times are those of the commits
        assert old.rows(job) == fresh.rows(job), job
    held = [
        sorted(repr({**row, "_run_id": None}) for row in lab.rows("consents_with_email__quarantine"))
        for lab in (old, fresh)
    ]
    assert held[0] == held[1]
