"""Write a first job file for tables that exist, with everything that is guessed said in comments."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

from enrich.answers import inspection
from enrich.base import hints
from enrich.base.errors import ConfigError, RunFailed
from enrich.base.names import CatalogName
from enrich.base.schemas import fields_of, incomparable, kind_of, strip_type
from enrich.base.spec import PREFIX, TEXT_TYPE, DataType, quote
from enrich.delta import tables
from enrich.delta.tables import open_log, query_rows, quote_name
from enrich.init import format_schemas, write_files
from enrich.operations.loading import load_project
from enrich.project.checks import NOT_IN_NAME, RESERVED_COLUMNS
from enrich.project.kinds.joins import spell_name
from enrich.project.models import Settings
from enrich.project.project import Project, find_project
from enrich.project.settings import load_settings
from enrich.project.yamlfile import read_tree, resolve_scalar

SAMPLED_ROWS = 100_000
SAMPLED_VALUES = 10_000
_PLAIN = re.compile(r"(\./|/)?[A-Za-z_][\w./-]*")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CONF_SCHEMA = "# yaml-language-server: $schema=schema/conf.schema.json\n"
_HEAD = f"""\
# yaml-language-server: $schema=../conf/schema/job.schema.json
# A first job, written by `enrich init --from`. The keys and the joins are GUESSES: from the names and the types of the
# columns, from at most {SAMPLED_ROWS:,} rows of each table, and at most {SAMPLED_VALUES:,} values of each reference.
# Read them, correct them, and remove the comments.
"""


@dataclass(frozen=True)
class FirstJob:
    """What ``write_first_job`` did."""

    home: Path
    files: list[str]  # what was written, relative to it
    notes: list[str]  # what a person has to know or to do before the first run


def write_first_job(references: Sequence[str], directory: Path | None, target: str) -> FirstJob:
    """Write a job that joins these tables, into the project there is, or into a new one.

    Args:
        references: Paths of Delta tables, URIs, or names of tables in the project's lake.
        directory: The project directory; None: the nearest upwards from here, else here.
        target: The deployment.

    Raises:
        ConfigError: A table cannot be read without Spark, or a file is there already.
    """
    project, files = _open_project(references, directory, target)
    places = dict.fromkeys(_locate(project, text) for text in references)
    found: list[KnownTable] = []
    for place in places:
        end = place.rpartition("/")[2]
        is_bare = re.fullmatch(r"\w[\w-]*", end) is not None and project.location(end) == place
        reference = end if is_bare else place if "://" in place else _shorten(place, project.dir)
        # The end of its path, as an identifier that no other table has.
        stem = re.sub(r"[^A-Za-z0-9_]+", "_", place.rstrip("/").rpartition("/")[2]).strip("_")
        stem = stem if re.match(r"[A-Za-z]", stem) and stem.lower() != "key" else f"table_{stem}"
        taken = {table.alias.lower() for table in found}
        alias = next(each for each in (stem, *(f"{stem}_{n}" for n in range(2, 1000))) if each.lower() not in taken)
        found.append(read_table(alias, reference, place))
    # The driving table is the first from which the most others can be reached. A guess never decides anything by
    # itself: it is written into a job file, with what it rests on, for a person to read.
    guessed = [link for each in found for other in found if each is not other for link in _guess_links(each, other)]
    reached = {each.alias: _reach(each, guessed) for each in found}
    driving = max(found, key=lambda each: len(reached[each.alias]))  # of several the first
    links = reached[driving.alias]
    name = "_".join([driving.alias, *(["with", *(link.lookup.alias for link in links)] if links else ["checked"])])[:80]
    new = project.locate_own(name)
    if said := project.explain_read_only(new):
        raise ConfigError(f"the target of the new job {said}", hint=f"give 'lake' of conf/{target}.yml another place")
    if os.path.lexists(str(new)):
        message = f"the new job would be named {name}, and there is something at {new}"
        raise ConfigError(message, hint="move it away, or write the job file by hand")
    joined = [driving.alias, *(link.lookup.alias for link in links)]
    left = [table.alias for table in found if table.alias not in joined]
    files[f"jobs/{name}.yml"] = format_job(name, driving, links, left)
    write_files(project.dir, files, "move it away, or write the job file by hand")
    notes = [f"{alias} is not in the job: no column of the other tables seems to refer to its key" for alias in left]
    try:  # what `enrich validate` says of the new job
        faults = inspection.validate(load_project(project.dir, project.deployment))
        notes += [str(fault) for fault in faults if (fault.where or "").startswith(f"jobs/{name}.yml:")]
    except ConfigError as error:
        notes += [str(fault) for fault in error.faults]
    return FirstJob(project.dir, sorted(files), notes)


def _open_project(references: Sequence[str], directory: Path | None, target: str) -> tuple[Project, dict[str, str]]:
    """Return the project to write into, without its jobs, and the files that it needs if it is a new one."""
    try:
        home = find_project(directory)
    except ConfigError:
        home = (directory or Path()).absolute()
        first = Path(os.path.abspath(references[0]))  # noqa: PTH100 - `..` goes, links stay
        if not first.is_dir():
            raise ConfigError(
                f"there is no project here, and {references[0]!r} is no directory of a Delta table on this machine",
                hint=f"`{hints.init('shop')}` writes a project into a directory; set 'lake' in its conf/dev.yml",
            ) from None
        lake = _shorten(str(first.parent), home)
        conf = f"{_CONF_SCHEMA}lake: {format_text(lake)}\nspark:\n  master: local[*]\n"
        settings = Settings.model_validate({"lake": str(first.parent)})
        return Project(home, target, settings, {}, {}, ()), {f"conf/{target}.yml": conf, **format_schemas()}
    files = {name: text for name, text in format_schemas().items() if not (home / name).exists()}
    name = next((f"conf/{target}{end}" for end in (".yml", ".yaml") if (home / f"conf/{target}{end}").is_file()), None)
    if name is None:
        raise ConfigError(f"there is no deployment {target!r} in {home / 'conf'}", hint="name one with --target")
    found, faults = load_settings(read_tree(home / name, name), home, os.environ)
    if found is None:
        raise ConfigError.of(faults)
    return Project(home, target, found, {}, {}, ()), files


def _locate(project: Project, text: str) -> str:
    """Return the place of a table that the command line names: a directory, else what a job file would mean by it."""
    here = Path(os.path.abspath(text))  # noqa: PTH100 - `..` goes, links stay
    if (here / "_delta_log").is_dir():
        return str(here)
    own = str(project.locate_own(text))  # a target, perhaps: the jobs are not read here
    place = own if (Path(own) / "_delta_log").is_dir() else project.location(text)
    if isinstance(place, CatalogName):
        message = f"{text} is a table of a catalog, which can only be read with Spark"
        raise ConfigError(message, hint="name the table's directory, or write the job file by hand")
    return place


def _shorten(place: str, home: Path) -> str:
    """Return a local path relative to the project where it is inside it."""
    path = Path(place)
    return f"./{path.relative_to(home)}" if path.is_relative_to(home) and path != home else place


# --- the job file ----------------------------------------------------------------------------------------------------


def format_text(text: str) -> str:
    """Return a text as YAML writes it, in quotes where it would be read as something else."""
    is_plain = _PLAIN.fullmatch(text) and isinstance(resolve_scalar(text), str)
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def name_path(alias: str, column: str) -> str:
    """Return the expression of a source's column."""
    return f"{alias}.{column}" if _NAME.fullmatch(column) else f"{alias}.{quote(column)}"


