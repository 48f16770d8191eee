"""Read the settings of one deployment, ``conf/<deployment>.yml`` with the environment's variables, and resolve

Before: ``accounts`` | ``main.crm.accounts`` | ``./extra/accounts`` | ``s3a://bucket/accounts``
After:  ``/project/lake/accounts`` | ``CatalogName(("main", "crm", "accounts"))`` | ``/project/extra/accounts`` | as is

Messages name variables and never what they hold.

A result must not depend on who runs a job, so of Spark's settings the session of a job takes those that say where
things are and how fast, from the user's session and from ``conf/``. Those that say what rows mean have Spark's own
default there, whatever the session, ``spark-defaults.conf`` or ``conf/*.yml`` say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from enrich.base.errors import ConfigError, Fault, show_text
from enrich.base.names import SCHEME, CatalogName, Location
from enrich.base.stores import PREFIX, SECRET
from enrich.project.models import Settings
from enrich.project.shape import CONF, build_model
from enrich.project.yamlfile import PathStep, Tree

_VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|(\$\{)")
_ONE_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-)?\}")
SCHEMES = ("abfs", "abfss", "file", "gs", "hdfs", "s3a")
"""Schemes that a plain Spark (Hadoop's connectors) and delta-rs 1.6 both know.

Tried with deltalake 1.6.6: it also takes ``s3``, ``az``, ``adl`` and ``viewfs``, for which Hadoop has no connector by
that name or delta-rs no complete one; it takes neither ``s3n`` nor ``wasb``.
"""

_SPELLING = {"s3": "s3a", "s3n": "s3a", "gcs": "gs", "az": "abfss", "azure": "abfss", "adl": "abfss", "wasbs": "abfss"}
_NAME = re.compile(r"\w[\w-]*")
_TIME_TRAVEL = re.compile(r"@(?:v\d+|\d{17})/?$")
_LONGEST = 255  # bytes that a file system gives to a name
_FORBIDDEN = re.compile(r"[*?\[\]{}#%\\|^\x00-\x1f\x7f]")
_UNREADABLE = re.compile(r"[\[\]|^\\\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}")
"""What delta-rs 1.6 cannot open below a directory of that name; other letters do no harm there."""

FORCED = {
    # Another zone costs Delta a state reconstruction a commit, and shifts timestamps without a zone. Spark's default is
    # the zone of the machine.
    "spark.sql.session.timeZone": "UTC",
    # Delta would refuse a version that was committed more than a week ago as soon as a later one exists, although all
    # of its files are there. Where they are not, the read fails.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # What Spark derives from a plan's conditions doubles with every join and every renamed column: a job with three
    # sources planned until its memory was full.
    "spark.sql.constraintPropagation.enabled": "false",
    # The environment variable SPARK_ANSI_SQL_MODE changes the default.
    "spark.sql.ansi.enabled": "true",
    # Spark would compute what stands twice behind an `and` or `or` before it looks at what stands in front of it, in
    # plans that it compiles: `n > 0 and total / n > 1 and total / n < 9` failed for every row with n = 0.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    # Spark would put environment variables into an expression's text, inside string literals too.
    "spark.sql.variable.substitute": "false",
    # Spark's default is INT96, with nanoseconds: other readers of a target see year 1 as 1754, and skip no row groups.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark would hand literals to Parquet as `java.sql.Date`, whose calendar has no 1582-10-05 to 14: row groups with
    # the keys that a run looks for would be skipped.
    "spark.sql.datetime.java8API.enabled": "true",
    # Up to so many keys are looked for one by one in the index of a file's pages, instead of the least to the greatest.
    "spark.sql.parquet.pushdown.inFilterThreshold": "2000",
}
"""Settings of every job's session that are not Spark's default."""

_FAMILIES = ("spark.sql.", "spark.databricks.delta.")
"""All settings that Spark's SQL and Delta register. The others are of storage, credentials, resources or a platform."""

# Settings of these families that a job's session takes from the user's; those with a dot at the end with all below.
_PLACES = """
    spark.sql.catalog. spark.sql.catalogImplementation spark.sql.defaultCatalog spark.sql.hive.
    spark.sql.warehouse.dir spark.databricks.delta.coordinatedCommits."""
_CONTEXT = """
    spark.sql.artifact. spark.sql.cache.serializer spark.sql.extensions spark.sql.queryExecutionListeners
    spark.sql.redaction. spark.sql.ui."""
_TASKS = """
    spark.sql.adaptive. spark.sql.files.maxPartitionBytes spark.sql.files.maxPartitionNum
    spark.sql.files.maxRecordsPerFile spark.sql.files.minPartitionNum spark.sql.files.openCostInBytes
    spark.sql.leafNodeDefaultParallelism spark.sql.maxSinglePartitionBytes spark.sql.shuffle.partitions
    spark.sql.sources.parallelPartitionDiscovery. spark.databricks.delta.optimizeWrite.
    spark.databricks.delta.merge.repartitionBeforeWrite.enabled spark.databricks.delta.snapshotPartitions"""
_JOINS_AND_SORTS = """
    spark.sql.autoBroadcastJoinThreshold spark.sql.broadcastTimeout spark.sql.inMemoryColumnarStorage.
    spark.sql.join.preferSortMergeJoin spark.sql.maxBroadcastTableSize spark.sql.optimizer.dynamicPartitionPruning.
    spark.sql.optimizer.runtime. spark.sql.optimizer.runtimeFilter. spark.sql.sortMergeJoinExec.buffer.
    spark.sql.windowExec.buffer."""
_CODE_AND_FILES = """
    spark.sql.codegen. spark.sql.parquet.columnarReaderBatchSize spark.sql.parquet.compression.codec
    spark.sql.parquet.enableNestedColumnVectorizedReader spark.sql.parquet.enableVectorizedReader
    spark.databricks.delta.checkpoint.partSize spark.databricks.delta.delta.log.
    spark.databricks.delta.snapshotCache.storageLevel"""
_NAMES = frozenset((_PLACES + _CONTEXT + _TASKS + _JOINS_AND_SORTS + _CODE_AND_FILES).split())
_BELOW = tuple(name for name in _NAMES if name.endswith("."))


_SHORT = 3  # characters of what a variable holds that may stand in a message by chance


def load_settings(tree: Tree, base: Path, environment: Mapping[str, str]) -> tuple[Settings | None, list[Fault]]:
    """Return a conf file's settings, or None, with all its faults; ``base`` is the project directory.

    ``${NAME}`` must be in the environment; ``${NAME:-default}`` takes the default when the variable is unset or empty,
    as a shell does; ``$${`` is a plain ``${``.
    """
    written, faults, taken = tree, list[Fault](), dict[str, str]()

    def walk(value: Any, path: tuple[PathStep, ...]) -> Any:
        if isinstance(value, dict):
            return {key: walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, (*path, index)) for index, item in enumerate(value)]
        return _VARIABLE.sub(lambda match: take(match, path), value) if isinstance(value, str) else value

    def take(match: re.Match[str], path: tuple[PathStep, ...]) -> str:
        escaped, name, default, broken = match.groups()
        if escaped:
            return "${"
        if broken or "${" in (default or ""):
            message = "a variable is written ${NAME} or ${NAME:-default}, without another in it; write '$${' for '${'"
        elif (found := environment.get(name)) is not None or default is not None:
            taken[found or ""] = match.group()
            return found or default or ""
        else:
            message = f"the environment variable {name} is not set; set it or write ${{{name}:-default}}"
        faults.append(Fault(message, written.at(*path)))
        return match.group()

    tree = replace(written, value=walk(written.value, ()))
    settings, shape = build_model(Settings, tree, CONF)
    held = "|".join(re.escape(each) for each in taken if len(each) > _SHORT)
    hidden = re.compile(rf"(?<!\w)(?:{held or '(?!)'})(?!\w)")
    shape = [replace(each, message=hidden.sub(lambda found: taken[found[0]], each.message)) for each in shape]
    faults += [*_check_spark(written, settings), *shape]
    if isinstance(tree.value, dict):
        faults += _check_places(tree, base)
    if faults or settings is None:
        return None, faults
    if settings.spark.jars is not None:  # below the project directory, wherever the process runs
        jars = str(base / settings.spark.jars)
        settings = settings.model_copy(update={"spark": settings.spark.model_copy(update={"jars": jars})})
    return settings, faults


