"""JSON Schemas of the project's files, for editors: generated from the models, kept in ``conf/schema/``.

``enrich schema job > conf/schema/job.schema.json`` writes one anew; a test says when that is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from enrich.config.kinds import JOBS, JOINS
from enrich.config.kinds.syntax import JobSyntax, JoinSyntax
from enrich.config.models import MODELS, Join, keys_of

if TYPE_CHECKING:
    from pydantic_core import core_schema

DIALECT = "http://json-schema.org/draft-07/schema#"
"""Draft 7: what every editor's YAML support knows."""


def finish_schema(kind: str, title: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of pydantic's as one of draft 7 that names itself.

    Args:
        kind: ``job``, ``conf``, ``test``, ``report`` or ``result``; part of ``$id``, which is a name and no address:
            nobody is asked.
        title: What it is a schema of.
        schema: As pydantic makes it, with its parts under ``$defs``; they are under ``definitions`` afterwards.
    """
    parts = schema.pop("$defs", {})
    whole = {"$schema": DIALECT, "$id": f"urn:enrich:schema:{kind}", **schema, "title": title, "definitions": parts}
    found: dict[str, Any] = _convert_references(whole)
    return found


def _convert_references(value: Any) -> Any:
    """Let each ``$ref`` lead to ``definitions``, by ``allOf`` where it has neighbours, which draft 7 would ignore."""
    if isinstance(value, list):
        return [_convert_references(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _convert_references(item) for key, item in value.items()}
    if isinstance(found.get("$ref"), str):
        reference = {"$ref": found.pop("$ref").replace("#/$defs/", "#/definitions/")}
        return found | {"allOf": [reference]} if found else reference
    return found


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
    """Return the schemas by file name: ``job.schema.json`` and ``conf.schema.json``."""
    job = MODELS["job"][()].model_json_schema(by_alias=True, schema_generator=FileSchema)
    job["properties"]["kind"]["enum"] = list(JOBS)
    job["allOf"] = [_restrict_job(kind) for kind in JOBS.values() if not kind.joins]
    job["$defs"]["Join"]["properties"]["kind"]["enum"] = list(JOINS)
    job["$defs"]["Join"]["allOf"] = [_restrict_join(kind) for kind in JOINS.values()]
    conf = MODELS["conf"][()].model_json_schema(by_alias=True, schema_generator=FileSchema)
    conf["oneOf"] = [{"required": ["lake"]}, {"required": ["catalog"]}]
    conf["dependencies"] = {"catalog": ["state"]}
    conf["properties"]["spark"].pop("default", None)
    for name, keys in (("Lineage", ("file", "url")), ("Reference", ("env", "file"))):
        conf["$defs"][name]["oneOf"] = [{"required": [key]} for key in keys]
    named = {"job": ("A job of enrich", job), "conf": ("A deployment of enrich", conf)}
    return {f"{kind}.schema.json": finish_schema(kind, title, schema) for kind, (title, schema) in named.items()}


def _restrict_job(kind: JobSyntax) -> dict[str, Any]:
    """Return what a job of a kind without joins must and must not have, and what the others must not."""
    without = {"not": _require_any_of(("join", "select", "where"))}
    return {
        "if": _is_kind(kind.name),
        "then": {"required": [kind.name], **without} if kind.needs_part else without,
        "else": {"not": _require_any_of((kind.name,))},
    }


def _restrict_join(kind: JoinSyntax) -> dict[str, Any]:
    """Return what a join of a kind must and must not have."""
    options = [option for option in keys_of(Join) if option not in ("kind", *kind.needs, *kind.takes)]
    limited = "how" in kind.takes and kind.hows != JoinSyntax.hows
    then = {"required": ["kind", *kind.needs], "not": _require_any_of(options)}
    return {
        "if": _is_kind(kind.name),
        "then": then | ({"properties": {"how": {"enum": sorted(kind.hows)}}} if limited else {}),
    }


def _is_kind(name: str) -> dict[str, Any]:
    return {"properties": {"kind": {"const": name}}, "required": ["kind"]}


def _require_any_of(keys: Any) -> dict[str, Any]:
    return {"anyOf": [{"required": [key]} for key in keys]}
