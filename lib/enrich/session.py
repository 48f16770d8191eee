"""Hand over a Delta-ready SparkSession: the active one, else one that is built; and a safe session of its own per run.

``get_session`` never changes a session that it finds. ``job_session`` opens a second one beside it, with the settings
that correctness needs (``FORCED``); the engine works in that one alone.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from enrich.errors import EnvironmentFault
from enrich.jars import Release, condensed, delta_jars, spark_home
from enrich.java import require_java
from enrich.scratch import private_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.config.models import Spark

log = logging.getLogger(__name__)

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

FORCED = {
    # Another zone costs Delta a state reconstruction a commit, and shifts timestamps without a zone.
    "spark.sql.session.timeZone": "UTC",
    # With these two a vacuumed change feed reads as empty instead of failing.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # Delta would refuse a version that was committed more than a week ago as soon as a later one exists, although all
    # of its files are there. Files that are not make a read fail, thanks to the two settings above.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # What Spark derives from a plan's conditions doubles with every join and every renamed column: a job with three
    # sources planned until its memory was full.
    "spark.sql.constraintPropagation.enabled": "false",
    # What an expression of a job file means must not depend on who runs it.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    # Spark would put environment variables into an expression's text, inside string literals too.
    "spark.sql.variable.substitute": "false",
}
"""Settings of every session that the engine works in, whatever the configuration says."""

DEFAULTS = {
    "spark.ui.enabled": "false",
    # Kept for the UI, also when there is none: the plans of a thousand queries fill a small driver.
    "spark.sql.ui.retainedExecutions": "5",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.shuffle.partitions": "4",
    # A process that runs many jobs compiles more classes than Spark keeps (1,000), and then each of them anew.
    "spark.sql.codegen.cache.maxEntries": "10000",
    # pyspark would tell the JVM, in five calls for every expression, where in our code it was built.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Settings of a session that enrich builds, where neither configuration nor Spark's own files say otherwise."""

SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"

LOCAL = {
    # Host name lookups and an open port on the network serve nobody when all threads are in one process.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # 50 partitions for the state of a table with ten files: 100 tasks a MERGE.
    SNAPSHOT_PARTITIONS: "2",
}
"""Defaults where the master is local."""

LOCAL_MEMORY = "2g"
"""All of Spark is in the one JVM then; its own default of 1 GB is for a driver alone."""

NOT_INHERITED = ("spark.databricks.delta.write.txn", "spark.databricks.delta.commitInfo.userMetadata")
"""Settings of one write of the user; inherited, they would label or skip ours."""

AT_LAUNCH = {"spark.app.name": "enrich", "spark.ui.showConsoleProgress": "false"}
"""Defaults that spark-submit would fill in by itself, otherwise."""

ONLY_AT_LAUNCH = ("spark.driver.extraClassPath", "spark.driver.extraJavaOptions")
"""Settings that are combined with ours and given to the JVM when it starts."""

TELLTALES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of pyspark that print an exception's message, which may hold a cell value, to stderr before raising it."""

LATE = ("spark.hadoop.", "spark.sql.", "spark.databricks.")
"""Settings that the JVM need not know when it starts; kept from its command line, where ``ps`` would show them."""


def get_session(settings: Spark | None = None) -> SparkSession:
    """Return the active session, else the default one, else build one.

    Args:
        settings: The ``spark`` section of the target's file; used only to build. None: all defaults.

    Raises:
        EnvironmentFault: The session at hand lacks Delta or is of Spark Connect, or none can be built.
    """
    from pyspark.sql import SparkSession

    conf = dict(settings.conf) if settings else {}
    master = settings.master if settings else None
    _refuse_remote(master, conf)
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is None or session.sparkContext._jsc is None:
        session = _build(master, conf, settings.jars if settings else None)
    _require_delta(session)
    return session


def job_session(spark: SparkSession) -> SparkSession:
    """Open a session beside ``spark`` on the same context, with ``spark``'s settings less the unsafe ones.

    ``spark`` stays as it is, and stays the active session.

    Raises:
        EnvironmentFault: ``spark`` has no Delta, or is a Spark Connect session.
    """
    from pyspark.errors import AnalysisException

    _require_delta(spark)
    found = spark.conf.getAll
    session = spark.newSession()
    own = session.conf.getAll
    for key, value in found.items():
        if own.get(key) != value and not key.startswith(NOT_INHERITED):
            # Those that cannot be set belong to the context, and are shared. (`isModifiable` denies unregistered keys.)
            with suppress(AnalysisException):
                session.conf.set(key, value)
    for key, value in FORCED.items():
        session.conf.set(key, value)
    if SNAPSHOT_PARTITIONS not in found and _in_one_process(str(spark.sparkContext.master)):
        session.conf.set(SNAPSHOT_PARTITIONS, LOCAL[SNAPSHOT_PARTITIONS])
    return session


