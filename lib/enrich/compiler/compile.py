"""One job against its tables' schemas -> the spec that the engine runs and the hash of what it means."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

from enrich.base.errors import ConfigError, Fault, did_you_mean
from enrich.base.names import name_path
from enrich.base.schemas import find, holds_void, incomparable, may_be_key, name_of
from enrich.base.spec import (
    PREFIX,
    CompiledJob,
    DataType,
    HistorySpec,
    JoinSpec,
    MirrorSpec,
    Output,
    SourceSpec,
    Step,
    quote,
)
from enrich.compiler.columns import Columns
from enrich.compiler.steps import Steps, Typer
from enrich.config.checks import NOT_IN_COLUMN, RESERVED_COLUMNS, describe_reserved, suggest_rename
from enrich.config.models import History, Job
from enrich.expressions import Expression


def compile_job(job: Job, tables: Mapping[str, dict[str, DataType]], typer: Typer | None = None) -> CompiledJob:
    """Resolve a job against its tables.

    Args:
        job: The job.
        tables: Alias -> column -> Delta type.
        typer: Finds the types of expressions; None where there is no session.

    Raises:
        ConfigError: With every fault that was found, each with its line.
    """
    columns = Columns(job, tables)
    compiled = _resolve(job, columns, typer)
    if columns.faults:
        raise ConfigError.of(columns.faults)
    return compiled


def check_file(job: Job, names: Mapping[str, Collection[str]] | None = None) -> list[Fault]:
    """Return what a job's file alone shows to be wrong in its expressions and its target's columns.

    Args:
        job: The job.
        names: Alias -> columns of those sources whose columns are known without their tables.
    """
    columns = Columns(job, None, names)
    _resolve(job, columns, None)
    return columns.faults


def list_target_columns(job: Job) -> tuple[str, ...] | None:
    """Return the target's columns where the job's file names all of them, in the case of the file; None otherwise."""
    if job.kind == "join":
        return None if job.select is None else tuple(job.select)
    if job.kind == "history" and (job.history is None or job.history.columns is None):
        return None
    return _resolve(job, Columns(job, None, None), None).spec.columns


def _resolve(job: Job, columns: Columns, typer: Typer | None) -> CompiledJob:
    """Resolve a job; it can be run when ``columns`` has no fault."""
    keys = columns.keys()
    if job.kind == "history":
        return _compile_history(job, columns, keys)
    return _compile_mirror(job, columns, keys) if job.kind == "mirror" else _Joins(job, columns, keys, typer).compile()


def _collect_sources(job: Job, columns: Columns, keys: Mapping[str, tuple[str, ...]]) -> dict[str, SourceSpec]:
    """Collect the used columns of every alias, key columns first, then in the table's order."""
    found = {}
    for alias, source in job.sources.items():
        used, table = columns.used[alias] | set(keys[alias]), columns.tables[alias]
        kept = {name: table[name] for name in dict.fromkeys((*keys[alias], *table)) if name in used and name in table}
        trusted = source.unique == "trusted"
        found[alias] = SourceSpec(alias, keys[alias], kept, trusted, source.normalise)
    return found


def _describe_meaning(job: Job) -> dict[str, Any]:
    # Not the tables' names: their ids are compared, and a table may move.
    sources = {alias: list(source.key) for alias, source in job.sources.items()}
    meaning: dict[str, Any] = {"kind": job.kind, "sources": sources, "from": job.from_}
    # Only where there is any: the targets of jobs without it were made by the same job still.
    if forms := {alias: list(source.normalise) for alias, source in job.sources.items() if source.normalise}:
        meaning["normalise"] = forms
    return meaning


def _compile_mirror(job: Job, columns: Columns, keys: Mapping[str, tuple[str, ...]]) -> CompiledJob:
    mirror, master = job.mirror, job.from_
    if mirror is None:
        raise ConfigError("a job of kind mirror needs mirror:", where=job.at())
    value = tuple(columns.named(master, name, "mirror", "value") for name in mirror.value)
    extra = tuple(columns.named(master, name, "mirror", "columns") for name in mirror.columns)
    order = None if mirror.order is None else columns.named(master, mirror.order, "mirror", "order")
    for name in (*value, *((order,) if order is not None else ())):
        kind = columns.tables[master].get(name)
        if kind is not None and not may_be_key(kind):
            columns.fault(f"column {name!r} is of type {name_of(kind)}, which cannot be compared", "mirror")
    for name in extra:
        _check_void(columns, name, columns.tables[master].get(name), "mirror", "columns")
    spec = MirrorSpec(job.job, _collect_sources(job, columns, keys), master, value, mirror.conflict, order, extra)
    _check_names({name: name_path(master, name) for name in spec.columns}, columns, ("mirror",))
    meaning = {**_describe_meaning(job), "mirror": [list(value), mirror.conflict, order, list(extra)]}
    return CompiledJob(spec, meaning, complete=True)


