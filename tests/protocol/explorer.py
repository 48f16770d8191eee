"""Explore what may happen to one job: all interleavings of its runs with what others do, up to a number of acts.

    PYTHONPATH=lib:tests python -m protocol.explorer [--acts 4] [--only restore,kill] [--most 1000000] [--groups]

A state is a lake, the runs that wait in it, and what was done that may be refused. An act is what somebody does: writes
to a source, restores, kills a run, starts a second one, gives ``--since`` or ``--until``. The next step of a run that
is there costs nothing, nor does the start of a run where none is. States are visited by the number of acts that lead to
them, each once, so that no trace to a fault has fewer acts than the first one; with it, the explorer stops. States that
differ in names of runs alone are one: a run has the first free name while it makes a step, until something knows it by
its name.

In every state, whatever runs there are die, and runs that nothing disturbs finish: target and quarantine must be what
the job gives for the sources as they are, at the versions that the target records. A run that ends with 0 must have
left what its record says. Exit 5 and 6 are right only after what design and docs/operations.md name; then the command
that the message names must lead on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from protocol.lake import LEFT, RIGHT, Commit, Lake, Rows, Table, read_record
from protocol.player import ALIASES, BAD, GROUPS, JOB, SHOP, Ended, Player, Stop, make_rows, playing

LOST, FOREIGN, FORGOTTEN, MIXED = 1, 2, 4, 8
"""What was done that a run may refuse: with exit 5, with exit 6; with exit 2, as nothing tells whose a target is.

