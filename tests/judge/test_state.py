"""The state of a case."""

from __future__ import annotations

from typing import Any

import pytest

from hotlap.judge.state import state
from hotlap.record import Case, Gap, Result, Summary, Verdict

CASE = Case(workload="stream")


UNKNOWN = Gap()


def _result(status: Any = "measured", better: Any = "higher", **more: Any) -> Result:
    return Result(case=CASE, device="d", target="opencl", status=status, better=better, unit="B/s", **more)


def _summary(low: float | None = 98.0, median: float | None = 99.0, high: float | None = 100.0, rounds: int = 6, **more: Any) -> Summary:
    half = (high - low) / 2 / median if low is not None and high is not None and median else None
    return Summary(**{"rounds": rounds, "median": median, "low": low, "high": high, "half_width": half, "reached": True, **more})


def test_measured_is_exact_enough_and_believable() -> None:
    assert state(_result(), _summary(), Gap(against="bound", limit_value=110.0)) == Verdict(state="measured")
    assert state(_result(), _summary(reached=None), UNKNOWN) == Verdict(state="measured")  # nothing was asked


@pytest.mark.parametrize("status", ["not_run", "invalid", "error"])
def test_what_was_not_measured_stays_what_it_is(status: str) -> None:
    verdict = state(_result(status, reason="why"), _summary(), UNKNOWN)
    assert (verdict.state, verdict.reason) == (status, "why")


def test_no_number_is_an_error() -> None:
    assert state(_result(), _summary(None, None, None), UNKNOWN) == Verdict(state="error", reason="no round gave a number")
    assert state(_result(reason="why"), _summary(None, None, None), UNKNOWN) == Verdict(state="error", reason="why")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"needed": 20}, "interval ± 7.6 %: about 20 rounds reach the precision"), ({}, "interval ± 7.6 %: more rounds would not reach the precision"),
        ({"half_width": None}, "interval of unknown width: more rounds would not reach the precision"),
    ],
)
def test_less_exact_than_asked_says_what_it_takes(more: dict[str, Any], says: str) -> None:
    verdict = state(_result(), _summary(90.0, 99.0, 105.0, reached=False, **more), UNKNOWN)
    assert verdict == Verdict(state="inconclusive", reason=says)


def test_a_wide_interval_that_was_expected_to_be_narrow_is_measured() -> None:
    """The state never looks at the interval: to show narrow ones alone picks the lucky ones."""
    assert state(_result(), _summary(50.0, 99.0, 150.0), UNKNOWN).state == "measured"


def test_too_few_rounds_have_the_confidence_they_have() -> None:
    assert state(_result(), _summary(rounds=5, confidence=0.9375), UNKNOWN) == Verdict(
        state="inconclusive", reason="5 of 6 rounds, an interval of 93.75 %: run more rounds",
    )
    assert state(_result(), _summary(None, 99.0, None, rounds=1), UNKNOWN).reason == "1 of 6 rounds: run more rounds"


def test_too_short_to_time_comes_before_too_few_rounds_and_beats_no_bound() -> None:
    verdict = state(_result(too_short=True), _summary(rounds=3), Gap(against="bound", limit_value=10.0))
    assert verdict == Verdict(state="inconclusive", reason="a call is too short to time: give it more work, or measure a batch of calls")


@pytest.mark.parametrize(
    ("better", "interval", "limit", "expected"),
    [
        ("higher", (102.0, 110.0, 120.0), 100.0, "invalid"), ("higher", (101.0, 110.0, 120.0), 100.0, "measured"),  # 1 % is allowed
        ("higher", (101.1, 110.0, 120.0), 100.0, "invalid"), ("higher", (99.0, 110.0, 120.0), 100.0, "measured"),
        ("higher", (None, 102.0, None), 100.0, "invalid"), ("higher", (None, 101.0, None), 100.0, "measured"),
        ("lower", (80.0, 90.0, 98.0), 100.0, "invalid"), ("lower", (80.0, 90.0, 99.5), 100.0, "measured"),
        ("lower", (80.0, 90.0, 100.0), 101.0, "measured"), ("lower", (80.0, 90.0, 100.0), 101.1, "invalid"),
        ("lower", (0.0, 0.0, 0.0), 100.0, "invalid"), ("lower", (None, 98.0, None), 100.0, "invalid"),
        ("lower", (80.0, 90.0, 120.0), 100.0, "measured"),
    ],
)
def test_even_the_slow_end_must_beat_a_bound_by_1_percent(better: str, interval: tuple[Any, Any, Any], limit: float, expected: str) -> None:
    assert state(_result(better=better), _summary(*interval), Gap(against="bound", limit_value=limit)).state == expected


def test_what_beats_a_bound_says_by_how_much() -> None:
    verdict = state(_result(), _summary(110.0, 115.0, 120.0), Gap(against="bound", limit_value=100.0))
    assert verdict.reason.startswith("even the slow end of its interval is 10.0% faster than its provable bound")


@pytest.mark.parametrize("against", ["expected", "ceiling", "unknown"])
def test_only_a_provable_bound_makes_a_number_invalid(against: Any) -> None:
    assert state(_result(), _summary(), Gap(against=against, limit_value=10.0)).state == "measured"
    assert state(_result(), _summary(), Gap(against="bound", limit_value=None)).state == "measured"
