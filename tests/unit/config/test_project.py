"""Projects as a whole: what loads, where things are, what contradicts itself between files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from enrich.base.errors import ConfigError
from enrich.base.names import CatalogName
from enrich.base.spec import quote
from enrich.delta import tables
from enrich.project.models import Job, Spark
from enrich.project.project import find_project, load_project
from enrich.project.settings import SCHEMES, locate, resolve_directory
from kit.project import write_project
from unit.config.small_project import CONF, FILES, JOIN, MIRROR, edited, faults_of

Faults = list[tuple[str | None, str]]


def reader_of(name: str, source: str, target: str | None = None, *, more: str = "") -> str:
    """Return the file of a job that reads one table."""
    return (
        f"job: {name}\nsources:\n  s: {{table: {source}, key: id}}\nfrom: s\n"
        f"target: {{table: {target or name}{more}}}\n"
    )


def check(found: Faults, expected: Faults) -> None:
    assert [where for where, _ in found] == [where for where, _ in expected], found
    for (_, message), (_, words) in zip(found, expected, strict=True):
        assert words in message


# --- what loads ---------------------------------------------------------------------------------------------


def test_a_join_job(load) -> None:
    job = load().jobs["orders"]
    assert (job.job, job.kind, job.from_, job.where, job.mirror, job.expectations) == (
        "orders",
        "join",
        "orders",
        None,
        None,
        None,
    )
    assert (job.sources["orders"].key, job.sources["orders"].unique) == (("order_id",), "checked")
    join = job.join["customers"]
    assert (join.kind, join.how, join.on, join.elements, join.element_key) == (
        "foreign_key",
        "left",
        ("orders.customer_id",),
        None,
        None,
    )
    assert (join.duplicates, join.unmatched) == ("keep", "keep")
    assert job.select == {"order_id": "orders.order_id", "customer": "customers.name"}
    assert (job.target.table, job.target.cluster_by, job.target.change_feed) == ("orders_wide", ("order_id",), None)
    assert list(job.join) == ["customers"]


def test_a_mirror_job(load) -> None:
    mirror = load().jobs["mails"].mirror
    assert (mirror.value, mirror.conflict, mirror.order, mirror.columns) == (("mail",), "last", "seen_at", ("note",))


def test_lists_and_defaults(load) -> None:
    text = MIRROR.replace("key: person_id", "key: [a, b.c]").replace("value: mail", "value: [m, n]")
    job = load({"jobs/mails.yml": edited(text, {8: None, 9: None, 10: None})}).jobs["mails"]
    assert job.sources["people"].key == ("a", "b.c")
    assert (job.mirror.value, job.mirror.conflict, job.mirror.order, job.mirror.columns) == (
        ("m", "n"),
        "fail",
        None,
        (),
    )


def test_expressions_are_the_text_as_written(load) -> None:
    edits = {
        10: "  one: 1\n  two: 1.50\n  yes: true\n  no: no\n  time: 12:30\n  more: |\n    a +\n    b",
        8: "where: TRUE\nselect:",
    }
    job = load({"jobs/orders.yml": edited(JOIN, edits)}).jobs["orders"]
    assert job.where == "true"
    assert list(job.select.items())[1:] == [
        ("one", "1"),
        ("two", "1.50"),
        ("yes", "true"),
        ("no", "no"),
        ("time", "12:30"),
        ("more", "a +\nb\n"),
    ]


def test_on_may_be_a_number_or_a_list(load) -> None:
    edits = {
        4: "  customers: {table: customers, key: [a, b]}",
        7: "  customers: {kind: foreign_key, on: [orders.a, 1]}",
    }
    assert load({"jobs/orders.yml": edited(JOIN, edits)}).jobs["orders"].join["customers"].on == ("orders.a", "1")


def test_every_kind_of_join_in_one_job(load) -> None:
    text = """\
job: orders
sources:
  orders: {table: a, key: id, unique: trusted}
  other: {table: a, key: id}
  customers: {table: b, key: [x, y]}
  tags: {table: c, key: t}
from: orders
join:
  other: {kind: table, how: inner}
  customers: {kind: foreign_key, on: [orders.x, other.y], how: full}
  tags: {kind: list, elements: orders.tags, element_key: id, duplicates: drop, unmatched: drop}
