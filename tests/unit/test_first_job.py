"""`enrich init --from`: what is guessed from tables, and the job file that says so; without a JVM."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import enrich
from enrich.answers import inspection
from enrich.init import firstjob
from enrich.init.firstjob import FirstJob, write_first_job
from kit.lab import FEED
from kit.project import CONF, CUSTOMERS, files_below, write_project

PRODUCTS: dict[str, list[Any]] = {
    "title": ["a", "b", "c", "d"],
    "product_id": ["p1", "p2", "p3", "p4"],
    "merchant_id": ["m1", "m2", "m9", None],
    "tag_ids": [["t1"], ["t2", "t9"], [], None],
}
MERCHANTS = {"merchant_id": ["m1", "m2"], "name": ["x", "y"], "country_code": ["CH", "DE"]}
COUNTRIES = {"code": ["CH", "DE"], "name": ["Switzerland", "Germany"]}
TAGS = {"tag_id": ["t1", "t2"], "label": ["new", "old"]}


def put(home: Path, *, feed: bool = True, **tables: Any) -> None:
    for name, columns in tables.items():
        write_deltalake(str(home / "lake" / name), pa.table(columns), configuration=FEED if feed else {})


def guess(home: Path, *names: str) -> tuple[FirstJob, enrich.Project, str]:
    """Write a first job; return what was done, the project, and the job file."""
    done = write_first_job([str(home / "lake" / name) for name in names], home, "dev")
    (file,) = [name for name in done.files if name.startswith("jobs/")]
    return done, enrich.load_project(home), (home / file).read_text()


def test_all_kinds_of_joins_are_found_and_the_job_is_valid(tmp_path: Path) -> None:
    put(tmp_path, countries=COUNTRIES, products=PRODUCTS, merchants=MERCHANTS, tags=TAGS)
    done, project, text = guess(tmp_path, "countries", "products", "merchants", "tags")
    assert (done.notes, inspection.validate(project)) == ([], [])
    (job,) = project.jobs.values()
    assert job.from_ == "products"
    assert {alias: source.key for alias, source in job.sources.items()} == {
        "products": ("product_id",), "merchants": ("merchant_id",), "countries": ("code",), "tags": ("tag_id",),
    }  # fmt: skip
    assert {alias: (join.kind, join.on, join.elements) for alias, join in job.join.items()} == {
        "merchants": ("foreign_key", ("products.merchant_id",), None),
        "countries": ("foreign_key", ("merchants.country_code",), None),
        "tags": ("list", None, "products.tag_ids"),
    }
    assert [(rule.join, rule.at_least, rule.scope) for rule in job.rules] == [
        ("merchants", 0.61, "target"), ("countries", 0.95, "target"), ("tags", 0.61, "target"),
    ]  # fmt: skip
    assert "GUESSES" in text
    assert "# product_id is unique in all 4 rows" in text
    assert (
        "# merchant_id has the name of the key merchant_id of merchants; 2 of 3 different values are in merch" in text
    )
    assert not [value for value in ("Switzerland", "m9", "t9") if value in text]


def test_joins_that_sql_has_words_for_are_a_query(tmp_path: Path) -> None:
    odd = {"id": [1, 2], "merchant_id": ["m1", "m9"], "select": [1, 2], "two words": [1, 2]}
    put(tmp_path, items=odd, merchants={"merchant_id": ["m1"], "name": ["x"]})
    _, project, text = guess(tmp_path, "items", "merchants")
    query = text[text.index("query: |") : text.index("target:")]
    assert [line.strip() for line in query.splitlines()] == [
        "query: |", "SELECT", "items.id,", "items.merchant_id,", "items.`select`,", "items.`two words` AS two_words,",
        "merchants.name AS merchants_name", "FROM items",
        "-- merchant_id has the name of the key merchant_id of merchants; 1 of 2 different values are in merchants",
        "LEFT JOIN merchants ON items.merchant_id = merchants.merchant_id",
    ]  # fmt: skip
    assert project.jobs["items_with_merchants"].join["merchants"].kind == "foreign_key"


@pytest.mark.parametrize(
    ("column", "values", "wanted"),
    [
        ("tag_ids", [["t1"], None], ("carts.tag_ids", None)),
        ("tags", [["t1", "t2"], []], ("carts.tags", None)),
        ("seen", [["t1", "t2"], ["t9"]], ("carts.seen", None)),
        ("lines", [[{"tag_id": "t1", "amount": 2}], None], ("carts.lines", "tag_id")),
        ("lines", [[{"amount": 2, "`it's`": 1, "tag": "t2"}], []], ("carts.lines", "tag")),
        ("tags", [[{"id": "t1", "amount": 2}], []], ("carts.tags", "id")),
        ("words", [["a", "b", "t1"], ["c"]], None),
    ],
)
def test_lists_of_ids_and_of_structs_are_found(
    tmp_path: Path, column: str, values: list[Any], wanted: tuple[str, str | None] | None
) -> None:
    put(tmp_path, carts={"cart_id": ["c1", "c2"], column: values}, tags=TAGS)
    done, project, _ = guess(tmp_path, "carts", "tags")
    (job,) = project.jobs.values()
    assert {(join.kind, join.elements, join.element_key) for join in job.join.values()} == (
        {("list", *wanted)} if wanted else set()
    )
    assert inspection.validate(project) == []
    assert bool(done.notes) == (wanted is None)


def test_equal_keys_are_a_table_join(tmp_path: Path) -> None:
    put(tmp_path, consents={"customer_id": ["a", "b"], "ok": [True, False]}, accounts={"customer_id": ["a", "c"]})
    _, project, _ = guess(tmp_path, "consents", "accounts")
    (job,) = project.jobs.values()
    assert (job.job, job.join["accounts"].kind) == ("consents_with_accounts", "table")


def test_a_new_project_names_the_lake_of_the_tables(tmp_path: Path) -> None:
    put(tmp_path, tags=TAGS)
    done, project, _ = guess(tmp_path, "tags")
    assert project.lake == str(tmp_path / "lake")
    assert (tmp_path / "conf" / "dev.yml").read_text().splitlines()[1] == "lake: ./lake"
    assert set(done.files) == {
        "conf/dev.yml",
        *(f"conf/schema/{kind}.schema.json" for kind in ("conf", "job", "tables", "test")),
        "jobs/tags_checked.yml",
    }


def test_tables_of_somebody_else_are_only_read(tmp_path: Path) -> None:
    put(tmp_path / "theirs", tags=TAGS)
    home, table = tmp_path / "mine", str(tmp_path / "theirs" / "lake" / "tags")
    done = write_first_job([table], home, "dev")
    project = enrich.load_project(home)
    assert (done.notes, inspection.validate(project)) == ([], [])
    (job,) = project.jobs.values()
    assert (job.sources["tags"].table, project.location("tags")) == ("tags", table)
    assert project.location(job.target.table) == str(home / "lake" / job.job)


def test_in_a_project_tables_are_named_as_its_lake_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write_project(tmp_path / "shop", {"conf/dev.yml": CONF, "jobs/customers.yml": CUSTOMERS})
    put(home, tags=TAGS)
    write_deltalake(str(home / "more" / "sides"), pa.table({"tag_id": ["t1"], "side": ["x"]}), configuration=FEED)
    write_deltalake(str(tmp_path / "far"), pa.table({"tag_id": ["t1"], "way": ["x"]}), configuration=FEED)
    monkeypatch.chdir(home)
    done = write_first_job(["tags", "more/sides", "../far"], None, "dev")
    assert done.home == home
    job = enrich.load_project(home).jobs["tags_with_sides_far"]
    assert [source.table for source in job.sources.values()] == ["tags", "./more/sides", str(tmp_path / "far")]
    (home / "jobs" / "tags_with_sides_far.yml").unlink()
    (home / "tables.yml").write_text("tags: {table: sides, key: tag_id}\n")
    write_first_job(["lake/tags"], None, "dev")
    (source,) = enrich.load_project(home).jobs["tags_checked"].sources.values()
    assert source.table == "./lake/tags", "in a job, the name is another table"


@pytest.mark.parametrize("named", ["words", "lake/tags"])
def test_what_tables_yml_says_of_a_table_is_not_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    put(tmp_path, tags=TAGS)
    said = "words: {table: tags, key: label, columns: {tag_id: {private: true}}}\n"
    write_project(tmp_path, {"conf/dev.yml": CONF, "tables.yml": said})  # and no jobs/ yet
    monkeypatch.chdir(tmp_path)
    write_first_job([named], None, "dev")
    assert "  words: {table: words}\n" in (tmp_path / "jobs" / "words_checked.yml").read_text()
    (source,) = enrich.load_project(tmp_path).jobs["words_checked"].sources.values()
    assert (source.table, source.key, source.columns["tag_id"].private) == ("tags", ("label",), True)


def test_a_composite_key_is_found(tmp_path: Path) -> None:
    put(tmp_path, lines={"order_no": [1, 1, 2], "line_no": [1, 2, 1], "amount": [1.5, 2.5, 3.5]})
    _, project, text = guess(tmp_path, "lines")
    assert project.jobs["lines_checked"].sources["lines"].key == ("line_no", "order_no")
    assert "# line_no and order_no are together unique in all 3 rows" in text


def test_where_no_key_is_found_the_file_says_so_loudly(tmp_path: Path) -> None:
    put(tmp_path, notes={"note_id": [1, 1, None], "text": ["a", "a", "b"]})
    _, _, text = guess(tmp_path, "notes")
    assert "# NO KEY WAS FOUND: note_id is not unique in all 3 rows; correct it before you run" in text


def test_a_null_or_a_second_row_makes_no_key(tmp_path: Path) -> None:
    put(tmp_path, items={"item_id": [1, 2, None], "item_code": ["a", "a", "b"], "name": ["x", "y", "z"]})
    _, project, _ = guess(tmp_path, "items")
    assert project.jobs["items_checked"].sources["items"].key == ("name",)


def test_what_is_sampled_is_said_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth product has the key of the first one: three rows do not show it."""
    monkeypatch.setattr(firstjob, "SAMPLED_ROWS", 3)
    monkeypatch.setattr("enrich.init.firstjob.SAMPLED_ROWS", 3)
    put(tmp_path, products={"product_id": ["p1", "p2", "p3", "p1"], "merchant_id": ["m1"] * 4}, merchants=MERCHANTS)
    _, _, text = guess(tmp_path, "products", "merchants")
    assert "# product_id is unique in the first 3 of 4 rows" in text
    monkeypatch.setattr(firstjob, "SAMPLED_VALUES", 1)
    assert firstjob.measure_matches(
        str(tmp_path / "lake" / "merchants"), "country_code", (str(tmp_path / "lake" / "products"), "product_id")
    ) == firstjob.Counted(1, 0)


