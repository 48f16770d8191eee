"""A command that a message proposes, run as it stands, leads on; and whoever throws stdout away is told on stderr."""

from __future__ import annotations

import json
import re
import shlex

from kit.command import Call
from kit.lab import Lab
from kit.project import CUSTOMERS

RULES = "rules: [{rule: match_rate, join: accounts, at_least: 0.5, action: fail}, {rule: mass_change, at_most: 0.5}]\n"


def list_commands(text: str) -> list[list[str]]:
    return [shlex.split(each)[1:] for each in re.findall(r"`(enrich [^`]+)`", text)]


def test_gates_that_close_together_are_accepted_together(joined: Lab, call: Call) -> None:
    """One rule of the joins and one of the target, in a full refresh: one command for all of it."""
    joined.job(CUSTOMERS + RULES + "where: accounts.email is not null or consents.id = 'u1'\n")
    joined.drop("accounts", "true")

    changed = call("run", "--quiet")
    shown, refresh = list_commands(changed.stderr)
    assert shown[-2:] == ["diff", "customers"]
    assert (changed.exit_code, refresh[-3:]) == (5, ["run", "customers", "--full-refresh"])
    assert "customers: failed: the definition of 'customers' changed" in changed.stderr

    dry = call(*refresh, "--dry-run", "--quiet")
    assert (dry.exit_code, dry.stdout.splitlines()[-1].startswith("dry run: nothing was written")) == (3, True)
    blocked = call(*refresh, "--output", "json", "--quiet")
    answer = json.loads(blocked.stdout)
    assert (blocked.exit_code, answer["dry_run"]) == (3, False)
    assert "customers: blocked by match_rate (accounts): " in blocked.stderr
    (accept,) = list_commands(blocked.stderr)
    assert accept == [*refresh, "--accept", "match_rate", "--accept", "mass_change"]
    assert list_commands(answer["jobs"][0]["error"]) == [accept]

    done = call(*accept, "--output", "json")
    assert done.exit_code == 0, done.stderr
    assert [row["id"] for row in joined.rows("customers")] == ["u1"]
    assert call("run", "--quiet").exit_code == 0
