"""Define what commands share: the choice of jobs, how a call is answered, and options."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial, reduce, wraps
from pathlib import Path
from typing import Any

import click

from enrich.base import hints
from enrich.base.context import work_at
from enrich.base.errors import ConfigError
from enrich.base.files import WholeFile
from enrich.base.result import name_deployment
from enrich.base.words import suggest
from enrich.cli import process
from enrich.operations.loading import load_project
from enrich.project.project import Project, find_edges, find_project, sort_jobs

log = logging.getLogger(__name__)

DEFAULT_TARGET = "dev"

PATH = click.Path(path_type=Path)  # of an option
NOT_PASSED = 3  # the exit code of a check that was asked for and says no

# --- the choice of jobs -----------------------------------------------------------------------------------------------

Labels = Mapping[str, set[str]]
Graph = Mapping[str, frozenset[str]]  # for each job, in the order in which they run, the jobs whose targets it reads


def build_graph(project: Project) -> Graph:
    """Return a project's jobs in the order in which they run."""
    edges = find_edges(project)
    return {name: frozenset(edges[name]) for name in sort_jobs(project.jobs, project)}


def choose(
    graph: Graph, names: Iterable[str], select: Iterable[str], exclude: Iterable[str], labels: Labels | None = None
) -> list[str]:
    """Return the jobs meant, in the order of ``graph``: those named and those selected, or all, less those excluded.

    Of patterns with a comma between them, all must fit; ``labels`` are a job's ``tag:WORD`` and ``owner:NAME``. A name
    or pattern that fits no job is a ConfigError, and so is a choice that leaves nothing.
    """
    names, select = list(names), list(select)
    wanted = set(graph) if not names and not select else set(names)
    if unknown := [name for name in names if name not in graph]:
        raise _refuse_unknown(f"there is no job {unknown[0]!r}", unknown[0], graph)
    wanted.update(*(_match_all(graph, each, "--select", labels or {}) for each in select))
    wanted.difference_update(*(_match_all(graph, each, "--exclude", labels or {}) for each in exclude))
    if not wanted:
        raise ConfigError("the selection leaves no job to run", hint=f"`{hints.list_jobs()}` lists the jobs")
    return [name for name in graph if name in wanted]


def _match_all(graph: Graph, patterns: str, option: str, labels: Labels) -> set[str]:
    """Return the jobs that fit all patterns, which commas separate."""
    found = set.intersection(*(_match_jobs(graph, each.strip(), option, labels) for each in patterns.split(",")))
    if not found:
        raise ConfigError(f"{option} {patterns!r} matches no job", hint=f"`{hints.list_jobs()}` lists the jobs")
    return found


def _match_jobs(graph: Graph, pattern: str, option: str, labels: Labels) -> set[str]:
    """Return the jobs of a shell pattern; ``+job`` adds what the job reads, directly or not, ``job+`` what reads it."""
    core = pattern.removeprefix("+").removesuffix("+")
    found = {name for name in graph if any(fnmatchcase(each, core) for each in {name, *labels.get(name, ())})}
    if not found and ":" in core:
        known = sorted({each.replace(",", "?") for name in graph for each in labels.get(name, ())})  # a comma separates
        hint = suggest(core, known, "'tags' and 'owner' of jobs and of tables.yml say what can be selected so")
        raise ConfigError(f"{option} {pattern!r} matches no job", hint=hint)
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


# --- a call and its answer --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What a command answers: as JSON, for people, and the exit code."""

    data: dict[str, Any]
    text: str
    exit_code: int = 0


