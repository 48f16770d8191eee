"""Sample data: the files from which a run makes source tables that do not exist.

Only the deployments whose file in ``conf/`` names a directory under ``samples`` have them. ``tables.yml`` in this
directory says which columns each table has; beside it, each table has a file of rows.

A table that exists is never touched: neither its rows nor its properties.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from enrich.base.errors import ConfigError, EnrichError, Fault
from enrich.base.schemas import kind_of
from enrich.base.spec import DataType
from enrich.compiler.ddl import read_ddl_type
from enrich.config.places import identify, resolve_directory
from enrich.config.project import Project
from enrich.config.yamlfile import Tree, read_tree

log = logging.getLogger("enrich")

DECLARED = "tables.yml"
_ENDINGS = (".csv", ".jsonl")


@dataclass(frozen=True)
class Sample:
    """The sample data of one table.

    Attributes:
        columns: Name -> Delta type.
        file: The rows.
        name: The file as messages name it, relative to the project directory.
    """

    columns: dict[str, DataType]
    file: Path
    name: str


def read_samples(project: Project) -> dict[str, Sample]:
    """Return the samples of a deployment by the place of their table; none when its file in ``conf/`` names none.

    Raises:
        ConfigError: With all faults of ``tables.yml``.
    """
    named = project.settings.samples
    if named is None or project.lake is None:
        return {}
    home = Path(resolve_directory(named, project.dir))
    folder = str(home.relative_to(project.dir)) if home.is_relative_to(project.dir) else str(home)
    name = f"{folder}/{DECLARED}"
    if not (home / DECLARED).exists():
        message = "there is no such file, but 'samples' in conf/ names its directory; write it, or remove that line"
        raise ConfigError.of([Fault(message, name)])
    tree = read_tree(home / DECLARED, name)
    faults: list[Fault] = []
    if not isinstance(tree.value, dict):
        raise ConfigError.of([Fault("write the tables as 'table: {column: type}'", tree.at())])
    written = {project.location(job.target.table): name for name, job in project.jobs.items()}
    found = {}
    for table in tree.value:
        try:
            place = str(project.location(table))
        except ConfigError as error:
            faults.append(Fault(error.message, tree.at(table)))
            continue
        if Path(place).parent != Path(project.lake):
            faults.append(Fault(f"{table!r} is not the bare name of a table in the lake", tree.at(table)))
        elif place in written:
            faults.append(
                Fault(f"job {written[place]!r} writes the table {table!r}; remove its sample", tree.at(table))
            )
        elif (sample := _read_sample(tree, home, folder, table, faults)) is not None:
            found[place] = sample
    if faults:
        raise ConfigError.of(faults)
    return found


def _read_sample(tree: Tree, home: Path, folder: str, table: str, faults: list[Fault]) -> Sample | None:
    """Return the sample of one table, or None with what is wrong in ``faults``."""
    before, columns = len(faults), dict[str, DataType]()
    files = [f"{table}{ending}" for ending in _ENDINGS]
    there = [name for name in files if (home / name).is_file()]
    if len(there) != 1:
        said = f"both {files[0]} and {files[1]}; keep one" if there else f"neither {files[0]} nor {files[1]}; write one"
        faults.append(Fault(f"table {table!r} has {said}", tree.at(table)))
    if not tree.mapping(table):
        faults.append(Fault(f"table {table!r} needs its columns: {{column: type}}", tree.at(table)))
    for column, text in tree.mapping(table).items():
        kind = read_ddl_type(text) if isinstance(text, str) else None
        if kind is None or not _can_be_sample(kind):
            known = "string, int, bigint, double, decimal(10,2), boolean, date, timestamp, array<...> or struct<...>"
            faults.append(Fault(f"the type of {column!r} must be one of {known}", tree.at(table, column)))
        elif kind_of(kind) in ("array", "struct") and there == [files[0]]:
            message = f"column {column!r} is of type {kind_of(kind)}, which a CSV file cannot hold; write {files[1]}"
            faults.append(Fault(message, tree.at(table, column)))
        else:
            columns[column] = kind
    return Sample(columns, home / there[0], f"{folder}/{there[0]}") if len(faults) == before else None


def _can_be_sample(kind: DataType) -> bool:
    """Return whether the files of samples can hold values of a type."""
    if isinstance(kind, str):
        return kind not in ("binary", "timestamp_ntz")
    if kind["type"] == "array":
        return _can_be_sample(kind["elementType"])
    return kind["type"] == "struct" and all(_can_be_sample(field["type"]) for field in kind["fields"])


def create_sample_tables(project: Project, jobs: Collection[str]) -> dict[str, EnrichError]:
    """Make the tables that these jobs read, that do not exist, and that have sample data.

    Returns:
        Place, as ``identify`` spells it -> why its table could not be made.
    """
    samples = read_samples(project)
    if not samples:
        return {}
    from enrich.storage.creation import create_table

    failed: dict[str, EnrichError] = {}
    read = {str(project.location(each.table)) for name in jobs for each in project.jobs[name].sources.values()}
    for place in sorted(read & samples.keys()):
        sample = samples[place]
        if not is_free(place):
            continue
        try:
            rows = create_table(Path(place), sample.columns, sample.file, sample.name)
        except EnrichError as error:
            failed[identify(place)] = error
            continue
        if rows is not None:
            log.info("made the table %s from %s (%d rows)", Path(place).name, sample.name, rows)
    return failed


def find_missing_sample(project: Project, reference: str) -> Sample | None:
    """Return the sample from which a run would make a table that does not exist; None where there is no such."""
    place = str(project.location(reference))
    sample = read_samples(project).get(place)
    return sample if sample is not None and is_free(place) else None


def is_free(place: str) -> bool:
    """Return whether there is nothing at a place: no directory, or an empty one; what cannot be read is not free."""
    directory = Path(place)
    try:
        return not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))
    except OSError:
        return False
