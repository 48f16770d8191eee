"""Describe what a project's files say: frozen models, which hold one value each.

Texts are expressions or names as written. Lists that a file may write as a single value are tuples here. Rules between
fields are in ``checks``, their JSON Schemas for editors in ``enrich.init``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    SkipValidation,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from enrich.base import hints
from enrich.base.errors import ConfigError, Fault, show_text
from enrich.base.failures import INSTEAD, ValueFault
from enrich.base.words import did_you_mean, parse_duration
from enrich.project.expressions.functions import FUNCTIONS
from enrich.project.kinds import JOBS, JOINS
from enrich.project.yamlfile import PathStep, Tree

_PATH = re.compile(r"(?:\w+|`(?:[^`]|``)+`)(?:\s*\.\s*(?:\w+|`(?:[^`]|``)+`))*")


def _wrap_in_list(value: Any) -> Any:
    one = isinstance(value, str | int | float)
    return (value,) if one else tuple(value) if isinstance(value, list) else value


_WRAP = BeforeValidator(_wrap_in_list)


def _one_of(kinds: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return what refuses the names of kinds that are not there, in the form of pydantic's ``Literal``."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or value not in kinds:
            raise PydanticCustomError("literal_error", "unknown", {"expected": ", ".join(map(repr, kinds))})
        return value

    return check


_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean"], "minLength": 1}


def _allow_one_or_many(item: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]})


def _allow_words(words: Any) -> WithJsonSchema:
    return _allow_one_or_many({"type": "string", "enum": list(get_args(words))})


Text = Annotated[StrictStr, WithJsonSchema(_TEXT)]
ExpressionText = Annotated[StrictStr, WithJsonSchema(_SCALAR)]
Threshold = Annotated[int | float, SkipValidation, WithJsonSchema({"type": "number", "minimum": 0})]
"""Rows (int) or a share (float); ``rules`` says what is wrong with one, since pydantic would make 1.0 of true."""
Names = Annotated[tuple[StrictStr, ...], _WRAP, _allow_one_or_many({**_TEXT})]
_Normaliser = Literal["trim", "lower", "nfc", "visible", "integer", "unpad"]
Normalisers = Annotated[tuple[_Normaliser, ...], _WRAP, _allow_words(_Normaliser)]
Bounds = Annotated[
    tuple[StrictStr | StrictInt | StrictFloat, ...],
    _WRAP,
    WithJsonSchema({"type": "array", "items": {"type": ["string", "number"]}, "minItems": 2, "maxItems": 2}),
]
"""``durations`` says what is wrong with one."""
Expressions = Annotated[tuple[StrictStr, ...], _WRAP, _allow_one_or_many({**_SCALAR})]


TEXT_FIELDS = ("event", "deployment", "project", "run_id", "exit_code", "jobs")
"""What the ``text`` of a notification may contain, in braces."""
FIELD = re.compile(r"\{(\w*)\}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _refuse(said: str) -> PydanticCustomError:
    """Return an error of a value; what is said follows the value's name."""
    return PydanticCustomError("refused", "{said}", {"said": said})


def _require(pattern: str, said: str) -> AfterValidator:
    """Refuse texts that do not fit a pattern; what is said follows the value's name."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.DOTALL):
            raise _refuse(said)
        return text

    return AfterValidator(check)


# A path of this machine: these files are written and read without Spark.
_HERE = _require("(?!~)(?!.*://).*", "must be a path on this machine, no URI and without '~'; write ${HOME} instead")
_FIGURES = _require(r".*\.prom", "must end in .prom; node exporter reads no other files")
_ADDRESS = _require(
    r".*\$\{.*|https?://[^/@\s]+(/\S*)?",
    "must be http://host/... or https://host/..., without user and password; use api_key",
)


def _check_message(text: str) -> str:
    for field in FIELD.findall(text):
        if field not in TEXT_FIELDS:
            known = "; it can contain " + ", ".join(f"{{{each}}}" for each in TEXT_FIELDS)
            raise _refuse(f"contains {{{field}}}{did_you_mean(field, TEXT_FIELDS, '') or known}")
    return text


LocalPath = Annotated[StrictStr, _HERE, WithJsonSchema(_TEXT)]


class Model(BaseModel):
    """What all models share."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Column(Model):
    """What people are told of a column."""

    description: Text | None = Field(None, description="What it holds.")
    private: StrictBool = Field(False, description="true: its values are never shown, and no log keeps statistics.")


