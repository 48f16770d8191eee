import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kit.sampling import choose_tests


def item(module: str, name: str, *marks: Any, always: bool = False) -> Any:
    """Return what pytest would have collected; ``marks`` are the marker's arguments, None for no marker."""
    mark = None if marks == (None,) else SimpleNamespace(args=marks)
    found = {"sampled": mark, "always": SimpleNamespace(args=()) if always else None}
    function = name.split("[", maxsplit=1)[0]
    return SimpleNamespace(
        nodeid=f"{module}::{name}",
        name=name,
        originalname=function,
        path=Path(module),
        get_closest_marker=found.__getitem__,
    )


ITEMS = [
    item("test_a.py", "test_1[x]"),
    item("test_a.py", "test_1[y]"),
    item("test_a.py", "test_2"),
    item("test_b.py", "test_always", None),
    item("test_e.py", "test_kept", always=True),
    item("test_c.py", "test_cells", "tables"),
    item("test_c.py", "test_lines", "tables"),
    item("test_d.py", "test_cells", "tables"),
    *(item("test_e.py", f"test_{number}") for number in range(6)),
]
SEEDS = range(4, 10)


def played(seed: int) -> set[str]:
    chosen, left_out = choose_tests(ITEMS, seed)
    assert sorted(each.nodeid for each in chosen + left_out) == sorted(each.nodeid for each in ITEMS)
    return {each.nodeid for each in chosen}


def test_six_seeds_in_a_row_play_each_test_and_each_of_them_one_of_each_module_or_pool() -> None:
    parts = [played(seed) for seed in SEEDS]
    assert set.union(*parts) == {each.nodeid for each in ITEMS}
    for part in parts:
        assert {nodeid.split("::")[0] for nodeid in part} >= {"test_a.py", "test_b.py", "test_e.py"}
        assert sum(nodeid.startswith("test_e.py") for nodeid in part) == 2
        assert {"test_b.py::test_always", "test_e.py::test_kept"} <= part
        assert sum(nodeid.endswith("::test_cells") for nodeid in part) == 1


def test_of_fewer_than_six_each_is_played_as_often_as_the_others() -> None:
    for one, other in itertools.pairwise(played(seed) for seed in SEEDS):
        assert {each for each in one & other if each.startswith(("test_a", "test_c", "test_d"))} == set()


def test_cases_of_a_function_and_functions_of_a_module_in_a_pool_go_together() -> None:
    for found in map(played, SEEDS):
        assert ("test_a.py::test_1[x]" in found) == ("test_a.py::test_1[y]" in found)
        assert ("test_c.py::test_cells" in found) == ("test_c.py::test_lines" in found)
