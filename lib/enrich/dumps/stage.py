"""Stage the files of a dump as one Parquet file with typed rows, and tell what is wrong with the lines.

====  ======================  ====================  =======================================
line  ``id;amount;note``      staged                fault
====  ======================  ====================  =======================================
2     ``a;1;x``               a, 1, x               -
3     ``b;x;y``               b, null, y, bad       amount is no bigint
4     ``;3;z``                -                     null in the key
5     ``d;4``                 d, null, null, bad    wrong number of fields
6     ``e;5;x;y``             -                     wrong number of fields: is the key ``e;5``?
====  ======================  ====================  =======================================

A bad row is staged for its key: it is not to be deleted because its line is left out.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import Blocked, ConfigError, show_text
from enrich.dumps import delimited
from enrich.dumps.convert import convert_column, convert_values, find_lost, is_whole
from enrich.dumps.delimited import DELIMITERS
from enrich.dumps.files import CSV, JSON, PARQUET, DumpFile, open_bytes, open_lines
from enrich.dumps.layout import (
    Known,
    Named,
    choose_columns,
    find_name,
    find_twice,
    is_text,
    name_columns,
    place_columns,
    spell_fields,
)
from enrich.dumps.reading import ROWS, Batch, Marks, Reading, gather
from enrich.dumps.result import NULL_KEY, REPEATED, SYNTAX, UNKNOWN, Dialect

log = logging.getLogger("enrich")

FILE, LINE, BAD = "__enrich_file", "__enrich_line", "__enrich_bad"
"""What is staged beside the columns: which file, which line, and whether the line is left out."""

_FEW = 1_000_000
_SAMPLE = 10_000  # lines of JSON in which the names of a new table's columns are looked for
_PAUSE = 5.0  # seconds between two lines of progress


@dataclass(frozen=True)
class DumpSpec:
    """How a dump is to be read."""

    files: Sequence[DumpFile]
    form: str
    key: Sequence[str]  # the columns of the key, in the dump's spelling or the table's
    encoding: str
    # How CSV is written; without a delimiter, it is the first usual one with which the first line has the expected
    # columns.
    dialect: Dialect = field(default_factory=Dialect)
    columns: Sequence[str] | None = None  # the names of the columns; None: as the header, the objects or the file say
    # Whether each CSV file begins with the names of the columns, or with others than ``columns``; None: it does, but
    # nobody has said so.
    header: bool | None = None
    marks: Marks = field(default_factory=Marks)
    known: Known = field(default_factory=Known)
    complete: bool = False  # whether rows that the dump lacks are deleted; an empty file would lack them all


@dataclass(frozen=True)
class Staged:
    """A dump that has been read."""

    path: Path  # the Parquet file: the columns, ``FILE``, ``LINE``, ``BAD``
    schema: pa.Schema
    key: tuple[str, ...]
    reading: Reading
    names: tuple[str, ...]  # the names of the files, by their numbers in ``FILE``


def stage_dump(spec: DumpSpec, directory: Path, check: Callable[[], None] = lambda: None) -> Staged:
    """Read a dump in bounded memory, check every line, and stage its rows.

    Args:
        spec: The dump.
        directory: Where to stage.
        check: Called between two batches; it may raise to end the work.

    Raises:
        ConfigError: The dump's columns are not what the options and the table say, its bytes are of another
            encoding, or one file of a complete dump is empty.
        Blocked: A file is damaged or cut off.
    """
    from pyarrow import parquet

    for file in spec.files:
        # An export that was cut off leaves a file of no bytes, and its rows would go. A Parquet file always has some.
        if spec.complete and spec.form != PARQUET:
            with open_bytes(file) as content:
                is_empty = not content.read(1)
            if is_empty:
                raise _describe_empty(spec, file)
    spec, named = _find_columns(spec)
    schema = choose_columns(named, spec.known)
    texts = [at for at, each in enumerate(schema) if each.name in spec.known.partitions and is_text(each.type)]
    reading = Reading(schema, place_columns(schema.names, spec.key, "the dump"), texts, marks=spec.marks)
    for part in map(schema.field, reading.key):
        if pa.types.is_nested(part.type):
            raise ConfigError(f"column {part.name!r} cannot be in the key: it is an array, a map or a struct")
    path = directory / "rows.parquet"
    beside = [pa.field(FILE, pa.int32()), pa.field(LINE, pa.int64()), pa.field(BAD, pa.bool_())]
    told = time.monotonic()
    with parquet.ParquetWriter(path, pa.schema([*schema, *beside]), compression="zstd") as writer:
        for number, file in enumerate(spec.files):
            with closing(_read_file(spec, file, named, reading)) as batches:
                for batch in batches:
                    writer.write_batch(_check_batch(batch, (number, file.name), reading, writer.schema))
                    check()
                    if time.monotonic() - told > _PAUSE:
                        log.info("%s lines read, now in %s", f"{reading.rows:,}", file.name)
                        told = time.monotonic()
    log.info("%s lines read", f"{reading.rows:,}")
    key = tuple(schema.names[at] for at in reading.key)
    return Staged(path, schema, key, reading, tuple(each.name for each in spec.files))


def find_repeated(staged: Staged) -> None:
    """Count the lines whose key stands twice among the good ones, where they are few enough for the memory at hand.

    Says early what is wrong beside other faults; of a dump without other faults, Spark finds them all.
    """
    from pyarrow import parquet

    if staged.reading.rows > _FEW:
        return
    found = parquet.read_table(staged.path, columns=[*staged.key, FILE, LINE, BAD])
    for at, part in enumerate(map(found.schema.field, staged.key)):
        if pa.types.is_floating(part.type):  # -0.0 becomes 0.0, which is the same key
            found = found.set_column(at, part.name, pc.add(found[part.name], 0.0))
    good = found.filter(pc.invert(found[BAD]))
    counts = good.group_by(list(staged.key)).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1)).drop_columns(["count_all"])
    if not len(twice):
        return
    lines = good.join(twice, keys=list(staged.key), join_type="left semi").sort_by(
        [(FILE, "ascending"), (LINE, "ascending")]
    )
    for number, name in enumerate(staged.names):
        own = lines.filter(pc.equal(lines[FILE], number))
        if len(own):
            staged.reading.faults.add(REPEATED, name, own[LINE].to_pylist())


def _find_columns(spec: DumpSpec) -> tuple[DumpSpec, Named]:
    """Return the dump's columns as it calls them, with the types that its files know, and how it is delimited."""
    if spec.form == PARQUET:
        schema = read_parquet_schema(spec.files[0])
        names = [schema.names[at] for at in place_columns(schema.names, spec.columns or schema.names, "the dump")]
        return spec, Named(pa.schema([schema.field(name) for name in names]))
    names = list(spec.columns or [])
    if spec.form == JSON:
        names = names or spec.known.names() or find_json_fields(spec.files[0], spec.encoding)
        if not names:
            raise ConfigError(f"{spec.files[0].name}: the first lines have no JSON object", hint="check --format")
    elif spec.header is False:
        spec = _choose_delimiter(spec, lambda found: len(found) == len(names))
    else:  # the first header among the files, and the delimiter under which it fits
        key = {name.lower() for name in spec.key}
        spec = _choose_delimiter(
            spec, lambda found: len(found) == len(names) if names else key <= {name.lower() for name in found}
        )
        for file in spec.files:
            if found := delimited.read_header(file, spec.encoding, spec.dialect):
                if spec.columns:
                    return spec, _rename(found, spec.columns, file.name, is_header=spec.header is True)
                return spec, _check_header(found, spec, file.name)
        raise _describe_empty(spec, spec.files[0])
    return spec, name_columns(names)


