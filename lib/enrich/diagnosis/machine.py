"""The machine that the jobs run on: Java, jars, class-data archive, memory, directories, the log store of buckets."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from enrich.base import hints
from enrich.base.console import format_bytes
from enrich.base.errors import EnvironmentFault
from enrich.base.extras import SPARK, install
from enrich.base.names import find_quarantine
from enrich.config.project import Project
from enrich.diagnosis.checkup import ADVICE, FAULT, OK, Diagnosis, describe_fault, settle
from enrich.spark.archive import find_archive
from enrich.spark.fit import MEMORY, choose_memory, find_memory, is_in_one_process
from enrich.spark.jars import inspect_delta_jars
from enrich.spark.java import require_java
from enrich.spark.logstore import CONDITIONAL, SETTINGS, SINGLE_DRIVER, may_lose_commits
from enrich.storage.stores import find_local_path

_ENVIRONMENT = 7
_FILL_CACHE = "python -m enrich.spark"
_LEAST_FREE = 2**30
_SIZE = re.compile(r"(\d+)([kmgt])b?", re.IGNORECASE)
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def check_machine(project: Project) -> Iterator[Diagnosis]:
    """Check what does not depend on the tables' contents."""
    try:
        yield Diagnosis("spark", OK, "pyspark", f"pyspark {version('pyspark')}, delta-spark {version('delta-spark')}")
    except PackageNotFoundError as error:
        message = f"{error.name} is not installed: commands that read rows do not work on this machine"
        yield Diagnosis("spark", FAULT, "pyspark", message, f"run `{install(SPARK)}`", _ENVIRONMENT)
    else:
        yield from _check_java()
        yield from _check_jars(project)
    yield from settle("memory", "memory", _check_memory(project), f"{format_bytes(find_memory())} for all processes")
    yield from _check_directories(project)
    yield from settle(
        "log_store",
        "log store",
        _check_log_store(project),
        "of two commits of one version of a target, only one succeeds",
    )


def _check_java() -> Iterator[Diagnosis]:
    try:
        yield Diagnosis("java", OK, str(require_java()), "a version that Spark runs on")
    except EnvironmentFault as error:
        yield describe_fault("java", "java", error)


def _check_jars(project: Project) -> Iterator[Diagnosis]:
    try:
        jars, strange = inspect_delta_jars(project.settings.spark.jars)
    except EnvironmentFault as error:
        yield describe_fault("jars", "Delta jars", error)
        return
    if not jars:
        message = "they are not in the cache, or damaged; the first run fetches them from Maven"
        yield Diagnosis("jars", ADVICE, "Delta jars", message, _FILL_CACHE)
        return
    about = str(jars[0].parent)
    if strange:
        message = f"{', '.join(strange)}: not the files that were released under these names"
        yield Diagnosis("jars", ADVICE, about, message, "take the jars from Maven Central")
    else:
        yield Diagnosis("jars", OK, about, f"{len(jars)} jars, with the digests of the release")
    try:
        archive = find_archive(jars)
    except EnvironmentFault:  # told with Java
        return
    if archive is None:
        message = "there is none for this Java and these jars: short runs cost a quarter more"
        yield Diagnosis("archive", ADVICE, "class-data archive", message, _FILL_CACHE)
    else:
        yield Diagnosis("archive", OK, str(archive), "it fits this Java and these jars")


def _check_memory(project: Project) -> Iterator[Diagnosis]:
    spark = project.settings.spark
    there, asked = find_memory(), spark.conf.get("spark.driver.memory")
    if spark.master is not None and not is_in_one_process(spark.master):
        return
    said = _SIZE.fullmatch(asked.strip()) if asked is not None else None
    if said is not None and int(said[1]) * _UNITS[said[2].lower()] > there:
        message = f"spark.driver.memory is {asked}, and there are {format_bytes(there)}: the process would be killed"
        repair = f"in conf/{project.deployment}.yml: spark: {{conf: {{spark.driver.memory: {choose_memory()}}}}}"
        yield Diagnosis("memory", FAULT, "memory", message, repair, _ENVIRONMENT)
    elif asked is None and there < 2 * MEMORY[0]:
        message = f"there are {format_bytes(there)}, of which Spark takes {choose_memory()}: large runs may be killed"
        yield Diagnosis("memory", ADVICE, "memory", message, "give the machine or the container 4 GB")


def _check_directories(project: Project) -> Iterator[Diagnosis]:
    """Check that lake, state, targets and quarantines can be written, and that there is room."""
    places = {"state": project.state}
    if project.lake is not None:
        places["lake"] = project.lake
    for job in project.jobs.values():
        target = project.location(job.target.table)
        places |= {f"target of {job.job}": str(target), f"quarantine of {job.job}": str(find_quarantine(target))}
    for name, place in places.items():
        local = find_local_path(place) if place.startswith(("/", "file:")) else None
        if local is None:
            continue
        if name in ("state", "lake"):
            yield from settle("directories", place, _check_directory(local), f"{name}: can be written, and has room")
        elif _is_there(local):
            yield from _check_directory(local)
    for job in project.jobs.values():
        for source in job.sources.values():
            local = find_local_path(str(project.location(source.table)))
            if local is not None and _is_there(local) and not os.access(local / "_delta_log", os.R_OK | os.X_OK):
                repair = f"chmod -R u+rX {shlex.quote(str(local))}"
                yield Diagnosis("directories", FAULT, str(local), "cannot be read", repair, _ENVIRONMENT)


def _is_there(path: Path) -> bool:
    """Return whether there is something at a path; where that must not be seen, the directory above is what is told."""
    try:
        return path.exists()
    except OSError:
        return False


def _check_directory(path: Path) -> Iterator[Diagnosis]:
    nearest = path
    while not _is_there(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        message = f"{nearest} is not a directory"
        yield Diagnosis(
            "directories", FAULT, str(path), message, "move it away, or name another directory", _ENVIRONMENT
        )
        return
    if not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        message = f"this user cannot write to {nearest}"
        yield Diagnosis(
            "directories", FAULT, str(path), message, f"chmod -R u+rwX {shlex.quote(str(nearest))}", _ENVIRONMENT
        )
        return
    free = shutil.disk_usage(nearest).free
    if free < _LEAST_FREE:
        message = f"{format_bytes(free)} are free there"
        yield Diagnosis("directories", ADVICE, str(path), message, f"make room: `{hints.maintain()}` removes old files")


def _check_log_store(project: Project) -> Iterator[Diagnosis]:
    """Check that two drivers that write to one bucket cannot overwrite each other's commits."""
    written = {job.job: str(project.location(job.target.table)) for job in project.jobs.values()}
    inside = sorted(name for name, place in written.items() if may_lose_commits(place, project.settings.spark.conf.get))
    if not inside:
        return
    message = (
        f"the targets of {', '.join(inside)} are in S3, and Delta's own log store ({SINGLE_DRIVER}) lets two drivers"
        " overwrite each other's commits"
    )
    repair = f"in conf/{project.deployment}.yml: spark: {{conf: {{{SETTINGS[0]}: {CONDITIONAL}}}}}"
    yield Diagnosis("log_store", FAULT, "log store", message, repair, _ENVIRONMENT)
