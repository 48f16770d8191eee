"""The files of a dump are read line by line, whatever wrote them, and each bad line is named."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from enrich.base.errors import Blocked, ConfigError
from enrich.dumps import delimited, files, reading
from enrich.dumps.files import DumpFile, check_encoding, choose_format, list_files
from enrich.dumps.layout import Known, find_type
from enrich.dumps.stage import BAD, FILE, LINE, DumpSpec, Staged, find_repeated, stage_dump

Read = Callable[..., tuple[list[dict[str, Any]], Staged]]
NUMBERS = pa.schema([("id", pa.int64())])


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Stage files (name -> content) and return the rows that would be loaded, and all that was found out."""

    def stage(content: str | bytes | dict[str, bytes], *, name: str = "d.csv", **how: Any) -> tuple[Any, Staged]:
        given = content if isinstance(content, dict) else {name: content}
        found = []
        for each, text in given.items():
            path = tmp_path / each
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
            found.append(DumpFile(path, each))
        beside = {name: how.pop(name, ()) for name in ("unfit", "partitions")}
        known = Known(how.pop("table", None), how.pop("types", pa.schema([])), **beside)
        encoding = check_encoding(how.pop("encoding", "utf-8"))
        spec = DumpSpec(found, choose_format(found), how.pop("key", ["id"]), encoding, known=known, **how)
        directory = tmp_path / "staged"
        directory.mkdir(exist_ok=True)
        staged = stage_dump(spec, directory)
        rows = parquet.read_table(staged.path).to_pylist()
        return [{k: v for k, v in row.items() if k not in (FILE, LINE, BAD)} for row in rows if not row[BAD]], staged

    return stage


def _faults(staged: Staged) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {each.cause: (each.lines, each.first) for each in staged.reading.faults.list()}


def test_a_line_without_header_is_read_as_it_stands(read: Read) -> None:
    rows, _ = read('user_1;"one@example.com"', header=False, columns=["id", "email"])
    assert rows == [{"id": "user_1", "email": "one@example.com"}]


def test_a_delimiter_within_quotes_is_none(read: Read) -> None:
    how: dict[str, Any] = {"header": False, "columns": ["id", "name"]}
    assert read('u1;"Doe, John"\n', **how)[0] == [{"id": "u1", "name": "Doe, John"}]
    assert read('u1;5" x\n', **how)[0] == [{"id": "u1", "name": '5" x'}], "no delimiter fits better"


