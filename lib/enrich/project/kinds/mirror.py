"""Read a mirror: the inverse of one table, value -> key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from enrich.base.schemas import may_be_key, name_of
from enrich.base.spec import CompiledJob, WithoutJoins
from enrich.project.kinds import syntax
from enrich.project.kinds.syntax import ColumnSources, Draft, JobSyntax, Named

if TYPE_CHECKING:
    from enrich.project.compile import Compiler


@dataclass(frozen=True)
class MirrorSpec(WithoutJoins):
    """A mirror job: value -> key of one master."""

    kind: ClassVar[str] = "mirror"

    value: tuple[str, ...]  # the master's columns that become the mirror's key
    conflict: str  # fail, first, last or collect
    order: str | None = None  # the column that decides ``first`` and ``last``; None: the master's key alone
    extra: tuple[str, ...] = ()  # further columns of the winning row

    @property
    def identity(self) -> tuple[str, ...]:
        """The target's key: the value columns."""
        return self.value

    key_columns = identity

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns: value columns, key columns (``keys`` for a collected composite key), extra ones."""
        key = ("keys",) if self.conflict == "collect" and len(self.key) > 1 else self.key
        return (*self.value, *key, *self.extra)


class Mirror(JobSyntax):
    """``kind: mirror``, with ``mirror: {value: email}``."""

    name = "mirror"
    needs_part = True
    rules = ("mass_change", "value_conflicts")
    mends_doubled = "a mirror keeps the master's names"

    def check(self, draft: Draft) -> None:
        """``order`` and ``columns`` are about a row that wins."""
        if "mirror" not in draft.root:
            draft.fault("kind mirror needs 'mirror: {value: ...}'", "kind")
        mirror = draft.tree.mapping("mirror")
        for key in ("value", "columns"):
            syntax.check_list(draft, mirror, key, ("mirror",))
        conflict = mirror.get("conflict", "fail")
        if "order" in mirror and conflict in ("fail", "collect"):
            draft.fault(f"'order' is only for conflict first and last, not {conflict}", "mirror", "order")
        if conflict == "collect" and "columns" in mirror:
            draft.fault("'columns' is not for conflict collect, which has no winning row", "mirror", "columns")

    def list_target_columns(self, draft: Draft) -> Iterator[Named]:
        """Yield value, key, and further columns."""
        mirror, key = draft.tree.mapping("mirror"), draft.key(draft.driving)
        at_key = ("sources", draft.driving or "", "key")
        yield from syntax.name_once(syntax.list_names(mirror.get("value")), "mirror", "value")
        yield from [("keys", at_key)] if _collects(draft) and len(key) > 1 else syntax.name_once(key, *at_key)
        if not _collects(draft):
            yield from syntax.name_once(syntax.list_names(mirror.get("columns")), "mirror", "columns")

    def list_arrays(self, draft: Draft) -> tuple[str, ...]:
        """Keys that are collected are arrays."""
        return ("keys", *draft.key(draft.driving)) if _collects(draft) else ()

    def compile(self, compiler: Compiler) -> CompiledJob:
        """Resolve the master's columns."""
        job = compiler.job
        mirror, master = job.mirror, job.from_
        assert mirror is not None  # noqa: S101 - ``check`` has looked
        value = tuple(compiler.named(master, name, "mirror", "value") for name in mirror.value)
        extra = tuple(compiler.named(master, name, "mirror", "columns") for name in mirror.columns)
        order = None if mirror.order is None else compiler.named(master, mirror.order, "mirror", "order")
        for name in (*value, *((order,) if order is not None else ())):
            kind = compiler.tables[master].get(name)
            if kind is not None and not may_be_key(kind):
                compiler.fault(f"column {name!r} is of type {name_of(kind)}, which cannot be compared", "mirror")
        for name in extra:
            compiler.check_parts(name, compiler.tables[master].get(name), "mirror", "columns")
        spec = MirrorSpec(job.job, compiler.collect_sources(), master, value, mirror.conflict, order, extra)
        compiler.check_names(spec.columns, "mirror")
        meaning = {**compiler.describe_meaning(), "mirror": [list(value), mirror.conflict, order, list(extra)]}
        return CompiledJob(spec, meaning, complete=True)

    def find_origins(self, spec: MirrorSpec) -> ColumnSources:
        """Columns are those of the winning row; collected keys are of all rows."""
        found = {name: {(spec.driving, name): syntax.IDENTITY} for name in (*spec.value, *spec.key, *spec.extra)}
        if spec.conflict == "collect":
            found[spec.columns[len(spec.value)]] = {(spec.driving, name): syntax.AGGREGATION for name in spec.key}
        return {name: found[name] for name in spec.columns}


def _collects(draft: Draft) -> bool:
    return bool(draft.tree.mapping("mirror").get("conflict") == "collect")
