"""Run the command line as a process: streams, signals, and the exit code of whatever escaped a command."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

import click

from enrich.base import context
from enrich.base.console import clean
from enrich.base.errors import ConfigError, EnrichError, EnvironmentFault, RunFailed, find_gravest
from enrich.base.failures import find_missing_extra
from enrich.base.result import RunResult

log = logging.getLogger("enrich")

GRACE_SECONDS = 8.0
"""After a signal the process ends by itself; where something keeps it, this long afterwards it is ended."""

INTERRUPTED = {130: "interrupted (SIGINT)", 143: "terminated (SIGTERM)"}
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class CommandLine(click.Group):
    """A click group of commands that return an exit code; the process ends with one, whatever happens inside."""

    def main(  # type: ignore[override]  # never returns, and takes no callbacks
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run a command and exit with its code."""
        # Write to stderr by a handle of our own, and point the one that native libraries know to nowhere: when a write
        # fails, delta-rs also prints a panic with its stack there, beside the error that it raises.
        with contextlib.suppress(OSError, ValueError):  # captured by a test, or closed already
            if sys.stderr is not None and sys.stderr.fileno() == 2:
                sys.stderr.flush()
                ours = os.fdopen(os.dup(2), "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors, buffering=1)
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 2)
                os.close(nowhere)
                sys.stderr = ours
        for stream in (sys.stdout, sys.stderr):  # what their encoding cannot hold becomes an escape
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        take_signals()
        context.begin_run(None)
        log.handlers = [each for each in log.handlers if not isinstance(each, _Stderr)]
        if os.environ.get("ENRICH_LOG_FORMAT") == "json":  # also for what goes wrong before the options are read
            log_to_stderr("json", quiet=True)
        extra["standalone_mode"] = False
        try:
            code = super().main(args=args, prog_name=prog_name, **extra)
        except click.exceptions.NoArgsIsHelpError as asked:
            put(asked.format_message(), sys.stderr)
            code = asked.exit_code
        except click.ClickException as error:
            if not logs_json():
                where = getattr(error, "ctx", None)
                named = next((f"enrich {each}" for each in args or sys.argv[1:] if each in self.commands), "enrich")
                place, usage = (where.command_path, f"{where.get_usage()}\n") if where is not None else (named, "")
                put(clean(f"{usage}try: {place} --help"), sys.stderr)
            say_error(error.format_message())
            code = error.exit_code
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
    for each in error.faults if isinstance(error, ConfigError) else [error]:
        say_error(str(each))
    return exit_code or error.exit_code


def convert_error(error: BaseException) -> EnrichError:
    """Return any exception as one with an exit code and a message without values.

    The text of another library's exception may quote data, so only its class and its place in enrich are told.
    """
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
    # `Abort` is what click makes of a KeyboardInterrupt.
    code = 130 if isinstance(error, KeyboardInterrupt | click.Abort) else find_interruption()
    if not code:
        known = convert_error(error)
        return known, known.exit_code
    return RunFailed("; ".join(filter(None, (INTERRUPTED[code], context.written.get())))), code


# --- streams ---------------------------------------------------------------------------------------------------------


def put(text: str, stream: TextIO | None) -> None:
    """Write a line in the stream's own encoding, without colours where they are unwanted; None is a closed stream."""
    if stream is not None:
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        click.echo(text, file=stream, color=False if plain else None)


def silence(stream: TextIO | None) -> None:
    """Point a stream whose reader has gone to nowhere, so that Python's own flush at exit is quiet."""
    with contextlib.suppress(OSError, ValueError):  # captured by a test, or closed already
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def flush() -> None:
    """Flush both streams; a reader that has gone is not our failure."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            silence(stream)


def say_result(text: str) -> None:
    """Write the result to stdout; that its reader has gone does not change the exit code, a full disk does."""
    try:
        put(text, sys.stdout)
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        raise EnvironmentFault(f"the result could not be written to stdout: {error.strerror}") from error


def say_error(text: str, job: str | None = None) -> None:
    """Write one line about an error to stderr: as text, or as a line of the log where that is JSON."""
    if logs_json():
        log.error("%s", text, extra={} if job is None else {"job": job})
    else:
        put(click.style("error: ", fg="red") + clean(text), sys.stderr)


def is_seen(output: str) -> bool:
    """Return whether who reads stderr reads the result on stdout, too: as text, on the same terminal."""
    streams = (sys.stdout, sys.stderr)
    return output == "text" and not logs_json() and all(each is not None and each.isatty() for each in streams)


class _Stderr(logging.Handler):
    """A handler that looks up ``sys.stderr`` when it writes, and gives up quietly when nobody reads."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        if not self.as_json:
            at = time.strftime("%H:%M:%S", time.gmtime(record.created))
            level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
            text = clean(f"{at} {level}{record.getMessage()}")
        else:
            run_id, job = context.current()
            at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            line = {
                "time": f"{at}.{int(record.msecs):03d}Z",
                "level": record.levelname.lower(),
                "logger": record.name,
                "run_id": run_id,
                "job": getattr(record, "job", job),
                "message": record.getMessage(),
            }
            for name in ("status", "exit_code", "error"):  # of a job's end
                if (found := getattr(record, name, None)) is not None:
                    line[name] = found
            text = format_json_line(line)
        with contextlib.suppress(OSError, ValueError):  # a closed stderr must not end a run
            put(text, sys.stderr)


