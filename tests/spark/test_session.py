"""The session on a real JVM: what is set, what is left alone, and what is left behind."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from enrich.base.errors import EnvironmentFault
from enrich.delta.sink import hold_settings
from enrich.project.models import Spark
from enrich.project.settings import FORCED, is_inherited
from enrich.spark import session as module
from enrich.spark.fit import HASHED
from enrich.spark.session import TELLTALES, activate, get_session, open_job_session
from kit.patience import wait_until
from kit.processes import alive, living, needs_proc

# Hands over the session's facts as lines that start with `=`; anything else on stdout would break `--output json`.
PRELUDE = """
from enrich.project.models import Spark
from enrich.base.errors import EnvironmentFault
from enrich.spark.session import get_session, open_job_session

def settings(**conf):
    return Spark(master="local[2]", conf={key.replace("__", "."): value for key, value in conf.items()})
"""


def python(code: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def restored(spark):
    """The shared session, whose settings are put back."""
    before = spark.conf.getAll
    yield spark
    for key in spark.conf.getAll.keys() - before.keys():
        spark.conf.unset(key)
    for key, value in before.items():
        if spark.conf.isModifiable(key) and spark.conf.get(key) != value:
            spark.conf.set(key, value)


# --- the session that is built ---------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_the_built_session_is_utc_small_and_knows_delta(spark, tmp_path):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark._jvm.java.util.TimeZone.getDefault().getID() == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.ui.showConsoleProgress") == "false"
    assert spark.sparkContext.appName == "enrich"
    assert spark._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString() == "OFF"
    spark.range(3).write.format("delta").save(str(tmp_path / "t"))
    assert spark.read.format("delta").load(str(tmp_path / "t")).count() == 3


def test_the_jars_come_by_the_class_path_and_no_resolver_ran(spark):
    path = spark.conf.get("spark.driver.extraClassPath").split(os.pathsep)
    assert len(path) == 5
    assert all(Path(jar).is_file() for jar in path)
    assert spark.conf.get("spark.jars.packages", None) is None
    assert not spark.conf.get("spark.jars", "")


def test_the_active_session_is_taken_as_it_is(spark):
    assert get_session(Spark(master="local[1]", conf={"spark.sql.shuffle.partitions": "77"})) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_session_leaves_nothing_where_it_was_started_and_prints_nothing_and_configuration_wins(tmp_path):
    """Warehouse, metastore, Derby's log and artifacts; a task that fails, whose log line would print the value.

    What safety needs is stronger than the configuration; a handler of SIGINT stays.
    """
    code = """
        import signal
        from pyspark.sql import SparkSession
        def mine(*_): pass
        signal.signal(signal.SIGINT, mine)
        seen, begin = [], SparkSession.__init__
        def watched(*args, **options):  # Spark's context is there, and its session is being made
            seen.append(signal.getsignal(signal.SIGINT) is mine)
            begin(*args, **options)
        SparkSession.__init__ = watched
        spark = get_session(settings(
            spark__sql__shuffle__partitions="7", spark__app__name="mine", spark__ui__enabled="false",
            spark__databricks__delta__snapshotPartitions="3", spark__sql__session__timeZone="Asia/Tokyo",
            spark__sql__mapKeyDedupPolicy="LAST_WIN", spark__driver__extraJavaOptions="-Dx.y=z",
            spark__hadoop__fs__s3a__secret__key="canary", spark__executorEnv__TOKEN="canary",
            spark__sql__ansi__enabled="false"))
        job = open_job_session(spark)
        for key in ("spark.sql.shuffle.partitions", "spark.app.name", "spark.sql.session.timeZone",
                    "spark.databricks.delta.snapshotPartitions", "spark.sql.mapKeyDedupPolicy",
                    "spark.sql.ansi.enabled"):
            print(spark.conf.get(key), job.conf.get(key))
        print(spark._jvm.java.lang.System.getProperty("x.y"))
        print(spark._jsc.hadoopConfiguration().get("fs.s3a.secret.key"), spark.conf.get("spark.executorEnv.TOKEN"))
        import subprocess
        print("canary" in subprocess.run("ps -C java -ww -o args=".split(), capture_output=True, text=True).stdout)
        print(signal.getsignal(signal.SIGINT) is mine, seen[0], flush=True)
        try:
            spark.createDataFrame([("canary@example.org",)], ["email"]).selectExpr("cast(email as int)").collect()
        except Exception:
            pass
        job.range(3).write.format("delta").saveAsTable("t")
        print("=", spark.conf.get("spark.sql.warehouse.dir"), flush=True)
    """
    (tmp_path / "cwd").mkdir()
    (tmp_path / "tmp").mkdir()
    done = python(code, tmp_path / "cwd", TMPDIR=str(tmp_path / "tmp"))
    *told, warehouse = done.stdout.splitlines() or [""]
    assert told == [
        "7 7",
        "mine mine",
        "UTC UTC",
        "3 3",
        "LAST_WIN EXCEPTION",
        "true true",
        "z",
        "canary canary",
        "False",
        "True True",
    ], done.stderr
    assert (done.returncode, warehouse[:2], done.stderr) == (0, "= ", "")
    assert list((tmp_path / "cwd").iterdir()) == []
    assert not list((tmp_path / "tmp").glob("enrich-*"))


def test_a_jvm_that_cannot_start_is_one_line_of_exit_7(tmp_path):
    code = """
        try:
            get_session(settings(spark__driver__extraJavaOptions="-agentlib:nosuch"))
        except EnvironmentFault as fault:
            print(fault.exit_code, fault)
    """
    said = python(code, tmp_path)
    assert said.stdout.startswith("7 Spark's JVM does not start: Could not find agent library nosuch"), said.stderr
    assert len(said.stdout.splitlines()) == 1
    assert said.stderr == ""


# --- jars that cannot be had -----------------------------------------------------------------------------------------

NOWHERE = (
    '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none"/></resolvers></ivysettings>'
)


def test_unreachable_jars_are_one_line_of_exit_7_by_the_real_resolver(tmp_path):
    """Ivy with no repository at all stands for a machine without network."""
    (tmp_path / "ivy.xml").write_text(NOWHERE)
    code = """
        try:
            get_session(settings(spark__jars__ivySettings="ivy.xml"))
        except EnvironmentFault as fault:
            print(fault.exit_code, fault)
    """
    said = python(code, tmp_path, ENRICH_CACHE=str(tmp_path / "cache"), ENRICH_JARS="", HOME=str(tmp_path))
    assert said.stdout.startswith("7 the Delta jars (io.delta:delta-spark_"), said.stdout + said.stderr
    assert "unresolved dependency" in said.stdout
    assert len(said.stdout.splitlines()) == 1
    assert said.stderr == ""
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


# --- sessions of others ----------------------------------------------------------------------------------------------


def test_a_session_without_delta_names_the_two_settings_and_one_without_the_jars_is_told_apart(tmp_path):
    code = """
        from pyspark.sql import SparkSession
        from enrich.spark.session import CATALOG, EXTENSION

        def told(call):
            try:
                call()
            except EnvironmentFault as fault:
                print(fault.exit_code, fault)

        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        spark = builder.getOrCreate()
        told(get_session)
        told(lambda: open_job_session(spark))
        spark.stop()
        builder.config("spark.sql.extensions", EXTENSION).config("spark.sql.catalog.spark_catalog", CATALOG)
        builder.getOrCreate()
        told(get_session)
    """
    done = python(code, tmp_path)
    *plain, half = done.stdout.splitlines() or [done.stderr]
    assert len(plain) == 2
    for line in plain:
        assert line.startswith("7 ")
        assert f"spark.sql.extensions={module.EXTENSION}" in line
        assert f"spark.sql.catalog.spark_catalog={module.CATALOG}" in line
    assert half.startswith("7 ")
    assert "does not have the Delta jars" in half
    assert "--packages io.delta:delta-spark_" in half


def test_a_context_of_spark_submit_is_honoured(spark, tmp_path):
    """Its master and its settings hold where the configuration leaves them out; its JVM is the one that is used."""
    script = tmp_path / "app.py"
    script.write_text(
        PRELUDE + "spark = get_session(Spark(master=None, conf={}))\n"
        "print('=', spark.sparkContext.master, spark.conf.get('spark.sql.shuffle.partitions'),"
        " spark.sparkContext.appName)\n"
        "spark.range(3).write.format('delta').save('t')\n"
    )
    jars = spark.conf.get("spark.driver.extraClassPath")
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("spark-submit"), "--master", "local[1]", "--name", "theirs"),
            *("--conf", "spark.sql.shuffle.partitions=9", "--conf", "spark.ui.enabled=false"),
            *("--driver-class-path", jars, script),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("=")]
    assert said == ["= local[1] 9 theirs"], done.stderr[-3000:]
    assert (tmp_path / "t" / "_delta_log").is_dir()


# --- the session of a job --------------------------------------------------------------------------------------------


ANOTHER = {"true": "false", "false": "true", "UTC": "Asia/Tokyo", "TIMESTAMP_MICROS": "INT96", "2000": "10"}


@pytest.mark.smoke
def test_the_job_session_forces_what_correctness_needs(restored):
    for key, value in FORCED.items():
        restored.conf.set(key, ANOTHER[value])
    job = open_job_session(restored)
    assert {key: job.conf.get(key) for key in FORCED} == FORCED


CHANGE_RESULTS = {
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": "true",
    "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true",
    "spark.databricks.delta.properties.defaults.appendOnly": "true",
    "spark.databricks.delta.schema.autoMerge.enabled": "true",
    "spark.databricks.delta.stalenessLimit": "1h",
}


def test_what_changes_results_is_not_taken_from_the_users_session(restored, tmp_path):
    fresh = open_job_session(restored)
    defaults = {key: fresh.conf.get(key, None) for key in CHANGE_RESULTS}
    for key, value in CHANGE_RESULTS.items():
        restored.conf.set(key, value)
    job = open_job_session(restored)
    assert {key: job.conf.get(key, None) for key in CHANGE_RESULTS} == defaults
    with pytest.raises(Exception, match="DUPLICATED_MAP_KEY"):
        job.sql("SELECT map_from_arrays(array(1, 1), array(2, 3))").collect()
    job.range(1).write.format("delta").save(str(tmp_path / "ours"))
    assert DeltaTable(tmp_path / "ours").metadata().configuration == {}


def test_all_settings_of_spark_and_delta_are_of_the_families_that_are_looked_at(spark, tmp_path):
    """Characterisation: what another release registers elsewhere would be inherited."""
    spark.range(1).write.format("delta").save(str(tmp_path / "t"))  # Delta registers its own when it is first used
    known = spark._jvm.org.apache.spark.sql.internal.SQLConf().getAllDefinedConfs().mkString("\x1e").split("\x1e")
    names = [entry[1:].split(",", 1)[0] for entry in known]
    assert len(names) > 200
    assert [name for name in names if not name.startswith(("spark.sql.", "spark.databricks.delta."))] == []
    assert not any(is_inherited(name) for name in [*FORCED, *CHANGE_RESULTS])


def test_the_given_session_stays_as_it_was_found(restored):
    restored.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    before, tables = restored.conf.getAll, restored.catalog.listTables()
    job = open_job_session(restored)
    job.conf.set("spark.sql.shuffle.partitions", "5")
    job.range(1).createOrReplaceTempView("only_there")
    with activate(job):
        job.createDataFrame([(1,)], ["a"]).collect()
    assert restored.conf.getAll == before
    assert restored.catalog.listTables() == tables


def test_the_users_session_stays_the_active_one(spark):
    assert SparkSession.getActiveSession() == spark
    job = open_job_session(spark)
    assert job is not spark
    assert SparkSession.getActiveSession() == spark
    with activate(job):
        assert SparkSession.getActiveSession() == job
        job.createDataFrame([(1,)], ["a"]).collect()
    assert SparkSession.getActiveSession() == spark
    jvm = SparkSession._get_j_spark_session_class(spark._jvm)
    assert jvm.getActiveSession().get().equals(spark._jsparkSession)
    assert SparkSession.builder.getOrCreate() is spark


def test_the_users_session_is_active_again_after_a_failure(spark):
    def fail():
        with activate(open_job_session(spark)):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert SparkSession.getActiveSession() is spark


def test_blocks_in_several_threads_leave_the_users_session_and_pyspark_as_they_were(spark):
    """The block that began first ends first; the other one still works without pyspark's loggers."""
    first, second = open_job_session(spark), open_job_session(spark)
    begun, ended = threading.Event(), threading.Event()
    quiet = []

    def work():
        with activate(second):
            begun.set()
            ended.wait(60)
            quiet.append(not any(map(tells, TELLTALES)))

    def tells(name: str) -> bool:
        return bool(PySparkLogger.getLogger(name).filter(logging.makeLogRecord({"name": name})))

    other = threading.Thread(target=work)
    with activate(first):
        other.start()
        begun.wait(60)
    ended.set()
    other.join(60)
    assert quiet == [True]
    assert all(map(tells, TELLTALES))
    assert SparkSession._activeSession is spark
    assert SparkSession.getActiveSession() is spark