target: {table: /tables/orders, change_feed: true}
"""
    job = load({"jobs/orders.yml": text}).jobs["orders"]
    assert list(job.join) == ["other", "customers", "tags"]
    assert (job.join["tags"].element_key, job.join["tags"].duplicates, job.join["tags"].unmatched) == (
        "id",
        "drop",
        "drop",
    )
    assert (job.select, job.target.change_feed, job.sources["orders"].unique) == (None, True, "trusted")


def test_join_may_be_left_out_or_empty(load) -> None:
    assert load({"jobs/x.yml": reader_of("x", "t")}).jobs["x"].join == {}
    assert load({"jobs/x.yml": reader_of("x", "t") + "join: {}\n"}).jobs["x"].join == {}


def test_lines_of_a_job(load) -> None:
    job = load().jobs["orders"]
    assert job.file == "jobs/orders.yml"
    assert job.at("join", "customers", "on") == "jobs/orders.yml:7"
    assert job.at("select", "customer") == "jobs/orders.yml:10"
    assert job.at("where") == "jobs/orders.yml:1"
    made = Job(job="x", sources={}, from_="a", target={"table": "t"})
    assert (made.file, made.at("from")) == ("jobs/x.yml", "jobs/x.yml")


def test_models_are_frozen(load) -> None:
    job = load().jobs["orders"]
    with pytest.raises(ValueError, match="frozen"):
        job.where = "x"


def test_spark_settings_become_text(load) -> None:
    conf = "lake: ./l\nspark:\n  conf: {a: true, b: FALSE, c: 1, d: 1.10, e: 0x10, f: '', g: no}\n"
    spark = load({"conf/dev.yml": conf}).settings.spark
    assert spark.conf == {"a": "true", "b": "false", "c": "1", "d": "1.10", "e": "0x10", "f": "", "g": "no"}
    assert spark.master is None
    assert load({"conf/dev.yml": "lake: ./l\n"}).settings.spark == Spark()


# --- places -------------------------------------------------------------------------------------------------


def test_locations_below_a_lake(load, tmp_path: Path) -> None:
    project = load()
    assert project.state == f"{tmp_path}/lake/_enrich"
    assert project.location("accounts") == f"{tmp_path}/lake/accounts"
    assert project.location("./x/./y/") == f"{tmp_path}/x/y"
    assert project.location("/x//y") == "/x/y"
    assert project.location("file:///x/y") == "/x/y"
    assert project.location("file:/x/y") == "/x/y"
    assert project.location("S3A://bucket//x/") == "s3a://bucket/x"
    assert project.location("abfss://c@account.dfs.core.windows.net/x") == "abfss://c@account.dfs.core.windows.net/x"
    assert project.location("main.crm.accounts") == CatalogName(("main", "crm", "accounts"))
    assert project.location("crm.accounts") == CatalogName(("crm", "accounts"))


@pytest.mark.parametrize(
    ("lake", "accounts", "state"),
    [
        ("lake", "{dir}/lake/accounts", "{dir}/lake/_enrich"),
        ("../lake", "{parent}/lake/accounts", "{parent}/lake/_enrich"),
        (".", "{dir}/accounts", "{dir}/_enrich"),
        ("/l/", "/l/accounts", "/l/_enrich"),
        ("file:///l", "/l/accounts", "/l/_enrich"),
        ("s3a://bucket/l/", "s3a://bucket/l/accounts", "s3a://bucket/l/_enrich"),
        ("s3a://bucket", "s3a://bucket/accounts", "s3a://bucket/_enrich"),
    ],
)
def test_lakes(load, tmp_path: Path, lake: str, accounts: str, state: str) -> None:
    project = load({"conf/dev.yml": f"lake: {lake}\n"})
    names = {"dir": tmp_path, "parent": tmp_path.parent}
    assert (project.location("accounts"), project.state) == (accounts.format(**names), state.format(**names))


def test_a_catalog(load, tmp_path: Path) -> None:
    project = load({"conf/dev.yml": "catalog: main.silver\nstate: ./state\n"})
    assert project.location("accounts") == CatalogName(("main", "silver", "accounts"))
    assert (project.state, project.lake) == (f"{tmp_path}/state", None)
    name = CatalogName(("main", "sil`ver", "t"))
    assert (str(name), quote(*name.parts)) == ("main.sil`ver.t", "`main`.`sil``ver`.`t`")


def test_an_unknown_reference_raises(load) -> None:
    with pytest.raises(ConfigError, match=r"must not contain '\.\.'"):
        load().location("../x")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_known_scheme_locates(scheme: str) -> None:
    expected = "/x" if scheme == "file" else f"{scheme}://b/x"
    uri = "file:///x" if scheme == "file" else expected
    assert locate(uri, Path("/p"), None, None) == expected
    assert resolve_directory(uri, Path("/p")) == expected


# --- finding and reading the directory ----------------------------------------------------------------------


def test_the_nearest_parent_is_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = write_project(tmp_path / "p", dict(FILES))
    (base / "jobs" / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(base / "jobs" / "deep" / "er")
    assert find_project() == base
    assert load_project().dir == base
    monkeypatch.chdir(tmp_path)
    assert load_project("p").dir == base
    with pytest.raises(ConfigError, match=r"no project here.*--project-dir DIR, or run `enrich init`") as caught:
        load_project()
    assert caught.value.exit_code == 2


def test_a_directory_that_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="is not a project: it has no jobs/ and no conf/; run `enrich init "):
        load_project(tmp_path)
    (tmp_path / "jobs").mkdir()
    with pytest.raises(ConfigError, match="is not a project: it has no conf/; write conf/dev"):
        load_project(tmp_path)
    (tmp_path / "jobs").rename(tmp_path / "conf")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="is not a project: it has no jobs/; write jobs/<job>"):
        load_project()
    with pytest.raises(ConfigError, match="is not a project: no such directory"):
        load_project(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_project("a\0b")


def test_hidden_and_foreign_files_are_ignored_and_both_endings_read(load) -> None:
    names = load(
        {
            "jobs/.hidden.yml": "nonsense: [",
            "jobs/dag.py": "nonsense: [",
            "jobs/x.yml~": "nonsense: [",
            "jobs/sub/y.yml": "nonsense: [",
            "jobs/orders.yml": None,
            "jobs/orders.yaml": JOIN,
            "conf/.dev.yml": "nonsense: [",
            "conf/schema/job.schema.json": "{}",
            "conf/prod.yaml": "nonsense: [",
        }
    )
    assert (sorted(names.jobs), names.deployments) == (["mails", "orders"], ("dev", "prod"))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"conf/dev.yml": CONF},
            [("jobs", "there are no job files; `enrich init --from TABLE...` writes one")],
        ),
        ({"jobs/orders.yml": JOIN}, [("conf", "there is no deployment; write conf/dev.yml")]),
        ({**FILES, "jobs/orders.yaml": JOIN}, [("jobs/orders.yml", "jobs/orders.yaml has the same name")]),
        ({**FILES, "conf/dev.yaml": CONF}, [("conf/dev.yml", "conf/dev.yaml has the same name")]),
        ({**FILES, "jobs/x.yml/y": ""}, [("jobs/x.yml", "this is a directory")]),
        ({**FILES, "jobs/x.yml": b"\xff"}, [("jobs/x.yml:1", "not UTF-8")]),
        ({**FILES, "jobs/a\nb.yml": JOIN}, [("'jobs/a\\nb.yml'", "not printable")]),
    ],
)
def test_directories_with_faults(tmp_path: Path, files: dict[str, str | bytes], expected: Faults) -> None:
    check(faults_of(write_project(tmp_path, files)), expected)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("prd", "there is no deployment 'prd'; known: dev, prod; did you mean 'prod'?"),
        ("", "there is no deployment ''; known: dev, prod"),
        ("../conf/dev", "there is no deployment '../conf/dev'; known: dev, prod"),
        ("dev.yml", "there is no deployment 'dev.yml'; known: dev, prod; did you mean 'dev'?"),
    ],
)
def test_unknown_targets(tmp_path: Path, target: str, words: str) -> None:
    base = write_project(tmp_path, {**FILES, "conf/prod.yml": CONF})
    check(faults_of(base, target), [("conf", words)])


# --- conf ---------------------------------------------------------------------------------------------------

UNHEARD_CONF = """lake: ./l
spark:
  conf: {spark.sql.session.timeZone: Asia/Tokyo,
    spark.sql.mapKeyDedupPolicy: LAST_WIN,
    spark.hadoop.fs.s3a.endpoint: x,
    spark.databricks.delta.properties.defaults.appendOnly: true}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spark: {}\n", [(1, "give 'lake' (a directory) or 'catalog'")]),
        ("lake: ./l\ncatalog: main.silver\n", [(2, "either 'lake' or 'catalog', not both")]),
        ("\ncatalog: main.silver\n", [(2, "'catalog' also needs 'state'")]),
        ("catalog: a.b.c\nstate: s\n", [(1, "'catalog': it must be a schema of a catalog")]),
        ("catalog: a-b.`c`\nstate: s\n", [(1, "'catalog': it must be a schema")]),
        ("lake: ./l\nlaek: x\n", [(2, "unknown key 'laek'; did you mean 'lake'?")]),
        ("lake: ./l\nmaster: local\n", [(2, "unknown key 'master'; it belongs in 'spark'")]),
        ("lake: ./l\nspark:\n  config: {}\n", [(3, "unknown key 'config'; did you mean 'conf'?")]),
        ("lake: ./l\nspark:\n  lake: x\n", [(3, "unknown key 'lake'; it belongs in 'the file itself'")]),
        ("lake: ./l\nspark:\n", [(2, "'spark' has no value")]),
        ("lake: ./l\nspark: [a]\n", [(2, "'spark' must be a mapping")]),
        ("lake: ./l\nspark: {conf: {a: [1]}}\n", [(2, "'spark.conf.a' must be text, not a list")]),
        ("lake: ./l\nspark: {conf: {a: }}\n", [(2, "'spark.conf.a' has no value")]),
        ("lake: ./l\nspark: {master: 4}\n", [(2, "'spark.master' must be text, not a number")]),
        ("lake:\n", [(1, "'lake' has no value")]),
        ("lake: ''\n", [(1, "'lake' is empty")]),
        ("lake: 5\n", [(1, "'lake' must be text, not a number")]),
        (f"lake: ./{'x' * 300}\n", [(1, "'lake': the name of a table or directory has 300 bytes")]),
        (f"lake: ./l\nstate: gs://b/{'x' * 300}\n", [(2, "'state': the name of a table or directory has 300 bytes")]),
        ("lake: ~/l\n", [(1, "'lake': '~' is not expanded; write ${HOME}")]),
        ("lake: s3://b/l\n", [(1, "is not one that Spark and delta-rs both know")]),
        ("lake: s3a:/l\n", [(1, "a URI names its bucket")]),
        ("lake: s3a://b/../l\n", [(1, "a URI must not contain '..'")]),
        ("lake: dbfs:l\n", [(1, "neither a path nor a URI")]),
        ("lake: ./l\nstate: gs:///x\n", [(2, "'state': a URI names its bucket")]),
        ("lake: ./l\nstate: ./a?b\n", [(2, "'state': a path must not contain '?'")]),
        ("lake: ./a|b\n", [(1, "'lake': a path must not contain '|'")]),
        ("lake: ./l\nlake: ./m\n", [(2, "duplicate key 'lake'")]),
        ("- lake\n", [(1, "the file must be a mapping")]),
        (
            "lake: ${NOT_SET}\n",
            [(1, "the environment variable NOT_SET is not set; set it or write ${NOT_SET:-default}")],
        ),
        (
            "lake: ./l\nspark: {conf: {a: '${NOT_SET}${NEITHER}'}}\n",
            [(2, "NOT_SET is not set"), (2, "NEITHER is not set")],
        ),
        ("lake: ./${1X}\n", [(1, "a variable is written ${NAME} or ${NAME:-default}")]),
        ("lake: ./${X\n", [(1, "a variable is written ${NAME} or ${NAME:-default}")]),
        ("lake: ${SET_EMPTY}\n", [(1, "'lake' is empty")]),
        ("lake: ${SECRET}\n", [(1, "neither a path nor a URI")]),
        ("lake: ${SECRET_URI}\n", [(1, "must not contain a user and a password")]),
        ("lake: ${SECRET_SCHEME}\n", [(1, "its scheme is not one")]),
        ("lake: l\nnotify: {o: {url: {env: U}, max_lag: '${SECRET}'}}\n", [(2, "is '${SECRET}', which")]),
        ("lake: ${NOT_SET:-${SECRET}}/x\n", [(1, "without another in it")]),
        ("catalog: ${SECRET}\nstate: s\n", [(1, "must be a schema")]),
        ("lake: l\nspark:\n  conf: {spark.hadoop.fs.s3a.secret.key: abc}\n", [(3, "must not stand in a file")]),
        ("lake: l\nspark:\n  conf: {spark.hadoop.fs.azure.account.key.a.b: abc}\n", [(3, "must not stand in a file")]),
        (
            "lake: l\nspark:\n  conf: {spark.hadoop.fs.gs.auth.client.secret: abc}\n",
            [(3, "must not stand in a file")],
        ),
        ("lake: l\nspark:\n  conf: {spark.hadoop.fs.s3a.bucket.b.access.key: a$X}\n", [(3, "write ${NAME}")]),
        ("lake: {m: ${X}}\n", [(1, "put '${...}' in quotes")]),
        (
            UNHEARD_CONF,
            [
                (3, "'spark.sql.session.timeZone' is always 'UTC' for jobs"),
                (4, "'spark.sql.mapKeyDedupPolicy' does not reach jobs"),
                (6, "'spark.databricks.delta.properties.defaults.appendOnly' does not reach jobs"),
            ],
        ),
        ("spark: {conf: {spark.sql.session.timeZone: UTC}}\n", [(1, "give 'lake'")]),
    ],
)
def test_faults_of_conf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: list[tuple[int, str]]
) -> None:
    monkeypatch.setenv("SET_EMPTY", "")
    monkeypatch.setenv("SECRET", "canary:7")
    monkeypatch.setenv("SECRET_URI", "s3a://canary:canary@bucket/x")
    monkeypatch.setenv("SECRET_SCHEME", "canary://x")
    found = faults_of(write_project(tmp_path, {**FILES, "conf/dev.yml": text}))
    check(found, [(f"conf/dev.yml:{line}", words) for line, words in expected])
    assert "canary" not in str(found)


