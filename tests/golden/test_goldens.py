"""What one lake with a job of every kind says and records, held against files: ``ENRICH_WRITE_GOLDENS=1`` writes them.

A change of the code that is meant to change nothing leaves these files as they are. Ids, times, sizes and paths are
replaced, but for hashes of definitions; so are counts of files, for the time in the key of a history decides its file,
and the sums of proofs, in which that time is.
Lakes that earlier states of enrich have written go on to the same rows, without a full refresh.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import GatewayClient

import enrich
from enrich.answers.inspection import read_status
from enrich.answers.reasons import format_answer, format_failing
from enrich.base import failpoints
from enrich.base.console import format_run
from enrich.cli.checks import format_plan, format_verification
from enrich.cli.commands import format_status
from enrich.delta.sink import hold_settings
from enrich.report.document import read_report
from enrich.report.text import format_report
from kit.lab import Lab
from kit.project import hold_nulls
from kit.session import INTERPRETED
from upgrade.project import GROUPS, JOBS, begin, go_on, go_on_again

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
LAKES = sorted((HERE.parent / "upgrade").glob("lake-*.tar.xz"))

TITLED = """\
job: titled_products
sources:
  products: {table: products, key: product_id}
from: products
where: products.product_id > 0
select: {product_id: products.product_id, title: products.title}
target: {table: titled_products}
expectations: titled_products
"""

ASKED = {
    "consents_with_email": "c1",
    "products_with_merchant": "1",
    "persons_with_addresses": "p3",
    "email_mirror": "c3",
    "orders_with_payments": "e1",
    "orders_with_price": "e1",
    "titled_products": "0",
    "products_by_merchant": "m1",
}
"""Job -> a key of which `enrich why` is asked; a history's key has the time of a commit."""

DRY = ("consents_with_email", "merchants_history", "titled_products")
"""Jobs whose run is told without being made: one with a quarantine, a history, one that is blocked."""
UNTITLED = {"product_id": 4, "title": None, "merchant_id": "m1"}

_VARYING = {"at", "commit", "bytes", "files", "days_left"}
_TEXT = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"\b20(?!26-03)\d\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+]\d\d:?\d\d)?( UTC)?"), "<time>"),
    (re.compile(r"\b\d+([.,]\d+)? ?(s|ms|h|min|kB|MB|B|bytes|d)\b"), "<size>"),
    (re.compile(r"^\d{13,20}$"), "<sum>"),
    (re.compile(r"\(changes \d[^)]*\)"), "(<stages>)"),
    (re.compile(r" {2,}"), "  "),
    (re.compile(r"-{3,}|─{3,}"), "---"),
)


def settle(found: Any, home: Path) -> Any:
    """Replace what no two runs have in common."""
    if isinstance(found, dict):
        return {
            name: f"<{name}>"
            if isinstance(each, float | int | str) and (name in _VARYING or name.endswith("seconds"))
            else (dict.fromkeys(each, "<seconds>") if name == "stages" else settle(each, home))
            for name, each in found.items()
        }
    if isinstance(found, list | tuple):
        return [settle(each, home) for each in found]
    if isinstance(found, int) and found >= 10**12:
        return "<sum>"
    if not isinstance(found, str):
        return found
    text = found.replace(str(home), "<home>")
    for pattern, instead in _TEXT:
        text = pattern.sub(instead, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


@contextmanager
def counted_costs(spark: SparkSession) -> Iterator[dict[str, int]]:
    """Give what the block costs after it: Spark jobs, and calls into the JVM without look-ups of names and releases."""
    scheduler: Any = spark.sparkContext._jsc.sc().dagScheduler()
    told: dict[str, int] = {}
    send, calls = GatewayClient.send_command, 0

    def counting(self: Any, command: str, *more: Any, **how: Any) -> Any:
        nonlocal calls
        calls += command[0] not in "mr"
        return send(self, command, *more, **how)

    before = scheduler.numTotalJobs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GatewayClient, "send_command", counting)
        yield told
    told |= {"Spark jobs": scheduler.numTotalJobs() - before, "calls into the JVM": calls}


@contextmanager
def broken_storage(point: str) -> Iterator[None]:
    """Let the storage fail at a point."""

    def fail(name: str) -> None:
        if name == point:
            raise OSError(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "hook", fail)
        yield


def play(lab: Lab) -> dict[str, Any]:
    """Play the lake's story once; return topic -> what is to be compared: JSON, or lines of text."""
    results: dict[str, Any] = {}
    texts: list[str] = []
    costs: dict[str, dict[str, int]] = {}

    def run(name: str, *jobs: str, **how: Any) -> None:
        found = lab.run_all(*jobs, **how)
        results[name] = found.to_dict()
        texts.extend([f"# run: {name}", format_run(found)])

    lab.job(TITLED)
    whole = hold_nulls("title")
    lab.suite("titled_products", whole | {"meta": {"enrich": {"action": "fail"}}})
    run("first")
    go_on(lab)
    project = enrich.load_project(lab.home)
    planned = enrich.plan(project, spark=lab.spark)
    results["plan"] = planned.to_dict()
    texts.extend(["# plan", format_plan(planned)])
    run("dry run", *DRY, dry_run=True)
    run("changes")
    go_on_again(lab)
    lab.put("products", UNTITLED)
    with broken_storage("merge.before"):
        run("storage fails", "email_mirror")
    for job in (*JOBS, "titled_products"):
        with counted_costs(lab.spark) as costs[job]:
            run(f"a few rows of {job}", job)
    return {"results.json": results, "costs.json": costs, "texts.txt": texts, **ask(lab, texts)}


