"""Steady states, drift, two groups and jumps: by hand where that is possible, else how often each answer is right."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from draws import draws, examples, room
from hotlap.core.stats.series import bimodal, drift, drifting, lag1, steady_from

Floats = NDArray[np.float64]
Make = Callable[[np.random.Generator, int], Floats]


def share(question: Callable[[Floats], bool], make: Make, n: int, runs: int) -> float:
    """How often the answer is yes, over fresh series."""
    rng = np.random.default_rng(n)
    return sum(question(make(rng, n)) for _ in range(draws(runs))) / draws(runs)


def often(question: Callable[[Floats], bool], make: Make, n: int, runs: int, least: float) -> bool:
    return share(question, make, n, runs) >= least - room(least, runs)


def seldom(question: Callable[[Floats], bool], make: Make, n: int, runs: int, most: float) -> bool:
    return share(question, make, n, runs) <= most + room(most, runs)


def autoregressive(rng: np.random.Generator, n: int, phi: float) -> Floats:
    x = np.zeros(n)
    for i in range(1, n):
        x[i] = phi * x[i - 1] + rng.normal() * math.sqrt(1 - phi**2)
    return x


STEADY: dict[str, Make] = {
    "normal": lambda rng, n: 1 + 0.01 * rng.normal(size=n),
    "lognormal": lambda rng, n: rng.lognormal(0, 0.2, n),
    "heavy tails": lambda rng, n: 1 + 0.01 * rng.standard_t(2, n),
    "5 % spikes": lambda rng, n: 1 + 0.01 * rng.normal(size=n) + (rng.random(n) < 0.05) * rng.exponential(0.3, n),
    "ticks": lambda rng, n: np.round(1 + 0.01 * rng.normal(size=n), 2),
    "constant": lambda rng, n: np.full(n, 0.1),
    "autocorrelated": lambda rng, n: 1 + 0.02 * autoregressive(rng, n, 0.5),
}


class TestSteady:
    @pytest.mark.slow("error rate by simulation")
    @pytest.mark.parametrize("n", [6, 8, 12, 20, 50, 300])
    @pytest.mark.parametrize("name", STEADY)
    def test_a_steady_series_is_steady_from_its_start(self, name: str, n: int) -> None:
        assert seldom(lambda x: steady_from(x) is None, STEADY[name], n, 100, 0.08)
        assert often(lambda x: steady_from(x) == 0, STEADY[name], n, 100, 0.85)

    @pytest.mark.parametrize("n", [8, 20, 100])
    def test_a_slow_first_call_is_dropped(self, n: int) -> None:
        make: Make = lambda rng, n: 1 + 9 * (np.arange(n) < 1) + 0.01 * rng.normal(size=n)  # noqa: E731
        assert often(lambda x: steady_from(x) == 1, make, n, 100, 0.9)

    @pytest.mark.slow("error rate by simulation")
    @pytest.mark.parametrize("n", [20, 50, 300])
    def test_a_step_is_found_where_it_is(self, n: int) -> None:
        """The clock rises by 20 % after a third."""
        make: Make = lambda rng, n: np.where(np.arange(n) < n // 3, 1.2, 1.0) + 0.01 * rng.normal(size=n)  # noqa: E731
        assert often(lambda x: n // 3 <= (steady_from(x) or 0) <= 1.15 * (n // 3) + 2, make, n, 100, 0.9)

    @pytest.mark.slow("error rate by simulation")
    @pytest.mark.parametrize("n", [20, 50, 300])
    def test_an_exponential_approach_is_cut_where_it_is_lost_in_the_noise(self, n: int) -> None:
        """Time constant τ = n/20, twice the level at the start, noise 1 %: over 20 % is left at 1.5 τ, 0.25 % at 6 τ."""
        make: Make = lambda rng, n: 1 + np.exp(-np.arange(n) * 20 / n) + 0.01 * rng.normal(size=n)  # noqa: E731
        assert often(lambda x: 1.5 * n / 20 <= (steady_from(x) or 0) <= 6 * n / 20, make, n, 100, 0.9)

    @pytest.mark.parametrize("n", [50, 300, 2000])
    def test_drift_is_never_steady(self, n: int) -> None:
        make: Make = lambda rng, n: 1 + 0.1 * np.arange(n) / n + 0.005 * rng.normal(size=n)  # noqa: E731
        assert often(lambda x: steady_from(x) is None, make, n, 30, 0.95)

    @pytest.mark.parametrize("n", [8, 12, 20, 50, 300])
    def test_drift_without_noise_is_never_steady(self, n: int) -> None:
        assert steady_from(1 + 0.1 * np.arange(n) / n) is None

    @pytest.mark.parametrize("n", [200, 1000])
    def test_a_late_step_is_never_steady(self, n: int) -> None:
        make: Make = lambda rng, n: np.where(np.arange(n) < 0.75 * n, 1.0, 1.05) + 0.01 * rng.normal(size=n)  # noqa: E731
        assert often(lambda x: steady_from(x) is None, make, n, 30, 0.95)

    def test_what_is_negligible_is_steady(self) -> None:
        x = 1 + 0.002 * np.arange(500) / 500 + 1e-5 * np.random.default_rng(1).normal(size=500)
        assert steady_from(x) == 0
        assert steady_from(x, negligible=0.0005) is None

    def test_too_few_values(self) -> None:
        assert steady_from([]) is None
        assert steady_from([1.0] * 5) is None
        assert steady_from([9, 1, 1, 1, 1, 1]) == 1


class TestDrift:
    def test_by_hand(self) -> None:
        assert drift([1, 2, 3, 4, 100]) == pytest.approx(4 / 3)  # six of ten slopes are 1; 4 steps, median 3
        assert drift([10, 11]) == pytest.approx(1 / 10.5)
        assert drift([2.0] * 9) == 0
        assert drift(np.arange(1000) + 1000) == pytest.approx(999 / 1499.5)

    def test_unknown_is_not_zero(self) -> None:
        assert math.isnan(drift([]))
        assert math.isnan(drift([3.0]))
        assert math.isnan(drift([0.0, 0.0]))

    @pytest.mark.parametrize("n", [100, 301, 5000])
    def test_outliers_do_not_move_it(self, n: int) -> None:
        rng = np.random.default_rng(1)
        x = 1 + 0.1 * np.arange(n) / n + 0.01 * rng.normal(size=n)
        x[rng.random(n) < 0.1] *= 5
        assert drift(x) == pytest.approx(0.1 / 1.05, abs=0.02)

    @pytest.mark.parametrize("n", [6, 8, 20, 100, 1000])
    def test_no_drift_is_rarely_taken_for_one(self, n: int) -> None:
        for make in (STEADY["lognormal"], STEADY["heavy tails"], STEADY["autocorrelated"], STEADY["ticks"]):
            assert seldom(drifting, make, n, 100, 0.06)

    @pytest.mark.parametrize(("n", "least"), [(8, 0.8), (20, 0.98), (300, 0.99)])
    def test_drift_is_found(self, n: int, least: float) -> None:
        make: Make = lambda rng, n: 1 + 0.1 * np.arange(n) / n + 0.01 * rng.normal(size=n)  # noqa: E731
        assert often(drifting, make, n, 100, least)

    def test_six_values_must_all_rise(self) -> None:
        """Of 720 orders two are monotone: 0.28 %; the normal approximation gives 0.85 %, the next order 2.4 %."""
        assert drifting([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
        assert drifting([1.5, 1.4, 1.3, 1.2, 1.1, 1.0])
        assert not drifting([1.0, 1.1, 1.2, 1.3, 1.5, 1.4])
        assert not drifting([1.0, 1.1, 1.2, 1.3, 1.4])

    def test_a_negligible_drift_is_none(self) -> None:
        assert not drifting(1 + 0.004 * np.arange(100) / 100)
        assert drifting(1 + 0.004 * np.arange(100) / 100, negligible=0.001)


ONE_GROUP: dict[str, Make] = {
    "normal": lambda rng, n: 10 + 0.1 * rng.normal(size=n),
    "lognormal 0.3": lambda rng, n: rng.lognormal(0, 0.3, n),
    "lognormal 1": lambda rng, n: rng.lognormal(0, 1, n),
    "t with 3": lambda rng, n: 10 + 0.1 * rng.standard_t(3, n),
    "Cauchy": lambda rng, n: 10 + 0.1 * rng.standard_cauchy(n),
    "ticks of a third": lambda rng, n: np.round(10 + 0.03 * rng.normal(size=n) + 0.05, 1),
    "ticks of one": lambda rng, n: np.round(10 + 0.1 * rng.normal(size=n), 1),
    "ticks of three": lambda rng, n: np.round(10 + 0.3 * rng.normal(size=n), 1) - 1e-9 * rng.random(n),  # with rounding
}


class TestBimodal:
    @pytest.mark.parametrize("n", [20, 30, 100])
    @pytest.mark.parametrize("name", ONE_GROUP)
    def test_one_group(self, name: str, n: int) -> None:
        """At most 2 % in truth; 400 series show up to 4.1 % then, once in a thousand."""
        assert seldom(bimodal, ONE_GROUP[name], n, 400, 0.041)

    @pytest.mark.parametrize("weight", [0.3, 0.5])
    @pytest.mark.parametrize(("n", "least"), [(20, 0.6), (50, 0.92), (200, 0.98)])
    def test_two_groups_five_deviations_apart(self, n: int, least: float, weight: float) -> None:
        make: Make = lambda rng, n: 10 + 0.1 * (rng.normal(size=n) + 5 * (rng.random(n) < weight))  # noqa: E731
        assert often(bimodal, make, n, 200, least)

    def test_groups_far_apart_are_seen_from_20_values(self) -> None:
        make: Make = lambda rng, n: rng.permutation(np.r_[np.full(n - 6, 1.0), np.full(6, 1.5)]) + 0.01 * rng.normal(size=n)  # noqa: E731
        assert often(bimodal, make, 20, 100, 1.0)

    def test_atoms(self) -> None:
        assert bimodal([1980e6] * 20 + [1755e6] * 20)
        assert not bimodal([1980e6] * 20 + [1965e6] * 20)  # one step of the clock
        assert not bimodal([5.0] * 40)

    def test_few_values_and_few_outliers(self) -> None:
        assert not bimodal([1.0] * 9 + [2.0] * 10)
        assert not bimodal([*np.linspace(1, 1.01, 60), 2.0, 2.0, 2.01])

    @settings(max_examples=examples(100))
    @given(st.lists(st.floats(-1e9, 1e9), min_size=20, max_size=60), st.sampled_from([1e-6, 3.0, 1e6]))
    def test_unit_and_order_do_not_matter(self, x: list[float], scale: float) -> None:
        assert bimodal(x) == bimodal(x[::-1])
        assert bimodal(np.round(x)) == bimodal(np.round(x) * 2.0 ** round(math.log2(scale)))


@pytest.mark.parametrize("function", [steady_from, drift, drifting, bimodal, lag1])
def test_what_is_not_finite_is_refused(function: Callable[[list[float]], object]) -> None:
    for bad in (math.nan, math.inf, -math.inf, 1e301):
        with pytest.raises(ValueError, match="1 of 30 values are not finite"):
            function([1.0] * 29 + [bad])


@settings(max_examples=examples(150))
@given(st.lists(st.floats(-1e300, 1e300), max_size=40))
def test_every_finite_series_has_an_answer(x: list[float]) -> None:
    cut = steady_from(x)
    assert cut is None or 0 <= cut <= len(x) / 2
    assert isinstance(drifting(x), bool)
    assert isinstance(bimodal(x), bool)
    r = lag1(x)
    assert r is None or -1 <= r <= 1
