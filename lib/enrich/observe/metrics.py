"""Write figures for Prometheus: one file in the text format, for node exporter's textfile collector.

The file is read before it is written: counters go on from what it says, and jobs that are not in this run stay.

    # TYPE enrich_job_rows_total counter
    enrich_job_rows_total{job="customers",deployment="prod",change="inserted"} 12
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from enrich.base.files import WholeFile
from enrich.base.result import BLOCKED, CREATED, FAILED, LOCKED, SKIPPED, UNCHANGED, UPDATED, JobResult

FAMILIES: dict[str, tuple[str, str]] = {
    "runs_total": ("counter", "Runs of the job, by how they ended."),
    "last_run_timestamp_seconds": ("gauge", "When the job was run last, whatever came of it."),
    "last_success_timestamp_seconds": ("gauge", "When the job was run last with exit code 0."),
    "last_exit_code": ("gauge", "The exit code of the last run of the job."),
    "duration_seconds": ("gauge", "How long the last run of the job took."),
    "stage_duration_seconds": ("gauge", "How long each stage of the last run took, where it needed Spark."),
    "rows_total": ("counter", "Rows of the target that runs have inserted, updated and deleted."),
    "lag_seconds": ("gauge", "How long the oldest change of a source that the target lacks had waited after the run."),
    "match_ratio": ("gauge", "Of the references that are not null, the share with a partner, over all driving rows."),
    "target_rows": ("gauge", "Rows of the target."),
    "quarantine_rows": ("gauge", "Rows of the quarantine."),
    "findings_failing": ("gauge", "Findings of the last run that judged rows that did not pass, by their action."),
    "rules_failing": ("gauge", "Rules that rows of the whole target fail."),
}
"""Name after ``enrich_job_`` -> its type, and what it means."""

_PREFIX = "enrich_job_"
_STATUSES = (CREATED, UPDATED, UNCHANGED, BLOCKED, FAILED, SKIPPED, LOCKED)
_ACTIONS = ("warn", "quarantine", "fail")
_LINE = re.compile(rf"{_PREFIX}(\w+)\{{(.*)\}} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)')
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

SampleLabels = tuple[tuple[str, str], ...]  # further labels of a sample, after `job` and `deployment`
JobFigures = dict[str, dict[SampleLabels, float]]  # the samples of one job: family -> further labels -> value
Figures = dict[tuple[str, str], JobFigures]  # (deployment, job) -> its samples


def write_metrics(
    path: Path,
    deployment: tuple[str, Collection[str]],
    results: Collection[JobResult],
    lags: Mapping[str, Mapping[str, float]],
) -> None:
    """Bring the file up to date in one step; two runs that end at the same time wait for each other.

    Args:
        path: The file; its directory is made where it is missing.
        deployment: Its name, and the jobs of its project: those that are gone leave the file.
        results: The jobs of this run.
        lags: Job -> alias -> seconds, where that is known.

    Raises:
        OSError: The file cannot be read or written.
        ConfigError: The same, found before the writing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _hold(path), WholeFile(path, "metrics.file") as whole:
        figures: Figures = {}  # what an earlier run wrote; lines that no run writes are left out
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            match = _LINE.fullmatch(line)
            if match is None or match[1] not in FAMILIES:
                continue
            labels = {
                name: re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value)
                for name, value in _LABEL.findall(match[2])
            }
            place = labels.pop("deployment", None), labels.pop("job", None)
            with suppress(ValueError):
                value = float(match[3])
                if place[0] is not None and place[1] is not None:
                    samples = figures.setdefault((place[0], place[1]), {})
                    samples.setdefault(match[1], {})[tuple(labels.items())] = value
        name, jobs = deployment
        kept = {place: each for place, each in figures.items() if place[0] != name or place[1] in jobs}
        for result in results:
            update_figures(kept.setdefault((name, result.job), {}), result, lags.get(result.job, {}))
        whole.write(format_figures(kept))


@contextmanager
def _hold(path: Path) -> Iterator[None]:
    """Hold the file's lock, a hidden file beside it that the collector does not read."""
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def update_figures(figures: JobFigures, result: JobResult, lags: Mapping[str, float]) -> None:
    """Put what one run did into a job's figures; what the run could not find out stays as it was.

    The lag is an exception: a figure of an earlier run would say that nothing has waited since.
    """

    def add(family: str, label: str, values: Mapping[str, float]) -> None:
        known = figures.setdefault(family, {})
        for each, value in values.items():
            known[((label, each),)] = known.get(((label, each),), 0) + value

    add("runs_total", "status", {each: int(each == result.status) for each in _STATUSES})
    if result.status == SKIPPED:
        return
    now = round(time.time(), 3)
    figures["last_run_timestamp_seconds"] = {(): now}
    figures["last_exit_code"] = {(): result.exit_code}
    figures["duration_seconds"] = {(): result.seconds}
    figures["stage_duration_seconds"] = {(("stage", name),): each for name, each in result.stages.items()}
    figures["lag_seconds"] = {(("source", alias),): round(each, 3) for alias, each in lags.items()}
    if result.exit_code == 0:
        counts = result.counts
        figures["last_success_timestamp_seconds"] = {(): now}
        written = {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}
        add("rows_total", "change", written)
    if result.exit_code == 0 or result.status == BLOCKED:
        figures["quarantine_rows"] = {(): result.quarantine.rows if result.quarantine is not None else 0}
    if any(each.success is not None or each.error is not None for each in result.findings):
        failing = [each.action for each in result.findings if each.is_failing]
        figures["findings_failing"] = {(("action", each),): failing.count(each) for each in _ACTIONS}
    if result.state is not None:
        state = result.state
        figures["target_rows"] = {(): state.rows}
        figures["rules_failing"] = {(): sum(bool(rule.failed) or rule.error is not None for rule in state.rules)}
        references = {alias: (each.matched, each.rows - each.null_references) for alias, each in state.lookups.items()}
        shares = {alias: matched / rows for alias, (matched, rows) in references.items() if rows > 0}
        figures["match_ratio"] = {(("lookup", alias),): share for alias, share in shares.items()}


# --- the text format -------------------------------------------------------------------------------------------------


def format_figures(figures: Figures) -> str:
    """Return the file's text: a family after the other, each with its HELP and TYPE lines."""
    lines: list[str] = []
    for family, (kind, meaning) in FAMILIES.items():
        name, samples = f"{_PREFIX}{family}", []
        for (deployment, job), each in sorted(figures.items()):
            for further, value in each.get(family, {}).items():
                labels = (("job", job), ("deployment", deployment), *further)
                told = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels)
                number = int(value) if float(value).is_integer() else repr(float(value))
                samples.append(f"{name}{{{told}}} {number}")
        if samples:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *samples]
    return "\n".join(lines)
