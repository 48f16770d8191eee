"""Hold a target's record against its tables as they are now: may it go on from there, and how far is it behind?"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlparse

from enrich.base import hints
from enrich.base.errors import ANOTHER_TARGET, EnrichError, Locked, RefreshNeeded, RunFailed
from enrich.base.names import CatalogName, Location
from enrich.base.schemas import find, name_of, strip_type
from enrich.base.spec import DataType, JobSpec
from enrich.delta import tables
from enrich.delta.stores import find_local_path, open_files
from enrich.delta.tables import TableState, fingerprint, keeps_values, read_state
from enrich.progress.cursor import Cursor, Mark, TargetState
from enrich.project.models import Job


def check(cursor: Cursor, definition: str, tables: Mapping[str, TableState]) -> None:
    """Refuse a target that is the doing of another definition, or of other sources, by RefreshNeeded.

    One that another run has brought further than this run's pinned versions is Locked.
    """
    if cursor.definition != definition:
        raise RefreshNeeded(
            f"the definition of {cursor.job!r} changed since its target was written"
            f" (`{hints.diff(cursor.job)}` shows what that changes)",
            hint=f"run `{hints.refresh(cursor.job)}`",
            instead=f"take the change back, or {ANOTHER_TARGET}",
        )
    for alias, mark in cursor.sources.items():
        table, same = tables[alias], mark.table_id == tables[alias].table_id
        if same and table.version < mark.to <= read_state(table.uri).version:
            message = f"run {cursor.run_id} has brought the target of {cursor.job!r} further than this run could"
            raise Locked(message, hint="run again")
        if not goes_on(table, mark):  # dropped and created again, or from a backup: its versions count something else
            more = ", or a backup of it that was written to since" if same else ""
            raise RefreshNeeded(
                f"source {alias!r} of {cursor.job!r} is another table than the one consumed up to version"
                f" {mark.to}{more}",
                hint=f"run `{hints.refresh(cursor.job)}`",
                instead=f"put the right table back, or {ANOTHER_TARGET}",
            )


def is_ours(target: TargetState, definition: str) -> bool:
    """Return whether a target's rows are the doing of a definition, and of nobody else."""
    return not target.others and target.cursor is not None and target.cursor.definition == definition


def goes_on(table: TableState, mark: Mark) -> bool:
    """Return whether a table is the one that was consumed up to ``mark``, at that version or a later one.

    Its log must not have another commit under that number; a log that has forgotten the commit is trusted.
    """
    if mark.table_id != table.table_id or table.version < mark.to:
        return False
    commit = table.commit if table.version == mark.to else fingerprint(table.uri, mark.to)
    return None in (commit, mark.commit) or commit == mark.commit


def find_apart(
    target: TargetState, cursor: Cursor, tables: Mapping[str, TableState]
) -> dict[str, tuple[int, int]] | None:
    """Return alias -> the versions that only one of target and quarantine contains, ends like ``start`` and ``to``.

    The quarantine is ahead when a run ended between its two commits, or when the target was restored; it is behind when
    it was restored itself. Nothing when the two agree; None when nobody can name what they do not share.
    """
    there = target.quarantine
    if there is None:  # never needed, or dropped
        return None if cursor.quarantine_number else {}
    found, base = there.cursor, cursor.quarantine_base
    if there.is_edited or (found is None and (base is None or there.oldest > base + 1)):
        return None  # what came after the target's commit is forgotten: a RESTORE may have been among it
    if there.belongs_to(cursor):
        return {}
    if found is None or (found.definition, found.columns) != (cursor.definition, cursor.columns):
        return None
    ranges = {}
    for alias, ours in cursor.sources.items():
        theirs = found.sources[alias]
        same = all(getattr(ours, name) == getattr(theirs, name) for name in ("table_id", "columns", "chars"))
        has_gap = ours.gaps != theirs.gaps  # any row may differ; a history compares all of them
        if not same or (has_gap and ours.first is None) or not goes_on(read_state(tables[alias].uri), theirs):
            return None
        if ours.to != theirs.to or has_gap:
            ranges[alias] = (min(ours.to, theirs.to), max(ours.to, theirs.to))
    return ranges


