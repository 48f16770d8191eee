"""The commands that messages propose: made in one module, and understood by the command line as they stand."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FunctionType

import pytest

from cli.shop import CONF, JOB
from enrich.base import context, hints
from kit.command import Call, parse
from kit.project import ROOT, write_project

PACKAGE = ROOT / "lib" / "enrich"
_SHOWN = {"help", "description"}
"""Keyword arguments whose texts describe options and fields: they name a command, and propose none."""
_FILES = {"demo/__init__.py"}
"""Modules that name the command in texts of files and legends."""

JOB_NAME = "bestellungen-é.v2"
ALL = hints.RunOptions(True, "orders=v3,beginning", "2026-11-01 08:00", True, ("match_rate", "mass_change"))
COMMANDS: dict[str, Callable[[], str]] = {
    "run": hints.run,
    "refresh": lambda: hints.refresh(JOB_NAME),
    "plan": lambda: hints.plan(JOB_NAME),
    "repair": lambda: hints.repair(JOB_NAME),
    "verify": lambda: hints.verify(JOB_NAME),
    "why": lambda: hints.why(JOB_NAME, "--key", "name=it's", "e mail"),
    "failing": lambda: hints.failing(JOB_NAME, 3),
    "test": lambda: hints.test("tests/my scenario.yml"),
    "list_jobs": hints.list_jobs,
    "validate": hints.validate,
    "doctor": hints.doctor,
    "diff": lambda: hints.diff(JOB_NAME),
    "report": lambda: hints.report(JOB_NAME),
    "maintain": lambda: hints.maintain(JOB_NAME),
    "init": lambda: hints.init("a shop"),
    "init_from": lambda: hints.init_from("lake/the orders", "customers"),
    "demo": lambda: hints.demo("a demo"),
}
"""Builder -> a command of it."""


def find_literals(path: Path) -> Iterator[str]:
    """Find texts of messages that spell a command themselves."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):  # a docstring
            skipped.add(node.value)
        if isinstance(node, ast.keyword) and node.arg in _SHOWN:
            skipped |= set(ast.walk(node.value))
    for node in ast.walk(tree):
        if node not in skipped and isinstance(node, ast.Constant) and "`enrich " in str(node.value):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno}"


def test_no_other_module_spells_a_command() -> None:
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if str(path.relative_to(PACKAGE)) not in _FILES]
    found = [place for path in modules for place in find_literals(path)]
    assert found == [], "enrich.base.hints has a builder for each command"


def test_every_builder_is_tried() -> None:
    public = [name for name, found in vars(hints).items() if isinstance(found, FunctionType | partial)]
    assert set(public) - {"dataclass", "replace", "_spell", "spell_size"} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("place", [None, ("prod", Path("/srv/a shop"))], ids=["here", "there"])
def test_the_command_line_understands_every_command(name: str, place: tuple[str, Path] | None) -> None:
    if place is None:
        assert parse(COMMANDS[name]())[0]
        return
    with context.work_at(*place):
        command = COMMANDS[name]()
    assert parse(command)[0]
    begins = "enrich --project-dir '/srv/a shop' --target prod "
    assert command.startswith(begins) == (name not in ("init", "demo")), "a new directory is named by itself"


def test_what_a_run_was_asked_for_is_asked_for_again() -> None:
    name, asked = parse(hints.run(JOB_NAME, ALL))
    assert (name, asked["jobs"], asked["full_refresh"], asked["allow_gap"]) == ("run", (JOB_NAME,), True, True)
    assert (asked["since"], asked["until"]) == (("orders=v3,beginning",), ("2026-11-01 08:00",))
    assert asked["accept"] == ("match_rate", "mass_change")
    assert hints.RunOptions(accept=("a",)).accepting(["b", "a"]).accept == ("a", "b")


def test_commands_without_tables_lead_on_from_anywhere(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages of a project and a directory without one, run as they stand."""
    home = write_project(tmp_path / "a shop", {"conf/dev.yml": CONF, "jobs/customers.yml": JOB})
    monkeypatch.chdir(tmp_path)
    refused = call("--project-dir", "a shop", "run", "nobody")
    (command,) = [shlex.split(each)[1:] for each in refused.stderr.split("`") if each.startswith("enrich ")]
    assert command == ["--project-dir", str(home), "ls"]
    monkeypatch.chdir("/")
    assert call(*command).exit_code == 0
    missing = call("--project-dir", tmp_path / "not yet", "ls")
    (command,) = [shlex.split(each)[1:] for each in missing.stderr.split("`") if each.startswith("enrich ")]
    assert call(*command).exit_code == 0
    assert call("--project-dir", tmp_path / "not yet", "ls").exit_code == 0
