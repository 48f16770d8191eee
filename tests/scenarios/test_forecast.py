"""What a run reads is forecast from logs alone, within a factor of two; a job beyond ``--max-bytes`` reads nothing."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import enrich
from enrich.base.errors import ConfigError, spell_size
from enrich.base.words import parse_size
from enrich.delta import extents
from enrich.operations.loading import read_run_options
from enrich.operations.planning import foresee_reads
from enrich.operations.workplace import Workplace
from enrich.progress.decision import decide_plan
from enrich.report.document import read_report
from kit.lab import FEED, Lab

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS, FEWER = 6_000, 1_500
ALLOWED = 400_000
"""Bytes that logs, footers and small files take; a factor says nothing of them."""
MOMENT = pa.timestamp("us", tz="UTC")
CHANCE = random.Random(7)
JOBS = (
    """job: shop
sources:
  products: {table: products, key: id}
  merchants: {table: merchants, key: id}
from: products
join:
  merchants: {kind: foreign_key, on: products.merchant}
select: {id: products.id, title: products.title, merchant: merchants.name}
target: {table: shop}
""",
    """job: priced
sources:
  products: {table: products, key: id}
  prices: {table: prices, key: id}
from: products
join:
  prices: {kind: table, how: full}
select: {id: key, title: products.title, price: prices.price}
target: {table: priced}
""",
    """job: lived
sources:
  persons: {table: persons, key: id}
  merchants: {table: merchants, key: id}
from: persons
join:
  merchants: {kind: list, elements: persons.merchants}
select: {id: persons.id, name: persons.name, shops: merchants}
target: {table: lived}
""",
    """job: named
kind: mirror
sources:
  prices: {table: prices, key: id}
from: prices
mirror: {value: price, conflict: first}
target: {table: named}
""",
    """job: told
kind: history
sources:
  prices: {table: prices, key: id}
from: prices
history: {columns: [price]}
target: {table: told}
""",
    """job: seen
sources:
  events: {table: events, key: id}
  accounts: {table: accounts, key: [customer, since]}
from: events
join:
  accounts: {kind: as_of, on: events.customer, at: events.ts, valid_from: since}
select: {id: events.id, title: events.title, email: accounts.email}
target: {table: seen}
""",
    """job: paid
sources:
  events: {table: events, key: id}
  payments: {table: payments, key: p}
from: events
join:
  payments: {kind: interval, on: events.customer, match: o, at: events.ts, time: ts, between: [-1h, 1h], how: full}
