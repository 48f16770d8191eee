"""stdout carries the result and nothing else, whatever stands at its other end."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import enrich
from enrich.base.errors import ConfigError, DriftError
from enrich.base.files import WholeFile
from enrich.base.result import JobResult, RunResult
from kit.command import Call, Start
from kit.project import ROOT, files_below


def answers(monkeypatch: pytest.MonkeyPatch, *jobs: JobResult, raises: BaseException | None = None) -> dict[str, Any]:
    """Let ``enrich.run`` answer at once; return what it was asked."""
    asked: dict[str, Any] = {}

    def run(project: Any, jobs: Any = None, **how: Any) -> RunResult:
        on_result = how.pop("on_result")
        asked.update(how, jobs=jobs, target=project.deployment)
        for job in answer:
            on_result(job)
        if raises is not None:
            raise raises
        return RunResult("01RUN", project.deployment, answer)

    answer = jobs
    monkeypatch.setattr(enrich, "run", run, raising=False)
    return asked


DONE = JobResult("customers", "updated", "incremental")
IDLE = JobResult("customers", "unchanged", "incremental")
BLOCKED = JobResult("customers", "blocked", "incremental", error="no", exit_code=3)
FAILED = JobResult("customers", "failed", error="no", exit_code=1)


@pytest.mark.parametrize(
    ("jobs", "code"), [([DONE], 0), ([IDLE], 0), ([BLOCKED], 3), ([BLOCKED, FAILED], 1), ([DONE, BLOCKED], 3)]
)
def test_the_exit_code_is_the_gravest(
    call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch, jobs: list[JobResult], code: int
) -> None:
    answers(monkeypatch, *jobs)
    result = call("--project-dir", bare_project, "run", "--output", "json")
    assert result.exit_code == code
    assert result.stdout.count("\n") == 1
    assert json.loads(result.stdout)["exit_code"] == code


@pytest.mark.parametrize(
    ("jobs", "code"), [([IDLE], 99), ([IDLE, IDLE], 99), ([DONE], 0), ([IDLE, DONE], 0), ([IDLE, BLOCKED], 3)]
)
def test_skip_code_is_for_runs_without_work_alone(
    call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch, jobs: list[JobResult], code: int
) -> None:
    answers(monkeypatch, *jobs)
    assert call("--project-dir", bare_project, "run", "--skip-code", "99").exit_code == code


def test_options_reach_the_run(call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, DONE)
    options = ["--since", "3d", "--until", "v4", "--allow-gap", "--full-refresh", "--dry-run"]
    assert call("--project-dir", bare_project, "run", "customers", *options).exit_code == 0
    assert asked["jobs"] == ["customers"]
    assert (asked["since"], asked["until"]) == (("3d",), ("v4",))
    assert asked["allow_gap"] is asked["full_refresh"] is asked["dry_run"] is True
    assert call("--project-dir", bare_project, "run").exit_code == 0
    assert (asked["since"], asked["until"]) == ((), ())
    assert asked["allow_gap"] is asked["full_refresh"] is asked["dry_run"] is False


def test_an_unreadable_project_is_one_json_line_and_one_line_a_fault(call: Call, bare_project: Path) -> None:
    (bare_project / "jobs" / "customers.yml").write_text("job: customers\nsources: {}\nfrom: x\nbogus: 1\n")
    result = call("--project-dir", bare_project, "run", "--output", "json")
    assert result.exit_code == 2
    said = json.loads(result.stdout)
    assert (said["jobs"], said["exit_code"], said["run_id"], said["target"]) == ([], 2, None, "dev")
    assert "bogus" in said["error"]
    lines = result.stderr.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("error: jobs/customers.yml") for line in lines)
    assert not (bare_project / "lake").exists()


@pytest.mark.parametrize(
    "words",
    [
        *(["ls"], ["status"], ["report"], ["report", "--format", "json"], ["doctor"]),
        *(["why", "customers", "a"], ["failing", "customers"], ["doctor", "keys", "customers"]),
    ],
)
def test_a_question_about_an_unreadable_project_is_answered_by_one_json_line(
    call: Call, bare_project: Path, words: list[str]
) -> None:
    (bare_project / "jobs" / "customers.yml").write_text("job: customers\nbogus: 1\n")
    as_json = [] if "--format" in words else ["--output", "json"]
    result = call("--project-dir", bare_project, *words, *as_json)
    said = json.loads(result.stdout)
    assert (result.exit_code, result.stdout.count("\n"), said["exit_code"], said["jobs"]) == (2, 1, 2, [])
    assert (said["target"], said["deployment"], "bogus" in said["error"]) == ("dev", "dev", True)
    assert all(line.startswith("error: jobs/customers.yml") for line in result.stderr.splitlines())
    assert (
        call("--project-dir", bare_project, *words[: words.index("--format") if as_json == [] else None]).stdout == ""
    )


def test_a_bug_is_one_line_without_the_exceptions_text(
    call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, raises=ValueError("secret@example.com"))
    result = call("--project-dir", bare_project, "run", "--output", "json")
    assert result.exit_code == 1
    assert "secret" not in result.output
    assert "ValueError" in result.stderr
    assert json.loads(result.stdout)["exit_code"] == 1


def test_misuse_and_interruption_have_their_codes(
    call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ("--project-dir", bare_project, "run", "--output", "json")
    for raised, code in [
        (ConfigError("x"), 2),
        (DriftError("x"), 6),
        (KeyboardInterrupt(), 130),
        (PermissionError(13, "Permission denied", "/x"), 7),
        (OSError(28, "No space left on device"), 7),
    ]:
        answers(monkeypatch, raises=raised)
        result = call(*run)
        assert (result.exit_code, json.loads(result.stdout)["exit_code"]) == (code, code)


def test_an_interrupted_run_tells_the_jobs_that_were_done(
    call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, DONE, raises=KeyboardInterrupt())
    result = call("--project-dir", bare_project, "run", "--output", "json")
    said = json.loads(result.stdout)
    assert (result.exit_code, said["exit_code"]) == (130, 130)
    assert [job["status"] for job in said["jobs"]] == ["updated"]
    assert "interrupted" in said["error"]
    assert "customers: updated" in result.stderr


# --- --result-file ---------------------------------------------------------------------------------------------------


def test_the_result_file_holds_the_json_line(
    call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers(monkeypatch, DONE)
    path = tmp_path / "out" / "result.json"
    path.parent.mkdir()
    path.write_text("old")
    path.chmod(0o640)
    result = call("--project-dir", bare_project, "run", "--result-file", path)
    assert result.exit_code == 0
    assert result.stdout.startswith("job ")
    assert json.loads(path.read_text())["jobs"][0]["status"] == "updated"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert files_below(path.parent) == {"result.json"}


def test_the_result_file_tells_of_an_unreadable_project(call: Call, bare_project: Path, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    (bare_project / "conf" / "dev.yml").write_text("lake: [")
    assert call("--project-dir", bare_project, "run", "--result-file", path).exit_code == 2
    assert json.loads(path.read_text())["exit_code"] == 2


@pytest.mark.parametrize("kind", ["no directory", "a directory", "a device"])
def test_a_result_file_that_cannot_be_written_stops_the_run_before_it_starts(
    call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    asked = answers(monkeypatch, DONE)
    path = {"no directory": tmp_path / "no" / "f", "a directory": tmp_path, "a device": Path(os.devnull)}[kind]
    result = call("--project-dir", bare_project, "run", "--output", "json", "--result-file", path)
    assert result.exit_code == 2
    assert asked == {}
    assert json.loads(result.stdout)["jobs"] == []
    assert "--result-file" in result.stderr


def test_a_link_to_a_file_stays_and_the_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    link, path = tmp_path / "latest", tmp_path / "out" / "result.json"
    link.symlink_to(path)
    for text in ("first", "second"):
        WholeFile(link, "--result-file").write(text)
        assert (link.readlink(), path.read_text()) == (path, f"{text}\n")
    assert files_below(tmp_path) == {"latest", "out/result.json"}
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(ConfigError, match="cannot be written"):
        WholeFile(link, "--result-file")


def test_a_dropped_result_file_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    file = WholeFile(path, "--result-file")
    file.drop()
    assert path.read_text() == "old"
    assert files_below(tmp_path) == {"f"}


def test_a_new_file_has_the_mode_that_the_umask_leaves_and_the_umask_is_never_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other threads make files meanwhile, too."""
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "umask", lambda _: pytest.fail("the umask was changed"))
            WholeFile(tmp_path / "f", "--result-file").write("new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640
    assert files_below(tmp_path) == {"f"}


# --- the other end of a stream ---------------------------------------------------------------------------------------


def test_a_reader_that_has_gone_is_no_error(start: Start) -> None:
    command = f"'{sys.executable}' -m enrich --project-dir '{ROOT}' ls | true; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib")}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_closed_stdout_is_no_crash(start: Start) -> None:
    command = f"'{sys.executable}' -m enrich --project-dir '{ROOT}' ls >&-; echo $?"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib")}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's own")
