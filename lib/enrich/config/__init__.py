"""The project's files: models of jobs and settings, ``file:line`` errors, JSON Schemas. Never imports Spark or GX."""
