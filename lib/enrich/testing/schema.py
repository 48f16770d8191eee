"""The JSON Schema of scenario files, for editors: generated from the models, kept in ``conf/schema/``."""

from __future__ import annotations

from typing import Any

from enrich.config.models import FileSchema, finish_schema
from enrich.testing.models import ScenarioFile


def build_schema() -> dict[str, Any]:
    """Return the schema of a scenario file."""
    schema = ScenarioFile.model_json_schema(by_alias=True, schema_generator=FileSchema)
    schema["properties"]["rounds"]["minItems"] = 1
    return finish_schema("test", "A scenario of enrich", schema)
