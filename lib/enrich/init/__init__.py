"""``enrich init``: the files of a new project, or a first job for tables that exist."""
