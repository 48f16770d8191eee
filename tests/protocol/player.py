"""Play real runs over a model lake, a step at a time: each can be stopped, killed, or lose the answer of a commit.

What is real: all that a run of one job does between its two sides, ``operations.runner`` (attempts and retries),
``operations.workplace`` (what is read, in which order), ``progress`` whole, ``pipeline``, ``steps.publish``,
``steps.source_changes`` (which range is read how), ``steps.gate`` where no rule fails,
``delta.sink`` (what is compared before a commit, its number and record, its proof), the queries of ``delta.runs``.
Of groups, whether they move by what came and went is real, too (``joins.group.can_move``).
What is modelled: Delta and its logs (``protocol.lake``), and what frames hold: netting, affected keys, joins, groups,
verdicts, differences.

A run is a function of what it reads. So a run that has been stopped is what it was asked for and the lakes that it met,
one a step; to go on, it is played again from its start, and meets these lakes once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.errors import PySparkException

import enrich.answers.verification
import enrich.joins.chain
import enrich.pipeline
from enrich.base import failures, names
from enrich.base.result import Counts, JobResult, State
from enrich.base.spec import Affected
from enrich.base.suites import list_uncounted
from enrich.delta import extents, locks, positions, reads, sink, tables
from enrich.frames import changes, difference, normalise
from enrich.joins import group
from enrich.operations import loading, runner, workplace
from enrich.operations.workplace import Workplace
from enrich.progress import decision
from enrich.progress.cursor import Cursor
from enrich.progress.plan import OpenJob, Options, Plan
from enrich.project import compile as compiler
from enrich.project import project
from enrich.steps import gate, publish, rows, run, source_changes, state
from kit.project import hold_nulls, suite, write_project
from protocol import lake as model
from protocol.lake import BESIDE, LEFT, RIGHT, SESSION, TARGET, Anything, Frame, Here, Lake, Rows

JOB = """\
job: shown
sources:
  orders: {table: /lake/orders, key: id}
  shops: {table: /lake/shops, key: id}
from: orders
join:
  shops: {kind: foreign_key, on: orders.shop}
select: {id: orders.id, amount: orders.amount, name: shops.name}
target: {table: /lake/shown}
expectations: shown
"""
GROUPS = """\
job: shown
sources:
  orders: {table: /lake/orders, key: id}
query: SELECT shop AS id, count(amount) AS amount, max(amount) AS name FROM orders GROUP BY shop
target: {table: /lake/shown}
expectations: shown
"""
"""Its model adds up the amounts of a shop, as a text of all of them: what is added twice stands there twice."""
ALIASES = {"orders": LEFT, "shops": RIGHT}
SHOP, BAD = "m", "-"  # the shop of every order; the amount that a rule holds back


def make_rows(left: Rows, *right: Rows) -> tuple[dict[str, str], dict[str, str]]:
    """Return what the job gives, for target and quarantine: the reference, and what its frames would hold.

    Orders with the name of their shop, or of orders alone: the shop with all amounts.
    """
    name = dict(right[0]).get(SHOP, "?") if right else ""
    return judge_rows({key: amount + name for key, amount in left} if right else add_up([row[1] for row in left]))


def add_up(amounts: list[str]) -> dict[str, str]:
    """Return the shop with all amounts; nothing where there are none."""
    return {SHOP: "".join(sorted(amounts))} if amounts else {}


def judge_rows(found: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the rows that pass, and those that are held back."""
    return tuple({k: v for k, v in found.items() if v.startswith(BAD) == bad} for bad in (False, True))  # type: ignore[return-value]


class Stopped(BaseException):
    """The run waits for its next step."""


class Lost(Exception):
    """The storage has not answered."""


class Ended(NamedTuple):
    """How a run ended."""

    code: int
    status: str
    version: int | None
    error: str
    table: str | None = None  # the id of the target that it has seen last


