"""The commands that ask about a job's rows and keys: ``why`` and ``doctor``."""

from __future__ import annotations

from typing import Any

import click

from enrich.cli.options import option, output_option, place, project_of, refuse_stored_keys, show_keys_option
from enrich.cli.process import log_to_stderr, say_result
from enrich.cli.results import json_line

_NEAR_MISSES = "the keys of near misses"


@click.command(epilog="Example: enrich why consents_with_email user_4 email")
@click.argument("job")
@click.argument("key", required=False, metavar="KEY")
@click.argument("column", required=False, metavar="[COLUMN]")
@option(
    "--key",
    "parts",
    multiple=True,
    metavar="NAME=VALUE",
    help="One column of a composite key, or of the key of a row that only a lookup has; once for each.",
)
@output_option
@show_keys_option(_NEAR_MISSES)
@place
@click.pass_context
def why(ctx: click.Context, /, *, job: str, output: str, show_keys: bool, **asked: Any) -> int:
    """Say why a row, or one of its cells, is as it is.

    KEY is the target's key as text; a composite one is k1=v1,k2=v2, or --key k1=v1 --key k2=v2 where values hold
    commas. The answer is one word for the row, for each source and for each column: docs/diagnosis.md. No value is
    printed.
    """
    from enrich import why as ask
    from enrich.diagnosis.text import why_text

    refuse_stored_keys(output, show_keys=show_keys)
    log_to_stderr("text", quiet=True)
    parts, key, column = asked["parts"], asked["key"], asked["column"]
    if parts and column is not None:
        raise click.UsageError("give the key as KEY or as --key, not both")
    if not parts and key is None:
        raise click.UsageError("give a key: enrich why JOB KEY [COLUMN]")
    key, column = (list(parts), key) if parts else (key, column)
    answer = ask(project_of(ctx), job, key, column, show_keys=show_keys)
    say_result(json_line(answer.to_dict()) if output == "json" else why_text(answer, column))
    return 0


@click.group(epilog="Example: enrich doctor keys consents_with_email")
def doctor() -> None:
    """Look for what is wrong, and say what heals it."""


@doctor.command(epilog="Example: enrich doctor keys consents_with_email --join accounts")
@click.argument("job")
@option("--join", metavar="ALIAS", help="Only this lookup.")
@output_option
@show_keys_option(_NEAR_MISSES)
@place
@click.pass_context
def keys(ctx: click.Context, /, *, job: str, join: str | None, output: str, show_keys: bool) -> int:
    """Count keys without a partner that nearly match.

    For each join: how many references have no partner, how many of them differ from a key by case, blanks, accents,
    invisible characters or leading zeros, and the lines of the job file that would heal most of them.
    """
    from enrich import doctor_keys
    from enrich.diagnosis.text import keys_text

    refuse_stored_keys(output, show_keys=show_keys)
    log_to_stderr("text", quiet=True)
    report = doctor_keys(project_of(ctx), job, join=join, show_keys=show_keys)
    say_result(json_line(report.to_dict()) if output == "json" else keys_text(report))
    return 0