def format_job(name: str, driving: KnownTable, links: Sequence[Link], left: Sequence[str]) -> str:
    """Return the text of the job file; ``left`` are the tables for which there is no join."""
    lines = [_HEAD + f"job: {format_text(name)}", "sources:"]
    for table in (driving, *(link.lookup for link in links)):
        key = format_text(table.key[0])
        if len(table.key) > 1:
            key = f"[{', '.join(map(format_text, table.key))}]"
        lines += [
            f"  # {_comment(table.basis)}",
            f"  {table.alias}: {{table: {format_text(table.reference)}, key: {key}{table.latest}}}",
        ]
    lines += [f"  # not joined, because no column seems to refer to its key: {alias}" for alias in left]
    for table in (driving, *(link.lookup for link in links if not link.is_list)):
        unfit = {column: incomparable(kind) for column, kind in table.columns.items()}
        lines += [
            f"# {_comment(column)} of {table.alias} is left out: a target cannot hold {', '.join(why)}"
            for column, why in unfit.items()
            if why
        ]
    if not any(link.is_list or link.moment for link in links):
        lines += ["query: |", *(f"  {line}" for line in _list_query(driving, links))]
    else:  # SQL has no words for lists and moments
        lines += [f"from: {driving.alias}", "join:"]
        for link in links:
            column = format_text(name_path(link.source.alias, link.column))
            join = "kind: table, how: left" if link.shares_key else f"kind: foreign_key, on: {column}, how: left"
            if link.is_list:
                field = "" if link.field is None else f", element_key: {format_text(link.field)}"
                join = f"kind: list, elements: {column}{field}"
            if link.moment is not None:
                join = f"kind: as_of, on: {column}, at: {format_text(link.moment)}, {link.lookup.validity}, how: left"
            lines += [f"  # {_comment(link.basis)}", f"  {link.lookup.alias}: {{{join}}}"]
        lines += ["select:"]
        for own, table, source in _list_columns(driving, links):
            path = table.alias if source is None else format_text(name_path(table.alias, source))
            lines += [f"  {format_text(own)}: {path}"]
    lines += [f"target: {{table: {format_text(name)}}}"]
    rules = [link for link in links if link.share]
    if rules:
        lines += ["rules:", "  # 5 percentage points below what was counted"]
    for link in rules:
        least = max(0, math.floor((link.share or 0) * 100) - 5) / 100
        lines += [
            f"  - {{rule: match_rate, join: {link.lookup.alias}, at_least: {least}, scope: target, action: warn}}"
        ]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    """Return a text that may hold names of columns as a comment of one line."""
    return text if text.isprintable() else ascii(text)[1:-1]