def _check_places(tree: Tree, base: Path) -> list[Fault]:
    """Check that exactly one of lake and catalog is given, and that each place is one."""
    value, faults = tree.mapping(), []
    if "lake" in value and "catalog" in value:
        faults.append(Fault("give either 'lake' or 'catalog', not both", tree.at("catalog")))
    elif "lake" not in value and "catalog" not in value:
        faults.append(Fault("give 'lake' (a directory) or 'catalog' (a schema) for bare table names", tree.at()))
    elif "catalog" in value and "state" not in value:
        faults.append(Fault("'catalog' also needs 'state': a directory or an object-store URI", tree.at("catalog")))
    paths: list[tuple[str, ...]] = [("lake",), ("catalog",), ("state",), ("sources", "lake"), ("sources", "catalog")]
    for path in paths:
        text = tree.mapping(*path[:-1]).get(path[-1])
        if isinstance(text, str) and text.strip() and "${" not in text:
            try:
                parse_catalog_schema(text) if path[-1] == "catalog" else resolve_directory(text, base)
            except ConfigError as error:
                faults.append(Fault(f"'{'.'.join(path)}': {error.message}", tree.at(*path)))
    return faults


def is_inherited(name: str) -> bool:
    """Tell whether a job's session takes a setting from the session, the context and the configuration."""
    return not name.startswith(_FAMILIES) or name in _NAMES or name.startswith(_BELOW)


