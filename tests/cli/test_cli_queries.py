"""``enrich sql`` and ``enrich graph``, which start no JVM, and what ``enrich diff`` refuses before it does.

``ENRICH_WRITE_DOCS=1 python -m pytest tests/cli/test_cli_queries.py`` writes what docs/queries.md shows.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cli.shop import JOB
from kit.command import Call
from kit.lab import FEED
from kit.project import ROOT, write_project
from kit.query_page import COLUMNS, EXAMPLES

PAGE = ROOT / "docs" / "queries.md"
SHOWN = re.compile(r"(?<=<!-- sql -->\n).*?(?=<!-- end -->)", re.DOTALL)
WRITE = os.environ.get("ENRICH_WRITE_DOCS") == "1"
MAILS = "job: mails\nkind: mirror\nsources: {c: {table: customers, key: id}}\nfrom: c\nmirror: {value: email}\n"
LATER = "job: later\nsources: {c: {table: customers, key: id}}\nfrom: c\ntarget: {table: later}\n"


def test_sql_prints_a_job_as_the_page_shows_it(call: Call, project: Path) -> None:
    found = call("--project-dir", project, "sql", "customers")
    assert (found.exit_code, found.stderr) == (0, "")
    block = f'```yaml title="jobs/customers.yml"\n{JOB}```\n\n```\n$ enrich sql customers\n{found.stdout}```\n'
    text = PAGE.read_text(encoding="utf-8")
    if WRITE:
        PAGE.write_text(SHOWN.sub(lambda _: block, text), encoding="utf-8")
    assert SHOWN.findall(PAGE.read_text(encoding="utf-8")) == [block]
    told = json.loads(call("--project-dir", project, "sql", "customers", "--output", "json").stdout)
    assert told == {"job": "customers", "query": found.stdout.removesuffix("\n")}


def test_sql_prints_a_query_as_one_and_refuses_what_is_none(call: Call, tmp_path: Path) -> None:
    jobs = {"conf/dev.yml": "lake: ./lake\n", "jobs/mails.yml": MAILS + "target: {table: mails}\n"}
    home = write_project(tmp_path, EXAMPLES | jobs)
    for name in ("products", "merchants", "countries", "orders_enriched"):
        columns = pa.schema(list(COLUMNS[name].items()))
        DeltaTable.create(str(home / "lake" / name), columns, configuration=FEED)
    found = call("--project-dir", home, "sql", "products_with_merchant")
    assert found.stdout.endswith(
        "FROM products AS p\n"
        "LEFT JOIN merchants AS m ON p.merchant_id = m.merchant_id\n"
        "LEFT JOIN countries AS c ON m.country_code = c.country_code\n"
        "WHERE p.price > 0\n"
    )
    assert "GROUP BY" in call("--project-dir", home, "sql", "revenue_by_merchant").stdout
    columns = pa.schema([("id", pa.string()), ("email", pa.string())])
    DeltaTable.create(str(home / "lake" / "customers"), columns, configuration=FEED)
    refused = call("--project-dir", home, "sql", "mails")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "job 'mails' is no query: SQL has no words for its kind" in refused.stderr
    assert call("--project-dir", home, "sql", "no_such_job").exit_code == 2


def test_graph_draws_the_chosen_jobs_in_both_formats(call: Call, project: Path) -> None:
    write_project(project, {"jobs/later.yml": LATER})
    whole = call("--project-dir", project, "graph")
    assert whole.exit_code == 0
    assert whole.stdout.startswith(("flowchart", "graph", "---"))
    assert {"consents", "accounts", "customers", "later"} <= {*re.findall(r"\w+", whole.stdout)}
    assert call("--project-dir", project, "graph", "--format", "mermaid").stdout == whole.stdout
    one = call("--project-dir", project, "graph", "--select", "later").stdout
    assert "accounts" not in one
    assert "later" in one
    drawn = call("--project-dir", project, "graph", "--format", "svg", "--select", "+later").stdout
    assert (drawn[:4], drawn.count("</svg>")) == ("<svg", 1)
    assert "accounts" in drawn
    assert call("--project-dir", project, "graph", "--format", "png").exit_code == 2
    assert call("--project-dir", project, "graph", "--select", "no_such").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--with", ""), "--with"),
        (("--show-keys", "3"), "terminal"),
        (("--output", "xml"), "--output"),
    ],
)
def test_diff_refuses_before_it_starts_anything(
    call: Call, project: Path, arguments: tuple[str, ...], said: str
) -> None:
    found = call("--project-dir", project, "diff", "customers", *arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert said in found.stderr
