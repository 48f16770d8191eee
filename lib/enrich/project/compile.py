"""Compile one job against its tables' schemas: the spec that the engine runs, and the hash of what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from enrich.base.errors import ConfigError, Fault
from enrich.base.schemas import build_struct, find, incomparable, may_be_key, name_of, strip_type, walk_parts
from enrich.base.spec import (
    PREFIX,
    TEXT_TYPE,
    CompiledJob,
    DataType,
    JobSpec,
    JoinSpec,
    Latest,
    Output,
    SourceSpec,
    Step,
    quote,
)
from enrich.base.words import did_you_mean
from enrich.project.checks import NOT_IN_COLUMN, NOT_IN_FIELD, RESERVED_COLUMNS
from enrich.project.expressions import Expression, ExpressionError, Scope, check_condition, fold_path, parse_expression
from enrich.project.kinds import JOBS, JOINS
from enrich.project.models import Job
from enrich.project.querynames import rewrite
from enrich.project.statictypes import only_compares, spell_path, step_into

_HASHED = re.compile(r"(?i)\s*(sha2|sha1|sha|md5)\s*\([^()]*(\([^()]*\)[^()]*)*\)\s*")
_RENAME = {True: "select it under another name", False: "leave it out of 'columns', or rename it in an earlier job"}
Typer = Callable[[Mapping[str, DataType], str], DataType | None]
"""Column -> type of a frame, and an expression over it -> its type, None where only Spark knows; raises ConfigError."""


def compile_job(
    job: Job, tables: Mapping[str, dict[str, DataType]], typer: Typer | None = None, *, is_mapped: bool = False
) -> CompiledJob:
    """Resolve a job against its tables: alias -> column -> Delta type; a ConfigError has every fault with its line."""
    compiler = Compiler(rewrite(job, tables) if job.query else job, tables, typer=typer, is_mapped=is_mapped)
    compiled = JOBS[job.kind].compile(compiler)
    compiler.check_declared(compiled.spec)
    if compiler.faults:
        raise ConfigError.of(compiler.faults)
    return compiled


def check_file(job: Job, names: Mapping[str, Collection[str]] | None = None) -> list[Fault]:
    """Return what a job's file, and the columns of some sources, show to be wrong in expressions and target columns."""
    if job.query:
        names = None  # nobody knows whose columns bare names are
        try:
            job = rewrite(job, None)
        except ConfigError as error:
            return list(error.faults)
    compiler = Compiler(job, None, names)
    compiler.check_declared(JOBS[job.kind].compile(compiler).spec)
    return compiler.faults


def list_target_columns(job: Job) -> tuple[str, ...] | None:
    """Return the target's columns where the job's file names all of them, in the case of the file; None otherwise."""
    kind, part = JOBS[job.kind], cast(Any, job)
    for key in kind.names_columns_in:
        part = getattr(part, key, None)
    if part is None:
        return None
    return tuple(part) if kind.selects else kind.compile(Compiler(job, None)).spec.columns


def list_private_columns(job: Job, spec: JobSpec | None = None) -> tuple[str, ...]:
    """Return the target's columns that are private: it says so, or they are made of private columns of a source.

    A column that is a hash as a whole is not, nor is one of which the job says ``private: false``. Without ``spec``,
    the compiled job, those are found that the file shows.
    """
    if spec is None:
        shown = job
        with suppress(ConfigError):  # told when the job is validated
            shown = rewrite(job, None) if job.query else job
        spec = JOBS[job.kind].compile(Compiler(shown, None)).spec
    hashed = {each.name for each in spec.outputs if _HASHED.fullmatch(each.expression)}
    said = {name: each.private for name, each in job.columns.items() if "private" in each.model_fields_set}
    origins = JOBS[job.kind].find_origins(spec).items()
    made = {column for column, found in origins if any(job.describe(*each).private for each in found)} - hashed
    return tuple(sorted({name for name, is_private in said.items() if is_private} | (made - said.keys())))


