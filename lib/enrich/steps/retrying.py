"""The keys that the quarantine holds, for a run that shall try them again."""

from __future__ import annotations

from enrich.base.spec import FAILED_COLUMN, Affected, name_left_key, name_right_key
from enrich.frames import quarantine
from enrich.frames.columns import drop_nulls, has_null
from enrich.steps.work import Work, identify_rows
from enrich.storage import tables


def find_quarantined_keys(work: Work) -> list[Affected]:
    """Return the keys that the quarantine holds when they shall be tried again, else nothing."""
    task, uri = work.task, work.task.place.quarantine_uri
    if not task.retry or uri is None:
        return []
    identity = identify_rows(task)
    names = [*identity.left, *identity.right, FAILED_COLUMN]
    waiting = tables.read_snapshot(work.session, uri, tables.read_state(uri).version, names).where(
        ~quarantine.is_keyless()
    )
    found = waiting.select(*[part.alias(name) for name, part in identity.of().items()])
    lefts, rights = name_left_key(len(identity.left)), name_right_key(len(identity.right))
    is_lookup_only = has_null(lefts)
    left = found.where(~is_lookup_only).select(*lefts)
    return [Affected(left, drop_nulls(found.where(is_lookup_only).select(*rights)) if rights else None)]
