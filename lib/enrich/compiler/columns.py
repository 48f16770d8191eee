"""One job's names against its tables: which columns exist, which are used, of which type a path is."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from enrich.base.errors import Fault, did_you_mean
from enrich.base.schemas import fields_of, find, incomparable, kind_of, may_be_key, name_of, strip_type
from enrich.base.spec import TEXT_TYPE, DataType
from enrich.config.kinds import JOINS
from enrich.config.models import Job
from enrich.expressions import Expression, ExpressionError, Scope, parse_expression
from enrich.expressions.comparisons import Operand

_NUMBERS = frozenset({"number", "byte", "short", "integer", "long", "float", "double"})
_SHORT_DECIMAL = 18
"""Digits of decimals that Spark brings to one scale with each other, and with all whole numbers, without loss."""


class Columns:
    """The columns of a job's sources, and the faults found while resolving names.

    Args:
        job: The job.
        tables: Alias -> column -> type; None when only the file is looked at, then every column exists.
        names: Alias -> columns, where they are known and their types are not; only with ``tables`` None.
    """

    def __init__(
        self,
        job: Job,
        tables: Mapping[str, dict[str, DataType]] | None,
        names: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.job = job
        self.names = names or {}
        self.open = tables is None
        self.tables: Mapping[str, dict[str, DataType]] = tables or {alias: {} for alias in job.sources}
        self.faults: list[Fault] = []
        self.used: dict[str, set[str]] = {alias: set() for alias in job.sources}

    def fault(self, message: str, *path: str | int) -> None:
        """Note a fault at a place of the job's file."""
        self.faults.append(Fault(message, self.job.at(*path)))

    def named(self, alias: str, name: str, *path: str | int) -> str:
        """Resolve a column that the file names literally, and note it as used."""
        if self.open:
            if alias in self.names and find(name, self.names[alias]) is None:
                self._refuse_column(alias, name, self.names[alias], *path)
            return name
        columns = self.tables[alias]
        found = find(name, columns)
        if found is None:
            self._refuse_column(alias, name, columns, *path)
            return name
        self.used[alias].add(found)
        kind = columns[found]
        if types := incomparable(kind):
            collated = any("collate" in each for each in types)
            instead = (
                "let the table have it with the collation UTF8_BINARY" if collated else "keep it as text in its table"
            )
            self.fault(
                f"column {found!r} of {alias!r} is {name_of(kind)}, and a change of a value of type"
                f" {' or '.join(types)} might not be found; leave it out, or {instead}",
                *path,
            )
        return found

    def _refuse_column(self, alias: str, name: str, known: Collection[str], *path: str | int) -> None:
        table = self.job.sources[alias].table
        self.fault(f"{name!r} is not a column of {alias!r} (table {table}){did_you_mean(name, known)}", *path)

    def keys(self) -> dict[str, tuple[str, ...]]:
        """Resolve the key columns of all sources; a type that cannot be a key is a fault."""
        found: dict[str, tuple[str, ...]] = {}
        for alias, source in self.job.sources.items():
            found[alias] = tuple(self.named(alias, name, "sources", alias, "key") for name in source.key)
            for name in found[alias]:
                kind = self.tables[alias].get(name)
                if kind is not None and not may_be_key(kind):
                    self.fault(f"{name!r} of type {name_of(kind)} cannot be a key column", "sources", alias, "key")
            if source.normalise:
                self._check_text(alias, found[alias])
        return found

    def _check_text(self, alias: str, key: tuple[str, ...]) -> None:
        """Refuse to normalise a key without text; of a composite one the text columns are normalised."""
        kinds = {name: self.tables[alias][name] for name in key if name in self.tables[alias]}
        if kinds and all(kind != TEXT_TYPE for kind in kinds.values()):
            told = ", ".join(f"{name!r} is {name_of(kind)}" for name, kind in kinds.items())
            self.fault(f"'normalise' needs a text column in the key; key column {told}", "sources", alias, "normalise")

    def parse(self, text: str, scope: Scope, *path: str | int) -> Expression | None:
        """Read an expression and note the columns that it uses; None when it has a fault."""
        try:
            expression = parse_expression(text, scope)
        except ExpressionError as error:
            self.fault(str(error), *path)
            return None
        sound = [self._resolve(parts, *path) for parts in sorted(expression.paths)]
        return expression if all(sound) else None

    def _resolve(self, parts: tuple[str, ...], *path: str | int) -> bool:
        """Check one reference down to its last nested field."""
        alias, *rest = parts
        if alias == "key":
            return self._resolve_key(rest, *path)
        if self.is_list(alias):
            return True
        before = len(self.faults)
        column = self.named(alias, rest[0], *path)
        if len(self.faults) > before or self.open:
            return self.open
        kind = self.tables[alias][column]
        return self._descend(f"{alias}.{column}", kind, rest[1:], *path) is not None

    def _resolve_key(self, rest: list[str], *path: str | int) -> bool:
        names = self.job.sources[self.job.from_].key
        if not rest and len(names) > 1:
            self.fault("the key is composite; write key." + ", key.".join(names), *path)
            return False
        if len(names) > 1 and find(rest[0], names) is None:
            self.fault(f"{rest[0]!r} is not a column of the key{did_you_mean(rest[0], names)}", *path)
            return False
        return True

    def _descend(self, where: str, kind: DataType, rest: list[str], *path: str | int) -> DataType | None:
        for name in rest:
            if kind_of(kind) == "map":
                kind = kind["valueType"]  # type: ignore[index]
                continue
            fields = fields_of(kind)
            found = find(name, fields) if fields is not None else None
            if fields is None or found is None:
                what = did_you_mean(name, fields) if fields else f"; it is of type {name_of(kind)}"
                self.fault(f"{where} has no field {name!r}{what}", *path)
                return None
            kind, where = fields[found], f"{where}.{found}"
        return kind

    def is_list(self, alias: str) -> bool:
        """Return whether an alias is a list join."""
        join = self.job.join.get(alias)
        return join is not None and JOINS[join.kind].gives_list

    def type_of(self, expression: Expression) -> DataType | None:
        """Return the type of a path; None for anything that only Spark can type."""
        if not expression.is_path or self.open:
            return None
        return self._type_path(next(iter(expression.paths)))

    def only_compares(self, expression: Expression) -> bool:
        """Return whether an expression does nothing but compare values of one type, and so cannot fail.

        Where types differ, Spark casts one of the two, and a text may be no number.
        """
        if expression.comparisons is None or self.open:
            return False
        return all(len({self._name_family(each) for each in group}) <= 1 for group in expression.comparisons)

    def _name_family(self, operand: Operand) -> object:
        """Return what is compared without a cast that can fail: the numbers, or values of one type."""
        kind = operand if isinstance(operand, str) else self._type_path(operand)
        if kind is None:
            return operand  # equal to itself alone
        if not isinstance(kind, str):  # a list, struct or map
            return str(kind)
        digits = re.match(r"decimal\((\d+)", kind)
        is_number = kind in _NUMBERS or (digits is not None and int(digits[1]) <= _SHORT_DECIMAL)
        return "number" if is_number else kind

    def _type_path(self, path: tuple[str, ...]) -> DataType | None:
        """Return the type of what a path refers to; None where only Spark knows it."""
        alias, *rest = path
        if alias == "key":
            driving = self.job.sources[self.job.from_]
            name = find(rest[0], driving.key) if rest else driving.key[0]
            return self.tables[self.job.from_].get(name or "")
        if self.is_list(alias):
            return None
        column = find(rest[0], self.tables[alias])
        kind: DataType = self.tables[alias][column or rest[0]]
        for name in rest[1:]:
            if kind_of(kind) in ("array", "map"):
                return None
            fields = fields_of(kind) or {}
            kind = fields[find(name, fields) or name]
        return strip_type(kind)
