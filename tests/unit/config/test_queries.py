"""Play the corpus of query jobs: each accepted query is the job beside it, each refused one is refused at its place."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from enrich.base.errors import ConfigError, Fault
from enrich.base.spec import CompiledJob
from enrich.operations.loading import load_project
from enrich.project.checks import check_job
from enrich.project.compile import check_file, compile_job
from enrich.project.expressions.reading import KEYWORDS
from enrich.project.kinds import JOBS
from enrich.project.kinds.group import GroupSpec
from enrich.project.models import Job
from enrich.project.query import read_query
from enrich.project.querynames import expand_query
from enrich.project.shape import JOB, build_model
from enrich.project.statictypes import check_types, read_ddl_type
from enrich.project.yamlfile import Tree
from kit.project import write_project

CORPUS = Path(__file__).with_name("queries.yml")
NEEDS_SPARK = {"a column that cannot be compared"}
"""Only Spark knows the type; ``tests/scenarios/test_query_jobs.py`` plays it."""
CONTRADICTS_ITSELF = {"a name twice by two stars"}
"""Its message shall name a column that its tables have not."""


@cache
def corpus() -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(CORPUS)
    return found


SPANS = {"spans": {"key": "id", "columns": dict.fromkeys(("id", "start", "end", "from", "to", "case", "n"), "int")}}
"""Everyday names that are keywords elsewhere."""


def read(
    parts: dict[str, Any], sources: dict[str, str], known: dict[str, Any] | None = None
) -> tuple[CompiledJob | None, list[Fault]]:
    """Compile a job as a project does: its file alone, and then over its tables, those of the corpus by default."""
    known = known or corpus()["tables"]
    told = {alias: {"table": table, "key": known[table]["key"]} for alias, table in sources.items()}
    value = {"job": "q", "sources": told, "target": {"table": "q"}, **parts}
    tree, faults = expand_query(Tree("q", value, {}, {}, {("query",): (1, 0)}))
    if faults:
        return None, faults
    job, faults = build_model(Job, tree, JOB)
    faults += [each for each in check_job(tree) if "neither 'from' nor joined" not in each.message]
    if job is None or faults:
        return None, faults
    job._tree = tree
    try:
        shapes = {alias: known[each.table]["columns"] for alias, each in job.sources.items()}
        columns: dict[str, Any] = {
            alias: {name: read_ddl_type(kind) for name, kind in each.items()} for alias, each in shapes.items()
        }
        compiled = compile_job(job, columns, check_types)
    except ConfigError as error:
        return None, list(error.faults)
    return compiled, check_file(job)


def text_of(entry: dict[str, Any]) -> str:
    nest = entry.get("nest")
    if not nest:
        return str(entry["query"])
    inside = nest["open"] * nest["times"] + nest["core"] + nest["close"] * nest["times"]
    return str(entry["query"]).replace("{nest}", inside)


def name_of(entry: dict[str, Any]) -> str:
    return str(entry["name"])


@pytest.mark.parametrize("entry", corpus()["accepted"], ids=name_of)
def test_a_query_is_the_job_beside_it(entry: dict[str, Any]) -> None:
    wanted = entry["job"]
    found, faults = read({"query": text_of(entry)}, {table: table for table in wanted["sources"].values()})
    assert (found is not None, faults) == (True, [])
    assert found is not None
    parts = {part: wanted[part] for part in ("from", "join", "where") if part in wanted}
    if "select" in wanted:
        parts["select"] = {name: str(text) for name, text in wanted["select"].items()}
    same, faults = read(parts, wanted["sources"])
    assert (same is not None, faults) == (True, [])
    assert same is not None
    if "*" not in text_of(entry).partition("FROM")[0].split("'")[0] or entry["job"].get("select") is None:
        assert found.meaning == same.meaning
    assert [(each.name, each.paths) for each in found.spec.outputs] == [
        (each.name, each.paths) for each in same.spec.outputs
    ]

    # The job as a query again means the same.
    text = JOBS["join"].write_query(same.spec, wanted["sources"])
    assert text is not None
    again, faults = read({"query": text}, {table: table for table in wanted["sources"].values()})
    assert (again is not None, faults) == (True, []), text
    assert again is not None
    if "select" in wanted:
        assert again.meaning == same.meaning, text


WORDS = sorted(KEYWORDS | {"left", "join", "where", "limit", "values", "lateral", "using", "on", "group"})


@pytest.mark.parametrize("word", WORDS)
def test_an_alias_may_be_a_word_of_sql(word: str) -> None:
    """The query that a job prints is the job, under any alias that its file may have."""
    known = {name: {"key": "id", "columns": {"id": "int", "f": "int"}} for name in ("t", word, "o")}
    select, refer = {"id": "o.id", "f": f"`{word}`.f + 1"}, {"kind": "foreign_key", "on": "o.f", "how": "left"}
    jobs: list[dict[str, Any]] = [
        {"from": "o", "join": {word: refer}, "select": select},
        {"from": "o", "join": {word: {"kind": "table", "how": "full"}}, "select": {**select, "id": "key"}},
        {
            "kind": "group",
            "from": word,
            "group": {"by": f"`{word}`.f"},
            "select": {"f": f"`{word}`.f", "n": "count(*)"},
        },
    ]
    _, faults = read({"query": f"SELECT {word}.id + 1 FROM t AS {word}"}, {"t": "t"}, known)
    assert not [each for each in faults if "'select' is empty" in each.message]
    for parts in jobs:
        aliases = [word, "o"][: 2 - ("kind" in parts)]
        same, faults = read(parts, dict.fromkeys(aliases, "t"), known)
        assert same is not None, faults
        for names in (dict.fromkeys(aliases, "t"), {alias: alias for alias in aliases}):
            text = JOBS[same.spec.kind].write_query(same.spec, names)
            again, faults = read({"query": text}, {name: name for name in names.values()}, known)
            assert again is not None, (text, faults)
            assert again.meaning == same.meaning, text


@pytest.mark.parametrize("entry", corpus()["refused"], ids=name_of)
def test_a_query_is_refused_at_its_place_in_words_that_say_what_it_is(entry: dict[str, Any]) -> None:
    if entry["name"] in NEEDS_SPARK | CONTRADICTS_ITSELF:
        pytest.skip("see the names' remark")
    _, faults = read({"query": text_of(entry)}, {table: table for table in corpus()["tables"]})
    place = f"q:{entry['line']}:{entry['column']}"
    said = [fault.message.lower() for fault in faults if fault.where == place]
    assert any(all(str(word).lower() in each for word in entry["says"]) for each in said), faults


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT id, row_number() OVER (ORDER BY id) AS n FROM spans", "compute it where the target is read"),
        ("SELECT id FROM spans QUALIFY row_number() OVER (ORDER BY id) = 1", "compute it where the target is read"),
        ("SELECT id, count(*) FILTER (WHERE id > 1) AS n FROM spans", "write GROUP BY"),
        ("SELECT id, count(*) AS n FROM spans", "write GROUP BY"),
        (
            "SELECT id, count(*) AS n FROM spans GROUP BY id HAVING count(*) > 1",
            "as the WHERE of a second job, which reads",
        ),
        ("SELECT id FROM (SELECT * FROM spans) s", "make it a job of its own, and read that job's target here"),
        (
            "WITH s AS (SELECT * FROM spans) SELECT id FROM s",
            "make it a job of its own, and read that job's target here",
        ),
        ("SELECT id FROM spans WHERE id IN (SELECT id FROM spans)", "join its table, or make it a job of its own"),
        (
            "SELECT a.n FROM spans a JOIN spans b ON a.id = b.id GROUP BY a.n",
            "write the joins as a job, and read its target",
        ),
        ('SELECT id FROM "spans"', "it stands without quotes, or in backticks"),
        ("SELECT p.id FROM prices p", "is not a source of this job; add it to 'sources', or to tables.yml"),
        ("SELECT n FROM spans", "select spans.id as it is, or correct 'key'"),
    ],
)
def test_what_a_refused_query_is_told_to_do_instead_is_possible(query: str, said: str) -> None:
    """A window is none in a job of its own either, and what a query reads comes from a job before it, not behind it."""
    _, faults = read({"query": query}, {"spans": "spans"}, SPANS)
    assert said in " ".join(each.message for each in faults)


def test_sources_that_are_a_list_are_told_before_the_query_misses_them() -> None:
    _, faults = expand_query(Tree("q", {"query": "SELECT id FROM spans", "sources": ["spans"]}, {}, {}, {}))
    assert [each.message for each in faults] == ["'sources' must be a mapping, as {orders: {table: orders, key: id}}"]


@pytest.mark.parametrize(
    "text",
    [
        *("a.end - a.start", "coalesce(a.end, 1)", "CASE WHEN a.n > a.end THEN a.case END", "a.from", "a.to - a.from"),
        *(
            "a.n IS DISTINCT FROM 3",
            "a.n IS NOT DISTINCT FROM a.start",
            "(a.n IS DISTINCT FROM a.from)",
            "position('1' IN a.to)",
        ),
    ],
)
def test_a_name_behind_a_dot_is_no_keyword(text: str) -> None:
    named, faults = read({"query": f"SELECT a.id, {text} AS c FROM spans AS a"}, {"spans": "spans"}, SPANS)
    assert (named is not None, faults) == (True, [])
    assert named is not None
    select = {"id": "a.id", "c": text}
    same, faults = read({"from": "a", "select": select}, {"a": "spans"}, SPANS)
    assert (same is not None, faults) == (True, [])
    assert same is not None
    assert named.meaning == same.meaning
    grouped = f"SELECT a.end, max({text}) AS c FROM spans a GROUP BY a.end"
    assert read({"query": grouped}, {"spans": "spans"}, SPANS)[1] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT id, end - start AS c FROM spans", "'end' is not allowed here; put it into backticks"),
        (
            "SELECT id, n COLLATE UTF8_LCASE AS c FROM spans",
            "did not expect 'COLLATE'; text is compared by its bytes",
        ),
        ("SELECT id, CAST(n AS STRING COLLATE UTF8_LCASE) AS c FROM spans", "text is compared by its bytes"),
        ("SELECT id, collate('a', 'UTF8_LCASE') AS c FROM spans", "it is of collations"),
    ],
)
def test_what_no_expression_has_is_told_as_what_it_is(text: str, said: str) -> None:
    _, faults = read({"query": text}, {"spans": "spans"}, SPANS)
    assert said in " ".join(f"{each.message}" for each in faults)


@pytest.mark.parametrize(
    ("how", "shown", "column"),
    [
        ("JOIN r ON l.x = r.x", "CAST(r.x AS STRING)", "r.x"),
        ("RIGHT JOIN r USING (x)", "CAST(x AS STRING)", "r.x"),
        ("FULL JOIN r ON l.x = r.x", "CAST(coalesce(r.x, l.x) AS STRING)", "coalesce(r.x, l.x)"),
        ("FULL JOIN r USING (x)", "CAST(x AS STRING)", "key"),
    ],
)
@pytest.mark.parametrize("kind", ["double", "float", "int"])
def test_equal_keys_that_are_shown_otherwise_are_each_their_own(how: str, shown: str, column: str, kind: str) -> None:
    """0.0 is -0.0, and is no other text."""
    tables = {name: {"key": "x", "columns": {"x": kind, "n": "int"}} for name in ("l", "r")}
    query = f"SELECT coalesce(l.x, r.x) AS x, {shown} AS c FROM l {how}"
    named, faults = read({"query": query}, {"l": "l", "r": "r"}, tables)
    assert (named is not None, faults) == (True, [])
    assert named is not None
    text = f"CAST({column if kind != 'int' else 'key'} AS STRING)"
    parts = {
        "from": "l",
        "join": {"r": {"kind": "table", "how": how.partition(" ")[0].lower().replace("join", "inner")}},
    }
    same, faults = read({**parts, "select": {"x": "key", "c": text}}, {"l": "l", "r": "r"}, tables)
    assert (same is not None, faults) == (True, [])
    assert same is not None
    assert named.meaning == same.meaning


@pytest.mark.parametrize("select", ["a.id", "if(a.id IS NULL, b.id, a.id) AS k"])
def test_a_key_that_is_not_whole_is_told_in_the_words_of_a_query(select: str) -> None:
    query = f"SELECT {select}, b.n AS m FROM spans AS a FULL JOIN spans AS b ON a.id = b.id"
    _, faults = read({"query": query}, {"spans": "spans"}, SPANS)
    assert "select coalesce(a.id, b.id) AS id as it is" in " ".join(each.message for each in faults)


def test_a_name_in_backticks_does_not_end_a_condition_in_parentheses() -> None:
    sources = {table: table for table in ("products", "merchants", "countries")}
    of_product = "products AS p LEFT JOIN merchants AS m ON p.`merchant_id` = m.`merchant_id`"
    rows = f"({of_product}) LEFT JOIN countries AS c ON m.country_code = c.country_code"
    found, faults = read({"query": f"SELECT p.product_id, c.label FROM {rows}"}, sources)
    assert (found is not None, faults) == (True, [])


@pytest.mark.parametrize(
    ("select", "on", "column"),
    [("customer_id", "o.customer_id = a.customer_id", 20), ("mail", "customer_id = a.customer_id", 105)],
)
def test_a_bare_name_behind_using_is_none_of_a_later_table(select: str, on: str, column: int) -> None:
    """Spark refuses it as ambiguous, too."""
    rows = f"orders o LEFT JOIN customers c USING (customer_id) LEFT JOIN accounts a ON {on}"
    sources = {table: table for table in ("orders", "customers", "accounts")}
    _, faults = read({"query": f"SELECT o.order_id, {select} FROM {rows}"}, sources)
    said = "'customer_id' is ambiguous; write o.customer_id or c.customer_id or a.customer_id"
    assert [(each.where, each.message) for each in faults] == [(f"q:1:{column}", said)]


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("customer_id AS id, nickname", "'customer_id' is ambiguous; write c.customer_id or p.customer_id"),
        ("*", "customer_id of this star is not the key in every row any more; name the columns"),
    ],
)
def test_a_name_behind_using_is_not_the_key_of_rows_that_a_later_join_adds(select: str, said: str) -> None:
    """For Spark it is null in them."""
    rows = "consents c LEFT JOIN profiles p USING (customer_id) FULL JOIN regions r ON c.customer_id = r.region_code"
    sources = {table: table for table in ("consents", "profiles", "regions")}
    text = f"SELECT {select} FROM {rows}"
    found = read({"query": text.replace("FULL", "LEFT").replace("*", "c.*")}, sources)[1]
    assert not [each for each in found if "customer_id" in each.message and "one type" not in each.message], found
    _, faults = read({"query": text}, sources)
    assert said in {each.message for each in faults}, faults


USING, ON = "USING (customer_id)", "ON c.customer_id = p.customer_id"


@pytest.mark.parametrize(
    ("column", "join", "written"),
    [
        ("to_json(struct(customer_id, NICKNAME))", USING, "key AS `customer_id`, p.`nickname` AS `NICKNAME`"),
        ("struct(coalesce(c.customer_id, p.customer_id), p.nickname AS n)", ON, "key AS `col1`, p.`nickname` AS n"),
        ("struct(c.customer_id AS id, 1)", ON, "c.`customer_id` AS id, 1"),
        ("struct(((NICKNAME)), (c.customer_id))", ON, "p.`nickname` AS `NICKNAME`, (c.`customer_id`)"),
        ("struct((Nickname) AS n, (nickname))", ON, "(p.`nickname`) AS n, (p.`nickname`)"),
        ("struct((customer_id), 1)", USING, "key AS `customer_id`, 1"),
        ("transform(array(1), x -> struct(x, (NICKNAME)))", ON, "x, p.`nickname` AS `NICKNAME`"),
    ],
)
def test_fields_of_a_struct_have_the_names_that_spark_gives_them(column: str, join: str, written: str) -> None:
    text = f"SELECT c.customer_id, {column} AS told FROM consents c LEFT JOIN profiles p {join}"
    found, faults = read({"query": text}, {table: table for table in ("consents", "profiles")})
    assert faults == []
    assert found is not None
    assert f"struct({written})" in found.spec.outputs[1].expression


@pytest.mark.parametrize(
    ("column", "written"),
    [
        ("arrays_zip(TAGS, (tags))", "arrays_zip(struct(p.`tags` AS `TAGS`).`TAGS`, (p.`tags`))"),
        ("(TITLE, (p.PRICE))", "(struct(p.`title` AS `TITLE`).`TITLE`, struct(p.`price` AS `PRICE`).`PRICE`)"),
        ("TITLE LIKE ANY (TITLE, 'x')", "p.`title` LIKE ANY (p.`title`, 'x')"),
        ("array((coalesce(p.product_id, q.product_id), 1))", "array((coalesce(key), 1))"),
    ],
)
def test_fields_that_take_no_as_have_the_names_that_spark_gives_them(column: str, written: str) -> None:
    known = {"p": corpus()["tables"]["products"], "q": {"key": "product_id", "columns": {"product_id": "bigint"}}}
    text = f"SELECT p.product_id, {column} AS told FROM p LEFT JOIN q ON p.product_id = q.product_id"
    found, faults = read({"query": text}, {"p": "p", "q": "q"}, known)
    assert faults == []
    assert found is not None
    assert found.spec.outputs[1].expression == written


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT id, status FROM status", "status.`status`"),
        ("SELECT id, struct(upper(STATUS)) AS s FROM status WHERE status > ''", "struct(upper(status.`status`))"),
        ("SELECT s.id, status FROM status AS s LEFT JOIN price AS p ON status = p.id", "s.`status`"),
        ("SELECT s.id, price FROM status AS s LEFT JOIN price ON s.id = price.id", "price.`price`"),
        ("SELECT price.id, price FROM status AS price LEFT JOIN status AS s ON price = s.id", None),
        ("SELECT id, price FROM status AS price", None),
        ("SELECT status, count(*) AS n FROM status GROUP BY status", "__enrich_a0"),
    ],
)
def test_a_column_may_be_called_as_its_table(text: str, shown: str | None) -> None:
    """Where the table has none of that name, it is the table that is meant, which is no value."""
    known = {table: {"key": "id", "columns": {"id": "string", table: "string"}} for table in ("status", "price")}
    sources = {table: table for table in known if re.search(rf"(FROM|JOIN) {table}\b", text)}
    found, faults = read({"query": text}, sources, known)
    if shown is None:
        assert "'price' is a whole table and no column; name a column of it" in faults[0].message
    else:
        assert faults == []
        assert found is not None
        assert found.spec.outputs[1].expression == shown


def test_fields_of_a_struct_of_groups_have_the_names_that_spark_gives_them() -> None:
    text = "SELECT nickname, struct(NICKNAME, count(*), 1) AS told FROM profiles GROUP BY nickname"
    found, _ = read({"query": text}, {"profiles": "profiles"})
    assert found is not None
    assert isinstance(found.spec, GroupSpec)
    told = " ".join(found.spec.cells[1].expression.split())
    assert told == "struct( __enrich_k0 AS `NICKNAME`, __enrich_a0 AS `col2` , 1)"
    found, _ = read({"query": text.replace("NICKNAME, count(*)", "(count(*)), ((NICKNAME))")}, {"profiles": "profiles"})
    assert found is not None
    assert isinstance(found.spec, GroupSpec)
    told = " ".join(found.spec.cells[1].expression.split())
    assert told == "struct( __enrich_a0 AS `col1` , __enrich_k0 AS `NICKNAME`, 1)"


def test_parameters_of_the_rows_of_a_group_have_names_of_their_own() -> None:
    known = {"t": {"key": "id", "columns": dict.fromkeys(("id", "a.b", "a_b", "c"), "string")}}
    found, _ = read(
        {"query": "SELECT `a.b`, a_b, c, count(ALL id) AS n FROM t GROUP BY `a.b`, a_b, c"}, {"t": "t"}, known
    )
    assert found is not None
    rows = JOBS["group"].write_rows_query(found.spec, "t", 3)
    assert rows is not None
    assert rows.endswith("WHERE t.`a.b` = :a_b_0 AND t.`a_b` = :a_b_1 AND t.`c` = :c_2 AND t.`id` IS NOT NULL")
    other = replace(found.spec, sources={"t": replace(found.spec.sources["t"], normalise=("trim",))})
    assert JOBS["group"].write_rows_query(other, "t", 3) is None  # the table has other keys
    assert isinstance(found.spec, GroupSpec)
    assert found.spec.aggregates == {"__enrich_a0": "count(t.`id`)"}


def test_a_variable_of_a_lambda_has_no_case() -> None:
    """A column of its name in another case is hidden."""
    known = {"t": {"key": "id", "columns": {"id": "int", "x": "int", "list": "array<int>"}}}
    found, _ = read({"query": "SELECT id, transform(list, X -> x + 1) AS more FROM t"}, {"t": "t"}, known)
    assert found is not None
    assert found.spec.outputs[1].expression == "transform(t.`list`, X -> x + 1)"


def test_a_column_may_have_a_name_that_a_subquery_begins_with() -> None:
    known = {"t": {"key": "id", "columns": dict.fromkeys(("id", "values", "with"), "int")}}
    found, faults = read({"query": "SELECT id, abs(values) AS v, (with) AS w FROM t"}, {"t": "t"}, known)
    assert (found is not None, faults) == (True, [])


def test_a_comment_ends_where_spark_ends_it() -> None:
    query = read_query("SELECT a -- one\r, b -- two\n, c -- three\r\n FROM t", ["t"])
    assert ([item.name or item.tokens[0].name for item in query.items], query.faults) == (["a", "b", "c"], [])


def test_any_text_is_a_job_or_has_faults() -> None:
    """Queries of the corpus with words that went, came or changed places: two thousand, the same ones every time."""
    chance = random.Random(535951)
    texts = [text for each in corpus()["accepted"] + corpus()["refused"] if len(text := text_of(each)) < 3_000]
    words = sorted({word for text in texts for word in re.findall(r"\w+|\S", text)})
    accepted = 0
    for _ in range(2_000):
        parts = re.findall(r"\s+|\w+|\S", chance.choice(texts)) or [""]
        for _ in range(chance.randint(1, 3)):
            place, other = chance.randrange(len(parts)), chance.randrange(len(parts))
            parts[place] = chance.choice(["", f"{parts[place]} {chance.choice(words)} ", parts[other]])
        found, faults = read({"query": "".join(parts)}, {table: table for table in corpus()["tables"]})
        assert (found is None) == bool(faults), "".join(parts)
        accepted += found is not None
    assert 0 < accepted < 500


FILE = """\
job: shop
sources:
  products: {table: products, key: id}
