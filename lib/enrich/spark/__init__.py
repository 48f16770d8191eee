"""Read of a session what decides how a run works; all else that is here builds sessions, and no run needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADAPTIVE = "spark.sql.adaptive.enabled"
ADAPTIVE_BY_CHANGE = "spark.enrich.adaptiveByChange"
"""Says that a run shall plan adaptively only where many rows are affected: that makes a Spark job of every stage."""


def adapts_to_change(session: SparkSession) -> bool:
    """Tell whether runs shall choose adaptive execution by themselves, and nobody has switched it off."""
    return session.conf.get(ADAPTIVE_BY_CHANGE, "false") == "true" and session.conf.get(ADAPTIVE, "true") == "true"