MIXED: a run may leave a quarantine that the next one computes again.
"""
LONGEST = 2
"""Runs that are there at once."""


class State(NamedTuple):
    """Where everything stands."""

    lake: Lake
    away: Table | None = None  # the orders that were taken away, while others are in their place
    live: tuple[Stop, ...] = ()
    excuses: int = 0

    @property
    def key(self) -> int:
        """A hash of all that matters."""
        return hash((self.lake, self.away, self.excuses, *sorted((each.run_id, each.key) for each in self.live)))

    @property
    def names(self) -> set[str]:
        """The runs that anything knows."""
        return self.lake.names.union(*({each.run_id, *each.names} for each in self.live)) - {""}

    def forget_names(self) -> State:
        """Return the state with runs that have no name while nothing knows it, so that equal states are the same."""
        if not self.live:
            return self
        known = self.lake.names.union(*(each.names for each in self.live))
        return self._replace(live=tuple(e if e.run_id in known else e._replace(run_id="") for e in self.live))


def list_free(taken: set[str]) -> Iterator[str]:
    """Yield names of runs that are not taken."""
    return (name for name in (f"{number:04x}" for number in range(1, 1000)) if name not in taken)


Trace = tuple[str, Any] | None  # the last act, and the trace before it
Acts = Iterator[tuple[str, State]]


@dataclass
class Fault(Exception):
    """A state from which the promise does not come back, or a run that said 0 and left something else."""

    what: str
    trace: Trace

    def __str__(self) -> str:
        acts, trace = [], self.trace
        while trace is not None:
            act, trace = trace
            acts.append(act)
        lines = [f"{number:3}. {act}" for number, act in enumerate(reversed(acts), 1)]
        return "\n".join([*lines, f"  => {self.what}"])


# --- what others do ---------------------------------------------------------------------------------------------------


def begin() -> State:
    """Return a lake in which nothing has run."""
    left, right = (
        Table.of(uri, Commit("WRITE", rows)) for uri, rows in ((LEFT, (("a", "5"),)), (RIGHT, ((SHOP, "u"),)))
    )
    return State(Lake(left, right))


def order(state: State) -> Acts:
    """Write an order that is good, one that is held back, or delete it."""
    return _write(state, "left", "a", ("5", BAD, None))


def another(state: State) -> Acts:
    """Write another order, one that is held back, or delete it."""
    return _write(state, "left", "b", ("5", BAD, None))


def shop(state: State) -> Acts:
    """Rename the shop, or delete it."""
    return _write(state, "right", SHOP, ("u", "v", None))


def _write(state: State, place: str, key: str, values: tuple[str | None, ...]) -> Acts:
    table: Table = getattr(state.lake, place)
    there = dict(table.rows)
    for value in values:
        if there.get(key) != value:
            rows = {**there, key: value}
            after = table.put("WRITE", tuple(sorted((k, v) for k, v in rows.items() if v is not None)))
            said = "is deleted" if value is None else f"becomes {value!r}"
            yield f"{NAMES[place]}: {key!r} {said}", state._replace(lake=state.lake.but(**{place: after}))


def is_any_late(state: State) -> bool:
    """Tell whether a run has looked for the last time at what it is about to write to."""
    return any(each.place == "commit" for each in state.live)


def restore(state: State) -> Acts:
    """Take a table back to a version."""
    for place, name in NAMES.items():
        table: Table | None = getattr(state.lake, place)
        for version in range(max(table.oldest, table.kept), table.version) if table is not None else ():
            assert table is not None
            after = table.put("RESTORE", table.commits[version].rows, None, version)
            # A run that has looked for the last time may append its rows to what comes back; it sees that at once.
            late = {"target": FOREIGN, "beside": MIXED}.get(place, 0) if is_any_late(state) else 0
            yield (
                f"RESTORE of {name} to version {version}",
                state._replace(
                    lake=state.lake.but(**{place: after}),
                    excuses=state.excuses | late,
                ),
            )


NAMES = {"left": "the orders", "right": "the shops", "target": "the target", "beside": "the quarantine"}


def restore_to_a_time(state: State) -> Acts:
    """Take target or quarantine back to a time, which the log does not tell as a version."""
    for place in ("target", "beside"):
        table: Table | None = getattr(state.lake, place)
        for version in range(table.oldest, table.version) if table is not None else ():
            after = table.put("RESTORE", table.commits[version].rows)  # type: ignore[union-attr]
            excuses = state.excuses | (FOREIGN if place == "target" else MIXED if is_any_late(state) else 0)
            lake = state.lake.but(**{place: after})
            yield (
                f"RESTORE of {NAMES[place]} to the time of version {version}",
                state._replace(lake=lake, excuses=excuses),
            )


def intrude(state: State) -> Acts:
    """Let another writer put a row into the target: one more of a key, or one of its own."""
    table = state.lake.target
    for row in (("a", "!"), ("z", "!")) if table is not None else ():
        assert table is not None
        lake = state.lake._replace(target=table.put("WRITE", tuple(sorted([*table.rows, row]))))
        yield f"another writer adds {row} to the target", state._replace(lake=lake, excuses=state.excuses | FOREIGN)


def optimize(state: State) -> Acts:
    """Put files of a table together."""
    for place, name in NAMES.items():
        table: Table | None = getattr(state.lake, place)
        if table is not None and table.commits[-1].operation != "OPTIMIZE":
            after = table.put("OPTIMIZE", table.rows, changes=False)
            yield f"OPTIMIZE of {name}", state._replace(lake=state.lake.but(**{place: after}))


def lose_feed(state: State) -> Acts:
    """Make the feed of all commits that there are unreadable; their rows stay."""
    for place in ("left", "right"):
        table: Table = getattr(state.lake, place)
        if table.blind < table.version:
            lake = state.lake.but(**{place: table.but(blind=table.version)})
            yield f"the feed of {NAMES[place]} is lost up to version {table.version}", state._replace(lake=lake)


def vacuum(state: State) -> Acts:
    """Remove all files but those of the latest version."""
    for place, name in NAMES.items():
        table: Table | None = getattr(state.lake, place)
        if table is not None and table.kept < table.version:
            lake = state.lake.but(**{place: table.but(blind=table.version, kept=table.version)})
            excuses = state.excuses | (LOST if place in ("left", "right") else 0)
            yield (
                f"VACUUM of {name} keeps version {table.version} alone",
                state._replace(lake=lake, excuses=excuses),
            )


def replace_source(state: State) -> Acts:
    """Put another table in the orders' place, or a backup of them that goes on by itself; bring the old ones back."""
    left, excuses = state.lake.left, state.excuses | LOST
    if state.away is not None:
        yield "the old orders come back", state._replace(lake=state.lake._replace(left=state.away), away=None)
        return
    other = Table.of(f"{LEFT}/again", left.commits[0])
    lake = state.lake._replace(left=other)
    yield "the orders are dropped and created again", State(lake, left, state.live, excuses)
    if left.version:
        lake = state.lake._replace(left=Table.of(left.id, *left.commits[:-1]))
        yield "the orders are replaced by a backup that lacks a commit", State(lake, left, state.live, excuses)


