"""Nothing private leaves: marked values in data, keys, rules, settings and environment, and a search for the mark.

The mark may be in the sources, and in the parquet files of targets and quarantines. It may be in no output, log,
report, result, runs table, lock, commit, message, and in no other file below the project. Delta keeps statistics of key
columns in a table's log: the one exception, and they are checked to be of keys alone.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cli.shop import write_table
from kit.command import Call, Start
from kit.listener import Listener, listen
from kit.project import suite, write_project
from kit.session import INTERPRETED

if TYPE_CHECKING:
    from click.testing import Result
    from pyspark.sql import SparkSession

MARK = "cnry7f3"
SECRET = {"CANARY_SECRET": f"hunter2-{MARK}"}
CONF = """\
lake: ./lake
lineage: {file: watch/events.jsonl}
metrics: {file: watch/enrich.prom}
notify:
  chat: {url: {env: CANARY_HOOK}, headers: {Authorization: {env: CANARY_SECRET}}}
spark:
  master: local[2]
  conf:
    spark.sql.adaptive.enabled: "false"
    spark.hadoop.fs.s3a.secret.key: ${CANARY_SECRET}
""" + "".join(f"    {name}: '{value}'\n" for name, value in INTERPRETED.items())
PEOPLE = """\
job: people
sources:
  persons: {table: persons, key: id}
  accounts: {table: accounts, key: id}
  towns: {table: towns, key: id}
from: persons
join:
  accounts: {kind: table}
  towns: {kind: foreign_key, on: persons.town}
  friends: {kind: list, elements: persons.friends}
select:
  id: key
  email: accounts.email
  town: towns.name
  friends: friends
target: {table: people, cluster_by: [id]}
expectations: people
rules:
  - {rule: match_rate, join: towns, at_least: 1.0}
  - {rule: new_orphans, join: friends, at_most: 0}
  - {rule: mass_change, at_most: 1.0}
""".replace("from: persons", "  friends: {table: accounts, key: id}\nfrom: persons", 1)
EMAILS = """\
job: emails
kind: mirror
sources:
  accounts: {table: accounts, key: id}
from: accounts
mirror: {value: email, conflict: fail}
target: {table: emails}
"""
BROKEN = """\
job: broken
sources:
  accounts: {table: accounts, key: id}
from: accounts
select:
  id: accounts.id
  email: cast(accounts.email as int)
target: {table: broken}
"""
ODD = """\
job: odd
sources:
  accounts: {table: accounts, key: id}
from: accounts
target: {table: odd}
expectations: odd
"""
KEYS = {"people": {"id"}, "people__quarantine": {"id"}, "emails": {"email"}}


def marked(text: str) -> str:
    return f"{text}-{MARK}@leak.example"


def rule(kind: str, column: str, action: str, **kwargs: object) -> dict[str, Any]:
    return {"type": kind, "kwargs": {"column": column, **kwargs}, "meta": {"enrich": {"action": action}}}


SUITES = {
    "people": [
        rule("expect_column_values_to_not_be_null", "email", "quarantine"),
        rule("expect_column_values_to_not_match_regex", "email", "quarantine", regex=f"^bad.*{MARK}"),
        rule("expect_column_values_to_be_in_set", "town", "warn", value_set=[marked("nowhere")]),
        {
            "type": "expect_column_most_common_value_to_be_in_set",
            "kwargs": {"column": "email", "value_set": [marked("other")]},
            "severity": "warning",
        },
    ],
    "odd": [
        rule("expect_column_values_to_not_be_in_set", "email", "fail", value_set=[marked("one")]),
        rule("expect_column_values_to_match_json_schema", "email", "warn", json_schema={"type": "object"}),
    ],
}
PERSON = pa.schema(
    [("id", pa.string()), ("town", pa.string()), ("friends", pa.list_(pa.string())), ("secret", pa.string())]
)
ACCOUNT = pa.schema([("id", pa.string()), ("email", pa.string())])
TOWN = pa.schema([("id", pa.string()), ("name", pa.string())])


def person(name: str | None, *friends: str) -> dict[str, Any]:
    key = marked(name) if name else None
    return {"id": key, "town": marked("t1"), "friends": [marked(each) for each in friends], "secret": marked("s")}


def account(name: str, email: str | None) -> dict[str, Any]:
    return {"id": marked(name), "email": marked(email) if email else None}


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A project of which every value bears the mark, and whose jobs succeed, fail and are blocked."""
    home = tmp_path / "shop"
    jobs = {"people": PEOPLE, "emails": EMAILS, "broken": BROKEN, "odd": ODD}
    files = {"conf/dev.yml": CONF} | {f"jobs/{name}.yml": text for name, text in jobs.items()}
    files |= {f"expectations/{name}.json": suite(name, *rules) for name, rules in SUITES.items()}
    write_project(home, files)
    lake = home / "lake"
    write_table(lake / "persons", [person("a", "b", "x"), person("b"), person("c"), person("d"), person(None)], PERSON)
    write_table(lake / "accounts", [account("a", "one"), account("b", "bad"), account("c", None)], ACCOUNT)
    write_table(lake / "towns", [{"id": marked("t1"), "name": marked("town")}], TOWN)
    return home


