"""What interactive shells offer after TAB: a bash or zsh on a terminal of its own, and a fish that is asked."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from kit.command import environment

PATIENCE = 60.0
"""Seconds within which a shell must have answered; the machine may be busy."""

START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
PREPARE = {
    "bash": "bind 'set enable-bracketed-paste off'; bind 'set page-completions off'",
    "zsh": "unsetopt zle_bracketed_paste 2>/dev/null; autoload -Uz compinit && compinit -u -D; LISTMAX=1000",
}
"""What a user's own start files do, as far as completion needs it."""


def install_command(directory: Path) -> dict[str, str]:
    """Write a command ``enrich`` that runs this code, and return an environment that finds it."""
    command = directory / "bin" / "enrich"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m enrich "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    return environment(PATH=path, TERM="dumb", PS1="$ ", HISTFILE=None, NO_COLOR="1")


def press_tab(shell: str, line: str, awaited: list[str], cwd: Path, known: dict[str, str]) -> str:
    """Type ``line`` and TAB twice in a new shell, and return what it shows, as soon as it has shown all of ``awaited``.

    After ``PATIENCE`` it is returned as it is.
    """
    terminal, inside = pty.openpty()
    child = subprocess.Popen(
        START[shell], stdin=inside, stdout=inside, stderr=inside, cwd=cwd, env=known, start_new_session=True
    )
    os.close(inside)
    try:
        ready = "completion is 'ready'"
        activate = f'eval "$(_ENRICH_COMPLETE={shell}_source enrich)"'
        os.write(terminal, f'{PREPARE[shell]}; {activate}; echo "{ready}"\n'.encode())
        _read_until(terminal, [f"\n{ready}"])
        os.write(terminal, line.encode() + b"\t\t")
        return _read_until(terminal, awaited)
    finally:
        child.kill()
        child.wait()
        os.close(terminal)


def _read_until(terminal: int, awaited: list[str]) -> str:
    shown, until = "", time.monotonic() + PATIENCE
    while not all(text in shown for text in awaited) and (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace").replace("\r", "")
    return shown


def ask_fish(line: str, cwd: Path, known: dict[str, str]) -> list[str]:
    """Return what fish offers at the end of ``line``; fish itself has a command for this."""
    script = '_ENRICH_COMPLETE=fish_source enrich | source; complete -C "$argv[1]"'
    done = subprocess.run(
        ["fish", "-N", "-c", script, line], cwd=cwd, env=known, capture_output=True, text=True, timeout=300, check=True
    )
    return [text.split("\t")[0] for text in done.stdout.splitlines()]
