from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enrich.base.errors import ConfigError
from enrich.project.yamlfile import MAX_BYTES, MAX_LEVELS, load_tree, read_tree, resolve_scalar

NEST = MAX_LEVELS - 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (text, text)
            for text in ("on", "off", "yes", "no", "y", "n", "12:30", "2026-01-01", "1_000", "0b11", "1e", ".")
        ),
        *((text, text) for text in ("tRUE", "nULL", "0o8", "0xg", "1.2.3", "+.nan", "inf", "nan", "+", "=", "<<")),
        *((text, None) for text in ("", "~", "null", "Null", "NULL")),
        *((text, True) for text in ("true", "True", "TRUE")),
        *((text, False) for text in ("false", "False", "FALSE")),
        *(("7", 7), ("-7", -7), ("+7", 7), ("010", 10), ("0o17", 15), ("0x1F", 31)),
        *(("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("-1.5E-3", -0.0015)),
        *((".inf", math.inf), ("+.Inf", math.inf), ("-.INF", -math.inf)),
    ],
)
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    found = resolve_scalar(text)
    assert (found, type(found)) == (value, type(value))
    assert load_tree(f"k: {text}\n", "x.yml").value == {"k": value}


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_not_a_number(text: str) -> None:
    assert math.isnan(float(resolve_scalar(text) or 0))


def test_quoted_scalars_are_text() -> None:
    text = "a: 'true'\nb: \"1\"\nc: |\n  null\nd: ''\n"
    assert load_tree(text, "x.yml").value == {"a": "true", "b": "1", "c": "null\n", "d": ""}


def test_a_number_too_long_to_be_one_is_text() -> None:
    digits = "9" * 5000
    assert load_tree(f"a: {digits}", "x.yml").value == {"a": digits}


def test_keys_are_the_text_as_written() -> None:
    tree = load_tree("on: a\n1: b\ntrue: c\n0x1F: d\n<<: {e: f}\nnull: g\n", "x.yml")
    assert list(tree.value) == ["on", "1", "true", "0x1F", "<<", "null"]


def test_lines_are_those_of_keys_and_items() -> None:
    tree = load_tree("# first\na:\n  b: 1\n  c:\n  - x\n  - {d: 1,\n     e: 2}\nf: |\n  two\n  lines\ng: 3\n", "x.yml")
    assert tree.lines == {
        (): 2,
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "c"): 4,
        ("a", "c", 0): 5,
        ("a", "c", 1): 6,
        ("a", "c", 1, "d"): 6,
        ("a", "c", 1, "e"): 7,
        ("f",): 8,
        ("g",): 11,
    }
    assert tree.at("a", "c", 7, "nothing") == "x.yml:4"
    assert tree.at("nowhere") == "x.yml:2"
    assert tree.line() == 2


def test_texts_keep_what_is_no_string_as_written() -> None:
    tree = load_tree("a: TRUE\nb: [0x1F, 1.50, '7']\nc:\n", "x.yml")
    assert tree.texts == {("a",): "TRUE", ("b", 0): "0x1F", ("b", 1): "1.50", ("c",): ""}