def _list_query(driving: KnownTable, links: Sequence[Link]) -> Iterator[str]:
    """Yield the lines of the query."""
    columns = []
    for name, table, column in _list_columns(driving, links):
        path = f"{table.alias}.{spell_name(str(column))}"
        columns.append(path if name == column else f"{path} AS {spell_name(name)}")
    yield from ("SELECT", *(f"  {each}," for each in columns[:-1]), f"  {columns[-1]}", f"FROM {driving.alias}")
    for link in links:
        key = f"{link.lookup.alias}.{spell_name(link.lookup.key[0])}"
        yield f"-- {_comment(link.basis)}"
        yield f"LEFT JOIN {link.lookup.alias} ON {link.source.alias}.{spell_name(link.column)} = {key}"


def _list_columns(driving: KnownTable, links: Sequence[Link]) -> Iterator[tuple[str, KnownTable, str | None]]:
    """Yield columns under names that a target may have, all but those that a list replaces; None stands for a list."""
    lists = {link.column for link in links if link.is_list}
    taken: set[str] = set()
    wanted = [(driving, column, column) for column in driving.columns if column not in lists]
    wanted += [
        (link.lookup, column, f"{link.lookup.alias}_{column}")
        for link in links
        if not link.is_list
        for column in link.lookup.columns
        if column not in link.lookup.key
    ]
    for table, column, name in wanted:
        if not incomparable(table.columns[column]):
            yield _find_name(name, taken), table, column
    for link in links:
        if link.is_list:
            yield _find_name(link.column, taken), link.lookup, None


def _find_name(name: str, taken: set[str]) -> str:
    """Return a name that a target column may have and no other one has, and note it in ``taken``."""
    plain = NOT_IN_NAME.sub("_", name)
    plain = f"x{plain}" if plain.lower() in RESERVED_COLUMNS or plain.lower().startswith(PREFIX) else plain
    found = next(each for each in (plain, *(f"{plain}_{n}" for n in range(2, 10_000))) if each.lower() not in taken)
    taken.add(found.lower())
    return found


