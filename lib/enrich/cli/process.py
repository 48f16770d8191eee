"""What the command line is as a process: its streams, its signals, and the exit code of whatever escaped a command."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

import click

from enrich.base import context
from enrich.base.console import clean
from enrich.base.errors import ConfigError, EnrichError, EnvironmentFault, RunFailed
from enrich.base.extras import find_missing_extra
from enrich.base.failures import tell_frames
from enrich.base.files import WholeFile
from enrich.base.result import name_deployment

log = logging.getLogger("enrich")

GRACE_SECONDS = 8.0
"""After a signal the process ends by itself; where something keeps it, this long afterwards it is ended."""

INTERRUPTED = {130: "interrupted (SIGINT)", 143: "terminated (SIGTERM)"}
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class CommandLine(click.Group):
    """A click group whose process ends with the exit codes of ``docs/operations.md``, whatever happens inside.

    Commands return their exit code.
    """

    def main(  # type: ignore[override]  # never returns, and takes no callbacks
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run a command and exit with its code."""
        part_from_natives()
        for stream in (sys.stdout, sys.stderr):  # what their encoding cannot hold becomes an escape
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        take_signals()
        begin_log(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        try:
            code = super().main(args=args, prog_name=prog_name, **extra)
        except click.exceptions.NoArgsIsHelpError as asked:
            put(asked.format_message(), sys.stderr)
            code = asked.exit_code
        except click.ClickException as error:
            if logs_json():
                say_error(error.format_message())
            else:
                where = getattr(error, "ctx", None)
                place, usage = (where.command_path, f"{where.get_usage()}\n") if where is not None else ("enrich", "")
                put(clean(f"{usage}try: {place} --help\nerror: {error.format_message()}"), sys.stderr)
            code = error.exit_code
        except click.Abort:  # click's word for a KeyboardInterrupt
            code = report_error(*explain_end(KeyboardInterrupt()))
        except BrokenPipeError:
            silence(sys.stdout)
            code = 0
        except BaseException as error:  # the last line of defence: no traceback, of a panic neither
            if isinstance(error, SystemExit) and not isinstance(error, Interrupted):
                raise
            code = report_error(*explain_end(error))
        flush()
        sys.exit(int(code or 0))


def report_error(error: EnrichError, exit_code: int | None = None) -> int:
    """Print an error on stderr, one line a fault, and return ``exit_code``, or the error's own."""
    lines = [str(fault) for fault in error.faults] if isinstance(error, ConfigError) else [str(error)]
    for line in lines:
        say_error(line)
    return exit_code or error.exit_code


def convert_error(error: BaseException) -> EnrichError:
    """Return any exception as one with an exit code and a message without values.

    The text of another library's exception may quote data, so only its class and its place in enrich are told.
    """
    tell_frames(error)
    if isinstance(error, EnrichError):
        return error
    if isinstance(error, PermissionError) or (isinstance(error, OSError) and error.errno in _DISK_FULL):
        name = f" {error.filename}" if isinstance(error.filename, str) else ""
        return EnvironmentFault(f"{error.strerror}:{name}", hint="check the permissions and the disk, then run again")
    if missing := find_missing_extra(error):
        return missing
    here = str(Path(__file__).resolve().parent.parent)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(here)]
    place = f" at {Path(frames[-1].filename).relative_to(here)}:{frames[-1].lineno}" if frames else ""
    return RunFailed(f"internal error: {type(error).__name__}{place}", hint="please report this line as a bug")


def explain_end(error: BaseException) -> tuple[EnrichError, int]:
    """Return what ended a command, as an error to tell, and the exit code of the process."""
    code = 130 if isinstance(error, KeyboardInterrupt) else find_interruption()
    if not code:
        known = convert_error(error)
        return known, known.exit_code
    said = (INTERRUPTED[code], context.tell_written())
    return RunFailed("; ".join(filter(None, said))), code


# --- streams ---------------------------------------------------------------------------------------------------------


def part_from_natives() -> None:
    """Write to stderr by a handle of our own, and point the one that native libraries know to nowhere.

    When a write fails, delta-rs also prints a panic with its stack there, beside the error that it raises.
    """
    try:
        if sys.stderr is None or sys.stderr.fileno() != 2:
            return
        sys.stderr.flush()
        ours = os.fdopen(os.dup(2), "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors, buffering=1)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
    except (OSError, ValueError):  # captured by a test, or closed already
        return
    sys.stderr = ours


def put(text: str, stream: TextIO | None) -> None:
    """Write a line in the stream's own encoding, without colours where they are unwanted; None is a closed stream."""
    if stream is not None:
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        click.echo(text, file=stream, color=False if plain else None)


def silence(stream: TextIO | None) -> None:
    """Point a stream whose reader has gone to nowhere, so that Python's own flush at exit is quiet."""
    try:
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):  # captured by a test, or closed already
        return


