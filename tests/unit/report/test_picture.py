"""The picture of the project: boxes in layers that do not lie over each other, in any size of project."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from enrich.report.graph import HEIGHT, WIDTH, draw_picture, format_mermaid, list_nodes, select_near
from enrich.report.models import JobReport, Report, SourceRead
from enrich.report.page import format_svg, render_page
from kit.hostile import hostile
from kit.reports import random_feeds, report_of_size

VERDICTS = ("failed", "blocked", "skipped", "warned", "not_checked", "never_run", "passed")


def report_of(feeds: Mapping[str, Sequence[str]]) -> Report:
    """Return a report of jobs by name, each with what it reads: a job of this name, or a table."""
    jobs = [
        JobReport(
            job=name,
            target=name,
            verdict=VERDICTS[number % len(VERDICTS)],
            headline="",
            reads=tuple(
                SourceRead(alias=f"s{i}", table=each, job=each if each in feeds else None)
                for i, each in enumerate(reads)
            ),
        )
        for number, (name, reads) in enumerate(feeds.items())
    ]
    return Report(generated="now", target="dev", deployment="dev", verdict="failed", headline="jobs", jobs=tuple(jobs))


@pytest.mark.parametrize("count", [1, 30, 300])
def test_boxes_stand_apart_and_right_of_what_feeds_them(count: int) -> None:
    report = report_of(random_feeds(count))
    picture = draw_picture(list_nodes(report))
    assert sum(node.number > 0 for node in picture.nodes) == count
    for a, b in combinations(picture.nodes, 2):
        assert abs(a.x - b.x) >= WIDTH or abs(a.y - b.y) >= HEIGHT, (a.name, b.name)
    for node in picture.nodes:
        assert 0 <= node.x <= picture.width - WIDTH
        assert 0 <= node.y <= picture.height - HEIGHT
        assert all(other.x >= node.x + WIDTH for other in node.before)
    assert len(picture.lines) == sum(len(node.before) for node in picture.nodes)
    assert format_svg(report) == format_svg(report_of(random_feeds(count))), "the same project has the same picture"


def test_the_picture_says_in_words_what_it_says_in_colours() -> None:
    report = report_of({"b": ["raw", "raw2"], "c": ["b"], "d": ["raw3"], "e": ["c", "raw"]})
    root = ET.fromstring(format_svg(report))  # noqa: S314 - what we have written
    space = {"s": "http://www.w3.org/2000/svg"}
    assert root.find("s:title", space) is not None
    assert root.find("s:desc", space) is not None
    boxes = {each.get("aria-label"): each for each in root.findall("s:g[@tabindex]", space)}
    assert "job c, blocked; reads b; feeds e" in boxes
    assert {each.get("class") for each in boxes.values()} <= {"good", "warn", "bad", "none", "table"}
    for label, box in boxes.items():
        words = [text.text for text in box.findall("s:text", space)]
        assert words[1] == "table" or f", {words[1]}" in (label or "")

    page = render_page(report)
    numbers = {name: re.search(rf'id="job-(\d+)"[^>]*>\s*<h2>.*?</span> {name}</h2>', page) for name in "bcde"}
    for name, found in numbers.items():
        assert found is not None
        assert re.search(rf'<a class="\w+" href="#job-{found[1]}" aria-label="job {name},', page), (
            "a box leads to its job"
        )
    assert f'Reads <a href="#job-{numbers["b"][1]}">b</a>. Feeds' in page  # type: ignore[index]


def test_a_large_page_draws_what_is_to_be_done_first_and_folds_the_rest(tmp_path: Path) -> None:
    feeds = {f"job{n:03}": ["crm.a", f"crm.t{n}", *([f"job{n - 1:03}"] if n % 10 else [])] for n in range(60)}
    report = report_of_size(tmp_path, 60, feeds)
    whole, near = list_nodes(report), select_near(list_nodes(report))
    wanting = {job.job for job in report.jobs if job.to_do}
    around = {other.name for node in whole if node.name in wanting for other in (node, *node.after, *node.before)}
    assert {node.name for node in near} == around
    assert all(other in near for node in near for other in (*node.after, *node.before))
    titles = {node.name: node.title for node in whole}
    assert all(node.title == titles[node.name] for node in near), "its title tells all that feeds it, and all it feeds"

    page = render_page(report)
    first, rest = page[: page.index("The whole project: 60 jobs")], page[page.index("The whole project: 60 jobs") :]
    assert set(re.findall(r'aria-label="job (job\d+),', first)) == around & set(feeds)
    assert len(re.findall(r'aria-label="job job\d+,', rest)) == 60
    shown, folded = rest.split(f"Nothing to do: {60 - len(wanting)} jobs")
    sections = [set(re.findall(r"</span> (job\d+)</h2>", each)) for each in (shown, folded)]
    assert sections == [wanting, set(feeds) - wanting]
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert "The whole project" not in render_page(report_of({"a": ["b"]}))


def test_mermaid_has_every_box_and_line() -> None:
    text = format_mermaid(report_of({"b": ["raw"], "c": ["b", "raw"]}))
    assert text.splitlines()[:7] == [
        "flowchart LR",
        '  n0[("raw")]',
        '  n1["b<br>failed"]',
        '  n2["c<br>blocked"]',
        "  n0 --> n1",
        "  n0 --> n2",
        "  n1 --> n2",
    ]
    assert "  class n1,n2 bad" in text


def test_names_are_text_whatever_they_hold() -> None:
    wild = [*hostile(20), '"] --> x', "<script>", "a & b"]
    report = report_of({name: [f"t{name}"] for name in wild})
    root = ET.fromstring(format_svg(report))  # noqa: S314 - what we have written
    assert {each.tag.rpartition("}")[2] for each in root.iter()} == {
        "svg", "title", "desc", "style", "g", "path", "rect", "text",
    }  # fmt: skip
    for line in format_mermaid(report).splitlines()[1:]:
        assert re.fullmatch(r'  (n\d+(\[|\[\()"[\w .\-/#;<>]*"(\]|\)\])|n\d+ --> n\d+|class.*)', line), line
