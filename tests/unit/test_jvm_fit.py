"""The JVM that fits the work: which settings for how many bytes, and which class-data archive is trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from enrich import load_project
from enrich.base.result import Extent
from enrich.delta import extents
from enrich.operations.workplace import Workplace
from enrich.progress.plan import Options
from enrich.spark import ADAPTIVE_BY_CHANGE, archive, fit, session
from enrich.spark.fit import Fit, choose_fit, choose_hashed

SMALL, MEDIUM = fit.INTERPRETED - 1, fit.QUICKLY_COMPILED - 1


@pytest.fixture(autouse=True)
def no_outside_options(monkeypatch):
    for name in fit._FROM_OUTSIDE:
        monkeypatch.delenv(name, raising=False)


def conf(size: int | None, master: str = "local[2]") -> dict[str, str]:
    return dict(choose_fit(size, master, None).conf)


def test_a_small_run_is_interpreted_and_compiled_quickly():
    assert conf(SMALL)["spark.sql.codegen.wholeStage"] == "false"
    assert conf(SMALL)["spark.sql.adaptive.enabled"] == "false"
    assert conf(SMALL)["spark.sql.shuffle.partitions"] == conf(SMALL)["spark.sql.leafNodeDefaultParallelism"] == "1"
    assert conf(SMALL)["spark.buffer.pageSize"] == "1m"
    assert "-XX:TieredStopAtLevel=1" in choose_fit(SMALL, "local[2]", None).options


def test_a_medium_run_compiles_its_queries():
    pages = {"spark.buffer.pageSize": "1m"}
    assert conf(MEDIUM) == {"spark.sql.shuffle.partitions": "4", ADAPTIVE_BY_CHANGE: "true", **pages}
    assert conf(MEDIUM, "local[16]")["spark.sql.shuffle.partitions"] == "16"
    assert "-XX:TieredStopAtLevel=1" in choose_fit(MEDIUM, "local[2]", None).options


@pytest.mark.parametrize("size", [None, fit.QUICKLY_COMPILED])
def test_a_large_run_and_one_of_unknown_size_are_compiled_well_and_collected_in_parallel(size):
    expected = {"spark.sql.shuffle.partitions": "48", ADAPTIVE_BY_CHANGE: "true"}
    assert choose_fit(size, "local[16]", None) == Fit((*fit.COMPILED_LATE, "-XX:+UseParallelGC"), expected)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    job = "job: j\nsources: {a: {table: source, key: k}}\nfrom: a\nselect: {k: a.k}\ntarget: {table: target}\n"
    for name, text in {"jobs/j.yml": job, "conf/dev.yml": "lake: ./lake\n"}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("size", "by_changes", "asked", "missing", "counted"),
    [
        (SMALL, True, Options(), False, SMALL),
        (MEDIUM, True, Options(), False, MEDIUM),
        (2**30, True, Options(), False, MEDIUM),  # the first compiler costs less
        (2**36, True, Options(), False, 2**32),
        (2**30, True, Options(full_refresh=True), False, 2**30),
        (2**30, True, Options(), True, 2**30),  # a first run
        (2**30, False, Options(), False, 2**30),  # verify reads everything
    ],
)
def test_a_run_by_changes_of_large_tables_counts_as_a_smaller_one(  # noqa: PLR0917
    large: Path, monkeypatch, size: int, by_changes: bool, asked: Options, missing: bool, counted: int
):
    sizes = {"source": size - 1, "target": 1} if not missing else {"source": size}
    found = {str(large / "lake" / name): Extent(1, each) for name, each in sizes.items()}
    monkeypatch.setattr(extents, "measure_table", lambda uri: found.get(uri, Extent()))
    place = Workplace(load_project(large), ["j"], asked, by_changes=by_changes)
    assert place._measure_tables() == counted


@pytest.mark.parametrize(("memory", "cores", "partition"), [(32, 2, 64), (2, 2, 16), (2, 8, 4), (8, 16, 8)])
def test_what_is_hashed_fits_often_into_each_cores_part_of_the_memory(memory, cores, partition):
    assert choose_hashed(memory * 2**30, cores) == partition * 2**20


def test_a_configuration_that_says_itself_what_is_hashed_keeps_it():
    chosen = session._choose_context_settings("local[2]", {}, (), heap=2**30)
    assert {chosen[key] for key in fit.HASHED} == {str(8 * 2**20)}
    for key in fit.HASHED:
        chosen = session._choose_context_settings("local[2]", {key: "0"}, (), heap=2**30)
        assert {each: chosen.get(each) for each in fit.HASHED} == {**dict.fromkeys(fit.HASHED), key: "0"}


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "local-cluster[2,1,1024]", None])
def test_a_cluster_keeps_what_it_is_configured_to(master):
    assert choose_fit(SMALL, master, None) == Fit((), {})


@pytest.mark.parametrize("given", ["-XX:+UseG1GC", "-Xmx1g -XX:+UseZGC"])
def test_the_jvm_gets_one_collector_only(given, monkeypatch):
    assert "-XX:+UseSerialGC" in choose_fit(SMALL, "local", None).options
    assert "-XX:+UseSerialGC" not in choose_fit(SMALL, "local", given).options
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", given)
    assert "-XX:+UseSerialGC" not in choose_fit(SMALL, "local", None).options
    assert choose_fit(None, "local", None).options == fit.COMPILED_LATE


@pytest.mark.parametrize("name", ["_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"])
def test_a_collector_may_be_named_wherever_the_jvm_looks(name, monkeypatch):
    assert choose_fit(None, "local", None).options == (*fit.COMPILED_LATE, "-XX:+UseParallelGC")
    monkeypatch.setenv(name, "-XX:+UseZGC")
    assert choose_fit(None, "local", None).options == fit.COMPILED_LATE


@pytest.mark.parametrize(("memory", "chosen"), [(2, "2048m"), (8, "2048m"), (16, "4096m"), (64, "8192m")])
def test_a_quarter_of_the_memory_between_two_and_eight_gigabytes(memory, chosen, monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": memory * 2**18}.get)
    monkeypatch.setattr(fit, "_list_limits", lambda _: [])
    assert fit.choose_memory() == chosen


@pytest.fixture
def groups(monkeypatch, tmp_path):
    """Return a function that puts this process into control groups, and gives their files."""

    def put(own: str, files: dict[str, str]) -> None:
        (tmp_path / "own").write_text(own)
        monkeypatch.setattr(fit, "_OWN_GROUPS", tmp_path / "own")
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        monkeypatch.setattr(fit, "_GROUPS", root)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    return put


@pytest.mark.parametrize(
    ("own", "file"),
    [
        ("0::/\n", "memory.max"),
        ("0::/user.slice/run.scope\n", "user.slice/memory.max"),
        ("4:memory:/\n0::/\n", "memory.max"),
    ],
)
def test_the_memory_of_a_control_group_counts(own, file, groups, monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 64 * 2**18}.get)
    groups(own, {file: f"{12 * 2**30}\n"})
    assert fit.choose_memory() == "3072m"
    groups(own, {file: "max\n"})
    assert fit.choose_memory() == "8192m"


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("0::/\n", {"cpu.max": "50000 100000\n"}),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "100000 100000\n"}),
    ],
)
def test_the_processors_of_a_control_group_count(own, files, groups, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    groups(own, files)
    assert fit.count_cores("local[*]") == 1
    groups(own, {"cpu.max": "max 100000\n"})
    assert fit.count_cores("local[*]") == 64


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("local[0]", 1)])
def test_the_cores_of_a_local_master(master, cores):
    assert fit.count_cores(master) == cores
    assert fit.count_cores("local[*]") >= 1


@pytest.fixture
def archived(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An archive as a JVM leaves it."""
    file = tmp_path / "a.jsa"
    file.write_bytes(archive._MAGIC + b"classes")
    file.chmod(0o444)
    monkeypatch.setattr(archive, "_name_archive", lambda _: file)
    return file