@pytest.mark.parametrize("delimiter", delimited.DELIMITERS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_excel_and_pandas_text_with_any_usual_delimiter(read: Read, delimiter: str, end: str) -> None:
    lines = ["id;note", '1;"a ""b"" c"', f'2;"x{end}y"', "3;", '"4";"d;e"']
    text = "\ufeff" + end.join(lines).replace(";", delimiter) + end
    rows, staged = read(text)
    notes = ['a "b" c', f"x{end}y", None, f"d{delimiter}e"]
    assert rows == [{"id": str(at), "note": note} for at, note in enumerate(notes, 1)]
    assert parquet.read_table(staged.path)[LINE].to_pylist() == [2, 3, 5, 6]


def test_postgres_and_mysql_nulls(read: Read) -> None:
    text = 'id,a,b\n1,,""\n2,\\N,"\\N"\n3,"","x""y"\n4,"x\n",""\n5,"",\n'
    rows, _ = read(text)
    assert [(row["a"], row["b"]) for row in rows] == [
        (None, ""), (None, r"\N"), ("", 'x"y'), ("x\n", ""), ("", None),
    ]  # fmt: skip


def test_whatever_python_writes_is_read_back(read: Read, tmp_path: Path, seed: int) -> None:
    import random

    draw = random.Random(seed)
    texts = ["", '"', '""', "a", ";", ",", "\n", "\r\n", "\\N", " ", "ä", "'", "x\ty"]
    wanted = [[str(at), *["".join(draw.choices(texts, k=draw.randint(1, 4))) for _ in "ab"]] for at in range(200)]
    path = tmp_path / "written.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([["id", "a", "b"], *wanted])
    rows, staged = read(path.read_bytes())
    assert [list(row.values()) for row in rows] == wanted
    with path.open(newline="", encoding="utf-8") as file:
        lines = file.readlines()
    numbers = parquet.read_table(staged.path)[LINE].to_pylist()
    assert all(lines[number - 1].startswith(f'"{row[0]}",') for number, row in zip(numbers, wanted, strict=True))


def test_every_bad_line_is_counted_under_its_cause(read: Read) -> None:
    text = 'id,n\n1,a,b\n2\n,x\nz,y\n4,"abc"d\n\n5,ok\n'
    rows, staged = read(text, types=NUMBERS)
    assert rows == [{"id": 5, "n": "ok"}]
    assert _faults(staged) == {
        "wrong number of fields": (2, ("d.csv:2", "d.csv:3")),
        "line that cannot be parsed": (1, ("d.csv:6",)),
        "column 'id' is not of type bigint": (1, ("d.csv:5",)),
        "null in the key": (1, ("d.csv:4",)),
    }
    assert (staged.reading.rows, staged.reading.faults.lines, staged.reading.keyless) == (6, 5, 4)


def test_line_numbers_are_right_across_batches_and_ten_are_told(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROWS", 7)
    text = "id,n\n" + "".join(f'{at},"a\nb"\n' if at % 2 else f"x{at},c\n" for at in range(40))
    _, staged = read(text, types=NUMBERS)
    (count, first) = _faults(staged)["column 'id' is not of type bigint"]
    lines = text.splitlines()
    assert (count, len(first)) == (20, 10)
    assert [lines[int(each.split(":")[1]) - 1] for each in first] == [f"x{at},c" for at in range(0, 20, 2)]
    assert "20 lines (d.csv:2, d.csv:5" in str(staged.reading.faults.list()[0])


@pytest.mark.parametrize(
    ("line", "key", "is_known"),
    [
        ("Smith,5", ["id"], True),
        ("Smith,5", ["id", "n"], False),  # n may go on in the next line
        ("Smith", ["id"], False),
        ("Smith, John,5,x", ["id"], False),
        ("a,b", ["n"], False),
        ("a,b", ["m"], False),
    ],
)
def test_the_key_of_a_bad_line_is_known_only_where_it_can_be_no_other(
    read: Read, line: str, key: list[str], is_known: bool
) -> None:
    rows, staged = read(f"id,n,m\n{line}\n", key=key)
    assert (rows, _faults(staged)) == ([], {"wrong number of fields": (1, ("d.csv:2",))})
    assert staged.reading.keyless == (not is_known)
    bad = parquet.read_table(staged.path)
    assert bad["id"].to_pylist() == (["Smith"] if is_known else [])


def test_keys_that_stand_twice_are_found_beside_other_faults(read: Read) -> None:
    _, staged = read("id,n\n1,a\n2,b\n1,c\n3,d\n3,e,f\n")
    find_repeated(staged)
    assert _faults(staged)["key that stands twice"] == (2, ("d.csv:2", "d.csv:4"))
    _, staged = read("id\n-0.0\nx\n0.0\nNaN\n1\nNaN\n", types=pa.schema([("id", pa.float32())]))
    find_repeated(staged)
    assert _faults(staged)["key that stands twice"] == (4, ("d.csv:2", "d.csv:4", "d.csv:5", "d.csv:7"))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_empty_lines_are_left_out_wherever_they_are(read: Read, end: str) -> None:
    def stage(text: str, **how: Any) -> tuple[list[tuple[Any, ...]], Any, dict[str, Any]]:
        rows, staged = read(text.replace("|", end), **how)
        numbers = parquet.read_table(staged.path)[LINE].to_pylist()
        return [tuple(row.values()) for row in rows], numbers, _faults(staged)

    assert stage("||id;n||1;a||") == ([("1", "a")], [5], {})
    assert stage("|1;a|2;b|", header=False, columns=["id", "n"]) == ([("1", "a"), ("2", "b")], [2, 3], {})
    assert stage("id|1||2||") == ([("1",), ("2",)], [2, 4], {})
    nulls = {"null in the key": (1, ("d.csv:2",))}
    assert stage("id|\\N||1|") == ([("1",)], [4], nulls)
    assert stage('id|""||1|') == ([("",), ("1",)], [2, 4], {})
    with pytest.raises(ConfigError, match="is empty"):
        stage("||")


def test_a_header_that_cannot_be_parsed_is_told_with_its_line(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"d\.csv:3: the header cannot be parsed"):
        read('\n\n"id"x,n\n')


def test_a_lone_cr_ends_no_line(read: Read) -> None:
    text = 'id,n,m\r\n1,a\rb,c\r\n2,"a\rb",c\r\n3\r4,a,b\n5,"a"\rb,c\n6,a,b\n'
    rows, staged = read(text)
    assert rows == [{"id": "2", "n": "a\rb", "m": "c"}, {"id": "6", "n": "a", "m": "b"}]
    assert _faults(staged) == {"line that cannot be parsed": (3, ("d.csv:2", "d.csv:4", "d.csv:5"))}
    assert parquet.read_table(staged.path)[LINE].to_pylist() == [3, 6]
    assert read('{"id":\r1}\n', name="d.json")[0] == [{"id": "1"}]


def test_a_file_whose_lines_end_with_cr_alone_is_refused(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"d\.csv:1: the header cannot be parsed.*not with CR alone"):
        read("id,n\r1,a\r2,b\r")
    rows, staged = read("1,a\r2,b\r", header=False, columns=["id", "n"])
    assert (rows, list(_faults(staged))) == ([], ["line that cannot be parsed"])


@pytest.mark.parametrize("text", ['id,n\n1,a\n2,"never\nclosed\n', 'id,n\n1,a\n2,"cut'])
def test_a_quote_that_is_not_closed_is_refused_where_it_begins(read: Read, text: str) -> None:
    with pytest.raises(Blocked, match=r"d\.csv:3: a quote is not closed"):
        read(text)


def test_a_line_beyond_all_measure_is_refused(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 100)
    with pytest.raises(Blocked, match=r"d\.csv:2: the line is longer"):
        read("id,n\n1," + "x" * 200)


@pytest.mark.parametrize("before", [0, 3, 5000])
def test_bytes_of_another_encoding_are_refused_with_their_line(read: Read, before: int) -> None:
    text = b"id,n\n" + b"1,a\n" * before + "2,caf\xe9\n".encode("latin-1") + b"3,b\n" * 5000
    with pytest.raises(ConfigError, match=rf"d\.csv:{before + 2}: .* not UTF-8.*--encoding"):
        read(text)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "UTF8", "utf-8-sig"])
