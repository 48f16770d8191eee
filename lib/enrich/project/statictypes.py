"""Find the types that expressions surely have, and what Spark surely refuses in them, without Spark.

``enrich validate`` starts no JVM, and types of columns are known from the logs of the tables. What is not sure is
``None``: the run, in which Spark types, finds the rest. ``tests/spark/test_types_of_expressions.py`` asks Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from enrich.base.schemas import WHOLE_NUMBERS, build_struct, fields_of, find, kind_of, name_of
from enrich.base.spec import DataType
from enrich.base.words import did_you_mean
from enrich.project.expressions.functions import RESULTS, split_words
from enrich.project.expressions.lexer import ExpressionError, locate, tokenize
from enrich.project.expressions.reading import (
    COMPARISONS,
    MATCHES,
    PREDICATES,
    TYPED,
    AnyName,
    Reading,
    list_nodes,
    name_operand,
    place_of,
)

if TYPE_CHECKING:
    from sqlglot import exp

Known = DataType | None  # None: not known for sure
_SUFFIXES = {"l": "long", "s": "short", "y": "byte", "d": "double", "f": "float"}
_FAMILIES = {
    **dict.fromkeys((*WHOLE_NUMBERS, "float", "double", "decimal"), "number"),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "time"),
    **{each: each for each in ("boolean", "string", "binary", "array", "map", "struct")},
}
"""Types that Spark treats alike; those that are not here go with everything."""
_NESTED = ("array", "map", "struct")
_COMPUTING = split_words(
    "Add Sub Mul Mod Div IntDiv BitwiseAnd BitwiseOr BitwiseXor BitwiseLeftShift BitwiseRightShift Neg BitwiseNot"
)
_COMPARING = COMPARISONS | split_words("And Or Not In Between Is Paren Column Identifier Literal")
_SHORT_DECIMAL = 18  # digits that Spark brings to one scale with each other and with whole numbers, without loss


def check_types(columns: Mapping[str, DataType], expression: str) -> DataType | None:
    """Return the type of an accepted expression over a frame of the given columns; None when only Spark can tell.

    What Spark refuses, as its parts have types that do not go together, is a ConfigError.
    """
    reading = Reading(tokenize(expression), AnyName())
    return _Types(reading, columns).get(reading.tree)


def only_compares(columns: Mapping[str, DataType], condition: str) -> bool:
    """Return whether an accepted condition does nothing but compare values of one type, and so cannot fail on any row.

    Where types differ, Spark casts one of the two, and a text may be no number.
    """
    reading = Reading(tokenize(condition), AnyName())
    try:
        types = _Types(reading, columns)
    except ExpressionError:
        return False
    for node in list_nodes(reading.tree):
        name = type(node).__name__
        if name not in _COMPARING and not (name == "Anonymous" and reading.function(node) == "("):
            return False
        kinds = [types.get(each) for each in node.iter_expressions() if types.get(each) != "void"]
        if name in ("And", "Or", "Not", "Is"):
            kinds += ["boolean"] if name != "Is" or len(kinds) > 1 else []
        elif name not in COMPARISONS | {"In", "Between"}:
            continue
        if any(_find_exact(kind) != _find_exact(kinds[0]) or kind is None for kind in kinds):
            return False
    return types.get(reading.tree) == "boolean"


def _find_family(kind: Known) -> str | None:
    return None if kind is None else _FAMILIES.get(kind_of(kind).partition("(")[0])


class _Types:
    """The types of the nodes of one expression, each after those of its parts."""

    def __init__(self, reading: Reading, columns: Mapping[str, DataType]) -> None:
        self._reading = reading
        self._columns = columns
        self._kinds: dict[int, Known] = {}
        nodes = list_nodes(reading.tree)
        names = {type(each).__name__ for each in nodes}
        # Of || beside other operators, Spark's precedence is another one.
        self._is_mixed = "DPipe" in names and bool(names & _COMPUTING)
        for node in nodes:
            self._kinds[id(node)] = self._type(node)

    def get(self, node: exp.Expr | None) -> Known:
        return self._kinds.get(id(node))

    def _type(self, node: exp.Expr) -> Known:
        name = type(node).__name__
        if name in COMPARISONS | PREDICATES:
            self._check_condition(node)
            return "boolean"
        if self._is_mixed and name in {*_COMPUTING, "DPipe"}:
            return None
        if name in _COMPUTING:
            return self._compute(node)
        if (wanted := self._reading.cast_to(node)) is not None:
            return read_ddl_type(wanted)
        own = {"Case": self._type_case, "Literal": self._type_literal, "Anonymous": self._type_call}.get(name)
        if own is not None:
            return own(node)
        kind = self.get(node.this)
        match name:
            case "DPipe":
                kind = _join_texts([kind, self.get(node.expression)])
            case "Dot":
                kind = self._step_into(node, kind, self._reading.token(node.expression).name)
            case "Column":
                first, *rest = self._reading.paths[place_of(node)]
                kind = None if self._reading.is_variable(node, first) else self._columns.get(first)
                for field in rest:
                    kind = self._step_into(node, kind, field)
            case "Bracket":
                if _find_family(kind) not in (None, *_NESTED):
                    self._refuse(node, f"{_name(kind)} has no elements")
                nested = kind if isinstance(kind, dict) else {}
                kind = nested.get("elementType", nested.get("valueType"))
            case other if other != "Paren":
                kind = None
        return kind

    def _refuse(self, node: exp.Expr, message: str) -> NoReturn:
        start = self._reading.tokens[self._reading.start(node)].start
        raise ExpressionError(f"{message} {locate(start)} of the expression")

    def _require_condition(self, node: exp.Expr, kind: Known) -> None:
        if _find_family(kind) not in (None, "boolean", "string"):
            self._refuse(node, f"{_name(kind)} stands for a condition")

    def _compare(self, node: exp.Expr, left: Known, right: Known) -> None:
        a, b = _find_family(left), _find_family(right)
        is_read = "string" in (a, b) and a not in _NESTED and b not in _NESTED  # the text is read as the other type
        if a and b and (a == "map" or (a != b and not is_read)):
            self._refuse(node, f"{_name(left)} and {_name(right)} cannot be compared; cast one of them,")

    def _check_condition(self, node: exp.Expr) -> None:
        name, left, right = type(node).__name__, node.this, node.args.get("expression")
        if name in ("And", "Or", "Not", "Is"):
            if name != "Is" or self._reading.token(node.expression).lower in ("true", "false"):
                self._require_condition(node, self.get(left))
                self._require_condition(node, self.get(right))
        # Of a = b < c, Spark's precedence is another one.
        elif name not in MATCHES and not COMPARISONS.intersection(map(name_operand, (left, right))):
            others = [node.args["low"], node.args["high"]] if name == "Between" else node.expressions
            for each in (right, *others):
                self._compare(node, self.get(left), self.get(each))

    def _compute(self, node: exp.Expr) -> Known:
        """Type an operator for numbers, some of which take times as well."""
        name, left, right = type(node).__name__, self.get(node.this), self.get(node.args.get("expression"))
        for kind in (left, right):
            if _find_family(kind) in ("boolean", "binary", *_NESTED):
                self._refuse(node, f"{_name(kind)} is no number; cast it,")
        if name in ("Neg", "BitwiseNot"):
            return left if _find_family(left) == "number" else None
        if left not in WHOLE_NUMBERS or right not in WHOLE_NUMBERS or name.endswith("Shift"):
            return None
        return {"Div": "double", "IntDiv": "long"}.get(name) or _unite([left, right])

    def _step_into(self, node: exp.Expr, kind: Known, name: str) -> Known:
        try:
            return None if kind is None or _find_family(kind) is None else step_into(kind, name)
        except LookupError as error:
            self._refuse(node, str(error.args[0]))

    def _type_literal(self, node: exp.Expr) -> Known:
        token = self._reading.token(node)
        if token.type == "number":
            text = token.text.lower()
            if text[-1] in _SUFFIXES and not text.endswith("bd"):
                return _SUFFIXES[text[-1]]
            if "e" in text:
                return None if text.endswith("bd") else "double"
            whole, _, part = text.removesuffix("bd").partition(".")
            if text == whole and int(text) < 2**63:
                return "integer" if int(text) < 2**31 else "long"
            return f"decimal({max(len((whole + part).lstrip('0')), len(part), 1)},{len(part)})"
        if token.type == "string":
            return "binary" if token.text[0] in "xX" else "string"
        if token.lower in TYPED and place_of(node) not in self._reading.types:
            return token.lower.removesuffix("_ltz")
        return {"null": "void", "true": "boolean", "false": "boolean"}.get(token.lower)

    def _type_case(self, node: exp.Expr) -> Known:
        for branch in node.args["ifs"]:
            if node.this:
                self._compare(branch, self.get(node.this), self.get(branch.this))
            else:
                self._require_condition(branch, self.get(branch.this))
        results = [branch.args["true"] for branch in node.args["ifs"]]
        return _unite([self.get(each) for each in (*results, node.args.get("default")) if each is not None])

    def _type_call(self, node: exp.Expr) -> Known:
        name, arguments = self._reading.function(node), [self.get(each) for each in node.expressions]
        if name == "(":
            return arguments[0] if len(arguments) == 1 else None
        if name == "if" and arguments:
            self._require_condition(node, arguments[0])
        if name in ("nullif", "equal_null") and len(arguments) == 2:
            self._compare(node, *arguments)
        match "?" if place_of(node) in self._reading.with_unit else RESULTS[name]:
            case "?":
                return None
            case "first":
                return None if not arguments or arguments[0] == "void" else arguments[0]
            case "common":
                return _unite(arguments)
            case "rest":
                return _unite(arguments[1:])
            case "text":
                return _join_texts(arguments)
            case result:
                return read_ddl_type(name if result == "name" else result)


def _name(kind: Known) -> str:
    return "?" if kind is None else name_of(kind)


def _find_exact(kind: Known) -> Known:
    """Return ``number`` for numbers that Spark compares without a cast that can fail, any other type as it is."""
    digits = re.match(r"decimal\((\d+)", str(kind))
    is_exact = int(digits[1]) <= _SHORT_DECIMAL if digits else _find_family(kind) == "number"
    return "number" if is_exact else kind


def _unite(kinds: Sequence[Known]) -> Known:
    """Return the type that several values have together, when it is sure."""
    given = [kind for kind in kinds if kind != "void"]
    if given and all(kind in WHOLE_NUMBERS for kind in given):
        return max(given, key=lambda kind: WHOLE_NUMBERS.index(str(kind)))
    first = given[0] if given else "void" if kinds else None
    return first if all(kind == first for kind in given) else None


def _join_texts(kinds: Sequence[Known]) -> Known:
    """Return ``string`` where the values can only be put together as texts."""
    return "string" if all(_find_family(kind) in ("string", "boolean", "number", "time") for kind in kinds) else None


def step_into(kind: DataType, name: str) -> DataType:
    """Return the type of a field of a struct, or of a list's structs, or of a map's value; else raise LookupError."""
    if isinstance(kind, dict) and kind["type"] == "map":
        return kind["valueType"]  # type: ignore[no-any-return]
    fields = fields_of(kind)
    found = find(name, fields)
    if found is None:
        known = did_you_mean(name, fields, f"it has {', '.join(fields)}" if fields else "")
        raise LookupError(f"{name_of(kind)} has no field {name!r}{known}")
    is_list, part = kind_of(kind) == "array", fields[found]
    return {"type": "array", "elementType": part, "containsNull": True} if is_list else part


def spell_path(kind: DataType, path: Sequence[str]) -> tuple[str, ...]:
    """Return a path with names of fields as a type has them, and keys of maps as they are; raise as ``step_into``."""
    found = []
    for name in path:
        found.append(find(name, fields_of(kind)) or name)
        kind = step_into(kind, name)
    return tuple(found)


# --- types and columns as Spark SQL declares them: ``decimal(10,2)``, ``id string, at timestamp`` --------------------

_NAMES = {
    "TEXT": "string", "BOOLEAN": "boolean", "BINARY": "binary", "DATE": "date",
    "TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long", "FLOAT": "float", "DOUBLE": "double",
    "TIMESTAMPTZ": "timestamp", "TIMESTAMPLTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz",
}  # fmt: skip
"""sqlglot's name of a type -> Delta's."""
_NO_TYPE = re.compile(r"(?i);|--|/\*|,\s*[,>)]|\scollate\s")
"""What sqlglot passes over: a second statement, comments, commas with nothing after them, and collations."""


def read_ddl_type(text: str) -> DataType | None:
    """Return Delta's name for a type of Spark SQL; None when no table has it, or with more than a type (NOT NULL)."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if _NO_TYPE.search(text):
        return None
    try:
        # Of a type alone, sqlglot reads as much as it understands and leaves the rest; in a cast, it refuses the rest.
        _take_only(sqlglot.parse_one(f"CAST(NULL AS {text})", dialect="spark"), "to", "this")
        return _convert_type(exp.DataType.build(text, dialect="spark"))
    except (SqlglotError, AttributeError, KeyError, ValueError):
        return None


