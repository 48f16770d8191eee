"""Names that would run, fetch or hide something where they are not escaped, and a report that has them everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from enrich.report import Report, build_report
from kit.history import finding, project_in, row, state

HIDDEN = "".join(chr(code) for code in (0, 7, 8, 0x1B, 0x7F, 0x85, 0x200B, 0x200F, 0x202E, 0x2066, 0x2028, 0xFEFF))


def hostile(port: int) -> list[str]:
    """Return texts that would run or fetch something in a page that forgot to escape them."""
    there = f"http://127.0.0.1:{port}"
    return [
        "<script>document.title='pwned'</script>",
        f"<img src={there}/img onerror=document.title='pwned'>",
        f"\"><img src='{there}/attribute'>",
        f"</title><script src={there}/script></script>",
        f"</style><link rel=stylesheet href={there}/style>",
        f"<style>body{{background:url({there}/css)}}</style>@import url({there}/import)",
        f"<iframe src={there}/frame></iframe><meta http-equiv=refresh content='0;url={there}/refresh'>",
        f"<svg onload=document.title='pwned'><image href='{there}/svg'/></svg>",
        "javascript:document.title='pwned'",
        "{{ 7 * 7 }}{% include 'page.css' %}{{ report.__class__ }}",
        "-->]]></svg><script>document.title='pwned'</script><!--",
        "&lt;script&gt;&#60;script&#62;",
        f"\x1b]0;pwned\x07\x1b[31m{HIDDEN}",
        "=cmd|' /C calc'!A0",
        "+1+1",
        "-1+1",
        "@SUM(1)",
    ]


def hostile_report(home: Path, port: int = 9) -> Report:
    """Return a report with hostile text wherever a text can stand."""
    project = project_in(home)
    job = project.jobs["customers"]
    jobs = []
    for number, text in enumerate(hostile(port)):
        mean = "expect_column_mean_to_be_between"
        findings = [
            finding(text, column=text, action=text, failed=1, success=False, source=text),
            finding(index=1, column=None, column_list=[text, text], error=text, success=None),
            finding(mean, index=2, column=text, action="fail", failed=1, success=False, scope=text),
        ]
        lookup = {"kind": text, "rows": 5, "matched": 3, "null_references": 1}
        document: dict[str, Any] = {
            "status": "blocked",
            "error": text,
            "findings": findings,
            "sources": {text: {"from": None, "to": 4, "changes": 2}},
            "lookups": {text: lookup},
            "quarantine": {"rows": 2, "reasons": {text: 2}},
            "stages": {text: 1.0, "write": 2.0},
        }
        counts = {"rows": 5, "matched": 3, "null_references": 1}
        raised = {"index": 2, "checked": None, "failed": None, "error": text}
        rules = [{**raised, "index": index, "checked": 9, "failed": 4, "error": None} for index in range(2)]
        document["state"] = state(rules=[*rules, raised], lookups={text: counts}, nulls={text: 1, f"{text}0": 0})
        rows = [row(each, **document) | {"mode": text, "run_id": text} for each in range(3)]
        target = job.target.model_copy(update={"table": text})
        named = job.model_copy(update={"job": f"{text}{number}", "expectations": text, "target": target})
        jobs.append((named, [*rows, rows[-1] | {"status": "failed", "at": rows[-1]["at"]}]))
    return build_report(jobs, project)
