"""The options that several commands share. Every option can also come from the environment, as ``ENRICH_<OPTION>``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from enrich.config import Project

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_TARGET = "dev"


class Option(click.Option):
    """An option that reads ``ENRICH_<OPTION>`` beside click's own ``ENRICH_<COMMAND>_<OPTION>``."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        if self.envvar is None:
            self.envvar = f"ENRICH_{self.name.upper()}"


def option(*names: str, **attributes: Any) -> Callable[[Command], Command]:
    """Declare an option of a command."""
    return click.option(*names, cls=Option, **attributes)


def place(command: Command) -> Command:
    """Give a command ``--project-dir`` and ``--target``, which may also stand before it; the later one wins.

    Both reach the command in ``ctx.obj``; here they read no environment, or ``ENRICH_TARGET`` would overrule
    ``enrich --target prod run``.
    """

    @click.option("--project-dir", type=click.Path(path_type=Path), allow_from_autoenv=False, hidden=True)
    @click.option("--target", allow_from_autoenv=False, hidden=True)
    @click.pass_context
    @wraps(command)
    def placed(ctx: click.Context, /, *args: Any, project_dir: Path | None, target: str | None, **named: Any) -> Any:
        given = ctx.obj or {}
        ctx.obj = {
            "project_dir": project_dir or given.get("project_dir"),
            "target": target or given.get("target") or DEFAULT_TARGET,
        }
        return ctx.invoke(command, *args, **named)

    return placed  # type: ignore[return-value]  # the same command with two options more


def project_of(ctx: click.Context, *, all_suites: bool = False) -> Project:
    """Load the project that the command line names, from its files alone.

    Raises:
        ConfigError: With all faults of all files.
    """
    from enrich.loading import load_project

    return load_project(ctx.obj["project_dir"], target=ctx.obj["target"], all_suites=all_suites)


def jobs_options(command: Command) -> Command:
    """Give a command the choice of its jobs."""
    fit = "Also jobs whose names fit P: 'user_*', '+job', 'job+'."
    command = option("--exclude", "exclude", multiple=True, metavar="P", help="Not the jobs whose names fit P.")(
        command
    )
    command = option("--select", "select", multiple=True, metavar="P", help=fit)(command)
    return click.argument("jobs", nargs=-1, metavar="[JOB]...")(command)


def log_options(command: Command) -> Command:
    """Give a command the options of its stderr."""
    quiet = option("--quiet", is_flag=True, help="No progress on stderr.")
    formats = click.Choice(["text", "json"])
    return option("--log-format", type=formats, default="text", show_default=True, help="Of stderr.")(quiet(command))


class _Moments(click.ParamType):  # type: ignore[type-arg]  # generic for mypy alone
    """Text; several in the environment are separated as on the command line, by commas."""

    name = "moment"
    envvar_list_splitter = ","


def window_options(command: Command) -> Command:
    """Give a command the options that move the ends of its window."""
    for decorate in (
        option("--full-refresh", is_flag=True, help="Rebuild the targets from the sources' snapshots."),
        option("--allow-gap", is_flag=True, help="Let --since skip changes that were never consumed; it is recorded."),
        option(
            "--until",
            multiple=True,
            type=_Moments(),
            metavar="S",
            help="End the window at S, in the same forms. With both: replay that window.",
        ),
        option(
            "--since",
            multiple=True,
            type=_Moments(),
            metavar="S",
            help="Widen the window back to S: 2026-11-01T00:00Z, 3d, v42, alias=v42, beginning.",
        ),
    ):
        command = decorate(command)
    return command


def show_keys_option(what: str) -> Callable[[Command], Command]:
    """Declare ``--show-keys``; whoever has it calls ``refuse_stored_keys`` first."""
    return option("--show-keys", is_flag=True, help=f"Print {what}; to a terminal alone, never to a file.")


def refuse_stored_keys(output: str, *, show_keys: bool) -> None:
    """Keep keys out of whatever stores what a command prints: a file, a pipe, cron's mail, a scheduler's log.

    Raises:
        UsageError: Keys are asked for as JSON, or where stdout is no terminal.
    """
    if show_keys and output == "json":
        raise click.UsageError("--show-keys prints keys for people, not into JSON; leave --output json out")
    if show_keys and not sys.stdout.isatty():
        raise click.UsageError(
            "--show-keys prints to a terminal alone, and stdout is none; leave it out, or run by hand"
        )


output_option = option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What stdout carries: tables for people, or one compact JSON line.",
)
