"""Bring a source table up to a dump, in one commit that touches no row that is equal: ``enrich load``."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.base import context, hints
from enrich.base.errors import Blocked, ConfigError, Conflict, EnrichError, RunFailed, refuse_text, show_text
from enrich.base.failures import SPARK, find_condition, find_lack, find_refusal, is_conflict, require_extra
from enrich.base.files import make_private_directory
from enrich.base.names import CatalogName, Location, identify
from enrich.base.spec import quote
from enrich.delta import extents, locks, stores, tables
from enrich.delta.tables import DECLARED, TableState
from enrich.dumps import files, stage
from enrich.dumps.layout import Known, make_schema, read_columns, split_columns
from enrich.dumps.reading import Marks
from enrich.dumps.result import (
    CREATED,
    CSV_DIALECT,
    FAIL,
    REFUSED,
    REPEATED,
    SHOWN,
    UNCHANGED,
    UPDATED,
    BadLines,
    DumpOptions,
    LoadResult,
    RefusedDump,
    check_form,
    check_options,
    choose_dialect,
    refuse_lines,
)
from enrich.dumps.stage import BAD, FILE, LINE, DumpSpec, Staged
from enrich.operations.runner import retry
from enrich.operations.workplace import Workplace
from enrich.progress.plan import Options
from enrich.project.project import Project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from enrich.delta.sink import Commit
    from enrich.dumps.difference import DumpRows
    from enrich.frames.difference import Difference

log = logging.getLogger("enrich")

_APPLICATION = "enrich.load"
_RECORD = "enrich_load"
_APPEND_ONLY = "delta.appendOnly"
_FEATURES = {tables.CHANGE_FEED: "true", tables.VECTORS: "true"}


def load(  # noqa: PLR0913 - the public interface: every keyword is an option of `enrich load`
    project: Project,
    table: str,
    paths: Sequence[str],
    *,
    key: Sequence[str],
    options: DumpOptions | None = None,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    check: Callable[[], None] = lambda: None,
) -> LoadResult:
    """Bring a source table up to a dump: update, insert, and with ``complete`` delete, in one commit.

    Args:
        project: What ``load_project`` gave.
        table: A table reference, as a source's in job files.
        paths: Files and directories on this machine.
        key: The columns of the table's key.
        options: How the files are read; None: as the command line does without options.
        dry_run: Only read, check and compare.
        spark: A Delta-capable session, left as it was found; None: the active one, or one is built.
        check: Called now and then while files are read; it may raise to end the work.

    Returns:
        What was done; a dump that is refused for its rows is a result with exit code 3, not an exception.

    Raises:
        ConfigError: The table, the files and the options do not go together.
        EnrichError: The table could not be written.
    """
    refuse_text("paths", paths)
    refuse_text("key", key)
    how = options or DumpOptions()
    check_options(how, key)
    place = project.location(project.resolve(table))
    if said := project.explain_read_only(place):
        hint = "name a deployment without 'sources' (--target), or the path of a table of your own"
        raise ConfigError(said, hint=hint)
    if (job := project.makers.get(identify(place))) is not None:
        raise ConfigError(
            f"{show_text(table)} is written by job {job!r}", hint="load the tables that the job reads instead"
        )
    if isinstance(place, str) and f"{identify(place)}/".startswith(f"{identify(project.state)}/"):
        raise ConfigError(f"{show_text(table)} is in the state directory", hint="choose another place for the table")
    found = files.list_files(paths)
    blank = LoadResult(uuid.uuid4().hex, project.deployment, str(place), UNCHANGED, dry_run)
    context.begin_run(blank.run_id)
    workplace = Workplace(project, [], Options(dry_run=dry_run), blank.run_id, spark, spark)
    size = sum(each.path.stat().st_size for each in found)
    loader = Loader(workplace, place, show_text(table), how, blank, size)
    context.note_written(f"{loader.label} is unchanged")
    with ExitStack() as cleanup:
        if not dry_run:
            lock = f"load-{hashlib.sha256(identify(place).encode()).hexdigest()[:16]}"
            cleanup.enter_context(locks.hold_lock(project.state, lock, blank.run_id, loader.label))
        # Where this process is killed, the next one removes it.
        directory = Path(tempfile.mkdtemp(prefix="load-", dir=make_private_directory()))
        cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
        try:
            if isinstance(place, CatalogName):  # only Spark's catalog knows where the table is
                loader.open_session()
            return loader.load(loader.stage(found, key, directory, check))
        except Blocked as refused:
            done = replace(blank, status=REFUSED, error=str(refused), exit_code=refused.exit_code)
            if not isinstance(refused, RefusedDump):  # a file is damaged
                return done
            return replace(done, read=refused.read, faults=refused.faults, warnings=refused.warnings)


# --- one call: the dump staged, compared with the table, and written in one commit ----------------------------------


@dataclass
class Loader:
    """One call of ``enrich load``."""

    workplace: Workplace
    place: Location
    label: str  # the table in messages
    how: DumpOptions
    blank: LoadResult  # the result before anything is known
    size: int = 0
    done: LoadResult | None = field(default=None, init=False)  # what this load has done, once the log has its commit
    # What an attempt has written to which another writer's commit came in between.
    earlier: LoadResult | None = field(default=None, init=False)

    def open_session(self) -> None:
        """Start Spark, unless there is a session."""
        if self.workplace.built is not None:
            return
        require_extra(SPARK)
        from enrich.spark.session import get_session

        log.info("starting Spark")
        known = None if isinstance(self.place, CatalogName) else self.place  # only Spark's catalog knows the others
        self.workplace.built = get_session(
            self.workplace.project.settings.spark,
            lambda: None if known is None else self.size + extents.measure_table(known).bytes,
        )

    def _find_table(self) -> TableState | None:
        """Read the state of the table; None when there is none, a ConfigError where something else is at its place."""
        uri = self.workplace.locate(self.place)
        if uri is None or not tables.exists(uri):
            if uri is not None and tables.is_occupied(uri):
                raise ConfigError(f"{uri} is not a Delta table", hint="choose another place, or convert it")
            return None
        return tables.read_state(uri)

    def stage(
        self, found: Sequence[files.DumpFile], key: Sequence[str], directory: Path, check: Callable[[], None]
    ) -> Staged:
        """Read and check the dump's lines; bad ones that are not or cannot be left out are a RefusedDump."""
        table, how = self._find_table(), self.how
        form = how.form or files.choose_format(found)
        check_form(how, form)
        ours, unfit = (None, []) if table is None else split_columns(table.columns)
        if form == files.CSV and how.header is False and not how.columns and ours is None:
            raise ConfigError(
                "--no-header needs --columns for a new table", hint="name them in the order of the file: --columns a,b"
            )
        columns = how.columns or (ours.names if ours is not None and how.header is False else None)
        types = make_schema(read_columns(how.types) if how.types else {})
        # An empty CHAR is blanks, and these are no null.
        parts = [] if table is None else [name for name in table.partitions if name not in table.chars]
        known = Known(ours, types, unfit, parts)
        encoding = files.check_encoding(how.encoding)
        marks = Marks(how.escape is not None or how.dialect != CSV_DIALECT, how.null is not None)
        how_written = choose_dialect(how)
        spec = DumpSpec(found, form, key, encoding, how_written, columns, how.header, marks, known, how.complete)
        staged = stage.stage_dump(spec, directory, check)
        warnings = staged.reading.marks.tell()
        if how.bad_rows == FAIL and staged.reading.faults.lines:
            stage.find_repeated(staged)  # all that is wrong at once, where the dump is small
            raise refuse_lines(staged.reading.rows, staged.reading.faults.list(), warnings)
        if how.complete and staged.reading.keyless:
            raise RefusedDump(
                f"{staged.reading.keyless} of the dump's bad lines have no readable key, so it is not known which rows"
                f" of {self.label} the dump lacks; nothing was written",
                "correct the lines, or load without --complete",
                staged.reading.rows,
                staged.reading.faults.list(),
                warnings,
            )
        return staged

    def load(self, staged: Staged) -> LoadResult:
        """Compare and write, again from a fresh state where somebody else has committed meanwhile.

        What fails after the commit does not change what was done. ``RefusedDump``: keys stand twice, or too
        many rows would be deleted. ``EnrichError``: Spark or the storage failed.
        """
        try:
            self.open_session()
            return retry(lambda: self._attempt(staged), self.label, self.blank.run_id, lambda: self.done is not None)
        except Exception as error:
            if self.done is not None:
                log.warning("%s: committed, but then failed with %s", self.label, type(error).__name__)
                return self.done
            if isinstance(error, EnrichError):
                raise
            if known := find_refusal(error, self.label) or find_lack(error):
                raise known from error
            if is_conflict(error):
                raise RunFailed(
                    f"other writers kept changing {self.label}", hint="run again when they are done"
                ) from error
            what = " ".join(filter(None, (type(error).__name__, find_condition(error))))
            raise RunFailed(
                f"{self.label} could not be loaded: {what}",
                hint=f"run again; `{hints.doctor()}` checks the environment",
            ) from error

    def _attempt(self, staged: Staged) -> LoadResult:
        is_local = (self.workplace.session().sparkContext.master or "").startswith("local")
        state, run_id = self.workplace.project.state, self.blank.run_id
        with share_file(staged.path, state, run_id, is_local=is_local) as path:
            return self.workplace.work_inside(lambda own: self._compare(own, path, staged))

    def _compare(self, session: SparkSession, path: str, staged: Staged) -> LoadResult:
        """Compare the dump with the table as it is now and write the difference; too many deletes are a RefusedDump."""
        from enrich.delta import sink
        from enrich.delta.reads import read_snapshot
        from enrich.dumps.difference import compare_dump

        table = self._find_table()
        rows: DataFrame | None = None
        generated: Mapping[str, str] = {}
        if table is not None:
            names = [name for name in staged.schema.names if name in table.columns]
            places, generated = sink.wants_places(table), table.demands.generated
            rows = read_snapshot(session, table.uri, table.version, names, places=places)
        dump, repeated = self._settle_repeated(_read_staged(session, path, staged, rows, generated), staged)
        read, faults = staged.reading.rows, (*staged.reading.faults.list(), *repeated)
        skipped = staged.reading.faults.lines + sum(each.lines for each in repeated)
        has_nulls = rows is not None and self._check_key(rows, staged) and self.how.complete
        keep_old = table is not None and table.has_change_feed
        how = {"complete": self.how.complete, "has_nulls": has_nulls, "keep_old": keep_old}
        found = compare_dump(dump, rows, has_bad=bool(skipped), **how)
        refused = None if table is None else self._find_refused(session, table, found, dump, staged)
        if refused is not None:
            dump, refused_lines, refused_faults = refused
            faults, skipped = (*faults, *refused_faults), skipped + refused_lines
            found = compare_dump(dump, rows, has_bad=True, **how)
        most = self.how.max_delete
        if rows is not None and found.deleted and found.deleted > Fraction(str(most)) * (total := rows.count()):
            raise RefusedDump(
                f"the dump would delete {found.deleted} of the {total} rows of {self.label}, and --max-delete is"
                f" {most:g}; nothing was written",
                "look whether the dump is cut off; if it is whole, give a greater --max-delete",
                read,
            )
        if table is not None and table.properties.get(_APPEND_ONLY) == "true" and (found.updated or found.deleted):
            raise ConfigError(
                f"{self.label} takes new rows alone ({_APPEND_ONLY}), and the dump would update {found.updated} and"
                f" delete {found.deleted}; nothing was written",
                hint=f"run in Spark SQL: ALTER TABLE delta.`{table.uri}` UNSET TBLPROPERTIES ('{_APPEND_ONLY}')",
            )
        is_same = table is not None and found.is_empty and set(staged.schema.names) <= set(table.columns)
        result = replace(
            self.blank,
            status=CREATED if table is None else UNCHANGED if is_same else UPDATED,
            version=None if table is None else table.version,
            read=read,
            inserted=found.inserted,
            updated=found.updated,
            deleted=found.deleted,
            unchanged=read - skipped - found.inserted - found.updated,
            skipped=skipped,
            faults=faults,
            warnings=staged.reading.marks.tell(),
        )
        if result.status != UNCHANGED and not self.blank.dry_run:
            write = _Write(table, found, staged, has_nulls=has_nulls)
            return self._write(session, write, result)
        return self._add_earlier(result)

    def _add_earlier(self, result: LoadResult) -> LoadResult:
        """Return what all attempts of this load have done together."""
        if (first := self.earlier) is None:
            return result
        return replace(
            result,
            status=first.status,
            inserted=first.inserted + result.inserted,
            updated=first.updated + result.updated,
            deleted=first.deleted + result.deleted,
            unchanged=max(0, result.unchanged - first.inserted - first.updated),
        )

    def _check_key(self, rows: DataFrame, staged: Staged) -> bool:
        """Return whether the table has rows with a null in the key; several rows with one key are a ConfigError.

        That is a RunFailed where another program has inserted them while this load did.
        """
        from enrich.dumps.difference import find_repeated
        from enrich.frames.columns import drop_nulls

        _, keys, _ = find_repeated(rows, staged.key)
        if keys and self.earlier is not None:  # Delta lets two commits pass that only insert
            raise RunFailed(
                f"the dump is in {self.label}, but another program has inserted rows with the same keys meanwhile:"
                f" {keys} keys stand in several rows",
                hint="delete the rows that are too many, and load again",
            )
        if keys:
            raise ConfigError(
                f"{', '.join(staged.key)} is not the key of {self.label}: {keys} of its values stand in several rows",
                hint="give all columns of the key with --key",
            )
        return drop_nulls(rows, staged.key).count() < rows.count()

    def _settle_repeated(self, dump: DumpRows, staged: Staged) -> tuple[DumpRows, list[BadLines]]:
        """Leave out the lines whose key stands twice, or refuse the dump for them."""
        from enrich.dumps.difference import find_places, find_repeated, leave_out

        keys, _, lines = find_repeated(dump.good, dump.key)
        if not lines:
            return dump, []
        first = [f"{staged.names[at]}:{line}" for at, line in find_places(dump, keys, SHOWN)]
        fault = BadLines(REPEATED, lines, tuple(first))
        if self.how.bad_rows == FAIL:
            raise refuse_lines(staged.reading.rows, [fault])
        return leave_out(dump, keys), [fault]

    def _find_refused(
        self, session: SparkSession, table: TableState, found: Difference, dump: DumpRows, staged: Staged
    ) -> tuple[DumpRows, int, list[BadLines]] | None:
        """Leave out the lines that the table's constraints refuse, or refuse the dump for them; None without any."""
        from enrich.dumps.difference import find_places, leave_out
        from enrich.frames.difference import Identity, complete_rows, mark_violations

        if not table.demands.constraints or not found.operations.keys() & {"I", "U"}:
            return None
        identity = Identity(staged.key)
        from enrich.delta.reads import read_snapshot

        stored = read_snapshot(session, table.uri, table.version, list(table.columns))
        rows = complete_rows(found.rows, stored, identity, table.demands)
        marked, violated = mark_violations(rows, table.demands.constraints)
        if not violated:
            return None
        faults = []
        for each, (mark, count) in violated.items():
            places = find_places(dump, marked.where(mark).select(*identity.names), SHOWN)
            faults.append(BadLines(str(each), count, tuple(f"{staged.names[at]}:{line}" for at, line in places)))
        if self.how.bad_rows == FAIL:
            raise refuse_lines(staged.reading.rows, faults, staged.reading.marks.tell())
        keys = marked.where(reduce(or_, [mark for mark, _ in violated.values()])).select(*identity.names)
        return leave_out(dump, keys), keys.count(), faults

    def _write(self, session: SparkSession, write: _Write, result: LoadResult) -> LoadResult:
        """Make the commit and find it in the log; a Conflict where somebody else has committed since the read."""
        from enrich.delta import sink

        uri, base = self.workplace.locate(self.place), write.base

        def require() -> None:
            if write.table is not None and tables.read_state(write.table.uri).version != base:
                raise Conflict(f"somebody else is writing {self.label}", hint="run again")

        def landed(version: int) -> None:
            context.note_written(f"version {version} of {self.label} is committed")
            self.done = self._add_earlier(replace(result, version=version))

        # The number names the version that was read: of two loads that have read the same one, one commits.
        commit = sink.Commit(
            self.label,
            lambda: self.workplace.locate(self.place),
            base,
            _APPLICATION,
            base + 1,
            json.dumps({_RECORD: self.blank.run_id}),
            lambda written: written.get(_RECORD) == self.blank.run_id,
            require=require,
            landed=landed,
        )
        self.workplace.require_safe_commits(uri, session)
        version = sink.commit_and_prove(commit, lambda: self._commit(session, write, commit))
        uri, names, done = self.workplace.locate(self.place) or "", write.staged.schema.names, self.done
        assert done is not None  # noqa: S101 - the commit has landed
        if any(tables.changes_values(uri, each, names) for each in range(base + 1, version)):
            # Delta refuses what overlaps; what came shortly before is compared again.
            self.earlier, self.done = done, None
            raise Conflict(f"somebody else is writing {self.label}", hint="run again")
        return done

    def _commit(self, session: SparkSession, write: _Write, commit: Commit) -> None:
        from pyspark.sql import functions as F

        from enrich.delta import sink
        from enrich.frames.difference import Identity

        found, place = write.found, self.place
        if write.table is None:
            rows = found.rows.select(*[F.col(quote(name)) for name in write.staged.schema.names])
            in_catalog = isinstance(place, CatalogName)
            name = quote(*place.parts) if isinstance(place, CatalogName) else quote("delta", place)
            properties = _FEATURES | sink.choose_statistics(rows, write.staged.key)
            new = sink.NewTable(name, None if in_catalog else str(place), properties)
            sink.create_table(session, new, rows, commit)
            return
        identity = Identity(write.staged.key).of("t.")
        changed = sink.Changed(
            found.rows, identity, write.has_nulls, found.operations, old=found.old, replaced=found.replaced
        )
        sink.write_difference(session, write.table.uri, changed, commit)


