"""Read expectation suites: a file in GX's own format -> frozen rules, with every fault at its line.

Nothing here imports GX or Spark: `enrich validate` reads all suites in milliseconds.

GX writes a row condition as text (``col("n") > 3`` with ``condition_parser: great_expectations``) or as nested mappings
(``{"type": "comparison", ...}``); both are read into one. Text without GX's own parser would be handed to Spark as it
stands, ``reflect(...)`` included, so such text goes through the allow-list of ``enrich.project.expressions``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, StrictStr

from enrich.base import suites
from enrich.base.errors import ConfigError, Fault
from enrich.base.suites import QUARANTINE, Condition, Suite, SuiteRule, Type, resolve_column
from enrich.base.words import did_you_mean
from enrich.project.catalogue import BOUND, COMMON, CONDITION, EITHER, REFUSED, TYPES, can_compare
from enrich.project.checks import find_threshold_fault
from enrich.project.expressions import check_condition, parse_expression
from enrich.project.expressions.lexer import is_relative_time
from enrich.project.expressions.reading import AnyName
from enrich.project.kinds.syntax import list_names
from enrich.project.models import Model, Threshold, list_models
from enrich.project.shape import FileKind, build_model
from enrich.project.yamlfile import PathStep, Tree, read_tree

MAX_PARTS = 100  # GX's own limit of a row condition
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "IN", "NOT_IN")
_PARSERS = ("great_expectations", "great_expectations__experimental__", "spark")
_SPACE = r"[ \t\r\n]*"
_TEXT_FORM = re.compile(
    rf'{_SPACE}col\("(?P<column>[^"\r\n]+)"\){_SPACE}(?:'
    rf"(?P<notnull>\.notnull\(\))|(?P<op>>=|<=|==|!=|>|<){_SPACE}(?:"
    rf"(?P<number>[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
    rf"|(?P<date>date{_SPACE}\({_SPACE})?(?P<quote>[\"'])(?P<value>[^\"']+)(?P=quote)(?(date){_SPACE}\))"
    rf"))(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)

_IGNORED = (
    "id", "notes", "description", "rendered_content", "expectation_context", "success_on_last_run", "ge_cloud_id",
    "data_context_id", "suite_parameters",
)  # fmt: skip
"""Keys that GX writes and that decide nothing; they may hold anything."""


class _Settings(Model):
    action: Literal["warn", "quarantine", "fail"] | None = None
    tolerate: Threshold | None = None
    scope: Literal["changed", "target"] | None = None


class _Meta(Model, extra="allow"):
    enrich: _Settings = _Settings()


class _Rule(Model):
    type: StrictStr
    kwargs: dict[str, Any] = Field({})
    severity: Literal["critical", "warning", "info"] = "critical"
    meta: _Meta = _Meta()


class _SuiteFile(Model):
    name: Any = None
    expectations: tuple[_Rule, ...]
    meta: dict[str, Any] = Field({})


_FILE = FileKind(
    list_models(_SuiteFile),
    {},
    # Where a file may hold anything, nulls and line breaks included.
    is_data=lambda path: (
        path in (("name",), ("meta",))
        or (path[:1] == ("expectations",) and path[2:] == ("kwargs",))
        or (path[:1] == ("expectations",) and path[2:3] == ("meta",) and len(path) == 4 and path[3] != "enrich")
    ),
)


def load_suite(path: Path, name: str) -> Suite:
    """Read a suite file, JSON or YAML; messages call it ``name``. A ConfigError has every fault and its line."""
    tree = read_tree(path, name)
    data = _drop_ignored(tree.value)
    if isinstance(entries := tree.mapping().get("expectations"), list):
        data["expectations"] = entries = [_drop_ignored(entry) for entry in entries]
    _, faults = build_model(_SuiteFile, replace(tree, value=data), _FILE)
    if isinstance(data, dict) and not (isinstance(data.get("name"), str) and data["name"]):
        faults.append(Fault("'name' must be text", tree.at("name")))
    rules = []
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and isinstance(entry.get("kwargs", {}), dict):
            reader = _RuleReader(tree, index, entry)
            rules.append(reader.read())
            faults += reader.faults
    if faults:
        raise ConfigError.of(faults)
    return Suite(tuple(rule for rule in rules if rule is not None))


def _drop_ignored(value: Any) -> Any:
    """Leave out what decides nothing, and a ``meta`` that GX writes as null."""
    if not isinstance(value, dict):
        return value
    return {k: each for k, each in value.items() if k not in _IGNORED and (k != "meta" or each is not None)}


def check_columns(suite: Suite, names: Sequence[str]) -> list[Fault]:
    """Return a fault for each column that a rule needs and that is not among ``names``, the target's columns.

    A name is taken literally first; then as GX writes one with a dot, in backticks; then as a path into a struct.
    """
    faults: list[Fault] = []
    for rule in suite.rules:
        in_condition = rule.places.get("row_condition", rule.where)
        missing = [column for column in rule.list_judged_columns() if resolve_column(column, names) is None]
        for column in missing:
            naming = rule.places.keys() & {"column", "column_A", "column_B", "column_list"}
            named = {name: rule.places[key] for key in naming for name in list_names(rule.kwargs[key])}
            message = f"{rule.type}: the job selects no column {column!r}{did_you_mean(column, names)}"
            faults.append(Fault(message, named.get(column, in_condition)))
        for leaf in list_leaves(rule.row_condition) if not missing else ():
            if "pass_through_filter" in leaf:
                try:
                    check_condition(leaf["pass_through_filter"], names)
                except ConfigError as error:
                    faults.append(Fault(f"{rule.type}: row_condition: {error}", in_condition))
    return faults


@dataclass(frozen=True)
class _RuleReader:
    """Builds one rule from the plain values of its file, so that a fault elsewhere in the file hides none of its own.

    What has the wrong shape is skipped: ``shape`` has said so already.
    """

    tree: Tree
    index: int
    entry: Mapping[str, Any]
    faults: list[Fault] = field(default_factory=list)

    def fault(self, message: str, *path: PathStep) -> None:
        self.faults.append(Fault(message, self.tree.at("expectations", self.index, *path)))

    def read(self) -> SuiteRule | None:
        """Return the rule; None when enrich does not run its type."""
        kind, kwargs = self.entry.get("type"), self.entry.get("kwargs", {})
        spec = TYPES.get(kind) if isinstance(kind, str) else None
        if not isinstance(kind, str) or spec is None:
            if kind in REFUSED:
                self.fault(f"enrich does not run {kind}: {REFUSED[kind]}", "type")
            elif isinstance(kind, str):
                self.fault(f"unknown expectation type {kind!r}{did_you_mean(kind, TYPES)}", "type")
            return None
        for message, argument in check_kwargs(kind, spec, kwargs):
            self.fault(message, "kwargs", *([argument] if argument else []))
        condition = None
        try:
            condition = read_condition(kwargs.get("row_condition"), kwargs.get("condition_parser"))
        except ConfigError as error:
            argument = "condition_parser" if "condition_parser" in error.message else "row_condition"
            self.fault(error.message, "kwargs", argument)
        condition = None if spec.unconditional else condition
        meta = self.entry.get("meta")
        own = meta["enrich"] if isinstance(meta, dict) and isinstance(meta.get("enrich"), dict) else {}
        action = own.get("action", suites.FAIL if self.entry.get("severity", "critical") == "critical" else suites.WARN)
        place = ("meta", "enrich", "tolerate")
        if action == QUARANTINE and not spec.single:
            message = f"'quarantine' is for rules that judge a row by itself; {kind} does not: use warn or fail"
            self.fault(message, *place[:2], "action")
        if own.get("tolerate") is not None:
            if wrong := find_threshold_fault("tolerate", own["tolerate"]):
                self.fault(wrong, *place)
            if action == QUARANTINE:
                why = "with quarantine the table would depend on how its history is cut into runs"
                self.fault(f"'tolerate' goes with warn and fail: {why}", *place)
            elif spec.verdict_only or not spec.is_row:
                message = "'tolerate' counts rows that fail, and this expectation has one verdict for all rows"
                self.fault(message, *place)
        word = find_relative_time(kwargs, condition)
        if action == QUARANTINE and word is not None:
            why = "beside a date Spark reads it as the time of the run, and the table would depend on it"
            self.fault(f"{word!r} does not go with quarantine: {why}; use warn or fail", "kwargs")
        return SuiteRule(
            self.index,
            kind,
            {key: value for key, value in kwargs.items() if key not in COMMON | CONDITION and value is not None},
            action,
            own.get("tolerate"),
            own.get("scope", suites.TARGET if not spec.is_row or spec.windowed else suites.CHANGED),
            condition,
            self.tree.at("expectations", self.index),
            {key: self.tree.at("expectations", self.index, "kwargs", key) for key in kwargs},
            list_condition_columns(condition),
            word is None,
            spec=spec,
        )


def check_kwargs(kind: str, spec: Type, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield ``(message, argument)`` for what is wrong with the arguments of one expectation."""
    known = spec.arguments()
    for name, value in kwargs.items():
        if name not in known:
            if name not in COMMON | CONDITION:
                yield f"{kind} has no argument {name!r}{did_you_mean(name, [*known, 'row_condition'])}", name
        elif isinstance(value, dict) and "$PARAMETER" in value:
            yield f"{name!r}: suite parameters get their values at run time, and a job has none; write the value", name
        elif value is not None and not known[name].accepts(value):
            yield f"{name!r} must be {known[name].text}", name
    ends = [kwargs[each] for each in EITHER if each in known and BOUND.accepts(kwargs.get(each))]
    if len(ends) == 2 and not can_compare(*ends):
        yield "'min_value' and 'max_value' must be two numbers, two dates or two timestamps", "max_value"
    for name, wanted in spec.required.items():
        if kwargs.get(name) is None:
            yield f"{kind} needs the argument {name!r}: {wanted.text}", name if name in kwargs else None
    if spec.either and all(kwargs.get(name) is None for name in spec.either):
        yield f"{kind} needs {' or '.join(map(repr, spec.either))}", None