class Stop(NamedTuple):
    """A run that waits: what it was asked for, and each step: the lake that it met, and whether its answer was lost."""

    options: tuple[tuple[str, Any], ...]
    run_id: str
    steps: tuple[tuple[Lake, bool], ...]
    place: str  # where it waits
    key: int  # a hash of what decides how it goes on, but for its name, instead of all that it met
    names: frozenset[str]  # the runs that anything named that it met

    @property
    def reads_sources(self) -> bool:
        """True before a plan: what comes then may depend on the sources' logs."""
        return self.place in ("start", "plan")

    def ask(self, lake: Lake, *, loses: bool = False) -> int:
        """Return a hash of all that its next step depends on."""
        return hash((self.key, self.run_id, lake if self.reads_sources else lake[2:], loses))

    def go_on(self, place: str, met: list[tuple[Lake, bool]], after: Lake, told: tuple[Any, ...]) -> Stop:
        """Return it at its next place, with the lakes that it has met and the one that it has left."""
        lake, loses = met[-1]
        seen: tuple[Any, ...] = (lake[:2],) if self.place == "start" else (lake if self.place == "plan" else loses,)
        if place == "committed":
            seen = (*seen, *(each.version if each is not None else None for each in after[2:4]))
        key = hash((self.key, place, seen, told))
        return Stop(self.options, self.run_id, tuple(met), place, key, self.names | lake.names)


MOST = 20_000
"""How many decisions are remembered, and half of the steps."""
PAUSES = ("plan", "look", "commit", "committed", "outcome")
"""Before a plan is made (and made again), before the last look at a table, before and after each commit, before the
outcome is written."""


class Player:
    """The project, and what was decided before over the same tables."""

    def __init__(self, home: Path, job: str) -> None:
        files = {"conf/dev.yml": "lake: /lake\n", "jobs/shown.yml": job}
        files["expectations/shown.json"] = suite("shown", hold_nulls("amount"))
        self.project = loading.load_project(write_project(home, files))
        self.job = self.project.jobs["shown"]
        self.asked: Any = None  # what the run that is played was asked for
        self.decided: dict[Any, Any] = {}
        self.told: dict[Any, Any] = {}  # what methods of immutable values gave, and the values
        self.taken: dict[int, tuple[Stop | Ended, Lake]] = {}  # what a step has led to
        self.executed = 0  # runs

    def begin(self, run_id: str, **options: Any) -> Stop:
        """Return a run that has yet to read anything."""
        asked = tuple(sorted(options.items()))
        return Stop(asked, run_id, (), "start", hash(asked), frozenset())

    def step(self, stop: Stop, lake: Lake, *, loses: bool = False) -> tuple[Stop | Ended, Lake]:
        """Play a run's next step over a lake; ``loses``: the commit before which, or after which, it waits fails it."""
        key = stop.ask(lake, loses=loses)
        if key not in self.taken:
            self._play(stop, lake, loses=loses)
        found, after = self.taken[key]
        # Runs write no source, and who shares an answer may have met other sources.
        return found, after._replace(left=lake.left, right=lake.right)

    def _play(self, stop: Stop, lake: Lake, *, loses: bool) -> None:
        """Play a run on to its end, as if nothing came between, and note all its steps on the way."""
        self.executed += 1
        if len(self.decided) > MOST:  # no other object may get the id of one by which something is known
            self.decided.clear()
            self.told.clear()
            model.forget()
        if len(self.taken) > 2 * MOST:
            self.taken.clear()
        met = [*stop.steps, (lake, loses)]
        passed, key, is_over = 1, stop.ask(lake, loses=loses), False
        target: model.Table | None = None

        def pause(name: str, *told: Any) -> None:
            nonlocal passed, stop, key, is_over, target
            if is_over:  # what reads and writes now comes from a `finally`
                raise Stopped
            if name not in PAUSES:
                return
            target = Here.lake.target
            if passed == len(met):
                stop = stop.go_on(name, met, Here.lake, told)
                self.taken[key] = (stop, Here.lake)
                key = stop.ask(Here.lake)
                if key in self.taken:
                    is_over = True
                    raise Stopped
                met.append((Here.lake, False))
            Here.lake, fails = met[passed]
            passed += 1
            if fails:
                raise Lost

        Here.lake, Here.pause = met[0][0], pause
        self.asked = stop.options, stop.run_id
        try:
            found = self._run(stop.run_id, dict(stop.options))
            table = target.id if target is not None else None
            ended = Ended(found.exit_code, found.status, found.target_version, found.error or "", table)
            self.taken[key] = ended, Here.lake
        except Stopped:
            pass
        finally:
            Here.pause = staticmethod(lambda *_: None)

    def _run(self, run_id: str, asked: dict[str, Any]) -> JobResult:
        repairs, Here.by_position = asked.pop("repair", False), not asked.pop("merges", False)
        asked = {**asked, **{name: dict(asked.get(name, ())) for name in ("since", "until")}}
        place = Workplace(self.project, ["shown"], Options(**asked), run_id)
        SESSION.settings.clear()
        if repairs:
            return self._repair(place)
        place.pin()
        return runner._Running(place, runner.Watch(), lambda _: None).take("shown", None)

    def _repair(self, place: Workplace) -> JobResult:
        """Do what ``enrich verify --repair`` does, but for its counting."""
        try:
            plan = decision.decide_repair(place.open_job(self.job, as_recorded=True))
            with enrich.answers.verification._computing(place, plan, SESSION) as there:  # type: ignore[arg-type]
                result, found = enrich.pipeline.compute(there)
                assert found is not None
                result = publish.write_run(there, result, found, place.runs)
        except Exception as error:  # noqa: BLE001 - as `verify` does
            result = JobResult("shown", "failed").failed_with(place.describe(self.job, error))
        return runner.record_outcome(place, result)


