"""Values in several forms: equal ones that a function tells apart, and texts that have a length in their table."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kit.lab import Lab

JOB = """\
job: shown
sources: {items: {table: items, key: id}}
from: items
select: {id: items.id, x: items.x, flags: items.flags, names: map_keys(items.flags), text: cast(items.x as string)}
target: {table: shown}
"""


def test_a_change_of_form_alone_reaches_what_is_computed_from_it(lab: Lab) -> None:
    """And writes no row that stays equal."""
    lab.table("items", "id", {"id": pa.int32(), "x": pa.float64(), "flags": MAP})
    lab.append("items", {"id": 1, "x": 0.0, "flags": [("a", 1), ("b", 2)]}, {"id": 2, "x": 1.0, "flags": [("a", 1)]})
    lab.job(JOB)
    as_it_is = JOB.replace(", names: map_keys(items.flags), text: cast(items.x as string)", "")
    lab.job(as_it_is.replace("shown", "equal"))
    assert [job.status for job in lab.run_all("shown", "equal").jobs] == ["created", "created"]
    say(lab, "UPDATE {} SET x = -0.0D, flags = map('b', 2, 'a', 1) WHERE id = 1", "items")
    done = {job.job: job for job in lab.run_all("shown", "equal").jobs}
    assert (done["shown"].status, done["shown"].counts.updated) == ("updated", 1)
    first = next(row for row in lab.rows("shown") if row["id"] == 1)
    assert (first["names"], first["text"]) == (["b", "a"], "-0.0")
    assert (done["equal"].status, done["equal"].strategy) == ("unchanged", "cursor")


@pytest.mark.parametrize(
    ("digits", "places"), [(38, 18), *(pytest.param(*each, marks=pytest.mark.soak) for each in ((20, 0), (15, 4)))]
)
def test_decimal_keys_of_tables_that_delta_rs_writes(lab: Lab, digits: int, places: int) -> None:
    """It keeps the least and greatest of long decimals as fractions in the log: literal ranges would miss them."""
    key = Decimal(int("1234567890123456789012345678901234567"[:digits])).scaleb(-places)
    kind = pa.decimal128(digits, places)
    lab.table("left", "id", {"id": kind, "v": pa.int64()}, [{"id": key, "v": 1}])
    lab.table("right", "id", {"id": kind, "w": pa.int64()}, [{"id": key, "w": 1}])
    lab.job(
        "job: both\nsources: {l: {table: left, key: id}, r: {table: right, key: id}}\nfrom: l\n"
        "join: {r: {kind: table, how: left}}\nselect: {id: l.id, v: l.v, w: r.w}\ntarget: {table: both}\n"
    )
    lab.run("both")
    lab.put("right", {"id": key, "w": 2})
    assert lab.run("both").status == "updated"
    assert lab.rows("both") == [{"id": key, "v": 1, "w": 2}]
    lab.append("left", {"id": key, "v": 9})
    assert lab.run("both").status == "blocked", "two rows have the key"


KINDS = {
    "plain": "",
    "mirror": "kind: mirror\nmirror: {value: mail, conflict: fail}\n",
    "history": "kind: history\nhistory: {start: beginning}\n",
}


def test_the_length_of_a_varchar_stays_with_its_source(lab: Lab) -> None:
    """It becomes longer there, and the target takes longer texts, too; so does that of a column that comes later."""
    table = f"delta.`{lab.path('items')}`"
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lab.spark.sql(f"CREATE TABLE {table} (id int, mail varchar(3), code char(2)) USING delta {feed}")
    lab.spark.sql(f"INSERT INTO {table} VALUES (1, 'a', 'x'), (2, 'b', 'yy')")
    for name, kind in KINDS.items():
        head = f"job: {name}\nsources: {{items: {{table: items, key: id}}}}\nfrom: items\n"
        lab.job(f"{head}{kind}target: {{table: {name}}}\n")
    created = lab.run_all()
    assert [(job.status, job.error) for job in created.jobs] == [("created", None)] * 3
    lab.spark.sql(f"ALTER TABLE {table} ALTER COLUMN mail TYPE varchar(200)")
    lab.spark.sql(f"ALTER TABLE {table} ADD COLUMNS (note varchar(3))")
    lab.spark.sql(f"INSERT INTO {table} VALUES (3, 'c@example.com', 'z', 'n')")
    updated = lab.run_all()
    assert [(job.status, job.error) for job in updated.jobs] == [("updated", None)] * 3
    assert [{row["mail"] for row in lab.rows(name)} for name in KINDS] == [{"a", "b", "c@example.com"}] * 3

    # And a table that is written anew.
    lab.job((lab.home / "jobs" / "history.yml").read_text().replace("{start: beginning}", "{valid_to: until}"))
    rewritten = lab.run("history", full_refresh=True)
    assert rewritten.strategy == "rewrite", rewritten.error
    fields = [field for name in KINDS for field in lab.spark.read.format("delta").load(lab.path(name)).schema.fields]
    assert [field.metadata for field in fields if field.metadata] == []


FEED = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
FIVE = [("zeta", 1), ("alpha", 2), ("mid", 3), ("beta", 4), ("omega", 5)]
MAP = pa.map_(pa.string(), pa.int32())
GIVEN = '{"zeta":1,"alpha":2,"mid":3,"beta":4,"omega":5}'
ANOTHER = '{"omega":5,"zeta":1,"alpha":2,"mid":3,"beta":4}'


def say(lab: Lab, statement: str, *tables: str) -> None:
    """Run a statement that names tables as {}."""
    lab.spark.sql(statement.format(*[f"delta.`{lab.path(table)}`" for table in tables]))


def told(lab: Lab, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return expressions over the rows of a table as Spark reads them, sorted."""
    rows = lab.spark.read.format("delta").load(lab.path(table)).selectExpr(*columns)
    return sorted(map(tuple, rows.collect()), key=repr)


