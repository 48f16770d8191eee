"""Keys as people write them, and the rules that choose one reason out of several."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial

import pytest

from enrich import ConfigError
from enrich.answers import near_misses
from enrich.answers.question import read_key
from enrich.answers.reasons import Reason, Why, explain_cell, explain_list, explain_row
from enrich.base.spec import NORMALISERS

ONE, TWO = ("id",), ("country", "number")


@pytest.mark.parametrize(
    ("key", "columns", "expected"),
    [
        ("u1", ONE, {"id": "u1"}),
        ("a,b=c", ONE, {"id": "a,b=c"}),
        ("id=u1", ONE, {"id": "id=u1"}),
        ("", ONE, {"id": ""}),
        ("\u200bu1", ONE, {"id": "\u200bu1"}),
        (["id=u1"], ONE, {"id": "u1"}),
        ({"id": 7}, ONE, {"id": "7"}),
        ("country=DE,number=7", TWO, {"country": "DE", "number": "7"}),
        ("number=7,country=DE", TWO, {"country": "DE", "number": "7"}),
        ("Country=DE,NUMBER=7", TWO, {"country": "DE", "number": "7"}),
        ("country=a,b,c=d,number=", TWO, {"country": "a,b,c=d", "number": ""}),
        (["country=x,number=1", "number=2"], TWO, {"country": "x,number=1", "number": "2"}),
        ({"country": "x,number=1", "Number": 2}, TWO, {"country": "x,number=1", "number": "2"}),
        ("a=1,a.b=2,a=b=3", ("a", "a.b", "a=b"), {"a": "1", "a.b": "2", "a=b": "3"}),
        (101, ONE, {"id": "101"}),
        (Decimal("1.50"), ONE, {"id": "1.50"}),
        (b"\x00\xff", ONE, {"id": "00ff"}),
        ({"country": dt.date(2026, 1, 2), "number": -7}, TWO, {"country": "2026-01-02", "number": "-7"}),
    ],
)
def test_a_key_is_read(key: object, columns: tuple[str, ...], expected: dict[str, str]) -> None:
    assert read_key(key, columns) == expected


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("DE,7", TWO),
        ("country=DE", TWO),
        ("country=DE,number=7,number=8", TWO),
        ("x,country=DE,number=7", TWO),
        ("country=DE,nummer=7", TWO),
        (["country=DE"], TWO),
        (["country=DE", "number=1", "number=2"], TWO),
        (["country", "number=1"], TWO),
        (["other=secret"], ONE),
        ({"country": "secret"}, TWO),
        ({"country": "secret", "number": 1, "x": 2}, TWO),
        ([1, "secret"], ONE),
        ([101, "number=1"], TWO),
        (["DE", 7], TWO),
        (["u1"], ONE),
        (["secret", "number=1"], TWO),
    ],
)
def test_what_is_no_key_is_refused_without_being_quoted(key: object, columns: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_key(key, columns)
    assert caught.value.exit_code == 2
    assert all(name in str(caught.value) for name in columns)
    assert "secret" not in str(caught.value)
    assert "DE" not in str(caught.value)


def test_the_sets_are_all_of_them_the_smallest_first() -> None:
    assert len(near_misses.SETS) == len(set(near_misses.SETS)) == 63
    assert [len(each) for each in near_misses.SETS] == sorted(len(each) for each in near_misses.SETS)
    assert near_misses.SETS[-1] == NORMALISERS
    assert set(near_misses.KINDS) == set(NORMALISERS)
    assert near_misses.SETS[:6] == tuple((step,) for step in near_misses.KINDS)


GONE, NONE, OK = Reason("deleted_at", version=3), Reason("no_such_key"), Reason("matched")


def test_a_list_has_the_reason_of_its_worst_element() -> None:
    found = explain_list([(OK, 2), (NONE, 1), (GONE, 1), (Reason("deleted_at", version=5), 1)])
    assert (found.reason, found.version) == ("deleted_at", 3)
    assert found.elements == {"matched": 2, "no_such_key": 1, "deleted_at": 2}
    assert explain_list([]) == Reason("matched", elements={})
    assert explain_list([(OK, 2)]).reason == "matched"


def test_a_row_is_out_for_one_reason() -> None:
    assert explain_row(True, [("a", OK)], ["rule:x"]) == Reason("quarantined", rules=("rule:x",))
    assert explain_row(True, [("a", NONE)], []) == OK
    assert explain_row(False, [("a", OK), ("b", GONE), ("c", NONE)], []) == Reason("deleted_at", version=3, source="b")
    assert explain_row(False, [("a", OK)], []) == Reason("filtered_by_where")


def test_a_cell_has_the_reason_of_the_first_source_that_it_lacks() -> None:
    lookups = {"a": OK, "b": GONE, "c": NONE, "d": OK}
    explain = partial(explain_cell, lookups=lookups, driving="d")
    assert explain(NONE, ["a"], is_null=True) == NONE
    assert explain(OK, ["a", "b", "c"], is_null=True) == Reason("deleted_at", version=3, source="b")
    assert explain(OK, ["a"], is_null=True) == Reason("value_null_in_lookup", source="a")
    assert explain(OK, ["a"], is_null=False) == OK
    assert explain(OK, ["d", "a"], is_null=True) == Reason("value_null_in_lookup", source="a")
    assert explain(OK, ["d"], is_null=True) == Reason("value_null", source="d")
    assert explain(OK, [], is_null=True) == Reason("value_null")


def test_keys_are_in_no_json() -> None:
    found = Reason("near_miss", kind="case", found="secret")
    answer = Why("job", 3, OK, {"a": found}, {"x": explain_cell(OK, ["a"], {"a": found}, is_null=True, driving="d")})
    assert "secret" not in str(answer.to_dict())
    assert "secret" not in repr(answer)
    assert answer.to_dict() == {
        "job": "job",
        "target_version": 3,
        "in_target": True,
        "row": {"reason": "matched"},
        "lookups": {"a": {"reason": "near_miss", "kind": "case"}},
        "columns": {"x": {"reason": "near_miss", "kind": "case", "source": "a"}},
    }
