"""The report as Markdown for a comment on a pull request: what fails comes first, what passed is folded away.

Every text that is not ours stands as code, so that no name becomes a link, a mention, a heading or a column of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from enrich.base.console import clean, format_count
from enrich.report.models import JobReport, Report, RuleNow, RuleReport
from enrich.report.values import format_verdict
from enrich.report.words import (
    format_allowed,
    format_number,
    format_percent,
    format_rule,
    format_since,
    format_terms,
    format_whole,
    format_why,
    select_nulls,
)

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
    lines = [f"### enrich: {format_verdict(report.verdict)}", ""]
    lines += [f"{report.headline}. Deployment {quote_text(report.deployment)}, {report.generated}.", ""]
    rows = [(quote_text(job.job), _format_verdict(job.verdict), _count_rows(job), job.headline) for job in report.jobs]
    lines += _format_table(("job", "verdict", "rows", "in short"), rows, right=(2,))
    for job in report.jobs:
        lines += _format_job(job)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip()


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


def _format_job(job: JobReport) -> list[str]:
    if job.last is None:
        return []
    error = [f"Error: {quote_text(job.last.error)}", ""] if job.last.error else []
    body = [*error, *_format_now(job), *_format_run(job)]
    title = f"{quote_text(job.job)}: {format_verdict(job.verdict)}"
    if job.verdict not in _SETTLED:
        return ["", f"#### {title}", "", *body]
    folded = f"<details><summary>{_quote_as_html(job.job)}: {format_verdict(job.verdict)}</summary>"
    return ["", folded, "", *body, "</details>"] if body else []


def _format_now(job: JobReport) -> list[str]:
    if job.now is None:
        return []
    now = job.now
    lookups = [
        (
            quote_text(alias),
            format_percent(each.match_rate),
            format_number(each.orphans),
            format_number(each.null_references),
            format_number(each.rows),
        )
        for alias, each in now.lookups.items()
    ]
    nulls = [
        (quote_text(column), format_number(each.rows), format_percent(each.share))
        for column, each in select_nulls(now).items()
    ]
    counted = f"**The table now**: {format_number(now.rows)} row{'' if now.rows == 1 else 's'}"
    return [
        f"{counted}, counted by the run of {now.counted.at}.",
        "",
        *_format_rules_now(now.rules),
        *_format_table(("join", "match rate", "orphans", "null references", "rows"), lookups, right=(1, 2, 3, 4)),
        *_format_table(("nulls in column", "rows", "share"), nulls, right=(1, 2)),
    ]


def _format_rules_now(rules: Sequence[RuleNow]) -> list[str]:
    """Return the rules of the table; why rows fail has a column where it is known."""
    header = ("rule", "verdict", "failing", "of", "share", "failing since")
    reasons = [format_why(rule) for rule in rules]
    if not any(reasons):
        return _format_table(header, map(_list_rule_now, rules), right=(2, 3, 4))
    rows = [(*_list_rule_now(rule), _quote_why(why)) for rule, why in zip(rules, reasons, strict=True)]
    return _format_table((*header, "why rows fail"), rows, right=(2, 3, 4))


def _quote_why(why: str) -> str:
    """Return reasons as they are while they are made of our words."""
    return why if re.fullmatch(r"[\w ,:;()]*", why, re.ASCII) and "_" not in why else quote_text(why)


def _list_rule_now(rule: RuleNow) -> tuple[str, ...]:
    allowed = format_allowed(rule)
    return (
        quote_text(format_rule(rule)) + (f" ({allowed})" if allowed else ""),
        _format_verdict(rule.verdict or "unknown"),
        format_number(rule.failed),
        format_number(rule.checked),
        format_percent(rule.share),
        format_since(rule),
    )


def _format_run(job: JobReport) -> list[str]:
    if job.judged is None:
        return []
    run = job.judged
    wrote = ", ".join(f"{format_number(getattr(run, name))} {name}" for name in ("inserted", "updated", "deleted"))
    told = [rule for rule in job.rules if rule.run_verdict != "passed"]
    passed = len(job.rules) - len(told)
    lines = [f"**The run of {run.at}**: {quote_text(run.status)}, {wrote}.", ""]
    header = ("rule", "verdict", "action", "failed", "of", "share")
    lines += _format_table(header, [_list_rule(rule) for rule in told], right=(3, 4, 5))
    if passed:
        lines += [f"{format_count(passed, 'rule')} passed.", ""]
    if job.quarantine is not None and job.quarantine.rows:
        reasons = [(quote_text(reason), format_number(rows)) for reason, rows in job.quarantine.reasons.items()]
        lines += [f"{format_count(job.quarantine.rows, 'row')} in the quarantine.", ""]
        lines += _format_table(("reason", "rows"), reasons, right=(1,))
    return lines


def _list_rule(rule: RuleReport) -> tuple[str, ...]:
    terms = format_terms(rule)
    return (
        quote_text(format_rule(rule)) + (f" ({terms})" if terms else ""),
        _format_verdict(rule.run_verdict),
        quote_text(rule.action),
        format_number(rule.failed) if rule.by_row else format_whole(rule),
        format_number(rule.checked),
        format_percent(rule.share),
    )


def _format_verdict(verdict: str) -> str:
    word = format_verdict(verdict)
    return word if verdict in _SETTLED else f"**{word}**"


def _count_rows(job: JobReport) -> str:
    return format_number(None if job.now is None else job.now.rows)


def _format_table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int]) -> list[str]:
    """Return a table and an empty line; nothing when it has no rows."""
    listed = [f"| {' | '.join(row)} |" for row in rows]
    ends = " | ".join("---:" if place in right else "---" for place in range(len(header)))
    return [f"| {' | '.join(header)} |", f"| {ends} |", *listed, ""] if listed else []
