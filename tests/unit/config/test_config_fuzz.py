"""Whatever stands in a job file: the project loads, or ConfigError says where it does not."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from enrich.base.errors import ConfigError
from enrich.project.project import Project, load_project
from enrich.project.yamlfile import load_tree
from kit.project import write_project
from unit.config.small_project import CONF, JOIN, MIRROR

WORDS = (
    "a",
    "orders",
    "customers",
    "key",
    "table",
    "list",
    "..",
    "./x",
    "a.b",
    "",
    " ",
    "`",
    "_x",
    "é",
    "s3a://b",
    "${X}",
)
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(WORDS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=4,
)
PLACE = re.compile(r"(jobs|conf)/(dev|orders|mails)\.yml:[1-9]\d*")


def load(files: dict[str, str | bytes]) -> Project | None:
    """Load a project; faults must have a place and show on a terminal."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            return load_project(write_project(Path(directory), {"conf/dev.yml": CONF, **files}))
        except ConfigError as error:
            faults = error.faults
    assert faults
    assert all(PLACE.fullmatch(fault.where or "") and str(fault).isprintable() for fault in faults), faults
    return None


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_value_replaced(data: st.DataObject) -> None:
    """Any node of a right file becomes something else, goes, or comes under another name."""
    text = data.draw(st.sampled_from([JOIN, MIRROR]))
    tree = load_tree(text, "x.yml")
    changed: Any = tree.value
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(sorted(tree.lines, key=str)))
        changed = replaced(changed, path, data.draw(VALUES), data.draw(st.sampled_from(["set", "drop", "rename"])))
    name = "orders" if text is JOIN else "mails"
    load({f"jobs/{name}.yml": yaml.safe_dump(changed, allow_unicode=True)})


def replaced(value: Any, path: tuple[Any, ...], new: Any, how: str) -> Any:
    """Return ``value`` with the node at ``path`` set to ``new``, dropped, or renamed; as it is where there is none."""
    if not path:
        return new if how == "set" else value
    if isinstance(value, dict) and path[0] in value:
        inner = replaced(value[path[0]], path[1:], new, how)
        if len(path) == 1 and how != "set":
            rest = {key: item for key, item in value.items() if key != path[0]}
            return rest if how == "drop" else {**rest, str(new): value[path[0]]}
        return {**value, path[0]: inner}
    if isinstance(value, list) and isinstance(path[0], int) and path[0] < len(value):
        return [replaced(item, path[1:], new, how) if index == path[0] else item for index, item in enumerate(value)]
    return value


@settings(max_examples=100, deadline=None)
@given(data=st.data(), text=st.sampled_from([JOIN, MIRROR]))
def test_text_replaced(data: st.DataObject, text: str) -> None:
    """Any piece of a right file becomes any other text."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    new = data.draw(
        st.text(max_size=6) | st.sampled_from(["\n", "\t", "- ", ": ", "[", "}", "&a ", "*a", "!!x ", "\x00", "'"])
    )
    name = "orders" if text == JOIN else "mails"
    load({f"jobs/{name}.yml": (text[:start] + new + text[end:]).encode("utf-8", "surrogatepass")})


@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=40))
def test_any_bytes(content: bytes) -> None:
    load({"jobs/orders.yml": content})


@settings(max_examples=100, deadline=None)
@given(conf=st.dictionaries(st.sampled_from(["lake", "catalog", "state", "spark", "x"]), VALUES, max_size=4))
def test_any_conf(conf: dict[str, Any]) -> None:
    load({"conf/dev.yml": yaml.safe_dump(conf), "jobs/orders.yml": JOIN})
