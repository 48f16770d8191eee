"""What a machine can lack: exit code 7, one line with the next step, nothing written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from enrich.spark.jars import Release

SYSTEM = f"{Path(sys.executable).parent}:/usr/bin:/bin"


def fake_java(directory: Path, version: str) -> str:
    directory.mkdir(parents=True)
    java = directory / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return str(directory)


def without_java(directory: Path) -> str:
    """Return a PATH with the tools of a shell and no java."""
    directory.mkdir()
    for folder in SYSTEM.split(":")[1:]:
        for tool in ("sh", "bash", "env", "uname", "dirname"):
            if Path(folder, tool).exists() and not (directory / tool).exists():
                (directory / tool).symlink_to(Path(folder, tool))
    return str(directory)


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


ENVIRONMENTS: dict[str, Callable[[Path], dict[str, str | None]]] = {
    "no java": lambda tmp: {"PATH": without_java(tmp / "empty"), "JAVA_HOME": None},
    "java 11": lambda tmp: {"PATH": f"{fake_java(tmp / 'bin', '11.0.2')}:{SYSTEM}", "JAVA_HOME": None},
    "java 25": lambda tmp: {"PATH": f"{fake_java(tmp / 'bin', '25')}:{SYSTEM}", "JAVA_HOME": None},
    "JAVA_HOME is nothing": lambda tmp: {"JAVA_HOME": str(tmp / "nowhere")},
    "a jar directory without jars": lambda tmp: {"ENRICH_JARS": str(tmp)},
    "Spark Connect": lambda _: {"SPARK_REMOTE": "sc://localhost"},
    "another Spark's home": lambda tmp: {"SPARK_HOME": other_spark(tmp / "spark")},
}
SAID = {
    "no java": "no Java found",
    "java 11": "is Java 11, Spark 4 runs on Java 17 or 21",
    "java 25": "is Java 25, Spark 4 runs on Java 17 or 21",
    "JAVA_HOME is nothing": "JAVA_HOME is ",
    "a jar directory without jars": f"lacks {', '.join(Release.installed().names[:2])}",
    "Spark Connect": "asks for Spark Connect",
    "another Spark's home": "spark-core_2.13-3.5.1.jar",
}


def other_spark(home: Path) -> str:
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    return str(home)


@pytest.mark.parametrize("lack", ENVIRONMENTS)
def test_what_is_missing_is_one_line_and_exit_7(project, start, tmp_path, lack):
    before = files(project / "lake")
    done = start("--project-dir", project, "run", "--output", "json", **ENVIRONMENTS[lack](tmp_path))
    assert done.returncode == 7, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    assert SAID[lack] in job["error"]
    assert "\n" not in job["error"]
    assert job["status"] == "failed"
    assert len([line for line in done.stderr.splitlines() if SAID[lack] in line]) <= 1
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert {name for name in files(project / "lake") - before if not name.startswith("_enrich")} == set()


@pytest.mark.parametrize("command", [("ls",), ("validate",), ("status",)])
def test_what_needs_no_spark_needs_no_java(project, start, tmp_path, command):
    done = start("--project-dir", project, *command, PATH=without_java(tmp_path / "empty"), JAVA_HOME=None)
    assert done.returncode == 0, done.stderr


def test_the_jar_directory_of_the_configuration_is_relative_to_the_project(project, start):
    (project / "jars").mkdir()
    conf = project / "conf" / "dev.yml"
    conf.write_text(conf.read_text().replace("spark:\n", "spark:\n  jars: ./jars\n"))
    done = start("--project-dir", project, "run", "--output", "json", cwd=Path("/"))
    assert done.returncode == 7, done.stderr
    assert f"{str(project / 'jars')!r} lacks delta-spark" in json.loads(done.stdout)["jobs"][0]["error"]


def test_a_cache_that_cannot_be_written_names_the_variable(project, start, tmp_path):
    (tmp_path / "file").touch()
    done = start("--project-dir", project, "run", ENRICH_CACHE=str(tmp_path / "file"))
    assert done.returncode == 7
    assert "set ENRICH_CACHE" in done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_without_permission_names_the_variable(project, start, tmp_path):
    tmp_path.chmod(0o500)
    done = start("--project-dir", project, "run", ENRICH_CACHE=str(tmp_path / "cache"))
    tmp_path.chmod(0o700)
    assert done.returncode == 7
    assert "set ENRICH_CACHE" in done.stdout + done.stderr