def test_variables(load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOT", "/r")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("TRICK", "${ROOT}")
    monkeypatch.delenv("UNSET", raising=False)
    conf = (
        "lake: ${ROOT}/${UNSET:-lake}\nstate: ${UNSET:-./state}\nspark:\n  master: local[${EMPTY:-2}]\n"
        "  conf:\n    a: ${TRICK}\n    b: '$${ROOT}'\n    c: ${UNSET:-}\n    d: ${EMPTY}\n    e: $ROOT $$\n"
    )
    project = load({"conf/dev.yml": conf})
    assert (project.lake, project.state) == ("/r/lake", f"{tmp_path}/state")
    assert project.settings.spark.master == "local[2]"
    assert project.settings.spark.conf == {"a": "${ROOT}", "b": "${ROOT}", "c": "", "d": "", "e": "$ROOT $$"}


def test_variables_of_other_targets_are_not_asked_for(load) -> None:
    assert load({"conf/prod.yml": "lake: ${NOT_SET}\n"}).deployment == "dev"


# --- between jobs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"jobs/a.yml": reader_of("a", "s", "t"), "jobs/b.yml": reader_of("b", "s", "./lake/t")},
            [("jobs/b.yml:5", "the target './lake/t' is already that of job 'a' (jobs/a.yml:5)")],
        ),
        (
            {"jobs/a.yml": reader_of("a", "s", "main.x.T"), "jobs/b.yml": reader_of("b", "s", "MAIN.x.t")},
            [("jobs/b.yml:5", "is already that of job 'a'")],
        ),
        (
            {"jobs/a.yml": reader_of("a", "s", "s3a://b/t/"), "jobs/b.yml": reader_of("b", "s", "s3a://b/./t")},
            [("jobs/b.yml:5", "is already that of job 'a'")],
        ),
        (
            {"jobs/a.yml": reader_of("a", "s", "t"), "jobs/b.yml": reader_of("b", "s", "t__quarantine")},
            [("jobs/b.yml:5", "the target 't__quarantine' is the quarantine of job 'a' (jobs/a.yml:5)")],
        ),
        (
            {"jobs/a.yml": reader_of("a", "b"), "jobs/b.yml": reader_of("b", "a")},
            [("jobs/a.yml:2", "jobs read each other in a circle: a -> b -> a;")],
        ),
        (
            {
                "jobs/z.yml": reader_of("z", "y"),
                "jobs/y.yml": reader_of("y", "./lake/x"),
                "jobs/x.yml": reader_of("x", "z"),
                "jobs/w.yml": reader_of("w", "z"),
            },
            [("jobs/x.yml:2", "in a circle: x -> y -> z -> x;")],
        ),
        (
            {"jobs/a.yml": reader_of("a", "b__quarantine"), "jobs/b.yml": reader_of("b", "a")},
            [("jobs/a.yml:2", "in a circle: a -> b -> a;")],
        ),
        (
            {"jobs/a.yml": reader_of("a", "s", more=", change_feed: false"), "jobs/b.yml": reader_of("b", "a")},
            [("jobs/a.yml:5", "'change_feed: false' is not possible: job 'b' reads the change feed")],
        ),
        (
            {"jobs/a.yml": reader_of("a", "s", "./lake/x"), "jobs/b.yml": reader_of("b", "s", "./lake/x/y")},
            [
                ("jobs/a.yml:5", "the target './lake/x' and the table './lake/x/y' must not be nested"),
                ("jobs/b.yml:5", "the target './lake/x/y' and the table './lake/x' must not be nested"),
            ],
        ),
        (
            {"jobs/a.yml": reader_of("a", "a") + "what: x\n", "jobs/b.yml": reader_of("b", "s", "../b")},
            [
                ("jobs/a.yml:3", "the source 'a' is the job's own target"),
                ("jobs/a.yml:6", "unknown key 'what'"),
                ("jobs/b.yml:5", "must not contain '..'"),
            ],
        ),
    ],
)
def test_faults_between_jobs(tmp_path: Path, files: dict[str, str | bytes], expected: Faults) -> None:
    check(faults_of(write_project(tmp_path, {"conf/dev.yml": CONF, **files})), expected)


