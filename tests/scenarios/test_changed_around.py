"""What changes around a target without a change of data: trust, CHAR, other writers' columns, a forgotten number."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

import enrich
from enrich.base.result import RunResult
from enrich.delta import tables
from enrich.progress import continuity, cursor, decision
from enrich.progress.plan import Plan
from faults.shop import SOAK
from kit.commits import find_commit, forget_numbers, rewrite_commit
from kit.lab import Lab, Prepared, Row
from kit.project import hold_nulls
from kit.session import forget_tables

NUMBER = pa.int32()
FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


def tell(lab: Lab, *statements: str) -> None:
    """Let another writer do something; ``{name}`` stands for a table."""
    names = {each.name: f"delta.`{each}`" for each in (lab.home / "lake").glob("*") if not each.name.startswith("_")}
    for statement in statements:
        lab.spark.sql(statement.format(**names))


def create(lab: Lab, name: str, columns: str, rows: str) -> None:
    lab.spark.sql(f"CREATE TABLE delta.`{lab.path(name)}` ({columns}) USING delta {FEED}")
    tell(lab, f"INSERT INTO {{{name}}} VALUES {rows}")


def ask(lab: Lab, query: str) -> list[tuple[Any, ...]]:
    """Return what Spark reads, in order."""
    names = {each.name: f"delta.`{each}`" for each in (lab.home / "lake").glob("*") if not each.name.startswith("_")}
    return sorted((tuple(row) for row in lab.spark.sql(query.format(**names)).collect()), key=repr)


def compare(lab: Lab, *jobs: str) -> dict[str, str]:
    """Return the jobs, of all or of the named ones, that `verify` does not find equal, with what it says."""
    found = enrich.verify(enrich.load_project(lab.home), list(jobs) or None, spark=lab.spark).jobs
    return {each.job: str(each.error) for each in found if each.status != "equal"}


def forget(lab: Lab, table: str, *names: str) -> None:
    """Let the last record of a target lack what records of old lack about a source."""

    def change(action: dict[str, Any]) -> dict[str, Any]:
        if "commitInfo" in action and "userMetadata" in action["commitInfo"]:
            record = json.loads(action["commitInfo"]["userMetadata"])
            record["sources"] = {
                alias: {key: value for key, value in mark.items() if key not in names}
                for alias, mark in record["sources"].items()
            }
            action["commitInfo"]["userMetadata"] = json.dumps(record)
        return action

    rewrite_commit(Path(lab.path(table)), DeltaTable(lab.path(table)).version(), change)


def codes(found: RunResult) -> dict[str, int]:
    return {each.job: each.exit_code for each in found.jobs}


TRUSTED = {
    "live": "sources: {{o: {{table: orders, key: id{trust}}}}}\nfrom: o\n"
    "select: {{id: o.id, x: o.x}}\nwhere: not o.gone\n",
    "looks": "sources:\n  a: {{table: bills, key: bill}}\n  b: {{table: orders, key: id{trust}}}\n"
    "  c: {{table: orders, key: id{trust}}}\nfrom: a\njoin:\n  b: {{kind: foreign_key, on: a.id}}\n"
    "  c: {{kind: foreign_key, on: a.other}}\n"
    "select: {{bill: a.bill, x: b.x, y: c.x}}\nwhere: not coalesce(b.gone, false) and not coalesce(c.gone, false)\n",
    "lists": "sources:\n  a: {{table: bills, key: bill}}\n  b: {{table: orders, key: id{trust}}}\nfrom: a\n"
    "join: {{b: {{kind: list, elements: a.ids}}}}\nselect: {{bill: a.bill, items: b}}\n",
    "values": "kind: mirror\nsources: {{o: {{table: orders, key: id{trust}}}}}\nfrom: o\n"
    "mirror: {{value: x, conflict: first}}\n",
    "past": "kind: history\nsources: {{o: {{table: orders, key: id{trust}}}}}\nfrom: o\n",
}

if not SOAK:
    TRUSTED = {name: TRUSTED[name] for name in ("live", "looks")}


def trust(lab: Lab, word: str) -> None:
    for name, text in TRUSTED.items():
        lab.job(f"job: {name}\n{text.format(trust=word)}target: {{table: {name}}}\n")


def open_trusted(lab: Lab) -> None:
    lab.table("orders", "id", {"id": NUMBER, "x": NUMBER, "gone": pa.bool_()})
    rows = ((1, 1, False), (1, 0, True), (2, 2, False))
    lab.append("orders", *[{"id": key, "x": x, "gone": gone} for key, x, gone in rows])
    kinds = {"bill": NUMBER, "id": NUMBER, "other": NUMBER, "ids": pa.list_(NUMBER)}
    bills = ((7, 1, 2, [1, 2]), (8, 2, 2, [2]))
    lab.table("bills", "bill", kinds, [dict(zip(kinds, bill, strict=True)) for bill in bills])
    trust(lab, ", unique: trusted")
    assert codes(lab.run_all()) == dict.fromkeys(TRUSTED, 0)


@pytest.fixture
def trusted(prepared: Prepared) -> Lab:
    return prepared("trusted", open_trusted)


LIVE = [(1, 1), (2, 2)]


def test_when_trust_ends_the_whole_source_is_searched_though_nothing_else_changes(trusted: Lab) -> None:
    trust(trusted, "")
    others = [name for name in TRUSTED if name != "live"]
    assert enrich.plan(enrich.load_project(trusted.home), ["live"], spark=trusted.spark).exit_code == 3
    found = trusted.run_all(*others)
    assert codes(found) == dict.fromkeys(others, 3)
    assert {each.expectation for job in found.jobs for each in job.findings} == {"key_unique"}
    trusted.change("orders", "id = 1 AND gone", x="99")
    assert codes(trusted.run_all("live")) == {"live": 3}
    assert ask(trusted, "SELECT id, x FROM {live}") == LIVE

    # Without the second row, jobs go on; what was trusted before the window is no reason to take its rows for all.
    trusted.drop("orders", "gone")
    trusted.append("orders", {"id": 3, "x": 3, "gone": False})
    of_past = {"past": 3} if SOAK else {}
    assert codes(trusted.run_all()) == dict.fromkeys(TRUSTED, 0) | of_past, "a history begins with both"
    assert ask(trusted, "SELECT id, x FROM {live}") == [*LIVE, (3, 3)]
    assert ask(trusted, "SELECT bill, x, y FROM {looks}") == [(7, 1, 2), (8, 2, 2)]
    assert not SOAK or compare(trusted, *(TRUSTED.keys() - {"live", "past"})) == {}
    again = {each.job: each.strategy for each in trusted.run_all().jobs if each.job != "past"}
    assert set(again.values()) == {"nothing"}, "the search is recorded, and not made again"


@pytest.mark.soak
def test_a_record_of_old_says_nothing_of_trust(trusted: Lab) -> None:
    trusted.drop("orders", "gone")
    assert codes(trusted.run_all()) == dict.fromkeys(TRUSTED, 0)
    for name in TRUSTED:
        forget(trusted, name, "trusted")
    trust(trusted, "")
    assert {each.strategy for each in trusted.run_all().jobs} == {"nothing"}, "that alone is nothing to do"
    tell(trusted, "INSERT INTO {orders} VALUES (1, 0, true)", "UPDATE {orders} SET x = 5 WHERE id = 2")
    assert codes(trusted.run_all()) == dict.fromkeys(TRUSTED, 3)
    tell(trusted, "DELETE FROM {orders} WHERE gone")
    # What a history has recorded of two rows with one key is not defined: it is left out.
    others = [name for name in TRUSTED if name != "past"]
    assert codes(trusted.run_all(*others)) == dict.fromkeys(others, 0)
    assert compare(trusted).keys() <= {"past"}
    (mark,) = [cursor.Cursor.from_dict(json.loads(trusted.log("live")[0]["userMetadata"])).sources["o"]]
    assert mark.trusted is False


def test_planted_trust_that_is_not_recorded(trusted: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "unsearched", frozenset())
    trust(trusted, "")
    trusted.change("orders", "id = 1 AND gone", x="99")
    trusted.run_all("live")
    assert ask(trusted, "SELECT id, x FROM {live}") != LIVE


GAINING = """\
job: gaining
sources: {o: {table: orders, key: id}, m: {table: mails, key: mail_id}}
from: o
join: {m: {kind: foreign_key, on: o.mail_id}}
target: {table: gaining}
expectations: named
rules: [{rule: mass_change, at_most: 0}]
"""
KEEPING = "job: keeping\nkind: history\nsources: {o: {table: orders, key: id}}\nfrom: o\ntarget: {table: keeping}\n"
KEEPING += "expectations: named\n"
KEPT = [(1, None), (2, None), (4, 1), (4, None), (5, None)]
GAINED = [(1, "a", None, "A"), (2, "b", None, None), (4, "a", 1, "A"), (5, "b", None, None)]


def open_gaining(lab: Lab) -> None:
    """Let another writer give columns and values to targets and quarantines, and accept that."""
    rows = ((1, "a", "x"), (2, "b", "x"), (3, "a", None))
    kinds = {"id": NUMBER, "mail_id": pa.string(), "name": pa.string()}
    lab.table("orders", "id", kinds, [dict(zip(kinds, row, strict=True)) for row in rows])
    mails: list[Row] = [{"mail_id": "a", "size": 1}, {"mail_id": "b", "size": 2}]
    lab.table("mails", "mail_id", {"mail_id": pa.string(), "size": NUMBER}, mails)
    lab.suite("named", hold_nulls("name"))
    lab.job(GAINING)
    lab.job(KEEPING)
    assert codes(lab.run_all()) == {"gaining": 0, "keeping": 0}
    note, mail = Field("NOTE", PrimitiveType("integer")), Field("m_mail", PrimitiveType("string"))
    for name, columns in (("gaining", [note, mail]), ("keeping", [note])):
        DeltaTable(lab.path(name)).alter.add_columns(columns)
        lab.change(name, "true", NOTE="7")
    tell(
        lab,
        "ALTER TABLE {gaining} SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "ALTER TABLE {gaining} ALTER COLUMN m_mail SET DEFAULT 'foreign'",
    )
    assert codes(lab.run_all()) == {"gaining": 6, "keeping": 6}
    assert enrich.verify(enrich.load_project(lab.home), repair=True, spark=lab.spark).exit_code == 0
    for name in ("gaining__quarantine", "keeping__quarantine"):
        DeltaTable(lab.path(name)).alter.add_columns([Field("note", PrimitiveType("integer"))])
    lab.append("orders", {"id": 4, "mail_id": "a", "name": "x"})
    assert codes(lab.run_all()) == {"gaining": 0, "keeping": 0}
    assert ask(lab, "SELECT m_mail FROM {gaining} WHERE id = 4") == [("foreign",)]


@pytest.fixture
def gaining(prepared: Prepared) -> Lab:
    return prepared("gaining", open_gaining)


def gain(lab: Lab) -> RunResult:
    """Let the sources gain these columns, with values in some rows, and run."""
    DeltaTable(lab.path("orders")).alter.add_columns([Field("note", PrimitiveType("integer"))])
    lab.change("orders", "id = 4", note="1")
    lab.append("orders", {"id": 5, "mail_id": "b", "name": "x", "note": None})
    DeltaTable(lab.path("mails")).alter.add_columns([Field("mail", PrimitiveType("string"))])
    lab.change("mails", "mail_id = 'a'", mail="'A'")
    return lab.run_all()


def test_columns_of_another_writer_become_the_sources(gaining: Lab) -> None:
    found = gain(gaining)
    assert codes(found) == {"gaining": 0, "keeping": 0}, [each.error for each in found.jobs]
    joined, kept = found.jobs
    assert ask(gaining, "SELECT id, mail_id, note, m_mail FROM {gaining}") == GAINED
    assert ask(gaining, "SELECT id, note, m_mail FROM {gaining__quarantine}") == [(3, None, "A")]
    assert joined.state is not None
    assert joined.state.nulls == {"id": 0, "mail_id": 0, "name": 0, "m_size": 0, "note": 3, "m_mail": 2}
    assert ask(gaining, "SELECT id, note FROM {keeping}") == KEPT
    assert ask(gaining, "SELECT id, note FROM {keeping__quarantine}") == [(3, None)]
    assert kept.state is not None
    assert kept.state.nulls["note"] == 4

    # From here on by changes.
    gaining.change("orders", "id = 5", note="2")
    assert gaining.run("gaining").mode == "incremental"
    assert ask(gaining, "SELECT id, mail_id, note, m_mail FROM {gaining}") == [*GAINED[:3], (5, "b", 2, None)]


def test_planted_columns_of_another_writer_that_are_taken_as_they_are(
    gaining: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "take_all", lambda as_it_is, *_: as_it_is)
    change: Callable[..., Any] = lambda plan, **how: plan if how == {"anew": True} else replace(plan, **how)  # noqa: E731
    monkeypatch.setattr(decision, "replace", change)
    gain(gaining)
    assert ask(gaining, "SELECT id, mail_id, note, m_mail FROM {gaining}") != GAINED
    assert ask(gaining, "SELECT id, note FROM {keeping}") != KEPT


CHARS = {
    "plain": "sources: {g: {table: goods, key: id}}\nfrom: g\nselect: {id: g.id, code: g.code, inner: g.part.c}\n",
    "whole": "sources: {g: {table: goods, key: id}}\nfrom: g\nselect: {id: g.id, part: g.part}\n",
    "keyed": "sources: {g: {table: goods, key: code}}\nfrom: g\nselect: {code: g.code, id: g.id}\n",
    "looked": "sources: {b: {table: bills, key: bill}, g: {table: goods, key: id}}\nfrom: b\n"
    "join: {g: {kind: foreign_key, on: b.id}}\nselect: {bill: b.bill, code: \"concat('<', g.code, '>')\"}\n",
    "listed": "sources: {b: {table: bills, key: bill}, g: {table: goods, key: id}}\nfrom: b\n"
    "join: {g: {kind: list, elements: b.ids}}\nselect: {bill: b.bill, items: g}\n",
    "mirrored": "kind: mirror\nsources: {g: {table: goods, key: id}}\nfrom: g\nmirror: {value: code}\n",
    "history": "kind: history\nsources: {g: {table: goods, key: id}}\nfrom: g\nhistory: {columns: [code]}\n",
    "apart": "sources: {g: {table: goods, key: id}}\nfrom: g\nselect: {id: g.id, x: g.x}\n",
    "aside": "kind: history\nsources: {g: {table: goods, key: id}}\nfrom: g\nhistory: {columns: [x]}\n",
}
SHOWN = {
    "keyed": ("SELECT code FROM {keyed}", [("a",), ("b",), ("c",), ("longer",)]),
    "looked": ("SELECT code FROM {looked}", [("<a>",)]),
    "listed": ("SELECT items.code FROM {listed}", [(["a", "b"],)]),
    "mirrored": ("SELECT code FROM {mirrored}", [("a",), ("b",), ("c",), ("longer",)]),
}
"""What targets show of a column that is no ``CHAR`` any more."""
if not SOAK:
    CHARS = {name: CHARS[name] for name in ("plain", "history", "apart")}


def open_chars(lab: Lab) -> None:
    create(
        lab,
        "goods",
        "id INT, code CHAR(5), part STRUCT<c: CHAR(3)>, x INT",
        "(1, 'a', named_struct('c', 'u'), 1), (2, 'b', null, 1)",
    )
    kinds = {"bill": NUMBER, "id": NUMBER, "ids": pa.list_(NUMBER)}
    lab.table("bills", "bill", kinds, [{"bill": 7, "id": 1, "ids": [1, 2]}])
    for name, text in CHARS.items():
        lab.job(f"job: {name}\n{text}target: {{table: {name}}}\n")
    assert codes(lab.run_all()) == dict.fromkeys(CHARS, 0)
    tell(lab, "INSERT INTO {goods} VALUES (3, 'c', null, 1)")  # the feed has what the snapshot has
    told = [*CHARS] if SOAK else ["plain", "history"]
    assert codes(lab.run_all(*told)) == dict.fromkeys(told, 0)
    assert ask(lab, "SELECT id, code, inner FROM {plain}") == CODES
    declared = {name for name in ("goods", *CHARS) if "CHAR_VARCHAR" in DeltaTable(lab.path(name)).schema().to_json()}
    assert declared == {"goods"}, "a length, also inside lists and structs, is that of the source"


@pytest.fixture
def chars(prepared: Prepared) -> Lab:
    return prepared("chars", open_chars)


CODES = [(1, "a    ", "u  "), (2, "b    ", None), (3, "c    ", None)]
NOW = [(1, "a", "u  "), (2, "b", None), (3, "c", None), (4, "longer", None)]


@pytest.mark.soak
def test_a_record_of_old_says_nothing_of_char(chars: Lab) -> None:
    for name in ("plain", "apart"):
        forget(chars, name, "chars")
    tell(chars, "ALTER TABLE {goods} ALTER COLUMN code TYPE VARCHAR(10)")
    found = chars.run_all("plain", "apart")
    assert {each.job: each.mode for each in found.jobs} == {"plain": "full_refresh", "apart": "incremental"}
    assert ask(chars, "SELECT id, code, inner FROM {plain}") == NOW[:3]


def test_char_that_becomes_varchar_changes_every_row(chars: Lab) -> None:
    tell(chars, "ALTER TABLE {goods} ALTER COLUMN code TYPE VARCHAR(10)")
    tell(chars, "INSERT INTO {goods} VALUES (4, 'longer', null, 1)")
    found = chars.run_all()
    assert codes(found) == dict.fromkeys(CHARS, 0) | {"history": 5}
    by_changes = {each.job for each in found.jobs if each.mode == "incremental"}
    assert by_changes == {"apart", "aside", "whole"} & CHARS.keys(), "who does not use the column goes on"
    assert ask(chars, "SELECT id, code, inner FROM {plain}") == NOW
    for query, rows in (SHOWN[name] for name in SHOWN.keys() & CHARS.keys()):
        assert ask(chars, query) == rows

    refused = next(each for each in found.jobs if each.job == "history")
    assert "`enrich run history --allow-gap`" in str(refused.error)
    assert chars.run("history", allow_gap=True).exit_code == 0
    ended = ask(chars, "SELECT id, code, valid_to IS NULL FROM {history}")
    assert ended == sorted([(n, c, False) for n, c, _ in CODES] + [(n, c, True) for n, c, _ in NOW], key=repr)
    assert not SOAK or compare(chars) == {}, "what `verify` says, the rows above say"
    assert {each.strategy for each in chars.run_all().jobs} == {"nothing"}


@pytest.mark.soak
def test_varchar_that_becomes_char_and_string_changes_every_row(chars: Lab) -> None:
    tell(chars, "ALTER TABLE {goods} ALTER COLUMN code TYPE STRING")
    assert codes(chars.run_all("plain")) == {"plain": 0}
    assert ask(chars, "SELECT id, code, inner FROM {plain}") == NOW[:3]
    goods = Path(chars.path("goods"))
    actions = map(json.loads, find_commit(goods, 0).read_text().splitlines())
    declared = next(each for each in actions if "metaData" in each)
    told = [{"commitInfo": {"operation": "CHANGE COLUMN"}}, declared]
    find_commit(goods, DeltaTable(goods).version() + 1).write_text("\n".join(map(json.dumps, told)))
    forget_tables(chars.spark)
    assert codes(chars.run_all("plain")) == {"plain": 0}
    assert ask(chars, "SELECT id, code, inner FROM {plain}") == CODES


def test_planted_char_that_nobody_looks_at(chars: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuity, "is_recast", lambda *_: False)
    monkeypatch.setattr(tables, "keeps_columns", lambda *_: True)
    tell(chars, "ALTER TABLE {goods} ALTER COLUMN code TYPE VARCHAR(10)")
    chars.run_all("plain")
    assert ask(chars, "SELECT id, code, inner FROM {plain}") != NOW[:3]


COUNTED = """\
job: counted
sources: {o: {table: orders, key: id}}
from: o
target: {table: counted}
expectations: named
"""


def open_counted(lab: Lab) -> None:
    lab.table(
        "orders", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": 1, "name": "x"}, {"id": 2, "name": None}]
    )
    lab.suite("named", hold_nulls("name"))
    lab.job(COUNTED)
    assert lab.run().status == "created"
    for table in map(DeltaTable, (lab.path("counted"), lab.path("counted__quarantine"))):
        table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 hours"})


@pytest.fixture
def counted(prepared: Prepared) -> Lab:
    return prepared("counted", open_counted)


def grow_old(lab: Lab) -> None:
    """Let hours pass: Delta forgets the numbers of all commits."""
    for table in map(Path, (lab.path("counted"), lab.path("counted__quarantine"))):
        forget_numbers(table)
        assert DeltaTable(table).transaction_version(cursor.name_application("counted")) is None
    forget_tables(lab.spark)


def test_a_target_that_forgets_its_number_goes_on(counted: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    grow_old(counted)
    assert counted.run().strategy == "nothing"
    counted.put("orders", {"id": 3, "name": "x"}, {"id": 4, "name": None})
    done = counted.run()
    assert (done.exit_code, done.counts.inserted, done.counts.quarantined) == (0, 1, 1), done.error
    grow_old(counted)
    for table in ("counted", "counted__quarantine"):
        DeltaTable(counted.path(table)).create_checkpoint()
    forget_tables(counted.spark)
    assert counted.run(full_refresh=True).exit_code == 0
    grow_old(counted)
    counted.put("orders", {"id": 7, "name": "x"})
    assert counted.run().exit_code == 0
    assert [row["id"] for row in counted.rows("counted")] == [1, 3, 7]
    assert {row["id"] for row in counted.rows("counted__quarantine")} == {2, 4}
    numbers = [json.loads(each["userMetadata"])["number"] for each in counted.log("counted") if "userMetadata" in each]
    assert numbers == sorted(set(numbers), reverse=True)

    # The planted bug.
    grow_old(counted)
    counted.put("orders", {"id": 8, "name": "x"})
    application = cursor.name_application("counted")
    monkeypatch.setattr(cursor, "find_number", lambda log, *_: log.transaction_version(application))
    assert counted.run().exit_code == 2
