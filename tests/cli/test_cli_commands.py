"""The commands that read files only, and how options reach them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import enrich
from cli.shop import CONF
from enrich.answers.reasons import Reason, Why
from kit.command import Call, Start
from kit.project import ROOT, files_below


def test_ls_lists_jobs_in_run_order(call: Call) -> None:
    result = call("--project-dir", ROOT, "ls")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines[0] == ["job", "kind", "sources", "target", "after"]
    names = [line[0] for line in lines[1:]]
    assert names.index("consents_with_email") < names.index("reachable_customers")
    assert lines[names.index("consents_with_email") + 1] == [
        "consents_with_email",
        "join",
        "consents=customer_consents,",
        "accounts=customer_accounts",
        "consents_with_email",
        "-",
    ]


def test_ls_lists_the_chosen_jobs(call: Call) -> None:
    def listed(*args: str) -> list[str]:
        found = json.loads(call("--project-dir", ROOT, "ls", "--output", "json", *args).stdout)["jobs"]
        return [job["job"] for job in found]

    every = listed()
    assert listed("--select", f"{every[0][:4]}*") == [name for name in every if name.startswith(every[0][:4])]
    assert listed("--exclude", every[-1]) == every[:-1]
    assert listed(every[1]) == [every[1]]
    assert call("--project-dir", ROOT, "ls", "--select", "no_such").exit_code == 2


@pytest.mark.parametrize(
    ("args", "asked"),
    [
        (["-1"], ("-1", None)),
        (["-1.5", "name"], ("-1.5", "name")),
        (["-1", "name", "--output", "json"], ("-1", "name")),
        (["--key", "id=-1", "name"], (["id=-1"], "name")),
        (["--", "-x"], ("-x", None)),
    ],
)
def test_a_negative_number_is_a_key(
    call: Call, monkeypatch: pytest.MonkeyPatch, args: list[str], asked: tuple[object, str | None]
) -> None:
    seen: list[object] = []

    def why(_project: object, _job: str, key: object, column: str | None, **_: object) -> Why:
        seen.append((key, column))
        return Why("j", 0, Reason("matched"), {}, {"name": Reason("matched")})

    monkeypatch.setattr(enrich, "why", why)
    assert call("--project-dir", ROOT, "why", "j", *args).exit_code == 0
    assert seen == [asked]


def test_ls_as_json_is_one_line(call: Call) -> None:
    result = call("--project-dir", ROOT, "ls", "--output", "json")
    assert result.stdout.count("\n") == 1
    listed = {job["job"]: job for job in json.loads(result.stdout)["jobs"]}
    assert listed["reachable_customers"]["after"] == ["consents_with_email"]
    assert listed["lookup_mirror"]["kind"] == "mirror"
    assert listed["products_with_merchant"]["sources"]["countries"] == "countries"


def test_target_and_project_may_stand_before_or_after_the_command(call: Call, bare_project: Path) -> None:
    (bare_project / "conf" / "prod.yml").write_text(CONF)

    def target(*args: object, **environment: str) -> str:
        result = call(*args, **environment)
        assert result.exit_code == 0, result.stderr
        return str(json.loads(result.stdout)["target"])

    ls = ("ls", "--output", "json")
    here = ("--project-dir", bare_project)
    assert target(*here, *ls) == "dev"
    assert target(*here, "--target", "prod", *ls) == "prod"
    assert target(*ls, *here, "--target", "prod") == "prod"
    assert target(*here, "--target", "dev", *ls, "--target", "prod") == "prod"
    assert target(*here, *ls, ENRICH_TARGET="prod") == "prod"
    assert target(*here, "--target", "dev", *ls, ENRICH_TARGET="prod") == "dev"
    assert target(*here, *ls, "--target", "dev", ENRICH_TARGET="prod") == "dev"
    assert target(*ls, ENRICH_PROJECT_DIR=str(bare_project)) == "dev"


@pytest.mark.parametrize("where", ["before", "after"])
def test_an_empty_target_is_not_dev(call: Call, bare_project: Path, where: str) -> None:
    """As `--target "$TARGET"` gives it where the variable is not set; an empty ENRICH_TARGET is as good as none."""
    words = ["--target", "", "ls"] if where == "before" else ["ls", "--target", ""]
    result = call("--project-dir", bare_project, *words, ENRICH_TARGET="dev")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--target" in result.stderr
    assert "it is empty" in result.stderr
    assert call("--project-dir", bare_project, "ls", ENRICH_TARGET="").exit_code == 0


@pytest.mark.parametrize("name", ["ENRICH_OUTPUT", "ENRICH_LS_OUTPUT"])
def test_options_come_from_the_environment(call: Call, bare_project: Path, name: str) -> None:
    assert call("--project-dir", bare_project, "ls", **{name: "json"}).stdout.startswith(
        '{"target":"dev","deployment":"dev"'
    )
    assert call("--project-dir", bare_project, "ls", "--output", "text", **{name: "json"}).stdout.startswith("job ")
    wrong = call("--project-dir", bare_project, "ls", **{name: "xml"})
    assert wrong.exit_code == 2
    assert "xml" in wrong.stderr


@pytest.mark.parametrize("option", ["VERSION", "HELP", "LS_HELP", "_CLICK_DEFAULT_HELP", "LS__CLICK_DEFAULT_HELP"])
def test_no_variable_puts_a_word_in_the_place_of_the_command(call: Call, bare_project: Path, option: str) -> None:
    listed = call("--project-dir", bare_project, "ls", "--output", "json", **{f"ENRICH_{option}": "1"})
    assert listed.stdout.startswith('{"target":"dev"')


def test_a_variable_has_the_name_that_the_option_has(call: Call, bare_project: Path) -> None:
    """`--key` of `why` fills a parameter of another name."""
    asked = call("--project-dir", bare_project, "why", "customers", "a", "email", ENRICH_KEY="id=a")
    assert asked.exit_code == 2
    assert "give the key either as KEY or with --key" in asked.stderr


def test_the_project_is_found_upwards_from_where_one_is(start: Start, bare_project: Path) -> None:
    deep = bare_project / "lake" / "x" / "y"
    deep.mkdir(parents=True)
    assert "customers" in start("ls", cwd=deep).stdout
    nowhere = bare_project.parent
    outside = start("ls", cwd=nowhere)
    assert (outside.returncode, outside.stdout) == (2, "")
    assert "no project here" in outside.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["ls", "--nonsense"],
        ["ls", "--output", "xml"],
        ["validate", "surplus"],
        ["run", "--skip-code", "0"],
        ["run", "--skip-code", "256"],
        ["run", "--skip-code", "x"],
        ["run", "--log-format", "xml"],
        ["run", "--result-file"],
        ["schema", "suites"],
    ],
)
def test_wrong_usage_exits_2_and_says_where_to_read_on(call: Call, bare_project: Path, args: list[str]) -> None:
    result = call("--project-dir", bare_project, *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "try: enrich " in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("option", ["--since", "--every", "--result-file"])
def test_an_option_without_its_value_leads_to_the_help_of_its_command(call: Call, option: str) -> None:
    assert call("run", option).stderr.splitlines() == [
        "try: enrich run --help",
        f"error: Option '{option}' requires an argument.",
    ]


def test_a_table_that_is_not_there_is_told_the_one_beside_it_or_that_the_lake_is_not_there(
    call: Call, project: Path
) -> None:
    def refuse() -> str:
        (line,) = call("--project-dir", project, "validate").stderr.splitlines()
        return line

    accounts = project / "lake" / "accounts"
    accounts.rename(project / "lake" / "acounts")
    assert refuse().endswith(f"there is no table at {accounts}; did you mean 'acounts'?")
    (project / "lake" / "acounts").rename(project / "else")
    assert refuse().endswith(f"there is no table at {accounts}; create it, or correct the table's name")
    conf = project / "conf" / "dev.yml"
    conf.write_text(conf.read_text().replace("./lake", "./lakes"))
    said = call("--project-dir", project, "validate").stderr.splitlines()
    assert said[0].endswith("/lakes is not there either: see 'lake' in conf/; create it, or correct the table's name")


def test_no_command_prints_help(call: Call) -> None:
    result = call()
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: enrich [OPTIONS] COMMAND [ARGS]...\n\n  Keep the results")
    assert "Commands:" in result.stderr
    assert "error" not in result.stderr.splitlines()[0]
    assert result.stderr == call("--help").stdout


def test_version(start: Start) -> None:
    result = start("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("enrich")


def test_schema_prints_json_schema(call: Call) -> None:
    for kind in ("job", "conf"):
        schema = json.loads(call("schema", kind).stdout)
        assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert "sources" in json.loads(call("schema").stdout)["properties"]


def test_the_samples_are_the_demos_project() -> None:
    packaged = ROOT / "lib" / "enrich" / "demo" / "project"
    for name in files_below(packaged):
        assert (ROOT / name).read_bytes() == (packaged / name).read_bytes(), f"{name} differs from the demo's"
    samples = {f"{part}/{path.name}" for part in ("jobs", "expectations", "conf") for path in (ROOT / part).glob("*.*")}
    assert samples == files_below(packaged)


def test_ls_needs_neither_java_nor_heavy_imports(start: Start, bare_project: Path) -> None:
    code = (
        "import sys; from enrich.cli import cli\n"
        "try: cli.main(['ls'])\n"
        "finally: print(*{'pyspark','great_expectations','deltalake','pandas','duckdb'} & set(sys.modules), 'loaded')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib"), "PATH": "", "ENRICH_PROJECT_DIR": str(bare_project)}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded"


def test_a_project_of_someone_else_is_not_mixed_in(call: Call, bare_project: Path, tmp_path: Path) -> None:
    """``--project-dir`` names the project itself: it is not searched upwards."""
    inner = bare_project / "jobs"
    result = call("--project-dir", inner, "ls")
    assert result.exit_code == 2
    assert "is not a project" in result.stderr
    shutil.rmtree(bare_project / "conf")
    gone = call("--project-dir", bare_project, "ls")
    assert "it has no conf/" in gone.stderr
