"""Print constraints: the lowest versions that pyproject.toml allows, and for what the tests need those of the pins."""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
EXTRAS = PROJECT["optional-dependencies"]

# What users install; `airflow` has an environment of its own, `all` and `dev` name the others.
ranges = [*PROJECT["dependencies"], *(each for name in ("spark", "gx", "lineage", "stores") for each in EXTRAS[name])]
lines = [re.sub(r"[>=]=([\d.]+?)(\.\*|,.*)?$", r"==\1", dependency) for dependency in ranges]
for dependency in EXTRAS["dev"]:
    name = re.sub(r"[^\w-].*", "", dependency).lower()
    lines += [pin for pin in PINS if pin.startswith(f"{name}==")]
sys.stdout.write("\n".join(lines) + "\n")