# --- what frames hold -------------------------------------------------------------------------------------------------


def _read_snapshot(_: Any, uri: str, version: int, columns: Any, **__: Any) -> Frame:
    table = model.find_table(uri)
    assert table is not None
    if version < table.kept:
        raise PySparkException("DELTA_FILE_NOT_FOUND")
    return Frame(table.commits[version].rows, columns)


def _read_feed(_: Any, uri: str, window: tuple[int, int], __: Any, **___: Any) -> Frame:
    table = model.find_table(uri)
    assert table is not None
    if window[0] < table.blind:
        raise PySparkException("DELTA_FILE_NOT_FOUND")
    pairs = [(table.commits[each - 1].rows, table.commits[each].rows) for each in range(window[0] + 1, window[1] + 1)]
    return Frame(row for before, after in pairs for row in {*before} ^ {*after})


def _read_difference(session: Any, uri: str, window: tuple[int, int], columns: Any, _: int) -> Frame:
    before, after = (_read_snapshot(session, uri, each, columns).data for each in window)
    return Frame({*before} ^ {*after})


def _read_source(there: run.Run, alias: str, version: int | None = None, *, null_keys: bool = False) -> Frame:
    version = there.plan.window[alias].to if version is None else version
    return Frame() if null_keys else _read_snapshot(None, ALIASES[alias], version, ())


def _net(feed: Frame, *_: Any) -> changes.NetChanges:
    """Net a feed: an image that came and went has weight 0."""
    keys = Frame(sorted({row[0] for row in feed.data if feed.data.count(row) % 2}))
    return changes.NetChanges(keys, keys, len(keys.data), 0, 0, 0, 0, 0, 0, {})  # type: ignore[arg-type]


def _touch(feed: Frame, *_: Any) -> changes.Touched:
    """Name all keys that a feed names."""
    keys = Frame(sorted({row[0] for row in feed.data}))
    return changes.Touched((), keys, len(keys.data), 0)  # type: ignore[arg-type]


def _sources(plan: Plan) -> list[Rows]:
    return [_read_snapshot(None, ALIASES[alias], at.to, ()).data for alias, at in plan.window.items()]


def _find_affected(there: run.Run, changed: source_changes.Changes) -> Affected | None:
    """Return the changed keys, and those of all rows that lead to a changed shop now; of groups, the shop."""
    if there.plan.everything:
        return None
    keys = set(getattr(changed.differing.get("orders"), "data", ()))
    if keys and "shops" not in there.plan.window:
        keys = {SHOP}
    if "shops" in changed.differing:
        keys |= {key for key, _ in _sources(there.plan)[0]}
    return Affected(Frame(sorted(keys)), count=len(keys))  # type: ignore[arg-type]


def _list_data(frame: Any) -> list[Any]:
    """Return what a frame of the model holds, which the product takes for one of Spark's."""
    return list(frame.data)


