"""Fail at every fault point of every kind of job, run again, and compare target and quarantine with the reference."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from deltalake import DeltaTable

import enrich
from enrich.base import failpoints
from enrich.delta import sink
from faults.shop import HOLDING, JOBS, SOAK, Shop, in_order, open_shop
from faults.stops import Crash, Place, crash_at, crash_on, error_at, hooked, places, traced
from kit.lab import Lab, Prepared, Rows

PLAYED = ("plain", *JOBS) if SOAK else ("plain", "checked", "sums")
"""The jobs that fail at points: rows that stand by themselves, without and with a quarantine, and groups, whose rows
move by what came and went."""
ROWS = (
    ("plain", "log.before log.after lock.before lock.taken lock.noted session.before session.after proof.before"),
    ("plain", "changes.before feed_of_source.before feed_of_source.after changes.after join.before proof.after"),
    ("plain", "staged.before staged.after intent.before runs.before runs.appended runs.tidied intent.after end"),
    ("plain", "outcome.before outcome.after lock.released"),
    ("checked", "quarantine.before positions.marked positions.written quarantine.after merge.after:2"),
    ("checked", "target.before merge.before:2 positions.marked:2 positions.written:2 end"),
    ("sums", "merge.before merge.after:2"),
    ("sums", "quarantine.after end"),
)
"""Where runs stop, one after the other: every point once a kind of sink and way to write, which for ``sums`` is MERGE.

A row ends with a run that has made its commits, or that goes on to its end. The soak stops at every place of all jobs.
"""
TABLES = ("checked", "checked__quarantine")
BY_POSITION = ("plain", *TABLES)
UPKEEP = {"optimize.before", "optimize.after"}
"""Points after a commit that leaves the target out of shape; the cases are in ``tests/scenarios/test_maintain.py``."""
ELSEWHERE = {"overwrite.before", "overwrite.after", "feed.before", "feed.after", "draft.written", *UPKEEP}
"""Points of rarer runs; each has a case below, but for ``UPKEEP``."""


def known_points() -> set[str]:
    """Return the names of all points of the package."""
    names = set()
    for path in Path(enrich.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if "from enrich.base.failpoints import pass_point" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "pass_point":
                assert isinstance(node.args[0], ast.Constant), path
                names.add(str(node.args[0].value))
    return names


def stopped(lab: Lab, job: str, place: Place, *, crash: bool, **how: object) -> None:
    """Run a job that is stopped at a place."""
    if crash:
        with crash_at(place), pytest.raises(Crash):
            lab.run(job, **how)
    else:
        with error_at(place):
            lab.run(job, **how)


def fail_at(shop: Shop, job: str, place: Place, *, crash: bool) -> None:
    """Change the sources, fail at a place, look."""
    before = shop.found(job)
    shop.change(job)
    if job in HOLDING:  # its quarantine has to change, too, whatever the failures before have left there
        shop.put_amounts(job, {1000 + shop.now: None})
    stopped(shop.lab, job, place, crash=crash)
    now = shop.found(job)
    assert now in (before, shop.expected(job)), "a target between two states"


def make_good(shop: Shop, job: str) -> None:
    """Run again, look."""
    result = shop.lab.run(job)
    assert result.exit_code == 0, result.error
    shop.assert_current(job)


def read_row(text: str) -> list[Place]:
    """Return the places that ``ROWS`` lists, which count their passings from 1."""
    found = [name.partition(":") for name in text.split() if name != "end"]
    return [Place(name, int(hit or 1)) for name, _, hit in found]


def list_rows(shop: Shop) -> Iterator[tuple[str, list[Place], bool]]:
    """Yield jobs, places and whether a run that ends well follows."""
    for job, text in () if SOAK else ROWS:
        yield job, read_row(text), text.endswith("end")
    for job in PLAYED if SOAK else ():
        shop.change(job)
        with traced() as trace:
            assert shop.lab.run(job).status == "updated"
        yield from ((job, [place], True) for place in places(trace))


def list_ways(lab: Lab, table: str) -> set[bool]:
    """Return how rows of a table were replaced: whether by position."""
    entries = DeltaTable(lab.path(table)).history()
    return {entry["operationParameters"]["predicate"] == "[]" for entry in entries if entry["operation"] == "MERGE"}


def test_a_run_fails_at_any_point(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a row, the next run fails as well, further on and over more changes; the last one has to mend all of it."""
    monkeypatch.setattr(sink, "wants_places", lambda table: table is not None and Path(table.uri).name in BY_POSITION)
    shop = open_shop(lab, *PLAYED)
    with traced() as creation:
        for job in PLAYED:
            assert lab.run(job).status == "created"
    shop.assert_current(*PLAYED)
    stops = set[str]()
    with traced() as passed:
        for job, row, is_mended in list_rows(shop):
            for first in (True, False) if SOAK else (True,):
                crashes = cycle((first, not first))
                try:
                    for place, crash in zip(row, crashes, strict=False):
                        fail_at(shop, job, place, crash=crash)
                    if is_mended:
                        make_good(shop, job)
                    shop.assert_current(job)
                except BaseException as error:
                    error.add_note(f"{job} at {row}, {'a crash' if first else 'an error'} first, then in turn")
                    raise
            stops |= {place.name for place in row}
    assert stops == set(passed)
    assert stops | set(creation) | ELSEWHERE == known_points()
    for job in PLAYED:
        make_good(shop, job)
    assert [list_ways(lab, table) for table in (*BY_POSITION, "sums")] == [{True}] * 3 + [{False}]


