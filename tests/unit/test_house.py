"""Rules of the house that no linter knows: sizes, pins, imports, packaged files."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "lib" / "enrich"
MODULES = sorted(PACKAGE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

LIGHT = (
    "cli",
    "project.project",
    "project.expressions",
    "project.compile",
    "delta.tables",
    "delta.runs",
    "progress.decision",
    "observe.run",
    "base.console",
)
"""What a run without changes imports."""


def names(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonical(name): pin for name, pin in (line.split("==") for line in lines if line and line[0] != "#")}


def test_modules_have_at_most_800_lines():
    sizes = {names(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: lines for name, lines in sizes.items() if lines > 800} == {}


CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time", "times"}


def find_clock_asserts(tree: ast.AST) -> list[int]:
    """Return the lines of asserts over what a clock said, directly or by a name in the same module."""

    def reads(node: ast.AST, known: set[str]) -> bool:
        return any(
            (isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in CLOCKS)
            or (isinstance(each, ast.Name) and each.id in known)
            for each in ast.walk(node)
        )

    found: list[int] = []
    for function in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
        known: set[str] = set()
        nodes = (each for each in ast.walk(function) if isinstance(each, ast.stmt))
        for node in sorted(nodes, key=lambda each: each.lineno):
            if isinstance(node, ast.Assign) and reads(node.value, known):
                known |= {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            if isinstance(node, ast.Assert) and reads(node.test, known):
                found.append(node.lineno)
    return found


def test_no_test_looks_at_a_clock():
    """What is about time is a benchmark: a test that measures fails where the machine is slow."""
    outside = {"world", "world.py"}  # other systems, which only make test-world starts
    tests = [path for path in sorted((ROOT / "tests").rglob("*.py")) if outside.isdisjoint(path.parts)]
    found = {names(path): lines for path in tests if (lines := find_clock_asserts(ast.parse(path.read_text())))}
    assert found == {}
    planted = "def test_x():\n    begun = time.monotonic()\n    took = time.monotonic() - begun\n    assert took < 5\n"
    assert find_clock_asserts(ast.parse(planted)) == [4]
    assert find_clock_asserts(ast.parse("def test_x():\n    assert os.times().user < 1\n")) == [2]


def test_functions_have_at_most_80_lines():
    """Without the docstring: what it says is no burden on what it does."""

    def lines(function: ast.FunctionDef) -> int:
        body = function.body[1:] if ast.get_docstring(function) else function.body
        return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0

    long = {
        f"{names(path)}:{node.name}": lines(node)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and lines(node) > 80
    }
    assert long == {}


def test_every_installed_distribution_is_pinned_and_installed_as_pinned():
    bundled = {"pip", "setuptools", "wheel", "enrich-delta"}  # what `python -m venv` brings, and ourselves
    installed = {canonical(dist.name): dist.version for dist in distributions() if canonical(dist.name) not in bundled}
    if sys.prefix != str(ROOT / ".venv"):
        pytest.skip("not in the environment that make builds")
    assert {name: version for name, version in installed.items() if pins().get(name) != version} == {}


def test_every_dependency_and_the_build_backend_are_pinned():
    extras = PROJECT["project"]["optional-dependencies"]
    # Airflow has an environment and constraints of its own; `all` and `dev` name other extras of ours.
    ours = [each for name, listed in extras.items() if name != "airflow" for each in listed]
    wanted = PROJECT["project"]["dependencies"] + ours + PROJECT["build-system"]["requires"]
    named = {canonical(re.findall(r"[\w.-]+", text)[0]) for text in wanted} - {PROJECT["project"]["name"]}
    assert named <= pins().keys()
    assert PROJECT["build-system"]["requires"] == [f"setuptools=={pins()['setuptools']}"]


@pytest.mark.parametrize("name", ["constraints.txt", "pyproject.toml", "Makefile", ".ci/run"])
def test_no_registry_is_named(name):
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://|--(extra-)?index|--find-links|-i\s+http", text)


def test_light_modules_import_neither_spark_nor_expectations():
    """In a Python of its own; import time is paid at every run with nothing to do."""
    code = f"import importlib, sys\nfor name in {LIGHT}: importlib.import_module('enrich.' + name)\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"pyspark", "great_expectations", "delta", "pandas", "duckdb", "py4j"}
    assert heavy & set(loaded) == set()


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("frames/changes.py", "import enrich.frames.join", "Verbs never import one another"),
        ("base/errors.py", "import enrich.project", "Imports point downwards"),
        ("strange.py", "", "Imports point downwards"),
        ("frames/join.py", "import enrich.delta.tables", "Frames know neither"),
        ("frames/strange.py", "", "Verbs never import one another"),
        ("steps/gate.py", "import deltalake", "Only the room delta"),
        ("report/text.py", "import great_expectations", "Only quality touches"),
        ("report/text.py", "import openlineage.client", "Only observe touches"),
        ("project/models.py", "import pyspark", "Files are read without Spark"),
        ("airflow/command.py", "import enrich.operations.runner", "Imports point downwards"),
        ("airflow/command.py", "import enrich.airflow.operators", "What Airflow runs"),
    ],
)
def test_the_import_contracts_forbid_what_they_say(tmp_path, module, line, contract):
    """A copy of the package with one wrong import."""
    shutil.copytree(PACKAGE, tmp_path / "lib" / "enrich", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "lib" / "enrich" / module).open("a") as planted:
        planted.write(f"\n{line}\n")
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": "lib", "PATH": ""}, capture_output=True, text=True, check=False
    )
    broken = [text for text in done.stdout.splitlines() if "BROKEN" in text or text.startswith(contract)]
    assert done.returncode == 1
    assert any(text.startswith(contract) for text in broken), done.stdout


def test_files_beside_the_modules_are_packaged():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["enrich"]
    packaged = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    beside = {path for path in files if path.suffix != ".py" or not (path.parent / "__init__.py").exists()}
    assert {names(path) for path in beside - packaged} == set()
