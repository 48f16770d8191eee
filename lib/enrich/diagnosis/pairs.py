"""Why an interval join makes a pair of two rows, or why not.

======================  ======  =====  ==========================================
lookup's row            match   near   reason
======================  ======  =====  ==========================================
not there               -       -      that of its key: ``deleted_at``, ...
there                   yes     yes    ``matched``
there, ``on`` is null   -       -      ``foreign_key_null``
there                   yes     no     ``out_of_interval``
there                   no      -      ``no_such_key``
======================  ======  =====  ==========================================
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from enrich.base.spec import Step, name_inside
from enrich.diagnosis import evidence, reasons
from enrich.diagnosis.reasons import Reason
from enrich.diagnosis.upstream import Inquiry
from enrich.joins import interval


def explain_pair(work: Inquiry, step: Step, ours: DataFrame, theirs: DataFrame, asked: Reason) -> Reason:
    """Return why an interval join makes a pair of two rows, or why not.

    Args:
        work: Its window ends at what the target has consumed.
        step: The interval join.
        ours: ``__enrich_k*`` of the driving row.
        theirs: ``__enrich_r*`` of the lookup's row.
        asked: Why the driving row has any partner, or why not.
    """
    key = work.task.spec.sources[step.alias].key
    names = tuple(theirs.columns)
    own = evidence.Question(step.alias, key, evidence.repeat_key(theirs, names, len(key)), names)
    there = next(iter(evidence.find_reasons(work, [own]).values()))[step.alias]
    if there.reason != reasons.MATCHED:
        return there
    wanted = theirs.toDF(*map(name_inside, key))
    row = work.snapshot(step.alias).join(wanted, on=wanted.columns, how="left_semi")
    if not interval.list_neighbours(work.now, step, ours, row).isEmpty():
        return there
    if asked.reason == reasons.FOREIGN_KEY_NULL:
        return asked
    matches = not interval.list_neighbours(work.now, step, ours, row, at_any_time=True).isEmpty()
    return Reason(reasons.OUT_OF_INTERVAL if matches else reasons.NO_SUCH_KEY)
