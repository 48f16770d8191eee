"""Read what a Delta table's log says: versions, identity, schema, properties, commits; with delta-rs, without a JVM."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import get_close_matches
from operator import eq
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from enrich.base import hints
from enrich.base.errors import ConfigError, HistoryError, show_text
from enrich.base.failpoints import pass_point
from enrich.base.failures import deny, describe_unreadable, is_denied
from enrich.base.schemas import NOT_NULL, Demands, build_struct, read_demands, walk_parts
from enrich.base.spec import DataType
from enrich.base.stores import find_options
from enrich.delta.stores import find_local_path, list_objects, read_commit_file

if TYPE_CHECKING:
    import pyarrow as pa
    from arro3.core import Table
    from deltalake import DeltaTable

Log: TypeAlias = "DeltaTable"  # a table's log, opened at a version
CHANGE_FEED = "delta.enableChangeDataFeed"
VECTORS = "delta.enableDeletionVectors"
_MAPPING = "delta.columnMapping.mode"
RECENT = 20  # commits that are looked at first
HEAD = 65536
_AT_ONCE = 32
_ACTIONS = frozenset(
    {"add", "remove", "cdc", "metaData", "protocol", "commitInfo", "txn"}
    | {"domainMetadata", "checkpointMetadata", "sidecar"}
)
_VECTOR, _VECTORS = "deletionVector", frozenset({"u", "i", "p"})
"""The actions of a commit and the kinds of deletion vectors that Delta's protocol has; others may mean anything."""
_MARKS = ("_delta_log", "_delta_log/_staged_commits")
_LOG_FILE = re.compile(r"([0-9]{20})\.(?:(json)|checkpoint\.(?:([0-9]{10})\.([0-9]{10})\.)?[^/]*)")
"""A commit or a checkpoint, whole or a part of several; files that hold several commits have two numbers."""
_PART_FILE = re.compile(r"\.?part-[0-9]+-.*\.parquet(\.crc)?$")


@dataclass(frozen=True)
class TableState:
    """One table at one version, as its log says."""

    uri: str
    table_id: str  # Delta's ``metaData.id``; another id is another table
    version: int
    columns: dict[str, DataType]  # name -> Delta type, in the table's order
    properties: dict[str, str]
    commit: str | None  # what tells the version's commit from any other that could stand in its place
    # Column -> path -> name in the files, where that is another; another one then means other values.
    layout: dict[str, dict[str, str]]
    # Column -> the types with a CHAR in them that it was declared with; others mean that Spark reads other values,
    # without any change of data.
    chars: dict[str, list[str]]
    demands: Demands = field(default_factory=Demands)
    is_widened: bool = False  # whether a column has had a narrower type
    partitions: tuple[str, ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict)  # of columns, by name, and of the table, by no name

    @property
    def has_change_feed(self) -> bool:
        """True when commits from here on record their changes."""
        return self.properties.get(CHANGE_FEED, "false").lower() == "true"


def has_mapping(table: TableState | None) -> bool:
    """Tell whether a table is there and has column mapping, with which a field may have any name."""
    return table is not None and table.properties.get(_MAPPING, "none") != "none"


