"""What a task of Airflow runs, and what the run's end means. Airflow itself: tests/world."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from enrich.airflow.command import (
    Command,
    decide,
    describe_end,
    describe_success,
    read_result,
)
from enrich.base.errors import GRAVITY, ConfigError
from kit.project import CONF, SHOP, write_project

NASTY = "a b; touch $(pwd) 'x' {{ y }}"


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        *((0, "success"), (99, "skip")),
        *((code, "fail") for code in (2, 3, 5, 6)),
        *((code, "retry") for code in (1, 4, 7, 130, 143, -9, -15, 127)),
    ],
)
def test_what_exit_codes_mean(code, verdict):
    assert decide(code) == verdict


def test_every_exit_code_that_a_run_can_have_is_success_fail_or_retry():
    assert {code: decide(code) for code in GRAVITY} == {
        **dict.fromkeys((143, 130, 7, 1, 4), "retry"),
        **dict.fromkeys((6, 5, 2, 3), "fail"),
        0: "success",
    }


def test_arguments_that_are_one_text_are_refused():
    """It would be split into letters."""
    assert Command("/p", "shop", arguments=["--full-refresh"]).line()[-3:] == ["--full-refresh", "--", "shop"]
    with pytest.raises(ConfigError, match=r"arguments of job 'shop' must be a list of words, not text"):
        Command("/p", "shop", arguments="--full-refresh").line()


def test_the_command_line_is_a_list_of_words():
    command = Command(NASTY, "shop", "prod", ("python", "-m", "enrich"), ("--since", "2d"))
    assert command.line() == [
        *("python", "-m", "enrich", "--project-dir", NASTY, "--target", "prod", "run"),
        *("--output", "json", "--skip-code", "99", "--since", "2d", "--", "shop"),
    ]


def test_the_command_line_is_one_that_enrich_understands(tmp_path: Path) -> None:
    """A target that does not exist ends the run before it reads tables: the words were understood."""
    from enrich.cli import cli

    home = write_project(tmp_path / NASTY.replace("/", ""), {"conf/dev.yml": CONF, "jobs/shop.yml": SHOP})
    command = Command(str(home), "shop", "nowhere", arguments=("--since", "2d", "--fail-fast"))
    until = datetime(2026, 11, 1, 12, tzinfo=UTC)
    found = CliRunner().invoke(cli, command.line(until)[1:])
    result = read_result(found.stdout)
    assert result is not None
    assert (result["exit_code"], result["target"]) == (2, "nowhere")
    assert "there is no deployment 'nowhere'" in result["error"]
    assert shlex.split(shlex.join(command.line(until))) == command.line(until)


def test_the_end_of_the_interval_becomes_until():
    until = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)
    line = Command("/p", "shop").line(until)
    assert line[line.index("--until") + 1] == "2026-11-01T12:30:00+00:00"
    assert "--until" not in Command("/p", "shop").line()


@pytest.mark.parametrize(
    "word",
    ["--output", "--output=text", "--skip-code", "--project-dir=/x", "--target", "--dry-run", "--select", "--until=1d"],
)
def test_options_that_the_task_sets_are_refused(word):
    command = Command("/p", "shop", arguments=("--fail-fast", word))
    with pytest.raises(ConfigError, match=f"job 'shop' must not have {word.split('=')[0]}; "):
        command.line(datetime(2026, 11, 1, tzinfo=UTC))


def test_until_may_be_given_where_the_interval_is_not_asked_for():
    assert "--until" in Command("/p", "shop", arguments=("--until", "1d")).line()


@pytest.mark.parametrize("executable", [(), ("",), ("python", "")])
def test_an_empty_executable_is_refused(executable):
    with pytest.raises(ConfigError, match="executable is empty"):
        Command("/p", "shop", executable=executable).check()


@pytest.mark.parametrize(
    ("stdout", "result"),
    [
        ('{"exit_code":0}\n', {"exit_code": 0}),
        ('a wrapper talks\n{"exit_code":3,"jobs":[]}\n\n', {"exit_code": 3, "jobs": []}),
        ("", None),
        ("no JSON\n", None),
        ("[1]\n", None),
        ('{"exit_code":0}\nmore\n', None),
    ],
)
def test_the_result_is_the_last_line(stdout, result):
    assert read_result(stdout) == result


def test_the_end_of_a_run_is_told_in_one_line():
    blocked = {"exit_code": 3, "jobs": [{"job": "shop", "status": "blocked", "error": "rule mass_change failed"}]}
    assert describe_end("shop", 3, blocked) == (
        "enrich run shop ended with exit code 3: rule mass_change failed;"
        " running again does not help before this is done"
    )
    unread = {"exit_code": 2, "jobs": [], "error": "conf: there is no deployment"}
    assert "ended with exit code 2: conf: there is no deployment;" in describe_end("shop", 2, unread)
    assert describe_end("shop", -9, None) == (
        "enrich run shop was ended by signal 9: it printed no result; its messages are in the log above"
    )
    assert describe_end("shop", 4, json.loads('{"jobs":[{"error":null}]}')).endswith(
        "its messages are in the log above"
    )


def test_what_a_run_did_is_told_in_one_line():
    job = {"job": "shop", "status": "updated", "inserted": 3, "updated": 7, "deleted": 2, "quarantined": 0}
    assert describe_success({"jobs": [job]}) == "shop: updated, 3 inserted, 7 updated, 2 deleted, 0 quarantined"
