"""``enrich init --from``: a first job file for tables that exist, with everything that is guessed said in comments."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from enrich.base import hints
from enrich.base.errors import ConfigError
from enrich.base.names import name_path
from enrich.base.schemas import incomparable
from enrich.base.spec import PREFIX
from enrich.config.checks import NOT_IN_NAME, RESERVED_COLUMNS
from enrich.config.models import Settings
from enrich.config.places import CatalogName
from enrich.config.project import Project, find_project
from enrich.config.settings import load_settings
from enrich.config.yamlfile import read_tree, resolve_scalar
from enrich.operations import inspection
from enrich.operations.loading import load_project
from enrich.scaffold.guess import KnownTable, Link, find_links, read_table
from enrich.scaffold.start import format_schemas, write_files
from enrich.storage.probe import SAMPLED_ROWS, SAMPLED_VALUES

_PLAIN = re.compile(r"(\./|/)?[A-Za-z_][\w./-]*")
_CONF_SCHEMA = "# yaml-language-server: $schema=schema/conf.schema.json\n"
_HEAD = f"""\
# yaml-language-server: $schema=../conf/schema/job.schema.json
# A first job, written by `enrich init --from`. The keys and the joins are GUESSES: from the names and the types of the
# columns, from at most {SAMPLED_ROWS:,} rows of each table, and at most {SAMPLED_VALUES:,} values of each reference.
# Read them, correct them, and remove the comments.
"""


@dataclass(frozen=True)
class FirstJob:
    """What ``write_first_job`` did.

    Attributes:
        home: The project directory.
        files: What was written, relative to it.
        notes: What a person has to know or to do before the first run.
    """

    home: Path
    files: list[str]
    notes: list[str]


def write_first_job(references: Sequence[str], directory: Path | None, target: str) -> FirstJob:
    """Write a job that joins these tables, into the project there is, or into a new one.

    Args:
        references: Paths of Delta tables, URIs, or names of tables in the project's lake.
        directory: The project directory; None: the nearest upwards from here, else here.
        target: The deployment.

    Raises:
        ConfigError: A table cannot be read without Spark, or a file is there already.
    """
    project, files = _open_project(references, directory, target)
    places = dict.fromkeys(_locate(project, text) for text in references)
    found: list[KnownTable] = []
    for place in places:
        alias = _find_alias(place, {table.alias.lower() for table in found})
        found.append(read_table(alias, _refer(project, place), place))
    driving, links = find_links(found)
    name = "_".join([driving.alias, *(["with", *(link.lookup.alias for link in links)] if links else ["checked"])])[:80]
    if os.path.lexists(str(project.location(name))):
        message = f"the new job would be named {name}, and there is something at {project.location(name)}"
        raise ConfigError(message, hint="move it away, or write the job file by hand")
    left = [table.alias for table in found if table is not driving and table not in [link.lookup for link in links]]
    files[f"jobs/{name}.yml"] = format_job(name, driving, links, left)
    write_files(project.dir, files, "move it away, or write the job file by hand")
    notes = [f"{alias} is not in the job: no column of the other tables seems to refer to its key" for alias in left]
    return FirstJob(project.dir, sorted(files), notes + _check(project, name))


def _open_project(references: Sequence[str], directory: Path | None, target: str) -> tuple[Project, dict[str, str]]:
    """Return the project to write into, without its jobs, and the files that it needs if it is a new one."""
    try:
        home = find_project(directory)
    except ConfigError:
        home = (directory or Path()).absolute()
        first = Path(os.path.abspath(references[0]))  # noqa: PTH100 - `..` goes, links stay
        if not first.is_dir():
            raise ConfigError(
                f"there is no project here, and {references[0]!r} is no directory of a Delta table on this machine",
                hint=f"`{hints.init('shop')}` writes a project into a directory; set 'lake' in its conf/dev.yml",
            ) from None
        lake = _shorten(str(first.parent), home)
        conf = f"{_CONF_SCHEMA}lake: {format_text(lake)}\nspark:\n  master: local[*]\n"
        settings = Settings.model_validate({"lake": str(first.parent)})
        return Project(home, target, settings, {}, {}, ()), {f"conf/{target}.yml": conf, **format_schemas()}
    files = {name: text for name, text in format_schemas().items() if not (home / name).exists()}
    name = next((f"conf/{target}{end}" for end in (".yml", ".yaml") if (home / f"conf/{target}{end}").is_file()), None)
    if name is None:
        raise ConfigError(f"there is no deployment {target!r} in {home / 'conf'}", hint="name one with --target")
    found, faults = load_settings(read_tree(home / name, name), home, os.environ)
    if found is None:
        raise ConfigError.of(faults)
    return Project(home, target, found, {}, {}, ()), files


def _locate(project: Project, text: str) -> str:
    """Return the place of a table that the command line names: a directory, else what a job file would mean by it."""
    here = Path(os.path.abspath(text))  # noqa: PTH100 - `..` goes, links stay
    if (here / "_delta_log").is_dir():
        return str(here)
    place = project.location(text)
    if isinstance(place, CatalogName):
        message = f"{text} is a table of a catalog, which can only be read with Spark"
        raise ConfigError(message, hint="name the table's directory, or write the job file by hand")
    return place


def _refer(project: Project, place: str) -> str:
    """Return how a job file of the project names the table at a place, in the shortest way."""
    parent, _, name = place.rpartition("/")
    if parent == project.lake and re.fullmatch(r"\w[\w-]*", name):
        return name
    return place if "://" in place else _shorten(place, project.dir)


def _shorten(place: str, home: Path) -> str:
    """Return a local path relative to the project where it is inside it."""
    path = Path(place)
    return f"./{path.relative_to(home)}" if path.is_relative_to(home) and path != home else place


def _find_alias(place: str, taken: set[str]) -> str:
    """Return an alias for the table at a place: the end of its path, as an identifier that no other table has."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", place.rstrip("/").rpartition("/")[2]).strip("_")
    name = name if re.match(r"[A-Za-z]", name) and name.lower() != "key" else f"table_{name}"
    return next(each for each in (name, *(f"{name}_{n}" for n in range(2, 1000))) if each.lower() not in taken)


