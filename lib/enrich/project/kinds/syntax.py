"""Describe a kind as job files have it: what a file may say of it, how that is checked, what it compiles to.

What a run does for it is in ``enrich.joins``, apart from this because files are read where Spark is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from enrich.base.console import format_count
from enrich.base.errors import Fault
from enrich.base.spec import MATCHED
from enrich.project.yamlfile import PathStep, Tree

if TYPE_CHECKING:
    from enrich.base.spec import CompiledJob, Step
    from enrich.project.compile import Compiler
    from enrich.project.models import Join

IDENTITY, TRANSFORMATION, AGGREGATION = "IDENTITY", "TRANSFORMATION", "AGGREGATION"
"""OpenLineage's words for how a target's column comes from one of a source."""


Source = tuple[str, str]  # alias and column
ColumnSources = Mapping[str, Mapping[Source, str]]  # target column -> the columns that it comes from -> how
Named = tuple[str, tuple[PathStep, ...]]  # a column that the file names, and its place


@dataclass(frozen=True)
class Draft:
    """What can be read of a job file that may hold faults: only sources and joins that are mappings, by alias.

    ``syntax`` is that of the job's kind; of a join job where the kind cannot be read.
    """

    syntax: JobSyntax
    tree: Tree
    root: dict[str, Any]
    sources: dict[str, dict[str, Any]]
    joins: dict[str, dict[str, Any]]
    faults: list[Fault] = field(default_factory=list)

    def fault(self, message: str, *path: PathStep) -> None:
        """Note a fault at the line of ``path``."""
        self.faults.append(Fault(message, self.tree.at(*path)))

    @property
    def driving(self) -> str | None:
        """The driving source's alias when it is one of the sources."""
        alias = self.root.get("from")
        return alias if isinstance(alias, str) and alias in self.sources else None

    def key(self, alias: str | None) -> tuple[str, ...]:
        """Return the key columns of a source; empty when they cannot be read."""
        return list_names(self.sources.get(alias or "", {}).get("key"))


def list_names(value: Any) -> tuple[str, ...]:
    """Return a name or a list of names as a tuple; empty when it is neither."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else ()


def name_once(columns: tuple[str, ...], *path: PathStep) -> Iterator[Named]:
    """Yield each column once with its place; a list that names one twice is told so by ``check_list``."""
    seen: set[str] = set()
    for index, name in enumerate(columns):
        if name.lower() not in seen:
            yield name, (*path, index)
        seen.add(name.lower())


def check_list(draft: Draft, holder: dict[str, Any], key: str, path: tuple[PathStep, ...]) -> None:
    """A list of columns or normalisers is not empty and holds none twice."""
    noun, wanted = "the column ", "name at least one column"
    if key == "normalise":
        noun, wanted = "", "name a normaliser or leave it out"
    if holder.get(key) == []:
        draft.fault(f"'{key}' is an empty list; {wanted}", *path, key)
    seen: set[str] = set()
    for index, name in enumerate(list_names(holder.get(key))):
        if name.lower() in seen:
            draft.fault(f"'{key}' names {noun}{name!r} twice", *path, key, index)
        seen.add(name.lower())


def check_references(draft: Draft, alias: str, join: dict[str, Any], wanted: int, each: str, has: str) -> None:
    """``on`` has an expression for ``each`` of what it equals; 0: nobody knows how many are ``wanted``."""
    on = join.get("on")
    if on == []:
        draft.fault(f"'on' is an empty list; give one expression for each {each}", "join", alias, "on")
    elif wanted > 0 and "on" in join and not isinstance(on, dict):
        count = len(on) if isinstance(on, list) else 1
        if count != wanted:
            draft.fault(f"'on' has {format_count(count, 'expression')}, but {has}", "join", alias, "on")


class JoinSyntax:
    """A kind of join; subclass it and ``register`` an instance to have one more."""

    name: str
    says: str  # what the kind is, in half a sentence, for the JSON Schema
    needs: tuple[str, ...] = ()  # the options of a join that it cannot do without
    takes: tuple[str, ...] = ("how",)  # those that it may have beside them
    hows: tuple[str, ...] = ("inner", "left", "right", "full")
    # Whether expressions of the rows say which rows of the lookup are meant; such a reference may be null.
    refers = True
    in_sql = False  # whether SQL has words for it
    gives_list = False  # whether a row gets a list of the lookup's rows
    # Words of its own for why a row is not in the target, or has no partner -> what they mean; of several references of
    # one row the first of these stands for the row.
    reasons: Mapping[str, str] = MappingProxyType({})

    def check(self, draft: Draft, alias: str, join: dict[str, Any]) -> None:
        """Note what contradicts itself in a join, as the file's plain values; its options are its own already."""

    def compile(self, compiler: Compiler, alias: str, join: Join) -> Step:
        """Resolve a join against what stands before it."""
        raise NotImplementedError

    def describe_pairs(self, step: Step) -> str | None:
        """Return what a join is called whose rows are identified by the lookup's key as well; None: they are not."""

    def explain_removal(self, step: Step, reason: str) -> str | None:
        """Return why a join removes a row, given the reason of the row's reference; None: it keeps it."""
        return reason if step.how in ("inner", "right") and reason != MATCHED else None


class JobSyntax:
    """A kind of job."""

    name: str
    needs_part = False  # whether the part of the file that has the kind's name must be there
    joins = False  # whether it has ``join``
    selects = False  # whether it has ``select`` and ``where``, and may be a query
    rules: tuple[str, ...] = ("mass_change",)
    remembers = False  # whether its target holds what the source may have forgotten
    mends_doubled = "choose another name for one of them"  # what to do about two target columns with one name
    # The key of the file that names all columns of the target, with those above it; without it the target has all
    # columns of the sources. Empty: the file always names all.
    names_columns_in: tuple[str, ...] = ()

    def check(self, draft: Draft) -> None:
        """Note what contradicts itself in the job's own part of the file."""

    def list_target_columns(self, draft: Draft) -> Iterator[Named]:
        """Yield the target's columns that the file names, each with its place; those of ``select``, if it has that."""
        yield from ((name, ("select", name)) for name in draft.tree.mapping("select"))

    def list_arrays(self, draft: Draft) -> tuple[str, ...]:  # noqa: ARG002 - no kind but mirrors has some
        """Return the target's columns that are arrays, whatever the source has."""
        return ()

    def compile(self, compiler: Compiler) -> CompiledJob:
        """Resolve a job against its tables; it can be run when the compiler has no fault."""
        raise NotImplementedError

    def write_query(self, spec: Any, sources: Mapping[str, str]) -> str | None:  # noqa: ARG002 - none but of joins
        """Return the SQL query that gives a job's rows over its ``sources`` (alias -> name); None: there is none."""
        return None

    def write_rows_query(self, spec: Any, table: str, version: int) -> str | None:  # noqa: ARG002 - none but of groups
        """Return the SQL query of the rows of the one source that make a row of the target; None: there is none."""
        return None

    def find_origins(self, spec: Any) -> ColumnSources:
        """Return which columns of which sources each column of the target comes from."""
        raise NotImplementedError
