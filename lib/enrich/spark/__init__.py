"""Build sessions and their JVM; of a session, a run only reads whether it may plan adaptively by itself."""

ADAPTIVE = "spark.sql.adaptive.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"
ADAPTIVE_BY_CHANGE = "spark.enrich.adaptiveByChange"
"""Says that a run shall plan adaptively only where many rows are affected: that makes a Spark job of every stage."""
