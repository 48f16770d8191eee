"""What ``load_project`` finds in suites: columns that a mirror or a history does not have, as far as its file says."""

from __future__ import annotations

from pathlib import Path

import pytest

import enrich
from kit.project import write_project

SUITE = """name: s
expectations:
  - type: expect_column_values_to_not_be_null
    kwargs: {column: COLUMN}
"""
HEAD = "job: j\nsources: {people: {table: people, key: id}}\nfrom: people\ntarget: {table: j}\nexpectations: s\n"
MIRROR = "kind: mirror\nmirror: {value: email, columns: [name]}\n"
HISTORY = "kind: history\nhistory: {columns: [name]}\n"


def test_a_column_whose_expression_is_wrong_is_one_fault(tmp_path: Path) -> None:
    """It is a column of the target all the same, so the suite that judges it has none."""
    files = {
        "conf/dev.yml": "lake: ./lake\n",
        "jobs/j.yml": f"{HEAD}select: {{id: people.id, email: lower(people.email}}\n",
        "expectations/s.yml": SUITE.replace("COLUMN", "email"),
    }
    with pytest.raises(enrich.ConfigError) as refused:
        enrich.load_project(write_project(tmp_path, files))
    (fault,) = map(str, refused.value.faults)
    assert fault.startswith("jobs/j.yml:6: ")


@pytest.mark.parametrize(
    ("kind", "column", "told"),
    [
        (MIRROR, "email", None),
        (MIRROR, "id", None),
        (MIRROR, "Email", None),
        (MIRROR, "emial", "did you mean 'email'?"),
        (MIRROR.replace("name", "name, size"), "sizes", "did you mean 'size'?"),
        (HISTORY, "valid_to", None),
        (HISTORY, "nmae", "did you mean 'name'?"),
        ("kind: history\n", "nmae", None),
    ],
)
def test_a_suite_is_held_against_the_columns_of_the_file(
    tmp_path: Path, kind: str, column: str, told: str | None
) -> None:
    """The table decides about case, and about the columns of a history whose file names none."""
    files = {
        "conf/dev.yml": "lake: ./lake\n",
        "jobs/j.yml": HEAD + kind,
        "expectations/s.yml": SUITE.replace("COLUMN", column),
    }
    home = write_project(tmp_path, files)
    if told is None:
        enrich.load_project(home)
        return
    with pytest.raises(enrich.ConfigError) as refused:
        enrich.load_project(home)
    (fault,) = map(str, refused.value.faults)
    assert fault.startswith("expectations/s.yml:4: ")
    assert told in fault
