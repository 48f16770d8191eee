"""Types of Spark SQL: which a table can have, and which are none."""

from __future__ import annotations

import pytest

from enrich.base.schemas import name_of
from enrich.dumps.layout import read_columns
from enrich.project.statictypes import read_ddl_type


@pytest.mark.parametrize(
    "text",
    [
        *("string", "int", "bigint", "double", "decimal(10,2)", "date", "timestamp", "timestamp_ntz", "binary"),
        *("array<string>", "struct<a:int,b:array<struct<c:decimal(3,1),d:boolean>>>", "array<array<smallint>>"),
        *("map<string,array<int>>", "struct<date:date,array:int>", "decimal(38,38)"),
    ],
)
def test_a_type_is_read_as_it_is_written(text: str) -> None:
    kind = read_ddl_type(text)
    assert kind is not None
    assert name_of(kind) == text


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        *(("decimal", "decimal(10,0)"), ("DECIMAL ( 4 )", "decimal(4,0)"), ("long", "bigint"), ("integer", "int")),
        *(("struct<a int>", "struct<a:int>"), ("struct< `a` : int >", "struct<a:int>")),
    ],
)
def test_other_ways_to_write_a_type(text: str, meant: str) -> None:
    kind = read_ddl_type(text)
    assert kind is not None
    assert name_of(kind) == meant


@pytest.mark.parametrize(
    "text",
    [
        *("", "strng", "array<", "array<>", "array<string", "array<string>>", "array<int,>", "array<string,int>"),
        *("decimal(3,4)", "decimal(39,0)", "decimal(0,0)", "decimal(10,2,3)", "decimal(10 2)", "decimal(a,b)"),
        *("struct<a>", "struct<>", "struct<a:int,A:int>", "struct<a:struct<b:int,B:int>>", "struct<a:int,>"),
        *(
            "struct<a:int,,b:int>",
            "struct<a.b:int>",
            "map<string>",
            "varchar(3)",
            "array<char(3)>",
            "interval",
            "variant",
            "void",
        ),
        *("string foo", "array<int> foo", "array<string foo>", "string; drop", "string -- x", "string /* x */"),
        *(
            "string) + (1",
            "string format 'x'",
            "bigint not null",
            "array<bigint not null>",
            "string collate UTF8_LCASE",
        ),
        *("struct<a: int not null>", "struct<a: int comment 'x'>", "timestamp(3)", "int(3)"),
    ],
)
def test_what_is_no_type_is_none(text: str) -> None:
    assert read_ddl_type(text) is None


def test_columns_keep_their_order() -> None:
    assert read_columns("b int, `a c` decimal(5, 2)") == {"b": "integer", "a c": "decimal(5,2)"}