def _check(project: Project, name: str) -> list[str]:
    """Return what `enrich validate` says of the new job."""
    file = f"jobs/{name}.yml"
    try:
        loaded = load_project(project.dir, project.deployment)
    except ConfigError as error:
        return [str(fault) for fault in error.faults]
    return [str(fault) for fault in inspection.validate(loaded) if (fault.where or "").startswith(f"{file}:")]


# --- the job file ----------------------------------------------------------------------------------------------------


def format_text(text: str) -> str:
    """Return a text as YAML writes it, in quotes where it would be read as something else."""
    is_plain = _PLAIN.fullmatch(text) and isinstance(resolve_scalar(text), str)
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def format_job(name: str, driving: KnownTable, links: Sequence[Link], left: Sequence[str]) -> str:
    """Return the text of the job file; ``left`` are the tables for which there is no join."""
    lines = [_HEAD + f"job: {format_text(name)}", "sources:"]
    for table in (driving, *(link.lookup for link in links)):
        key = format_text(table.key[0])
        if len(table.key) > 1:
            key = f"[{', '.join(map(format_text, table.key))}]"
        lines += [
            f"  # {_comment(table.basis)}",
            f"  {table.alias}: {{table: {format_text(table.reference)}, key: {key}}}",
        ]
    lines += [f"  # not joined, because no column seems to refer to its key: {alias}" for alias in left]
    lines += [f"from: {driving.alias}"]
    if links:
        lines += ["join:"]
    for link in links:
        lines += [f"  # {_comment(link.basis)}", f"  {link.lookup.alias}: {{{_format_join(link)}}}"]
    lines += ["select:", *(f"  {line}" for line in _list_columns(driving, links))]
    lines += [f"target: {{table: {format_text(name)}}}"]
    rules = [link for link in links if link.share]
    if rules:
        lines += ["rules:", "  # 5 percentage points below what was counted"]
    for link in rules:
        least = max(0, math.floor((link.share or 0) * 100) - 5) / 100
        lines += [
            f"  - {{rule: match_rate, join: {link.lookup.alias}, at_least: {least}, scope: target, action: warn}}"
        ]
    return "\n".join(lines) + "\n"


def _format_join(link: Link) -> str:
    column = format_text(name_path(link.source.alias, link.column))
    if link.shares_key:
        return "kind: table, how: left"
    if link.is_list:
        field = "" if link.field is None else f", element_key: {format_text(link.field)}"
        return f"kind: list, elements: {column}{field}"
    return f"kind: foreign_key, on: {column}, how: left"


def _comment(text: str) -> str:
    """Return a text that may hold names of columns as a comment of one line."""
    return text if text.isprintable() else ascii(text)[1:-1]


def _list_columns(driving: KnownTable, links: Sequence[Link]) -> Iterator[str]:
    """Yield the lines of ``select``: all columns but those that a list replaces, under names that a target may have."""
    lists = {link.column for link in links if link.is_list}
    taken: set[str] = set()
    wanted = [(driving, column, column) for column in driving.columns if column not in lists]
    wanted += [
        (link.lookup, column, f"{link.lookup.alias}_{column}")
        for link in links
        if not link.is_list
        for column in link.lookup.columns
        if column not in link.lookup.key
    ]
    for table, column, name in wanted:
        if unfit := incomparable(table.columns[column]):
            yield f"# {_comment(column)} of {table.alias} is left out: a target cannot hold {', '.join(unfit)}"
            continue
        yield f"{format_text(_find_name(name, taken))}: {format_text(name_path(table.alias, column))}"
    for link in links:
        if link.is_list:
            yield f"{format_text(_find_name(link.column, taken))}: {link.lookup.alias}"


def _find_name(name: str, taken: set[str]) -> str:
    """Return a name that a target column may have and no other one has, and note it in ``taken``."""
    plain = NOT_IN_NAME.sub("_", name)
    plain = f"x{plain}" if plain.lower() in RESERVED_COLUMNS or plain.lower().startswith(PREFIX) else plain
    found = next(each for each in (plain, *(f"{plain}_{n}" for n in range(2, 10_000))) if each.lower() not in taken)
    taken.add(found.lower())
    return found
