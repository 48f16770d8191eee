"""The command line: thin click commands over ``enrich.config`` and ``enrich.operations.runner``.

Nothing here imports pyspark, Great Expectations or deltalake at module level: ``enrich ls`` and a run that finds
nothing to do must be back within a second.
"""

from __future__ import annotations

from enrich.cli.commands import cli
from enrich.cli.questions import doctor, failing, why
from enrich.cli.scenarios import play_tests

cli.add_command(failing)
cli.add_command(why)
cli.add_command(doctor)
cli.add_command(play_tests)


def main() -> None:
    """Run the command line and end the process with its exit code (``docs/operations.md``)."""
    cli.main(prog_name="enrich")


__all__ = ["cli", "main"]
