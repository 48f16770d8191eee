"""The state of the whole target against Great Expectations run by itself over the target, along a random history.

Each of the 2,500 persons has a random history of its own, so that eight runs are 20,000 history-runs. The history of
the table has everything that may go wrong with kept counts: rows that come, change, go and are held; lookups that
change; a RESTORE of the target, a full refresh, changes taken again, another writer and a repair; rules that come, go,
move and change their arguments. The counts of the last test are planted wrong, and every one of them is seen.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import enrich
from enrich.base.result import JobResult
from enrich.base.suites import SuiteRule
from enrich.frames import difference
from enrich.progress.plan import Plan
from enrich.project.catalogue import TYPES
from enrich.quality import judge
from faults.shop import SOAK
from kit.lab import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = int(os.environ.get("ENRICH_TEST_SEED", "0"))
PERSONS = 2_500
STEPS = int(os.environ.get("ENRICH_STATE_STEPS", "6"))
"""How many steps the random history has; the soak plays more."""

JOB = """\
job: people
sources:
  people: {table: persons, key: id}
  towns: {table: towns, key: town}
  notes: {table: notes, key: id}
from: people
join:
  towns: {kind: foreign_key, on: people.town}
  notes: {kind: table, how: full}
select:
  id: key
  name: people.name
  n: people.n
  m: people.m
  doc: people.doc
  born: people.born
  region: towns.region
  note: notes.note
where: coalesce(people.n, 0) < 90
target: {table: people}
expectations: people
rules:
  - {rule: match_rate, join: towns, at_least: 0.5, scope: target}
  - {rule: null_foreign_keys, join: towns, at_most: 0.3, scope: target}
