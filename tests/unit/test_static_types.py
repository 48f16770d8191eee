"""What ``validate`` knows of types without Spark; tests/spark/test_types_of_expressions.py asks Spark the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from enrich import ConfigError, load_project
from enrich.answers import inspection
from enrich.base.errors import Fault
from enrich.base.schemas import build_struct
from enrich.base.spec import DataType
from enrich.project.compile import compile_job
from enrich.project.expressions import FUNCTIONS, ExpressionError, Scope, parse_expression
from enrich.project.expressions.functions import explain_function
from enrich.project.statictypes import check_types
from kit.history import NOT_NULL
from kit.lab import FEED
from kit.project import write_project

CASES = Path(__file__).with_name("test_expressions_accepted.txt").read_text("utf-8").splitlines()
ACCEPTED = [line.rpartition(" ##")[0] for line in CASES if not line.startswith("#")]


def array(element: DataType) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(key: DataType, value: DataType) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


COMMON: dict[str, DataType] = {"s": "string", "i": "integer", "dt": "date", "d": "double"}
PLACE = build_struct({"x": "integer", "y": build_struct({"z": "string"})})
ITEMS = array(build_struct({"name": "string", "n": "integer", "subs": array(build_struct({"z": "integer"}))}))
MORE: dict[str, DataType] = {
    "f": "boolean", "ts": "timestamp", "xs": array("integer"), "ys": array("integer"), "items": ITEMS, "st": PLACE,
    "m": mapping("string", "string"), "mi": mapping("string", "integer"), "dec": "decimal(10,2)", "bin": "binary",
    "words": array("string"), "big": "long", "js": "string", "url": "string", "s2": "string", "j": "integer",
    **dict.fromkeys(("c.d", "e`f", "größe", "order", "end", "select"), "integer"),
}  # fmt: skip
FRAME: dict[str, DataType] = {
    "a": build_struct({**COMMON, **MORE}),
    "b": build_struct(COMMON),
    "user": build_struct({"id": "integer", "user": "string", "current_date": "string"}),
    "consents": build_struct({"consents": mapping("string", "boolean")}),
    "key": build_struct({"id": "integer", "part": "string"}),
    "addresses": array(build_struct({"id": "integer", "street": "string", "city": "string"})),
}
SCOPE = Scope(frozenset({"a", "b"}), frozenset({"addresses"}))


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_spark_runs_is_not_refused(text: str) -> None:
    check_types(FRAME, text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a.i + 1 > 2 and not a.f", "boolean"),
        ("a.i between 1 and 2 or a.s is null", "boolean"),
        ("a.s > 5", "boolean"),  # the text is read as a number
        ("-a.i * 2 + a.big", "long"),
        ("a.i / 2", "double"),
        ("a.s || a.i", "string"),
        ("a.s || a.i + 1", None),  # Spark joins first
        ("case when a.f then a.dt else '2026-01-01' end", None),
        ("case when a.f then a.dt end", "date"),
        ("coalesce(a.i, a.big)", "long"),
        ("if(a.f, null, a.s)", "string"),
        ("upper(a.items[0].name)", "string"),
        ("substring(a.s, 1, 2)", "string"),
        ("substring(a.bin, 1, 2)", None),
        ("a.m['k']", "string"),
        ("filter(a.xs, x -> x > 1)[0]", "integer"),
        ("a.s::date", "date"),
        ("bigint(a.s)", "long"),
        ("split(a.s, ',')[0]", "string"),
        ("date_add(day, 1, a.ts)", None),
        ("a.items.n", array("integer")),
        ("a.dec + 1", None),  # the precision is not looked at
        ("1.50BD", "decimal(3,2)"),
        (".05", "decimal(2,2)"),
        ("named_struct('x', 1)", None),
        ("try_divide(a.dec, 2)", None),  # a decimal, as of /
        ("nanvl(a.d, 0)", None),  # a float, of one
        ("overlay(a.s placing 'x' from 1)", "string"),
        ("overlay(a.bin placing x'00' from 1)", None),
        ("if()", None),  # as Spark says
    ],
)
def test_types_that_are_sure_are_told(text: str, kind: DataType | None) -> None:
    parse_expression(text, SCOPE)
    assert check_types(FRAME, text) == kind


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.ts = 5", "timestamp and int cannot be compared; cast one of them, at character 1"),
        ("a.dt > 5", "date and int cannot be compared"),
        ("a.f < 1", "boolean and int cannot be compared"),
        ("a.xs <=> 1", "array<int> and int cannot be compared"),
        ("a.words = a.s", "array<string> and string cannot be compared"),
        ("a.st = 1", "struct<x:int,y:struct<z:string>> and int cannot be compared"),
        ("a.m = a.m", "map<string,string> and map<string,string> cannot be compared"),
        ("a.ts in (timestamp '2026-01-01 00:00:00', 5)", "timestamp and int cannot be compared"),
        ("a.i not in (a.xs)", "int and array<int> cannot be compared"),
        ("a.dt not between 1 and 5", "date and int cannot be compared"),
        ("a.ts is distinct from 5", "timestamp and int cannot be compared"),
        ("a.f + 1", "boolean is no number"),
        ("1 - a.st", "struct<x:int,y:struct<z:string>> is no number"),
        ("-a.words", "array<string> is no number"),
        ("a.i and a.f", "int stands for a condition"),
        ("a.f or a.dt", "date stands for a condition"),
        ("not a.i", "int stands for a condition"),
        ("a.i is true", "int stands for a condition"),
        ("case when a.i then 1 end", "int stands for a condition"),
        ("case a.ts when 5 then 1 end", "timestamp and int cannot be compared"),
        ("if(a.i, 1, 2)", "int stands for a condition"),
        ("nullif(a.dt, 1)", "date and int cannot be compared"),
        ("a.s[0]", "string has no elements"),
        ("a.items[0].nope", "has no field 'nope'; it has name, n, subs"),
        ("year(a.dt) = a.ts", "int and timestamp cannot be compared"),
    ],
)
def test_what_spark_refuses_is_found(text: str, said: str) -> None:
    parse_expression(text, SCOPE)
    with pytest.raises(ConfigError) as caught:
        check_types(FRAME, text)
    assert said in str(caught.value)


# --- the places of a job ---------------------------------------------------------------------------------------------

TABLES: dict[str, dict[str, DataType]] = {
    "o": {"id": "long", "n": "integer", "at": "timestamp", "tags": array("string"), "person": "string", "f": "boolean"},
    "p": {"person": "string", "since": "timestamp", "left": "boolean", "n": "integer"},
    "t": {"tag": "string", "label": "string"},
}
JOB = """\
job: wide
sources:
  o: {{table: o, key: id}}
  p: {{table: p, key: {key}}}
  t: {{table: t, key: tag}}
