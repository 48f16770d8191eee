"""What TAB offers: in a real bash here, in zsh and fish in tests/world."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli.shop import CONF, JOB
from kit.command import call
from kit.shells import install_command, press_tab

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="bash is tried on a terminal, which Windows has not")


@pytest.fixture
def shop(bare_project: Path) -> Path:
    """Jobs `customers` and `old_customers`, deployments `dev` and `prod`, and files that are neither."""
    jobs, conf = bare_project / "jobs", bare_project / "conf"
    (jobs / "old_customers.yml").write_text(JOB.replace("customers", "old_customers"))
    (conf / "prod.yml").write_text(CONF)
    for name in ("notes.txt", "$(touch pwned).yml", "a b.yml", ".hidden.yml"):
        (jobs / name).write_text("")
    return bare_project


def offer(words: list[str], cwd: Path, **changes: str) -> list[str]:
    """Return what is offered for the last word, asked as a shell does it, but in this process."""
    asked = {
        "_ENRICH_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["enrich", *words]),
        "COMP_CWORD": str(len(words)),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        done = call(**asked, **changes)
    assert (done.exit_code, done.stderr) == (0, "")
    return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]


def test_bash_completes_a_job_and_lists_jobs(shop: Path, tmp_path: Path) -> None:
    known = install_command(tmp_path / "home")
    assert "enrich run old_customers " in press_tab("bash", "enrich run o", ["old_customers "], shop, known)
    listed = press_tab("bash", "enrich run ", ["customers  ", "old_customers"], shop, known)
    assert "customers      old_customers" in listed
    assert not {"notes", "touch", "a b", "hidden"} & set(listed.replace(".", " ").split())


def test_commands_options_and_deployments_are_offered(shop: Path) -> None:
    assert {"run", "validate", "init"} < set(offer([""], shop))
    assert offer(["validate", "--off"], shop) == ["--offline"]
    assert offer(["run", "--output", ""], shop) == ["text", "json"]
    assert offer(["--target", ""], shop) == ["dev", "prod"]
    assert offer(["ls", "--target", "p"], shop) == ["prod"]


@pytest.mark.parametrize("command", ["run", "plan", "verify", "report", "why", "failing", "doctor keys"])
def test_every_command_that_takes_a_job_offers_jobs(shop: Path, command: str) -> None:
    assert offer([*command.split(), "o"], shop) == ["old_customers"]


def test_patterns_keep_their_plus(shop: Path) -> None:
    assert offer(["run", "--select", "+"], shop) == ["+customers", "+old_customers"]
    assert offer(["run", "--exclude", "c"], shop) == ["customers"]


def test_the_project_is_the_one_that_the_command_line_names(shop: Path, tmp_path: Path) -> None:
    assert offer(["run", ""], tmp_path) == []
    assert offer(["--project-dir", str(shop), "run", "o"], tmp_path) == ["old_customers"]
    assert offer(["why", "--project-dir", str(shop), "o"], tmp_path) == ["old_customers"]
    assert offer(["run", "o"], tmp_path, ENRICH_PROJECT_DIR=str(shop)) == ["old_customers"]