def forget(state: State) -> Acts:
    """Let Delta forget numbers and logs, and people the state directory."""
    for place in ("target", "beside"):
        table: Table | None = getattr(state.lake, place)
        if table is None:
            continue
        lake = state.lake
        # No number is so young and forgotten that a run has not seen it right before its commit.
        if table.number is not None and not is_any_late(state):
            yield (
                f"Delta forgets the number of {NAMES[place]}",
                state._replace(lake=lake.but(**{place: table.but(number=None)})),
            )
        if table.oldest < table.version:
            excuses = state.excuses | LOST | FORGOTTEN
            after = lake.but(**{place: table.but(oldest=table.version)})
            yield f"the log of {NAMES[place]} keeps its last commit alone", state._replace(lake=after, excuses=excuses)
    if state.lake.runs:
        yield "the runs table is lost", state._replace(lake=state.lake._replace(runs=()))


def drop(state: State) -> Acts:
    """Drop target or quarantine."""
    for place in ("target", "beside"):
        if getattr(state.lake, place) is not None:
            lake = state.lake.but(**{place: None})
            # A run that has looked for the last time may append its rows to a table of which nothing else is left.
            late = LOST if place == "target" and is_any_late(state) else 0
            yield f"{NAMES[place]} is dropped", state._replace(lake=lake, excuses=state.excuses | late)


ACTS: dict[str, Callable[[State], Acts]] = {
    each.__name__: each
    for each in (
        order,
        another,
        shop,
        restore,
        restore_to_a_time,
        intrude,
        optimize,
        lose_feed,
        vacuum,
        replace_source,
        forget,
        drop,
    )
}
OF_RUNS = ("kill", "lose", "second", "since", "until", "refresh", "merge", "repair")
"""What is done to runs: they die, they lose answers of commits; a second one comes; others options; no positions."""


# --- the promise ------------------------------------------------------------------------------------------------------


def find_record(table: Table, version: int) -> dict[str, Any] | None:
    """Return what the rows of a version contain, by the record that they come from; None where others wrote them."""
    each = table.commits[version]
    if each.record is not None:
        found: dict[str, Any] = read_record(each.record)
        return found
    if each.operation == "RESTORE":
        return None if each.to is None else find_record(table, each.to)
    return None if each.changes else find_record(table, version - 1)


def find_rows(state: State, uri: str, mark: dict[str, Any]) -> Rows | None:
    """Return the rows of a source that a record names; None where they are not there any more."""
    tables: tuple[Table | None, ...] = (state.lake.left if uri == LEFT else state.lake.right, state.away)
    for table in tables:
        is_it = table is not None and table.id == mark["table_id"] and mark["to"] <= table.version
        if is_it and table is not None and mark.get("commit") in (None, table.stamps[mark["to"]]):
            commit: Commit = table.commits[mark["to"]]
            return commit.rows
    return None


def judge_end(state: State, ended: Ended) -> str | None:
    """Return what is wrong with what a run has left that ended with 0; None for nothing."""
    target, beside = state.lake.target, state.lake.beside
    if ended.code or ended.version is None or target is None:
        return None
    if ended.table != target.id or ended.version > target.version:
        return None  # it is another target by now
    record = find_record(target, ended.version)
    if record is None:
        return f"exit 0 ({ended.status}) over rows of another writer in the target"
    found = [
        find_rows(state, uri, record["sources"][alias]) for alias, uri in ALIASES.items() if alias in record["sources"]
    ]
    if None in found:
        return None
    good, bad = (tuple(sorted(each.items())) for each in make_rows(*found))  # type: ignore[arg-type]
    if target.commits[ended.version].rows != good:
        return f"exit 0 ({ended.status}), and the target has {target.commits[ended.version].rows} instead of {good}"
    named = (record["quarantine_number"], record["quarantine_run"])
    there: Rows | None = () if not named[0] else None
    for each in beside.commits if beside is not None else ():
        known = read_record(each.record) if each.record is not None else None
        if known is not None and (known["quarantine_number"], known["run_id"]) == named:
            there = each.rows
    if there is not None and there != bad and not state.excuses & MIXED:
        return f"exit 0 ({ended.status}), and the quarantine that it names has {there} instead of {bad}"
    return None


