"""Jobs of groups as files have them: what a query with GROUP BY means, and what is refused, and where."""

from __future__ import annotations

from typing import Any

import pytest

from enrich.project.kinds import JOBS
from unit.config.test_queries import read

ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    # A query, and the same job in the words of a file.
    "plain columns": (
        "SELECT currency, count(*) AS n, sum(price) AS total FROM products WHERE price > 0 GROUP BY currency",
        {
            "group": {"by": "products.currency"},
            "select": {"currency": "products.currency", "n": "count(*)", "total": "sum(products.price)"},
            "where": "products.price > 0",
        },
    ),
    "an expression by its alias, in another case, with comments": (
        "select Upper(Currency) AS c, /* n */ Count(*) n from PRODUCTS p group by C -- end",
        {"group": {"by": "Upper(p.currency)"}, "select": {"c": "upper(p.currency)", "n": "count( * )"}},
    ),
    "the expression again, and two keys": (
        (
            "SELECT date_trunc('MONTH', created) AS m, merchant_id, max(weight) AS w FROM products"
            " GROUP BY merchant_id, date_trunc('MONTH', created)"
        ),
        {
            "group": {"by": ["products.merchant_id", "date_trunc('MONTH', products.created)"]},
            "select": {
                "m": "date_trunc('MONTH', products.created)",
                "merchant_id": "products.merchant_id",
                "w": "max(products.weight)",
            },
        },
    ),
    "conditions, distinct ones, expressions over aggregates": (
        (
            "SELECT merchant_id, sum(price) FILTER (WHERE active) / count(*) AS mean, count(DISTINCT currency) AS c,"
            " array_sort(array_agg(DISTINCT title) FILTER (WHERE active)) AS t,"
            " max(price)-min(price) BETWEEN 1 AND count(*) AS odd, bool_or(price > 7) AS dear, "
            " concat(merchant_id, ':', count(*)) AS label"
            " FROM products GROUP BY merchant_id"
        ),
        {
            "group": {"by": ["products.merchant_id"]},
            "select": {
                "merchant_id": "products.merchant_id",
                "mean": "sum(products.price) filter (where products.active) / count(*)",
                "c": "count(distinct products.currency)",
                "t": "array_sort(array_agg(DISTINCT products.title) FILTER (WHERE products.active))",
                "odd": "max(products.price) - min(products.price) BETWEEN 1 AND count(*)",
                "dear": "bool_or(products.price > 7)",
                "label": "concat(products.merchant_id, ':', count(*))",
            },
        },
    ),
    "no aggregate": (
        "SELECT currency AS c, 1 AS one FROM products GROUP BY (currency);",
        {"group": {"by": "products.currency"}, "select": {"c": "products.currency", "one": "1"}},
    ),
    "parentheses": (
        "SELECT (weight + 1) AS w, (count(*)) AS n FROM products GROUP BY weight + 1",
        {"group": {"by": "products.weight + 1"}, "select": {"w": "products.weight + 1", "n": "count(*)"}},
    ),
    "parentheses behind a new name": (
        "SELECT (weight + 1) AS more, count(*) AS n FROM products GROUP BY more",
        {"group": {"by": "products.weight + 1"}, "select": {"more": "products.weight + 1", "n": "count(*)"}},
    ),
    "the same twice": (
        "SELECT currency, count(*) AS n FROM products GROUP BY currency, currency",
        {"group": {"by": "products.currency"}, "select": {"currency": "products.currency", "n": "count(*)"}},
    ),
    "a field": (
        "SELECT payload.page, avg(payload.item.qty) AS q FROM events GROUP BY payload.page",
        {
            "group": {"by": "events.payload.page"},
            "select": {"page": "events.payload.page", "q": "avg(events.payload.item.qty)"},
        },
    ),
}

