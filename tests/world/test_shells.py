"""What TAB offers in a real zsh and a real fish; bash is in tests/cli."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kit.project import CONF, CUSTOMERS, write_project
from kit.shells import ask_fish, install_command, press_tab

pytestmark = pytest.mark.world


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with two jobs and two deployments."""
    old = CUSTOMERS.replace("customers", "old_customers")
    jobs = {"jobs/customers.yml": CUSTOMERS, "jobs/old_customers.yml": old}
    return write_project(tmp_path / "shop", {"conf/dev.yml": CONF, "conf/prod.yml": CONF, **jobs})


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"THERE IS NO {shell} ON THIS MACHINE, so its completion was not tried: apt-get install {shell}")


def test_zsh_completes_a_job_and_lists_jobs(shop: Path, tmp_path: Path) -> None:
    need("zsh")
    known = install_command(tmp_path / "home")
    assert "ld_customers" in press_tab("zsh", "enrich run o", ["ld_customers"], shop, known)
    listed = press_tab("zsh", "enrich run ", ["customers ", "old_customers"], shop, known)
    assert re.search(r"\bcustomers +old_customers\b", listed), listed


def test_fish_offers_jobs_deployments_and_commands(shop: Path, tmp_path: Path) -> None:
    need("fish")
    known = install_command(tmp_path / "home")
    assert ask_fish("enrich run o", shop, known) == ["old_customers"]
    assert ask_fish("enrich run customers ", shop, known) == ["old_customers"]
    assert ask_fish("enrich --target ", shop, known) == ["dev", "prod"]
    assert "validate" in ask_fish("enrich v", shop, known)