def test_tables_without_rows_are_guessed_by_name(tmp_path: Path) -> None:
    for name, columns in (("orders", ["order_id", "customer_id"]), ("customers", ["customer_id", "name"])):
        schema = pa.schema([(column, pa.string()) for column in columns])
        DeltaTable.create(str(tmp_path / "lake" / name), schema, configuration=FEED)
    done, project, text = guess(tmp_path, "orders", "customers")
    assert done.notes == []
    assert project.jobs["orders_with_customers"].join["customers"].on == ("orders.customer_id",)
    assert "# order_id is unique in the table, which is empty: guessed from the name alone" in text
    assert project.jobs["orders_with_customers"].rules == ()


def test_types_that_differ_are_not_joined(tmp_path: Path) -> None:
    put(tmp_path, orders={"order_id": ["o1"], "tag_id": [1]}, tags=TAGS)
    done, project, text = guess(tmp_path, "orders", "tags")
    assert list(project.jobs) == ["orders_checked"]
    assert "# not joined, because no column seems to refer to its key: tags" in text
    assert done.notes == ["tags is not in the job: no column of the other tables seems to refer to its key"]


def test_a_name_that_only_ends_like_a_key_needs_matches(tmp_path: Path) -> None:
    orders = {"order_id": ["o1", "o2"], "old_tag_id": ["t1", "t2"], "parent_tag_id": ["z1", "z2"]}
    put(tmp_path, orders=orders, tags=TAGS)
    _, project, _ = guess(tmp_path, "orders", "tags")
    assert project.jobs["orders_with_tags"].join["tags"].on == ("orders.old_tag_id",)