def check_columns(job: str, schemas: Mapping[str, Mapping[str, DataType]], cursor: Cursor) -> None:
    """Refuse, by RefreshNeeded, sources whose used columns went or changed their type."""
    for alias, mark in cursor.sources.items():
        now = schemas.get(alias, mark.columns)
        for name, kind in mark.columns.items():
            same = name in now and strip_type(kind) == strip_type(now[name])
            # What a struct has gained is null in all rows of before.
            if not same and (name not in now or isinstance(kind, str) or not keeps_values(kind, now[name])):
                was = f"is {name_of(now[name])}, and was {name_of(kind)} when" if name in now else "is gone since"
                hint = f"correct the job file if it names the column, then run `{hints.refresh(job)}`"
                if name not in now and (there := find(name, now)):  # Spark takes the one for the other
                    was, hint = f"has been called {there!r} since", f"run `{hints.refresh(job)}`"
                raise RefreshNeeded(f"column {name!r} of source {alias!r} {was} the target was written", hint=hint)


def is_recast(cursor: Cursor, tables: Mapping[str, TableState]) -> bool:
    """Tell whether Spark reads values otherwise than when the target was written: as CHAR, or no more."""
    marks = [(mark, tables[alias].chars) for alias, mark in cursor.sources.items()]
    return any(mark.chars.get(name) != chars.get(name) for mark, chars in marks for name in mark.columns)


def fits(cursor: Cursor, spec: JobSpec) -> bool:
    """Return whether a table that was written under ``cursor`` can hold the job's rows as they are now.

    Elements of lists are structs of all columns of the lookup; MERGE compares and writes structs of one shape alone.
    """
    shown = {path for output in spec.outputs for path in output.paths}
    if any(name not in spec.columns for name in cursor.columns):
        return False
    if any((alias,) in shown for alias in find_reshaped(cursor, spec)):
        return False
    used = {alias: source.columns for alias, source in spec.sources.items()}
    marks = ((used.get(alias, {}), mark.columns) for alias, mark in cursor.sources.items())
    pairs = [(kind, here[name]) for here, there in marks for name, kind in there.items() if name in here]
    if spec.remembers:  # its rows are fitted to fields that have come
        return all(keeps_values(before, now) for before, now in pairs)
    return all(strip_type(before) == strip_type(now) for before, now in pairs)


def find_reshaped(cursor: Cursor, spec: JobSpec) -> list[str]:
    """Return the sources of lists and structs that an expression reads as a whole, and that have other fields than
    when the target was written.

    A new one changes each of them, also those that no change of a row leads to: the text of a list, for instance.
    """
    marks = {alias: mark.columns for alias, mark in cursor.sources.items() if alias in spec.sources}
    read = {path for each in spec.outputs if not each.is_plain for path in each.paths if len(path) == 2}
    kinds = [(a, marks[a].get(n), spec.sources[a].columns.get(n)) for a, n in read if a in marks]
    grown = {alias for alias, was, now in kinds if was and now and strip_type(was) != strip_type(now)}
    lists = {alias for alias in spec.read_whole if set(marks.get(alias, ())) != set(spec.sources[alias].columns)}
    return sorted(grown | (lists & marks.keys()))


@dataclass(frozen=True)
class SourceLag:
    """How far a target is behind one of its sources; what cannot be read is None."""

    alias: str
    table: str
    consumed: int | None  # the last version that the target contains; None before the first run
    latest: int | None  # the source's latest version
    # Time since the oldest commit that is not consumed yet; 0 when there is none, None also where the source has
    # forgotten it.
    seconds: float | None
    lag_seconds: float | None = None  # time between the newest commit consumed and the newest there
    # Days until the source forgets what is not consumed yet; None also when nothing is waiting.
    days_left: float | None = None
    # Versions that a run was told to skip, each from the one before it to the last.
    gaps: tuple[tuple[int, int], ...] = ()
    # True when the source is another table than the one consumed, so that its versions count something else.
    replaced: bool = False

    @property
    def versions(self) -> int | None:
        """How many versions are not consumed yet; None when unknown."""
        if self.latest is None or self.replaced:
            return None
        return self.latest - (-1 if self.consumed is None else self.consumed)


