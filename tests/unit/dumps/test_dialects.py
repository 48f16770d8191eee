r"""Files as databases and spreadsheets write them give the database's values, or a word that names the option."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from enrich.base.errors import Blocked, ConfigError
from enrich.dumps import files
from enrich.dumps.files import DumpFile
from enrich.dumps.layout import Known
from enrich.dumps.reading import Marks
from enrich.dumps.result import Dialect, DumpOptions, choose_dialect
from enrich.dumps.stage import BAD, FILE, LINE, DumpSpec, Staged, stage_dump


def _read(
    tmp_path: Path, text: str | bytes, types: pa.Schema | None = None, **how: Any
) -> tuple[list[tuple[Any, ...]], Staged]:
    """Stage a file with the options of ``DumpOptions``, and return the good rows."""
    path = tmp_path / "d.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    options = DumpOptions(**how)
    marks = Marks(options.escape is not None or options.dialect != "csv", options.null is not None)
    spec = DumpSpec(
        [DumpFile(path, "d.csv")], "csv", ["id"], "utf-8-sig", choose_dialect(options), options.columns, options.header,
        marks, Known(None, types if types is not None else pa.schema([])),
    )  # fmt: skip
    (tmp_path / "staged").mkdir(exist_ok=True)
    staged = stage_dump(spec, tmp_path / "staged")
    rows = parquet.read_table(staged.path).to_pylist()
    return [tuple(v for k, v in row.items() if k not in (FILE, LINE, BAD)) for row in rows if not row[BAD]], staged


def _told(staged: Staged) -> str:
    return "\n".join(map(str, staged.reading.marks.tell()))


LOADED = "fields {} loaded as texts: {}; if that is null, give `{}`"
NUMBERS = pa.schema([("n", pa.int64()), ("at", pa.date32())])
UNNAMED = {"header": False, "columns": ["id", "a", "b"]}
TEXT = {"dialect": "text", **UNNAMED}
SLASH = {"escape": "\\", **UNNAMED}


@pytest.mark.parametrize(
    ("text", "how", "rows"),
    [
        # PostgreSQL: COPY t TO STDOUT
        ("1\ta\\tb\\nc\\\\d\t\\N\n2\t\t\\\\N\n\\.\n", TEXT, [("1", "a\tb\nc\\d", None), ("2", "", r"\N")]),
        ('1\t"x"\ty"z\n', TEXT, [("1", '"x"', 'y"z')]),
        ("1|a\\|b|\\b\\f\\v\\r\\q\n", TEXT | {"delimiter": "|"}, [("1", "a|b", "\b\f\v\rq")]),
        ("1\t\\303\\244\\x41\t\\xc3\\xa4\n", TEXT, [("1", "äA", "ä")]),
        # MySQL: INTO OUTFILE; a line break within a value is a backslash and the line break
        ("1\ta\\\tb\tx\\\ny\n2\t\\0\t\\\\\n", TEXT, [("1", "a\tb", "x\ny"), ("2", "\0", "\\")]),
        ("1\ta\\\r\nb\tx\r\n2\ta\t\\N\r\n", TEXT, [("1", "a\r\nb", "x"), ("2", "a", None)]),
        # MySQL: FIELDS TERMINATED BY ',' ENCLOSED BY '"'
        ('"1","a\\"b\\\\",\\N\n"2","x\\\ny, z",""\n', SLASH, [("1", 'a"b\\', None), ("2", "x\ny, z", "")]),
        # Spark: a backslash is one outside of quotes, and two within
        ('1,C:\\dir,"C:\\\\dir, \\"x\\""\n2,"",\n', SLASH, [("1", "C:\\dir", 'C:\\dir, "x"'), ("2", "", None)]),
        # SSMS: no quotes at all, NULL is a word, and nothing is an empty text
        ('1,"Big" Joe,NULL\n2,,5" x\n', {"quote": "", "null": ["NULL"], **UNNAMED},
            [("1", '"Big" Joe', None), ("2", "", '5" x')]),
        # Two ways to write null, and quotes that are others
        ("1,'NULL',NULL\n2,'',\n", {"quote": "'", "null": ["NULL", ""], **UNNAMED},
            [("1", "NULL", None), ("2", "", None)]),
    ],
)  # fmt: skip
def test_values_are_those_of_the_database(tmp_path: Path, text: str, how: dict[str, Any], rows: list[Any]) -> None:
    found, staged = _read(tmp_path, text, **how)
    assert (found, staged.reading.faults.lines) == (rows, 0)


@pytest.mark.parametrize(
    ("text", "told", "how"),
    [
        ("id,a,b\n1,NULL,x\n2,y,null\n3,NULL,z\n", LOADED.format("NULL", "2 (d.csv:2, d.csv:4)", "--null NULL"),
            {"null": ["NULL", "null"]}),
        ('id,a,b\n1,"NULL","\\N"\n2,\\N,x\n',
            LOADED.format('"NULL"', "1 (d.csv:2)", "--null '\"NULL\"' --null '\\N'"),
            {"null": ['"NULL"', '"\\N"', "\\N"]}),
        ('"id","a"\n"1","x"\n"2",""\n',
            "fields \"\" loaded as empty texts: 1 (d.csv:3); if that is null, give `--null '\"\"'`", {"null": ['""']}),
        ("id\ta\n1\tC:\\\\dir\n2\tx\\ty\n",
            "backslashes, read as they stand: 2 (d.csv:2, d.csv:3); if these are escapes, give `--dialect text`",
            {"dialect": "text"}),
        ('id,a\n1,"C:\\\\dir, x"\n', "if these are escapes, give `--escape '\\'`", {"escape": "\\"}),
        ("id,n\n1,NULL\n2,3\n",
            "fields NULL in columns of other types than text: 1 (d.csv:2); if that is null, give `--null NULL`",
            {"null": ["NULL"]}),
        ('id,a\n1,"x \\"y\\" z"\n', "if these are escapes, give `--escape '\\'`", {"escape": "\\"}),
        ("id\ta\n1\tx\\\ty\n", "`--dialect text`", {"dialect": "text"}),
        ('id,a\n1,"Big" Joe\n', "if quotes are part of the text, give `--quote ''`", {"quote": ""}),
        ('id\ta\n1\t"x"\n', "fields loaded with quotes around them: 1", {}),
    ],
)  # fmt: skip
def test_what_may_be_meant_otherwise_is_counted_and_names_the_option(
    tmp_path: Path, text: str, told: str, how: dict[str, Any]
) -> None:
    first = {"dialect": "text"} if not how else {}
    types = pa.schema([NUMBERS.field("n")]) if "id,n" in text else None
    _, staged = _read(tmp_path, text, types, **first)
    assert told in _told(staged)
    if how:
        _, staged = _read(tmp_path, text, types, **how)
        assert (_told(staged), staged.reading.faults.lines) == ("", 0)


def test_nothing_is_told_where_null_and_empty_text_are_apart(tmp_path: Path) -> None:
    rows, staged = _read(tmp_path, 'id,a\n1,""\n2,\n3,\\N\n4,C:\\dir\n')
    assert (rows, _told(staged)) == ([("1", ""), ("2", None), ("3", None), ("4", "C:\\dir")], "")


def test_an_empty_field_is_null_where_the_type_has_no_empty_value(tmp_path: Path) -> None:
    rows, staged = _read(tmp_path, '"id","n","at"\n"1","",""\n"2","3","2026-01-31"\n', NUMBERS)
    assert (rows[0], rows[1][:2], staged.reading.faults.lines) == (("1", None, None), ("2", 3), 0)


@pytest.mark.parametrize("first", ["sep=;\r\n", '"sep=;"\n', "SEP=;\r\n"])
def test_what_excel_writes(tmp_path: Path, first: str) -> None:
    text = f"{first}id;a,b\r\n1;x\r\n"
    assert _read(tmp_path, b"\xef\xbb\xbf" + text.replace("a,b", "a").encode())[0] == [("1", "x")]
    for encoding in ("utf-16", "utf-32"):  # "Unicode text"; the mark at the beginning names the encoding
        assert _read(tmp_path, "id\ta\n1\tä\n".encode(encoding))[0] == [("1", "ä")]


def test_whatever_python_writes_with_escapes_is_read_back(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    texts = ["", '"', '""', "\\", "\\\\", "a", ",", "\n", "\\N", " ", "ä", "'", "\\n"]
    wanted = [(str(at), *["".join(draw.choices(texts, k=draw.randint(1, 5))) for _ in "ab"]) for at in range(300)]
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, doublequote=False, escapechar="\\", lineterminator="\n")
    for row in wanted:  # Python escapes a backslash since 3.12 only
        line = ",".join('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in row)
        out.write(f"{line}\n")
    del writer
    rows, staged = _read(tmp_path, out.getvalue(), **SLASH)
    assert (rows, staged.reading.faults.lines) == (wanted, 0)
    lines = ["\t".join(t.replace("\\", "\\\\").replace("\t", "\\\t").replace("\n", "\\\n") for t in r) for r in wanted]
    rows, staged = _read(tmp_path, "".join(f"{line}\n" for line in lines), **TEXT)
    assert (rows, staged.reading.faults.lines) == (wanted, 0)


PERSON = "bobbin@example.com,DE44500105175407324931,Weaverton"


@pytest.mark.parametrize(
    ("text", "types", "table"),
    [
        (f"k1,{PERSON}\nk2,b,c,d\n", None, None),
        (f"id,{PERSON}\nk2,b,c,d\n", None, None),
        (f"id,{PERSON},+41 79 000\nk2,b,c,d,e\n", None, None),
        ("id,Weaverton,Weaverton\nk2,b,c\n", None, None),
        ("id,Weaverton,\nk2,b,c\n", None, None),
        ("id,Weaverton,x\nk2,b,c\n", pa.schema([("weavertown", pa.string())]), None),
        ("id,Weaverton\nk2,b\n", None, pa.schema([("id", pa.string()), ("name", pa.string())])),
        ("id,Wea verton\nk2,b\n", None, None),
    ],
)
def test_a_first_line_is_never_told(
    tmp_path: Path, text: str, types: pa.Schema | None, table: pa.Schema | None
) -> None:
    path = tmp_path / "people.csv"
    path.write_text(text)
    known = Known(table, types if types is not None else pa.schema([]))
    spec = DumpSpec([DumpFile(path, "people.csv")], "csv", ["id"], "utf-8-sig", known=known)
    with pytest.raises(ConfigError) as told:
        stage_dump(spec, tmp_path)
    said = str(told.value).lower()
    assert not [word for word in ("bobbin", "de44", "weaverton", "verton", "79 000") if word in said]
    assert types is not None or "--no-header" in said


def test_a_header_of_its_own_gives_way_to_other_names(tmp_path: Path) -> None:
    text = "Customer ID;E-Mail Address\r\n1;a@example.com\r\n"
    how = {"columns": ["id", "mail"]}
    with pytest.raises(ConfigError, match=r"^--columns names .* what the first line of d\.csv is; give --header if"):
        _read(tmp_path, text, **how)
    assert _read(tmp_path, text, header=True, **how)[0] == [("1", "a@example.com")]
    assert _read(tmp_path, "ID,Mail\n1,a\n", **how)[0] == [("1", "a")], "the same names: it is a header"
    with pytest.raises(ConfigError, match="in another order"):
        _read(tmp_path, "mail,id\na,1\n", header=True, **how)
    odd = "id,2024,a@b\n1,2,3\n"
    with pytest.raises(ConfigError, match=r"field 2 of the first line of d\.csv does not look like .* give --header;"):
        _read(tmp_path, odd)
    assert _read(tmp_path, odd, header=True)[0] == [("1", "2", "3")]


@pytest.mark.parametrize(
    ("text", "how", "told"),
    [
        ('id,a\n1,"x\n', {}, r"d\.csv:2: a quote is not closed within 64 MB; .*--quote ''"),
        ('id,a\n1,"x\ny","\n', {}, r"d\.csv:3: a quote is not closed within 64 MB"),
        ('id,a\n1,"x\\"",y\n', {}, r"d\.csv:2: a quote is not closed within 64 MB; .*--escape '\\'"),
        ("1\ta\t\\\n", TEXT, r"d\.csv:1: the line is longer than 64 MB"),
    ],
)  # fmt: skip
def test_a_record_of_many_lines_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, how: dict[str, Any], told: str
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 100)
    with pytest.raises(Blocked, match=told):
        _read(tmp_path, text + "2,x\\\n" * 1000, **how)


def test_a_dialect_without_a_quote_has_no_quotes() -> None:
    assert choose_dialect(DumpOptions(dialect="text", quote='"')) == Dialect("\t", '"', "\\", (r"\N",))
    assert choose_dialect(DumpOptions(escape='"')).escape == "", "a quote that is doubled is what is read anyway"