def _move_group(there: run.Run, changed: source_changes.Changes) -> dict[str, str] | None:
    """Return the group as ``joins.group`` moves it by what came and went; None where all its rows have to tell it."""
    plan = there.plan
    if not group.can_move(plan) or changed.compared["orders"]:  # a plan that takes anything again does not move
        return None
    assert plan.target.table is not None
    orders = model.find_table(LEFT)
    assert orders is not None
    before, after = (
        [*orders.commits[each].rows] for each in (plan.window["orders"].start or 0, plan.window["orders"].to)
    )
    come, gone = (
        [row[1] for row in those if row not in others] for those, others in ((after, before), (before, after))
    )
    was = dict(_read_snapshot(None, TARGET, plan.target.table.version, ()).data).get(SHOP)
    beside = plan.target.quarantine
    held = _read_snapshot(None, BESIDE, beside.table.version, ()).data if beside is not None else ()
    if was is None and (gone or held):
        return None
    rest = [*(was or "")]
    for each in gone:
        if each in rest:
            rest.remove(each)
    return add_up([*rest, *come])


def _compute_rows(there: run.Run, changed: source_changes.Changes, affected: Affected | None) -> rows.Rows:
    moves = affected is not None and "shops" not in there.plan.window
    moved = _move_group(there, changed) if moves else None
    found = make_rows(*_sources(there.plan)) if moved is None else judge_rows(moved)
    keys = None if affected is None else set(_list_data(affected.left))
    kept = [tuple((k, v) for k, v in part.items() if keys is None or k in keys) for part in found]
    return rows.Rows(Frame(kept), Counts())  # type: ignore[arg-type]


def _judge(_: Any, found: rows.Rows, __: Any) -> gate.JudgedRows:
    good, bad = (Frame(each) for each in _list_data(found.frame))
    return gate.JudgedRows(good, bad)  # type: ignore[arg-type]


def _compare(
    new: Frame, old: Frame | None, _: Any, affected: Affected | None = None, *, has_copies: bool = False, **__: Any
) -> difference.Difference:
    """Find the operations of the table at the top of ``frames.difference``."""
    wanted, there = dict(new.data), [] if old is None else list(old.data)
    keys = {*wanted, *(row[0] for row in there)} if affected is None else {*_list_data(affected.left)}
    operations, gone = [], []
    for key in sorted(keys):
        before = [row for row in there if row[0] == key]
        now = [(key, wanted[key])] if key in wanted else []
        if before == now:
            continue
        gone += before
        if len(before) == len(now):
            operations.append(("U", *now[0]))
        else:
            operations += [("D", key, "")] * bool(before) + [("I", *row) for row in now]
    counts = {each: sum(row[0] == each for row in operations) for each in "IUD"}
    found = difference.Difference(
        Frame(operations),  # type: ignore[arg-type]
        *(counts["I"], counts["U"], counts["D"]),
        has_copies=has_copies,
        operations={each: count for each, count in counts.items() if count},
    )
    return replace(found, old=Frame(gone), replaced=len(gone))  # type: ignore[arg-type]


def _count_state(there: run.Run, *_: Any) -> tuple[State, frozenset[int]]:
    rules = tuple(replace(each, checked=1, failed=0) for each in list_uncounted(there.plan.suite))
    return State(1, rules), frozenset()


def _open_table(_: Any, uri: str, base: int, __: Any) -> Any:
    table = model.find_table(uri)
    assert table is not None
    return (uri, base) if table.version == base else "it is not the version that was read"


def _merge(_: Any, uri: str, changed: sink.Changed) -> None:
    has_copies = "__enrich_matches" in changed.identity
    operations = _list_data(changed.rows)
    model.commit(uri, "MERGE", lambda there: model.apply_operations(there, operations, has_copies=has_copies))


def _write_by_position(_: Any, label: str, place: tuple[str, int], changed: sink.Changed) -> None:
    """Commit, where nobody else has since the rows were read."""

    def change(there: Rows) -> Rows:
        if model.find_table(place[0]).version != place[1]:  # type: ignore[union-attr]
            raise PySparkException("DELTA_CONCURRENT_WRITE")
        found = list(there)
        for row in changed.old.data:  # type: ignore[union-attr]
            found.remove(row)
        return tuple(sorted([*found, *[each[1:] for each in changed.rows.data if each[0] != "D"]]))  # type: ignore[attr-defined]

    model.commit(place[0], "MERGE", change)


