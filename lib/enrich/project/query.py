"""Read a job's ``query``: cut one SELECT into its clauses, and refuse all that no job can mean, each at its place.

Only what stands between expressions is read here. Expressions are slices of the same tokens, which `expressions` reads
as it reads those of ``select``; ``querynames`` finds what their names mean.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from enrich.base.schemas import find
from enrich.base.words import did_you_mean
from enrich.project.expressions.functions import SEPARATORS, UNITS, split_words
from enrich.project.expressions.lexer import ExpressionError, Token, cut
from enrich.project.expressions.reading import KEYWORDS as WORDS_OF_EXPRESSIONS
from enrich.project.expressions.reading import MAX_DEPTH, TYPED

Tokens = tuple[Token, ...]

_PLACE = re.compile(r" at character (\d+)(?: of the (?:expression|condition))?")
_YAML = "kinds of jobs that SQL has no words for are written with 'from' and 'join'"
_OWN_JOB = "make it a job of its own, and read that job's target here"
_LATER = "a job's row comes from one row of each table: compute it where the target is read"
_CLAUSES = {
    "group by": "GROUP BY stands once, behind WHERE, and groups the rows of one table; write a job for each",
    "having": "HAVING is not possible; write it as the WHERE of a second job, which reads this job's target",
    "order by": "ORDER BY is not possible: the rows of a table have no order; sort where it is read",
    "sort by": "SORT BY is not possible: the rows of a table have no order; sort where it is read",
    "cluster by": "CLUSTER BY is not possible; 'cluster_by' of the target says how its files are laid out",
    "distribute by": "DISTRIBUTE BY is not possible; 'cluster_by' of the target says how its files are laid out",
    "limit": "LIMIT is not possible: which rows come first is not decided; a condition in WHERE is",
    "offset": "OFFSET is not possible: which rows come first is not decided; a condition in WHERE is",
    **{word: f"{word.upper()} is not possible; {_LATER}" for word in ("window", "qualify", "pivot", "unpivot")},
    "lateral view": "LATERAL VIEW makes several rows of one, and a job gives one for a key; a list join joins elements",
    **{
        word: f"{word.upper()} is not possible: a job has one driving table; write a job for each part"
        for word in ("union", "intersect", "except", "minus")
    },
    "tablesample": "TABLESAMPLE is not possible: a job keeps all rows right; a condition in WHERE chooses some",
    **{
        f"{kind} as of": f"{kind.upper()} AS OF is not possible: a run reads the versions it has pinned; see --until"
        for kind in ("version", "timestamp", "system_version", "system_time")
    },
    "for": "FOR ... VERSION AS OF is not possible: each run reads the versions that it has pinned; see --until",
}
"""What a query may not have behind its tables or its condition -> why, and what to do instead."""
_BEHIND = frozenset(word.partition(" ")[0] for word in _CLAUSES)
_JOINS = split_words("join inner cross left right full natural semi anti")
_ENDS = {"(": "')'", "[": "']'", "case": "END"}
_DEPTHS = {"(": 1, "[": 1, "case": 1, ")": -1, "]": -1, "end": -1}
_SELECTS = ("select", "with", "values")
_AGGREGATED = split_words("over filter within")
_SIDES = {"": "inner", "inner": "inner", "left": "left", "right": "right", "full": "full"}
_STATEMENTS = split_words(
    """
    alter analyze begin cache call clear comment commit convert create declare delete desc describe drop execute
    explain grant insert list load merge msck optimize refresh reset restore revoke set show table truncate uncache
    update use vacuum values
    """
)


@dataclass(frozen=True)
class Item:
    """A column of SELECT: an expression with its name, or a star."""

    at: int  # the offset of its first letter
    tokens: Tokens  # of the expression; of a star what stands before it
    name: str | None = None  # as the query writes it; None: it has none of its own
    is_star: bool = False


@dataclass(frozen=True)
class Named:
    """A table of FROM."""

    source: str  # the alias in ``sources``, as written there
    alias: str  # the alias in the query, which is the job's
    at: int  # the offset of the name


@dataclass(frozen=True)
class JoinPart:
    """A join: its condition, or the columns of USING with their offsets."""

    how: str
    table: Named
    at: int  # the offset of its first word
    on: Tokens
    on_at: int  # the offset of what stands behind ON, or of the first name of USING
    using: tuple[tuple[str, int], ...] = ()


@dataclass
class Query:
    """A query that was cut into its clauses, as far as it has no fault."""

    text: str
    select_at: int = 0
    items: list[Item] = field(default_factory=list)
    tables: list[Named] = field(default_factory=list)
    joins: list[JoinPart] = field(default_factory=list)
    where: Tokens = ()
    where_at: int = 0
    groups: list[Tokens] = field(default_factory=list)  # what GROUP BY names
    group_at: int | None = None  # the offset of its first word
    faults: list[tuple[int, str]] = field(default_factory=list)

    @property
    def named(self) -> list[Named]:
        """The driving table and the joined ones, in their order."""
        return [*self.tables, *(join.table for join in self.joins)]


class QueryFault(Exception):
    """What is wrong with a query, and the offset where."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at, self.message = at, message


