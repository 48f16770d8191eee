"""Hand over a Delta-ready SparkSession: the active one, else one that is built; and a safe session of its own per run.

``get_session`` never changes a session that it finds. ``open_job_session`` opens a second one beside it, whose settings
are Spark's own but for those of ``enrich.project.settings``; the engine works in that one alone.
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
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException, PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich.base.errors import ConfigError, EnvironmentFault
from enrich.base.files import make_private_directory
from enrich.base.schemas import build_struct
from enrich.base.spec import DataType
from enrich.project.settings import FORCED, is_inherited
from enrich.spark import ADAPTIVE, ADAPTIVE_BY_CHANGE
from enrich.spark.archive import find_archive
from enrich.spark.fit import (
    HASHED,
    choose_fit,
    choose_hashed,
    choose_memory,
    count_cores,
    is_in_one_process,
    prefer_hashing,
)
from enrich.spark.jars import Release, condense, find_delta_jars, find_spark_home, require_java
from enrich.spark.logstore import find_log_store_jars

if TYPE_CHECKING:
    from enrich.project.models import Spark

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

DEFAULTS = {
    "spark.ui.enabled": "false",
    # Kept for the UI, also when there is none: the plans of a thousand queries fill a small driver.
    "spark.sql.ui.retainedExecutions": "5",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    # The JVM makes no machine code of a method with more bytes; Spark then splits the work of a stage into small ones
    # (docs/adr/0027-large-steps.md).
    "spark.sql.codegen.hugeMethodLimit": "8000",
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
    # Compressing the rows that a run keeps for its next steps takes a third of a first run, and saves little memory.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
"""Defaults where the master is local."""

AT_LAUNCH = {"spark.app.name": "enrich", "spark.ui.showConsoleProgress": "false"}
"""Defaults that spark-submit would fill in by itself, otherwise."""

ONLY_AT_LAUNCH = ("spark.driver.extraClassPath", "spark.driver.extraJavaOptions")
"""Settings that are combined with ours and given to the JVM when it starts."""

TELLTALES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of pyspark that print an exception's message, which may hold a cell value, to stderr before raising it."""

EARLY = (
    *("spark.app.name", "spark.archives", "spark.driver.", "spark.files", "spark.jars", "spark.kerberos."),
    *("spark.master", "spark.submit.", "spark.ui.showConsoleProgress"),
)
"""What spark-submit and the JVM need when they start. ``ps`` shows it; all else follows when the JVM is there."""


