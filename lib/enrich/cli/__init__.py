"""Offer the command line: thin click commands over ``enrich.project`` and ``enrich.operations``.

Nothing here imports pyspark, Great Expectations or deltalake at module level: ``enrich ls`` and a run that finds
nothing to do must be back within a second.
"""

from __future__ import annotations

import sys

import enrich
from enrich.base.errors import EnvironmentFault
from enrich.cli.commands import cli as cli
from enrich.cli.process import report_error


def main() -> None:
    """Run the command line and end the process with its exit code (``docs/operations.md``)."""
    if not hasattr(enrich, "load_project"):
        # The package's first file is not ours: docs/adr/0018-distribution.md.
        clash = EnvironmentFault(
            "another distribution, called 'enrich', has overwritten or removed the file enrich/__init__.py of"
            " enrich-delta",
            hint="run `pip uninstall enrich` and then `pip install --force-reinstall --no-deps enrich-delta`",
        )
        sys.exit(report_error(clash))
    cli.main(prog_name="enrich")
