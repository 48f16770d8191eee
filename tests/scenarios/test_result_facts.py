"""What a result says beside its counts: how each join went, what the quarantine holds, where the time went."""

from __future__ import annotations

import pyarrow as pa

from kit.lab import Lab
from kit.project import hold_nulls

STAGES = ["changes", "keys", "join", "state", "rules", "difference", "write"]


def orders(lab: Lab) -> None:
    """Write orders with a customer, a seller and a list of items, of which some are not there, and the job."""
    lab.table(
        "orders",
        "id",
        {"id": pa.int64(), "seller": pa.string(), "items": pa.list_(pa.string())},
        [
            {"id": 1, "seller": "s1", "items": ["a", "a", "z", None]},
            {"id": 2, "seller": None, "items": []},
            {"id": 3, "seller": "s9", "items": None},
            {"id": 4, "seller": "s2", "items": ["b"]},
        ],
    )
    lab.table("notes", "id", {"id": pa.int64(), "note": pa.string()}, [{"id": 1, "note": "n"}, {"id": 7, "note": "x"}])
    lab.table(
        "sellers",
        "id",
        {"id": pa.string(), "country": pa.string()},
        [{"id": "s1", "country": "de"}, {"id": "s2", "country": None}],
    )
    lab.table("countries", "id", {"id": pa.string(), "name": pa.string()}, [{"id": "de", "name": "Germany"}])
    lab.table("articles", "id", {"id": pa.string(), "title": pa.string()}, [{"id": "a", "title": "A"}])
    lab.suite("held", hold_nulls("seller"))
    lab.job(
        """\
job: wide
sources:
  orders: {table: orders, key: id}
  notes: {table: notes, key: id}
  sellers: {table: sellers, key: id}
  countries: {table: countries, key: id}
  articles: {table: articles, key: id}
from: orders
join:
  notes: {kind: table, how: left}
  sellers: {kind: foreign_key, on: orders.seller}
  countries: {kind: foreign_key, on: sellers.country, how: inner}
  articles: {kind: list, elements: orders.items, duplicates: drop, unmatched: drop}
select:
  id: key
  seller: sellers.id
  note: notes.note
  country: countries.name
  items: articles
target: {table: wide}
expectations: held
"""
    )


def test_each_join_tells_how_it_went(lab: Lab) -> None:
    orders(lab)
    first = lab.run()
    assert (first.status, first.counts.inserted) == ("created", 1), first.error
    found = first.to_dict()
    assert found["lookups"] == {
        "notes": {"kind": "table", "rows": 4, "matched": 1, "null_references": 0},
        "sellers": {"kind": "foreign_key", "rows": 4, "matched": 2, "null_references": 1},
        "countries": {"kind": "foreign_key", "rows": 4, "matched": 1, "null_references": 3},
        # The inner join before it left one order; of its two equal ids one is dropped.
        "articles": {"kind": "list", "rows": 3, "matched": 1, "null_references": 1},
    }
    assert (found["null_foreign_keys"], found["null_list_ids"]) == (4, 1)
    assert lab.rows("wide") == [
        {"id": 1, "seller": "s1", "note": "n", "country": "Germany", "items": [{"id": "a", "title": "A"}]}
    ]
    assert list(found["stages"]) == STAGES
    assert all(0 <= seconds < 600 for seconds in found["stages"].values())
    assert found["quarantine"] is None

    # A held row, by a changed join, and one without key.
    job = lab.home / "jobs" / "wide.yml"
    job.write_text(job.read_text().replace("country, how: inner", "country, how: left"))
    lab.append("orders", {"id": None, "seller": "s1", "items": None})
    second = lab.run(full_refresh=True)
    held = {"rows": 3, "reasons": {"expect_column_values_to_not_be_null:seller": 2, "key_not_null": 1}}
    assert second.to_dict()["quarantine"] == held
    assert second.lookups["articles"].rows == 4

    # Only what a run judged is in it; what the quarantine holds is always told.
    lab.put("articles", {"id": "b", "title": "B"})
    third = lab.run().to_dict()
    assert third["lookups"]["articles"] == {"kind": "list", "rows": 1, "matched": 1, "null_references": 0}
    assert third["lookups"]["sellers"]["rows"] == 1
    assert third["quarantine"] == held
    fourth = lab.run().to_dict()
    assert (fourth["status"], fourth["lookups"], fourth["quarantine"], fourth["stages"]) == ("unchanged", {}, held, {})


def test_a_dry_run_of_jobs_on_an_empty_lake_says_what_it_cannot_know(lab: Lab) -> None:
    lab.table("items", "id", {"id": pa.int64()}, [{"id": 1}])
    for job, source in (("first", "items"), ("second", "first"), ("third", "second")):
        lab.job(f"job: {job}\nsources:\n  s: {{table: {source}, key: id}}\nfrom: s\ntarget: {{table: {job}}}\n")
    result = lab.run_all(dry_run=True)
    assert result.exit_code == 0
    assert [job.status for job in result.jobs] == ["created", "skipped", "skipped"]
    assert "a dry run writes none" in str(result.jobs[1].error)
    assert not lab.exists("first")