def test_strange_names_give_a_file_that_is_valid(tmp_path: Path) -> None:
    names = ["id", "order no", "a`b", "on", "12", "null", "_run_id", "x#y", "Order_No", "naïve: x", "a.b"]
    put(tmp_path, feed=True, **{"we-ird": {name: ["v"] for name in names}})
    done, project, _ = guess(tmp_path, "we-ird")
    assert (done.notes, inspection.validate(project)) == ([], [])
    (job,) = project.jobs.values()
    assert job.sources["we_ird"].table == "we-ird"
    assert len(job.select or ()) == len(names)


def test_a_table_without_change_feed_is_noted_with_the_statement(tmp_path: Path) -> None:
    put(tmp_path, feed=False, tags=TAGS)
    done = guess(tmp_path, "tags")[0]
    (note,) = done.notes
    assert "has no change feed; run in Spark SQL: ALTER TABLE" in note
    python, *args = shlex.split(done.next.splitlines()[1])  # a command that needs no Spark, before all others
    assert (python, done.next.splitlines()[2]) == ("python", "  enrich validate")
    assert done.next.splitlines()[1].count("'") == 2  # quoted so that a person can read it
    subprocess.run([sys.executable, *args], check=True)
    assert inspection.validate(enrich.load_project(tmp_path)) == []