def place_fault(error: ExpressionError, at: int) -> tuple[int, str]:
    """Return an expression's fault with its offset in the query; ``at`` is that of the column or the condition."""
    said = str(error)
    found = _PLACE.search(said)
    is_limit = any(word in said for word in ("nested deeper", "more than", "is longer"))
    return (int(found[1]) - 1 if found and not is_limit else at), _PLACE.sub("", said, count=1)


def read_query(text: str, sources: Collection[str]) -> Query:
    """Cut a query into its clauses; ``sources`` are the aliases of the job's file that FROM may name."""
    query = Query(text)
    try:
        _Reader(query, sources).read()
    except QueryFault as fault:
        query.faults.append((fault.at, fault.message))
    except ExpressionError as error:
        query.faults.append(place_fault(error, 0))
    return query


def is_operand(token: Token) -> bool:
    """Tell whether an operand may end with a token."""
    if token.type == "word" and token.lower not in WORDS_OF_EXPRESSIONS:
        return True
    return token.type in ("string", "number", "quoted") or token.lower in ("null", "true", "false", "end", ")", "]")


def strip_parentheses(tokens: Tokens) -> Tokens:
    """Return what stands inside the parentheses around a whole expression, which is no row of several."""
    around = tokens
    for _ in range(MAX_DEPTH):
        if len(tokens) < 3 or tokens[0].lower != "(" or find_end(tokens, 0) < len(tokens) - 1:
            break
        around, tokens = tokens, tokens[1:-1]
    return tokens if len(split_top(tokens, ",")) == 1 else around


def find_end(tokens: Tokens, start: int) -> int:
    """Return the place of the bracket that closes the one at ``start``."""
    depth = 0
    for place in range(start, len(tokens)):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(tokens[place].lower, 0)
        if depth == 0:
            return place
    return len(tokens) - 1


def write_tokens(tokens: Tokens, instead: Mapping[int, tuple[int, str]]) -> str:
    """Write tokens, with a blank wherever there was something; ``instead``: place -> the place behind, and a text."""
    pieces: list[str] = []
    place, end = 0, tokens[0].start
    while place < len(tokens):
        if tokens[place].start > end:
            pieces.append(" ")
        text = tokens[place].text
        behind, text = instead.get(place, (place + 1, f"0{text}" if text[0] == "." and len(text) > 1 else text))
        pieces.append(text)
        place, end = behind, tokens[behind - 1].start + len(tokens[behind - 1].text)
    return "".join(pieces)


def split_top(tokens: Tokens, *words: str) -> list[Tokens]:
    """Split an expression at words that stand in no bracket and no CASE; the AND of a BETWEEN splits nothing."""
    parts, start, depth, between = [], 0, 0, False
    for place, token in enumerate(tokens):
        word = token.lower
        depth = max(0, depth + _DEPTHS.get(word, 0))  # a column may be called end
        if depth == 0 and word == "between":
            between = True
        elif depth == 0 and word in words:
            if not (word == "and" and between):
                parts.append(tokens[start:place])
                start = place + 1
            between = False
    return [*parts, tokens[start:]]


