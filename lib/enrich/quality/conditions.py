"""Row conditions of a suite: GX's two notations read into one, checked without GX and without Spark.

GX writes a condition as text (``col("n") > 3`` with ``condition_parser: great_expectations``) or as nested mappings
(``{"type": "comparison", ...}``). Text without GX's own parser would be handed to Spark as it stands, ``reflect(...)``
included, so such text goes through the allow-list of ``enrich.expressions``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from enrich.base.errors import ConfigError, did_you_mean
from enrich.config.shape import describe
from enrich.expressions import check_condition
from enrich.expressions.lexer import is_relative_time, tokenize
from enrich.quality.suites import Condition

MAX_PARTS = 100
"""GX's own limit."""

OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "IN", "NOT_IN")
_PARSERS = ("great_expectations", "great_expectations__experimental__", "spark")
_KEYS = {
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


class ConditionError(ConfigError):
    """A row condition that is refused; the message names no value of it."""


def read_condition(value: Any, parser: Any) -> Condition | None:
    """Return a rule's ``row_condition`` in GX's mapping form, or None when it has none.

    Raises:
        ConditionError: The condition, or its ``condition_parser``, is refused.
    """
    if parser == "pandas":
        raise ConditionError("condition_parser 'pandas' is not run by Spark; write row_condition in GX's own form")
    if parser is not None and parser not in _PARSERS:
        near = did_you_mean(parser, _PARSERS) if isinstance(parser, str) else ""
        raise ConditionError(f"unknown condition_parser{near}")
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return _read_spark(value) if parser in (None, "spark") else _read_text(value)
    if not isinstance(value, dict):
        raise ConditionError(f"row_condition must be text or a mapping, not {describe(value)}")
    condition = _read_mapping(value, parents=())
    if sum(1 for _ in list_leaves(condition)) > MAX_PARTS:
        raise ConditionError(f"row_condition has more than {MAX_PARTS} parts")
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


def check_spark_texts(condition: Condition | None, names: Collection[str]) -> str | None:
    """Return what is wrong with the Spark SQL of a condition over the columns ``names``, or None."""
    try:
        for leaf in list_leaves(condition):
            if leaf["type"] == "pass_through":
                check_condition(leaf["pass_through_filter"], names)
    except ConfigError as error:
        return f"row_condition: {error}"
    return None


def _read_spark(text: str) -> Condition:
    """Check Spark SQL text against the allow-list of functions; its columns are checked once the job's are known."""
    try:
        check_condition(text, _find_names(text))
    except ConfigError as error:
        raise ConditionError(f"row_condition: {error}") from None
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
        raise ConditionError(
            'row_condition is not in GX\'s form: col("name") > 3, col("name") == "text" or col("name").notnull()'
        )
    if found["rest"].strip():
        raise ConditionError(
            "row_condition continues after its first comparison, and Great Expectations would ignore the rest; "
            'write a mapping of type "and" or "or"'
        )
    column = {"name": found["column"]}
    if found["notnull"]:
        return {"type": "nullity", "column": column, "is_null": False}
    parameter = found["value"].lstrip(" \t") if found["number"] is None else _parse_number(found["number"])
    return {"type": "comparison", "column": column, "operator": found["op"], "parameter": parameter}


def _parse_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _read_mapping(value: Any, parents: tuple[str, ...]) -> Condition:
    """Check one mapping of a condition and what is nested in it."""
    if not isinstance(value, dict):
        raise ConditionError(f"a condition must be a mapping, not {describe(value)}")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _KEYS:
        near = did_you_mean(kind, _KEYS) if isinstance(kind, str) else f"; it can be {', '.join(_KEYS)}"
        raise ConditionError(f"row_condition: unknown or missing 'type'{near}")
    _check_keys(value, kind)
    if kind in ("and", "or"):
        return _read_group(value, kind, parents)
    if kind == "pass_through":
        if not isinstance(text := value["pass_through_filter"], str):
            raise ConditionError("row_condition: 'pass_through_filter' must be text")
        return _read_spark(text)
    column = {"name": _read_column_name(value["column"])}
    if kind == "nullity":
        if not isinstance(value["is_null"], bool):
            raise ConditionError("row_condition: 'is_null' must be true or false")
        return {"type": kind, "column": column, "is_null": value["is_null"]}
    operator, parameter = value["operator"], value["parameter"]
    if operator not in OPERATORS:
        raise ConditionError(f"row_condition: unknown 'operator'; it can be {', '.join(OPERATORS)}")
    _check_parameter(operator, parameter)
    return {"type": kind, "column": column, "operator": operator, "parameter": parameter}


def _check_keys(value: Mapping[str, Any], kind: str) -> None:
    """Refuse missing and unknown keys of a condition's mapping."""
    known = _KEYS[kind] | {"type"}
    for key in value:
        if key not in known:
            near = did_you_mean(key, sorted(known))
            raise ConditionError(f"row_condition of type {kind!r}: unknown key {key!r}{near}")
    for key in sorted(known):
        if key not in value:
            raise ConditionError(f"row_condition of type {kind!r}: {key!r} is missing")


def _read_group(value: Mapping[str, Any], kind: str, parents: tuple[str, ...]) -> Condition:
    """Check the parts of an ``and`` or ``or``; GX allows no ``or`` within another group."""
    if kind == "or" and parents:
        raise ConditionError(f"row_condition: Great Expectations allows no 'or' within {parents[-1]!r}")
    parts = value["conditions"]
    if not isinstance(parts, list) or not parts:
        raise ConditionError(f"row_condition of type {kind!r}: 'conditions' must be a list of at least one condition")
    return {"type": kind, "conditions": [_read_mapping(part, (*parents, kind)) for part in parts]}


def _read_column_name(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) and set(value) == {"name"} else None
    if not isinstance(name, str) or not name:
        raise ConditionError("row_condition: 'column' must be a mapping with the column's 'name'")
    return name


def _check_parameter(operator: str, parameter: Any) -> None:
    """Refuse what GX would turn into broken SQL: it writes the parameter as Python would print it."""
    values = parameter if operator in ("IN", "NOT_IN") else [parameter]
    if not isinstance(values, list) or not values:
        raise ConditionError(f"row_condition: 'parameter' of {operator} must be a list of at least one value")
    for value in values:
        plain = isinstance(value, str | int | float) and not (isinstance(value, float) and not math.isfinite(value))
        if not plain:
            raise ConditionError(
                "row_condition: 'parameter' must be a text, a number or a boolean; test for null with type 'nullity'"
            )
