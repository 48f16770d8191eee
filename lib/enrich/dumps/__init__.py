"""Bring tables up to dumps: files with all or some rows, read line by line, checked, staged without a JVM, merged."""
