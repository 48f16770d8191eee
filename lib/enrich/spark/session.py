"""Hand over a Delta-ready SparkSession: the active one, else one that is built; and a safe session of its own per job.

``get_session`` never changes a session that it finds. ``open_job_session`` opens a second one beside it, whose settings
are Spark's own but for those of ``enrich.project.settings``; the engine works in that one alone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
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
from enrich.spark.fit import HASHED, choose_fit, choose_hashed, choose_memory, count_cores, is_in_one_process
from enrich.spark.jars import PAIRS, Release, condense, find_delta_jars, find_spark_home, require_java
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
    # Spark describes every plan for that UI; in full, this takes 4 % of what the JVM does in a run of one row.
    "spark.sql.ui.explainMode": "simple",
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

# Defaults that spark-submit would fill in by itself, otherwise.
AT_LAUNCH = {"spark.app.name": "enrich", "spark.ui.showConsoleProgress": "false"}
# Combined with ours and given to the JVM when it starts.
ONLY_AT_LAUNCH = ("spark.driver.extraClassPath", "spark.driver.extraJavaOptions")
# What spark-submit and the JVM need when they start. `ps` shows it; all else follows when the JVM is there.
EARLY = (
    *("spark.app.name", "spark.archives", "spark.driver.", "spark.files", "spark.jars", "spark.kerberos."),
    *("spark.master", "spark.submit.", "spark.ui.showConsoleProgress"),
)
TELLTALES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of pyspark that print an exception's message, which may hold a cell value, to stderr before raising it."""


def get_session(settings: Spark | None = None, size: Callable[[], int | None] = lambda: None) -> SparkSession:
    """Return the active session, else the default one, else build one by the ``spark`` section of a conf file.

    ``size`` tells how many bytes the tables have that will be read, or None; it is asked only to build. A session
    without Delta or of Spark Connect is an EnvironmentFault, and so is what keeps one from being built.
    """
    conf = dict(settings.conf) if settings else {}
    master = settings.master if settings else None
    modes = os.environ.get("SPARK_API_MODE"), conf.get("spark.api.mode")
    remote = os.environ.get("SPARK_REMOTE") or os.environ.get("SPARK_CONNECT_MODE_ENABLED") or "spark.remote" in conf
    if remote or "connect" in modes or (master or "").startswith("sc://"):
        raise _describe_remote("a setting (spark.remote, spark.api.mode, the master, or SPARK_* of the environment)")
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is None or session.sparkContext._jsc is None:
        session = build_session(master, conf, settings.jars if settings else None, size())
    _require_delta(session)
    return session


def open_job_session(spark: SparkSession) -> SparkSession:
    """Open a session beside ``spark`` on the same context, with the settings that it inherits and the forced ones.

    All others have Spark's default there. ``spark``, which must have Delta, stays as it is, and the active session.
    """
    _require_delta(spark)
    session = spark.newSession()
    own = _read_settings(session)  # those of the context: what built it, spark-submit, Spark's own files
    wanted = {key: value for key, value in _read_settings(spark).items() if is_inherited(key)} | FORCED
    if is_in_one_process(str(spark.sparkContext.master)):
        wanted.setdefault(SNAPSHOT_PARTITIONS, LOCAL[SNAPSHOT_PARTITIONS])
    for key in own.keys() - wanted.keys():
        if not is_inherited(key):
            with suppress(AnalysisException):  # of the context, and shared
                session.conf.unset(key)
    for key, value in wanted.items():
        if own.get(key) != value:
            with suppress(AnalysisException):  # as above (`isModifiable` denies unregistered keys)
                session.conf.set(key, value)
    return session


def _read_settings(session: SparkSession) -> dict[str, str]:
    """Return what is set in a session and its context, in one call; ``conf.getAll`` asks the JVM for each by itself."""
    end = "\x1e"
    text = session.conf._jconf.getAll().mkString("", end, end)
    return dict(entry.split(" -> ", 1) for entry in text.split(end)[:-1])


_lock = threading.Lock()
_idle: WeakKeyDictionary[SparkSession, list[tuple[dict[str, str], SparkSession]]] = WeakKeyDictionary()


