"""Pages of the documentation that can be tried: files that they show are written, commands are run, output is compared.

A block with a title is a file: ```` ```yaml title="jobs/x.yml" ````. A block ``console`` has commands, each after
``$``, and what they print on both streams. ``$ echo $?`` prints the exit code of the command before.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kit.command import environment
from kit.project import ROOT

DOCS = ROOT / "docs"
TOUR = DOCS / "tour.md"
CHANGELOGS = DOCS / "changelogs.md"
RECIPES = sorted((DOCS / "recipes").glob("*.md"))

_FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_STARTS_NO_JVM = re.compile(r"python |sed |echo |enrich (validate|ls|status)\b")
_CHANGES = [
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*"), "<when>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<when>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"\b\d+(\.\d+)? (s|min|h)\b"), "<seconds>"),
    (re.compile(r"\d+(\.\d+)? k?B\b"), "<bytes>"),
    (re.compile(r" +"), " "),
]


@dataclass(frozen=True)
class Step:
    """A command of a page and what the page says that it prints."""

    command: str
    output: str

    @property
    def needs_jvm(self) -> bool:
        """False for commands that are quick."""
        return not _STARTS_NO_JVM.match(self.command)


def read_files(page: Path) -> dict[str, str]:
    """Return the files that a page shows: path below the project -> content."""
    return dict(_FILE.findall(page.read_text(encoding="utf-8")))


def read_steps(page: Path) -> list[Step]:
    """Return the commands of a page, in order."""
    return [step for block in _CONSOLE.findall(page.read_text(encoding="utf-8")) for step in _split(block)]


def _split(block: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Step(command, output.rstrip("\n"))


def prepare(page: Path, home: Path) -> Path:
    """Write what a reader of ``page`` has before the first command: the repository's conf, and the files shown."""
    shown = {"conf/dev.yml": (ROOT / "conf/dev.yml").read_text(encoding="utf-8")}
    shown |= {"show.py": read_files(TOUR)["show.py"]} | read_files(page)
    for name, text in shown.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    return home


def play(steps: list[Step], home: Path) -> list[str]:
    """Run commands, each as a process of its own, and return what each printed; there ``home`` is ``/srv/shop``."""
    printed, code = [], 0
    for step in steps:
        if step.command == "echo $?":
            printed.append(str(code))
            continue
        name, *arguments = shlex.split(step.command)
        program = {"python": [sys.executable], "enrich": [sys.executable, "-m", "enrich"]}.get(name, [name])
        done = subprocess.run(
            [*program, *arguments],
            cwd=home,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        code = done.returncode
        printed.append(
            "\n".join(line.rstrip() for line in done.stdout.replace(str(home), "/srv/shop").strip("\n").splitlines())
        )
    return printed


def mask(text: str) -> str:
    """Return an output without what is new in every run: times, ids, sizes, and the blanks that fit them."""
    for pattern, word in _CHANGES:
        text = pattern.sub(word, text)
    return text


def write_outputs(page: Path, steps: list[Step], printed: list[str]) -> None:
    """Put what the commands have printed into the page."""
    found = iter(f"$ {step.command}\n{text}\n".replace("\n\n", "\n") for step, text in zip(steps, printed, strict=True))

    def renew(block: re.Match[str]) -> str:
        return "```console\n" + "".join(next(found) for _ in _split(block[1])) + "```"

    page.write_text(_CONSOLE.sub(renew, page.read_text(encoding="utf-8")), encoding="utf-8")
