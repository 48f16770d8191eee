"""What a table demands of its rows, looked at before anything is written: Delta would refuse them with the values."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from enrich.base.constraints import NOT_NULL
from enrich.base.errors import Blocked
from enrich.frames.constraints import complete_rows, mark_violations
from enrich.frames.identity import Identity
from enrich.steps.work import Work
from enrich.storage import tables


@dataclass(frozen=True)
class Written:
    """Rows that are about to be written.

    Attributes:
        what: The table in messages.
        table: The table as it is; None when it is created.
        rows: The identity's columns, ``OPERATION`` and the columns; all columns alone where they replace the table.
        identity: How rows are told apart.
        replaces: Whether all rows and the schema are written anew, which keeps no other constraints than CHECK.
    """

    what: str
    table: tables.TableState | None
    rows: DataFrame
    identity: Identity
    replaces: bool = False


def refuse_violations(work: Work, written: Written) -> None:
    """Stop before a commit that the table would refuse.

    Raises:
        Blocked: Naming the constraints and how many rows each refuses.
    """
    table = written.table
    if table is None or not table.demands.constraints:
        return
    constraints = [each for each in table.demands.constraints if not (written.replaces and each.path)]
    stored = None
    if not written.replaces:
        stored = tables.read_snapshot(work.session, table.uri, table.version, list(table.columns))
    rows = complete_rows(written.rows, stored, written.identity, table.demands)
    _, found = mark_violations(rows, constraints)
    if found:
        told = "; ".join(f"{each} ({count} {'row' if count == 1 else 'rows'})" for each, (_, count) in found.items())
        drop = "ALTER COLUMN ... DROP NOT NULL" if next(iter(found)).type == NOT_NULL else "DROP CONSTRAINT ..."
        raise Blocked(
            f"{written.what} refuses rows of {work.task.job.job!r}, nothing was written: {told}",
            hint=f"correct the rows in the sources, leave them out with where: or a rule that quarantines, or take the"
            f" constraint away with ALTER TABLE delta.`{table.uri}` {drop}; then run again",
        )