def test_targets_that_are_one_by_a_link(tmp_path: Path) -> None:
    base = write_project(
        tmp_path,
        {"conf/dev.yml": CONF, "jobs/a.yml": reader_of("a", "s"), "jobs/b.yml": reader_of("b", "s", "./link/a")},
    )
    (base / "lake").mkdir()
    (base / "link").symlink_to(base / "lake")
    check(faults_of(base), [("jobs/b.yml:5", "is already that of job 'a'")])


def test_neighbours_that_are_right(load) -> None:
    project = load(
        {
            "jobs/a.yml": reader_of("a", "s", more=", change_feed: false"),
            "jobs/b.yml": reader_of("b", "s", "other__quarantine"),
            "jobs/c.yml": reader_of("c", "b__quarantine", "main.x.c"),
            "jobs/d.yml": reader_of("d", "mails_archive", "./lake/mails_2"),
        }
    )
    assert len(project.jobs) == 6


def test_faults_of_all_files_come_at_once_in_order(tmp_path: Path) -> None:
    base = write_project(
        tmp_path,
        {
            "conf/dev.yml": "lake: ./l\nlaek: x\n",
            "jobs/b.yml": "job: [a\n",
            "jobs/a.yml": reader_of("c", "s").replace("from: s", "form: s"),
            "jobs/c.yml": reader_of("c", "s") + "expectations: nothing\n",
        },
    )
    assert [where for where, _ in faults_of(base)] == [
        "conf/dev.yml:2",
        "jobs/a.yml:1",
        "jobs/a.yml:1",
        "jobs/a.yml:4",
        "jobs/b.yml:1",
        "jobs/c.yml:6",
    ]


