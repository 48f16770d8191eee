"""The schemas that editors use say what the loader says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator

from enrich.cli.commands import cli
from enrich.project.yamlfile import load_tree, read_tree
from unit.config.small_project import CONF, JOIN, MIRROR, edited

ROOT = Path(__file__).parents[3]


def validator(kind: str) -> Draft7Validator:
    schema = json.loads((ROOT / "conf" / "schema" / f"{kind}.schema.json").read_text(encoding="utf-8"))
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def print_schema(kind: str) -> str:
    return CliRunner().invoke(cli, ["schema", kind]).stdout


def test_the_files_are_current() -> None:
    kinds = ("job", "conf", "tables", "report", "result", "test", "diff", "trace")
    for kind in kinds:
        file = (ROOT / "conf" / "schema" / f"{kind}.schema.json").read_text(encoding="utf-8")
        assert file == print_schema(kind), f"enrich schema {kind} > conf/schema/{kind}.schema.json"
    names = {path.name for path in (ROOT / "conf" / "schema").iterdir()}
    assert names == {f"{kind}.schema.json" for kind in kinds}


def test_the_projects_own_files_validate() -> None:
    jobs = sorted(ROOT.glob("jobs/*.yml"))
    confs = sorted(ROOT.glob("conf/*.yml"))
    for kind, paths in (("job", jobs), ("conf", confs)):
        for path in paths:
            assert not list(validator(kind).iter_errors(read_tree(path, path.name).value)), path.name


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("job", JOIN),
        ("job", MIRROR),
        ("job", edited(JOIN, {6: None, 7: None})),
        ("job", edited(JOIN, {8: None, 9: None, 10: None})),
        ("job", edited(JOIN, {7: "  customers: {kind: list, elements: orders.ids, element_key: x}"})),
        ("job", edited(JOIN, {7: "  customers: {kind: table, how: full}"})),
        ("job", edited(JOIN, {10: "  one: 1\n  yes: true", 7: "  customers: {kind: foreign_key, on: [a.b, 1]}"})),
        (
            "job",
            edited(JOIN, {3: "  orders: {table: o, key: a, normalise: [visible, nfc, trim, lower, integer, unpad]}"}),
        ),
        ("job", edited(JOIN, {3: "  orders: {table: o, key: a, normalise: trim}"})),
        ("job", edited(JOIN, {3: "  orders: orders", 4: "  customers: {table: customers}"})),
        ("job", "job: q\nquery: SELECT a FROM t\ntarget: {table: q}\n"),
        ("tables", "t:\n  key: a\n  tags: x\n  columns: {a: {private: true}}\nu: {key: [a, b], table: c.u}\n"),
        ("conf", CONF),
        ("conf", "lake: ./l\n"),
        ("conf", "catalog: main.silver\nstate: ./s\n"),
        ("conf", "lake: ./l\nlineage: {file: e.jsonl, namespace: shop, timeout: 3}\nmetrics: {file: a.prom}\n"),
        ("conf", "lake: ./l\nlineage: {url: 'https://h/', endpoint: api, api_key: {env: KEY}}\n"),
        (
            "conf",
            "lake: ./l\nnotify: {a: {url: {env: A}, headers: {B: {file: c}}, on: block, repeat: false, text: x}}\n",
        ),
    ],
)
def test_right_files_validate(kind: str, text: str) -> None:
    assert not list(validator(kind).iter_errors(load_tree(text, "x.yml").value))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("job", edited(JOIN, {5: "form: orders"})),
        ("job", edited(JOIN, {11: None})),
        ("job", edited(JOIN, {7: "  customers: {kind: foreign_key}"})),
        ("job", edited(JOIN, {7: "  customers: {kind: list, elements: a.b, how: left}"})),
        ("job", edited(JOIN, {7: "  customers: {kind: table, on: a.b}"})),
        ("job", edited(JOIN, {7: "  customers: {kind: foreign_key, on: []}"})),
        ("job", edited(JOIN, {5: "from: orders\nwhere:"})),
        ("job", edited(JOIN, {5: "from: orders\nmirror: {value: a}"})),
        ("job", edited(JOIN, {11: "target: {table: t, change_feed: yes}"})),
        ("job", edited(JOIN, {3: "  orders: {table: o, key: a, normalise: [upper]}"})),
        ("job", edited(JOIN, {3: "  orders: {table: o, key: a, normalise: []}"})),
        ("job", edited(MIRROR, {5: "from: people\nwhere: a.b"})),
        ("job", edited(MIRROR, {6: None, 7: None, 8: None, 9: None, 10: None})),
        ("job", edited(MIRROR, {8: "  conflict: newest"})),
        ("job", edited(JOIN, {2: None, 3: None, 4: None})),
        ("tables", "t: {table: u}\n"),
        ("tables", "t: {key: a, column: {}}\n"),
        ("conf", "spark: {}\n"),
        ("conf", "lake: ./l\ncatalog: a\nstate: s\n"),
        ("conf", "catalog: main.silver\n"),
        ("conf", "lake: ./l\nspark: {conf: {a: []}}\n"),
        ("conf", "lake: ./l\nlineage: {}\n"),
        ("conf", "lake: ./l\nlineage: {file: a, url: 'https://h/'}\n"),
        ("conf", "lake: ./l\nlineage: {file: a, timeout: 0}\n"),
        ("conf", "lake: ./l\nmetrics: {}\n"),
        ("conf", "lake: ./l\nnotify: {a: {url: 'https://h/'}}\n"),
        ("conf", "lake: ./l\nnotify: {a: {url: {env: A, file: b}}}\n"),
        ("conf", "lake: ./l\nnotify: {a: {url: {env: A}, on: success}}\n"),
    ],
)
def test_wrong_files_do_not(kind: str, text: str) -> None:
    assert list(validator(kind).iter_errors(load_tree(text, "x.yml").value))


@pytest.mark.parametrize("kind", ["job", "conf", "tables", "report"])
def test_a_schema_names_itself_and_says_nothing_that_draft_7_ignores(kind: str) -> None:
    schema = json.loads(print_schema(kind))
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema["$id"] == f"urn:enrich:schema:{kind}"
    text = json.dumps(schema)
    assert not [word for word in ("$defs", "dependentRequired", "dependentSchemas", "unevaluated") if word in text]

    def walk(value: object) -> None:
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            assert not (isinstance(item, dict) and "$ref" in item and len(item) > 1), item
            walk(item)

    walk(schema)