class Search:
    """Collects what was said, and looks for the mark."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def heard(self, what: str, result: Result) -> Result:
        raised = "".join(traceback.format_exception(result.exception)) if result.exception is not None else ""
        self.said += [(f"{what}: stdout", result.stdout), (f"{what}: stderr", result.stderr), (what, raised)]
        return result

    def hits(self) -> list[str]:
        return [what for what, text in self.said if MARK in text.lower()]


def values_of(path: Path) -> str:
    """Return a parquet file's values as text: compression may hide them."""
    return str(pq.read_table(path).to_pylist())


def without_statistics(value: Any, keys: set[str]) -> Any:
    """Return a log's content without file statistics, which must be of the key columns alone."""
    if isinstance(value, list):
        return [without_statistics(item, keys) for item in value]
    if not isinstance(value, dict):
        return value
    stats = json.loads(value["stats"]) if isinstance(value.get("stats"), str) else {}
    for part in ("minValues", "maxValues"):
        assert set(stats.get(part, {})) <= keys
    return {name: without_statistics(item, keys) for name, item in value.items() if name != "stats"}


def written_texts(home: Path) -> Iterator[tuple[str, str]]:
    """Yield every file that enrich wrote, but the rows of targets and quarantines, as text."""
    sources = {home / "lake" / name for name in ("persons", "accounts", "towns")}
    configured = {home / name for name in ("conf", "jobs", "expectations")}
    for path in sorted(home.rglob("*")):
        if not path.is_file() or (sources | configured) & set(path.parents):
            continue
        name = str(path.relative_to(home))
        in_state = home / "lake" / "_enrich" in path.parents
        if path.suffix == ".parquet" and not in_state and "_delta_log" not in path.parts:
            continue
        if path.suffix == ".parquet":
            yield f"{name} (decoded)", values_of(path)
        raw = path.read_bytes().decode("latin-1")
        is_text = path.suffix in (".json", ".crc") and not path.name.startswith(".")  # Hadoop adds checksums
        if "_delta_log" in path.parts and not in_state and is_text:
            keys = KEYS[path.relative_to(home / "lake").parts[0]]
            raw = json.dumps([without_statistics(json.loads(line), keys) for line in raw.splitlines() if line])
        yield name, raw


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """Who is notified; the secrets are in the environment."""
    with listen() as listener:
        monkeypatch.setenv("CANARY_HOOK", f"{listener.url}{MARK}")
        monkeypatch.setenv(*next(iter(SECRET.items())))
        yield listener


