"""The units for systemd of docs/operations.md: systemd finds no fault, and they call commands that there are."""

from __future__ import annotations

import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from kit.command import parse
from kit.project import ROOT

UNITS = dict(
    zip(
        ("enrich.service", "enrich.timer", "enrich-always.service"),  # in the page's order; the last one for --every
        re.findall(r"^```\n(\[Unit\]\n.*?)^```", (ROOT / "docs/operations.md").read_text(), re.MULTILINE | re.DOTALL),
        strict=True,
    )
)


def read(name: str) -> ConfigParser:
    unit = ConfigParser(interpolation=None)  # strict: no key twice
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNITS[name])
    return unit


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith(".service")])
def test_a_service_starts_a_command_that_there_is(name: str) -> None:
    started, asked = parse(read(name)["Service"]["ExecStart"])
    assert (started, asked["every"] is not None) == ("run", name == "enrich-always.service")
    assert read(name)["Unit"]["Wants"] == read(name)["Unit"]["After"], "After alone waits for nothing"


def test_the_timer_is_for_the_service_of_its_name() -> None:
    timer = read("enrich.timer")
    assert set(timer["Timer"]) == {"OnCalendar", "RandomizedDelaySec", "Persistent"}
    assert timer["Install"]["WantedBy"] == "timers.target"


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_finds_no_fault(name: str, tmp_path: Path) -> None:
    for each, text in UNITS.items():
        (tmp_path / each).write_text(text.replace("/srv/venv/bin/enrich", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", tmp_path / name], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if name in line]) == (0, [])
