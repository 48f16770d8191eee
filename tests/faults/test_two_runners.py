"""Two runs of one job: the fault points are the schedule, the log says who has won, the loser has written nothing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import enrich
from enrich.base.result import JobResult
from enrich.steps import publish
from faults.shop import SOAK, Shop, open_shop
from faults.stops import Pause, hooked
from kit.commits import forget_numbers
from kit.lab import Lab, Prepared
from kit.session import forget_tables


class Runner(threading.Thread):
    """A run in a thread of its own that halts at a point."""

    def __init__(self, lab: Lab, pause: Pause, **how: Any) -> None:
        super().__init__(daemon=True)
        self.lab, self.pause, self.how = lab, pause, how
        self.result: JobResult | None = None
        pause.thread = self

    def run(self) -> None:
        try:
            self.result = self.lab.run("checked", **self.how)
        finally:
            self.pause.reached.set()

    def finished(self) -> JobResult:
        """Let it go on, and return how it ended."""
        self.pause.resumed.set()
        self.join(120)
        assert self.result is not None
        return self.result


@contextmanager
def halted(lab: Lab, name: str, hit: int = 1, **how: Any) -> Iterator[Runner]:
    """Start a run and wait until it has reached a point."""
    pause = Pause(name, hit)
    runner = Runner(lab, pause, **how)
    with hooked(pause):
        runner.start()
        assert pause.reached.wait(120)
        assert runner.result is None, f"the run ended before {name}: {runner.result}"
        try:
            yield runner
        finally:
            pause.resumed.set()
            runner.join(120)


def run_checked(lab: Lab) -> None:
    """Open a shop, and run its gated job once."""
    open_shop(lab, "checked")
    lab.put("orders", {"id": 60, "amount": None})
    lab.run("checked")


def come_back(lab: Lab) -> Shop:
    """Return the shop of a lake, and give its gated job something to do."""
    shop = Shop(lab, seed=1)
    shop.now = 1000
    shop.change("checked")
    return shop


@pytest.fixture
def shop(prepared: Prepared) -> Shop:
    """Give a shop whose gated job has run once and has something to do."""
    return come_back(prepared("checked", run_checked))


@pytest.fixture
def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the lock, as on a store that has none, or on another machine."""
    monkeypatch.setattr("enrich.delta.locks.hold_lock", lambda *_: nullcontext())


def versions(lab: Lab) -> tuple[int, int]:
    """Return the latest versions of target and quarantine."""
    return tuple(DeltaTable(lab.path(name)).version() for name in ("checked", "checked__quarantine"))  # type: ignore[return-value]


def winner(lab: Lab) -> str:
    """Return the run that wrote the target last."""
    return str(json.loads(lab.log("checked")[0]["userMetadata"])["run_id"])


def test_another_run_has_the_lock_of_the_job(shop: Shop) -> None:
    with halted(shop.lab, "changes.before") as first:
        before = versions(shop.lab)
        second = shop.lab.run_all("checked")
        assert (second.exit_code, second.jobs[0].status) == (4, "locked")
        holder = (shop.lab.home / "lake/_enrich/locks/checked.lock").read_text()
        assert f"(host {socket.gethostname()}, pid {os.getpid()}, since" in holder
        assert holder in str(second.jobs[0].error)
        assert versions(shop.lab) == before
        result = first.finished()
    assert (result.status, result.exit_code) == ("updated", 0)
    assert winner(shop.lab) in holder
    shop.assert_current("checked")


ASLEEP = (
    ("changes.before", 1), ("join.before", 1), ("staged.after", 1), ("intent.after", 1), ("quarantine.before", 1),
    ("merge.before", 1), ("quarantine.after" if SOAK else "merge.before", 1 if SOAK else 2),
)  # fmt: skip
"""Points before the quarantine's commit, and the last one between it and the target's."""