# --- the product, over the model --------------------------------------------------------------------------------------


def _replace_everywhere(patch: pytest.MonkeyPatch, old: Any, new: Any) -> None:
    """Put one function in another's place in all modules that have imported it."""
    import sys

    name = old.__name__
    for module in [each for key, each in sys.modules.items() if key.startswith("enrich") and each is not None]:
        if vars(module).get(name) is old:
            patch.setattr(module, name, new)


@contextmanager
def playing(home: Path, job: str = JOB) -> Iterator[Player]:
    """Give a player of a job, and let the product read and write the model inside the block."""
    player, log = Player(home, job), logging.getLogger("enrich")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "disabled", True)
        for name in ("open_log", "exists", "read_open_state", "state_at", "read_history", "actions", "fingerprint"):
            _replace_everywhere(patch, getattr(tables, name), getattr(model, name))
        for old in (tables.is_occupied, tables.has_remains):
            _replace_everywhere(patch, old, lambda _: False)
        _replace_everywhere(patch, tables.find_damage, lambda *_: None)
        for module in (publish, sink, difference, source_changes):
            patch.setattr(module, "F", Anything())
        _patch_frames(patch)
        patch.setattr(reads, "read_snapshot", _read_snapshot)
        patch.setattr(sink, "_drop_metadata", lambda rows, *_: rows)
        patch.setattr(sink, "_allow_types", lambda *_: None)
        patch.setattr(sink, "_merge", _merge)
        patch.setattr(sink, "wants_places", lambda table: table is not None and Here.by_position)
        patch.setattr(sink, "is_small", lambda _: False)
        patch.setattr(positions, "open_table", _open_table)
        patch.setattr(positions, "write_by_position", _write_by_position)
        patch.setattr(extents, "measure_commit", lambda *_: None)
        _patch_work(patch, player)
        yield player


def _patch_frames(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reads, "read_change_feed", _read_feed)
    patch.setattr(reads, "read_snapshot_difference", _read_difference)
    patch.setattr(reads, "fit_columns", lambda *_: {})
    patch.setattr(normalise, "normalise_keys", lambda frame, _: frame)
    patch.setattr(changes, "compute_net_changes", _net)
    patch.setattr(changes, "find_touched_keys", _touch)
    patch.setattr(changes, "count_surplus_rows", lambda *_: 0)
    patch.setattr(
        source_changes, "_count_sources", lambda _, *aliases: dict.fromkeys(aliases, changes.RowCounts(0, 0, 0))
    )
    patch.setattr(source_changes, "unite", lambda frames: Frame(sorted({row for each in frames for row in each.data})))
    patch.setattr(run.Run, "snapshot", _read_source)
    patch.setattr(run.Run, "keep", lambda _, frame: frame)
    patch.setattr(difference, "compute_difference", _compare)
    patch.setattr(difference, "stage_quarantined_rows", lambda bad, *_: bad)
    patch.setattr(enrich.pipeline, "find_affected_keys", _find_affected)
    patch.setattr(enrich.pipeline, "compute_rows", _compute_rows)
    patch.setattr(state, "count_lookups", lambda *_: {})
    patch.setattr(state, "count_target", _count_state)
    patch.setattr(gate, "check_job_rules", lambda *_: [])
    patch.setattr(gate, "judge_rows", _judge)
    patch.setattr(gate, "judge_target", lambda *_: ((), ()))
    patch.setattr(gate, "check_mass_change", lambda *_, **__: [])
    patch.setattr(publish, "make_no_rows", lambda _: Frame())
    patch.setattr(rows, "find_types", lambda *_: dict.fromkeys(model.COLUMNS[TARGET], "string"))
    patch.setattr(difference.QuarantineIdentity, "of", lambda *_: {})


