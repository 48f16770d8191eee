# ruff: noqa: E501 - a table reads better with one case a line
"""Types whose values cannot be compared: refused where a job uses them, with file and line, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enrich import ConfigError, load_project
from enrich.base.errors import Fault
from enrich.project.compile import compile_job


def struct(**fields: Any) -> dict[str, Any]:
    named = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": named}


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


# Fields of one name in two structs are no twins.
TWINS = struct(x=struct(s="string"), s=struct(s="string"))
TWINS["fields"] += struct(S="string")["fields"]

TABLES = {
    "a": {
        "id": "long",
        "s": "string",
        "ids": array("long"),
        "v": "variant",
        "place": struct(x="integer", v="variant"),
        "many": array("variant"),
        "named": {"type": "map", "keyType": "string", "valueType": "variant", "valueContainsNull": True},
        "shape": "geometry(4326)",
        "gone": struct(x="void", y="string"),
        "spaced": struct(f="string", **{"Street Name": "string"}),
        "deep": {
            "type": "map",
            "keyType": "string",
            "valueType": array(struct(**{"x,y": "long"})),
            "valueContainsNull": True,
        },
        "quaint": struct(**{"a`b": "long", "a.b": "long"}),  # Delta holds such fields
    },
    "b": {"id": "long", "name": "string"},
    "c": {"id": "long", "v": "variant"},
    "d": {"id": "long", "in name": "string"},
}
SOURCES = """\
job: wide
sources:
  a: {table: a, key: id}
  b: {table: b, key: id}
from: a
join:
  b: {kind: foreign_key, on: a.id}
"""


MIRROR = """\
job: wide
kind: mirror
sources:
  a: {table: a, key: id}
from: a
mirror: {value: s, conflict: first, columns: gone}
target: {table: wide}
"""
HISTORY = """\
job: wide
kind: history
sources:
  a: {table: a, key: id}
