"""Write a first job file for tables that exist, with everything that is guessed said in comments."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product, starmap
from pathlib import Path
from typing import NamedTuple

from enrich.answers import inspection
from enrich.base import hints
from enrich.base.errors import ConfigError, RunFailed
from enrich.base.names import CatalogName, identify
from enrich.base.schemas import WHOLE_NUMBERS, fields_of, incomparable, kind_of, strip_type
from enrich.base.spec import PREFIX, TEXT_TYPE, DataType, quote
from enrich.base.words import suggest
from enrich.delta import tables
from enrich.delta.tables import open_log, query_rows, quote_name
from enrich.init import format_schemas, write_files
from enrich.operations.loading import load_project
from enrich.project.checks import NOT_IN_NAME, RESERVED_COLUMNS
from enrich.project.kinds.join import spell_name
from enrich.project.kinds.syntax import list_names
from enrich.project.models import Settings
from enrich.project.project import MISNAMED, Project, find_project
from enrich.project.querynames import NO_TABLES
from enrich.project.settings import load_settings
from enrich.project.yamlfile import read_tree, resolve_scalar

SAMPLED_ROWS = 100_000
SAMPLED_VALUES = 10_000
_PLAIN = re.compile(r"(\./|/)?[A-Za-z_][\w./-]*")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class FirstJob:
    """What ``write_first_job`` did."""

    home: Path
    files: list[str]  # what was written, relative to it
    notes: list[str]  # what a person has to know or to do before the first run
    next: str  # what to run then


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
    places = {_locate(project, text): text for text in references}
    found, taken, declared = list[KnownTable](), set[str](), project.tables.mapping()
    names = {identify(project.location(project.resolve(name))): name for name in declared}
    for place, text in places.items():
        end = text if text in declared else names.get(identify(place)) or place.rstrip("/").rpartition("/")[2]
        is_name = end in declared or re.fullmatch(r"\w[\w-]*", end) is not None
        is_name = is_name and identify(project.location(project.resolve(end))) == identify(place)
        reference = end if is_name else place if "://" in place else _shorten(place, project.dir)
        table, told = read_table(_name_alias(end, taken), reference, place), project.tables.mapping(reference)
        key = list_names(told.get("key")) or table.key
        versions, basis = (table.versions, table.basis) if key == table.key else (None, "tables.yml says its key")
        found.append(replace(table, key=key, versions=versions, basis=basis, declared=tuple(told)))
    notes, commands, left = [table.note for table in found if table.note], list[str](), list[str]()
    if any(table.paths for table in found):  # first a row for each event: only a column of its own can be a key
        jobs = {f"{table.alias}_events": (table, list[Link]()) for table in found if table.paths}
        events = {table.uri: name for name, (table, _) in jobs.items()}
        commands = [hints.init_from(*(events.get(place, text) for place, text in places.items()))]
    else:
        # The driving table is the first from which the most others can be reached. A guess never decides anything by
        # itself: it is written into a job file, with what it rests on, for a person to read.
        guessed = [link for each in found for other in found if each is not other for link in _guess_links(each, other)]
        reached = [(each, _reach(each, guessed, taken)) for each in found]
        driving, links = max(reached, key=lambda each: len(each[1]))  # of several the first
        name = "_".join([driving.alias, *(["with", *(link.lookup.alias for link in links)] if links else ["checked"])])
        left = [table.alias for table in found if table.uri not in {driving.uri, *(link.lookup.uri for link in links)}]
        notes += [f"{each} is not in the job: no column of the other tables seems to refer to its key" for each in left]
        jobs = {name[:80]: (driving, links)}
    for name, (driving, links) in jobs.items():
        new = project.locate_own(name)
        if said := project.explain_read_only(new):
            message = f"the target of the new job {said}"
            raise ConfigError(message, hint=f"give 'lake' of conf/{target}.yml another place")
        if os.path.lexists(str(new)):
            message = f"the new job would be named {name}, and there is something at {new}"
            raise ConfigError(message, hint="move it away, or write the job file by hand")
        files[f"jobs/{name}.yml"] = format_job(name, driving, links, left)
    write_files(project.dir, files, "move it away, or write the job file by hand")
    makers, feedless = dict[str, str | None](), list[str]()  # a job's next run switches on the feed of its table
    try:  # what `enrich validate` says of the new job
        written = load_project(project.dir, project.deployment)
        makers = {place: written.makers.get(identify(place)) for place in places}
        others = [place for place, maker in makers.items() if maker is None and place.startswith("/")]
        feedless = [place for place in others if not tables.read_state(place).has_change_feed]
        faults = inspection.validate(written)
        notes += [str(fault) for fault in faults if (fault.where or "").partition(":")[0] in files]
    except ConfigError as error:
        notes += [str(fault) for fault in error.faults]
    runs = map(hints.run, [*sorted(filter(None, {*makers.values()})), *jobs])
    commands = [*map(_switch_on, feedless), hints.validate(), *runs, *commands]
    return FirstJob(project.dir, sorted(files), notes, "\n  ".join(["Next:", *commands]))


def _switch_on(place: str) -> str:
    """Return the command that switches on the change feed of a table in a directory, without Spark."""
    code = f"DeltaTable({json.dumps(place)}).alter.set_table_properties({json.dumps({tables.CHANGE_FEED: 'true'})})"
    return shlex.join(["python", "-c", f"from deltalake import DeltaTable; {code}"])


def _name_alias(text: str, taken: set[str]) -> str:
    """Return a text as an identifier that is not in ``taken``, and note it there."""
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")
    return _find_name(stem if re.match(r"[A-Za-z]", stem) and stem.lower() != "key" else f"table_{stem}", taken)


def _open_project(references: Sequence[str], directory: Path | None, target: str) -> tuple[Project, dict[str, str]]:
    """Return the project to write into, without its jobs, and the files that it needs if it is a new one."""
    try:
        home = find_project(directory, needs_jobs=False)
    except ConfigError:
        home = (directory or Path()).absolute()
        first = Path(os.path.abspath(references[0]))  # noqa: PTH100 - `..` goes, links stay
        if not first.is_dir():
            beside = {each.parent.name for each in first.parent.glob("*/_delta_log")}
            raise ConfigError(
                f"there is no project here, and {references[0]!r} is no directory of a Delta table on this machine",
                hint=suggest(
                    first.name, beside, f"`{hints.init('shop')}` writes a project; its conf/dev.yml has 'lake'"
                ),
            ) from None
        lake, given = format_text(_shorten(str(first.parent), home)), dict[str, object](lake=str(first.parent))
        if not (first.is_relative_to(home) or home.is_relative_to(first.parent)):  # somebody else's: it is only read
            lake, given = f"./lake\nsources: {{lake: {lake}}}", {"lake": "./lake", "sources": given}
        conf = f"# yaml-language-server: $schema=schema/conf.schema.json\nlake: {lake}\nspark:\n  master: local[*]\n"
        project = Project(home, target, Settings.model_validate(given), {}, {}, ())
        return project, {f"conf/{target}.yml": conf, **format_schemas()}
    files = {name: text for name, text in format_schemas().items() if not (home / name).exists()}
    name = next((f"conf/{target}{end}" for end in (".yml", ".yaml") if (home / f"conf/{target}{end}").is_file()), None)
    if name is None:
        raise ConfigError(f"there is no deployment {target!r} in {home / 'conf'}", hint="name one with --target")
    found, faults = load_settings(read_tree(home / name, name), home, os.environ)
    if found is None:
        raise ConfigError.of(faults)
    if (home / MISNAMED).exists():
        raise ConfigError(f"{home / MISNAMED} is not read", hint=f"rename it to {NO_TABLES.name}")
    there, told = home / NO_TABLES.name, NO_TABLES
    return Project(home, target, found, {}, {}, (), read_tree(there, told.name) if there.exists() else told), files


def _locate(project: Project, text: str) -> str:
    """Return the place of a table that the command line names: a directory, else what a job file would mean by it."""
    here = Path(os.path.abspath(text))  # noqa: PTH100 - `..` goes, links stay
    if (here / "_delta_log").is_dir():
        return str(here)
    reference = project.resolve(text)
    own = str(project.locate_own(reference))  # a target, perhaps: the jobs are not read here
    place = own if (Path(own) / "_delta_log").is_dir() else project.location(reference)
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
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    files = FileSystemLoader(Path(__file__).parent)
    templates = Environment(loader=files, undefined=StrictUndefined, autoescape=False, lstrip_blocks=True)  # noqa: S701 - YAML
    templates.trim_blocks = templates.keep_trailing_newline = True
    templates.filters |= {"text": format_text, "comment": _comment, "sql": spell_name}
    shown = [driving, *(link.lookup for link in links if not link.is_list)]
    unfit = [(table.alias, name, incomparable(kind)) for table in shown for name, kind in table.columns.items()]
    return templates.get_template("job.yml.jinja").render(
        name=name,
        driving=driving,
        sources=[driving, *(link.lookup for link in links)],
        links=links,
        left=left,
        columns=list(_list_columns(driving, links)),
        unfit=[each for each in unfit if each[-1]],
        is_query=not any(link.is_list or link.at for link in links),  # SQL has no words for lists and moments
        path=name_path,
        rows=SAMPLED_ROWS,
        values=SAMPLED_VALUES,
    )


def _comment(text: str) -> str:
    """Return a text that may hold names of columns as a comment of one line."""
    return text if text.isprintable() else ascii(text)[1:-1]


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


_KEY_TYPES = frozenset({"string", *WHOLE_NUMBERS, "date"})
_MOST_COLUMNS = 24  # columns that are tried as a key, the likeliest first
_MOST_IN_PAIRS = 6
_ENDINGS = ("id", "key", "code", "uuid", "number", "no", "nr")
_REFERS = re.compile(rf"_({'|'.join(_ENDINGS)})s?$", re.IGNORECASE)
_GENERIC = frozenset({"id", "key", "code", "uuid", "guid", "number", "pk"})
_SHAPES = read_tree(Path(__file__).parent / "shapes.yml", "shapes.yml").mapping()
_ABOUT_EVENT = re.compile("__|_fivetran_|_airbyte_|_ab_cdc_")  # how names begin of what a log adds to its rows
_LOG_WORDS = re.compile(r"([\W_]+(events?|log|cdc|changes|topic))+$", re.IGNORECASE)  # how names of logs end
_TIMES = ("date", "timestamp", "timestamp_ntz")
_LATER = re.compile("updat|modif|load|sync|delet")  # in names of times at which a row was written
_LEAST = {"ends like": 0.05, "holds values of": 0.5}  # the share of matches that it takes where the name is not enough


@dataclass(frozen=True)
class KnownTable:
    """A table as the guesses see it."""

    alias: str
    reference: str  # how the job file names it
    uri: str
    columns: Mapping[str, DataType]
    key: tuple[str, ...]
    basis: str  # what the guess rests on
    note: str = ""  # what a person has to know of it before the first run
    paths: Mapping[str, str] | None = None  # of events in an envelope: column -> expression
    orders: Sequence[str] = ()  # of a log of events: the columns that order them
    delete: str = ""  # of a log of events: when one takes its row away
    versions: KnownTable | None = None  # itself by what its rows are versions of, and the time from which they hold
    end: str = ""  # of versions: the time up to which they hold
    is_inclusive: bool = False  # whether they hold at that time, too
    gone: str = ""  # of versions: when one says that the thing does not exist, with {} for the alias
    declared: tuple[str, ...] = ()  # what tables.yml says of it
    holds: str = "true"  # when a row ``v`` holds at the moment ``q.t``, in SQL


@dataclass(frozen=True)
class Link:
    """A guessed join."""

    source: KnownTable  # the table that refers; one that is joined already, or the driving one
    column: str
    lookup: KnownTable
    basis: str
    share: float | None  # how many of the values that were looked up are keys, 0 to 1; None where there was none
    field: str = ""  # of a list of structs, the field that holds the key
    shares_key: bool = False  # whether the column is the key of its table, so that a table join fits
    is_list: bool = False
    at: str = ""  # of versions: the source's time at which one is meant
    cast: str = "{}"  # how that gets the type of theirs


def fold(name: str) -> str:
    """Return a name without case, blanks and underscores."""
    return re.sub(r"[\W_]", "", name).lower()


def find_singular(name: str) -> str:
    """Return the singular of a table's name, as far as English endings tell: ``categories`` -> ``category``."""
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if name.endswith(ending) and not name.endswith("ss") and len(name) > len(ending) + 1:
            return name.removesuffix(ending) + instead
    return name