def test_a_path_that_is_misspelled_is_told_the_table_beside_it(tmp_path: Path) -> None:
    put(tmp_path, tags=TAGS)
    with pytest.raises(enrich.ConfigError, match="no directory of a Delta table on this machine; did you mean 'tags'"):
        write_first_job([str(tmp_path / "lake" / "tag")], tmp_path, "dev")


@pytest.mark.parametrize(
    ("references", "said"),
    [
        (["nothing"], "there is no table at"),
        (["main.crm.tags"], "which can only be read with Spark"),
        (["tags"], "is something at"),
    ],
)
def test_refusals_write_nothing(tmp_path: Path, references: list[str], said: str) -> None:
    home = write_project(tmp_path / "shop", {"conf/dev.yml": CONF, "jobs/customers.yml": CUSTOMERS})
    put(home, tags=TAGS, tags_checked=TAGS)
    before = files_below(home)
    with pytest.raises(enrich.ConfigError, match=said):
        write_first_job(references, home, "dev")
    assert files_below(home) == before


def test_a_table_that_only_spark_can_read_is_refused_with_what_it_has(tmp_path: Path) -> None:
    put(tmp_path, tags=TAGS)
    commit = tmp_path / "lake" / "tags" / "_delta_log" / f"{0:020}.json"
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening", "changeDataFeed"]}
    needed = json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    lines = commit.read_text().splitlines()
    commit.write_text("\n".join(needed if "protocol" in json.loads(line) else line for line in lines))
    before = files_below(tmp_path)
    with pytest.raises(
        enrich.ConfigError, match=r"tags cannot be read without Spark \(.* TypeWidening\); write the job"
    ):
        guess(tmp_path, "tags")
    assert files_below(tmp_path) == before


def test_a_job_file_is_never_overwritten(tmp_path: Path) -> None:
    put(tmp_path, tags=TAGS)
    guess(tmp_path, "tags")
    (tmp_path / "jobs" / "tags_checked.yml").write_text("# mine")
    with pytest.raises(enrich.ConfigError, match=r"tags_checked\.yml exists already; nothing was written"):
        write_first_job([str(tmp_path / "lake" / "tags")], tmp_path, "dev")
    assert (tmp_path / "jobs" / "tags_checked.yml").read_text() == "# mine"


