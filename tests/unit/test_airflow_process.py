"""A process that a task follows and ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from enrich.airflow.command import Child
from kit.patience import wait_until
from kit.processes import members, needs_proc


def start(code: str, **changes: str) -> Child:
    return Child([sys.executable, "-c", code], {**os.environ, **changes})


def wait_for(path: Path) -> str:
    wait_until(lambda: path.exists() and path.read_text(), str(path))
    return path.read_text()


def wait_for_end_of(group: int) -> None:
    """The kernel takes its time with what it was told to kill."""
    wait_until(lambda: not members(group), "the end of a process")


def end_when(ready: Path, child: Child) -> None:
    def wait_and_end() -> None:
        wait_for(ready)
        child.end()

    threading.Thread(target=wait_and_end).start()


def test_lines_arrive_while_the_process_runs_and_the_output_at_its_end(tmp_path):
    """The process goes on only when its first line has been handed over."""
    seen: list[str] = []
    flag = tmp_path / "flag"

    def say(text: str) -> None:
        seen.append(text)
        flag.touch()

    code = (
        "import os, sys, time\nprint('first', file=sys.stderr, flush=True)\n"
        f"while not os.path.exists({str(flag)!r}): time.sleep(0.01)\n"
        "sys.stderr.buffer.write(b'caf\\xe9\\n')\nprint(os.environ['WORD'])\nsys.exit(3)"
    )
    assert start(code, WORD="$HOME").follow(say) == (3, "$HOME\n")
    assert seen == ["first", "caf�"]


def test_much_output_does_not_stop_the_process():
    code = "import sys\nprint('x' * 1_000_000)\nsys.stderr.write('y' * 1_000_000)"
    lengths: list[int] = []
    code_and_out = start(code).follow(lambda text: lengths.append(len(text)))
    assert (code_and_out[0], len(code_and_out[1]), lengths) == (0, 1_000_001, [1_000_000])


def test_what_cannot_be_started_says_why():
    with pytest.raises(FileNotFoundError):
        Child(["/no/such/command"], {})


@needs_proc
def test_an_end_is_asked_for_first(tmp_path):
    """As ``enrich`` does: it takes SIGTERM, and ends with 143 and its result."""
    ready = tmp_path / "ready"
    code = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('{}'), sys.exit(143)))\n"
        f"pathlib.Path({str(ready)!r}).write_text('x')\ntime.sleep(60)"
    )
    child = start(code)
    end_when(ready, child)
    assert child.follow(str) == (143, "{}\n")


@needs_proc
def test_who_does_not_listen_is_killed_with_all_that_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr("enrich.airflow.command.GRACE_SECONDS", 0.2)
    ready = tmp_path / "ready"
    code = (
        "import os, pathlib, signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(ready)!r}).write_text(str(os.getpid()))\ntime.sleep(60)"
    )
    child = start(code)
    end_when(ready, child)
    assert child.follow(str)[0] == -signal.SIGKILL
    wait_for_end_of(int(ready.read_text()))


@needs_proc
def test_what_a_dead_process_leaves_behind_is_killed(tmp_path):
    """A JVM whose Python the kernel has killed would hold stderr, and might commit: ``follow`` would never end."""
    ready = tmp_path / "ready"
    code = (
        "import os, pathlib, signal, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])\n"
        f"pathlib.Path({str(ready)!r}).write_text(str(os.getpid()))\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    assert start(code).follow(str)[0] == -signal.SIGKILL
    wait_for_end_of(int(ready.read_text()))


@needs_proc
def test_an_exception_from_outside_ends_the_process(tmp_path):
    """Airflow raises its timeouts, and in Airflow 2 the end of a task, wherever the task is."""
    code = "import os, sys, time\nprint(os.getpid(), file=sys.stderr, flush=True)\ntime.sleep(60)"
    pids: list[int] = []

    def say(text: str) -> None:
        pids.append(int(text))
        raise TimeoutError

    with pytest.raises(TimeoutError):
        start(code).follow(say)
    wait_for_end_of(pids[0])
    end_of_nothing = start("pass")
    assert end_of_nothing.follow(str) == (0, "")
    end_of_nothing.end()