def list_subjects(table: KnownTable) -> list[str]:
    """Return what the names of keys may call the rows of a table: ``customer_accounts`` -> customeraccount, account."""
    words = re.split(r"[\W_]+", (_LOG_WORDS.sub("", table.alias) if table.orders else table.alias).lower())
    found = [find_singular("".join(words)), "".join(words), find_singular(words[-1])]
    return list(dict.fromkeys(word for word in found if word))


def read_table(alias: str, reference: str, uri: str) -> KnownTable:
    """Read a table's columns and guess its key; a ConfigError where there is no table, or no column can be a key."""
    table = KnownTable(alias, reference, uri, tables.read_state(uri).columns, (), "")
    columns = table.columns
    place = [name for what in ("partition", "offset") for name in _find_named(columns, what)[:1]]
    path, fields = _find_envelope(alias, columns)
    if fields or (len(place) > 1 and "value" in map(fold, columns)):
        return _describe_topic(table, place, path, fields)
    orders, deletes = _list_orders(columns), _find_named(columns, "delete")
    if orders and deletes:
        about = {*orders, *deletes, *place}
        kept = {name: kind for name, kind in columns.items() if name not in about and not _ABOUT_EVENT.match(name)}
        delete = _SHAPES["delete"][fold(deletes[0])].format(spell_name(deletes[0]))
        log = replace(table, columns=kept, orders=orders, delete=delete)
        likely, own = _list_likely(log)
        again = (name for name in likely if not is_unique(uri, name))
        key = likely[0] if fold(likely[0]) in own else next(again, likely[0])
        basis = f"a log of events about {key}: the last one by {orders[0]} counts; what is about the event is left out"
        return replace(log, key=(key,), basis=basis)
    likely, own = _list_likely(table)
    begins, ends = _find_named(columns, "begin"), _find_named(columns, "end")
    times = [name for name, kind in columns.items() if kind in _TIMES]
    ids = [name for name in likely if name not in (*begins, *ends)]
    begins = [name for name in begins if name in times and (ends or not fold(name).startswith(("start", "begin")))]
    dated = [(name, begin) for begin in begins[:1] for name in ids if not is_unique(uri, name)]
    versions = next((each for each in dated if is_unique(uri, *each)), None)
    several = likely[:_MOST_IN_PAIRS]
    keys = [*((name,) for name in likely), *combinations(several, 2), *product(several, times)]
    if versions is not None:  # beside them, only what is named like an id of the table is its key
        keys = [*((name,) for name in ids if fold(name) in own), versions]
    table = _choose_key(table, keys)
    if versions is None and (len(table.key) == 1 or table.key[1] not in times):
        return table
    return replace(table, versions=_describe_versions(table, versions or table.key, ends))


