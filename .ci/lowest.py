"""Print constraints: the lowest versions that pyproject.toml allows, and for what the tests need those of the pins."""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = Path("constraints.txt").read_text(encoding="utf-8").splitlines()

lines = [re.sub(r"[>=]=([\d.]+?)(\.\*|,.*)?$", r"==\1", dependency) for dependency in PROJECT["dependencies"]]
for dependency in PROJECT["optional-dependencies"]["dev"]:
    name = re.sub(r"[^\w-].*", "", dependency).lower()
    lines += [pin for pin in PINS if pin.startswith(f"{name}==")]
sys.stdout.write("\n".join(lines) + "\n")
