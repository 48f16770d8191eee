"""Keys that are private are shown to nobody."""

from __future__ import annotations

import pyarrow as pa

import enrich
from kit.lab import Lab


def test_private_keys_are_not_shown(lab: Lab) -> None:
    lab.table("visits", "id", {"id": pa.int64(), "mail": pa.string()}, [{"id": 1, "mail": "A@x"}])
    lab.table("members", "mail", {"mail": pa.string(), "name": pa.string()}, [{"mail": "a@x", "name": "Ada"}])
    job = """\
job: seen
sources: {v: {table: visits, key: id}, m: members}
from: v
join: {m: {kind: foreign_key, on: v.mail}}
select: {id: v.id, name: m.name}
target: {table: seen}
"""
    for private in (False, True):
        declared = f"members: {{key: mail, columns: {{mail: {{private: {str(private).lower()}}}}}}}\n"
        (lab.home / "tables.yml").write_text(declared)
        lab.job(job)
        lab.run()
        project = enrich.load_project(lab.home)
        (found,) = enrich.doctor_keys(project, "seen", spark=lab.spark, show_keys=True).joins
        assert (found.near_misses, [pair[1:] for pair in found.pairs]) == (
            {"case": 1},
            [] if private else [("A@x", "a@x")],
        )
        told = enrich.why(project, "seen", {"id": 1}, spark=lab.spark, show_keys=True)
        assert told.lookups["m"].found == (None if private else "a@x")