def _find_named(columns: Iterable[str], what: str) -> list[str]:
    """Return the columns with names of some kind, the surest first."""
    return [name for each in _SHAPES[what] for name in columns if fold(name) == each]


def _list_orders(columns: Iterable[str]) -> list[str]:
    """Return the columns that order events: the surest one, and those that tell apart what is equal in it."""
    return [*dict.fromkeys([*_find_named(columns, "order")[:1], *_find_named(columns, "tie")])]


def _list_likely(table: KnownTable) -> tuple[list[str], set[str]]:
    """Return the columns that are tried as a key, the likeliest first, and names that the table's own key may have."""
    own = {subject + ending for subject in list_subjects(table) for ending in _ENDINGS}
    deletes = _find_named(table.columns, "delete")
    simple = [name for name, kind in table.columns.items() if kind_of(kind) in _KEY_TYPES and name not in deletes]
    simple.sort(key=lambda name: (fold(name) not in own, fold(name) not in _GENERIC, not fold(name).endswith(_ENDINGS)))
    if not simple:
        raise ConfigError(f"{table.uri} has no column that can be a key", hint="write the job file by hand")
    return simple[:_MOST_COLUMNS], {*own, *_GENERIC}


def _choose_key(table: KnownTable, keys: Sequence[tuple[str, ...]]) -> KnownTable:
    """Return a table with the first key that has no null and no value twice, or with the first one, and a warning."""
    rows = _count("SELECT count(*) AS seen, 0 AS found FROM this", this=table.uri).seen
    seen = f"all {rows:,} rows" if rows <= SAMPLED_ROWS else f"the first {SAMPLED_ROWS:,} of {rows:,} rows"
    seen = seen if rows else "the table, which is empty: guessed from the name alone"
    found = next((each for each in keys if is_unique(table.uri, *each)), None)
    key = tuple(sorted(found or keys[0], key=lambda name: table.columns[name] in _TIMES))  # a time is the last part
    basis = f"{' and '.join(key)} {'are together' if len(key) > 1 else 'is'} unique in {seen}"
    if found is None:
        basis = f"NO KEY WAS FOUND: {' and '.join(key)} is not unique in {seen}; correct it before you run"
    return replace(table, key=key, basis=basis)