def test_blocks_inside_each_other_end_in_the_outer_ones_session(spark):
    outer, inner = open_job_session(spark), open_job_session(spark)
    with activate(outer):
        with activate(inner):
            assert SparkSession._activeSession is inner
        assert SparkSession._activeSession is outer
    assert SparkSession._activeSession is spark


def test_settings_made_at_run_time_are_inherited_but_not_those_of_one_write(restored):
    restored.conf.set("fs.azure.account.key.somewhere", "k")
    restored.conf.set("spark.databricks.delta.write.txnAppId", "theirs")
    restored.conf.set("spark.databricks.delta.write.txnVersion", "7")
    restored.conf.set("spark.databricks.delta.commitInfo.userMetadata", "theirs")
    restored.conf.set("spark.sql.shuffle.partitions", "3")
    job = open_job_session(restored)
    assert job.conf.get("fs.azure.account.key.somewhere") == "k"
    assert job.conf.get("spark.sql.shuffle.partitions") == "3"
    assert not [key for key in job.conf.getAll if "txn" in key or "userMetadata" in key]
    assert restored.conf.get("spark.databricks.delta.write.txnAppId") == "theirs"


def test_a_vacuumed_file_fails_instead_of_reading_as_empty(restored, tmp_path):
    """Characterisation: with the user's setting it reads as empty."""
    restored.range(3).coalesce(1).write.format("delta").save(str(tmp_path / "t"))
    (part,) = (tmp_path / "t").glob("part-*.parquet")
    part.unlink()
    restored.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    assert restored.read.format("delta").load(str(tmp_path / "t")).count() in (0, 3)  # 3: answered from statistics
    assert restored.read.format("delta").load(str(tmp_path / "t")).collect() == []
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|FileNotFound"):
        open_job_session(restored).read.format("delta").load(str(tmp_path / "t")).collect()