class Latest(Model):
    """How the events of a log become the rows of a source."""

    order: Names = Field(description="The column, or the list of columns, by which the last event of a key is found.")
    delete: ExpressionText | None = Field(
        None, description="A condition over the event's columns, such as op = 'd'; true: the key has no row."
    )


class Source(Model):
    """A table that a job reads, under one alias. What tables.yml says of it may be left out."""

    table: Text = Field(description="The table: a bare name, a catalog name, or a path.")
    key: Names = Field(description="The column, or the list of columns, that identifies a row.")
    unique: Literal["checked", "trusted"] = Field(
        "checked", description="'trusted' switches off the search for two rows with one key."
    )
    normalise: Normalisers = Field(
        (),
        description="How text keys, and references to them, are brought into one form, in the order of the list: trim"
        " (no white space at the ends), lower, nfc (accents), visible (no invisible characters), integer (7 for 7.0),"
        " unpad (no leading zeros).",
    )
    description: Text | None = Field(None, description="What the table holds.")
    owner: Text | None = Field(None, description="Who answers for the table.")
    tags: Names = Field((), description="Words by which `--select tag:WORD` finds the jobs that read the table.")
    columns: dict[StrictStr, Column] = Field({}, description="What people are told of the table's columns, by name.")
    latest: Latest | None = Field(
        None, description="The table is a log of events: the row of a key is its last event, or none."
    )
    doubled_keys: Literal["fail", "quarantine"] = Field(
        "fail", description="quarantine: rows that share their key are held, or are no partner, and others go on."
    )


class End(Model):
    """The column with the time until when a version holds."""

    column: Text = Field(description="The column; null: the version is open.")
    inclusive: StrictBool = Field(False, description="true: the version still holds at this very moment.")


_WRAP_COLUMN = BeforeValidator(lambda x: x if isinstance(x, dict) else {"column": x}, json_schema_input_type=Text | End)


class Join(Model):
    """A lookup that is joined to the driving source, or to what was joined before it."""

    kind: Annotated[StrictStr, BeforeValidator(_one_of(JOINS))] = Field(
        description=" ".join(f"{each.name}: {each.says}." for each in JOINS.values())
    )
    how: Literal["inner", "left", "right", "full"] = Field("left", description="Not with list; as_of: inner, left.")
    on: Expressions | None = Field(
        None,
        description="foreign_key: the expression, or one for each key column, that gives the lookup's key. as_of: the"
        " same for the key columns before the last. interval: what must equal the columns of 'match'.",
    )
    at: ExpressionText | None = Field(
        None, description="as_of: the moment. interval: the driving row's time. A date, timestamp or number."
    )
    valid_from: Text | None = Field(None, description="as_of: the column from when a version holds, last of its key.")
    valid_to: Annotated[End, _WRAP_COLUMN] | None = Field(
        None,
        description="as_of: the column until when a version holds, exclusive; null: it is open. {column: c, inclusive:"
        " true} where versions end at that very moment.",
    )
    gone: ExpressionText | None = Field(None, description="as_of: a condition; true: the thing does not exist.")
    match: Names | None = Field(None, description="interval: the lookup's columns that must equal 'on', in its order.")
    time: Text | None = Field(None, description="interval: the lookup's column of time, of the type of 'at'.")
    between: Bounds | None = Field(
        None,
        description="interval: the bounds of 'time' minus 'at', both included: 90s, 10m, 1h, 2d; whole days for dates,"
        " numbers for numbers.",
    )
    elements: ExpressionText | None = Field(None, description="list: the array of ids, or of structs with an id.")
    element_key: Text | None = Field(None, description="list: the field of the struct with the id.")
    duplicates: Literal["keep", "drop"] = Field("keep", description="list: 'drop' keeps the first of each id.")
    unmatched: Literal["keep", "drop"] = Field("keep", description="list: 'drop' leaves out ids without a row.")