def _describe_empty(spec: DumpSpec, file: DumpFile) -> ConfigError:
    lacking = ": it has not even a header" if spec.form == CSV and spec.header is not False else ""
    return ConfigError(f"{file.name} is empty{lacking}", hint="make the dump again; it may be cut off")


def _choose_delimiter(spec: DumpSpec, fits: Callable[[list[str]], bool]) -> DumpSpec:
    """Choose the given delimiter, else the one that a first line names, else the first usual one that fits it."""
    if spec.dialect.delimiter:
        return spec
    tried = [replace(spec.dialect, delimiter=each) for each in DELIMITERS]
    for file in spec.files:
        with open_lines(file, spec.encoding) as lines:
            named = delimited.SEPARATOR.fullmatch(next(lines, "").rstrip("\r\n"))
        if named is not None:
            return replace(spec, dialect=replace(spec.dialect, delimiter=named[1]))
        fitting: dict[bool, Dialect] = {}
        for each in tried:
            try:
                with delimited.open_records(file, spec.encoding, each, delimited.LONGEST_TRIED) as records:
                    found = records.read_header(file.name)
            except (ConfigError, Blocked):
                continue  # quotes that are wrong with this delimiter; a wrong encoding is told when the file is read
            if found is not None and fits(found):
                fitting.setdefault(records.has_late_quote(), each)
        if fitting:  # of `user_1;"Doe, John"`, the comma makes two fields as well, and of one a quote is torn off
            return replace(spec, dialect=fitting[min(fitting)])
    return replace(spec, dialect=tried[0])