select: {id: events.id, p: payments.p, title: events.title, amount: payments.amount}
target: {table: paid}
""",
)


def texts(count: int, size: int) -> list[str]:
    """Return texts that no codec makes much smaller."""
    raw = CHANCE.randbytes(size * count // 2).hex()
    return [raw[i * size : (i + 1) * size] for i in range(count)]


def moments(count: int) -> list[datetime]:
    first = datetime(2026, 1, 1, tzinfo=UTC)
    return [first + timedelta(minutes=CHANCE.randrange(10_000)) for _ in range(count)]


def refer(count: int) -> list[int]:
    return [CHANCE.randrange(FEWER) for _ in range(count)]


def write(lab: Lab, source: str, /, **columns: Any) -> None:
    """Write a source; its last column is read by no job."""
    rows = len(columns["unused"])
    table = pa.table({each: list(value) if isinstance(value, range) else value for each, value in columns.items()})
    DeltaTable.create(lab.path(source), table.schema, configuration=FEED)
    write_deltalake(lab.path(source), table, mode="append")
    assert table.num_rows == rows


def open_large(lab: Lab) -> None:
    """Write tables of some MB, of few rows with long texts."""
    every, some = range(ROWS), range(FEWER)
    unused = texts(ROWS, 150)
    write(lab, "products", id=every, merchant=refer(ROWS), title=texts(ROWS, 500), unused=unused)
    write(lab, "merchants", id=some, name=texts(FEWER, 500), unused=texts(FEWER, 200))
    write(lab, "prices", id=every, price=texts(ROWS, 400), unused=unused)
    lists = pa.array([refer(3) for _ in some], pa.list_(pa.int64()))
    write(lab, "persons", id=some, name=texts(FEWER, 800), merchants=lists, unused=texts(FEWER, 200))
    times = pa.array(moments(ROWS), MOMENT)
    write(lab, "events", id=every, customer=refer(ROWS), ts=times, title=texts(ROWS, 400), unused=unused)
    since = pa.array([datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=i) for i in every], MOMENT)
    customers = [i % FEWER for i in every]
    write(lab, "accounts", customer=customers, since=since, email=texts(ROWS, 300), unused=unused)
    times = pa.array(moments(ROWS), MOMENT)
    write(lab, "payments", p=every, o=refer(ROWS), ts=times, amount=texts(ROWS, 300), unused=unused)
    for job in JOBS:
        lab.job(job)


def change(lab: Lab, table: str, column: str, ids: range, key: str = "id") -> None:
    """Give some rows another value."""
    keys = ", ".join(map(str, ids))
    DeltaTable(lab.path(table)).update({column: f"concat('x', {column})"}, predicate=f"{key} IN ({keys})")


@pytest.fixture
def large(interpreted: SparkSession, tmp_path: Path) -> Lab:
    lab = Lab(tmp_path / "lab", interpreted)
    open_large(lab)
    return lab


@pytest.fixture
def count_read(interpreted: SparkSession) -> Iterator[Callable[[], int]]:
    """Give what counts the bytes that Hadoop's file systems have read: neither shuffles nor what Spark keeps."""
    settings = interpreted.sparkContext._jsc.hadoopConfiguration()
    # Spark's counts leave out what Parquet reads from several places of a file at once.
    name, jvm = "parquet.hadoop.vectored.io.enabled", interpreted._jvm
    settings.set(name, "false")
    yield lambda: sum(each.getBytesRead() for each in jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics())  # type: ignore[union-attr]
    settings.unset(name)


def forecast(lab: Lab, job: str, **how: Any) -> int:
    """Return the bytes that the cap goes by."""
    project = enrich.load_project(lab.home)
    workplace = Workplace(project, [job], read_run_options(project, [job], None, None, **how))
    workplace.pin()
    return foresee_reads(decide_plan(workplace.open_job(project.jobs[job])))[0].bytes


