"""The search for capacity: curves, budgets, refusals, and queues whose capacity is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.serving import attainment_curve
from hotlap.serving.attainment_curve import RateRun, monotone
from hotlap.serving.capacity import CapacityOptions, CapacitySearch, SearchEnded, pooled, search


def queue(seed: int, within: float) -> Callable[[float, int], NDArray[np.bool_]]:
    """M/M/1 with a mean service of 1 s, by Lindley's recursion."""
    rng = np.random.default_rng(seed)

    def measure(rate: float, requests: int) -> NDArray[np.bool_]:
        arrivals, ends = np.cumsum(rng.exponential(size=requests)) / rate, np.cumsum(service := rng.exponential(size=requests))
        return np.asarray(ends + np.maximum.accumulate(arrivals - (ends - service)) - arrivals <= within)

    return measure


def test_the_queue_of_these_tests_has_its_closed_form() -> None:
    met = queue(1, 5)(0.5, 400_000)[1000:]
    assert met.mean() == pytest.approx(1 - math.exp(-0.5 * 5), abs=0.004)


def test_monotone_pools_what_falls() -> None:
    assert monotone([1.0, 3.0, 2.0, 4.0], [1, 1, 1, 1]) == [1.0, 2.5, 2.5, 4.0]
    assert monotone([3.0, 2.0, 1.0], [2, 1, 1]) == pytest.approx([2.25] * 3)
    assert monotone([], []) == []


def test_shares_rise_with_the_rate_in_the_order_of_the_runs() -> None:
    many, few = np.arange(100) < 30, np.arange(100) < 10
    shares = attainment_curve.shares([RateRun(3.0, few), RateRun(1.0, few), RateRun(2.0, many)])
    assert shares[1] < shares[2] == pytest.approx(shares[0])


def test_a_curve_passes_what_it_was_given() -> None:
    rng = np.random.default_rng(4)
    runs = [RateRun(rate, rng.random(200_000) < math.exp(-(1 - rate) * 10)) for rate in (0.70, 0.74, 0.78, 0.82)]
    curve = attainment_curve.fit(runs, 0.1, 0.77)
    assert curve is not None
    truth = 1 - math.log(10) / 10
    assert curve.rate(curve.wanted) == pytest.approx(truth, rel=0.004)
    low, high = curve.interval(0.95)
    assert low is not None
    assert high is not None
    assert low <= truth <= high < low * 1.02


def test_correlated_requests_count_for_fewer() -> None:
    rng = np.random.default_rng(5)
    alone = [RateRun(rate, rng.random(20_000) < share) for rate, share in ((1.0, 0.08), (1.1, 0.12))]
    bursts = [RateRun(run.rate, np.repeat(run.missed[::50], 50)) for run in alone]
    independent, correlated = (attainment_curve.fit(runs, 0.1, 1.05) for runs in (alone, bursts))
    assert independent is not None
    assert correlated is not None
    assert independent.inflation < 3 < 25 < correlated.inflation < 100


def test_one_rate_makes_no_curve() -> None:
    assert attainment_curve.fit([RateRun(1.0, np.arange(1000) < 100)], 0.1, 1.0) is None


def test_searches_hold_the_capacity_within_their_budget() -> None:
    truth, held, widths = 1 - math.log(10) / 10, 0, []
    for seed in range(20):
        answer = search(queue(seed, 10), CapacityOptions(attain=0.9, start=0.2 * (1 + seed % 5), requests=30_000))
        assert answer.requests <= 30_000
        assert len(answer.evidence) <= 12
        held += (answer.known_good or 0) <= truth <= (answer.known_bad or math.inf)
        widths.append(answer.width)
    assert held >= 17  # fewer have a chance of 2 % at 95 %
    assert float(np.median(widths)) < 0.2


def test_a_wide_enough_interval_stops_early() -> None:
    options = CapacityOptions(attain=0.9, start=0.5, requests=60_000, width=0.3)
    answers = [search(queue(seed, 10), options) for seed in range(4)]
    assert all(answer.width <= 0.3 for answer in answers)
    assert sum(answer.requests < 50_000 for answer in answers) >= 2


def test_a_cliff_is_bracketed_by_what_was_visited() -> None:
    answer = search(lambda rate, requests: np.full(requests, rate <= 7.3), CapacityOptions(attain=0.9, start=1.0))
    assert answer.known_good is not None
    assert answer.known_bad is not None
    assert answer.known_good <= 7.3 < answer.known_bad
    assert not answer.pooled


