"""Read a history: what one table said of each key, and from when to when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from enrich.base.schemas import find
from enrich.base.spec import CompiledJob, WithoutJoins
from enrich.project.kinds import syntax
from enrich.project.kinds.syntax import ColumnSources, Draft, JobSyntax, Named

if TYPE_CHECKING:
    from enrich.project.compile import Compiler

_TIMES = ("valid_from", "valid_to")
"""The keys of a history that name columns of its target; these are the columns' names when nothing is said."""


@dataclass(frozen=True)
class HistorySpec(WithoutJoins):
    """A history job: what a source said of each key, and from when to when."""

    kind: ClassVar[str] = "history"
    remembers: ClassVar[bool] = True

    tracked: tuple[str, ...]  # the source's columns whose values make a version
    valid_from: str
    valid_to: str
    from_beginning: bool = False  # the rows that the first run finds were always so
    erases: bool = False  # the versions of a key that its source has not any more leave the target

    @property
    def identity(self) -> tuple[str, ...]:
        """The target's key: the source's key, and the time from which a version holds."""
        return (*self.key, self.valid_from)

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns."""
        return (*self.key, self.valid_from, self.valid_to, *self.tracked)


class History(JobSyntax):
    """``kind: history``, with or without ``history: {columns: [...]}``."""

    name = "history"
    remembers = True
    mends_doubled = "choose another name for the time"
    names_columns_in = ("history", "columns")

    def check(self, draft: Draft) -> None:
        """Its columns are neither its key nor its times."""
        history = draft.tree.mapping("history")
        syntax.check_list(draft, history, "columns", ("history",))
        key = {name.lower() for name in draft.key(draft.driving)}
        for index, name in enumerate(syntax.list_names(history.get("columns"))):
            if name.lower() in key:
                message = f"'columns' names {name!r}, which is in the key: leave it out, the target has it anyway"
                draft.fault(message, "history", "columns", index)
        holds = any(source.get("doubled_keys") == "quarantine" for source in draft.sources.values())
        if holds and history.get("on_delete") == "erase":
            message = "'on_delete: erase' beside 'doubled_keys: quarantine' would erase a key whose row comes twice"
            draft.fault(f"{message}; leave one out", "history", "on_delete")
        first, second = _list_times(draft)
        if first.lower() == second.lower():
            draft.fault(f"'valid_from' and 'valid_to' are both {first!r}; choose two names", "history")

    def list_target_columns(self, draft: Draft) -> Iterator[Named]:
        """Yield the key, the times and the named columns; what is no column of the target has been told already."""
        key, times = draft.key(draft.driving), _list_times(draft)
        yield from syntax.name_once(key, "sources", draft.driving or "", "key")
        if times[0].lower() != times[1].lower():
            yield from ((name, ("history", option)) for name, option in zip(times, _TIMES, strict=True))
        parts = {name.lower() for name in key}
        named = syntax.list_names(draft.tree.mapping("history").get("columns"))
        for name, path in syntax.name_once(named, "history", "columns"):
            if name.lower() not in parts:
                yield name, path

    def compile(self, compiler: Compiler) -> CompiledJob:
        """Resolve the source's columns."""
        from enrich.project import models

        job = compiler.job
        history, alias = job.history or models.History(), job.from_
        place = ("history", "columns") if history.columns is not None else ("history",)
        # What is always null has no type yet: it comes when it has one, as any column that comes later.
        typed = [name for name, kind in compiler.tables[alias].items() if kind != "void"]
        named = history.columns if history.columns is not None else typed
        tracked = tuple(
            compiler.named(alias, name, *place) for name in named if find(name, compiler.keys[alias]) is None
        )
        for name in tracked:
            compiler.check_parts(name, compiler.tables[alias].get(name), *place)
        sources, always = compiler.collect_sources(), history.start == "beginning"
        spec = HistorySpec(job.job, sources, alias, tracked, history.valid_from, history.valid_to, always)
        spec = replace(spec, erases=history.on_delete == "erase")
        compiler.check_names(spec.columns, "history")
        if not compiler.open:
            compiler.check_cluster(spec.columns)
        shown = None if history.columns is None else list(tracked)
        meaning = {**compiler.describe_meaning(), "history": [spec.valid_from, spec.valid_to, shown, always]}
        if spec.erases:  # without it a definition is what it was before there was this option
            meaning["history"].append("erase")
        return CompiledJob(spec, meaning, complete=True)

    def find_origins(self, spec: HistorySpec) -> ColumnSources:
        """The times come from no column."""
        return {
            name: {(spec.driving, name): syntax.IDENTITY} if name in spec.source.columns else {}
            for name in spec.columns
        }


def _list_times(draft: Draft) -> tuple[str, str]:
    history = draft.tree.mapping("history")
    return str(history.get("valid_from", "valid_from")), str(history.get("valid_to", "valid_to"))