@contextmanager
def borrow_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a job a session that nobody else uses meanwhile; the next job with the same settings gets it again.

    Delta keeps sessions alive for an hour, so that one for each job would fill a process that runs many.
    """
    refuse_connect(spark)
    settings = _read_settings(spark)
    with _lock:
        idle = _idle.setdefault(spark, [])
        chosen = next((each for each in idle if each[0] == settings), None)
        if chosen:
            idle.remove(chosen)
    chosen = chosen or (settings, open_job_session(spark))
    try:
        yield chosen[1]
    finally:
        idle.append(chosen)


_active: list[SparkSession | None] = []
"""What pyspark had for its active session, and the sessions of the blocks that run, in all threads."""

for _name in TELLTALES:
    PySparkLogger.getLogger(_name).addFilter(lambda _: not _active)


@contextmanager
def activate(session: SparkSession) -> Iterator[SparkSession]:
    """Make ``session`` the active one of this thread for the time of the block, then put back what was there.

    Delta reads some settings from the active session; ``createDataFrame`` makes its own the active one for good.
    pyspark has its active session once for all threads, and tells nothing by itself until the last block ends.
    """
    jvm = SparkSession._get_j_spark_session_class(session._jvm)
    jvm_before = jvm.getActiveSession()
    with _lock:
        if not _active:
            _active.append(SparkSession._activeSession)
        _active.append(session)
        SparkSession._activeSession = session
    try:
        jvm.setActiveSession(session._jsparkSession)
        yield session
    finally:
        with _lock:
            _active.remove(session)
            SparkSession._activeSession = _active[-1]
            if len(_active) == 1:
                _active.clear()
        jvm.setActiveSession(jvm_before.get()) if jvm_before.isDefined() else jvm.clearActiveSession()


def _describe_remote(named: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"{named} asks for Spark Connect, which cannot open a second session with enrich's own settings",
        hint="run enrich where the driver runs (spark-submit, a job cluster), or remove the setting",
    )


def refuse_connect(session: SparkSession) -> None:
    """Refuse a session of Spark Connect, before something asks it for the JVM that it does not have."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise _describe_remote("the given session")


def _require_delta(session: SparkSession) -> None:
    refuse_connect(session)
    if os.environ.get("DATABRICKS_RUNTIME_VERSION"):
        return  # Delta is built in there, under other class names
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    if EXTENSION not in extensions.split(",") or session.conf.get("spark.sql.catalog.spark_catalog", "") != CATALOG:
        hint = f"start it with spark.sql.extensions={EXTENSION} and spark.sql.catalog.spark_catalog={CATALOG}"
        raise EnvironmentFault("the active Spark session is not set up for Delta", hint=hint)
    jvm: Any = session._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(EXTENSION, True, False)
    except Exception as error:
        release = Release(session.version.rpartition(".")[0], PAIRS[-1][1])
        message = "the active Spark session is set up for Delta, but its JVM does not have the Delta jars"
        raise EnvironmentFault(message, hint=f"start it with spark-submit --packages {release.coordinate}") from error


def build_session(master: str | None, conf: dict[str, str], jars: str | None, size: int | None) -> SparkSession:
    """Start a JVM that fits the work, or connect to spark-submit's, and build a session.

    Where Java or the jars are missing, or Spark does not start, that is an EnvironmentFault.
    """
    for name in TELLTALES:
        PySparkLogger.getLogger(name).disabled = True
    provided: tuple[Path, ...] = ()
    gateway = None
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        require_java()
        named = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
        brings_delta = any("delta-spark" in conf.get(key, "") for key in named)
        if not brings_delta and not any((find_spark_home() / "jars").glob("*delta-spark*.jar")):
            provided = find_delta_jars(jars, conf)
        # The JVM ends when this process does: its standard input is a pipe that we hold.
        at_launch = SparkConf(loadDefaults=False)
        at_launch.setAll(list(_choose_launch_settings(master, conf, provided, size).items()))
        output = make_private_directory() / "jvm.log"  # of our own: what the JVM prints may hold cell values
        launch: Callable[..., Any] = launch_gateway
        with output.open("wb") as sink:
            try:
                gateway = launch(at_launch, popen_kwargs={"stdout": sink, "stderr": sink})
            except (PySparkRuntimeError, OSError) as error:
                said = condense(output.read_text(encoding="utf-8", errors="replace"))
                hint = "check spark.driver.* in conf/ and JAVA_TOOL_OPTIONS"
                raise EnvironmentFault(f"Spark's JVM does not start: {said}", hint=hint) from error
    # Without a gateway of ours this connects to spark-submit's, whose settings count from here on.
    SparkContext._ensure_initialized(gateway=gateway)
    jvm: Any = SparkContext._jvm
    heap = int(jvm.java.lang.Runtime.getRuntime().maxMemory())  # whoever told it so
    settings: dict[str, Any] = _choose_context_settings(master, conf, provided, size, heap)
    on_sigint: Any = signal.getsignal(signal.SIGINT)
    try:
        context = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
        # pyspark has put a handler of its own in the place of somebody else's. It asks the JVM to cancel all jobs; if
        # another question to the JVM is open, that fails, and looks as if Spark did not start.
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and on_sigint not in (None, signal.default_int_handler):
            signal.signal(signal.SIGINT, on_sigint)
        session: SparkSession = SparkSession.builder.config(map=settings).getOrCreate()
    except Exception as error:
        hint = "check the settings under spark in conf/"
        raise EnvironmentFault(f"Spark does not start: {condense(str(error))}", hint=hint) from error
    if is_in_one_process(str(context.master)) and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # not whatever `python3` is: it may lack pyarrow
    return session


