"""The tour and the recipes do what they say: all their commands run, and print what the pages show.

``ENRICH_WRITE_DOCS=1 python -m pytest tests/world/test_tried_pages.py`` puts into the pages what the commands print.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.pages import CHANGELOGS, RECIPES, TOUR, mask, play, prepare, read_steps, write_outputs

WRITE = os.environ.get("ENRICH_WRITE_DOCS") == "1"


@pytest.mark.parametrize("page", [TOUR, CHANGELOGS, *RECIPES], ids=lambda page: page.stem)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    steps = read_steps(page)
    printed = play(steps, prepare(page, tmp_path))
    if WRITE:
        write_outputs(page, steps, printed)
    shown = read_steps(page)
    assert [mask(step.output) for step in shown] == [mask(text) for text in printed]