def _take_only(node: exp.Expr, wanted: str, *known: str) -> Any:
    """Return one part of what sqlglot has read; raise ValueError where it has more than that and the known ones."""
    if more := {name for name, part in node.args.items() if part} - {wanted, *known}:
        raise ValueError(more)
    return node.args[wanted]


def _convert_type(found: exp.DataType) -> DataType:
    name = _take_only(found, "this", "expressions", "nested").name
    if name in _NAMES and not found.expressions:
        return _NAMES[name]
    if name == "DECIMAL":
        numbers = [int(_take_only(each, "this").this) for each in found.expressions] or [10]
        precision, scale = (*numbers, 0)[:2]
        if len(numbers) > 2 or not 0 < precision <= 38 or scale > precision:
            raise ValueError(name)
        return f"decimal({precision},{scale})"
    if name == "ARRAY":
        (element,) = found.expressions
        return {"type": "array", "elementType": _convert_type(element), "containsNull": True}
    if name == "MAP":
        key, value = map(_convert_type, found.expressions)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if name == "STRUCT":
        fields = {each.this.name: _convert_type(_take_only(each, "kind", "this")) for each in found.expressions}
        if not fields or len({field.lower() for field in fields}) < len(found.expressions):
            raise ValueError(name)
        return build_struct(fields)
    raise ValueError(name)