def logs_json() -> bool:
    """Return whether the log on stderr is JSON."""
    return any(isinstance(each, _Stderr) and each.as_json for each in log.handlers)


def log_to_stderr(log_format: str, *, quiet: bool) -> None:
    """Send enrich's own log lines to stderr; ``quiet`` leaves warnings and errors.

    Those of other libraries go nowhere, for they quote data; nor do Python's warnings where the log is JSON.
    """
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    handler = _Stderr(as_json=log_format == "json")
    if log_format == "text":
        handler.addFilter(lambda record: not (quiet and getattr(record, "seen", False)))
    logging.captureWarnings(log_format == "json")
    log.handlers = [handler]
    log.setLevel(logging.WARNING if quiet else logging.INFO)
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
    """
    _arrived.clear()
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _CODES:
        signal.signal(number, _handle_signal)
    report = sys.unraisablehook

    # A signal may arrive in a callback that cannot raise (py4j has one for each object that is forgotten). Python then
    # drops ``Interrupted`` and would print it; the next call of the JVM, which is gone, ends the run.
    sys.unraisablehook = lambda dropped: None if isinstance(dropped.exc_value, Interrupted) else report(dropped)


def find_interruption() -> int | None:
    """Return the exit code of the signal that has arrived; it counts, also where cleaning up without a JVM hides it."""
    return _arrived[0] if _arrived else None


def stop_if_interrupted() -> None:
    """End the command, by ``Interrupted``, if a signal has arrived."""
    if code := find_interruption():
        raise Interrupted(code)


def _handle_signal(number: int, _frame: FrameType | None) -> None:
    _arrived.append(_CODES[signal.Signals(number)])
    if len(_arrived) > 1:  # the way out that the first one began goes on, up to the last line
        return
    timer = threading.Timer(GRACE_SECONDS, os._exit, (_arrived[0],))  # should the process's own way out hang
    timer.daemon = True
    timer.start()
    # Left alive, the JVM would end the statement in hand before it listened to anything else, and might commit.
    if (jvm := _find_jvm()) is not None:
        jvm.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            jvm.wait(GRACE_SECONDS / 4)  # once it is gone, the log is final
    raise Interrupted(_arrived[0])


def repeat(seconds: float, tick: Callable[[], RunResult], say: Callable[[RunResult], None]) -> int:
    """Do ``tick`` again and again, ``seconds`` from start to start, until a signal arrives or the JVM has died.

    A signal between two ticks ends the command in order; in a tick, it ends that one as it ends any run. Where a tick
    takes longer than ``seconds``, the next one begins at once. Returns the gravest of the exit codes that the jobs
    ended with when they were last run; a JVM that has died is a failure of its own.
    """
    codes: dict[str, int] = {}
    while True:
        started = time.monotonic()
        found = tick()
        codes.update({job.job: job.exit_code for job in found.jobs})
        with contextlib.suppress(Interrupted):
            say(found)
            if (jvm := _find_jvm()) is None or jvm.poll() is None:
                time.sleep(min(max(0.0, started + seconds - time.monotonic()), threading.TIMEOUT_MAX))
                continue
            log.warning("the JVM has ended: start the command again")
            codes[""] = RunFailed.exit_code
        return find_gravest(codes.values())


def _find_jvm() -> subprocess.Popen[bytes] | None:
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return getattr(getattr(context, "_gateway", None), "proc", None)


def format_json_line(data: dict[str, Any]) -> str:
    """Return ``data`` as one compact line of ASCII, which any terminal, pipe and XCom can hold."""
    return json.dumps(data, separators=(",", ":"))
