"""Variants beside what a job uses, and in it."""

from __future__ import annotations

from kit.lab import Lab


def test_a_variant_hinders_only_the_jobs_that_use_it(lab: Lab) -> None:
    table = f"delta.`{lab.path('events')}`"
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lab.spark.sql(
        f"CREATE TABLE {table} (id int, name string, doc variant, more struct<doc: variant>) USING delta {feed}"
    )

    def insert(number: int) -> None:
        values = f"{number}, 'n', parse_json('{{}}'), named_struct('doc', parse_json('1'))"
        lab.spark.sql(f"INSERT INTO {table} SELECT {values}")

    insert(1)
    head = "sources: {events: {table: events, key: id}}\nfrom: events\n"
    lab.job(f"job: named\n{head}select: {{id: events.id, name: events.name}}\ntarget: {{table: named}}\n")
    lab.job(f"job: whole\n{head}target: {{table: whole}}\n")
    lab.job(f"job: made\n{head}select:\n  id: events.id\n  doc: parse_json(events.name)\ntarget: {{table: made}}\n")
    named, whole, made = (lab.run(job) for job in ("named", "whole", "made"))
    assert (named.status, whole.status, made.status) == ("created", "failed", "failed")
    assert (whole.exit_code, made.exit_code) == (2, 2)
    assert "jobs/whole.yml:4: column 'doc' of 'events' is variant" in str(whole.error)
    assert "jobs/made.yml:6: 'doc' is variant, which a target cannot hold and compare" in str(made.error)
    assert not lab.exists("whole")
    insert(2)
    assert (lab.run("named").status, [row["id"] for row in lab.rows("named")]) == ("updated", [1, 2])
