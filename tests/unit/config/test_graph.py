from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enrich.base.errors import ConfigError
from enrich.base.names import CatalogName
from enrich.project.project import connect, find_cycle, find_edges, sort_jobs


def job(name: str, *tables: str) -> str:
    sources = "".join(f"  s{number}: {{table: {table}, key: id}}\n" for number, table in enumerate(tables))
    joins = "".join(f"  s{number}: {{kind: table}}\n" for number in range(1, len(tables)))
    return (
        f"job: {name}\nsources:\n{sources}from: s0\n"
        + (f"join:\n{joins}" if joins else "")
        + f"target: {{table: {name}}}\n"
    )


@pytest.fixture
def project(load):
    """``e`` and ``d`` feed ``c``, which feeds ``b``, which feeds ``a``; ``f`` stands alone."""
    return load(
        {
            "jobs/mails.yml": None,
            "jobs/orders.yml": None,
            "jobs/a.yml": job("a", "./lake/b", "raw"),
            "jobs/b.yml": job("b", "c"),
            "jobs/c.yml": job("c", "e", "d", "raw"),
            "jobs/d.yml": job("d", "raw"),
            "jobs/e.yml": job("e", "raw"),
            "jobs/f.yml": job("f", "b__quarantine_of_old"),
        }
    )


def test_all_jobs_in_order(project) -> None:
    assert sort_jobs(project.jobs, project) == ["d", "e", "c", "b", "a", "f"]


def test_a_choice_keeps_the_order_of_what_lies_between(project) -> None:
    assert sort_jobs(["a", "e", "f"], project) == ["e", "a", "f"]
    assert sort_jobs([], project) == []


def test_neighbours(project) -> None:
    assert find_edges(project) == {
        "a": ("b",),
        "b": ("c",),
        "c": ("d", "e"),
        "d": (),
        "e": (),
        "f": (),
    }


def test_who_reads_a_quarantine_waits_for_its_job(load) -> None:
    project = load({"jobs/a.yml": job("a", "z__quarantine"), "jobs/z.yml": job("z", "raw")})
    assert find_edges(project)["a"] == ("z",)
    assert sort_jobs(["a", "z"], project) == ["z", "a"]


def test_a_cycle_raises(project) -> None:
    project.jobs["d"].sources["s0"] = project.jobs["b"].sources["s0"].model_copy(update={"table": "b"})
    with pytest.raises(
        ConfigError, match=r"jobs/b\.yml:2: jobs read each other in a circle: b -> d -> c -> b;"
    ) as caught:
        sort_jobs(["f"], project)
    assert caught.value.exit_code == 2


def test_catalog_names_have_no_case() -> None:
    targets = {"a": CatalogName(("main", "x", "T")), "b": CatalogName(("main", "x", "u"))}
    sources = {"a": [CatalogName(("main", "x", "raw"))], "b": [CatalogName(("MAIN", "X", "t"))]}
    assert connect(targets, sources) == {"a": (), "b": ("a",)}


EDGES = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef")))


@given(edges=EDGES)
def test_a_cycle_is_found_when_there_is_one(edges: dict[str, set[str]]) -> None:
    graph = {name: tuple(sorted(edges.get(name, set()) - {name})) for name in "abcdef"}
    cycle = find_cycle(graph)
    waiting = {name: set(read) for name, read in graph.items()}
    while ready := [name for name, read in waiting.items() if not read & waiting.keys()]:
        for name in ready:
            del waiting[name]
    assert (cycle is not None) == bool(waiting)
    if cycle is not None:
        assert cycle[0] == cycle[-1] == min(cycle)
        assert len(set(cycle)) == len(cycle) - 1
        assert all(before in graph[after] for before, after in pairwise(cycle))
