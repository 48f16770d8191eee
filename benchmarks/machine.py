"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path


def describe() -> dict[str, str | int]:
    """Return cores, memory, versions, date, and the commit that was measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit or "not known",
        "cores": len(os.sched_getaffinity(0)),
        "memory in GB": round(memory / 1e9),
        "processor": _read_processor(),
        "Python": platform.python_version(),
        "Java": java[0].split('"')[1] if java else "not known",
        "Spark": version("pyspark"),
        "Delta": version("delta-spark"),
        "delta-rs": version("deltalake"),
    }


def _read_processor() -> str:
    """Return the processor's name as the system tells it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
