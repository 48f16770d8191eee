"""The jar cache, the Java check, the launch settings: no JVM. Resolver and Java are scripts on PATH."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import enrich
from enrich.base import files
from enrich.base.errors import EnvironmentFault
from enrich.project.models import Spark
from enrich.spark import __main__ as ahead
from enrich.spark import jars, session
from enrich.spark.jars import Release, condense, find_delta_jars
from kit.project import CONF, CUSTOMERS, write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELEASE = Release.installed()


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_java(directory: Path, version: str) -> Path:
    return script(directory / "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch, tmp_path):
    for name in ("ENRICH_JARS", "JAVA_HOME", "SPARK_HOME", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ENRICH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'bin', '17.0.15').parent}:/usr/bin:/bin")


SMALL = {name: hashlib.sha256(f"{name} v1\n".encode()).hexdigest() for name in RELEASE.names}
"""The digests of the resolver's jars."""


@pytest.fixture
def resolver(monkeypatch, tmp_path):
    """A Spark whose launcher 'resolves' five small jars, counts its calls and keeps its arguments."""
    home = tmp_path / "spark"
    monkeypatch.setattr(jars, "find_spark_home", lambda: home)
    monkeypatch.setattr(jars, "DIGESTS", SMALL)
    calls = tmp_path / "calls"
    make = "\n".join(f'echo "{name} v1" > "$ivy/jars/io.delta_{name}"' for name in RELEASE.names)
    script(
        home / "bin" / "spark-submit",
        f"""echo "$@" >> {calls}
for word in "$@"; do case "$word" in spark.jars.ivy=*) ivy="${{word#spark.jars.ivy=}}";; esac; done
mkdir -p "$ivy/jars"
{make}""",
    )
    return SimpleNamespace(
        launcher=home / "bin" / "spark-submit", calls=lambda: calls.read_text().splitlines() if calls.exists() else []
    )


def cached() -> Path:
    return jars.find_cache_directory() / "jars" / RELEASE.folder


# --- the cache -------------------------------------------------------------------------------------------------------


def test_the_first_call_resolves_and_the_second_does_not(resolver):
    first = find_delta_jars()
    second = find_delta_jars()
    assert first == second
    assert [jar.name for jar in first] == list(RELEASE.names)
    assert all(jar.is_absolute() and jar.read_text().startswith(jar.name) for jar in first)
    assert len(resolver.calls()) == 1


def test_only_the_coordinate_and_its_exclusions_are_asked_for(resolver):
    find_delta_jars(conf={"spark.jars.repositories": "mirror", "spark.hadoop.fs.s3a.secret.key": "canary"})
    (call,) = resolver.calls()
    assert f"--packages {RELEASE.coordinate} --exclude-packages {jars.OTHERS}" in call
    assert "spark.jars.repositories=mirror" in call
    assert "canary" not in call


def test_the_cache_is_keyed_by_delta_spark_and_scala():
    assert Release("4.1", "4.4.0").folder == "delta-4.4.0-spark-4.1-scala-2.13"
    assert Release("4.1", "4.4.0").coordinate == "io.delta:delta-spark_4.1_2.13:4.4.0"


@pytest.mark.parametrize("damage", ["truncate", "remove", "alter"])
def test_a_damaged_cache_is_fetched_again(resolver, damage):
    jar = find_delta_jars()[2]
    if damage == "truncate":
        os.truncate(jar, 5)
    elif damage == "remove":
        jar.unlink()
    else:
        jar.write_text(jar.read_text().replace("v1", "v2"))
    again = find_delta_jars()
    assert again[2].read_text().strip() == f"{jar.name} v1"
    assert len(resolver.calls()) == 2


