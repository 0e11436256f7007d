"""What the level does between sides: bounds that hold, from few steps and many; seeds are fixed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hotlap.core.stats.drift import allowed, enough, factor, learnt
from hotlap.core.stats.ratio import estimate, ratio, widened


def test_the_factor_bounds_a_further_normal_step() -> None:
    """One step: the ratio of two absolute normal values is that of Cauchy's law, whose 95 % point is Student's t with 1 degree of freedom."""
    assert factor(1, 0.95) == pytest.approx(12.706, rel=1e-3)
    rng = np.random.default_rng(1)
    for count in (2, 5, 10):
        most = np.abs(rng.normal(size=(100_000, count))).max(axis=1)
        held = np.abs(rng.normal(size=100_000)) <= factor(count, 0.95) * most
        assert held.mean() == pytest.approx(0.95, abs=0.003)


@pytest.mark.parametrize(("days", "per_day"), [(4, 3), (12, 1), (30, 2), (60, 1)])
def test_a_further_step_between_days_stays_under_it(days: int, per_day: int) -> None:
    """Levels of days that differ by 1 %, runs by 0.5 %: the bound with the noise that it counts holds at least 94 % of further steps."""
    rng = np.random.default_rng(days)
    level = np.repeat(0.01 * rng.normal(size=(4000, days)), per_day, axis=1)
    found = learnt(level + 0.005 * rng.normal(size=level.shape), np.repeat(np.arange(days), per_day), gap=1)
    assert found is not None
    sides = 0.01 * rng.normal(size=(2, 4000)) + 0.005 / math.sqrt(per_day) * rng.normal(size=(2, 4000))
    assert np.mean(np.abs(sides[1] - sides[0]) <= found.reach) >= 0.94


def test_halves_of_days_show_what_a_session_does() -> None:
    """Each session rises by 2 %: days alone do not show it, their halves do."""
    rng = np.random.default_rng(2)
    y = np.tile(np.linspace(0, 0.02, 6), 10) + 1e-4 * rng.normal(size=60)
    days = np.repeat(np.arange(10), 6)
    within, between = learnt(y, days, gap=0), learnt(y, days, gap=1)
    assert within is not None
    assert between is not None
    assert float(within.reach[0]) > 0.0115
    assert float(between.reach[0]) < 0.001


def test_a_walk_grows_with_the_days_between_the_sides() -> None:
    rng = np.random.default_rng(3)
    walk = np.cumsum(0.01 * rng.normal(size=(500, 40)), axis=1)
    near, far = (learnt(walk, np.arange(40), gap=gap) for gap in (1, 16))
    assert near is not None
    assert far is not None
    assert np.median(far.reach) > 2 * np.median(near.reach)


def test_one_change_of_the_code_in_the_history_does_not_spoil_it() -> None:
    rng = np.random.default_rng(4)
    y = 0.001 * rng.normal(size=24)
    y[12:] += 0.3
    found = learnt(y, np.arange(24), gap=1)
    assert found is not None
    assert float(found.reach[0]) < 0.02


def test_too_short_a_history_is_none() -> None:
    assert not enough([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    assert not enough(range(9))
    assert enough([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    assert learnt(np.zeros(9), np.arange(9), gap=1) is None
    assert learnt(np.zeros(12), np.arange(12), gap=0) is None  # a run a day does not show what happens within one


def test_an_allowance_adds_in_quadrature_and_widens_both_intervals() -> None:
    rng = np.random.default_rng(5)
    a, b = np.exp(0.01 * rng.normal(size=6)), 1.04 * np.exp(0.01 * rng.normal(size=6))
    plain, wide = ratio(a, b), ratio(a, b, drift=allowed(0.03))
    assert plain.ratio == wide.ratio
    for end in ("low", "high"):
        own = math.log(getattr(plain, end) / plain.ratio)
        assert math.log(getattr(wide, end) / wide.ratio) == pytest.approx(math.copysign(math.hypot(own, math.log1p(0.03)), own))
    assert wide.low_90 is not None
    assert wide.low is not None
    assert wide.low < wide.low_90
    assert wide.p is not None
    assert plain.p is not None
    assert wide.p > plain.p
    assert (wide.p <= 0.05) == (wide.low > 1)
    assert ratio(a, b, drift=allowed(0.0)) == plain


def test_equal_sides_are_rarely_called_different_after_a_drift() -> None:
    rng = np.random.default_rng(6)
    session = rng.choice([-1, 1], size=(600, 1)) * np.linspace(0, 0.03, 12) + 0.01 * rng.normal(size=(600, 12))
    plain = estimate(session[:, :6], session[:, 6:], paired=False)
    assert np.mean((plain.low > 0) | (plain.high < 0)) > 0.4
    wide = widened(plain, allowed(0.03))
    assert np.mean((wide.low > 0) | (wide.high < 0)) < 0.03
