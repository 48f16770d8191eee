"""Hand over what a command found: text or one JSON line on stdout, and a run's JSON in ``--result-file``, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from enrich.base.files import WholeFile
from enrich.base.result import name_deployment
from enrich.cli.process import Interrupted, explain_end, report_error, say_result


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
