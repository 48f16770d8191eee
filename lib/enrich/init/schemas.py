"""Describe the files of a project as JSON Schemas for editors.

``enrich schema job > conf/schema/job.schema.json`` writes a schema anew; a test says when that is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from enrich.project.kinds import JOBS, JOINS
from enrich.project.kinds.syntax import JoinSyntax
from enrich.project.models import Job, Join, Settings, Tables, keys_of
from enrich.report.models import finish_schema
from enrich.testing.scenario import ScenarioFile

if TYPE_CHECKING:
    from pydantic_core import core_schema


class FileSchema(GenerateJsonSchema):
    """What a file may hold: a key is given a value or left out, so there is no null."""

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
    job = Job.model_json_schema(by_alias=True, schema_generator=FileSchema)
    job["properties"]["kind"]["enum"] = list(JOBS)
    job["required"] = ["job", "target"]
    said = ("from", "join", "select", "where")
    job["oneOf"] = [{"required": ["sources", "from"]}, {"required": ["query"], "not": _require_any_of(said)}]
    job["$defs"]["Source"]["required"] = ["table"]  # tables.yml may have the key
    sources = job["properties"]["sources"]
    sources["additionalProperties"] = {"oneOf": [{"type": "string", "minLength": 1}, sources["additionalProperties"]]}
    without = {"not": _require_any_of(("query", "join", "select", "where"))}
    job["allOf"] = [
        {
            "if": _is_kind(kind.name),
            "then": {"required": [kind.name], **without} if kind.needs_part else without,
            "else": {"not": _require_any_of((kind.name,))},
        }
        for kind in JOBS.values()
        if not kind.joins
    ]
    joins = job["$defs"]["Join"]
    joins["properties"]["kind"]["enum"] = list(JOINS)
    joins["allOf"] = []
    for kind in JOINS.values():
        refused = [option for option in keys_of(Join) if option not in ("kind", *kind.needs, *kind.takes)]
        then: dict[str, Any] = {"required": ["kind", *kind.needs], "not": _require_any_of(refused)}
        if "how" in kind.takes and kind.hows != JoinSyntax.hows:
            then["properties"] = {"how": {"enum": sorted(kind.hows)}}
        joins["allOf"].append({"if": _is_kind(kind.name), "then": then})
    conf = Settings.model_json_schema(by_alias=True, schema_generator=FileSchema)
    conf["oneOf"] = [{"required": ["lake"]}, {"required": ["catalog"]}]
    conf["dependencies"] = {"catalog": ["state"]}
    conf["properties"]["spark"].pop("default", None)
    for name, keys in (("Places", ("lake", "catalog")), ("Lineage", ("file", "url")), ("Reference", ("env", "file"))):
        conf["$defs"][name]["oneOf"] = [{"required": [key]} for key in keys]
    tables = Tables.model_json_schema(by_alias=True, schema_generator=FileSchema)
    tables["$defs"]["Source"]["required"] = ["key"]  # a table has the name by which the file calls it
    test = ScenarioFile.model_json_schema(by_alias=True, schema_generator=FileSchema)
    test["properties"]["rounds"]["minItems"] = 1
    titles = {"job": ("A job of enrich", job), "conf": ("A deployment of enrich", conf)}
    titles["tables"] = ("The tables of an enrich project", tables)
    titles["test"] = ("A scenario of enrich", test)
    return {kind: finish_schema(kind, title, schema) for kind, (title, schema) in titles.items()}


def _is_kind(name: str) -> dict[str, Any]:
    return {"properties": {"kind": {"const": name}}, "required": ["kind"]}


def _require_any_of(keys: Any) -> dict[str, Any]:
    return {"anyOf": [{"required": [key]} for key in keys]}
