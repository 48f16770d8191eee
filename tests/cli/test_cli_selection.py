"""Names, patterns and the graph operators of ``--select`` and ``--exclude``."""

from __future__ import annotations

import pytest

from enrich.base.errors import ConfigError
from enrich.cli.options import choose

# raw_a -> mart_a -> top, raw_b -> mart_b -> top; lone
GRAPH = {
    "lone": frozenset[str](),
    "raw_a": frozenset[str](),
    "raw_b": frozenset[str](),
    "mart_a": frozenset({"raw_a"}),
    "mart_b": frozenset({"raw_b"}),
    "top": frozenset({"mart_a", "mart_b"}),
}


@pytest.mark.parametrize(
    ("names", "select", "exclude", "chosen"),
    [
        ([], [], [], "lone raw_a raw_b mart_a mart_b top"),
        (["top", "lone"], [], [], "lone top"),
        (["top", "top"], [], [], "top"),
        ([], ["mart_*"], [], "mart_a mart_b"),
        ([], ["*_[ab]"], ["raw_?"], "mart_a mart_b"),
        ([], ["mart_a", "lone"], [], "lone mart_a"),
        (["lone"], ["raw_a"], [], "lone raw_a"),
        ([], ["raw_a+"], [], "raw_a mart_a top"),
        ([], ["+mart_a"], [], "raw_a mart_a"),
        ([], ["+top"], [], "raw_a raw_b mart_a mart_b top"),
        ([], ["+mart_a+"], [], "raw_a mart_a top"),
        ([], [], ["raw_a+"], "lone raw_b mart_b"),
        ([], ["+top"], ["lone", "raw_b+"], "raw_a mart_a"),
        ([], ["raw_*+"], ["top"], "raw_a raw_b mart_a mart_b"),
    ],
)
def test_choose(names: list[str], select: list[str], exclude: list[str], chosen: str) -> None:
    assert choose(GRAPH, names, select, exclude) == chosen.split()


LABELS = {"raw_a": {"tag:eu", "owner:crm"}, "raw_b": {"tag:eu", "owner:Meier, B2B"}, "top": {"owner:crm", "tag:wide"}}


@pytest.mark.parametrize(
    ("select", "chosen"),
    [
        ("tag:eu", "raw_a raw_b"),
        ("tag:eu,owner:crm", "raw_a"),
        ("tag:eu , +owner:c*", "raw_a raw_b"),
        ("tag:eu+", "raw_a raw_b mart_a mart_b top"),
        ("raw_*,owner:crm", "raw_a"),
        ("tag:*", "raw_a raw_b top"),
        ("owner:Meier? B2B", "raw_b"),
    ],
)
def test_tags_and_owners_choose_jobs(select: str, chosen: str) -> None:
    assert choose(GRAPH, [], [select], [], LABELS) == chosen.split()
    left = [name for name in GRAPH if name not in chosen.split()]
    assert choose(GRAPH, [], [], [select], LABELS) == left


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("tag:e", "--select 'tag:e' matches no job; did you mean 'tag:eu'?"),
        ("owner:nobody_here", "--select 'owner:nobody_here' matches no job"),
        ("tag:wide,tag:eu", "--select 'tag:wide,tag:eu' matches no job; `enrich ls` lists the jobs"),
        ("owner:Meier, B2B", "--select 'owner:Meier' matches no job; did you mean 'owner:Meier? B2B'?"),
        ("tag:eu,", "--select '' matches no job"),
    ],
)
def test_a_label_that_no_job_has_is_an_error(select: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose(GRAPH, [], [select], [], LABELS)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("names", "select", "exclude", "message"),
    [
        (["tpo"], [], [], "there is no job 'tpo'; did you mean 'top'?"),
        (["zzz"], [], [], "there is no job 'zzz'; `enrich ls` lists the jobs"),
        (["mart_*"], [], [], "there is no job 'mart_*'"),
        ([], ["MART_*"], [], "--select 'MART_*' matches no job"),
        ([], ["+tpo"], [], "--select '+tpo' matches no job; did you mean 'top'?"),
        ([], [""], [], "--select '' matches no job"),
        ([], ["+"], [], "--select '+' matches no job"),
        ([], [], ["nope_*"], "--exclude 'nope_*' matches no job"),
        (["top"], [], ["*"], "the selection leaves no job"),
    ],
)
def test_what_fits_no_job_is_an_error(names: list[str], select: list[str], exclude: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose(GRAPH, names, select, exclude)
    assert str(caught.value).startswith(message)