def test_a_named_encoding_is_read(read: Read, encoding: str) -> None:
    rows, _ = read("id,n\n1,café\n".encode(encoding), encoding=encoding)
    assert rows == [{"id": "1", "n": "café"}]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_byte_order_mark_is_no_text_whatever_the_encoding_is_called(read: Read, encoding: str) -> None:
    for mark in ("\ufeff", ""):
        rows, _ = read(f"{mark}1,a\n".encode(encoding), encoding=encoding, header=False, columns=["id", "n"])
        assert rows == [{"id": "1", "n": "a"}]


@pytest.mark.parametrize("encoding", ["klingon", "rot13", "base64"])
def test_an_encoding_that_is_none_is_refused(encoding: str) -> None:
    with pytest.raises(ConfigError, match="is not known"):
        check_encoding(encoding)


def test_gzip_is_told_by_its_bytes_and_a_cut_one_is_refused(read: Read) -> None:
    packed = gzip.compress(b"id,n\n1,a\n") + gzip.compress(b"2,b\n")
    assert len(read(packed, name="d.csv.gz")[0]) == len(read(packed, name="d.csv")[0]) == 2
    with pytest.raises(Blocked, match="damaged or cut off"):
        read(packed[:-6], name="d.csv.gz")


def test_files_of_a_directory_have_their_own_headers(read: Read, tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    (folder / "day1").mkdir(parents=True)
    for name in ("b.csv", "day1/a.csv", "_SUCCESS", ".b.csv.crc"):
        (folder / name).write_text("id\n1\n")
    found = list_files([str(folder)])
    assert [each.path.relative_to(folder).as_posix() for each in found] == ["b.csv", "day1/a.csv"]
    rows, staged = read({"1.csv": b"id,n\n1,a\n", "2.csv": b"", "3.csv": b"N,ID\nb,2\nc\n"})
    assert rows == [{"id": "1", "n": "a"}, {"id": "2", "n": "b"}]
    assert _faults(staged) == {"wrong number of fields": (1, ("3.csv:3",))}
    with pytest.raises(ConfigError, match=r"first line of 3\.csv does not name field 2 of the first line of 1\.csv"):
        read({"1.csv": b"id,n\n1,a\n", "3.csv": b"id,m\n1,a\n"})
    with pytest.raises(ConfigError, match=r"first line of 3\.csv has 3 fields, that of 1\.csv 2"):
        read({"1.csv": b"id,n\n1,a\n", "3.csv": b"id,n,m\n1,a,b\n"})


def test_a_column_that_only_names_of_directories_have_is_not_lost(tmp_path: Path) -> None:
    folder = tmp_path / "shop=1" / "hive"
    part = folder / "new" / "dt=2026-01-01"
    part.mkdir(parents=True)
    (folder / "dt=empty").mkdir()
    (folder / "a=b.csv").write_text("id\n1\n")
    assert [each.path.name for each in list_files([str(folder)])] == ["a=b.csv"]
    (part / "x.csv").write_text("id\n1\n")
    with pytest.raises(ConfigError, match=r"is partitioned: column 'dt' .* make the dump with this column") as told:
        list_files([str(folder)])
    assert "2026" not in str(told.value)
    assert len(list_files([str(part / "x.csv")])) == 1


def test_the_files_of_a_delta_table_are_no_dump(tmp_path: Path) -> None:
    dump, plain = tmp_path / "dump", tmp_path / "dump" / "a.parquet"
    table = dump / "new" / "accounts"
    table.mkdir(parents=True)
    plain.touch()
    (table / "part-0.parquet").touch()
    assert len(list_files([str(dump)])) == 2
    (table / "_delta_log").mkdir()
    for given in (dump, table, table / "part-0.parquet"):
        with pytest.raises(ConfigError, match=r"dump/new/accounts is a Delta table, no dump: .*; export the rows"):
            list_files([str(given)])
    assert len(list_files([str(plain)])) == 1
    (table / "part-0.parquet").unlink()
    with pytest.raises(ConfigError, match="is a Delta table"):
        list_files([str(table)])
    assert len(list_files([str(dump)])) == 1


@pytest.mark.parametrize(
    ("parts", "how", "told"),
    [
        ({"1.csv": b"id\n1\n", "2.csv": b""}, {}, r"^2\.csv is empty: it has not even a header; .* cut off$"),
        ({"1.csv": b"id\n1\n", "2.csv": b"\r\n\n"}, {}, r"^2\.csv is empty: it has not even a header; .* cut off$"),
        ({"1.csv": b"", "2.csv": b"id\n1\n"}, {}, r"^1\.csv is empty: it has not even a header; .* cut off$"),
        ({"1.csv": b"1\n", "2.csv": b""}, {"header": False, "columns": ["id"]}, r"^2\.csv is empty; .* cut off$"),
        ({"1.json": b'{"id":1}\n', "2.json.gz": gzip.compress(b"")}, {}, r"^2\.json\.gz is empty; .* cut off$"),
    ],
)
def test_a_complete_dump_has_no_empty_file(read: Read, parts: dict[str, bytes], how: dict[str, Any], told: str) -> None:
    rows, _ = read(parts, **how)
    assert len(rows) == 1
    with pytest.raises(ConfigError, match=told):
        read(parts, complete=True, **how)


def test_a_complete_dump_may_have_no_rows_on_purpose(read: Read) -> None:
    assert read("id\n", complete=True)[0] == []
    assert read("\n", name="d.json", complete=True, table=NUMBERS)[0] == []


def test_json_lines_keep_numbers_as_they_stand(read: Read) -> None:
    types = pa.schema([("id", pa.int64()), ("d", pa.decimal128(20, 2)), ("l", pa.list_(pa.int32()))])
    text = '{"id":1,"d":12345678901234567.10,"f":1.50,"b":true,"l":[1,null]}\n\n{"id":"2","f":null}\n'
    rows, _ = read(text, name="d.jsonl", types=types)
    assert rows == [
        {"id": 1, "d": Decimal("12345678901234567.10"), "f": "1.50", "b": "true", "l": [1, None]},
        {"id": 2, "d": None, "f": None, "b": None, "l": None},
    ]


def test_json_that_is_no_object_or_has_other_fields_is_bad(read: Read) -> None:
    table = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))])
    text = (
        '[1]\n{"id":1,"s":{"a":2}}\n{"id":2,"z":1}\n{"id":null}\n{"id":3,"s":{"b":1}}\n{"id":4,"s":{"a":"x"}}\n{"id":\n'
    )
    rows, staged = read(text, name="d.json", table=table)
    assert rows == [{"id": 1, "s": {"a": 2}}]
    assert {cause: lines for cause, (_, lines) in _faults(staged).items()} == {
        "line that cannot be parsed": ("d.json:1", "d.json:7"),
        "field that is not among the columns": ("d.json:3",),
        "column 's' is not of type struct<a: int64>": ("d.json:5", "d.json:6"),
        "null in the key": ("d.json:4",),
    }


