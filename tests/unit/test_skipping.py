"""The values of its log between which a table is looked into."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from enrich.base.spec import Range
from enrich.delta import extents
from enrich.delta.extents import find_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = ((0, 9), (20, 29), (40, 49))


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Give a function that writes a table in three files, whose keys are made of numbers."""
    monkeypatch.setattr(extents, "SMALL_TABLE", -1)

    def write(kind: pa.DataType, make: Callable[[int], Any], **how: Any) -> str:
        for ends in FILES:
            rows = pa.table({"k": pa.array([make(end) for end in ends], kind), "v": pa.array(ends, pa.int64())})
            write_deltalake(str(tmp_path / "t"), rows, mode="append", **how)
        return str(tmp_path / "t")

    return write


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((22, 23), (20, 29)),
        ((20, 29), (20, 29)),
        ((5, 12), (0, 20)),
        ((12, 12), (9, 20)),
        ((-5, -3), (None, 0)),
        ((60, 61), (49, None)),
        ((9, 9), (9, 9)),
    ],
)
def test_a_range_is_whole_between_the_nearest_values(
    write: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    ends: tuple[int, int],
    expected: tuple[int | None, int | None],
) -> None:
    monkeypatch.setattr(extents, "WORTH", 0.0)
    uri = write(pa.int64(), int)
    assert find_bounds(uri, {"k": Range(*ends)}) == {"k": Range(*expected)}


@pytest.mark.parametrize("ends", [(5, 25), (25, 45), (0, 49), (-1, 50)], ids=str)
def test_nothing_is_bounded_where_few_files_are_skipped(write: Callable[..., str], ends: tuple[int, int]) -> None:
    assert find_bounds(write(pa.int64(), int), {"k": Range(*ends)}) == {}


def test_files_that_some_column_excludes_are_skipped(write: Callable[..., str]) -> None:
    uri = write(pa.int64(), int)
    assert find_bounds(uri, {"k": Range(5, 25), "v": Range(25, 45)}) == {"k": Range(0, 29), "v": Range(20, 49)}


def test_days_have_bounds(write: Callable[..., str]) -> None:
    uri = write(pa.date32(), lambda number: date(1970, 1, 1) + timedelta(number))
    assert find_bounds(uri, {"k": Range(22, 23, is_day=True)}) == {"k": Range(20, 29, is_day=True)}


def test_decimals_have_bounds(write: Callable[..., str]) -> None:
    uri = write(pa.decimal128(9, 2), lambda number: Decimal(number) / 4)
    found = find_bounds(uri, {"k": Range(Decimal("5.25"), Decimal("5.50"))})
    assert found == {"k": Range(Decimal("5.00"), Decimal("7.25"))}


def test_other_kinds_small_tables_and_unknown_columns_have_none(
    write: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = write(pa.string(), str)
    assert find_bounds(uri, {"k": Range(22, 23)}) == {}
    assert find_bounds(uri, {"no": Range(22, 23)}) == {}
    assert find_bounds(uri, {"v": Range(22, 23)})
    monkeypatch.setattr(extents, "SMALL_TABLE", 2**20)
    assert find_bounds(uri, {"v": Range(22, 23)}) == {}


def test_a_file_without_values_is_never_outside(write: Callable[..., str]) -> None:
    uri = write(pa.int64(), int)
    assert find_bounds(uri, {"k": Range(60, 61)}) == {"k": Range(49, None)}
    texts = pa.array([str(number) for number in range(10_000)])
    without = pa.table({"k": pa.nulls(10_000, pa.int64()), "v": pa.nulls(10_000, pa.int64()), "text": texts})
    write_deltalake(uri, without, mode="append", schema_mode="merge")
    assert find_bounds(uri, {"k": Range(60, 61)}) == {}, "less than half of the bytes is skipped"


def test_a_feed_tells_between_which_keys_it_lies_and_a_footer_what_columns_weigh(tmp_path: Path) -> None:
    uri, wide = str(tmp_path / "t"), "x" * 50
    schema = pa.schema([("k", pa.int64()), ("a.b", pa.string()), ("text", pa.string())])
    DeltaTable.create(uri, schema, configuration={"delta.enableChangeDataFeed": "true"})
    for start in (0, 1000, 2000):
        rows = [{"k": start + i, "a.b": str(i), "text": f"{i}{wide}{i * 7919}"} for i in range(1000)]
        write_deltalake(uri, pa.Table.from_pylist(rows, schema=schema), mode="append")
    assert extents.find_ends(uri, [2], "k") == (1000, 1999), "as the log has it"
    DeltaTable(uri).update({"text": "'new'"}, predicate="k IN (1005, 1007)")
    assert extents.find_ends(uri, [4], "k") == (1005, 1007), "as the footer has it"
    assert extents.find_ends(uri, [2, 4], "k") == (1000, 1999)
    assert extents.find_ends(uri, [4], "text") is None, "no whole numbers"
    assert extents.find_ends(uri, [], "k") is None
    assert extents.find_ends(uri, [4], "other") is None
    assert extents.measure_near(uri, "k", (1005, 2000)).files == 2
    assert extents.measure_near(uri, "text", (0, 1)) == extents.measure_table(uri)
    shares = [extents.find_share(uri, [name]) for name in ("k", "a.b", "text")]
    assert sum(shares) == pytest.approx(1)
    assert shares[2] > shares[1] > 0
    for file in Path(uri).rglob("*.parquet"):
        file.write_bytes(b"no Parquet")
    assert extents.find_share(uri, ["k"]) == 1.0, "all of it, where nobody knows"
    assert extents.find_ends(uri, [4], "k") is None