_KEY_TYPES = frozenset({"string", "byte", "short", "integer", "long", "date"})
_MOST_COLUMNS = 24  # columns that are tried as a key, the likeliest first
_MOST_IN_PAIRS = 6
_ENDINGS = ("id", "key", "code", "uuid", "number", "no", "nr")
_GENERIC = frozenset({"id", "key", "code", "uuid", "guid", "number", "pk"})
# What Debezium, DMS, Fivetran and Airbyte call columns that order events, the surest first, and those that end a row.
_ORDERS = ("lsn", "sourcelsn", "abcdclsn", "sequence", "sourcetsms", "tsms", "fivetransynced", "abcdcupdatedat")
_GONE = {
    "op": "{} IN ('d', 'D')",
    "deleted": "{} = 'true'",
    "fivetrandeleted": "{}",
    "abcdcdeletedat": "{} IS NOT NULL",
}
# What validity tables, snapshots of dbt, Fivetran and SAP call the times from which, and up to which, a row holds.
_BEGINS = ("validfrom", "dbtvalidfrom", "fivetranstart", "effectivefrom", "datab", "startdate", "begindate")
_ENDS = ("validto", "dbtvalidto", "fivetranend", "effectiveto", "datbi", "enddate")
_INCLUSIVE = ("fivetranend", "datbi")  # where a row still holds at its end, whatever the others say
_TIMES = ("date", "timestamp", "timestamp_ntz")
_LATER = re.compile("updat|modif|load|sync|delet")  # in names of times at which a row was written
_LEAST = {"ends like": 0.05, "holds values of": 0.5}
"""The share of matches that a column needs whose name alone does not say what it refers to."""


@dataclass(frozen=True)
class KnownTable:
    """A table as the guesses see it."""

    alias: str
    reference: str  # how the job file names it
    uri: str
    columns: Mapping[str, DataType]
    key: tuple[str, ...]
    basis: str  # what the guess rests on
    latest: str = ""  # of a log of events: what the file says of their order
    versions: KnownTable | None = None  # itself by what its rows are versions of, and the time from which they hold
    validity: str = ""  # of versions: what the file says of these times
    holds: str = "true"  # when a row ``v`` holds at the moment ``q.t``, in SQL


@dataclass(frozen=True)
class Link:
    """A guessed join."""

    source: KnownTable  # the table that refers; one that is joined already, or the driving one
    column: str
    lookup: KnownTable
    basis: str
    share: float | None  # how many of the values that were looked up are keys, 0 to 1; None where there was none
    field: str | None = None  # of a list of structs, the field that holds the key
    shares_key: bool = False  # whether the column is the key of its table, so that a table join fits
    is_list: bool = False
    moment: str | None = None  # of versions: when the one that is meant holds, as an expression


def fold(name: str) -> str:
    """Return a name without case, blanks and underscores."""
    return re.sub(r"[\W_]", "", name).lower()


def find_singular(name: str) -> str:
    """Return the singular of a table's name, as far as English endings tell: ``categories`` -> ``category``."""
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if name.endswith(ending) and not name.endswith("ss") and len(name) > len(ending) + 1:
            return name.removesuffix(ending) + instead
    return name


def list_subjects(alias: str) -> list[str]:
    """Return what the names of keys may call the rows of a table: ``customer_accounts`` -> customeraccount, account."""
    words = re.split(r"[\W_]+", alias.lower())
    found = [find_singular("".join(words)), "".join(words), find_singular(words[-1])]
    return list(dict.fromkeys(word for word in found if word))


