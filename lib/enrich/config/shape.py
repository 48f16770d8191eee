"""From a file's plain values to its model, with every fault at its line.

Pydantic checks the shape; its errors are put into our words here. A value that is missing, empty or unprintable is
found before, so that it is one fault and not two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from enrich.base.errors import Fault, did_you_mean, shown
from enrich.config.models import MODELS, Job, Reference, Settings, find_model, keys_of
from enrich.config.yamlfile import PathStep, Tree

_WORDS = {
    type(None): "nothing", bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list",
}  # fmt: skip
_Model = TypeVar("_Model", Job, Settings)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_EXPRESSION_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")


def describe(value: Any) -> str:
    """Return what a plain value is, in words."""
    return _WORDS.get(type(value), "a mapping")


def build_job(tree: Tree) -> tuple[Job | None, list[Fault]]:
    """Return the job of a file, or None, with the faults of its shape."""
    job, faults = _build(Job, "job", tree, _is_expression)
    if job is not None:
        job._tree = tree
    return job, faults


def build_settings(tree: Tree) -> tuple[Settings | None, list[Fault]]:
    """Return the settings of a file whose variables are put in, or None, with the faults of its shape."""
    return _build(Settings, "conf", tree, lambda path: path[:2] == ("spark", "conf"))


def _build(
    model: type[_Model], file_kind: str, tree: Tree, is_text: Callable[[tuple[PathStep, ...]], bool]
) -> tuple[_Model | None, list[Fault]]:
    """Return an instance of ``model``, or None, with the faults; of what has no value there is one already."""
    values = _Values(tree, is_text)
    data = values.copy(tree.value)
    try:
        built = model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        for item in error.errors(include_url=False, include_context=True):
            if item["type"] == "missing" or item["input"] is not None:
                values.fault(_describe_error(item, item["loc"], file_kind), item["loc"])
        return None, values.faults
    return (None if values.faults else built), values.faults


def _is_expression(path: tuple[PathStep, ...]) -> bool:
    """Return True for what the job file writes in Spark SQL, where ``1`` and ``true`` are texts as well."""
    match path:
        case ("where",) | ("select", _):
            return True
        case ("join", _, "on" | "elements") | ("join", _, "on", _):
            return True
    return False


@dataclass(frozen=True)
class _Values:
    """A file's values on their way to the model: texts where the model wants texts, single values checked."""

    tree: Tree
    is_text: Callable[[tuple[PathStep, ...]], bool]
    faults: list[Fault] = field(default_factory=list)

    def copy(self, value: Any, path: tuple[PathStep, ...] = ()) -> Any:
        """Return ``value`` with scalars as the file writes them where ``is_text(path)``."""
        if isinstance(value, dict):
            for key in value:
                self.check_name(key, (*path, key))
            return {key: self.copy(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.copy(item, (*path, index)) for index, item in enumerate(value)]
        if value is None:
            self.fault(f"{_describe_path(path)} has no value; give one or leave it out", path)
        elif isinstance(value, str):
            self.check_text(value, path)
        elif self.is_text(path):
            text = self.tree.texts[path]
            return text.lower() if isinstance(value, bool) else text
        return value

    def fault(self, message: str, path: tuple[PathStep, ...]) -> None:
        self.faults.append(Fault(message, self.tree.at(*path)))

    def check_name(self, key: str, path: tuple[PathStep, ...]) -> None:
        """Refuse keys that cannot be shown."""
        if not key.strip():
            self.fault("a name is empty", path)
        elif _CONTROL.search(key):
            self.fault(f"the name {key!r} contains a control character", path)

    def check_text(self, value: str, path: tuple[PathStep, ...]) -> None:
        """Refuse empty texts, and line breaks where no expression stands. Spark decides about its own settings."""
        if path[:2] == ("spark", "conf"):
            return
        if not value.strip():
            self.fault(f"{_describe_path(path)} is empty; give a value or leave it out", path)
        elif (_EXPRESSION_CONTROL if self.is_text(path) else _CONTROL).search(value):
            self.fault(f"{_describe_path(path)} contains a control character or a line break", path)


def _describe_path(path: tuple[PathStep, ...]) -> str:
    """Return how a message names the node at ``path``: ``'join.accounts.on'``, ``'key' (item 2)``."""
    names = [step for step in path if isinstance(step, str)]
    item = f" (item {path[-1] + 1})" if path and isinstance(path[-1], int) else ""
    dotted = shown(".".join(names))
    return f"'{dotted}'{item}" if names else "the file"


def _describe_error(item: Any, path: tuple[PathStep, ...], file_kind: str) -> str:
    """Return one pydantic error in our words."""
    value = item["input"]
    name = _describe_path(path)
    match item["type"]:
        case "missing":
            where = f" in {_describe_path(path[:-1])}" if len(path) > 1 else ""
            return f"'{path[-1]}' is missing{where}"
        case "extra_forbidden":
            return f"unknown key {path[-1]!r}{_suggest_place(path, file_kind)}"
        case "literal_error":
            known = re.findall(r"'([^']*)'", item["ctx"]["expected"])
            given = repr(shown(value)) if isinstance(value, str) else describe(value)
            near = did_you_mean(value, known, "") if isinstance(value, str) else ""
            return f"{name} is {given}, but must be one of {', '.join(known)}{near}"
        case "string_type":
            hint = "; put it in quotes" if isinstance(value, bool | int | float) else ""
            return f"{name} must be text, not {describe(value)}{hint}"
        case "tuple_type":
            wanted = "list of rules" if path == ("rules",) else "name or a list of names"
            return f"{name} must be a {wanted}, not {describe(value)}"
        case "bool_type":
            return f"{name} must be true or false, not {describe(value)}"
        case "model_type" | "dict_type":
            if find_model(file_kind, tuple(map(str, path))) is Reference:
                name = f"{name} is a secret: write where it is, {{env: NAME}} or {{file: PATH}}; it"
            return f"{name} must be a mapping of keys and values, not {describe(value)}"
    return f"{name}: {item['msg']}"


def _suggest_place(path: tuple[PathStep, ...], file_kind: str) -> str:
    """Return the suggestion for an unknown key: one of its mapping's, or the mapping that does know it."""
    model = find_model(file_kind, tuple(str(step) for step in path[:-1]))
    key = str(path[-1])
    known = keys_of(model) if model else ()
    for other, candidate in MODELS[file_kind].items():
        if candidate is not model and key in keys_of(candidate):
            name = ".".join(other).replace("*", "<alias>") if other != ("rules", "*") else "rules"
            return f"; it belongs in {name or 'the file itself'!r}"
    return did_you_mean(key, known)
