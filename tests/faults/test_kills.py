"""Real processes: killed at random moments, alone or with their JVM, while a reader watches; and two at a time."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from faults.shop import HOLDING, JOBS, SOAK, SOURCES, Shop, in_order, open_shop
from kit import command
from kit.counts import COUNTED
from kit.lab import Lab, Rows
from kit.patience import wait_until
from kit.processes import members, needs_proc
from kit.session import INTERPRETED

pytestmark = pytest.mark.soak

KILLS = 100 if SOAK else 2
# A cold JVM spends half its time on compiling plans that run once; which rows come out does not depend on it.
SETTINGS = {**INTERPRETED, "spark.sql.adaptive.enabled": "false"}
CONF = f"lake: ./lake\nspark: {{master: 'local[2]', conf: {json.dumps(SETTINGS)}}}\n"
RUNS = "_enrich/runs"
OTHER = "any job but checked"
MOMENTS = (
    ((OTHER,), "reading versions", 4.0),
    ((OTHER,), "an intent", 2.0),
    (("checked",), "incremental", 8.0),
    (("checked",), "a commit", 1.0),
    ((OTHER,), "a commit", 0.5),
    ((OTHER, OTHER), "incremental", 3.0),
    (("checked", OTHER), "a commit", 0.5),
    ((OTHER, OTHER), "updated", 0.5),
)
"""Jobs of a run, what its last job has said or done, and within how many seconds from then the run is killed."""
FIRST_WITH_A_SECOND = 3
"""From this moment on, a second run is started beside the first: five rounds of eight."""
GROUP, ALONE, AT_ONCE, FROZEN = "all killed", "Python alone killed", "next run at once", "JVM frozen meanwhile"
WAYS = (ALONE, FROZEN, GROUP, FROZEN, GROUP, AT_ONCE, ALONE, GROUP)
"""How, moment by moment, and one further with every eight kills: who is killed; after a kill of Python alone, whether
the next run waits for the JVM's death, does not wait, or comes while the JVM stands still in the middle of what it did,
and wakes up only afterwards."""


def arguments(lab: Lab, *jobs: str) -> list[object]:
    """Return the arguments of a run."""
    return ["--project-dir", lab.home, "run", "--output", "json", *jobs]


def environment(lab: Lab) -> dict[str, str]:
    """Return the environment of a run: this code, and a directory for what killed processes leave."""
    scratch = lab.home.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    return command.environment(TMPDIR=str(scratch))


class Victim:
    """A run of some jobs, in a process group of its own."""

    def __init__(self, lab: Lab, *jobs: str) -> None:
        self.process = subprocess.Popen(
            command.line(*arguments(lab, *jobs)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(lab),
            start_new_session=True,
        )
        self.lines: list[str] = []
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self.undertaker = threading.Thread(target=self._wait_for_the_last, daemon=True)
        self.jvm: list[int] = []
        self.killed = self.gone = 0.0

    def _listen(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def _wait_for_the_last(self) -> None:
        while members(self.process.pid):
            time.sleep(0.05)
        self.gone = time.monotonic() - self.killed

    def said(self, text: str) -> bool:
        """Tell whether a line of its log holds a text."""
        return any(text in line for line in self.lines)

    def until(self, there: Callable[[], bool]) -> None:
        """Wait for something that the process does."""
        wait_until(lambda: there() or self.process.poll() is not None, "the run")
        if not there():
            self.listener.join(20)  # its last lines may be read after its end
            assert there(), self.lines

    def kill(self, way: str) -> None:
        """Kill Python and, in one way, its JVM."""
        if way == FROZEN:
            self.jvm = [pid for pid in members(self.process.pid) if pid != self.process.pid]
            self._signal_jvm(signal.SIGSTOP)
        with suppress(ProcessLookupError):  # a run that had just ended by itself
            if way == GROUP:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                os.kill(self.process.pid, signal.SIGKILL)
        self.killed = time.monotonic()
        self.process.wait(60)
        self.undertaker.start()

    def thaw(self) -> None:
        """Let a JVM that stands still go on."""
        self.killed = time.monotonic()
        self._signal_jvm(signal.SIGCONT)

    def _signal_jvm(self, number: signal.Signals) -> None:
        for pid in self.jvm:
            with suppress(ProcessLookupError):  # a run that had ended by itself
                os.kill(pid, number)

    def end(self) -> None:
        """Leave nothing behind, whatever went wrong."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def buried(self) -> float:
        """Wait until no process is left, and return after how many seconds that was."""
        self.undertaker.join(20)
        assert not self.undertaker.is_alive(), "a JVM outlives its Python"
        self.listener.join(20)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return self.gone