def flush() -> None:
    """Flush both streams; a reader that has gone is not our failure."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            silence(stream)


def say_result(text: str) -> None:
    """Write the result to stdout.

    A reader that has gone does not change what the run did, nor its exit code.

    Raises:
        EnvironmentFault: stdout cannot be written, for instance because its disk is full.
    """
    try:
        put(text, sys.stdout)
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        raise EnvironmentFault(f"the result could not be written to stdout: {error.strerror}") from error


def say_error(text: str, job: str | None = None) -> None:
    """Write one line about an error to stderr: as text, or as a line of the log where that is JSON.

    Args:
        text: What went wrong, and the next step.
        job: The job that it is about, for the log.
    """
    if logs_json():
        log.error("%s", text, extra={} if job is None else {"job": job})
    else:
        put(click.style("error: ", fg="red") + clean(text), sys.stderr)


def say_failure(text: str, job: str | None = None, *, output: str = "text") -> None:
    """Say on stderr why a command does not end with 0: stdout may have been thrown away, as in a crontab.

    Args:
        text: What went wrong, and the next step.
        job: The job that it is about.
        output: The format of the result, which says the same.
    """
    if not is_seen(output):
        say_error(text, job)


def is_seen(output: str) -> bool:
    """Return whether who reads stderr reads the result on stdout, too: as text, on the same terminal."""
    streams = (sys.stdout, sys.stderr)
    return output == "text" and not logs_json() and all(each is not None and each.isatty() for each in streams)


class _Lines(logging.Formatter):
    """``10:57:09 message``, without anything that a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%H:%M:%S", time.gmtime(record.created))
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return clean(f"{at} {level}{record.getMessage()}")


class _JsonLines(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, run, job, message; what a line has beyond that comes last."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        run_id, job = context.current()
        line = {
            "time": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "run_id": run_id,
            "job": getattr(record, "job", job),
            "message": record.getMessage(),
        }
        further = {name: found for name in _FURTHER if (found := getattr(record, name, None)) is not None}
        return json.dumps({**line, **further}, separators=(",", ":"))


class _Stderr(logging.Handler):
    """A handler that looks up ``sys.stderr`` when it writes, and gives up quietly when nobody reads."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed stderr must not end a run
            put(self.format(record), sys.stderr)


_FURTHER = ("status", "exit_code", "error", "frames")
"""What a line of JSON may say of a job's end, or of an error with ``--debug``."""
_with_frames: list[bool] = []


def begin_log(args: Sequence[str]) -> None:
    """Let what goes wrong before a command has read its options be told in the form that the options ask for."""
    context.begin_run(None)
    _with_frames.clear()
    log.handlers = [each for each in log.handlers if not isinstance(each, _Stderr)]
    words = (*args, "")
    given = [word.partition("=")[2] or after for word, after in pairwise(words) if word.startswith("--log-format")]
    named = [value for name, value in os.environ.items() if re.fullmatch(r"ENRICH_(\w+_)?LOG_FORMAT", name)]
    if "json" in (given or named):
        log_to_stderr("json", quiet=True)


def logs_json() -> bool:
    """Return whether the log on stderr is JSON."""
    return any(isinstance(each.formatter, _JsonLines) for each in log.handlers)


def ask_for_frames(_ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    """With ``--debug`` show where errors come from, and everything else that is logged for the search for faults."""
    if asked:
        _with_frames.append(True)
        log_to_stderr("json" if logs_json() else "text", quiet=True)


def log_to_stderr(log_format: str, *, quiet: bool) -> None:
    """Send enrich's own log lines to stderr; ``quiet`` leaves warnings and errors, unless frames are shown.

    Those of other libraries go nowhere: they quote statements, tracebacks and with them data. So do Python's warnings
    where the log is JSON, as they are no JSON.
    """
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    handler = _Stderr()
    handler.setFormatter(_JsonLines() if log_format == "json" else _Lines())
    if log_format == "text":
        handler.addFilter(lambda record: not (quiet and getattr(record, "seen", False)))
    logging.captureWarnings(log_format == "json")
    log.handlers = [handler]
    log.setLevel(logging.DEBUG if _with_frames else logging.WARNING if quiet else logging.INFO)
    log.propagate = False


# --- signals ---------------------------------------------------------------------------------------------------------


class Interrupted(SystemExit):
    """SIGTERM or SIGINT arrived; carries 143 or 130."""


_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}
_arrived: list[int] = []


def take_signals() -> None:
    """Turn SIGTERM and SIGINT into ``Interrupted``, after taking the JVM away.

    pyspark puts a handler of its own only in the place of Python's. Handlers belong to the main thread: elsewhere (an
    embedding program) its owner's handlers stay.

    A signal may arrive while Python runs a callback that cannot raise (py4j has one for each object that is forgotten):
    Python then drops ``Interrupted`` and prints it. It is not printed; the next call of the JVM, which is gone, ends
    the run.
    """
    _arrived.clear()
    if threading.current_thread() is threading.main_thread():
        for number in _CODES:
            signal.signal(number, _handle_signal)
        if not isinstance(sys.unraisablehook, _DroppedExceptions):
            sys.unraisablehook = _DroppedExceptions(sys.unraisablehook)


def find_interruption() -> int | None:
    """Return the exit code of the signal that has arrived.

    Cleaning up without a JVM raises exceptions that can hide ``Interrupted``: the signal counts, whatever came of it.
    """
    return _arrived[0] if _arrived else None


def stop_if_interrupted() -> None:
    """End the command if a signal has arrived.

    Raises:
        Interrupted: It has.
    """
    if code := find_interruption():
        raise Interrupted(code)


def keep_results(done: list[Any], log: logging.Logger, output: str) -> Callable[[Any], None]:
    """Return what is called with each job's result: it is kept in ``done``, and a signal that came ends the command.

    How the job has ended is logged, with the reason and the next step where it has not succeeded. A line of JSON has
    them by themselves; a terminal that shows the result, whose format is ``output``, shows them there.
    """

    def keep(result: Any) -> None:
        if result.exit_code:
            stop_if_interrupted()  # the job "failed" because its JVM was taken away
        is_stopped = result.error is not None and any(each.exit_code for each in done)  # skipped because of another job
        done.append(result)
        level = logging.ERROR if result.exit_code else logging.WARNING if is_stopped else logging.INFO
        seen, why = is_seen(output), result.error or ""
        if level == logging.INFO or seen or logs_json():
            why = result.status
        elif not why.startswith(result.status):
            why = f"{result.status}: {why}" if why else result.status
        told = {name: getattr(result, name) for name in ("job", "status", "exit_code", "error")}
        log.log(level, "%s: %s", result.job, why, extra={**told, "seen": seen})
        stop_if_interrupted()

    return keep


def _handle_signal(number: int, _frame: FrameType | None) -> None:
    _arrived.append(_CODES[signal.Signals(number)])
    if len(_arrived) == 1:
        end_within(GRACE_SECONDS, _arrived[0])
        kill_jvm()
    raise Interrupted(_arrived[0])


class _DroppedExceptions:
    """Reports exceptions that Python could not raise as ``report`` does, but no ``Interrupted``."""

    def __init__(self, report: Callable[[Any], Any]) -> None:
        self._report = report

    def __call__(self, dropped: Any) -> None:
        if not isinstance(dropped.exc_value, Interrupted):
            self._report(dropped)


def kill_jvm() -> None:
    """Kill the JVM that this process has started, if any.

    Left alive, it would end the statement in hand before it listened to anything else, and might commit.
    """
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is not None:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS / 4)  # once it is gone, the log is final


