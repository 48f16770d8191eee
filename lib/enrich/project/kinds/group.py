"""Read a job of groups: the rows of one table that have one key, and what is counted, summed and chosen of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from enrich.base.schemas import WHOLE_NUMBERS, find, incomparable, is_wide, may_be_key, name_of
from enrich.base.spec import PREFIX, CompiledJob, DataType, Output, WithoutJoins, name_left_key, quote
from enrich.project.expressions import Expression, ExpressionError, parse_expression, read_tokens
from enrich.project.expressions.functions import explain_function, split_words
from enrich.project.expressions.lexer import Token, locate, tokenize
from enrich.project.expressions.reading import AnyName
from enrich.project.kinds import syntax
from enrich.project.kinds.join import name_table, spell_name
from enrich.project.kinds.syntax import ColumnSources, Draft, JobSyntax
from enrich.project.query import Tokens, find_end, split_top, write_tokens

if TYPE_CHECKING:
    from enrich.project.compile import Compiler

AGGREGATES = "count, sum, avg, min, max, bool_and, bool_or, count(DISTINCT x) and array_sort(array_agg(DISTINCT x))"
_PLAIN = split_words("count sum avg min max bool_and bool_or")
_WRITTEN = {
    "mean": "avg",
    "every": "bool_and",
    "any": "bool_or",
    "some": "bool_or",
    "count_if": "count(*) FILTER (WHERE ...)",
    "collect_set": "array_sort(array_agg(DISTINCT x))",
}
"""Aggregates that Spark has under several names -> how a job writes them."""


@dataclass(frozen=True)
class Part:
    """What an aggregate is made of; expressions see the source's row as a struct under its alias."""

    function: str
    is_distinct: bool
    argument: str | None  # None: whole rows
    condition: str | None  # of FILTER
    of: tuple[str, str]  # argument and condition in one form, ``*`` and nothing where there is none
    column: str | None  # the source's column that the argument only names
    is_wide: bool = False  # a sum or an average that Spark's types may round: no group moves by it

    def spell(self, function: str | None = None) -> str:
        """Write it, or another function of the same, for people."""
        call = Aggregate(function or self.function, self.is_distinct, (), ())
        return call.write(self.column or self.argument or "*", self.condition)


@dataclass(frozen=True)
class GroupSpec(WithoutJoins):
    """A job of groups. Expressions see the source's row as a struct under its alias."""

    kind: ClassVar[str] = "group"

    by: tuple[str, ...]  # what makes a group, as expressions: ``__enrich_k0 ..``
    aggregates: dict[str, str]  # what is made of its rows: ``__enrich_a0 ..`` -> the expression
    parts: dict[str, Part]  # the same, taken apart
    cells: tuple[Output, ...]  # the target's columns: expressions over these two; ``paths`` are columns of the source
    texts: tuple[str, ...]  # the same as the file has them
    where: str | None
    keys: tuple[str, ...]  # the target's columns that hold ``by``
    # The source's columns that ``by`` only names; where one of them is more, names that no column has.
    named: tuple[str, ...]

    @property
    def identity(self) -> tuple[str, ...]:
        """The target's key: what makes a group."""
        return self.keys

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The source's columns that hold it, or names that no column has."""
        return self.named

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns."""
        return tuple(cell.name for cell in self.cells)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The target's columns, and what fills them: what makes the group as the file has it."""
        by = dict(zip(name_left_key(len(self.by)), self.by, strict=True))
        return tuple(replace(cell, expression=by.get(cell.expression, cell.expression)) for cell in self.cells)


def name_aggregate(place: int) -> str:
    """Return the column that holds an aggregate: ``__enrich_a0 ..``."""
    return f"{PREFIX}a{place}"


@dataclass(frozen=True)
class Aggregate:
    """A call that makes one value of a group's rows."""

    function: str
    is_distinct: bool
    argument: Tokens  # empty: of whole rows, as count(*)
    condition: Tokens  # of FILTER; empty: all rows

    def write(self, argument: str, condition: str | None) -> str:
        """Write it, its argument and condition as given."""
        inside = f"DISTINCT {argument}" if self.is_distinct else argument
        return f"{self.function}({inside})" + (f" FILTER (WHERE {condition})" if condition is not None else "")