def test_case_in_names_of_json_fields_does_not_count(read: Read) -> None:
    table = pa.schema([("id", pa.int64()), ("s", pa.struct([("Ab", pa.int64())]))])
    text = '{"ID":1,"S":{"aB":2}}\n{"Id":2,"s":{"Ab":3}}\n{"s":{"Ab":1,"AB":1},"id":3}\n'
    rows, staged = read(text, name="d.json", table=table)
    assert rows == [{"id": 1, "s": {"Ab": 2}}, {"id": 2, "s": {"Ab": 3}}]
    assert _faults(staged) == {"column 's' is not of type struct<Ab: int64>": (1, ("d.json:3",))}
    rows, staged = read('{"ID":"1","n":"a"}\n{"id":"2","N":"b"}\n', name="d.json")
    assert rows == [{"ID": "1", "n": "a"}, {"ID": "2", "n": "b"}]


def test_a_json_object_with_one_name_twice_is_bad(read: Read) -> None:
    rows, staged = read('{"id":1,"n":1}\n{"id":1,"id":2}\n{"id":3,"n":{"a":1,"a":2}}\n', name="d.json")
    assert (rows, staged.reading.keyless) == ([{"id": "1", "n": "1"}], 2)
    assert _faults(staged) == {"line that cannot be parsed": (2, ("d.json:2", "d.json:3"))}


