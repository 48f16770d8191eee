"""The alerts that come with enrich ask for metrics that it writes."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from enrich.observe.metrics import FAMILIES
from kit.command import parse

FILE = Path(__file__).parents[3] / "packaging/alerts.yml"


def test_alerts_ask_for_metrics_and_labels_that_exist() -> None:
    (group,) = yaml.safe_load(FILE.read_text())["groups"]
    names = [rule["alert"] for rule in group["rules"]]
    assert len(names) == len(set(names)) >= 6
    for rule in group["rules"]:
        asked = re.findall(r"\benrich_job_(\w+)", rule["expr"])
        assert asked
        assert set(asked) <= set(FAMILIES), rule["alert"]
        said = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", said)) <= {"job", "deployment", "lookup"}
        (command,) = re.findall(r"`(enrich --target {{ \$labels\.deployment }} [^`]+)`", said)
        assert parse(re.sub(r"{{ .+? }}", "x", command))[0], "the next command, with options that it has"
