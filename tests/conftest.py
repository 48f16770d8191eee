"""What all tests share: one local Delta session a process, started when the first test asks for it.

`make test` runs the files in two processes; whatever a process counted is printed once, at the end.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from kit.counts import COUNTED
from kit.lab import Lab, Prepared
from kit.processes import cpu_seconds, living
from kit.session import INTERPRETED, compile_quickly, forget_tables, small_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

compile_quickly()

TESTS = Path(__file__).parent
SEED = 535951
"""The seed of everything random, where ``ENRICH_TEST_SEED`` gives no other."""
ORDER = ("unit", "protocol", "cli", "differential", "faults", "scenarios", "spark")


OF_WORKERS = pytest.StashKey[list[float]]()
"""The CPU seconds of each process that played tests, its JVM included."""


def pytest_configure(config: pytest.Config) -> None:
    """Set the seed of everything random once, for all processes."""
    config.stash[COUNTED], config.stash[OF_WORKERS] = {}, []
    # The soak is there to find; what people run before a commit is the same every time.
    seed = random.SystemRandom().randrange(1_000_000) if "ENRICH_SOAK" in os.environ else SEED
    settings.register_profile("same", derandomize="ENRICH_SOAK" not in os.environ)
    settings.load_profile("same")
    os.environ.setdefault("ENRICH_TEST_SEED", str(seed))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark unit tests; run them first, then what takes longest, so that two processes end at about the same time."""

    def directory(item: pytest.Item) -> str:
        return item.path.relative_to(TESTS).parts[0]

    for item in items:
        if directory(item) == "unit":
            item.add_marker(pytest.mark.unit)
    items.sort(key=lambda item: ORDER.index(directory(item)) if directory(item) in ORDER else len(ORDER))
    # What is imported and collected stays; looking through it for garbage takes a twentieth of what Python does.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand over what this process counted, and its CPU seconds."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counted"] = session.config.stash[COUNTED]
        session.config.workeroutput["cpu"] = cpu_seconds(os.getpid())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what another process counted."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[COUNTED].update(output.get("counted", {}))
    node.config.stash[OF_WORKERS].append(output.get("cpu", 0.0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    seed = os.environ["ENRICH_TEST_SEED"]
    terminalreporter.section("what was counted")
    terminalreporter.write_line(f"seed {seed} (repeat with ENRICH_TEST_SEED={seed})")
    for name, text in config.stash[COUNTED].items():
        terminalreporter.write_line(f"{name}: {text}")
    # The workers have counted for themselves: by now they may have ended. What `make` ran before are the checks.
    workers: list[float] = config.stash[OF_WORKERS]
    tests = sum(workers) or cpu_seconds(os.getpid())
    before = sum(each.seconds for each in living() if str(each.pid) == os.environ.get("ENRICH_MAKE"))
    terminalreporter.write_line(f"CPU seconds of all processes: {tests + before:,.0f} ({tests:,.0f} of the tests)")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests of this process, which are many where there are several processes."""
    session = small_session(for_long="PYTEST_XDIST_WORKER" in os.environ)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with ``INTERPRETED`` plans, for tests of which commits there are and which cases there are.

    One world of the random histories, the soak, and the processes of the command line's tests run compiled code, as
    users do.
    """
    from enrich.delta.sink import hold_settings

    with hold_settings(spark, INTERPRETED):
        yield spark


@pytest.fixture
def lab(tmp_path: Path, interpreted: SparkSession) -> Lab:
    """Give an empty project."""
    forget_tables(interpreted)
    return Lab(tmp_path / "project", interpreted)


@pytest.fixture(scope="session")
def _prepared_lakes() -> dict[str, Lab]:
    return {}


@pytest.fixture
def prepared(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    interpreted: SparkSession,
    _prepared_lakes: dict[str, Lab],
) -> Prepared:
    """Give copies of lakes that many tests start from: a run costs seconds, a copy milliseconds."""

    def prepare(name: str, make: Callable[[Lab], object]) -> Lab:
        forget_tables(interpreted)
        if name not in _prepared_lakes:
            lab = Lab(tmp_path_factory.mktemp(name) / "project", interpreted)
            make(lab)
            _prepared_lakes[name] = lab
        return _prepared_lakes[name].copy_to(tmp_path / "project")

    return prepare


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of everything random: ENRICH_TEST_SEED, else always the same one, and a fresh one in the soak."""
    return int(os.environ["ENRICH_TEST_SEED"])


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let click's runner print to what says that it is a terminal, as ``--show-keys`` wants it."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
