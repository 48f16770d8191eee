"""Say what a scenario is: the frozen models of its file, and the scenario that is played, checked against the project.

Rows of the models are as they are written; those of given tables and commits get the types of their columns when the
file is read, expected rows when the target is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr, WithJsonSchema

from enrich.base.spec import DataType
from enrich.dumps.result import MAX_DELETE
from enrich.project.models import Model, Names, Text, list_models
from enrich.project.shape import FileKind
from enrich.project.yamlfile import PathStep

# --- the file --------------------------------------------------------------------------------------------------------

_MAPPINGS = {"type": "array", "items": {"type": "object"}}
Rows = Annotated[Any, WithJsonSchema(_MAPPINGS)]  # a list of mappings
Keys = Annotated[Any, WithJsonSchema({"type": "array", "items": {"not": {"type": "array"}}})]
"""A list of single values, or of mappings."""
JobNames = Annotated[
    Names,
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string"}}]}),
]
Status = Literal["created", "updated", "unchanged", "blocked", "failed", "skipped", "locked"]


class Table(Model):
    """A table that is given."""

    key: Names = Field(description="The column, or the list of columns, that identifies a row.")
    columns: dict[StrictStr, Text] = Field(description="Name -> type of Spark SQL, in the order of the table.")
    rows: Rows = Field((), description="The rows before the first round.")


class Dump(Model):
    """A dump that is loaded, as ``enrich load`` does it; the key and the types are those of the given table."""

    text: StrictStr = Field(description="The CSV file as it is.")
    columns: Names | None = Field(None, description="The names of the columns, for a file without a header.")
    header: StrictBool = Field(True, description="false: the first line holds values, as `--no-header`.")
    delimiter: StrictStr | None = Field(None, description="What stands between fields; if left out, it is found.")
    complete: StrictBool = Field(False, description="true: rows that the dump lacks are deleted.")
    max_delete: float = Field(
        MAX_DELETE, ge=0, le=1, description="With `complete`: the greatest share of the rows that may be deleted."
    )
    bad_rows: Literal["fail", "skip"] = Field("fail", description="skip: lines that do not fit are left out.")


class Commit(Model):
    """What other systems write; each of the five is one Delta commit of a table, in this order."""

    load: dict[StrictStr, Dump] = Field({}, description="Table -> dump that is loaded, as by `enrich load`.")
    insert: dict[StrictStr, Rows] = Field({}, description="Table -> rows that are appended, whatever their keys.")
    upsert: dict[StrictStr, Rows] = Field(
        {}, description="Table -> rows that replace the rows with the same key, or are added."
    )
    update: dict[StrictStr, Rows] = Field(
        {}, description="Table -> rows with the key and the columns that change; the other columns stay."
    )
    delete: dict[StrictStr, Keys] = Field({}, description="Table -> keys; one of several columns is a mapping.")


class FindingEntry(Model):
    """A finding that a run must have; only what is given is compared."""

    expectation: Text | None = Field(None, description="The expectation's type, or the rule's name.")
    column: Text | None = None
    column_list: Names | None = None
    source: Text | None = Field(None, description="The alias, for rules about a source or a join.")
    action: Literal["warn", "quarantine", "fail"] | None = None
    checked: StrictInt | None = Field(None, description="Rows that the rule judged.")
    failed: StrictInt | None = Field(None, description="Rows that it found wanting.")
    success: StrictBool = Field(False, description="true asks for a rule that passed.")
    accepted: StrictBool | None = None


class CountsEntry(Model):
    """Numbers of a job's result; only those given are compared."""

    affected_keys: StrictInt | None = None
    inserted: StrictInt | None = None
    updated: StrictInt | None = None
    deleted: StrictInt | None = None
    quarantined: StrictInt | None = None
    null_foreign_keys: StrictInt | None = None
    null_list_ids: StrictInt | None = None
    null_values: StrictInt | None = None


class RoundEntry(Commit):
    """Commits, a run, and what must be there after it."""

    title: Text = Field(description="What the round shows.")
    commits: tuple[Commit, ...] = Field((), description="Several commits one after the other, before the run.")
    doctor: Text | None = Field(
        None, description="A job: what `enrich doctor keys` suggests for it is in the job from now on."
    )
    run: JobNames | None = Field(None, description="The jobs that run; if left out, all of the scenario.")
    full_refresh: StrictBool = Field(False, description="As `enrich run --full-refresh`.")
    accept: Names = Field((), description="Job rules that only warn, as `enrich run --accept`.")
    exit_code: StrictInt = Field(0, description="The run's exit code.")
    status: Annotated[Any, WithJsonSchema({"anyOf": [{"enum": list(Status.__args__)}, {"type": "object"}]})] = Field(
        None, description="The status of all jobs of the round, or job -> status."
    )
    expect: dict[StrictStr, Rows] = Field({}, description="Target -> all of its rows.")
    changed: dict[StrictStr, Rows] = Field(
        {}, description="Target -> the rows that are new or different; all others are as before the round."
    )
    gone: dict[StrictStr, Keys] = Field({}, description="Target -> keys of the rows that the round has removed.")
    quarantine: dict[StrictStr, Annotated[Any, WithJsonSchema({"anyOf": [{"type": "integer"}, _MAPPINGS]})]] = Field(
        {}, description="Target -> the number of rows in its quarantine, or these rows."
    )
    findings: dict[StrictStr, tuple[FindingEntry, ...]] = Field(
        {}, description="Job -> the findings of rules that failed."
    )
    counts: dict[StrictStr, CountsEntry] = Field({}, description="Job -> numbers of its result.")
    why: dict[StrictStr, Rows] = Field(
        {}, description="Job -> rows with the target's key, and the reason of `enrich why` for each alias."
    )


