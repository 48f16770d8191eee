"""What the conf file says of those who watch the runs: lineage, metrics, notifications. And where their secrets are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.base.errors import ConfigError, Fault, did_you_mean
from enrich.config.models import Lineage, Metrics, Notify, Reference, Settings
from enrich.config.yamlfile import PathStep, Tree

if TYPE_CHECKING:
    from enrich.config.project import Project

TEXT_FIELDS = ("event", "deployment", "project", "run_id", "exit_code", "jobs")
"""What the ``text`` of a notification may contain, in braces."""
FIELD = re.compile(r"\{(\w*)\}")
_Found = tuple[tuple[PathStep, ...], str]
"""A place in the conf file, and what is wrong there."""
_ADDRESS = re.compile(r"https?://[^/@\s]+(/\S*)?")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def check_observers(tree: Tree, settings: Settings) -> list[Fault]:
    """Return what one of these settings contradicts; no environment variable and no file is looked at."""
    found = [*_check_lineage(settings.lineage), *_check_metrics(settings.metrics), *_check_references(settings)]
    for name, notify in settings.notify.items():
        found += _check_notify(name, notify)
    return [Fault(message, tree.at(*path)) for path, message in found]


def _check_lineage(lineage: Lineage | None) -> Iterator[_Found]:
    if lineage is None:
        return
    if (lineage.file is None) == (lineage.url is None):
        yield ("lineage",), "'lineage' needs either 'file' or 'url': where the events go"
    if lineage.url is not None and not _ADDRESS.fullmatch(lineage.url):
        message = "'lineage.url' must be http://host/... or https://host/..., without user and password"
        yield ("lineage", "url"), f"{message}; a password goes into api_key"
    if lineage.api_key is not None and lineage.url is None:
        yield ("lineage", "api_key"), "'lineage.api_key' is for a server; it has no effect with 'file'"
    if lineage.file is not None:
        yield from _check_path(lineage.file, ("lineage", "file"))


def _check_metrics(metrics: Metrics | None) -> Iterator[_Found]:
    if metrics is None:
        return
    if not metrics.file.endswith(".prom"):
        yield ("metrics", "file"), "'metrics.file' must end in .prom; node exporter reads no other files"
    yield from _check_path(metrics.file, ("metrics", "file"))


def _check_notify(name: str, notify: Notify) -> Iterator[_Found]:
    if not notify.on:
        yield ("notify", name, "on"), f"'notify.{name}.on' is empty; leave it out to be told everything"
    for header in notify.headers:
        if not _HEADER.fullmatch(header):
            yield ("notify", name, "headers", header), f"{header!r} is no name of an HTTP header"
    for field in FIELD.findall(notify.text or ""):
        if field not in TEXT_FIELDS:
            known = "; it can contain " + ", ".join(f"{{{each}}}" for each in TEXT_FIELDS)
            hint = did_you_mean(field, TEXT_FIELDS, "") or known
            yield ("notify", name, "text"), f"'notify.{name}.text' contains {{{field}}}{hint}"


def _check_references(settings: Settings) -> Iterator[_Found]:
    for path, reference in list_references(settings):
        if (reference.env is None) == (reference.file is None):
            yield path, f"'{'.'.join(map(str, path))}' needs either 'env' or 'file': where the value is"
        elif reference.file is not None:
            yield from _check_path(reference.file, (*path, "file"))


def _check_path(text: str, path: tuple[PathStep, ...]) -> Iterator[_Found]:
    """Refuse what is no path of this machine: these files are written and read without Spark."""
    name = ".".join(map(str, path))
    if "://" in text:
        yield path, f"'{name}' must be a path on this machine, not a URI"
    elif text.startswith("~"):
        yield path, f"'{name}': '~' is not expanded; write ${{HOME}} instead"


def list_references(settings: Settings) -> Iterator[tuple[tuple[PathStep, ...], Reference]]:
    """Yield the secrets that a deployment names, each with its place in the conf file."""
    if settings.lineage is not None and settings.lineage.api_key is not None:
        yield ("lineage", "api_key"), settings.lineage.api_key
    for name, notify in settings.notify.items():
        yield ("notify", name, "url"), notify.url
        for header, reference in notify.headers.items():
            yield ("notify", name, "headers", header), reference


def resolve(project: Project, reference: Reference, name: str) -> str:
    """Return a secret; messages name where it should be, never what is there.

    Args:
        project: Relative files are below its directory.
        reference: Where the secret is.
        name: What the conf file calls it: ``notify.slack.url``.

    Raises:
        ConfigError: The variable is not set, or the file cannot be read or is empty.
    """
    where = f"conf/{project.deployment}"
    if reference.env is not None:
        found = os.environ.get(reference.env, "").strip()
        if not found:
            raise ConfigError(
                f"{where}: the environment variable {reference.env} of '{name}' is not set", hint="set it"
            )
        return found
    path = project.dir / (reference.file or "")
    try:
        found = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(
            f"{where}: the file {str(path)!r} of '{name}' cannot be read: {why}", hint="create it"
        ) from None
    if not found:
        raise ConfigError(f"{where}: the file {str(path)!r} of '{name}' is empty", hint="write the value into it")
    return found
