"""What docs/observability.md says is what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from enrich.observe.metrics import FAMILIES
from enrich.observe.notify import GRAVITY
from enrich.project.models import TEXT_FIELDS, Lineage, Metrics, Notify, keys_of
from enrich.project.settings import load_settings
from enrich.project.yamlfile import load_tree
from kit.project import ROOT

PAGE = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")


def part(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> set[str]:
    """Return the names in the first column of a part's tables."""
    return set(re.findall(r"^\| `(\w+)", part(title), re.MULTILINE))


def test_the_example_can_be_loaded(tmp_path: Path) -> None:
    example, of_notify = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert load_settings(load_tree("lake: x\n" + of_notify, "conf/prod.yml"), tmp_path, {})[1] == []
    settings, faults = load_settings(load_tree(example, "conf/prod.yml"), tmp_path, {})
    assert faults == []
    assert settings is not None
    assert (settings.lineage, settings.metrics, set(settings.notify)) != (None, None, set())


def test_every_key_and_every_metric_is_described() -> None:
    assert rows("Lineage") == set(keys_of(Lineage))
    assert rows("Notifications") == set(keys_of(Notify))
    assert rows("Metrics") == set(FAMILIES)
    assert keys_of(Metrics) == ("file",)
    told = part("Notifications")
    assert all(f"{{{field}}}" in told for field in TEXT_FIELDS)
    assert all(f"`{event}`" in told for event in GRAVITY)
    (endings,) = [each for each in get_args(Notify.model_fields["on"].annotation) if each is not ...]
    assert set(get_args(endings)) == {*GRAVITY, "blocked"}