def test_a_full_disk_behind_stdout_is_an_environment_error() -> None:
    command = f"'{sys.executable}' -m enrich --project-dir '{ROOT}' ls > /dev/full; echo $?"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib")}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.stdout == "7\n"
    assert "could not be written" in done.stderr


def test_a_terminal_without_unicode_gets_escapes(start: Start, bare_project: Path) -> None:
    done = start("--project-dir", bare_project, "ls", "--target", "türkis", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert "t\\xfcrkis" in done.stderr


def test_terminal_escapes_in_arguments_are_shown(call: Call, bare_project: Path) -> None:
    result = call("--project-dir", bare_project, "run", "\x1b[2Jcustomers")
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr
    assert "x1b[2J" in result.stderr


def on_a_terminal(command: list[str], **environment: str) -> str:
    """Run a command whose stderr is a terminal; return what it wrote there."""
    outer, inner = os.openpty()
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    known |= {"PYTHONPATH": str(ROOT / "lib"), "TERM": "xterm", **environment}
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=inner, env=known, timeout=300, check=False)
    os.close(inner)
    with os.fdopen(outer, "rb", buffering=0) as terminal:
        return terminal.read(65536).decode()


def test_colours_only_on_a_terminal_and_never_with_no_color(start: Start, bare_project: Path) -> None:
    args = ["--project-dir", str(bare_project), "run", "nope"]
    command = [sys.executable, "-m", "enrich", *args]
    assert "\x1b" not in start(*args).stderr
    assert "\x1b[31m" in on_a_terminal(command)
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = on_a_terminal(command, **environment)
        assert "\x1b" not in plain
        assert "no job 'nope'" in plain