def test_a_table_to_which_several_columns_refer_is_joined_for_each_of_them(tmp_path: Path) -> None:
    """And what it refers to itself is joined once, by the likelier one."""
    orders = {"order_id": [1, 2], "shipping_address_id": ["a1", "a9"], "billing_address_id": ["a1", "a2"]}
    addresses = {"address_id": ["a1", "a2"], "street": ["x", "y"], "country_code": ["CH", "DE"]}
    put(tmp_path, orders=orders, addresses=addresses, countries=COUNTRIES)
    done, project, text = guess(tmp_path, "orders", "addresses", "countries")
    assert (done.notes, inspection.validate(project)) == ([], [])
    (job,) = project.jobs.values()
    assert {alias: (job.sources[alias].table, join.on) for alias, join in job.join.items()} == {
        "billing_address": ("addresses", ("orders.billing_address_id",)),
        "shipping_address": ("addresses", ("orders.shipping_address_id",)),
        "countries": ("countries", ("billing_address.country_code",)),
    }
    assert {"billing_address_street", "shipping_address_street", "countries_name"} <= set(job.select or ())
    assert [(rule.join, rule.at_least) for rule in job.rules] == [
        ("billing_address", 0.95), ("shipping_address", 0.45), ("countries", 0.95),
    ]  # fmt: skip
    assert "query: |" in text


def test_a_column_with_the_name_of_another_key_is_no_second_reference(tmp_path: Path) -> None:
    goods = {"good_id": [1, 2], "category_id": [1, 2], "sub_category_id": [1, 2]}
    put(tmp_path, goods=goods, categories={"category_id": [1, 2]}, sub_categories={"sub_category_id": [1, 2]})
    _, project, _ = guess(tmp_path, "goods", "categories", "sub_categories")
    (job,) = project.jobs.values()
    assert {alias: join.on for alias, join in job.join.items()} == {
        "categories": ("goods.category_id",), "sub_categories": ("goods.sub_category_id",),
    }  # fmt: skip


# --- logs of events ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "order", "end"),
    [
        ({"op": ["c", "u", "d"], "lsn": [1, 2, 3]}, ("lsn",), "op IN ('d', 'D')"),
        (
            {"op": ["c", "u", "d"], "lsn": [1, 2, 3], "partition": [0, 0, 0], "offset": [5, 6, 7]},
            ("lsn", "offset"),
            "op IN ('d', 'D')",
        ),
        (
            {"__op": ["c", "u", "d"], "__lsn": [1, 2, 3], "__deleted": ["false", "false", "true"]},
            ("__lsn",),
            "__deleted = 'true'",
        ),
        (
            {"__deleted": ["false", "false", "true"], "__source_ts_ms": [1, 2, 3]},
            ("__source_ts_ms",),
            "__deleted = 'true'",
        ),
        ({"Op": ["I", "U", "D"], "transact_seq": ["1", "2", "3"]}, ("transact_seq",), "Op IN ('d', 'D')"),
        (
            {"_fivetran_deleted": [False, False, True], "_fivetran_synced": [1, 2, 3]},
            ("_fivetran_synced",),
            "_fivetran_deleted",
        ),
        (
            {"_ab_cdc_deleted_at": [None, None, "x"], "_airbyte_extracted_at": [1, 2, 3], "_ab_cdc_lsn": [1, 2, 3]},
            ("_ab_cdc_lsn", "_airbyte_extracted_at"),
            "_ab_cdc_deleted_at IS NOT NULL",
        ),
    ],
)
def test_a_log_of_events_is_known_by_its_columns_of_which_the_target_has_none(
    tmp_path: Path, columns: Any, order: tuple[str, ...], end: str
) -> None:
    events = {**columns, "event_id": [1, 2, 3], "customer_id": ["c1", "c1", "c2"], "name": ["a", "b", "c"]}
    put(tmp_path, customer_events=events, orders={"order_id": [1, 2], "customer_id": ["c1", "c2"]})
    done, project, text = guess(tmp_path, "orders", "customer_events")
    assert (done.notes, inspection.validate(project)) == ([], [])
    (job,) = project.jobs.values()
    source = job.sources["customer_events"]
    assert source.latest is not None
    assert (source.key, source.latest.order, source.latest.delete) == (("customer_id",), order, end)
    assert f"a log of events about customer_id: the last one by {order[0]} counts" in text
    assert job.join["customer_events"].kind == "foreign_key"
    assert list(job.select or ()) == ["order_id", "customer_id", "customer_events_event_id", "customer_events_name"]


