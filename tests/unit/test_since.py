"""The forms of ``--since`` and ``--until``, and where they put the ends of a window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enrich.base.errors import ConfigError, HistoryError
from enrich.base.result import BEFORE_ALL, SourceWindow
from enrich.progress.plan import Moment, Options, find_moment
from enrich.progress.since import read_ends, read_moment, read_options
from enrich.progress.window import Range, compute_window, find_version

NOW = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)


def read(option: str, text: str) -> Moment | None:
    return read_moment(option, text, NOW, text)


def utc(year: int, month: int, day: int, *parts: int) -> datetime:
    hour, minute, second, micro = (*parts, 0, 0, 0, 0)[:4]
    return datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)


FORMS: dict[str, Moment] = {
    "2026-11-01": utc(2026, 11, 1),
    "2026-11-01T00:00": utc(2026, 11, 1),
    "2026-11-01T00:00Z": utc(2026, 11, 1),
    "2026-11-01T08:05:09": utc(2026, 11, 1, 8, 5, 9),
    "2026-11-01 08:05:09": utc(2026, 11, 1, 8, 5, 9),
    "2026-11-01T08:05:09.5": utc(2026, 11, 1, 8, 5, 9, 500_000),
    "2026-11-01T08:05:09.000001Z": utc(2026, 11, 1, 8, 5, 9, 1),
    "2026-11-01T00:00+00:00": utc(2026, 11, 1),
    "2026-11-01T00:00-00:00": utc(2026, 11, 1),
    "2026-11-01T00:00+02:00": utc(2026, 10, 31, 22),
    "2026-11-01T00:00+0200": utc(2026, 10, 31, 22),
    "2026-11-01T00:00-05:30": utc(2026, 11, 1, 5, 30),
    "2026-11-01T00:00+14:00": utc(2026, 10, 31, 10),
    "2026-12-31T23:59-12:00": utc(2027, 1, 1, 11, 59),
    # Summer time ends in Berlin on 25 October 2026: 02:30 comes twice, told apart by its offset alone.
    "2026-10-25T02:30+02:00": utc(2026, 10, 25, 0, 30),
    "2026-10-25T02:30+01:00": utc(2026, 10, 25, 1, 30),
    # 02:30 does not exist there on 29 March; with an offset it is an instant all the same.
    "2026-03-29T02:30+01:00": utc(2026, 3, 29, 1, 30),
    "2028-02-29": utc(2028, 2, 29),
    "2000-02-29T12:00Z": utc(2000, 2, 29, 12),
    "1969-12-31T23:59:59Z": utc(1969, 12, 31, 23, 59, 59),
    "9999-12-31": utc(9999, 12, 31),
    "0001-01-01": utc(1, 1, 1),
    "2026-11-01T00:00:00+00:00": utc(2026, 11, 1),  # Airflow's {{ data_interval_start }}
    "3d": NOW - timedelta(days=3),
    "12h": NOW - timedelta(hours=12),
    "90s": NOW - timedelta(seconds=90),
    "30m": NOW - timedelta(minutes=30),
    "2w": NOW - timedelta(days=14),
    "0m": NOW,
    "0000000d": NOW,
    "v0": 0,
    "v42": 42,
    "v007": 7,
    "v999999999999999999": 999_999_999_999_999_999,
    "beginning": BEFORE_ALL,
}

NOT_FORMS = [
    *(
        "",
        " ",
        "now",
        "today",
        "yesterday",
        "latest",
        "Beginning",
        "BEGINNING",
        "the beginning",
        "null",
        "None",
        "0",
        "42",
    ),
    *("d", "3", "3 d", "3D", "3y", "3mo", "-3d", "+3d", "1.5d", "3d12h", "P3D", "1e3d", "1234567890d", "٣d"),
    *("v", "V42", "v-1", "v+1", "v 1", "v1.0", "v1e3", "v0x1", "v٣", "v1234567890123456789", "42v", "@v1", "version 1"),
    *("2026", "2026-11", "20261101", "2026-11-1", "26-11-01", "2026/11/01", "01.11.2026", "11-01-2026", "2026-W44-7"),
    *("2026-305", "2026-11-01T", "2026-11-01T00", "2026-11-01T0:00", "2026-11-01T00:00z", "2026-11-01t00:00"),
    *("2026-11-01T00:00 Z", "2026-11-01T00:00Z+01:00", "2026-11-01T00:00+2", "2026-11-01T00:00+02", "2026-11-01Z"),
    *("2026-11-01T00:00 Europe/Berlin", "2026-11-01T00:00 CET", "2026-11-01T00:00:00,5", "2026-11-01T00:00:00.1234567"),
    *(
        "1793491200",
        "v1;v2",
        "v1 v2",
        "$(date)",
        "{{ ds }}",
        "'2026-11-01'",
        "\x1b[31m3d",
        "3d\u200b",
    ),
]

NO_SUCH_TIME = [
    *("2026-02-29", "2100-02-29", "2026-02-30", "2026-04-31", "2026-13-01", "2026-00-10", "2026-01-00", "0000-01-01"),
    *("2026-11-01T24:01", "2026-11-01T25:00", "2026-11-01T00:60", "2026-11-01T00:00:60", "2026-11-01T00:00+24:00"),
    *("0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00", "999999999d", "999999999w"),
]


@pytest.mark.parametrize("text", FORMS)
def test_every_form_means_one_moment(text: str) -> None:
    assert read("--since", text) == FORMS[text]


@pytest.mark.parametrize("text", NOT_FORMS)
def test_what_is_no_form_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ConfigError, match=r"valid forms are 2026-11-01T00:00Z, .*3d.*alias=v42, beginning") as refused:
        read_ends(text, None, NOW)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("text", NO_SUCH_TIME)
def test_times_that_no_calendar_has_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="there is no such time; valid forms are"):
        read("--until", text)


@given(st.datetimes(timezones=st.just(UTC)).filter(lambda at: 1900 < at.year < 2200), st.integers(-840, 840))
def test_what_python_writes_is_read_as_the_same_instant(at: datetime, minutes: int) -> None:
    local = at.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert read("--since", str(local)) == read("--since", local.isoformat()) == local


def test_sources_are_named_once_each_and_the_rest_takes_the_bare_form() -> None:
    found, _ = read_ends("3d, orders=v42,customers = beginning", None, NOW)
    assert find_moment(found, "orders") == 42
    assert find_moment(found, "customers") == BEFORE_ALL
    assert find_moment(found, "else") == NOW - timedelta(days=3)
    assert read_ends(["orders=v42", "3d,customers=beginning"], None, NOW)[0] == found
    assert read_ends("a=v1", (), NOW) == read_ends("a=v1", None, NOW) == ({"a": 1}, {})


@pytest.mark.parametrize("text", ["v1,v2", "3d,beginning", "a=v1,a=v1", "a=v1,b=v2,a=v3"])
def test_two_answers_to_one_question_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is given twice for"):
        read_ends(text, None, NOW)


@pytest.mark.parametrize("text", ["a=", "=v1", "a=b=", "a==", ",", "v1,", "a=v1,,b=v2", "a=42", "a=now"])
def test_half_a_source_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a version, time or duration"):
        read_ends(text, None, NOW)


@pytest.mark.parametrize(
    ("since", "until"),
    [("2026-11-02", "2026-11-01"), ("1h", "2h"), ("v3", "v2"), ("a=v3", "a=v2"), ("2026-11-21T11:00:01Z", "1h")],
)
def test_ends_the_wrong_way_round_are_refused(since: str, until: str) -> None:
    with pytest.raises(ConfigError, match="--since is later than --until"):
        read_ends(since, until, NOW)


def test_allow_gap_goes_with_since() -> None:
    with pytest.raises(ConfigError, match="--allow-gap goes with --since"):
        read_options(ALIASES, None, "3d", allow_gap=True)
    assert read_options(ALIASES, None, None, allow_gap=True, histories=True).allow_gap, "a history may lose its feed"


def is_point(since: str, until: str | None, alias: str = "a") -> bool:
    return Options(*read_ends(since, until, NOW)).is_point(alias)


def test_one_moment_at_both_ends_is_a_point() -> None:
    assert is_point("2026-11-01T02:00+02:00", "2026-11-01")
    assert not is_point("2d", "1d")
    assert not is_point("2d", None)
    assert not is_point("a=v1", "a=v1", "b")


ALIASES = {"one": ["orders"], "two": ["orders", "customers"], "mirror": ["master"]}


@pytest.mark.parametrize(
    ("text", "job", "message"),
    [
        ("v42", "two", "name the source: --since orders=v42,customers=v42"),
        ("v42,orders=v1", "two", "--since customers=v42"),
        ("order=v42", "two", "no job to run has a source 'order'; did you mean 'orders'"),
        ("xyz=v42", "two", "the sources are customers, orders"),
        ("customers=v42", "one", "no job to run has a source 'customers'"),
    ],
)
def test_versions_that_fit_no_source_are_refused(text: str, job: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        read_options({job: ALIASES[job]}, text, None)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "text", ["orders=v42", "orders=v1,customers=v2", "v3,orders=v1,customers=v2", "3d", "beginning"]
)
def test_versions_that_name_their_source_are_taken(text: str) -> None:
    read_options(ALIASES | {"mirror": ["orders"]}, text, text)


def test_a_bare_version_is_for_jobs_with_one_source() -> None:
    assert read_options({"one": ["orders"]}, "v1", None).since


def test_a_full_refresh_starts_nowhere() -> None:
    with pytest.raises(ConfigError, match="--full-refresh computes every row"):
        read_options({"one": ["orders"]}, "v1", None, full_refresh=True)


def test_the_log_says_which_instants_are_meant(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="enrich"):
        read_options(ALIASES, "2026-11-01T00:00+02:00,master=2026-11-01", "2026-11-02")
    assert [record.getMessage() for record in caplog.records] == [
        "--since is 2026-10-31T22:00:00Z, master=2026-11-01T00:00:00Z",
        "--until is 2026-11-02T00:00:00Z",
    ]


# --- versions --------------------------------------------------------------------------------------------------------

SECOND = 1000
LOG = {version: version * 10 * SECOND for version in range(10)}
CUT = {version: version * 10 * SECOND for version in range(4, 10)}


def at(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("asked", "version"),
    [(at(0), 0), (at(9.999), 0), (at(10), 1), (at(10.0005), 1), (at(50), 5), (at(1e6), 9), (at(-0.001), BEFORE_ALL)],
)
def test_a_time_contains_the_last_version_committed_by_then(asked: datetime, version: int) -> None:
    assert find_version(asked, "--since", "job", "orders", LOG) == version


def test_versions_and_the_beginning() -> None:
    assert find_version(7, "--since", "job", "orders", LOG) == 7
    assert find_version(BEFORE_ALL, "--since", "job", "orders", LOG) == BEFORE_ALL
    assert find_version(BEFORE_ALL, "--until", "job", "orders", LOG) == 0
    with pytest.raises(ConfigError, match="v10: source 'orders' of 'job' has no such version; its latest is 9"):
        find_version(10, "--until", "job", "orders", LOG)


@pytest.mark.parametrize("asked", [at(39.999), at(-1), 2, 0])
def test_a_log_that_does_not_reach_back_names_the_command(asked: Moment) -> None:
    with pytest.raises(
        HistoryError, match="begins only with version 4; run `enrich run job --full-refresh`"
    ) as refused:
        find_version(asked, "--since", "job", "orders", CUT)
    assert refused.value.exit_code == 5


def test_a_cut_log_still_serves_what_it_holds() -> None:
    assert find_version(3, "--since", "job", "orders", CUT) == 3
    assert find_version(at(40), "--since", "job", "orders", CUT) == 4
    assert find_version(BEFORE_ALL, "--since", "job", "orders", CUT) == BEFORE_ALL


# --- the window ------------------------------------------------------------------------------------------------------


def reach(
    start: int, to: int, again: Range | None = None, gap: Range | None = None
) -> tuple[SourceWindow, Range | None]:
    return SourceWindow(start, to, gap=gap), again


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, reach(5, 9)),
        (5, None, reach(5, 9)),
        (2, None, reach(5, 9, again=(2, 5))),
        (BEFORE_ALL, None, reach(5, 9, again=(BEFORE_ALL, 5))),
        (7, None, reach(7, 9, gap=(5, 7))),
        (9, None, reach(9, 9, gap=(5, 9))),
        (None, 7, reach(5, 7)),
        (None, 5, reach(5, 5)),
        (None, 3, reach(5, 5)),
        (None, BEFORE_ALL, reach(5, 5)),
        (None, 99, reach(5, 9)),
        (2, 7, reach(5, 7, again=(2, 5))),
        (2, 5, reach(5, 5, again=(2, 5))),
        (2, 4, reach(5, 5, again=(2, 4))),
        (5, 7, reach(5, 7)),
        (7, 8, reach(7, 8, gap=(5, 7))),
        (BEFORE_ALL, BEFORE_ALL, reach(5, 5)),
    ],
)
def test_window_arithmetic(since: int | None, until: int | None, expected: tuple[SourceWindow, Range | None]) -> None:
    assert compute_window(5, 9, since, until) == expected


@pytest.mark.parametrize(
    ("asked", "expected"), [(4, reach(5, 5)), (5, reach(5, 5)), (7, reach(5, 7)), (9, reach(5, 9))]
)
def test_a_point_bounds_the_window_and_skips_nothing(asked: int, expected: tuple[SourceWindow, Range | None]) -> None:
    assert compute_window(5, 9, asked, asked, point=True) == expected


VERSIONS = st.integers(0, 60)
ENDS = st.none() | st.integers(BEFORE_ALL, 70)


@given(VERSIONS, VERSIONS, ENDS, ENDS, st.booleans())
def test_a_window_never_loses_a_version_that_is_not_called_a_gap(
    cursor: int, behind: int, since: int | None, until: int | None, point: bool
) -> None:
    latest = cursor + behind
    if since is not None:
        since = min(since, latest)
        until = max(since, until) if until is not None else None
    point = point and since is not None
    found, again = compute_window(cursor, latest, since, since if point else until, point=point)
    assert cursor <= found.to <= latest
    assert found.start is not None
    assert found.start <= found.to
    first = again[0] if again is not None else found.start
    if found.gap is None:
        assert first <= found.start == cursor
    else:
        assert found.gap == (cursor, found.start)
        assert since is not None
        assert since > cursor
        assert not point
    if again is not None:
        start, end = again
        assert start == since
        assert start < end <= cursor
        assert until is None or end <= max(until, start + 1)
    if since is not None and since <= cursor and until is None and not point:
        assert first == since  # widened as far as was asked
