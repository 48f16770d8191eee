"""The joins of one job file -> steps: types on both sides, what later expressions see, what each join depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from enrich.base.errors import ConfigError
from enrich.base.schemas import (
    build_struct,
    fields_of,
    find,
    incomparable,
    is_time,
    kind_of,
    may_be_key,
    name_of,
    strip_type,
)
from enrich.base.spec import DataType, Interval, Step
from enrich.compiler.columns import Columns
from enrich.config.durations import scale_bounds
from enrich.config.models import Job, Join
from enrich.expressions import Expression, Scope

Typer = Callable[[Mapping[str, DataType], str], DataType | None]
"""Column -> type of a frame, and an expression over it -> its type, as Spark finds it; raises ConfigError.

None where it is not known without Spark.
"""


class Steps:
    """Resolves the joins of one job, in their order; each sees what stands before it.

    Attributes:
        complete: False when a type was left unchecked because only Spark can find it and there is no session.
        referring: Lookup -> the expressions that refer to it.
        versions: Lookup of an as-of join -> what tells how long its versions hold, as written.
        is_sound: False when the joins have a fault, so that types after them are not known; None while they are read.
        kinds: Target column -> its type, where it is known.
    """

    def __init__(self, job: Job, columns: Columns, keys: Mapping[str, tuple[str, ...]], typer: Typer | None) -> None:
        self.job = job
        self.columns = columns
        self.keys = keys
        self.typer = typer
        self.frame: dict[str, DataType] = {}
        self.complete = True
        self.referring: dict[str, list[Expression]] = {}
        self.versions: dict[str, list[str | None]] = {}
        self.is_sound: bool | None = None
        self.kinds: dict[str, DataType] = {}

    def list_written(self, alias: str) -> list[Any]:
        """Return what a join says, for the hash of the definition."""
        join = self.job.join[alias]
        texts = [each.canonical for each in self.referring.get(alias, ())]
        said = [texts, join.element_key, join.duplicates, join.unmatched, *self.versions.get(alias, ())]
        # Only where there is one: the targets of jobs without it were made by the same job still.
        return [*said, join.match, join.time, join.between] if join.kind == "interval" else said

    def see(self, alias: str) -> None:
        """Let later expressions see a source's row as a struct."""
        columns = self.columns.tables[alias].items()
        self.frame[alias] = build_struct({name: kind for name, kind in columns if not incomparable(kind)})

    def expression(self, text: str, *path: str | int) -> Expression | None:
        """Read an expression over what has been joined so far."""
        lists = frozenset(alias for alias in self.frame if self.columns.is_list(alias))
        scope = Scope(frozenset(self.frame) - lists - {"key"}, lists, "key" in self.frame)
        return self.columns.parse(text, scope, *path)

    def type_of(self, expression: Expression, *path: str | int) -> DataType | None:
        """Return an expression's type; None when it needs a session that is not there."""
        known = self.columns.type_of(expression)
        if known is not None:
            return known
        if self.columns.open:
            return None
        is_sound = not self.columns.faults if self.is_sound is None else self.is_sound
        if self.typer is None or not is_sound:
            self.complete = False
            return None
        try:
            found = self.typer(self.frame, expression.text)
        except ConfigError as error:
            self.columns.fault(error.message, *path)
            return None
        self.complete = self.complete and found is not None
        return None if found is None else strip_type(found)

    def step(self, alias: str, join: Join) -> Step:
        """Resolve one join, and note what its expressions read."""
        resolve = {
            "table": self._table, "foreign_key": self._foreign_key, "as_of": self._as_of, "list": self._list,
            "interval": self._interval,
        }  # fmt: skip
        step = resolve[join.kind](alias, join)
        if join.kind != "list":
            self.see(alias)
        referring = self.referring.get(alias, ())
        reads = frozenset(path[0] for expression in referring for path in expression.paths)
        is_plain = step.is_plain and all(expression.is_path for expression in referring)
        decisive = step.decisive.union(*[self._columns_of(expression) for expression in referring])
        return replace(step, reads=reads, decisive=decisive, is_plain=is_plain)

    def _columns_of(self, expression: Expression) -> frozenset[tuple[str, str]]:
        """Return the columns that an expression reads, with their aliases; all of a list's. Keys are left out."""
        found = set()
        for alias, *rest in expression.paths:
            table = self.columns.tables.get(alias, {})
            names = [find(rest[0], table) or rest[0]] if rest else list(table)
            found |= {(alias, name) for name in names} if alias != "key" else set()
        return frozenset(found)

    def _table(self, alias: str, join: Join) -> Step:
        ours, table = self.keys[self.job.from_], self.columns.tables[self.job.from_]
        for our, their in zip(ours, self.keys[alias], strict=True):
            self._check_types(alias, (f"{self.job.from_}.{our}", table.get(our)), their, ("join", alias))
        types = {name: table.get(name, "string") for name in ours}
        self.frame["key"] = types[ours[0]] if len(ours) == 1 else build_struct(types)
        return Step(alias, "table", join.how)

    def _check_types(
        self, alias: str, left: tuple[str, DataType | None], key: str, place: tuple[str | int, ...]
    ) -> None:
        """Refuse a join whose two sides differ in type: keys are compared without casts."""
        name, kind = left
        other = self.columns.tables[alias].get(key)
        if kind is not None and other is not None and strip_type(kind) != strip_type(other):
            self.columns.fault(
                f"{name} is {name_of(kind)} and {alias}.{key} is {name_of(other)}; give both sides one type", *place
            )

    def _foreign_key(self, alias: str, join: Join) -> Step:
        texts = join.on or ()
        for text, key in zip(texts, self.keys[alias], strict=True):
            place = ("join", alias, "on")
            expression = self.expression(text, *place)
            if expression is not None:
                self.referring.setdefault(alias, []).append(expression)
                self._check_types(alias, (text, self.type_of(expression, *place)), key, place)
        return Step(alias, "foreign_key", join.how, on=tuple(texts))

    def _as_of(self, alias: str, join: Join) -> Step:
        *parts, start = self.keys[alias]
        texts, moment = join.on or (), join.at or ""
        for text, key, option in [*zip(texts, parts, ["on"] * len(parts), strict=True), (moment, start, "at")]:
            expression = self.expression(text, "join", alias, option)
            if expression is not None:
                self.referring.setdefault(alias, []).append(expression)
                kind = self.type_of(expression, "join", alias, option)
                self._check_types(alias, (text, kind), key, ("join", alias, option))
        known = self.columns.tables[alias]
        if start in known and not is_time(known[start]):
            message = f"{alias}.{start} is {name_of(known[start])}; it must be a date, a timestamp or a number"
            self.columns.fault(message, "join", alias, "valid_from")
        end = None
        if join.valid_to is not None:
            end = self.columns.named(alias, join.valid_to, "join", alias, "valid_to")
            self._check_types(alias, (f"{alias}.{end}", known.get(end)), start, ("join", alias, "valid_to"))
        self.see(alias)
        gone = self._gone(alias, join.gone) if join.gone is not None else None
        self.versions[alias] = [end, gone.canonical if gone is not None else None]
        ends = frozenset({(alias, end)} if end is not None else ())
        step = Step(alias, "as_of", join.how, on=tuple(texts), at=moment, valid_to=end, gone=join.gone, decisive=ends)
        return step if gone is None else replace(step, is_plain=gone.is_path, decisive=ends | self._columns_of(gone))

    def _gone(self, alias: str, text: str) -> Expression | None:
        """Read the condition by which a version says that the thing is gone; it sees the lookup alone."""
        place = ("join", alias, "gone")
        expression = self.columns.parse(text, Scope(frozenset({alias})), *place)
        kind = self.type_of(expression, *place) if expression is not None else None
        if kind is not None and kind != "boolean":
            self.columns.fault(f"'gone' is {name_of(kind)}; it must be a condition", *place)
        return expression

    def _interval(self, alias: str, join: Join) -> Step:
        texts, match = join.on or (), []
        for text, column in zip(texts, join.match or (), strict=True):
            place = ("join", alias, "on")
            expression = self.expression(text, *place)
            name = self._named(alias, column, "match")
            match.append(name)
            if expression is not None:
                self.referring.setdefault(alias, []).append(expression)
                self._check_types(alias, (text, self.type_of(expression, *place)), name, place)
        place, text = ("join", alias, "at"), join.at or ""
        at, time = self.expression(text, *place), self._named(alias, join.time or "", "time")
        kind = self.columns.tables[alias].get(time)
        if at is not None:
            self.referring.setdefault(alias, []).append(at)
            self._check_types(alias, (text, self.type_of(at, *place)), time, place)
        bounds: tuple[Decimal, Decimal] | str = (Decimal(0), Decimal(0))
        if kind is not None:
            if is_time(kind):
                bounds = scale_bounds(join.between or (), str(kind))
            else:
                message = f"{time!r} of {alias!r} is {name_of(kind)}; a time is a date, a timestamp or a number"
                self.columns.fault(message, "join", alias, "time")
        if isinstance(bounds, str):
            self.columns.fault(f"{bounds}, not {list(join.between or ())}", "join", alias, "between")
            bounds = (Decimal(0), Decimal(0))
        near = Interval(tuple(match), text, time, *bounds)
        compared = frozenset((alias, name) for name in (*match, time))
        return Step(alias, "interval", join.how, on=tuple(texts), interval=near, decisive=compared)

    def _named(self, alias: str, column: str, option: str) -> str:
        """Resolve a column of a lookup that is compared; a type that cannot be is a fault."""
        name = self.columns.named(alias, column, "join", alias, option)
        kind = self.columns.tables[alias].get(name)
        if kind is not None and not may_be_key(kind):
            self.columns.fault(f"{name!r} of type {name_of(kind)} cannot be compared", "join", alias, option)
        return name

    def _list(self, alias: str, join: Join) -> Step:
        place = ("join", alias, "elements")
        expression = self.expression(join.elements or "", *place)
        kind = self.type_of(expression, *place) if expression is not None else None
        self.referring[alias] = [expression] if expression is not None else []
        key, own = self._element(alias, join, kind) if kind is not None else (join.element_key, {})
        lookup = {name: kind for name, kind in self.columns.tables[alias].items() if kind != "void"}
        taken = {name.lower() for name in (*lookup, *self.keys[alias])}
        for name in own:
            if name.lower() in taken:
                self.columns.fault(f"the element's field {name!r} has the name of a column of {alias!r}", *place)
        id_columns = {name: lookup[name] for name in self.keys[alias] if name in lookup}
        element = build_struct(id_columns | own | {name: k for name, k in lookup.items() if name not in id_columns})
        self.frame[alias] = {"type": "array", "containsNull": True, "elementType": element}
        for name in lookup:
            self.columns.named(alias, name, "join", alias)
        drops = (join.duplicates == "drop", join.unmatched == "drop")
        return Step(alias, "list", "left", (), join.elements, key, tuple(own), *drops)

    def _element(self, alias: str, join: Join, kind: DataType) -> tuple[str | None, dict[str, DataType]]:
        """Check the type of ``elements``; return the struct's field with the id, and its other fields."""
        place, at_key = ("join", alias, "elements"), ("join", alias, "element_key")
        wanted, key = join.element_key, self.keys[alias][0]
        if kind_of(kind) != "array" or isinstance(kind, str):
            self.columns.fault(f"{join.elements} is {name_of(kind)}; a list join needs an array", *place)
            return wanted, {}
        element: DataType = kind["elementType"]
        if kind_of(element) != "struct":
            if wanted is not None:
                self.columns.fault(f"element_key is for arrays of structs; {join.elements} is {name_of(kind)}", *at_key)
            self._check_types(alias, (f"an element of {join.elements}", element), key, place)
            return wanted, {}
        if wanted is None:
            self.columns.fault(
                f"the elements of {join.elements} are structs; name the field with the id as element_key", *place
            )
            return None, {}
        fields = fields_of(element) or {}
        found = find(wanted, fields)
        if found is None:
            names = ", ".join(sorted(fields))
            self.columns.fault(f"the elements of {join.elements} have no field {wanted!r}; they have: {names}", *at_key)
            return wanted, {}
        self._check_types(alias, (f"{join.elements}.{found}", fields[found]), key, at_key)
        return found, {name: each for name, each in fields.items() if name != found}