class Mirror(Model):
    """The inverse of a table: value -> key."""

    value: Names = Field(description="The column, or the list of columns, that becomes the mirror's key.")
    conflict: Literal["fail", "first", "last", "collect"] = Field(
        "fail", description="What happens when several keys have one value."
    )
    order: Text | None = Field(None, description="first, last: the column that decides; if equal, the key.")
    columns: Names = Field((), description="Further columns of the winning row; not with collect.")


class History(Model):
    """What a table said of each key, and from when to when."""

    valid_from: Text = Field("valid_from", description="The target's column of the time from which a version holds.")
    valid_to: Text = Field("valid_to", description="The target's column of the time at which it ends; null: not yet.")
    columns: Names | None = Field(None, description="The columns whose values make a version; all when not given.")
    on_delete: Literal["end", "erase"] = Field(
        "end",
        description="A key that is deleted in the source. end: its last version ends. erase: all its versions leave the"
        " target in the same commit; a key that comes back begins anew.",
    )
    start: Literal["beginning"] | None = Field(
        None, description="beginning: what the first run finds was always so, from 0001-01-01T00:00:00Z on."
    )


class Group(Model):
    """The groups that the rows of a table make; ``select`` says what the target shows of each."""

    by: Expressions = Field(
        description="The expression, or a list of them, whose values make a group; all are selected: the target's key."
    )


class Rule(Model):
    """A rule about the joins of a job, or about what a run changes; it never decides where a row goes."""

    rule: Literal["match_rate", "null_foreign_keys", "new_orphans", "mass_change", "value_conflicts"] = Field(
        description="match_rate: share with a partner. null_foreign_keys: references that are null. new_orphans: rows"
        " without a partner that were no orphans before. mass_change: target rows that the run would delete, or in"
        " which a value would become null. value_conflicts (mirrors): values with several holders."
    )
    join: Text | None = Field(None, description="The alias of the join that the rule is about.")
    at_least: Threshold | None = Field(None, description="match_rate: the smallest share that passes.")
    at_most: Threshold | None = Field(None, description="Other rules: how many may fail: rows, or a share as 0.05.")
    scope: Literal["changed", "target"] | None = Field(
        None,
        description="match_rate, null_foreign_keys: count the rows that a run computes (changed), or all (target).",
    )
    action: Literal["warn", "fail"] | None = Field(
        None, description="fail blocks the run. If left out: fail for mass_change, warn for the others."
    )

    @property
    def blocks(self) -> bool:
        """True when a run writes nothing if the rule fails."""
        return self.action == "fail" or (self.action is None and self.rule == "mass_change")


class Target(Model):
    """The table that a job writes."""

    table: Text = Field(description="The table: a bare name, a catalog name, or a path.")
    cluster_by: Names = Field(
        (), description="At most four target columns to cluster by, when the target is created or written anew."
    )
    change_feed: StrictBool | None = Field(
        None, description="true: the target has a change feed even if no job of the project reads it."
    )


