"""Build sessions and their JVM; by these settings of a session, a run plans for as many rows as it is about."""

ADAPTIVE = "spark.sql.adaptive.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"
ADAPTIVE_BY_CHANGE = "spark.enrich.adaptiveByChange"
"""Says that a run shall plan adaptively only where many rows are affected: that makes a Spark job of every stage."""