def test_a_search_that_has_little_time_tries_no_rate_again_while_it_stands_still() -> None:
    """All meet it up to 21/s, half at 28.3/s, which is neither held nor clearly bad."""
    def rates(hurried: bool) -> list[float]:
        rng = np.random.default_rng(3)
        state = CapacitySearch(
            lambda rate, requests: np.asarray(rng.random(requests) < 1 - (rate - 21) / 14), CapacityOptions(attain=0.9, start=10.0, requests=2500),
            hurried=hurried,
        )  # fmt: skip
        state.run()
        answer = state.answer()
        assert (answer.known_good or 0.0) <= 22.4 <= (answer.known_bad or math.inf)  # where 90 % meet it
        return [round(each.rate, 1) for each in answer.evidence]

    assert rates(True).count(28.3) == 1
    assert rates(False).count(28.3) == 5


def test_bounds_that_nothing_shows_are_none() -> None:
    options = CapacityOptions(attain=0.9, start=1.0, max_rate=8.0)
    good = search(lambda rate, requests: np.ones(requests, dtype=bool), options)
    assert good.known_good == 8.0
    assert good.known_bad is None
    assert max(each.rate for each in good.evidence) == 8.0
    bad = search(lambda rate, requests: np.zeros(requests, dtype=bool), options)
    assert bad.known_good is None
    assert bad.known_bad is not None
    assert bad.known_bad < 1.0


