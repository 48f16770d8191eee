"""Find where a key of a job still stands, until when, and what ends it: ``enrich trace``. No value leaves this module.

The tables are those to which jobs of the project take the key unchanged, or from which they have it. In each of them:

    row            of the version that stands now
    masked         in a file of this version, behind a deletion vector
    old_version    in a file of an earlier version that is still there
    change_feed    in a file that only the change feed has
    log            a least or greatest value, or a condition, in a commit, checksum or checkpoint
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, reduce
from itertools import product
from operator import and_
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich.answers.opened_job import list_sides
from enrich.answers.question import cast_key, check_keys, normalise_key, read_key
from enrich.base import hints
from enrich.base.errors import ConfigError, EnrichError
from enrich.base.names import find_quarantine, identify
from enrich.base.schemas import WHOLE_NUMBERS, find, name_of
from enrich.base.spec import FILE, NORMALISERS, TEXT_TYPE, DataType, JobSpec, quote
from enrich.delta import tables
from enrich.delta.stores import open_files
from enrich.delta.tables import KEEPS_FILES, KEEPS_LOG, read_interval
from enrich.frames.normalise import normalise
from enrich.operations.loading import choose_jobs
from enrich.operations.workplace import Workplace
from enrich.progress.plan import OpenJob, Options
from enrich.project.kinds import JOBS
from enrich.project.kinds.syntax import IDENTITY
from enrich.project.models import Job
from enrich.project.project import Project
from enrich.report.models import KeyPlace, KeyTrace
from enrich.report.text import format_moment

_LOG, _SIDECARS, _FEED, _TIME, _DAY = "_delta_log/", "_delta_log/_sidecars/", "_change_data/", "__enrich_time", 86400
_BEGINNING = 24  # bytes: logs have 32 UTF-16 units of a text or 60 bytes, and normalisers may take some of them

_Stored = dict[str, tuple[str, T.DataType]]  # column -> its name in files, and type


@dataclass(frozen=True)
class _Table:
    """A table that has the key."""

    label: str  # as files name it
    uri: str
    columns: Sequence[str]  # those with the key's parts, in order
    writer: Job | None  # the job of the project that writes it
    role: str


def trace(project: Project, job: str, key: object, *, spark: SparkSession | None = None) -> KeyTrace:
    """Find where a key of a job still stands; ``key`` in the forms that ``why`` takes, of a history its source's."""
    (name,) = choose_jobs(project, [job], ())
    workplace = Workplace(project, [name], Options(dry_run=True), "", spark)

    def search(opened: OpenJob, session: SparkSession) -> KeyTrace:
        side, *_ = list_sides(opened.spec)
        source = opened.spec.sources[side.alias]
        if not {*side.columns} <= {*source.columns}:
            message = f"the key of {name!r} is computed of columns, and stands in no source"
            raise ConfigError(message, hint="name a job that takes the key from a table")
        found, steps = _list_tables(workplace, opened)
        given, kinds = cast_key(source, side, read_key(key, side.identity)), [source.columns[e] for e in side.columns]
        check_keys(session.range(1).select(*given), side)
        wanted = _Key(normalise_key(source, side, given), given, kinds, (source.normalise, steps))
        places = tuple(dict.fromkeys(place for each in found for place in _search(session, each, wanted)))
        return KeyTrace(job=name, deployment=project.deployment, exit_code=3 if places else 0, places=places)

    try:
        return workplace.open_inside(workplace.open_job(project.jobs[name]), search)
    except Exception as error:  # what Spark raises becomes one line without values
        raise workplace.describe(project.jobs[name], error) from error