@dataclass
class Call:
    """One call of a command, and in ``done`` the results of the jobs that have ended."""

    project_dir: Path | None
    target: str
    output: str = "text"
    quiet: bool = True
    done: list[Any] = field(default_factory=list)
    file: WholeFile | None = None

    def load_project(self, *, all_suites: bool = False, needs_jobs: bool = True) -> Project:
        """Load the project from its files alone."""
        return load_project(self.project_dir, target=self.target, all_suites=all_suites, needs_jobs=needs_jobs)

    def choose_jobs(self, asked: dict[str, Any]) -> tuple[Project, list[str]]:
        """Load the project and take the choice of its jobs out of ``asked``."""
        project = self.load_project()
        labels = {}
        for name, job in project.jobs.items():
            owners, tags = [job.owner], [*job.tags]
            for table in job.sources.values():
                owners, tags = [*owners, table.owner], [*tags, *table.tags]
            labels[name] = {f"owner:{each}" for each in owners if each} | {f"tag:{each}" for each in tags}
        asked_for = asked.pop("jobs"), asked.pop("select"), asked.pop("exclude")
        return project, choose(build_graph(project), *asked_for, labels)

    def keep(self, result: Any, name: str | None = None) -> None:
        """Keep and log what a job has ended with, and why it has not succeeded; end the command if a signal came."""
        if result.exit_code:
            process.stop_if_interrupted()  # the job "failed" because its JVM was taken away
        is_stopped = result.error is not None and any(each.exit_code for each in self.done)  # because of another job
        self.done.append(result)
        level = logging.ERROR if result.exit_code else logging.WARNING if is_stopped else logging.INFO
        seen = process.is_seen(self.output)  # then the reason is read in the answer, and in JSON beside the message
        why = "" if level == logging.INFO or seen or process.logs_json() else result.error or ""
        said = why if why.startswith(result.status) else ": ".join(filter(None, (result.status, why)))
        told = {each: getattr(result, each) for each in ("job", "status", "exit_code", "error")}
        log.log(level, "%s: %s", name or result.job, said, extra={**told, "seen": seen})
        process.stop_if_interrupted()

    def say_failure(self, text: str, job: str | None = None) -> None:
        """Say on stderr why the command does not end with 0: stdout may have been thrown away, as in a crontab."""
        if not process.is_seen(self.output):
            process.say_error(text, job)

    def say(self, data: dict[str, Any], text: str | None) -> None:
        """Write an answer to stdout, as JSON or for people, and as JSON to ``file``."""
        line = process.format_json_line(data)
        if self.file is not None:
            self.file.write(line)
        if (shown := line if self.output == "json" else text) is not None:
            process.say_result(shown)


def with_call(command: Callable[..., Answer | int]) -> Callable[..., int]:
    """Give a command its ``Call`` and its options, write its answer, and return its exit code.

    If there is no answer, JSON tells why, beside stderr. A command that returns a number has written its answer itself.
    ``--project-dir`` and ``--target`` may also stand after a command; the later wins. There they read no environment,
    or ``ENRICH_TARGET`` would overrule ``enrich --target prod run``.
    """

    @click.option("--project-dir", type=PATH, hidden=True)
    @click.option("--target", hidden=True, shell_complete=complete_deployments, callback=require_name)
    @click.pass_context
    @wraps(command)
    def answered(ctx: click.Context, /, *, project_dir: Path | None, target: str | None, **asked: Any) -> int:
        before: Call = ctx.obj
        call = Call(project_dir or before.project_dir, target or before.target, asked.pop("output", "text"))
        ctx.obj = call
        if asked.get("show_keys") and (call.output == "json" or not sys.stdout.isatty()):
            # A file, a pipe, cron's mail or a scheduler's log would store them.
            raise click.UsageError("--show-keys prints keys for people: only to a terminal, never as JSON")
        call.quiet = asked.pop("quiet") if "log_format" in asked else True
        process.log_to_stderr(asked.pop("log_format", "json" if process.logs_json() else "text"), quiet=call.quiet)
        path: Path | None = asked.pop("result_file", None)
        unknown = {"run_id": None, "dry_run": asked["dry_run"]} if "dry_run" in asked else {}
        with work_at(call.target, call.project_dir), ExitStack() as cleanup:
            try:
                if path is not None:
                    call.file = cleanup.enter_context(WholeFile(path, "--result-file", "nothing was run"))
                answer = command(call, **asked)
            except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
                raise
            except (Exception, KeyboardInterrupt, process.Interrupted) as error:  # noqa: BLE001 - bugs are told, too
                known, code = process.explain_end(error)
                jobs = [job.to_dict() for job in call.done]
                end = {"exit_code": code, "jobs": jobs, "error": str(known)}
                call.say({**unknown, **name_deployment(call.target), **end}, None)
                return process.report_error(known, code)
            if isinstance(answer, int):
                return answer
            call.say(answer.data, answer.text)
            return answer.exit_code

    return answered


