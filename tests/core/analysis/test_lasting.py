"""Whether a rate lasts, and which calls miss a deadline: of rounds whose truth is known."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from hotlap.core.analysis import lasting
from hotlap.core.record import Case, MeasureOptions, Result, Samples

CASE = Case(workload="command", params={"argv": ["true"]})


def result(values: list[float], better: Literal["higher", "lower"] = "higher", calls: list[list[float]] | None = None) -> Result:
    """A round each 10 s, 9 s long."""
    rounds = [
        Samples(case=CASE.id, device="d", round=number, values=calls[number] if calls else [value], began_s=10.0 * number, ended_s=10.0 * number + 9)
        for number, value in enumerate(values)
    ]
    return Result(case=CASE, device="d", target="host", status="measured", unit="B/s", better=better, values=values, rounds=rounds)


def levels(*levels: tuple[float, int], noise: float = 0.003) -> list[float]:
    random = np.random.default_rng(3)
    return [level * float(np.exp(random.normal(0.0, noise))) for level, count in levels for _ in range(count)]


def found(values: list[float], better: Literal["higher", "lower"] = "higher") -> lasting.SustainedRate:
    rate = lasting.sustained(result(values, better))
    assert not isinstance(rate, str)
    return rate


def test_a_rate_that_falls_says_by_how_much_and_from_when_it_is_steady() -> None:
    rate = found(levels((100.0, 8), (70.0, 32)))
    assert rate.answer == "falls"
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low <= 0.7 <= rate.high
    assert (rate.first, rate.last) == (pytest.approx(100, rel=0.01), pytest.approx(70, rel=0.01))
    assert rate.steady_s == 80.0
    assert (rate.rounds, rate.seconds) == (40, 399.0)


def test_a_rate_that_holds_or_rises_or_is_too_noisy() -> None:
    held = found(levels((100.0, 40)))
    assert (held.answer, held.steady_s) == ("holds", 0.0)
    assert found(levels((100.0, 6), (120.0, 34))).answer == "rises"
    assert found(levels((100.0, 40), noise=0.3)).answer == "inconclusive"


def test_of_times_longer_is_worse() -> None:
    rate = found(levels((1.0, 8), (2.0, 32)), "lower")
    assert rate.answer == "falls"
    assert rate.ratio == pytest.approx(0.5, rel=0.02)


def test_a_level_that_still_moves_at_the_end_is_not_steady() -> None:
    assert found([100.0 - number for number in range(40)]).steady_s is None


def test_one_odd_round_at_the_end_does_not_make_it_unsteady() -> None:
    values = levels((100.0, 8), (70.0, 32))
    values[-3] = 40.0
    assert found(values).steady_s == 80.0


def test_few_rounds_are_refused_with_their_number() -> None:
    reason = lasting.sustained(result([1.0] * 11))
    assert isinstance(reason, str)
    assert reason.startswith("11 rounds are too few")


def test_missed_deadlines_are_counted_with_the_longest_streak() -> None:
    calls = [[0.01, 0.04, 0.04, 0.01], [0.04, 0.01, 0.01, 0.01], [0.01] * 4]
    missed = lasting.deadlines(result([1.0, 1.0, 1.0], calls=calls), 0.0333)
    assert (missed.calls, missed.missed, missed.share, missed.streak, missed.reason) == (12, 3, 0.25, 2, "")
    assert missed.low is not None
    assert missed.high is not None
    assert missed.low < 0.25 < missed.high
    none = lasting.deadlines(result([1.0, 1.0, 1.0], calls=calls), 0.04)  # as long as the deadline is in time
    assert (none.missed, none.streak, none.low) == (0, 0, 0.0)


def test_calls_that_were_timed_together_and_a_program_s_own_numbers_are_not_judged() -> None:
    one = Samples(case=CASE.id, device="d", round=0, values=[0.01], calls=4)
    of_some = Result(case=CASE, device="d", target="host", status="measured", unit="s", values=[0.01], rounds=[one])
    assert lasting.deadlines(of_some, 0.02).reason == "4 calls were timed together, which hides each one's time"
    own = Result(case=CASE, device="d", target="host", status="measured", unit="fps", values=[9.0], rounds=[Samples(case=CASE.id, device="d", round=0, values=[9.0], unit="fps")])
    assert "program's own" in lasting.deadlines(own, 0.02).reason
    assert lasting.deadlines(Result(case=CASE, device="d", target="host", status="not_run"), 0.02).reason == "no round gave a time"


def test_only_what_was_asked_is_told() -> None:
    some = result(levels((100.0, 40)), calls=[[0.01, 0.02]] * 40)
    assert lasting.document(some, MeasureOptions()) == {}
    assert lasting.document(some, None) == {}
    assert set(lasting.document(some, MeasureOptions(sustain_s=60.0, deadline_s=0.01))) == {"sustained", "deadline"}