SUM = "SELECT merchant_id, {} AS x FROM products GROUP BY merchant_id"
REFUSED = [
    # The query, line and column, words of the message.
    (SUM.format("sum(weight)"), (1, 21), ["double", "order of the rows", "decimal"]),
    (SUM.format("avg(weight)"), (1, 21), ["double"]),
    (SUM.format("sum(title)"), (1, 21), ["string", "added up"]),
    (SUM.format("1 + approx_count_distinct(title)"), (1, 25), ["approx_count_distinct", "approximate"]),
    (SUM.format("first(title)"), (1, 21), ["first", "groups have"]),
    (SUM.format("any(price > 1)"), (1, 21), ["any", "bool_or"]),
    (SUM.format("some(price > 1)"), (1, 21), ["some", "bool_or"]),
    (SUM.format("collect_set(title)"), (1, 21), ["collect_set", "array_sort(array_agg(DISTINCT x))"]),
    (SUM.format("array_agg(title)"), (1, 21), ["array_agg", "order"]),
    (SUM.format("array_agg(DISTINCT title)"), (1, 21), ["array_agg", "order"]),
    (SUM.format("sum(DISTINCT price)"), (1, 21), ["sum", "DISTINCT"]),
    (SUM.format("sum(max(price))"), (1, 21), ["sum", "another aggregate"]),
    (SUM.format("count(title, price)"), (1, 21), ["count", "one argument"]),
    (SUM.format("sum(price) OVER ()"), (1, 21), ["window"]),
    (SUM.format("sum(pricee)"), (1, 25), ["pricee", "did you mean", "price"]),
    (SUM.format("max(tags)"), (1, 21), ["array", "no order"]),
    (SUM.format("count(*) FILTER (WHERE title)"), (1, 21), ["FILTER", "string"]),
    (SUM.format("count(*) FILTER (WHERE titel IS NULL)"), (1, 44), ["titel", "title"]),
    (SUM.format("title"), (1, 21), ["title", "neither in GROUP BY"]),
    (SUM.format("upper(title) || count(*)"), (1, 27), ["title", "neither in GROUP BY"]),
    (SUM.replace(" AS x", "").format("count(*)"), (1, 21), ["alias"]),
    (SUM.format("max(price) AS x, merchant_id"), (1, 38), []),
    ("SELECT * FROM products GROUP BY merchant_id", (1, 8), ["star", "GROUP BY"]),
    ("SELECT count(*) AS n FROM products GROUP BY merchant_id", (1, 1), ["merchant_id", "selected"]),
    ("SELECT upper(title) AS title, count(*) AS n FROM products GROUP BY title", (1, 1), ["title", "selected"]),
    ("SELECT merchant_id, count(*) AS n FROM products GROUP BY 1", (1, 58), ["GROUP BY"]),
    ("SELECT tags, count(*) AS n FROM products GROUP BY tags", (1, 51), ["array", "groups"]),
    ("SELECT merchant_id FROM products GROUP BY merchant_id, rollup(title)", (1, 34), ["GROUP BY", "ROLLUP"]),
    ("SELECT merchant_id FROM products GROUP BY", (1, 40), ["GROUP BY"]),
    ("SELECT merchant_id FROM products GROUP BY merchant_id GROUP BY title", (1, 55), ["GROUP BY"]),
    ("SELECT merchant_id\nFROM products\nGROUP BY merchant_id\nHAVING count(*) > 1", (4, 1), ["HAVING", "WHERE"]),
    ("SELECT merchant_id FROM products WHERE sum(price) > 1 GROUP BY merchant_id", (1, 40), ["sum", "aggregate"]),
    ("SELECT merchant_id, count(*) AS n FROM products GROUP BY merchant_id ORDER BY n", (1, 70), ["ORDER BY"]),
    ("SELECT merchant_id AS a, title AS A FROM products GROUP BY merchant_id, title", (1, 26), ["twice"]),
    ("SELECT merchand_id, count(*) AS n FROM products GROUP BY merchand_id", (1, 8), ["merchand_id", "merchant_id"]),
]  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_query_with_groups_is_the_job_beside_it(name: str) -> None:
    query, parts = ACCEPTED[name]
    table = "events" if "FROM events" in query else "products"
    found, faults = read({"query": query}, {table: table})
    assert (found is not None, faults) == (True, [])
    assert found is not None
    alias = found.spec.driving
    same, faults = read({"kind": "group", "from": alias, **parts}, {alias: table})
    assert (same is not None, faults) == (True, [])
    assert same is not None
    assert (found.meaning, found.kinds) == (same.meaning, same.kinds)
    text = JOBS["group"].write_query(same.spec, {alias: table})
    assert text is not None
    again, faults = read({"query": text}, {table: table})
    assert (again is not None, faults) == (True, []), text
    assert again is not None
    assert again.meaning == same.meaning