def end_within(seconds: float, code: int) -> None:
    """End the process after ``seconds``, should its own way out hang."""
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()


def format_json_line(data: dict[str, Any]) -> str:
    """Return ``data`` as one compact line of ASCII, which any terminal, pipe and XCom can hold."""
    return json.dumps(data, separators=(",", ":"))


def say_found(output: str, data: dict[str, Any], text: str | None, file: WholeFile | None = None) -> int:
    """Write what a command found to stdout, as JSON or as a text for people, and as JSON to ``file``; return 0."""
    line = format_json_line(data)
    if file is not None:
        file.write(line)
    shown = line if output == "json" else text
    if shown is not None:
        say_result(shown)
    return 0


def deliver(
    ctx: click.Context,
    output: str,
    done: Sequence[Any],
    work: Callable[[], Any],
    text: Callable[[Any], str],
    *,
    path: Path | None = None,
    **head: Any,
) -> int:
    """Do what a command does with its jobs, hand over the result or why there is none, and return the exit code.

    Args:
        ctx: Names the deployment.
        output: ``text`` or ``json``.
        done: The results of the jobs that have ended; told when ``work`` does not end.
        work: Returns the result.
        text: Writes the result for people. Why there is none they read on stderr.
        path: A file that receives the JSON, whatever ``output`` is; it is prepared before the work begins.
        head: What the JSON says first when there is no result.
    """
    with ExitStack() as cleanup:
        file = None
        try:
            file = cleanup.enter_context(WholeFile(path, "--result-file", "nothing was run")) if path else None
            found = work()
        except (Exception, KeyboardInterrupt, Interrupted) as error:  # noqa: BLE001 - even a bug leaves one JSON line
            return _say_end(ctx, output, error, done, file, **head)
        say_found(output, found.to_dict(), text(found), file)
        return int(found.exit_code)


def answer(ctx: click.Context, output: str, work: Callable[[], int]) -> int:
    """Do what a command does that has one answer, and return the exit code; JSON tells why there is none, too.

    Args:
        ctx: Names the deployment.
        output: ``json``, or another format.
        work: Hands over the answer, and returns the exit code.
    """
    try:
        return work()
    except (Exception, KeyboardInterrupt, Interrupted) as error:
        ends = (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError)
        if output != "json" or isinstance(error, ends):
            raise
        return _say_end(ctx, output, error)


def _say_end(
    ctx: click.Context,
    output: str,
    error: BaseException,
    done: Sequence[Any] = (),
    file: WholeFile | None = None,
    **head: Any,
) -> int:
    """Tell why there is no result, on stderr and in the JSON, and return the exit code."""
    known, exit_code = explain_end(error)
    end = {"exit_code": exit_code, "jobs": [job.to_dict() for job in done], "error": str(known)}
    say_found(output, {**head, **name_deployment(ctx.obj["target"]), **end}, None, file)
    return report_error(known, exit_code)