def measure_lag(alias: str, table: str, place: Location, mark: Mark | None) -> SourceLag:
    """Return how far what is consumed is behind the latest commit of a source, as far as it is read without Spark.

    ``table`` is its name in the job file, ``mark`` what is consumed; None before the first run.
    """
    consumed, gaps = (None, ()) if mark is None else (mark.to, mark.gaps)
    known = SourceLag(alias, table, consumed, None, None, gaps=gaps)
    if isinstance(place, CatalogName):
        return known
    try:
        log = tables.open_log(place)
        state = tables.read_open_state(log)
        known = replace(known, latest=state.version)
        if mark is not None and not goes_on(state, mark):
            return replace(known, replaced=True)
    except EnrichError:
        return replace(known, latest=None)
    if state.version == consumed:
        return replace(known, seconds=0.0, lag_seconds=0.0)
    commits = tables.read_commits(log)
    waiting = [at / 1000 for version, at in commits.items() if consumed is None or version > consumed]
    seconds = max(0.0, datetime.now(UTC).timestamp() - min(waiting)) if waiting else None
    if consumed is None:
        return replace(known, seconds=seconds)
    behind = (commits[max(commits)] - commits[consumed]) / 1000 if consumed in commits else None
    if consumed + 1 < min(commits, default=0):
        return replace(known, lag_seconds=behind, days_left=0.0)
    # For how many days what is not consumed yet stays readable; whoever ran VACUUM may have left less.
    kept = tables.compute_retention(state.properties)
    days = None if kept is None or seconds is None else max(0.0, round((kept - seconds) / 86400, 2))
    try:
        told = (tables.actions(state.uri, version) for version in range(consumed + 1, state.version + 1))
        days = 0.0 if any(each is None or not _has_files(state.uri, each) for each in told) else days
    except EnrichError:
        days = None
    return replace(known, seconds=seconds, lag_seconds=behind, days_left=days)


def find_way_on(job: Job) -> hints.RunOptions:
    """Return how a job goes on whose source has forgotten changes; a history refuses a full refresh."""
    return hints.RunOptions(allow_gap=True) if job.remembers else hints.FULL_REFRESH


# --- from which version on the change feed of a table is whole: read off its log, and asked of the storage ------------

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


def _can_open(uri: str, version: int) -> bool:
    return tables.state_at(uri, version) is not None and tables.find_damage(uri, version) is None


def find_feed_start(
    table: TableState, stop: int = 0, *, readable: bool = True, used: Collection[str] | None = None
) -> int:
    """Return the first version, not before ``stop``, from which on the feed up to ``table``'s version is whole.

    A commit leads back to the one before it when the log holds it, the table recorded its changes, all columns, or
    those ``used``, kept their values, and the files in which it tells what it changed are still there.
    Rows and time of the version must be there too; those of ``stop`` itself only if it shall be ``readable``.
    """
    uri, version = table.uri, table.version
    missing: set[str] = set()
    whole = [version]
    while table.has_change_feed and version > stop:
        found = tables.actions(uri, version)
        if found is None:
            break
        gone = {path for path in list_files(found, "remove") if not _exist(uri, [path])}
        before = (missing - set(list_files(found, "add"))) | gone
        has_schema = any("metaData" in each for each in found)
        if has_schema and not tables.keeps_columns(uri, version, used):
            break
        # Where Delta's feed would say null, or ends, the snapshots at both sides are compared.
        if has_schema and tables.list_apart(uri, tables.read_range(uri, (version - 1, version))):
            if missing or before or not (_can_open(uri, version - 1) and _can_open(uri, version)):
                break
        elif not _has_files(uri, found):
            break
        missing = before
        version -= 1
        if not missing:
            whole.append(version)
    if version == stop and not readable:
        return version
    has_rows = (each for each in sorted(whole) if _can_open(uri, each))
    return next((each for each in has_rows if tables.actions(uri, each) is not None), table.version)


def _has_files(uri: str, found: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the files are there in which a commit tells what it changed."""
    recorded = list(list_files(found, "cdc"))
    changing = [{kind: file} for kind, file in tables.list_changed(found)]
    return _exist(uri, recorded or [*list_files(changing, "add"), *list_files(changing, "remove")])


def list_files(found: Iterable[Mapping[str, Any]], kind: str) -> Iterator[str]:
    """Yield the files of the actions of one kind, deletion vectors too."""
    for each in found:
        if kind in each:
            yield unquote(each[kind]["path"])
            vector = each[kind].get("deletionVector") or {}
            if vector.get("storageType") == "u":  # an optional prefix, and a UUID in Z85
                prefix, letters = vector["pathOrInlineDv"][:-20], vector["pathOrInlineDv"][-20:]
                name = f"deletion_vector_{uuid.UUID(bytes=base64.b85decode(letters.translate(_TO_B85)))}.bin"
                yield f"{prefix}/{name}" if prefix else name
            elif vector.get("storageType") == "p":  # a whole path, as clones have it
                yield unquote(vector["pathOrInlineDv"])


def _exist(uri: str, paths: Iterable[str]) -> bool:
    """Return whether files are there; those outside of the table's directory are taken to be."""
    inside = [path for path in paths if not urlparse(path).scheme and not path.startswith("/")]
    local = find_local_path(uri)
    if local is not None or not inside:
        return local is None or all((local / path).exists() for path in inside)
    try:
        return all(int(each.type) != 0 for each in open_files(uri).get_file_info(inside))
    except Exception as error:
        raise RunFailed(f"cannot read the files of {uri} ({type(error).__name__})", hint="check the storage") from error