def test_a_first_run_that_fails_around_its_commits_is_made_good(lab: Lab) -> None:
    """It is made good from each state of the lake: the quarantine is there without the target, and both are there."""
    shop = open_shop(lab, "checked")
    wanted = [Place(name, hit) for hit in (1, 2) for name in ("create.before", "create.after")]
    if SOAK:
        with traced() as trace:
            lab.run("checked")
        wanted = places(trace)
    for number, place in enumerate(wanted):
        for table in TABLES:
            shutil.rmtree(lab.path(table), ignore_errors=True)
        stopped(lab, "checked", place, crash=number % 2 == 1)
        assert SOAK or [lab.exists(table) for table in TABLES] == [number == 3, number > 0], place
        assert shop.found("checked") in ([], shop.expected("checked"))
        if SOAK or number % 2:
            make_good(shop, "checked")


def test_a_first_run_that_ends_before_its_commit_leaves_no_file(lab: Lab) -> None:
    shop, folder = open_shop(lab, "offers"), Path(lab.path("offers"))
    for number, name in enumerate(("draft.written", "create.before", "create.after")):
        stopped(lab, "offers", Place(name), crash=number % 2 == 0)
        assert folder.exists() == (name == "create.after")
    make_good(shop, "offers")


def test_a_rewrite_that_fails_is_made_good(prepared: Prepared) -> None:
    """Before and after the quarantine's rewrite and the target's, each with a definition of its own."""
    lab = prepared("checked once", run_checked)
    shop = Shop(lab, 0)
    shop.now = 1000
    job = lab.home / "jobs" / "checked.yml"
    text = job.read_text()
    places = [Place(f"overwrite.{when}", hit) for hit in (1, 2) for when in ("before", "after")]
    for number, place in enumerate(places):
        job.write_text(f"{text}where: orders.id > -{number + 1}\n")
        shop.change("checked")
        stopped(lab, "checked", place, crash=number % 2 == 1, full_refresh=True)
        if SOAK or number % 2:
            assert lab.run("checked", full_refresh=True).exit_code == 0
            shop.assert_current("checked")


TOTALS = """\
job: totals
sources: {checked: {table: checked, key: id}}
query: |
  SELECT id % 2 AS part, count(*) AS orders, sum(amount) AS amount FROM checked GROUP BY id % 2
target: {table: totals}
"""
IN_A_CHAIN = "merge.after:2 merge.before:3 merge.after:3"
"""Where runs of ``checked`` and ``totals`` stop: behind the commit of the target that is a source, around the other."""


