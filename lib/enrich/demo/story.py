"""The demo's script: scenario files, as users write them for ``enrich test``, and what the demo shows of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from enrich.base.errors import ConfigError
from enrich.config.project import Project
from enrich.diagnosis.answers import MATCHED
from enrich.testing.reader import read_scenario
from enrich.testing.scenario import Scenario

STORY = Path(__file__).parent / "story"

Row = tuple[Any, ...]
"""A target row as it is shown: one value a column, then the reason in sections that tell one."""


def list_names() -> list[str]:
    """Return the names of the sections, in order: ``consents`` for ``1_consents.yml``."""
    return [path.stem.partition("_")[2] for path in sorted(STORY.glob("*.yml"))]


def read_sections(project: Project, names: tuple[str, ...] = ()) -> list[Scenario]:
    """Return the sections of the story in order, or those named.

    Args:
        project: The demo's project, with all of its jobs.
        names: Names of sections; none: all.

    Raises:
        ConfigError: There is no section of that name.
    """
    known = list_names()
    for name in names:
        if name not in known:
            raise ConfigError(f"the demo has no section {name!r}", hint=f"its sections are {', '.join(known)}")
    files = sorted(STORY.glob("*.yml"))
    return [read_scenario(project, path) for path, name in zip(files, known, strict=True) if not names or name in names]


def job_of(section: Scenario) -> str:
    """Return the job whose target a section shows: the last one."""
    return section.jobs[-1]


def list_aliases(section: Scenario) -> list[str]:
    """Return the sources whose reasons a section tells; a row's reason is that of the first one without partner."""
    written = [result.why for each in section.rounds for job, result in each.results.items() if job == job_of(section)]
    return list(dict.fromkeys(name for rows in written if rows is not None for name in rows.columns[1:]))


def choose_reason(told: dict[str, str], aliases: list[str]) -> str:
    """Return a row's reason, of those of its sources."""
    return next((told[alias] for alias in aliases if told.get(alias, MATCHED) != MATCHED), MATCHED)


def list_columns(section: Scenario) -> list[str]:
    """Return the columns of the target that a section shows, as its first round writes them."""
    (expected,) = section.rounds[0].targets.values()
    return list(expected.whole.columns if expected.whole is not None else ())
