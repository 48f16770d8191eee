"""What stands in front of an expression guards it, in compiled plans too."""

from __future__ import annotations

import pyarrow as pa

from enrich.delta.sink import hold_settings
from kit.lab import Lab
from kit.session import COMPILED


def test_an_expression_that_stands_twice_behind_its_guard_fails_no_run(lab: Lab) -> None:
    """Compiled plans compute what stands twice once; they must not do it for rows that the guard keeps out."""
    lab.table("l", "id", {"id": pa.string(), "n": pa.int64(), "total": pa.int64(), "to": pa.string()})
    lab.append("l", {"id": "1", "n": 2, "total": 8, "to": "a"}, {"id": "2", "n": 0, "total": 8, "to": "a"})
    lab.append("l", {"id": None, "n": 0, "total": 7, "to": "a"}, {"id": "3", "n": 0, "total": 8, "to": "none"})
    lab.table("a", "id", {"id": pa.string(), "v": pa.string()}, [{"id": "a", "v": "A"}])
    lab.job("""\
job: j
sources:
  l: {table: l, key: id}
  a: {table: a, key: id}
from: l
join:
  a: {kind: foreign_key, on: l.to, how: inner}
select: {id: l.id, each: l.total / l.n, fits: "l.n > 0 and l.total / l.n > 1 and l.total / l.n < 9", v: a.v}
where: l.n > 0 and l.total / l.n > 1 and l.total / l.n < 9
target: {table: j}
""")
    with hold_settings(lab.spark, COMPILED):
        assert lab.run().error is None
        lab.put("a", {"id": "a", "v": "B"})
        lab.append("l", {"id": None, "n": 0, "total": 9, "to": "a"})
        result = lab.run()
    assert (result.error, result.counts.updated) == (None, 1)
    assert [(row["each"], row["fits"], row["v"]) for row in lab.rows("j")] == [(4.0, True, "B")]
    assert [row["each"] for row in lab.rows("j__quarantine")] == [None, None]