from: o
join:
  p: {{{p}}}
  t: {{kind: list, elements: "{elements}"}}
select:
  id: o.id
  x: "{x}"
  y: "{y}"
where: "{where}"
target: {{table: wide}}
"""
FOREIGN = "kind: foreign_key, on: {on}"
AS_OF = "kind: as_of, on: {on}, at: {at}, valid_from: since, gone: {gone}"
GOOD = {"elements": "o.tags", "x": "o.n", "y": "o.n", "where": "o.n > 1"}


def find_faults(base: Path, join: str = FOREIGN, **parts: str) -> list[Fault]:
    """Return what ``validate`` finds in the job with these parts."""
    given = GOOD | parts
    on, at, gone = (given.pop(name, text) for name, text in (("on", "o.person"), ("at", "o.at"), ("gone", "p.left")))
    key = "person" if join == FOREIGN else "[person, since]"
    text = JOB.format(**given, key=key, p=join.format(on=f'"{on}"', at=f'"{at}"', gone=f'"{gone}"'))
    for name, content in {"jobs/wide.yml": text, "conf/dev.yml": "lake: ./lake\n"}.items():
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(content)
    job = load_project(base).jobs["wide"]
    try:
        compile_job(job, {alias: TABLES[alias] for alias in job.sources}, check_types)
    except ConfigError as error:
        return list(error.faults)
    return []


@pytest.mark.parametrize(
    ("join", "parts", "lines"),
    [
        (FOREIGN, {}, []),
        (AS_OF, {}, []),
        (FOREIGN, {"x": "o.at = 5"}, [12]),
        (FOREIGN, {"x": "o.at = 5", "y": "-o.tags", "where": "o.f + 1 > 2"}, [12, 13, 14]),
        (FOREIGN, {"where": "o.n + 1"}, [14]),
        (FOREIGN, {"x": "size(t) > o.at"}, [12]),
        (FOREIGN, {"x": "t[0].label = o.f"}, []),  # a text is read as a boolean
        (FOREIGN, {"x": "t[0].nope"}, [12]),
        (FOREIGN, {"on": "case when o.at = 5 then o.person end"}, [8]),
        (FOREIGN, {"on": "o.n + 1"}, [8]),
        (FOREIGN, {"on": "upper(o.person)"}, []),
        (FOREIGN, {"elements": "filter(o.tags, x -> o.tags = 'x')"}, [9]),
        (FOREIGN, {"elements": "upper(o.person)"}, [9]),
        (AS_OF, {"at": "year(o.at)"}, [8]),
        (AS_OF, {"at": "o.at::date"}, [8]),
        (AS_OF, {"gone": "p.n + 1"}, [8]),
        (AS_OF, {"gone": "p.n = p.since"}, [8]),
    ],
)
def test_each_place_of_a_job_is_looked_at(tmp_path: Path, join: str, parts: dict[str, str], lines: list[int]) -> None:
    found = [fault.where for fault in find_faults(tmp_path, join, **parts)]
    assert found == [f"jobs/wide.yml:{line}" for line in lines]


# --- functions that are no scalars -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sum(a.i)", "is an aggregate of many rows"),
        ("COUNT(*)", "is an aggregate of many rows"),
        ("max(a.i) over (partition by a.s)", "array_max"),
        ("any(a.f)", "is an aggregate"),
        ("row_number() over (order by a.i)", "is a window function"),
        ("lag(a.i)", "is a window function"),
        ("explode(a.xs)", "makes several rows of one"),
        ("current_date()", "the time of the run"),
        ("now()", "another value tomorrow"),
        ("current_timestamp", "the time of the run"),
        ("rand()", "is random"),
        ("uuid()", "is random"),
        ("current_user()", "depends on who runs the job"),
        ("input_file_name()", "from which files"),
    ],
)
def test_functions_are_refused_as_what_they_are(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text, SCOPE)
    assert said in str(caught.value)
    assert "did you mean" not in str(caught.value)


def test_no_function_is_both_allowed_and_refused() -> None:
    assert [name for name in FUNCTIONS if explain_function(name)] == []
    assert explain_function("sigum") is None


def test_row_conditions_are_typed_over_the_target(tmp_path: Path) -> None:
    """A condition of kind ``spark`` sees the target's columns, whose types the job gives them."""
    parts = [
        ("n > 1 and at is not null", 0),
        ("at = 5", 1),
        ("n + 1", 1),
        ("upper(at) = 'x'", 0),
        ("unknown_kind = 5", 0),
    ]
    job = (
        "job: j\nsources: {o: {table: o, key: id}}\nfrom: o\n"
        "select: {id: o.id, n: o.n + 1, at: o.at, unknown_kind: 'pmod(o.n, 2)'}\ntarget: {table: j}\nexpectations: s\n"
    )
    rules = [
        {"type": NOT_NULL, "kwargs": {"column": "id", "row_condition": text, "condition_parser": "spark"}}
        for text, _ in parts
    ]
    files = {"conf/dev.yml": "lake: ./lake\n", "jobs/j.yml": job}
    files["expectations/s.json"] = json.dumps({"name": "s", "expectations": rules}, indent=1)
    write_project(tmp_path, files)
    columns = {"id": pa.array([1]), "n": pa.array([1], pa.int32()), "at": pa.array([0], pa.timestamp("us", "UTC"))}
    write_deltalake(str(tmp_path / "lake" / "o"), pa.table(columns), configuration=FEED)
    faults = inspection.validate(load_project(tmp_path))
    assert len(faults) == 2
    assert "timestamp and int cannot be compared" in faults[0].message
    assert "row_condition is int; it must be a condition" in faults[1].message
    assert all((fault.where or "").startswith("expectations/s.json:") for fault in faults)
