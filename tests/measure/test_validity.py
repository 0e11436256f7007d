"""Timers that can be believed: what is said of wrong ones, and how often honest ones are accused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scripting import CASE, TICK, measured, opened

from hotlap.measure import validity
from hotlap.measure.validity import Timers, Validity, doubt
from hotlap.record import Check
from hotlap.store.fold import fold
from hotlap.targets.scripted import Page, Step

RIGHT = Check(passed=True, what="right")
SAMPLE_S, NOISE_S, SAMPLES, ROUNDS = 2e-3, 0.5e-3, 100, 6
LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "exponential": lambda rng, n: rng.exponential(NOISE_S, n),
    "uniform": lambda rng, n: rng.uniform(0, 2 * NOISE_S, n),
    "one in four": lambda rng, n: rng.exponential(NOISE_S, n) * (rng.random(n) < 0.25),
}


def never() -> Timers:
    raise AssertionError("no second look is needed")


# ---------------------------------------------------------------- by hand


def test_a_wrong_answer_says_what_was_compared() -> None:
    assert validity.validity(Check(passed=False, what="A·B"), None, never) == Validity("invalid", "wrong_result", "A·B")
    found = validity.validity(Check(passed=False, what="A·B", error=3.0, tolerance=1.0), None, never)
    assert found == Validity("invalid", "wrong_result", "wrong result: A·B: error 3.0 against 1.0 allowed")


def test_one_timer_cannot_disagree() -> None:
    assert validity.validity(RIGHT, None, never) == Validity("measured", "", "")
    assert validity.validity(RIGHT, Timers([], [], 0.0), never) == Validity()


@pytest.mark.parametrize("wall_s", [0.0, -1.0])
def test_a_wall_clock_that_does_not_advance_is_said(wall_s: float) -> None:
    found = validity.validity(RIGHT, Timers([1.0], [wall_s], 0.0), never)
    assert (found.status, found.cause) == ("invalid", "timers")
    assert "did not advance" in found.reason
    assert validity.validity(RIGHT, Timers([1.0, 1.0], [wall_s, 1.0], 0.0), lambda: Timers([1.0], [1.0], 0.0)).status == "measured"


@pytest.mark.parametrize(
    ("device", "wall", "cost", "said"),
    [
        ([1.0] * 9, [1.0] * 9, 0.0, ""),
        ([1.015] * 9, [1.0] * 9, 0.0, ""), ([1.0151] * 9, [1.0] * 9, 0.0, "shows 1.02 times the wall clock, more than can have passed"),
        ([0.985] * 9, [1.0] * 9, 0.0, ""), ([0.9849] * 9, [1.0] * 9, 0.0, "shows 0.985 times the wall clock in every undisturbed sample"),
        ([0.5] * 8 + [1.0], [1.0] * 9, 0.0, ""),  # one sample that was not delayed tells that the timer is honest
        ([0.5] * 9, [1.0] * 9, 0.5, ""), ([0.5] * 9, [1.0] * 9, 0.4, "shows 0.833 times"),  # what timing costs by the wall clock
        ([1e-6] * 9, [11e-6] * 9, 0.0, ""), ([1e-6] * 9, [12e-6] * 9, 0.0, "shows 0.0833 times"),  # 10 µs are nothing
        ([12e-6] * 9, [2e-6] * 9, 0.0, ""), ([12.1e-6] * 9, [2e-6] * 9, 0.0, "more than can have passed"),
        ([], [], 0.0, ""),
    ],
)
def test_how_far_two_timers_may_be_apart(device: list[float], wall: list[float], cost: float, said: str) -> None:
    found = doubt(Timers(device, wall, cost))
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize("wrong", ["", "far"])
def test_longer_batches_settle_a_doubt(wrong: str) -> None:
    far, near = Timers([0.5] * 9, [1.0] * 9, 0.0), Timers([1.0] * 9, [1.0] * 9, 0.0)
    found = validity.validity(RIGHT, far, lambda: far if wrong else near)
    assert found.status == ("invalid" if wrong else "measured")
    assert found.cause == ("timers" if wrong else "")


def test_the_ratio_is_the_median_without_the_cost() -> None:
    assert validity.ratio([1.0, 2.0, 9.0], [1.5, 4.5, 9.5], 0.5) == 1.0
    assert validity.ratio([1.0], [0.5], 0.5) == 1e9


# ---------------------------------------------------------------- on the scripted target


def test_a_timer_that_shows_half_is_invalid_with_its_number() -> None:
    samples = measured(opened([Step(device_s=2 * TICK, wall_s=4 * TICK)]))
    assert (samples.status, samples.cause) == ("invalid", "timers")
    assert samples.reason == "timers disagree: the device's timer shows 0.5 times the wall clock in every undisturbed sample"
    assert samples.wall_ratio == 0.5
    assert samples.seconds == [2 * TICK] * 16


@pytest.mark.parametrize("device_s", [0.0, -4 * TICK])
def test_a_timer_of_the_device_that_stands_still_or_runs_backwards_is_invalid(device_s: float) -> None:
    samples = measured(opened([Step(device_s=device_s, wall_s=4 * TICK)]), change={"batch": 1})
    assert (samples.status, samples.cause) == ("invalid", "timers")
    assert set(samples.seconds) == {0.0}


def test_a_wall_clock_that_stands_still_is_invalid() -> None:
    samples = measured(opened([Step(device_s=4 * TICK, wall_s=0.0)]), change={"batch": 1, "after": None}, overhead=None, watch=_Slow(4 * TICK))
    assert (samples.status, samples.cause) == ("invalid", "timers")
    assert "did not advance" in samples.reason


class _Slow:
    """A watch during whose looks time goes by, else a clock that stands still would never end a round."""

    why_not = ""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __getattr__(self, name: str) -> object:
        raise AttributeError(name)