def _compile_history(job: Job, columns: Columns, keys: Mapping[str, tuple[str, ...]]) -> CompiledJob:
    history, alias = job.history or History(), job.from_
    place = ("history", "columns") if history.columns is not None else ("history",)
    # What is always null has no type yet: it comes when it has one, as any column that comes later.
    typed = [name for name, kind in columns.tables[alias].items() if kind != "void"]
    named = history.columns if history.columns is not None else typed
    tracked = tuple(columns.named(alias, name, *place) for name in named if find(name, keys[alias]) is None)
    for name in tracked:
        _check_void(columns, name, columns.tables[alias].get(name), *place)
    sources, always = _collect_sources(job, columns, keys), history.start == "beginning"
    spec = HistorySpec(job.job, sources, alias, tracked, history.valid_from, history.valid_to, always)
    filled = {name: name_path(alias, name) if name in sources[alias].columns else None for name in spec.columns}
    _check_names(filled, columns, ("history",))
    if not columns.open:
        _check_cluster(job, spec.columns, columns)
    shown = None if history.columns is None else list(tracked)
    meaning = {**_describe_meaning(job), "history": [spec.valid_from, spec.valid_to, shown, always]}
    return CompiledJob(spec, meaning, complete=True)


def _check_void(columns: Columns, name: str, kind: DataType | None, *path: str | int) -> None:
    """Refuse a target column with a part that has no type."""
    if kind is not None and holds_void(kind):
        kept = columns.job.kind == "join"
        mends = "cast it, or leave it out of 'select'" if kept else "leave it out until its table gives it a type"
        columns.fault(f"{name!r} is {name_of(kind)}: what is always null has no type; {mends}", *path)


def _check_names(filled: Mapping[str, str | None], columns: Columns, place: tuple[str, ...]) -> None:
    """Refuse target columns that Delta or MERGE cannot hold, or the quarantine has, and pairs that differ in case.

    Args:
        filled: Target column -> the expression that fills it; None where the job file alone gives it.
        columns: The job's columns.
        place: Where the job file speaks of them.
    """
    seen: dict[str, str] = {}
    kind = columns.job.kind
    for name, expression in filled.items():
        where = (*place, name) if place == ("select",) else place
        if not name or NOT_IN_COLUMN.search(name) or name.lower().startswith(PREFIX):
            mends = "" if expression is None else suggest_rename(kind, name, expression)
            columns.fault(
                f"{name!r} cannot be a target column: it has a backtick, blank, ,;{{}}()= or {PREFIX}{mends}", *where
            )
        if user := RESERVED_COLUMNS.get(name.lower()):
            columns.fault(describe_reserved(name, user, kind, expression), *where)
        if name.lower() in seen:
            columns.fault(
                f"target columns {seen[name.lower()]!r} and {name!r} are one name for Spark; rename one", *where
            )
        seen[name.lower()] = name


def _check_cluster(job: Job, names: tuple[str, ...], columns: Columns) -> None:
    """Refuse to cluster by what is no target column."""
    for name in job.target.cluster_by:
        if name not in names:
            hint = did_you_mean(name, names)
            columns.fault(f"cluster_by names {name!r}, which is not a target column{hint}", "target", "cluster_by")


