"""One job against its tables' schemas -> the spec that the engine runs and the hash of what it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from enrich.config.models import Job, Join
from enrich.errors import ConfigError, Fault
from enrich.expressions import Expression, Scope
from enrich.plan.columns import Columns
from enrich.plan.schemas import fields_of, find, kind_of, name_of, shape
from enrich.spec import DataType, JobSpec, JoinSpec, MirrorSpec, Output, SourceSpec, Step, quoted

_FORBIDDEN = "`,;{}()=\n\t "

Typer = Callable[[Mapping[str, DataType], str], DataType]
"""Column -> type of a frame, and an expression over it -> its type, as Spark finds it; raises ConfigError."""


@dataclass(frozen=True)
class Plan:
    """A job ready to run.

    Attributes:
        spec: What the verbs read.
        meaning: What decides whether an existing target was made by the same job: hashed into every cursor.
        complete: False when types that only Spark can find were left unchecked (no session yet).
    """

    spec: JobSpec
    meaning: dict[str, Any]
    complete: bool


def compile_job(job: Job, tables: Mapping[str, dict[str, DataType]], typer: Typer | None = None) -> Plan:
    """Resolve a job against its tables.

    Args:
        job: The job.
        tables: Alias -> column -> Delta type.
        typer: Finds the types of expressions; None where there is no session.

    Raises:
        ConfigError: With every fault that was found, each with its line.
    """
    columns = Columns(job, tables)
    keys = columns.keys()
    plan = _mirror(job, columns, keys) if job.kind == "mirror" else _Joins(job, columns, keys, typer).plan()
    if columns.faults:
        raise ConfigError.of(columns.faults)
    return plan


def check_file(job: Job) -> list[Fault]:
    """Return what a job's file alone shows to be wrong in its expressions and its target's columns."""
    columns = Columns(job, None)
    keys = columns.keys()
    _ = _mirror(job, columns, keys) if job.kind == "mirror" else _Joins(job, columns, keys, None).plan()
    return columns.faults


def _sources(job: Job, columns: Columns, keys: Mapping[str, tuple[str, ...]]) -> dict[str, SourceSpec]:
    """Collect the used columns of every alias, key columns first, then in the table's order."""
    found = {}
    for alias, source in job.sources.items():
        order = [*keys[alias], *[name for name in columns.tables[alias] if name not in keys[alias]]]
        used = columns.used[alias] | set(keys[alias])
        kept = {name: columns.tables[alias][name] for name in order if name in used and name in columns.tables[alias]}
        found[alias] = SourceSpec(alias, source.table, keys[alias], kept, source.unique == "trusted")
    return found


def _meaning(job: Job) -> dict[str, Any]:
    sources = {alias: [source.table, list(source.key)] for alias, source in job.sources.items()}
    return {"kind": job.kind, "sources": sources, "from": job.from_}


def _mirror(job: Job, columns: Columns, keys: Mapping[str, tuple[str, ...]]) -> Plan:
    mirror, master = job.mirror, job.from_
    if mirror is None:
        raise ConfigError("a job of kind mirror needs mirror:", where=job.at())
    value = tuple(columns.named(master, name, "mirror", "value") for name in mirror.value)
    extra = tuple(columns.named(master, name, "mirror", "columns") for name in mirror.columns)
    order = None if mirror.order is None else columns.named(master, mirror.order, "mirror", "order")
    for name in (*value, *((order,) if order is not None else ())):
        kind = columns.tables[master].get(name)
        if kind is not None and kind_of(kind) in ("map", "array", "struct", "variant", "void"):
            columns.fault(f"column {name!r} is of type {name_of(kind)}, which cannot be compared", "mirror")
    spec = MirrorSpec(job.job, {}, master, value, mirror.conflict, order, extra)
    spec = MirrorSpec(job.job, _sources(job, columns, keys), master, value, mirror.conflict, order, extra)
    _check_names(spec.columns, columns, ("mirror",))
    meaning = {**_meaning(job), "mirror": [list(value), mirror.conflict, order, list(extra)]}
    return Plan(spec, meaning, complete=True)


def _check_names(names: tuple[str, ...], columns: Columns, place: tuple[str, ...]) -> None:
    """Refuse target columns that Delta or MERGE cannot hold, and pairs that differ in case alone."""
    seen: dict[str, str] = {}
    for name in names:
        where = (*place, name) if place == ("select",) else place
        if not name or any(c in _FORBIDDEN or ord(c) < 32 for c in name) or name.startswith("__enrich_"):
            columns.fault(
                f"{name!r} is no name for a target column: no backtick, blank, ,;{{}}()= or __enrich_", *where
            )
        if name.lower() in seen:
            columns.fault(
                f"target columns {seen[name.lower()]!r} and {name!r} are one to Spark; name them apart", *where
            )
        seen[name.lower()] = name