def test_groups_of_a_jobs_target_fail_with_either_run(lab: Lab) -> None:
    """What a dead run has committed moves groups once: in the next run, or in that of the second job alone."""
    shop = open_shop(lab, "checked")
    lab.job(TOTALS)

    def total() -> Rows:
        rows = shop.expected("checked")
        parts = {part: [row["amount"] for row in rows if row["id"] % 2 == part] for part in (0, 1)}
        return [{"part": k, "orders": len(each), "amount": sum(each)} for k, each in parts.items() if each]

    def look() -> None:
        shop.assert_current("checked")
        assert shop.found("totals") == in_order(total())

    chain = ("checked", "totals")
    assert {each.status for each in lab.run_all(*chain).jobs} == {"created"}
    wanted = read_row(IN_A_CHAIN)
    if SOAK:
        shop.change("checked")
        with traced() as trace:
            lab.run_all(*chain)
        wanted = places(trace)
    for place in wanted:
        before = shop.found("totals")
        shop.change("checked")
        shop.put_amounts("checked", {1000 + shop.now: None})
        with crash_at(place), pytest.raises(Crash):
            lab.run_all(*chain)
        if shop.found("checked") == shop.expected("checked"):
            assert shop.found("totals") in (before, in_order(total())), place
            assert lab.run("totals").exit_code == 0  # over what the dead run has left
            assert shop.found("totals") == in_order(total()), place
        if SOAK:
            assert lab.run_all(*chain).exit_code == 0
            look()
    assert lab.run_all(*chain).exit_code == 0
    look()


def test_a_feed_that_is_switched_on_survives_failures_around_it(lab: Lab) -> None:
    shop = open_shop(lab, "plain")
    lab.run("plain")
    lab.job("job: reader\nsources:\n  p: {table: plain, key: id}\nfrom: p\ntarget: {table: reader}\n")
    for name in ("feed.before", "feed.after"):
        shop.change("plain")
        with pytest.raises(Crash), hooked(crash_on(name)):
            lab.run("plain")
    assert lab.run_all("plain", "reader").exit_code == 0
    shop.assert_current("plain")
    assert shop.found("reader") == shop.expected("plain")


def crash_after_quarantine(lab: Lab) -> None:
    """Leave a quarantine that is ahead of its target."""
    with pytest.raises(Crash), hooked(crash_on("quarantine.after")):
        lab.run("checked")


def run_checked(lab: Lab) -> None:
    """Run the gated job, which holds one row of two that are alike."""
    open_shop(lab, "checked")
    lab.put("orders", {"id": 50, "amount": 1}, {"id": 51, "amount": None})
    lab.run("checked")


def test_a_quarantine_that_ran_ahead_is_made_good(prepared: Prepared) -> None:
    lab = prepared("checked once", run_checked)
    lab.put("orders", {"id": 50, "amount": None}, {"id": 51, "amount": 2})
    crash_after_quarantine(lab)
    # The changes are taken back, so that no window will ever name these keys again.
    lab.put("orders", {"id": 50, "amount": 1}, {"id": 51, "amount": None})
    crash_after_quarantine(lab)
    assert lab.run("checked").exit_code == 0
    shop = Shop(lab, 0)
    shop.assert_current("checked")
    assert {row["id"] for row in shop.found("checked__quarantine")} >= {51}


def test_a_quarantine_that_a_crashed_run_created_is_emptied(lab: Lab) -> None:
    shop = open_shop(lab, "checked")
    lab.drop("orders", "true")
    lab.put("orders", {"id": 1, "amount": 1})
    lab.run("checked")
    lab.put("orders", {"id": 1, "amount": None})
    crash_after_quarantine(lab)
    assert shop.found("checked__quarantine") == [{"id": 1, "amount": None}]
    lab.put("orders", {"id": 1, "amount": 1})
    assert lab.run("checked").exit_code == 0
    shop.assert_current("checked")
    assert lab.run("checked").status == "unchanged"


def test_a_rewrite_that_fails_and_is_given_up_is_made_good(prepared: Prepared) -> None:
    """The quarantine has the columns of a definition that the target never had."""
    lab = prepared("checked once", run_checked)
    job = lab.home / "jobs" / "checked.yml"
    text = job.read_text()
    job.write_text(text.replace("select: {", "select: {more: 1, "))
    with pytest.raises(Crash), hooked(crash_on("quarantine.after")):
        lab.run("checked", full_refresh=True)
    assert {row["more"] for row in lab.rows("checked__quarantine")} == {1}
    job.write_text(text)
    assert lab.run("checked").exit_code == 0
    Shop(lab, 0).assert_current("checked")
    assert lab.run("checked").status == "unchanged"


def test_the_hook_is_out_of_reach_of_configuration_and_environment() -> None:
    assert failpoints.hook is None
    text = Path(failpoints.__file__).read_text()
    assert not {"environ", "getenv", "config", "import_module"} & {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute | ast.Name)
    }
    setters = [
        path
        for path in Path(failpoints.__file__).parent.rglob("*.py")
        if any(word in path.read_text() for word in ("failpoints.hook", "import hook", "setattr(failpoints"))
    ]
    assert setters == []