def test_two_json_fields_that_are_one_column_make_a_bad_line(read: Read) -> None:
    table = pa.schema([("id", pa.int64()), ("n", pa.string())])
    text = '{"id":1,"N":"a","n":"b"}\n{"id":2,"N":"a","NN":1}\n{"ID":4,"id":3,"n":"c"}\n{"ID":5,"Id":6}\n'
    rows, staged = read(text, name="d.json", table=table)
    assert (rows, staged.reading.keyless) == ([], 2)  # of the last two, nobody knows the key
    assert list(_faults(staged)) == ["field that is not among the columns"]
    assert parquet.read_table(staged.path).select(["id", "n"]).to_pylist() == [
        {"id": 1, "n": "b"}, {"id": 2, "n": "a"},
    ]  # fmt: skip


def test_json_with_half_a_character_is_bad(read: Read) -> None:
    text = '{"id":"a"}\n{"id":"b\\ud800"}\n{"id":"c","\\ud800":1}\n{"id":"\\ud83d\\ude00"}\n'
    rows, staged = read(text, name="d.json")
    assert [row["id"] for row in rows] == ["a", "\U0001f600"]
    assert {cause: lines for cause, (_, lines) in _faults(staged).items()} == {
        "field that is not among the columns": ("d.json:3",),
        "column 'id' is not of type string": ("d.json:2",),
    }
    assert staged.reading.keyless == 1