def test_a_log_is_about_what_its_name_says_before_a_key_has_come_twice(tmp_path: Path) -> None:
    events = {"partition": [0, 0], "offset": [0, 1], "__op": ["r", "r"], "customer_id": ["c1", "c1"], "id": [1, 2]}
    put(tmp_path, orders_topic_events=events, invoices={"invoice_id": [1], "order_id": [1]})
    _, project, _ = guess(tmp_path, "invoices", "orders_topic_events")
    (job,) = project.jobs.values()
    assert job.sources["orders_topic_events"].key == ("id",)
    assert job.join["orders_topic_events"].on == ("invoices.order_id",)


def test_the_job_that_writes_a_table_runs_before_its_first_reader(tmp_path: Path) -> None:
    put(tmp_path, orders={"order_id": [1]})
    guess(tmp_path, "orders")
    put(tmp_path, feed=False, orders_checked={"order_id": [1]})
    done = guess(tmp_path, "orders_checked")[0]
    assert done.next.splitlines()[2:] == ["  enrich run orders_checked", "  enrich run orders_checked_checked"]


IMAGE = {"id": 1, "op": "x", "two words": "y"}
SOURCES: dict[str, dict[str, Any]] = {
    "postgres": {"lsn": 7, "ts_ms": 1, "sequence": '["1","2"]'},
    "mysql": {"ts_ms": 1, "file": "bin.1", "pos": 4, "sequence": None},
}


@pytest.mark.parametrize(
    ("inside", "source", "orders"),
    [
        ([], "postgres", ["__source_lsn"]),
        (["value"], "mysql", ["__source_ts_ms", "__source_file", "__source_pos"]),
        (["value", "payload"], "postgres", ["__source_lsn"]),
    ],
)
def test_debeziums_envelope_is_taken_apart_by_a_job_of_its_own(
    tmp_path: Path, inside: list[str], source: str, orders: list[str]
) -> None:
    event: dict[str, Any] = {"before": IMAGE, "after": IMAGE, "source": SOURCES[source], "op": "u", "ts_ms": 3}
    for name in reversed(inside):
        event = {name: event}
    topic = {"_kafka_partition": [0, 0], "_kafka_offset": [1, 2], **{name: [part] * 2 for name, part in event.items()}}
    put(tmp_path, customers_topic=topic, orders={"order_id": [1], "customer_id": [1]})
    done, project, text = guess(tmp_path, "orders", "customers_topic")
    assert inspection.validate(project) == []
    (job,) = project.jobs.values()
    assert (job.job, job.sources["customers_topic"].key) == (
        "customers_topic_events", ("_kafka_partition", "_kafka_offset"),
    )  # fmt: skip
    assert list(job.select or ()) == [
        "_kafka_partition", "_kafka_offset", "__op", *orders, "id", "op", "two_words",
    ]  # fmt: skip
    path = ".".join(["customers_topic", *inside])
    assert f"coalesce({path}.after, {path}.before).id AS id" in text
    assert f"WHERE {path}.op IS NOT NULL" in text
    (note,) = done.notes
    assert "is a log in Debezium's envelope: the new job makes columns of its messages" in note
    orders_table = tmp_path / "lake" / "orders"
    assert done.next.splitlines() == [
        "Next:", "  enrich validate", "  enrich run customers_topic_events",
        f"  enrich init --from {orders_table} customers_topic_events",
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [{"op": ["c"], "lsn": [1]}, {"op": ["c", "u"], "amount": [1.5, 2.5]}])
def test_what_an_event_did_is_never_a_key(tmp_path: Path, columns: Any) -> None:
    put(tmp_path, events=columns)
    with pytest.raises(enrich.ConfigError, match="has no column that can be a key"):
        guess(tmp_path, "events")


@pytest.mark.parametrize("image", [IMAGE, '{"id": 1}'])
def test_an_envelope_without_the_place_of_its_message_gets_no_job(tmp_path: Path, image: Any) -> None:
    event = {"before": [None], "after": [image], "source": [{"lsn": 1}], "op": ["c"], "ts_ms": [1]}
    put(tmp_path, customers=event)
    with pytest.raises(enrich.ConfigError, match="Debezium's envelope, and has no columns that tell") as refused:
        guess(tmp_path, "customers")
    assert "write Kafka's partition and offset beside it, or let ExtractNewRecordState" in str(refused.value.hint)
    assert not (tmp_path / "jobs").exists()


