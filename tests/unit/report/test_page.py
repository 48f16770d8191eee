"""The page: nothing that a browser runs or fetches, whatever the names in it are. A real browser has the last word."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape, unescape
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from enrich.base.console import clean
from enrich.report import build_report
from enrich.report.page import render_page, show
from enrich.report.text import format_percent, format_report
from kit.history import expect, finding, project_in, row, state
from kit.hostile import hostile, hostile_report
from kit.reports import report_of_size


class Reader(HTMLParser):
    """Gathers a page's elements and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str, str | None]] = set()
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(tag, name, value) for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


# --- without a browser ------------------------------------------------------------------------------------------------


def test_page_holds_only_elements_of_the_template(tmp_path: Path) -> None:
    harmless = Reader(
        render_page(build_report([(project_in(tmp_path).jobs["customers"], [])], project_in(tmp_path)))
    )  # which says what to do
    found = Reader(render_page(hostile_report(tmp_path)))
    assert "html" in harmless.tags
    assert found.tags - harmless.tags <= {
        "a",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
        "input",
        "label",
    }
    assert found.tags.isdisjoint({"script", "img", "image", "iframe", "link", "object", "embed", "form", "base"})
    names = {name for _, name, _ in found.attributes}
    assert not [name for name in names if name.startswith("on")]
    assert names.isdisjoint({"src", "srcset", "xlink:href", "action", "formaction", "background"})
    assert {value[:5] for _, name, value in found.attributes if name == "href" and value} == {"#job-", "#jobs"}
    assert len([tag for tag, name, _ in found.attributes if (tag, name) == ("meta", "http-equiv")]) == 1


def test_page_tells_the_table_first_then_the_run(tmp_path: Path) -> None:
    project = project_in(tmp_path, rules=[expect()])
    kept = [state(n * 4, nulls={"id": 0, "email": n}) for n in range(3)]
    rows = [row(n, findings=[finding()], state=kept[n]) for n in range(3)]
    text = render_page(build_report([(project.jobs["customers"], rows)], project))
    assert text.index("<h3>the table now") < text.index("<h3>the run of") < text.index("<h3>last runs: 3<")
    assert (
        '<th scope="row"><span>email is missing</span><code>expect_column_values_to_not_be_null(email)</code></th>'
        in text
    )
    assert "<td><span>0 4</span></td>" in text
    assert "no nulls in 1 column" in "".join(Reader(text).text)
    assert "the table now" not in render_page(build_report([(project.jobs["customers"], [row(0)])], project))


def test_page_forbids_what_it_does_not_hold(tmp_path: Path) -> None:
    text = render_page(hostile_report(tmp_path))
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src' in text
    assert text.index("Content-Security-Policy") < text.index("<title>") < text.index("<style>")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_page_and_text_show_hidden_characters_as_escapes(tmp_path: Path) -> None:
    report = hostile_report(tmp_path)
    terminal = re.sub(r"\x1b\[[0-9;]*m", "", format_report(report))  # the colours of our own words
    for text in (render_page(report), terminal):
        assert not [char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")]
        assert "\\u202e" in text
        assert "\\x1b" in text


def test_terminal_gets_no_colours_but_ours(tmp_path: Path) -> None:
    codes = set(re.findall(r"\x1b[^a-zA-Z]*[a-zA-Z]?", format_report(hostile_report(tmp_path))))
    assert codes <= {"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m", "\x1b[0m"}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x"])
def test_nothing_on_the_page_is_a_formula(tmp_path: Path, text: str) -> None:
    assert show(text) == f"'{text}"
    found = Reader(render_page(hostile_report(tmp_path))).text
    assert not [
        each for each in found if each.strip().startswith(("=", "+", "-", "@")) and each != "-" and "{" not in each
    ]


def test_templates_in_names_are_text(tmp_path: Path) -> None:
    text = render_page(hostile_report(tmp_path))
    assert "{{ 7 * 7 }}" in text
    assert "49{" not in text


def test_a_megabyte_of_names_is_a_small_page(tmp_path: Path) -> None:
    project, long = project_in(tmp_path), "<b>" * 400_000
    rows = [row(n, findings=[finding(long, column=long, error=long)], error=long) for n in range(5)]
    assert len(render_page(build_report([(project.jobs["customers"], rows)], project))) < 60_000


def test_page_is_whole_and_says_its_verdict_first(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    rows = [row(n, findings=[finding(failed=n, success=not n)], stages={"join": 1.0}) for n in range(3)]
    text = render_page(build_report([(project.jobs["customers"], rows)], project))
    found = Reader(text)
    words = " ".join("".join(found.text[found.text.index("enrich: 1 job: 1 warned") + 1 :]).split())
    assert words.index("1 job: 1 warned") < words.index("expect_column_values_to_not_be_null(email)")
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert ("meta", "content", "width=device-width, initial-scale=1") in found.attributes


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "-"), (0.0, "0 %"), (1.0, "100 %"), (0.125, "12.5 %"), (0.0001, "< 0.1 %"), (0.9999, "> 99.9 %")],
)  # fmt: skip
def test_a_share_that_is_not_quite_all_does_not_look_like_it(share: float | None, text: str) -> None:
    assert format_percent(share) == text


