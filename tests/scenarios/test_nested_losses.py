"""`mass_change` over columns of structs, lists and maps: by changes, and in full refreshes of changed definitions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from enrich.frames import difference
from enrich.frames.difference import compute_difference
from kit.lab import Lab, Prepared

TEXT = pa.string()
JOB = """\
job: {name}
sources: {{p: {{table: people, key: id}}, m: {{table: mails, key: mail_id}}}}
from: p
join: {{m: {join}}}
select: {{id: p.id, {select}}}
target: {{table: {name}}}
rules: [{{rule: mass_change, at_most: 0.5}}]
"""
NESTED = """\
part: "named_struct('name', p.name, 'one', 1)", words: "split(p.name, ',')", sizes: "map('name', p.name)",
  deep: "array(map('a', named_struct('n', p.name)))", mail: m.mail"""
BY_KEY, BY_LIST = "{kind: foreign_key, on: p.mail_id}", "{kind: list, elements: p.mail_ids}"


def open_people(lab: Lab) -> None:
    """Run the jobs, then lose all mails."""
    people = [{"id": f"{i}", "mail_id": mail, "name": "x", "mail_ids": [mail]} for i, mail in enumerate("aba")]
    lab.table("people", "id", {"id": TEXT, "mail_id": TEXT, "name": TEXT, "mail_ids": pa.list_(TEXT)}, people)
    mails = [{"mail_id": each, "mail": each.upper()} for each in "ab"]
    lab.table("mails", "mail_id", {"mail_id": TEXT, "mail": TEXT}, mails)
    lab.job(JOB.format(name="beside", join=BY_KEY, select=NESTED))
    lab.job(JOB.format(name="within", join=BY_KEY, select="part: \"named_struct('id', p.id, 'mail', m.mail)\""))
    lab.job(JOB.format(name="lists", join=BY_LIST, select="mails: m"))
    assert {each.status for each in lab.run_all().jobs} == {"created"}
    lab.drop("mails", "true")


@pytest.fixture
def people(prepared: Prepared) -> Lab:
    return prepared("nested losses", open_people)


def list_blocked(lab: Lab, *jobs: str, **how: Any) -> dict[str, tuple[int, int]]:
    """Run jobs; return rows checked and lost of those that the rule has blocked."""
    found = {}
    for each in lab.run_all(*jobs, **how).jobs:
        (rule,) = [finding for finding in each.findings if finding.expectation == "mass_change"]
        if each.exit_code == 3:
            found[each.job] = (rule.checked, rule.failed)
    return found


def redefine(lab: Lab) -> None:
    for file in (lab.home / "jobs").glob("*.yml"):
        file.write_text(file.read_text().replace("rules:", 'where: p.id > "."\nrules:'))


def lose_nothing_of_nested(rows: DataFrame, old: DataFrame | None, *args: Any, **how: Any) -> difference.Difference:
    """Compare types with what they say of nulls, as it was once."""
    kinds = {each.name: each.dataType for each in rows.schema}
    same = old is not None and all(kinds.get(each.name, each.dataType) == each.dataType for each in old.schema)
    return compute_difference(rows, old if same else None, *args, **how)


def test_what_nested_columns_lose_is_seen_in_every_run(people: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    every = dict.fromkeys(("beside", "within", "lists"), (3, 3))
    assert list_blocked(people, "beside") == {"beside": (3, 3)}
    redefine(people)
    # A list of another shape is compared in what both have.
    people.spark.sql(f"ALTER TABLE delta.`{people.path('mails')}` ADD COLUMN (note STRING)")
    assert list_blocked(people, full_refresh=True) == every

    # The planted bug: with it, the comparison above fails.
    monkeypatch.setattr(difference, "compute_difference", lose_nothing_of_nested)
    assert list_blocked(people, "within", "lists", full_refresh=True, dry_run=True).keys() == {"within"}, (
        "whose types look the same"
    )