def test_another_run_commits_while_this_one_waits(shop: Shop, unlocked: None) -> None:
    """Seven sleepers, each at a point of its own, the last one with a quarantine ahead; and one who overtakes all."""
    with ExitStack() as asleep:
        sleepers = [asleep.enter_context(halted(shop.lab, *place)) for place in ASLEEP]
        shop.change("checked")  # what the sleepers have not seen, and must not roll back
        assert shop.lab.run("checked").status == "updated"
        shop.assert_current("checked")
        after = versions(shop.lab)
        for place, sleeper in zip(ASLEEP, sleepers, strict=True):
            result = sleeper.finished()
            assert (result.status, result.exit_code) == ("locked", 4), place
            assert winner(shop.lab) in str(result.error), place
            assert versions(shop.lab) == after, f"the loser at {place} wrote something"
    shop.assert_current("checked")


def let_numbers_go(shop: Shop) -> None:
    """Let Delta forget the numbers of all commits so far, as tables with a retention of their own do."""
    for name in ("checked", "checked__quarantine"):
        forget_numbers(Path(shop.lab.path(name)))
    forget_tables(shop.lab.spark)


def run_forgetful(lab: Lab) -> None:
    """Do the same, with tables that keep their numbers for an hour."""
    run_checked(lab)
    for name in ("checked", "checked__quarantine"):
        properties = "('delta.setTransactionRetentionDuration' = 'interval 1 hours')"
        lab.spark.sql(f"ALTER TABLE delta.`{lab.path(name)}` SET TBLPROPERTIES {properties}")


@pytest.fixture
def forgetful(prepared: Prepared, unlocked: None) -> Shop:
    """Give such a shop, without lock, which has something to do."""
    return come_back(prepared("forgetful", run_forgetful))


def test_who_sleeps_until_the_winners_number_is_forgotten_has_lost(forgetful: Shop) -> None:
    """In front of the quarantine's commit, and in front of the target's."""
    lab = forgetful.lab
    with halted(lab, "merge.before", 1) as first, halted(lab, "merge.before", 2) as second:
        forgetful.change("checked")
        assert lab.run("checked").status == "updated"
        let_numbers_go(forgetful)
        after = versions(lab)
        for sleeper in (first, second):
            result = sleeper.finished()
            assert (result.status, result.exit_code) == ("locked", 4), sleeper.pause.name
            assert versions(lab) == after
            let_numbers_go(forgetful)
    forgetful.assert_current("checked")
    assert lab.run("checked").exit_code == 0