@pytest.mark.parametrize(("query", "place", "says"), REFUSED)
def test_what_groups_have_not_is_refused_at_its_place(query: str, place: tuple[int, int], says: list[str]) -> None:
    found, faults = read({"query": query}, {"products": "products"})
    assert found is None
    at = f"q:{place[0]}:{place[1]}"
    said = [fault.message.lower() for fault in faults if fault.where == at]
    assert any(all(word.lower() in each for word in says) for each in said), faults


JOB = {
    "kind": "group",
    "from": "p",
    "group": {"by": "p.currency"},
    "select": {"currency": "p.currency", "n": "count(*)"},
}
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"group": None}, "'group' has no value"),
    ({"group": {"by": []}}, "'by' is empty"),
    ({"group": {"by": "p.curency"}}, "'curency' is not a column of 'p' (table products); did you mean 'currency'?"),
    ({"group": {"by": "1"}}, "'1' names no column"),
    ({"select": {}}, "kind group needs 'select'"),
    ({"select": {"n": "count(*)"}}, "not selected completely; select p.currency as it is"),
    ({"select": {"currency": "p.currency", "n": "sum(p.titel)"}}, "'titel' is not a column of 'p'"),
    ({"select": {"currency": "p.currency", "n": "1 + median(p.price)"}}, "the aggregate median at character 5 of"),
    ({"select": {"currency": "p.currency", "n": "max(p.price) + q.price"}}, "'q.price' at character 16 of"),
    ({"join": {"m": {"kind": "table"}}}, "'join' is not for kind group; a group reads one source"),
    ({"where": "p.price"}, "'where' is decimal(10,2); it must be a condition"),
    ({"target": {"table": "q", "cluster_by": "m"}}, "'cluster_by' names 'm', which is not selected"),
    ({"rules": [{"rule": "match_rate", "join": "p", "at_least": 0.5}]}, "a group job can have mass_change"),
]  # fmt: skip


@pytest.mark.parametrize(("other", "said"), FAULTS)
def test_faults_of_a_file_of_groups(other: dict[str, Any], said: str) -> None:
    _, faults = read({**JOB, **other}, {"p": "products"})
    assert any(said in fault.message for fault in faults), faults


def test_averages_of_whole_numbers_do_not_depend_on_the_order_of_rows() -> None:
    found, _ = read({"query": SUM.format("avg(product_id) FILTER (WHERE active)")}, {"products": "products"})
    assert found is not None
    (computed,) = found.spec.aggregates.values()  # type: ignore[union-attr]
    assert computed.startswith("CAST(sum(CAST(products.`product_id` AS DECIMAL(20, 0))) FILTER (WHERE ")


def test_where_columns_come_from() -> None:
    found, _ = read({"query": SUM.format("sum(price) / count(*)")}, {"products": "products"})
    assert found is not None
    assert found.spec.outputs[0].expression == "products.`merchant_id`"
    assert JOBS["group"].find_origins(found.spec) == {
        "merchant_id": {("products", "merchant_id"): "IDENTITY"},
        "x": {("products", "price"): "AGGREGATION"},
    }
