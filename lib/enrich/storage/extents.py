"""How much tables hold, and how much commits added, as their logs say."""

from __future__ import annotations

from enrich.base.result import Extent
from enrich.storage.tables import actions, exists, open_log


def measure_table(uri: str) -> Extent:
    """Count the files, and their bytes, that a table has at its latest version; none where there is no table yet."""
    if not exists(uri):
        return Extent()
    sizes = open_log(uri).get_add_actions(flatten=True).column("size_bytes").to_pylist()
    return Extent(len(sizes), sum(filter(None, sizes)))


def measure_commit(uri: str, version: int, *, as_feed: bool = False) -> Extent:
    """Count the files that a commit added; as a feed, the files that tell what it changed.

    Nothing where the log does not hold the commit (any more).
    """
    found = actions(uri, version) or []
    told = [each["cdc"] for each in found if "cdc" in each]
    if not as_feed:
        told += [each["add"] for each in found if "add" in each]
    elif not told:
        told = [each[kind] for each in found for kind in ("add", "remove") if kind in each]
    return Extent(len(told), sum(each.get("size") or 0 for each in told))
