"""Timers that can be believed: what is said of wrong ones, and how often honest ones are accused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace
from scripting import CASE, TICK, measured, opened

from hotlap.core.measure import loop, validity
from hotlap.core.measure.targets.scripted import Page, ScriptedStep
from hotlap.core.measure.validity import Timers, Validity, disagreement
from hotlap.core.record import Check, Samples
from hotlap.core.store.fold import fold

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


def test_one_sample_in_fifty_may_show_more_than_the_wall_clock() -> None:
    assert validity.MORE_SHARE == 0.02
    assert disagreement(Timers([2.0] + [1.0] * 49, [1.0] * 50, 0.0)) == ""
    assert disagreement(Timers([2.0] + [1.0] * 48, [1.0] * 49, 0.0)).startswith("timers disagree: the device's timer shows 1 times")


def test_a_doubt_that_half_of_the_second_looks_leaves_may_be_settled_by_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def doubted(timers: Timers) -> str:
        asked.append(len(timers.wall_s))
        return "" if len(asked) > 1 else "a doubt"

    monkeypatch.setattr(validity, "disagreement", doubted)
    target = opened([ScriptedStep(device_s=TICK)])
    budget = loop.CaseBudget(seconds=1.0, watch=target.watch, clock=target.clock_hz)
    found = loop._timers_again(target, target.prepare(CASE), 8, budget, loop.Overhead(0.0, 0.0, 0.0))
    half = validity.SECOND_LOOKS // 2
    assert asked == [half, half + 1]
    assert found.wall_s == found.device_s == [8 * TICK] * (half + 1)


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
    found = disagreement(Timers(device, wall, cost))
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
    assert validity.ratio([1.0], [0.5], 0.5) == pytest.approx(1e9)


# ---------------------------------------------------------------- on the scripted target


def test_a_timer_that_shows_half_is_invalid_with_its_number() -> None:
    samples = measured(opened([ScriptedStep(device_s=2 * TICK, wall_s=4 * TICK)]), change={"batch": 1})
    assert (samples.status, samples.cause) == ("invalid", "timers")
    assert samples.reason == "timers disagree: the device's timer shows 0.5 times the wall clock in every undisturbed sample"
    assert samples.wall_ratio == 0.5
    assert samples.values == [2 * TICK] * 16


@pytest.mark.parametrize("device_s", [0.0, -4 * TICK])
def test_a_timer_of_the_device_that_stands_still_or_runs_backwards_is_invalid(device_s: float) -> None:
    samples = measured(opened([ScriptedStep(device_s=device_s, wall_s=4 * TICK)]), change={"batch": 1})
    assert (samples.status, samples.cause) == ("invalid", "timers")
    assert set(samples.values) == {0.0}


def test_a_wall_clock_that_stands_still_is_invalid_and_ends() -> None:
    samples = measured(opened([ScriptedStep(device_s=4 * TICK, wall_s=0.0)]))
    assert (samples.status, samples.cause, len(samples.values)) == ("invalid", "timers", 5000)
    assert "did not advance" in samples.reason


def test_disturbed_samples_accuse_no_timer() -> None:
    """During all but one in four something waited: of those the wall clock shows twice the device's timer."""
    late = ScriptedStep(device_s=4 * TICK, late_s=4 * TICK, foreign="run_delay", waited=0.5)
    samples = measured(opened(Page(steps=[late, late, late, ScriptedStep(device_s=4 * TICK)] * 20)), 64 * TICK)
    assert samples.status == "measured"
    assert samples.wall_ratio == 1.0
    all_late = measured(opened(Page(steps=[late])), 64 * TICK)
    assert (all_late.status, all_late.wall_ratio) == ("measured", None)


def test_the_second_look_is_of_batches_eight_times_as_long_that_nothing_disturbs() -> None:
    """A sample costs half a tick beside the work, which no empty batch shows: 3 % of 16 and 0.4 % of 128, but
    11 % of 4 and 2 % of 32, of which 1.5 % are allowed."""
    target = opened([ScriptedStep(device_s=16 * TICK, late_s=TICK / 2)])
    assert measured(target, 128 * TICK, {"batch": 1}).status == "measured"
    target = opened([ScriptedStep(device_s=4 * TICK, late_s=TICK / 2)])
    samples = measured(target, 64 * TICK, {"batch": 1})
    assert samples.status == "invalid"
    assert samples.reason.startswith("timers disagree: the device's timer shows 0.985 times")


# ---------------------------------------------------------------- how often


def drawn(rng: np.random.Generator, law: str, share: float, calls: int, count: int) -> Timers:
    """`count` batches: the wall clock is delayed by the law, the device's timer is off by `share`."""
    return Timers(np.full(count, SAMPLE_S * calls * (1 + share)), SAMPLE_S * calls + LAWS[law](rng, count), 0.0)  # type: ignore[arg-type]


def accused(rng: np.random.Generator, law: str, share: float) -> bool:
    """Whether a case of six rounds says that its timers disagree."""
    rounds = []
    for number in range(ROUNDS):
        found = validity.validity(RIGHT, drawn(rng, law, share, 1, SAMPLES), lambda: drawn(rng, law, share, validity.LONGER, validity.SECOND_LOOKS))
        rounds.append(Samples(case=CASE.id, device="d", round=number, status=found.status, cause=found.cause, values=[SAMPLE_S]))
    return fold(CASE, rounds, "scripted").status == "invalid"


@pytest.mark.parametrize("law", LAWS)
def test_honest_timers_are_accused_in_less_than_1_of_1000_cases(law: str) -> None:
    rng = np.random.default_rng(7)
    assert sum(accused(rng, law, 0.0) for _ in range(170)) == 0  # 1,020 rounds, none of them accused


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("share", [0.03, -0.03])
def test_a_timer_3_percent_off_is_found_in_99_percent_of_cases(law: str, share: float) -> None:
    rng = np.random.default_rng(7)
    assert sum(accused(rng, law, share) for _ in range(100)) >= 99


@pytest.mark.parametrize(("share", "found"), [(0.03, True), (-0.03, True), (0.0, False)])
def test_the_same_by_the_whole_loop_on_the_scripted_target(share: float, found: bool) -> None:
    """Three cases of six rounds; delays by the exponential law."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rounds = []
        for number in range(ROUNDS):
            late = LAWS["exponential"](rng, SAMPLES + 2 * validity.SECOND_LOOKS)
            page = Page(steps=[ScriptedStep(device_s=SAMPLE_S * (1 + share), wall_s=SAMPLE_S, late_s=float(one)) for one in late])
            samples = measured(opened(page), SAMPLES * (SAMPLE_S + NOISE_S), {"batch": 1})
            rounds.append(replace(samples, round=number))
        assert (fold(CASE, rounds, "scripted").status == "invalid") is found, seed


def test_looking_again_ends_after_a_second_but_for_three_batches() -> None:
    def taken_s(sample_s: float) -> float:
        target = opened([ScriptedStep(device_s=sample_s / 2, wall_s=sample_s)])
        samples = measured(target, 3 * sample_s, {"batch": 1})
        assert (samples.status, len(samples.values)) == ("invalid", 3)
        return (target.clock.now() - samples.ended_s) / sample_s

    assert taken_s(2 * TICK) == 24 * 8
    assert taken_s(32 * TICK) == 5 * 8  # each takes a quarter of a second: the fifth ends after more than one
    assert taken_s(1024 * TICK) == 3 * 8