query: |

  SELECT p.id,
         upperr(p.title) AS title
  FROM products AS p
target: {table: shop}
"""


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        (FILE, "jobs/shop.yml:7:10", "upperr"),
        (
            FILE.partition("query")[0] + "query: SELECT p.id\ntarget: {table: shop}\n",
            "jobs/shop.yml:4, line 1, column 1 of the query",
            "FROM",
        ),
        (
            FILE.replace("upperr(p.title) AS", "p.price */* each */ 2 AS"),
            "jobs/shop.yml:7:18",
            "write a blank after the star",
        ),
        (FILE.replace("query: |\n\n  SELECT", "query: |2\n\n      SELECT"), "jobs/shop.yml:7:10", "upperr"),
        (FILE.replace("p.id,", "p.id AS x, p.oops+1,").replace("upperr", "upper"), "jobs/shop.yml:6:21", "an alias"),
        (FILE.replace("upperr", "upper") + "where: p.id > 0\n", "jobs/shop.yml:10", "keep one of the two"),
        (FILE.replace("upperr", "upper") + "kind: mirror\n", "jobs/shop.yml:10", "job of joins"),
        (FILE.replace("key: id", "kye: id"), "jobs/shop.yml:3", "'key' is missing in 'sources.products'"),
        (
            FILE.replace("upperr", "upper").replace("sources:", "sources:\n  others: {table: others, key: id}"),
            "jobs/shop.yml",
            "neither 'from' nor joined",
        ),
    ],
)
def test_a_fault_has_line_and_column_of_the_file(tmp_path: Path, text: str, where: str, said: str) -> None:
    write_project(tmp_path, {"conf/dev.yml": "lake: ./lake\n", "jobs/shop.yml": text})
    with pytest.raises(ConfigError) as caught:
        load_project(tmp_path)
    assert any((fault.where or "").startswith(where) and said in fault.message for fault in caught.value.faults)