class Compiler:
    """Resolves one job, for its kind and for the kinds of its joins, which come in their order."""

    def __init__(
        self,
        job: Job,
        tables: Mapping[str, dict[str, DataType]] | None,
        names: Mapping[str, Collection[str]] | None = None,
        typer: Typer | None = None,
        *,
        is_mapped: bool = False,
    ) -> None:
        self.job = job
        self.is_mapped = is_mapped  # whether the target is there and has column mapping
        self.open = tables is None  # only the file is looked at: every column exists, but where ``names`` knows better
        self.tables: Mapping[str, dict[str, DataType]] = tables or {alias: {} for alias in job.sources}
        self.names = names or {}
        self.typer = typer
        self.faults: list[Fault] = []
        self.used: dict[str, set[str]] = {alias: set() for alias in job.sources}
        self.keys = {alias: self._resolve_key(alias) for alias in job.sources}
        self.complete = True  # no type was left unchecked because only Spark can find it
        self.frame: dict[str, DataType] = {}  # what expressions see; each join sees what stands before it
        self.referring: dict[str, list[Expression]] = {}  # lookup -> the expressions that refer to it
        # Lookup -> what else its join says that decides about the target's rows, as the file has it.
        self.written: dict[str, list[Any]] = {}
        self.kinds: dict[str, DataType] = {}  # of target columns, where they are known
        # False when the joins have a fault, so that types after them are not known; None while they are read.
        self._is_sound: bool | None = None
        self.latest = {alias: self._resolve_latest(alias) for alias in job.sources}

    def fault(self, message: str, *path: str | int) -> None:
        """Note a fault at a place of the job's file."""
        self.faults.append(Fault(message, self.job.at(*path)))

    def named(self, alias: str, name: str, *path: str | int) -> str:
        """Resolve a column that the file names literally, and note it as used."""
        columns = self.names.get(alias) if self.open else self.tables[alias]
        found = name if columns is None else find(name, columns)
        if found is None:
            known = did_you_mean(name, columns or ())
            self.fault(f"{name!r} is not a column of {alias!r} (table {self.job.sources[alias].table}){known}", *path)
        if found is None or self.open:
            return name
        self.used[alias].add(found)
        kind = self.tables[alias][found]
        if types := incomparable(kind):
            way = "keep it as text in its table"
            if any("collate" in each for each in types):
                way = "let the table have it with the collation UTF8_BINARY"
            risk = f"a change of a value of type {' or '.join(types)} might not be found; leave it out, or {way}"
            self.fault(f"column {found!r} of {alias!r} is {name_of(kind)}, and {risk}", *path)
        return found

    def _resolve_key(self, alias: str) -> tuple[str, ...]:
        """Resolve the key columns of a source; a type that cannot be a key is a fault."""
        source, table = self.job.sources[alias], self.tables[alias]
        key = tuple(self.named(alias, name, "sources", alias, "key") for name in source.key)
        kinds = {name: table[name] for name in key if name in table}
        for name, kind in kinds.items():
            if not may_be_key(kind):
                self.fault(f"{name!r} of type {name_of(kind)} cannot be a key column", "sources", alias, "key")
        # Of a composite key the text columns are normalised.
        if source.normalise and kinds and TEXT_TYPE not in kinds.values():
            told = ", ".join(f"{name!r} is {name_of(kind)}" for name, kind in kinds.items())
            self.fault(f"'normalise' needs a text column in the key; key column {told}", "sources", alias, "normalise")
        return key

    def _resolve_latest(self, alias: str) -> tuple[Latest, str | None] | None:
        """Resolve what makes rows of a log; with the condition as definitions are compared by it."""
        said, place, table = self.job.sources[alias].latest, ("sources", alias, "latest"), self.tables[alias]
        if said is None:
            return None
        order = tuple(self.named(alias, name, *place, "order") for name in said.order)
        for name in order:
            if name in table and not may_be_key(table[name]):
                self.fault(f"'order' cannot be by {name!r} of type {name_of(table[name])}", *place, "order")
        if said.delete is None:
            return Latest(order), None
        try:
            expression = check_condition(said.delete, self.names.get(alias) if self.open else table)
        except ExpressionError as error:
            self.fault(str(error), *place, "delete")
            return Latest(order), None
        names = {self.named(alias, path[0], *place, "delete") for path in sorted(expression.paths)}
        self.frame = {name: kind for name, kind in table.items() if name in names}
        try:
            for path in () if self.open else expression.paths:
                self._type_path(path)
            self.check_condition(expression, *place, "delete")
        except LookupError as error:
            self.fault(f"{said.delete}: {error.args[0]}", *place, "delete")
        self.frame = {}
        return Latest(order, said.delete), expression.canonical

    def is_list(self, alias: str) -> bool:
        """Return whether an alias is a list join."""
        join = self.job.join.get(alias)
        return join is not None and JOINS[join.kind].gives_list

    # --- for kinds of jobs -----------------------------------------------------------------------------------------

    def collect_sources(self) -> dict[str, SourceSpec]:
        """Collect the used columns of every alias, key columns first, then in the table's order."""
        found = {}
        for alias, source in self.job.sources.items():
            key, table = self.keys[alias], self.tables[alias]
            used = self.used[alias] | set(key)
            kept = {name: table[name] for name in dict.fromkeys((*key, *table)) if name in used and name in table}
            latest, holds = self.latest[alias], source.doubled_keys == "quarantine"
            is_trusted = source.unique == "trusted" and latest is None  # of a log no two rows share a key
            rows = (latest[0] if latest is not None else None), holds
            found[alias] = SourceSpec(alias, key, kept, is_trusted, source.normalise, *rows)
        return found

    def describe_meaning(self) -> dict[str, Any]:
        """Return what jobs of all kinds have in the hash of the definition."""
        # Not the tables' names: their ids are compared, and a table may move.
        sources = {alias: list(source.key) for alias, source in self.job.sources.items()}
        meaning: dict[str, Any] = {"kind": self.job.kind, "sources": sources, "from": self.job.from_}
        # Only where there is any: the targets of jobs without it were made by the same job still.
        if forms := {alias: list(source.normalise) for alias, source in self.job.sources.items() if source.normalise}:
            meaning["normalise"] = forms
        if logs := {alias: [list(each[0].order), each[1]] for alias, each in self.latest.items() if each}:
            meaning["latest"] = logs
        if held := [alias for alias, source in self.job.sources.items() if source.doubled_keys == "quarantine"]:
            meaning["doubled_keys"] = held
        return meaning

    def check_parts(self, name: str, kind: DataType | None, *path: str | int) -> None:
        """Refuse a target column with a part that has no type (``void``), or a name that Delta refuses."""
        casts, parts = JOBS[self.job.kind].selects, [part for _, part in walk_parts({"type": kind or ""})]
        if kind is not None and any(part["type"] == "void" for part in parts):
            mends = "cast it, or leave it out of 'select'" if casts else "leave it out until its table gives it a type"
            self.fault(f"{name!r} is {name_of(kind)}: what is always null has no type; {mends}", *path)
        named = [[f["name"].lower() for f in part["type"]["fields"]] for part in parts if "fields" in part["type"]]
        if twins := [each for names in named for each in names if names.count(each) > 1]:
            message = f"column {name!r} has a struct with two fields {twins[0]!r}, which no target can hold"
            self.fault(f"{message}; give one of them another name", *path)
        unfit = [part["name"] for part in parts if NOT_IN_FIELD.search(part.get("name", ""))]
        if unfit and not self.is_mapped:
            made = f"struct(x.{quote(unfit[0])} AS name)"
            mends = f"select its fields under other names: {made}, or for a list transform(list, x -> {made})"
            message = f"column {name!r} has a field {unfit[0]!r} that no target can hold"
            self.fault(f"{message}; {mends if casts else _RENAME[False]}", *path)

    def note_type(self, name: str, expression: Expression, *place: str | int) -> None:
        """Note the type of a target column, where it is known; refuse what a target cannot hold."""
        known = self.type_of(expression, *place)
        self.kinds |= {name: known} if known is not None else {}
        self.check_parts(name, known, *place)
        if known is not None and incomparable(known):
            self.fault(f"{name!r} is {name_of(known)}, which a target cannot hold and compare; cast it", *place)

    def check_names(self, names: Iterable[str], place: str) -> None:
        """Refuse target columns that no table can hold, or the quarantine has, and pairs that differ in case."""
        seen, mends = dict[str, str](), _RENAME[JOBS[self.job.kind].selects]
        for name in names:
            where = (place, name) if place == "select" else (place,)
            if not name or NOT_IN_COLUMN.search(name) or name.lower().startswith(PREFIX):
                message = f"{name!r} cannot be a target column: it has a backtick, blank, ,;{{}}()= or {PREFIX}"
                self.fault(f"{message}; {mends}", *where)
            if user := RESERVED_COLUMNS.get(name.lower()):
                self.fault(f"the target column {name!r} is a column of {user}; {mends}", *where)
            if (same := seen.get(name.lower())) is not None:
                self.fault(f"target columns {same!r} and {name!r} are one name for Spark; rename one", *where)
            seen[name.lower()] = name

    def check_cluster(self, names: tuple[str, ...]) -> None:
        """Refuse to cluster by what is no target column."""
        for name in self.job.target.cluster_by:
            if name not in names:
                message = f"cluster_by names {name!r}, which is not a target column{did_you_mean(name, names)}"
                self.fault(message, "target", "cluster_by")

    def check_declared(self, spec: JobSpec) -> None:
        """Refuse words about columns that are not there, and private ones of which the log has values."""
        job, known = self.job, spec.columns
        if self.open and job.columns:
            known = list_target_columns(job) or tuple(job.columns)
        for name in job.columns:
            if name not in known:
                self.fault(f"{name!r} is not a target column{did_you_mean(name, known)}", "columns", name)
        for alias, source in job.sources.items() if not self.open else ():
            for name in [each for each, told in source.columns.items() if told.private]:
                if find(name, table := self.tables[alias]) is None:
                    message = f"the private column {name!r} is not a column of {alias!r}{did_you_mean(name, table)}"
                    self.fault(message, "sources", alias, "columns", name)
        says_some = job.columns or any(source.columns for source in job.sources.values())
        private = list_private_columns(job, spec) if says_some else ()
        for name in dict.fromkeys((*spec.identity, *spec.right_identity, *job.target.cluster_by)):
            if name in private:
                clusters = name in job.target.cluster_by
                what = "a column that the target is clustered by" if clusters else "a key of the target"
                self.fault(
                    f"{name!r} is private and {what}, of which the log of the table keeps values; let the table have a"
                    f" hash, such as sha2({name}, 256), and take that in its place",
                    *(("columns", name) if name in job.columns else ("select", name) if job.select else ("target",)),
                )

    # --- for kinds of joins ----------------------------------------------------------------------------------------

    def see(self, alias: str) -> None:
        """Let later expressions see a source's row as a struct."""
        columns = self.tables[alias].items()
        self.frame[alias] = build_struct({name: kind for name, kind in columns if not incomparable(kind)})

    def expression(self, text: str, *path: str | int) -> Expression | None:
        """Read an expression over what has been joined so far; None when it has a fault."""
        lists = frozenset(alias for alias in self.frame if self.is_list(alias))
        return self.parse(text, Scope(frozenset(self.frame) - lists - {"key"}, lists, "key" in self.frame), *path)

    def parse(self, text: str, scope: Scope, *path: str | int) -> Expression | None:
        """Read an expression and note the columns that it uses; None when it has a fault."""
        try:
            expression = parse_expression(text, scope)
        except ExpressionError as error:
            self.fault(str(error), *path)
            return None
        start = len(self.faults)
        for parts in sorted(expression.paths):  # each is checked down to its last nested field
            alias, *rest = parts
            before = len(self.faults)
            if alias == "key":
                names = self.job.sources[self.job.from_].key
                if len(names) == 1 and rest:
                    self.fault("the key is one column; write key", *path)
                elif len(names) > 1 and not rest:
                    self.fault("the key is composite; write key." + ", key.".join(names), *path)
                elif rest and find(rest[0], names) is None:
                    self.fault(f"{rest[0]!r} is not a column of the key{did_you_mean(rest[0], names)}", *path)
            elif not self.is_list(alias):
                self.named(alias, rest[0], *path)
            if len(self.faults) == before and not self.open:
                try:
                    self._type_path(parts)
                except LookupError as error:
                    self.fault(f"{'.'.join(parts)}: {error.args[0]}", *path)
        return expression if len(self.faults) == start else None

    def spell(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return a reference as it is compared: without case, and where the types are known as they spell it."""
        return fold_path(parts) if self.open else spell_path(build_struct(self.frame), parts)

    def _type_path(self, parts: tuple[str, ...]) -> DataType:
        """Return the type of what a reference names; raise LookupError where a field of it does not exist."""
        kind: DataType = build_struct(self.frame)
        for name in parts:
            kind = step_into(kind, name)
        return strip_type(kind)

    def type_of(self, expression: Expression, *path: str | int) -> DataType | None:
        """Return an expression's type; None when it needs a session that is not there."""
        if self.open:
            return None
        if expression.is_path:
            return self._type_path(next(iter(expression.paths)))
        is_sound = not self.faults if self._is_sound is None else self._is_sound
        if self.typer is None or not is_sound:
            self.complete = False
            return None
        try:
            found = self.typer(self.frame, expression.text)
        except ConfigError as error:
            self.fault(error.message, *path)
            return None
        self.complete = self.complete and found is not None
        return None if found is None else strip_type(found)

    def check_types(
        self, alias: str, left: tuple[str, DataType | None], key: str, place: tuple[str | int, ...]
    ) -> None:
        """Refuse a join whose two sides differ in type: keys are compared without casts."""
        name, kind = left
        other = self.tables[alias].get(key)
        if kind is not None and other is not None and strip_type(kind) != strip_type(other):
            message = f"{name} is {name_of(kind)} and {alias}.{key} is {name_of(other)}"
            self.fault(f"{message}; give both sides one type", *place)

    def refer(self, alias: str, text: str, key: str, *option: str | int) -> None:
        """Read an expression that says which row of a lookup is meant, and compare its type with the column's."""
        place = ("join", alias, *option)
        if (expression := self.expression(text, *place)) is not None:
            self.referring.setdefault(alias, []).append(expression)
            self.check_types(alias, (text, self.type_of(expression, *place)), key, place)

    def check_condition(self, expression: Expression | None, *place: str | int) -> None:
        """Refuse a condition that is none."""
        kind = self.type_of(expression, *place) if expression is not None else None
        if kind is not None and kind != "boolean":
            self.fault(f"{str(place[-1])!r} is {name_of(kind)}; it must be a condition", *place)

    def list_columns(self, expression: Expression) -> frozenset[tuple[str, str]]:
        """Return the columns that an expression reads, with their aliases; all of a list's. Keys are left out."""
        return frozenset(
            (alias, name)
            for alias, *rest in expression.paths
            if alias != "key"
            for name in ([find(rest[0], self.tables[alias]) or rest[0]] if rest else self.tables[alias])
        )

    # --- jobs of joins ---------------------------------------------------------------------------------------------

    def compile_joins(self) -> CompiledJob:
        """Resolve joins, target columns and condition, in this order: each sees what stands before it."""
        job = self.job
        self.see(job.from_)
        steps = []
        for alias, join in job.join.items():
            kind = JOINS[join.kind]
            step = kind.compile(self, alias, join)
            if not kind.gives_list:
                self.see(alias)
            referring = self.referring.get(alias, ())
            reads = frozenset(path[0] for expression in referring for path in expression.paths)
            is_plain = step.is_plain and all(expression.is_path for expression in referring)
            decisive = step.decisive.union(*[self.list_columns(expression) for expression in referring])
            steps.append(replace(step, reads=reads, decisive=decisive, is_plain=is_plain))
        self._is_sound = not self.faults
        outputs = {}
        for name, text in (self._default(steps) if job.select is None else job.select).items():
            place = ("target",) if job.select is None and job.query is None else ("select", name)
            if (expression := self.expression(text, *place)) is not None:
                outputs[name] = expression
                self.note_type(name, expression, *place)
        where = self.expression(job.where, "where") if job.where is not None else None
        self.check_condition(where, "where")
        texts = [*outputs.values(), *([where] if where else []), *chain.from_iterable(self.referring.values())]
        columns = tuple(Output(name, each.text, each.paths, each.is_path) for name, each in outputs.items())
        read_whole = frozenset(p[0] for each in texts for p in each.paths if len(p) == 1 and self.is_list(p[0]))
        is_plain = where is None or (not self.open and only_compares(self.frame, where.text))
        spec = JoinSpec(
            job.job, self.collect_sources(), job.from_, tuple(steps), columns, where.text if where else None,
            *self._identity(outputs, steps), read_whole=read_whole, where_is_plain=is_plain,
        )  # fmt: skip
        self.check_names(outputs, "target" if job.select is None and job.query is None else "select")
        if job.select is not None or not self.open:
            self.check_cluster(spec.columns)
        named = [[name, each.canonical] for name, each in outputs.items() if name not in job._stars]
        stars = [["*", *dict.fromkeys(job._stars.values())]] if job._stars else []  # has what a table gains
        select = None if job.select is None else [*named, *stars]
        meaning = {**self.describe_meaning(), "select": select, "where": where and where.canonical, "join": []}
        for step in steps:
            join = job.join[step.alias]
            referred = [each.canonical for each in self.referring.get(step.alias, ())]
            said = [referred, join.element_key, join.duplicates, join.unmatched]
            meaning["join"].append([step.alias, step.kind, step.how, *said, *self.written.get(step.alias, ())])
        return CompiledJob(spec, meaning, self.complete, self.kinds)

    def _default(self, steps: list[Step]) -> dict[str, str]:
        """Return what is selected where there is no ``select``: every column."""
        if self.open:
            return {}
        driving, keys = self.job.from_, self.keys[self.job.from_]
        # What is always null has no type yet: it comes when it has one.
        found = {name: quote(driving, name) for name, kind in self.tables[driving].items() if kind != "void"}
        if any(step.shares_key and step.keeps_right for step in steps):
            found |= {name: "key" if len(keys) == 1 else f"key.{quote(name)}" for name in keys}
        for step in steps:
            if JOINS[step.kind].gives_list:  # its list stands in the place of its elements
                for expression in self.referring[step.alias][:1]:
                    alias, *rest = next(iter(expression.paths))
                    is_column = expression.is_path and alias == driving and len(rest) == 1
                    column = find(rest[0], found) if is_column else None
                    if column is None:
                        message = "without select, 'elements' must be a top-level column of the driving source"
                        self.fault(message, "join", step.alias, "elements")
                    else:
                        found[column] = quote(step.alias)
                continue
            keep_key = JOINS[step.kind].describe_pairs(step) is not None
            for name, kind in self.tables[step.alias].items():
                if kind != "void" and (keep_key or name not in self.keys[step.alias]):
                    shown = f"{step.alias}_{name}"
                    if shown in found:
                        message = f"without select, {step.alias}.{name} would be a second target column {shown!r}"
                        self.fault(f"{message}; write a select", "join", step.alias)
                    found[shown] = quote(step.alias, name)
        return found

    def _identity(
        self, outputs: Mapping[str, Expression], steps: list[Step]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Find the target columns that hold the left key and, where it identifies rows as well, the lookup's."""
        keys = self.keys[self.job.from_]
        if self.open and (self.job.select is None or len(outputs) < len(self.job.select)):
            return (), ()
        own = [(self.job.from_, name) for name in keys]
        shared = [("key",) if len(keys) == 1 else ("key", name) for name in keys] if "key" in self.frame else own
        widened = any(step.shares_key and step.keeps_right for step in steps)
        forms = [[path] if widened else [path, ours] for path, ours in zip(shared, own, strict=True)]
        identity = self._find_holders(outputs, forms, "the target's key is not selected completely")
        pairs = [(step, said) for step in steps if (said := JOINS[step.kind].describe_pairs(step)) is not None]
        if not pairs:
            return identity, ()
        right, said = pairs[0]
        theirs = [[(right.alias, name)] for name in self.keys[right.alias]]
        return identity, self._find_holders(outputs, theirs, f"{said} needs the lookup's key in the target")

    def _find_holders(
        self, outputs: Mapping[str, Expression], forms: Sequence[Sequence[tuple[str, ...]]], message: str
    ) -> tuple[str, ...]:
        """Find the target column of each part of a key, given the paths that name it, or note ``message``."""
        paths = {name: fold_path(next(iter(each.paths))) for name, each in outputs.items() if each.is_path}
        folded = [set(map(fold_path, listed)) for listed in forms]
        found = tuple(next((name for name, path in paths.items() if path in listed), "") for listed in folded)
        if "" in found:
            wanted = ", ".join(".".join(listed[0]) for listed in forms)
            self.fault(f"{message}; select {wanted}", "select")
        return found