def open_log(uri: str) -> DeltaTable:
    """Open a table's log at its latest version; ``ConfigError`` where there is no Delta table."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        pass_point("log.before")
        log = DeltaTable(uri, storage_options=find_options(uri))
        pass_point("log.after")
    except TableNotFoundError as error:
        if is_denied(error):
            raise deny(uri) from error
        if is_occupied(uri):
            raise ConfigError(f"{uri} is not a Delta table", hint="convert it with CONVERT TO DELTA first") from None
        hint, local = "create it, or correct the table's name", find_local_path(uri)
        beside = [] if local is None else [each.parent.name for each in local.parent.glob("*/_delta_log")]
        if local is not None and not local.parent.is_dir():
            hint = f"its directory {local.parent} is not there either: see 'lake' in conf/; {hint}"
        elif local is not None and (near := get_close_matches(local.name, beside, 1, cutoff=0.8)):
            hint = f"did you mean {near[0]!r}?"
        raise ConfigError(f"there is no table at {uri}", hint=hint) from None
    except Exception as error:
        raise describe_unreadable(uri, error) from error
    return log


def is_occupied(uri: str) -> bool:
    """Return whether a place without a Delta table holds something else: a file, or a directory with content."""
    local = find_local_path(uri)
    if local is not None and not local.is_dir():
        return local.exists()
    return any(list_objects(uri) if local is None else local.iterdir()) and not has_remains(uri)


def has_remains(uri: str) -> bool:
    """Return whether a place holds only what a creation leaves that ended before its commit: files without a log."""
    local = find_local_path(uri)
    if local is None:  # Delta leaves a mark with the name of a directory
        names = list_objects(uri)
        return _MARKS[0] in names and all(name in _MARKS or _PART_FILE.match(name) for name in names)
    if not (local / "_delta_log").is_dir():
        return False
    if any(each.is_file() and ".tmp" not in each.suffixes[-2:] for each in (local / "_delta_log").rglob("*")):
        return False
    return all(each.name == "_delta_log" or _PART_FILE.match(each.name) for each in local.iterdir())


def exists(uri: str) -> bool:
    """Return whether a Delta table is at ``uri``."""
    from deltalake import DeltaTable

    local = find_local_path(uri)
    if local is not None and not (local / "_delta_log").is_dir():
        return False
    return bool(DeltaTable.is_deltatable(uri, storage_options=find_options(uri)))


def count_labelled_rows(uri: str, column: str) -> list[tuple[tuple[str, ...], int]]:
    """Return which texts rows have in an ``array<string>``, and how many rows have these; one empty text for none."""
    texts = f"array_to_string({quote_name(column)}, chr(31))"
    statement = f"SELECT {texts} AS texts, count(*) AS count FROM this GROUP BY 1"  # noqa: S608
    rows = query_rows(statement, this=open_log(uri))
    return [(tuple((row["texts"] or "").split("\x1f")), row["count"]) for row in rows]


def query_rows(statement: str, **logs: DeltaTable) -> list[dict[str, Any]]:
    """Return the rows of a statement over tables, by the names that it has for them."""
    return list(query(statement, **logs).to_struct_array().to_pylist())


def query(statement: str, **logs: DeltaTable) -> Table:
    """Return the same as ``query_rows``, in Arrow."""
    from deltalake import QueryBuilder

    builder = QueryBuilder()
    for name, log in logs.items():
        builder = builder.register(name, log)
    return builder.execute(statement).read_all()


def quote_name(column: str) -> str:
    """Quote a column as DataFusion wants it."""
    return '"' + column.replace('"', '""') + '"'


def suggest_properties(uri: str, properties: Mapping[str, str]) -> str:
    """Return the statement that sets properties of a table, for people to run."""
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    return f"ALTER TABLE delta.`{uri.rstrip('/')}` SET TBLPROPERTIES ({listed})"


def read_open_state(log: DeltaTable) -> TableState:
    """Read identity, version, schema and properties from an open log."""
    metadata, fields = log.metadata(), json.loads(log.schema().to_json())["fields"]
    uri, version, properties = _locate(log), log.version(), dict(metadata.configuration)
    layout, chars, comments, is_widened = {}, {}, {}, False
    for column in fields:
        if "comment" in (noted := column.get("metadata") or {}):
            comments[column["name"]] = noted["comment"]
        inside = [(at, each["name"], each.get("metadata") or {}) for at, each in walk_parts(column) if "name" in each]
        is_widened |= any("delta.typeChanges" in told for _, _, told in inside)
        physical = [(path, name, told.get(_PHYSICAL, name)) for path, name, told in inside]
        layout[column["name"]] = {path: there for path, name, there in physical if there != name}
        declared = [told[DECLARED] for _, _, told in inside if _CHAR.search(told.get(DECLARED, ""))]
        if declared:
            chars[column["name"]] = declared
    return TableState(
        uri,
        str(metadata.id),
        version,
        columns={each["name"]: _type_of(each) for each in fields},
        properties=properties,
        commit=fingerprint(uri, version),
        layout=layout,
        chars=chars,
        demands=read_demands(fields, properties),
        is_widened=is_widened,
        partitions=tuple(metadata.partition_columns),
        comments=comments | ({"": metadata.description} if metadata.description else {}),
    )


def _locate(log: DeltaTable) -> str:
    """Return where a table is, as Spark wants it: delta-rs escapes blanks and letters such as an umlaut."""
    return unquote(log.table_uri).removeprefix("file://")


def _type_of(field: Mapping[str, Any]) -> DataType:
    """Return a type with its collations, which Delta keeps beside it: ``string collate UTF8_LCASE``."""
    known = (field.get("metadata") or {}).get("__COLLATIONS", {})

    def typed(kind: Any, path: str) -> Any:
        if isinstance(kind, str):  # a collation is written with its provider: icu.UNICODE_CI
            return f"{kind} collate {known[path].split('.')[1]}" if path in known else kind
        if kind["type"] == "struct":
            return {**kind, "fields": [{**each, "type": _type_of(each)} for each in kind["fields"]]}
        parts = {"elementType": "element", "keyType": "key", "valueType": "value"}
        found = {part: typed(kind[part], f"{path}.{name}") for part, name in parts.items() if part in kind}
        return {**kind, **found}

    kind: DataType = typed(field["type"], field["name"])
    return kind


def read_state(uri: str) -> TableState:
    """Read a table's state at its latest version; errors as ``open_log``."""
    return read_open_state(open_log(uri))


