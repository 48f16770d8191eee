"""The schemas that editors use say what the loader says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from enrich.cli.listing import format_schema
from enrich.config.schema import build_schemas, write_schemas
from enrich.config.yamlfile import load_tree, read_tree
from unit.config.small_project import CONF, JOIN, MIRROR, edited

ROOT = Path(__file__).parents[3]


def validator(kind: str) -> Draft202012Validator:
    schema = json.loads((ROOT / "conf" / "schema" / f"{kind}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_files_are_current(tmp_path: Path) -> None:
    write_schemas(tmp_path)
    for path in map(tmp_path.joinpath, build_schemas()):
        kept = ROOT / "conf" / "schema" / path.name
        assert kept.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), (
            "python -m enrich.config.schema conf/schema"
        )
    report = (ROOT / "conf" / "schema" / "report.schema.json").read_text(encoding="utf-8")
    assert report == format_schema("report") + "\n", "enrich schema report > conf/schema/report.schema.json"
    test = (ROOT / "conf" / "schema" / "test.schema.json").read_text(encoding="utf-8")
    assert test == format_schema("test") + "\n", "enrich schema test > conf/schema/test.schema.json"
    names = {path.name for path in (ROOT / "conf" / "schema").iterdir()}
    assert names == {*build_schemas(), "report.schema.json", "test.schema.json"}


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
        ("conf", CONF),
        ("conf", "lake: ./l\n"),
        ("conf", "catalog: main.silver\nstate: ./s\n"),
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
        ("conf", "spark: {}\n"),
        ("conf", "lake: ./l\ncatalog: a\nstate: s\n"),
        ("conf", "catalog: main.silver\n"),
        ("conf", "lake: ./l\nspark: {conf: {a: []}}\n"),
    ],
)
def test_wrong_files_do_not(kind: str, text: str) -> None:
    assert list(validator(kind).iter_errors(load_tree(text, "x.yml").value))
