"""Read expectation suites: a file in GX's own format -> frozen rules, with every fault at its line.

Nothing here imports GX or Spark: `enrich validate` reads all suites in milliseconds. `enrich.quality.gx.check_with_gx`
is the second opinion of GX's own models.

GX writes a row condition as text (``col("n") > 3`` with ``condition_parser: great_expectations``) or as nested mappings
(``{"type": "comparison", ...}``); both are read into one. Text without GX's own parser would be handed to Spark as it
stands, ``reflect(...)`` included, so such text goes through the allow-list of ``enrich.project.expressions``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from enrich.base.errors import ConfigError, Fault, did_you_mean
from enrich.base.suites import (
    ACTIONS,
    CHANGED,
    FAIL,
    QUARANTINE,
    SCOPES,
    SEVERITIES,
    TARGET,
    WARN,
    Condition,
    Suite,
    SuiteRule,
    Type,
    resolve_column,
)
from enrich.project.catalogue import COMMON, CONDITION, TYPES
from enrich.project.checks import find_threshold_fault
from enrich.project.expressions import check_condition
from enrich.project.expressions.lexer import is_relative_time, tokenize
from enrich.project.shape import describe
from enrich.project.yamlfile import PathStep, Tree, read_tree

_SUITE_KEYS = ("name", "expectations", "id", "meta", "notes", "suite_parameters", "ge_cloud_id", "data_context_id")
_RULE_KEYS = (
    "type", "kwargs", "severity", "meta", "id", "notes", "description", "rendered_content", "expectation_context",
    "success_on_last_run", "ge_cloud_id",
)  # fmt: skip
_ENRICH_KEYS = ("action", "tolerate", "scope")
_OLD = {"expectation_suite_name": "name", "expectation_type": "type", "data_asset_type": None}
MAX_PARTS = 100
"""GX's own limit."""

OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "IN", "NOT_IN")
_PARSERS = ("great_expectations", "great_expectations__experimental__", "spark")
_FORMS = {
    "comparison": {"column", "operator", "parameter"},
    "nullity": {"column", "is_null"},
    "and": {"conditions"},
    "or": {"conditions"},
    "pass_through": {"pass_through_filter"},
}

