"""Resolve a query's names against its tables, and write the job that it means in the words of ``from`` and ``select``.

A join's kind follows from its ON: the lookup's whole key equal to what is the job's key in every row so far is a table
join, equal to anything else a foreign-key join. Which tables a row has so far, its *patterns*, decides that.

When a file is read, its columns are not known: `expand_query` writes what the query says for sure, for all who look at
jobs without tables. `rewrite` writes the whole, once the tables' columns are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from enrich.base.errors import ConfigError, Fault
from enrich.base.schemas import find
from enrich.base.spec import DataType, quote
from enrich.base.words import did_you_mean
from enrich.project.checks import find_alias_fault
from enrich.project.expressions import explain_constant, fold_path, read_tokens
from enrich.project.expressions.lexer import MAX_BYTES, ExpressionError, Token, locate, tokenize
from enrich.project.expressions.reading import KEYWORDS, Reading, list_nodes, place_of
from enrich.project.kinds.group import cut_aggregates, name_aggregate
from enrich.project.kinds.join import spell_name
from enrich.project.kinds.syntax import list_names
from enrich.project.query import (
    Item,
    JoinPart,
    Query,
    QueryFault,
    Tokens,
    find_end,
    name_path,
    place_fault,
    read_query,
    split_top,
    strip_parentheses,
    write_tokens,
)
from enrich.project.shape import declare_sources
from enrich.project.statictypes import spell_path
from enrich.project.yamlfile import PathStep, Tree

if TYPE_CHECKING:
    from sqlglot import exp

    from enrich.project.models import Job

Path = tuple[str, ...]
"""(alias, column, field...), ("key",), ("key", column), or a text of its own behind ``_WRITTEN``."""
_WRITTEN = "\x00"
_Mark = tuple[int, frozenset[str]]  # which part of the job's key an expression is, and of which members
_COALESCING = ("coalesce", "nvl", "ifnull")
_EQUAL = ("=", "==", "<=>")
_UNEQUAL = ("<", "<=", ">", ">=", "!=", "<>", "between", "like", "ilike", "rlike", "regexp", "in", "is")


@dataclass(frozen=True)
class Meaning:
    """The job that a query means."""

    parts: dict[str, Any]  # sources, from, join, select, where, as a job's file has them
    stars: dict[str, str]  # target column -> the star that it comes from
    places: dict[tuple[str | int, ...], int]  # a place in a job's file -> the offset in the query
    faults: list[tuple[int, str]]


@dataclass
class _Side:
    """An expression that was read, with what it says of the job's key."""

    columns: set[Path]
    is_name: bool  # nothing but one column
    text: str  # with all names written out
    key_part: int | None  # the part of the job's key that it is in every row so far


@dataclass
class _Names:
    """What a name means where some tables are in scope."""

    owner: _Resolver
    scope: list[str]

    @property
    def reserved(self) -> frozenset[str]:
        return frozenset(self.scope)

    def resolve(self, parts: Path, where: str) -> Path:
        """Find alias and column of a name, as Spark looks for it: ``alias.column`` before ``column.field``."""
        path = self._find(parts, where)
        allowed = self.owner.grouped
        if allowed is not None and path[0] != _WRITTEN and self.owner.fold(path) not in allowed:
            message = f"{'.'.join(parts)!r} {where} is neither in GROUP BY nor in an aggregate"
            raise ExpressionError(message, hint="a group has many rows: write max(...), for instance, or group by it")
        return path

    def _find(self, parts: Path, where: str) -> Path:
        owner, (first, *rest) = self.owner, parts
        if not rest and first in owner.written:
            return (_WRITTEN, owner.written[first])
        alias = find(first, self.scope)
        if alias is not None and rest:
            column = find(rest[0], owner.columns[alias]) or (rest[0] if owner.tables is None else None)
            if column is not None:
                return self._check_fields((alias, column, *rest[1:]), where)
        merged, joined = owner.merged.get(first.lower(), ((), set())) if not rest else ((), set())
        holders = [each for each in self.scope if find(first, owner.columns[each]) is not None]
        if merged and joined.issuperset(holders) and (merged[0] != "key" or owner.covers(joined)):
            return merged
        if len(holders) > 1:
            named = " or ".join(f"{each}.{first}" for each in holders)
            raise ExpressionError(f"{first!r} {where} is ambiguous; write {named}")
        if holders:
            return self._check_fields((holders[0], str(find(first, owner.columns[holders[0]])), *rest), where)
        if owner.tables is None and (alias is None or not rest):
            return (owner.driving, *parts)
        raise ExpressionError(self._explain(parts, alias, where))

    def _check_fields(self, path: Path, where: str) -> Path:
        kind = self.owner.columns[path[0]].get(path[1])
        if kind is None or self.owner.tables is None:
            return path
        try:
            return (*path[:2], *spell_path(kind, path[2:]))
        except LookupError as error:
            raise ExpressionError(f"{'.'.join(path)} {where}: {error.args[0]}") from None

    def _explain(self, parts: Path, alias: str | None, where: str) -> str:
        owner, (first, *rest) = self.owner, parts
        if alias is not None and rest:
            return f"{'.'.join(parts)!r} {where} is no column of {alias!r}{did_you_mean(rest[0], owner.columns[alias])}"
        if alias is not None:
            return f"{first!r} {where} is a whole table and no column; name a column of it"
        if find(first, [each.alias for each in owner.named]) is not None:
            return f"{first!r} {where} is joined later; a condition sees the tables before it"
        if rest:
            known_here = f"known here: {', '.join(self.scope)}"
            return f"unknown name {first!r} {where}{did_you_mean(first, self.scope, known_here)}"
        known = [name for each in self.scope for name in owner.columns[each]]
        said = explain_constant(parts)
        return f"unknown column {first!r} {where}{f'; {said}' if said else did_you_mean(first, known)}"


