"""Every line of the list-join table of docs/semantics.md, with the expected rows written out.

One job has a list of each kind; a line is about one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from differential.columns import TYPES, Column
from differential.engines import enrich_engine
from differential.lines import Line, play_lines, problems, put
from differential.spec import Join, Shape, Table, World, col

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from differential.trial import Trial

PERSONS = Table(
    "persons",
    ("p",),
    (Column("p", "key", "p"), Column("name", "text"), Column("ids", "keys", "a"), Column("items", "items", "a")),
)
ADDRESSES = Table("addresses", ("a",), (Column("a", "key", "a"), Column("street", "text")))
IDS, ITEMS = col("persons.ids", TYPES["keys"]), col("persons.items", TYPES["items"])


KEEP, DISTINCT, MATCHED, STRUCTS = KINDS = ("kept", "once", "matched", "structs")
JOINS = {
    KEEP: Join("addresses", "list", elements=IDS),
    DISTINCT: Join("addresses", "list", elements=IDS, duplicates="drop"),
    MATCHED: Join("addresses", "list", elements=IDS, unmatched="drop"),
    STRUCTS: Join("addresses", "list", elements=ITEMS, element_key="id"),
}
SELECT = {"p": col("persons.p"), "name": col("persons.name"), **{kind: col(kind) for kind in KINDS}}
LISTS = Shape("lists", "persons", ("p",), joins=JOINS, select=SELECT, change_feed=True)
WORLD = World("list_lines", (PERSONS, ADDRESSES), (LISTS,), {"p": (1, 1), "a": (1, 1)})
X, Y = 1, 2  # abstract texts: "x" and "y"


def _person(ids: Any, name: int = X, items: Any = None) -> dict[str, Any]:
    return {"p": ["p", name, ids, items]}


def _addresses(**streets: int | None) -> Any:
    """Commit addresses; None deletes."""
    return put("addresses", {key: None if street is None else [key, street] for key, street in streets.items()})


def _list(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    """Elements as (id, street); a street is text, unlike in ``_addresses``."""
    return [{"a": key, "street": street, "rid": None if street is None else str(key)} for key, street in pairs]


def _rows(elements: Any, name: str = "x") -> list[tuple[Any, ...]]:
    return [("p", name, elements)]


def _line(name: str, windows: list[Any], expected: list[Any], kind: str = KEEP) -> Line:
    return Line(name, tuple(windows), {LISTS.name: tuple(expected)}, ("p", "name", kind))


AB = ["a", "b"]
LINES = [
    _line(
        "inner_missing_stays_in_place_with_null_payload",
        [[put("persons", _person(["a", "m", "b"])), _addresses(a=X, b=Y)]],
        [_rows(_list(("a", "x"), ("m", None), ("b", "y")))],
    ),
    _line(
        "inner_arrives_later_same_position_others_untouched",
        [[put("persons", _person(["a", "m", "b"])), _addresses(a=X, b=Y)], [_addresses(m=X)]],
        [_rows(_list(("a", "x"), ("m", None), ("b", "y"))), _rows(_list(("a", "x"), ("m", "x"), ("b", "y")))],
    ),
    _line(
        "inner_updated_in_every_outer_that_lists_it",
        [
            [put("persons", {"p": ["p", X, AB, None], "q": ["q", Y, ["b", "a", "b"], None]}), _addresses(a=X, b=X)],
            [_addresses(b=Y)],
        ],
        [
            [*_rows(_list(("a", "x"), ("b", "x"))), ("q", "y", _list(("b", "x"), ("a", "x"), ("b", "x")))],
            [*_rows(_list(("a", "x"), ("b", "y"))), ("q", "y", _list(("b", "y"), ("a", "x"), ("b", "y")))],
        ],
    ),
    _line(
        "inner_deleted_back_to_null_payload_same_position",
        [[put("persons", _person(AB)), _addresses(a=X, b=Y)], [_addresses(a=None)]],
        [_rows(_list(("a", "x"), ("b", "y"))), _rows(_list(("a", None), ("b", "y")))],
    ),
    _line(
        "inner_with_null_payload_is_matched",
        [[put("persons", _person(AB)), put("addresses", {"a": ["a", None]})]],
        [_rows([{"a": "a", "street": None, "rid": "a"}])],
        MATCHED,
    ),
    _line(
        "element_added",
        [[put("persons", _person(["a"])), _addresses(a=X, b=Y)], [put("persons", _person(["b", "a"]))]],
        [_rows(_list(("a", "x"))), _rows(_list(("b", "y"), ("a", "x")))],
    ),
    _line(
        "element_removed",
        [[put("persons", _person(AB)), _addresses(a=X, b=Y)], [put("persons", _person(["b"]))]],
        [_rows(_list(("a", "x"), ("b", "y"))), _rows(_list(("b", "y")))],
    ),
    _line(
        "list_reordered",
        [[put("persons", _person([*AB, "c"])), _addresses(a=X, b=Y)], [put("persons", _person(["c", "b", "a"]))]],
        [_rows(_list(("a", "x"), ("b", "y"), ("c", None))), _rows(_list(("c", None), ("b", "y"), ("a", "x")))],
    ),
    _line(
        "duplicate_ids_kept_with_their_positions",
        [[put("persons", _person(["a", "b", "a", "a"])), _addresses(a=X)]],
        [_rows(_list(("a", "x"), ("b", None), ("a", "x"), ("a", "x")))],
    ),
    _line(
        "duplicate_ids_dropped_keeping_the_first",
        [
            [put("persons", _person(["b", "a", "b", None, "a", None])), _addresses(a=X)],
            [put("persons", _person(["a", "b", "a"]))],
        ],
        [_rows(_list(("b", None), ("a", "x"), (None, None), (None, None))), _rows(_list(("a", "x"), ("b", None)))],
        DISTINCT,
    ),
    _line(
        "null_id_stays_as_unmatched_element",
        [[put("persons", _person([None, "a", None])), _addresses(a=X)], [put("addresses", {"n": [None, Y]})]],
        [_rows(_list((None, None), ("a", "x"), (None, None)))] * 2,
    ),
    _line(
        "list_emptied_row_stays_other_fields_current",
        [[put("persons", _person(AB)), _addresses(a=X)], [put("persons", _person([], Y))]],
        [_rows(_list(("a", "x"), ("b", None))), _rows([], "y")],
    ),
    _line(
        "list_null_stays_null_distinct_from_empty",
        [
            [put("persons", _person([])), _addresses(a=X)],
            [put("persons", _person(None))],
            [put("persons", _person([]))],
        ],
        [_rows([]), _rows(None), _rows([])],
    ),
    _line(
        "list_null_stays_null_when_unmatched_are_dropped",
        [[put("persons", _person(None))], [put("persons", _person(["z"]))], [put("persons", _person(None))]],
        [_rows(None), _rows([]), _rows(None)],
        MATCHED,
    ),
    _line(
        "other_fields_change_only",
        [[put("persons", _person(AB)), _addresses(a=X, b=Y)], [put("persons", _person(AB, Y))]],
        [_rows(_list(("a", "x"), ("b", "y"))), _rows(_list(("a", "x"), ("b", "y")), "y")],
    ),
    _line(
        "outer_deleted_then_inner_changes_no_resurrection",
        [
            [put("persons", _person(AB)), _addresses(a=X)],
            [put("persons", {"p": None})],
            [_addresses(a=Y, b=Y)],
        ],
        [_rows(_list(("a", "x"), ("b", None))), [], []],
    ),
    _line(
        "outer_deleted_and_inner_changes_in_one_window",
        [[put("persons", _person(AB)), _addresses(a=X)], [_addresses(a=Y, b=Y), put("persons", {"p": None})]],
        [_rows(_list(("a", "x"), ("b", None))), []],
    ),
    _line(
        "outer_deleted_then_inserted_has_its_new_list",
        [
            [put("persons", _person(AB)), _addresses(a=X, b=Y)],
            [put("persons", {"p": None}), put("persons", {"p2": ["p", Y, ["b"], None]})],
            [_addresses(a=Y)],
        ],
        [_rows(_list(("a", "x"), ("b", "y"))), _rows(_list(("b", "y")), "y"), _rows(_list(("b", "y")), "y")],
    ),
    _line(
        "inline_payload_follows_the_outer_record",
        [
            [put("persons", _person(None, X, [["a", 0, 1], ["b", 1, None]])), _addresses(a=X)],
            [put("persons", _person(None, X, [["a", 1, 2], ["b", 1, None]])), _addresses(b=Y)],
        ],
        [
            _rows(
                [
                    {"a": "a", "note": "n0", "n": 1, "street": "x", "rid": "a"},
                    {"a": "b", "note": "n1", "n": None, "street": None, "rid": None},
                ]
            ),
            _rows(
                [
                    {"a": "a", "note": "n1", "n": 2, "street": "x", "rid": "a"},
                    {"a": "b", "note": "n1", "n": None, "street": "y", "rid": "b"},
                ]
            ),
        ],
        STRUCTS,
    ),
    _line(
        "null_struct_gives_an_element_of_nulls",
        [[put("persons", _person(None, X, [None, [None, 0, 1]])), _addresses(a=X)]],
        [
            _rows(
                [
                    {"a": None, "note": None, "n": None, "street": None, "rid": None},
                    {"a": None, "note": "n0", "n": 1, "street": None, "rid": None},
                ]
            )
        ],
        STRUCTS,
    ),
    _line(
        "unmatched_drop_leaves_them_out_until_they_arrive",
        [[put("persons", _person(["m", "a", None, "m"])), _addresses(a=X)], [_addresses(m=Y)], [_addresses(a=None)]],
        [
            _rows(_list(("a", "x"))),
            _rows(_list(("m", "y"), ("a", "x"), ("m", "y"))),
            _rows(_list(("m", "y"), ("m", "y"))),
        ],
        MATCHED,
    ),
]


@pytest.fixture(scope="module")
def trial(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return play_lines(tmp_path_factory.mktemp("lists") / "p", WORLD, LINES, enrich_engine(interpreted))


def test_every_line_is_right(trial: Trial) -> None:
    wrong = {line.name: problems(trial, LINES, line) for line in LINES}
    assert {name: found for name, found in wrong.items() if found} == {}