def _read_file(spec: DumpSpec, file: DumpFile, named: Named, reading: Reading) -> Generator[Batch]:
    """Return the rows of one file; its own header may have the same columns in another order."""
    names = named.names
    if spec.form == JSON:
        for each in gather(_read_objects(file, spec.encoding, names, reading)):
            found = [
                convert_values([row.get(name) for row in each.rows], field_.type)
                for name, field_ in zip(names, reading.schema, strict=True)
            ]
            wrong = [pa.array(marks, pa.bool_()) for _, marks in found]
            yield Batch([column for column, _ in found], wrong, each.lines, each.bad)
        return
    if spec.form == PARQUET:
        there = read_parquet_schema(file).names
        if spec.columns is None and len(there) != len(names):
            raise ConfigError(
                f"{file.name} has {len(there)} columns, {spec.files[0].name} {len(names)}",
                hint="load files with the same columns together",
            )
        own = [there[at] for at in place_columns(there, names, file.name)]
        yield from read_parquet(file, own, reading)
        return
    order: Sequence[int] = range(len(names))
    with delimited.open_records(file, spec.encoding, spec.dialect) as records:
        if spec.header is not False:
            header = records.read_header(file.name)
            if header is None and spec.complete:
                raise _describe_empty(spec, file)
            if header is None:
                return  # an empty file among others: nothing is deleted for it
            order = _place(header, named, file.name)
        yield from delimited.read_batches(file, records, order, reading)


def _check_batch(batch: Batch, source: tuple[int, str], reading: Reading, schema: pa.Schema) -> pa.RecordBatch:
    """Count the faults of some rows, and return those that are to be staged."""
    number, name = source
    lines, bad = pa.array(batch.lines, pa.int64()), pa.array(batch.bad, pa.bool_())
    for field_, wrong in zip(reading.schema, batch.wrong, strict=True):
        told = pc.and_not(wrong, bad)
        if pc.any(told).as_py():
            cause = f"column {field_.name!r} is not of type {name_type(field_.type)}"
            reading.faults.add(cause, name, lines.filter(told).to_pylist())
    columns = list(batch.columns)
    for at in reading.partitions:
        columns[at] = pc.if_else(pc.equal(pc.binary_length(columns[at]), 0), None, columns[at])
    lost = reduce(pc.or_, [batch.wrong[at] for at in reading.key])
    nulls = pc.and_not(reduce(pc.or_, [columns[at].is_null() for at in reading.key]), lost)
    if pc.any(nulls).as_py():
        reading.faults.add(NULL_KEY, name, lines.filter(nulls).to_pylist())
    bad = reduce(pc.or_, [bad, nulls, *batch.wrong])
    reading.rows += len(lines)
    reading.faults.lines += pc.sum(bad).as_py() or 0
    reading.keyless += pc.sum(lost).as_py() or 0
    files = pa.repeat(pa.scalar(number, pa.int32()), len(lines))
    found = pa.RecordBatch.from_arrays([*columns, files, lines, bad], schema=schema)
    return found.filter(pc.invert(pc.or_(lost, nulls)))