_LAMBDA = re.compile(r"(?:\([\w\s,]*\)|\w+)\s*->")
_WORD = re.compile(r"\w+")
_SPACE = r"[ \t\r\n]*"
_TEXT_FORM = re.compile(
    rf'{_SPACE}col\("(?P<column>[^"\r\n]+)"\){_SPACE}(?:'
    rf"(?P<notnull>\.notnull\(\))|(?P<op>>=|<=|==|!=|>|<){_SPACE}(?:"
    rf"(?P<number>[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
    rf"|(?P<date>date{_SPACE}\({_SPACE})?(?P<quote>[\"'])(?P<value>[^\"']+)(?P=quote)(?(date){_SPACE}\))"
    rf"))(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)


def load_suite(path: Path, name: str) -> Suite:
    """Read a suite file, JSON or YAML; messages call it ``name``, e.g. ``expectations/orders.json``.

    Raises:
        ConfigError: With one fault, at ``file:line``, for each thing that is refused.
    """
    reader = _Reader(read_tree(path, name))
    suite = reader.suite()
    if reader.faults or suite is None:
        raise ConfigError.of(reader.faults)
    return suite


def check_columns(suite: Suite, names: Sequence[str]) -> list[Fault]:
    """Return a fault for each column that a rule needs and that is not among ``names``, the target's columns.

    A name is taken literally first; then as GX writes one with a dot, in backticks; then as a path into a struct.
    """
    faults: list[Fault] = []
    for rule in suite.rules:
        missing = [column for column in rule.list_judged_columns() if resolve_column(column, names) is None]
        for column in missing:
            message = f"{rule.type}: the job selects no column {column!r}{did_you_mean(column, names)}"
            faults.append(Fault(message, _locate(rule, column)))
        if missing:
            continue
        texts = [
            leaf["pass_through_filter"] for leaf in list_leaves(rule.row_condition) if "pass_through_filter" in leaf
        ]
        try:
            for text in texts:
                check_condition(text, names)
        except ConfigError as error:
            at = rule.places.get("row_condition", rule.where)
            faults.append(Fault(f"{rule.type}: row_condition: {error}", at))
    return faults


def _locate(rule: SuiteRule, column: str) -> str:
    """Return where the file names ``column``."""
    for argument in ("column", "column_A", "column_B", "column_list"):
        value = rule.kwargs.get(argument)
        if value == column or (isinstance(value, list) and column in value):
            return rule.places.get(argument, rule.where)
    return rule.places.get("row_condition", rule.where)


class _Reader:
    """Builds a suite from the plain values of its file and collects what is wrong."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.faults: list[Fault] = []

    def fault(self, message: str, *path: PathStep) -> None:
        """Note one fault at the node ``path``."""
        self.faults.append(Fault(message, self.tree.at(*path)))

    def suite(self) -> Suite | None:
        """Return the suite, or None when the file is none at all."""
        data = self.tree.value
        if not isinstance(data, dict):
            self.fault(f"a suite must be a mapping with 'name' and 'expectations', not {describe(data)}")
            return None
        self.check_keys(data, _SUITE_KEYS, ())
        name, entries = data.get("name"), data.get("expectations")
        if "name" not in data:
            self.fault("'name' is missing")
        elif not isinstance(name, str) or not name:
            self.fault("'name' must be text", "name")
        self.check_meta(data.get("meta"), "meta")
        if "expectations" not in data:
            self.fault("'expectations' is missing")
        elif not isinstance(entries, list):
            self.fault(f"'expectations' must be a list, not {describe(entries)}", "expectations")
        rules = [self.rule(index, entry) for index, entry in enumerate(entries if isinstance(entries, list) else [])]
        return Suite(tuple(rule for rule in rules if rule is not None))

    def check_keys(self, data: Mapping[str, Any], known: Sequence[str], path: tuple[PathStep, ...]) -> None:
        """Refuse keys that GX does not write and enrich does not know."""
        for key in data:
            if key in known:
                continue
            hint = did_you_mean(key, known)
            if key in _OLD:
                new = _OLD[key]
                hint = " of Great Expectations before 1.0" + (f"; write {new!r}" if new else "; leave it out")
            self.fault(f"unknown key {key!r}{hint}", *path, key)

    def check_meta(self, meta: Any, *path: PathStep) -> None:
        """Refuse a ``meta`` that is no mapping, which GX would not load."""
        if meta is not None and not isinstance(meta, dict):
            self.fault(f"'meta' must be a mapping, not {describe(meta)}", *path)

    def rule(self, index: int, entry: Any) -> SuiteRule | None:
        """Return one rule, or None with faults."""
        path: tuple[PathStep, ...] = ("expectations", index)
        if not isinstance(entry, dict):
            self.fault(f"an expectation must be a mapping with 'type' and 'kwargs', not {describe(entry)}", *path)
            return None
        before = len(self.faults)
        self.check_keys(entry, _RULE_KEYS, path)
        spec = self.spec(entry, path)
        severity = entry.get("severity", "critical")
        if severity not in SEVERITIES:
            near = did_you_mean(severity, SEVERITIES) if isinstance(severity, str) else f": {', '.join(SEVERITIES)}"
            self.fault(f"'severity' must be one of GX's{near}", *path, "severity")
        self.check_meta(entry.get("meta"), *path, "meta")
        kwargs = entry.get("kwargs", {})
        if not isinstance(kwargs, dict):
            self.fault(f"'kwargs' must be a mapping, not {describe(kwargs)}", *path, "kwargs")
            return None
        if spec is None:
            return None
        for message, argument in check_kwargs(entry["type"], spec, kwargs):
            self.fault(message, *path, "kwargs", *([argument] if argument else []))
        condition = None
        try:
            given = read_condition(kwargs.get("row_condition"), kwargs.get("condition_parser"))
            condition = None if spec.unconditional else given
        except ConfigError as error:
            argument = "condition_parser" if "condition_parser" in error.message else "row_condition"
            self.fault(error.message, *path, "kwargs", argument)
        action, tolerate, scope = self.settings(entry, spec, path)
        word = find_relative_time(kwargs, condition)
        if action == QUARANTINE and word is not None:
            self.fault(
                f"{word!r} does not go with quarantine: beside a date Spark reads it as the time of the run, and the"
                " table would depend on it; use warn or fail",
                *path, "kwargs",
            )  # fmt: skip
        if len(self.faults) > before:
            return None
        own = {key: value for key, value in kwargs.items() if key not in COMMON | CONDITION and value is not None}
        places = {key: self.tree.at(*path, "kwargs", key) for key in kwargs}
        place = self.tree.at(*path)
        named = list_condition_columns(condition)
        return SuiteRule(
            index, entry["type"], own, action, tolerate, scope, condition, place, places, named, word is None, spec=spec
        )

    def spec(self, entry: Mapping[str, Any], path: tuple[PathStep, ...]) -> Type | None:
        """Return what is known of the rule's type; None, with a fault, when enrich does not run it."""
        kind = entry.get("type")
        if "type" not in entry:
            if "expectation_type" not in entry:
                self.fault("'type' is missing", *path)
        elif not isinstance(kind, str):
            self.fault(f"'type' must be text, not {describe(kind)}", *path, "type")
        elif kind not in TYPES:
            near = did_you_mean(kind, [name for name, spec in TYPES.items() if spec.refused is None])
            self.fault(f"unknown expectation type {kind!r}{near}", *path, "type")
        elif reason := TYPES[kind].refused:
            self.fault(f"enrich does not run {kind}: {reason}", *path, "type")
        else:
            return TYPES[kind]
        return None

    def settings(
        self, entry: Mapping[str, Any], spec: Type, path: tuple[PathStep, ...]
    ) -> tuple[str, int | float | None, str]:
        """Return action, tolerate and scope: from ``meta.enrich``, or by default."""
        meta = entry.get("meta")
        own = meta.get("enrich", {}) if isinstance(meta, dict) else {}
        place = (*path, "meta", "enrich")
        action = FAIL if entry.get("severity", "critical") == "critical" else WARN
        scope = TARGET if not spec.is_row or spec.windowed else CHANGED
        if not isinstance(own, dict):
            self.fault(f"'meta.enrich' must be a mapping, not {describe(own)}", *place)
            return action, None, scope
        self.check_keys(own, _ENRICH_KEYS, place)
        action = self.word(own, "action", ACTIONS, action, place)
        scope = self.word(own, "scope", SCOPES, scope, place)
        tolerate = own.get("tolerate")
        if action == QUARANTINE and not spec.single:
            self.fault(
                f"'quarantine' is for rules that judge a row by itself; {entry['type']} does not: use warn or fail",
                *place, *(["action"] if "action" in own else []),
            )  # fmt: skip
        if "tolerate" in own:
            wrong = find_threshold_fault("tolerate", tolerate)
            if wrong is not None:
                self.fault(wrong, *place, "tolerate")
            if action == QUARANTINE:
                why = "with quarantine the table would depend on how its history is cut into runs"
                self.fault(f"'tolerate' goes with warn and fail: {why}", *place, "tolerate")
            elif spec.verdict_only or not spec.is_row:
                message = "'tolerate' counts rows that fail, and this expectation has one verdict for all rows"
                self.fault(message, *place, "tolerate")
        return action, tolerate, scope

    def word(
        self, own: Mapping[str, Any], key: str, known: Sequence[str], default: str, place: tuple[PathStep, ...]
    ) -> str:
        """Return one setting that is a word out of a list."""
        value = own.get(key, default)
        if isinstance(value, str) and value in known:
            return value
        near = did_you_mean(value, known) if isinstance(value, str) else f"; it can be {', '.join(known)}"
        shown = repr(value) if isinstance(value, str) else describe(value)
        self.fault(f"'meta.enrich.{key}' is {shown}{near}", *place, key)
        return default


def check_kwargs(kind: str, spec: Type, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield ``(message, argument)`` for what is wrong with the arguments of one expectation."""
    known = spec.arguments()
    for name in kwargs:
        if name not in known and name not in COMMON | CONDITION:
            near = did_you_mean(name, [*known, "row_condition"])
            yield f"{kind} has no argument {name!r}{near}", name
    for name in spec.required:
        if kwargs.get(name) is None:
            yield f"{kind} needs the argument {name!r}: {spec.required[name].text}", name if name in kwargs else None
    for name, value in kwargs.items():
        if name not in known or value is None:
            continue
        if isinstance(value, dict) and "$PARAMETER" in value:
            yield f"{name!r}: suite parameters get their values at run time, and a job has none; write the value", name
        elif not known[name].accepts(value):
            yield f"{name!r} must be {known[name].text}", name
    if spec.either and all(kwargs.get(name) is None for name in spec.either):
        yield f"{kind} needs {' or '.join(map(repr, spec.either))}", None


def read_condition(value: Any, parser: Any) -> Condition | None:
    """Return a rule's ``row_condition`` in GX's mapping form, or None when it has none.

    Raises:
        ConfigError: The condition, or its ``condition_parser``, is refused; the message names no value of it.
    """
    if parser == "pandas":
        raise ConfigError("condition_parser 'pandas' is not run by Spark; write row_condition in GX's own form")
    if parser is not None and parser not in _PARSERS:
        near = did_you_mean(parser, _PARSERS) if isinstance(parser, str) else ""
        raise ConfigError(f"unknown condition_parser{near}")
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return _read_spark(value) if parser in (None, "spark") else _read_text(value)
    if not isinstance(value, dict):
        raise ConfigError(f"row_condition must be text or a mapping, not {describe(value)}")
    condition = _read_mapping(value, parents=())
    if sum(1 for _ in list_leaves(condition)) > MAX_PARTS:
        raise ConfigError(f"row_condition has more than {MAX_PARTS} parts")
    return condition


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
            text = leaf["pass_through_filter"]
            names += [path[0] for path in sorted(check_condition(text, _find_names(text)).paths)]
        else:
            names.append(leaf["column"]["name"])
    return tuple(dict.fromkeys(names))


def _read_spark(text: str) -> Condition:
    """Check Spark SQL text against the allow-list of functions; its columns are checked once the job's are known."""
    try:
        check_condition(text, _find_names(text))
    except ConfigError as error:
        raise ConfigError(f"row_condition: {error}") from None
    return {"type": "pass_through", "pass_through_filter": text}


def _find_names(text: str) -> set[str]:
    """Return every word of a text that may be a column, but for the variables of its lambdas."""
    tokens = tokenize(text)
    variables = {name for match in _LAMBDA.finditer(text) for name in _WORD.findall(match.group())}
    return {token.name for token in tokens if token.type in ("word", "quoted")} - variables


def _read_text(text: str) -> Condition:
    """Read GX's text form; GX itself ignores what follows the first comparison, which is refused here."""
    found = _TEXT_FORM.fullmatch(text)
    if found is None:
        raise ConfigError(
            'row_condition is not in GX\'s form: col("name") > 3, col("name") == "text" or col("name").notnull()'
        )
    if found["rest"].strip():
        raise ConfigError(
            "row_condition continues after its first comparison, and Great Expectations would ignore the rest; "
            'write a mapping of type "and" or "or"'
        )
    column = {"name": found["column"]}
    if found["notnull"]:
        return {"type": "nullity", "column": column, "is_null": False}
    if (number := found["number"]) is None:
        parameter: Any = found["value"].lstrip(" \t")
    else:
        parameter = int(number) if number.lstrip("+-").isdecimal() else float(number)
    return {"type": "comparison", "column": column, "operator": found["op"], "parameter": parameter}


def _read_mapping(value: Any, parents: tuple[str, ...]) -> Condition:
    """Check one mapping of a condition and what is nested in it."""
    if not isinstance(value, dict):
        raise ConfigError(f"a condition must be a mapping, not {describe(value)}")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _FORMS:
        near = did_you_mean(kind, _FORMS) if isinstance(kind, str) else f"; it can be {', '.join(_FORMS)}"
        raise ConfigError(f"row_condition: unknown or missing 'type'{near}")
    _check_keys(value, kind)
    if kind in ("and", "or"):
        return _read_group(value, kind, parents)
    if kind == "pass_through":
        if not isinstance(text := value["pass_through_filter"], str):
            raise ConfigError("row_condition: 'pass_through_filter' must be text")
        return _read_spark(text)
    column = value["column"]
    name = column.get("name") if isinstance(column, dict) and set(column) == {"name"} else None
    if not isinstance(name, str) or not name:
        raise ConfigError("row_condition: 'column' must be a mapping with the column's 'name'")
    if kind == "nullity":
        if not isinstance(value["is_null"], bool):
            raise ConfigError("row_condition: 'is_null' must be true or false")
        return {"type": kind, "column": column, "is_null": value["is_null"]}
    operator, parameter = value["operator"], value["parameter"]
    if operator not in OPERATORS:
        raise ConfigError(f"row_condition: unknown 'operator'; it can be {', '.join(OPERATORS)}")
    _check_parameter(operator, parameter)
    return {"type": kind, "column": column, "operator": operator, "parameter": parameter}


def _check_keys(value: Mapping[str, Any], kind: str) -> None:
    """Refuse missing and unknown keys of a condition's mapping."""
    known = _FORMS[kind] | {"type"}
    for key in value:
        if key not in known:
            near = did_you_mean(key, sorted(known))
            raise ConfigError(f"row_condition of type {kind!r}: unknown key {key!r}{near}")
    for key in sorted(known):
        if key not in value:
            raise ConfigError(f"row_condition of type {kind!r}: {key!r} is missing")


def _read_group(value: Mapping[str, Any], kind: str, parents: tuple[str, ...]) -> Condition:
    """Check the parts of an ``and`` or ``or``; GX allows no ``or`` within another group."""
    if kind == "or" and parents:
        raise ConfigError(f"row_condition: Great Expectations allows no 'or' within {parents[-1]!r}")
    parts = value["conditions"]
    if not isinstance(parts, list) or not parts:
        raise ConfigError(f"row_condition of type {kind!r}: 'conditions' must be a list of at least one condition")
    return {"type": kind, "conditions": [_read_mapping(part, (*parents, kind)) for part in parts]}


def _check_parameter(operator: str, parameter: Any) -> None:
    """Refuse what GX would turn into broken SQL: it writes the parameter as Python would print it."""
    values = parameter if operator in ("IN", "NOT_IN") else [parameter]
    if not isinstance(values, list) or not values:
        raise ConfigError(f"row_condition: 'parameter' of {operator} must be a list of at least one value")
    for value in values:
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise ConfigError(
                "row_condition: 'parameter' must be a text, a number or a boolean; test for null with type 'nullity'"
            )