def cut_aggregates(tokens: Tokens) -> tuple[list[Aggregate], Tokens]:
    """Return an expression's aggregates, and it with a name for each; one that no group has is an ExpressionError."""
    found: list[Aggregate] = []
    kept: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        is_call = token.type == "word" and [each.lower for each in tokens[place + 1 : place + 2]] == ["("]
        is_call = is_call and not (kept and kept[-1].lower in (".", "like", "ilike"))
        if not is_call or not (explain_function(token.lower) or ("",))[0].startswith("is an aggregate"):
            kept.append(token)
            place += 1
            continue
        aggregate, behind = _read_aggregate(tokens, place)
        if aggregate.function == "array_agg":
            is_sorted = [each.lower for each in kept[-2:]] == ["array_sort", "("] and aggregate.is_distinct
            if not is_sorted or [each.lower for each in tokens[behind : behind + 1]] != [")"]:
                _refuse(token, "has another value when the rows come in another order")
        kept.append(Token("word", name_aggregate(len(found)), token.start))
        found.append(aggregate)
        place = behind
    return found, tuple(kept)


def _read_aggregate(tokens: Tokens, place: int) -> tuple[Aggregate, int]:
    """Read the aggregate whose name is at ``place``; return it, and the place behind it."""
    token, end = tokens[place], find_end(tokens, place + 1)
    inside = tokens[place + 2 : end]
    if token.lower in _WRITTEN:
        _refuse(token, f"is written {_WRITTEN[token.lower]}")
    if token.lower not in (*_PLAIN, "array_agg"):
        is_rough = token.lower.startswith(("approx", "percentile_approx")) or "sketch" in token.lower
        _refuse(token, "is approximate" if is_rough else "is none of those that a change of the rows keeps exact")
    is_distinct = bool(inside) and inside[0].lower == "distinct"
    argument = inside[1:] if inside and inside[0].lower in ("distinct", "all") else inside
    if is_distinct and token.lower not in ("count", "array_agg"):
        _refuse(token, "takes no DISTINCT here")
    if token.lower == "count" and not is_distinct and [each.lower for each in argument] == ["*"]:
        argument = ()
    elif not argument or len(split_top(argument, ",")) > 1 or tokens[end].lower != ")":
        _refuse(token, "has one argument")
    after = [each.lower for each in tokens[end + 1 : end + 4]]
    condition, behind = Tokens(), end + 1
    if after[:1] == ["over"]:
        _refuse(token, "with OVER is a window, which looks at other rows")
    if after == ["filter", "(", "where"]:
        last = find_end(tokens, end + 2)
        condition, behind = tokens[end + 4 : last], last + 1
        if not condition:
            _refuse(token, "has an empty FILTER")
    if cut_aggregates(argument)[0] or cut_aggregates(condition)[0]:
        _refuse(token, "cannot hold another aggregate")
    return Aggregate(token.lower, is_distinct, argument, condition), behind


def _refuse(token: Token, why: str) -> None:
    message = f"the aggregate {token.text} {locate(token.start)} of the expression {why}"
    raise ExpressionError(message, hint=f"groups have {AGGREGATES}")