def ask(lab: Lab, texts: list[str]) -> dict[str, Any]:
    """Ask every question about the lake; return what is to be compared, and add the texts to ``texts``."""
    project = enrich.load_project(lab.home)
    answers: dict[str, Any] = {}
    for job, key in ASKED.items():
        why = enrich.why(project, job, key, spark=lab.spark)
        answers[f"why {job}"] = why.to_dict()
        texts.extend([f"# why {job}", format_answer(why, None)])
    for job in ("consents_with_email", "titled_products"):
        failing = enrich.failing(project, job, spark=lab.spark)
        answers[f"failing {job}"] = failing.to_dict()
        texts.extend([f"# failing {job}", format_failing(failing)])
    verified = enrich.verify(project, spark=lab.spark)
    status = [each.to_dict() for each in read_status(project)]
    report = read_report(project)
    texts.extend(["# verify", format_verification(verified), "# status", format_status(status)])
    texts.extend(["# report", format_report(report)])
    answers |= {"verify": verified.to_dict(), "status": status}
    tables = [name for job in (*JOBS, "titled_products") for name in (job, f"{job}__quarantine") if lab.exists(name)]
    records = {name: [json.loads(each.get("userMetadata") or "null") for each in lab.log(name)] for name in tables}
    return {"answers.json": answers, "report.json": report.to_dict(), "records.json": records}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Lab:
    """A lake before its first run."""
    return begin(tmp_path_factory.mktemp("goldens") / "project", spark)


@pytest.fixture(scope="module")
def played(lake: Lab) -> dict[str, str]:
    """What the lake says and records, as the text of files."""
    with hold_settings(lake.spark, INTERPRETED | {"spark.sql.shuffle.partitions": "2"}):  # as many files as users have
        found = play(lake)
    write: Callable[[Any], str] = lambda each: json.dumps(each, indent=1, sort_keys=True, ensure_ascii=False)  # noqa: E731
    return {
        name: "\n".join(settle(each, lake.home) if name.endswith(".txt") else [write(settle(each, lake.home))]) + "\n"
        for name, each in found.items()
    }


@pytest.mark.parametrize("name", ["results.json", "records.json", "texts.txt", "answers.json", "report.json"])
def test_everything_is_said_and_recorded_as_before(name: str, played: dict[str, str]) -> None:
    golden = HERE / name
    if "ENRICH_WRITE_GOLDENS" in os.environ:
        golden.write_text(played[name])
    before, now = golden.read_text().splitlines(), played[name].splitlines()
    differences = list(difflib.unified_diff(before, now, f"{name} before", f"{name} now", lineterm=""))
    assert not differences, "\n".join(differences)


def test_a_few_rows_cost_no_more_than_before(played: dict[str, str]) -> None:
    golden = HERE / "costs.json"
    if "ENRICH_WRITE_GOLDENS" in os.environ:
        golden.write_text(played["costs.json"])
    before, now = json.loads(golden.read_text()), json.loads(played["costs.json"])
    more = {
        f"{job}, {cost}": (before.get(job, {}).get(cost), count)
        for job, costs in now.items()
        for cost, count in costs.items()
        if count > before.get(job, {}).get(cost, 0) * (1 if cost == "Spark jobs" else 1.05)
    }
    assert more == {}, "(before, now)"


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("packed", LAKES, ids=lambda path: path.name.split(".")[0])
def test_a_lake_of_an_earlier_state_goes_on(packed: Path, tmp_path: Path, lake: Lab, interpreted: SparkSession) -> None:
    """To what the lake of today has after the same rounds, which `verify` has found equal to its sources."""
    with tarfile.open(packed) as found:
        found.extractall(tmp_path, filter="data")
    old = Lab(tmp_path / "project", interpreted, dict(lake.keys))
    known = enrich.load_project(old.home).jobs.keys()
    assert known <= JOBS.keys()
    chosen = known if len(known) < len(JOBS) else ("consents_with_email", *GROUPS)  # of a later lake, what came later
    jobs = {job.job: (job.status, job.mode) for job in old.run_all(*chosen).jobs}
    assert jobs == dict.fromkeys(chosen, ("unchanged", "incremental"))

    go_on_again(old)
    old.put("products", UNTITLED)
    jobs = {job.job: (job.status, job.mode) for job in old.run_all(*chosen).jobs}
    assert jobs == dict.fromkeys(chosen, ("updated", "incremental"))
    if "merchants_history" in chosen:
        (history,) = enrich.verify(enrich.load_project(old.home), ["merchants_history"], spark=interpreted).jobs
        assert history.status == "equal"
    for job in sorted({*chosen} - {"merchants_history"}):  # whose times are those of the commits
        assert old.rows(job) == lake.rows(job), job
    held = [
        sorted(repr({**row, "_run_id": None}) for row in lab.rows("consents_with_email__quarantine"))
        for lab in (old, lake)
    ]
    assert held[0] == held[1]
