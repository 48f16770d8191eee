"""What the tests of the configuration share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from enrich.project.project import Project, load_project
from kit.project import write_project
from unit.config.small_project import FILES

Load = Callable[..., Project]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load the project of the given files over the small one; ``None`` leaves a file out."""

    def loaded(files: dict[str, str | None] | None = None, target: str = "dev", *, all_suites: bool = False) -> Project:
        chosen = {name: text for name, text in {**FILES, **(files or {})}.items() if text is not None}
        return load_project(write_project(tmp_path, dict(chosen)), target, all_suites=all_suites)

    return loaded
