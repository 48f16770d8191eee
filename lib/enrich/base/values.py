"""Values that Spark cannot compute with: a text that is no number, a division by zero, a place that no list has.

Under ANSI rules each ends the run. Spark says so with an SQLSTATE of class 22, "data exception", and mostly with the
part of the expression that failed. Its texts quote the value, so nothing of them is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from enrich.base.errors import show_text

_DATA_EXCEPTION = "22"
_MORE = ("DUPLICATED_MAP_KEY", "INVALID_FORMAT", "COLLECTION_SIZE_LIMIT_EXCEEDED")
"""Conditions of values that have an SQLSTATE of another class."""
_OTHERS = ("DELTA_", "FAILED_READ_FILE")
"""Conditions of logs and files, some of which have an SQLSTATE of that class, and what they are caused by."""
_MOST_CAUSES = 20

_CALL = re.compile(r"\s*([a-z_0-9]+)\s*\(", re.IGNORECASE)
_PARSING = re.compile(r"\b(to_date|to_timestamp|to_timestamp_ltz|to_timestamp_ntz)\s*\(", re.IGNORECASE)
_TRY = dict.fromkeys(
    ("cast", "date", "timestamp", "int", "bigint", "smallint", "tinyint", "float", "double"), "try_cast"
)
_TRY |= dict.fromkeys(("decimal", "boolean", "binary"), "try_cast") | {"mod": "try_mod", "pmod": "try_mod"}
_TRY |= {name: f"try_{name}" for name in ("element_at", "make_interval", "make_timestamp", "make_timestamp_ltz")}
_TRY |= {name: f"try_{name}" for name in ("make_timestamp_ntz", "parse_json", "parse_url", "to_binary", "to_date")}
_TRY |= {name: f"try_{name}" for name in ("to_number", "to_timestamp", "url_decode", "validate_utf8", "variant_get")}
_TRY |= {"to_timestamp_ltz": "try_to_timestamp", "to_timestamp_ntz": "try_to_timestamp"}
"""Function -> the one that gives null where it fails."""
_OPERATORS = {"/": "try_divide", "%": "try_mod", "*": "try_multiply", "+": "try_add", "-": "try_subtract"}
_BY_CONDITION = (
    ("ARRAY_INDEX_IN_ELEMENT_AT", "try_element_at"),
    ("INDEX_OF_ZERO", "try_element_at"),
    ("ARRAY_INDEX", "get"),
    ("CAST_", "try_cast"),
    ("CONVERSION_INVALID_INPUT", "try_cast"),
    ("CANNOT_PARSE_DECIMAL", "try_cast"),
    ("NUMERIC_VALUE_OUT_OF_RANGE", "try_cast"),
    ("CANNOT_PARSE_TIME", "try_to_timestamp"),
    ("DIVIDE", "try_divide"),
    ("REMAINDER", "try_mod"),
    ("UTF8", "try_validate_utf8"),
)


@dataclass(frozen=True)
class ValueFault:
    """What Spark says of a value that it cannot compute with.

    Attributes:
        condition: Spark's word for it, such as ``CAST_INVALID_INPUT``.
        fragment: The part of an expression that failed, as written; empty where Spark does not tell.
        start: Where that begins in the expression.
    """

    condition: str
    fragment: str = ""
    start: int = 0

    def is_in(self, text: str) -> bool:
        """Tell whether an expression has the part that failed, at its place."""
        return bool(self.fragment) and text.startswith(self.fragment, self.start)

    def suggest(self, text: str = "") -> str:
        """Return what helps; ``text`` is the expression, for where Spark does not tell what of it failed."""
        if function := suggest_function(self.condition, self.fragment or text):
            return f"{_rewrite(function, show_text(' '.join(self.fragment.split())))} gives null there instead"
        return "case when ... then ... end keeps such values out"


def suggest_function(condition: str, fragment: str = "") -> str | None:
    """Return the function that gives null where a condition arises, by the part of the expression that failed."""
    called = _CALL.match(fragment)
    if called and (function := _TRY.get(called[1].lower())):
        return function
    if condition.startswith("CANNOT_PARSE_TIME") and (parsing := _PARSING.search(fragment)):
        return _TRY[parsing[1].lower()]
    if re.search(r"\bdiv\b", fragment, re.IGNORECASE) and "ZERO" in condition:
        return "nullif"
    if "ZERO" in condition or ("OVERFLOW" in condition and not condition.startswith("CAST")):
        found = [name for sign, name in _OPERATORS.items() if sign in fragment]
        if found:
            return found[0]
    return next((function for word, function in _BY_CONDITION if word in condition), None)


def _rewrite(function: str, fragment: str) -> str:
    """Return the part that failed as it is written with another function, where that is simple."""
    called = _CALL.match(fragment)
    if called and function == f"try_{called[1].lower()}":
        return f"try_{fragment}"
    sign = next((sign for sign, name in _OPERATORS.items() if name == function and fragment.count(sign) == 1), None)
    if not called and sign is not None:
        left, right = fragment.split(sign)
        return f"{function}({left.strip()}, {right.strip()})"
    if function == "try_cast" and (found := re.fullmatch(r"([\w.`]+)\s*::\s*(\w+)", fragment)):
        return f"try_cast({found[1]} as {found[2]})"
    if function == "get" and (found := re.fullmatch(r"([\w.`]+)\[([^\[\]]+)\]", fragment)):
        return f"get({found[1]}, {found[2]})"
    return f"{function}(...)"


def find_value_fault(error: BaseException) -> ValueFault | None:
    """Return what is wrong with a value, where that is the cause of an error; None for every other cause."""
    for cause in _list_causes(error):
        condition = _ask(cause, "getCondition")
        if condition.startswith(_OTHERS):
            return None
        state = _ask(cause, "getSqlState")
        if condition and (state.startswith(_DATA_EXCEPTION) or condition.startswith(_MORE)):
            return ValueFault(condition, *_read_place(cause))
    return None


def _list_causes(error: BaseException) -> Iterator[Any]:
    """Yield what Java has raised, the causes last; where there is nothing of Java's, the error itself."""
    raised = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if raised is None:
        yield error
        return
    for _ in range(_MOST_CAUSES):
        if raised is None:
            return
        yield raised
        with suppress(Exception):  # nothing may hide the first error
            raised = raised.getCause()
            continue
        return


def _ask(cause: Any, method: str) -> str:
    """Return what an exception says; empty where it has no such word. Java objects take every name for a method."""
    try:
        return str(getattr(cause, method)() or "")
    except Exception:  # noqa: BLE001 - nothing may hide the first error
        return ""


def _read_place(cause: Any) -> tuple[str, int]:
    """Return the part of an expression's text that failed, and where it begins."""
    with suppress(Exception):  # as above; what is no text of an expression has no place
        for place in cause.getQueryContext():
            return str(place.fragment()), int(place.startIndex())
    return "", 0