def _patch_work(patch: pytest.MonkeyPatch, player: Player) -> None:
    """Let work be done without lock, session and pauses, and decide nothing twice."""
    patch.setattr(locks, "hold_lock", lambda *_: nullcontext())
    patch.setattr("enrich.operations.runner.time.sleep", lambda _: None)
    patch.setattr(Workplace, "runs", property(lambda _: model.Runs("/lake/_enrich")))
    patch.setattr(Workplace, "work_inside", lambda _, do: do(SESSION))
    patch.setattr(Workplace, "require_safe_commits", lambda *_: None)
    patch.setattr(Workplace, "count_quarantined", lambda *_: None)
    open_job, fit, decide, compute = Workplace.open_job, Workplace.fit, decision.decide_plan, enrich.pipeline.compute
    compiled: list[Any] = []
    compile_job = compiler.compile_job

    def compile_once(job: Any, schemas: Any, **how: Any) -> Any:
        if not compiled:
            compiled.append(compile_job(job, schemas, **how))
        return compiled[0]

    def once(key: Any, decide: Callable[[], Any]) -> Any:
        """Return what was decided over the same values before."""
        if key not in player.decided:
            try:
                player.decided[key] = decide()
            except Exception as error:  # noqa: BLE001 - it is decided, too
                player.decided[key] = error
        found = player.decided[key]
        if isinstance(found, Exception):
            raise found
        return found

    def open_once(self: Workplace, job: Any, *, as_recorded: bool = False) -> Any:
        Here.pause("plan")
        key = (player.asked, as_recorded, tuple(map(id, self.pins.values())), Here.lake)
        return once(key, lambda: open_job(self, job, as_recorded=as_recorded))

    # What was opened, planned and computed stays in `decided`: no other object gets its id.
    edges = project.find_edges(player.project)
    _replace_everywhere(patch, project.find_edges, lambda _: edges)
    for pure in (names.identify, failures.require_extra):
        _replace_everywhere(patch, pure, cache(pure))
    patch.setattr(project.Project, "location", lambda _, reference: reference)  # it names places, no names
    patch.setattr(project.Project, "state", "/lake/_enrich")
    _replace_everywhere(patch, tables.read_metadata, lambda entry: model.read_record(entry.get("userMetadata") or "{}"))
    # There are one job and one suite.
    uncounted = list_uncounted(player.project.suites["shown"])
    _replace_everywhere(patch, list_uncounted, lambda _: uncounted)
    define = OpenJob.definition.fget  # type: ignore[attr-defined]
    patch.setattr(OpenJob, "definition", property(lambda opened: once("definition", lambda: define(opened))))
    patch.setattr(workplace, "compile_job", compile_once)
    patch.setattr(Workplace, "open_job", open_once)
    patch.setattr(runner, "decide_plan", lambda opened: once(("plan", id(opened)), lambda: decide(opened)))
    patch.setattr(Workplace, "fit", lambda self, plan, own: once(("fit", id(plan)), lambda: fit(self, plan, own)))
    patch.setattr(enrich.pipeline, "compute", lambda run: once(("rows", id(run.plan)), lambda: compute(run)))
    # The record of one plan and one number is the same object, and its text is made once.
    for of, name in ((Plan, "cursor"), (Cursor, "to_dict"), (Cursor, "to_json")):
        _once_by_id(patch, player.told, of, name)
    patch.setattr(JobResult, "to_dict", lambda self: {"target_version": self.target_version})
    record = runner.record_outcome

    def record_after(place: Workplace, result: JobResult) -> JobResult:
        Here.pause("outcome", result.exit_code, result.status, result.target_version)
        return record(place, result)

    patch.setattr(runner, "record_outcome", record_after)
    refuse = publish.refuse_if_beaten

    def look(plan: Plan, **which: bool) -> None:
        if which:  # right before a commit
            Here.pause("look")
        refuse(plan, **which)

    patch.setattr(publish, "refuse_if_beaten", look)


def _once_by_id(patch: pytest.MonkeyPatch, known: dict[Any, Any], of: type, name: str) -> None:
    """Let a method of immutable values give what it gave before; the values stay, so that no other gets their ids."""
    method = getattr(of, name)

    def once(self: Any, *given: Any) -> Any:
        key = (name, id(self), *given[:2])
        if key not in known:
            known[key] = (method(self, *given), self)
        return known[key][0]

    patch.setattr(of, name, once)
