"""Times as people write them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from hotlap.core.errors import InputError
from hotlap.core.store import when


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place whose local time is not UTC and whose clocks change."""
    if not hasattr(time, "tzset"):
        pytest.skip("this system sets no time zone for a process")
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("2026-11-21", "2026-11-21T00:00:00", "2026-11-22T00:00:00"),
        ("2026-11", "2026-11-01T00:00:00", "2026-12-01T00:00:00"),
        ("2026-12", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
        ("2026-11-21T10", "2026-11-21T10:00:00", "2026-11-21T11:00:00"),
        ("2026-11-21T10:00", "2026-11-21T10:00:00", "2026-11-21T10:01:00"),
        ("2026-11-21 10:00:05", "2026-11-21T10:00:05", "2026-11-21T10:00:06"),
        ("2026-11-21T10:00Z", "2026-11-21T10:00:00", "2026-11-21T10:01:00"),
        ("2026-11-21T10:00-05:00", "2026-11-21T15:00:00", "2026-11-21T15:01:00"),
        ("today", "2026-11-20T23:00:00", "2026-11-21T23:00:00"),
        ("yesterday", "2026-11-19T23:00:00", "2026-11-20T23:00:00"),
        ("2026-11-19..yesterday", "2026-11-19T00:00:00", "2026-11-20T23:00:00"),
        ("2026-11-19..2026-11-19", "2026-11-19T00:00:00", "2026-11-20T00:00:00"),
    ],
)
def test_span(text: str, since: str, until: str) -> None:
    assert when.is_time(text)
    assert tuple(map(utc, when.span(text, datetime(2026, 11, 21, 9, 30)))) == (since, until)


def test_today_has_25_hours_when_clocks_go_back_and_23_when_they_go_on() -> None:
    assert tuple(map(utc, when.span("today", datetime(2026, 10, 25, 12)))) == ("2026-10-24T22:00:00", "2026-10-25T23:00:00")
    assert tuple(map(utc, when.span("today", datetime(2026, 3, 29, 12)))) == ("2026-03-28T23:00:00", "2026-03-29T22:00:00")


def test_open_ranges() -> None:
    assert when.span("2026-11-21..")[1] == float("inf")
    assert when.span("..2026-11-21")[0] == float("-inf")
    assert when.span("..") == (float("-inf"), float("inf"))


@pytest.mark.parametrize("text", ["2026-13", "2026-02-30", "2026-11-21T25", "2026-11T10", "2026-1", "2026-11-21T", "9999-12-31", "soon.."])
def test_what_is_no_time_is_answered_with_what_is(text: str) -> None:
    assert when.is_time(text)
    with pytest.raises(InputError, match="is no time; valid: today, yesterday, 2026-11"):
        when.span(text)


def test_a_range_that_ends_before_it_begins() -> None:
    with pytest.raises(InputError, match="ends before it begins"):
        when.span("2026-11-22..2026-11-21")


@pytest.mark.parametrize("text", ["20261121T101500-aaaaaa", "2026", "latest", "todays", "cluster"])
def test_what_is_meant_as_something_else(text: str) -> None:
    assert not when.is_time(text)


def test_moments_of_bundles_are_utc_where_they_name_no_offset() -> None:
    assert when.seconds("1970-01-01T00:00:10") == 10
    assert when.seconds("1970-01-01T01:00:10+01:00") == 10
    assert when.seconds("once") is None
