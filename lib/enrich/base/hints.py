"""The commands that messages propose, a builder each: whole, quoted, and for the project and deployment of this call.

A message puts what a builder returns into backticks. It can be pasted as it is, and it leads on: what was asked for and
still matters is in it again, or the next refusal would ask for it and lead back.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

from enrich.base.context import begin_command


@dataclass(frozen=True)
class RunOptions:
    """What a run was asked for, as far as another command for one of its jobs has to ask for it again.

    Attributes:
        since: As on the command line; None where it was not given.
        until: The same.
        accept: Names of rules.
    """

    full_refresh: bool = False
    since: str | None = None
    until: str | None = None
    allow_gap: bool = False
    retry_quarantined: bool = False
    accept: tuple[str, ...] = ()

    def accepting(self, rules: Iterable[str]) -> RunOptions:
        """Return these options with further rules accepted."""
        return replace(self, accept=tuple(dict.fromkeys((*self.accept, *rules))))

    def spell(self) -> list[str]:
        """Return the words on the command line."""
        return [
            *(["--full-refresh"] if self.full_refresh else []),
            *(["--since", self.since] if self.since is not None else []),
            *(["--until", self.until] if self.until is not None else []),
            *(["--allow-gap"] if self.allow_gap else []),
            *(["--retry-quarantined"] if self.retry_quarantined else []),
            *[word for rule in self.accept for word in ("--accept", rule)],
        ]


NO_OPTIONS = RunOptions()
FULL_REFRESH = RunOptions(full_refresh=True)


def run(job: str | None = None, options: RunOptions = NO_OPTIONS) -> str:
    """Run a job, or all."""
    return _spell("run", *_name(job), *options.spell())


def refresh(job: str) -> str:
    """Compute all rows of a job anew."""
    return run(job, FULL_REFRESH)


def plan(job: str) -> str:
    """Say what a run would do."""
    return _spell("plan", job)


def verify(job: str) -> str:
    """Compare a target with what its job gives."""
    return _spell("verify", job)


def repair(job: str) -> str:
    """Compare a target with what its job gives, and write the difference."""
    return _spell("verify", job, "--repair")


def why(job: str, *words: str) -> str:
    """Ask why a row or a cell is as it is; the words are the key, and the column if one is meant."""
    return _spell("why", job, *words)


def failing(job: str, rule: int | None = None) -> str:
    """Ask which rows fail, and why."""
    return _spell("failing", job, *([] if rule is None else [str(rule)]))


def test(file: str) -> str:
    """Play one scenario."""
    return _spell("test", file)


def list_jobs() -> str:
    """List the jobs."""
    return _spell("ls")


def validate() -> str:
    """Check files and tables."""
    return _spell("validate")


def doctor() -> str:
    """Check machine and tables."""
    return _spell("doctor")


def report(job: str | None = None) -> str:
    """Show what targets hold and what runs found."""
    return _spell("report", *_name(job))


def maintain(job: str | None = None) -> str:
    """Put files together, and remove those that nobody needs."""
    return _spell("maintain", *_name(job))


def init(directory: str | None = None) -> str:
    """Write a project: with a directory there, and otherwise where this call has looked for one."""
    return _spell("init") if directory is None else shlex.join(["enrich", "init", directory])


def demo(directory: str) -> str:
    """Play the demo in a directory."""
    return shlex.join(["enrich", "demo", directory])


def _spell(*words: str) -> str:
    """Return a command for the project and the deployment that this process was called for."""
    return f"{begin_command()} {shlex.join(words)}"


def _name(job: str | None) -> list[str]:
    return [] if job is None else [job]
