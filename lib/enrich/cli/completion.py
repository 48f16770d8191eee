"""What a shell offers after TAB: names of jobs, deployments and rules, from the names of the project's files alone.

Nothing is printed and nothing raised here: a shell has no place for either. Files with a name that no job can have are
left out, and with them whatever a shell would obey.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

import click

from enrich.base.errors import ConfigError
from enrich.config.models import Rule
from enrich.config.project import find_project

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