def _fold_path(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return a path as Spark compares it: names of columns and fields without case."""
    return path[0], *(part.lower() for part in path[1:])


class _Joins(Steps):
    """Compiles one join job."""

    def compile(self) -> CompiledJob:
        """Resolve joins, target columns and condition, in this order: each sees what stands before it."""
        job = self.job
        self.see(job.from_)
        steps = [self.step(alias, join) for alias, join in job.join.items()]
        self.is_sound = not self.columns.faults
        outputs = self._outputs(steps)
        where = self.expression(job.where, "where") if job.where is not None else None
        kind = self.type_of(where, "where") if where is not None else None
        if kind is not None and kind != "boolean":
            self.columns.fault(f"'where' is {name_of(kind)}; it must be a condition", "where")
        sources = _collect_sources(job, self.columns, self.keys)
        identity, right = self._identity(outputs, steps)
        items = tuple(Output(name, each.text, each.paths, each.is_path) for name, each in outputs.items())
        texts = [*outputs.values(), *([where] if where else []), *chain.from_iterable(self.referring.values())]
        spec = JoinSpec(
            job.job,
            sources,
            job.from_,
            tuple(steps),
            items,
            where.text if where else None,
            identity,
            right,
            read_whole=frozenset(p[0] for t in texts for p in t.paths if len(p) == 1 and self.columns.is_list(p[0])),
            where_is_plain=where is None or self.columns.only_compares(where),
        )
        filled = {name: each.text for name, each in outputs.items()}
        _check_names(filled, self.columns, ("select",) if job.select is not None else ("target",))
        if job.select is not None or not self.columns.open:
            _check_cluster(job, spec.columns, self.columns)
        select = None if job.select is None else [[name, each.canonical] for name, each in outputs.items()]
        meaning = {**_describe_meaning(job), "select": select, "where": where.canonical if where else None}
        meaning["join"] = [[step.alias, step.kind, step.how, *self.list_written(step.alias)] for step in steps]
        return CompiledJob(spec, meaning, self.complete, self.kinds)

    def _outputs(self, steps: list[Step]) -> dict[str, Expression]:
        """Resolve ``select``, or every column when there is none."""
        select = self.job.select
        found = {}
        for name, text in (self._default(steps) if select is None else select).items():
            where = ("target",) if select is None else ("select", name)
            expression = self.expression(text, *where)
            if expression is None:
                continue
            found[name] = expression
            kind = self.type_of(expression, *where)
            self.kinds |= {name: kind} if kind is not None else {}
            _check_void(self.columns, name, kind, *where)
            if kind is not None and incomparable(kind):
                self.columns.fault(
                    f"{name!r} is {name_of(kind)}, which a target cannot hold and compare; cast it", *where
                )
        return found

    def _default(self, steps: list[Step]) -> dict[str, str]:
        if self.columns.open:
            return {}
        driving = self.job.from_
        coalesced = any(step.kind == "table" and step.keeps_right for step in steps)
        # What is always null has no type yet: it comes when it has one.
        found = {name: quote(driving, name) for name, kind in self.columns.tables[driving].items() if kind != "void"}
        keys = self.keys[driving]
        if coalesced:
            found |= {name: "key" if len(keys) == 1 else f"key.{quote(name)}" for name in keys}
        for step in steps:
            if step.kind == "list":
                self._replace_elements(step, found)
                continue
            keep_key = step.kind == "interval" or (step.kind == "foreign_key" and step.keeps_right)
            for name, kind in self.columns.tables[step.alias].items():
                if kind == "void":
                    continue
                if keep_key or name not in self.keys[step.alias]:
                    self._add_column(found, step.alias, name)
        return found

    def _add_column(self, found: dict[str, str], alias: str, name: str) -> None:
        """Show a lookup's column under its alias, unless another column has this name already."""
        shown = f"{alias}_{name}"
        if shown in found:
            message = f"without select, {alias}.{name} would be a second target column {shown!r}; write a select"
            self.columns.fault(message, "join", alias)
        found[shown] = quote(alias, name)

    def _replace_elements(self, step: Step, found: dict[str, str]) -> None:
        if not self.referring[step.alias]:
            return
        expression = self.referring[step.alias][0]
        alias, *rest = next(iter(expression.paths))
        column = find(rest[0], found) if expression.is_path and alias == self.job.from_ and len(rest) == 1 else None
        if column is None:
            message = "without select, 'elements' must be a top-level column of the driving source"
            self.columns.fault(message, "join", step.alias, "elements")
        else:
            found[column] = quote(step.alias)

    def _identity(
        self, outputs: Mapping[str, Expression], steps: list[Step]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Find the target columns that hold the left key and, where it identifies rows as well, the lookup's."""
        driving, keys = self.job.from_, self.keys[self.job.from_]
        if self.columns.open and (self.job.select is None or len(outputs) < len(self.job.select)):
            return (), ()
        own = [(driving, name) for name in keys]
        shared = [("key",) if len(keys) == 1 else ("key", name) for name in keys] if "key" in self.frame else own
        widened = any(step.kind == "table" and step.keeps_right for step in steps)
        forms = [[path] if widened else [path, ours] for path, ours in zip(shared, own, strict=True)]
        identity = self._find_holders(outputs, forms, "the target's key is not selected completely")
        right = next((step for step in steps if step.kind == "foreign_key" and step.keeps_right), None)
        right = next((step for step in steps if step.kind == "interval"), right)
        if right is None:
            return identity, ()
        theirs = [[(right.alias, name)] for name in self.keys[right.alias]]
        kind = "an interval" if right.kind == "interval" else f"a {right.how} foreign-key"
        message = f"{kind} join needs the lookup's key in the target"
        return identity, self._find_holders(outputs, theirs, message)

    def _find_holders(
        self, outputs: Mapping[str, Expression], forms: Sequence[Sequence[tuple[str, ...]]], message: str
    ) -> tuple[str, ...]:
        """Find the target column of each part of a key, given the paths that name it, or note ``message``."""
        paths = {name: _fold_path(next(iter(each.paths))) for name, each in outputs.items() if each.is_path}
        found = []
        for listed in forms:
            folded = [_fold_path(form) for form in listed]
            found.append(next((name for name, path in paths.items() if path in folded), ""))
        if "" in found:
            wanted = ", ".join(".".join(listed[0]) for listed in forms)
            self.columns.fault(f"{message}; select {wanted}", "select")
        return tuple(found)
