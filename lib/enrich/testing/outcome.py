"""Play scenarios, and tell people and continuous integration what came of them; the values told are the test's own."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from enrich.base.console import clean, format_count
from enrich.base.errors import ConfigError, Fault
from enrich.project.project import Project
from enrich.report.page import Case, CaseSuite, format_suites
from enrich.testing.compare import Mismatch
from enrich.testing.play import Played, get_session, play_round, set_stage
from enrich.testing.reader import read_scenario
from enrich.testing.scenario import Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("enrich.testing")


@dataclass(frozen=True)
class PlayedScenario:
    """One scenario that was played."""

    scenario: Scenario
    rounds: tuple[Played, ...]
    seconds: float

    @property
    def has_passed(self) -> bool:
        """True when nothing differs."""
        return not self.list_differences()

    def list_differences(self) -> list[Mismatch]:
        """Return what is not as expected, round by round."""
        return [difference for each in self.rounds for difference in each.differences]


def choose_scenarios(project: Project, paths: Collection[Path], texts: Collection[str]) -> list[Scenario]:
    """Read the scenarios that are asked for.

    Args:
        project: What ``load_project`` gave.
        paths: Files; none: all of ``tests/*.yml`` and ``tests/*.yaml``, by name.
        texts: Only scenarios whose file name or title contains one of these, in either case; none: all.

    Raises:
        ConfigError: A file is wrong, or there is no such scenario.
    """
    there = [path for ending in ("yml", "yaml") for path in project.dir.glob(f"tests/*.{ending}")]
    files = list(paths) or sorted(path for path in there if not path.name.startswith("."))
    if not files:
        raise ConfigError("there are no scenarios; write tests/<name>.yml", hint="docs/testing.md has an example")
    found: list[Scenario] = []
    faults: list[Fault] = []
    for path in files:
        try:
            found.append(read_scenario(project, path))
        except ConfigError as error:
            faults += error.faults
    if faults:  # those of all files at once
        raise ConfigError.of(faults)
    names = [f"{Path(each.file).name} {each.title}".casefold() for each in found]
    chosen = [
        each
        for each, name in zip(found, names, strict=True)
        if not texts or any(text.casefold() in name for text in texts)
    ]
    if not chosen:
        raise ConfigError(f"no scenario's file name or title contains {' or '.join(map(repr, texts))}")
    return chosen


def play_scenarios(
    project: Project, scenarios: Sequence[Scenario], spark: SparkSession | None = None
) -> Iterator[PlayedScenario]:
    """Play scenarios one after the other, each in a temporary directory of its own, and yield what came of each."""
    if spark is None:
        log.info("starting Spark, once for all scenarios")
    session = spark or get_session()
    for scenario in scenarios:
        log.info("playing %s", scenario.file)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="enrich-test-") as directory:
            stage = set_stage(project, scenario, Path(directory).resolve() / "lake", session)
            rounds = tuple(play_round(stage, scenario, each) for each in scenario.rounds)
        yield PlayedScenario(scenario, rounds, time.monotonic() - began)


# --- text ------------------------------------------------------------------------------------------------------------


def format_outcome(outcome: PlayedScenario) -> str:
    """Return one scenario for people: a line when it passed, else a line a round, and what differs.

    ```
    FAIL tests/products.yml: Products and their merchants (2 rounds, 5.1 s)
      ok   round 1: the first run
      FAIL round 2: a merchant is renamed
        tests/products.yml:41: products_with_merchant
          1 of 2 rows differ, aligned by product_id; cells between > and < differ
               expected                                | found
            != product_id=P1 merchant_name=>Cozy & Co< | product_id=P1 merchant_name=>Cozy Creations<
    ```
    """
    scenario = outcome.scenario
    mark = "ok  " if outcome.has_passed else "FAIL"
    took = f"({format_count(len(outcome.rounds), 'round')}, {outcome.seconds:.1f} s)"
    lines = [f"{mark} {scenario.file}: {scenario.title} {took}"]
    if not outcome.has_passed:
        for each in outcome.rounds:
            lines.append(f"  {'FAIL' if each.differences else 'ok  '} round {each.round.number}: {each.round.title}")
            lines += [indent(format_difference(scenario, one), "    ") for one in each.differences]
    return clean("\n".join(lines))


def format_difference(scenario: Scenario, difference: Mismatch) -> str:
    """Return what differs, below the place in the file where it is expected."""
    return f"{scenario.file}:{difference.line}: {difference.what}\n{indent(difference.text, '  ')}"


def format_end(outcomes: Sequence[PlayedScenario]) -> str:
    """Return the last line: how many scenarios passed."""
    failed = sum(not each.has_passed for each in outcomes)
    all_of_them = format_count(len(outcomes), "scenario")
    seconds = sum(each.seconds for each in outcomes)
    return f"{f'{failed} of {all_of_them} failed' if failed else f'{all_of_them} passed'} in {seconds:.1f} s"


# --- JUnit -----------------------------------------------------------------------------------------------------------


def format_junit(outcomes: Sequence[PlayedScenario]) -> str:
    """Return the outcomes as JUnit XML of ASCII characters: a suite for each scenario, a case for each round.

    Attributes and elements are those of Jenkins' schema (junit-10.xsd), as in ``enrich report --format junit``.
    """
    suites = []
    for outcome in outcomes:
        cases = []
        for each in outcome.rounds:
            case = Case(outcome.scenario.title, f"round {each.round.number}: {each.round.title}", each.seconds)
            if each.differences:
                told = "\n".join(format_difference(outcome.scenario, one) for one in each.differences)
                message = f"{each.differences[0].what}: not as expected"
                case = replace(case, end="failure", verdict="difference", message=message, told=told)
            cases.append(case)
        suites.append(CaseSuite(outcome.scenario.file, tuple(cases), outcome.seconds))
    return format_suites("enrich test", suites)