def _list_tables(workplace: Workplace, opened: OpenJob) -> tuple[list[_Table], list[str]]:
    """Return the tables that have the job's key, and the normalisers that one of the jobs applies to it."""
    project, found, steps = workplace.project, dict[tuple[str, ...], _Table](), set[str]()
    writers = {workplace.spot(each.target.table): each for each in project.jobs.values()}

    def add(reference: str, columns: Sequence[str]) -> None:
        uri = workplace.locate(project.location(reference))
        if uri is None or (identify(uri), *columns) in found or not tables.exists(uri):
            return
        writer, beside = writers.get(identify(uri)), workplace.locate(find_quarantine(project.location(reference)))
        role = "source" if writer is None else "target"
        found[identify(uri), *columns] = _Table(reference, uri, columns, writer, role)
        if writer is not None and beside is not None and tables.exists(beside):
            found[identify(beside), *columns] = _Table(reference, beside, columns, writer, "quarantine")

    specs = dict(_read_specs(workplace, opened))
    side, *_ = list_sides(opened.spec)
    add(opened.job.sources[side.alias].table, side.columns)
    before = -1
    while before != (before := len(found)):  # as far as one table leads to another
        for name, spec in specs.items():
            for alias, source in project.jobs[name].sources.items():
                pairs, tables_of = _pair_columns(spec, alias), (source.table, project.jobs[name].target.table)
                for (near, far), at in ((tables_of, 0), (tables_of[::-1], 1)):
                    for known in [each for (uri, *_), each in found.items() if uri == workplace.spot(near)]:
                        same = [[pair[1 - at] for pair in pairs if pair[at] == column] for column in known.columns]
                        for columns in product(*same):
                            add(far, columns)
                            steps |= {*spec.sources[alias].normalise}
    return list(found.values()), [step for step in NORMALISERS if step in steps]


def _read_specs(workplace: Workplace, opened: OpenJob) -> Iterator[tuple[str, JobSpec]]:
    """Yield the project's jobs, compiled; ConfigError for one that cannot be opened, and whose target is there."""
    for name, other in workplace.project.jobs.items():
        try:
            yield name, opened.spec if name == opened.job.job else workplace.open_job(other).spec
        except EnrichError as error:
            made = workplace.locate(workplace.project.location(other.target.table))
            if made is not None and tables.exists(made):
                message = f"whether the target of job {name!r} has the key is not known ({error.message})"
                raise ConfigError(message, hint=error.hint) from error


def _pair_columns(spec: JobSpec, alias: str) -> set[tuple[str, str]]:
    """Return a source's columns that a job's target has unchanged, but for the form of its key, and the target's."""
    pairs, plain = set[tuple[str, str]](), {output.name for output in spec.outputs if output.is_plain}
    keys = () if any(step.alias == alias and step.elements for step in spec.steps) else spec.sources[alias].key
    for name, origins in JOBS[spec.kind].find_origins(spec).items():
        for (place, column), how in origins.items():
            is_key = name in plain and len(origins) == 1 and column in keys
            pairs |= {(column, name)} if place == alias and (how == IDENTITY or is_key) else set()
    side, *_ = list_sides(spec)
    sharing = {step.alias: spec.sources[step.alias].key for step in spec.steps if step.shares_key}
    return pairs | {*zip(({side.alias: side.columns} | sharing).get(alias, ()), side.identity, strict=False)}


@dataclass(frozen=True)
class _Key:
    """The key's parts, as the target has them and as they were given, and their types.

    Texts are the same that one of ``steps`` brings into one form: what the job does, or what all jobs do.
    """

    parts: Sequence[Column]
    given: Sequence[Column]
    kinds: Sequence[DataType]
    steps: Sequence[Sequence[str]]

    def equals(self, values: Sequence[Column | None], *, in_log: bool = False) -> Column:
        """Tell whether values are the key, as far as they are there; logs have texts, decimals and times shortened."""

        def list_forms(value: Column, kind: str) -> list[Column]:
            if kind.startswith(TEXT_TYPE):
                forms = [value, *[normalise(value, each) for each in self.steps]]
                return [F.substring(form.cast("binary"), 1, _BEGINNING) if in_log else form for form in forms]
            if in_log and kind.startswith("decimal"):  # delta-rs computes them, not to the last bit: by 14 digits
                return [F.format_string("%.13e", value.cast("double") * by) for by in (1 - 2e-15, 1 + 2e-15)]
            return [F.date_trunc("minute", value) if in_log and kind.startswith("timestamp") else value]

        same = []
        for value, part, given, kind in zip(values, self.parts, self.given, map(str, self.kinds), strict=True):
            if value is not None:
                wanted = F.array(*list_forms(part, kind), *list_forms(given, kind))
                same.append(F.arrays_overlap(F.array(*list_forms(value, kind)), wanted))
        return reduce(and_, same, F.lit(True))

    def is_named(self, condition: Column, names: Sequence[str]) -> Column:
        """Tell whether a condition of a commit may have all parts of the key, which are in the columns ``names``."""
        said, found = F.concat_ws(" ", condition, *[normalise(condition, each) for each in self.steps]), []
        for name, part, given, kind in zip(names, self.parts, self.given, map(str, self.kinds), strict=True):
            # Of what each writer spells in its own way, the column and any literal; the rest, escaped once or twice.
            words = F.lit(rf"(?is)^(?=.*(?<!\w)\Q{name}\E(?!\w)).*(?:'|(?<![\w#])\d)")
            if kind.startswith((TEXT_TYPE, "boolean")) or kind in WHOLE_NUMBERS:
                hard, start = r"""[\\'"\p{Cntrl}]""", r"(?is)(?:(?<![\w#])|(?<=\\[a-z]|\\u\w{4}))0*(?:\Q"
                texts = [F.regexp_replace(each.cast("string"), hard, r"\\E.{0,8}?\\Q") for each in (part, given)]
                words = F.concat(F.lit(start), F.concat_ws(r"\E|\Q", *texts), F.lit(r"\E)[LSY]?(?!\w)"))
            found.append(F.regexp_like(said, words))
        return reduce(and_, found)


