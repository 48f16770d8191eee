"""Keys of every form are keys as any other: days that one of the JVM's calendars has not, bytes that are no UTF-8."""

from __future__ import annotations

from datetime import UTC, date, datetime
from weakref import WeakKeyDictionary

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

import enrich
from enrich.answers.question import explain
from enrich.frames import difference, normalise
from enrich.progress import continuity
from enrich.project import settings
from enrich.spark import session
from kit.lab import FEED as FED
from kit.lab import Lab, Prepared

FEED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
DAYS = "0001-01-01 1500-02-28 1582-10-04 1582-10-05 1582-10-10 1582-10-14"
GAP = tuple(map(date.fromisoformat, DAYS.split()))
"""Before and among the days that the calendar of `java.sql.Date` has not; it puts later ones in their place."""
NEXT = date(1582, 10, 15)
"""Delta's own reader of feeds takes days of the gap for this one."""

JOBS = {
    "plain": "sources: {o: {table: plain, key: day}}\nfrom: o\nselect: {day: o.day, x: o.x}\n"
    "where: o.day <> date '1582-10-14'\n",
    "pair": "sources: {o: {table: pair, key: [day, at]}}\nfrom: o\nselect: {day: o.day, at: o.at, x: o.x}\n",
    "parted": "sources: {o: {table: parted, key: day}}\nfrom: o\nselect: {day: o.day, x: o.x}\n",
    "held": "kind: mirror\nsources: {o: {table: held, key: id}}\nfrom: o\n"
    "mirror: {value: day, conflict: first, columns: x}\n",
}


def _write(lab: Lab, text: str, table: str) -> None:
    lab.spark.sql(text.replace("{}", f"delta.`{lab.path(table)}`"))


def _read(lab: Lab, table: str, *columns: str) -> list[tuple[object, ...]]:
    rows = lab.spark.read.format("delta").load(lab.path(table)).selectExpr(*columns)
    return sorted((tuple(row) for row in rows.collect()), key=repr)


