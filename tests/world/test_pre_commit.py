"""The hook for pre-commit, in a real repository, installed from this one as pre-commit does it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from enrich.init import write_project
from kit.project import ROOT

pytestmark = pytest.mark.world

PRE_COMMIT = "pre-commit==4.7.0"


@pytest.fixture(scope="module")
def pre_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install pre-commit into an environment of its own."""
    home = tmp_path_factory.mktemp("pre-commit")
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, timeout=300)
    command = [str(home / "bin" / "pip"), "install", "--quiet", PRE_COMMIT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"{PRE_COMMIT} CANNOT BE INSTALLED, so the hook was not tried")
    return home / "bin" / "pre-commit"


def test_the_hook_passes_a_new_project_and_refuses_a_wrong_job(pre_commit: Path, tmp_path: Path) -> None:
    home = tmp_path / "shop"
    write_project(home)
    known = {name: value for name, value in os.environ.items() if not name.startswith(("ENRICH_", "GIT_", "PYTHON"))}
    known["PRE_COMMIT_HOME"] = str(tmp_path / "cache")

    def call(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=home, env=known, capture_output=True, text=True, timeout=900, check=False)

    assert call("git", "init", "--quiet").returncode == 0
    assert call("git", "add", "-A").returncode == 0
    hook = (str(pre_commit), "try-repo", str(ROOT), "enrich-validate", "--all-files", "--verbose")
    passed = call(*hook)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "7 jobs, 7 suites, deployment dev: no faults" in passed.stdout
    job = home / "jobs" / "orders_with_customer.yml"
    job.write_text(job.read_text().replace("orders.amount", "orders.amonut"))
    refused = call(*hook)
    assert refused.returncode == 1
    assert "'amonut' is not a column of 'orders' (table orders); did you mean 'amount'?" in refused.stdout
