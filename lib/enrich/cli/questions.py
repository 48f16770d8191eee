"""The commands that ask about a job's rows and keys: ``why``, ``failing`` and ``doctor``."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any

import click
from click.core import ParameterSource

import enrich
from enrich.answers.doctor import format_checkup
from enrich.answers.reasons import format_answer, format_failing, format_keys
from enrich.cli.options import (
    add_option,
    add_place_options,
    add_show_keys_option,
    complete_jobs,
    load_chosen_project,
    output_option,
    refuse_stored_keys,
)
from enrich.cli.process import answer, log_to_stderr, say_failure, say_found

_NEAR_MISSES = "the keys of near misses"
_NEGATIVE = re.compile(r"-[.]?[0-9][0-9.eE+:T -]*")


class _TakesKey(click.Command):
    """A command with a key among its arguments, which may be a negative number: that is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; a word that begins like an option and is none is refused, as everywhere."""
        known = {name for param in self.get_params(ctx) for name in param.opts}
        given = [each for each in takewhile(lambda each: each != "--", args) if each.startswith("-")]
        ctx.ignore_unknown_options = all(_NEGATIVE.fullmatch(each) or each.partition("=")[0] in known for each in given)
        return super().parse_args(ctx, args)


@click.command(cls=_TakesKey, epilog="Example: enrich why consents_with_email user_4 email")
@click.argument("job", shell_complete=complete_jobs)
@click.argument("key", required=False, metavar="KEY")
@click.argument("column", required=False, metavar="[COLUMN]")
@add_option(
    "--key",
    "parts",
    multiple=True,
    metavar="NAME=VALUE",
    help="One column of a composite key, or of the key of a lookup-only row; repeat it for each column.",
)
@output_option
@add_show_keys_option(_NEAR_MISSES)
@add_place_options
def why(ctx: click.Context, /, *, job: str, output: str, show_keys: bool, **asked: Any) -> int:
    """Say why a row or a cell is as it is.

    KEY is the key of a target row, as text. A composite key is k1=v1,k2=v2; if its values contain commas or equal
    signs, use --key k1=v1 --key k2=v2. The answer is one word for the row, for each source and for each column;
    docs/diagnosis.md lists the words. No value is printed.
    """
    refuse_stored_keys(output, show_keys=show_keys)
    log_to_stderr("text", quiet=True)
    parts, key, column = asked["parts"], asked["key"], asked["column"]
    if parts and column is not None:
        raise click.UsageError("give the key either as KEY or with --key, not both")
    if not parts and key is None:
        raise click.UsageError("the key is missing: enrich why JOB KEY [COLUMN]")
    key, column = (list(parts), key) if parts else (key, column)

    def work() -> int:
        found = enrich.why(load_chosen_project(ctx), job, key, column, show_keys=show_keys)
        return say_found(output, found.to_dict(), format_answer(found, column))

    return answer(ctx, output, work)


@click.command(epilog="Example: enrich failing consents_with_email 0")
@click.argument("job", shell_complete=complete_jobs)
@click.argument("rule", type=click.IntRange(min=0), required=False, metavar="[RULE]")
@output_option
@add_show_keys_option("the keys of failing rows, at most 100 for each rule")
@add_place_options
def failing(ctx: click.Context, /, *, job: str, rule: int | None, output: str, show_keys: bool) -> int:
    """Say how many rows fail the rules, and why.

    Reads the whole target. RULE is the position of an expectation in the suite, from 0; without it, all expectations
    that judge each row by itself are shown. The reasons are those of `enrich why`. No value is printed.
    """
    refuse_stored_keys(output, show_keys=show_keys)
    log_to_stderr("text", quiet=True)

    def work() -> int:
        found = enrich.failing(load_chosen_project(ctx), job, rule, show_keys=show_keys)
        return say_found(output, found.to_dict(), format_failing(found))

    return answer(ctx, output, work)


@click.group(invoke_without_command=True, subcommand_metavar="[COMMAND]", epilog="Example: enrich --target prod doctor")
@output_option
@add_place_options
def doctor(ctx: click.Context, /, *, output: str) -> int:
    """Check machine, directories and tables, and say what repairs them.

    Java, Delta jars, class-data archive, memory, permissions, log store; and of the tables: change feeds, how long
    sources keep their past, which values the logs of targets show, and the shape of targets. Starts no JVM and writes
    nothing. Exit 0: no fault; 7: something is wrong with the machine; 2: with a table; 5: changes may be lost; 1:
    storage that cannot be read.
    """
    if ctx.invoked_subcommand is not None:
        if ctx.get_parameter_source("output") is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--output stands after the command: enrich doctor {ctx.invoked_subcommand} --output ..."
            )
        return 0
    log_to_stderr("text", quiet=True)

    def work() -> int:
        found = enrich.diagnose(load_chosen_project(ctx))
        say_found(output, found.to_dict(), format_checkup(found))
        for each in found.found:
            if each.exit_code:
                say_failure("; ".join(filter(None, (f"{each.about}: {each.message}", each.repair))), output=output)
        return found.exit_code

    return answer(ctx, output, work)


@doctor.command(epilog="Example: enrich doctor keys consents_with_email --join accounts")
@click.argument("job", shell_complete=complete_jobs)
@add_option("--join", metavar="ALIAS", help="Look at this lookup only.")
@output_option
@add_show_keys_option(_NEAR_MISSES)
@add_place_options
def keys(ctx: click.Context, /, *, job: str, join: str | None, output: str, show_keys: bool) -> int:
    """Count references that match no key, but nearly do.

    For each join: how many references have no partner; how many of them differ from a key only by case, white space,
    accents, invisible characters or leading zeros; and the lines for the job file that make most of them match.
    """
    refuse_stored_keys(output, show_keys=show_keys)
    log_to_stderr("text", quiet=True)

    def work() -> int:
        found = enrich.doctor_keys(load_chosen_project(ctx), job, join=join, show_keys=show_keys)
        return say_found(output, found.to_dict(), format_keys(found))

    return answer(ctx, output, work)