def name_type(kind: pa.DataType) -> str:
    """Return a type as ``--types`` writes it."""
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "timestamp_ntz"
    names = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "date32[day]": "date"}
    text = str(kind)
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return {**names, "bool": "boolean"}.get(text, text)


# --- JSON with one object a line, and Parquet, in batches ------------------------------------------------------------


def find_json_fields(file: DumpFile, encoding: str) -> list[str]:
    """Return the names of the fields in a file's first lines, in the order and spelling in which they come up."""
    found: dict[str, str] = {}
    with open_lines(file, encoding) as lines:
        for number, line in enumerate(lines):
            if number == _SAMPLE:
                break
            for name in filter(is_whole, _parse(line) or {}):
                found.setdefault(name.lower(), name)
    return list(found.values())


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; a ValueError where a name stands twice, for nobody knows which value is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _parse(line: str) -> dict[str, Any] | None:
    """Return an object, its numbers as they stand in the line; None for anything else."""
    try:
        found = json.loads(line, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_build_object)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _read_objects(
    file: DumpFile, encoding: str, names: Sequence[str], reading: Reading
) -> Iterator[tuple[dict[str, Any], int, bool, int]]:
    known, lower, key = set(names), {name.lower(): name for name in names}, {names[at].lower() for at in reading.key}
    with open_lines(file, encoding) as found:
        for number, line in enumerate(found, 1):
            if not line.strip():
                continue
            each = _parse(line)
            if each is None:
                reading.refuse(SYNTAX, file.name, number)
                continue
            further: set[str] = set()
            if not each.keys() <= known:
                each = spell_fields(each, lower)
                further = each.keys() - known
            if not key.isdisjoint(name.lower() for name in further):  # which of the two is the key?
                reading.refuse(UNKNOWN, file.name, number)
                continue
            if further:
                reading.faults.add(UNKNOWN, file.name, [number])
            yield each, number, bool(further), len(line)


def read_parquet_schema(file: DumpFile) -> pa.Schema:
    """Return the columns of a Parquet file; one that is none, or cut off, is Blocked."""
    from pyarrow import parquet

    try:
        return parquet.read_schema(file.path)
    except (pa.ArrowInvalid, OSError) as error:
        raise _describe_unread(file, error) from None


def read_parquet(file: DumpFile, names: Sequence[str], reading: Reading) -> Iterator[Batch]:
    """Return the rows of a Parquet file; lines are the numbers of its rows."""
    from pyarrow import parquet

    try:
        # Spark and Hive write INT96, in which nanoseconds would reach from 1677 to 2262 only.
        with parquet.ParquetFile(file.path, coerce_int96_timestamp_unit="us") as found:
            first = 1
            for each in found.iter_batches(ROWS, columns=list(names)):
                before = [each.column(name) for name in names]
                columns = [convert_column(old, field.type) for old, field in zip(before, reading.schema, strict=True)]
                wrong = [find_lost(old, new) for old, new in zip(before, columns, strict=True)]
                yield Batch(columns, wrong, list(range(first, first + len(each))), [False] * len(each))
                first += len(each)
    except (pa.ArrowInvalid, OSError) as error:
        raise _describe_unread(file, error) from None


def _describe_unread(file: DumpFile, error: Exception) -> Blocked | ConfigError:
    if isinstance(error, PermissionError):
        return ConfigError(f"{file.name} cannot be read: {error.strerror}", hint="check its permissions")
    return Blocked(
        f"{file.name} is not a whole Parquet file; nothing was written", hint="check --format, or make the dump again"
    )


