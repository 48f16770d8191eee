"""Model a lake: Delta tables as values, and what reads and writes them in the product's place of Delta and Spark.

A table is an immutable value: commits with all rows, the record in them, what a RESTORE names; the transaction number
that Delta remembers; how far log, feed and files are gone. One value is one object: lakes are compared by identities,
and remembered by hashes.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

from pyspark.errors import PySparkException
from pyspark.sql import types as T

from enrich.base.errors import ConfigError
from enrich.base.spec import FAILED_COLUMN, RUN_ID_COLUMN
from enrich.delta.runs import INTENT, OUTCOME, RunRow, RunsTable
from enrich.delta.tables import CHANGE_FEED, TableState

Rows = tuple[tuple[str, str], ...]  # keys, and what stands beside them; sorted; a foreign writer may double a key
LEFT, RIGHT, TARGET, BESIDE = "/lake/orders", "/lake/shops", "/lake/shown", "/lake/shown__quarantine"
COLUMNS = {
    LEFT: ("id", "shop", "amount"),
    RIGHT: ("id", "name"),
    TARGET: ("id", "amount", "name"),
    BESIDE: ("id", "amount", "name", FAILED_COLUMN, RUN_ID_COLUMN),
}


class Commit(NamedTuple):
    """One commit of a table."""

    operation: str
    rows: Rows  # of the whole table, after it
    record: str | None = None  # ``userMetadata``
    to: int | None = None  # the version that a RESTORE names
    read: int | None = None  # the version that an overwrite has read
    changes: bool = True  # whether it changes values


class Table:
    """One state of one Delta table, made by ``Table.of`` alone: of equal ones there is never more than one object.

    Its hash is that of all that it is, and stays when nobody has the object any more.
    """

    known: ClassVar[WeakValueDictionary[int, Table]] = WeakValueDictionary()
    __slots__ = ("__weakref__", "blind", "commits", "id", "kept", "mark", "names", "number", "oldest", "stamps", "told")
    id: str
    commits: tuple[Commit, ...]
    number: int | None
    oldest: int
    blind: int
    kept: int
    stamps: tuple[str, ...]  # what tells each commit, and all before it, from any other
    names: frozenset[str]  # the runs that its commits name
    told: int  # a hash of id and commits
    mark: int  # a hash of everything

    @staticmethod
    def of(id: str, *commits: Commit) -> Table:  # noqa: A002
        """Return a table that has these commits."""
        table = Table._find(hash(id), (id, (), (), frozenset()), (None, 0, 0, 0))
        for each in commits:
            table = table._add(each)
        return table

    @staticmethod
    def _find(told: int, log: tuple[Any, ...], facts: tuple[Any, ...]) -> Table:
        """Return the one object of a state, by the hash of its log: id, commits, stamps, names.

        ``facts``: the highest ``txnVersion`` that Delta remembers; the first version that the log has; up to which
        version the feed tells no changes any more; the first version with its files.
        """
        mark = hash((told, facts))
        found = Table.known.get(mark)
        if found is None:
            found = Table.known[mark] = Table()
            found.mark, found.told = mark, told
            found.id, found.commits, found.stamps, found.names = log
            found.number, found.oldest, found.blind, found.kept = facts
        return found

    def __hash__(self) -> int:
        return self.mark

    @property
    def _facts(self) -> tuple[Any, ...]:
        return (self.number, self.oldest, self.blind, self.kept)

    def _add(self, commit: Commit) -> Table:
        told = hash((self.told, commit))
        found = Table.known.get(hash((told, self._facts)))
        if found is None:
            stamp = f"{zlib.crc32(repr(commit).encode(), int(self.stamps[-1], 16) if self.stamps else 0):08x}"
            names = self.names | find_names(commit.record or "")
            log = (self.id, (*self.commits, commit), (*self.stamps, stamp), names)
            found = Table._find(told, log, self._facts)
        return found

    def but(self, **others: int | None) -> Table:
        """Return the same table with other facts."""
        facts = {"number": self.number, "oldest": self.oldest, "blind": self.blind, "kept": self.kept, **others}
        return Table._find(self.told, (self.id, self.commits, self.stamps, self.names), tuple(facts.values()))

    def put(self, *more: Any, **facts: Any) -> Table:
        """Return the table after one more commit, with its fields."""
        return self._add(Commit(*more, **facts))

    @property
    def version(self) -> int:
        """The latest version."""
        return len(self.commits) - 1

    @property
    def rows(self) -> Rows:
        """The latest rows."""
        return self.commits[-1].rows


def find_names(record: str) -> frozenset[str]:
    """Return the runs that a record names."""
    return frozenset(re.findall(r'run(?:_id)?": ?"(\w+)"', record))


@lru_cache(10_000)
def read_record(record: str) -> Any:
    """Return what a record says, which nobody changes."""
    return json.loads(record)


class Lake(NamedTuple):
    """All tables of a project, and its runs table: what it is told, as ``_select`` returns it."""

    left: Table
    right: Table
    target: Table | None = None
    beside: Table | None = None
    runs: tuple[tuple[Any, ...], ...] = ()  # event, run, number, document

    @property
    def names(self) -> set[str]:
        """All runs that anything here names."""
        found = {each[1] for each in self.runs}
        for table in (self.target, self.beside):
            found |= table.names if table is not None else set()
        return found

    def put(self, uri: str, found: Table | None) -> Lake:
        """Return the lake with another table at a place."""
        return self.but(**{PLACES[uri]: found})

    def but(self, **others: Any) -> Lake:
        """Return the lake with other tables, by the places' names."""
        return self._replace(**others)


