"""Build models from a file's plain values, with every fault at its line: pydantic's errors, in our words.

A value that is missing, empty or unprintable is found before, so that it is one fault and not two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from enrich.base.errors import Fault, show_text
from enrich.base.words import did_you_mean
from enrich.project.models import Job, Model, Reference, Settings, Source, keys_of, list_models
from enrich.project.yamlfile import PathStep, Tree

_WORDS = {
    type(None): "nothing", bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list",
}  # fmt: skip
_LISTS = ("rules", "rounds", "commits", "expectations")
_Model = TypeVar("_Model", bound=BaseModel)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_EXPRESSION_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")


def describe(value: Any) -> str:
    """Return what a plain value is, in words."""
    return _WORDS.get(type(value), "a mapping")


@dataclass(frozen=True)
class FileKind:
    """What is to be known of a kind of file in order to read it."""

    models: Mapping[tuple[str, ...], type[Model]]  # at its place; ``*`` is a name of the user's, or an item of a list
    names: Mapping[tuple[str, ...], str]  # of places, for messages; those that are not here are told as paths
    is_text: Callable[[tuple[PathStep, ...]], bool] = lambda _: False  # where numbers and truth values are texts
    is_data: Callable[[tuple[PathStep, ...]], bool] = lambda _: False  # below it are the user's rows, left as they are


def build_model(model: type[_Model], tree: Tree, kind: FileKind) -> tuple[_Model | None, list[Fault]]:
    """Return an instance of ``model``, or None, with the faults; of what has no value there is one already."""
    values = _Values(tree, kind)
    data = values.copy(tree.value)
    try:
        built = model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        for item in error.errors(include_url=False, include_context=True):
            if item["type"] == "missing" or item["input"] is not None:
                values.fault(_describe_error(item, item["loc"], kind), item["loc"])
        return None, values.faults
    return (None if values.faults else built), values.faults


JOB = FileKind(
    list_models(Job),
    {("rules", "*"): "rules"},
    # What the file writes in Spark SQL: there ``1`` and ``true`` are texts as well.
    lambda path: (
        path in (("query",), ("where",))
        or path[:2] == ("group", "by")
        or path[2:] == ("latest", "delete")
        or path[-1:] == ("description",)
        or (path[:1] == ("select",) and len(path) == 2)
        or (path[:1] == ("join",) and (path[2:3] == ("on",) or path[2:] in (("elements",), ("at",), ("gone",))))
    ),
)
TABLES = FileKind(
    list_models(dict[str, Source]),
    {("*",): "<table>", ("*", "columns", "*"): "<table>.columns.<column>", ("*", "latest"): "<table>.latest"},
    lambda path: path[1:] == ("latest", "delete") or path[-1:] == ("description",),
)
CONF = FileKind(list_models(Settings), {}, lambda path: path[:2] == ("spark", "conf"))


def declare_sources(tree: Tree, tables: Tree, named: Iterable[str] = ()) -> tuple[Tree, list[Fault]]:
    """Return a job's file with what tables.yml says of its sources, where the job itself says nothing, and faults.

    ``named`` are tables of tables.yml that the job reads, and does not list.
    """
    known, faults = tables.mapping(), list[Fault]()
    sources: dict[str, Any] = {**{name: {"table": name} for name in named}, **tree.mapping("sources")}
    elsewhere, texts = dict(tree.elsewhere), dict(tree.texts)
    for alias, written in sources.items():
        said = {"table": written} if isinstance(written, str) else written
        name = said.get("table") if isinstance(said, dict) else None
        told = known.get(name) if isinstance(name, str) else None
        if isinstance(told, dict):
            sources[alias] = {**told, **said, "table": told.get("table", name)}
            for path in tables.lines:
                if path[:1] == (name,) and len(path) > 1 and path[1] not in {*said} - {"table"}:
                    place = "sources", alias, *path[1:]
                    elsewhere[place] = tables.at(*path)
                    texts |= {place: tables.texts[path]} if path in tables.texts else {}
        elif isinstance(written, str) and written.strip():
            near = did_you_mean(written, known) or f"; write it there, or {{table: {written}, key: ...}} here"
            faults.append(Fault(f"{written!r} is not a table of tables.yml{near}", tree.at("sources", alias)))
    if isinstance(tree.value, dict) and sources:
        tree = replace(tree, value={**tree.value, "sources": sources}, elsewhere=elsewhere, texts=texts)
    return tree, faults


@dataclass(frozen=True)
class _Values:
    """A file's values on their way to the model: texts where the model wants texts, single values checked."""

    tree: Tree
    kind: FileKind
    faults: list[Fault] = field(default_factory=list)

    def copy(self, value: Any, path: tuple[PathStep, ...] = ()) -> Any:
        """Return ``value`` with scalars as the file writes them where the kind of file says so."""
        if self.kind.is_data(path):
            return value
        if isinstance(value, dict):
            for key in value:
                if not key.strip():
                    self.fault("a name is empty", (*path, key))
                elif _CONTROL.search(key):
                    self.fault(f"the name {key!r} contains a control character", (*path, key))
            return {key: self.copy(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.copy(item, (*path, index)) for index, item in enumerate(value)]
        if value is None:
            is_cut = ")" in "".join(map(str, path))  # {n: coalesce(a.x, a.y)}
            mend = "put an expression with a comma into quotes" if is_cut else "give one or leave it out"
            self.fault(f"{_describe_path(path)} has no value; {mend}", path)
        elif isinstance(value, str):
            if path[:2] == ("spark", "conf"):  # Spark decides about its own settings
                return value
            if not value.strip():
                self.fault(f"{_describe_path(path)} is empty; give a value or leave it out", path)
            elif (_EXPRESSION_CONTROL if self.kind.is_text(path) else _CONTROL).search(value):
                self.fault(f"{_describe_path(path)} contains a control character or a line break", path)
        elif self.kind.is_text(path):
            text = self.tree.texts[path]
            return text.lower() if isinstance(value, bool) else text
        return value

    def fault(self, message: str, path: tuple[PathStep, ...]) -> None:
        self.faults.append(Fault(message, self.tree.at(*path)))


def _describe_path(path: tuple[PathStep, ...]) -> str:
    """Return how a message names the node at ``path``: ``'join.accounts.on'``, ``'key' (item 2)``."""
    item = f" (item {path[-1] + 1})" if path and isinstance(path[-1], int) else ""
    dotted = show_text(".".join(step for step in path if isinstance(step, str)))
    return f"'{dotted}'{item}" if dotted else "the file"


def _describe_error(item: Any, path: tuple[PathStep, ...], kind: FileKind) -> str:
    """Return one pydantic error, of the node at ``path``, in our words."""
    value, name = item["input"], _describe_path(path)
    match item["type"]:
        case "missing":
            return f"'{path[-1]}' is missing" + (f" in {_describe_path(path[:-1])}" if len(path) > 1 else "")
        case "extra_forbidden":
            key, model = str(path[-1]), _find_model(kind, path[:-1])
            for home, other in kind.models.items():
                if other is not model and key in keys_of(other):
                    shown = kind.names.get(home, ".".join(home).replace("*", "<alias>")) or "the file itself"
                    return f"unknown key {key!r}; it belongs in {shown!r}"
            return f"unknown key {key!r}{did_you_mean(key, keys_of(model) if model else ())}"
        case "literal_error":
            known = re.findall(r"'([^']*)'", item["ctx"]["expected"])
            is_text = isinstance(value, str)
            given, near = (repr(show_text(value)), did_you_mean(value, known, "")) if is_text else (describe(value), "")
            return f"{name} is {given}, but must be one of {', '.join(known)}{near}"
        case "string_type":
            hint = "; put it in quotes" if isinstance(value, bool | int | float) else ""
            return f"{name} must be text, not {describe(value)}{hint}"
        case "tuple_type" | "int_type" | "bool_type" as wanted:
            listed = f"a list of {path[-1]}" if path[-1] in _LISTS else "a name or a list of names"
            words = {"tuple_type": listed, "int_type": "a whole number", "bool_type": "true or false"}
            return f"{name} must be {words[wanted]}, not {describe(value)}"
        case "model_type" | "dict_type":
            if _find_model(kind, path) is Reference:
                name = f"{name} is a secret: write where it is, {{env: NAME}} or {{file: PATH}}; it"
            return f"{name} must be a mapping of keys and values, not {describe(value)}"
    return f"{name}{' ' if item['type'] == 'refused' else ': '}{item['msg']}"


def _find_model(kind: FileKind, place: tuple[PathStep, ...]) -> type[Model] | None:
    """Return the model that stands at a place of a kind of file; None for other mappings."""
    for pattern, model in kind.models.items():
        if len(pattern) == len(place) and all(at in ("*", str(step)) for at, step in zip(pattern, place, strict=True)):
            return model
    return None