def test_evidence_may_come_in_any_order() -> None:
    rng = np.random.default_rng(6)
    runs = [RateRun(rate, rng.random(20_000) < share) for rate, share in ((1.0, 0.05), (1.1, 0.1), (1.2, 0.2))]
    options = CapacityOptions(attain=0.9, start=1.0)
    forward, back = pooled(runs, options), pooled(runs[::-1], options)
    assert forward.known_good == pytest.approx(back.known_good)
    assert forward.known_bad == pytest.approx(back.known_bad)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"attain": 1.0}, "between 0 and 1"), ({"attain": math.nan}, "between 0 and 1"), ({"confidence": 0.0}, "confidence"),
        ({"start": 0.0}, "above 0"), ({"start": math.inf}, "above 0"), ({"max_rate": 0.5}, "above its greatest rate"), ({"rates": 3}, "at least 4"),
        ({"warm_up": 0.95}, "warm-up"), ({"width": math.nan}, "width"), ({"requests": 100}, "give at least 2000"),
        ({"attain": 0.999, "requests": 5000}, "give at least 50000"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused(changed: dict[str, float], words: str) -> None:
    options = CapacityOptions(**{"attain": 0.9, "start": 1.0, **changed})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        search(lambda rate, requests: np.ones(requests, dtype=bool), options)


@pytest.mark.parametrize("answer", [[], [1.0, 0.0], np.ones(10_000, dtype=bool), np.ones((2, 2), dtype=bool)])
def test_answers_that_are_none_are_refused(answer: object) -> None:
    with pytest.raises(InputError, match="true or false"):
        search(lambda rate, requests: answer, CapacityOptions(attain=0.9, start=1.0))  # type: ignore[arg-type, return-value]


# ---------------------------------------------------------------- searches that are refused, ended, flattered


def level(limit: float) -> Callable[[float, int], NDArray[np.bool_]]:
    """Good up to a rate, bad above it."""
    rng = np.random.default_rng(8)
    return lambda rate, requests: rng.random(requests) < (0.99 if rate <= limit else 0.3)


def test_a_rate_that_could_not_be_sent_says_nothing_and_the_search_goes_on_below() -> None:
    asked: list[float] = []

    def measure(rate: float, requests: int) -> NDArray[np.bool_] | None:
        asked.append(rate)
        return None if rate > 20 else level(1000)(rate, requests)

    answer = search(measure, CapacityOptions(attain=0.9, start=4.0, requests=20_000))
    assert answer.refused
    assert all(rate > 20 for rate in answer.refused)
    assert {evidence.rate for evidence in answer.evidence} == {rate for rate in asked if rate <= 20}
    assert len(asked) <= 12
    assert answer.known_bad is None
    assert 4 <= (answer.known_good or 0) <= 20
    assert asked[:4] == pytest.approx([4, 16, 64, 32])  # halfway back


def test_after_a_rate_that_could_not_be_sent_it_comes_closer_to_that_again() -> None:
    """Refused once, far above what holds: an end is found all the same, and no rate is visited all the time."""
    asked: list[float] = []

    def measure(rate: float, requests: int) -> NDArray[np.bool_] | None:
        asked.append(rate)
        return None if len(asked) == 2 else level(70)(rate, requests)

    answer = search(measure, CapacityOptions(attain=0.9, start=21.0, requests=12_000, max_rate=168))
    assert asked[:3] == pytest.approx([21, 84, 42])
    assert answer.known_bad is not None
    assert 55 <= (answer.known_good or 0) <= 70 <= answer.known_bad <= 84
    assert max(asked.count(rate) for rate in asked) <= 3


def test_hardly_any_miss_far_below_what_holds_shows_that_the_rate_is_held() -> None:
    """A curve through the few misses would count them as many, and thousands of requests without one as nothing."""
    missed = np.zeros(1260, np.bool_)
    missed[600:602] = True
    none = [RateRun(rate, np.zeros(180, np.bool_)) for rate in (21.0, 42.0)]
    runs = [*none, *(RateRun(59.4, np.zeros(1260, np.bool_)) for _ in range(3)), RateRun(59.4, missed)]
    answer = pooled(runs, CapacityOptions(attain=0.9, start=21.0, requests=12_000))
    assert (answer.known_good, answer.known_bad, answer.pooled) == (59.4, None, False)


def test_a_search_ends_where_nothing_can_be_sent() -> None:
    asked: list[float] = []

    def measure(rate: float, requests: int) -> None:
        asked.append(rate)

    answer = search(measure, CapacityOptions(attain=0.9, start=8.0))
    assert (asked, answer.refused) == ([8.0, 4.0, 2.0], (8.0, 4.0, 2.0))
    assert (answer.evidence, answer.known_good, answer.known_bad) == ((), None, None)


def test_what_was_visited_counts_when_a_search_is_ended() -> None:
    calls = 0

    def measure(rate: float, requests: int) -> NDArray[np.bool_]:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise SearchEnded
        return level(30)(rate, requests)

    answer = search(measure, CapacityOptions(attain=0.9, start=10.0, requests=60_000))
    assert len(answer.evidence) == 5
    assert (answer.known_good or 0) <= 30 <= (answer.known_bad or math.inf)
    assert answer.known_good is not None


def test_a_short_run_of_an_empty_server_does_not_stand_against_a_long_one() -> None:
    """A backlog of (rate − 10)·t: a run of a few requests is over before anybody waits."""

    def measure(rate: float, requests: int) -> NDArray[np.bool_]:
        waits = np.maximum(rate - 10, 0) / 10 * np.arange(requests) / rate
        return np.asarray(waits <= 5.0)

    answer = search(measure, CapacityOptions(attain=0.9, start=8.0, requests=4000))
    flattered = [evidence for evidence in answer.evidence if evidence.rate > 11 and evidence.met == evidence.requests]
    assert flattered  # or this test tests nothing
    assert (answer.known_good or 0) < 10.5
    assert answer.known_bad is not None


def test_runs_last_as_long_as_a_server_takes_to_fill() -> None:
    state = CapacitySearch(lambda rate, requests: level(1000)(rate, requests), CapacityOptions(attain=0.9, start=1.0))
    state.took(2.0)
    state.visit(50.0, 100)
    state.visit(5.0, 100)
    state.visit(10_000.0, 100)
    kept = [len(run.missed) for run in state.runs]
    assert state.sent == 400 + 100 + 5000  # 8 s at 50/s; enough already; no more than a twelfth of the budget
    assert kept == [360, 90, 4500]
    state.took(5.0)
    assert state.least_s == 8.0  # the shortest usual time counts: a server that is too full takes longer


def test_a_rate_that_is_known_good_no_more_is_said() -> None:
    """450 requests at 72/s and 78/s miss less and less, as if a higher rate were easier: what 85/s showed before is not sure any more."""
    script = [(20, 50, 0.0), (80, 50, 0.0), (134, 50, 1.0), (99, 450, 0.867), (89, 450, 0.948), (84.5, 450, 0.277), (72, 450, 0.106), (78, 450, 0.017)]
    shares, rng, held = iter(share for _, _, share in script), np.random.default_rng(0), list[float | None]()
    state = CapacitySearch(
        lambda rate, requests: rng.permutation(np.arange(requests) >= round(next(shares) * requests)), CapacityOptions(attain=0.9, start=20, requests=6000)
    )
    for rate, requests, _ in script:
        state.visit(rate, requests)
        held.append(state.answer().known_good)
        best = max((one or 0.0 for one in held), default=0.0)
        assert (state.answer().withdrawn is None) == (best <= 1.1 * (held[-1] or 0.0))
    assert state.answer().known_good is None
    assert state.answer().withdrawn == max(one for one in held if one)
    assert state.answer().requests == sum(requests for _, requests, _ in script)