def _check_mapping(value: Any, *, in_group: bool = False) -> None:
    """Refuse what is none of GX's forms of a condition; GX allows no ``or`` within a group."""
    match value:
        case {"type": "and" | "or" as kind, "conditions": [_, *_] as parts, **rest} if not (in_group and kind == "or"):
            for part in parts:
                _check_mapping(part, in_group=True)
            is_known = not rest
        case {"type": "pass_through", "pass_through_filter": str(text), **rest}:
            is_known = not rest
            parse_expression(text, AnyName())
        case {"type": "nullity", "column": {"name": str(name), **others}, "is_null": bool(), **rest}:
            is_known = bool(name) and not others and not rest
        case {"type": "comparison", "column": {"name": str(name), **others}, "operator": operator, **rest}:
            several = operator in ("IN", "NOT_IN")
            values: Any = rest.get("parameter") if several else [rest.get("parameter")]
            is_known = bool(name) and not others and rest.keys() == {"parameter"} and operator in _OPERATORS
            is_known = is_known and isinstance(values, list) and bool(values)
            # GX writes a parameter as Python would print it; a list has texts, or numbers.
            is_known = is_known and all(
                isinstance(x, str | int) or (isinstance(x, float) and math.isfinite(x)) for x in values
            )
            kinds = {type(x) for x in values} if is_known and several else set[type]()
            is_known = is_known and (kinds <= {int, float} or kinds == {str})
        case _:
            is_known = False
    if not is_known:
        raise ConfigError(
            "none of GX's forms: {type: comparison, column: {name}, operator, parameter} with the operators"
            f" {', '.join(_OPERATORS)} and a text, a number or a boolean (of IN, NOT_IN a list of texts or of numbers);"
            " {type: nullity, column: {name}, is_null}; {type: pass_through, pass_through_filter};"
            " {type: and (or: or), conditions}, with no 'or' within another group"
        )