def test_the_entries_of_a_long_map_keep_their_order_and_another_order_is_noticed(lab: Lab) -> None:
    """Delta's own reader of feeds has more than four entries in the order of their hashes."""
    for name in ("consents", "accounts"):
        lab.table(name, "id", {"id": pa.string(), "n": pa.int32(), "m": MAP})
        lab.append(name, *[{"id": key, "n": 1, "m": FIVE} for key in "ab"])
    lab.job(
        "job: maps\nsources: {consents: {table: consents, key: id}, accounts: {table: accounts, key: id}}\n"
        "from: consents\njoin: {accounts: {kind: table, how: full}}\n"
        "select: {id: key, n: consents.n, given: to_json(consents.m), first: 'map_keys(accounts.m)[0]'}\n"
        "target: {table: maps}\n"
    )
    lab.run("maps")
    say(lab, "UPDATE {} SET n = 2 WHERE id = 'a'", "consents")
    say(lab, "UPDATE {} SET m = map('omega', 5, 'zeta', 1, 'alpha', 2, 'mid', 3, 'beta', 4) WHERE id = 'b'", "consents")
    lab.append("accounts", {"id": "c", "n": 1, "m": FIVE})
    assert lab.run("maps").mode == "incremental"
    rows = [("a", 2, GIVEN, "zeta"), ("b", 1, ANOTHER, "zeta"), ("c", None, None, "zeta")]
    assert told(lab, "maps", "id", "n", "given", "first") == rows


SKIPPED = {
    "date": ("date '1582-10-10'", "date '1582-10-15'"),
    "timestamp": ("timestamp '1582-10-10 01:00:00'", "timestamp '1582-10-15 01:00:00'"),
    "string": ("cast(X'61ff' as string)", "cast(X'61fe' as string)"),
}
"""Type -> two values that Delta's own reader of feeds takes for the same."""
ONE_AND_MORE = ["date", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("timestamp", "string"))]
"""One kind shows the rest."""


@pytest.mark.soak
@pytest.mark.parametrize("kind", SKIPPED)
def test_keys_that_a_feed_can_take_for_each_other_stay_apart(lab: Lab, kind: str) -> None:
    """Days, moments and bytes of these kinds are keys in ``test_forms_of_keys.py`` in each `make test`."""
    one, other = SKIPPED[kind]
    shown = "hex({})" if kind == "string" else "cast({} as string)"
    names = [lab.spark.sql(f"SELECT {shown.format(value)}").collect()[0][0] for value in (one, other)]
    say(lab, f"CREATE TABLE {{}} (id {kind}, other {kind}, w int) {FEED}", "items")
    say(lab, f"CREATE TABLE {{}} (id {kind}, v int) {FEED}", "looked_up")
    say(lab, f"INSERT INTO {{}} VALUES ({one}, {one}, 1), ({other}, {other}, 2)", "items")
    say(lab, f"INSERT INTO {{}} VALUES ({one}, 1), ({other}, 2)", "looked_up")
    lab.job(
        "job: keys\nsources: {t: {table: items, key: id}, u: {table: looked_up, key: id}}\nfrom: t\n"
        "join: {u: {kind: foreign_key, on: t.other, how: full}}\nselect: {id: t.id, uid: u.id, v: u.v, w: t.w}\n"
        "target: {table: keys}\n"
    )
    lab.run("keys")
    columns = [shown.format("id"), shown.format("uid"), "v", "w"]

    def check(*rows: tuple[Any, ...]) -> None:
        done = lab.run("keys")
        assert (done.status, done.mode) == ("updated", "incremental"), done.error
        assert told(lab, "keys", *columns) == sorted(rows, key=repr)

    say(lab, "UPDATE {} SET w = 9 WHERE w = 1", "items")
    say(lab, "UPDATE {} SET v = 8 WHERE v = 2", "looked_up")
    check((names[0], names[0], 1, 9), (names[1], names[1], 8, 2))
    say(lab, "DELETE FROM {} WHERE w = 9", "items")
    check((None, names[0], 1, None), (names[1], names[1], 8, 2))


@pytest.mark.parametrize("kind", ONE_AND_MORE)
def test_a_history_has_the_values_of_the_snapshots(lab: Lab, kind: str) -> None:
    """Of each commit its rows: a value that changes into one that a feed can take for the same is a new version."""
    one, other = SKIPPED[kind]
    shown = "hex(v)" if kind == "string" else "cast(v as string)"
    five = f"map({', '.join(f'{key!r}, {value}' for key, value in FIVE)})"
    rows = f"(1, {one}, {five}), (2, {other}, {five})"
    say(lab, f"CREATE TABLE {{}} {FEED} AS SELECT * FROM VALUES {rows} AS t(id, v, m)", "items")
    head = "job: past\nkind: history\nsources: {items: {table: items, key: id}}\nfrom: items\n"
    lab.job(f"{head}target: {{table: past}}\n")
    lab.run("past")
    truth = set()
    for change in (f"v = {other} WHERE id = 1", f"v = {one} WHERE id = 2"):
        truth |= set(told(lab, "items", "id", shown, "to_json(m)"))
        say(lab, f"UPDATE {{}} SET {change}", "items")
    truth |= set(told(lab, "items", "id", shown, "to_json(m)"))
    assert lab.run("past").status == "updated"
    found = told(lab, "past", "id", shown, "to_json(m)")
    assert (len(found), set(found)) == (4, truth)
    current = told(lab, "past", "id", shown, "to_json(m)", "valid_to is null")
    assert [each[:3] for each in current if each[3]] == told(lab, "items", "id", shown, "to_json(m)")
