"""Read an expression with sqlglot, and find what it refers to and calls.

Spark gets the user's own text, so sqlglot must read what Spark reads in it. Therefore it is handed this package's own
tokens, operands and operators in turn, and what has words of its own in a form that all parsers share:

    a.st.x     n4       a name, whatever its words mean elsewhere       cast(x as T), x::T      f0(x, 7), x[7]
    date 'x'   7        a literal; so are intervals, units, null        extract(day from x)     f0(2, x)
    (x, y)     f0(x, y) parentheses, as sqlglot adds some of its own

The numbers are the places of the tokens, so that every node of the tree leads back to what the user wrote. No query,
window, hint, alias or named argument gets through: each needs two neighbours that no operator joins.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from enrich.base.spec import quote
from enrich.base.words import suggest
from enrich.project.expressions import functions
from enrich.project.expressions.functions import FUNCTIONS, LAMBDAS, SEPARATORS, TYPES, UNITS, WITH_UNIT, split_words
from enrich.project.expressions.lexer import ExpressionError, Token, locate

if TYPE_CHECKING:
    from sqlglot import exp

MAX_DEPTH = 32  # of parentheses, calls, subscripts, cases and types; Spark runs out of stack at some hundreds
MAX_OPERATORS = 500  # and steps: each is a level of Spark's tree, and its stack ends near a thousand

# Spark's operators -> sqlglot's tokens. It would drop a plus, which has a minus's operands and place.
_SIGNS = {"-": "DASH", "+": "DASH", "~": "TILDE", "!": "NOT", "not": "NOT"}
_MATCHES = {"like": "LIKE", "ilike": "ILIKE", "rlike": "RLIKE", "regexp": "RLIKE"}
_PREDICATES = {"in": "IN", "between": "BETWEEN", **_MATCHES}
_BINARY = _PREDICATES | {
    "+": "PLUS", "-": "DASH", "*": "STAR", "/": "SLASH", "%": "MOD", "div": "DIV", "||": "DPIPE",
    "&": "AMP", "|": "PIPE", "^": "CARET", "<<": "LT LT", ">>": "GT GT",
    "=": "EQ", "==": "EQ", "!=": "NEQ", "<>": "NEQ", "<": "LT", "<=": "LTE", ">": "GT", ">=": "GTE",
    "<=>": "NULLSAFE_EQ", "and": "AND", "or": "OR",
}  # fmt: skip
_CONSTANTS = split_words("null true false")
TYPED = split_words("date timestamp timestamp_ntz timestamp_ltz")  # make a literal of the text behind them
# No bare names here, though Spark takes most of them for names: backticks make a name of each.
KEYWORDS = _CONSTANTS | split_words(
    """
    all and any as between both case collate distinct div else end escape for from ilike in interval is leading like not
    or placing regexp rlike select some then to trailing when
    """
)
COMPARISONS = split_words("EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ")
MATCHES = split_words("Like ILike RegexpLike")
PREDICATES = MATCHES | split_words("In Is Between Escape Not And Or")
_OPERATORS = COMPARISONS | split_words(
    """
    Add Sub Mul Div IntDiv Mod BitwiseAnd BitwiseOr BitwiseXor BitwiseLeftShift BitwiseRightShift DPipe Neg BitwiseNot
    Bracket Dot
    """
)
# The nodes of sqlglot's tree that a scalar expression may have, and parts without which it makes one all the same.
_NODES = _OPERATORS | PREDICATES | split_words("Paren Case If Column Identifier Literal Anonymous Lambda")
_NEEDED = {"In": "expressions", "Between": "low high", "Case": "ifs", "If": "true"}


class NameResolver(Protocol):
    """What a column reference may be."""

    @property
    def reserved(self) -> Collection[str]:
        """Names that no lambda variable may hide."""

    def resolve(self, parts: tuple[str, ...], where: str) -> tuple[str, ...]:
        """Return the reference as a path, or raise `ExpressionError` with a suggestion."""


class AnyName:
    """The names of an expression that has been checked before."""

    reserved = ()

    def resolve(self, parts: tuple[str, ...], _where: str) -> tuple[str, ...]:
        """Return the reference as it is."""
        return parts


def place_of(node: exp.Expr) -> int:
    """Return the place of the token that a literal, a name or a call begins with."""
    return int(node.name.lstrip("nf"))


def name_operand(node: Any) -> str:
    """Return the kind of a node, without the parentheses that sqlglot adds of its own."""
    return name_operand(node.this) if type(node).__name__ == "Paren" else type(node).__name__


def list_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """Return the nodes of a tree, each behind its parts."""
    return list(tree.walk(bfs=False))[::-1]


@dataclass
class _Frame:
    """What a bracket, a call or a case has open: the word that ends it, the function, and how many arguments began."""

    end: str
    function: str = ""
    count: int = 1
    # Only and, or, or an end may follow: Spark takes the any of ``like any ('x') || 'y'`` for a function.
    closes: bool = False


class Reading:
    """The tokens of a text, read as one scalar expression over ``resolver``.

    An ExpressionError: it is none, or one that Spark might read in another way.
    """

    def __init__(self, tokens: tuple[Token, ...], resolver: NameResolver) -> None:
        self.tokens = tokens
        self.names: set[int] = set()  # places of the tokens that are parts of names
        self.paths: dict[int, tuple[str, ...]] = {}  # place -> the name that begins there: a column's, or a variable's
        self.columns: dict[int, tuple[str, ...]] = {}  # place -> the reference to a column that begins there
        self.fields: dict[int, tuple[str, str, int]] = {}  # place -> the function that makes a field, name, parentheses
        self.types: dict[int, str] = {}  # place -> the type that is written there
        self.with_unit: set[int] = set()  # places of the calls whose first argument is a bare unit
        self._resolver = resolver
        self._handed: list[tuple[str, str, int]] = []
        self._at = self._operators = 0
        self._frames = [_Frame("")]
        self._is_open = True  # an operand must come
        self._has_steps = False  # a field or a subscript may follow; Spark reads true.x as a field of true
        self._is_closed = False  # no operator but and, or may follow
        self._read()
        self.tree = self._parse()
        for node in list_nodes(self.tree):
            self._check(node)

    def token(self, node: exp.Expr) -> Token:
        """Return the token that a literal, a name or a call begins with."""
        return self.tokens[place_of(node)]

    def function(self, node: exp.Expr) -> str:
        """Return the name of the function that a call calls, in lower case; ``(`` for parentheses."""
        return self.token(node).lower

    def cast_to(self, node: exp.Expr) -> str | None:
        """Return the type that a node casts to, in either of its two forms; None where it is no cast."""
        if type(node).__name__ not in ("Anonymous", "Bracket") or not node.expressions:
            return None
        last = node.expressions[-1]
        return self.types.get(place_of(last)) if type(last).__name__ == "Literal" else None

    def start(self, node: exp.Expr) -> int:
        """Return the place of the first name, literal or call in a node."""
        leaves = (each for each in node.walk() if type(each).__name__ in ("Identifier", "Literal", "Anonymous"))
        return min(map(place_of, leaves))

    def is_variable(self, node: exp.Expr, name: str) -> bool:
        """Return whether a lambda around a node has a variable of that name, in any case; else it is a column's."""
        above = node.parent
        while above is not None:
            variables = above.expressions if type(above).__name__ == "Lambda" else []
            if name.lower() in [self.token(each).name.lower() for each in variables]:
                return True
            above = above.parent
        return False

    def exchange(self, place: int, behind: int, text: str, name: str | None) -> dict[int, tuple[int, str]]:
        """Return what to write (as ``instead``) where ``text`` means the same as what stands between two places.

        A field that Spark names after that is called ``name`` all the same; None: as what is no column.
        """
        function, other, depth = self.fields.get(place, ("", "", 0))
        if function and self.tokens[behind + depth].lower != "as":
            place, behind, named = place - depth, behind + depth, f"{text} AS {quote(name or other)}"
            text = named if function == "struct" else f"struct({named}).{quote(name)}" if name else f"coalesce({text})"
        return {place: (behind, text)}

    # --- the tree

    def _parse(self) -> exp.Expr:
        from sqlglot import Dialect, errors, tokens  # 0.2 s

        kinds: Any = tokens
        made = [kinds.Token(kinds.TokenType[kind], text, col=place + 1) for kind, text, place in self._handed]
        spark: Any = Dialect.get_or_raise("spark")
        try:
            (tree,) = spark.parser(error_level=errors.ErrorLevel.IMMEDIATE).parse(made, "")
        except errors.ParseError as error:
            self._at = min((error.errors[0].get("col") or 1) - 1 if error.errors else 0, len(self.tokens) - 1)
            self._refuse_token()
        except RecursionError:
            raise ExpressionError(f"the expression is nested deeper than {MAX_DEPTH} levels") from None
        return tree  # type: ignore[no-any-return]

    def _check(self, node: exp.Expr) -> None:
        """Refuse a node that is no scalar, that lacks a part, or that Spark's precedence puts elsewhere."""
        kind, parts = type(node).__name__, node.args
        lacks = [name for name in _NEEDED.get(kind, "").split() if not parts.get(name)]
        right = {"Is": "Literal", "Dot": "Identifier"}.get(kind)
        is_other = right is not None and type(parts["expression"]).__name__ != right
        if kind not in _NODES or lacks or is_other or parts.get("field"):
            raise ExpressionError("expected a scalar expression; a part of it is none, or is not complete")
        operands = [parts[name] for name in ("this", "expression", "low", "high") if parts.get(name)]
        refused = PREDICATES if kind in _OPERATORS else frozenset[str]()
        if kind in PREDICATES - split_words("Not And Or Escape"):
            refused = PREDICATES | COMPARISONS
        elif kind == "Anonymous" and place_of(node) in self.with_unit:  # else Spark reads the unit as a column
            refused, operands = PREDICATES, node.expressions
        if refused.intersection(map(name_operand, operands)):
            self._at = self.start(node)
            self._fail("a condition is not allowed as an operand", hint="put it into parentheses")
        if kind == "Anonymous":
            self._check_call(node)
        elif kind == "Lambda":
            self._check_lambda(node)
        elif kind == "Column" and not self.is_variable(node, self.paths[place_of(node)][0]):
            place = place_of(node)
            self.columns[place] = self._resolver.resolve(self.paths[place], locate(self.tokens[place].start))

    def _check_lambda(self, node: exp.Expr) -> None:
        taken = {name.lower() for name in self._resolver.reserved}
        for variable in node.expressions:
            self._at = place_of(variable)
            name = self._token.name
            if name.lower() in KEYWORDS | FUNCTIONS or len(self.paths.get(self._at, ())) != 1:
                self._fail(f"a lambda variable cannot be called {name!r}")
            if name.lower() in taken or self.is_variable(node, name):
                self._fail(f"the lambda variable {name!r} hides another name")
            taken.add(name.lower())

    def _check_call(self, node: exp.Expr) -> None:
        name, arguments = self.function(node), node.expressions
        # (x, y) is a struct, too, but not that of LIKE ANY (x, y).
        is_row = name == "(" and len(arguments) > 1 and type(node.parent).__name__ not in MATCHES
        for index, each in enumerate(arguments if is_row or name in ("struct", "arrays_zip") else ()):
            inside, depth = each, 0
            while type(inside).__name__ == "Anonymous" and (self.function(inside), len(inside.expressions)) == ("(", 1):
                inside, depth = inside.expressions[0], depth + 1
            if type(inside).__name__ in ("Column", "Anonymous"):
                self.fields[place_of(inside)] = name, f"col{index + 1}", depth
        self._at = place_of(node)
        if name == "unix_timestamp" and not arguments:
            self._fail("unix_timestamp without an argument is the time of the run and is not allowed")
        if name in ("cast", "try_cast") and (self.cast_to(node) is None or len(arguments) != 2):
            self._fail(f"expected one value and its type in {name}")
        if name == "map" and len(arguments) % 2:
            self._fail("the arguments of map cannot be read as pairs of a key and a value")
        if self._at in self.with_unit and len(arguments) != 3:
            self._fail(f"expected two values beside the unit of {name}")
        has_lambda = any(type(each).__name__ == "Lambda" for each in arguments)
        if name in LAMBDAS and not has_lambda and (name, len(arguments)) != ("array_sort", 1):
            self._fail(f"{name} needs a lambda such as x -> x > 0")

    # --- tokens

    @property
    def _token(self) -> Token:
        return self.tokens[self._at]

    @property
    def _next(self) -> Token:
        return self.tokens[min(self._at + 1, len(self.tokens) - 1)]

    def _take(self, *wanted: str) -> bool:
        """Step over the token when it is one of the ``wanted`` words or operators."""
        found = self._token.lower in wanted
        self._at += found
        return found

    def _show_token(self) -> str:
        """Name the token without showing literals, which may be somebody's data."""
        token = self._token
        return {"end": "the end", "string": "a text literal", "number": "a number"}.get(token.type) or repr(token.text)

    def _refuse_token(self) -> NoReturn:
        why = "text is compared by its bytes; compare what lower(...) makes of both sides"
        self._fail(f"did not expect {self._show_token()}", why if self._token.lower == "collate" else None)

    def _fail(self, message: str, hint: str | None = None) -> NoReturn:
        raise ExpressionError(f"{message} {locate(self._token.start)} of the expression", hint=hint)

    def _hand(self, kinds: str, text: str | None = None, place: int | None = None) -> None:
        """Hand tokens on; the operand that begins at ``place`` is known by it."""
        for kind in kinds.split():
            self._handed.append((kind, kind if text is None else text, self._at if place is None else place))

    def _hand_operator(self, kinds: str) -> None:
        self._hand(kinds)
        self._at += 1
        self._operators += 1
        self._is_open, self._is_closed = True, False

    def _hand_literal(self, count: int) -> None:
        self._hand("NUMBER", str(self._at))
        self._at += count
        self._is_open = self._has_steps = False

    def _open(self, frame: _Frame, kind: str) -> None:
        self._frames.append(frame)
        self._hand(kind)
        self._at += 1
        self._is_open = True

    def _read(self) -> None:
        while self._token.type != "end":
            if self._is_open:
                self._read_operand()
            else:
                self._read_on(self._token.lower, self._frames[-1])
            if self._operators > MAX_OPERATORS:
                self._fail(f"more than {MAX_OPERATORS} operators")
            if len(self._frames) > MAX_DEPTH:
                self._fail(f"nested deeper than {MAX_DEPTH} levels")
        if self._is_open or len(self._frames) > 1:
            self._fail(f"expected {'a value' if self._is_open else repr(self._frames[-1].end)}, found the end")

    # --- operands

    def _read_operand(self) -> None:
        token, word = self._token, self._token.lower
        if word in _SIGNS and self._next.lower != "->":
            if word == "not" and self._next.lower in ("+", "-"):
                self._fail("before a sign Spark reads not as a name", hint="use parentheses")
            self._hand_operator(_SIGNS[word])
        elif token.type in ("word", "quoted"):
            self._read_word(word)
        elif token.type in ("string", "number"):
            self._hand_literal(1)
        elif word == "(":
            # Before (x, y) -> nothing is called; Spark takes one variable only without parentheses.
            at = self._at + 2
            while self.tokens[at - 1].type in ("word", "quoted") and self.tokens[at].lower == ",":
                at += 2
            if at == self._at + 2 or [each.lower for each in self.tokens[at : at + 2]] != [")", "->"]:
                self._hand("VAR", f"f{self._at}")
            self._open(_Frame(")"), "L_PAREN")
        elif word == "*":
            self._fail("a star is not allowed", hint="name the columns")
        else:
            self._fail(f"expected a value, found {self._show_token()}")

    def _read_word(self, word: str) -> None:
        after = self._next.lower
        if after == "->":
            self._read_name()
        elif word in _CONSTANTS:
            self._hand_literal(1)
        elif after == "." and word != "case":
            self._read_name()
        elif word == "case":
            self._open(_Frame("end"), "CASE")
            if self._token.lower == "when":
                self._hand_operator("WHEN")
        elif word == "interval" and after != "(":
            self._read_interval()
        elif after == "(":
            self._read_call(word)
        elif word in TYPED and self._next.type == "string":
            self._hand_literal(2)
        elif word in KEYWORDS:
            hint = "put it into backticks if it is a name, and commas between arguments"
            self._fail(f"the word {self._token.text!r} is not allowed here", hint=hint)
        else:
            self._read_name()

    def _read_part(self) -> str:
        token = self._token
        if token.lower == "*":
            self._fail("a star is not allowed", hint="name the columns")
        if token.type not in ("word", "quoted"):
            self._fail(f"expected a name after the dot, found {self._show_token()}")
        if self._next.lower == "(":
            self._fail(f"{token.text!r} cannot be called after a dot")
        self.names.add(self._at)
        self._at += 1
        return token.name

    def _read_name(self) -> None:
        start = self._at
        parts = [self._read_part()]
        while self._take("."):
            parts.append(self._read_part())
        self.paths[start] = tuple(parts)
        self._hand("VAR", f"n{start}", start)
        self._is_open, self._has_steps = False, True

    def _read_interval(self) -> None:
        """Read ``interval '…'``, ``interval 1 day 2 hours`` or ``interval '1-2' year to month``."""
        start, values = self._at, ("number", "string")
        self._at += 1
        signed = self._take("+", "-")  # Spark reads interval - '1 day' as a column less a text
        if not signed and self._token.type == "string" and self._next.lower not in UNITS:
            self._at += 1
        elif self._token.type not in values:
            self._fail(f"expected a number or text after interval, found {self._show_token()}")
        else:
            while self._token.type in values or self._token.lower == "to":
                if self._token.text[0] in "xX":
                    self._fail("expected a number or text, found a binary literal")
                self._at += 1
                if not self._take(*UNITS):
                    self._fail(f"expected a unit such as day, found {self._show_token()}")
        count, self._at = self._at - start, start
        self._hand_literal(count)

    def _read_call(self, name: str) -> None:
        token, place = self._token, self._at
        if token.type == "quoted":
            self._fail(f"{token.text} cannot be called: functions are written without backticks")
        if name not in FUNCTIONS:
            if known := functions.explain_function(name):
                where = f"{token.text} is not allowed {locate(token.start)} of the expression"
                raise ExpressionError(f"{where}: it {known[0]}", hint=known[1])
            hint = suggest(name, FUNCTIONS, "docs/expressions.md lists those that are")
            self._fail(f"function {token.text!r} is not allowed", hint=hint)
        self._hand("VAR", f"f{place}")
        self._at += 1
        self._open(_Frame(")", name), "L_PAREN")
        if self._token.lower == ")":
            self._close(self._frames[-1])
        elif name == "extract":  # this one and the next ones have words of their own before their arguments
            if self._token.type != "word" or self._next.lower != "from":
                self._fail("extract is written extract(year from alias.column)")
            self._hand_literal(1)
        elif name in WITH_UNIT and self._token.lower in UNITS and self._next.lower == ",":
            self.with_unit.add(place)
            self._hand_literal(1)
        elif name == "trim":
            opened = self._next.lower != "." and self._take("both", "leading", "trailing")
            is_value = self._take("from") or opened  # an operator would make a name of the word before it
            if is_value and self._token.type not in ("string", "word", "quoted") and self._token.lower != "from":
                self._fail(f"expected a text or a name, found {self._show_token()}")

    # --- behind an operand

    def _read_on(self, word: str, frame: _Frame) -> None:
        if word and word == frame.end:
            self._close(frame)
        elif frame.end == ")" and (word == "," or word in SEPARATORS.get(frame.function, ())):
            self._hand_operator("COMMA")
            self._operators -= 1
            frame.count += 1
        elif word == "as" and frame.function in ("cast", "try_cast", "struct"):
            self._at += 1
            if frame.function == "struct":  # the name of a field
                self._read_part()
            else:
                self._hand("COMMA")
                self._hand("NUMBER", str(self._at), self._read_type())
            self._is_closed = True
        elif frame.end == "end" and word in ("when", "then", "else"):
            self._hand_operator(word.upper())
        elif word == "->":
            if frame.function not in LAMBDAS or frame.count == 1:
                self._fail("a lambda may only be the second or a later argument of a function such as transform")
            self._hand_operator("ARROW")
        elif word in ("and", "or") or not self._is_closed:
            self._read_operator(word)
        else:
            self._refuse_token()

    def _close(self, frame: _Frame) -> None:
        self._hand({")": "R_PAREN", "]": "R_BRACKET", "end": "END"}[frame.end])
        self._at += 1
        self._frames.pop()
        self._is_open, self._has_steps, self._is_closed = False, True, frame.closes

    def _read_operator(self, word: str) -> None:
        if word in _BINARY:
            self._hand_operator(_BINARY[word])
            several = word in _MATCHES and self._next.lower == "(" and self._take("any", "some", "all")
            if several:
                self._hand("VAR", f"f{self._at}")
            if several or (word == "in" and self._token.lower == "("):
                self._open(_Frame(")", closes=several), "L_PAREN")
        elif word == "not" and self._next.lower in _PREDICATES:
            self._hand("NOT")
            self._at += 1
        elif word == "is":
            self._read_is()
        elif word == "escape" and self._next.type == "string":
            self._hand_operator("ESCAPE")
            self._hand("STRING", str(self._at))
            self._at += 1
            self._is_open, self._is_closed = False, True
        elif word == "[" and self._has_steps:
            self._operators += 1
            self._open(_Frame("]"), "L_BRACKET")
        elif word == "." and self._has_steps:
            self._hand_operator("DOT")
            self._hand("VAR", f"n{self._at}")
            self._read_part()
            self._is_open = False
        elif word == "::":
            self._hand_operator("L_BRACKET")
            self._hand("NUMBER", str(self._at), self._read_type())
            self._hand("R_BRACKET")
            self._is_open = False
        else:
            self._refuse_token()

    def _read_is(self) -> None:
        self._hand_operator("IS")
        if self._token.lower == "not":
            self._hand("NOT")
            self._at += 1
        if self._token.lower == "distinct" and self._next.lower == "from":
            self._hand("DISTINCT FROM")
            self._at += 2
        elif self._token.lower in ("unknown", *_CONSTANTS):
            self._hand_literal(1)
        else:
            self._fail(f"expected null, true, false or distinct from, found {self._show_token()}")

    def _read_type(self) -> int:
        """Read a type, as far as its brackets go, and return its place."""
        start, depth, shape = self._at, 0, ""
        while depth > 0 or self._at == start or (self._at, self._token.lower) in ((start + 1, "("), (start + 1, "<")):
            token, word = self._token, self._token.lower
            if depth and self._next.lower == ":":
                self._read_part()
                shape += "N"
                continue
            if token.type == "word" and word not in TYPES and word not in ("array", "map", "struct"):
                self._fail(f"type {token.text!r} is not allowed", hint=suggest(word, TYPES))
            if token.type in ("string", "quoted", "end"):
                self._fail(f"expected a type, found {self._show_token()}")
            if depth + len(self._frames) > MAX_DEPTH:
                self._fail(f"nested deeper than {MAX_DEPTH} levels")
            if word == "<" and not depth and self.tokens[start].lower in TYPES:
                break  # a comparison
            depth += {"<": 1, "(": 1, ">": -1, ")": -1, ">>": -2}.get(word, 0)
            shape += "D" if word in ("decimal", "dec", "numeric") else "T" if word in TYPES else word or "1"
            self._at += 1
        shape = re.sub(r"D(\(1(,1)?\))?", "T", shape)
        while (inner := re.sub("array<T>|map<T,T>|struct<N:T(,N:T)*>", "T", shape)) != shape:
            shape = inner
        if shape != "T":
            self._fail("expected a type")
        self.types[start] = " ".join(token.text for token in self.tokens[start : self._at])
        return start
