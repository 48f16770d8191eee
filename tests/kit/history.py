"""Histories for the report's tests: documents as `JobResult.to_dict` gives them, rows as the runs table gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import enrich
from kit.project import CONF, CUSTOMERS, suite, write_project

START = datetime(2026, 11, 1, 8, tzinfo=UTC)
NOT_NULL = "expect_column_values_to_not_be_null"


def project_in(home: Path, *jobs: str, rules: Sequence[Mapping[str, Any]] = ()) -> enrich.Project:
    """Write a project of jobs that have no tables yet, and load it; with ``rules``, all have this suite."""
    named = "expectations: rules\n" if rules else ""
    files = {f"jobs/{job}.yml": CUSTOMERS.replace("customers", job) + named for job in jobs or ("customers",)}
    if rules:
        files["expectations/rules.json"] = suite("rules", *rules)
    return enrich.load_project(write_project(home, {"conf/dev.yml": CONF, **files}))


def expect(
    column: str = "email", kind: str = NOT_NULL, enrich: Mapping[str, Any] | None = None, **kwargs: Any
) -> dict[str, Any]:
    """Return a rule of a suite that warns."""
    meta = {"meta": {"enrich": enrich}} if enrich else {}
    return {"type": kind, "kwargs": {"column": column, **kwargs}, "severity": "warning", **meta}


def finding(expectation: str = NOT_NULL, **more: Any) -> dict[str, Any]:
    """Return a finding as the result JSON has it: a rule that passed on ten rows unless told otherwise."""
    plain = {"index": 0, "expectation": expectation, "column": "email", "action": "warn", "checked": 10, "failed": 0}
    return {**plain, "success": True, "error": None, **more}


def state(*failed: int | None, rows: int = 100, **more: Any) -> dict[str, Any]:
    """Return the state of a target as the result JSON has it; of each rule how many rows fail, None: not counted."""
    rules = [
        {"index": index, "checked": None if count is None else rows, "failed": count, "error": None}
        for index, count in enumerate(failed)
    ]
    return {"rows": rows, "rules": rules, "lookups": {}, "nulls": {}, **more}


def row(number: int = 0, job: str = "customers", home: Path | None = None, **document: Any) -> dict[str, Any]:
    """Return a row of the runs table; ``document`` overrides what a run with one update would have recorded."""
    plain: dict[str, Any] = {
        "job": job,
        "status": "updated",
        "mode": "incremental",
        "sources": {"consents": {"from": number, "to": number + 1, "changes": 1}},
        "affected_keys": 1,
        "inserted": 0,
        "updated": 1,
        "deleted": 0,
        "quarantined": 0,
        "null_foreign_keys": 0,
        "null_list_ids": 0,
        "null_values": 0,
        "target_version": number,
        "findings": [],
        "error": None,
        "lookups": {},
        "quarantine": None,
        "stages": {},
    }
    plain |= document
    return {
        "run_id": f"run{number:04}",
        "job": job,
        "target": f"{home}/lake/{job}",
        "event": "outcome",
        "number": None,
        "at": START + timedelta(hours=number),
        "status": plain["status"],
        "mode": plain["mode"],
        "exit_code": {"failed": 1, "blocked": 3}.get(plain["status"], 0),
        "seconds": 4.25,
        "document": json.dumps(plain),
    }