class Reader(threading.Thread):
    """Reads the targets all along, as another system would."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(daemon=True)
        self.lab = lab
        self.seen: dict[tuple[str, int], Rows] = {}
        self.errors: list[str] = []
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.wait(0.1):
            for job in JOBS:
                try:
                    version = DeltaTable(self.lab.path(job)).version()
                    if (job, version) not in self.seen:
                        self.seen[job, version] = self.lab.rows(job, version)
                except Exception as error:  # noqa: BLE001 - a thread's exception would be lost
                    self.errors.append(f"{job}: {error!r}")

    def check(self, shop: Shop) -> int:
        """Compare every state, seen or passed over, with the view at the versions that its commit records."""
        self.stop.set()
        self.join()
        assert self.errors == []
        records = {
            (job, each["version"]): json.loads(each["userMetadata"]) for job in JOBS for each in self.lab.log(job)
        }
        assert self.seen.keys() <= records.keys()
        held_at = {}
        for job in HOLDING:
            name = f"{job}__quarantine"
            own = [each for each in self.lab.log(name) if "userMetadata" in each] if self.lab.exists(name) else []
            held_at[job] = {json.loads(each["userMetadata"])["quarantine_number"]: each["version"] for each in own}
        for (job, version), record in records.items():
            at = {table: record["sources"][table]["to"] for table in SOURCES[job]}
            rows = self.seen.get((job, version)) or self.lab.rows(job, version)
            assert in_order(rows) == shop.expected(job, at), (job, version)
            if job in HOLDING:
                number = record["quarantine_number"]
                found = shop.found(f"{job}__quarantine", held_at[job][number]) if number else []
                assert found == shop.held(job, at), (job, version)
        return len(records)


def refuse_a_second(lab: Lab, first: Victim, job: str) -> float:
    """Start a run of the job in hand: it is refused, naming the holder, while that one still works."""
    first.until(lambda: first.said(f"{job}: reading versions"))
    started = time.monotonic()
    line = command.line(*arguments(lab, job))
    second = subprocess.run(line, capture_output=True, text=True, env=environment(lab), timeout=300, check=False)
    took = time.monotonic() - started
    (answer,) = json.loads(second.stdout)["jobs"]
    assert (second.returncode, answer["status"]) == (4, "locked"), second.stderr
    assert f"pid {first.process.pid}," in answer["error"]
    return took


def commits(job: str) -> list[str]:
    """Return the tables that a run of a job commits to, in this order."""
    return [f"{job}__quarantine", job] if job in HOLDING else [job]


class Tally:
    """What came of the kills; times in seconds, the longest."""

    def __init__(self) -> None:
        self.kills = Counter[str]()
        self.refusals = self.beaten = self.states = self.commits = 0
        self.refused = self.gone = 0.0

    def __str__(self) -> str:
        moments = ", ".join(f"{self.kills[name]} {name}" for name in ("before", "between", "after"))
        ways = ", ".join(f"{self.kills[name]} {name}" for name in dict.fromkeys(WAYS))
        return (
            f"{moments} the commits; {ways} ({self.beaten} times the dying JVM won);"
            f" without Python the JVM lived {self.gone:.1f} s at most; {self.refusals} second runs refused, each within"
            f" {self.refused:.1f} s; {self.states} states seen by a reader, {self.commits} compared"
        )


@pytest.fixture
def reader(lab: Lab) -> Iterator[Reader]:
    """Give a reader to be started; it ends with the test."""
    found = Reader(lab)
    yield found
    found.stop.set()
    if found.is_alive():
        found.join(20)


@pytest.fixture
def tally(pytestconfig: pytest.Config) -> Iterator[Tally]:
    """Count, and print at the end of all tests."""
    found = Tally()
    yield found
    pytestconfig.stash[COUNTED]["real kills"] = str(found)


def versions(lab: Lab, jobs: list[str]) -> dict[str, int]:
    """Return the latest versions of all tables that the jobs write."""
    return {table: DeltaTable(lab.path(table)).version() for job in jobs for table in commits(job)}


def converge(lab: Lab, jobs: list[str], victim: Victim, way: str) -> bool:
    """Run the jobs again; return whether a dying JVM, whose last commit came after that run's plan, has won."""
    if way in (GROUP, ALONE):
        victim.buried()
    result = lab.run_all(*jobs)
    done = versions(lab, jobs)
    if way == FROZEN:
        victim.thaw()
    victim.buried()
    beaten = way == AT_ONCE and result.exit_code == 4
    if beaten:
        result = lab.run_all(*jobs)
    else:
        assert versions(lab, jobs) == done, "a JVM whose Python is dead has committed"
    assert result.exit_code == 0, [job.error for job in result.jobs]
    return beaten


