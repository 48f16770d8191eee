"""``enrich trace``: where a key stands after it was deleted, until the last file and the last line of a log is gone."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from jsonschema import Draft7Validator

import enrich
from enrich.delta.sink import hold_settings
from enrich.report.models import build_schema

if TYPE_CHECKING:
    from enrich.report.models import KeyTrace
    from kit.command import Call
    from kit.lab import Lab

PAST = """\
job: past
kind: history
sources: {accounts: {table: accounts, key: id}}
from: accounts
history: {columns: [email], on_delete: ON_DELETE}
target: {table: past}
"""
SOURCES, MADE = ("consents", "accounts"), ("customers", "past")
OLD = 40 * 86400


def trace(lab: Lab, key: object, job: str = "customers") -> KeyTrace:
    found = enrich.trace(enrich.load_project(lab.home), job, key, spark=lab.spark)
    told = json.dumps(found.to_dict())
    Draft7Validator(build_schema("trace")).validate(json.loads(told))
    assert str(key) not in told.replace(lab.home.name, "")
    return found


def places(found: KeyTrace) -> dict[str, set[str]]:
    tables: dict[str, set[str]] = {}
    for each in found.places:
        tables.setdefault(each.table, set()).add(each.what)
    return tables


def empty(lab: Lab, table: str) -> None:
    """Do what the answer names: write files anew, and remove those that no version has any more."""
    uri, session = lab.path(table), lab.spark
    session.sql(f"REORG TABLE delta.`{uri}` APPLY (PURGE)")
    settings = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # else VACUUM lists files in hundreds of tasks
    }
    with hold_settings(session, settings):
        session.sql(f"VACUUM delta.`{uri}` RETAIN 0 HOURS")


def forget(lab: Lab, table: str) -> None:
    """Let the log forget, at a checkpoint, what is older than it keeps."""
    uri, session = lab.path(table), lab.spark
    for file in (Path(uri) / "_delta_log").rglob("*"):
        os.utime(file, (file.stat().st_mtime - OLD,) * 2)
    jvm: Any = session.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, uri).checkpoint()


def test_a_key_is_found_until_nothing_has_it_any_more(joined: Lab, call: Call) -> None:
    joined.job(PAST.replace("ON_DELETE", "end"))
    vectors = "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    joined.spark.sql(f"ALTER TABLE delta.`{joined.path('accounts')}` {vectors}")
    assert joined.run("past").status == "created"
    found = trace(joined, "u1")
    assert found.exit_code == 3
    assert {table for table, what in places(found).items() if "row" in what} == {*SOURCES, *MADE}

    # Deleted at its sources, it leaves the targets; a history that ends keeps it, one that erases does not.
    joined.spark.sql(f"DELETE FROM delta.`{joined.path('accounts')}` WHERE id = 'u1'")
    joined.drop("consents", "id = 'u1'")
    assert joined.run_all().exit_code == 0
    (kept,) = [each for each in trace(joined, "u1").places if each.what == "row"]
    assert (kept.table, kept.until) == ("past", None)
    assert "on_delete: erase" in kept.ends
    joined.job(PAST.replace("ON_DELETE", "erase"))
    assert joined.run("past", full_refresh=True).exit_code == 0
    told = trace(joined, "u1")
    everywhere = places(told)
    assert not any("row" in what for what in everywhere.values())
    assert {"masked", "log"} <= everywhere["accounts"], "behind a deletion vector"
    assert everywhere["consents"] == {"old_version", "change_feed", "log"}
    assert {"old_version", "log"} <= everywhere["customers"]
    assert all(each.until is not None for each in told.places if each.what != "masked")
    ends = {each.ends for each in told.places if each.what == "old_version"}
    assert ends == {f"VACUUM `delta`.`{joined.path('consents')}`", "enrich maintain customers", "enrich maintain past"}

    # What the answer names is done: what is left are logs, until time passes and they are forgotten.
    for table in (*SOURCES, *MADE):
        empty(joined, table)
    assert {what for each in places(trace(joined, "u1")).values() for what in each} == {"log"}
    joined.spark.sql(f"UPDATE delta.`{joined.path('accounts')}` SET id = 'u9' WHERE id = 'u2'")
    joined.change("consents", "id = 'u2'", id="'u9'")
    assert joined.run_all().exit_code == 0
    for table in (*SOURCES, *MADE):
        forget(joined, table)
    ended = call("trace", "customers", "--key", "id=u1")
    assert (ended.exit_code, ended.stdout) == (0, "customers: the key stands nowhere\n")
    assert {job.status for job in joined.run_all().jobs} == {"unchanged"}


PAIRS = """\
job: paired
sources:
  pairs: {table: pairs, key: id}
  first: {table: accounts, key: id}
  second: {table: accounts, key: id, normalise: lower}