def _find_envelope(path: str, fields: Mapping[str, DataType]) -> tuple[str, Mapping[str, DataType]]:
    """Return where the fields of Debezium's envelope are, in SQL, and their types; none where there are none."""
    if {"before", "after", "op"} <= set(fields):
        return path, fields
    inner = [(f"{path}.{name}", fields_of(fields[name])) for name in ("value", "payload") if name in fields]
    return next((each for each in starmap(_find_envelope, inner) if each[1]), ("", {}))


def _describe_topic(table: KnownTable, place: Sequence[str], path: str, fields: Mapping[str, DataType]) -> KnownTable:
    """Return a topic that is written out, by partition and offset; what is in an envelope becomes columns."""
    if not len(place) > 1:
        message = f"{table.uri} is a log in Debezium's envelope, and has no columns that tell its messages apart"
        ways = "write Kafka's partition and offset beside it, or let ExtractNewRecordState take the envelope away"
        raise ConfigError(message, hint=f"{ways}; docs/changelogs.md shows both")
    table = _choose_key(table, [tuple(place), (*_find_named(table.columns, "topic")[:1], *place)])
    if not (image := fields_of(fields.get("after", TEXT_TYPE))):
        note = f"{table.reference} has messages of a topic, and what is in their value has no columns: take it apart in"
        return replace(table, note=f"{note} the new job, for instance with from_json (docs/changelogs.md)")
    kinds = {name: table.columns[name] for name in table.key} | {"__op": fields["op"]}
    paths = {name: f"{table.alias}.{spell_name(name)}" for name in table.key} | {"__op": f"{path}.op"}
    source = {f"__source_{name}": (name, kind) for name, kind in fields_of(fields.get("source", TEXT_TYPE)).items()}
    known = [(own, *source[own], f"{path}.source") for own in _list_orders(source)]
    # A delete has only what was before.
    known += [(name, name, kind, f"coalesce({path}.after, {path}.before)") for name, kind in image.items()]
    for own, name, kind, of in known:
        column = own if own not in kinds else f"after_{own}"
        kinds[column], paths[column] = kind, f"{of}.{spell_name(name)}"
    note = f"{table.reference} is a log in Debezium's envelope: the new job makes columns of its messages. When it has"
    note += " run, the last of the next commands writes a job about what the log says now"
    return replace(table, columns=kinds, paths=paths, note=note)


