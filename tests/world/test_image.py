"""The image, built as packaging/build-root does it in an empty root: a user without rights, jars and archive inside.

It is Debian 13, with Python 3.13 and Java 21.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kit.project import ROOT
from kit.world import must_run, run


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with Debian, Java and enrich; skips where the machine cannot have one."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: debootstrap and chroot need root")
    if shutil.which("debootstrap") is None:
        pytest.skip("NOT TESTED: debootstrap is not installed (apt-get install debootstrap)")
    allowed = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False)
    if allowed.returncode:
        pytest.skip("NOT TESTED: this machine allows no mounts of one's own (unshare --mount)")
    directory = tmp_path_factory.mktemp("image")
    must_run([ROOT / "packaging" / "collect", directory / "context"], cwd=directory, timeout=900, PYTHON=sys.executable)
    build = [ROOT / "packaging" / "build-root", directory / "root", directory / "context"]
    must_run(build, cwd=directory, timeout=1200)
    return directory / "root"


def run_inside(image: Path, *command: object, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the image, as ``docker run`` would."""
    return run([ROOT / "packaging" / "run-root", image, *command], cwd=image, timeout=600, **changes)


def test_the_image_has_python_3_13_and_java_21(image: Path) -> None:
    assert run_inside(image, "/opt/enrich/bin/python", "--version").stdout.startswith("Python 3.13.")
    assert ' version "21.' in run_inside(image, "java", "-version").stderr


def test_the_image_runs_as_a_user_without_rights(image: Path) -> None:
    assert run_inside(image, "id", "-u").stdout == "10001\n"
    assert run_inside(image, "enrich", "--version").stdout.startswith("enrich ")
    assert run_inside(image, "touch", "/opt/enrich/x").returncode == 1
    assert not list(image.glob("opt/enrich/bin/pip*"))
    assert not (image / "context").exists()


def test_the_image_plays_the_demo_with_its_own_jars_and_archive_and_no_network(image: Path) -> None:
    """In a network namespace of its own, where there is nothing but the loopback interface."""
    inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "-"]
    command = [*inside, ROOT / "packaging" / "run-root", image, "enrich", "demo", "/project/demo"]
    played = run(command, cwd=image, timeout=600)
    assert played.returncode == 0, played.stdout[-2000:] + played.stderr[-2000:]
    assert "Every round was as expected" in played.stdout
    found = "from enrich.spark import archive, jars; print(archive.find_archive(jars.find_delta_jars()))"
    assert run_inside(image, "/opt/enrich/bin/python", "-c", found).stdout.startswith("/var/cache/enrich/classes/")
