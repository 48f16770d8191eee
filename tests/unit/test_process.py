"""What the command line does with signals, wherever Python is when they arrive."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from enrich.base import context
from enrich.cli import process
from kit import command


@pytest.fixture(autouse=True)
def own_handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Give the test process its handlers and its hook back, and yield what the hook of before was told."""
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_value))
    monkeypatch.setattr(process, "GRACE_SECONDS", 10_000.0)
    monkeypatch.setattr(process, "_find_jvm", lambda: None)  # that of the other tests lives on
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield told
    for number, handler in before.items():
        signal.signal(number, handler)
    process._arrived.clear()


class Forgotten:
    """Something that tells a callback when it goes, as py4j's objects do."""


def forget(callback: object) -> None:
    it = Forgotten()
    reference = weakref.ref(it, callback)  # type: ignore[arg-type]  # any callable
    del it
    assert reference() is None


def test_a_signal_in_a_callback_that_cannot_raise_prints_nothing_and_counts(own_handlers: list[object]) -> None:
    process.take_signals()
    forget(lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert own_handlers == []
    assert process.find_interruption() == 143
    with pytest.raises(process.Interrupted):
        process.stop_if_interrupted()


def test_a_second_signal_breaks_off_nothing_that_the_first_one_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """``Ctrl-C`` twice, or a supervisor that repeats itself: the JVM is gone, and its log is read to the end."""
    done: list[str] = []

    class Jvm:
        def kill(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            done.append("killed")

        def wait(self, seconds: float) -> None:
            done.append(f"waited {seconds:g} s at most")

    monkeypatch.setattr(process, "_find_jvm", Jvm)

    def write() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("log read")

    process.take_signals()
    with pytest.raises(process.Interrupted):
        write()
    assert done == ["killed", "waited 2500 s at most", "log read"]
    assert process.find_interruption() == 143


def test_other_exceptions_that_cannot_be_raised_are_reported_as_before(own_handlers: list[object]) -> None:
    process.take_signals()
    process.take_signals()
    forget(lambda _: 1 // 0)
    assert [type(each) for each in own_handlers] == [ZeroDivisionError]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("hides", [True, False])
def test_a_command_that_a_signal_ends_says_so_whatever_its_end_raises(
    sent: signal.Signals, code: int, hides: bool
) -> None:
    """Where the JVM is gone, what cleans up behind an answer fails, and hides that it was a signal."""

    @click.group(cls=process.CommandLine)
    def commands() -> None: ...

    @commands.command()
    def ask() -> None:
        try:
            os.kill(os.getpid(), sent)
        finally:
            if hides:
                raise ConnectionRefusedError

    done = CliRunner().invoke(commands, ["ask"])
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr == f"error: {process.INTERRUPTED[code]}\n"


def test_a_command_that_a_signal_ends_tells_what_it_has_written() -> None:
    @click.group(cls=process.CommandLine)
    def commands() -> None: ...

    @commands.command()
    @click.option("--ends", is_flag=True)
    def write(*, ends: bool) -> None:
        context.note_written("version 3 of accounts is committed")
        if ends:
            context.begin_run(None)
        raise KeyboardInterrupt

    said = CliRunner().invoke(commands, ["write"]).stderr.lstrip()  # click ends the line with `^C` first
    assert said == "error: interrupted (SIGINT); version 3 of accounts is committed\n"
    assert CliRunner().invoke(commands, ["write", "--ends"]).stderr.lstrip() == "error: interrupted (SIGINT)\n"


def test_what_pyspark_makes_of_ctrl_c_says_so_too() -> None:
    @click.group(cls=process.CommandLine)
    def commands() -> None: ...

    @commands.command()
    def ask() -> None:
        raise KeyboardInterrupt

    done = CliRunner().invoke(commands, ["ask"])
    assert (done.exit_code, done.stderr.strip()) == (130, f"error: {process.INTERRUPTED[130]}")


def test_a_panic_of_a_native_library_is_one_line(tmp_path: Path) -> None:
    """delta-rs panics where it meets such a directory: it prints its stack, and raises what is no Exception."""
    code = (
        "import click, deltalake, pyarrow\n"
        "from enrich.cli.process import CommandLine\n"
        "@click.group(cls=CommandLine)\ndef cli(): ...\n"
        "@cli.command()\ndef go():\n"
        f"    deltalake.write_deltalake({str(tmp_path / 'a[b]')!r}, pyarrow.table({{'x': [1]}}))\ncli()"
    )
    (tmp_path / "a[b]").mkdir()
    known = command.environment(RUST_BACKTRACE="1")
    words = [sys.executable, "-c", code, "go"]
    done = subprocess.run(words, capture_output=True, text=True, env=known, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch("error: internal error: PanicException at .*; please report this line as a bug\n", done.stderr)
