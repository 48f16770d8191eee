"""Dumps: files with all or some rows of a table, read line by line, checked, and staged as typed Parquet; no JVM."""