def _check_spark(written: Tree, settings: Settings | None) -> list[Fault]:
    """Refuse credentials of object stores that stand in a file, and what the sessions of jobs cannot have.

    ``written`` is the file before variables are put in, for these may hold a credential; ``settings`` what it says with
    them, None where it has faults.
    """
    spark = written.mapping("spark").get("conf")
    faults = []
    for name, value in (spark if isinstance(spark, dict) else {}).items():
        if SECRET.fullmatch(name) and not _ONE_VARIABLE.fullmatch(str(value)):
            message = f"{name!r} must not stand in a file: write ${{NAME}} for an environment variable"
            if name.startswith(PREFIX):
                message += ", or leave it out, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            faults.append(Fault(message, written.at("spark", "conf", name)))
    for name, value in settings.spark.conf.items() if settings is not None else ():
        if not is_inherited(name) and FORCED.get(name) != value:
            said = f"is always {FORCED[name]!r} for jobs" if name in FORCED else "does not reach jobs"
            message = f"{name!r} {said}, so that rows do not depend on who runs them; leave it out"
            faults.append(Fault(message, written.at("spark", "conf", name)))
    return faults


def resolve_directory(text: str, base: Path) -> str:
    """Return the absolute path or URI of a directory that a file of ``conf/`` names (``lake``, ``state``).

    Paths are relative to ``base``, the project directory. A ConfigError does not repeat a text that is neither.
    """
    if not text.strip():
        raise ConfigError("it is empty; give a directory, such as ./lake")
    if text.startswith("~"):
        raise ConfigError("'~' is not expanded; write ${HOME} instead")
    if SCHEME.match(text):
        return _normalise_uri(text)
    if ":" in text.split("/", 1)[0]:
        raise ConfigError("it is neither a path nor a URI; a path is written ./x or /x, a URI scheme://bucket/x")
    _check_characters(text)
    return _require_readable(os.path.normpath(base / text))


def parse_catalog_schema(text: str) -> tuple[str, ...]:
    """Return the parts of the schema that ``catalog`` names, one or two; else raise ConfigError."""
    parts = tuple(text.split("."))
    if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise ConfigError("it must be a schema of a catalog, written catalog.schema or schema")
    return parts