def read_table(alias: str, reference: str, uri: str) -> KnownTable:
    """Read a table's columns and guess its key.

    Raises:
        ConfigError: There is no table, or no column can be a key.
    """
    columns = tables.read_state(uri).columns
    simple = [name for name, kind in columns.items() if isinstance(kind, str) and kind in _KEY_TYPES]
    own = {subject + ending for subject in list_subjects(alias) for ending in _ENDINGS}
    # A column whose name is that of the table's key first, then any that sounds like a key.
    likely = sorted(
        simple, key=lambda name: (fold(name) not in own, fold(name) not in _GENERIC, not fold(name).endswith(_ENDINGS))
    )
    if not likely:
        raise ConfigError(f"{uri} has no column that can be a key", hint="write the job file by hand")
    rows = _count("SELECT count(*) AS seen, 0 AS found FROM this", this=uri).seen
    orders, gone, begins, ends = (
        [n for each in names for n in columns if fold(n) == each] for names in (_ORDERS, _GONE, _BEGINS, _ENDS)
    )
    seen = f"all {rows:,} rows" if rows <= SAMPLED_ROWS else f"the first {SAMPLED_ROWS:,} of {rows:,} rows"
    seen = seen if rows else "the table, which is empty: guessed from the name alone"
    known = partial(KnownTable, alias, reference, uri, columns)
    if orders and gone:
        named = [name for name in likely[:_MOST_COLUMNS] if name not in (*orders, *gone)] or likely
        again = (name for name in named if not is_unique(uri, name))
        about, end = next(again, named[0]), _GONE[fold(gone[0])].format(spell_name(gone[0]))
        latest = f", latest: {{order: [{format_text(orders[0])}], delete: {json.dumps(end)}}}"
        basis = (
            f"a log of events about {about}, by the names of {orders[0]} and {gone[0]}: the last event of each counts"
        )
        return known((about,), basis, latest)
    times = [name for name, kind in columns.items() if kind in _TIMES]
    ids = [name for name in likely[:_MOST_COLUMNS] if name not in (*begins, *ends)]
    begins = [name for name in begins if name in times and (ends or not fold(name).startswith(("start", "begin")))]
    dated = [(name, begin) for begin in begins[:1] for name in ids if not is_unique(uri, name)]
    versions = next((each for each in dated if is_unique(uri, *each)), None)
    several = likely[:_MOST_IN_PAIRS]
    keys = [*((name,) for name in likely[:_MOST_COLUMNS]), *combinations(several, 2), *product(several, times)]
    if versions is not None:  # beside them, only what is named like an id of the table is its key
        keys = [*((name,) for name in ids if fold(name) in {*own, *_GENERIC}), versions]
    found = next((each for each in keys if is_unique(uri, *each)), None)
    if found is None:
        return known((likely[0],), f"NO KEY WAS FOUND: {likely[0]} is not unique in {seen}; correct it before you run")
    key = tuple(sorted(found, key=lambda name: name in times))  # a time is the last part
    table = known(key, f"{' and '.join(key)} {'are together' if len(key) > 1 else 'is'} unique in {seen}")
    if versions is None and (len(key) == 1 or key[1] not in times):
        return table
    return replace(table, versions=_describe_versions(table, versions or key, ends))


def _describe_versions(table: KnownTable, key: tuple[str, ...], ends: Sequence[str]) -> KnownTable:
    """Return a table by the key of its versions: of what, and from when they hold."""
    thing, begin = key
    basis = f"{thing} and {begin} are together unique: versions of {thing}, each holds from {begin} on"
    validity, holds = f"valid_from: {format_text(begin)}", f"v.{quote_name(begin)} <= q.t"
    for end in [name for name in ends if table.columns[name] == table.columns[begin]][:1]:
        k, f, u = map(quote_name, (thing, begin, end))
        some = f"FROM this WHERE {k} IN (SELECT {k} FROM this LIMIT {SAMPLED_VALUES})"  # noqa: S608 - all rows of some
        follows = f"SELECT {u} AS u, lead({f}) OVER (PARTITION BY {k} ORDER BY {f}) AS n {some}"
        counts = "SELECT count(CASE WHEN n > u THEN 1 END) AS seen, count(CASE WHEN n = u THEN 1 END) AS found"
        apart, close = _count(f"{counts} FROM ({follows})", this=table.uri)
        is_inclusive = fold(end) in _INCLUSIVE or close == 0 < apart
        told = f"{{column: {format_text(end)}, inclusive: true}}" if is_inclusive else format_text(end)
        validity += f", valid_to: {told}"
        holds += f" AND (v.{u} IS NULL OR q.t {'<=' if is_inclusive else '<'} v.{u})"
        basis += f", up to {end}" + (", inclusive: none begins where another one ends" if is_inclusive else "")
    return replace(table, key=key, basis=basis, validity=validity, holds=holds)


