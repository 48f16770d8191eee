"""What an accepted expression says about itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enrich.project.expressions import FUNCTIONS, ExpressionError, Scope, check_condition, parse_expression
from enrich.project.expressions.functions import GROUPS

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "expressions.md"
SCOPE = Scope(frozenset({"a", "b", "user", "consents"}), frozenset({"addresses"}), key=True)
CASES = [
    (text, frozenset(tuple(path.split("/")) for path in paths.split()))
    for line in (HERE / "test_expressions_accepted.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
    for text, _, paths in [line.rpartition(" ##")]
]


@pytest.mark.parametrize(("text", "paths"), CASES)
def test_paths_are_the_references(text: str, paths: frozenset[tuple[str, ...]]) -> None:
    expression = parse_expression(text, SCOPE)
    assert expression.paths == paths
    assert expression.text == text


@pytest.mark.parametrize(("text", "paths"), CASES)
def test_canonical_is_a_fixed_point_with_the_same_references(text: str, paths: frozenset[tuple[str, ...]]) -> None:
    canonical = parse_expression(text, SCOPE).canonical
    again = parse_expression(canonical, SCOPE)
    assert (again.canonical, again.paths) == (canonical, paths)


def test_canonical_differs_between_all_cases() -> None:
    spelled_alike = {"a.i == b.i", "a.i != b.i", "`a`.`s`", "a.m [ 'k' ]", "DATE'2024-02-29'"}
    canonicals = [parse_expression(text, SCOPE).canonical for text, _ in CASES if text not in spelled_alike]
    assert len(set(canonicals)) == len(canonicals) > 180


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.x+1", "a.x  +\n\t1"),
        ("LOWER(a.x)", "lower ( a.x )"),
        ("`a`.`x`", "a.x"),
        ("a.x IS NOT NULL AND a.y", "a.x is not null and a.y"),
        ("a.x == 1", "a.x = 1"),
        ("a.x <> 1", "a.x != 1"),
        ("cast(a.x AS Decimal(10,2))", "CAST(a.x as decimal(10, 2))"),
    ],
)
def test_spelling_does_not_change_the_canonical_text(one: str, other: str) -> None:
    assert parse_expression(one, SCOPE).canonical == parse_expression(other, SCOPE).canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.x = 'X'", "a.x = 'x'"),
        ("a.x = 'a  b'", "a.x = 'a b'"),
        ("a.x", "a.X"),
        ("a.x.y", "a.`x.y`"),
        ("a.x - 1", "a.x + 1"),
        ("a.i + b.i", "b.i + a.i"),
        ("1.5", "1.5BD"),
        ("a.x[0]", "a.x[1]"),
        ("a.x::int", "try_cast(a.x as int)"),
    ],
)
def test_meaning_changes_the_canonical_text(one: str, other: str) -> None:
    assert parse_expression(one, SCOPE).canonical != parse_expression(other, SCOPE).canonical


@pytest.mark.parametrize("text", ["a.x", "a.x.y.z", "`a`.`x.y`", " a . x ", "key", "key.x", "addresses", "addresses.x"])
def test_dotted_reference_is_a_path(text: str) -> None:
    assert parse_expression(text, SCOPE).is_path


@pytest.mark.parametrize(
    "text",
    ["(a.x)", "a.x[0]", "a.x['y']", "a.x[0].y", "a.x::int", "lower(a.x)", "-a.x", "a.x + 1", "1", "null", "'a.x'"],
)
def test_anything_else_is_no_path(text: str) -> None:
    assert not parse_expression(text, SCOPE).is_path


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("name is not null and price > 0", {("name",), ("price",)}),
        ("`a.b` = 1", {("a.b",)}),
        ("address.city = 'x'", {("address", "city")}),
        ("exists(tags, t -> t = name)", {("tags",), ("name",)}),
        ("user = 'x' or order > 1 or current_date is null", {("user",), ("order",), ("current_date",)}),
        ("true", set()),
    ],
)
def test_condition_names_bare_columns(text: str, paths: set[tuple[str, ...]]) -> None:
    columns = ["name", "price", "a.b", "address", "tags", "user", "order", "current_date"]
    assert check_condition(text, columns).paths == paths


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["a.i"] * 500),
        "(" * 30 + "a.i" + ")" * 30,
        "abs(" * 30 + "a.i" + ")" * 30,
        "a.xs[" * 30 + "0" + "]" * 30,
    ],
)
def test_long_and_deep_expressions_within_the_limits_pass(text: str) -> None:
    assert parse_expression(text, SCOPE).text == text


_PIECES = """
    a b key x a.x b.y addresses ( ) [ ] , . -> + - * = <=> and or not is null in like case when then else end cast as
    int :: 'x' '' " ` ' \\ 1 1.5 select from reflect( lower( transform( x -> date interval day over -- /* ; @ ${ é
"""
_LISTS = st.lists(st.sampled_from(_PIECES.split()), max_size=25)


@given(_LISTS.map(" ".join) | _LISTS.map("".join) | st.text(max_size=60))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    try:
        expression = parse_expression(text, SCOPE)
    except ExpressionError:
        return
    assert all(path[0] in {*SCOPE.aliases, *SCOPE.lists, "key"} for path in expression.paths)
    assert parse_expression(expression.canonical, SCOPE).paths == expression.paths


def describe_functions() -> str:
    """The allow-list as Markdown."""
    paragraphs = (
        f"**{title}.** " + ", ".join(f"`{name}`" for name in sorted(names.split())) for title, names in GROUPS.items()
    )
    return "\n\n".join(paragraphs) + "\n"


def test_document_lists_the_functions() -> None:
    document = DOCUMENT.read_text("utf-8")
    start, end = "<!-- functions: written by tests/unit/test_expressions.py -->\n", "<!-- end -->"
    listed = document.partition(start)[2].partition(end)[0].strip("\n") + "\n"
    assert listed == describe_functions(), "paste what describe_functions() returns between the two marks"
    assert all(f"`{name}`" in listed for name in FUNCTIONS)


def test_import_is_light() -> None:
    code = "import sys, enrich.project.expressions; print([m for m in ('sqlglot', 'pyspark') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