# --- a real browser ---------------------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")


@contextmanager
def server(folder: Path | None = None) -> Iterator[tuple[int, list[str]]]:
    """Serve what is asked for on a port of this machine, and note it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<script>document.title='pwned'</script>")

        def log_message(self, *_: object) -> None:
            pass

    found = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    try:
        yield found.server_port, asked
    finally:
        found.shutdown()
        found.server_close()
        thread.join()


THE_BROWSERS_OWN = re.compile(r"https?://[\w.-]*\b(google|googleapis|gvt1)\.com/")
"""Chromium asks its maker for the time and for updates of itself, whatever the page is."""


def opened(path: Path, home: Path) -> tuple[str, list[str], list[str]]:
    """Load a page in a browser; return the document as it is afterwards, what it asked for, and its console."""
    log = home / "net.json"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += [
        "--disable-component-update",
        "--disable-background-networking",
        "--disable-sync",
        "--no-default-browser-check",
    ]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--virtual-time-budget=2000"]
    command += [f"--user-data-dir={home / 'profile'}", f"--log-net-log={log}", "--dump-dom", path.as_uri()]
    command += ["--enable-logging=stderr"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(log.read_text(encoding="utf-8", errors="replace"))
    kind = found["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    urls = {event.get("params", {}).get("url", "") for event in found["events"] if event["type"] == kind}
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return done.stdout, sorted(url for url in urls if url and not THE_BROWSERS_OWN.match(url)), console


@needs_browser
def test_a_browser_runs_and_fetches_nothing(tmp_path: Path) -> None:
    with server() as (port, asked):
        report = hostile_report(tmp_path, port)
        file = tmp_path / "report.html"
        file.write_text(render_page(report), encoding="utf-8")
        dom, urls, console = opened(file, tmp_path)
        assert (asked, console) == ([], [])
    title = re.search(r"<title>(.*?)</title>", dom)
    assert title is not None
    assert title[1] == f"enrich: {report.headline}"
    assert [url for url in urls if not url.startswith("file://")] == []
    assert "<script" not in dom
    assert clean("&lt;script&gt;document.title='pwned'&lt;/script&gt;") in dom


@needs_browser
def test_the_browser_would_have_been_caught(tmp_path: Path) -> None:
    """The same texts on a page that does not escape them, once without and once with the page's policy."""
    with server() as (port, asked):
        body = "\n".join(hostile(port)[:6])
        file = tmp_path / "open.html"
        file.write_text(f"<html><head><title>mine</title></head><body>{body}</body></html>", encoding="utf-8")
        dom, urls, _ = opened(file, tmp_path)
        assert "<title>pwned</title>" in dom
        assert "/img" in asked
        assert f"http://127.0.0.1:{port}/img" in urls
        asked.clear()

        policy = re.search(r"<meta http-equiv=.*?>", render_page(hostile_report(tmp_path)))
        assert policy is not None
        file.write_text(
            f"<html><head>{policy[0]}<title>mine</title></head><body>{body}</body></html>", encoding="utf-8"
        )
        dom, _, console = opened(file, tmp_path)
        assert "<title>mine</title>" in dom
        assert asked == []
        assert any("Content Security Policy" in line for line in console), "what a page does wrong is in its console"


