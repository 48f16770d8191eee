"""Columns that come back within one window: a feed lists no row for what a RESTORE does to columns."""

from __future__ import annotations

import pytest

import enrich
from kit.lab import Lab

MAPPED = "'delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name'"


def tell(lab: Lab, *statements: str) -> None:
    for each in statements:
        lab.spark.sql(each.format(o=f"delta.`{lab.path('orders')}`"))


def fill(lab: Lab, kind: str) -> None:
    """Write version 1 of the source: three rows."""
    tell(lab, f"CREATE TABLE {{o}} (id INT, g STRING, x {kind}, y INT) USING delta TBLPROPERTIES ({MAPPED})")
    tell(lab, "INSERT INTO {o} VALUES (1, 'a', 10, 0), (2, 'a', 5, 0), (3, 'b', 0, 0)")


def play(lab: Lab, *jobs: str, refused: str = "") -> None:
    """Run all jobs, or some; a history may have to leave a gap."""
    failed = [each.job for each in lab.run_all(*jobs).jobs if each.exit_code]
    assert failed == [refused][: bool(refused)]
    for name in failed:
        assert lab.run(name, allow_gap=True).exit_code == 0


def check(lab: Lab, *jobs: str) -> None:
    """Compare all rows and counts with what the sources give."""
    found = enrich.verify(enrich.load_project(lab.home), list(jobs) or None, spark=lab.spark)
    assert found.exit_code == 0, [each.error for each in found.jobs]


JOBS = {
    "sums": "query: |\n  SELECT g, count(*) AS n, sum(x) AS total FROM o GROUP BY g\n",
    "copies": "from: o\nselect: {id: o.id, x: o.x}\n",
    "alls": "from: o\n",
    "past": "kind: history\nfrom: o\n",
}


@pytest.fixture
def orders(lab: Lab) -> Lab:
    for name, text in JOBS.items():
        lab.job(f"job: {name}\nsources: {{o: {{table: orders, key: id}}}}\n{text}target: {{table: {name}}}\n")
    return lab


def shown(lab: Lab) -> dict[str, list[tuple[object, ...]]]:
    rows = {name: lab.rows(name) for name in WHOLE if lab.exists(name)}
    found = {name: sorted(tuple(row.values()) for row in rows[name]) for name in rows.keys() & {"sums", "copies"}}
    found["alls"] = sorted(tuple(row[name] for name in ("id", "g", "x", "y")) for row in rows["alls"])
    return found | {"past": sorted((row["id"], row["x"]) for row in rows["past"] if row["valid_to"] is None)}


WHOLE = {
    "sums": [("a", 2, 15), ("b", 1, 0)],
    "copies": [(1, 10), (2, 5), (3, 0)],
    "alls": [(1, "a", 10, 0), (2, "a", 5, 0), (3, "b", 0, 0)],
    "past": [(1, 10), (2, 5), (3, 0)],
}


ROWS = ("a column that may not be null any more", "a column that goes and comes back with its values")
"""Rows of the table that one test plays, one window after the other."""


def test_a_window_ends_with_the_columns_of_before(orders: Lab) -> None:
    fill(orders, "INT NOT NULL")
    tell(orders, "ALTER TABLE {o} ALTER COLUMN x DROP NOT NULL", "UPDATE {o} SET x = NULL WHERE id = 3")
    play(orders)
    tell(orders, "INSERT INTO {o} VALUES (4, 'b', NULL, 0)", "RESTORE TABLE {o} TO VERSION AS OF 1")
    play(orders, refused="past")
    assert shown(orders) == WHOLE, ROWS[0]
    tell(orders, "ALTER TABLE {o} DROP COLUMN x", "UPDATE {o} SET y = 1 WHERE id = 1")
    tell(orders, "RESTORE TABLE {o} TO VERSION AS OF 1")
    play(orders, refused="past")
    assert shown(orders) == WHOLE, ROWS[1]
    check(orders)


def test_a_column_that_comes_back_after_a_run_without_it(orders: Lab) -> None:
    fill(orders, "INT")
    jobs = ("alls", "past")
    tell(orders, "ALTER TABLE {o} DROP COLUMN x")
    play(orders, *jobs)
    tell(orders, "RESTORE TABLE {o} TO VERSION AS OF 1")
    play(orders, *jobs)
    assert shown(orders) == {name: WHOLE[name] for name in jobs}
    check(orders, *jobs)


def test_the_text_of_a_struct_that_gains_a_field(lab: Lab) -> None:
    tell(lab, "CREATE TABLE {o} (id INT, home STRUCT<city: STRING>) USING delta TBLPROPERTIES (" + MAPPED + ")")
    tell(lab, "INSERT INTO {o} VALUES (1, named_struct('city', 'Bern')), (2, named_struct('city', 'Bern'))")
    select = "{id: o.id, text: cast(o.home as string), kind: typeof(o.home), city: upper(o.home.city)}"
    for name, text in {"texts": f"select: {select}", "cities": "select: {id: o.id, city: upper(o.home.city)}"}.items():
        lab.job(
            f"job: {name}\nsources: {{o: {{table: orders, key: id}}}}\nfrom: o\n{text}\ntarget: {{table: {name}}}\n"
        )
    lab.job(
        "job: sums\nsources: {o: {table: orders, key: id}}\ntarget: {table: sums}\n"
        "query: |\n  SELECT CAST(home AS STRING) AS text, count(*) AS n FROM o GROUP BY CAST(home AS STRING)\n"
    )
    play(lab)
    tell(lab, "ALTER TABLE {o} ADD COLUMN home.zip STRING", "DELETE FROM {o} WHERE id = 2")
    found = {each.job: each for each in lab.run_all().jobs}
    assert {job: each.error for job, each in found.items() if each.error} == {}
    assert found["cities"].mode == "incremental"
    assert [(row["id"], row["text"], row["city"]) for row in lab.rows("texts")] == [(1, "{Bern, null}", "BERN")]
    assert [(row["text"], row["n"]) for row in lab.rows("sums")] == [("{Bern, null}", 1)]
    play(lab)
    check(lab)