@contextmanager
def borrowed_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a job a session that nobody else uses meanwhile; the next job with the same settings gets it again.

    Delta keeps sessions alive for an hour, so that one for each job would fill a process that runs many.
    """
    idle = _idle.setdefault(spark, [])
    settings = dict(spark.conf.getAll)
    fitting = [each for each in idle if each[0] == settings]
    chosen = fitting[-1] if fitting else (settings, job_session(spark))
    if fitting:
        idle.remove(chosen)
    try:
        yield chosen[1]
    finally:
        idle.append(chosen)


_idle: WeakKeyDictionary[SparkSession, list[tuple[dict[str, str], SparkSession]]] = WeakKeyDictionary()


@contextmanager
def activated(session: SparkSession) -> Iterator[SparkSession]:
    """Make ``session`` the active one of this thread for the time of the block, then put back what was there.

    Delta reads some settings from the active session; ``createDataFrame`` makes its own the active one for good.
    Inside the block pyspark logs no exception by itself.
    """
    from pyspark.sql import SparkSession

    jvm = SparkSession._get_j_spark_session_class(session._jvm)
    before = SparkSession._activeSession
    jvm_before = jvm.getActiveSession()
    SparkSession._activeSession = session
    jvm.setActiveSession(session._jsparkSession)
    loud = _hush()
    try:
        yield session
    finally:
        for logger in loud:
            logger.disabled = False
        SparkSession._activeSession = before
        if jvm_before.isDefined():
            jvm.setActiveSession(jvm_before.get())
        else:
            jvm.clearActiveSession()


def _hush() -> list[logging.Logger]:
    """Switch pyspark's telltale loggers off; return those that were on."""
    from pyspark.logger import PySparkLogger

    loud: list[logging.Logger] = [logger for logger in map(PySparkLogger.getLogger, TELLTALES) if not logger.disabled]
    for logger in loud:
        logger.disabled = True
    return loud