@needs_proc
def test_a_killed_run_leaves_the_old_state_or_the_new_one(lab: Lab, reader: Reader, tally: Tally, seed: int) -> None:
    chance = random.Random(seed)
    (lab.home / "conf" / "dev.yml").write_text(CONF)
    shop = open_shop(lab, seed=chance.randrange(10**6))
    assert lab.run_all().exit_code == 0
    reader.start()
    for number in range(KILLS):
        if number % len(MOMENTS) == 0:
            moments = chance.sample(range(len(MOMENTS)), len(MOMENTS))
        moment = moments[number % len(MOMENTS)]
        way = WAYS[(moment + number // len(MOMENTS)) % len(WAYS)]
        others = iter(chance.sample([job for job in JOBS if job != "checked"], 2))
        jobs = sorted(next(others) if job == OTHER else job for job in MOMENTS[moment][0])
        try:
            one_kill(shop, jobs, (moment, chance.random(), way), tally)
        except BaseException as error:
            error.add_note(f"kill {number}, {jobs}, {MOMENTS[moment][1:]}, {way}; {tally}")
            raise
        tally.states = len(reader.seen)
    tally.commits = reader.check(shop)
    assert len(reader.seen) > KILLS
    left = list((lab.home.parent / "scratch").glob("enrich-run-*"))
    assert len(left) <= 1, "what a killed process leaves on disk, the next one removes"


def one_kill(shop: Shop, jobs: list[str], plan: tuple[int, float, str], tally: Tally) -> None:
    """Change the sources, start a run, kill it as planned (moment, share of its seconds, way), run again, look."""
    lab = shop.lab
    moment, share, way = plan
    _, what, seconds = MOMENTS[moment]
    for job in jobs:
        shop.change(job)
    before = {**versions(lab, jobs), RUNS: DeltaTable(lab.path(RUNS)).version()}

    def there() -> bool:
        if what not in ("an intent", "a commit"):
            return victim.said(f"{jobs[-1]}: {what}")
        table = RUNS if what == "an intent" else commits(jobs[-1])[0]
        return Path(lab.path(table), "_delta_log", f"{before[table] + 1:020}.json").exists()

    victim = Victim(lab, *jobs)
    try:
        if moment >= FIRST_WITH_A_SECOND:
            tally.refused = max(tally.refused, refuse_a_second(lab, victim, jobs[0]))
            tally.refusals += 1
        victim.until(there)
        time.sleep(share * seconds)
        victim.kill(way)
        after = versions(lab, jobs)
        moved = sum(version > before[table] for table, version in after.items())
        where = "before" if not moved else "after" if moved == len(after) else "between"
        tally.kills[where] += 1
        tally.kills[way] += 1
        tally.beaten += converge(lab, jobs, victim, way)
    finally:
        victim.end()
    if way != GROUP:
        tally.gone = max(tally.gone, victim.gone)
    shop.assert_current(*jobs)


def test_a_run_that_a_signal_ends_after_its_commit_reports_the_job(lab: Lab, tmp_path: Path) -> None:
    """A launcher of the tests sends the signal at a fault point: no timing would hit it."""
    (lab.home / "conf" / "dev.yml").write_text(CONF)
    shop = open_shop(lab, "lookup")
    launcher = tmp_path / "launcher.py"
    launcher.write_text(
        "import os, signal, sys\n"
        "from enrich.base import failpoints\n"
        "from enrich.cli import main\n"
        "def hook(name):\n"
        "    if name == 'create.after':\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "failpoints.hook = hook\n"
        "sys.argv[0] = 'enrich'\n"
        "main()\n"
    )
    line = [sys.executable, str(launcher), *map(str, arguments(lab))]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(lab), timeout=300, check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, answer["exit_code"]) == (143, 143), done.stderr
    assert [(job["job"], job["status"], job["target_version"]) for job in answer["jobs"]] == [("lookup", "created", 0)]
    shop.assert_current("lookup")
    assert lab.run("lookup").status == "unchanged"
