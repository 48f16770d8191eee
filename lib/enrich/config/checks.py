"""The rules between the fields of one job file.

They read the file's plain values and not its model, so that a misspelt key hides none of the other faults. What has the
wrong shape is skipped here: ``shape`` has said so already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from enrich.base.console import format_count
from enrich.base.errors import Fault, did_you_mean
from enrich.base.names import FEED_COLUMNS, MERGE_COLUMNS, name_path, suggest_item
from enrich.config.draft import Draft, check_list, list_names
from enrich.config.models import JOIN_KINDS
from enrich.config.rules import check_rules
from enrich.config.timejoins import check_as_of, check_intervals
from enrich.config.yamlfile import PathStep, Tree

_JOB_NAME = re.compile(r"\w[\w.-]*")
_ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
NOT_IN_COLUMN = re.compile(r"[` ,;{}()=\x00-\x1f]")
"""A character that no column of a new table may have: Delta refuses it, and MERGE a backtick."""
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
TIMES = ("valid_from", "valid_to")
"""The keys of a history that name columns of its target; these are the columns' names when nothing is said."""


def check_job(tree: Tree) -> list[Fault]:
    """Return what contradicts itself in a job file, in the order of the rules."""
    root = tree.mapping()
    sources = {alias: value for alias, value in tree.mapping("sources").items() if isinstance(value, dict)}
    joins = {alias: value for alias, value in tree.mapping("join").items() if isinstance(value, dict)}
    draft = Draft(tree, root, sources, joins)
    rules: list[Callable[[Draft], None]] = [_check_name, _check_aliases, _check_references, _check_source_keys]
    if draft.is_mirror:
        rules += [_check_mirror]
    elif draft.kind == "history":
        rules += [_check_history]
    elif root.get("kind", "join") == "join":
        rules += [_check_join_job, _check_joins]
    rules += [_check_target_columns, _check_clustering, check_rules]
    for rule in rules:
        rule(draft)
    return draft.faults


def _check_name(draft: Draft) -> None:
    """The job is named as its file is."""
    name = draft.root.get("job")
    file = PurePath(draft.tree.name)
    if not isinstance(name, str) or not name.strip():
        return
    if not _JOB_NAME.fullmatch(name):
        draft.fault(f"the job's name {name!r} may contain letters, digits, '_', '-' and '.' only", "job")
    elif name != file.stem:
        draft.fault(
            f"job {name!r} is in {file.name}; rename the file to {name}{file.suffix} or the job to {file.stem}", "job"
        )


def _check_aliases(draft: Draft) -> None:
    """Aliases are identifiers, unlike each other and unlike what expressions and the engine use themselves."""
    seen: dict[str, str] = {}
    if draft.root.get("sources") == {}:
        draft.fault("'sources' is empty; name the tables that the job reads", "sources")
    for alias in draft.tree.mapping("sources"):
        place = ("sources", alias)
        if alias.lower() == "key":
            draft.fault("the alias 'key' is reserved: in expressions it means the coalesced key", *place)
        elif alias.startswith("_"):
            draft.fault(f"the alias {alias!r} is reserved: enrich uses names that begin with '_' itself", *place)
        elif alias.strip() and not _ALIAS.fullmatch(alias):
            draft.fault(f"the alias {alias!r} must be an identifier: a letter, then letters, digits and '_'", *place)
        if (first := seen.setdefault(alias.lower(), alias)) != alias:
            draft.fault(f"the aliases {first!r} and {alias!r} differ only in upper and lower case", *place)


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
    use = "join it or remove it" if draft.kind == "join" else f"a {draft.kind} reads one source"
    for alias in unused if driving else ():
        draft.fault(f"the source {alias!r} is neither 'from' nor joined; {use}", "sources", alias)


def _check_source_keys(draft: Draft) -> None:
    for alias, source in draft.sources.items():
        check_list(draft, source, "key", ("sources", alias))
        check_list(draft, source, "normalise", ("sources", alias))


def _check_join_job(draft: Draft) -> None:
    """A join job has no mirror and no history, and its select is not empty."""
    _refuse_parts(draft, "mirror", "history")
    if draft.root.get("select") == {}:
        draft.fault("'select' is empty; leave it out to select every column", "select")


def _refuse_parts(draft: Draft, *kinds: str) -> None:
    """Refuse what only jobs of other kinds have."""
    for kind in kinds:
        if kind in draft.root:
            draft.fault(f"'{kind}' is only for kind: {kind}; add 'kind: {kind}' or remove it", kind)