def _search(session: SparkSession, table: _Table, key: _Key) -> Iterator[KeyPlace]:
    from pyarrow.fs import FileSelector, PyFileSystem

    uri, tell = table.uri.rstrip("/"), partial(_tell, table)
    log = tables.open_log(uri)
    state = tables.read_open_state(log)
    names = [find(name, state.columns) or name for name in table.columns]
    rows = session.read.format("delta").option("versionAsOf", state.version).load(uri)
    rows = rows.select(*map(quote, names), F.col("_metadata.file_name").alias(FILE))
    # Files lack the columns by which a table is partitioned: there the other parts of the key have to do.
    has_parts = key.equals([None if name in state.partitions else F.col(quote(name)) for name in names])
    has_key = key.equals([F.col(quote(name)) for name in names])
    live = rows.where(has_parts).select(FILE, has_key).distinct().collect()
    if with_rows := {_name_file(name) for name, is_there in live if is_there}:
        yield tell("row", with_rows)
    infos = PyFileSystem(open_files(uri)).get_file_info(FileSelector("", recursive=True))
    listed = {info.path: info.mtime_ns / 1e9 for info in infos if info.is_file}
    there = {e: f"{uri}/{e}" for e in (_FEED, _LOG, _SIDECARS) if any(path.startswith(e) for path in listed)}
    stored = {e: (state.layout[e].get(f".{quote(e)}", e), rows.schema[e].dataType) for e in names}
    fields = ", ".join(f"{quote(at)} {kind.simpleString()}" for at, kind in stored.values())
    scan = partial(_read_files, session, "parquet", names="*.parquet", fields=fields)
    folders = [uri, *[there[each] for each in (_FEED,) if each in there]]
    active = {_name_file(path) for path in log.get_add_actions().column("path").to_pylist()}
    data = [path for path in listed if path.endswith(".parquet") and not path.startswith(_LOG)]
    old = {path: listed[path] for path in data if _name_file(path) not in active}
    rest = [f"{uri}/{path}" for path in listed if _name_file(path) in active]
    inside = _list_files(lambda at: scan(at).toDF(*stored, FILE, _TIME).where(has_parts), folders, old, rest)
    if masked := inside.keys() & active - {_name_file(name) for name, _ in live}:
        yield tell("masked", masked)
    for version in tables.list_log(uri)[0]:  # VACUUM counts from when a commit removed a file
        for each in tables.actions(uri, version, "remove") or ():
            name, at = _name_file(each["remove"]["path"]), (each["remove"].get("deletionTimestamp") or 0) / 1000
            inside |= {name: max(inside[name], at)} if name in inside else {}
    fed = {_name_file(path) for path in listed if path.startswith(_FEED)}
    keeps = read_interval(state.properties, KEEPS_FILES)
    for what, is_fed in (("old_version", False), ("change_feed", True)):
        if gone := {name: at for name, at in inside.items() if name not in active and (name in fed) == is_fed}:
            yield tell(what, gone, None if keeps is None else max(gone.values()) + keeps)
    folders = [there[each] for each in (_LOG, _SIDECARS) if each in there]
    old = {path: at for path, at in listed.items() if path.startswith(_LOG)}
    if logged := _list_files(partial(_find_in_log, session, key, stored), folders, old):
        keeps = read_interval(state.properties, KEEPS_LOG)
        # Delta removes what is older than the beginning of the day that lies so far back.
        yield tell("log", logged, None if keeps is None else ((max(logged.values()) + keeps) // _DAY + 1) * _DAY)


def _find_in_log(session: SparkSession, key: _Key, stored: _Stored, folders: list[str]) -> DataFrame:
    """Return the commits, checksums and checkpoints that have the key as an end of a file or in a condition."""
    ends = "struct<minValues: struct<{0}>, maxValues: struct<{0}>>"
    typed = ends.format(", ".join(f"{quote(name)}: {kind.simpleString()}" for name, kind in stored.values()))
    texts = ends.format(", ".join(f"{quote(name)}: string" for name, _ in stored.values()))
    add = f"struct<stats: string, partitionValues: map<string, string>, stats_parsed: {typed}>"
    entry = f"add {add}, remove {add}, cdc {add}, allFiles array<{add}>"
    entry += ", commitInfo struct<operationParameters: map<string, string>>"
    rows = _read_files(session, "json", folders, "*.{json,crc}", entry)
    rows = rows.unionByName(_read_files(session, "parquet", folders, "*.parquet", entry))
    files = F.concat(F.array("add", "remove", "cdc"), F.coalesce("allFiles", F.array()))
    found = rows.select(FILE, _TIME, F.explode(files).alias("add")).select(FILE, _TIME, "add.*")
    both = F.from_json("stats", texts), F.col("stats_parsed")
    sides = [side[end] for side in both for end in ("minValues", "maxValues")]
    values = []
    for place, ((name, _), kind) in enumerate(zip(stored.values(), key.kinds, strict=True)):
        known = F.array(*[side[name].cast("string") for side in sides], F.col("partitionValues")[name])
        found = found.withColumn(f"part{place}", F.explode(F.array_distinct(F.array_compact(known))))
        # Decimals are there as doubles, and 7.0 is from before a column got whole numbers.
        wide = "double" if str(kind).startswith("decimal") else "decimal(38)" if kind in WHOLE_NUMBERS else None
        values.append(F.col(f"part{place}").try_cast(wide or name_of(kind)))
    said = F.map_filter("commitInfo.operationParameters", lambda name, _: F.contains(name, F.lit("redicate")))
    named = rows.where(key.is_named(F.concat_ws(" ", F.map_values(said)), [*stored]))
    return found.where(key.equals(values, in_log=True)).select(FILE, _TIME).union(named.select(FILE, _TIME))


def _read_files(session: SparkSession, form: str, folders: list[str], names: str, fields: str) -> DataFrame:
    """Return what files have in some fields, with the files' names and times."""
    options = {"pathGlobFilter": names, "recursiveFileLookup": "true", "__globPaths__": "false"}
    told = F.col("_metadata.file_name").alias(FILE), F.unix_micros("_metadata.file_modification_time").alias(_TIME)
    return session.read.format(form).schema(fields).options(**options).load(folders).select("*", *told)


def _list_files(
    read: Callable[[list[str]], DataFrame], places: list[str], old: Mapping[str, float], rest: Sequence[str] = ()
) -> dict[str, float]:
    """Return the files of the rows that are read, and when they were written; in doubt all ``old`` ones."""
    try:
        return {_name_file(name): at / 1e6 for name, at in read(places).select(FILE, _TIME).distinct().collect()}
    except Py4JJavaError:  # Spark refuses files in which a column has another type: it reads the ``rest`` alone
        if not old:
            raise
    return {_name_file(path): at for path, at in old.items()} | (_list_files(read, [*rest], {}) if rest else {})


def _name_file(path: str) -> str:
    return unquote(path).rpartition("/")[2]


def _tell(table: _Table, what: str, files: Iterable[str], until: float | None = None) -> KeyPlace:
    """Return a place with the command that ends it."""
    name, job = quote("delta", table.uri), table.writer
    ends = f"VACUUM {name}" if job is None else hints.maintain(job.job)
    if what == "log":
        ends = "the first checkpoint after that"
    elif what == "masked":
        ends = f"REORG TABLE {name} APPLY (PURGE), then {ends}"
    elif what == "row" and job is None:
        ends = "the source's owner deletes the row"
    elif what == "row" and job is not None:
        keeps = job.remembers and getattr(job.history, "on_delete", "end") == "end"
        ends = f"history: {{on_delete: erase}} in {job.file}, then {hints.refresh(job.job)}"
        ends = ends if keeps else f"{hints.run(job.job)}, once no source has it"
    at = None if until is None else format_moment(datetime.fromtimestamp(until, UTC))
    known = {"table": table.label, "role": table.role, "what": what, "files": sorted(files), "until": at, "ends": ends}
    return KeyPlace.model_validate(known)