def _blank_comments(text: str) -> str:
    """Return a query with blanks in the place of comments and of the last semicolon; refuse what hides something."""
    for at, char in enumerate(text):
        kind = unicodedata.category(char)
        if (kind[0] == "C" and char not in "\t\r\n") or kind in ("Zl", "Zp"):
            raise QueryFault(at, f"character U+{ord(char):04X} is not allowed in a query: it cannot be seen")
        if char == "$" and text[at + 1 : at + 2] == "{":
            raise QueryFault(at, "'${' is not allowed: Spark would replace it by a setting or an environment variable")
    shown, at, ended = list(text), 0, None
    while at < len(text):
        pair = text[at : at + 2]
        end = at + 1
        if pair == "--":
            end = at + len(re.match(r"[^\r\n]*", text[at:])[0])  # type: ignore[index]
            if text[at:end].endswith("\\"):
                raise QueryFault(end - 1, "a backslash ends a comment, and Spark reads the next line as more of it")
        elif pair in ("/*", "*/"):
            end = _end_comment(text, at)
        elif text[at] in "'\"`":
            mark = re.escape(text[at])
            inside = rf"{mark}(?:[^{mark}\\]|\\.|{mark}{mark})*{mark}" if text[at] != "`" else r"`(?:[^`]|``)*`"
            found = re.compile(inside, re.DOTALL).match(text, at)
            if found is None:
                raise QueryFault(at, f"a quote {text[at]} is not closed")
            end = found.end()
        if ended is not None and not text[at].isspace() and pair not in ("--", "/*"):
            raise QueryFault(at, "a job has one query; write a job for each statement")
        if text[at] == ";":
            ended = at
        if pair in ("--", "/*") or text[at] == ";":
            shown[at:end] = [char if char in "\r\n" else " " for char in text[at:end]]
        at = end
    return "".join(shown)


def _end_comment(text: str, start: int) -> int:
    """Return where a bracketed comment ends, with those inside it."""
    if text[start] == "*":  # also before a second star, where sqlglot reads a star and a comment
        raise QueryFault(start, "Spark reads '*/' as the end of a comment; write a blank after the star")
    if text[start : start + 3] == "/*+":
        raise QueryFault(start, "a hint is not possible: each run plans its joins itself")
    depth, at = 0, start
    for found in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
        if depth == 0:
            return at
    raise QueryFault(start, "a comment is not closed")


def _cut(text: str) -> Tokens:
    """Return the tokens of a query; what SQL has and expressions have not is named as what it is."""
    shown = _blank_comments(text)
    try:
        return cut(shown)
    except ExpressionError as error:
        at, message = place_fault(error, 0)
        rest = shown[at:]
        if rest[:1] == "?":
            message = "a parameter is not possible; write the value"
        elif rest[:2] in ("{{", "{%"):
            message = f"{rest[:2]!r} is a template's; a query is SQL as it stands"
        elif rest[:2] == "=>" and (found := re.search(r"(\w+)\s*$", shown[:at])):
            at, message = found.start(1), f"a named argument such as {found[1]} is not possible"
        elif found := re.match(r"\d\w+", rest):
            message = f"{found[0]!r} is no number; put a name that starts with a digit into backticks"
        raise QueryFault(at, message) from None


