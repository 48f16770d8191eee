"""Commits prove their rows: what ``enrich verify --quick`` finds, and what ``enrich proof`` says of it."""

from __future__ import annotations

import json
import random
import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F

import enrich
from differential import reader
from enrich.answers import verification
from enrich.answers.inspection import read_status
from enrich.answers.verification import Check
from enrich.delta import reads
from enrich.frames import columns
from enrich.frames.difference import Identity
from enrich.operations.workplace import Workplace
from enrich.progress.plan import Options
from kit import rowforms
from kit.counts import COUNTED
from kit.lab import Lab
from kit.project import hold_nulls
from scenarios.conftest import open_consents


def check(lab: Lab, **how: Any) -> Check:
    return enrich.verify(enrich.load_project(lab.home), ["customers"], spark=lab.spark, **how).jobs[0]


def hold(lab: Lab) -> None:
    """Run the consents job with a rule that holds the third customer, who has no e-mail."""
    open_consents(lab)
    job = lab.home / "jobs" / "customers.yml"
    job.write_text(job.read_text() + "expectations: mails\n")
    lab.suite("mails", hold_nulls("email"))
    assert lab.run().status == "created"


@pytest.fixture
def held(prepared: Any) -> Lab:
    lab: Lab = prepared("proven", hold)
    return lab


def prove(lab: Lab, table: str, *more: str) -> list[int]:
    """Return the proof of a table as it is, by the reference in Python."""
    path, names = Path(lab.path(table)), {*reader.record(Path(lab.path(table)))["columns"], *more}
    kinds = {name: kind for name, kind in reader.kinds(path).items() if name in names}
    return list(rowforms.prove(reader.rows(path), kinds))


def test_each_commit_records_what_it_leaves(held: Lab) -> None:
    """Rows come to the quarantine, leave it and go; a RESTORE; a commit that changes no row; a full refresh."""
    lab = held
    target, quarantine = "customers", "customers__quarantine"

    def run(**how: Any) -> None:
        assert lab.run(**how).error is None
        recorded = reader.record(Path(lab.path(target)))["sums"]
        assert recorded == {"target": prove(lab, target), "quarantine": prove(lab, quarantine, "_failed")}

    lab.put("accounts", {"id": "u3", "email": "3@example.com", "note": "n"}, {"id": "u1", "email": None, "note": "n"})
    lab.drop("consents", "id = 'u2'")
    run()
    DeltaTable(lab.path(target)).restore(0)
    assert check(lab, quick=True).status == "equal", "the record is that of the restored version"
    run()
    lab.put("accounts", {"id": "u3", "email": "3@example.com", "note": "other"})  # no row of the target changes
    run()
    run(full_refresh=True)
    found = check(lab, quick=True)
    counted = found.proof["quarantine"]["counted"]
    assert (found.status, counted) == ("equal", tuple(prove(lab, quarantine, "_failed")))
    assert check(lab).status == "equal"


@pytest.mark.parametrize(
    "acts",
    [{"customers": "a double row", "customers__quarantine": "a lost row"}, {"customers": "another value"}],
    ids=str,
)
def test_what_others_do_is_found_and_repaired(held: Lab, acts: dict[str, str]) -> None:
    """A thousand other damages, each alone, are below."""
    lab = held
    for table, act in acts.items():
        row = lab.rows(table)[0]
        if act == "a double row":
            lab.append(table, row)
        elif act == "another value":
            lab.change(table, f"id = '{row['id']}'", ok="NOT ok")
        else:
            lab.drop(table, f"id = '{row['id']}'")
    found = check(lab, quick=True)
    assert (found.status, found.exit_code) == ("different", 6)
    assert found.unproven == ["target", "quarantine"][: len(acts)]
    assert found.error is not None
    assert "verify customers" in found.error
    assert row["id"] not in found.error, "no value of a row"
    assert check(lab, repair=True).status == "repaired"
    assert check(lab, quick=True).status == "equal"


def test_a_decimal_that_somebody_widens_needs_a_full_refresh(lab: Lab) -> None:
    """More digits are other texts, so other sums; and no comparison is possible with a column of another type."""
    lab.table("sums", "id", {"id": pa.int64(), "d": pa.decimal128(10, 2)}, [{"id": 1, "d": Decimal("1.50")}])
    lab.job("job: customers\nsources: {sums: {table: sums, key: id}}\nfrom: sums\ntarget: {table: customers}\n")
    lab.run()
    table = f"delta.`{lab.path('customers')}`"
    lab.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    lab.spark.sql(f"ALTER TABLE {table} ALTER COLUMN d TYPE DECIMAL(16, 4)")
    found = check(lab, quick=True)
    assert (found.status, found.exit_code) == ("different", 6)
    assert "run customers --full-refresh`" in str(found.error)
    assert "--repair" not in str(found.error), "it would be refused"
    assert check(lab, repair=True).exit_code == 5
    assert lab.run(full_refresh=True).error is None
    assert check(lab, quick=True).status == "equal"