# --- The first line of a delimited file: the names of the columns, or a person. What nobody has typed is never told ---

HELP = (
    "if that line is a row already, give --no-header and --columns; to give the columns other names than it has,"
    " give --columns and --header"
)
_NAME = re.compile(r"[^\W\d][^@\s]*")
_WORDS = frozenset({"true", "false", "yes", "no", "null", "none", "nan", "nil"})
_DIGITS = 8
_LONGEST = 100


def _check_header(found: Sequence[str], spec: DumpSpec, file: str) -> Named:
    """Return the columns that a first line names; messages have only names that the user or the table has given.

    A field without a name, one name twice, a key that is not there, and a field of a new table that does not look
    like a name are a ConfigError.
    """
    table = spec.known.table
    given = (*spec.key, *spec.known.types.names, *([] if table is None else table.names))
    told = {name.lower() for name in given}
    hidden = frozenset(at for at, name in enumerate(found) if name.lower() not in told)
    line = f"the first line of {file}"
    for name in spec.key:
        if find_name(name, found) is None:
            fields = f"{len(found)} field{'s' if len(found) > 1 else ''}"
            hint = f"check --key and --delimiter; {HELP}"
            raise ConfigError(f"{line} has {fields}, and no column {show_text(name)!r}", hint=hint)
    for at, name in enumerate(found, 1):
        if not name.strip():
            raise ConfigError(f"field {at} of {line} is empty, and so the column has no name", hint=HELP)
    if twice := find_twice(found):
        first, second = (at + 1 for at in twice)
        raise ConfigError(f"fields {first} and {second} of {line} are one name (case does not count)", hint=HELP)
    if table is None and spec.header is not True:
        for at in sorted(hidden):
            text = found[at]  # rather a value than a name: an address, a number, a date, an account
            is_long = len(text) > _LONGEST or sum(each.isdigit() for each in text) > _DIGITS
            if is_long or text.lower() in _WORDS or _NAME.match(text) is None or "@" in text:
                hint = f"if it is one, give --header; {HELP}"
                raise ConfigError(f"field {at + 1} of {line} does not look like the name of a column", hint=hint)
    return name_columns(found, hidden=hidden, file=file)


def _rename(found: Sequence[str], columns: Sequence[str], file: str, *, is_header: bool) -> Named:
    """Return the columns under the names that the user gives in place of those in the first line.

    ``ConfigError``: their number differs, they are the line's in another order, or nobody has said what it is.
    """
    line = f"the first line of {file}"
    if len(found) != len(columns):
        hint = "name all of them in the order of the file; --delimiter says what stands between them"
        raise ConfigError(f"{line} has {len(found)} fields, and --columns names {len(columns)}", hint=hint)
    ours, theirs = ([name.lower() for name in names] for names in (columns, found))
    if ours != theirs and sorted(ours) == sorted(theirs):
        raise ConfigError(f"{line} has the names of --columns in another order", hint="leave out --columns")
    if ours != theirs and not is_header:
        raise ConfigError(
            f"--columns names the columns, but nothing says what {line} is",
            hint="give --header if it has other names for them, or --no-header if it is a row already",
        )
    return name_columns(columns, header=found, file=file)


def _place(header: Sequence[str], named: Named, file: str) -> Sequence[int]:
    """Return where each column stands in a file's records, by its own header, which has the first file's names."""
    first = named.header or named.names
    if len(header) != len(first):
        raise ConfigError(
            f"the first line of {file} has {len(header)} fields, that of {named.file} {len(first)}",
            hint="load files with the same columns together",
        )
    if [name.lower() for name in header] == [name.lower() for name in first]:
        return range(len(first))
    found = [find_name(name, header) for name in first]
    lacking = found.index(None) if None in found else None
    if lacking is not None or find_twice(header):
        what = "has other names" if lacking is None else f"does not name {named.tell(lacking)}"
        raise ConfigError(
            f"the first line of {file} {what}", hint="each file needs its own header; or give --no-header"
        )
    return [list(header).index(name) for name in found if name is not None]