class Group(JobSyntax):
    """``kind: group``, with ``group: {by: ...}`` and ``select``; or a query with GROUP BY."""

    name = "group"
    needs_part = selects = True
    names_columns_in = ("select",)

    def check(self, draft: Draft) -> None:
        """It says what makes a group, and what the target shows of it."""
        if "group" not in draft.root:
            draft.fault("kind group needs 'group: {by: ...}': what makes a group", "kind")
        if draft.tree.mapping("group").get("by") == []:
            draft.fault("'by' is empty; name what makes a group", "group", "by")
        if not draft.root.get("select") and not isinstance(draft.root.get("query"), str):
            draft.fault("kind group needs 'select': what makes a group, and aggregates of its rows", "kind")

    def compile(self, compiler: Compiler) -> CompiledJob:
        """Resolve what makes a group, the condition, and the target's columns."""
        return _Reader(compiler).compile()

    def write_query(self, spec: GroupSpec, sources: Mapping[str, str]) -> str | None:
        """Write it; doubled keys, normalised keys, quarantined rows and groups with a null are no part of the query."""
        shown = [f"{text} AS {spell_name(cell.name)}" for text, cell in zip(spec.texts, spec.cells, strict=True)]
        where = [] if spec.where is None else [f"WHERE {spec.where}"]
        table = f"FROM {name_table(sources, spec.driving)}"
        return "\n".join(["SELECT " + ",\n       ".join(shown), table, *where, f"GROUP BY {', '.join(spec.by)}"])

    def write_rows_query(self, spec: GroupSpec, table: str, version: int) -> str | None:
        """Write the query of the rows that make a group; parameters, named as the target's columns, are its key."""
        if spec.source.is_derived or spec.source.normalise:  # its rows are not those of its table
            return None
        conditions = [f"({spec.where})"] if spec.where is not None else []
        names = [re.sub(r"\W", "_", name, flags=re.ASCII) for name in spec.keys]
        names = [f"{name}_{place}" if len({*names}) < len(names) else name for place, name in enumerate(names)]
        for name, column, by in zip(names, spec.named, spec.by, strict=True):
            conditions.append(f"{by if column in spec.source.columns else f'({by})'} = :{name}")
        whole = [f"{spell_name(spec.driving)}.{quote(each)} IS NOT NULL" for each in spec.key if each not in spec.named]
        read = f"FROM {table} VERSION AS OF {version} AS {spell_name(spec.driving)}"
        return " ".join(["SELECT *", read, "WHERE", " AND ".join([*conditions, *whole])])

    def find_origins(self, spec: GroupSpec) -> ColumnSources:
        """Follow its expressions: a column is what makes a group, or is made of the group's rows."""
        found, keys = {}, name_left_key(len(spec.by))
        normalised = spec.key if spec.source.normalise else ()
        for cell in spec.cells:
            columns = dict.fromkeys((alias, column) for alias, column, *_ in sorted(cell.paths))
            how = syntax.AGGREGATION if f"{PREFIX}a" in cell.expression else syntax.TRANSFORMATION
            if cell.expression in keys and spec.named[keys.index(cell.expression)] in spec.source.columns:
                how = syntax.IDENTITY if not any(name in normalised for _, name in columns) else how
            found[cell.name] = dict.fromkeys(columns, how)
        return found


