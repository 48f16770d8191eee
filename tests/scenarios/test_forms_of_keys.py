"""Keys of every form are keys as any other: days that one of the JVM's calendars has not, bytes that are no UTF-8."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pytest

import enrich
from enrich.answers.question import explain
from enrich.frames import difference, normalise
from enrich.progress import continuity
from enrich.project import settings
from enrich.spark import session
from kit.lab import Lab

FEED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
GAP = ("0001-01-01", "1500-02-28", "1582-10-04", "1582-10-05", "1582-10-10", "1582-10-14")
"""Before and among the days that the calendar of `java.sql.Date` has not; it puts later ones in their place."""

DAYS = {
    "plain": ("date", "sources: {o: {table: plain, key: day}}"),
    "moment": ("timestamp", "sources: {o: {table: moment, key: day}}"),
    "pair": ("date", "sources: {o: {table: pair, key: [day, n]}}"),
    "parted": ("date", "sources: {o: {table: parted, key: day}}"),
}


def _write(lab: Lab, text: str, table: str) -> None:
    lab.spark.sql(text.replace("{}", f"delta.`{lab.path(table)}`"))


def _read(lab: Lab, table: str, *columns: str) -> list[tuple[object, ...]]:
    rows = lab.spark.read.format("delta").load(lab.path(table)).selectExpr(*columns)
    return sorted((tuple(row) for row in rows.collect()), key=repr)


def _open_days(lab: Lab, *names: str) -> None:
    for name in names:
        kind, sources = DAYS[name]
        parted = "PARTITIONED BY (day)" if name == "parted" else ""
        _write(lab, f"CREATE TABLE {{}} (day {kind}, n INT, x INT) {FEED} {parted}", name)
        values = ", ".join(f"({kind} '{day}', 1, 1)" for day in GAP)
        _write(lab, f"INSERT INTO {{}} VALUES {values}", name)
        kept = "select: {day: o.day, n: o.n, x: o.x}\n" + (
            f"where: o.day <> {kind} '1582-10-14'\n" if name == "plain" else ""
        )
        lab.job(f"job: j_{name}\n{sources}\nfrom: o\n{kept}target: {{table: t_{name}}}\n")


def test_days_of_the_gap_are_keys(lab: Lab) -> None:
    """One day after the other is looked for alone, so that each is the literal of its run."""
    _open_days(lab, *DAYS)
    _write(lab, f"CREATE TABLE {{}} (id INT, day DATE, x INT) {FEED}", "held")
    _write(lab, "INSERT INTO {} VALUES " + ", ".join(f"({i}, date '{day}', 1)" for i, day in enumerate(GAP)), "held")
    lab.job(
        "job: turned\nkind: mirror\nsources: {o: {table: held, key: id}}\nfrom: o\n"
        "mirror: {value: day, conflict: first, columns: x}\ntarget: {table: t_held}\n"
    )
    names = [*[f"j_{name}" for name in DAYS], "turned"]
    assert not lab.run_all().exit_code
    for name in (*DAYS, "held"):
        _write(lab, "UPDATE {} SET x = 9 WHERE cast(day as date) = date '1582-10-10'", name)
    assert not lab.run_all().exit_code
    for name in (*DAYS, "held"):
        _write(lab, "DELETE FROM {} WHERE cast(day as date) = date '1582-10-05'", name)
    _write(lab, "INSERT INTO {} VALUES (date '1582-10-10', 1, 5)", "plain")
    found = {each.job: each for each in lab.run_all().jobs}
    assert {name: each.exit_code for name, each in found.items()} == {**dict.fromkeys(names, 0), "j_plain": 3}
    right = [(day, 9 if day == "1582-10-10" else 1) for day in GAP if day != "1582-10-05"]
    for name in (*DAYS, "held"):
        rows = _read(lab, f"t_{name}", "string(cast(day as date))", "x")
        there = [pair for pair in right if name != "plain" or pair[0] != "1582-10-14"]
        assert rows == (there if name != "plain" else sorted([*there, ("1582-10-05", 1)]))
    checked = enrich.verify(enrich.load_project(lab.home), ["j_pair"], spark=lab.spark)
    assert {each.status for each in checked.jobs} == {"equal"}


def test_a_literal_of_the_other_calendar_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(settings.FORCED, "spark.sql.datetime.java8API.enabled")
    monkeypatch.setattr(session, "_idle", WeakKeyDictionary())
    _open_days(lab, "pair")
    assert lab.run().error is None
    _write(lab, "UPDATE {} SET x = 9 WHERE day = date '1582-10-10'", "pair")
    lab.run()
    assert len(_read(lab, "t_pair", "day")) != len(GAP)


FORMS = {"composed": "nfc, lower", "others": "visible, trim, lower, integer, unpad"}
KEYS = ("61FF", "61FE", "4241")


def _open_bytes(lab: Lab) -> None:
    """Write keys and references that are no UTF-8, rows without key that differ in such bytes, and jobs over them."""
    texts = ", ".join(f"(cast(x'{key}' as string), cast(x'{key}' as string), 1)" for key in KEYS)
    lacking = ", ".join(f"(null, cast(x'{key}' as string), 2)" for key in KEYS)
    _write(lab, f"CREATE TABLE {{}} (id STRING, ref STRING, x INT) {FEED}", "orders")
    _write(lab, f"INSERT INTO {{}} VALUES {texts}, {lacking}", "orders")
    _write(lab, f"CREATE TABLE {{}} (id STRING, v INT) {FEED}", "lookup")
    _write(lab, "INSERT INTO {} VALUES (cast(x'61FF' as string), 1), (cast(x'61FE' as string), 2), ('ba', 3)", "lookup")
    for name, forms in FORMS.items():
        lab.job(
            f"job: {name}\nsources:\n  o: {{table: orders, key: id, normalise: [{forms}]}}\n"
            f"  l: {{table: lookup, key: id, normalise: [{forms}]}}\nfrom: o\n"
            f"join: {{l: {{kind: foreign_key, on: o.ref}}}}\ntarget: {{table: t_{name}}}\n"
        )


def test_bytes_that_are_no_utf8_stay_as_they_are(lab: Lab) -> None:
    _open_bytes(lab)
    assert {each.job: each.error for each in lab.run_all().jobs} == dict.fromkeys(FORMS)
    _write(lab, "UPDATE {} SET x = 5 WHERE hex(id) = '61FF'", "orders")
    _write(lab, "UPDATE {} SET v = 7 WHERE hex(id) = '61FE'", "lookup")
    _write(lab, "DELETE FROM {} WHERE id is null and hex(ref) = '61FE'", "orders")
    assert {each.job: each.error for each in lab.run_all().jobs} == dict.fromkeys(FORMS)
    for name in FORMS:
        assert _read(lab, f"t_{name}", "hex(id)", "x", "l_v") == [("61FE", 1, 7), ("61FF", 5, 1), ("6261", 1, 3)]
        assert _read(lab, f"t_{name}__quarantine", "id", "hex(ref)") == [(None, "4241"), (None, "61FF")]
    checked = enrich.verify(enrich.load_project(lab.home), ["others"], spark=lab.spark)
    assert {each.status for each in checked.jobs} == {"equal"}


def test_texts_that_are_read_as_characters_are_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference, "_read_as_bytes", lambda kind: kind)
    monkeypatch.setattr(normalise, "normalise", lambda column, _steps: normalise._FORMS["visible"](column))
    _open_bytes(lab)
    assert lab.run("others").exit_code == 3  # both keys are one
    (lab.home / "jobs" / "others.yml").write_text(
        "job: others\nsources: {o: {table: orders, key: id}}\nfrom: o\ntarget: {table: t_others}\n"
    )
    assert lab.run("others").error is None
    assert len(set(_read(lab, "t_others__quarantine", "hex(ref)"))) < len(KEYS)


def _open_lists(lab: Lab) -> None:
    _write(lab, f"CREATE TABLE {{}} (id INT, mails ARRAY<STRING>) {FEED}", "people")
    _write(lab, "INSERT INTO {} VALUES (1, array('a')), (2, array('b'))", "people")
    _write(lab, f"CREATE TABLE {{}} (mail STRING, n INT) {FEED}", "mails")
    _write(lab, "INSERT INTO {} VALUES ('a', 1), ('b', 2)", "mails")
    _write(lab, f"CREATE TABLE {{}} (text STRING, v INT) {FEED}", "texts")
    _write(lab, "INSERT INTO {} VALUES ('no null', 1), ('null', 2)", "texts")
    head = "sources: {p: {table: people, key: id}, m: {table: mails, key: mail}"
    lists = "m: {kind: list, elements: p.mails}"
    seen = "contains(cast(m as string), 'null')"
    lab.job(f"job: kept\n{head}}}\nfrom: p\njoin: {{{lists}}}\nselect: {{id: p.id}}\n"
            f"where: \"not {seen}\"\ntarget: {{table: t_kept}}\n")  # fmt: skip
    lab.job(f"job: joined\n{head}, t: {{table: texts, key: text}}}}\nfrom: p\njoin:\n  {lists}\n"
            f"  t: {{kind: foreign_key, on: \"if({seen}, 'null', 'no null')\"}}\n"
            "select: {id: p.id, v: t.v}\ntarget: {table: t_joined}\n")  # fmt: skip


def _add_a_column(lab: Lab) -> None:
    assert not lab.run_all().exit_code
    assert [_read(lab, "t_kept", "id"), _read(lab, "t_joined", "id", "v")] == [[(1,), (2,)], [(1, 1), (2, 1)]]
    _write(lab, "ALTER TABLE {} ADD COLUMNS (z INT)", "mails")
    _write(lab, "UPDATE {} SET z = 1 WHERE mail = 'b'", "mails")
    assert not lab.run_all().exit_code


def test_a_list_that_is_read_as_a_whole_follows_the_columns_of_its_lookup(lab: Lab) -> None:
    """In a condition, and in what a later join refers by, its text has the new column in every row."""
    _open_lists(lab)
    _add_a_column(lab)
    assert [_read(lab, "t_kept", "id"), _read(lab, "t_joined", "id", "v")] == [[(2,)], [(1, 2), (2, 1)]]
    assert {each.mode for each in lab.run_all().jobs} == {"incremental"}


def test_a_list_whose_columns_nobody_compares_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuity, "find_reshaped", lambda _cursor, _spec: [])
    _open_lists(lab)
    _add_a_column(lab)
    checked = enrich.verify(enrich.load_project(lab.home), spark=lab.spark)
    assert {each.job: sum(vars(each.target).values()) for each in checked.jobs} == {"kept": 1, "joined": 1}


def test_days_that_python_has_not_are_asked_for(lab: Lab) -> None:
    _write(lab, f"CREATE TABLE {{}} (day DATE, x INT) {FEED}", "far")
    _write(lab, "INSERT INTO {} VALUES (date '+12345-01-01', null), (date '-0044-03-15', 1)", "far")
    lab.job(
        "job: far\nsources: {o: {table: far, key: day}}\nquery: SELECT day, x FROM o\n"
        "target: {table: t_far}\nexpectations: far\n"
    )
    warns = {"enrich": {"action": "warn"}}
    lab.suite("far", {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "x"}, "meta": warns})
    assert lab.run("far").exit_code == 0
    project = enrich.load_project(lab.home)
    assert enrich.why(project, "far", "-0044-03-15", spark=lab.spark).row.reason == "matched"
    assert enrich.why(project, "far", "+12345-01-02", spark=lab.spark).row.reason == "no_such_key"
    assert {each.what for each in enrich.trace(project, "far", "+12345-01-01", spark=lab.spark).places} >= {"row"}
    (rule,) = enrich.failing(project, "far", spark=lab.spark, show_keys=True).rules
    assert [row.key for row in rule.rows] == [{"day": "+12345-01-01"}]


def test_why_is_asked_by_the_key_that_the_target_has(lab: Lab) -> None:
    """Here normalisers would change it once more; the source's spelling is brought into the form of the target's."""
    keys = {"a": ("trim, visible", "\u200b m1"), "b": ("unpad, trim", " 007")}
    for name, (forms, key) in keys.items():
        _write(lab, f"CREATE TABLE {{}} (id STRING, v INT) {FEED}", f"s_{name}")
        _write(lab, f"INSERT INTO {{}} VALUES ('{key}', null)", f"s_{name}")
        lab.suite(f"e_{name}", {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "v"},
                                "meta": {"enrich": {"action": "warn"}}})  # fmt: skip
        lab.job(f"job: j_{name}\nsources: {{s: {{table: s_{name}, key: id, normalise: [{forms}]}}}}\nfrom: s\n"
                f"target: {{table: t_{name}}}\nexpectations: e_{name}\n")  # fmt: skip
    assert not lab.run_all().exit_code
    project = enrich.load_project(lab.home)
    for name, (_, key) in keys.items():
        (rule,) = enrich.failing(project, f"j_{name}", spark=lab.spark, show_keys=True).rules
        (failing,) = rule.rows
        told, other = explain(project, f"j_{name}", [failing.key, {"id": key}], spark=lab.spark)
        assert (told.row.reason, told.columns["v"].reason) == ("matched", failing.reason.reason)
        assert (other.row.reason, other.columns["v"].reason) == ("matched", failing.reason.reason)
