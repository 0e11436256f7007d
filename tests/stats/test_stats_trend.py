"""Trends per month: found with their size, not made of noise, freed of what peers share."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hotlap.stats.trend import MONTH_S, STATES, per_month, trends

DAYS = np.arange(365) * 86400.0
Floats = NDArray[np.float64]


def fleet(series: int, slope: float = 0.0, phi: float = 0.0, seed: int = 1, sd: float = 0.01) -> Floats:
    """Higher is better; `slope` per month."""
    rng = np.random.default_rng(seed)
    e = rng.normal(0, sd, (series, len(DAYS)))
    for n in range(1, len(DAYS)):
        e[:, n] = phi * e[:, n - 1] + np.sqrt(1 - phi**2) * e[:, n]
    return 100 * np.exp(slope * DAYS / MONTH_S + e)


def test_a_trend_is_found_with_its_size() -> None:
    found = trends(DAYS, fleet(50, -0.002))
    assert [STATES[n] for n in found.state] == ["degrading"] * 50
    assert float(np.median(found.slope)) == pytest.approx(-0.002, rel=0.05)
    assert 0.85 < float(np.mean((found.low <= -0.002) & (found.high >= -0.002))) <= 1.0


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_noise_is_no_trend(phi: float) -> None:
    found = trends(DAYS, fleet(1000, phi=phi))
    assert float(np.mean(found.state > 1)) < 0.08


def test_lower_is_better_turns_the_sign() -> None:
    found = trends(DAYS, fleet(3, 0.002), ["higher", "lower", "higher"])
    assert [STATES[n] for n in found.state] == ["improving", "degrading", "improving"]


def test_what_all_peers_share_is_not_one_devices_degradation() -> None:
    x = fleet(20) * np.exp(-0.003 * DAYS / MONTH_S + 0.02 * np.sin(DAYS / MONTH_S))
    x[7] *= np.exp(-0.004 * DAYS / MONTH_S)
    alone, together = trends(DAYS, x), trends(DAYS, x, peers=[1] * 20, rate=0.001)
    assert np.all(alone.slope < -0.002)
    assert np.flatnonzero(together.state == 2).tolist() == [7]
    assert float(together.slope[7]) == pytest.approx(-0.004, rel=0.1)
    few = trends(DAYS, x[:3], peers=[1, 1, 1])
    assert np.allclose(few.slope, alone.slope[:3])


def test_missing_days_and_spikes_are_borne() -> None:
    x = fleet(10, -0.003)
    x[:, ::3] = np.nan
    x[:, 100:104] *= 0.5
    x[3] = np.nan
    found = trends(DAYS, x)
    assert found.state.tolist() == [2, 2, 2, 0] + [2] * 6
    assert np.isnan(found.slope[3])


def test_resolvable_is_what_is_found_four_times_in_five() -> None:
    least = float(np.median(trends(DAYS, fleet(200)).resolvable))
    found = trends(DAYS, fleet(400, -least, seed=5))
    assert 0.6 < float(np.mean(found.state == 2)) < 0.95


def test_little_and_constant_data_make_up_nothing() -> None:
    assert trends(DAYS[:4], fleet(2)[:, :4]).state.tolist() == [0, 0]
    assert trends([], np.empty((3, 0))).state.tolist() == [0, 0, 0]
    assert trends(DAYS, np.full((2, 365), 5.0)).state.tolist() == [1, 1]
    assert per_month(float("nan")) == "–"
    assert per_month(-0.0042) == "-0.42 % a month"


@pytest.mark.parametrize(
    ("times", "values", "message"),
    [(DAYS, np.ones((2, 3)), "are needed"), (DAYS[::-1], np.ones((2, 365)), "rise"), (DAYS, np.zeros((2, 365)), "above zero"), (DAYS, np.ones(365), "are needed")],
)
def test_what_makes_no_sense_is_refused(times: Floats, values: Floats, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trends(times, values)
    with pytest.raises(ValueError, match="one entry"):
        trends(DAYS, fleet(3), ["lower"])
