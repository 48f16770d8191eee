"""The base install: what runs without Spark and Great Expectations, what asks for an extra, and a clash of names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import enrich
from cli.shop import ACCOUNTS, CONF, CONSENTS, JOB, write_table
from enrich.base import failures
from enrich.base.errors import EnvironmentFault
from enrich.base.failures import describe_error
from kit.command import environment
from kit.project import ROOT, hold_nulls, suite, write_project

HEAVY = ("pyspark", "py4j", "delta", "pandas", "great_expectations")
POSIX = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "posix_ipc", "syslog")
"""What Windows does not have."""

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in BLOCKED:
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)

BLOCKED = set(sys.argv.pop(1).split(','))
for name in BLOCKED:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocker())
from enrich.cli import main
main()
"""


def start_without(blocked: tuple[str, ...], *args: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a Python that cannot import some packages."""
    command = [sys.executable, "-c", BLOCKER, ",".join(blocked), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=300, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one job with a suite, and its tables."""
    files = {
        "conf/dev.yml": CONF,
        "jobs/customers.yml": JOB + "expectations: customers\n",
        "expectations/customers.json": suite("customers", hold_nulls("email")),
    }
    home = write_project(tmp_path / "shop", files)
    write_table(home / "lake" / "consents", [{"id": "a", "consent": True}], CONSENTS)
    write_table(home / "lake" / "accounts", [{"id": "a", "email": "a@example.com"}], ACCOUNTS)
    return home


LIGHT = [
    ("--version",),
    ("--help",),
    ("ls",),
    ("validate",),
    ("status",),
    ("report",),
    ("report", "--format", "html"),
    ("schema", "job"),
    ("schema", "report"),
]


ONE_AFTER_THE_OTHER = """
for args in {commands}:
    try:
        cli.main(args=args, prog_name='enrich')
    except SystemExit as end:
        print('ENDED', end.code, *args)
"""


@pytest.mark.parametrize("blocked", [HEAVY, (*HEAVY, *POSIX)], ids=["base install", "windows"])
def test_what_reads_files_and_logs_needs_no_extra_and_no_posix(project, blocked):
    """All in one Python: each start costs half a second."""
    commands = [["--project-dir", str(project), *args] for args in LIGHT] + [["init", str(project / "new")]]
    code = BLOCKER.replace("main\nmain()", "cli") + ONE_AFTER_THE_OTHER.format(commands=commands)
    command = [sys.executable, "-c", code, ",".join(blocked)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=300, check=True)
    ended = [line for line in done.stdout.splitlines() if line.startswith("ENDED")]
    assert ended == [f"ENDED 0 {' '.join(args)}" for args in commands], done.stderr


def test_the_job_graph_is_read_from_python_without_extras(project):
    code = BLOCKER.replace("from enrich.cli import main\nmain()", "import enrich\n") + (
        f"project = enrich.load_project({str(project)!r})\nprint(list(project.jobs), *sys.modules)"
    )
    command = [sys.executable, "-c", code, ",".join(HEAVY)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=300, check=True)
    assert done.stdout.startswith("['customers']")
    assert not set(HEAVY) & set(done.stdout.split())


def test_validate_finds_faults_of_suites_without_great_expectations(project):
    (project / "expectations" / "customers.json").write_text(suite("customers", hold_nulls("emial")))
    done = start_without(HEAVY, "--project-dir", project, "validate")
    assert done.returncode == 2
    assert "emial" in done.stderr


@pytest.mark.parametrize(
    "args", [("why", "customers", "a"), ("failing", "customers"), ("doctor", "keys", "customers")], ids=" ".join
)
def test_what_needs_spark_ends_with_7_and_the_line_that_installs_it(project, args):
    done = start_without(HEAVY, "--project-dir", project, *args)
    assert done.returncode == 7, done.stderr
    assert "run `pip install 'enrich-delta[spark]'`" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_without_spark_is_a_result_like_others(project):
    (project / "jobs" / "customers.yml").write_text(JOB)
    done = start_without(HEAVY, "--project-dir", project, "run", "--output", "json")
    assert done.returncode == 7
    (job,) = json.loads(done.stdout)["jobs"]
    said = "this needs Spark with Delta, and the package 'pyspark' is not installed"
    assert job["error"] == f"{said}; run `pip install 'enrich-delta[spark]'`"


@pytest.mark.parametrize("blocked", [("great_expectations",), HEAVY])
def test_a_job_with_a_suite_asks_for_great_expectations_before_spark_starts(project, blocked):
    done = start_without(blocked, "--project-dir", project, "run", "--output", "json")
    assert done.returncode == 7
    (job,) = json.loads(done.stdout)["jobs"]
    assert "run `pip install 'enrich-delta[gx]'`" in job["error"]
    assert "starting Spark" not in done.stderr


def test_the_demo_needs_both_and_writes_nothing_without(tmp_path):
    for blocked, extra in ((HEAVY, "spark"), (("great_expectations",), "gx")):
        done = start_without(blocked, "demo", tmp_path / "demo")
        assert done.returncode == 7
        assert f"enrich-delta[{extra}]" in done.stderr
    assert not (tmp_path / "demo").exists()


def test_on_windows_a_run_says_that_it_cannot(project):
    (project / "jobs" / "customers.yml").write_text(JOB)
    done = start_without(POSIX, "--project-dir", project, "run")
    assert done.returncode == 7
    assert "run enrich inside WSL" in done.stdout + done.stderr


def test_an_import_that_fails_deep_inside_names_the_extra_too():
    error = describe_error(ModuleNotFoundError("No module named 'py4j.java_gateway'", name="py4j.java_gateway"), "job")
    assert isinstance(error, EnvironmentFault)
    assert "enrich-delta[spark]" in str(error)
    other = describe_error(ModuleNotFoundError("No module named 'numpy'", name="numpy"), "job")
    assert "a package is missing" in str(other)


def test_every_extra_that_code_asks_for_brings_what_it_imports():
    import tomllib

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert declared["name"] == failures.DISTRIBUTION
    for extra in failures.MODULES:
        assert declared["optional-dependencies"][extra]
    (everything,) = declared["optional-dependencies"]["all"]
    assert set(failures.MODULES) <= set(re.findall(r"\w+", everything.partition("[")[2]))
    assert f"{failures.DISTRIBUTION}[all]" in declared["optional-dependencies"]["dev"]
    base = {re.findall(r"[\w-]+", each)[0].lower() for each in declared["dependencies"]}
    assert not base & {"pyspark", "delta-spark", "pandas", "great-expectations", "apache-airflow"}


def test_the_version_is_the_distributions():
    assert enrich.__version__ == failures.read_version()
    assert re.match(r"\d", enrich.__version__)


@pytest.mark.parametrize("first", ["", None], ids=["overwritten", "removed"])
def test_another_distributions_package_is_named_at_start(tmp_path, first):
    """The distribution `enrich` of others has the same first file; whoever is installed or removed last decides."""
    shutil.copytree(ROOT / "lib" / "enrich", tmp_path / "enrich", ignore=shutil.ignore_patterns("__pycache__"))
    if first is None:
        (tmp_path / "enrich" / "__init__.py").unlink()
    else:
        (tmp_path / "enrich" / "__init__.py").write_text(first)
    only_here = "sys.path = [each for each in sys.path if not (Path(each) / 'enrich' / '__init__.py').exists()]"
    code = f"import sys; from pathlib import Path; {only_here}; sys.path.insert(0, {str(tmp_path)!r})"
    command = [sys.executable, "-c", f"{code}; from enrich.cli import main; main()", "ls"]
    known = environment(PYTHONPATH=str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, env=known, cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == 7, done.stderr
    assert "pip uninstall enrich" in done.stderr
    assert "Traceback" not in done.stderr
