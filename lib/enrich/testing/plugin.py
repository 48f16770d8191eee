"""Plug into pytest: collect scenario files when asked to, and give fixtures to tests in Python.

pytest loads it by itself, in every project that is tested where enrich is installed. So it imports neither Spark nor
Delta, and does nothing unless it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.testing.lake import Lake

_SETTING = "enrich_scenarios"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what asks for scenarios."""
    help_text = "collect the scenarios of enrich projects: tests/*.yml beside jobs/ and conf/"
    parser.getgroup("enrich").addoption("--enrich", action="store_true", help=help_text)
    parser.addini(_SETTING, help_text, type="bool", default=False)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a scenario file: one that is named on the command line, or all of a project where that is asked for."""
    if file_path.suffix not in (".yml", ".yaml"):
        return None
    home = file_path.parent.parent
    is_of_project = file_path.parent.name == "tests" and (home / "jobs").is_dir() and (home / "conf").is_dir()
    config = parent.config
    is_wanted = config.getoption("--enrich") or config.getini(_SETTING) or parent.session.isinitpath(file_path)
    if not is_of_project or not is_wanted:
        return None
    found: pytest.Collector = ScenarioModule.from_parent(parent, path=file_path)
    return found


class ScenarioModule(pytest.File):
    """A scenario file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Read the file and give its one test, which is named after the file."""
        yield ScenarioItem.from_parent(self, name=self.path.stem)


class ScenarioDiffers(Exception):
    """A scenario was not as expected; the text is the report."""


class ScenarioItem(pytest.Item):
    """One scenario."""

    def runtest(self) -> None:
        """Play the scenario."""
        from enrich.operations.loading import load_project
        from enrich.testing.outcome import format_outcome, play_scenarios
        from enrich.testing.reader import read_scenario

        project = load_project(self.path.parent.parent)
        (outcome,) = play_scenarios(project, [read_scenario(project, self.path)])
        if not outcome.has_passed:
            raise ScenarioDiffers(format_outcome(outcome))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the report, or what is wrong with the files, without a traceback."""
        from enrich.base.errors import EnrichError

        if isinstance(excinfo.value, ScenarioDiffers | EnrichError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return what pytest calls the test."""
        return self.path, None, f"scenario {self.name}"


@pytest.fixture(scope="session")
def enrich_spark() -> SparkSession:
    """The Spark session of ``enrich test``; it ends with the process."""
    from enrich.testing.play import get_session

    return get_session()


@pytest.fixture
def enrich_lake(tmp_path: Path) -> Lake:
    """An empty lake in a directory of the test's own."""
    from enrich.testing.lake import Lake

    return Lake(tmp_path / "lake")