# --- suites -------------------------------------------------------------------------------------------------

SUITE = """{"name": "any", "expectations": [
 {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "customer"}, "severity": "warning"}
]}
"""


def with_suite(name: str) -> str:
    return JOIN + f"expectations: {name}\n"


@pytest.mark.parametrize("file", ["expectations/good.json", "expectations/good.yml", "expectations/good.yaml"])
def test_suites_that_jobs_name_are_loaded(load, file: str) -> None:
    files = {file: SUITE, "expectations/other.json": "{", "jobs/orders.yml": with_suite("good")}
    project = load(files)
    assert list(project.suites) == ["good"]
    assert project.jobs["orders"].expectations == "good"


def test_all_suites(load) -> None:
    files = {"expectations/good.json": SUITE, "expectations/other.json": SUITE}
    assert load(files).suites == {}
    assert list(load(files, all_suites=True).suites) == ["good", "other"]
    with pytest.raises(ConfigError, match=r"expectations/third\.json:2: not valid JSON"):
        load({"expectations/third.json": "{\n"}, all_suites=True)


@pytest.mark.parametrize(
    ("files", "name", "expected"),
    [
        (
            {},
            "good",
            [
                (
                    "jobs/orders.yml:12",
                    "no suite 'good' in expectations/; write expectations/good.json, or correct the name",
                )
            ],
        ),
        ({"expectations/goodness.json": SUITE}, "goodnes", [("jobs/orders.yml:12", "did you mean 'goodness'?")]),
        ({"expectations/good.json": SUITE}, "good.json", [("jobs/orders.yml:12", "did you mean 'good'?")]),
        ({"expectations/good.json": SUITE}, "../good", [("jobs/orders.yml:12", "there is no suite '../good'")]),
        ({"expectations/good.json": "{"}, "good", [("expectations/good.json:1", "not valid JSON")]),
        ({"expectations/good.json": "[]"}, "good", [("expectations/good.json:1", "")]),
        (
            {"expectations/good.json": SUITE, "expectations/good.yml": SUITE},
            "good",
            [("expectations/good.yml", "expectations/good.json has the same name")],
        ),
        (
            {"expectations/good.json": SUITE},
            "[good]",
            [("jobs/orders.yml:12", "'expectations' must be text, not a list")],
        ),
    ],
)
def test_faults_of_suites(tmp_path: Path, files: dict[str, str], name: str, expected: Faults) -> None:
    check(faults_of(write_project(tmp_path, {**FILES, "jobs/orders.yml": with_suite(name), **files})), expected)


