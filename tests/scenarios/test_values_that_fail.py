"""A value that an expression cannot take ends a run for good: file and line, what helps, no value, nothing written."""

from __future__ import annotations

import pyarrow as pa

import enrich
from enrich.operations.planning import plan
from kit.lab import Lab, Row

CANARY = "n/a-Concurrent"
"""What a cell says must not be taken for a conflict either."""

JOBS = {
    # Name -> column, condition, foreign key; the line at fault; the function that helps.
    "chosen": ("cast(o.text as decimal(10,2))", "true", "o.ref", 8, "try_cast"),
    "divided": ("o.x / o.y", "true", "o.ref", 8, "try_divide"),
    "placed": ("o.list[o.x]", "true", "o.ref", 8, "get"),
    "dated": ("to_date(o.text, 'yyyy')", "true", "o.ref", 8, "try_to_date"),
    "mapped": ("map_from_arrays(array(o.x, o.y), array(1, 2))[4]", "true", "o.ref", 8, "case when"),
    "kept": ("1", "cast(o.text as int) > 0", "o.ref", 9, "try_cast"),
    "compared": ("1", "o.text > 0", "o.ref", 9, "try_cast"),
    "joined": ("1", "true", "cast(o.text as int)", 6, "try_cast"),
}
EACH_PLACE = ("chosen", "kept", "joined")
"""A column, a condition and a foreign key: what a later run and a dry run show; a first run shows all."""


def _open(lab: Lab, *names: str) -> None:
    text, number = pa.string(), pa.int32()
    columns = {"id": number, "text": text, "x": number, "y": number, "ref": number, "list": pa.list_(number)}
    lab.table("orders", "id", columns, [_order(1, "2020", 0, 2)])
    lab.table("lookup", "id", {"id": number}, [{"id": 2020}])
    for name in names or JOBS:
        value, where, reference, *_ = JOBS[name]
        lab.job(f"""\
job: {name}
sources: {{o: {{table: orders, key: id}}, l: {{table: lookup, key: id}}}}
from: o
join:
  l: {{kind: foreign_key,
    on: "{reference}"}}
select: {{id: o.id,
  value: "{value}"}}
where: {where}
target: {{table: t_{name}}}
""")


def _order(number: int, text: str, x: int, y: int) -> Row:
    return {"id": number, "text": text, "x": x, "y": y, "ref": None, "list": [7]}


def _check(results: dict[str, tuple[int, str]], *names: str) -> None:
    for name in names or JOBS:
        *_, line, helps = JOBS[name]
        code, error = results[name]
        assert (name, code) == (name, 2), error
        assert error.startswith(f"jobs/{name}.yml:{line}: ")
        assert helps in error
        assert CANARY not in error


def test_runs_and_plans_tell_the_line(lab: Lab) -> None:
    _open(lab, *EACH_PLACE)
    first = lab.run_all()
    assert {each.job: each.error for each in first.jobs} == dict.fromkeys(EACH_PLACE)
    lab.append("orders", _order(2, CANARY, 3, 3), _order(3, CANARY, 5, 0))
    for dry in (True, False):
        _check({each.job: (each.exit_code, str(each.error)) for each in lab.run_all(dry_run=dry).jobs}, *EACH_PLACE)
    lab.put("lookup", {"id": 2021})  # so a plan looks for what refers to it
    (planned,) = plan(enrich.load_project(lab.home), ["joined"], spark=lab.spark).jobs
    assert planned.exit_code == 2
    assert "jobs/joined.yml:6" in str(planned.refused)
    assert [[row["id"] for row in lab.rows(f"t_{name}")] for name in EACH_PLACE] == [[1]] * len(EACH_PLACE)


def test_first_runs_tell_the_line_and_rules_too(lab: Lab) -> None:
    _open(lab)
    lab.append("orders", _order(2, CANARY, 3, 3), _order(3, CANARY, 5, 0))
    lab.suite(
        "orders",
        {
            "type": "expect_column_values_to_not_be_null",
            "kwargs": {"column": "id", "row_condition": "cast(text as int) > 0", "condition_parser": "spark"},
        },
    )
    lab.job(
        "job: ruled\nsources: {o: {table: orders, key: id}}\nfrom: o\nexpectations: orders\ntarget: {table: t_ruled}\n"
    )
    found = {each.job: (each.exit_code, str(each.error)) for each in lab.run_all().jobs}
    _check(found)
    code, error = found["ruled"]
    assert code == 3
    assert "expectations/orders.json:" in error
    assert "CAST_INVALID_INPUT" in error
    assert CANARY not in error
    assert not any(lab.exists(f"t_{name}") for name in JOBS)

    # What helps helps.
    file = lab.home / "jobs" / "divided.yml"
    file.write_text(file.read_text().replace("o.x / o.y", "try_divide(o.x, o.y)"))
    assert lab.run("divided").error is None