class _Reader:
    """Reads the clauses of one query, from left to right."""

    def __init__(self, query: Query, sources: Collection[str]) -> None:
        self.query = query
        self.sources = sources
        self.tokens = _cut(query.text)
        self.at = 0
        self._has_groups = ("group", "by") in pairwise(token.lower for token in self.tokens)
        self._first_of_from: Token | None = None

    # --- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def look(self, ahead: int = 0) -> str:
        """Return a word or an operator in lower case; empty at the end, for names in backticks and for literals."""
        place = self.at + ahead
        return self.tokens[place].lower if 0 <= place < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        """Step over words, when these come next."""
        fits = all(self.look(ahead) == word for ahead, word in enumerate(words))
        self.at += len(words) if fits else 0
        return fits

    def fail(self, message: str, token: Token | None = None) -> None:
        token = token or self.token
        if token.type == "end" and self.at:  # a text that ends too early: its last word
            token = self.tokens[self.at - 1]
        raise QueryFault(token.start, message)

    # --- the query

    def read(self) -> None:
        query = self.query
        if self.token.type == "end":
            raise QueryFault(0, "the query is empty")
        self._open()
        while not query.items or self.take(","):
            if self.look() == "from":
                self.fail("a column is missing before FROM; a comma is too many")
            query.items.append(self._read_item())
        if not self.take("from"):
            raise QueryFault(query.select_at, "a query names its tables: FROM is missing behind the columns")
        self._read_tables(0)
        while self._find_join():
            self._read_join()
        word = self.token
        if self.take("where"):
            query.where_at = self.token.start
            query.where = self._take_expression("a condition is missing behind WHERE", at=word)
        if self.look() == "group" and self.look(1) == "by":
            self._read_groups()
        self._refuse_rest()

    def _read_groups(self) -> None:
        query, word = self.query, self.token
        query.group_at = word.start
        if query.joins:
            self.fail("GROUP BY groups the rows of one table: write the joins as a job, and read its target here")
        self.at += 2
        several = "GROUP BY with ALL, ROLLUP, CUBE or GROUPING SETS is not possible: a job's groups have one key"
        while not query.groups or self.take(","):
            makes_several = self.look() in ("rollup", "cube", "grouping") and self.look(1) in ("(", "sets")
            if makes_several or self.look() == "all":
                self.fail(several, word)
            query.groups.append(self._take_expression("a column is missing behind GROUP BY", ",", "with", "grouping"))
        if self.look() in ("with", "grouping"):
            self.fail(several, word)

    def _open(self) -> None:
        """Read SELECT; say what another statement is."""
        first, word = self.token, self.token.lower
        if word == "from" and (inserts := [token for token in self.tokens if token.lower == "insert"]):
            self.fail("INSERT is no query; a job's query is one SELECT", inserts[0])
        if word == "with":
            self.fail(f"WITH is not possible: a query reads tables, no other query; {_OWN_JOB}")
        if word in _STATEMENTS:
            self.fail(f"{word.upper()} is no query; a job's query is one SELECT")
        if word != "select":
            self.fail(f"a query begins with SELECT, not with {first.text if word else 'a name or a text'!r}")
        self.query.select_at = first.start
        self.at += 1
        if self.look() == "distinct":
            self.fail("DISTINCT is not possible: a job gives one row for a key")
        if self.look() == "transform" and self.look(1) == "(":
            behind = find_end(self.tokens, self.at + 1) + 1
            if behind < len(self.tokens) and self.tokens[behind].lower == "using":
                self.fail("TRANSFORM ... USING runs a program, which no job may")
        if self.look() == "from":
            self.fail("SELECT has no columns; name them, or write *", first)

    def _refuse_rest(self) -> None:
        """Note each clause that no job has; what is no clause is not expected."""
        if self.look() == "|" and self.look(1) == ">":
            self.fail("'|>' is not possible; write the clauses of one SELECT")
        while self.token.type != "end":
            if (found := self._find_clause()) is not None:
                self.query.faults.append((self.token.start, _CLAUSES[found]))
                self.at += len(found.split())
            else:
                said = self.token.text if self.token.lower or self.token.type == "quoted" else "a literal"
                self.fail(f"did not expect {said.upper() if self.look() in _JOINS | {'on'} else said!r} here")
            while self.token.type != "end" and self._find_clause() is None:
                behind = find_end(self.tokens, self.at) if self.look() in ("(", "[") else self.at
                self.at = min(behind + 1, len(self.tokens) - 1)

    def _find_clause(self) -> str | None:
        """Return the refused clause that begins here, as a key of ``_CLAUSES``."""
        longest_first = (" ".join(map(self.look, range(length))) for length in (3, 2, 1))
        return next((words for words in longest_first if words in _CLAUSES), None)

    # --- expressions

    def _take_expression(self, lacks: str, *ends: str, at: Token | None = None, in_brackets: bool = False) -> Tokens:
        """Return the tokens up to one of ``ends``, to a clause or to a join, outside of all brackets.

        Where there is none, fail with ``lacks``, ``at`` a token or here.
        """
        start, angles = self.at, 0
        opened: list[tuple[str, int]] = []  # what is open: a bracket or CASE, and the place of what it belongs to
        while (token := self.token).type != "end":
            word, before = token.lower, self.tokens[self.at - 1] if self.at > start else None
            closed = before is not None and is_operand(before)
            compares = word == "from" and self.look(-1) == "distinct"
            ends_here = word in ends or (word == ")" and in_brackets) or (closed and self._ends_here())
            if not opened and not compares and ends_here:
                break
            if word in ("(", "["):
                after = self.look(2)  # none for literals; Spark takes the word for a name before anything else
                begins = after in ("", "(") or after.isidentifier() or (after, self.look(3)) == ("*", "from")
                if self.look(1) in (*_SELECTS, "from") and begins:
                    is_exists = self.at > start and self.look(-1) == "exists"
                    said = f"{'EXISTS with a subquery' if is_exists else 'a subquery'} is not possible"
                    self.fail(f"{said}: join its table, or {_OWN_JOB}", self.tokens[self.at - is_exists])
                opened.append((word, self.at - (before is not None and before.type == "word")))
            elif word == "case" and self.look(1) != ".":
                opened.append((word, self.at))
            elif word in (")", "]") or (word == "end" and opened and opened[-1][0] == "case"):
                self._close(opened)
            elif word == "from" and opened and not compares:
                called = self.tokens[opened[-1][1]].lower  # of extract(year from x), for instance
                if opened[-1][0] != "(" or "from" not in SEPARATORS.get(called, ()):
                    self.fail(f"{_ENDS[opened[-1][0]]} is missing before FROM")
            elif word == ":" and not angles:
                path = "':' is no operator of Spark; get_json_object or variant_get read a path"
                named = f"a parameter such as ':{self.look(1)}' is not possible; write the value"
                self.fail(path if closed else named)
            # Of types such as array<struct<a: int>>.
            angles += word == "<" and before is not None and before.lower in ("array", "map", "struct")
            angles -= len(word) if angles and word in (">", ">>") else 0
            self.at += 1
        if opened:
            self.fail(f"{_ENDS[opened[-1][0]]} is missing")
        if self.at == start:
            self.fail(lacks, at)
        return self.tokens[start : self.at]

    def _close(self, opened: list[tuple[str, int]]) -> None:
        """Close what was opened last; refuse a call that looks at other rows."""
        word = self.token.text.upper()
        if not opened:
            self.fail(f"{word!r} closes nothing")
        bracket, call = opened.pop()
        if _ENDS[bracket].strip("'") != word:
            self.fail(f"{_ENDS[bracket]} is missing before {word!r}")
        filters = self._has_groups and self.look(1) == "filter"  # which aggregates there are is told later
        if word == ")" and self.look(1) in _AGGREGATED and self.look(2) == "(" and not filters:
            name = self.tokens[call]
            what = f"a window; {_LATER}" if self.look(1) == "over" else "an aggregate of many rows; write GROUP BY"
            self.fail(f"{name.text} is {what}", name)

    def _ends_here(self) -> bool:
        """Tell whether a clause or a join begins behind an operand."""
        word, after = self.look(), self.look(1)
        if word in ("from", "where", "on", "using", "|"):
            return word != "|" or after == ">"
        if word in _JOINS:
            return self._begins_join()
        return word in _BEHIND and self._find_clause() is not None and after not in (".", "(")

    def _begins_join(self) -> bool:
        """Tell ``left join`` from a name or a function ``left``."""
        return self.look() == "join" or (self.look() in _JOINS and self.look(1) in _JOINS | {"outer"})

    # --- SELECT

    def _read_item(self) -> Item:
        start = self.at
        at = self.token.start
        if self._take_star():
            if self.look() == "except":
                self.fail("EXCEPT behind a star is not possible; name the columns")
            return Item(at, self.tokens[start : max(self.at - 2, start)], is_star=True)
        tokens = self._take_expression("a column is missing", ",", "from")
        split = _find_alias(tokens)
        if split is None:
            return Item(at, tokens, name_path(tokens))
        expression, behind = tokens[:split], tokens[split:]
        with_as = behind[0].lower == "as"
        named = behind[with_as:]
        if not named or named[0].type not in ("word", "quoted"):
            if named and named[0].lower == "(":
                generator = expression[0].lower
                if generator in ("posexplode", "explode", "inline", "stack"):
                    self.fail(f"{generator} makes several rows of one, and a job gives one row for a key", tokens[0])
                self.fail("an expression has one alias", tokens[0])
            self.fail("an alias is a name, in backticks where it is no plain word", (*named, behind[0])[0])
        if len(named) > 1:
            said = named[1].text if named[1].lower or named[1].type == "quoted" else "a literal"
            self.fail(f"did not expect {said!r}", named[1])
        return Item(at, expression, named[0].name)

    def _take_star(self) -> bool:
        """Step over ``*`` or ``name.*``; a name of several parts is told by who resolves it."""
        ahead = 0
        while self.at + ahead < len(self.tokens) and self.tokens[self.at + ahead].type in ("word", "quoted"):
            if self.look(ahead + 1) != ".":
                return False
            ahead += 2
        if self.look(ahead) != "*" or (ahead == 0 and self.look(1) not in (",", "from", "except")):
            return False
        self.at += ahead + 1
        return True

    # --- FROM

    def _read_tables(self, depth: int) -> None:
        """Read the driving table, or joins in parentheses that begin with it."""
        if self.look() == "(" and self.look(1) not in _SELECTS:
            opened = self.token
            if depth >= MAX_DEPTH:
                self.fail(f"parentheses are nested deeper than {MAX_DEPTH} levels", self._first_of_from)
            if depth == 0:
                self._first_of_from = opened
            self.at += 1
            self._read_tables(depth + 1)
            while self._find_join():
                self._read_join(in_brackets=True)
            if not self.take(")"):
                self.fail("')' is missing behind the joins")
            if self.look() == "as" or (self.token.type in ("word", "quoted") and not self._is_reserved()):
                alias = self.tokens[self.at + (self.look() == "as")].text
                self.fail(f"an alias of parentheses is not possible: {alias!r} would hide the tables inside", opened)
            return
        self.query.tables.append(self._read_table())

    def _is_reserved(self) -> bool:
        return self.look() in ("where", "on", "using") or self._begins_join() or self._find_clause() is not None

    def _read_table(self) -> Named:
        token = self.token
        word, after = token.lower, self.look(1)
        if word == "lateral":
            self.fail("LATERAL is not possible: a table's rows are joined by a key")
        if word == "(":
            if after in _SELECTS:
                self.fail(f"a subquery is not possible: FROM names tables; {_OWN_JOB}")
            self.fail("parentheses on the right of a join are not possible: a job joins from left to right")
        if token.type not in ("word", "quoted"):
            self.fail("a table's name is missing behind FROM or JOIN; it stands without quotes, or in backticks")
        parts = [token.name]
        self.at += 1
        while self.look() == "." and self.at + 1 < len(self.tokens):
            parts.append(self.tokens[self.at + 1].name)
            self.at += 2
        shown = ".".join(parts)
        if self.look() == "(":
            self.fail(f"{token.text}(...) is not possible in FROM, which names tables", token)
        source = find(shown, self.sources) if len(parts) == 1 else None
        if source is None:
            near = did_you_mean(shown, self.sources, "add it to 'sources', or to tables.yml")
            raise QueryFault(token.start, f"{shown!r} is not a source of this job{near}")
        self._refuse_behind_table()
        is_named = self.take("as")
        name, alias = token, source
        if is_named or (self.token.type in ("word", "quoted") and not self._is_reserved()):
            name = self.token
            if name.type not in ("word", "quoted"):
                self.fail("an alias is missing behind AS")
            alias = name.name
            self.at += 1
            if self.look() == "(":
                self.fail("columns of a table are not renamed in FROM; rename them in SELECT", name)
        self._refuse_behind_table()
        return Named(source, alias, name.start)

    def _refuse_behind_table(self) -> None:
        """Refuse what SQL has for one table, before or behind its alias."""
        found = self._find_clause()
        if found in ("tablesample", "pivot", "unpivot", "for") or (found or "").endswith("as of"):
            self.fail(_CLAUSES[str(found)])

    def _find_join(self) -> bool:
        """Tell whether a join begins here; refuse those that are none of a job's."""
        if self.take(","):
            if self.look() == "lateral":
                self._read_table()
            self.fail("a comma between tables is not possible; write JOIN ... ON")
        return self._begins_join()

    def _read_join(self, *, in_brackets: bool = False) -> None:
        first = self.token
        words = []
        while not self.take("join"):
            if self.look() not in _JOINS | {"outer"}:
                self.fail("JOIN is missing")
            words.append(self.look())
            self.at += 1
        for word, why in {
            "cross": "CROSS JOIN is not possible: each row refers to one row of a lookup, by its key",
            "natural": "NATURAL is not possible: a column that a table gains would change the join; write ON or USING",
            "semi": f"a SEMI join is not possible; an inner join removes rows without a partner, too; {_YAML}",
            "anti": "an ANTI join is not possible; write LEFT JOIN, and WHERE the lookup's key IS NULL",
        }.items():
            if word in words:
                self.fail(why, first)
        side = " ".join(word for word in words if word != "outer")
        if side not in _SIDES:
            self.fail(f"did not expect {' '.join(words).upper()!r} before JOIN", first)
        table = self._read_table()
        on: Tokens = ()
        at, using = first.start, []
        if self.take("on"):
            at = self.token.start
            on = self._take_expression("a condition is missing behind ON", ",", in_brackets=in_brackets)
        elif self.take("using", "("):
            at = self.token.start
            while self.token.type in ("word", "quoted"):
                using.append((self.token.name, self.token.start))
                self.at += 1
                if not self.take(","):
                    break
            if not using or not self.take(")"):
                self.fail("USING names columns in parentheses")
        else:
            self.fail("ON is missing: a join says by which key", first)
        self.query.joins.append(JoinPart(_SIDES[side], table, first.start, on, at, tuple(using)))


