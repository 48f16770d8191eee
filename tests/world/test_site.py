"""The site is built by the real MkDocs, and a link that leads nowhere ends the build."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kit.project import ROOT

if importlib.util.find_spec("material") is None:
    pytest.skip("mkdocs-material is not installed: `make docs` installs it", allow_module_level=True)

PARTS = ("docs", "mkdocs.yml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What the site is made from, to plant faults in."""
    for name in PARTS:
        path = ROOT / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / name)
    return tmp_path


def build(home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    known = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=home, env=known, capture_output=True, text=True, timeout=300, check=False)


def test_the_site_is_built_and_loads_nothing_from_elsewhere(copy: Path) -> None:
    (copy / "docs" / "unknown.md").write_text("# A page that no menu names\n", encoding="utf-8")
    done = build(copy)
    assert done.returncode == 0, done.stderr
    tour = (copy / "site" / "tour.html").read_text(encoding="utf-8")
    assert "orders_with_customer" in tour
    assert 'href="unknown.html"' in tour
    for tag in ('<link rel="stylesheet" href="http', '<script src="http', '<img src="http'):
        assert tag not in tour
    assert not (copy / "site" / "generators").exists()
    readme = (copy / "site" / "about" / "readme.html").read_text(encoding="utf-8")
    assert 'href="../semantics.html"' in readme


@pytest.mark.parametrize("link", ["nowhere.md", "quality.md#nowhere", "../NOTHING.md"])
def test_a_link_that_leads_nowhere_ends_the_build(copy: Path, link: str) -> None:
    with (copy / "docs" / "limits.md").open("a", encoding="utf-8") as page:
        page.write(f"\n[planted]({link})\n")
    done = build(copy)
    assert done.returncode != 0
    assert "limits.md" in done.stdout + done.stderr