@dataclass
class _Reader:
    """Reads one job of groups against its table."""

    compiler: Compiler
    by: list[tuple[Expression, DataType | None]] = field(default_factory=list)
    # Aggregates as the target's definition names them -> what Spark computes, its type, and what it is made of.
    aggregates: dict[str, tuple[str, DataType | None, Part]] = field(default_factory=dict)
    cells: dict[str, tuple[Expression, frozenset[tuple[str, ...]], str]] = field(default_factory=dict)

    def compile(self) -> CompiledJob:
        compiler, job = self.compiler, self.compiler.job
        alias = job.from_
        compiler.see(alias)
        for place, text in enumerate(job.group.by if job.group is not None else ()):
            expression = compiler.expression(text, "group", "by", place)
            if expression is not None and expression.canonical not in [each.canonical for each, _ in self.by]:
                self.by.append((expression, self._type_key(expression, "group", "by", place)))
        where = compiler.expression(job.where, "where") if job.where is not None else None
        compiler.check_condition(where, "where")
        read = {name: self._read(name, text) for name, text in (job.select or {}).items()}
        known = dict(zip(name_left_key(len(self.by)), [kind for _, kind in self.by], strict=True))
        known |= {name_aggregate(place): kind for place, (_, kind, _) in enumerate(self.aggregates.values())}
        compiler.frame = {name: kind for name, kind in known.items() if kind is not None}
        for name, cell in read.items():
            if cell is None:
                continue
            self.cells[name] = cell
            if all(path[0] in compiler.frame for path in cell[0].paths):
                compiler.note_type(name, cell[0], "select", name)
            else:
                compiler.complete = False
        keys = self._find_keys() if len(read) == len(self.cells) else ()
        whole = all(each.is_path and len(next(iter(each.paths))) == 2 for each, _ in self.by)
        named = [next(iter(each.paths))[1] if whole else f"{PREFIX}by{at}" for at, (each, _) in enumerate(self.by)]
        cells = tuple(Output(name, each.text, paths) for name, (each, paths, _) in self.cells.items())
        sources = compiler.collect_sources()
        named = [find(name, sources[alias].columns) or name for name in named]
        aggregates = {name_aggregate(place): text for place, (text, *_) in enumerate(self.aggregates.values())}
        parts = {name_aggregate(place): part for place, (*_, part) in enumerate(self.aggregates.values())}
        by, texts = tuple(each.text for each, _ in self.by), tuple(text for _, _, text in self.cells.values())
        condition = where.text if where else None
        spec = GroupSpec(job.job, sources, alias, by, aggregates, parts, cells, texts, condition, keys, tuple(named))
        compiler.check_names(spec.columns, "select")
        compiler.check_cluster(spec.columns)
        meaning = {
            **compiler.describe_meaning(),
            "group": [each.canonical for each, _ in self.by],
            "aggregates": list(self.aggregates),
            "select": [[name, each.canonical] for name, (each, _, _) in self.cells.items()],
            "where": where.canonical if where else None,
        }
        return CompiledJob(spec, meaning, compiler.complete, compiler.kinds)

    def _type_key(self, expression: Expression, *place: str | int) -> DataType | None:
        """Return the type of what makes a group; note what can make none."""
        kind = self.compiler.type_of(expression, *place)
        if not expression.paths:
            self.compiler.fault(f"{expression.text!r} names no column, and makes no groups", *place)
        if kind is not None and (not may_be_key(kind) or incomparable(kind)):
            self.compiler.fault(f"{expression.text} is {name_of(kind)}, which makes no groups", *place)
        return kind

    def _read(self, name: str, text: str) -> tuple[Expression, frozenset[tuple[str, ...]], str] | None:
        """Return a column as an expression over keys and aggregates, what it reads of the source, and its text."""
        compiler = self.compiler
        try:
            tokens = tokenize(text)
            aggregates, outer = cut_aggregates(tokens[:-1])
        except ExpressionError as error:
            compiler.fault(str(error), "select", name)
            return None
        keys = name_left_key(len(self.by))
        if not aggregates:  # what makes a group, as it is there
            whole = compiler.expression(text, "select", name)
            if whole is None:
                return None
            # The same words first: keys of maps, which may differ by case alone, are not known without the tables.
            every = sorted(zip(keys, self.by, strict=True), key=lambda each: each[1][0].canonical != whole.canonical)
            for key, (by, _) in every:
                if by.canonical == whole.canonical or (
                    by.is_path and whole.is_path and self._spell(by) == self._spell(whole)
                ):
                    return parse_expression(key, AnyName()), by.paths, text
        held = [self._read_aggregate(name, text, each) for each in aggregates]
        known = {name_aggregate(place): each for place, each in enumerate(held) if each is not None}
        plain = {self._spell(by): key for key, (by, _) in zip(keys, self.by, strict=True) if by.is_path}
        try:
            reading = read_tokens(
                (*outer, tokens[-1]), _Cells(compiler, frozenset(map(name_aggregate, range(len(held)))), plain)
            )
        except ExpressionError as error:
            compiler.fault(str(error), "select", name)
            return None
        if len(known) < len(held):
            return None
        of_key = dict(zip(keys, [by.paths for by, _ in self.by], strict=True))
        instead, paths = {}, frozenset[tuple[str, ...]]()
        for place, path in reading.columns.items():
            written, theirs = known.get(path[0]) or (path[0], of_key[path[0]])
            behind = place + 2 * len(reading.paths[place]) - 1
            named = None if path[0] in known else reading.paths[place][-1]
            for start, (end, shown) in reading.exchange(place, behind, written, named).items():
                instead[start] = end, f" {shown} "
            paths |= theirs
        return parse_expression(write_tokens(outer, instead).strip(), AnyName()), paths, text

    def _spell(self, expression: Expression) -> tuple[str, ...]:
        return self.compiler.spell(next(iter(expression.paths)))

    def _read_aggregate(
        self, name: str, text: str, aggregate: Aggregate
    ) -> tuple[str, frozenset[tuple[str, ...]]] | None:
        """Return the name of an aggregate of a column, and what it reads; None where it has a fault."""
        compiler, place = self.compiler, ("select", name)
        parts: list[Expression] = []
        for tokens in filter(None, (aggregate.argument, aggregate.condition)):
            start, last = tokens[0].start, tokens[-1]
            # With blanks before it, so that a fault has its place in the column's whole expression.
            padded = " " * start + text[start : last.start + len(last.text)]
            if (found := compiler.expression(padded, *place)) is None:
                return None
            parts.append(replace(found, text=found.text.strip()))
        argument = parts[0] if aggregate.argument else None
        condition = parts[-1] if aggregate.condition else None
        if condition is not None and (kind := compiler.type_of(condition, *place)) not in (None, "boolean"):
            compiler.fault(f"FILTER of {aggregate.function} is {name_of(kind or '')}; it must be a condition", *place)
        kind = compiler.type_of(argument, *place) if argument is not None else None
        if argument is not None and kind is not None and (fault := _find_fault(aggregate, kind)) is not None:
            said = f"{aggregate.write(argument.text, None)}: {argument.text} is {name_of(kind)}"
            compiler.fault(f"{said}; {fault}", *place)
            return None
        shown, form = ("*", "*") if argument is None else (argument.text, argument.canonical)
        kept, met = (None, None) if condition is None else (condition.text, condition.canonical)
        computed = aggregate.write(shown, kept)
        if aggregate.function == "avg" and kind in WHOLE_NUMBERS:
            # Spark adds whole numbers up as fractions there, which beyond 2^53 depends on the order of the rows.
            total = Aggregate("sum", False, (), ()).write(f"CAST({shown} AS DECIMAL(20, 0))", kept)
            count = Aggregate("count", False, (), ()).write(shown, kept)
            computed = f"CAST({total} AS DOUBLE) / nullif({count}, 0)"
        canonical = aggregate.write(form, met)
        is_count = aggregate.function == "count" and not aggregate.is_distinct
        if is_count and [each.type for each in aggregate.argument] == ["number"]:
            argument, form = None, "*"  # count(1) counts rows
        path = next(iter(argument.paths))[1:] if argument is not None and argument.is_path else ()
        argued, column = None if argument is None else shown, path[0] if len(path) == 1 else None
        wide = aggregate.function in ("sum", "avg") and is_wide(str(kind))
        part = Part(aggregate.function, aggregate.is_distinct, argued, kept, (form, met or ""), column, wide)
        self.aggregates.setdefault(canonical, (computed, _find_type(aggregate, kind), part))
        return name_aggregate([*self.aggregates].index(canonical)), frozenset().union(*[each.paths for each in parts])

    def _find_keys(self) -> tuple[str, ...]:
        """Return the target's columns that hold what makes a group, which are all selected."""
        holders = {each.text: name for name, (each, _, _) in reversed(self.cells.items())}  # the first of equal ones
        found = [holders.get(key, "") for key in name_left_key(len(self.by))]
        if missing := [by.text for name, (by, _) in zip(found, self.by, strict=True) if not name]:
            said = "what makes a group is the target's key, and is not selected completely"
            self.compiler.fault(f"{said}; select {', '.join(missing)} as it is", "select")
            return ()
        return tuple(found)