def read_condition(value: Any, parser: Any) -> Condition | None:
    """Return a rule's ``row_condition`` in GX's mapping form, or None; a ConfigError names no value of it."""
    if parser == "pandas":
        raise ConfigError("condition_parser 'pandas' is not run by Spark; write row_condition in GX's own form")
    if parser is not None and parser not in _PARSERS:
        near = did_you_mean(parser, _PARSERS) if isinstance(parser, str) else ""
        raise ConfigError(f"unknown condition_parser{near}")
    if value is None or value == "":
        return None
    if isinstance(value, str):
        is_spark = parser in (None, "spark")
        value = {"type": "pass_through", "pass_through_filter": value} if is_spark else _read_text(value)
    try:
        _check_mapping(value)
    except ConfigError as error:
        raise ConfigError(f"row_condition: {error}") from None
    condition: Condition = value
    if sum(1 for _ in list_leaves(condition)) > MAX_PARTS:
        raise ConfigError(f"row_condition has more than {MAX_PARTS} parts")
    return condition


def _read_text(text: str) -> Condition:
    """Read GX's text form; GX itself ignores what follows the first comparison, which is refused here."""
    found = _TEXT_FORM.fullmatch(text)
    if found is None or found["rest"].strip():
        raise ConfigError(
            'row_condition is not in GX\'s form: col("name") > 3, col("name") == "text" or col("name").notnull(), and'
            ' nothing behind it, which Great Expectations would ignore; more is a mapping of type "and" or "or"'
        )
    column = {"name": found["column"]}
    if found["notnull"]:
        return {"type": "nullity", "column": column, "is_null": False}
    if (number := found["number"]) is None:
        parameter: Any = found["value"].lstrip(" \t")
    else:
        parameter = int(number) if number.lstrip("+-").isdecimal() else float(number)
    return {"type": "comparison", "column": column, "operator": found["op"], "parameter": parameter}


def list_leaves(condition: Condition | None) -> Iterator[Condition]:
    """Yield the comparisons, null tests and Spark texts of a condition."""
    if condition is not None and condition["type"] in ("and", "or"):
        for part in condition["conditions"]:
            yield from list_leaves(part)
    elif condition is not None:
        yield condition


def find_relative_time(kwargs: Mapping[str, Any], condition: Condition | None) -> str | None:
    """Return a value that a rule compares its rows with and that Spark may read as the time of the run, or None."""
    values: list[Any] = [kwargs.get("value_set"), kwargs.get("value_pairs_set")]
    values += [leaf.get("parameter") for leaf in list_leaves(condition)]
    while values:
        value = values.pop()
        if isinstance(value, list):
            values += value
        elif isinstance(value, str) and is_relative_time(value):
            return value
    return None


def list_condition_columns(condition: Condition | None) -> tuple[str, ...]:
    """Return the columns that a condition names, in order, as the suite writes them."""
    names: list[str] = []
    for leaf in list_leaves(condition):
        if leaf["type"] == "pass_through":
            names += [path[0] for path in sorted(parse_expression(leaf["pass_through_filter"], AnyName()).paths)]
        else:
            names.append(leaf["column"]["name"])
    return tuple(dict.fromkeys(names))