@dataclass
class Explorer:
    """What was found so far."""

    player: Player
    seen: set[int] = field(default_factory=set)  # hashes of states
    finished: set[int] = field(default_factory=set)  # hashes of lakes from which the promise comes back
    counts: Counter[str] = field(default_factory=Counter)
    enough: int = 0  # how many are seen in the end

    def finish(self, state: State) -> str | None:
        """Let runs that nobody disturbs finish, and return what is wrong then; None for nothing."""
        key = hash((state.lake, state.excuses))
        if key in self.finished:
            return None
        self.finished.add(key)
        return self._finish(state._replace(live=(), away=None))

    def _finish(self, state: State) -> str | None:
        options: dict[str, Any] = {}
        said = []
        for _ in range(4):
            ended, state = self.run(state, options)
            said.append(f"`{' '.join(['run', *options])}` ends with {ended.code} ({ended.error or ended.status})")
            if ended.code == 0 and not options.get("repair"):
                wrong = judge_end(state, ended) or self._judge_all(state)
                return None if wrong is None else "; then ".join([*said, wrong])
            allowed = {2: FORGOTTEN, 5: LOST, 6: FOREIGN}.get(ended.code, 0)
            if ended.code and not state.excuses & allowed:
                break
            if ended.code == 2:  # the target is moved away, as it says
                return None
            options = {}
            if "--full-refresh" in ended.error:
                options = {"full_refresh": True}
            elif "--repair" in ended.error:
                options = {"repair": True}
            elif ended.code:
                break
        return "; then ".join(said)

    def run(self, state: State, options: dict[str, Any]) -> tuple[Ended, State]:
        """Run the job once, undisturbed."""
        found: Stop | Ended = self.player.begin(next(list_free(state.lake.names)), **options)
        lake = state.lake
        while isinstance(found, Stop):
            found, lake = self.player.step(found, lake)
        return found, state._replace(lake=lake)

    def _judge_all(self, state: State) -> str | None:
        """Return how target and quarantine differ from what the job gives for the sources as they are."""
        lake, aliases = state.lake, self.player.job.sources
        sources = [lake.left, lake.right][: len(aliases)]
        good, bad = (tuple(sorted(each.items())) for each in make_rows(*[each.rows for each in sources]))
        assert lake.target is not None
        record = find_record(lake.target, lake.target.version)
        held = () if lake.beside is None else lake.beside.rows
        if (lake.target.rows, held) != (good, bad):
            return f"target and quarantine have {lake.target.rows}, {held} instead of {good}, {bad}"
        marks = {} if record is None else record["sources"]
        if any(marks[alias]["to"] != table.version for alias, table in zip(aliases, sources, strict=True)):
            return "the record does not name the sources' versions"
        return None

    def go_on(self, state: State) -> Acts:
        """Yield what happens by itself: the next step of each run, or the start of one where there is none."""
        for place in range(len(state.live)):
            yield self._step(state, place)
        if not state.live:
            yield self._start(state, "", {})

    def _step(self, state: State, place: int, *, loses: bool = False) -> tuple[str, State]:
        stop, others = state.live[place], (*state.live[:place], *state.live[place + 1 :])
        stop = stop._replace(run_id=stop.run_id or next(list_free(state.names)))
        found, lake = self.player.step(stop, state.lake, loses=loses)
        said = f"run {stop.run_id} goes on from {stop.place!r}{', whose answer is lost,' if loses else ''} "
        if isinstance(found, Stop):
            return f"{said}to {found.place!r}", state._replace(lake=lake, live=(*others, found)).forget_names()
        self.counts[f"exit {found.code} {found.status}"] += 1
        said += f"and ends with {found.code} ({found.error or found.status})"
        after = state._replace(lake=lake, live=others).forget_names()
        if wrong := judge_end(after, found):
            raise Fault(wrong, (said, None))
        return said, after

    def act(self, state: State, acts: frozenset[str]) -> Acts:
        """Yield what somebody may do."""
        live = state.live
        for place, stop in enumerate(live):
            if "lose" in acts and stop.place in ("commit", "committed"):
                yield self._step(state, place, loses=True)
            if "kill" in acts:
                others = (*live[:place], *live[place + 1 :])
                yield (
                    f"run {stop.run_id or 'new'} is killed at {stop.place!r}",
                    state._replace(live=others).forget_names(),
                )
        if len(live) < LONGEST and (not live or "second" in acts):
            for words, options in list_options(state, acts):
                yield self._start(state, words, options)
        for name, act in ACTS.items():
            if name in acts:
                yield from ((said, after.forget_names()) for said, after in act(state))

    def _start(self, state: State, words: str, options: dict[str, Any]) -> tuple[str, State]:
        return f"a run starts{words}", state._replace(live=(*state.live, self.player.begin("", **options)))

    def lead(self, *acts: str) -> State:
        """Return the state to which acts lead, by how their names begin; a run is played to its end."""
        state = begin()
        for each in acts:
            found = (*self.act(state, frozenset(ACTS)), *self.go_on(state))
            state = next(after for said, after in found if said.startswith(each))
            while state.live:
                ((_, state),) = self.go_on(state)
        return state

    def explore(self, first: State, acts: frozenset[str], bound: int, most: int) -> int:
        """Visit all states that up to ``bound`` acts lead to, or ``most`` of them; raise the first Fault.

        Return how many there were. Those of fewer acts come first; those of the last act are not kept.
        """
        start = len(self.seen)
        self.enough = start + most
        level: Iterator[tuple[State, Trace]] = iter([(first, None)])
        for _ in range(bound):
            level = self._follow(deque(self._settle(level)), lambda state: self.act(state, acts))
        deque(self._settle(level), 0)
        return len(self.seen) - start

    def _settle(self, level: Iterator[tuple[State, Trace]]) -> Iterator[tuple[State, Trace]]:
        """Visit states, and all that come of them by themselves; yield those that were not seen before."""
        for each in level:
            waiting = deque([each])
            while waiting and len(self.seen) < self.enough:
                state, trace = waiting.popleft()
                key = state.key
                if key in self.seen:
                    continue
                self.seen.add(key)
                if wrong := self.finish(state):
                    raise Fault(wrong, trace)
                yield state, trace
                waiting.extend(self._follow(deque([(state, trace)]), self.go_on))

    def _follow(self, states: deque[tuple[State, Trace]], by: Callable[[State], Acts]) -> Iterator[tuple[State, Trace]]:
        """Yield what each of the states leads to, and forget it."""
        while states:
            state, trace = states.popleft()
            try:
                for said, after in by(state):
                    yield after, (sys.intern(said), trace)
            except Fault as fault:
                raise Fault(fault.what, (fault.trace[0], trace)) from None  # type: ignore[index]