def test_planted_who_does_not_look_before_it_commits(forgetful: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Delta and this look let through is drift, to the run itself and to the next one; its repair is below."""
    with halted(forgetful.lab, "merge.before", 2) as sleeper:
        forgetful.change("checked")
        assert forgetful.lab.run("checked").status == "updated"
        let_numbers_go(forgetful)
        monkeypatch.setattr(publish, "refuse_if_beaten", lambda *_, **__: None)
        assert sleeper.finished().exit_code == 6
    assert forgetful.lab.run("checked").exit_code == 6


def test_who_sleeps_after_its_commit_has_won(shop: Shop, unlocked: None) -> None:
    with halted(shop.lab, "merge.after", 2) as sleeper:
        assert shop.lab.run("checked").status == "unchanged"
        result = sleeper.finished()
    assert (result.status, result.exit_code) == ("updated", 0)
    shop.assert_current("checked")


def test_of_two_first_runs_one_creates_the_target(lab: Lab, unlocked: None) -> None:
    shop = open_shop(lab, "checked")
    with halted(lab, "target.before") as sleeper:
        shop.change("checked")
        assert lab.run("checked").status == "created"
        after = versions(lab)
        result = sleeper.finished()
    assert (result.status, result.exit_code) == ("locked", 4)
    assert versions(lab) == after
    shop.assert_current("checked")


def test_the_target_or_its_quarantine_is_restored_while_a_run_is_at_work(shop: Shop) -> None:
    """First the quarantine, then, when the run has planned again and has written it, the target."""
    assert shop.lab.run("checked").status == "updated"
    shop.change("checked")
    left = {"quarantine.before": "checked__quarantine", "target.before": "checked"}

    def restore(point: str) -> None:
        if point in left:
            DeltaTable(shop.lab.path(left.pop(point))).restore(0)

    with hooked(restore):
        result = shop.lab.run("checked")
    assert (left, result.status, result.exit_code) == ({}, "updated", 0), result.error
    shop.assert_current("checked")
    assert shop.lab.run("checked").status == "unchanged"


def keep_people(lab: Lab) -> None:
    """Keep two people, then one: the version before has the other one."""
    lab.table("people", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": key, "name": "n"} for key in (1, 2)])
    lab.job("job: checked\nsources: {people: {table: people, key: id}}\nfrom: people\ntarget: {table: checked}\n")
    assert lab.run("checked").status == "created"
    lab.drop("people", "id = 2")
    assert lab.run("checked").status == "updated"


@pytest.fixture
def people(prepared: Prepared) -> Lab:
    """Give them after both runs."""
    return prepared("people", keep_people)


def test_an_append_doubles_no_row_that_a_restore_has_brought_back(people: Lab) -> None:
    people.put("people", {"id": 2, "name": "n"})
    with halted(people, "merge.before") as runner:
        DeltaTable(people.path("checked")).restore(0)
        result = runner.finished()
    assert result.exit_code == 0, result.error
    assert sorted(row["id"] for row in people.rows("checked")) == [1, 2]
    assert people.run("checked").status == "unchanged"


def test_the_target_is_dropped_while_a_run_is_at_work(people: Lab) -> None:
    """An append would make a new table, of the rows that it brings alone."""
    people.put("people", {"id": 2, "name": "n"})
    with halted(people, "merge.before") as runner:
        shutil.rmtree(people.path("checked"))
        forget_tables(people.spark)
        result = runner.finished()
    assert (result.status, result.exit_code) == ("created", 0), result.error
    assert sorted(row["id"] for row in people.rows("checked")) == [1, 2]
    assert people.run("checked").status == "unchanged"


def test_a_source_is_dropped_and_created_again_while_a_run_reads_it(people: Lab) -> None:
    """The other table has the version that was pinned, too."""
    people.put("people", {"id": 3, "name": "n"})
    with halted(people, "intent.before") as runner:
        latest = DeltaTable(people.path("people")).version()
        shutil.rmtree(people.path("people"))
        people.table("people", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": 9, "name": "other"}])
        for key in range(10, 10 + latest):
            people.put("people", {"id": key, "name": "other"})
        forget_tables(people.spark)
        result = runner.finished()
    assert (result.exit_code, "another table" in str(result.error)) == (5, True), result.error


def disturb_optimize(lab: Lab) -> None:
    DeltaTable(lab.path("checked")).optimize.compact()


def disturb_foreign(lab: Lab) -> None:
    DeltaTable(lab.path("checked")).delete("id = 100 OR id = 101")


@pytest.mark.parametrize(
    ("disturb", "code"), [(disturb_optimize, 0), (disturb_foreign, 6)], ids=["optimize", "foreign rows"]
)
def test_what_others_do_to_the_target_meanwhile(shop: Shop, disturb: Callable[[Lab], None], code: int) -> None:
    with halted(shop.lab, "merge.before", 2) as runner:
        disturb(shop.lab)
        result = runner.finished()
    assert result.exit_code == code, result.error
    again = shop.lab.run("checked")
    assert again.exit_code == code, "drift that came between plan and commit is not forgotten"
    if code:
        for each in (result, again):
            assert "`enrich verify checked --repair`" in str(each.error)
        assert enrich.verify(enrich.load_project(shop.lab.home), repair=True, spark=shop.lab.spark).exit_code == 0
        assert shop.lab.run("checked").exit_code == 0
    shop.assert_current("checked")
