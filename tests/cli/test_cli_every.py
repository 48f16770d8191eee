"""``enrich run --every``: one process that takes changes as they come, and ends in order."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from cli.shop import ACCOUNTS, write_table
from enrich.base.errors import RunFailed
from enrich.base.result import JobResult, RunResult
from enrich.cli import process
from kit import command
from kit.command import Call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_ticks_take_what_is_new_and_a_signal_ends_them(
    interpreted: SparkSession, call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts, away = project / "lake" / "accounts", project / "elsewhere"
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        """Change the lake between two ticks; after the last one a signal arrives."""
        waited.append(seconds)
        if len(waited) == 1:
            write_table(accounts, [{"id": "c", "email": "c@example.com"}], ACCOUNTS)
        elif len(waited) == 3:
            accounts.rename(away)
        elif len(waited) == 4:
            away.rename(accounts)
        elif len(waited) == 5:
            raise process.Interrupted(143)

    monkeypatch.setattr(process, "time", SimpleNamespace(**(vars(time) | {"sleep": sleep})))
    file = project / "last.json"
    ended = call("--project-dir", project, "run", "--every", "1h", "--output", "json", "--result-file", file)
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [each["jobs"][0]["status"] for each in told] == ["created", "updated", "unchanged", "failed", "unchanged"]
    assert len({each["run_id"] for each in told}) == 5
    assert json.loads(file.read_text()) == told[-1]
    assert ended.exit_code == 0, "what counts is how each job ended last"
    assert waited[2] > 3500

    # As a process, without Java: nothing to do needs none.
    line = command.line("--project-dir", project, "run", "--every", "1s", "--output", "json", "--quiet")
    hidden = command.environment(PATH="", JAVA_HOME=None)
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=hidden) as running:
        assert running.stdout is not None
        ticks = [json.loads(running.stdout.readline()) for _ in range(3)]
        running.send_signal(signal.SIGTERM)
        rest, complaints = running.communicate(timeout=60)
    assert {each["jobs"][0]["status"] for each in ticks} == {"unchanged"}
    assert (running.returncode, rest, complaints) == (0, "", "")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--every", "soon"], "--every 'soon' is not a duration"),
        (["--every", "0s"], "--every '0s' is not a duration"),
        (["--every", "1m", "--full-refresh"], "--full-refresh is about one run"),
        (["--every", "1m", "--since", "3d"], "--since is about one run"),
        (["--every", "1m", "--dry-run"], "--dry-run is about one run"),
        (["--every", "1m", "--skip-code", "99"], "--skip-code is about one run"),
        (["--max-bytes", "much"], "--max-bytes 'much' is not a size"),
    ],
)
def test_what_one_run_alone_can_do_is_refused(call: Call, bare_project: Path, options: list[str], told: str) -> None:
    ended = call("--project-dir", bare_project, "run", *options)
    assert ended.exit_code == 2
    assert told in ended.stderr


def test_a_tick_beyond_the_cap_is_a_refused_run_like_any_other(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        assert seconds <= threading.TIMEOUT_MAX, "the operating system takes no more"
        raise process.Interrupted(143)

    monkeypatch.setattr(process, "time", SimpleNamespace(**(vars(time) | {"sleep": sleep})))
    ended = call("--project-dir", project, "run", "--every", "200000d", "--max-bytes", "1B", "--output", "json")
    (told,) = json.loads(ended.stdout)["jobs"]
    assert (ended.exit_code, told["status"], told["mode"]) == (3, "blocked", "bootstrap")
    assert "allows 1 B; nothing was read or written; `enrich" in told["error"]


def test_a_jvm_that_has_died_ends_the_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_find_jvm", lambda: SimpleNamespace(poll=lambda: 137))
    jobs = (JobResult("a", "failed").failed_with(RunFailed("no")), JobResult("b", "unchanged"))
    assert process.repeat(3600, lambda: RunResult("r", "dev", jobs), lambda _: None) == 1
    # Nothing to do is no success here: what starts a command again goes by its exit code.
    jobs = (JobResult("a", "updated"), JobResult("b", "unchanged"))
    assert process.repeat(3600, lambda: RunResult("r", "dev", jobs), lambda _: None) == 1