def test_no_marked_value_leaves(
    interpreted: SparkSession,
    call: Call,
    start: Start,
    planted: Path,
    tmp_path: Path,
    hook: Listener,
) -> None:
    search, lake = Search(), planted / "lake"

    def run(what: str, *args: object, ends: Callable[..., int]) -> tuple[int, dict[str, Any]]:
        file = tmp_path / "result.json"
        code = ends(what, "--project-dir", planted, "run", *args, "--result-file", file)
        search.said.append((f"{what}: result file", file.read_text()))
        return code, {job["job"]: job for job in json.loads(file.read_text())["jobs"]}

    def here(what: str, *args: object) -> int:
        return search.heard(what, call(*args)).exit_code

    def alone(what: str, *args: object) -> int:
        """In a process of its own, with the secret in its settings, and all that its JVM says."""
        done = start(*args, cwd=tmp_path)
        search.said += [(f"{what}: stdout", done.stdout), (f"{what}: stderr", done.stderr)]
        logged = [json.loads(line) for line in done.stderr.splitlines()]
        assert any(line["level"] == "error" for line in logged)
        return done.returncode

    # All is said at once: errors of Spark and of GX, blocked rules; then warnings, rows held for rules and a null key.
    code, failed = run("first", "broken", "odd", "--output", "json", "--log-format", "json", ends=alone)
    assert (code, {name: job["status"] for name, job in failed.items()}) == (2, {"broken": "failed", "odd": "blocked"})
    assert {each["error"] is None for each in failed["odd"]["findings"]} == {True, False}
    assert failed["odd"]["findings"][0]["failed"] == 1
    code, jobs = run("created", "people", "emails", "--output", "json", "--log-format", "json", ends=here)
    assert (code, {name: job["status"] for name, job in jobs.items()}) == (0, dict.fromkeys(jobs, "created")), jobs
    assert (jobs["people"]["inserted"], jobs["people"]["quarantine"]["rows"]) == (1, 4)

    # Updates and deletes by text keys; rows that heal and that turn bad.
    interpreted.sql(f"UPDATE delta.`{lake / 'accounts'}` SET email = '{marked('bad two')}' WHERE email LIKE 'one%'")
    write_table(lake / "accounts", [account("d", "four")], ACCOUNT)
    DeltaTable(str(lake / "persons")).delete("id LIKE 'c-%'")
    code, jobs = run("second", "people", "emails", ends=here)
    assert (code, jobs["people"]["inserted"], jobs["people"]["deleted"]) == (0, 1, 1)
    assert (jobs["people"]["quarantined"], jobs["emails"]["deleted"]) == (1, 1)

    # Blocked: two rows with one key; a value with two holders.
    write_table(lake / "accounts", [account("d", "four"), account("e", "four")], ACCOUNT)
    code, jobs = run("third", "people", "emails", "--log-format", "json", ends=here)
    assert (code, {job["status"] for job in jobs.values()}) == (3, {"blocked"})
    DeltaTable(str(lake / "accounts")).delete("id LIKE 'd-%' OR id LIKE 'e-%'")

    # Drift.
    interpreted.sql(f"UPDATE delta.`{lake / 'emails'}` SET id = '{marked('foreign')}'")
    code, jobs = run("fourth", "emails", ends=here)
    assert (code, jobs["emails"]["error"] is None) == (6, False)

    # What reads it all back.
    for command in (["validate"], ["ls"], ["status"], ["report"], ["report", "people", "--output", "json"]):
        assert search.heard(" ".join(command), call("--project-dir", planted, *command)).exit_code == 0, command
    page = tmp_path / "report.html"
    search.heard("report --html", call("--project-dir", planted, "report", "--html", page))
    search.said.append(("report.html", page.read_text()))

    search.said.append(("notifications", b"\n".join(body for _, _, body in hook.received).decode()))
    assert hook.received
    # A message about a setting does not quote it.
    (planted / "conf" / "dev.yml").write_text("lake: ${CANARY_SECRET}\n")
    refused = search.heard("conf", call("--project-dir", planted, "run", CANARY_SECRET=f"a\x07{MARK}"))
    assert (refused.exit_code, "control character" in refused.stderr) == (2, True), refused.stderr

    assert search.hits() == []
    files = list(written_texts(planted))
    assert [name for name, text in files if MARK in text.lower()] == []
    # The search has seen what it was made for, and finds what is there.
    names = " ".join(name for name, _ in files)
    for part in (
        "runs",
        "people/_delta_log",
        "people__quarantine/_delta_log",
        "(decoded)",
        "events.jsonl",
        "enrich.prom",
    ):
        assert part in names
    history = json.dumps([DeltaTable(str(lake / name)).history() for name in KEYS], default=str)
    assert "predicate" in history
    assert MARK not in history
    assert MARK in values_of(next(each for each in (lake / "people__quarantine").glob("*.parquet")))
    assert not [path for path in tmp_path.iterdir() if path.name in ("spark-warehouse", "derby.log")]
