"""Render the report as Markdown for a comment on a pull request: what fails comes first, what passed is folded away.

Every text that is not ours stands as code, so that no name becomes a link, a mention, a heading or a column of a table.
"""

from __future__ import annotations

import re

from enrich.base.console import clean, format_count
from enrich.report.models import Report
from enrich.report.page import build_environment
from enrich.report.words import format_verdict

_SETTLED = ("passed", "never_run", "not_checked")


def format_markdown(report: Report) -> str:
    """Return the report as Markdown of GitHub's kind, which GitLab and Azure read as well.

    ```
    ### enrich: warned

    2 jobs: 1 warned, 1 passed. Deployment `dev`, 2026-11-21T10:00:00Z.

    | job | verdict | rows | in short |
    | --- | --- | ---: | --- |
    | `customers` | **warned** | 100 | table now: 1 of 2 rules fails; this run: 2 passed |
    ...
    ```
    """
    environment = build_environment(html=False)
    environment.filters |= {
        "code": quote_text,
        "html": _quote_as_html,
        "bold": lambda verdict: format_verdict(verdict) if verdict in _SETTLED else f"**{format_verdict(verdict)}**",
        # Reasons stay as they are while they are made of our words.
        "plain": lambda why: why if re.fullmatch(r"[A-Za-z0-9 ,:;()]*", why) else quote_text(why),
        "counted": format_count,
    }
    text = environment.get_template("report.md.jinja").render(report=report, settled=_SETTLED)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip()


def quote_text(text: str) -> str:
    """Return a text as code: nothing in it is Markdown, HTML, a mention or the end of a cell."""
    shown = clean(text).replace("\n", " ").strip()
    if "|" in shown or not shown:
        return _quote_as_html(shown)  # a table is cut into cells before code is looked for
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _quote_as_html(text: str) -> str:
    """Return a text as code where Markdown's own is none: within HTML, or with what would end a cell."""
    shown = clean(text).replace("\n", " ")
    escaped = (char if char.isalnum() or char == " " else f"&#{ord(char)};" for char in shown)
    return f"<code>{''.join(escaped)}</code>"
