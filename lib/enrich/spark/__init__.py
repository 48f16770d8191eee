"""The Spark that enrich starts or borrows: session, Java, Delta's jars, the directory for Spark's files."""
