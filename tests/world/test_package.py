"""The wheel outside of the repository: what is in it, what it does without extras and with all, a clash of names."""

from __future__ import annotations

import json
import re
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from cli.shop import ACCOUNTS, CONF, CONSENTS, JOB, write_table
from kit.project import ROOT, hold_nulls, suite, write_project
from kit.world import Environment, copy_tree_to_build, make_environment, must_run, run

PINS = ROOT / "constraints.txt"


def find_pin(name: str) -> str:
    """Return the line of constraints.txt for a distribution."""
    return next(line for line in PINS.read_text().splitlines() if line.startswith(f"{name}=="))


def list_package() -> set[str]:
    """Return the files of the package as the tree has them."""
    lib = ROOT / "lib"
    found = {path.relative_to(lib).as_posix() for path in (lib / "enrich").rglob("*") if path.is_file()}
    return {name for name in found if "__pycache__" not in name}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of one job with a suite, and its tables."""
    files = {
        "conf/dev.yml": CONF,
        "jobs/customers.yml": JOB + "expectations: customers\n",
        "expectations/customers.json": suite("customers", hold_nulls("email")),
    }
    home = write_project(tmp_path_factory.mktemp("shop"), files)
    write_table(home / "lake" / "consents", [{"id": "a", "consent": True}], CONSENTS)
    write_table(home / "lake" / "accounts", [{"id": "a", "email": "a@example.com"}], ACCOUNTS)
    return home


# --- what is in it ---------------------------------------------------------------------------------------------------


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        shipped = {name: opened.read(name) for name in names}
    about = {name for name in names if ".dist-info/" in name}
    assert names - about == list_package()
    assert all(shipped[name] == (ROOT / "lib" / name).read_bytes() for name in names - about)
    assert any(name.endswith("licenses/LICENSE") for name in about)


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        about = next(name for name in opened.namelist() if name.endswith("METADATA")).rpartition("/")[0]
        metadata = Parser().parsestr(opened.read(f"{about}/METADATA").decode())
        commands = opened.read(f"{about}/entry_points.txt").decode()
    assert (metadata["Name"], metadata["License-Expression"]) == ("enrich-delta", "Apache-2.0")
    assert {"spark", "gx", "airflow", "lineage", "all", "dev"} <= set(metadata.get_all("Provides-Extra") or ())
    assert "enrich = enrich.cli:main" in commands
    required = [each for each in metadata.get_all("Requires-Dist") or () if "extra ==" not in each]
    assert not re.search("spark|expectations|airflow|pandas", " ".join(required))


def test_a_wheel_from_the_source_distribution_is_the_same(wheel: Path, tmp_path: Path) -> None:
    source = copy_tree_to_build(tmp_path / "source")
    builder = make_environment(tmp_path / "builder")
    builder.install(find_pin("setuptools"))
    build = "from setuptools import build_meta; print(build_meta.build_sdist('..'))"
    must_run([builder.python, "-c", build], cwd=source)
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
        opened.extractall(tmp_path / "unpacked", filter="data")
    assert {"constraints.txt", "CHANGELOG.md", "README.md", "LICENSE", "pyproject.toml"} <= names
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", tmp_path]
    must_run([sys.executable, "-m", "pip", "wheel", *options, unpacked], cwd=tmp_path)
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as second:
        assert sorted(first.namelist()) == sorted(second.namelist())


# --- the base install ------------------------------------------------------------------------------------------------


def test_the_base_install_has_no_spark_and_reads_projects(base: Environment, project: Path) -> None:
    listed = must_run([base.python, "-m", "pip", "list", "--format=freeze"], cwd=base.home)
    assert not re.search("(?im)^(pyspark|delta-spark|py4j|great|pandas|apache-airflow)", listed)
    version = must_run([base.python, "-c", "import enrich; print(enrich.__version__)"], cwd=base.home).strip()
    assert base.enrich("--version", cwd=project).stdout == f"enrich {version}\n"
    assert f"enrich-delta=={version}" in listed or "enrich-delta @ " in listed
    for command in (["ls"], ["validate"], ["status"], ["report"], ["report", "--format", "html"], ["schema", "job"]):
        done = base.enrich(*command, cwd=project)
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_the_base_install_names_the_extra_that_a_run_needs(base: Environment, project: Path) -> None:
    done = base.enrich("run", "--output", "json", cwd=project)
    assert done.returncode == 7
    assert "pip install 'enrich-delta[gx]'" in json.loads(done.stdout)["jobs"][0]["error"]
    done = base.enrich("doctor", "keys", "customers", cwd=project)
    assert done.returncode == 7
    assert "pip install 'enrich-delta[spark]'" in done.stderr


def test_the_name_that_others_have_is_told_and_repaired_as_the_message_says(
    base: Environment, project: Path, wheel: Path
) -> None:
    base.install("--no-deps", "enrich", constraints=None)
    broken = base.enrich("ls", cwd=project)
    assert broken.returncode == 7
    assert "pip uninstall enrich" in broken.stderr
    must_run([base.python, "-m", "pip", "uninstall", "--yes", "--quiet", "enrich"], cwd=base.home)
    assert base.enrich("ls", cwd=project).returncode == 7
    base.install("--force-reinstall", "--no-deps", wheel)
    assert base.enrich("ls", cwd=project).returncode == 0


# --- all extras ------------------------------------------------------------------------------------------------------


def test_all_extras_run_a_project(full: Environment, project: Path) -> None:
    """The image, which is installed from the same wheel, plays the demo: test_image.py."""
    ran = full.enrich("run", "--output", "json", cwd=project, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout)["jobs"][0]["status"] == "created"
    checked = full.enrich("validate", cwd=project)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_new_user_starts_a_project_runs_it_and_reads_its_errors(full: Environment, tmp_path: Path) -> None:
    """What `enrich init` says comes next, a word that is mistyped, and why a cell is null."""
    begun = full.enrich("init", "shop", cwd=tmp_path)
    assert begun.returncode == 0, begun.stderr
    assert "cd shop" in begun.stdout
    home = tmp_path / "shop"
    jobs = sorted(path.stem for path in (home / "jobs").glob("*.yml"))
    for status in ("created", "unchanged"):
        ran = full.enrich("run", "--output", "json", cwd=home, timeout=600)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert {job["job"]: job["status"] for job in json.loads(ran.stdout)["jobs"]} == dict.fromkeys(jobs, status)
    tested = full.enrich("test", cwd=home, timeout=600)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "1 scenario passed" in tested.stdout

    file = home / "jobs" / "orders_with_customer.yml"
    right = file.read_text()
    for word, typo in (
        ("kind: foreign_key", "kind: foriegn_key"),
        ("from:", "form:"),
        ("customers.name", "customers.nmae"),
    ):
        line = next(number for number, text in enumerate(right.splitlines(), 1) if word in text)
        file.write_text(right.replace(word, typo))
        refused = full.enrich("validate", cwd=home)
        meant = re.split("[: .]+", word.rstrip(":"))[-1]
        assert refused.returncode == 2
        assert re.search(rf"jobs/orders_with_customer\.yml:{line}: .*did you mean '{meant}'\?", refused.stderr), refused
    file.write_text(right)

    why = full.enrich("why", "orders_with_customer", "o4", cwd=home, timeout=600)
    assert why.returncode == 0, why.stderr
    assert re.search("(?m)^source +customers +no_such_key", why.stdout), why.stdout


def test_a_package_of_the_environment_is_used_and_not_this_tree(full: Environment, tmp_path: Path) -> None:
    where = run([full.python, "-c", "import enrich; print(enrich.__file__)"], cwd=tmp_path).stdout
    assert where.startswith(str(full.home))