from: pairs
join:
  first: {kind: foreign_key, on: pairs.a}
  second: {kind: foreign_key, on: pairs.b}
select: {id: pairs.id, one: first.id, two: second.id}
target: {table: paired}
"""


def test_each_column_that_takes_the_key_is_searched_or_nothing_is_told(joined: Lab) -> None:
    text = pa.string()
    joined.table("pairs", "id", {"id": text, "a": text, "b": text}, [{"id": "p", "a": "u1", "b": "U2"}])
    joined.job(PAIRS)
    assert joined.run("paired").status == "created"
    for key in ("u1", "u2"):
        assert "row" in places(trace(joined, key))["paired"]
    shutil.rmtree(joined.path("pairs"))
    with pytest.raises(enrich.ConfigError, match="whether the target of job 'paired' has the key is not known"):
        trace(joined, "u1")


VISITS = """\
job: visits
sources: {seen: {table: seen, key: [day, who], normalise: [trim, lower]}}
from: seen
select: {day: seen.day, person: seen.who}
target: {table: visits}
"""


def test_a_key_of_several_parts_is_found_in_each_of_its_forms(consents: Lab, call: Call) -> None:
    uri = consents.path("seen")
    consents.spark.sql(
        f"CREATE TABLE delta.`{uri}` (day DATE, who STRING) USING delta PARTITIONED BY (day)"
        " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    consents.spark.sql(
        f"INSERT INTO delta.`{uri}` VALUES ('2026-01-01', ' Ann'), ('2026-01-02', 'cy'), ('2026-01-01', 'bo')"
    )
    consents.job(VISITS)
    assert consents.run("visits").status == "created"
    key = {"day": "2026-01-01", "person": "ann"}
    shown = call("trace", "visits", "day=2026-01-01,person=ann")
    assert (shown.exit_code, [line.split()[:3] for line in shown.stdout.splitlines()[1:]]) == (
        3,
        [[table, role, what] for table, role in (("seen", "source"), ("visits", "target")) for what in ("row", "log")],
    )
    consents.spark.sql(f"DELETE FROM delta.`{uri}` WHERE day = '2026-01-01' AND who = ' Ann'")
    assert consents.run("visits").status == "updated"
    left = places(trace(consents, key, "visits"))
    assert ({"old_version", "log"} <= left["seen"], "row" in left["seen"] | left["visits"]) == (True, False)
    assert call("trace", "visits", "ann").exit_code == 2
    assert call("trace", "visits").exit_code == 2


def test_a_key_is_found_that_normalisers_change_once_more(lab: Lab) -> None:
    lab.table("seen", "id", {"id": pa.string(), "kept": pa.bool_()}, [{"id": "0 30 777", "kept": False}])
    lab.job(
        "job: unpadded\nsources: {seen: {table: seen, key: id, normalise: [trim, unpad]}}\nfrom: seen\n"
        "where: seen.kept\ntarget: {table: unpadded}\n"
    )
    assert lab.run().status == "created"
    assert [{*places(trace(lab, key, "unpadded"))} for key in ("0 30 777", " 30 777", "777")] == [
        {"seen"},
        {"seen"},
        set(),
    ]


HAN, LONG = "\u6f22", Decimal("12345678901234567890.1234567891")
AT = [dt.datetime(year, 2, 28, 12, 0, 1, tzinfo=dt.UTC) for year in (2000, 2024, 2030)]
MERGE = (
    "MERGE INTO {} t USING (SELECT min(id) + INTERVAL 1 DAY AS id FROM {}) s ON t.id = s.id WHEN MATCHED THEN DELETE"
)
DELETES: dict[str, tuple[pa.DataType, list[Any], str]] = {
    # type, what a file holds (the second row is the key), and the condition of delta-rs, or a statement for Spark
    "cut": (pa.string(), [HAN * 30], ""),
    "pairs": (pa.string(), ["A", "\U0001f600" * 40], ""),
    "double": (pa.decimal128(38, 10), [LONG], ""),
    "quoted": (pa.string(), ["A", "O'Brien", "Z"], "id = 'O''Brien'"),
    "two_lines": (pa.string(), ["A", "M\nx", "Z"], "DELETE FROM {} WHERE id = 'M\\nx'"),
    "padded": (pa.string(), ["A", "\u200b007\t", "Z"], "DELETE FROM {} WHERE id = '\u200b007\\t'"),
    "moment": (pa.timestamp("us", "UTC"), AT, f"id = '{AT[1].isoformat()}'"),
    "fraction": (pa.decimal128(18, 2), [Decimal(each) for each in ("1.00", "7.50", "99.00")], "id = 7.5"),
    "bytes": (pa.binary(), [b"\0", b"Ab\xff", b"\xff"], "DELETE FROM {} WHERE id = X'4162FF'"),
    "merged": (pa.timestamp("us", "UTC"), AT, MERGE),
}


def test_logs_are_read_as_their_writers_shorten_and_spell_keys(lab: Lab) -> None:
    told = {}
    for name, (kind, values, how) in DELETES.items():
        lab.table(name, "id", {"id": kind}, [{"id": value} for value in values])
        if "{}" in how:
            lab.spark.sql(how.replace("{}", f"delta.`{lab.path(name)}`"))
        elif how:
            lab.drop(name, how)
        key = values[min(1, len(values) - 1)]
        steps = ", normalise: [visible, unpad]" if name == "padded" else ""
        lab.job(
            f"job: j_{name}\nsources: {{s: {{table: {name}, key: id{steps}}}}}\nfrom: s\ntarget: {{table: t_{name}}}\n"
        )
        key = "7" if name == "padded" else key.hex() if isinstance(key, bytes) else key
        told[name] = "log" in places(trace(lab, {"id": key}, f"j_{name}")).get(name, ())
    assert told == {name: name != "merged" for name in DELETES}  # that condition names the column, and no value
    others = {"cut": HAN * 7 + "x", "double": LONG + 10**8, "quoted": "O'Brian", "padded": "8"}
    for name, key in others.items():
        assert "log" not in places(trace(lab, {"id": key}, f"j_{name}")).get(name, ())


def test_columns_that_were_of_another_type_or_make_partitions_are_searched(lab: Lab) -> None:
    for name, kinds, parted in (("retyped", ("INT", "STRING"), ""), ("parted", ("STRING",), "PARTITIONED BY (id)")):
        made = f"delta.`{lab.path(name)}`"
        for kind in kinds:
            lab.spark.sql(
                f"CREATE OR REPLACE TABLE {made} USING delta {parted} TBLPROPERTIES (delta.enableChangeDataFeed = true)"
                f" AS SELECT CAST(7000000 + id AS {kind}) AS id, 1 AS v FROM range(5)"
            )
        lab.job(f"job: j_{name}\nsources: {{s: {{table: {name}, key: id}}}}\nfrom: s\ntarget: {{table: t_{name}}}\n")
    assert [places(trace(lab, key, "j_parted")) for key in ("nobody", "7000003")] == [{}, {"parted": {"row", "log"}}]
    (place,) = trace(lab, "nobody", "j_retyped").places  # Spark does not read its old files: in doubt, they are listed
    assert (place.what, place.ends) == ("old_version", f"VACUUM `delta`.`{lab.path('retyped')}`")
    assert places(trace(lab, "7000003", "j_retyped")) == {"retyped": {"row", "old_version"}}
    empty(lab, "retyped")
    assert places(trace(lab, "nobody", "j_retyped")) == {}
