import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kit.sampling import choose_tests


def item(module: str, name: str, *marks: Any) -> Any:
    """Return what pytest would have collected; ``marks`` are the marker's arguments, None for no marker."""
    mark = None if marks == (None,) else SimpleNamespace(args=marks)
    function = name.split("[", maxsplit=1)[0]
    return SimpleNamespace(
        nodeid=f"{module}::{name}",
        name=name,
        originalname=function,
        path=Path(module),
        get_closest_marker=lambda _: mark,
    )


ITEMS = [
    item("test_a.py", "test_1[x]"),
    item("test_a.py", "test_1[y]"),
    item("test_a.py", "test_2"),
    item("test_b.py", "test_always", None),
    item("test_c.py", "test_cells", "tables"),
    item("test_c.py", "test_lines", "tables"),
    item("test_d.py", "test_cells", "tables"),
]


def played(seed: int) -> set[str]:
    chosen, left_out = choose_tests(ITEMS, seed)
    assert sorted(each.nodeid for each in chosen + left_out) == sorted(each.nodeid for each in ITEMS)
    return {each.nodeid for each in chosen}


def test_three_seeds_in_a_row_play_each_test_once() -> None:
    parts = [played(seed) for seed in (4, 5, 6)]
    assert set.union(*parts) == {each.nodeid for each in ITEMS}
    for one, other in itertools.combinations(parts, 2):
        assert one & other == {"test_b.py::test_always"}


def test_cases_of_a_function_and_functions_of_a_module_in_a_pool_go_together() -> None:
    for found in (played(4), played(5), played(6)):
        assert ("test_a.py::test_1[x]" in found) == ("test_a.py::test_1[y]" in found)
        assert ("test_c.py::test_cells" in found) == ("test_c.py::test_lines" in found)