# --- what it costs ------------------------------------------------------------------------------------------


def test_loading_imports_nothing_heavy(tmp_path: Path) -> None:
    base = write_project(tmp_path, {**FILES, "expectations/good.json": SUITE, "jobs/orders.yml": with_suite("good")})
    program = (
        "import sys, enrich.project.project\n"
        "project = enrich.project.project.load_project(sys.argv[1])\n"
        "assert list(project.suites) == ['good']\n"
        "heavy = {'pyspark', 'great_expectations', 'deltalake', 'duckdb', 'pandas', 'numpy', 'jsonschema'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(base)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("name", ["shop [prod]", "a]b", "a|b", "a^b", "a%20b", "a\\b", "a\nb"])
def test_a_directory_in_which_tables_cannot_be_opened_is_refused(tmp_path: Path, name: str) -> None:
    """delta-rs panics, or looks elsewhere; what is read is the place itself, also behind a link."""
    write_project(tmp_path / name / "shop", FILES)
    with pytest.raises(ConfigError, match=r"conf/dev.yml:1: 'lake': tables cannot be below .* rename that directory"):
        load_project(tmp_path / name / "shop")
    (tmp_path / "link").symlink_to(tmp_path / name)
    write_project(tmp_path / "shop", {**FILES, "conf/dev.yml": f"lake: {tmp_path}/link/lake\n"})
    with pytest.raises(ConfigError, match="tables cannot be below"):
        load_project(tmp_path / "shop")


@pytest.mark.parametrize("name", ["a b", "größe", "日本", "a{b}", "a*b", "a?b", "a#b", "1% x", "it's", "a:b", "a$b"])
def test_other_letters_do_no_harm(tmp_path: Path, name: str) -> None:
    write_project(tmp_path / name, FILES)
    table = load_project(tmp_path / name).location("accounts")
    write_deltalake(str(table), pa.table({"id": [1]}))
    assert tables.read_state(str(table)).version == 0
