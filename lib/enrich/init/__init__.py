"""Write a new project: a copy of ``template/``, JSON Schemas for editors, and the tables that its jobs read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from enrich.base.errors import ConfigError
from enrich.init.schemas import build_schemas
from enrich.project.yamlfile import read_tree
from enrich.testing.lake import Lake

TEMPLATE = Path(__file__).parent / "template"
_HIDDEN = "github"
"""A directory of the template whose copy begins with a dot: packaging tools leave hidden files out."""

_TABLES = Path(__file__).parent / "tables.yml"
_ELSEWHERE = "name another directory"

IGNORED = "lake/\n"  # what `.gitignore` of a new project says: tables do not belong into version control

NEXT = """\
  enrich validate                                 # are the files right?
  enrich run                                      # makes the targets of the tables in lake/
  enrich test                                     # plays tests/orders_with_customer.yml
  enrich report                                   # what the targets hold
  enrich why orders_with_customer o4 customer     # why is the customer of this order null?
run, test and why need Java 17 or 21, and what `pip install "enrich-delta[all]"` installs."""


def write_project(directory: Path) -> list[str]:
    """Write a project that runs, and its tables, into ``directory``; return what was written, relative to it.

    A table, or anything else, that is at the place of one of its tables stays as it is.

    Raises:
        ConfigError: Something is there that would be overwritten, or that the new jobs would be mixed with.
    """
    files = format_schemas()
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_file():
            first, *rest = path.relative_to(TEMPLATE).parts
            files["/".join([f".{first}" if first == _HIDDEN else first, *rest])] = path.read_text(encoding="utf-8")
    if not (directory / ".gitignore").exists():
        files[".gitignore"] = IGNORED
    found = [  # what a project would take for its own jobs, suites or deployments
        path.relative_to(directory)
        for folder, endings in (("jobs", "yml yaml"), ("conf", "yml yaml"), ("expectations", "json yml yaml"))
        for ending in endings.split()
        for path in sorted((directory / folder).glob(f"*.{ending}"))
    ]
    if found:
        listed = ", ".join(str(directory / path) for path in found)
        message = f"this directory has files of a project already: {listed}; nothing was written"
        raise ConfigError(message, hint=_ELSEWHERE)
    write_files(directory, files)
    tables, lake = read_tree(_TABLES, _TABLES.name).mapping(), directory / "lake"
    made = {name: table for name, table in tables.items() if not (lake / name).exists()}
    for name, table in made.items():
        Lake(lake).create(name, **table)
    return [*sorted(files), *(f"lake/{name}" for name in made)]


def format_schemas() -> dict[str, str]:
    """Return the schemas that the first line of job, conf and scenario files names, as files of a project."""
    texts = {kind: json.dumps(schema, indent=2, ensure_ascii=False) for kind, schema in build_schemas().items()}
    return {f"conf/schema/{kind}.schema.json": f"{text}\n" for kind, text in texts.items()}


def write_files(directory: Path, files: Mapping[str, str], hint: str = _ELSEWHERE) -> None:
    """Write new files, all or none.

    Raises:
        ConfigError: One is there already, or a file is in the place of a directory.
    """
    _refuse_file(directory)
    if there := [name for name in sorted(files) if (directory / name).exists() or (directory / name).is_symlink()]:
        verb = "exists" if len(there) == 1 else "exist"
        message = f"{', '.join(str(directory / name) for name in there)} {verb} already; nothing was written"
        raise ConfigError(message, hint=hint)
    for name in files:
        for parent in list((directory / name).relative_to(directory).parents)[:-1]:
            _refuse_file(directory / parent)
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)


def _refuse_file(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory} is a file, where a directory is needed; nothing was written")