PLACES = {LEFT: "left", RIGHT: "right", TARGET: "target", BESIDE: "beside"}


class Here:
    """Where the product works at this moment; ``pause`` is called between the steps of a commit."""

    lake: Lake
    pause: Callable[..., None] = staticmethod(lambda *_: None)
    by_position = True  # whether the sink knows the places of old rows


def find_table(uri: str) -> Table | None:
    """Return what is at a place now."""
    Here.pause("read")
    found: Table | None = getattr(Here.lake, PLACES[uri])
    return found


# --- in the place of `enrich.delta.tables` ---------------------------------------------------------------------------


class Log:
    """A log, opened at its latest version."""

    def __init__(self, uri: str, table: Table) -> None:
        self.uri, self.table = uri, table

    def version(self) -> int:
        return self.table.version

    def transaction_version(self, _: str) -> int | None:
        return self.table.number

    def metadata(self) -> SimpleNamespace:
        return SimpleNamespace(configuration={}, id=self.table.id)


def open_log(uri: str) -> Log:
    found = find_table(uri)
    if found is None:
        raise ConfigError(f"there is no table at {uri}")
    return Log(uri, found)


def exists(uri: str) -> bool:
    return find_table(uri) is not None


@cache
def _read_state(uri: str, table: Table, version: int) -> TableState:
    columns: dict[str, Any] = dict.fromkeys(COLUMNS[uri], "string")
    layout: dict[str, dict[str, str]] = {name: {} for name in columns}
    return TableState(uri, table.id, version, columns, {CHANGE_FEED: "true"}, table.stamps[version], layout, {})


def read_open_state(log: Log) -> TableState:
    return _read_state(log.uri, log.table, log.table.version)


def state_at(uri: str, version: int) -> TableState | None:
    table = open_log(uri).table
    return _read_state(uri, table, version) if table.oldest <= version <= table.version else None


@cache
def _list_entries(table: Table) -> list[dict[str, Any]]:
    entries = []
    for version in range(table.version, table.oldest - 1, -1):
        each = table.commits[version]
        entry: dict[str, Any] = {"version": version, "operation": each.operation, "userMetadata": each.record}
        if each.read is not None:
            entry |= {"readVersion": each.read, "operationParameters": {"mode": "Overwrite"}}
        if each.operation == "RESTORE":
            entry["operationParameters"] = {"version": each.to}
        entries.append(entry)
    return entries


def read_history(log: Log, limit: int | None = None) -> list[dict[str, Any]]:
    return _list_entries(log.table)[:limit]


def actions(uri: str, version: int, *kinds: str) -> list[dict[str, Any]] | None:
    table = find_table(uri)
    if table is None or not table.oldest <= version <= table.version:
        return None
    found: list[dict[str, Any]] = [{"commitInfo": {}}, {"add": {"dataChange": table.commits[version].changes}}]
    return [each for each in found if not kinds or any(kind in each for kind in kinds)]


def fingerprint(uri: str, version: int) -> str | None:
    table = find_table(uri)
    return table.stamps[version] if table is not None and table.oldest <= version <= table.version else None


# --- in the place of Spark -------------------------------------------------------------------------------------------


class Frame:
    """What stands for a DataFrame: it has ``data``, and whatever else is done to it changes nothing."""

    schema = T.StructType([T.StructField(name, T.StringType()) for name in COLUMNS[TARGET]])

    def __init__(self, data: Iterable[Any] = (), columns: Iterable[str] = COLUMNS[TARGET]) -> None:
        self.data, self.columns = tuple(data), list(columns)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self

    def createOrReplaceTempView(self, _: str) -> None:  # noqa: N802 - Spark's name
        SESSION.view = self

    @property
    def write(self) -> Writer:
        return Writer(self)

    def isEmpty(self) -> bool:  # noqa: N802 - Spark's name
        return not self.data

    def count(self) -> int:
        return len(self.data)

    def unionByName(self, other: Frame) -> Frame:  # noqa: N802 - Spark's name
        return Frame(sorted({*self.data, *other.data}))