def test_windows_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    tree = read_tree(tmp_path / "x.yml", "x.yml")
    assert (tree.value, tree.line("b")) == ({"a": 1, "b": 2}, 2)
    (tmp_path / "x.json").write_bytes(b'\xef\xbb\xbf{"a": 1,\r\n"b": 2}')
    tree = read_tree(tmp_path / "x.json", "x.json")
    assert (tree.value, tree.line("b")) == ({"a": 1, "b": 2}, 2)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ["1: the file is empty"]),
        (" \n\n", ["1: the file is empty"]),
        ("# a comment\n", ["1: the file is empty"]),
        ("---\n", ["1: the file is empty"]),
        ("---\n...\n", ["1: the file is empty"]),
        ("a: &x 1\n", ["1: anchor &x"]),
        ("&x a: 1\n", ["1: anchor &x"]),
        ("a: 1\nb: *a\n", ["2: alias *a"]),
        ("a: 1\n*a : 2\n", ["2: a key must be a name"]),
        ("a: !!str 1\n", ["1: tag tag:yaml.org,2002:str"]),
        ("a: !mine {b: 1}\n", ["1: tag !mine"]),
        ("a: ! b\n", ["1: tag !"]),
        ("!x a: 1\n", ["1: tag !x"]),
        ("%TAG ! tag:x,2000:\n---\na: 1\n", ["1: %TAG"]),
        ("%YAML 1.1\n---\na: 1\n", ["1: %YAML: only version 1.2"]),
        ("a: 1\n---\nb: 2\n", ["2: several documents"]),
        ("a: 1\nb: 2\na: 3\n", ["3: duplicate key 'a', first on line 1"]),
        ("a: {b: 1, b: 2}\n", ["1: duplicate key 'b'"]),
        ("1: a\n'1': b\n", ["2: duplicate key '1'"]),
        ("<<: {a: 1}\n<<: {b: 1}\n", ["2: duplicate key '<<'"]),
        ("a:\n? [b]\n: c\n", ["2: a key must be a name"]),
        ("{a: b}: c\n", ["1: a key must be a name"]),
        ("a: 1\n? \n: 2\n", ["2: a key is missing"]),
        ("a:\n\tb: 1\n", ["2: not valid YAML: found a tab that cannot start any token; indent with spaces"]),
        ("b: 1\na: [1,\nb: 2\n", ["2: not valid YAML"]),
        ("a: 1\nb: 'x\nc: d\n", ["2: not valid YAML: found unexpected end of stream"]),
        ("a: 1\n  b: 2\n", ["2: not valid YAML: mapping values are not allowed here"]),
        ("a: b: c\n", ["1: not valid YAML: mapping values are not allowed here; put a text with ': ' in quotes"]),
        ("a: {m: ${X}}\n", ["1: put '${...}' in quotes"]),
        ("a: @b\n", ["1: not valid YAML"]),
        ("- a\nb: c\n", ["2: not valid YAML"]),
        ("a: 1\n\x00b: 2\n", ["2: control character U+0000"]),
        ("a: \x1b[31m\n", ["1: control character U+001B"]),
        ("a: 1\nb: \x7f\n", ["2: control character U+007F"]),
        ("a: \ufffe\n", ["1: control character U+FFFE"]),
        ('a: 1\nb: "\\ud800"\n', ["2: half of a surrogate pair"]),
        ('"\\udc00": 1\n', ["1: half of a surrogate pair"]),
        ('a: "\\UFFFFFFFF"\n', ["1: not valid YAML"]),
        ('a: "\\q"\n', ["1: not valid YAML: found unknown escape character 'q'"]),
        ("a:\n  " + "[" * NEST + "]" * NEST + "\nb: " + "[" * 20 + "]" * 20, ["3: nested deeper than 20 levels"]),
        ("[" * 100_000, ["1: nested deeper than 20 levels"]),
        ("a: &x 1\nb: *x\na: !t 2\n", ["1: anchor", "2: alias", "3: duplicate", "3: tag"]),
    ],
)
def test_refused_yaml(text: str, faults: list[str]) -> None:
    check_faults(text, "x.yml", faults)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ["1: the file is empty"]),
        ("\n{", ["2: not valid JSON: expected property name enclosed in double quotes"]),
        ('{"a": 1,\n "a": 2}', ["2: duplicate key 'a', first on line 1"]),
        ('{"a": 1,\n "\\u0061": 2}', ["2: duplicate key 'a', first on line 1"]),
        ('{"a":\n [1,]}', ["2: not valid JSON: "]),
        ('{"a": 1\n,}', ["2: not valid JSON: "]),
        ('{"a"\n 1}', ["2: not valid JSON: expected ':' delimiter"]),
        ('{"a": [1\n 2]}', ["2: not valid JSON: expected ',' delimiter"]),
        ('{"a":\n NaN}', ["2: not valid JSON: expected a value"]),
        ('{"a": -Infinity}', ["1: not valid JSON: expected a value"]),
        ("{a: 1}", ["1: not valid JSON: expected property name"]),
        ('{"a": 1} // c', ["1: not valid JSON: extra data"]),
        ('{"a":\n "x', ["2: not valid JSON: unterminated string"]),
        ('{"a": "x\ty"}', ["1: not valid JSON: invalid control character"]),
        ('{"a": "\\q"}', ["1: not valid JSON: invalid \\escape"]),
        ('{"a": "\\u12"}', ["1: not valid JSON: invalid \\uXXXX escape"]),
        ('{"a": "\\ud800"}', ["1: half of a surrogate pair"]),
        ("01", ["1: not valid JSON: extra data"]),
        ("9" * 2000, ["1: not valid JSON: expected a value"]),
        ("[" * 100_000, ["1: nested deeper than 20 levels"]),
    ],
)
def test_refused_json(text: str, faults: list[str]) -> None:
    check_faults(text, "x.json", faults)