def test_a_cache_that_vouches_for_itself_is_not_believed(resolver):
    jar = find_delta_jars()[0]
    jar.write_text(f"{jar.name} v2\n")
    sums = [f"{hashlib.sha256((cached() / name).read_bytes()).hexdigest()}  {name}" for name in RELEASE.names]
    (cached() / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    assert find_delta_jars()[0].read_text() == f"{jar.name} v1\n"


def test_nothing_but_the_jars_is_left_in_the_cache(resolver):
    find_delta_jars()
    assert [path.name for path in cached().parent.iterdir()] == [RELEASE.folder]
    assert {path.name for path in cached().iterdir()} == set(RELEASE.names)


def test_the_digests_of_every_release_that_works_are_shipped():
    assert set(jars.DIGESTS) == {name for pair in jars.PAIRS for name in Release(*pair).names}
    assert (RELEASE.spark, RELEASE.delta) in jars.PAIRS


@pytest.mark.parametrize(("spark", "minor"), [("4.0.1", "4.0"), ("4.1.4", "4.1"), ("4.2.0", "4.2")])
def test_the_installed_pyspark_decides_which_jars_are_taken(monkeypatch, spark, minor):
    monkeypatch.setattr(jars, "version", {"pyspark": spark, "delta-spark": "4.4.0"}.__getitem__)
    assert Release.installed() == Release(minor, "4.4.0")


def test_releases_that_were_not_tried_together_are_refused(monkeypatch):
    monkeypatch.setattr(jars, "version", {"pyspark": "4.3.0", "delta-spark": "4.4.0"}.__getitem__)
    said = fault(Release.installed)
    assert "pyspark 4.3.0 and delta-spark 4.4.0 are installed" in said
    assert "pyspark 4.0 with delta-spark 4.4.0 or pyspark 4.1 with delta-spark 4.4.0" in said
    assert "enrich-delta[spark]" in said


@pytest.mark.parametrize("missing", ["pyspark", "delta-spark"])
def test_the_jars_of_what_is_not_installed_ask_for_the_extra(monkeypatch, missing):
    def read(name: str) -> str:
        if name == missing:
            raise PackageNotFoundError(name)
        return {"pyspark": "4.1.4", "delta-spark": "4.4.0"}[name]

    monkeypatch.setattr(jars, "version", read)
    assert "run `pip install 'enrich-delta[spark]'`" in fault(Release.installed)


@pytest.mark.parametrize("known", [{}, {**SMALL, RELEASE.names[1]: SMALL[RELEASE.names[0]]}])
def test_a_jar_that_is_not_the_released_one_is_refused_and_not_kept(resolver, monkeypatch, known):
    monkeypatch.setattr(jars, "DIGESTS", known)
    assert "is not what was released" in fault(find_delta_jars)
    assert list(cached().parent.iterdir()) == []


def test_eight_processes_at_once_all_get_whole_jars(resolver):
    """Each one is a process of its own; the launcher is slow, so that they overlap."""
    resolver.launcher.write_text(resolver.launcher.read_text() + "\nsleep 0.3\n")
    code = (
        "import sys; from pathlib import Path; from enrich.spark import jars;"
        f"jars.find_spark_home = lambda: Path({str(resolver.launcher.parent.parent)!r}); jars.DIGESTS = {SMALL!r};"
        "print([jar.read_text() for jar in jars.find_delta_jars()])"
    )

    def start(_: int) -> str:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    with ThreadPoolExecutor(8) as pool:
        said = set(pool.map(start, range(8)))
    assert said == {f"{[f'{name} v1' + chr(10) for name in RELEASE.names]}\n"}
    assert [path.name for path in cached().parent.iterdir()] == [RELEASE.folder]


def test_the_cache_lies_below_xdg_or_home_without_a_name_of_its_own(monkeypatch):
    monkeypatch.delenv("ENRICH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert jars.find_cache_directory() == Path("/x/cache/enrich")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert jars.find_cache_directory() == Path("/home/somebody/.cache/enrich")


# --- what can be missing ---------------------------------------------------------------------------------------------


def fault(call) -> str:
    """Return the message of the one-line fault that ``call`` ends with."""
    with pytest.raises(EnvironmentFault) as caught:
        call()
    message = str(caught.value)
    assert caught.value.exit_code == 7
    assert caught.value.hint
    assert "\n" not in message
    assert "://" not in message
    return message


def test_unreachable_jars_give_one_line_without_addresses(resolver):
    noise = "\n".join(f"echo ':: noise {n} https://repo.example/x'" for n in range(40))
    script(
        resolver.launcher,
        noise + '\necho \'Exception in thread "main" java.lang.RuntimeException: '
        "[unresolved dependency: io.delta#delta-spark: not found at https://repo.example/y]' >&2; exit 1",
    )
    said = fault(find_delta_jars)
    assert "unresolved dependency: io.delta#delta-spark: not found at <address>" in said
    assert "noise" not in said
    assert "ENRICH_JARS" in said
    assert list(cached().parent.iterdir()) == []


def test_a_resolver_that_brings_too_little_is_named(resolver):
    script(resolver.launcher, resolver.launcher.read_text().replace("#!/bin/sh\n", "") + '\nrm "$ivy"/jars/*storage*')
    assert f"lacks delta-storage-{RELEASE.delta}.jar" in fault(find_delta_jars)
    assert not cached().exists()


def test_a_resolver_that_never_ends_is_given_up(resolver, monkeypatch):
    script(resolver.launcher, "exec sleep 60")
    monkeypatch.setattr(jars, "PATIENCE", 0.2)
    assert "it took longer than 0.2 s" in fault(find_delta_jars)


def test_a_cache_that_cannot_be_written_is_named(resolver, tmp_path):
    (tmp_path / "cache").write_text("a file where the directory should be")
    assert "set ENRICH_CACHE" in fault(find_delta_jars)
    assert resolver.calls() == []


def test_no_home_is_named(monkeypatch):
    monkeypatch.delenv("ENRICH_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert "ENRICH_CACHE" in fault(find_delta_jars)


@pytest.mark.parametrize("prefix", ["", "io.delta_"])
def test_a_configured_directory_is_used_without_resolver_and_cache(resolver, tmp_path, prefix):
    for name in RELEASE.names:
        (tmp_path / f"{prefix}{name}").write_text("x")
    found = find_delta_jars(str(tmp_path))
    assert [jar.parent for jar in found] == [tmp_path] * 5
    assert resolver.calls() == []
    assert not cached().exists()


def test_the_environment_names_the_directory_over_the_configuration(monkeypatch, tmp_path):
    for name in RELEASE.names:
        (tmp_path / name).write_text("x")
    monkeypatch.setenv("ENRICH_JARS", str(tmp_path))
    assert find_delta_jars("/nowhere")[0].parent == tmp_path


def test_a_configured_directory_that_lacks_jars_names_them_all(resolver, tmp_path):
    for name in RELEASE.names[:3]:
        (tmp_path / name).write_text("x")
    said = fault(lambda: find_delta_jars(str(tmp_path)))
    assert all(name in said for name in RELEASE.names[3:])
    assert not any(name in said for name in RELEASE.names[:3])
    assert resolver.calls() == []


def test_the_module_fills_the_cache_and_exits_7_when_it_cannot(monkeypatch, tmp_path, resolver, caplog):
    monkeypatch.setattr(ahead, "build_archive", lambda: None)
    assert ahead.main() == 0
    monkeypatch.setenv("ENRICH_JARS", str(tmp_path / "none"))
    assert ahead.main() == 7
    assert "lacks" in caplog.text


# --- Java ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2", "17", "21-ea"])
def test_java_17_and_21_are_taken(tmp_path, version):
    assert jars.require_java() == fake_java(tmp_path / "bin", version)


@pytest.mark.parametrize(("version", "major"), [("1.8.0_412", 8), ("11.0.22", 11), ("18.0.1", 18), ("25.0.1", 25)])
def test_other_versions_are_refused_with_both_numbers(tmp_path, version, major):
    fake_java(tmp_path / "bin", version)
    said = fault(jars.require_java)
    assert f"is Java {major}" in said
    assert "17 or 21" in said


def test_no_java_at_all(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "no Java found" in fault(jars.require_java)


def test_java_home_is_used_and_not_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    said = fault(jars.require_java)  # Spark would not look at PATH either
    assert "JAVA_HOME" in said
    assert str(tmp_path / "jdk") in said
    fake_java(tmp_path / "jdk" / "bin", "11.0.1")
    assert "is Java 11" in fault(jars.require_java)
    fake_java(tmp_path / "jdk" / "bin", "21.0.1")
    assert jars.require_java() == tmp_path / "jdk" / "bin" / "java"


def test_the_release_file_spares_the_process(monkeypatch, tmp_path):
    script(tmp_path / "jdk" / "bin" / "java", "exit 1")
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="Somebody"\nJAVA_VERSION="17.0.9"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    jars.require_java()


@pytest.mark.parametrize("body", ["exit 1", "echo no version here", "kill -9 $$"])
def test_a_java_that_does_not_work_is_named(tmp_path, body):
    broken = script(tmp_path / "bin" / "java", body)
    assert str(broken) in fault(jars.require_java)


# --- Spark's own settings --------------------------------------------------------------------------------------------


def test_a_spark_home_of_another_version_is_refused(monkeypatch, tmp_path):
    (tmp_path / "spark-3" / "jars").mkdir(parents=True)
    (tmp_path / "spark-3" / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark-3"))
    said = fault(jars.find_spark_home)
    assert "spark-core_2.13-3.5.1.jar" in said
    assert "unset SPARK_HOME" in said


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({"SPARK_REMOTE": "sc://localhost"}, Spark(master=None, conf={})),
        ({"SPARK_API_MODE": "connect"}, Spark(master=None, conf={})),
        ({}, Spark(master="sc://localhost", conf={})),
        ({}, Spark(master=None, conf={"spark.remote": "sc://localhost"})),
        ({}, Spark(master=None, conf={"spark.api.mode": "connect"})),
    ],
)
def test_spark_connect_is_refused_by_name(monkeypatch, environment, settings):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert "Spark Connect" in fault(lambda: session.get_session(settings))


class Remote:
    """A stand-in for a session of Spark Connect: the real class needs grpcio. It has nothing of a JVM."""

    __module__ = "pyspark.sql.connect.session"


def test_a_given_session_of_spark_connect_is_refused_before_it_is_used(tmp_path: Path) -> None:
    home = write_project(tmp_path / "shop", {"conf/dev.yml": CONF, "jobs/customers.yml": CUSTOMERS})
    for name in ("consents", "accounts"):
        write_deltalake(home / "lake" / name, pa.table({"id": ["a"], "ok": [True], "email": ["a@example.com"]}))
        DeltaTable(home / "lake" / name).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    project, remote = enrich.load_project(home), cast("SparkSession", Remote())
    (job,) = enrich.run(project, spark=remote).jobs
    assert (job.status, job.exit_code) == ("failed", 7)
    assert job.error is not None
    assert "the given session asks for Spark Connect" in job.error
    (tmp_path / "dump.csv").write_text("id,email\nb,b@example.com\n")
    with pytest.raises(EnvironmentFault, match="the given session asks for Spark Connect"):
        enrich.load(project, "accounts", [str(tmp_path / "dump.csv")], key=["id"], spark=remote)


SECRETS = ("hadoop.fs.s3a.secret.key", "ssl.keyPassword", "executorEnv.TOKEN", "authenticate.secret", "redis.auth")


def test_secrets_stay_off_the_command_line(tmp_path):
    conf = {f"spark.{name}": "canary" for name in SECRETS} | {"spark.driver.memory": "2g"}
    settings = session._choose_launch_settings("local[2]", conf, (tmp_path / "a.jar", tmp_path / "b.jar"))
    assert "canary" not in str(settings)
    assert settings["spark.driver.memory"] == "2g"
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.driver.extraClassPath"] == f"{tmp_path}/a.jar:{tmp_path}/b.jar"


def test_configured_jvm_options_and_class_path_come_after_ours(tmp_path):
    conf = {"spark.driver.extraJavaOptions": "-Xss4m", "spark.driver.extraClassPath": "/x/y.jar"}
    settings = session._choose_launch_settings(None, conf, (tmp_path / "a.jar",))
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Xss4m")
    assert settings["spark.driver.extraJavaOptions"].startswith("-Xss4m -Duser.timezone=UTC ")
    assert settings["spark.driver.extraClassPath"] == f"{tmp_path}/a.jar:/x/y.jar"
    assert "spark.master" not in settings


@pytest.mark.parametrize("master", ["spark://somewhere:7077", "yarn", "local-cluster[1,1,1024]"])
def test_executors_that_are_processes_get_the_jars(tmp_path, master):
    jar = tmp_path / "a b.jar"
    settings = session._choose_context_settings(master, {"spark.jars": "s3a://x/y.jar"}, (jar,))
    assert settings["spark.jars"] == f"{jar.as_uri()},s3a://x/y.jar"
    assert "spark.driver.host" not in settings


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]"])
def test_threads_of_one_process_need_no_copies_and_no_network(tmp_path, master):
    settings = session._choose_context_settings(master, {}, (tmp_path / "a.jar",))
    assert "spark.jars" not in settings
    assert settings["spark.master"] == master


def test_extensions_of_others_are_kept():
    conf = {"spark.sql.extensions": "org.example.Extension"}
    assert session._choose_context_settings("local", conf, ())["spark.sql.extensions"] == (
        f"{session.EXTENSION},org.example.Extension"
    )


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", "it printed nothing"),
        (
            "Error: Could not create the Java Virtual Machine.\nInvalid maximum heap size: -Xmx2x\n",
            "Invalid maximum heap size: -Xmx2x",
        ),
        (
            "An error occurred while calling X.\n: org.apache.E: Could not parse Master URL: 'localhost'\n\tat a.b\n",
            "org.apache.E: Could not parse Master URL: 'localhost'",
        ),
        ('Exception in thread "main" java.lang.X: went to http://u:p@h/x\n\tat a.b\n', "went to <address>"),
    ],
)
def test_condensed_output(output, line):
    assert condense(output) == line


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    left, held, other = (tmp_path / name for name in (f"{files.PREFIX}a", f"{files.PREFIX}b", "enrich-1"))
    for directory in (left, held, other):
        (directory / "local").mkdir(parents=True)
    code = (
        "import sys; from pathlib import Path; from enrich.base.files import lock_directory;"
        "lock_directory(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code, str(held)], stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        files.sweep(tmp_path)
        assert (left.exists(), held.exists(), other.exists()) == (False, True, True)
        holder.kill()
    files.sweep(tmp_path)
    assert (held.exists(), other.exists()) == (False, True)


def test_the_sweep_of_another_process_spares_a_directory_that_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(directory: Path) -> int | None:
        monkeypatch.setattr(files, "lock_directory", kept)
        files.sweep(tmp_path)  # at the worst moment: the directory is there, its lock is not
        return kept(directory)

    kept = files.lock_directory
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(files, "_private", [])
    monkeypatch.setattr(files, "lock_directory", locked)
    mine = files.make_private_directory()
    assert mine.is_dir()
    assert mine.name.startswith(files.PREFIX)
    files.sweep(tmp_path)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("enrich-")] == [mine.name]


def test_the_jvm_is_given_log_settings_that_are_there() -> None:
    """Without them Spark's defaults would print what it thinks worth telling, cell values among it."""
    from urllib.parse import unquote, urlparse

    from enrich.spark.session import _choose_launch_settings

    options = _choose_launch_settings(None, {}, ())["spark.driver.extraJavaOptions"]
    named = options.split("-Dlog4j2.configurationFile=")[1].split('"')[0]
    assert Path(unquote(urlparse(named).path)).is_file()