def test_messages_of_a_topic_are_known_by_their_place_and_a_note_leads_on(tmp_path: Path) -> None:
    topic = {"key": ["a", "b", "c"], "value": ["{}"] * 3, "topic": ["s", "s", "t"]}
    put(tmp_path, stream={**topic, "partition": [0, 0, 0], "offset": [0, 1, 1], "timestamp": [noon(1)] * 3})
    done, project, text = guess(tmp_path, "stream")
    assert inspection.validate(project) == []
    assert project.jobs["stream_checked"].sources["stream"].key == ("topic", "partition", "offset")
    (note,) = done.notes
    assert "has messages of a topic" in note
    assert "docs/changelogs.md" in note
    assert "NO KEY" not in text


# --- versions, and the moment at which one of them is meant -----------------------------------------------------------


def noon(day: int) -> datetime:
    return datetime(2026, 3, day, 12, tzinfo=UTC)


SOLD: dict[str, Any] = {
    "order_id": [1, 2, 3],
    "product_id": ["p1", "p1", "p2"],
    "updated_at": [noon(1), noon(5), noon(5)],
    "shipped_at": [noon(9), noon(9), noon(9)],
    "ordered_at": [noon(1), noon(5), noon(5)],
}


def join_of(home: Path, *names: str) -> tuple[Any, Any, str]:
    """Return the one join of a first job, the source that it looks up, and the job file."""
    done, project, text = guess(home, *names)
    assert (done.notes, inspection.validate(project)) == ([], [])
    (job,) = project.jobs.values()
    ((alias, join),) = job.join.items()
    assert job.from_ == names[0]
    return join, job.sources[alias], text


def test_prices_with_validity_are_looked_up_at_the_moment_at_which_most_rows_have_one(tmp_path: Path) -> None:
    """Of two, the one that is not when a row was written."""
    begins = {"valid_from": [noon(1), noon(4), noon(1)], "valid_to": [noon(4), None, noon(3)]}
    prices = {"price_id": [7, 8, 9], "product_id": ["p1", "p1", "p2"], "price": [1.5, 2.5, 3.5], **begins}
    put(tmp_path, orders=SOLD, prices=prices)
    join, source, text = join_of(tmp_path, "orders", "prices")
    assert (join.kind, join.on, join.at, join.how) == ("as_of", ("orders.product_id",), "orders.ordered_at", "left")
    assert (join.valid_from, join.valid_to.column, join.valid_to.inclusive) == ("valid_from", "valid_to", False)
    assert source.key == ("product_id", "valid_from")
    assert (
        "# product_id has the name of the key product_id of prices; 2 of 3 different values have a version in" in text
    )
    assert "have a version in prices at ordered_at\n" in text
    assert "{rule: match_rate, join: prices, at_least: 0.61, scope: target, action: warn}" in text


@pytest.mark.parametrize(
    ("ends", "inclusive"),
    [
        ([date(2026, 3, 4), date(2026, 3, 9), None], False),  # one ends where the next one begins
        ([date(2026, 3, 3), date(2026, 3, 9), None], True),
        ([date(2026, 3, 5), date(2026, 3, 9), None], False),  # they overlap: that says nothing
        ([date(2026, 3, 3), date(2026, 3, 9), date(2026, 3, 2), None], False),  # some meet, some do not
    ],
)
def test_days_are_compared_with_days_and_ends_are_inclusive_where_none_meets_a_beginning(
    tmp_path: Path, ends: list[date | None], inclusive: bool
) -> None:
    days = {"start_date": [date(2026, 3, day) for day in (1, 4, 1, 2)][: len(ends)], "end_date": ends}
    prices = {"product_id": ["p1", "p1", "p2", "p2"][: len(ends)], "price": [1.5, 2.5, 3.5, 4.5][: len(ends)]}
    put(tmp_path, orders=SOLD, prices={**prices, **days})
    join, source, text = join_of(tmp_path, "orders", "prices")
    assert (join.at, join.valid_to.column) == ("CAST(orders.ordered_at AS DATE)", "end_date")
    assert source.key == ("product_id", "start_date")
    assert join.valid_to.inclusive is inclusive
    assert ("inclusive: none begins where another one ends" in text) is inclusive