def _reach(driving: KnownTable, links: Sequence[Link]) -> list[Link]:
    """Return a join for each table that can be reached, the best first; table and list joins from ``driving`` alone."""
    chosen: list[Link] = []
    while True:
        known = [driving.alias, *(link.lookup.alias for link in chosen)]
        possible = [
            link
            for link in links
            if link.source.alias in known
            and link.lookup.alias not in known
            and (link.source is driving or not (link.shares_key or link.is_list))
        ]
        if not possible:
            return chosen
        chosen.append(max(possible, key=lambda link: (link.share or 0, -known.index(link.source.alias))))


def _guess_links(source: KnownTable, lookup: KnownTable) -> Iterator[Link]:
    """Yield how one table may refer to another, by names and types; then by matches."""
    plain = [(lookup, {"": "0"})] if len(lookup.key) == 1 else []
    dated = [(each, _list_moments(source, each)) for each in (lookup.versions,) if each is not None]
    for each, moments in (*plain, *dated):
        for column, field, likeness in _list_alike(source, each) if moments else ():
            (key, *begin), is_list = each.key, kind_of(source.columns[column]) == "array"
            shared = (column,) == source.key and fold(column) == fold(key) and not is_list
            if begin and (is_list or (column,) == source.key):
                continue  # a thing itself has no moment
            look = partial(measure_matches, source.uri, column, (each.uri, key), is_list=is_list, field=field)
            found = {at: look(during=(form.format(quote_name(at)), each.holds)) for at, form in moments.items()}
            at, matches = max(found.items(), key=lambda each: each[1].found)
            share = matches.found / matches.seen if matches.seen else None
            if (share or 0) < _LEAST.get(likeness, 0):
                continue
            there = f"have a version in {lookup.alias} at {at}" if begin else f"are in {lookup.alias}"
            counted = f"{matches.found:,} of {matches.seen:,} different values {there}"
            name = column if field is None else f"{field} in {column}"
            basis = f"{name} {likeness} the key {key} of {lookup.alias}; "
            basis += counted if matches.seen else "it has no value"
            moment = moments[at].format(name_path(source.alias, at)) if begin else None
            yield Link(source, column, each, basis, share, field, shares_key=shared, is_list=is_list, moment=moment)


def _list_moments(source: KnownTable, lookup: KnownTable) -> dict[str, str]:
    """Return the times of a table at which versions may be meant, the likeliest first, and how they get their type."""
    day = lookup.columns[lookup.key[1]]
    times = [name for name, kind in source.columns.items() if kind == day or (day == "date" and kind in _TIMES)]
    # When a row was written says less than when something happened.
    times = sorted(times, key=lambda name: _LATER.search(fold(name)) is not None)
    cast = {name: "{}" if source.columns[name] == day else "CAST({} AS DATE)" for name in times}
    return {name: form for name, form in cast.items() if fold(name) not in (*_BEGINS, *_ENDS)}


def _list_alike(source: KnownTable, lookup: KnownTable) -> Iterator[tuple[str, str | None, str]]:
    """Yield columns, and fields of structs in lists, that look like the first part of a lookup's key, and how."""
    for column, field, kind in _list_references(source):
        is_list = kind_of(source.columns[column]) == "array"
        if strip_type(kind) != strip_type(lookup.columns[lookup.key[0]]):
            continue
        likeness = _compare_names(field or column, lookup, is_list=is_list and field is None)
        if likeness is None and field is not None:  # `lines: [{id: ...}]` may say of what they are by the list's name
            likeness = _compare_names(column, lookup, is_list=True) if fold(field) in _GENERIC else None
        if likeness is None and is_list and kind == TEXT_TYPE:
            likeness = "holds values of"
        if likeness is not None:
            yield column, field, likeness


