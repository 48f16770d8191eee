"""Pages that are generated or tried: as far as it costs no JVM, they are what they were made from.

``python docs/generators/reference.py`` and ``python docs/generators/pictures.py`` write what is generated anew,
``ENRICH_WRITE_DOCS=1 python -m pytest tests/world/test_tried_pages.py`` what commands print.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from docs.generators import pictures, reference

from enrich.base.errors import EnrichError
from enrich.project.models import Job, Settings, keys_of, list_models
from kit.command import call, restored
from kit.pages import DOCS, RECIPES, TOUR, mask, play, prepare, read_files, read_steps
from kit.project import ROOT


def names(page: Path) -> str:
    return page.stem


def test_reference_is_generated_from_the_models() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.build_page()


def test_reference_has_every_key_of_every_model() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", reference.build_page(), re.MULTILINE)
    wanted = {key for file in (Job, Settings) for model in list_models(file).values() for key in keys_of(model)}
    assert wanted <= set(rows)
    assert {"job", "from", "keep_runs", "element_key"} <= wanted


def test_pictures_are_drawn_by_their_generator() -> None:
    drawn = pictures.draw_all()
    assert {name: (DOCS / "img" / name).read_text(encoding="utf-8") for name in drawn} == drawn
    for text in drawn.values():
        root = ET.fromstring(text)  # noqa: S314 - our own file
        assert root.find("{http://www.w3.org/2000/svg}title") is not None
        assert "prefers-color-scheme:dark" in text


@pytest.mark.parametrize("page", RECIPES, ids=names)
def test_recipes_show_the_jobs_and_suites_of_the_repository(page: Path) -> None:
    shown = {name: text for name, text in read_files(page).items() if name.startswith(("jobs/", "expectations/"))}
    assert shown == {name: (ROOT / name).read_text(encoding="utf-8") for name in shown}
    assert {name.partition("/")[0] for name in shown} == {"jobs", "expectations"}


def test_there_is_a_recipe_for_every_job_of_the_repository() -> None:
    shown = {name for page in RECIPES for name in read_files(page) if name.startswith("jobs/")}
    assert shown == {f"jobs/{path.name}" for path in (ROOT / "jobs").glob("*.yml")}


@pytest.mark.parametrize("page", RECIPES, ids=names)
def test_what_needs_no_jvm_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    """Up to the first command that needs a JVM; the rest is tried in tests/world."""
    steps = list(itertools.takewhile(lambda step: not step.needs_jvm, read_steps(page)))
    assert steps
    assert [mask(text) for text in play(steps, prepare(page, tmp_path))] == [mask(step.output) for step in steps]


def test_the_tour_finds_the_misspelt_column_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = read_steps(TOUR)
    misspell, validate, code = steps[-3:]
    assert (misspell.command[:4], validate.command, code.command) == ("sed ", "enrich validate", "echo $?")
    play([steps[0], misspell], prepare(TOUR, tmp_path))
    monkeypatch.chdir(tmp_path)
    with restored():
        result = call("validate")
    assert (result.output.rstrip("\n"), str(result.exit_code)) == (validate.output, code.output)


def test_every_exit_code_has_a_section() -> None:
    text = (DOCS / "exit-codes.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    codes = {int(code) for section in sections for code in re.findall(r"\d+", section.partition(":")[0])}
    known = {EnrichError.exit_code, *(error.exit_code for error in EnrichError.__subclasses__())}
    assert codes == known | {0, 99, 130, 143}
    for section in sections:
        assert re.findall(r"\*\*(What .*?)\*\*", section) == ["What happened.", "What was written.", "What to do."]


def test_the_menu_names_each_page_once() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    named = [page for section in nav for entries in section.values() for entry in entries for page in entry.values()]
    assert len(named) == len(set(named))
    assert {"tour.md", "reference.md", "exit-codes.md", "how-it-works.md", "migration.md", "limits.md"} <= set(named)
