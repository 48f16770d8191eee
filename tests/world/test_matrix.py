"""Other versions than those of constraints.txt: Spark 4.0, 4.2, Python 3.12; test_image.py has Python 3.13 and Java 21.

They play the parts of the demo about a table join, queries with and without groups, as-of joins and a history, and a
scenario of an interval join.
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


def play_demo(environment: Environment, directory: Path, *sections: str) -> None:
    """Play parts of the demo, which fails when a table is not as expected."""
    chosen = [word for section in sections for word in ("--section", section)]
    played = environment.enrich("demo", "demo", *chosen, cwd=directory, timeout=900)
    assert played.returncode == 0, played.stdout[-2000:] + played.stderr[-2000:]
    assert "Every round was as expected" in played.stdout


@pytest.mark.parametrize("minor", ["4.0", "4.2"])
def test_another_spark_plays_the_demo(wheel: Path, tmp_path: Path, minor: str) -> None:
    pins = tmp_path / "constraints.txt"
    pins.write_text(re.sub(r"(?m)^pyspark==.*$", f"pyspark=={minor}.*", PINS.read_text()))
    environment = make_environment(tmp_path / "venv")
    environment.install(f"{wheel}[all]", constraints=pins)
    version = "import pyspark; print(pyspark.__version__)"
    assert must_run([environment.python, "-c", version], cwd=tmp_path).startswith(f"{minor}.")
    play_demo(environment, tmp_path, "consents", "groups", "moments", "history")
    home = write_payments(tmp_path / "payments")
    tested = environment.enrich("test", cwd=home, timeout=900)
    assert tested.returncode == 0, tested.stdout[-2000:] + tested.stderr[-2000:]
    assert "1 scenario passed" in tested.stdout


def test_python_3_12_plays_the_demo(wheel: Path, tmp_path: Path) -> None:
    """Its first part: near misses are found by Python on the executors, and Spark is the same as with Python 3.11."""
    environment = make_environment(tmp_path / "venv", find_python("3.12"))
    environment.install(f"{wheel}[all]")
    play_demo(environment, tmp_path, "consents")