def _check_joins(draft: Draft) -> None:
    """Each join has what its kind needs and nothing else."""
    keeps_right: str | None = None
    check_intervals(draft)
    for alias, join in draft.joins.items():
        kind = join.get("kind")
        if not isinstance(kind, str) or kind not in JOIN_KINDS:
            continue
        for option in join:
            kinds = [other for other, (needed, optional) in JOIN_KINDS.items() if option in needed + optional]
            if kinds and kind not in kinds:
                named = " and ".join(", ".join(kinds).rsplit(", ", 1))
                draft.fault(f"{option!r} is not for kind {kind}, only for {named}", "join", alias, option)
        for needed in JOIN_KINDS[kind][0]:
            if needed not in join:
                draft.fault(f"kind {kind} needs {needed!r}", "join", alias)
        _check_key_length(draft, alias, kind, join)
        if kind == "as_of":
            check_as_of(draft, alias, join)
        if kind == "foreign_key" and join.get("how") in ("right", "full"):
            if keeps_right:
                first = f"{keeps_right!r}, line {draft.tree.line('join', keeps_right)}"
                message = f"a job has at most one right or full foreign-key join, and has one ({first})"
                draft.fault(message, "join", alias, "how")
            keeps_right = keeps_right or alias


def _check_key_length(draft: Draft, alias: str, kind: str, join: dict[str, Any]) -> None:
    """Both sides of a join have as many key columns."""
    key, own, on = draft.key(alias), draft.key(draft.driving), join.get("on")
    has = f"the key of {alias!r} has"
    before = " before the last" if kind == "as_of" else ""
    refers = kind in ("foreign_key", "as_of")
    if refers and on == []:
        draft.fault(f"'on' is an empty list; give one expression for each key column{before}", "join", alias, "on")
    elif kind == "as_of" and len(key) == 1:
        message = "an as_of join needs the key of the thing and then the time from which a version holds"
        draft.fault(f"{message}, but {has} 1 column", "sources", alias, "key")
    elif refers and key and "on" in join and not isinstance(on, dict):
        count, wanted = len(on) if isinstance(on, list) else 1, len(key) - bool(before)
        if count != wanted:
            message = f"'on' has {format_count(count, 'expression')}, but {has} {wanted}{before}"
            draft.fault(message, "join", alias, "on")
    if kind == "list" and len(key) > 1:
        draft.fault(f"a list join uses one id, but {has} {format_count(len(key), 'column')}", "join", alias)
    if kind == "table" and key and own and len(key) != len(own):
        columns = f"that of {alias!r} has {format_count(len(key), 'column')} and that of {draft.driving!r} {len(own)}"
        draft.fault(f"a table join needs the same key, but {columns}", "join", alias)


def _check_mirror(draft: Draft) -> None:
    """A mirror job has a mirror and nothing of a join job."""
    if "mirror" not in draft.root:
        draft.fault("kind mirror needs 'mirror: {value: ...}'", "kind")
    for option in ("join", "select", "where"):
        if option in draft.root:
            draft.fault(f"{option!r} is not for kind mirror; a mirror reads one source as it is", option)
    _refuse_parts(draft, "history")
    mirror = draft.tree.mapping("mirror")
    for key in ("value", "columns"):
        check_list(draft, mirror, key, ("mirror",))
    conflict = mirror.get("conflict", "fail")
    if "order" in mirror and conflict in ("fail", "collect"):
        draft.fault(f"'order' is only for conflict first and last, not {conflict}", "mirror", "order")
    if conflict == "collect" and "columns" in mirror:
        draft.fault("'columns' is not for conflict collect, which has no winning row", "mirror", "columns")


def _check_history(draft: Draft) -> None:
    """A history job has nothing of the other kinds, and its columns are neither its key nor its times."""
    for option in ("join", "select", "where"):
        if option in draft.root:
            draft.fault(f"{option!r} is not for kind history; a history reads one source as it is", option)
    _refuse_parts(draft, "mirror")
    history = draft.tree.mapping("history")
    check_list(draft, history, "columns", ("history",))
    key = {name.lower() for name in draft.key(draft.driving)}
    for index, name in enumerate(list_names(history.get("columns"))):
        if name.lower() in key:
            message = f"'columns' names {name!r}, which is in the key: leave it out, the target has it anyway"
            draft.fault(message, "history", "columns", index)
    names = [str(history.get(option, option)) for option in TIMES]
    if names[0].lower() == names[1].lower():
        draft.fault(f"'valid_from' and 'valid_to' are both {names[0]!r}; choose two names", "history")


def _list_target_columns(draft: Draft) -> Iterator[tuple[str, tuple[PathStep, ...]]]:
    """Yield the target's columns that the file names, each with its place."""
    if draft.kind == "join":
        yield from ((name, ("select", name)) for name in draft.tree.mapping("select"))
        return
    if draft.kind == "history":
        yield from _list_history_columns(draft)
        return
    mirror = draft.tree.mapping("mirror")
    key = draft.key(draft.driving)
    at_key: tuple[PathStep, ...] = ("sources", draft.driving or "", "key")
    collects = mirror.get("conflict") == "collect"
    yield from _drop_repeated(list_names(mirror.get("value")), ("mirror", "value"))
    yield from [("keys", at_key)] if collects and len(key) > 1 else _drop_repeated(key, at_key)
    yield from () if collects else _drop_repeated(list_names(mirror.get("columns")), ("mirror", "columns"))