def _find_alias(tokens: Tokens) -> int | None:
    """Return the place in a column of SELECT at which its alias begins, with AS or without."""
    depth, in_interval = 0, False
    for place, token in enumerate(tokens):
        word = token.lower
        before = tokens[place - 1] if place else None
        depth = max(0, depth + _DEPTHS.get(word, 0))
        if depth or before is None:
            in_interval = False
            continue
        if word == "as":
            return place
        in_interval = before.lower == "interval" or (
            in_interval and (before.type in ("number", "string") or before.lower in UNITS | {"to", "+", "-"})
        )
        is_name = token.type in ("word", "quoted") and word not in WORDS_OF_EXPRESSIONS
        is_name = is_name and not (in_interval and word in UNITS | {"to"})
        filters = word == "filter" and place + 1 < len(tokens) and tokens[place + 1].lower == "("
        if is_name and is_operand(before) and word not in ("end", "escape") and not filters:
            return place
        if token.type == "string" and is_operand(before) and before.lower not in TYPED | {"interval"}:
            return place
    return None


def name_path(tokens: Tokens) -> str | None:
    """Return the last part of a plain name, which is the column's own; None for other expressions."""
    if len(tokens) % 2 == 0 or any(token.lower != "." for token in tokens[1::2]):
        return None
    is_plain = all(each.type in ("word", "quoted") and each.lower not in WORDS_OF_EXPRESSIONS for each in tokens[::2])
    return tokens[-1].name if is_plain else None