def _list_references(source: KnownTable) -> Iterator[tuple[str, str | None, DataType]]:
    """Yield what may hold a key: columns, elements of lists, and fields of structs in lists, with their types."""
    for column, kind in source.columns.items():
        if isinstance(kind, str) or kind_of(kind) != "array":
            yield column, None, kind
            continue
        element: DataType = kind["elementType"]
        if isinstance(element, str):
            yield column, None, element
        elif kind_of(element) == "struct":
            yield from ((column, name, each) for name, each in fields_of(element).items())


def _compare_names(column: str, lookup: KnownTable, *, is_list: bool) -> str | None:
    """Return how the name of a column resembles that of a lookup's key; None where it does not."""
    name, key = fold(column), fold(lookup.key[0])
    if is_list:
        name = fold(find_singular(column.lower()))
    subjects = list_subjects(lookup.alias)
    names = {subject + ending for subject in subjects for ending in _ENDINGS} | {s + key for s in subjects}
    names |= set(subjects) | ({key} if key not in _GENERIC else set())
    if name in names:
        return "has the name of"
    return "ends like" if any(name.endswith(each) for each in names if len(each) > 2) else None


# --- What the first rows of tables say of keys and references; no value is told ---------------------------------------


class Counted(NamedTuple):
    """How many rows or values were looked at, and how many of them are different, or have a partner."""

    seen: int
    found: int


def is_unique(uri: str, *columns: str) -> bool:
    """Return whether no two of the first rows have one value in the columns together, and none has a null."""
    names = [quote_name(column) for column in columns]
    listed, filled = ", ".join(names), " AND ".join(f"{name} IS NOT NULL" for name in names)
    value = names[0] if len(names) == 1 else f"struct({listed})"
    counted = _count(
        f"SELECT count(*) AS seen, count(DISTINCT CASE WHEN {filled} THEN {value} END) AS found"  # noqa: S608
        f" FROM (SELECT {listed} FROM this LIMIT {SAMPLED_ROWS})",
        this=uri,
    )
    return counted.seen == counted.found


def measure_matches(
    uri: str,
    column: str,
    lookup: tuple[str, str],
    *,
    is_list: bool = False,
    field: str | None = None,
    during: tuple[str, str] = ("0", "true"),
) -> Counted:
    """Count the different first values of a column, or in its lists, and those that are keys of a lookup, a place.

    ``during``: a moment of each row, in SQL, and when a row ``v`` of the lookup holds at it, ``q.t``.
    """
    name, (place, key), (moment, holds) = quote_name(column), lookup, during
    reference = f"unnest({name})" if is_list else name
    value = "r" if field is None else "r['" + field.replace("'", "''") + "']"
    statement = (
        "SELECT count(DISTINCT q.m) AS seen,"  # noqa: S608
        f" count(DISTINCT CASE WHEN v.{quote_name(key)} IS NOT NULL THEN q.m END) AS found"
        f" FROM (SELECT DISTINCT r, t, struct(r, t) AS m FROM (SELECT {value} AS r, t FROM"
        f" (SELECT {reference} AS r, {moment} AS t FROM a LIMIT {SAMPLED_ROWS}))"
        f" WHERE r IS NOT NULL AND t IS NOT NULL LIMIT {SAMPLED_VALUES}) AS q"
        f" LEFT JOIN b AS v ON q.r = v.{quote_name(key)} AND {holds}"
    )
    return _count(statement, a=uri, b=place)


def _count(statement: str, **places: str) -> Counted:
    """Return what a statement counts in tables, by the names that it has for them."""
    logs = {name: open_log(uri) for name, uri in places.items()}
    try:
        return Counted(**query_rows(statement, **logs)[0])
    except Exception as error:  # noqa: BLE001 - whatever delta-rs raises
        raise RunFailed(
            f"the rows of {next(iter(places.values()))} cannot be read without Spark ({type(error).__name__})",
            hint=f"write the job file by hand; `{hints.init('examples')}` writes some into a directory",
        ) from None