def _refuse_remote(master: str | None, conf: Mapping[str, str]) -> None:
    named = next((name for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED") if os.environ.get(name)), None)
    if "spark.remote" in conf or (master or "").startswith("sc://"):
        named = "spark.remote"
    if "connect" in (os.environ.get("SPARK_API_MODE", ""), conf.get("spark.api.mode", "")):
        named = "spark.api.mode=connect"
    if named:
        raise _remote_fault(named)


def _remote_fault(named: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"{named} asks for Spark Connect, which cannot open a second session with enrich's own settings",
        hint="run enrich where the driver runs (spark-submit, a job cluster), or leave the setting out",
    )


def _require_delta(session: SparkSession) -> None:
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise _remote_fault("the given session")
    if os.environ.get("DATABRICKS_RUNTIME_VERSION"):
        return  # Delta is built in there, under other class names
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    catalog = session.conf.get("spark.sql.catalog.spark_catalog", "")
    if EXTENSION not in extensions.split(",") or catalog != CATALOG:
        raise EnvironmentFault(
            "the Spark session at hand does not know Delta",
            hint=f"start it with spark.sql.extensions={EXTENSION} and spark.sql.catalog.spark_catalog={CATALOG}",
        )
    jvm: Any = session._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(EXTENSION, True, False)
    except Exception as error:
        raise EnvironmentFault(
            "the Spark session at hand is set up for Delta but its JVM lacks the jars",
            hint=f"start it with spark-submit --packages {Release.installed().coordinate}",
        ) from error


def _build(master: str | None, conf: dict[str, str], jars: str | None) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    _hush()
    provided: tuple[Path, ...] = ()
    gateway = None
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        require_java()
        provided = () if _brings_delta(conf) else delta_jars(jars, conf)
        gateway = _launch(_launch_settings(master, conf, provided))
    # Without a gateway of ours this connects to spark-submit's, whose settings count from here on.
    SparkContext._ensure_initialized(gateway=gateway)
    with _sigint_kept():
        builder = SparkSession.builder
        for key, value in _context_settings(master, conf, provided).items():
            builder = builder.config(key, value)
        try:
            session: SparkSession = builder.getOrCreate()
        except Exception as error:
            raise EnvironmentFault(
                f"Spark does not start: {condensed(str(error))}", hint="see spark in conf"
            ) from error
    if _in_one_process(str(session.sparkContext.master)) and "PYSPARK_PYTHON" not in os.environ:
        session.sparkContext.pythonExec = sys.executable  # not whatever `python3` is: it may lack pyarrow
    return session


def _brings_delta(conf: Mapping[str, str]) -> bool:
    """Tell whether the configuration or the Spark installation already has Delta's jar."""
    named = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
    in_conf = any("delta-spark" in conf.get(key, "") for key in named)
    return in_conf or any((spark_home() / "jars").glob("*delta-spark*.jar"))


def _in_one_process(master: str) -> bool:
    """Tell ``local`` and ``local[...]`` from ``local-cluster[...]``, whose executors are processes."""
    return master == "local" or master.startswith("local[")


def _launch_settings(master: str | None, conf: Mapping[str, str], jars: tuple[Path, ...]) -> dict[str, str]:
    """Return the settings for the JVM's command line."""
    settings = AT_LAUNCH | {key: value for key, value in conf.items() if not key.startswith(LATE)}
    if master:
        settings["spark.master"] = master
        if _in_one_process(master):
            settings.setdefault("spark.driver.memory", LOCAL_MEMORY)
    path = os.pathsep.join(filter(None, [*map(str, jars), conf.get("spark.driver.extraClassPath")]))
    if path:
        settings["spark.driver.extraClassPath"] = path
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    # The JVM takes the last of two equal options: the configuration's.
    # Spark walks an expression by recursion; the longest that a job file may hold needs more than the usual 1 MB.
    options = ["-Xss4m", "-Duser.timezone=UTC", f'"-Dlog4j2.configurationFile={log4j}"']
    given = conf.get("spark.driver.extraJavaOptions")
    settings["spark.driver.extraJavaOptions"] = " ".join([*options, given] if given else options)
    return settings


def _context_settings(master: str | None, conf: Mapping[str, str], jars: tuple[Path, ...]) -> dict[str, str]:
    """Return the settings of the context, now that the JVM knows what spark-submit and Spark's own files say."""
    from pyspark import SparkConf

    known = SparkConf()
    final_master = master or known.get("spark.master") or "local[*]"
    local = _in_one_process(final_master)
    private = {"spark.sql.warehouse.dir": str(private_directory() / "warehouse")}
    if local:
        private["spark.local.dir"] = str(private_directory() / "local")
    defaults = DEFAULTS | private | (LOCAL if local else {})
    settings = {key: value for key, value in defaults.items() if not known.contains(key)}
    settings |= {key: value for key, value in conf.items() if key not in ONLY_AT_LAUNCH}
    settings["spark.master"] = final_master
    if jars and not local:
        settings["spark.jars"] = ",".join(filter(None, [*(jar.as_uri() for jar in jars), conf.get("spark.jars")]))
    extensions = settings.get("spark.sql.extensions") or known.get("spark.sql.extensions") or ""
    if EXTENSION not in extensions.split(","):
        settings["spark.sql.extensions"] = ",".join(filter(None, [EXTENSION, extensions]))
    settings.setdefault("spark.sql.catalog.spark_catalog", known.get("spark.sql.catalog.spark_catalog") or CATALOG)
    return settings | FORCED


def _launch(settings: Mapping[str, str]) -> Any:
    """Start the JVM; what it prints goes to a file of our own, for it may hold cell values.

    The JVM ends when this process does: its standard input is a pipe that we hold.
    """
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    launch_conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        launch_conf.set(key, value)
    output = private_directory() / "jvm.log"
    launch: Callable[..., Any] = launch_gateway
    with output.open("wb") as sink:
        try:
            return launch(launch_conf, popen_kwargs={"stdout": sink, "stderr": sink})
        except (PySparkRuntimeError, OSError) as error:
            said = condensed(output.read_text(encoding="utf-8", errors="replace"))
            raise EnvironmentFault(
                f"Spark's JVM does not start: {said}", hint="see spark.driver.* of spark.conf and JAVA_TOOL_OPTIONS"
            ) from error


@contextmanager
def _sigint_kept() -> Iterator[None]:
    """Keep a handler of SIGINT that somebody has set; pyspark puts its own in its place."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Callable[..., Any] | int | None = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before not in (None, signal.default_int_handler):
            signal.signal(signal.SIGINT, before)