class Job(Model):
    """One file of ``jobs/``."""

    job: Text = Field(description="The job's name, which is the file's name.")
    kind: Annotated[StrictStr, BeforeValidator(_one_of(JOBS))] = "join"
    sources: dict[StrictStr, Source] = Field(description="The tables that are read, by alias.")
    from_: Text = Field(alias="from", description="The alias of the driving source.")
    join: dict[StrictStr, Join] = Field({}, description="The lookups by alias, joined in this order.")
    select: dict[StrictStr, ExpressionText] | None = Field(
        None, description="The target's columns and their expressions; if left out: every column."
    )
    where: ExpressionText | None = Field(
        None, description="A condition; rows that do not meet it are not in the target."
    )
    query: ExpressionText | None = Field(
        None, description="One SELECT, in place of 'from', 'join', 'select' and 'where'; FROM names the sources."
    )
    mirror: Mirror | None = Field(None, description="Only with kind mirror.")
    history: History | None = Field(None, description="Only with kind history; may be left out.")
    group: Group | None = Field(None, description="Only with kind group.")
    target: Target
    expectations: Text | None = Field(None, description="The suite in expectations/ that judges the rows.")
    declared_rules: tuple[Rule, ...] = Field(
        (), alias="rules", description="Rules about the joins, and about what a run changes."
    )
    description: Text | None = Field(None, description="What the target holds; the comment of its table.")
    owner: Text | None = Field(None, description="Who answers for the target.")
    tags: Names = Field((), description="Words by which `--select tag:WORD` finds the job.")
    columns: dict[StrictStr, Column] = Field({}, description="What people are told of the target's columns, by name.")

    _tree: Tree | None = PrivateAttr(default=None)
    _stars: Mapping[str, str] = PrivateAttr(default={})  # target columns that a star of the query gives -> the star

    @property
    def file(self) -> str:
        """The job's file, relative to the project directory."""
        return self._tree.name if self._tree else f"jobs/{self.job}.yml"

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The job's rules; where a source is a log, what is removed from it must not empty the target unseen."""
        declared = self.declared_rules
        if any(source.latest for source in self.sources.values()) and "mass_change" not in [r.rule for r in declared]:
            return (*declared, Rule.model_validate({"rule": "mass_change", "at_most": 0.5}))
        return declared

    @property
    def remembers(self) -> bool:
        """Whether the target holds what the source may have forgotten."""
        return JOBS[self.kind].remembers

    def describe(self, alias: str, name: str) -> Column:
        """Return what people are told of a source's column; names have no case."""
        told = self.sources[alias].columns.items() if alias in self.sources else ()
        return next((each for known, each in told if known.lower() == name.lower()), Column())

    def at(self, *path: PathStep) -> str:
        """Return ``file:line`` of a node, e.g. ``at("join", "accounts", "on")``, or of the nearest one around it."""
        return self._tree.at(*path) if self._tree else self.file


class Spark(Model):
    """How a Spark session is made if none is active."""

    master: Text | None = Field(
        None,
        description="Where Spark runs, such as local[4]. If left out, an active session (as on Databricks),"
        " spark-submit or Spark's own files decide; where none does: local[*].",
    )
    conf: dict[StrictStr, Annotated[StrictStr, WithJsonSchema({"type": ["string", "number", "boolean"]})]] = Field(
        {}, description="Spark settings; values become text."
    )
    jars: Text | None = Field(None, description="Directory of the Delta jars; if left out, they are fetched once.")