def list_options(state: State, acts: frozenset[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield how a run may be asked for that does not start by itself."""
    if state.live:
        yield "", {}
    if state.lake.target is None:
        return
    for bound in ("since", "until"):
        for version in range(state.lake.left.version) if bound in acts else ():
            yield f" --{bound} orders=v{version}", {bound: (("orders", version),)}
    if "refresh" in acts:
        yield " --full-refresh", {"full_refresh": True}
    if "merge" in acts:
        yield ", by MERGE", {"merges": True}
    if "repair" in acts:
        yield " as verify --repair", {"repair": True}


def main(arguments: list[str] | None = None) -> int:
    """Explore, and print what was found; 3 for a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acts", type=int, default=3, help="how many there are at most")
    parser.add_argument("--only", default=",".join([*ACTS, *OF_RUNS]), help="which, with commas between them")
    parser.add_argument("--most", type=int, default=1_000_000, help="states")
    parser.add_argument("--groups", action="store_true", help="a job of groups instead of a join")
    options = parser.parse_args(arguments)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as home, playing(Path(home), GROUPS if options.groups else JOB) as player:
        found = Explorer(player)
        try:
            found.explore(begin(), frozenset(options.only.split(",")), options.acts, options.most)
        except Fault as fault:
            sys.stdout.write(f"{fault}\n")
            return 3
        finally:
            seconds = time.process_time() - started
            told = f"{len(found.seen):,} states, {len(found.finished):,} lakes, {player.executed:,} steps"
            sys.stdout.write(f"{told}, {seconds:.0f} CPU s\n{dict(found.counts)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