# --- options ----------------------------------------------------------------------------------------------------------


def _complete(folder: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what completes the names of a folder's YAML files; a ``+`` before a name stays."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        try:
            home = find_project(ctx.params.get("project_dir") or ctx.find_root().params.get("project_dir"))
        except (ConfigError, OSError):
            return []
        plus = "+" if incomplete.startswith("+") else ""
        names = sorted(file.stem for file in (home / folder).glob("*.y*ml") if re.fullmatch(r"\w[\w.-]*", file.stem))
        return [plus + name for name in names if name.startswith(incomplete.removeprefix("+"))]

    return complete


complete_jobs, complete_deployments = _complete("jobs"), _complete("conf")


class Option(click.Option):
    """An option that can also come from ``ENRICH_<COMMAND>_<OPTION>`` or ``ENRICH_<OPTION>``.

    Options that are declared otherwise cannot: a variable must not turn a run into ``--version`` or ``--help``.
    """

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the first variable that is set and not empty."""
        command = ctx.command_path.split()[1:]
        words = [name.removeprefix("--").replace("-", "_") for name in self.opts if name.startswith("--")]
        names = ["_".join(["ENRICH", *parts, word]).upper() for word in words for parts in (command, ())]
        return next((value for name in names if (value := os.environ.get(name))), None)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def add_option(*names: str, **attributes: Any) -> Decorator:
    """Declare an option of a command; ``--help`` shows the default that it is given."""
    return click.option(*names, cls=Option, show_default="default" in attributes, **attributes)


add_flag = partial(add_option, is_flag=True)


def require_name(_ctx: click.Context, _option: click.Parameter, target: str | None) -> str | None:
    """Refuse a deployment without a name: of a variable that is empty in a script the default would be made."""
    if target is not None and not target.strip():
        raise click.BadParameter("it is empty; name a file of conf/, or leave the option out")
    return target


def _combine(*decorators: Decorator) -> Decorator:
    """Return one decorator for several; ``--help`` lists their options in this order."""
    return lambda command: reduce(lambda decorated, decorate: decorate(decorated), reversed(decorators), command)


add_job_argument = click.argument("job", shell_complete=complete_jobs)
add_jobs_argument = click.argument("jobs", nargs=-1, metavar="[JOB]...", shell_complete=complete_jobs)
_add_pattern_option = partial(add_option, multiple=True, metavar="P", shell_complete=complete_jobs)
add_job_options = _combine(
    add_jobs_argument,
    _add_pattern_option(
        "--select",
        help="Take jobs whose names match P ('user_*'), or by a tag or an owner ('tag:eu,owner:crm': both); '+job' adds"
        " the jobs that it reads, 'job+' those that read it.",
    ),
    _add_pattern_option("--exclude", help="Leave out jobs whose names match P."),
)

_add_format_option = partial(add_option, type=click.Choice(["text", "json"]), default="text")
add_output_option = _add_format_option(
    "--output", help="Format of the result on stdout: tables, or one compact JSON line."
)
add_log_format_option = _add_format_option("--log-format", help="Format of the messages on stderr.")
add_quiet_option = add_flag("--quiet", help="Print no progress on stderr.")
add_log_options = _combine(add_output_option, add_log_format_option, add_quiet_option)


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
    add_flag(
        "--allow-gap", help="Accept that changes are left out: by --since or, in a history, because a feed is lost."
    ),
    add_flag("--full-refresh", help="Compute all rows from the sources, and write what differs."),
)


def add_show_keys_option(what: str) -> Decorator:
    """Declare ``--show-keys``."""
    return add_flag("--show-keys", help=f"Print {what}; only to a terminal, never to a file.")