def test_connect_sessions_are_refused_by_name():
    """A stand-in: the real class needs grpcio, which nothing here needs otherwise."""
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(EnvironmentFault, match="Spark Connect"):
        open_job_session(remote())


# --- the end ---------------------------------------------------------------------------------------------------------


@needs_proc
def test_a_jvm_that_crashes_leaves_nothing_in_the_directory_and_the_temporary_one(tmp_path):
    """Its report would hold the environment; Spark's and Java's own files would stay in /tmp."""
    home, temporary = tmp_path / "home", tmp_path / "it's temporary"
    home.mkdir()
    temporary.mkdir()
    code = """
        import os, signal
        spark = get_session(settings())
        assert spark.conf.get("spark.databricks.delta.snapshotPartitions") == "2"
        spark.range(10).repartition(2).count()
        os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGSEGV)
        print(spark.sparkContext._gateway.proc.wait(300) != 0)
    """
    done = python(code, home, TMPDIR=str(temporary))
    assert done.stdout.split() == ["True"], done.stderr
    assert list(home.iterdir()) == []
    assert [each.name for each in temporary.iterdir()] == []


@pytest.mark.soak
@needs_proc
@pytest.mark.parametrize("busy", [True, False])
def test_sigkill_of_python_alone_leaves_no_jvm_even_in_a_job(tmp_path, busy):
    code = f"""
        import time
        spark = get_session(settings())
        print("up", flush=True)
        {'spark.range(10**13).selectExpr("sum(hash(id))").collect()' if busy else "time.sleep(600)"}
    """
    child = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        time.sleep(2)  # most likely it is in the job then
        (jvm,) = (each.pid for each in living() if each.parent == child.pid and each.name == "java")
        child.send_signal(signal.SIGKILL)
        child.wait(10)
        wait_until(lambda: not alive(jvm), "the end of the JVM")


def test_a_job_hashes_the_smaller_side_of_a_join_that_fits(spark: SparkSession) -> None:
    """Only where adaptive execution has seen that it fits; what the configuration says wins."""
    shown = {"spark.sql.maxPlanStringLength": "100000"}
    adaptive = {"spark.sql.adaptive.enabled": "true", "spark.sql.autoBroadcastJoinThreshold": "-1"}

    def hashes(given: dict[str, str]) -> bool:
        with hold_settings(spark, {**shown, **adaptive, **given}):
            session = open_job_session(spark)
            session.conf.set(*next(iter(shown.items())))
            rows = session.range(1000).withColumnRenamed("id", "key")
            joined: Any = rows.join(session.range(10).withColumnRenamed("id", "key"), on="key", how="left_outer")
            joined.collect()
            plan = str(joined._jdf.queryExecution().executedPlan().toString())
        final, _ = plan.split("Initial Plan", maxsplit=1)
        assert ("ShuffledHashJoin" in final) != ("SortMergeJoin" in final)
        return "ShuffledHashJoin" in final

    assert hashes({})
    assert not hashes(dict.fromkeys(HASHED, "1"))
    assert not hashes({"spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "0"})