def _describe_versions(table: KnownTable, key: tuple[str, ...], ends: Sequence[str]) -> KnownTable:
    """Return a table by the key of its versions: of what, and from when they hold."""
    thing, begin = key
    basis = f"{thing} and {begin} are together unique: versions of {thing}, each holds from {begin} on"
    end, is_inclusive, gone, holds = "", False, "", f"v.{quote_name(begin)} <= q.t"
    for end in [name for name in ends if table.columns[name] == table.columns[begin]][:1]:
        k, f, u = map(quote_name, (thing, begin, end))
        some = f"FROM this WHERE {k} IN (SELECT {k} FROM this LIMIT {SAMPLED_VALUES})"  # noqa: S608 - all rows of some
        follows = f"SELECT {u} AS u, lead({f}) OVER (PARTITION BY {k} ORDER BY {f}) AS n {some}"
        counts = "SELECT count(CASE WHEN n > u THEN 1 END) AS seen, count(CASE WHEN n = u THEN 1 END) AS found"
        apart, close = _count(f"{counts} FROM ({follows})", this=table.uri)
        is_inclusive = fold(end) in _SHAPES["inclusive"] or close == 0 < apart
        holds += f" AND (v.{u} IS NULL OR q.t {'<=' if is_inclusive else '<'} v.{u})"
        basis += f", up to {end}" + (", inclusive: none begins where another one ends" if is_inclusive else "")
    for column in _find_named(table.columns, "gone")[:1]:
        gone = _SHAPES["gone"][fold(column)].format(name_path("{}", column))
        holds += f" AND ({_SHAPES['gone'][fold(column)].format('v.' + quote_name(column))}) IS NOT TRUE"
    return replace(table, key=key, basis=basis, end=end, is_inclusive=is_inclusive, holds=holds, gone=gone)


