"""``enrich load``: bring a source table up to a dump, in one commit that touches no row that is equal."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base import context
from enrich.base.errors import Blocked, ConfigError, refuse_text, show_text
from enrich.base.files import make_private_directory
from enrich.base.names import CatalogName, Location, find_quarantine, identify
from enrich.delta import locks
from enrich.dumps import files
from enrich.dumps.loader import Loader
from enrich.dumps.result import REFUSED, UNCHANGED, DumpOptions, LoadResult, RefusedDump, check_options
from enrich.operations.workplace import Options, Workplace
from enrich.project.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load(  # noqa: PLR0913 - the public interface: every keyword is an option of `enrich load`
    project: Project,
    table: str,
    paths: Sequence[str],
    *,
    key: Sequence[str],
    options: DumpOptions | None = None,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    check: Callable[[], None] = lambda: None,
) -> LoadResult:
    """Bring a source table up to a dump: update, insert, and with ``complete`` delete, in one commit.

    Args:
        project: What ``load_project`` gave.
        table: A table reference, as in job files.
        paths: Files and directories on this machine.
        key: The columns of the table's key.
        options: How the files are read; None: as the command line does without options.
        dry_run: Only read, check and compare.
        spark: A Delta-capable session, left as it was found; None: the active one, or one is built.
        check: Called now and then while files are read; it may raise to end the work.

    Returns:
        What was done; a dump that is refused for its rows is a result with exit code 3, not an exception.

    Raises:
        ConfigError: The table, the files and the options do not go together.
        EnrichError: The table could not be written.
    """
    refuse_text("paths", paths)
    refuse_text("key", key)
    how = options or DumpOptions()
    check_options(how, key)
    place = project.location(table)
    _refuse_written(project, place, table)
    found = files.list_files(paths)
    blank = LoadResult(uuid.uuid4().hex, project.deployment, str(place), UNCHANGED, dry_run)
    context.begin_run(blank.run_id)
    workplace = Workplace(project, [], Options(dry_run=dry_run), blank.run_id, spark, spark)
    size = sum(each.path.stat().st_size for each in found)
    loader = Loader(workplace, place, show_text(table), how, blank, size)
    context.note_written(f"{loader.label} is unchanged")
    with ExitStack() as cleanup:
        if not dry_run:
            lock = f"load-{hashlib.sha256(identify(place).encode()).hexdigest()[:16]}"
            cleanup.enter_context(locks.hold_lock(project.state, lock, blank.run_id, loader.label))
        # Where this process is killed, the next one removes it.
        directory = Path(tempfile.mkdtemp(prefix="load-", dir=make_private_directory()))
        cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
        try:
            if isinstance(place, CatalogName):  # only Spark's catalog knows where the table is
                loader.open_session()
            return loader.load(loader.stage(found, key, directory, check))
        except RefusedDump as refused:
            return replace(
                blank, **_tell_refusal(refused), read=refused.read, faults=refused.faults, warnings=refused.warnings
            )
        except Blocked as damaged:
            return replace(blank, **_tell_refusal(damaged))


def _tell_refusal(refused: Blocked) -> dict[str, Any]:
    return {"status": REFUSED, "error": str(refused), "exit_code": refused.exit_code}


def _refuse_written(project: Project, place: Location, table: str) -> None:
    """Refuse a table that enrich itself writes.

    Raises:
        ConfigError: It is a target, a quarantine, or below the state directory.
    """
    for name, job in project.jobs.items():
        target = project.location(job.target.table)
        if identify(place) in (identify(target), identify(find_quarantine(target))):
            raise ConfigError(
                f"{show_text(table)} is written by job {name!r}", hint="load the tables that the job reads instead"
            )
    state = identify(project.state)
    if isinstance(place, str) and f"{identify(place)}/".startswith(f"{state}/"):
        raise ConfigError(f"{show_text(table)} is in the state directory", hint="choose another place for the table")
