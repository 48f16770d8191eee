"""Find the Java that Spark would start, and say what is wrong with it before Spark says it in forty lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from enrich.base.errors import EnvironmentFault

SUPPORTED = (17, 21)
"""Major versions that Spark 4.0 and 4.1 are released for; Hadoop's security calls are gone from Java 24 on."""

ADVICE = "install a Java 17 (for example openjdk-17-jre-headless) and put it on PATH, or set JAVA_HOME"


def require_java() -> Path:
    """Return the Java that Spark will start.

    Spark takes ``$JAVA_HOME/bin/java`` when JAVA_HOME is set, and nothing else then; otherwise ``java`` on PATH.

    Raises:
        EnvironmentFault: There is none, it does not run, or it is of a version that Spark does not support.
    """
    java = _find()
    major = _find_major(java)
    if major not in SUPPORTED:
        raise EnvironmentFault(
            f"{_describe(java)} is Java {major}, Spark 4 runs on Java {' or '.join(map(str, SUPPORTED))}", hint=ADVICE
        )
    return java


def _find() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise EnvironmentFault(f"JAVA_HOME is {home!r}, which has no bin/java", hint=ADVICE)
        return java
    found = shutil.which("java")
    if found is None:
        raise EnvironmentFault("no Java found: JAVA_HOME is not set and there is no java on PATH", hint=ADVICE)
    return Path(found)


def _find_major(java: Path) -> int:
    """Return the major version: from the installation's release file (no process), else by asking ``java``."""
    try:
        said = Path(os.path.realpath(java)).parent.with_name("release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        said = _ask_version(java)
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', said)
    if match is None:
        raise EnvironmentFault(f"{_describe(java)} does not print its version", hint=ADVICE)
    return int(match[1])


def _ask_version(java: Path) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - the java that Spark itself would start
            [str(java), "-version"], capture_output=True, text=True, errors="replace", timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentFault(f"{_describe(java)} does not start ({type(error).__name__})", hint=ADVICE) from error
    return answer.stderr + answer.stdout


def _describe(java: Path) -> str:
    return f"{str(java)!r}{' (from JAVA_HOME)' if os.environ.get('JAVA_HOME') else ''}"
