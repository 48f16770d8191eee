"""Features that a table has lost since: Delta reads older commits as if they had never had them."""

from __future__ import annotations

import pyarrow as pa

import enrich
from kit.lab import Lab


def test_the_deletion_vectors_of_a_source_are_dropped(lab: Lab) -> None:
    """After DROP FEATURE, Delta's feed has all rows of a file for each commit that marked some of them as deleted."""
    lab.table("facts", "id", {"id": pa.int64(), "g": pa.string()}, [{"id": i, "g": "ab"[i % 2]} for i in range(6)])
    lab.job(
        "job: counts\nsources: {facts: {table: facts, key: id}}\n"
        "query: SELECT g, count(*) AS n FROM facts GROUP BY g\ntarget: {table: counts}\n"
    )
    lab.job("job: past\nkind: history\nsources: {facts: {table: facts, key: id}}\nfrom: facts\ntarget: {table: past}\n")
    change = "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '%s')"
    drop = ("REORG TABLE {} APPLY (PURGE)", "ALTER TABLE {} DROP FEATURE deletionVectors")

    def act(*statements: str) -> None:
        for each in statements:
            lab.spark.sql(each.replace("{}", f"delta.`{lab.path('facts')}`"))

    act(change % "true")
    assert {each.status for each in lab.run_all().jobs} == {"created"}
    act("DELETE FROM {} WHERE id = 1", change % "false", *drop, "INSERT INTO {} VALUES (7, 'b')")
    assert [each.error for each in lab.run_all().jobs] == [None, None]
    assert {row["g"]: row["n"] for row in lab.rows("counts")} == {"a": 3, "b": 3}
    assert {row["id"] for row in lab.rows("past") if row["valid_to"] is not None} == {1}
    checked = enrich.verify(enrich.load_project(lab.home), spark=lab.spark).jobs
    assert [each.status for each in checked] == ["equal", "equal"]