def test_forecasts_hold(large: Lab, count_read: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    lab, off = large, []

    def play(job: str, what: str, *, positions: bool = True, **how: Any) -> None:
        monkeypatch.setattr(extents, "SMALL_TABLE", 0 if positions else 2**30)
        expected, before = forecast(lab, job, **how), count_read()
        result = lab.run(job, **how)
        assert result.exit_code == 0, result.error
        read = count_read() - before
        if not expected / 2 - ALLOWED <= read <= 2 * expected + ALLOWED:
            off.append(f"{job}, {what}: {read / 1e6:.2f} MB read, {expected / 1e6:.2f} forecast")

    jobs = [job.removeprefix("job:").split()[0] for job in JOBS]
    for job in jobs:
        play(job, "first run")
    scattered, more = range(5, ROWS, 100), range(7, FEWER, 300)
    for table, column, changed, key, reader in (
        ("merchants", "name", more, "id", "shop"),
        ("merchants", "name", more, "id", "lived"),
        ("prices", "price", scattered, "id", "priced"),
        ("prices", "price", scattered, "id", "named"),
        ("prices", "price", scattered, "id", "told"),
        ("accounts", "email", more, "customer", "seen"),
        ("payments", "amount", scattered, "p", "paid"),
    ):
        if reader not in ("lived", "named", "told"):  # these read what the job before them has read
            change(lab, table, column, changed, key)
        play(reader, f"changes of {table}")
    change(lab, "products", "title", scattered)
    play("shop", "changes of products, by MERGE", positions=False)
    new = [{"id": ROWS + i, "merchant": i, "title": "new", "unused": "new"} for i in range(50)]
    lab.append("products", *new)
    play("shop", "new products")
    assert forecast(lab, "shop") == 0
    lab.drop("products", "id % 100 = 6")
    play("shop", "products go")
    lab.append("products", *[{**new[0], "id": 100 * i + 6} for i in range(60)])
    play("shop", "products come between others")
    play("priced", "full refresh", full_refresh=True)
    assert not off


def test_a_job_beyond_the_cap_reads_and_writes_nothing(consents: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = consents
    lab.job("job: alone\nsources: {consents: {table: consents, key: id}}\nfrom: consents\ntarget: {table: alone}\n")
    lab.job("job: after\nsources: {it: {table: customers, key: id}}\nfrom: it\ntarget: {table: after}\n")
    costs = {name: forecast(lab, name) for name in ("customers", "alone")}
    assert costs["alone"] < costs["customers"] < 10_000
    with monkeypatch.context() as patch:
        patch.setattr("enrich.spark.session.borrow_session", lambda _: pytest.fail("a session was opened"))
        refused = lab.run_all("customers", "after", max_bytes=costs["customers"] - 1)
    assert (refused.exit_code, [job.status for job in refused.jobs]) == (3, ["blocked", "skipped"])
    told = refused.jobs[0].to_dict()
    assert (told["mode"], told["sources"]["accounts"]["to"], told["state"]) == ("bootstrap", 1, None)
    assert told["error"].startswith("job 'customers' would read about ")
    assert not lab.exists("customers")
    document = read_report(enrich.load_project(lab.home)).to_dict()
    assert {job["job"]: job["verdict"] for job in document["jobs"]}["customers"] == "blocked"

    # A cap is of each job: what is cheaper runs. The proposed command allows the job.
    found = lab.run_all(max_bytes=costs["alone"])
    assert {job.job: job.status for job in found.jobs} == {
        "alone": "created",
        "customers": "blocked",
        "after": "skipped",
    }
    proposed = re.search(r"`enrich run customers --max-bytes (\w[\w.]*)` allows it", str(told["error"]))
    assert proposed is not None
    assert lab.run("customers", max_bytes=proposed[1]).status == "created"

    # By changes: the cursor stays where it is, and a dry run reads as much as a run.
    lab.put("accounts", {"id": "u1", "email": None, "note": "n"})
    before = lab.log("customers")
    blocked = lab.run("customers", max_bytes="1B", since="accounts=v0", dry_run=True)
    assert "`enrich run customers --since accounts=v0 --max-bytes " in str(blocked.error)
    assert lab.run("customers", max_bytes=1).exit_code == 3
    assert lab.log("customers") == before
    assert lab.run("customers", max_bytes="1GB").counts.updated == 1
    assert lab.run("customers", max_bytes="1B").status == "unchanged", "nothing to do reads nothing"


@pytest.mark.parametrize("size", ["much", "", "0", "0GB", "-1", "1 XB", "GB", "1,5GB", "iB", -1, 0, True])
def test_what_is_no_size_is_refused(consents: Lab, size: Any) -> None:
    with pytest.raises(ConfigError, match=r"--max-bytes .* is not a size; valid forms are 20GB"):
        enrich.run(enrich.load_project(consents.home), max_bytes=size)


@pytest.mark.parametrize(
    ("text", "size"),
    [("20GB", 20 * 10**9), ("1.5 tb", 15 * 10**11), ("64MiB", 2**26), ("7", 7), ("7B", 7), ("12kB", 12_000)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert parse_size(spell_size(size)) is not None


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 123_456, 999_999, 13_147_347, 10**15 + 1])
def test_a_size_that_is_proposed_is_enough(size: int) -> None:
    proposed = parse_size(spell_size(size))
    assert proposed is not None
    assert size <= proposed <= 1.01 * size