class _Joins:
    """Compiles one join job."""

    def __init__(self, job: Job, columns: Columns, keys: Mapping[str, tuple[str, ...]], typer: Typer | None) -> None:
        self.job = job
        self.columns = columns
        self.keys = keys
        self.typer = typer
        self.frame: dict[str, DataType] = {}
        self.complete = True
        self.table_aliases: list[str] = []
        self.referring: dict[str, list[Expression]] = {}

    def plan(self) -> Plan:
        """Resolve joins, target columns and condition, in this order: each sees what stands before it."""
        job = self.job
        self._see(job.from_, job.from_)
        steps = [self._step(alias, join) for alias, join in job.join.items()]
        outputs = self._outputs(steps)
        where = self._expression(job.where, "where") if job.where is not None else None
        if where is not None:
            self._check_boolean(where)
        sources = _sources(job, self.columns, self.keys)
        steps = [self._with_needs(step, steps) for step in steps]
        identity, right = self._identity(outputs, steps)
        items = tuple(Output(name, expression.text) for name, expression in outputs.items())
        spec = JoinSpec(
            job.job, sources, job.from_, tuple(steps), items, where.text if where else None, identity, right
        )
        _check_names(spec.columns, self.columns, ("select",) if job.select is not None else ("target",))
        self._check_cluster(spec)
        select = None if job.select is None else [[name, each.canonical] for name, each in outputs.items()]
        meaning = {**_meaning(job), "select": select, "where": where.canonical if where else None}
        meaning["join"] = [[step.alias, step.kind, step.how, *self._written(step.alias)] for step in steps]
        return Plan(spec, meaning, self.complete)

    def _written(self, alias: str) -> list[Any]:
        join = self.job.join[alias]
        return [list(join.on or ()), join.elements, join.element_key, join.duplicates, join.unmatched]

    def _see(self, alias: str, name: str) -> None:
        """Let later expressions see a source's row as a struct."""
        fields = [
            {"name": n, "type": k, "nullable": True, "metadata": {}} for n, k in self.columns.tables[alias].items()
        ]
        self.frame[name] = {"type": "struct", "fields": fields}

    @property
    def _scope(self) -> Scope:
        lists = frozenset(alias for alias in self.frame if self.columns.is_list(alias))
        return Scope(frozenset(self.frame) - lists - {"key"}, lists, "key" in self.frame)

    def _expression(self, text: str, *path: str | int) -> Expression | None:
        return self.columns.parse(text, self._scope, *path)

    def _type(self, expression: Expression, *path: str | int) -> DataType | None:
        """Return an expression's type; None when it needs a session that is not there."""
        known = self.columns.type_of(expression)
        if known is not None:
            return known
        if self.columns.open:
            return None
        if self.typer is None or self.columns.faults:
            self.complete = False
            return None
        try:
            return shape(self.typer(self.frame, expression.text))
        except ConfigError as error:
            self.columns.fault(error.message, *path)
            return None

    def _step(self, alias: str, join: Join) -> Step:
        step = {"table": self._table, "foreign_key": self._foreign_key, "list": self._list}[join.kind](alias, join)
        if join.kind != "list":
            self._see(alias, alias)
        return step

    def _table(self, alias: str, join: Join) -> Step:
        ours, theirs = self.keys[self.job.from_], self.keys[alias]
        if len(ours) != len(theirs):
            self.columns.fault(
                f"{self.job.from_!r} has {len(ours)} key columns and {alias!r} has {len(theirs)};"
                " a table join shares the key",
                "join",
                alias,
            )
        for our, their in zip(ours, theirs, strict=False):
            left = self.columns.tables[self.job.from_].get(our)
            self._check_types(alias, (f"{self.job.from_}.{our}", left), their, ("join", alias))
        self.table_aliases.append(alias)
        self.frame["key"] = self._key_type(ours)
        return Step(alias, "table", join.how)

    def _key_type(self, names: tuple[str, ...]) -> DataType:
        table = self.columns.tables[self.job.from_]
        if len(names) == 1:
            return table.get(names[0], "string")
        fields = [{"name": n, "type": table.get(n, "string"), "nullable": True, "metadata": {}} for n in names]
        return {"type": "struct", "fields": fields}

    def _check_types(
        self, alias: str, left: tuple[str, DataType | None], key: str, place: tuple[str | int, ...]
    ) -> None:
        """Refuse a join whose two sides differ in type: keys are compared without casts."""
        name, kind = left
        other = self.columns.tables[alias].get(key)
        if kind is not None and other is not None and shape(kind) != shape(other):
            self.columns.fault(
                f"{name} is {name_of(kind)} and {alias}.{key} is {name_of(other)}; give both sides of a key one type",
                *place,
            )

    def _foreign_key(self, alias: str, join: Join) -> Step:
        texts = join.on or ()
        if len(texts) != len(self.keys[alias]):
            self.columns.fault(
                f"'on' has {len(texts)} expressions and {alias!r} has {len(self.keys[alias])} key columns",
                "join",
                alias,
                "on",
            )
        for text, key in zip(texts, self.keys[alias], strict=False):
            place = ("join", alias, "on")
            expression = self._expression(text, *place)
            if expression is not None:
                self.referring.setdefault(alias, []).append(expression)
                self._check_types(alias, (text, self._type(expression, *place)), key, place)
        return Step(alias, "foreign_key", join.how, on=tuple(texts))

    def _list(self, alias: str, join: Join) -> Step:
        place = ("join", alias, "elements")
        lookup = self.columns.tables[alias]
        expression = self._expression(join.elements or "", *place)
        kind = self._type(expression, *place) if expression is not None else None
        self.referring[alias] = [expression] if expression is not None else []
        fields: tuple[str, ...] = ()
        if kind is not None:
            fields = self._element(alias, join, kind)
        if len(self.keys[alias]) != 1:
            self.columns.fault(f"{alias!r} has a composite key; an element of a list holds one id", "join", alias)
        element = fields_of(kind) or {} if kind is not None else {}
        own = [(name, element[name]) for name in fields]
        looked_up = [(name, each) for name, each in lookup.items() if name not in self.keys[alias]]
        taken = {name.lower() for name, _ in looked_up} | {name.lower() for name in self.keys[alias]}
        for name, _ in own:
            if name.lower() in taken:
                self.columns.fault(f"the element's field {name!r} has the name of a column of {alias!r}", *place)
        payload = [(name, lookup[name]) for name in self.keys[alias] if name in lookup] + own + looked_up
        items = [{"name": n, "type": k, "nullable": True, "metadata": {}} for n, k in payload]
        self.frame[alias] = {
            "type": "array",
            "containsNull": True,
            "elementType": {"type": "struct", "fields": items},
        }
        self.columns.use_all(alias)
        key = join.element_key
        found = find(key, element) or key if key is not None else None
        drops = (join.duplicates == "drop", join.unmatched == "drop")
        return Step(alias, "list", "left", (), join.elements, found, fields, *drops)

    def _element(self, alias: str, join: Join, kind: DataType) -> tuple[str, ...]:
        """Check the type of ``elements``; return the struct's fields beside the id."""
        place = ("join", alias, "elements")
        if kind_of(kind) != "array" or isinstance(kind, str):
            self.columns.fault(f"{join.elements} is {name_of(kind)}; a list join needs an array", *place)
            return ()
        element: DataType = kind["elementType"]
        key = self.keys[alias][0]
        if kind_of(element) != "struct":
            if join.element_key is not None:
                self.columns.fault(
                    f"element_key is for arrays of structs; {join.elements} is {name_of(kind)}",
                    "join",
                    alias,
                    "element_key",
                )
            self._check_types(alias, (f"an element of {join.elements}", element), key, place)
            return ()
        fields = fields_of(element) or {}
        if join.element_key is None:
            self.columns.fault(
                f"the elements of {join.elements} are structs; name the field that holds the id as element_key", *place
            )
            return ()
        found = find(join.element_key, fields)
        if found is None:
            names = ", ".join(sorted(fields))
            self.columns.fault(
                f"the elements of {join.elements} have no field {join.element_key!r}; they have: {names}",
                "join",
                alias,
                "element_key",
            )
            return ()
        self._check_types(alias, (f"{join.elements}.{found}", fields[found]), key, ("join", alias, "element_key"))
        return tuple(name for name in fields if name != found)

    def _check_boolean(self, where: Expression) -> None:
        kind = self._type(where, "where")
        if kind is not None and kind != "boolean":
            self.columns.fault(f"'where' is {name_of(kind)}; it must be a condition", "where")

    def _outputs(self, steps: list[Step]) -> dict[str, Expression]:
        """Resolve ``select``, or every column when there is none."""
        if self.job.select is None:
            texts = self._default(steps)
            place: tuple[str, ...] = ("target",)
        else:
            texts, place = dict(self.job.select), ("select",)
        found = {}
        for name, text in texts.items():
            where = (*place, name) if place == ("select",) else place
            expression = self._expression(text, *where)
            if expression is None:
                continue
            found[name] = expression
            kind = self._type(expression, *where)
            if kind is not None and kind_of(kind) == "void":
                self.columns.fault(f"{name!r} is always null and has no type; cast it", *where)
        return found

    def _default(self, steps: list[Step]) -> dict[str, str]:
        if self.columns.open:
            return {}
        driving = self.job.from_
        coalesced = any(step.kind == "table" and step.keeps_right for step in steps)
        found = {name: quoted(driving, name) for name in self.columns.tables[driving]}
        keys = self.keys[driving]
        if coalesced:
            found |= {name: "key" if len(keys) == 1 else f"key.{quoted(name)}" for name in keys}
        for step in steps:
            if step.kind == "list":
                self._replace_elements(step, found)
                continue
            keep_key = step.kind == "foreign_key" and step.keeps_right
            for name in self.columns.tables[step.alias]:
                if keep_key or name not in self.keys[step.alias]:
                    found[f"{step.alias}_{name}"] = quoted(step.alias, name)
        return found

    def _replace_elements(self, step: Step, found: dict[str, str]) -> None:
        if not self.referring[step.alias]:
            return
        expression = self.referring[step.alias][0]
        alias, *rest = next(iter(expression.paths))
        column = find(rest[0], found) if expression.is_path and alias == self.job.from_ and len(rest) == 1 else None
        if column is None:
            self.columns.fault(
                "without select, 'elements' must be a top-level column of the driving source",
                "join",
                step.alias,
                "elements",
            )
            return
        found[column] = quoted(step.alias)

    def _with_needs(self, step: Step, steps: list[Step]) -> Step:
        """Note which earlier joins a step's expressions depend on."""
        return replace(step, needs=frozenset(self._closure(step.alias, steps) - {step.alias}))

    def _closure(self, alias: str, steps: list[Step]) -> set[str]:
        """Return the joins that make ``alias`` (or ``key``) what it is, itself included."""
        widening = {step.alias for step in steps if step.kind == "table" and step.keeps_right}
        if alias == self.job.from_:
            return set()
        if alias == "key":
            return widening
        if alias in self.table_aliases:
            return {alias} | widening
        paths = {path[0] for expression in self.referring.get(alias, ()) for path in expression.paths}
        return {alias}.union(*[self._closure(each, steps) for each in paths])

    def _identity(
        self, outputs: Mapping[str, Expression], steps: list[Step]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Find the target columns that hold the left key and, for a right or full foreign-key join, the lookup's."""
        driving, keys = self.job.from_, self.keys[self.job.from_]
        if self.columns.open and (self.job.select is None or len(outputs) < len(self.job.select)):
            return (), ()
        widened = any(step.kind == "table" and step.keeps_right for step in steps)
        forms: list[list[tuple[str, ...]]] = []
        for name in keys:
            found: list[tuple[str, ...]] = [] if widened else [(driving, name)]
            if self.table_aliases:
                found.append(("key",) if len(keys) == 1 else ("key", name))
            forms.append(found)
        identity = tuple(self._holding(outputs, each) for each in forms)
        if None in identity:
            wanted = "key" if len(keys) == 1 else "key." + ", key.".join(keys)
            wanted = wanted if self.table_aliases else ", ".join(f"{driving}.{name}" for name in keys)
            self.columns.fault(f"the target's key is not selected whole; select {wanted}", "select")
        right = next((step for step in steps if step.kind == "foreign_key" and step.keeps_right), None)
        rights = (
            tuple(self._holding(outputs, [(right.alias, name)]) for name in self.keys[right.alias]) if right else ()
        )
        if right is not None and None in rights:
            names = ", ".join(f"{right.alias}.{name}" for name in self.keys[right.alias])
            self.columns.fault(
                f"a {right.how} foreign-key join needs the lookup's key in the target; select {names}", "select"
            )
        return tuple(n or "" for n in identity), tuple(n or "" for n in rights)

    def _holding(self, outputs: Mapping[str, Expression], forms: list[tuple[str, ...]]) -> str | None:
        lowered = [(form[0], *[part.lower() for part in form[1:]]) for form in forms]
        for name, expression in outputs.items():
            if expression.is_path:
                alias, *rest = next(iter(expression.paths))
                if (alias, *[part.lower() for part in rest]) in lowered:
                    return name
        return None

    def _check_cluster(self, spec: JoinSpec) -> None:
        names = dict.fromkeys(spec.columns)
        known = not self.columns.open or self.job.select is not None
        for name in self.job.target.cluster_by if known else ():
            if find(name, names) is None:
                self.columns.fault(f"cluster_by names {name!r}, which is no target column", "target", "cluster_by")