def test_a_table_made_elsewhere_proves_the_same(held: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are compared only where the two numbers differ."""
    lab, rows = held, held.rows("customers")
    write_deltalake(lab.path("rebuilt"), pa.Table.from_pylist(rows, schema=lab.schema("customers")))
    with monkeypatch.context() as patch:
        patch.setattr(verification, "_compare_columns", lambda *_: pytest.fail("rows were compared"))
        found = check(lab, against="rebuilt")
    assert (found.status, found.unproven, found.error) == ("equal", [], None)
    lab.change("rebuilt", f"id = '{rows[0]['id']}'", ok="NOT ok")
    lab.append("rebuilt", {**rows[0], "id": "u99"})
    lab.drop("rebuilt", f"id = '{rows[1]['id']}'")
    found = check(lab, against=lab.path("rebuilt"))
    assert (found.status, found.exit_code) == ("different", 6)
    assert vars(found.target) == {"missing": 1, "surplus": 1, "differing": 1}
    assert "verify customers" in str(found.error)
    twice = pa.Table.from_pylist([*rows, rows[0]], schema=lab.schema("customers"))
    write_deltalake(lab.path("rebuilt"), twice, mode="overwrite")
    found = check(lab, against="rebuilt")
    assert (found.status, vars(found.target)) == ("different", {"missing": 1, "surplus": 0, "differing": 0})
    write_deltalake(lab.path("narrow"), pa.table({"id": ["u1"]}))
    found = check(lab, against="narrow")
    assert (found.status, found.exit_code) == ("failed", 2)
    assert "narrow has no column" in str(found.error)
    with pytest.raises(enrich.EnrichError, match="of one job"):
        check(lab, against="rebuilt", quick=True)


def test_a_value_of_another_type_is_compared_whole(lab: Lab) -> None:
    ours = lab.spark.sql("SELECT 1 AS id, 1L AS n, DATE'2026-01-01' AS day, true AS ok, 2L AS whole")
    theirs = lab.spark.sql("SELECT 1 AS id, 1.9D AS n, TIMESTAMP'2026-01-01 23:00' AS day, 'yes' AS ok, 2.0D AS whole")
    found = verification._compare_columns(ours, theirs, Identity(("id",)), exact=True)
    assert {each["name"]: each["rows"] for each in found["columns"] if each["rows"]} == {"n": 1, "day": 1}


def test_a_lost_file_and_a_broken_one_are_found(held: Lab) -> None:
    lab = held
    (file, *_) = Path(lab.path("customers")).glob("part-*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:40] + bytes([content[40] ^ 255]) + content[41:])
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    assert check(lab, quick=True).exit_code != 0
    file.unlink()
    assert check(lab, quick=True).exit_code != 0


THINGS = {"id": pa.int64(), "name": pa.string(), "amount": pa.decimal128(10, 2)}
THINGS |= {"share": pa.float64(), "at": pa.timestamp("us", "UTC")}
KEPT = """\
job: customers
sources: {things: {table: things, key: id}}
from: things
target: {table: customers}
expectations: mails
"""


def damage(rng: random.Random, rows: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """Return rows to which one thing has been done."""
    found = [dict(row) for row in rows]
    (place, other), name = rng.sample(range(len(rows)), 2), rng.choice([*THINGS])
    match rng.choice(["double", "lost", "value", "null", "swap", "foreign"]):
        case "double":
            found.append(dict(found[place]))
        case "lost":
            del found[place]
        case "value" if found[place][name] is not None:
            more = {"name": " ", "amount": Decimal(1), "at": timedelta(microseconds=1)}
            found[place][name] += more.get(name, 1)
        case "value":
            found[place]["id"] += 1000
        case "null":
            found[place][name if found[place][name] is not None else "id"] = None
        case "swap":  # every column has the values that it had
            found[place]["id"], found[other]["id"] = found[other]["id"], found[place]["id"]
        case "foreign":
            found.append({**found[place], "id": 1000 + number})
    return found


def test_a_thousand_damages_are_found(lab: Lab, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """``verify --quick`` judges each of 1,000 damaged copies of target or quarantine; all are summed in one pass."""
    rng, spark = random.Random("damages"), lab.spark
    rows = [
        {
            "id": i,
            "name": f"n{i % 7}" if i % 4 else None,
            "amount": Decimal(i % 5),
            "share": i / 8,
            "at": datetime(2026, 1, 1, 0, 0, i, tzinfo=UTC),
        }
        for i in range(30)
    ]
    lab.table("things", "id", THINGS, rows)
    lab.job(KEPT)
    lab.suite("mails", hold_nulls("name"))
    assert lab.run().counts.quarantined == 8
    tables = {name: lab.rows(name) for name in ("customers", "customers__quarantine")}
    damaged = {number: rng.choice([*tables]) for number in range(1, 1001)}
    frames = {}
    for name, there in tables.items():
        cases = {0: there} | {number: damage(rng, there, number) for number, at in damaged.items() if at == name}
        copies = [{"case": number, **row} for number, found in cases.items() for row in found]
        schema = pa.schema([("case", pa.int64()), *[(each.name, each.type) for each in lab.schema(name)]])
        frames[name] = spark.createDataFrame(pa.Table.from_pylist(copies, schema))
    number, sums = 0, dict[str, dict[int, tuple[Any, ...]]]()
    hashed = columns.hash_rows

    def hash_once(name: str, write: Any, names: list[str]) -> str:
        if name not in sums:
            frame = hashed(frames[name], write, names).groupBy("case")
            parts = frame.agg(F.count("*"), *[F.sum(F.expr(part)) for part in columns.PARTS]).collect()
            sums[name] = {row[0]: row[1:] for row in parts}
        return name

    monkeypatch.setattr(reads, "read_snapshot", lambda _, uri, *__: Path(uri).name)
    monkeypatch.setattr(columns, "hash_rows", hash_once)
    monkeypatch.setattr(columns, "aggregate", lambda name, *_: sums[name].get(number, sums[name][0]))
    project = enrich.load_project(lab.home)
    workplace = Workplace(project, ["customers"], Options(dry_run=True), given=spark)
    known = workplace.target(project.jobs["customers"])
    monkeypatch.setattr(workplace, "target", lambda _: known)  # read once: no log changes
    checking = verification._Checking(workplace, quick=True)
    assert checking.check_job(project.jobs["customers"]).status == "equal"
    wrong = []
    for number, name in damaged.items():
        found = checking.check_job(project.jobs["customers"])
        said = ["quarantine" if name.endswith("quarantine") else "target"]
        if (found.status, found.exit_code, found.unproven) != ("different", 6, said):
            wrong.append((number, name, found))
    pytestconfig.stash[COUNTED]["planted damages that verify --quick finds"] = f"{1000 - len(wrong)} of 1000"
    assert not wrong


def test_a_record_without_proof_says_so(held: Lab) -> None:
    lab = held
    (log,) = Path(lab.path("customers"), "_delta_log").glob("*0.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for each in lines:
        if "commitInfo" in each:
            record = json.loads(each["commitInfo"]["userMetadata"])
            del record["sums"]
            each["commitInfo"]["userMetadata"] = json.dumps(record)
    log.write_text("\n".join(map(json.dumps, lines)))
    log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
    found = check(lab, quick=True)
    assert (found.status, found.exit_code) == ("failed", 5)
    assert found.error is not None
    assert "no proof is recorded for the target" in found.error
    assert "verify customers --repair" in found.error
    with pytest.raises(enrich.EnrichError, match="no proof is recorded"):
        enrich.prove(enrich.load_project(lab.home), "customers")
    lab.put("accounts", {"id": "u1", "email": "other@example.com", "note": "n"})
    assert lab.run().status == "updated"
    assert check(lab, quick=True).exit_code == 5, "a change of what nobody has summed proves nothing"
    assert check(lab, repair=True).status == "repaired"
    assert check(lab, quick=True).status == "equal"


def test_other_engines_compute_the_same(held: Lab) -> None:
    """Of the target, and of the quarantine as the target's version names it."""
    lab = held
    project = enrich.load_project(lab.home)
    told, other = (enrich.prove(project, "customers", dialect=each) for each in ("spark", "duckdb"))
    for name, query, more in (("customers", "query", ()), ("customers__quarantine", "quarantine_query", ("_failed",))):
        shown = told["quarantine" if more else "target"]
        expected = (shown["rows"], *map(int, shown["sums"]))
        assert list(expected) == prove(lab, name, *more)
        assert tuple(map(int, lab.spark.sql(told[query]).first() or ())) == expected
        rows = reader.read(Path(lab.path(name)))  # delta_scan would fetch an extension
        assert rows.num_rows == expected[0] == (1 if more else 2)
        text = other[query].replace(f"delta_scan('{lab.path(name)}')", "rows")
        assert tuple(map(int, duckdb.connect().execute(text).fetchall()[0])) == expected
    lab.put("accounts", {"id": "u3", "email": "other@example.com", "note": "n"})
    lab.run()
    now = enrich.prove(project, "customers")
    assert (now["target"]["rows"], now["quarantine"]["rows"]) == (3, 0)
    assert now["quarantine_query"] == told["quarantine_query"].replace("VERSION AS OF 0", "VERSION AS OF 1")
    assert enrich.prove(project, "customers", version=0) == told


def test_status_says_what_was_proven(held: Lab) -> None:
    lab = held
    project = enrich.load_project(lab.home)
    assert read_status(project)[0].to_dict()["proven"] is None
    assert check(lab).status == "equal"
    proven = read_status(project)[0].to_dict()["proven"]
    assert (proven["version"], set(proven)) == (0, {"version", "at"})
    shutil.rmtree(lab.path("customers"))
    assert read_status(project)[0].to_dict()["proven"] is None, "of a table that is gone"