class Reference(Model):
    """Where a secret is: never in a conf file itself, so that no message and no repository holds it."""

    env: Text | None = Field(None, description="The environment variable that holds the value.")
    file: LocalPath | None = Field(None, description="The file that holds the value; blanks around it are left out.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise _refuse("needs either 'env' or 'file': where the value is")
        return self


Seconds = Annotated[int, Field(strict=True, ge=1, le=300)]


class Lineage(Model):
    """Where OpenLineage events go: to a file or to a server, one of the two."""

    file: LocalPath | None = Field(None, description="The file to which each event is appended, as one line of JSON.")
    url: Annotated[Text, _ADDRESS] | None = Field(None, description="The server's address, http:// or https://.")
    endpoint: Text = Field("api/v1/lineage", description="The path at the server that takes events.")
    api_key: Reference | None = Field(None, description="The key that is sent to the server as a bearer token.")
    namespace: Text | None = Field(None, description="The namespace of the jobs; default enrich/<deployment>.")
    timeout: Seconds = Field(5, description="Seconds that an event may take; after one that fails no more are sent.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.file is None) == (self.url is None):
            raise _refuse("needs either 'file' or 'url': where the events go")
        if self.api_key is not None and self.url is None:
            raise _refuse("has an 'api_key', which is for a server; it has no effect with 'file'")
        return self


class Metrics(Model):
    """Where figures for Prometheus go."""

    file: Annotated[LocalPath, _FIGURES] = Field(
        description="A file that ends in .prom, in the directory of node exporter's textfile collector."
    )


def _check_duration(text: str) -> str:
    if not parse_duration(text):
        raise _refuse(f"is {text!r}, which is not a duration: write 90s, 30m, 12h or 3d")
    return text


_Ending = Literal["failure", "block", "blocked", "warn", "recovery", "late"]
Endings = Annotated[tuple[_Ending, ...], _WRAP, Field(min_length=1), _allow_words(_Ending)]


class Notify(Model):
    """Who is told about the end of a run, with an HTTP POST of JSON."""

    url: Reference = Field(description="Where the address is that takes the POST.")
    headers: dict[StrictStr, Reference] = Field({}, description="Further HTTP headers, and where their values are.")
    on: Endings = Field(
        ("failure", "block", "recovery"),
        description="What is told: a job failed (failure), a rule blocked it (block, or blocked), a rule failed and let"
        " it pass (warn), it succeeds again (recovery), a change waits for longer than max_lag (late).",
    )
    max_lag: Annotated[Text, AfterValidator(_check_duration)] = Field(
        "1h", description="For late: how long the oldest change of a source may wait: 90s, 30m, 12h, 3d."
    )
    repeat: StrictBool = Field(True, description="false: tell only the first of several equal endings of a job.")
    text: Annotated[Text, AfterValidator(_check_message)] | None = Field(
        None,
        description='Send {"text": ...}, as chat programs want it, instead of the whole event. May contain {event},'
        " {deployment}, {project}, {run_id}, {exit_code}, {jobs}.",
    )
    timeout: Seconds = Field(15, description="Seconds after which no further attempt is made.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if wrong := [name for name in self.headers if not _HEADER.fullmatch(name)]:
            raise _refuse(f"has headers that HTTP cannot have: {', '.join(map(repr, wrong))}")
        return self


class Optimize(Model):
    """When a run puts the files of its target in shape, right after its commit."""

    after_commit: StrictBool = Field(True, description="false: only `enrich maintain` puts files in shape.")
    small_files: int = Field(
        100,
        strict=True,
        ge=2,
        le=1_000_000,
        description="Files below 32 MB are put together when there are at least so many.",
    )


class Places(Model):
    """Where the tables with bare names are that no job of the project writes. Nothing is written there."""

    lake: Text | None = Field(None, description="A directory or object-store URI.")
    catalog: Text | None = Field(None, description="A catalog schema, e.g. prod.silver.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.lake is None) == (self.catalog is None):
            raise _refuse("needs either 'lake' or 'catalog': where the tables are")
        return self


class Settings(Model):
    """One file of ``conf/``, with environment variables replaced by their values."""

    lake: Text | None = Field(None, description="Directory or object-store URI of the tables with bare names.")
    catalog: Text | None = Field(None, description="Catalog schema of the tables with bare names, e.g. main.silver.")
    sources: Places | None = Field(None, description="Other places for bare names that no job of the project writes.")
    state: Text | None = Field(None, description="Runs table, locks and reports; default <lake>/_enrich.")
    keep_runs: int = Field(400, strict=True, ge=1, le=36_500, description="Days for which the runs table keeps a run.")
    spark: Spark = Spark(master=None, conf={}, jars=None)
    lineage: Lineage | None = Field(None, description="OpenLineage events of every run.")
    metrics: Metrics | None = Field(None, description="Figures of every run, for Prometheus.")
    notify: dict[StrictStr, Notify] = Field({}, description="Who is told about failures, by a name of your choice.")
    optimize: Optimize = Optimize(after_commit=True, small_files=100)


class Tables(RootModel[dict[StrictStr, Source]]):
    """The file ``tables.yml``: what is so of a table in all jobs that read it, by the name that they call it."""


def list_models(model: Any, place: tuple[str, ...] = ()) -> dict[tuple[str, ...], type[Model]]:
    """Return which model stands where in a file of ``model``; ``*`` is a name of the user's, or an item of a list."""
    if isinstance(model, type) and issubclass(model, Model):
        found = {place: model}
        for name, each in model.model_fields.items():
            found |= list_models(each.annotation, (*place, each.alias or name))
        return found
    inside = (*place, "*") if get_origin(model) in (dict, tuple) else place
    return {at: each for part in get_args(model) for at, each in list_models(part, inside).items()}


def keys_of(model: type[Model]) -> tuple[str, ...]:
    """Return the keys that a file may hold for ``model``."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def explain_value_fault(job: Job, fault: ValueFault) -> ConfigError:
    """Return the error of a run that a value has ended: the lines of the expressions that it may be, and what helps."""
    written: list[tuple[str, str, str]] = []  # what an expression is, where it stands, its text
    for alias, join in job.join.items():
        for option in ("on", "at", "gone", "elements"):
            given = getattr(join, option)
            what, at = f"{option!r} of the join of {alias!r}", job.at("join", alias, option)
            written += [(what, at, text) for text in ((given,) if isinstance(given, str) else given or ())]
    for alias, source in job.sources.items():
        if source.latest is not None and source.latest.delete is not None:
            what = f"'delete' of the source {alias!r}"
            written.append((what, job.at("sources", alias, "latest", "delete"), source.latest.delete))
    for place, text in enumerate(job.group.by if job.group is not None else ()):
        written.append(("'by' of the groups", job.at("group", "by", place), text))
    written += [("'where'", job.at("where"), job.where)] if job.where is not None else []
    written += [(f"column {name!r}", job.at("select", name), text) for name, text in (job.select or {}).items()]
    found = [each for each in written if fault.is_in(each[2])]
    found = found or [each for each in written if fault.fragment and fault.fragment in each[2]]
    sums = [] if found else [each for each in written if re.search(r"(?i)\b(sum|avg)\s*\(", each[2])]
    found = found or (sums if re.search("OVERFLOW|OUT_OF_RANGE", fault.condition) else [])
    found = found or [each for each in written if not _PATH.fullmatch(each[2].strip())]
    if not found:
        said = f"job {job.job!r} cannot take a value ({fault.condition})"
        return ConfigError(said, hint="correct the row in its source, and run again", where=job.at("target"))
    helps, fragment = INSTEAD, show_text(" ".join(fault.fragment.split()))
    if (called := re.match(r"(\w+)\(", fragment)) and f"try_{called[1].lower()}" in FUNCTIONS:
        helps = f"try_{fragment} gives null there instead"
    helps = "cast what is added up to a larger type, such as decimal(38, 0)" if sums and found == sums else helps
    hint = f"correct the expression: {helps}; then run `{hints.refresh(job.job)}`"
    places = dict.fromkeys((what, at) for what, at, _ in found)
    what = " or ".join(what for what, _ in places)
    said = f"{what} of job {job.job!r} cannot be computed for a row ({fault.condition})"
    where = ", ".join(dict.fromkeys(where for _, where in places))
    faults = [Fault(f"{what} cannot be computed for a row ({fault.condition}); {hint}", at) for what, at in places]
    return ConfigError(said, hint=hint, where=where, faults=faults)