FRAMES = [(width, scheme) for width in (360, 768, 1280) for scheme in ("light", "dark")]
MEASURE = """
addEventListener('load', () => {
    const told = [...document.querySelectorAll('iframe')].map(frame => {
        const page = frame.contentDocument, root = page.documentElement, over = [];
        const measure = () => over.push(root.scrollWidth - root.clientWidth, ...[...page.querySelectorAll('section')]
            .filter(each => each.checkVisibility()).map(each => each.scrollWidth - each.clientWidth));
        over.push(...[...page.querySelectorAll('.graph text')].map(each => Math.max(0, Math.ceil(
            each.getComputedTextLength() + 24 - each.parentNode.querySelector('rect').width.baseVal.value))));
        measure();
        page.querySelectorAll('details').forEach(each => each.open = true);
        measure();
        const jobs = page.querySelector('.jobs');  // on a telephone, and only there, this table may be pushed aside
        if (jobs && root.clientWidth > 700) over.push(jobs.scrollWidth - jobs.clientWidth);
        return [Math.max(...over), frame.contentWindow.getComputedStyle(page.body).backgroundColor];
    });
    document.title = JSON.stringify(told);
})
"""


def measure(text: str, home: Path) -> list[list[Any]]:
    """Return by how many pixels a page, folded or not, is too wide for each of the frames, and its colour there.

    A text of the picture that is too wide for its box counts as well.
    """
    frames = [
        f'<iframe srcdoc="{escape(text)}" style="border: 0; width: {width}px; height: 800px; color-scheme: {scheme}">'
        "</iframe>"
        for width, scheme in FRAMES
    ]
    file = home / "frame.html"
    file.write_text(f"<title></title>{''.join(frames)}<script>{MEASURE}</script>", encoding="utf-8")
    dom, _, console = opened(file, home)
    assert console == []
    title = re.search(r"<title>(.*?)</title>", dom)
    assert title is not None
    found: list[list[Any]] = json.loads(unescape(title[1]))
    return found


@needs_browser
@pytest.mark.parametrize("count", [1, 30, pytest.param(300, marks=pytest.mark.soak)])
def test_nothing_runs_over_the_edge(tmp_path: Path, count: int) -> None:
    """Whether it is pleasant is for eyes; that it is no wider than its window, a script around it can measure."""
    found = measure(render_page(report_of_size(tmp_path, count)), tmp_path)
    assert [over for over, _ in found] == [0] * len(FRAMES)
    light, dark = {colour for _, colour in found[::2]}, {colour for _, colour in found[1::2]}
    assert (len(light), len(dark), light & dark) == (1, 1, set()), "it has been looked at in both"


@needs_browser
def test_long_names_do_not_run_over_the_edge(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    long = "a_column_with_a_name_that_goes_on_and_on_" * 4
    lookup = {"kind": "table", "rows": 8, "matched": 6, "null_references": 1}
    document: dict[str, Any] = {
        "findings": [finding(column=long, failed=1, success=False)],
        "quarantine": {"rows": 1, "reasons": {long: 1}},
        "lookups": {long: lookup},
    }
    counts = {"rows": 12_345_678, "matched": 11_345_678, "null_references": 345_678}
    document["state"] = state(1_234_567, rows=12_345_678, lookups={long: counts}, nulls={long: 3, f"{long}0": 0})
    rows = [row(n, stages={"join": 1.0, "write": 2.0}, **document) for n in range(30)]
    text = render_page(build_report([(project.jobs["customers"], rows)], project))
    assert [over for over, _ in measure(text, tmp_path)] == [0] * len(FRAMES)


@needs_browser
def test_jobs_with_long_names_leave_room_for_what_to_do_next(tmp_path: Path) -> None:
    names = [f"a_rather_long_name_of_a_job_that_enriches_orders_with_customers_{number}" for number in range(3)]
    text = render_page(report_of_size(tmp_path, 3, {name: ["orders"] for name in names}))
    assert [over for over, _ in measure(text, tmp_path)] == [0] * len(FRAMES)
    assert {f"{name[-8:]}</text>" in text for name in names} == {True}, "in the picture, too, one is told from another"
