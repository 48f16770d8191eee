"""Sources with columns that are called like those of enrich, Delta and Spark: as keys, as values, and unused."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

import enrich
from enrich.base.errors import ConfigError
from kit.lab import Lab

TEXT, NUMBER = pa.string(), pa.int64()
ODD = (
    "_metadata",
    "_row_id_",
    "_file_name_",
    "rowIndexCol",
    "__enrich_weight",
    "__ENRICH_commit",
    "__enrich_image1",
    "a.b",
)
SELECT = "select: {id: o.id, m: o._metadata, r: o._row_id_, f: o._file_name_, i: o.rowIndexCol, w: o.__enrich_weight, \
c: o.__ENRICH_commit, g: o.__enrich_image1, d: 'o.`a.b`'}\n"
JOBS = {
    "plain": "sources: {o: {table: odd, key: id}}\nfrom: o\n" + SELECT,
    "unused": "sources: {o: {table: odd, key: id}}\nfrom: o\nselect: {id: o.id}\n",
    "lookup": "sources: {v: {table: visits, key: id}, k: {table: keyed, key: __enrich_k0}}\nfrom: v\n"
    "join: {k: {kind: foreign_key, on: v.k, how: full}}\nselect: {id: v.id, k: k.__enrich_k0, x: k._metadata}\n",
    "lists": "sources: {v: {table: visits, key: id}, k: {table: keyed, key: __enrich_k0}}\nfrom: v\n"
    "join: {k: {kind: list, elements: v.ks}}\nselect: {id: v.id, items: k}\n",
    "near": "sources: {v: {table: visits, key: id}, k: {table: keyed, key: __enrich_k0}}\nfrom: v\n"
    "join: {k: {kind: interval, on: v.k, match: __enrich_k0, at: v.at, time: __enrich_time, between: [-5, 5]}}\n"
    "select: {id: v.id, k: k.__enrich_k0, x: k._metadata}\n",
    "mirror": "kind: mirror\nsources: {k: {table: keyed, key: [__enrich_k0, v]}}\nfrom: k\n"
    "mirror: {value: [v], conflict: collect}\n",
    "last": "kind: mirror\nsources: {o: {table: odd, key: id}}\nfrom: o\n"
    "mirror: {value: [rowIndexCol], conflict: last, order: __enrich_weight}\n",
    "past": "kind: history\nsources: {o: {table: odd, key: id}}\nfrom: o\n"
    "history: {columns: [_metadata, rowIndexCol, a.b]}\n",
}


def odd(number: int, text: str) -> dict[str, Any]:
    return {"id": number, **{name: f"{text}{i}" for i, name in enumerate(ODD)}}


def keyed(key: int, text: str) -> dict[str, Any]:
    return {"__enrich_k0": key, "v": text, "_metadata": text, "__enrich_time": key, "_row_dropped_": "unused"}


def test_such_columns_work_for_ever(lab: Lab) -> None:
    lab.table("odd", "id", {"id": NUMBER, **dict.fromkeys(ODD, TEXT)}, [odd(1, "a"), odd(2, "b")])
    kinds = {"__enrich_k0": NUMBER, "v": TEXT, "_metadata": TEXT, "__enrich_time": NUMBER, "_row_dropped_": TEXT}
    lab.table("keyed", "__enrich_k0", kinds, [keyed(1, "x"), keyed(2, "x")])
    visits = [{"id": i, "k": i, "ks": [i, 2], "at": i} for i in (1, 2, 3)]
    lab.table("visits", "id", {"id": NUMBER, "k": NUMBER, "ks": pa.list_(NUMBER), "at": NUMBER}, visits)
    for name, text in JOBS.items():
        lab.job(f"job: {name}\n{text}target: {{table: {name}}}\n")
    assert {each.job: each.error for each in lab.run_all().jobs if each.status != "created"} == {}
    lab.put("odd", odd(1, "d"), odd(3, "d"))
    lab.drop("odd", "id = 2")
    lab.put("keyed", keyed(2, "d"), keyed(4, "d"))
    lab.drop("keyed", "__enrich_k0 = 1")
    found = {each.job: (each.status, each.error) for each in lab.run_all().jobs}
    assert {name for name, (_, error) in found.items() if error} == set(), found
    assert [tuple(row.values()) for row in lab.rows("plain")] == [
        (n, *[f"d{i}" for i in range(len(ODD))]) for n in (1, 3)
    ]
    assert lab.rows("lookup") == [
        {"id": 1, "k": None, "x": None},
        {"id": 2, "k": 2, "x": "d"},
        {"id": 3, "k": None, "x": None},
        {"id": None, "k": 4, "x": "d"},
    ]
    assert [row["keys"] for row in lab.rows("mirror")] == [[{"__enrich_k0": n, "v": "d"} for n in (2, 4)]]
    assert [(row["rowIndexCol"], row["id"]) for row in lab.rows("last")] == [("d3", 3)]
    current = [row for row in lab.rows("past") if row["valid_to"] is None]
    assert [(row["id"], row["_metadata"], row["a.b"]) for row in current] == [(1, "d0", "d7"), (3, "d0", "d7")]
    project = enrich.load_project(lab.home)
    checked = enrich.verify(project, ["lists", "near"], spark=lab.spark)
    assert {each.status for each in checked.jobs} == {"equal"}
    told = enrich.why(project, "lookup", "1", spark=lab.spark)
    assert told.lookups["k"].reason == "deleted_at", told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from: o\n", r"'_row_id_' is a column of Delta's MERGE; select it under another name"),
        ("from: o\nselect: {id: o.id, _Row_Dropped_: o._metadata}\n", r"'_Row_Dropped_' is a column of Delta's MERGE"),
        ("from: o\nselect: {id: o.id, __Enrich_x: o._metadata}\n", r"'__Enrich_x' cannot be a target column"),
        (
            "kind: history\nfrom: o\nhistory: {columns: [_row_id_]}\n",
            r"'_row_id_' is a column of Delta's MERGE",
        ),
    ],
)
def test_a_target_that_a_merge_cannot_carry_is_refused(lab: Lab, text: str, said: str) -> None:
    lab.table("odd", "id", {"id": NUMBER, "_metadata": TEXT, "_row_id_": TEXT}, [])
    lab.job(f"job: j\nsources: {{o: {{table: odd, key: id}}}}\n{text}target: {{table: t}}\n")
    try:
        (done,) = enrich.run(enrich.load_project(lab.home), spark=lab.spark).jobs
        told = str(done.error)
    except ConfigError as error:  # what the file alone shows
        told = str(error)
    assert re.search(said, told), told
    assert "j.yml:" in told
    assert not lab.exists("t")