@dataclass
class _Resolver:
    """Finds what a query means, from left to right.

    Without ``tables`` every column is there, and a bare name that is no key is the driving table's: that shows what is
    wrong whatever the tables have.
    """

    query: Query
    sources: Mapping[str, Any]
    keys: Mapping[str, tuple[str, ...]]  # alias in ``sources`` -> its key
    tables: Mapping[str, dict[str, DataType]] | None  # the columns of the query's aliases
    at_a_glance: bool = False  # expressions are not read, which needs no parser
    faults: list[tuple[int, str]] = field(default_factory=list)
    merged: dict[str, tuple[Path, set[str]]] = field(default_factory=dict)  # name of USING -> (what it is, its tables)
    members: list[str] = field(default_factory=list)  # the driving table, and those that table joins have added
    # The sets of members that a row may have so far; rows that only a foreign-key join's lookup has are none of them.
    patterns: set[frozenset[str]] = field(default_factory=set)
    places: dict[tuple[str | int, ...], int] = field(default_factory=dict)
    visible: list[tuple[str, Path]] = field(default_factory=list)  # the columns of ``*`` so far
    grouped: frozenset[Path] | None = None  # beside aggregates: the columns that GROUP BY names, as `fold` has them
    written: dict[str, str] = field(default_factory=dict)  # a name in the place of an aggregate -> the aggregate

    def __post_init__(self) -> None:
        self.named = self.query.named
        self.driving = self.named[0].alias
        self.key = {each.alias: self.keys[each.source] for each in self.named}
        declared = {each.alias: dict.fromkeys(self.key[each.alias], cast(DataType, "string")) for each in self.named}
        self.columns: Mapping[str, dict[str, DataType]] = declared if self.tables is None else self.tables

    def fault(self, at: int, message: str) -> None:
        self.faults.append((at, message))

    def fold(self, path: Path) -> Path:
        """Return a path as it is compared; where tables are known it is spelled as they have it."""
        return fold_path(path) if self.tables is None else path

    def resolve(self) -> Meaning:
        query = self.query
        parts: dict[str, Any] = {"sources": {each.alias: self.sources[each.source] for each in self.named}}
        parts |= {"from": self.driving, "join": {}}
        for each in self.named:
            self.places["sources", each.alias] = each.at
        self.members, self.patterns = [self.driving], {frozenset([self.driving])}
        self.visible = [(name, (self.driving, name)) for name in self.columns[self.driving]]
        scope = [self.driving]
        self._check_aliases()
        if self.faults:  # such an alias could not be told from the key, or from another one
            return Meaning(parts, {}, self.places, self.faults)
        for join in query.joins:
            self.places["join", join.table.alias] = join.at
            try:
                parts["join"][join.table.alias] = self._join(join, scope)
            except QueryFault as fault:
                if self.tables is not None or not _has_bare_names(join.on):
                    self.fault(fault.at, fault.message)
                    return Meaning(parts, {}, self.places, self.faults)
                on = [_write_path((self.driving, name)) for name in self.key[join.table.alias]]
                parts["join"][join.table.alias] = {"kind": "foreign_key", "how": join.how, "on": on}
            scope.append(join.table.alias)
        self.places |= {("select",): query.items[0].at, ("from",): self.named[0].at}
        is_whole = len(query.items) == 1 and query.items[0].is_star and not query.joins
        is_grouped = query.group_at is not None
        select, stars = (self._group(parts, scope), {}) if is_grouped else self._select(scope)
        if select and (self.faults or not is_whole):  # of expressions without a name more is told when they are read
            parts["select"] = select
        if any(item.is_star for item in query.items) and self.tables is None:
            parts.pop("select", None)  # nobody knows them all
        if query.where:
            self.places["where",] = query.where_at
            if (side := self._read(query.where, scope, query.where_at)) is not None:
                parts["where"] = side.text
        is_told = self.tables is not None or not (self.at_a_glance or any(item.is_star for item in query.items))
        if not self.faults and is_told and not is_grouped:
            self._check_identity(parts, select)
        return Meaning(parts, stars, self.places, sorted(self.faults))

    def _group(self, parts: dict[str, Any], scope: list[str]) -> dict[str, str]:
        """Make a job of groups of ``parts``, as GROUP BY says; return target column -> its expression."""
        query, by = self.query, list[_Side]()
        parts.pop("join")
        named = {item.name.lower(): strip_parentheses(item.tokens) for item in query.items if item.name is not None}
        self.places["group",] = self.places["select",] = query.select_at
        for place, tokens in enumerate(query.groups):
            self.places["group", "by", place] = tokens[0].start
            inside = strip_parentheses(tokens)
            # As Spark looks for it: a column of the table first, then a new name of SELECT.
            is_name = len(inside) == 1 and inside[0].type in ("word", "quoted")
            if is_name and find(inside[0].name, self.columns[self.driving]) is None:
                inside = named.get(inside[0].name.lower(), inside)
            side = self._read(inside, scope, tokens[0].start)
            if side is not None and not side.columns and not self.at_a_glance:
                self.fault(tokens[0].start, "GROUP BY names columns, or expressions over them; what is here is neither")
            by += [side] if side is not None else []
        plain = frozenset(self.fold(path) for side in by if side.is_name for path in side.columns)
        select: dict[str, str] = {}
        for item in query.items:
            if item.is_star:
                self.fault(item.at, "a star is not possible with GROUP BY; name what makes a group, and aggregates")
            elif item.name is None:
                self.fault(item.at, "an expression needs an alias: write AS and the column's name behind it")
            elif item.name.lower() in map(str.lower, select):
                self.fault(item.at, f"the query has {item.name} twice; write AS and another name behind one of them")
            else:
                self.places["select", item.name] = item.at
                select[item.name] = self._write_cell(item, scope, by, plain)
        parts |= {"kind": "group", "group": {"by": [side.text for side in by]}}
        return select

    def _write_cell(self, item: Item, scope: list[str], by: Sequence[_Side], plain: frozenset[Path]) -> str:
        """Write a column of a query with GROUP BY, all names written out; empty, and a fault, where it is none."""
        if self.at_a_glance:
            return write_tokens(item.tokens, {})
        try:
            aggregates, outer = cut_aggregates(strip_parentheses(item.tokens))
        except ExpressionError as error:
            self.fault(*place_fault(error, item.at))
            return ""
        for place, each in enumerate(aggregates):
            inside = [part and self._read(part, scope, part[0].start) for part in (each.argument, each.condition)]
            argument, condition = (side.text if side else None for side in inside)
            self.written[name_aggregate(place)] = f" {each.write(argument or '*', condition)} "
        cell = None if self.faults else self._read(outer, scope, item.at)
        if cell is not None and (aggregates or _fold_text(cell.text) not in {_fold_text(side.text) for side in by}):
            self.grouped = plain
            cell = self._read(outer, scope, item.at)
        self.grouped, self.written = None, {}
        return cell.text.strip() if cell is not None else ""

    def _check_aliases(self) -> None:
        """Note aliases that no source may have, and those that stand twice."""
        first: dict[str, str] = {}
        for each in self.named:
            if (said := find_alias_fault(each.alias)) is not None:
                self.fault(each.at, said)
            elif each.alias.lower() in first:
                both = " and ".join(dict.fromkeys(map(repr, (each.alias, first[each.alias.lower()]))))
                self.fault(each.at, f"the alias {both} is there twice; give the table another alias")
            first.setdefault(each.alias.lower(), each.alias)

    # --- expressions

    def _read(self, tokens: Tokens, scope: list[str], at: int) -> _Side | None:
        """Read an expression; None, and a fault, where it is none."""
        try:
            return self._require(tokens, scope, at)
        except QueryFault as fault:
            self.fault(fault.at, fault.message)
            return None

    def _glance(self, tokens: Tokens, scope: list[str]) -> _Side:
        """Find the names in an expression that is not read, and whether it is the key."""
        columns, place = set[Path](), 0
        while place < len(tokens):
            first, place = place, place + 1
            if tokens[first].type not in ("word", "quoted") or tokens[first].lower in KEYWORDS:
                continue
            while place + 1 < len(tokens) and tokens[place].lower == ".":
                place += 2
            if place == len(tokens) or tokens[place].lower != "(":
                with suppress(ExpressionError):
                    columns.add(_Names(self, scope).resolve(tuple(each.name for each in tokens[first:place:2]), ""))
        mark = self._mark_tokens(tokens, scope)
        is_name = name_path(tokens) is not None and len(columns) == 1
        return _Side(columns, is_name, write_tokens(tokens, {}), self._cover(mark))

    def _mark_tokens(self, tokens: Tokens, scope: list[str]) -> _Mark | None:
        """Find what `_mark` finds, for a whole expression."""
        tokens = strip_parentheses(tokens)
        if name_path(tokens) is not None:
            try:
                return self._find_part(_Names(self, scope).resolve(tuple(each.name for each in tokens[::2]), ""))
            except ExpressionError:
                return None
        if tokens[0].lower not in _COALESCING or find_end(tokens, 1) != len(tokens) - 1:
            return None
        return _unite([self._mark_tokens(each, scope) if each else None for each in split_top(tokens[2:-1], ",")])

    def _require(self, tokens: Tokens, scope: list[str], at: int) -> _Side:
        if self.at_a_glance:
            return self._glance(tokens, scope)
        end = tokens[-1].start + len(tokens[-1].text)
        for place, token in enumerate(tokens[:-1]):
            begins = place == 0 or tokens[place - 1].lower != "."
            if begins and token.type in ("word", "quoted") and tokens[place + 1].lower == ".":
                last = place
                while last + 2 < len(tokens) and tokens[last + 1].lower == ".":
                    last += 2
                if last + 1 < len(tokens) and tokens[last + 1].lower == "(" and tokens[last].lower != "in":
                    name = "".join(each.text for each in tokens[place : last + 1])
                    raise QueryFault(token.start, f"function {name!r} is not allowed: functions are Spark's own")
        try:
            reading = read_tokens((*tokens, Token("end", "", end)), _Names(self, scope))
        except ExpressionError as error:
            raise QueryFault(*place_fault(error, at)) from None
        if len(self.query.text[at:end].encode()) > MAX_BYTES:
            raise QueryFault(at, f"an expression is longer than {MAX_BYTES} bytes")
        marks = self._mark(reading)
        columns, is_name = set(reading.columns.values()), type(reading.tree).__name__ == "Column"
        return _Side(columns, is_name, self._write(reading, marks), self._cover(marks.get(id(reading.tree))))

    def _cover(self, mark: _Mark | None) -> int | None:
        """Return the part of the key that an expression is in every row so far."""
        return mark[0] if mark is not None and self.covers(mark[1]) else None

    def covers(self, aliases: Set[str]) -> bool:
        """Tell whether one of these members is in every row so far."""
        return all(each & aliases for each in self.patterns)

    def _find_part(self, path: Path) -> _Mark | None:
        """Return which part of the job's key a column is, and of which members."""
        if path[0] == "key":
            return (self.key[self.driving].index(path[1]) if len(path) > 1 else 0), frozenset(self.members)
        if path[0] not in self.members or len(path) != 2:
            return None
        folded = [name.lower() for name in self.key[path[0]]]
        return (folded.index(path[1].lower()), frozenset([path[0]])) if path[1].lower() in folded else None

    def _mark(self, reading: Reading) -> dict[int, _Mark]:
        """Find the nodes that are nothing but columns of one part of the key, and of which members."""
        marks: dict[int, _Mark] = {}
        for node in list_nodes(reading.tree):
            name = type(node).__name__
            if name == "Column" and place_of(node) in reading.columns:
                if (mark := self._find_part(reading.columns[place_of(node)])) is not None:
                    marks[id(node)] = mark
            elif name == "Anonymous" and (function := reading.function(node)) in (*_COALESCING, "("):
                mark = _unite([marks.get(id(each)) for each in node.expressions])
                if mark is not None and (function != "(" or len(node.expressions) == 1):
                    marks[id(node)] = mark
        return marks

    def _write(self, reading: Reading, marks: Mapping[int, _Mark]) -> str:
        """Write an expression with every name written out, and with ``key`` where it is the job's key."""
        tokens = reading.tokens[:-1]
        instead: dict[int, tuple[int, str]] = {}  # place -> the place behind, and what is written

        def is_key(node: exp.Expr | None) -> bool:
            mark = marks.get(id(node))
            if mark is None or len(self.members) == 1 or not self.covers(mark[1]):
                return False
            return id(reading.tree) in marks or not self._is_fraction(mark[0])

        for node in list_nodes(reading.tree):
            is_top = is_key(node) and not is_key(node.parent)
            if type(node).__name__ == "Column" and (place := place_of(node)) in reading.columns:
                path = reading.columns[place]
                behind = place + 2 * len(reading.paths[place]) - 1
                own = path[0] in (self.driving, "key", _WRITTEN)
                text = self._write_key(marks[id(node)][0]) if is_top and not own else _write_path(path)
                shown = reading.paths[place][-1]
                is_named = shown in self.written or text.endswith(quote(shown))
                instead |= {place: (behind, text)} if is_named else reading.exchange(place, behind, text, shown)
            elif is_top and reading.function(node) != "(":
                place = place_of(node)
                text = self._write_key(marks[id(node)][0])
                instead |= reading.exchange(place, find_end(tokens, place + 1) + 1, text, None)
        return write_tokens(tokens, instead)

    def _is_fraction(self, part: int) -> bool:
        """Tell whether equal values of a part of the key may differ when an expression shows them, as 0.0 and -0.0."""
        names = ((self.columns[each], self.key[each][part]) for each in self.members)
        return any(columns.get(find(name, columns) or name) in ("double", "float") for columns, name in names)

    def _write_key(self, part: int) -> str:
        names = self.key[self.driving]
        return "key" if len(names) == 1 else f"key.{quote(names[part])}"

    # --- joins

    def _join(self, join: JoinPart, scope: list[str]) -> dict[str, Any]:
        """Return a join as a job's file has it, and note what it makes of the rows."""
        right = join.table.alias
        names = self.key[right]
        found = self._read_using(join, scope) if join.using else self._read_on(join, scope)
        sides = [found[name.lower()][0] for name in names]
        is_table = [side.key_part for side in sides] == list(range(len(self.key[self.driving])))
        for index, name in enumerate(names):
            self.places["join", right, "on", index] = found[name.lower()][1]
        merged = {}
        for name, _ in join.using:
            part = [each.lower() for each in names].index(name.lower())
            (left,) = sides[part].columns
            merged[name.lower()] = self._merge(join.how, left, (right, names[part]), part if is_table else None)
        if is_table:
            both, alone = {each | {right} for each in self.patterns}, {frozenset([right])}
            kept = self.patterns if join.how in ("left", "full") else set()
            every = both | kept | (alone if join.how in ("right", "full") else set())
            # What meets a pattern meets all that hold it: the smallest ones say everything.
            self.patterns = {each for each in every if not any(other < each for other in every)}
            self.members.append(right)
        # Of `*`, the columns of USING come once and first.
        of_right = [(name, (right, name)) for name in self.columns[right]]
        spelt = {name.lower(): name for name, _ in (of_right if join.how == "right" else self.visible)}
        first = [(spelt.get(name, name), path) for name, path in merged.items()]
        self.visible = [*first, *(each for each in [*self.visible, *of_right] if each[0].lower() not in merged)]
        self.merged |= {name: (path, {*scope, right}) for name, path in merged.items()}
        if is_table:
            return {"kind": "table", "how": join.how}
        return {"kind": "foreign_key", "on": [side.text for side in sides], "how": join.how}

    def _merge(self, how: str, left: Path, right: Path, part: int | None) -> Path:
        """Return what a name of USING is behind the join."""
        if part is not None and not (how == "right" and self._is_fraction(part)):
            return ("key",) if len(self.key[self.driving]) == 1 else ("key", self.key[self.driving][part])
        if how == "full":
            return (_WRITTEN, f"coalesce({_write_path(left)}, {_write_path(right)})")
        return right if how == "right" else left

    def _read_using(self, join: JoinPart, scope: list[str]) -> dict[str, tuple[_Side, int]]:
        """Return key column -> the left side, and the offset of its name."""
        right, names = join.table.alias, self.key[join.table.alias]
        found: dict[str, tuple[_Side, int]] = {}
        for name, at in join.using:
            if self.tables is not None and find(name, self.columns[right]) is None:
                raise QueryFault(at, f"{name!r} is no column of {right!r}{did_you_mean(name, self.columns[right])}")
            if find(name, names) is None:
                said = f"{name!r} is not the key of {right!r}, which is {', '.join(names)}"
                raise QueryFault(at, f"{said}{did_you_mean(name, names)}")
            try:
                path = _Names(self, scope).resolve((name,), locate(at))
            except ExpressionError as error:
                raise QueryFault(*place_fault(error, at)) from None
            found[name.lower()] = _Side({path}, True, _write_path(path), self._cover(self._find_part(path))), at
        self._require_whole(join, found)
        return found

    def _require_whole(self, join: JoinPart, found: Mapping[str, Any]) -> None:
        names = self.key[join.table.alias]
        if missing := [name for name in names if name.lower() not in found]:
            said = f"the whole key of {join.table.alias!r} is {', '.join(names)}; {', '.join(missing)} is missing"
            raise QueryFault(join.on_at, f"a join goes by the whole key of its right side: {said}")

    def _read_on(self, join: JoinPart, scope: list[str]) -> dict[str, tuple[_Side, int]]:
        """Return key column -> the left side, and the offset of its conjunct."""
        right = join.table.alias
        found: dict[str, tuple[_Side, int]] = {}
        extra: list[tuple[Tokens, set[Path]]] = []
        condition = strip_parentheses(join.on)
        if len(split_top(condition, "or")) > 1:
            raise QueryFault(join.on_at, f"OR is not possible in ON: a row refers to one row of {right!r}, by its key")
        for conjunct in _list_conjuncts(condition):
            if not conjunct:
                raise QueryFault(join.on_at, "a condition is missing beside AND")
            at, sides = conjunct[0].start, _split_equality(conjunct)
            read = [self._require(strip_parentheses(side), [*scope, right], side[0].start) for side in sides]
            names = []  # the key column of the lookup that a side is, and nothing else
            for side in read:
                alias, *column = next(iter(side.columns), ("",))
                is_column = side.is_name and alias == right and len(column) == 1
                names.append(find(column[0], self.key[right]) if is_column else None)
            both = zip(names, read[::-1], strict=True)
            pairs = [(name, other) for name, other in both if name and right not in {each[0] for each in other.columns}]
            if len(read) != 2 or not pairs:
                seen = {path for side in read for path in side.columns}
                extra.append((conjunct, seen or self._require(conjunct, [*scope, right], at).columns))
                continue
            name, left = pairs[0]
            if name.lower() in found:
                raise QueryFault(at, f"ON names {right}.{name} twice; one of the two belongs into WHERE")
            found[name.lower()] = left, at
        if extra and not found:
            raise QueryFault(extra[0][0][0].start, self._explain_on(join, *extra[0]))
        if extra:
            raise QueryFault(extra[0][0][0].start, self._explain_extra(join, extra[0][1]))
        self._require_whole(join, found)
        return found

    def _explain_extra(self, join: JoinPart, columns: set[Path]) -> str:
        """Say where a condition belongs that is more than the key."""
        right = join.table.alias
        said = f"{_list_paths(columns)} is more than the key of {right!r}"
        if join.how == "inner":
            return f"{said}; write the condition into WHERE"
        if right not in {path[0] for path in columns}:
            return f"{said}; write it into the reference: CASE WHEN ... THEN ... END = {right}.{self.key[right][0]}"
        return f"{said}; let a job filter {right!r} before: in WHERE it would remove rows that a {join.how} join keeps"

    def _explain_on(self, join: JoinPart, conjunct: Tokens, columns: set[Path]) -> str:
        """Say why a condition joins nothing."""
        right = join.table.alias
        keys = " and ".join(f"{right}.{name}" for name in self.key[right])
        first = conjunct[0].lower
        if first in ("not", "!"):
            return f"NOT is not possible in ON; it equals the key of {right!r}, {keys}, to something on the left"
        if len(conjunct) == 1 and first in ("true", "false"):
            return f"ON {first} would be a CROSS JOIN; equal the key of {right!r}, {keys}, to something on the left"
        sign = next((each.text.upper() for each in conjunct if each.lower in _UNEQUAL), None)
        is_equal = len(_split_equality(conjunct)) > 1
        told = f"{sign} is no equality" if sign and not is_equal else f"ON names {_list_paths(columns)}"
        said = f"{told}; one side must be a plain column of the key of {right!r}, {keys}, the other a value of the left"
        if join.how == "right":
            left, other = self.named[0], join.table
            exchanged = f"FROM {other.source} AS {other.alias} LEFT JOIN {left.source} AS {left.alias}"
            said += f"; or exchange the sides: {exchanged}"
        return said

    # --- columns

    def _select(self, scope: list[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return target column -> its expression, and those that come from a star with the star."""
        select: dict[str, str] = {}
        stars: dict[str, str] = {}
        folded: dict[str, str] = {}
        for item in self.query.items:
            twice = []
            for name, text, star in self._list_columns(item, scope):
                if (first := folded.setdefault(name.lower(), name)) in select:
                    twice.append(name if name == first else f"{first} as {name}")
                    continue
                self.places["select", name] = item.at
                select[name] = text
                if star:
                    stars[name] = star
            if twice:
                said = f"the query has {', '.join(twice)} twice; write AS and another name behind one of them"
                self.fault(item.at, f"{said}, and name the columns in place of a star" if item.is_star else said)
        return select, stars

    def _list_columns(self, item: Any, scope: list[str]) -> Iterator[tuple[str, str, str]]:
        if item.is_star:
            shown = "".join(token.text for token in item.tokens)
            alias = find(item.tokens[0].name, scope) if len(item.tokens) == 1 else None
            if item.tokens and alias is None:
                self.fault(item.at, f"{shown!r} before a star is no table of FROM: {', '.join(scope)}")
                return
            columns = [(name, (alias, name)) for name in self.columns[alias]] if alias else self.visible
            for name, path in columns:
                kind = self.columns[path[0]].get(path[1]) if len(path) > 1 and path[0] in self.columns else None
                if path[0] == "key" and not self.covers(self.merged[name.lower()][1]):
                    self.fault(item.at, f"{name} of this star is not the key in every row any more; name the columns")
                if kind != "void":  # it has no type yet, and comes when it has one
                    yield name, _write_path(path), alias or "*"
            return
        side = self._read(item.tokens, scope, item.at)
        if side is not None and item.name is not None:
            yield item.name, side.text, ""
        elif side is not None and not self.at_a_glance:  # more is told when it is read
            self.fault(item.at, "an expression needs an alias: write AS and the column's name behind it")

    def _check_identity(self, parts: Mapping[str, Any], select: Mapping[str, str]) -> None:
        """Say which columns of the target's key are missing, in the words of a query."""
        joins, texts = parts["join"], set(select.values())
        is_widened = any(each["kind"] == "table" and each["how"] in ("right", "full") for each in joins.values())
        missing = []
        for part, name in enumerate(self.key[self.driving]):
            own = _write_path((self.driving, str(find(name, self.columns[self.driving]) or name)))
            if {self._write_key(part)} & texts or (not is_widened and own in texts):
                continue
            each = [f"{alias}.{self.key[alias][part]}" for alias in (self.members if is_widened else self.members[:1])]
            missing.append(f"coalesce({', '.join(each)}) AS {name}" if len(each) > 1 else each[0])
        for alias, join in joins.items():
            if join["kind"] != "table" and join["how"] in ("right", "full"):
                held = {name: (alias, str(find(name, self.columns[alias]) or name)) for name in self.key[alias]}
                missing += [f"{alias}.{name}" for name, path in held.items() if _write_path(path) not in texts]
        if missing:
            said = "the target's key is not selected completely: each of its rows is found by it"
            self.fault(self.query.select_at, f"{said}; select {', '.join(missing)} as it is, or correct 'key'")


def _fold_text(text: str) -> str:
    """Return an expression in a form in which blanks and case do not count, but for literals."""
    return " ".join(
        each.name.lower() if each.type in ("word", "quoted", "op") else each.text for each in tokenize(text)
    )


def _unite(marks: Sequence[_Mark | None]) -> _Mark | None:
    """Return the one part of the key that all of several columns are, and of which members."""
    known = [each for each in marks if each is not None]
    if not known or len(known) < len(marks) or len({part for part, _ in known}) > 1:
        return None
    return known[0][0], frozenset().union(*(members for _, members in known))


def _write_path(path: Path) -> str:
    return path[1] if path[0] == _WRITTEN else ".".join((spell_name(path[0]), *map(quote, path[1:])))


def _list_paths(columns: set[Path]) -> str:
    return ", ".join(sorted(".".join(path) for path in columns if path[0] != _WRITTEN)) or "no column"


def _has_bare_names(tokens: Tokens) -> bool:
    """Tell whether a condition has a name without a table: what it means shows when the tables are there."""
    words = ["", *(each.lower for each in tokens), ""]
    near = zip(tokens, words, words[2:], strict=False)
    return any(each.type in ("word", "quoted") and not {before, after} & {".", "("} for each, before, after in near)


def _list_conjuncts(tokens: Tokens) -> list[Tokens]:
    """Return the parts of a condition that AND joins, without the parentheses around each."""
    parts = split_top(strip_parentheses(tokens), "and")
    return parts if len(parts) == 1 else [each for part in parts for each in _list_conjuncts(part)]


def _split_equality(tokens: Tokens) -> list[Tokens]:
    """Return both sides of an equality, or the condition alone where it is none."""
    if tokens[0].lower in ("not", "!"):
        return [tokens]
    words = ["is", "not", "distinct", "from"]
    same = [place for place in range(len(tokens)) if [each.lower for each in tokens[place : place + 4]] == words]
    sides = split_top(tokens, *_EQUAL)
    if len(sides) == 2 and all(sides) and not any(len(split_top(side, *_UNEQUAL)) > 1 for side in sides):
        return sides
    return [tokens[: same[0]], tokens[same[0] + 4 :]] if len(same) == 1 and len(sides) == 1 else [tokens]


# --- a job's file that has a query ------------------------------------------------------------------------------------

_INSTEAD = ("from", "join", "select", "where", "group")


@dataclass(frozen=True, kw_only=True)
class QueryTree(Tree):
    """A job's file as if it had the words that its query stands for; places are those in the query."""

    file: Tree
    query: Query
    places: Mapping[tuple[PathStep, ...], int]  # a path in this tree -> the offset in the query

    def at(self, *path: PathStep) -> str:
        """Return ``file:line:column`` of what the query says; of all else ``file:line``, as the file has it."""
        if path[:1] == ("sources",) and len(path) > 2:
            source = next((each.source for each in self.query.named if each.alias == path[1]), path[1])
            return self.file.at("sources", source, *path[2:])
        if path[:1] and path[0] not in (*_INSTEAD, "sources"):
            return self.file.at(*path)
        while path and path not in self.places:
            path = path[:-1]
        return _find_spot(self.file, self.query.text, self.places[path]) if path else self.file.at("query")

    def line(self, *path: PathStep) -> int:
        """Return the line of what stands at ``path``."""
        return int(self.at(*path).split(":")[1].partition(",")[0])


def _find_spot(file: Tree, text: str, offset: int) -> str:
    """Return where an offset of the query is; of a text that is no block, YAML has moved the lines."""
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    if ("query",) not in file.blocks:
        return f"{file.at('query')}, line {line}, column {column} of the query"
    first, indent = file.blocks["query",]
    return f"{file.name}:{first + line - 1}:{indent + column}"


NO_TABLES = Tree("tables.yml", {}, {}, {}, {})


def expand_query(tree: Tree, tables: Tree = NO_TABLES) -> tuple[Tree, list[Fault]]:
    """Return a job's file with what tables.yml says of its sources, and what its query means, and the faults of these.

    What a query means is written as far as that is known without the columns of its tables.
    """
    root = tree.mapping()
    if "query" not in root:
        return declare_sources(tree, tables)
    text, kind = root["query"], root.get("kind", "join")
    said = "is what the query says already; keep one of the two"
    faults = [Fault(f"{name!r} {said}", tree.at(name)) for name in _INSTEAD if name in root]
    if kind != "join":
        said = f"a query is a job of joins or, with GROUP BY, of groups, not of kind {kind!r}; leave 'kind' out"
        faults.append(Fault(said, tree.at("kind")))
    if not isinstance(text, str):
        faults.append(Fault("'query' must be text: one SELECT, best as a block behind 'query: |'", tree.at("query")))
    if not isinstance(root.get("sources", {}), dict):
        faults.append(Fault("'sources' must be a mapping, as {orders: {table: orders, key: id}}", tree.at("sources")))
    if faults:
        return tree, faults
    query = read_query(text, {**tables.mapping(), **tree.mapping("sources")})
    if query.faults:
        return tree, _place(query.faults, tree, text)
    tree, faults = declare_sources(tree, tables, [each.source for each in query.named])
    if faults:
        return tree, faults
    root, sources = tree.mapping(), tree.mapping("sources")
    keys = {alias: list_names(tree.mapping("sources", alias).get("key")) for alias in sources}
    used = {each.source for each in query.named}
    if not all(keys[alias] for alias in used):  # a fault of its own, which the model tells
        first = query.named[0].source
        join = {each: {"kind": "foreign_key", "on": [*keys[each]] or ["key"]} for each in used - {first}}
        return replace(tree, value={"from": first, "join": join, **root}), []
    meaning = _Resolver(query, sources, keys, None, at_a_glance=True).resolve()
    faults = _place(meaning.faults, tree, text)
    rest = {name: value for name, value in sources.items() if name not in used}
    taken = {each.alias.lower(): each for each in query.named}
    said = "the source {!r} is not in FROM, where {!r} is the alias of {!r}; remove it, or choose another alias"
    for name, other in ((name, taken[name.lower()]) for name in rest if name.lower() in taken):
        faults.append(Fault(said.format(name, other.alias, other.source), tree.at("sources", name)))
    if faults:
        return tree, faults
    value = {**root, **meaning.parts, "sources": {**meaning.parts["sources"], **rest}}
    whole = (tree.name, value, tree.lines, tree.texts, tree.blocks, tree.elsewhere)
    return QueryTree(*whole, file=tree, query=query, places=meaning.places), []


def list_sources(job: Job) -> dict[str, str]:
    """Return what a job's file calls the source of each alias: a query may give it an alias of its own."""
    renamed = {each.alias: each.source for each in job._tree.query.named} if isinstance(job._tree, QueryTree) else {}
    return {alias: renamed.get(alias, alias) for alias in job.sources}


def rewrite(job: Job, tables: Mapping[str, dict[str, DataType]] | None) -> Job:
    """Return the job that a query means over its tables' columns, if given; a ConfigError has all its faults."""
    from enrich.project.models import Group, Join

    tree = cast(QueryTree, job._tree)
    sources = tree.file.mapping("sources")
    keys = {alias: list_names(source["key"]) for alias, source in sources.items()}
    meaning = _Resolver(tree.query, sources, keys, tables).resolve()
    if meaning.faults:
        raise ConfigError.of(_place(meaning.faults, tree.file, tree.query.text))
    parts: dict[str, Any] = {
        "join": {alias: Join.model_validate(join) for alias, join in meaning.parts.get("join", {}).items()},
        "group": Group.model_validate(meaning.parts["group"]) if "group" in meaning.parts else None,
        "select": meaning.parts.get("select"),
        "where": meaning.parts.get("where"),
    }
    found = job.model_copy(update=parts)
    found._tree, found._stars = replace(tree, places=meaning.places), meaning.stars
    return found


def _place(faults: list[tuple[int, str]], tree: Tree, text: str) -> list[Fault]:
    return [Fault(message, _find_spot(tree, text, at)) for at, message in faults]
