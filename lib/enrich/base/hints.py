"""Build the commands that messages propose: whole, quoted, and for the project and deployment of this call.

A message puts what a builder returns into backticks. It can be pasted as it is, and it leads on: what was asked for and
still matters is in it again, or the next refusal would ask for it and lead back.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from enrich.base.context import command
from enrich.base.errors import spell_size


@dataclass(frozen=True)
class RunOptions:
    """What a run was asked for, as far as another command for one of its jobs has to ask for it again."""

    full_refresh: bool = False
    since: str | None = None  # as on the command line; None where it was not given
    until: str | None = None  # the same
    allow_gap: bool = False
    accept: tuple[str, ...] = ()  # names of rules
    max_bytes: int | None = None

    def accepting(self, rules: Iterable[str]) -> RunOptions:
        """Return these options with further rules accepted."""
        return replace(self, accept=tuple(dict.fromkeys((*self.accept, *rules))))


NO_OPTIONS = RunOptions()
FULL_REFRESH = RunOptions(full_refresh=True)


def _spell(*words: str | int | None) -> str:
    """Return a command for the project and the deployment that this process was called for."""
    return shlex.join([*command.get(), *(str(word) for word in words if word is not None)])


def run(job: str | None = None, options: RunOptions = NO_OPTIONS) -> str:
    """Run a job, or all."""
    words = ["--full-refresh"] * options.full_refresh + ["--allow-gap"] * options.allow_gap
    words += ["--since", options.since] if options.since is not None else []
    words += ["--until", options.until] if options.until is not None else []
    words += ["--max-bytes", spell_size(options.max_bytes)] if options.max_bytes is not None else []
    return _spell("run", job, *words, *(word for rule in options.accept for word in ("--accept", rule)))


def repair(job: str) -> str:
    """Compare a target with what its job gives, and write the difference."""
    return _spell("verify", job, "--repair")


refresh = partial(run, options=FULL_REFRESH)
verify = partial(_spell, "verify")
plan = partial(_spell, "plan")
diff = partial(_spell, "diff")
why = partial(_spell, "why")  # the words after the job are the key, and the column if one is meant
failing = partial(_spell, "failing")
test = partial(_spell, "test")
list_jobs = partial(_spell, "ls")
validate = partial(_spell, "validate")
doctor = partial(_spell, "doctor")
report = partial(_spell, "report")
maintain = partial(_spell, "maintain")
init_from = partial(_spell, "init", "--from")


def init(directory: str | None = None) -> str:
    """Write a project: with a directory there, and otherwise where this call has looked for one."""
    return _spell("init") if directory is None else shlex.join(["enrich", "init", directory])


def demo(directory: str) -> str:
    """Play the demo in a directory."""
    return shlex.join(["enrich", "demo", directory])
