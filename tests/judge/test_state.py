"""The state of a case."""

from __future__ import annotations

from typing import Any

import pytest

from hotlap.judge.state import state
from hotlap.record import Case, Gap, Result, Summary

CASE = Case(workload="stream")


def _result(status: Any = "measured", better: Any = "higher", reason: str = "") -> Result:
    return Result(case=CASE, device="d", target="opencl", status=status, reason=reason, better=better, unit="B/s")


def _summary(low: float | None = 98.0, median: float = 99.0, high: float | None = 100.0, rounds: int = 6) -> Summary:
    half = (high - low) / 2 / median if low is not None and high is not None else None
    return Summary(rounds=rounds, median=median, low=low, high=high, half_width=half)


UNKNOWN = Gap()


def test_measured_is_narrow_enough_and_believable() -> None:
    assert state(_result(), _summary(), Gap(against="bound", limit_value=110.0), 0.02).state == "measured"


@pytest.mark.parametrize("status", ["not_run", "invalid", "error"])
def test_what_was_not_measured_stays_what_it_is(status: str) -> None:
    verdict = state(_result(status, reason="why"), Summary(rounds=0), UNKNOWN, 0.02)
    assert (verdict.state, verdict.reason) == (status, "why")


def test_wider_than_asked_is_inconclusive_and_says_what_to_do() -> None:
    verdict = state(_result(), _summary(90.0, 99.0, 105.0), UNKNOWN, 0.02)
    assert verdict.state == "inconclusive"
    assert "7.6 %" in verdict.reason
    assert "run more rounds" in verdict.reason


def test_too_few_rounds_are_inconclusive() -> None:
    assert "6 rounds needed" in state(_result(), _summary(None, 99.0, None, rounds=5), UNKNOWN, 0.02).reason


@pytest.mark.parametrize(("limit", "expected"), [(100.0, "measured"), (99.5, "measured"), (98.9, "invalid"), (50.0, "invalid")])
def test_the_fast_end_may_beat_a_bound_by_one_percent(limit: float, expected: str) -> None:
    assert state(_result(), _summary(), Gap(against="bound", limit_value=limit), 0.02).state == expected


def test_latencies_beat_their_bound_downwards() -> None:
    gap = Gap(against="bound", limit_value=100.0)
    assert state(_result(better="lower"), _summary(98.0, 99.0, 101.0), gap, 0.02).state == "invalid"
    assert state(_result(better="lower"), _summary(100.0, 101.0, 102.0), gap, 0.02).state == "measured"


@pytest.mark.parametrize("against", ["expected", "ceiling", "unknown"])
def test_only_a_provable_bound_makes_a_number_invalid(against: Any) -> None:
    assert state(_result(), _summary(), Gap(against=against, limit_value=10.0), 0.02).state == "measured"