@dataclass(frozen=True)
class _Cells:
    """What a target column of groups sees: aggregates, and what makes a group where that is a plain column."""

    compiler: Compiler
    aggregates: frozenset[str]
    plain: Mapping[tuple[str, ...], str]  # path -> the key's name

    @property
    def reserved(self) -> frozenset[str]:
        return self.aggregates | {self.compiler.job.from_}

    def resolve(self, parts: tuple[str, ...], where: str) -> tuple[str, ...]:
        if parts[0] in self.aggregates and len(parts) == 1:
            return parts
        with suppress(LookupError):
            return (self.plain[self.compiler.spell(parts)],)
        message = f"{'.'.join(parts)!r} {where} of the expression is neither in an aggregate nor what makes a group"
        raise ExpressionError(message, hint="a group has many rows: write max(...), for instance, or group by it")


def _find_fault(aggregate: Aggregate, kind: DataType) -> str | None:
    """Return why an aggregate cannot be of values of a type."""
    is_exact = kind in WHOLE_NUMBERS or (isinstance(kind, str) and kind.startswith("decimal"))
    if aggregate.function in ("sum", "avg") and not is_exact:
        if kind in ("float", "double"):
            return "its sum depends on the order of the rows: cast it to a decimal, such as DECIMAL(18, 6)"
        return "only whole numbers and decimals are added up"
    if aggregate.function in ("bool_and", "bool_or") and kind != "boolean":
        return "it must be a condition"
    if (aggregate.function in ("min", "max") or aggregate.is_distinct) and (not may_be_key(kind) or incomparable(kind)):
        return "such values have no order"
    return None


def _find_type(aggregate: Aggregate, kind: DataType | None) -> DataType | None:
    """Return the type of an aggregate; None where that of its argument is not known."""
    if aggregate.function == "count":
        return "long"
    if kind is None or aggregate.function in ("min", "max", "bool_and", "bool_or"):
        return kind
    if aggregate.function == "array_agg":
        return {"type": "array", "elementType": kind, "containsNull": False}
    if kind in WHOLE_NUMBERS:
        return "long" if aggregate.function == "sum" else "double"
    precision, scale = (int(part) for part in str(kind)[len("decimal(") : -1].split(","))
    more = (10, 0) if aggregate.function == "sum" else (4, 4)
    return f"decimal({min(38, precision + more[0])},{min(38, scale + more[1])})"