def test_an_archive_that_is_whole_and_ours_is_used(archived):
    assert archive.find_archive(()) == archived


@pytest.mark.parametrize("what", ["absent", "cut", "empty", "writable by the group", "of somebody else"])
def test_any_other_archive_is_left_alone(archived, what, monkeypatch):
    archived.chmod(0o644)
    if what == "absent":
        archived.unlink()
    elif what in ("cut", "empty"):
        archived.write_bytes(b"\0" * 100 if what == "cut" else b"")
    elif what == "writable by the group":
        archived.chmod(0o664)
    else:
        monkeypatch.setattr("enrich.spark.archive.os.geteuid", lambda: os.getuid() + 1)
    assert archive.find_archive(()) is None


def test_an_archive_that_cannot_be_made_costs_only_time(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(archive, "find_delta_jars", lambda: ())
    monkeypatch.setattr(archive, "_name_archive", lambda _: tmp_path / "classes" / "a.jsa")
    monkeypatch.setattr("enrich.spark.archive.sys.executable", "/bin/false")
    assert archive.build_archive() is None
    assert "runs work without" in caplog.text
    assert list((tmp_path / "classes").iterdir()) == []


def test_a_name_tells_which_java_and_which_jars(monkeypatch, tmp_path):
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for jar in jars:
        jar.write_text("x")
    java = tmp_path / "java"
    java.write_text("x")
    monkeypatch.setattr(archive, "require_java", lambda: java)
    names = {archive._name_archive(jars).name, archive._name_archive(jars[:1]).name}
    os.utime(java, (1, 1))
    assert len({*names, archive._name_archive(jars).name}) == 3
