import runpy
import shutil
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from enrich.base.errors import EnvironmentFault
from enrich.spark.jars import find_delta_jars
from enrich.spark.logstore import CONDITIONAL, JAR, find_log_store_jars, require_exclusive_commits
from kit.project import ROOT


def session(**settings: str) -> Any:
    """Return what has the settings of a session."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return SimpleNamespace(conf=SimpleNamespace(get=named.get))


SAFE = session(spark__delta__logStore__s3a__impl="io.delta.storage.S3DynamoDBLogStore")


@pytest.mark.parametrize(
    "settings",
    [
        session(),
        session(spark__delta__logStore__s3a__impl="io.delta.storage.S3SingleDriverLogStore"),
        session(spark__delta__logStore__class="org.apache.spark.sql.delta.storage.S3SingleDriverLogStore"),
    ],
)
def test_a_target_in_s3_is_refused_where_two_drivers_could_overwrite_each_other(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    with pytest.raises(EnvironmentFault, match=rf"`spark\.delta\.logStore\.s3a\.impl: {CONDITIONAL}`"):
        require_exclusive_commits("s3a://bucket/lake/t", settings)
    require_exclusive_commits("/lake/t", settings)
    require_exclusive_commits("abfss://box@account/lake/t", settings)


def test_a_log_store_for_several_drivers_and_databricks_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    require_exclusive_commits("s3a://bucket/lake/t", SAFE)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    require_exclusive_commits("s3a://bucket/lake/t", session())


class Jvm:
    """What is asked of a JVM: which classes it has, and what Hadoop's S3A can do."""

    def __init__(self, *missing: str) -> None:
        self.missing = missing

    def __getattr__(self, name: str) -> Any:
        if name == "hasPathCapability":
            return lambda *_: name not in self.missing
        if name == "getVersion":
            return lambda: "3.4.1"
        return self if name not in self.missing else fail

    def __call__(self, *_: object) -> Any:
        return self


def fail(*_: object) -> None:
    raise RuntimeError


@pytest.mark.parametrize(
    ("jvm", "message"),
    [
        (Jvm("classForName"), rf"does not have {CONDITIONAL}; start it with spark-submit --jars /.*\.jar"),
        (Jvm("getFileSystem"), "cannot reach s3a://bucket/lake/t"),
        (Jvm("hasPathCapability"), r"hadoop-aws 3\.4\.1 has no conditional writes"),
    ],
)
def test_our_log_store_is_refused_where_it_cannot_work(jvm: Jvm, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    own = session(spark__delta__logStore__s3a__impl=CONDITIONAL)
    own._jvm, own._jsparkSession = jvm, jvm
    with pytest.raises(EnvironmentFault, match=message):
        require_exclusive_commits("s3a://bucket/lake/t", own)
    own._jvm = own._jsparkSession = Jvm()
    assert require_exclusive_commits("s3a://bucket/lake/t", own)


def test_a_session_gets_the_jar_of_our_log_store_where_a_setting_names_it() -> None:
    assert find_log_store_jars({"spark.delta.logStore.s3a.impl": CONDITIONAL}) == (JAR,)
    assert find_log_store_jars({"spark.delta.logStore.s3a.impl": "another"}) == ()


def test_the_jar_is_what_its_source_gives(tmp_path: Path) -> None:
    javac = shutil.which("javac")
    told = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False).stdout if javac else ""
    if not told.startswith("javac 17."):
        pytest.skip(f"NOT TESTED: needs the compiler of Java 17, there is {told.strip() or 'none'}")
    if not find_delta_jars(fetch=False):
        pytest.skip("NOT TESTED: needs the Delta jars, which `make jars` fetches")
    build = runpy.run_path(str(ROOT / "packaging" / "build-logstore"))["build"]
    build(tmp_path / "new.jar")
    with zipfile.ZipFile(tmp_path / "new.jar") as new, zipfile.ZipFile(JAR) as old:
        assert new.namelist() == old.namelist() == [f"{CONDITIONAL.replace('.', '/')}.class"]
        assert new.read(new.namelist()[0]) == old.read(old.namelist()[0])