def _at(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _list_days(name: str) -> list[date]:
    """Return the days of a table. Where a literal counts, it is behind all of them, and their file is skipped."""
    return [*GAP] if name in ("plain", "pair") else [*GAP, NEXT]


def _run_days(lab: Lab) -> None:
    """Write the days into tables, one of which is partitioned by them, and run a job over each."""
    kinds = {"id": pa.int32(), "day": pa.date32(), "at": pa.timestamp("us", "UTC"), "x": pa.int32()}
    for name, text in JOBS.items():
        parted = ["day"] if name == "parted" else None
        DeltaTable.create(lab.path(name), pa.schema([*kinds.items()]), partition_by=parted, configuration=FED)
        lab.append(name, *[{"id": i, "day": day, "at": _at(day), "x": 1} for i, day in enumerate(_list_days(name))])
        lab.job(f"job: j_{name}\n{text}target: {{table: t_{name}}}\n")
    assert not lab.run_all().exit_code


@pytest.fixture
def days(prepared: Prepared) -> Lab:
    return prepared("days of the gap", _run_days)


def test_days_of_the_gap_are_keys(days: Lab) -> None:
    """One day is looked for alone, so that it is the literal of its run: in half of the jobs it has changed."""
    for name in JOBS:
        if name in ("plain", "pair"):
            days.change(name, "day = date '1582-10-10'", x="9")
        else:
            days.drop(name, "day = date '1582-10-05'")
    assert not days.run_all().exit_code
    for name in JOBS:
        is_changed = name in ("plain", "pair")
        right = {
            day: 9 if is_changed and day == GAP[4] else 1 for day in _list_days(name) if is_changed or day != GAP[3]
        }
        if name == "plain":
            del right[GAP[5]]
        assert {row["day"]: row["x"] for row in days.rows(f"t_{name}")} == right
        assert len(days.rows(f"t_{name}")) == len(right)
    days.append("plain", {"day": GAP[4], "x": 5})
    assert days.run("j_plain").exit_code == 3


def test_a_literal_of_the_other_calendar_is_found(days: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(settings.FORCED, "spark.sql.datetime.java8API.enabled")
    monkeypatch.setattr(session, "_idle", WeakKeyDictionary())
    days.change("pair", "day = date '1582-10-10'", x="9")
    days.run("j_pair")
    assert len(days.rows("t_pair")) != len(GAP)


FORMS = "nfc, visible, trim, lower, integer, unpad"
KEYS = ("61FF", "61FE", "4241")


def _open_bytes(lab: Lab) -> None:
    """Write keys and references that are no UTF-8, rows without key that differ in such bytes, and jobs over them."""
    texts = ", ".join(f"(cast(x'{key}' as string), cast(x'{key}' as string), 1)" for key in KEYS)
    lacking = ", ".join(f"(null, cast(x'{key}' as string), 2)" for key in KEYS)
    _write(lab, f"CREATE TABLE {{}} {FEED} AS SELECT * FROM VALUES {texts}, {lacking} AS t(id, ref, x)", "orders")
    known = "(cast(x'61FF' as string), 1), (cast(x'61FE' as string), 2), ('ba', 3)"
    _write(lab, f"CREATE TABLE {{}} {FEED} AS SELECT * FROM VALUES {known} AS t(id, v)", "lookup")
    lab.job(
        f"job: others\nsources:\n  o: {{table: orders, key: id, normalise: [{FORMS}]}}\n"
        f"  l: {{table: lookup, key: id, normalise: [{FORMS}]}}\nfrom: o\n"
        f"join: {{l: {{kind: foreign_key, on: o.ref}}}}\ntarget: {{table: t_others}}\n"
    )


def test_bytes_that_are_no_utf8_stay_as_they_are(prepared: Prepared) -> None:
    lab = prepared("bytes", _open_bytes)
    assert lab.run().error is None
    _write(lab, "UPDATE {} SET x = 5 WHERE hex(id) = '61FF'", "orders")
    _write(lab, "UPDATE {} SET v = 7 WHERE hex(id) = '61FE'", "lookup")
    _write(lab, "DELETE FROM {} WHERE id is null and hex(ref) = '61FE'", "orders")
    assert lab.run().error is None
    assert _read(lab, "t_others", "hex(id)", "x", "l_v") == [("61FE", 1, 7), ("61FF", 5, 1), ("6261", 1, 3)]
    assert _read(lab, "t_others__quarantine", "id", "hex(ref)") == [(None, "4241"), (None, "61FF")]


def test_texts_that_are_read_as_characters_are_found(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = prepared("bytes", _open_bytes)
    monkeypatch.setattr(difference, "_read_as_bytes", lambda kind: kind)
    monkeypatch.setattr(normalise, "normalise", lambda column, _steps: normalise._FORMS["visible"](column))
    assert lab.run("others").exit_code == 3  # both keys are one
    lab.job("job: others\nsources: {o: {table: orders, key: id}}\nfrom: o\ntarget: {table: t_others}\n")
    assert lab.run("others").error is None
    assert len(set(_read(lab, "t_others__quarantine", "hex(ref)"))) < len(KEYS)


def _open_lists(lab: Lab) -> None:
    number, text = pa.int32(), pa.string()
    people = [{"id": 1, "mails": ["a"]}, {"id": 2, "mails": ["b"]}]
    lab.table("people", "id", {"id": number, "mails": pa.list_(text)}, people)
    lab.table("mails", "mail", {"mail": text, "n": number}, [{"mail": "a", "n": 1}, {"mail": "b", "n": 2}])
    lab.table("texts", "text", {"text": text, "v": number}, [{"text": "no null", "v": 1}, {"text": "null", "v": 2}])
    head = "sources: {p: {table: people, key: id}, m: {table: mails, key: mail}"
    lists = "m: {kind: list, elements: p.mails}"
    seen = "contains(cast(m as string), 'null')"
    lab.job(f"job: kept\n{head}}}\nfrom: p\njoin: {{{lists}}}\nselect: {{id: p.id}}\n"
            f"where: \"not {seen}\"\ntarget: {{table: t_kept}}\n")  # fmt: skip
    lab.job(f"job: joined\n{head}, t: {{table: texts, key: text}}}}\nfrom: p\njoin:\n  {lists}\n"
            f"  t: {{kind: foreign_key, on: \"if({seen}, 'null', 'no null')\"}}\n"
            "select: {id: p.id, v: t.v}\ntarget: {table: t_joined}\n")  # fmt: skip

    assert not lab.run_all().exit_code
    assert _read_lists(lab) == ([1, 2], {1: 1, 2: 1})
    DeltaTable(lab.path("mails")).alter.add_columns([Field("z", PrimitiveType("integer"))])
    lab.change("mails", "mail = 'b'", z="1")


def _read_lists(lab: Lab) -> tuple[list[int], dict[int, int]]:
    return [row["id"] for row in lab.rows("t_kept")], {row["id"]: row["v"] for row in lab.rows("t_joined")}


def test_a_list_that_is_read_as_a_whole_follows_the_columns_of_its_lookup(prepared: Prepared) -> None:
    """In a condition, and in what a later join refers by, its text has the new column in every row."""
    lab = prepared("lists that gain a column", _open_lists)
    assert not lab.run_all().exit_code
    assert _read_lists(lab) == ([2], {1: 2, 2: 1})
    assert {each.mode for each in lab.run_all().jobs} == {"incremental"}


def test_a_list_whose_columns_nobody_compares_is_found(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = prepared("lists that gain a column", _open_lists)
    monkeypatch.setattr(continuity, "find_reshaped", lambda _cursor, _spec: [])
    assert not lab.run_all().exit_code
    assert _read_lists(lab) == ([1, 2], {1: 1, 2: 1})


def test_days_that_python_has_not_are_asked_for(lab: Lab) -> None:
    days = "(date '+12345-01-01', null), (date '-0044-03-15', 1)"
    _write(lab, f"CREATE TABLE {{}} {FEED} AS SELECT * FROM VALUES {days} AS t(day, x)", "far")
    lab.job(
        "job: far\nsources: {o: {table: far, key: day}}\nquery: SELECT day, x FROM o\n"
        "target: {table: t_far}\nexpectations: far\n"
    )
    warns = {"enrich": {"action": "warn"}}
    lab.suite("far", {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "x"}, "meta": warns})
    assert lab.run("far").exit_code == 0
    project = enrich.load_project(lab.home)
    told = explain(project, "far", ["-0044-03-15", "+12345-01-02"], spark=lab.spark)
    assert [each.row.reason for each in told] == ["matched", "no_such_key"]
    assert {each.what for each in enrich.trace(project, "far", "+12345-01-01", spark=lab.spark).places} >= {"row"}
    (rule,) = enrich.failing(project, "far", spark=lab.spark, show_keys=True).rules
    assert [row.key for row in rule.rows] == [{"day": "+12345-01-01"}]


def test_why_is_asked_by_the_key_that_the_target_has(lab: Lab) -> None:
    """Here normalisers would change it once more; the source's spelling is brought into the form of the target's."""
    keys = ["\u200b m1", " 007"]
    lab.table("s", "id", {"id": pa.string(), "v": pa.int32()}, [{"id": key, "v": None} for key in keys])
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "v"}}
    lab.suite("e", {**rule, "meta": {"enrich": {"action": "warn"}}})
    lab.job(
        "job: j\nsources: {s: {table: s, key: id, normalise: [unpad, trim, visible]}}\nfrom: s\n"
        "target: {table: t}\nexpectations: e\n"
    )
    assert not lab.run().exit_code
    assert [row["id"] for row in lab.rows("t")] == [" m1", "007"]
    project = enrich.load_project(lab.home)
    (failing,) = enrich.failing(project, "j", spark=lab.spark, show_keys=True).rules
    asked = [*[row.key for row in failing.rows], *[{"id": key} for key in keys]]
    told = explain(project, "j", asked, spark=lab.spark)
    assert len(told) == 4
    assert {(each.row.reason, each.columns["v"].reason) for each in told} == {("matched", "value_null")}
    assert {row.reason.reason for row in failing.rows} == {"value_null"}
