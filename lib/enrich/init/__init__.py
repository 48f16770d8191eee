"""Write a new project: a copy of ``template/``, JSON Schemas for editors, and the tables that its jobs read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from enrich.base.errors import ConfigError
from enrich.project.kinds import JOBS, JOINS
from enrich.project.kinds.syntax import JoinSyntax
from enrich.project.models import Job, Join, Settings, Tables, keys_of
from enrich.project.settings import resolve_directory
from enrich.project.yamlfile import read_tree
from enrich.report.models import finish_schema
from enrich.testing.lake import Lake
from enrich.testing.scenario import ScenarioFile

if TYPE_CHECKING:
    from pydantic_core import core_schema

TEMPLATE = Path(__file__).parent / "template"
_HIDDEN = "github"  # a directory whose copy begins with a dot: packaging tools leave hidden files out

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

    A table, or anything else, that is at the place of one of its tables stays as it is; a file that would be
    overwritten, and files of another project, are a ConfigError.
    """
    files = format_schemas()
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_file():
            first, *rest = path.relative_to(TEMPLATE).parts
            files["/".join([f".{first}" if first == _HIDDEN else first, *rest])] = path.read_text(encoding="utf-8")
    if not (directory / ".gitignore").exists():
        files[".gitignore"] = IGNORED
    # What a project would take for its own jobs, suites or deployments.
    own = [f"{folder}/*.{ending}" for folder in ("jobs", "conf", "expectations") for ending in ("yml", "yaml")]
    if found := [path for pattern in (*own, "expectations/*.json") for path in sorted(directory.glob(pattern))]:
        listed = ", ".join([*map(str, found[:3]), *([f"and {len(found) - 3} more"] if found[3:] else [])])
        message = f"this directory has files of a project already: {listed}; nothing was written"
        raise ConfigError(message, hint=_ELSEWHERE)
    tables, lake = read_tree(_TABLES, _TABLES.name).mapping(), directory / "lake"
    resolve_directory("./lake", directory.absolute())  # where delta-rs cannot write, nothing is written
    if lake.exists() and not lake.is_dir():
        raise ConfigError(f"{lake} is a file, where a directory is needed; nothing was written")
    write_files(directory, files)
    made = {name: table for name, table in tables.items() if not (lake / name).exists()}
    for name, table in made.items():
        Lake(lake).create(name, **table)
    return [*sorted(files), *(f"lake/{name}" for name in made)]


def format_schemas() -> dict[str, str]:
    """Return the schemas that the first line of job, conf and scenario files names, as files of a project."""
    texts = {kind: json.dumps(schema, indent=2, ensure_ascii=False) for kind, schema in build_schemas().items()}
    return {f"conf/schema/{kind}.schema.json": f"{text}\n" for kind, text in texts.items()}


def write_files(directory: Path, files: Mapping[str, str], hint: str = _ELSEWHERE) -> None:
    """Write new files, all or none; a ConfigError where one is there, or a file is in the place of a directory."""
    above = {parent for name in files for parent in (directory / name).parents if parent.is_relative_to(directory)}
    for parent in sorted(above):
        if parent.exists() and not parent.is_dir():
            raise ConfigError(f"{parent} is a file, where a directory is needed; nothing was written")
    if there := [name for name in sorted(files) if (directory / name).exists() or (directory / name).is_symlink()]:
        verb = "exists" if len(there) == 1 else "exist"
        message = f"{', '.join(str(directory / name) for name in there)} {verb} already; nothing was written"
        raise ConfigError(message, hint=hint)
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)


# --- JSON Schemas for editors: `enrich schema job > conf/schema/job.schema.json` writes one anew ----------------------


class FileSchema(GenerateJsonSchema):
    """What the JSON Schema of a file says it may hold: a key is given a value or left out, so there is no null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Leave out null."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave out a default of null."""
        generated = super().default_schema(schema)
        if generated.get("default", ...) is None:
            del generated["default"]
        return generated

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the signature is pydantic's
        """Leave out titles, which would repeat the names."""
        return False


def build_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas by kind of file: ``job``, ``conf``, ``tables`` and ``test``."""
    job, conf, tables, test = (
        each.model_json_schema(by_alias=True, schema_generator=FileSchema)
        for each in (Job, Settings, Tables, ScenarioFile)
    )
    job["properties"]["kind"]["enum"] = list(JOBS)
    job["required"] = ["job", "target"]
    said = ("from", "join", "select", "where")
    job["oneOf"] = [{"required": ["sources", "from"]}, {"required": ["query"], "not": _require_any_of(said)}]
    job["$defs"]["Source"]["required"] = ["table"]  # tables.yml may have the key
    sources = job["properties"]["sources"]
    sources["additionalProperties"] = {"oneOf": [{"type": "string", "minLength": 1}, sources["additionalProperties"]]}
    job["allOf"] = []
    for each in (each for each in JOBS.values() if not each.joins):
        needed = [each.name] * each.needs_part + ["select"] * each.selects
        said_elsewhere = ("query", "join") if each.selects else ("query", "join", "select", "where")
        then = {"not": _require_any_of(said_elsewhere)} | ({"required": needed} if needed else {})
        job["allOf"].append({"if": _is_kind(each.name), "then": then, "else": {"not": _require_any_of((each.name,))}})
    joins = job["$defs"]["Join"]
    joins["properties"]["kind"]["enum"] = list(JOINS)
    joins["allOf"] = []
    for kind in JOINS.values():
        refused = [option for option in keys_of(Join) if option not in ("kind", *kind.needs, *kind.takes)]
        then = {"required": ["kind", *kind.needs], "not": _require_any_of(refused)}
        if "how" in kind.takes and kind.hows != JoinSyntax.hows:
            then["properties"] = {"how": {"enum": sorted(kind.hows)}}
        joins["allOf"].append({"if": _is_kind(kind.name), "then": then})
    conf["oneOf"] = [{"required": ["lake"]}, {"required": ["catalog"]}]
    conf["dependencies"] = {"catalog": ["state"]}
    conf["properties"]["spark"].pop("default", None)
    for name, keys in (("Places", ("lake", "catalog")), ("Lineage", ("file", "url")), ("Reference", ("env", "file"))):
        conf["$defs"][name]["oneOf"] = [{"required": [key]} for key in keys]
    tables["$defs"]["Source"]["required"] = ["key"]  # a table has the name by which the file calls it
    test["properties"]["rounds"]["minItems"] = 1
    titles = {"job": ("A job of enrich", job), "conf": ("A deployment of enrich", conf)}
    titles["tables"] = ("The tables of an enrich project", tables)
    titles["test"] = ("A scenario of enrich", test)
    return {kind: finish_schema(kind, title, schema) for kind, (title, schema) in titles.items()}


def _is_kind(name: str) -> dict[str, Any]:
    return {"properties": {"kind": {"const": name}}, "required": ["kind"]}


def _require_any_of(keys: Any) -> dict[str, Any]:
    return {"anyOf": [{"required": [key]} for key in keys]}