def _reach(driving: KnownTable, links: Sequence[Link], names: Iterable[str]) -> list[Link]:
    """Return joins for each table that can be reached, the best first; table and list joins from ``driving`` alone.

    Where several columns refer to one table, it is joined for each, as an alias that is not among ``names``.
    """
    links = sorted(links, key=lambda link: ("has the name of" not in link.basis, -len(link.column)))
    pairs = {(link.source.uri, link.column, link.lookup.uri) for link in links}
    lookups = Counter(pair[:2] for pair in pairs)  # to how many tables a column may refer
    chosen, joined, taken = list[Link](), {driving.uri: driving}, set(names)
    while possible := [
        link
        for link in links
        if link.source.uri in joined
        and link.lookup.uri not in joined
        and (link.source is driving or not (link.shares_key or link.is_list))
    ]:
        best = max(possible, key=lambda link: (link.share or 0, -[*joined].index(link.source.uri)))
        same = [link for link in possible if link.share and lookups[link.source.uri, link.column] == 1]
        same = [link for link in same if (link.source, link.lookup) == (best.source, best.lookup) and link is not best]
        for link in (best, *same):
            alias = _name_alias(_REFERS.sub("", link.column), taken) if same else link.lookup.alias
            chosen.append(replace(link, source=joined[link.source.uri], lookup=replace(link.lookup, alias=alias)))
        joined[best.lookup.uri] = chosen[-len(same) - 1].lookup
    return chosen


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
            told = (
                f"{matches.found:,} of {matches.seen:,} different values {there}" if matches.seen else "it has no value"
            )
            name = f"{field} in {column}" if field else column
            basis = f"{name} {likeness} the key {key} of {lookup.alias}; {told}"
            timed = {"at": at, "cast": moments[at]} if at else {}
            yield Link(source, column, each, basis, share, field, shares_key=shared, is_list=is_list, **timed)


def _list_moments(source: KnownTable, lookup: KnownTable) -> dict[str, str]:
    """Return the times of a table at which versions may be meant, the likeliest first, and how they get their type."""
    day = lookup.columns[lookup.key[1]]
    times = [name for name, kind in source.columns.items() if kind == day or (day == "date" and kind in _TIMES)]
    # When a row was written says less than when something happened.
    times = sorted(times, key=lambda name: _LATER.search(fold(name)) is not None)
    cast = {name: "{}" if source.columns[name] == day else "CAST({} AS DATE)" for name in times}
    return {name: form for name, form in cast.items() if fold(name) not in (*_SHAPES["begin"], *_SHAPES["end"])}


def _list_alike(source: KnownTable, lookup: KnownTable) -> Iterator[tuple[str, str, str]]:
    """Yield columns, and fields of structs in lists, that look like the first part of a lookup's key, and how."""
    for column, whole in source.columns.items():
        is_list = kind_of(whole) == "array"
        element = whole["elementType"] if is_list and not isinstance(whole, str) else whole
        inner = fields_of(element) if is_list and kind_of(element) == "struct" else {"": element}
        for field, kind in inner.items():
            if strip_type(kind) != strip_type(lookup.columns[lookup.key[0]]):
                continue
            likeness = _compare_names(field or column, lookup, is_list=is_list and not field)
            if likeness is None and fold(field) in _GENERIC:  # `lines: [{id: ...}]` may say of what by the list's name
                likeness = _compare_names(column, lookup, is_list=True)
            if likeness is None and is_list and kind == TEXT_TYPE:
                likeness = "holds values of"
            if likeness is not None:
                yield column, field, likeness


def _compare_names(column: str, lookup: KnownTable, *, is_list: bool) -> str | None:
    """Return how the name of a column resembles that of a lookup's key; None where it does not."""
    name, key = fold(column), fold(lookup.key[0])
    if is_list:
        name = fold(find_singular(column.lower()))
    subjects = list_subjects(lookup)
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
    field: str = "",
    during: tuple[str, str] = ("0", "true"),
) -> Counted:
    """Count the different first values of a column, or in its lists, and those that are keys of a lookup, a place.

    ``during``: a moment of each row, in SQL, and when a row ``v`` of the lookup holds at it, ``q.t``.
    """
    name, (place, key), (moment, holds) = quote_name(column), lookup, during
    reference = f"unnest({name})" if is_list else name
    value = "r['" + field.replace("'", "''") + "']" if field else "r"
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
        lacks = re.search(r"Unsupported table features required: \[([\w, -]+)\]", str(error))
        why = f"delta-rs does not know {lacks[1]}" if lacks else type(error).__name__
        raise (ConfigError if lacks else RunFailed)(
            f"the rows of {' or '.join(places.values())} cannot be read without Spark ({why})",
            hint=f"write the job file by hand; `{hints.init('examples')}` writes some into a directory",
        ) from None