class Writer:
    """Appends, or writes in a table's place."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.how = frame, ""

    def format(self, _: str) -> Writer:
        return self

    def option(self, *_: str) -> Writer:
        return self

    def mode(self, how: str) -> Writer:
        self.how = how
        return self

    def save(self, uri: str) -> None:
        if self.how == "append":
            commit(uri, "WRITE", lambda rows: apply_operations(rows, self.frame.data), changes=bool(self.frame.data))
        else:
            commit(uri, "WRITE", lambda _: tuple(sorted(row[-2:] for row in self.frame.data)), overwrites=True)


class Anything:
    """What stands for expressions: every operation on it gives it again."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    __and__ = __or__ = __invert__ = __call__


class Session:
    """A session: its settings, which the commits take number and record from, and CREATE TABLE."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.conf = SimpleNamespace(
            get=lambda name, default="": self.settings.get(name, default),
            set=self.settings.__setitem__,
            unset=lambda name: self.settings.pop(name, None),
        )
        self.catalog = SimpleNamespace(dropTempView=lambda _: None)
        self.view = Frame()

    @property
    def read(self) -> Frame:
        return Frame()

    def createDataFrame(self, *_: Any) -> Frame:  # noqa: N802 - Spark's name
        return Frame()

    def sql(self, statement: str) -> None:
        uri = re.match(r"CREATE TABLE `delta`\.`(.*?)` ", statement)[1]  # type: ignore[index]
        Here.pause("commit")
        if find_table(uri) is not None:
            raise PySparkException("[TABLE_OR_VIEW_ALREADY_EXISTS]")
        _create(uri, "CREATE TABLE", apply_operations((), self.view.data))
        Here.pause("committed")


SESSION = Session()


def _read_settings() -> tuple[str, int]:
    found = SESSION.settings
    name = "spark.databricks.delta."
    return found[f"{name}commitInfo.userMetadata"], int(found[f"{name}write.txnVersion"])


def _create(uri: str, operation: str, rows: Rows) -> None:
    record, number = _read_settings()
    made = Table.of(f"{uri}/{json.loads(record)['run_id']}/{number}", Commit(operation, rows, record))
    Here.lake = Here.lake.put(uri, made.but(number=number))


def commit(
    uri: str, operation: str, change: Callable[[Rows], Rows], *, changes: bool = True, overwrites: bool = False
) -> None:
    """Commit as Delta does: in one instant over the latest rows, and not at all when the number is known already."""
    Here.pause("commit")
    table, (record, number) = find_table(uri), _read_settings()
    if table is None and operation == "MERGE":
        raise PySparkException("DELTA_MISSING_DELTA_TABLE")
    if table is None:
        _create(uri, operation, change(()))
    elif table.number is None or table.number < number:
        read = table.version if overwrites else None
        found = table.put(operation, change(table.rows), record, None, read, changes).but(number=number)
        Here.lake = Here.lake.put(uri, found)
    Here.pause("committed")


def apply_operations(rows: Rows, operations: Iterable[tuple[str, str, str]], *, has_copies: bool = False) -> Rows:
    """Return rows after the clauses of a MERGE; an insert beside a ``D`` of all copies matches no row."""
    found = list(rows)
    for operation, key, value in operations:
        there = [each for each in found if each[0] == key]
        if operation == "I" and (has_copies or not there):
            found.append((key, value))
        elif operation != "I":
            found = [each for each in found if each[0] != key] + [(key, value)] * (operation == "U") * len(there)
    return tuple(sorted(found))


_texts: dict[int, tuple[str, Any]] = {}


def forget() -> None:
    """Forget what was read, so that tables go that no state has."""
    _texts.clear()
    _read_state.cache_clear()
    _list_entries.cache_clear()


class Runs(RunsTable):
    """The runs table of the lake, with the queries that the protocol asks."""

    def append(self, row: RunRow) -> None:
        if row.number is None:  # nobody asks for it
            return
        found = _texts.get(id(row.document)) if row.event == INTENT else None
        if found is None:
            found = (json.dumps(row.document, sort_keys=True), row.document)
            _texts[id(row.document)] = found  # the document stays, so that no other one gets its id
        told = (row.event, row.run_id, row.number, found[0])
        rows = (*Here.lake.runs, told)
        # Below the last number that an outcome tells, no question leads any more.
        last = max((each[2] for each in rows if each[0] == OUTCOME), default=0)
        Here.lake = Here.lake._replace(runs=tuple(each for each in rows if each[2] >= last))

    def _select(self, statement: str) -> list[dict[str, Any]]:
        Here.pause("read")
        names = ("event", "run_id", "number", "document")
        rows = [{**dict(zip(names, each, strict=True)), "target": TARGET} for each in Here.lake.runs]
        if found := re.search(r"WHERE number = (\d+)", statement):
            return [each for each in rows if each["number"] == int(found[1])]
        (event,) = re.findall(r"event = '(\w+)'", statement)
        numbers = [each["number"] for each in rows if each["event"] == event]
        return [{"target": TARGET, "number": max(numbers)}] if numbers else []