@dataclass(frozen=True)
class _Write:
    """What is to be written."""

    table: TableState | None  # the table as it was compared; None when it is created
    found: Difference
    staged: Staged
    has_nulls: bool  # whether rows with a null in their key are among those to be deleted

    @property
    def base(self) -> int:
        """The version that was compared; -1 without a table."""
        return -1 if self.table is None else self.table.version


def _read_staged(
    session: SparkSession, path: str, staged: Staged, table: DataFrame | None, generated: Mapping[str, str]
) -> DumpRows:
    """Return the staged rows, in the table's own types: a collation decides which keys are equal."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from enrich.dumps.difference import DumpRows, fill_chars, let_be_null
    from enrich.frames.difference import can_compute

    columns = {name: F.col(quote(name)) for name in staged.schema.names}
    for each in () if table is None else table.schema.fields:
        if each.name in columns:
            value = columns[each.name]
            if declared := each.metadata.get(DECLARED):
                value = fill_chars(value, T.DataType.fromDDL(declared))
            columns[each.name] = value.cast(let_be_null(each.dataType)).alias(each.name)
    rows = session.read.parquet(path).select(*columns.values(), FILE, LINE, BAD)
    for name, expression in generated.items():  # where one is null, it gets what the table would compute
        value = F.coalesce(F.col(quote(name)), F.expr(expression))
        if name in rows.columns and can_compute(rows, value):
            rows = rows.withColumn(name, value.cast(rows.schema[name].dataType))
    return DumpRows(rows, staged.key, staged.schema.names, BAD, (FILE, LINE))


@contextmanager
def share_file(path: Path, state: str, run_id: str, *, is_local: bool) -> Iterator[str]:
    """Copy a staged file into the state directory, where executors read it, unless Spark is local; then remove it."""
    if is_local:
        yield str(path)
        return
    name = f"load/{run_id}/{path.name}"
    local = stores.find_local_path(state)
    if local is not None:
        place = local / name
        place.parent.mkdir(parents=True, mode=0o700)
        try:
            shutil.copyfile(path, place)
            yield str(place)
        finally:
            shutil.rmtree(place.parent, ignore_errors=True)
        return
    try:
        stores.write_object(state, name, path)
        yield f"{state.rstrip('/')}/{name}"
    finally:
        with suppress(Exception):  # what is left holds nobody up, and the error that ended the work is told
            import obstore

            obstore.delete(stores.open_store(state), name)