"""

PEOPLE = {
    "id": pa.int64(), "name": pa.string(), "n": pa.int32(), "m": pa.int32(),
    "doc": pa.string(), "born": pa.string(), "town": pa.string(),
}  # fmt: skip
TOWNS = {"town": pa.string(), "region": pa.string()}
NOTES = {"id": pa.int64(), "note": pa.string()}

COL = "expect_column_values_to_"
N_KNOWN = {"type": "nullity", "column": {"name": "n"}, "is_null": False}
IS_ANN = {"type": "comparison", "column": {"name": "name"}, "operator": "==", "parameter": "Ann"}
HELD = (COL + "not_be_in_set", {"column": "name", "value_set": ["held"]})
RULES: list[tuple[str, dict[str, Any]]] = [
    (COL + "not_be_null", {"column": "region"}),
    (COL + "not_be_null", {"column": "note", "mostly": 0.9}),
    (COL + "not_be_null", {"column": "name", "row_condition": N_KNOWN}),
    (COL + "be_null", {"column": "note"}),
    (COL + "be_in_set", {"column": "name", "value_set": ["Ann", "Bob"]}),
    (COL + "be_between", {"column": "n", "min_value": 0, "max_value": 5}),
    (COL + "match_regex", {"column": "name", "regex": "^[A-Z]"}),
    (COL + "not_match_regex", {"column": "name", "regex": "b$"}),
    (COL + "match_regex_list", {"column": "name", "regex_list": ["^A", "b$"]}),
    (COL + "not_match_regex_list", {"column": "name", "regex_list": ["^A", "b$"]}),
    (COL + "match_strftime_format", {"column": "born", "strftime_format": "%Y-%m-%d"}),
    (COL + "match_strftime_format", {"column": "born", "strftime_format": "%Y-%m-%d", "row_condition": IS_ANN}),
    (COL + "be_json_parseable", {"column": "name"}),
    (COL + "match_json_schema", {"column": "doc", "json_schema": {"type": "object"}}),
    ("expect_column_value_lengths_to_be_between", {"column": "name", "min_value": 3}),
    ("expect_column_value_lengths_to_equal", {"column": "name", "value": 3}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "m"}),
    (
        "expect_column_pair_values_a_to_be_greater_than_b",
        {"column_A": "n", "column_B": "m", "or_equal": True, "ignore_row_if": "either_value_is_missing"},
    ),
    ("expect_column_pair_values_to_be_in_set", {"column_A": "n", "column_B": "m", "value_pairs_set": [[1, 1], [5, 4]]}),
    ("expect_multicolumn_sum_to_equal", {"column_list": ["n", "m"], "sum_total": 2}),
    ("expect_multicolumn_values_to_be_equal", {"column_list": ["n", "m"], "ignore_row_if": "any_value_is_missing"}),
    ("expect_select_column_values_to_be_unique_within_record", {"column_list": ["n", "m"]}),
]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    (COL + "be_between", {"column": "n", "min_value": 1, "max_value": 5}),
    (COL + "be_unique", {"column": "name"}),
    (COL + "not_be_null", {"column": "m"}),
    ("expect_column_mean_to_be_between", {"column": "n", "min_value": -100}),
]
"""What a suite may gain: the first one is a rule of ``RULES`` with another argument, two have no entry in the state."""


def test_every_kind_of_row_rule_is_in_the_suite() -> None:
    assert {type_ for type_, _ in (*RULES, HELD)} == {name for name, spec in TYPES.items() if spec.single}


@dataclass
class Play:
    """One project whose sources change at random.

    Attributes:
        ask: Asks Great Expectations alone.
        rules: The suite as it is; the first one holds rows back.
        last: The last result of a run.
        wrote: The last result of a run that made a commit; a suite that only loses rules needs none.
    """

    lab: Lab
    ask: Any
    rng: random.Random
    rules: list[tuple[str, dict[str, Any]]] = field(default_factory=lambda: [HELD, *RULES])
    last: JobResult | None = None
    wrote: JobResult | None = None

    def start(self) -> Play:
        """Create the sources and make the first run."""
        self.lab.table("persons", "id", PEOPLE, [self.person(i) for i in range(1, PERSONS + 1)])
        self.lab.table("towns", "town", TOWNS, [{"town": t, "region": t.upper()} for t in "abc"])
        self.lab.table("notes", "id", NOTES, [self.note(i) for i in range(1, PERSONS + 1, 3)])
        self.lab.job(JOB)
        self.write_suite()
        self.run()
        return self

    def person(self, number: int) -> dict[str, Any]:
        """Return a random row of the driving source."""
        pick = self.rng.choice
        return {
            "id": number,
            "name": pick(["Ann", "Bob", "cy", "", None, "Dora", "held"]),
            "n": pick([None, -1, 0, 1, 3, 5, 99]),
            "m": pick([None, 0, 1, 4]),
            "doc": pick(['{"a": 1}', "[]", "7", None]),
            "born": pick(["2020-01-31", "31.01.2020", None]),
            "town": pick(["a", "b", "c", "d", None]),
        }

    def note(self, number: int) -> dict[str, Any]:
        """Return a random row of the lookup that shares the key."""
        return {"id": number, "note": self.rng.choice((None, "x", "y"))}

    def write_suite(self) -> None:
        """Write the suite's file."""
        entries = []
        for type_, kwargs in self.rules:
            holds = (type_, kwargs) == HELD
            scope = {} if holds else {"scope": "target"}
            meta = {"enrich": {"action": "quarantine" if holds else "warn", **scope}}
            entries.append({"type": type_, "kwargs": kwargs, "severity": "warning", "meta": meta})
        self.lab.suite("people", *entries)

    def run(self, **how: Any) -> JobResult:
        """Run the job."""
        self.last = self.lab.run("people", **how)
        self.wrote = self.wrote if self.last.strategy == "nothing" else self.last
        return self.last

    def change(self) -> None:
        """Change some rows of some source, in a commit or two."""
        for _ in range(self.rng.choice((1, 2))):
            match self.rng.choice(("people", "people", "towns", "notes", "drop")):
                case "people":
                    numbers = self.rng.sample(range(1, 2 * PERSONS), PERSONS // 4)
                    self.lab.put("persons", *[self.person(number) for number in numbers])
                case "towns":
                    town = self.rng.choice("abcd")
                    self.lab.put("towns", {"town": town, "region": self.rng.choice((None, "r", "s"))})
                case "notes":
                    numbers = self.rng.sample(range(1, 2 * PERSONS), PERSONS // 10)
                    self.lab.put("notes", *[self.note(number) for number in numbers])
                case _:
                    self.lab.drop("persons", f"id % 13 = {self.rng.randrange(13)}")
                    self.lab.drop("notes", f"id % 7 = {self.rng.randrange(7)}")
                    self.lab.drop("towns", f"town = '{self.rng.choice('abcd')}'")

    def act(self, action: str) -> None:
        """Do one thing, and run."""
        match action:
            case "change":
                self.change()
                self.run()
            case "suite":
                new = self.rng.choice(OTHERS)
                self.rules = [HELD, *self.rng.sample(self.rules[1:], len(self.rules) - 2), new]
                self.write_suite()
                assert self.run().status == "unchanged"
            case "restore":
                ours = [entry["version"] for entry in self.lab.log("people") if "userMetadata" in entry]
                if older := ours[1:4]:
                    DeltaTable(self.lab.path("people")).restore(self.rng.choice(older))
                self.run()
            case "refresh":
                self.change()
                self.run(full_refresh=True)
            case "again":
                self.change()
                self.run(since="people=v1")
            case "drift":
                rows = self.lab.rows("people")[:2]
                self.lab.append("people", *[{**row, "id": row["id"] and row["id"] + 100} for row in rows])
                drifted = self.lab.run("people")
                assert (drifted.exit_code, drifted.state) == (6, None)
                (check,) = enrich.verify(enrich.load_project(self.lab.home), repair=True, spark=self.lab.spark).jobs
                assert (check.status, check.state_is_equal) == ("repaired", False)
                self.run()

    def differences(self, asked: int | None = None) -> Iterator[str]:
        """Yield where the state is not what the target holds; what Great Expectations says comes last.

        It is asked about all rules, or the first ones.
        """
        assert self.last is not None
        assert self.last.error is None, self.last.error
        state = self.last.state
        assert state is not None
        rows = self.lab.rows("people")
        if state.rows != len(rows):
            yield f"rows: {state.rows}, not {len(rows)}"
        nulls = {name: sum(row[name] is None for row in rows) for name in rows[0]}
        yield from (f"nulls of {name}" for name in nulls if state.nulls.get(name) != nulls[name])
        if {alias: vars(each) for alias, each in state.lookups.items()} != self.count_partners():
            yield "lookups"
        counted = [(i, each) for i, each in enumerate(self.rules) if TYPES[each[0]].single]
        if [each.index for each in state.rules] != [index for index, _ in counted]:
            yield "entries"
            return
        counted = counted[:asked]
        frame = self.lab.spark.read.format("delta").load(self.lab.path("people")).coalesce(1).persist()
        answers = self.ask(frame, [each for _, each in counted]) if counted else []
        frame.unpersist()
        for (_, (type_, _)), theirs, ours in zip(counted, answers, state.rules, strict=asked is None):
            wanted = (None, None) if theirs.raised else (theirs.checked, theirs.result["unexpected_count"] or 0)
            if (ours.checked, ours.failed) != wanted:
                yield f"{type_} {ours.index}: {ours.checked}, {ours.failed}, not {wanted}"
        findings = {each.index: each for each in self.last.findings if each.index is not None}
        for each in state.rules[1:]:
            judged = findings[each.index]
            if judged.success is not None and (judged.checked, judged.failed) != (each.checked, each.failed):
                yield f"the finding of rule {each.index}"
            if judged.scope != "target":
                yield f"the scope of rule {each.index}"

    def count_partners(self) -> dict[str, dict[str, int]]:
        """Count how the joins go over all driving rows."""
        people = self.lab.rows("persons")
        towns = {row["town"] for row in self.lab.rows("towns")}
        notes = {row["id"] for row in self.lab.rows("notes")}
        nulls = sum(row["town"] is None for row in people)
        matched = sum(row["town"] in towns for row in people)
        noted = sum(row["id"] in notes for row in people)
        return {
            "towns": {"rows": len(people), "matched": matched, "null_references": nulls},
            "notes": {"rows": len(people), "matched": noted, "null_references": 0},
        }


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, ask_gx: Any) -> Play:
    """After its first run."""
    return Play(Lab(tmp_path_factory.mktemp("begun") / "p", spark), ask_gx, random.Random(SEED)).start()


@pytest.fixture
def play(begun: Play, tmp_path: Path) -> Play:
    rng = random.Random(SEED)
    return replace(begun, lab=begun.lab.copy_to(tmp_path / "p"), rng=rng, rules=list(begun.rules))


ACTIONS = ("change", "change", "suite", "restore", "refresh", "again", "drift")


def test_the_state_is_what_gx_says_of_the_whole_target(play: Play) -> None:
    """Every action once, in a random order, and then whatever comes.

    Great Expectations is asked after what carries counts on, and not before it: it has carried what was counted before.
    """
    actions = sorted(set(ACTIONS))
    play.rng.shuffle(actions)
    actions += play.rng.choices(ACTIONS, k=max(0, STEPS - len(actions)))
    for number, action in enumerate(actions):
        play.act(action)
        asked = 0 if not SOAK and actions[number + 1 : number + 2] in (["change"], ["again"]) else None
        assert list(play.differences(asked)) == [], f"seed {SEED}, after {actions[: number + 1]}"
    (check,) = enrich.verify(enrich.load_project(play.lab.home), spark=play.lab.spark).jobs
    assert (check.status, check.state_is_equal) == ("equal", True)
    entry = next(each for each in play.lab.log("people") if "userMetadata" in each)
    assert play.wrote is not None
    assert play.wrote.state is not None
    assert json.loads(entry["userMetadata"])["state"] == play.wrote.state.to_dict()


def _forget_old_images(patch: pytest.MonkeyPatch, _: Play) -> None:
    compute = difference.compute_difference

    def forgetful(*args: Any, **options: Any) -> difference.Difference:
        found = compute(*args, **options)
        return replace(found, images=tuple(each for each in found.images if each[1] > 0))

    patch.setattr(difference, "compute_difference", forgetful)


def _count_nulls(patch: pytest.MonkeyPatch, _: Play) -> None:
    patch.setattr(judge, "_find_ignored", lambda *_: None)


def _keep_the_state_in_spite_of_a_restore(patch: pytest.MonkeyPatch, play: Play) -> None:
    patch.setattr(Plan, "recorded_state", property(lambda _: play.last and play.last.state))


def _tell_rules_apart_by_their_columns(patch: pytest.MonkeyPatch, _: Play) -> None:
    patch.setattr(SuiteRule, "fingerprint", property(lambda rule: f"{rule.label}:{rule.row_condition}"))


def _change(play: Play) -> None:
    """Let a row that stands in the target differ, and another one come that has nulls everywhere."""
    here = next(row["id"] for row in play.lab.rows("people") if row["name"] is not None)
    play.lab.put("persons", {**play.person(here), "name": "Zoë", "n": 2}, {**dict.fromkeys(PEOPLE), "id": 77})
    play.run()


def _restore(play: Play) -> None:
    _change(play)
    DeltaTable(play.lab.path("people")).restore(0)
    play.run()


def _give_another_argument(play: Play) -> None:
    _change(play)
    place = next(i for i, (type_, _) in enumerate(play.rules) if type_ == COL + "be_between")
    play.rules[place] = (COL + "be_between", {"column": "n", "min_value": -1000, "max_value": -999})
    play.write_suite()
    play.run()


@pytest.mark.parametrize(
    ("plant", "act"),
    [
        (_forget_old_images, _change),
        (_count_nulls, _change),
        (_keep_the_state_in_spite_of_a_restore, _restore),
        (_tell_rules_apart_by_their_columns, _give_another_argument),
    ],
)
def test_a_planted_bug_is_seen(
    plant: Callable[[pytest.MonkeyPatch, Play], None],
    act: Callable[[Play], None],
    play: Play,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch, play)
    act(play)
    assert any(play.differences(7)), "the planted bug survived"