def check_faults(text: str, name: str, faults: list[str]) -> None:
    """Assert the faults, each given as ``line: words``."""
    with pytest.raises(ConfigError) as caught:
        load_tree(text, name)
    found = [f"{fault.where}: {fault.message}" for fault in caught.value.faults]
    assert len(found) == len(faults)
    for expected, actual in zip(faults, found, strict=True):
        line, words = expected.split(": ", 1)
        assert actual.startswith(f"{name}:{line}: ")
        assert words in actual


def test_json_with_tabs_escapes_and_lines() -> None:
    tree = load_tree('{\t"a":\t"\\u00e9\\ud83d\\ude00\\t",\n\t"b": [1, 2.5,\n true, null, -1e3, {}, []]}\n', "x.json")
    assert tree.value == {"a": "é😀\t", "b": [1, 2.5, True, None, -1000.0, {}, []]}
    assert (tree.line("a"), tree.line("b"), tree.line("b", 1), tree.line("b", 2)) == (1, 2, 2, 3)


def test_depth_at_the_limit_is_read() -> None:
    assert load_tree("[" * MAX_LEVELS + "]" * MAX_LEVELS, "x.yml").lines
    assert load_tree("[" * MAX_LEVELS + "]" * MAX_LEVELS, "x.json").lines


@pytest.mark.parametrize(
    ("content", "where", "words"),
    [
        (b"a: 1\nb: \xff\n", "x.yml:2", "UTF-8"),
        ("a: ä\n".encode("latin-1"), "x.yml:1", "UTF-8"),
        ("a: 1\n".encode("utf-16"), "x.yml:1", "UTF-8"),
        (b"a: " + b"x" * MAX_BYTES, "x.yml", "1 MB"),
    ],
)
def test_refused_bytes(tmp_path: Path, content: bytes, where: str, words: str) -> None:
    (tmp_path / "x.yml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_tree(tmp_path / "x.yml", "x.yml")
    assert [fault.where for fault in caught.value.faults] == [where]
    assert words in str(caught.value)


def test_directory_and_missing_file(tmp_path: Path) -> None:
    (tmp_path / "x.yml").mkdir()
    with pytest.raises(ConfigError, match=r"x\.yml: expected a file, but this is a directory"):
        read_tree(tmp_path / "x.yml", "x.yml")
    with pytest.raises(ConfigError, match=r"y\.yml: expected a file, but no such file"):
        read_tree(tmp_path / "y.yml", "y.yml")


KEYS = st.text(min_size=1, max_size=80)  # YAML ends a key after 1,024 characters, and an escape has up to 12
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(value=st.dictionaries(KEYS, JSON, max_size=4), indent=st.sampled_from([None, 1, "\t"]))
def test_json_reads_as_the_standard_library_does(value: object, indent: int | str | None) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
        if ascii_only or not re.search("[\x7f-\x9f\ufffe\uffff]", text):
            assert load_tree(text, "x.json").value == json.loads(text)


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("ab:-?[]{}&*!|>'\"%@#,\n\t 01.~\\<"), max_size=40))
@pytest.mark.parametrize("name", ["x.yml", "x.json"])
def test_any_text_gives_a_tree_or_a_config_error(name: str, text: str) -> None:
    try:
        tree = load_tree(text, name)
    except ConfigError as error:
        places = [fault.where or "" for fault in error.faults]
    else:
        places = [tree.at()]
    assert places
    assert all(re.fullmatch(rf"{name}:[1-9]\d*", place) for place in places)