def _list_history_columns(draft: Draft) -> Iterator[tuple[str, tuple[PathStep, ...]]]:
    """Yield the key, the times and the named columns; what is no column of the target has been told already."""
    history, key = draft.tree.mapping("history"), draft.key(draft.driving)
    yield from _drop_repeated(key, ("sources", draft.driving or "", "key"))
    times = [(str(history.get(option, option)), option) for option in TIMES]
    if times[0][0].lower() != times[1][0].lower():
        yield from ((name, ("history", option)) for name, option in times)
    parts = {name.lower() for name in key}
    for name, path in _drop_repeated(list_names(history.get("columns")), ("history", "columns")):
        if name.lower() not in parts:
            yield name, path


def _drop_repeated(columns: tuple[str, ...], path: tuple[PathStep, ...]) -> Iterator[tuple[str, tuple[PathStep, ...]]]:
    """Yield each column once with its place; a list that names one twice is told so by `_check_list`."""
    seen: set[str] = set()
    for index, name in enumerate(columns):
        if name.lower() not in seen:
            yield name, (*path, index)
        seen.add(name.lower())


def _check_target_columns(draft: Draft) -> None:
    """Target columns have names that Delta takes, and no two differ only in upper and lower case."""
    seen: dict[str, str] = {}
    for name, path in _list_target_columns(draft):
        if bad := NOT_IN_NAME.search(name):
            draft.fault(f"the target column {name!r} must not contain {bad.group()!r}", *path)
        if user := RESERVED_COLUMNS.get(name.lower()):
            draft.fault(describe_reserved(name, user, draft.kind, _find_expression(draft, name)), *path)
        first = seen.get(name.lower())
        seen.setdefault(name.lower(), name)
        if first == name:
            keeps = (
                "choose another name for the time" if draft.kind == "history" else "a mirror keeps the master's names"
            )
            draft.fault(f"the target column {name!r} is twice in the {draft.kind}; {keeps}", *path)
        elif first is not None:
            draft.fault(f"the target columns {first!r} and {name!r} differ only in upper and lower case", *path)


def describe_reserved(name: str, user: str, kind: str, expression: str | None) -> str:
    """Return what is wrong with a target column that another one is called like, and the item that mends it.

    Args:
        name: The column.
        user: Whose column that is.
        kind: The job's kind.
        expression: What fills it; None for a column that only the job file names.
    """
    message = f"the target column {name!r} is a column of {user}"
    return f"{message}; choose another name" if expression is None else message + suggest_rename(kind, name, expression)


def suggest_rename(kind: str, name: str, expression: str) -> str:
    """Return how a column that no target can have gets another name."""
    item = suggest_item(name, expression)
    if kind == "join":
        return f"; give it another name: {item}"
    return f"; a {kind} keeps the names: let it read the target of a join job, which gives it another one: {item}"


def _find_expression(draft: Draft, name: str) -> str | None:
    """Return what fills a target column; None for the times of a history."""
    if draft.kind == "join":
        return str(draft.tree.mapping("select").get(name))
    history = draft.tree.mapping("history")
    is_time = draft.kind == "history" and name in [history.get(option, option) for option in TIMES]
    return None if is_time else name_path(draft.driving or "", name)


def _check_clustering(draft: Draft) -> None:
    """At most four columns, all of them the target's."""
    target = draft.tree.mapping("target")
    check_list(draft, target, "cluster_by", ("target",))
    columns = list_names(target.get("cluster_by"))
    if len(columns) > _MAX_CLUSTER_BY:
        message = f"'cluster_by' has {len(columns)} columns; Delta clusters by at most {_MAX_CLUSTER_BY}"
        draft.fault(message, "target", "cluster_by")
    known = [name for name, _ in _list_target_columns(draft)]
    collected: tuple[str, ...] = ()
    if draft.is_mirror and draft.tree.mapping("mirror").get("conflict") == "collect":
        collected = ("keys", *draft.key(draft.driving))
    is_open = draft.kind == "history" and "columns" not in draft.tree.mapping("history")
    for index, name in enumerate(columns):
        if name in collected:
            message = f"'cluster_by' names {name!r}, which is an array; cluster by the mirror's value"
            draft.fault(message, "target", "cluster_by", index)
        elif known and name not in known and not is_open:
            where = "selected" if draft.kind == "join" else f"a column of the {draft.kind}"
            message = f"'cluster_by' names {name!r}, which is not {where}{did_you_mean(name, known)}"
            draft.fault(message, "target", "cluster_by", index)