def _choose_launch_settings(
    master: str | None, conf: Mapping[str, str], jars: tuple[Path, ...], size: int | None = None
) -> dict[str, str]:
    settings = AT_LAUNCH | {key: value for key, value in conf.items() if key.startswith(EARLY)}
    if master:
        settings["spark.master"] = master
        if is_in_one_process(master):
            settings.setdefault("spark.driver.memory", choose_memory())
    beside = map(str, [*jars, *find_log_store_jars(conf)])
    if path := os.pathsep.join(filter(None, [*beside, conf.get("spark.driver.extraClassPath")])):
        settings["spark.driver.extraClassPath"] = path
    # A JVM leaves nothing outside this process's directory: the report and the core of one that crashes hold the
    # environment and pieces of memory, and would stand in the current directory.
    temporary = make_private_directory() / "java"
    temporary.mkdir(exist_ok=True)
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    given = conf.get("spark.driver.extraJavaOptions", "")
    said = f"{given} {conf.get('spark.driver.defaultJavaOptions', '')}"
    archive = find_archive(jars)
    options = [
        "-Xss4m",  # Spark walks an expression by recursion; the longest of a job file needs more than the usual 1 MB
        "-Duser.timezone=UTC",
        f'"-Dlog4j2.configurationFile={log4j}"',
        # The usual one walks the stack for each logger, and Spark makes one with each rule that it applies to a plan.
        "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector",
        f'"-Djava.io.tmpdir={temporary}"',
        f'"-XX:ErrorFile={temporary / "hs_err_pid%p.log"}"',
        "-XX:-CreateCoredumpOnCrash",
        *choose_fit(size, master, said).options,
        *([f'"-XX:SharedArchiveFile={archive}"'] if archive else []),
        *([given] if given else []),  # the JVM takes the last of two equal options
    ]
    return settings | {"spark.driver.extraJavaOptions": " ".join(options)}


def _choose_context_settings(
    master: str | None, conf: Mapping[str, str], jars: tuple[Path, ...], size: int | None = None, heap: int = 2**31
) -> dict[str, str]:
    """Return the settings of the context, now that the JVM knows what spark-submit and Spark's own files say."""
    known = SparkConf()
    final_master = master or known.get("spark.master") or "local[*]"
    defaults = DEFAULTS | {"spark.sql.warehouse.dir": str(make_private_directory() / "warehouse")}
    defaults |= choose_fit(size, final_master, None).conf
    local = is_in_one_process(final_master)
    if local:
        defaults |= LOCAL | {"spark.local.dir": str(make_private_directory() / "local")}
        if not any(key in conf or known.contains(key) for key in HASHED):
            defaults |= dict.fromkeys(HASHED, str(choose_hashed(heap, count_cores(final_master))))
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


def find_type(session: SparkSession, columns: Mapping[str, DataType], expression: str) -> DataType:
    """Let Spark type an expression over a frame of columns; a ConfigError holds the condition of its refusal alone."""
    frame = session.createDataFrame([], T.StructType.fromJson(build_struct(columns)))
    try:
        found: DataType = frame.select(F.expr(expression).alias("found")).schema["found"].dataType.jsonValue()
    except PySparkException as error:
        raise ConfigError(f"Spark refuses {expression!r}: {error.getCondition() or type(error).__name__}") from None
    return found
