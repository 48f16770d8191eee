"""Write a world as a project directory: conf and job files in the public syntax."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from differential.spec import Join, Mirror, Past, Shape, World, list_watches
from differential.texts import Text


def write_project(base: Path, world: World, rng: random.Random | None = None) -> Path:
    """Write conf and jobs below ``base``, the jobs' files in a random order if ``rng`` is given; return ``base``."""
    (base / "conf").mkdir(parents=True)
    (base / "jobs").mkdir()
    (base / "conf" / "dev.yml").write_text("lake: ./lake\n", encoding="utf-8")
    shapes = list(world.shapes)
    if rng is not None:
        rng.shuffle(shapes)
    for shape in shapes:
        write_job(base, world, shape)
        (base / "expectations").mkdir(exist_ok=True)
        suite = json.dumps(suite_file(world, shape))
        (base / "expectations" / f"{shape.name}.json").write_text(suite, encoding="utf-8")
    return base


def write_job(base: Path, world: World, shape: Shape, text: Text | None = None) -> None:
    """Write a job's file, as the query ``text`` where one is given."""
    job = job_file(world, shape)
    if text is not None:
        sources = {name: job["sources"][alias] for name, alias in text.sources.items()}
        job = {name: value for name, value in job.items() if name not in ("from", "join", "select", "where")}
        job |= {"sources": sources, "query": text.query}
    written = yaml.safe_dump(job, sort_keys=False, allow_unicode=True, width=200)
    (base / "jobs" / f"{shape.name}.yml").write_text(written, encoding="utf-8")


def job_file(world: World, shape: Shape) -> dict[str, Any]:
    """Return the job's file as a dictionary."""
    job: dict[str, Any] = {"job": shape.name}
    job |= _kind(shape)
    job["sources"] = {
        alias: {"table": table, "key": _one_or_list(world.table(table).key)} for alias, table in shape.aliases().items()
    }
    for alias, name in shape.aliases().items():
        table = world.table(name)
        if table.order:
            job["sources"][alias]["latest"] = {"order": _one_or_list(table.order)}
            job["rules"] = [{"rule": "mass_change", "at_most": 1.0}]
            if table.gone is not None:
                job["sources"][alias]["latest"]["delete"] = f"{table.gone[0]} = '{table.gone[1]}'"
        if table.holds:
            job["sources"][alias]["doubled_keys"] = "quarantine"
    if shape.is_trusted:
        job["sources"][shape.driving]["unique"] = "trusted"
    job["from"] = shape.driving
    if shape.joins:
        job["join"] = {alias: _join(world, shape, alias) for alias in shape.joins}
    if shape.mirror is not None:
        job["mirror"] = _mirror(shape.mirror)
    if shape.past is not None:
        job["history"] = _past(shape.past)
    if shape.select is not None:
        job["select"] = {name: expr.text for name, expr in shape.select.items()}
    if shape.where is not None:
        job["where"] = shape.where.text
    job["target"] = {"table": shape.name}
    if shape.cluster_by:
        job["target"]["cluster_by"] = list(shape.cluster_by)
    if shape.change_feed:
        job["target"]["change_feed"] = True
    job["expectations"] = shape.name
    return job


def _kind(shape: Shape) -> dict[str, str]:
    """Return what a job says that is no join."""
    if shape.mirror is not None:
        return {"kind": "mirror"}
    return {"kind": "history"} if shape.past is not None else {}


def suite_file(world: World, shape: Shape) -> dict[str, Any]:
    """Return the job's suite as Great Expectations writes it."""
    holding, watching = {"action": "quarantine"}, {"action": "warn", "scope": "target"}
    rules = [(rule, holding) for rule in shape.rules] + [(rule, watching) for rule in list_watches(world, shape)]
    expectations = [
        {
            "type": rule.type,
            "kwargs": {"column": rule.column, **rule.kwargs},
            "severity": "warning",
            "meta": {"enrich": settings},
        }
        for rule, settings in rules
    ]
    return {"name": shape.name, "expectations": expectations}


def _mirror(mirror: Mirror) -> dict[str, Any]:
    made: dict[str, Any] = {"value": _one_or_list(mirror.value), "conflict": mirror.conflict}
    if mirror.order is not None:
        made["order"] = mirror.order
    if mirror.columns:
        made["columns"] = list(mirror.columns)
    return made


def _past(past: Past) -> dict[str, Any]:
    made: dict[str, Any] = {"valid_from": past.valid_from, "valid_to": past.valid_to}
    if past.columns is not None:
        made["columns"] = list(past.columns)
    if past.on_delete != "end":
        made["on_delete"] = past.on_delete
    return made


def _join(world: World, shape: Shape, alias: str) -> dict[str, Any]:
    join = shape.joins[alias]
    if join.kind == "list":
        assert join.elements is not None
        made: dict[str, Any] = {"kind": "list", "elements": join.elements.text}
        if join.element_key is not None:
            made["element_key"] = join.element_key
        if join.duplicates != "keep":
            made["duplicates"] = join.duplicates
        if join.unmatched != "keep":
            made["unmatched"] = join.unmatched
        return made
    made = {"kind": join.kind, "how": join.how}
    if join.on:
        made["on"] = _one_or_list([expr.text for expr in join.on])
    if join.at is not None:
        made |= {"at": join.at.text, **_time_options(world, join)}
    return made


def _time_options(world: World, join: Join) -> dict[str, Any]:
    if join.kind == "interval":
        return {"match": _one_or_list(join.match), "time": join.time, "between": [*join.between]}
    made: dict[str, Any] = {"valid_from": world.table(join.table).key[-1]}
    if join.valid_to is not None:
        made["valid_to"] = {"column": join.valid_to, "inclusive": True} if join.inclusive else join.valid_to
    if join.gone is not None:
        made["gone"] = join.gone.text
    return made


def _one_or_list(values: Iterable[str]) -> str | list[str]:
    found = list(values)
    return found[0] if len(found) == 1 else found
