"""Check the fields of one job file against each other, and what its built-in rules say.

They read the file's plain values and not its model, so that a misspelt key hides none of the other faults. What has the
wrong shape is skipped here: ``shape`` has said so already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, NamedTuple

from enrich.base.errors import Fault
from enrich.base.names import FEED_COLUMNS, MERGE_COLUMNS
from enrich.base.words import did_you_mean
from enrich.project.kinds import JOBS, JOINS
from enrich.project.kinds.join import Joins
from enrich.project.kinds.syntax import Draft, JoinSyntax, check_list, list_names
from enrich.project.shape import describe
from enrich.project.yamlfile import Tree

_JOB_NAME = re.compile(r"\w[\w.-]*")
_ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
NOT_IN_COLUMN = re.compile(r"[` ,;{}()=\x00-\x1f]")
"""A character that no column of a new table may have: Delta refuses it, and MERGE a backtick."""
NOT_IN_FIELD = re.compile(r"[ ,;{}()=\t\n]")
"""A character that no field within a column of a new table may have: Delta refuses it."""
NOT_IN_NAME = re.compile(rf"{NOT_IN_COLUMN.pattern}|[\s\x7f-\x9f]")
"""A character that no name of a column may have that a person writes: also what cannot be seen."""
RESERVED_COLUMNS = {
    "_failed": "the quarantine",
    "_run_id": "the quarantine",
    **dict.fromkeys(FEED_COLUMNS, "the change feed"),
    **dict.fromkeys(MERGE_COLUMNS, "Delta's MERGE"),
}
"""Names that other columns have, in lower case -> whose columns they are."""
_MAX_CLUSTER_BY = 4
AT_LEAST, AT_MOST = "at_least", "at_most"


class _Known(NamedTuple):
    """What one rule takes."""

    about: str
    threshold: str = AT_MOST
    join: bool = False  # it is about one join
    refers: bool = False  # ... whose references can be null
    scoped: bool = False  # it can count the whole target


RULES = {
    "match_rate": _Known("joins", AT_LEAST, join=True, scoped=True),
    "null_foreign_keys": _Known("joins", join=True, refers=True, scoped=True),
    "new_orphans": _Known("joins", join=True),
    "mass_change": _Known("what a run changes"),
    "value_conflicts": _Known("mirrors"),
}


def check_job(tree: Tree) -> list[Fault]:
    """Return what contradicts itself in a job file, in the order of the rules."""
    root = tree.mapping()
    sources = {alias: value for alias, value in tree.mapping("sources").items() if isinstance(value, dict)}
    joins = {alias: value for alias, value in tree.mapping("join").items() if isinstance(value, dict)}
    given = root.get("kind", Joins.name)
    kind = JOBS.get(given) if isinstance(given, str) else None
    draft = Draft(kind or JOBS[Joins.name], tree, root, sources, joins)
    _check_names(draft)
    _check_references(draft)
    for alias, source in draft.sources.items():
        for option in ("key", "normalise"):
            check_list(draft, source, option, ("sources", alias))
        if isinstance(source.get("latest"), dict):
            check_list(draft, source["latest"], "order", ("sources", alias, "latest"))
        if source.get("doubled_keys") == "quarantine":
            others = {"unique: trusted": source.get("unique") == "trusted", "latest": "latest" in source}
            whys = {"unique: trusted": "nobody looks for doubled keys there", "latest": "there no key is doubled"}
            for other in (each for each, is_there in others.items() if is_there):
                message = f"'doubled_keys: quarantine' has no effect beside '{other}': {whys[other]}; leave one out"
                draft.fault(message, "sources", alias, "doubled_keys")
    if kind is not None:
        # Nothing that only jobs of other kinds have.
        refused = () if kind.joins else ("join",) if kind.selects else ("join", "select", "where")
        for option in refused:
            if option in root:
                reads = "one source" if kind.selects else "one source as it is"
                draft.fault(f"{option!r} is not for kind {kind.name}; a {kind.name} reads {reads}", option)
        for other in JOBS:
            if other in root and other != kind.name and not JOBS[other].joins:
                draft.fault(f"'{other}' is only for kind: {other}; add 'kind: {other}' or remove it", other)
        kind.check(draft)
        _check_joins(draft)
    _check_columns(draft)
    _check_rules(draft)
    return draft.faults


def _check_names(draft: Draft) -> None:
    """The job is named as its file is; aliases are unlike each other and what expressions and the engine use."""
    name, file = draft.root.get("job"), PurePath(draft.tree.name)
    if isinstance(name, str) and name.strip():
        if not _JOB_NAME.fullmatch(name):
            draft.fault(f"the job's name {name!r} may contain letters, digits, '_', '-' and '.' only", "job")
        elif name != file.stem:
            other = f"rename the file to {name}{file.suffix} or the job to {file.stem}"
            draft.fault(f"job {name!r} is in {file.name}; {other}", "job")
    if draft.root.get("sources") == {}:
        draft.fault("'sources' is empty; name the tables that the job reads", "sources")
    seen: dict[str, str] = {}
    for alias in draft.tree.mapping("sources"):
        place = ("sources", alias)
        if (said := find_alias_fault(alias)) is not None:
            draft.fault(said, *place)
        if (first := seen.setdefault(alias.lower(), alias)) != alias:
            draft.fault(f"the aliases {first!r} and {alias!r} differ only in upper and lower case", *place)


def find_alias_fault(alias: str) -> str | None:
    """Return why a source cannot be called so; of an empty name, which is a fault of its own, nothing."""
    if alias.lower() == "key":
        return "the alias 'key' is reserved: in expressions it means the coalesced key"
    if alias.startswith("_"):
        return f"the alias {alias!r} is reserved: enrich uses names that begin with '_' itself"
    if alias.strip() and not _ALIAS.fullmatch(alias):
        return f"the alias {alias!r} must be an identifier: a letter, then letters, digits and '_'"
    return None


def _check_references(draft: Draft) -> None:
    """``from`` and the joins name sources, and every source is used by one of them."""
    known = draft.tree.mapping("sources")
    lookups = draft.tree.mapping("join")
    given = draft.root.get("from")
    driving = given if isinstance(given, str) and given.strip() else None
    if not known:
        return
    if driving and driving not in known:
        draft.fault(f"'from' names {driving!r}, which is not among the sources{did_you_mean(driving, known)}", "from")
    unused = [name for name in known if name not in lookups and name != driving]
    for alias in lookups:
        if alias not in known:
            near = did_you_mean(alias, unused or known)
            draft.fault(f"'join' names {alias!r}, which is not among the sources{near}", "join", alias)
        elif alias == driving:
            message = f"the driving source {alias!r} cannot be joined to itself; give the table a second alias"
            draft.fault(message, "join", alias)
    use = "join it or remove it" if draft.syntax.joins else f"a {draft.syntax.name} reads one source"
    for alias in unused if driving else ():
        draft.fault(f"the source {alias!r} is neither 'from' nor joined; {use}", "sources", alias)


def _check_joins(draft: Draft) -> None:
    """Each join has what its kind needs and nothing else."""
    for alias, join in draft.joins.items() if draft.syntax.joins else ():
        name = join.get("kind")
        kind = JOINS.get(name) if isinstance(name, str) else None
        if kind is None:
            continue
        for option in join:
            kinds = [each.name for each in JOINS.values() if option in each.needs + each.takes]
            if kinds and kind.name not in kinds:
                named = " and ".join(", ".join(kinds).rsplit(", ", 1))
                draft.fault(f"{option!r} is not for kind {name}, only for {named}", "join", alias, option)
        for needed in kind.needs:
            if needed not in join:
                draft.fault(f"kind {name} needs {needed!r}", "join", alias)
        how = join.get("how")
        if "how" in kind.takes and how in JoinSyntax.hows and how not in kind.hows:
            draft.fault(f"'how' of kind {name} is {' or '.join(kind.hows)}, not {how}", "join", alias, "how")
        kind.check(draft, alias, join)


def _check_columns(draft: Draft) -> None:
    """Target columns have names that Delta takes, and no two differ only in case; four of them at most cluster it."""
    seen: dict[str, str] = {}
    named = list(draft.syntax.list_target_columns(draft))
    for name, path in named:
        if bad := NOT_IN_NAME.search(name):
            draft.fault(f"the target column {name!r} must not contain {bad.group()!r}", *path)
        if user := RESERVED_COLUMNS.get(name.lower()):
            draft.fault(f"the target column {name!r} is a column of {user}; choose another name", *path)
        first = seen.get(name.lower())
        seen.setdefault(name.lower(), name)
        if first == name:
            kind = draft.syntax
            draft.fault(f"{name!r} is twice in the {kind.name}; {kind.mends_doubled}", *path)
        elif first is not None:
            draft.fault(f"the target columns {first!r} and {name!r} differ only in upper and lower case", *path)
    target = draft.tree.mapping("target")
    check_list(draft, target, "cluster_by", ("target",))
    columns = list_names(target.get("cluster_by"))
    if len(columns) > _MAX_CLUSTER_BY:
        message = f"'cluster_by' has {len(columns)} columns; Delta clusters by at most {_MAX_CLUSTER_BY}"
        draft.fault(message, "target", "cluster_by")
    known = [name for name, _ in named]
    arrays, at = draft.syntax.list_arrays(draft), draft.syntax.names_columns_in
    is_open = at and at[-1] not in draft.tree.mapping(*at[:-1])
    for index, name in enumerate(columns):
        if name in arrays:
            message = f"'cluster_by' names {name!r}, which is an array; cluster by the mirror's value"
            draft.fault(message, "target", "cluster_by", index)
        elif known and name not in known and not is_open:
            where = "selected" if draft.syntax.selects else f"a column of the {draft.syntax.name}"
            message = f"'cluster_by' names {name!r}, which is not {where}{did_you_mean(name, known)}"
            draft.fault(message, "target", "cluster_by", index)


def _check_rules(draft: Draft) -> None:
    """Each rule is about something that the job has, and has the threshold that it needs."""
    declared = draft.root.get("rules")
    seen: set[tuple[Any, ...]] = set()
    for index, rule in enumerate(declared if isinstance(declared, list) else []):
        name = rule.get("rule") if isinstance(rule, dict) else None
        if not isinstance(name, str) or name not in RULES:
            continue  # its shape is a fault already
        for message, key in _find_faults(draft, rule, RULES[name]):
            draft.fault(message, "rules", index, *([key] if key else []))
        given = {"scope": "changed", **rule}
        names = ("rule", "join", "action", "scope")
        same = tuple(given[key] if isinstance(given.get(key), str) else None for key in names)
        if same in seen:
            draft.fault(f"{same[0]} is declared twice with the same action and scope; keep one", "rules", index)
        seen.add(same)


def _find_faults(draft: Draft, rule: dict[str, Any], known: _Known) -> Iterator[tuple[str, str | None]]:
    """Yield ``(message, key)`` for what is wrong with one rule."""
    name = rule["rule"]
    if name not in draft.syntax.rules:
        allowed = ", ".join(each for each in RULES if each in draft.syntax.rules)
        yield f"{name} is about {known.about}; a {draft.syntax.name} job can have {allowed}", "rule"
    elif known.join:
        alias = rule.get("join")
        fit = [kind.name for kind in JOINS.values() if kind.refers or not known.refers]
        kind = draft.joins.get(alias, {}).get("kind") if isinstance(alias, str) else None
        if "join" not in rule:
            joins = [each for each, join in draft.joins.items() if join.get("kind") in fit]
            yield f"{name} needs 'join', the alias of what is joined{did_you_mean('', joins)}", None
        elif isinstance(alias, str) and alias not in draft.joins and alias.strip():
            yield f"{name} names {alias!r}, which is not among the joins{did_you_mean(alias, draft.joins)}", "join"
        elif isinstance(kind, str) and kind in JOINS and kind not in fit:  # an unknown kind is a fault already
            why = f"the key of a {kind} join is never null"
            yield f"{name} is for joins of kind {' or '.join(fit)}, not for {alias!r}: {why}", "join"
    elif "join" in rule:
        yield f"{name} is about the whole target; leave 'join' out", "join"
    conflict = draft.tree.mapping("mirror").get("conflict", "fail")
    if name == "value_conflicts" and name in draft.syntax.rules and conflict == "fail":
        why = "with 'fail' one conflict blocks the run"
        yield f"value_conflicts goes with conflict first, last or collect; {why}", "rule"
    if "scope" in rule and not known.scoped:
        names = " and ".join(each for each, other in RULES.items() if other.scoped)
        yield f"only {names} take 'scope'; leave it out", "scope"
    wanted = known.threshold
    other = AT_LEAST if wanted == AT_MOST else AT_MOST
    if other in rule:
        yield f"{name} takes '{wanted}', not '{other}'", other
    elif wanted not in rule:
        yield f"{name} needs '{wanted}'", None
    value = rule.get(wanted)
    if value is not None and (message := find_threshold_fault(wanted, value, is_share=wanted == AT_LEAST)):
        yield message, wanted


def find_threshold_fault(name: str, value: Any, *, is_share: bool = False) -> str | None:
    """Return what is wrong with a threshold; ``is_share`` when a number of rows is wrong, too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"'{name}' must be a whole number of rows or a share from 0.0 to 1.0, not {describe(value)}"
    if isinstance(value, float) and not 0 <= value <= 1:
        return f"'{name}' with a decimal point is a share from 0.0 to 1.0; write rows as a whole number"
    if isinstance(value, int) and is_share:
        return f"'{name}' is a share from 0.0 to 1.0: write 1.0 for all rows; a number of rows would fail small runs"
    return f"'{name}' cannot be negative" if value < 0 else None