def state_at(uri: str, version: int) -> TableState | None:
    """Read a table's state at a version; None when the log does not reach back so far."""
    from deltalake.exceptions import DeltaError

    log = open_log(uri)
    try:
        if log.version() != version:
            log.load_as_version(version)
    except DeltaError:
        return None
    return read_open_state(log)


def read_metadata(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a writer has put into a commit, as ``userMetadata``; empty where that is no JSON object."""
    try:
        found = json.loads(entry.get("userMetadata") or "null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_history(log: DeltaTable, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the commits up to the version of ``log`` that the table still holds, latest first; at most ``limit``."""
    # delta-rs numbers commits by counting down, over those that are missing, that say nothing of themselves or are new.
    uri, latest = _locate(log), log.version()
    end = -1 if limit is None else max(-1, latest - limit)
    entries: list[dict[str, Any]] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # an object store answers each of them late
        for start in range(latest, end, -_AT_ONCE):
            versions = range(start, max(end, start - _AT_ONCE), -1)
            told = pool.map(lambda each: actions(uri, each, "commitInfo"), versions)
            for version, found in zip(versions, told, strict=True):
                if found is None:
                    return entries
                entries.append({**next((each["commitInfo"] for each in found), {}), "version": version})
    return entries


def actions(uri: str, version: int, *kinds: str) -> list[dict[str, Any]] | None:
    """Return the actions of a commit, those of ``kinds`` if there are any; None when the log does not hold it.

    A file without any action, or with something else in it, holds no commit: incomplete copies leave such files.

    Raises:
        HistoryError: The commit has an action, or a kind of deletion vectors, that is not known.
    """
    text = read_commit_file(uri, version)
    wanted, count = [], 0
    try:
        for line in (text or b"").splitlines():
            if not line.strip():
                continue
            found = json.loads(line)
            _require_known(uri, version, found)
            count += 1
            if not kinds or any(kind in found for kind in kinds):
                wanted.append(found)
    except (ValueError, AttributeError):  # no JSON, no objects
        return None
    return wanted if count else None


def list_changed(found: Iterable[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the files that actions ``add`` or ``remove`` with a change of data, each behind this word."""
    both = [(kind, each.get(kind) or {}) for each in found for kind in ("add", "remove")]
    return [(kind, file) for kind, file in both if file.get("dataChange")]


def _require_known(uri: str, version: int, action: Mapping[str, Any]) -> None:
    for name, told in action.items():
        vector = (told.get(_VECTOR) or {}) if name in _ACTIONS and told else {}
        kind = vector.get("storageType", "u")
        if name not in _ACTIONS or kind not in _VECTORS:  # to pass over it may mean to pass over changes
            what = f"deletion vectors of a kind {kind!r}" if name in _ACTIONS else f"an action {name!r}"
            raise HistoryError(
                f"version {version} of {uri} has {show_text(what)}, which this release of enrich does not know",
                hint=f"install a release that knows it; `{hints.doctor()}` shows the versions that are used now",
            )


def list_log(uri: str) -> tuple[set[int], list[int]]:
    """Return the versions of which a log has commits, and those of which it has whole checkpoints."""
    local = find_local_path(uri)
    if local is not None:
        names = [each.name for each in (local / "_delta_log").iterdir()]
    else:  # a URI of delta-rs ends with a slash, and it opens none that has two of them: so the folder stands beside it
        names = [path.rpartition("/")[2] for path in list_objects(uri, "_delta_log")]
    found = [match for match in map(_LOG_FILE.fullmatch, names) if match is not None]
    commits = {int(match[1]) for match in found if match[2]}
    parts = Counter((match[1], match[4]) for match in found if match[4])
    whole = {int(match[1]) for match in found if not match[2] and not match[4]}
    whole |= {int(version) for (version, count), there in parts.items() if there == int(count)}
    return commits, sorted(whole)


def fingerprint(uri: str, version: int) -> str | None:
    """Return a hash of a commit's head, which says who made it and when; None when the log does not hold it."""
    text = read_commit_file(uri, version, HEAD)
    return None if text is None else hashlib.sha256(text).hexdigest()[:16]


def changes_values(uri: str, version: int, columns: Sequence[str], *, types: bool = False) -> bool:
    """Return whether a commit changed the values in some columns, whatever it calls itself, or their ``types``."""
    found = actions(uri, version)
    if found is None:
        return True
    if any(each[kind].get("dataChange", True) for each in found for kind in ("add", "remove") if kind in each):
        return True
    if not any("metaData" in each for each in found):
        return False
    before, after = state_at(uri, version - 1), state_at(uri, version)
    if before is None or after is None:
        return True
    # A column that is renamed or dropped takes its values with it, and no file comes or goes.
    ours = {name.lower() for name in columns}
    return any(
        after.layout.get(name) != there or (types and not keeps_values(before.columns[name], after.columns[name]))
        for name, there in before.layout.items()
        if name.lower() in ours
    )


def read_commits(log: DeltaTable) -> dict[int, int]:
    """Return version -> milliseconds since 1970, ascending, of the commits that a log still holds."""
    properties = log.metadata().configuration
    own = str(properties.get("delta.enableInCommitTimestamps", "false")).lower() == "true"
    since = int(properties.get("delta.inCommitTimestampEnablementVersion") or 0)
    times: dict[int, int] = {}
    last: int | None = None
    for entry in reversed(read_history(log)):
        version, at = int(entry["version"]), entry.get("inCommitTimestamp")
        if not own or version < since or at is None:
            at = entry.get("timestamp") or 0
        # As in Delta, a commit that seems no later than the one before it counts a millisecond later: clocks differ.
        last = times[version] = int(at) if last is None else max(int(at), last + 1)
    return times


# The names (column mapping) suffice, ids need no comparison: Delta gives a column that is dropped and added again a new
# physical name. A CHAR(5) is a string in the log; Spark fills its values with blanks when it reads them.
_PHYSICAL = "delta.columnMapping.physicalName"
DECLARED = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark keeps what a column of texts was declared as
_CHAR = re.compile(r"(?i)\bchar\s*\(")


def keeps_values(before: DataType, after: DataType) -> bool:
    """Return whether a column that gets another type keeps its values; structs in it may gain fields."""
    if before == "void":  # it was always null
        return True
    if isinstance(before, str) or isinstance(after, str):
        return before == after
    if before["type"] != after["type"]:
        return False
    if before["type"] == "struct":
        there = {each["name"].lower(): each["type"] for each in after["fields"]}
        fields = [(each["type"], there.get(each["name"].lower())) for each in before["fields"]]
        return all(now is not None and keeps_values(was, now) for was, now in fields)
    parts = [part for part in ("elementType", "keyType", "valueType") if part in before]
    return all(keeps_values(before[part], after[part]) for part in parts)


KEEPS_FILES, KEEPS_LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
_KEEPS = {KEEPS_FILES: "interval 1 week", KEEPS_LOG: "interval 30 days"}  # where nobody says more
_INTERVAL = re.compile(r"(?:interval\s+)?((?:[0-9]+\s+(?:week|day|hour|minute|second)s?\s*)+)", re.IGNORECASE)
_PART = re.compile(r"([0-9]+)\s+(week|day|hour|minute|second)", re.IGNORECASE)
_SECONDS = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}


def compute_retention(properties: Mapping[str, str]) -> int | None:
    """Return for how many seconds a table's past, its files and log, stays; None if its properties are not clear."""
    files, log = (read_interval(properties, name) for name in _KEEPS)
    return None if files is None or log is None else min(files, log)


def read_interval(properties: Mapping[str, str], name: str) -> int | None:
    """Return the seconds that VACUUM has to leave removed files, or Delta its log; None where it is not clear."""
    found = _INTERVAL.fullmatch(str(properties.get(name, _KEEPS[name])).strip())
    return None if found is None else sum(int(n) * _SECONDS[unit.lower()] for n, unit in _PART.findall(found[1]))


def make_arrow_schema(columns: Mapping[str, DataType]) -> pa.Schema:
    """Return Delta columns as Arrow columns that may be null; what delta-rs raises for a type that it does not know."""
    import pyarrow as pa
    from deltalake import Schema

    return pa.schema(Schema.from_json(json.dumps(build_struct(columns))).to_arrow())


# --- what commits say of a change feed -------------------------------------------------------------------------------


class Told(NamedTuple):
    """What the commits of a range say of its feed: versions that the log lacks, and those that it does not tell."""

    lost: tuple[int, ...] = ()
    repartitioned: tuple[int, ...] = ()  # of other partitions or names, or by vectors that Delta no longer reads
    redefined: tuple[int, ...] = ()  # those that say what columns there are
    marks: bool = False  # whether one tells by deletion vectors alone which rows have gone
    size: int = 0  # bytes of the files that it is read from, or more where some say nothing

    @property
    def is_whole(self) -> bool:
        """True when the feed tells all, as far as the log can say."""
        return not self.lost and not self.repartitioned


def read_range(uri: str, window: tuple[int, int], partitions: Sequence[str] | None = None) -> Told:
    """Read the commits after ``window[0]`` up to ``window[1]``; ``partitions``: those at its start, else the log's."""
    lost, changed, redefined, marks, before, size = [], [], [], list[tuple[str, int]](), partitions, 0
    dropped = 0  # after DROP FEATURE Delta may read files without the vectors that they had before
    for version in range(window[0] + 1, window[1] + 1):
        found = actions(uri, version, "metaData", "protocol", "add", "remove", "cdc")
        if found is None:
            lost.append(version)
        cdc = [each for each in found or () if "cdc" in each]
        marks += [(kind, version) for kind, file in list_changed(found or ()) if file.get(_VECTOR) and not cdc]
        size += sum((file or {}).get("size") or 2**30 for each in cdc or found or () for file in each.values())
        protocols = (each["protocol"] for each in found or () if "protocol" in each)
        if any("deletionVectors" not in (each.get("readerFeatures") or ()) for each in protocols):
            dropped = version
        for each in (each["metaData"] for each in found or () if "metaData" in each):
            then = state_at(uri, version - 1) if version > 0 else None
            before = before if then is None else then.partitions
            now = each.get("partitionColumns") or []
            is_mapped = (each.get("configuration") or {}).get(_MAPPING, "none") != "none"
            if version > 0 and (before is None or set(before) != set(now) or (has_mapping(then) and not is_mapped)):
                changed.append(version)
            before = now
            redefined.append(version)
    if marks and "deletionVectors" not in (open_log(uri).protocol().reader_features or ()):
        dropped = window[1] + 1
    changed += {version for _, version in marks if version < dropped}
    return Told(tuple(lost), tuple(changed), tuple(redefined), "add" in dict(marks), size)


def net_vectors(uri: str, window: tuple[int, int]) -> list[list[str]]:
    """Return the actions of each commit of a range, in which each file goes from its first vector to its last one.

    Delta reads a file once for each commit that marks rows of it as deleted, or twice. ``v`` and ``w`` are vectors:

    file  commit 5   commit 6    commit 7  read
    ----  ---------  ----------  --------  ---------------
    f     f -> f+v   f+v -> f+w  -         f -> f+w, of 6
    g     comes      g -> g+v    goes      nothing
    """
    commits: list[tuple[list[Any], dict[str, dict[str, Any]]]] = []
    last: dict[str, dict[str, Any]] = {}
    for version in range(window[0] + 1, window[1] + 1):
        told, files = actions(uri, version) or [], dict[str, dict[str, Any]]()
        moved = [] if any("cdc" in each for each in told) else list_changed(told)  # a feed tells all of its commit
        commits.append(([each for each in told if not (moved and list_changed([each]))], files))
        for kind, file in moved:
            files.setdefault(file["path"], {})[kind] = file
        for path, ends in files.items():
            before = last.get(path, {})
            if "add" in before and "remove" in ends and before["add"].get(_VECTOR) == ends["remove"].get(_VECTOR):
                del before["add"], ends["remove"]
                ends.update(before)
                before.clear()
            if len(ends) > 1 and ends["add"].get(_VECTOR) == ends["remove"].get(_VECTOR):
                ends.clear()  # a RESTORE has taken the vectors back
            last[path] = ends
    netted = [[*others, *[{kind: end[kind]} for end in files.values() for kind in end]] for others, files in commits]
    return [list(map(json.dumps, each)) for each in netted]


def keeps_columns(uri: str, version: int, used: Collection[str] | None = None) -> bool:
    """Return whether a feed across a commit tells all values of all columns, or of those ``used``.

    It was on before, too, and they have kept their values. No RESTORE has brought one back, or a field, for it lists no
    row for that; and none is NOT NULL anew, for there Spark reads 0 where files of before have no value.
    """
    before, after = state_at(uri, version - 1), state_at(uri, version)
    if before is None or after is None or before.table_id != after.table_id:
        return False
    commits = [each["commitInfo"].get("operation") for each in actions(uri, version, "commitInfo") or ()]
    keeps, names = (eq, {**before.columns, **after.columns}) if "RESTORE" in commits else (keeps_values, before.columns)
    full, was_full = ({c.path for c in each.demands.constraints if c.type == NOT_NULL} for each in (after, before))
    anew = {path[0] for path in full - was_full}
    return (before.has_change_feed and after.has_change_feed) and all(
        name in before.columns
        and name in after.columns
        and name not in anew
        and keeps(before.columns[name], after.columns[name])
        and before.chars.get(name) == after.chars.get(name)
        and before.layout[name].items() <= after.layout[name].items()
        for name in names
        if used is None or name in used
    )


def list_apart(uri: str, told: Told) -> list[int]:
    """Return the commits across which no feed reaches: other partition columns, or values that it does not tell."""
    return sorted({*told.repartitioned, *[each for each in told.redefined if not keeps_columns(uri, each)]})


def find_damage(uri: str, version: int) -> int | None:
    """Return the first commit, of those that a version is read from, whose file is empty or holds something else.

    A reader passes over an empty one in silence; a commit that is missing ends each reader with an error.
    """
    commits, checkpoints = list_log(uri)
    base = max((each for each in checkpoints if each <= version), default=-1)
    read_from = [each for each in range(base + 1, version + 1) if each in commits]
    return next((each for each in read_from if actions(uri, each, "commitInfo") is None), None)
