"""The state of a case."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hotlap.core.analysis.state import state
from hotlap.core.record import Case, Gap, Result, Summary

CASE = Case(workload="stream")


def _result(status: Any = "measured", better: Any = "higher", reason: str = "") -> Result:
    return Result(case=CASE, device="d", target="opencl", status=status, reason=reason, better=better, unit="B/s")


def _summary(low: float | None = 98.0, median: float = 99.0, high: float | None = 100.0, rounds: int = 6, **more: Any) -> Summary:
    half = (high - low) / 2 / median if low is not None and high is not None else None
    return Summary(rounds=rounds, median=median, low=low, high=high, half_width=half, **more)


UNKNOWN = Gap()


def test_measured_is_narrow_enough_and_believable() -> None:
    assert state(_result(), _summary(), Gap(reference_kind="bound", limit_value=110.0)).state == "measured"


@pytest.mark.parametrize("status", ["not_run", "invalid", "error"])
def test_what_was_not_measured_stays_what_it_is(status: str) -> None:
    verdict = state(_result(status, reason="why"), Summary(rounds=0), UNKNOWN)
    assert (verdict.state, verdict.reason) == (status, "why")


def test_more_rounds_than_the_fewest_are_as_good() -> None:
    assert state(_result(), _summary(rounds=12), UNKNOWN).state == "measured"


@pytest.mark.parametrize("high", [0.0, -1.0])
def test_no_time_at_all_beats_every_bound(high: float) -> None:
    found = state(_result(better="lower"), _summary(-3.0, -2.0, high), Gap(reference_kind="bound", limit_value=1.0))
    assert found.state == "invalid"


def test_wider_than_asked_is_inconclusive_and_says_what_to_do() -> None:
    verdict = state(_result(), _summary(90.0, 99.0, 105.0, reached=False, needed=20, expected=0.083), UNKNOWN)
    said = "by how much its rounds differ, ± 8.3 % is usual; the precision asked needs less"
    assert (verdict.state, verdict.reason) == ("inconclusive", said)
    for unknown in (None, float("inf")):
        silent = state(_result(), _summary(90.0, 99.0, 105.0, reached=False, expected=unknown), UNKNOWN)
        assert silent.reason == "the noise between rounds is not known"
    assert "--rounds 20" in verdict.action
    hopeless = state(_result(), _summary(90.0, 99.0, 105.0, reached=False), UNKNOWN)
    assert "more rounds will not" in hopeless.action


def test_too_few_rounds_are_inconclusive_and_say_how_sure_their_range_is() -> None:
    verdict = state(_result(), _summary(98.0, 99.0, 100.0, rounds=5, confidence=0.9375), UNKNOWN)
    assert (verdict.state, "5 rounds of the 6" in verdict.reason, "93.8 %" in verdict.reason) == ("inconclusive", True, True)
    left = state(replace(_result(), left_out=[2, 5]), _summary(98.0, 99.0, 100.0, rounds=5, confidence=0.9375), UNKNOWN)
    assert left.reason.startswith("5 rounds of the 6 that a 95 % interval needs (2 more are left out): ")
    assert "--wait-quiet" in left.action
    assert "1 round of the 6" in state(_result(), _summary(None, 99.0, None, rounds=1), UNKNOWN).reason


def test_a_call_too_short_to_time_is_inconclusive_even_where_it_beats_a_bound() -> None:
    verdict = state(replace(_result(), too_short=True), _summary(), Gap(reference_kind="bound", limit_value=50.0))
    assert (verdict.state, "more work" in verdict.action) == ("inconclusive", True)


@pytest.mark.parametrize(("limit", "expected"), [(100.0, "measured"), (98.9, "measured"), (97.1, "measured"), (96.9, "invalid"), (50.0, "invalid")])
def test_the_slow_end_may_beat_a_bound_by_one_percent(limit: float, expected: str) -> None:
    assert state(_result(), _summary(), Gap(reference_kind="bound", limit_value=limit)).state == expected


def test_latencies_beat_their_bound_downwards() -> None:
    gap = Gap(reference_kind="bound", limit_value=100.0)
    assert state(_result(better="lower"), _summary(96.0, 97.0, 98.0), gap).state == "invalid"
    assert state(_result(better="lower"), _summary(96.0, 97.0, 99.5), gap).state == "measured"
    assert state(_result(better="lower"), _summary(100.0, 101.0, 102.0), gap).state == "measured"


@pytest.mark.parametrize("against", ["expected", "ceiling", "unknown"])
def test_only_a_provable_bound_makes_a_number_invalid(against: Any) -> None:
    assert state(_result(), _summary(), Gap(reference_kind=against, limit_value=10.0)).state == "measured"


def test_no_number_is_an_error() -> None:
    assert state(_result(), Summary(rounds=0), UNKNOWN).reason == "no round gave a number"
    assert state(_result(reason="why"), Summary(rounds=0), UNKNOWN).state == "error"


def test_a_wide_interval_that_was_expected_to_be_narrow_is_measured() -> None:
    """The state never looks at the interval: to show narrow ones alone picks the lucky ones."""
    assert state(_result(), _summary(50.0, 99.0, 150.0, reached=True), UNKNOWN).state == "measured"