class ScenarioFile(Model):
    """One file of ``tests/``, as written."""

    title: Text | None = Field(None, description="What the scenario shows; if left out, the name of the file.")
    about: Text | None = Field(None, description="More about it, for the reader.")
    tables: dict[StrictStr, Table] = Field(
        description="The given tables, by the reference that the jobs have for them."
    )
    jobs: Names | None = Field(
        None, description="The jobs that run; if left out, those that the given tables are enough for."
    )
    partial: StrictBool = Field(False, description="true: only the columns that expected rows name are compared.")
    rounds: tuple[RoundEntry, ...] = Field(description="What happens, in order.")


LOAD = "load"
WRITES = ("insert", "upsert", "update", "delete")
ABOUT_TARGETS = ("expect", "changed", "gone", "quarantine")
ABOUT_JOBS = ("findings", "counts", "why")
ABOUT_RUNS = ("full_refresh", "accept", "exit_code", "status")


def _is_data(path: tuple[PathStep, ...]) -> bool:
    """Return True for rows and keys."""
    match path:
        case ("tables", _, "rows"):
            return True
        case ("rounds", _, "commits", _, str(key), _):
            return key in WRITES
        case (*_, "load", _, "text"):
            return True
        case ("rounds", _, str(key), _):
            return key in (*WRITES, *ABOUT_TARGETS, "why")
    return False


KIND = FileKind(
    list_models(ScenarioFile),
    {
        ("tables", "*"): "tables.<table>",
        ("rounds", "*"): "rounds",
        ("rounds", "*", "commits", "*"): "commits",
        ("rounds", "*", "load", "*"): "load.<table>",
        ("rounds", "*", "commits", "*", "load", "*"): "load.<table>",
        ("rounds", "*", "findings", "*", "*"): "findings.<job>",
        ("rounds", "*", "counts", "*"): "counts.<job>",
    },
    is_data=_is_data,
)
"""What the reader of files has to know of scenarios."""


# --- what is played --------------------------------------------------------------------------------------------------

TypedRow = Mapping[str, Any]  # a row with the values that Arrow takes


@dataclass(frozen=True)
class WrittenRow:
    """A row as a file has it."""

    cells: Mapping[str, Any]
    line: int


@dataclass(frozen=True)
class WrittenRows:
    """Rows that are expected; their types are those of the table that is found."""

    rows: tuple[WrittenRow, ...]
    line: int  # where they begin
    columns: tuple[str, ...]  # the columns that they name


@dataclass(frozen=True)
class Given:
    """A given table."""

    name: str  # its name in the scenario's lake
    key: tuple[str, ...]
    columns: Mapping[str, DataType]  # column -> type
    rows: tuple[TypedRow, ...]


@dataclass(frozen=True)
class Write:
    """One Delta commit of another system."""

    verb: str  # ``load``, ``insert``, ``upsert``, ``update`` or ``delete``
    table: str
    rows: tuple[TypedRow, ...]  # the rows; for ``delete`` the keys; none for ``load``
    line: int
    dump: Dump | None = None


@dataclass(frozen=True)
class ExpectedTarget:
    """What a round expects of one target."""

    job: str  # the job that writes it
    whole: WrittenRows | None = None
    changed: WrittenRows | None = None  # the rows that are new or different
    gone: tuple[Any, ...] | None = None  # keys that left; a mapping, or a single value
    quarantine: int | WrittenRows | None = None  # the number of rows in the quarantine, or these rows
    lines: Mapping[str, int] = field(default_factory=dict)  # key of the file -> where it stands


@dataclass(frozen=True)
class ExpectedJob:
    """What a round expects of one job's result."""

    status: str | None = None
    findings: tuple[FindingEntry, ...] | None = None  # the findings that failed; None: not compared
    counts: CountsEntry | None = None
    why: WrittenRows | None = None  # rows with the target's key and aliases
    lines: Mapping[str, int] = field(default_factory=dict)  # key of the file -> where it stands


@dataclass(frozen=True)
class Round:
    """One round: commits, a run, and what must be there after it."""

    number: int
    title: str
    line: int
    commits: tuple[tuple[Write, ...], ...]  # what other systems write before the run
    doctor: str | None  # the job that is mended before the run
    jobs: tuple[str, ...]  # the jobs that run
    options: Mapping[str, Any]  # options of the run by the names that ``enrich.run`` has for them
    exit_code: int
    exit_line: int
    targets: Mapping[str, ExpectedTarget]  # target's reference -> what is expected of it
    results: Mapping[str, ExpectedJob]  # job -> what is expected of its result


@dataclass(frozen=True)
class Scenario:
    """One scenario file."""

    file: str  # the file as messages name it
    title: str
    about: str  # more about it; empty when the file says nothing
    tables: Mapping[str, Given]
    jobs: tuple[str, ...]
    is_partial: bool  # whether only the columns that expected rows name are compared
    rounds: tuple[Round, ...]
