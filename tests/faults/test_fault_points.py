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
from faults.shop import HOLDING, JOBS, SOAK, Shop, open_shop
from faults.stops import Crash, Place, crash_at, crash_on, error_at, hooked, places, traced
from kit.lab import Lab, Prepared

PLAYED = tuple(JOBS) if SOAK else ("sums", "checked")
"""The jobs that fail at points: groups, whose rows move by what came and went, and rows that stand by themselves."""
IN_A_ROW = 4
TABLES = ("checked", "checked__quarantine")
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


def chosen(traces: dict[str, list[Place]]) -> list[tuple[str, Place]]:
    """Return (job, place): every point once a kind of sink and way to write; the soak has every place of every job.

    The runs of ``checked`` write both kinds of table, by position. Of the other jobs' runs, there is only what those do
    not pass, their MERGE, and the moment when the quarantine alone has gone on.
    """
    if SOAK:
        return [(job, place) for job, trace in traces.items() for place in trace]
    mine = [place for place in traces["checked"] if place.hit == 1 or place.name.startswith(("merge.", "positions."))]
    known = {place.name for place in mine if not place.name.startswith("merge.")} - {"quarantine.after"}
    others = {job: trace for job, trace in traces.items() if job != "checked"}
    found = [(job, place) for job, trace in others.items() for place in trace if place.name not in known]
    return [*(("checked", place) for place in mine), *found]


def in_rows(cases: list[tuple[str, Place]]) -> Iterator[tuple[str, list[Place]]]:
    """Yield (job, places): the soak makes each failure good at once, `make test` up to ``IN_A_ROW`` together."""
    longest = 1 if SOAK else IN_A_ROW
    for job in PLAYED:
        mine = [place for name, place in cases if name == job]
        for start in range(0, len(mine), longest):
            yield job, mine[start : start + longest]


def list_ways(lab: Lab, table: str) -> set[bool]:
    """Return how rows of a table were replaced: whether by position."""
    entries = DeltaTable(lab.path(table)).history()
    return {entry["operationParameters"]["predicate"] == "[]" for entry in entries if entry["operation"] == "MERGE"}


def test_a_run_fails_at_any_point(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a row, the next run fails as well, further on and over more changes; the last one has to mend all of it."""
    monkeypatch.setattr(sink, "wants_places", lambda table: table is not None and Path(table.uri).name in TABLES)
    shop = open_shop(lab, *PLAYED)
    creation = {}
    for job in PLAYED:
        with traced() as creation[job]:
            assert lab.run(job).status == "created"
    shop.assert_current(*PLAYED)
    traces = {}
    for job in PLAYED:
        shop.change(job)
        with traced() as traces[job]:
            assert lab.run(job).status == "updated"
    passed = {name for trace in (*creation.values(), *traces.values()) for name in trace}
    assert passed | ELSEWHERE == known_points()
    cases = chosen({job: places(trace) for job, trace in traces.items()})
    assert {place.name for _, place in cases} == {name for trace in traces.values() for name in trace}
    for job, row in in_rows(cases):
        for first in (True, False) if SOAK else (True,):
            crashes = cycle((first, not first))
            try:
                for place, crash in zip(row, crashes, strict=False):
                    fail_at(shop, job, place, crash=crash)
                make_good(shop, job)
            except BaseException as error:
                error.add_note(f"{job} at {row}, {'a crash' if first else 'an error'} first, then in turn")
                raise
    assert [list_ways(lab, table) for table in (*TABLES, "sums")] == [{True}, {True}, {False}]


def test_a_first_run_that_fails_around_its_commits_is_made_good(lab: Lab) -> None:
    shop = open_shop(lab, "checked")
    with traced() as trace:
        lab.run("checked")
    wanted = ("intent.after", "quarantine.before", "create.before", "create.after", "target.before", "outcome.before")
    chosen = [place for place in places(trace) if SOAK or place.name in wanted]
    assert len(chosen) >= 8, "the quarantine is created, then the target"
    for number, place in enumerate(chosen):
        for table in TABLES:
            shutil.rmtree(lab.path(table), ignore_errors=True)
        stopped(lab, "checked", place, crash=number % 2 == 0)
        assert shop.found("checked") in ([], shop.expected("checked"))
        if SOAK or any(map(lab.exists, TABLES)):  # else the next case's run is the next run
            make_good(shop, "checked")
    make_good(shop, "checked")


def test_a_first_run_that_ends_before_its_commit_leaves_no_file(lab: Lab) -> None:
    shop, folder = open_shop(lab, "offers"), Path(lab.path("offers"))
    with traced() as trace:
        lab.run("offers")
    chosen = [place for place in places(trace) if place.name in ("draft.written", "create.before", "create.after")]
    assert [place.name for place in chosen] == ["draft.written", "create.before", "create.after"]
    for number, place in enumerate(chosen):
        shutil.rmtree(folder)
        stopped(lab, "offers", place, crash=number % 2 == 0)
        assert folder.exists() == (place.name == "create.after")
        make_good(shop, "offers")


def test_a_rewrite_that_fails_is_made_good(prepared: Prepared) -> None:
    lab = prepared("checked once", run_checked)
    shop = Shop(lab, 0)
    shop.now = 1000
    job = lab.home / "jobs" / "checked.yml"
    text = job.read_text()

    def redefine(bound: int) -> None:
        job.write_text(f"{text}where: orders.id > -{bound}\n")

    redefine(1)
    with traced() as trace:
        assert lab.run("checked", full_refresh=True).exit_code == 0
    rewriting = [place for place in places(trace) if place.name.startswith("overwrite")]
    assert len(rewriting) == 4, "before and after, quarantine and target"
    for number, place in enumerate(rewriting):
        redefine(2 + number)
        shop.change("checked")
        stopped(lab, "checked", place, crash=number % 2 == 0, full_refresh=True)
        if SOAK or number % 2:
            assert lab.run("checked", full_refresh=True).exit_code == 0
            shop.assert_current("checked")


def test_a_feed_that_is_switched_on_survives_failures_around_it(lab: Lab) -> None:
    shop = open_shop(lab, "lookup")
    lab.run("lookup")
    lab.job("job: reader\nsources:\n  l: {table: lookup, key: value}\nfrom: l\ntarget: {table: reader}\n")
    for name in ("feed.before", "feed.after"):
        shop.change("lookup")
        with pytest.raises(Crash), hooked(crash_on(name)):
            lab.run("lookup")
    assert lab.run_all("lookup", "reader").exit_code == 0
    shop.assert_current("lookup")
    assert shop.found("reader") == shop.expected("lookup")


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
