"""Jobs over messy keys: incremental runs, a full refresh and a model in plain Python give the same tables."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from kit.lab import Lab

CLEAN = ("é1", "m2", "m3", "m4", "0")
MESS = (
    lambda key: key,
    lambda key: f" {key}",
    lambda key: key.upper(),
    lambda key: f"\u200b{key}",
    lambda key: f"{key}\u00a0",
    lambda key: f"00{key}",
)
FORMS = "normalise: [visible, trim, lower, unpad]"
FULL = """\
job: full
sources:
  products: {table: products, key: id}
  merchants: {table: merchants, key: id, normalise: [visible, nfc, trim, lower, unpad]}
from: products
join:
  merchants: {kind: foreign_key, on: products.merchant, how: full}
select: {id: products.id, merchant: products.merchant, m: merchants.id, name: merchants.name}
target: {table: full}
"""
LISTS = f"""\
job: lists
sources:
  persons: {{table: persons, key: id, {FORMS}}}
  merchants: {{table: merchants, key: id, {FORMS}}}
from: persons
join:
  merchants: {{kind: list, elements: persons.ids, duplicates: drop}}
select: {{id: persons.id, items: merchants}}
target: {{table: lists}}
"""
PAIRS = f"""\
job: pairs
sources:
  persons: {{table: persons, key: id, {FORMS}}}
  merchants: {{table: merchants, key: id, {FORMS}}}
from: persons
join:
  merchants: {{kind: table, how: full}}
select: {{id: key, name: merchants.name, person: persons.name}}
target: {{table: pairs}}
"""


class History:
    """What other systems write: each clean key stands in one messy form, which may change with every commit."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.dice = lab, random.Random(seed)
        self.tables: dict[str, dict[str, dict[str, Any]]] = {"products": {}, "merchants": {}, "persons": {}}

    def messy(self, key: str) -> str:
        return self.dice.choice(MESS)(key)

    def put(self, table: str, key: str, **row: Any) -> None:
        """Write a row under another form of its key, after taking away the old one."""
        self.drop(table, key)
        self.tables[table][key] = {"id": key if table == "products" else self.messy(key), **row}
        self.lab.append(table, self.tables[table][key])

    def drop(self, table: str, key: str) -> None:
        old = self.tables[table].pop(key, None)
        if old is not None:
            self.lab.drop(table, f"id = '{old['id']}'")

    def commits(self, count: int) -> None:
        for _ in range(count):
            key, table = self.dice.choice(CLEAN), self.dice.choice(sorted(self.tables))
            name = self.dice.choice("xyz")
            if self.dice.random() < 0.25:
                self.drop(table, key)
            elif table == "products":
                self.put(table, key, merchant=self.messy(self.dice.choice(CLEAN)).replace("é", "e\u0301"))
            elif table == "persons":
                self.put(table, key, name=name, ids=[self.messy(each) for each in self.dice.choices(CLEAN, k=3)])
            else:
                self.put(table, key, name=name)

    def expected(self) -> dict[str, list[dict[str, Any]]]:
        """The three targets over clean keys."""
        names = {key: row["name"] for key, row in self.tables["merchants"].items()}
        clean = {form(key): key for key in CLEAN for form in MESS}
        clean |= {form.replace("é", "e\u0301"): key for form, key in clean.items()}
        products = [(key, row["merchant"], clean[row["merchant"]]) for key, row in self.tables["products"].items()]
        full = [{"id": i, "merchant": m, "m": c if c in names else None, "name": names.get(c)} for i, m, c in products]
        lone = set(names) - {c for _, _, c in products}
        full += [{"id": None, "merchant": None, "m": key, "name": names[key]} for key in lone]
        persons = self.tables["persons"]
        ids = {key: list(dict.fromkeys(clean[each] for each in row["ids"])) for key, row in persons.items()}
        lists = [
            {"id": key, "items": [{"id": each, "name": names.get(each)} for each in found]}
            for key, found in ids.items()
        ]
        pairs = [
            {"id": key, "name": names.get(key), "person": persons.get(key, {}).get("name")}
            for key in {*names, *persons}
        ]
        return {"full": full, "lists": lists, "pairs": pairs}


@pytest.fixture
def history(lab: Lab) -> History:
    text = pa.string()
    lab.table("products", "id", {"id": text, "merchant": text})
    lab.table("merchants", "id", {"id": text, "name": text})
    lab.table("persons", "id", {"id": text, "name": text, "ids": pa.list_(text)})
    for job in (FULL, LISTS, PAIRS):
        lab.job(job)
    return History(lab, 11)


def check(history: History) -> None:
    for target, rows in history.expected().items():
        found = sorted(history.lab.rows(target), key=str)
        assert found == sorted(rows, key=str), target


def test_any_history_of_messy_keys_gives_what_clean_keys_would_give(history: History) -> None:
    for count in (14, 16):
        history.commits(count)
        assert history.lab.run_all().exit_code == 0
        check(history)
    assert history.lab.run("full", full_refresh=True).status == "unchanged"
    check(history)

    # Another form of the same key is no change; a second row that is the same key blocks, whatever its form.
    row = history.tables["merchants"] or pytest.fail("the history ends without merchants")
    key = min(row)
    history.put("merchants", key, name=row[key]["name"])
    assert history.lab.run("pairs").status == "unchanged"
    history.lab.append("merchants", {"id": f"\t{key}", "name": "second"})
    blocked = history.lab.run("pairs")
    assert (blocked.status, blocked.exit_code) == ("blocked", 3)
    assert ("key_unique", "merchants", 1) in [(each.expectation, each.source, each.failed) for each in blocked.findings]

    # The list of normalisers is part of the definition.
    (history.lab.home / "jobs" / "pairs.yml").write_text(PAIRS.replace(", unpad]", "]"))
    changed = history.lab.run("pairs")
    assert changed.exit_code == 5
    assert "--full-refresh" in (changed.error or "")