def get_session(settings: Spark | None = None, size: Callable[[], int | None] = lambda: None) -> SparkSession:
    """Return the active session, else the default one, else build one.

    Args:
        settings: The ``spark`` section of the target's file; used only to build. None: all defaults.
        size: Tells how many bytes the tables have that will be read; asked only to build. None: not known.

    Raises:
        EnvironmentFault: The session at hand lacks Delta or is of Spark Connect, or none can be built.
    """
    conf = dict(settings.conf) if settings else {}
    master = settings.master if settings else None
    named = next((name for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED") if os.environ.get(name)), None)
    if "spark.remote" in conf or (master or "").startswith("sc://"):
        named = "spark.remote"
    if "connect" in (os.environ.get("SPARK_API_MODE", ""), conf.get("spark.api.mode", "")):
        named = "spark.api.mode=connect"
    if named:
        raise _describe_remote(named)
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is None or session.sparkContext._jsc is None:
        session = build_session(master, conf, settings.jars if settings else None, size())
    _require_delta(session)
    return session


def open_job_session(spark: SparkSession) -> SparkSession:
    """Open a session beside ``spark`` on the same context, with the settings that it inherits and the forced ones.

    All others have Spark's default there. ``spark`` stays as it is, and stays the active session.

    Raises:
        EnvironmentFault: ``spark`` has no Delta, or is a Spark Connect session.
    """
    _require_delta(spark)
    session = spark.newSession()
    own = _settings_of(session)  # those of the context: what built it, spark-submit, Spark's own files
    wanted = _collect_inherited(spark) | FORCED
    if SNAPSHOT_PARTITIONS not in wanted and is_in_one_process(str(spark.sparkContext.master)):
        wanted[SNAPSHOT_PARTITIONS] = LOCAL[SNAPSHOT_PARTITIONS]
    wanted |= prefer_hashing(wanted)
    for key in own.keys() - wanted.keys():
        if not is_inherited(key):
            with suppress(AnalysisException):  # of the context, and shared
                session.conf.unset(key)
    for key, value in wanted.items():
        if own.get(key) != value:
            with suppress(AnalysisException):  # as above (`isModifiable` denies unregistered keys)
                session.conf.set(key, value)
    return session


def _collect_inherited(spark: SparkSession) -> dict[str, str]:
    return {key: value for key, value in _settings_of(spark).items() if is_inherited(key)}


def _settings_of(session: SparkSession) -> dict[str, str]:
    """Return what is set in a session and its context, in one call; ``conf.getAll`` asks the JVM for each by itself."""
    end = "\x1e"
    text = session.conf._jconf.getAll().mkString("", end, end)
    return dict(entry.split(" -> ", 1) for entry in text.split(end)[:-1])


@contextmanager
def borrow_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a job a session that nobody else uses meanwhile; the next job with the same settings gets it again.

    Delta keeps sessions alive for an hour, so that one for each job would fill a process that runs many.

    Raises:
        EnvironmentFault: ``spark`` has no Delta, or is a Spark Connect session.
    """
    refuse_connect(spark)
    settings = _collect_inherited(spark)
    with _lock:
        idle = _idle.setdefault(spark, [])
        fitting = [each for each in idle if each[0] == settings]
        if fitting:
            idle.remove(fitting[-1])
    chosen = fitting[-1] if fitting else (settings, open_job_session(spark))
    try:
        yield chosen[1]
    finally:
        idle.append(chosen)


_lock = threading.Lock()
_idle: WeakKeyDictionary[SparkSession, list[tuple[dict[str, str], SparkSession]]] = WeakKeyDictionary()


@contextmanager
def activate(session: SparkSession) -> Iterator[SparkSession]:
    """Make ``session`` the active one of this thread for the time of the block, then put back what was there.

    Delta reads some settings from the active session; ``createDataFrame`` makes its own the active one for good.
    Inside the block pyspark logs no exception by itself. pyspark has its active session and its loggers once for all
    threads: the last block to end puts them back.
    """
    jvm = SparkSession._get_j_spark_session_class(session._jvm)
    jvm_before = jvm.getActiveSession()
    with _lock:
        if not _active:
            _found.append((SparkSession._activeSession, _hush()))
        _active.append(session)
        SparkSession._activeSession = session
    try:
        jvm.setActiveSession(session._jsparkSession)
        yield session
    finally:
        with _lock:
            _active.remove(session)
            if _active:
                SparkSession._activeSession = _active[-1]
            else:
                SparkSession._activeSession, loud = _found.pop()
                for logger in loud:
                    logger.disabled = False
        jvm.setActiveSession(jvm_before.get()) if jvm_before.isDefined() else jvm.clearActiveSession()


_active: list[SparkSession] = []
"""The sessions of the blocks that run, in all threads."""
_found: list[tuple[SparkSession | None, list[logging.Logger]]] = []
"""What the first of these blocks has found."""


def _hush() -> list[logging.Logger]:
    """Switch pyspark's telltale loggers off; return those that were on."""
    loud: list[logging.Logger] = [logger for logger in map(PySparkLogger.getLogger, TELLTALES) if not logger.disabled]
    for logger in loud:
        logger.disabled = True
    return loud


def _describe_remote(named: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"{named} asks for Spark Connect, which cannot open a second session with enrich's own settings",
        hint="run enrich where the driver runs (spark-submit, a job cluster), or remove the setting",
    )


def refuse_connect(session: SparkSession) -> None:
    """Refuse a session of Spark Connect, before something asks it for the JVM that it does not have.

    Raises:
        EnvironmentFault: It is one.
    """
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise _describe_remote("the given session")


def _require_delta(session: SparkSession) -> None:
    refuse_connect(session)
    if os.environ.get("DATABRICKS_RUNTIME_VERSION"):
        return  # Delta is built in there, under other class names
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    catalog = session.conf.get("spark.sql.catalog.spark_catalog", "")
    if EXTENSION not in extensions.split(",") or catalog != CATALOG:
        raise EnvironmentFault(
            "the active Spark session is not set up for Delta",
            hint=f"start it with spark.sql.extensions={EXTENSION} and spark.sql.catalog.spark_catalog={CATALOG}",
        )
    jvm: Any = session._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(EXTENSION, True, False)
    except Exception as error:
        release = Release.fitting(session.version)
        raise EnvironmentFault(
            "the active Spark session is set up for Delta, but its JVM does not have the Delta jars",
            hint=f"start it with spark-submit --packages {release.coordinate}" if release else "use Spark 4.0 or 4.1",
        ) from error


def build_session(master: str | None, conf: dict[str, str], jars: str | None, size: int | None) -> SparkSession:
    """Start a JVM that fits the work, or connect to spark-submit's, and build a session.

    Raises:
        EnvironmentFault: Java or the jars are missing, or Spark does not start.
    """
    _hush()
    provided: tuple[Path, ...] = ()
    gateway = None
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        require_java()
        named = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
        brings_delta = any("delta-spark" in conf.get(key, "") for key in named)
        if not brings_delta and not any((find_spark_home() / "jars").glob("*delta-spark*.jar")):
            provided = find_delta_jars(jars, conf)
        gateway = _launch_jvm(_choose_launch_settings(master, conf, provided, size))
    # Without a gateway of ours this connects to spark-submit's, whose settings count from here on.
    SparkContext._ensure_initialized(gateway=gateway)
    jvm: Any = SparkContext._jvm
    heap = int(jvm.java.lang.Runtime.getRuntime().maxMemory())  # whoever told it so
    with _keep_sigint():
        builder = SparkSession.builder
        for key, value in _choose_context_settings(master, conf, provided, size, heap).items():
            builder = builder.config(key, value)
        try:
            session: SparkSession = builder.getOrCreate()
        except Exception as error:
            raise EnvironmentFault(
                f"Spark does not start: {condense(str(error))}", hint="check the settings under spark in conf/"
            ) from error
    if is_in_one_process(str(session.sparkContext.master)) and "PYSPARK_PYTHON" not in os.environ:
        session.sparkContext.pythonExec = sys.executable  # not whatever `python3` is: it may lack pyarrow
    return session


def _choose_launch_settings(
    master: str | None, conf: Mapping[str, str], jars: tuple[Path, ...], size: int | None = None
) -> dict[str, str]:
    """Return the settings for the JVM's command line."""
    settings = AT_LAUNCH | {key: value for key, value in conf.items() if key.startswith(EARLY)}
    if master:
        settings["spark.master"] = master
        if is_in_one_process(master):
            settings.setdefault("spark.driver.memory", choose_memory())
    beside = map(str, [*jars, *find_log_store_jars(conf)])
    path = os.pathsep.join(filter(None, [*beside, conf.get("spark.driver.extraClassPath")]))
    if path:
        settings["spark.driver.extraClassPath"] = path
    # A JVM leaves nothing outside this process's directory, also when it dies: its temporary files would stay in /tmp,
    # and what it writes when it crashes (hs_err_pid*.log, a core) would stand in the current directory, which may be
    # the project's, and holds the environment and pieces of memory.
    temporary = make_private_directory() / "java"
    temporary.mkdir(exist_ok=True)
    report = temporary / "hs_err_pid%p.log"
    private = f'"-Djava.io.tmpdir={temporary}"', f'"-XX:ErrorFile={report}"', "-XX:-CreateCoredumpOnCrash"
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    # The JVM takes the last of two equal options: the configuration's.
    # Spark walks an expression by recursion; the longest that a job file may hold needs more than the usual 1 MB.
    options = ["-Xss4m", "-Duser.timezone=UTC", f'"-Dlog4j2.configurationFile={log4j}"', *private]
    given = conf.get("spark.driver.extraJavaOptions")
    said = " ".join(filter(None, [given, conf.get("spark.driver.defaultJavaOptions")]))
    options += choose_fit(size, master, said).options
    if archive := find_archive(jars):
        options.append(f'"-XX:SharedArchiveFile={archive}"')
    settings["spark.driver.extraJavaOptions"] = " ".join([*options, given] if given else options)
    return settings


def _choose_context_settings(
    master: str | None,
    conf: Mapping[str, str],
    jars: tuple[Path, ...],
    size: int | None = None,
    heap: int | None = None,
) -> dict[str, str]:
    """Return the settings of the context, now that the JVM knows what spark-submit and Spark's own files say.

    Args:
        master: As the configuration names it.
        conf: The configuration's settings.
        jars: Those of Delta, where enrich brings them.
        size: Bytes of the tables that a run may read; None when that is not known.
        heap: The most bytes that the JVM takes; None when that is not known.
    """
    known = SparkConf()
    final_master = master or known.get("spark.master") or "local[*]"
    local = is_in_one_process(final_master)
    private = {"spark.sql.warehouse.dir": str(make_private_directory() / "warehouse")}
    if local:
        private["spark.local.dir"] = str(make_private_directory() / "local")
    defaults = DEFAULTS | private | dict(choose_fit(size, final_master, None).conf)
    if local:
        defaults |= LOCAL | ({HASHED: str(choose_hashed(heap, count_cores(final_master)))} if heap else {})
    settings = {key: value for key, value in defaults.items() if not known.contains(key)}
    settings |= {key: value for key, value in conf.items() if key not in ONLY_AT_LAUNCH}
    if ADAPTIVE in conf or known.contains(ADAPTIVE):
        settings.pop(ADAPTIVE_BY_CHANGE, None)
    settings["spark.master"] = final_master
    if jars and not local:
        ours = (jar.as_uri() for jar in (*jars, *find_log_store_jars(conf)))
        settings["spark.jars"] = ",".join(filter(None, [*ours, conf.get("spark.jars")]))
    extensions = settings.get("spark.sql.extensions") or known.get("spark.sql.extensions") or ""
    if EXTENSION not in extensions.split(","):
        settings["spark.sql.extensions"] = ",".join(filter(None, [EXTENSION, extensions]))
    settings.setdefault("spark.sql.catalog.spark_catalog", known.get("spark.sql.catalog.spark_catalog") or CATALOG)
    return settings | FORCED


# --- Start Spark's JVM, whose output may hold values, and keep the process's own way to end --------------------------


def _launch_jvm(settings: Mapping[str, str]) -> Any:
    """Start the JVM; what it prints goes to a file of our own, for it may hold cell values.

    The JVM ends when this process does: its standard input is a pipe that we hold.

    Raises:
        EnvironmentFault: It does not start.
    """
    launch_conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        launch_conf.set(key, value)
    output = make_private_directory() / "jvm.log"
    launch: Callable[..., Any] = launch_gateway
    with output.open("wb") as sink:
        try:
            return launch(launch_conf, popen_kwargs={"stdout": sink, "stderr": sink})
        except (PySparkRuntimeError, OSError) as error:
            said = condense(output.read_text(encoding="utf-8", errors="replace"))
            raise EnvironmentFault(
                f"Spark's JVM does not start: {said}", hint="check spark.driver.* in conf/ and JAVA_TOOL_OPTIONS"
            ) from error


@contextmanager
def _keep_sigint() -> Iterator[None]:
    """Keep a handler of SIGINT that somebody has set.

    pyspark puts its own in its place while it starts, which asks the JVM to cancel all jobs. If another question to the
    JVM is open, as it is most of the time, that fails, and looks as if Spark did not start.
    """
    before: Callable[..., Any] | int | None = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (None, signal.default_int_handler):
        yield
        return
    module: Any = sys.modules[SparkContext.__module__]
    module.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)
    try:
        yield
    finally:
        module.signal = signal


def build_typer(session: SparkSession) -> Callable[[Mapping[str, DataType], str], DataType]:
    """Return a function that lets Spark type an expression over a frame of the given columns.

    Raises:
        ConfigError: (the function) Spark refuses the expression; the message holds its error condition alone.
    """

    def type_of(columns: Mapping[str, DataType], expression: str) -> DataType:
        frame = session.createDataFrame([], T.StructType.fromJson(build_struct(columns)))
        try:
            found: DataType = frame.select(F.expr(expression).alias("found")).schema["found"].dataType.jsonValue()
        except PySparkException as error:
            condition = error.getCondition() or type(error).__name__
            raise ConfigError(f"Spark refuses {expression!r}: {condition}") from None
        return found

    return type_of
