"""The rows that a run has computed, whatever kind of job it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from enrich.base.result import Counts, Finding, Lookup


@dataclass(frozen=True)
class Rows:
    """The affected rows, computed anew.

    Attributes:
        frame: The identity's columns, ``LIVE``, one ``name_partners`` a join, and the target's columns; kept, unless
            it is cheaper to compute them again.
        counts: Affected keys and nulls in references.
        findings: Conflicting mirror values.
        lookups: Alias -> how its join went; empty for mirrors.
        values: A mirror's values, and those with several holders.
        tally: What ``mark_rows`` counts, over the live rows; empty where they are not the whole target.
    """

    frame: DataFrame
    counts: Counts
    findings: tuple[Finding, ...] = ()
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    values: tuple[int, int] = (0, 0)
    tally: Mapping[str, int] = field(default_factory=dict)
