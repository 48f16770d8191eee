"""``enrich init``: the files of a new project, or a first job for tables that exist."""

from enrich.scaffold.start import NEXT, write_project

__all__ = ["NEXT", "write_project"]