def test_fivetrans_ends_are_inclusive_whatever_the_rows_say(tmp_path: Path) -> None:
    times = {"_fivetran_start": [noon(1), noon(4)], "_fivetran_end": [noon(4), noon(30)]}
    put(tmp_path, orders=SOLD, products={"product_id": ["p1", "p1"], "title": ["a", "b"], **times})
    join, _, _ = join_of(tmp_path, "orders", "products")
    assert (join.kind, join.valid_to.column, join.valid_to.inclusive) == ("as_of", "_fivetran_end", True)


@pytest.mark.parametrize("at", [noon, lambda day: noon(day).date()], ids=["timestamps", "days"])
def test_a_feed_of_versions_by_time_needs_no_name_for_it(tmp_path: Path, at: Callable[[int], Any]) -> None:
    paid = {"payment_id": [1, 2], "currency": ["USD", "USD"], "paid": [at(5), at(1)]}
    rates = {"told": [at(2), at(3), at(2)], "currency": ["USD", "USD", "EUR"], "rate": [0.9, 0.91, 1.0]}
    put(tmp_path, payments=paid, rates=rates)
    join, source, text = join_of(tmp_path, "payments", "rates")
    assert (join.kind, join.on, join.at) == ("as_of", ("payments.currency",), "payments.paid")
    assert (source.key, join.valid_from, join.valid_to) == (("currency", "told"), "told", None)
    assert "1 of 2 different values have a version in rates at paid" in text


def test_a_thing_itself_has_no_moment(tmp_path: Path) -> None:
    products = {"product_id": ["p1", "p2"], "title": ["a", "b"], "made_at": [noon(2), noon(2)]}
    prices = {"product_id": ["p1", "p1", "p2"], "valid_from": [noon(1), noon(4), noon(1)], "price": [1.5, 2.5, 3.5]}
    put(tmp_path, prices=prices, products=products)
    done, project, _ = guess(tmp_path, "products", "prices")
    (job,) = project.jobs.values()
    assert (done.notes, job.from_, job.join["products"].kind) == ([], "prices", "foreign_key")


def test_the_day_on_which_somebody_began_makes_no_version(tmp_path: Path) -> None:
    """Where nothing says that a row ends, it takes a clearer name than `start_date`, or a table without a key."""
    people: dict[str, Any] = {"employee_id": [1, 2], "team_id": ["t1", "t1"], "start_date": [noon(1), noon(4)]}
    put(tmp_path, costs={"cost_id": [1, 2], "team_id": ["t1", "t1"], "spent_at": [noon(5), noon(6)]}, employees=people)
    done, project, _ = guess(tmp_path, "costs", "employees")
    assert (list(project.jobs), len(done.notes)) == (["costs_checked"], 1)
    people["end_date"] = [noon(4), None]
    put(tmp_path / "other", costs={"cost_id": [1], "team_id": ["t1"], "spent_at": [noon(5)]}, employees=people)
    assert join_of(tmp_path / "other", "costs", "employees")[0].kind == "as_of"


def test_versions_and_plain_lookups_stand_in_one_job(tmp_path: Path) -> None:
    prices = {"product_id": ["p1", "p1"], "valid_from": [noon(1), noon(4)], "price": [1.5, 2.5]}
    put(tmp_path, orders=SOLD, prices=prices, products={"product_id": ["p1", "p2"], "title": ["a", "b"]})
    done, project, _ = guess(tmp_path, "orders", "prices", "products")
    assert (done.notes, inspection.validate(project)) == ([], [])
    (job,) = project.jobs.values()
    assert {alias: join.kind for alias, join in job.join.items()} == {"prices": "as_of", "products": "foreign_key"}


def test_versions_of_what_dbt_found_deleted_say_that_it_is_gone(tmp_path: Path) -> None:
    prices = {"product_id": ["p1", "p1"], "dbt_valid_from": [noon(1), noon(4)], "dbt_valid_to": [noon(4), None]}
    put(tmp_path, orders=SOLD, prices={**prices, "price": [1.5, 1.5], "dbt_is_deleted": ["False", "True"]})
    join, _, text = join_of(tmp_path, "orders", "prices")
    assert (join.kind, join.gone) == ("as_of", "prices.dbt_is_deleted = 'True'")
    assert "1 of 3 different values have a version" in text
