"""The session on a real JVM: what is set, what is left alone, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from enrich import session as module
from enrich.config.models import Spark
from enrich.errors import EnvironmentFault
from enrich.session import FORCED, NOT_INHERITED, activated, get_session, job_session

# Hands over the session's facts as lines that start with `=`; anything else on stdout would break `--output json`.
PRELUDE = """
from enrich.config.models import Spark
from enrich.errors import EnvironmentFault
from enrich.session import get_session, job_session

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


def test_a_session_leaves_nothing_where_it_was_started_and_prints_nothing(tmp_path):
    """Warehouse, metastore, Derby's log and artifacts; a task that fails, whose log line would print the value."""
    code = """
        spark = get_session(settings(spark__sql__ansi__enabled="false"))
        assert spark.conf.get("spark.sql.ansi.enabled") == "true"
        assert spark.conf.get("spark.databricks.delta.snapshotPartitions") == "2"
        try:
            spark.createDataFrame([("canary@example.org",)], ["email"]).selectExpr("cast(email as int)").collect()
        except Exception:
            pass
        job_session(spark).range(3).write.format("delta").saveAsTable("t")
        print("=", spark.conf.get("spark.sql.warehouse.dir"), flush=True)
    """
    (tmp_path / "cwd").mkdir()
    (tmp_path / "tmp").mkdir()
    done = python(code, tmp_path / "cwd", TMPDIR=str(tmp_path / "tmp"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("= ")
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
    assert list((tmp_path / "cwd").iterdir()) == []
    assert not list((tmp_path / "tmp").glob("enrich-*"))


def test_configuration_wins_but_for_what_safety_needs_and_a_handler_of_sigint_stays(tmp_path):
    code = """
        import signal
        def mine(*_): pass
        signal.signal(signal.SIGINT, mine)
        spark = get_session(settings(
            spark__sql__shuffle__partitions="7", spark__app__name="mine", spark__ui__enabled="false",
            spark__databricks__delta__snapshotPartitions="3", spark__sql__session__timeZone="Asia/Tokyo",
            spark__sql__files__ignoreMissingFiles="true", spark__driver__extraJavaOptions="-Dx.y=z",
            spark__hadoop__fs__s3a__secret__key="canary"))
        job = job_session(spark)
        for key in ("spark.sql.shuffle.partitions", "spark.app.name", "spark.sql.session.timeZone",
                    "spark.databricks.delta.snapshotPartitions", "spark.sql.files.ignoreMissingFiles"):
            print(spark.conf.get(key), job.conf.get(key))
        print(spark._jvm.java.lang.System.getProperty("x.y"))
        print(spark._jsc.hadoopConfiguration().get("fs.s3a.secret.key"))
        import subprocess
        print("canary" in subprocess.run("ps -C java -ww -o args=".split(), capture_output=True, text=True).stdout)
        print(signal.getsignal(signal.SIGINT) is mine)
    """
    said = python(code, tmp_path)
    assert said.stdout.splitlines() == [
        "7 7",
        "mine mine",
        "UTC UTC",
        "3 3",
        "false false",
        "z",
        "canary",
        "False",
        "True",
    ], said.stderr


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


def test_a_session_without_delta_names_the_two_settings(tmp_path):
    code = """
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        for call in (get_session, lambda: job_session(spark)):
            try:
                call()
            except EnvironmentFault as fault:
                print(fault.exit_code, fault)
    """
    lines = python(code, tmp_path).stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("7 ")
        assert f"spark.sql.extensions={module.EXTENSION}" in line
        assert f"spark.sql.catalog.spark_catalog={module.CATALOG}" in line


def test_a_session_with_the_settings_but_without_the_jars_is_told_apart(tmp_path):
    code = """
        from pyspark.sql import SparkSession
        from enrich.session import CATALOG, EXTENSION
        spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
                 .config("spark.sql.extensions", EXTENSION)
                 .config("spark.sql.catalog.spark_catalog", CATALOG).getOrCreate())
        try:
            get_session()
        except EnvironmentFault as fault:
            print(fault.exit_code, fault)
    """
    said = python(code, tmp_path).stdout
    assert said.startswith("7 ")
    assert "lacks the jars" in said
    assert "--packages io.delta:delta-spark_" in said


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


@pytest.mark.smoke
def test_the_job_session_forces_what_correctness_needs(restored):
    for key, value in FORCED.items():
        wrong = {"true": "false", "false": "true", "UTC": "Asia/Tokyo", "ANSI": "LEGACY"}[value]
        restored.conf.set(key, wrong)
    job = job_session(restored)
    assert {key: job.conf.get(key) for key in FORCED} == FORCED


def test_the_given_session_stays_as_it_was_found(restored):
    restored.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    before = restored.conf.getAll
    job = job_session(restored)
    job.conf.set("spark.sql.shuffle.partitions", "5")
    job.range(1).createOrReplaceTempView("only_there")
    with activated(job):
        job.createDataFrame([(1,)], ["a"]).collect()
    assert restored.conf.getAll == before
    assert restored.catalog.listTables() == []


def test_the_users_session_stays_the_active_one(spark):
    assert SparkSession.getActiveSession() is spark
    job = job_session(spark)
    assert job is not spark
    assert SparkSession.getActiveSession() is spark
    with activated(job):
        assert SparkSession.getActiveSession() is job
        job.createDataFrame([(1,)], ["a"]).collect()
    assert SparkSession.getActiveSession() is spark
    jvm = SparkSession._get_j_spark_session_class(spark._jvm)
    assert jvm.getActiveSession().get().equals(spark._jsparkSession)
    assert SparkSession.builder.getOrCreate() is spark


def test_the_users_session_is_active_again_after_a_failure(spark):
    def fail():
        with activated(job_session(spark)):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert SparkSession.getActiveSession() is spark


def test_settings_made_at_run_time_are_inherited_but_not_those_of_one_write(restored):
    restored.conf.set("fs.azure.account.key.somewhere", "k")
    restored.conf.set("spark.databricks.delta.write.txnAppId", "theirs")
    restored.conf.set("spark.databricks.delta.write.txnVersion", "7")
    restored.conf.set("spark.databricks.delta.commitInfo.userMetadata", "theirs")
    job = job_session(restored)
    assert job.conf.get("fs.azure.account.key.somewhere") == "k"
    assert not [key for key in job.conf.getAll if key.startswith(NOT_INHERITED)]
    assert restored.conf.get("spark.databricks.delta.write.txnAppId") == "theirs"


def test_a_vacuumed_file_fails_instead_of_reading_as_empty(restored, tmp_path):
    """Characterisation: this is what the forced settings are for."""
    restored.range(3).coalesce(1).write.format("delta").save(str(tmp_path / "t"))
    (part,) = (tmp_path / "t").glob("part-*.parquet")
    part.unlink()
    restored.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    assert restored.read.format("delta").load(str(tmp_path / "t")).count() in (0, 3)  # 3: answered from statistics
    assert restored.read.format("delta").load(str(tmp_path / "t")).collect() == []
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|FileNotFound"):
        job_session(restored).read.format("delta").load(str(tmp_path / "t")).collect()


def test_connect_sessions_are_refused_by_name():
    """A stand-in: the real class needs grpcio, which nothing here needs otherwise."""
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(EnvironmentFault, match="Spark Connect"):
        job_session(remote())


# --- the end ---------------------------------------------------------------------------------------------------------


def java_of(parent: int) -> list[int]:
    """Return the Java processes below ``parent``."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [int(pid) for pid, ppid, command in rows if int(ppid) == parent and command == "java"]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the process table of Linux")
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in a job"])
def test_sigkill_of_python_alone_leaves_no_jvm(tmp_path, busy):
    code = f"""
        import time
        spark = get_session(settings())
        print("up", flush=True)
        if {busy}:
            spark.range(10**13).selectExpr("sum(hash(id))").collect()
        time.sleep(600)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "up\n"
        time.sleep(2 if busy else 0)
        (jvm,) = java_of(child.pid)
        child.send_signal(signal.SIGKILL)
        child.wait(10)
        until = time.monotonic() + 20
        while alive(jvm) and time.monotonic() < until:
            time.sleep(0.1)
        assert not alive(jvm)