def test_parquet_has_types_of_its_own_and_the_tables_come_first(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "made.parquet"
    rows = pa.table({"ID": pa.array([1, 2, None]), "n": pa.array(["7", "x", "9"]).dictionary_encode()})
    parquet.write_table(rows, path)
    found, staged = read(path.read_bytes(), name="d.parquet")
    assert (found[0], staged.schema.field("ID").type) == ({"ID": 1, "n": "7"}, pa.int64())
    table = pa.schema([("id", pa.int32()), ("n", pa.int64()), ("more", pa.string())])
    found, staged = read(path.read_bytes(), name="d.parquet", table=table)
    assert (found, staged.schema.field("id").type) == ([{"id": 1, "n": 7}], pa.int32())
    assert {lines for _, lines in _faults(staged).values()} == {("d.parquet:2",), ("d.parquet:3",)}
    with pytest.raises(Blocked, match="not a whole Parquet file"):
        read(path.read_bytes()[:-8], name="d.parquet")


def test_parquet_files_have_the_same_columns(read: Read, tmp_path: Path) -> None:
    first, more = (
        _write_parquet(tmp_path / "made.parquet", {name: pa.array([1]) for name in each}) for each in ("a", "ab")
    )
    for files_ in ({"1.parquet": first, "2.parquet": more}, {"1.parquet": more, "2.parquet": first}):
        with pytest.raises(ConfigError, match=r"^2\.parquet has \d columns, 1\.parquet \d; load files with the same"):
            read(files_)
    assert len(read({"1.parquet": first, "2.parquet": more}, columns=["id", "a"])[0]) == 2


def _write_parquet(path: Path, columns: dict[str, pa.Array], **how: Any) -> bytes:
    parquet.write_table(pa.table({"id": pa.array([1]), **columns}), path, **how)
    return path.read_bytes()


WHEN = datetime(2026, 1, 31, 12)  # noqa: DTZ001 - timestamps without a zone


@pytest.mark.parametrize(
    ("value", "theirs", "ours"),
    [
        (WHEN, pa.timestamp("ns"), pa.timestamp("us")),
        (WHEN.replace(tzinfo=UTC), pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (WHEN, pa.timestamp("s"), pa.timestamp("us")),
        (np.float16(0.5), pa.float16(), pa.float32()),
        (7, pa.uint8(), pa.int16()),
        (7, pa.uint64(), pa.decimal128(20, 0)),
        (date(2026, 1, 31), pa.date64(), pa.date32()),
        (Decimal("1.5"), pa.decimal256(30, 1), pa.decimal128(30, 1)),
        ("a", pa.large_string(), pa.string()),
        ("a", pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (b"a", pa.large_binary(), pa.binary()),
        (b"a", pa.binary(1), pa.binary()),
        (None, pa.null(), pa.string()),
        (b"0123456789abcdef", pa.uuid(), pa.binary()),
        ([WHEN], pa.large_list(pa.timestamp("ns")), pa.list_(pa.timestamp("us"))),
        ([], pa.list_(pa.null()), pa.list_(pa.string())),
        ({"a": 1}, pa.struct([("a", pa.uint16())]), pa.struct([("a", pa.int32())])),
        ([("k", WHEN)], pa.map_(pa.string(), pa.timestamp("ns")), pa.map_(pa.string(), pa.timestamp("us"))),
    ],
)
def test_a_new_table_has_types_that_delta_has(
    read: Read, tmp_path: Path, value: Any, theirs: pa.DataType, ours: pa.DataType
) -> None:
    content = _write_parquet(tmp_path / "made.parquet", {"v": pa.array([value], theirs)})
    rows, staged = read(content, name="d.parquet")
    assert (rows, staged.schema.field("v").type) == ([{"id": 1, "v": value}], ours)
    assert parquet.read_schema(staged.path).field("v").type == ours


def test_views_are_plain_types_in_a_table() -> None:
    """Pyarrow 18 does not write them."""
    assert find_type(pa.list_view(pa.string_view())) == pa.list_(pa.string())
    assert find_type(pa.large_list_view(pa.binary_view())) == pa.list_(pa.binary())


@pytest.mark.parametrize(
    ("value", "theirs", "text"),
    [
        (time(1, 2), pa.time64("us"), "01:02:00.000000"),
        (timedelta(seconds=1), pa.duration("us"), "1000000"),
        (Decimal(5), pa.decimal256(40, 0), "5"),
        ([time(1, 2)], pa.list_(pa.time64("us")), ["01:02:00.000000"]),
    ],
)
def test_a_type_that_delta_lacks_is_refused_and_types_is_the_way_round(
    read: Read, tmp_path: Path, value: Any, theirs: pa.DataType, text: Any
) -> None:
    content = _write_parquet(tmp_path / "made.parquet", {"v": pa.array([value], theirs)})
    with pytest.raises(ConfigError, match=r"column 'v' has the type .* in the dump.*--types"):
        read(content, name="d.parquet")
    kind = pa.list_(pa.string()) if isinstance(text, list) else pa.string()
    rows, _ = read(content, name="d.parquet", types=pa.schema([("v", kind)]))
    assert rows == [{"id": 1, "v": text}]


def test_times_that_spark_has_written_as_int96_are_not_only_of_three_centuries(read: Read, tmp_path: Path) -> None:
    first = datetime(1, 1, 1)  # noqa: DTZ001
    columns = {"v": pa.array([first], pa.timestamp("us"))}
    content = _write_parquet(tmp_path / "made.parquet", columns, use_deprecated_int96_timestamps=True)
    assert read(content, name="d.parquet")[0] == [{"id": 1, "v": first}]


@pytest.mark.parametrize(
    ("text", "how", "told"),
    [
        ("", {}, "is empty"),
        ("a,b\n1,2\n", {}, "has 2 fields, and no column 'id'; .*--delimiter"),
        ("id,ID\n1,2\n", {}, "fields 1 and 2 of the first line of d.csv are one name"),
        ("id,\n1,2\n", {}, "field 2 of the first line of d.csv is empty"),
        ("id,a b\n1,2\n", {}, "no column may have"),
        ("id,nmae\n1,2\n", {"table": pa.schema([("id", pa.int64()), ("name", pa.string())])}, "did you mean 'name'"),
        ("id\n1\n", {"types": pa.schema([("idd", pa.int64())])}, "--types names 'idd'"),
        ("id\n1\n", {"types": pa.schema([("id", pa.list_(pa.int64()))])}, "cannot be in the key"),
    ],
)
def test_columns_that_do_not_fit_are_refused(read: Read, text: str, how: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(text, **how)


def test_a_column_that_no_dump_can_hold_is_refused_where_the_dump_has_it(read: Read) -> None:
    how: dict[str, Any] = {"table": NUMBERS, "unfit": ["v"]}
    assert read("id\n1\n", **how)[0] == [{"id": 1}]
    with pytest.raises(ConfigError, match="column 'v' has a type that no dump can hold; make the dump without"):
        read("id,V\n1,2\n", **how)


def test_an_empty_text_is_null_where_the_column_makes_partitions(read: Read) -> None:
    how: dict[str, Any] = {"table": pa.schema([("id", pa.string()), ("p", pa.string())]), "partitions": ["p"]}
    text = 'id,p\n1,""\n"",x\n'
    assert read(text, **how)[0] == [{"id": "1", "p": None}, {"id": "", "p": "x"}]
    rows, staged = read(text, key=["id", "p"], **how)
    assert (rows, _faults(staged)) == ([{"id": "", "p": "x"}], {"null in the key": (1, ("d.csv:2",))})


def test_two_formats_at_once_are_refused() -> None:
    assert choose_format([DumpFile(Path("a.ndjson.gz"), "a")]) == "json"
    with pytest.raises(ConfigError, match="several formats"):
        choose_format([DumpFile(Path("a.csv"), "a.csv"), DumpFile(Path("b.json"), "b.json")])


def test_a_batch_is_bounded_by_its_characters_too(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHARACTERS", 50)
    _, staged = read("id,n\n" + "1,aaaaaaaaaaaaaaaaaa\n" * 9)
    assert parquet.ParquetFile(staged.path).num_row_groups == 3
    assert reading.ROWS * 2 <= 100_000
