"""The options that several commands share; all can also come from the environment, as ``ENRICH_<OPTION>``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial, reduce, wraps
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from enrich.base import hints
from enrich.base.context import work_at
from enrich.base.errors import ConfigError, suggest
from enrich.cli.process import ask_for_frames
from enrich.operations.loading import load_project
from enrich.project.models import Rule
from enrich.project.project import Project, find_edges, find_project, sort_jobs

_NAME = re.compile(r"\w[\w.-]*")


def complete_jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the jobs that begin with ``incomplete`` and are not named yet."""
    named = ctx.params.get(param.name or "")
    return _begin(incomplete, set(_list_names(ctx, "jobs")) - set(named if isinstance(named, tuple) else ()))


def complete_patterns(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the jobs for ``--select``; a ``+`` before the name stays."""
    before = "+" if incomplete.startswith("+") else ""
    return _begin(incomplete, [before + name for name in _list_names(ctx, "jobs")])


def complete_deployments(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the deployments that begin with ``incomplete``."""
    return _begin(incomplete, _list_names(ctx, "conf"))


def complete_rules(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the job rules that begin with ``incomplete``."""
    return _begin(incomplete, get_args(Rule.model_fields["rule"].annotation))


def _begin(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _list_names(ctx: click.Context, folder: str) -> list[str]:
    """Return the names of the YAML files in a folder of the project that the command line names so far."""
    given: Path | None = None
    context: click.Context | None = ctx
    while context is not None and given is None:
        given, context = context.params.get("project_dir"), context.parent
    try:
        entries = list((find_project(given) / folder).iterdir())
    except (ConfigError, OSError):
        return []
    return [entry.stem for entry in entries if entry.suffix in (".yml", ".yaml") and _NAME.fullmatch(entry.stem)]


Graph = Mapping[str, frozenset[str]]
"""For each job, in the order in which they run, the jobs whose targets it reads."""


def build_graph(project: Project) -> Graph:
    """Return a project's jobs in the order in which they run."""
    edges = find_edges(project)
    return {name: frozenset(edges[name]) for name in sort_jobs(project.jobs, project)}


def choose(graph: Graph, names: Iterable[str], select: Iterable[str], exclude: Iterable[str]) -> list[str]:
    """Return the jobs meant, in the order of ``graph``: those named and those selected, less those excluded.

    Nothing named and nothing selected means all. ``select`` and ``exclude`` take shell patterns over job names;
    ``+job`` adds what the job reads, directly or not, ``job+`` what reads it.

    Raises:
        ConfigError: A name or pattern that fits no job, or nothing is left.
    """
    names, select = list(names), list(select)
    wanted = set(graph) if not names and not select else set()
    for name in names:
        if name not in graph:
            raise _refuse_unknown(f"there is no job {name!r}", name, graph)
        wanted.add(name)
    for pattern in select:
        wanted |= match_jobs(graph, pattern, "--select")
    for pattern in exclude:
        wanted -= match_jobs(graph, pattern, "--exclude")
    if not wanted:
        raise ConfigError("the selection leaves no job to run", hint=f"`{hints.list_jobs()}` lists the jobs")
    return [name for name in graph if name in wanted]


def match_jobs(graph: Graph, pattern: str, option: str) -> set[str]:
    """Return the jobs that a pattern means, with those before (``+x``) and behind (``x+``) them."""
    core = pattern.removeprefix("+").removesuffix("+")
    found = {name for name in graph if fnmatchcase(name, core)}
    if not found:
        raise _refuse_unknown(f"{option} {pattern!r} matches no job", core, graph)
    before, behind = set(found), set(found)
    for name in reversed(list(graph)):  # a job stands after all that it reads
        if name in before:
            before |= graph[name]
    for name in graph:
        if graph[name] & behind:
            behind.add(name)
    return found | (before if pattern.startswith("+") else set()) | (behind if pattern.endswith("+") else set())


def _refuse_unknown(message: str, name: str, graph: Graph) -> ConfigError:
    return ConfigError(message, hint=suggest(name, graph, f"`{hints.list_jobs()}` lists the jobs"))


Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_TARGET = "dev"


class Option(click.Option):
    """An option that can also come from ``ENRICH_<COMMAND>_<OPTION>`` or ``ENRICH_<OPTION>``.

    Options that are declared otherwise cannot: a variable must not turn a run into ``--version`` or ``--help``.
    """

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the first variable that is set and not empty."""
        command = ctx.command_path.split()[1:]
        word = max(self.opts, key=len).lstrip("-").replace("-", "_")
        names = ["_".join(["ENRICH", *parts, word]).upper() for parts in (command, ())]
        return next((value for name in names if (value := os.environ.get(name))), None)


def add_option(*names: str, **attributes: Any) -> Callable[[Command], Command]:
    """Declare an option of a command."""
    return click.option(*names, cls=Option, **attributes)


def require_name(_ctx: click.Context, _option: click.Parameter, target: str | None) -> str | None:
    """Refuse a deployment without a name: of a variable that is empty in a script the default would be made.

    Raises:
        BadParameter: The name is empty.
    """
    if target is not None and not target.strip():
        raise click.BadParameter("it is empty; name a file of conf/, or leave the option out")
    return target


def add_place_options(command: Command) -> Command:
    """Give a command ``--project-dir``, ``--target`` and ``--debug``, which may also stand before it; the later wins.

    Both reach the command in ``ctx.obj``, and the context is its first argument. Here they read no environment, or
    ``ENRICH_TARGET`` would overrule ``enrich --target prod run``.
    """

    @click.option("--project-dir", type=click.Path(path_type=Path), hidden=True)
    @click.option("--target", hidden=True, shell_complete=complete_deployments, callback=require_name)
    @click.option("--debug", is_flag=True, hidden=True, expose_value=False, callback=ask_for_frames)
    @click.pass_context
    @wraps(command)
    def placed(ctx: click.Context, /, *args: Any, project_dir: Path | None, target: str | None, **named: Any) -> Any:
        given = ctx.obj or {}
        ctx.obj = {
            "project_dir": project_dir or given.get("project_dir"),
            "target": target or given.get("target") or DEFAULT_TARGET,
        }
        with work_at(ctx.obj["target"], ctx.obj["project_dir"]):
            return ctx.invoke(command, ctx, *args, **named)

    return placed  # type: ignore[return-value]  # the same command with two options more


def load_chosen_project(ctx: click.Context, *, all_suites: bool = False, needs_jobs: bool = True) -> Project:
    """Load the project that the command line names, from its files alone.

    Raises:
        ConfigError: With all faults of all files.
    """
    place, target = ctx.obj["project_dir"], ctx.obj["target"]
    return load_project(place, target=target, all_suites=all_suites, needs_jobs=needs_jobs)


def choose_jobs(ctx: click.Context, asked: dict[str, Any]) -> tuple[Project, list[str]]:
    """Load the project and take the choice of its jobs out of ``asked``."""
    project = load_chosen_project(ctx)
    return project, choose(build_graph(project), asked.pop("jobs"), asked.pop("select"), asked.pop("exclude"))


def _combine(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return one decorator for several; ``--help`` lists their options in this order."""
    return lambda command: reduce(lambda decorated, decorate: decorate(decorated), reversed(decorators), command)


add_job_options = _combine(
    click.argument("jobs", nargs=-1, metavar="[JOB]...", shell_complete=complete_jobs),
    add_option(
        "--select",
        multiple=True,
        metavar="P",
        shell_complete=complete_patterns,
        help="Take jobs whose names match P ('user_*'); '+job' adds the jobs that it reads, 'job+' those that read it.",
    ),
    add_option(
        "--exclude",
        multiple=True,
        metavar="P",
        shell_complete=complete_patterns,
        help="Leave out jobs whose names match P.",
    ),
)

_add_format_option = partial(add_option, type=click.Choice(["text", "json"]), default="text", show_default=True)
output_option = _add_format_option("--output", help="Format of the result on stdout: tables, or one compact JSON line.")
log_format_option = _add_format_option("--log-format", help="Format of the messages on stderr.")
add_log_options = _combine(log_format_option, add_option("--quiet", is_flag=True, help="Print no progress on stderr."))


class _Moments(click.ParamType):  # type: ignore[type-arg]  # generic for mypy alone
    """Text; several in the environment are separated as on the command line, by commas."""

    name = "moment"
    envvar_list_splitter = ","


_add_moment_option = partial(add_option, multiple=True, type=_Moments(), metavar="S")
add_window_options = _combine(
    _add_moment_option(
        "--since",
        help="Start the window at S if S is before the cursor: 2026-11-01T00:00Z, 3d, v42, alias=v42, beginning.",
    ),
    _add_moment_option(
        "--until", help="End the window at S, in the same forms. With --since: replay what changed in between."
    ),
    add_option(
        "--allow-gap",
        is_flag=True,
        help="Accept that changes are left out: by --since or, in a history, because a feed is lost.",
    ),
    add_option("--full-refresh", is_flag=True, help="Compute all rows from the sources and write the targets anew."),
)


def add_show_keys_option(what: str) -> Callable[[Command], Command]:
    """Declare ``--show-keys``; whoever has it calls ``refuse_stored_keys`` first."""
    return add_option("--show-keys", is_flag=True, help=f"Print {what}; only to a terminal, never to a file.")


def refuse_stored_keys(output: str, *, show_keys: bool) -> None:
    """Keep keys out of whatever stores what a command prints: a file, a pipe, cron's mail, a scheduler's log.

    Raises:
        UsageError: Keys are asked for as JSON or the like, or where stdout is no terminal.
    """
    if show_keys and output == "json":
        raise click.UsageError("--show-keys prints keys for people, never as JSON; leave out --output json")
    if show_keys and output != "text":
        raise click.UsageError(f"--show-keys prints keys for people, with text alone; leave out --format {output}")
    if show_keys and not sys.stdout.isatty():
        raise click.UsageError(
            "--show-keys prints only to a terminal, and stdout is not one; leave it out, or use a terminal"
        )