def locate(reference: str, base: Path, lake: str | None, schema: tuple[str, ...] | None) -> Location:
    """Return where the table of a reference is: a bare name, a catalog name, or a path or URI; else raise ConfigError.

    Bare names stand below the ``lake``, or in the catalog's ``schema``; paths are relative to ``base``, the project
    directory. No reference holds ``..``.
    """
    named = f"table reference {reference!r}"
    if ".." in re.split(r"[/\\]", reference):
        raise ConfigError(f"{named} must not contain '..'; give the path from the root or the project")
    if match := SCHEME.match(reference):
        return _normalise_uri(reference, f"scheme {match.group(1)!r}")
    if reference.startswith(("/", "./")):
        _check_characters(reference)
        return _require_readable(_refuse_root(os.path.normpath(base / reference)))
    if "/" in reference:
        raise ConfigError(f"{named} is not a name; write ./{show_text(reference)} for a path")
    parts = tuple(reference.split("."))
    if not all(_NAME.fullmatch(part) for part in parts):
        if "${" in reference:
            raise ConfigError(f"{named}: variables are read in conf files only")
        names = "letters, digits, '_', '-', catalog names with dots"
        raise ConfigError(f"{named} is not a table name ({names}); a path is written ./x, /x or scheme://bucket/x")
    if len(parts) > 3:
        raise ConfigError(f"{named} has {len(parts)} parts; catalog.schema.table is the longest")
    check_lengths(parts)
    if len(parts) > 1 or schema is not None:
        return CatalogName(parts if len(parts) > 1 else (*(schema or ()), reference))
    return f"{(lake or str(base)).rstrip('/')}/{reference}"


def _normalise_uri(text: str, shown: str | None = None) -> str:
    """Return a URI in one spelling: scheme in lower case, no slash at the end, ``file:`` as a path.

    Messages hold no part of the URI but ``shown``: it may come from a variable or hold a password.
    """
    match = SCHEME.match(text)
    scheme = match.group(1).lower() if match else ""
    if scheme not in SCHEMES:
        known = ", ".join(SCHEMES)
        hint = f"; write {_SPELLING[scheme]}://" if scheme in _SPELLING else ""
        raise ConfigError(f"{shown or 'its scheme'} is not one that Spark and delta-rs both know ({known}){hint}")
    rest = text[len(scheme) + 1 :]
    _check_characters(rest)
    if ".." in rest.split("/"):
        raise ConfigError("a URI must not contain '..'")
    if scheme == "file":
        if rest.startswith("//") and not rest.startswith("///"):
            raise ConfigError("a file: URI names no host; write file:///x or /x")
        return _refuse_root(os.path.normpath("/" + rest.lstrip("/")))
    authority, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", "")
    if not authority:
        raise ConfigError(f"a URI names its bucket, container or host: {scheme}://name/path")
    if ":" in authority.partition("@")[0] and "@" in authority:
        raise ConfigError("a URI must not contain a user and a password; give them by Spark settings or environment")
    return "/".join([f"{scheme}://{authority}", *(each for each in path.split("/") if each not in ("", "."))])


def _check_characters(text: str) -> None:
    """Refuse what Spark or delta-rs read as something else than a name."""
    if bad := _FORBIDDEN.search(text):
        raise ConfigError(f"a path must not contain {bad.group()!r}")
    if _TIME_TRAVEL.search(text):
        raise ConfigError("a path must not end in '@v<number>' or '@<time>': Delta reads that as a version")
    check_lengths(text.split("/"))


def _require_readable(path: str) -> str:
    """Return a path, unless it leads through a directory that delta-rs cannot open tables in.

    A file names such a directory by chance only: the project stands in it, or a link leads there.
    """
    for each in (path, os.path.realpath(path)):
        if bad := _UNREADABLE.search(each):
            why = f"their logs cannot be read in a directory with {bad.group()!r} in its name"
            raise ConfigError(f"tables cannot be below {show_text(each)!r}: {why}; rename that directory")
    return path


def check_lengths(names: Iterable[str], suffix: str = "") -> None:
    """Refuse names that no file system takes, ``suffix`` added to them; the length says enough of such a name."""
    for name in names:
        if (length := len((name + suffix).encode())) > _LONGEST:
            longer = f" with the {suffix!r} of its quarantine" if suffix else ""
            raise ConfigError(f"the name of a table or directory has {length} bytes{longer}, of {_LONGEST} possible")


def _refuse_root(path: str) -> str:
    if path.strip("/") == "":
        raise ConfigError("a table cannot be the root directory")
    return path