from: a
history: {columns: [spaced]}
target: {table: wide}
"""


def faults(base: Path, text: str, types: dict[str, Any] | None = None, *, is_mapped: bool = False) -> list[Fault]:
    """Return what is wrong with a job over the tables; ``types`` stands in for Spark, which types expressions."""
    for name, content in {"jobs/wide.yml": text, "conf/dev.yml": "lake: ./lake\n"}.items():
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(content)
    job = load_project(base).jobs["wide"]
    tables = {alias: TABLES[alias] for alias in job.sources}
    typer: Any = (lambda _, expression: types[expression]) if types else None
    try:
        compile_job(job, tables, typer, is_mapped=is_mapped)  # type: ignore[arg-type]
    except ConfigError as error:
        return list(error.faults)
    return []


def selecting(*items: str, where: str = "") -> str:
    lines = "".join(f"  {item}\n" for item in ("id: a.id", *items))
    return f"{SOURCES}select:\n{lines}target: {{table: wide}}\n" + (f"where: {where}\n" if where else "")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (selecting("v: a.v"), 10, "column 'v' of 'a' is variant, and a change of a value of type variant might not be found"),
        (selecting("x: a.place.x"), 10, "column 'place' of 'a' is struct<x:int,v:variant>"),
        (selecting("m: a.many"), 10, "column 'many' of 'a' is array<variant>"),
        (selecting("m: a.named['x']"), 10, "column 'named' of 'a' is map<string,variant>"),
        (selecting("x: \"variant_get(a.v, '$.x', 'int')\""), 10, "column 'v' of 'a' is variant"),
        (selecting("g: a.shape"), 10, "column 'shape' of 'a' is geometry(4326)"),
        (selecting("s: a.s", where="a.v is not null"), 12, "column 'v' of 'a' is variant"),
        (selecting("gone: a.gone"), 10, "'gone' is struct<x:void,y:string>: what is always null has no type; cast it"),
        (SOURCES.replace("key: id}\n  b", "key: v}\n  b") + "target: {table: wide}\n", 3, "column 'v' of 'a' is variant"),
        (MIRROR, 6, "'gone' is struct<x:void,y:string>: what is always null has no type; leave it out until"),
        (SOURCES + "target: {table: wide}\n", 8, "column 'v' of 'a' is variant"),
    ],
)  # fmt: skip
def test_a_used_column_is_refused_at_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    first = faults(tmp_path, text)[0]
    assert (first.where, first.message[: len(said)]) == (f"jobs/wide.yml:{line}", said)


RENAME = "; leave it out of 'columns', or rename it in an earlier job"
LIST = (
    SOURCES.replace("  b:", "  d:")
    .replace("table: b", "table: d")
    .replace("foreign_key, on: a.id", "list, elements: a.ids")
)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (selecting("s: a.spaced"), 10, "column 's' has a field 'Street Name' that no target can hold; select its fields under other names: struct(x.`Street Name` AS name), or"),
        (selecting("d: a.deep"), 10, "column 'd' has a field 'x,y' that no target can hold; select"),
        (LIST + "select: {id: a.id, items: d}\ntarget: {table: wide}\n", 8, "column 'items' has a field 'in name' that no"),
        (HISTORY, 6, f"column 'spaced' has a field 'Street Name' that no target can hold{RENAME}"),
        (MIRROR.replace("gone", "deep"), 6, f"column 'deep' has a field 'x,y' that no target can hold{RENAME}"),
    ],
)  # fmt: skip
def test_a_field_that_delta_refuses_is_refused_at_its_line_but_for_a_target_with_column_mapping(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    (fault,) = faults(tmp_path, text)
    assert (fault.where, fault.message[: len(said)]) == (f"jobs/wide.yml:{line}", said)
    assert faults(tmp_path, text, is_mapped=True) == []
    assert faults(tmp_path, selecting("street: a.spaced.`Street Name`", "q: a.quaint")) == []


def test_where_nothing_is_selected_an_earlier_job_makes_another_name(tmp_path: Path) -> None:
    (fault,) = faults(
        tmp_path,
        HISTORY.replace("a: {table: a", "d: {table: d").replace("from: a\nhistory: {columns: [spaced]}", "from: d"),
    )
    assert fault.where == "jobs/wide.yml:1"
    assert fault.message.startswith("'in name' cannot be a target column")
    assert fault.message.endswith(RENAME)


def test_columns_that_no_line_names_hinder_nobody(tmp_path: Path) -> None:
    assert faults(tmp_path, selecting("s: a.s", "name: b.name", "empty: a.gone.y")) == []


def test_a_list_shows_all_columns_of_its_lookup(tmp_path: Path) -> None:
    text = SOURCES.replace("  b:", "  c:").replace("table: b", "table: c")
    text = text.replace("{kind: foreign_key, on: a.id}", "{kind: list, elements: a.ids}")
    (fault,) = faults(tmp_path, text + "select: {id: a.id, list: c}\ntarget: {table: wide}\n")
    assert fault.where == "jobs/wide.yml:7"
    assert fault.message.startswith("column 'v' of 'c' is variant")


@pytest.mark.parametrize(
    ("expression", "kind", "said"),
    [
        ("parse_json(a.s)", "variant", "'x' is variant, which a target cannot hold and compare; cast it"),
        ("a.id * interval 1 day", "interval day", "'x' is interval day, which a target cannot hold and compare; cast it"),
        ("array()", array("void"), "'x' is array<void>: what is always null has no type; cast it"),
        ("struct(a.id as x)", struct(x="long", y=array("variant")), "'x' is struct<x:bigint,y:array<variant>>, which"),
        ("array(struct(a.s, a.S))", array(TWINS), "column 'x' has a struct with two fields 's', which no target can hold"),
        ("named_struct('p q', a.s)", struct(**{"p q": "string"}), "column 'x' has a field 'p q' that no target can hold; select"),
    ],
)  # fmt: skip
def test_what_an_expression_gives_is_refused_when_spark_has_typed_it(
    tmp_path: Path, expression: str, kind: Any, said: str
) -> None:
    (fault,) = faults(tmp_path, selecting(f'x: "{expression}"'), {expression: kind})
    assert (fault.where, fault.message[: len(said)]) == ("jobs/wide.yml:10", said)
    assert faults(tmp_path, selecting(f'x: "{expression}"'), {expression: "string"}) == []
