"""Find what job files may say of a kind of join or job: one module a kind, by the name that the file gives."""

from __future__ import annotations

from enrich.project.kinds.as_of import AsOf
from enrich.project.kinds.foreign_key import ForeignKey
from enrich.project.kinds.group import Group
from enrich.project.kinds.history import History
from enrich.project.kinds.interval import Interval
from enrich.project.kinds.join import Joins
from enrich.project.kinds.list import List
from enrich.project.kinds.mirror import Mirror
from enrich.project.kinds.syntax import JobSyntax, JoinSyntax
from enrich.project.kinds.table import Table

JOINS: dict[str, JoinSyntax] = {each.name: each for each in (Table(), ForeignKey(), AsOf(), List(), Interval())}
JOBS: dict[str, JobSyntax] = {each.name: each for each in (Joins(), Mirror(), History(), Group())}


def register(kind: JoinSyntax) -> None:
    """Let job files have one more kind of join; its ``Step`` says in ``module`` what a run does for it."""
    JOINS[kind.name] = kind
