"""The help that README and docs/cli.md quote is the help that is printed.

``ENRICH_WRITE_DOCS=1 python -m pytest tests/cli/test_cli_docs.py`` writes it anew.
"""

from __future__ import annotations

import os
import re

import click
import pytest

from enrich.cli import cli
from kit.command import Call
from kit.project import ROOT

README, PAGE = ROOT / "README.md", ROOT / "docs" / "cli.md"
FOUND: dict[str, click.Command] = {
    **cli.commands,
    **{
        f"{group} {name}": command
        for group, found in cli.commands.items()
        if isinstance(found, click.Group)
        for name, command in found.commands.items()
    },
}
COMMANDS = ["", *sorted(FOUND)]
BLOCK = re.compile(r"<!-- help:(.*?)-->\n(.*?)<!-- end -->", re.DOTALL)
WRITE = os.environ.get("ENRICH_WRITE_DOCS") == "1"


def block(command: str, call: Call) -> str:
    help_text = call(*command.split(), "--help", COLUMNS="80").stdout
    return f"<!-- help: {command + ' ' if command else ''}-->\n```\n{help_text}```\n<!-- end -->"


def test_cli_page_quotes_every_command(call: Call) -> None:
    parts = [f"## enrich {command}".rstrip() + "\n\n" + block(command, call) for command in COMMANDS]
    page = (
        "# Command line\n\nThis page is generated; `tests/cli/test_cli_docs.py` says how.\n\n"
        + "\n\n".join(parts)
        + "\n"
    )
    if WRITE:
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page


def test_readme_quotes_help_as_it_is(call: Call) -> None:
    text = README.read_text(encoding="utf-8")
    fresh = BLOCK.sub(lambda found: block(found[1].strip(), call), text)
    if WRITE:
        README.write_text(fresh, encoding="utf-8")
    assert README.read_text(encoding="utf-8") == fresh
    assert [found[1].strip() for found in BLOCK.finditer(fresh)] == ["", "run"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_described(command: str) -> None:
    found = FOUND[command] if command else cli
    assert found.help
    for option in found.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, f"{command} {option.name}"
    assert not command or (found.epilog or "").startswith("Example: enrich ")


def test_readme_gives_the_data_flow_and_all_exit_codes() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.index("job -> window (pinned versions) -> changes") < 200
    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for page in (text, operations):
        codes = re.findall(r"^\| ([0-9, ]+?)[ ,|]", page, re.MULTILINE)
        assert [code for codes_ in codes for code in codes_.split(", ")] == [*"01234567", "99", "130"]


def test_links_lead_somewhere() -> None:
    pages = [README, *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)} links to {link}"
