"""Trends per month: right size, right error rate, against peers, after boundaries, and answers that cannot be had."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from hotlap.core.record import Notice
from hotlap.core.stats import student
from hotlap.core.stats.degradation import VERDICTS, Trends, trends
from hotlap.core.stats.slope import MONTH_S, _two_sided, slopes

Floats = NDArray[np.float64]
DAYS = np.arange(365) * 86_400.0
MONTHS = DAYS / MONTH_S


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def noise(devices: int, kind: str = "normal", seed: int = 1, days: int = 365) -> Floats:
    """Logarithms, 1 %."""
    rng = np.random.default_rng(seed)
    e = rng.standard_t(3, (devices, days)) / np.sqrt(3) if kind == "t3" else rng.standard_normal((devices, days))
    if kind.startswith("ar"):
        phi = float(kind[2:])
        for day in range(1, days):
            e[:, day] = phi * e[:, day - 1] + np.sqrt(1 - phi**2) * e[:, day]
    if kind == "spikes":
        e += 10 * (rng.random(e.shape) < 0.04)
    return 0.01 * e


def names(codes: NDArray[np.int8]) -> list[str]:
    return [VERDICTS[code] for code in codes.ravel().tolist()]


def named(found: Trends, *wanted: str) -> list[tuple[int, int]]:
    """Device and metric of the series with these verdicts."""
    return [tuple(at) for at in np.argwhere(np.isin(found.verdicts(), [VERDICTS.index(one) for one in wanted])).tolist()]  # type: ignore[misc]


@pytest.mark.slow("error rate by simulation")
@pytest.mark.parametrize("kind", ["normal", "t3", "spikes", "ar0.5", "ar0.8"])
def test_intervals_hold_the_slope_and_chance_is_not_named(kind: str) -> None:
    found = trends(DAYS, 50 * np.exp(np.log1p(-0.004) * MONTHS + noise(2000, kind)))
    assert 0.94 < np.mean((found.own.low <= -0.004) & (found.own.high >= -0.004)) < 0.985
    still = trends(DAYS, np.exp(noise(2000, kind, seed=2)))
    assert 0.02 < np.mean(still.own.p < 0.05) < 0.06
    assert np.count_nonzero(still.verdicts() != VERDICTS.index("steady")) < 2000
    assert not named(still, "degrading", "improving")


@pytest.mark.slow("error rate by simulation")
def test_the_error_is_a_tenth_larger_than_that_of_all_pairs() -> None:
    x = noise(200, seed=3)
    first, last = np.triu_indices(365, 1)
    all_pairs = [np.median((one[last] - one[first]) / (MONTHS[last] - MONTHS[first])) for one in x]
    ours = trends(DAYS, np.exp(x)).own.slope[:, 0]
    assert ours.std() / np.std(all_pairs) == pytest.approx(1.11, abs=0.1)


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_falling_device_is_named_with_its_slope(better: str) -> None:
    x = noise(100)
    x[7] += np.log1p(-0.01) * MONTHS
    values = np.exp(x if better == "higher" else -x)
    found = trends(DAYS, values, better=better)  # type: ignore[arg-type]
    assert named(found, "degrading") == [(7, 0)]
    slope, low, high = (float(getattr(found.peers, name)[7, 0]) for name in ("slope", "low", "high"))
    assert slope == pytest.approx(-0.01, abs=0.001)
    assert low < -0.01 < high < 0
    assert found.change[7, 0] == pytest.approx(-0.104, abs=0.01)
    assert found.q()[7, 0] < 1e-4


@pytest.mark.parametrize("devices", [8, 80])
def test_what_all_devices_share_is_no_devices_degradation(devices: int) -> None:
    shared = -0.02 * (np.arange(365) > 200) + 0.01 * np.sin(2 * np.pi * DAYS / DAYS[-1])
    x = noise(devices, "ar0.5", seed=4) + shared
    x[3] += np.log1p(-0.006) * MONTHS
    found = trends(DAYS, np.exp(x))
    assert named(found, "degrading") == [(3, 0)]
    assert np.all(found.own.slope < -0.001)
    assert found.shared.slope[0] < -0.001


def test_a_trend_of_the_whole_fleet_is_told() -> None:
    found = trends(DAYS, np.exp(noise(60, seed=11) - 0.005 * MONTHS))
    assert not named(found, "degrading")
    assert found.notices == (
        Notice("fleet_changes", "the whole fleet changes by -0.50 % a month, which no device is blamed for", index=0),
    )


def test_peers_may_be_given() -> None:
    shared = -0.005 * MONTHS
    one = np.exp(noise(1, seed=5)[0] + shared)
    alone, among = trends(DAYS, one), trends(DAYS, one, peers=np.exp(noise(9, seed=6) + shared))
    assert (names(alone.verdicts()), names(among.verdicts())) == (["degrading"], ["steady"])
    assert "fewer than 5 peers" in alone.notices[0].text


def test_the_trend_is_taken_after_the_last_boundary() -> None:
    x = noise(20, seed=7)
    x[4, :180] += -0.02 * MONTHS[:180]  # replaced on day 180: the new one is steady
    x[5, 180:] += -0.02 * (MONTHS[180:] - MONTHS[180])  # the new one falls
    assert trends(DAYS, np.exp(x)).own.slope[5, 0] > -0.015
    found = trends(DAYS, np.exp(x), boundaries={4: [DAYS[30], DAYS[180]], 5: [DAYS[180]]})
    assert named(found, "degrading", "improving") == [(5, 0)]
    assert found.own.slope[5, 0] == pytest.approx(-0.02, abs=0.003)
    assert found.change[4, 0] == pytest.approx(0, abs=0.01)
    everywhere = trends(DAYS, np.exp(x), boundaries=[DAYS[180]])
    assert everywhere.own.slope[5, 0] == pytest.approx(found.own.slope[5, 0])


def test_change_is_against_the_baseline() -> None:
    values = np.stack([np.full(365, 90.0), np.full(365, 90.0)])[None]
    found = trends(DAYS, values, better=["higher", "lower"], baseline=[[100.0, 100.0]])
    assert found.change.ravel() == pytest.approx([-0.1, 100 / 90 - 1])
    assert trends(DAYS, values).change.ravel() == pytest.approx([0, 0])


def test_blocks_of_devices_and_missing_values_give_the_same_answer() -> None:
    x = np.exp(noise(60, seed=8).reshape(20, 3, 365)).astype(np.float32)
    whole, blocks = trends(DAYS, x), trends(DAYS, iter([x[:7], x[7:8], x[8:]]))
    assert np.array_equal(whole.own.slope, blocks.own.slope)
    assert np.array_equal(whole.peers.p, blocks.peers.p)
    lost = x.copy()
    lost[np.random.default_rng(9).random(x.shape) < 0.3] = np.nan
    lost[2, 1] = np.nan
    found = trends(DAYS, lost)
    assert names(found.verdicts())[2 * 3 + 1] == "cannot tell"
    assert np.nanmax(np.abs(found.own.slope - whole.own.slope)) < 0.0012


def test_resolvable_is_found_four_times_in_five() -> None:
    x = noise(1500, seed=10)
    least = float(np.median(trends(DAYS, np.exp(x)).mde()))
    found = trends(DAYS, np.exp(x + np.log1p(-least) * MONTHS))
    assert 0.7 < np.mean(found.own.p < 0.05) < 0.92


def test_little_and_constant_data_make_up_nothing() -> None:
    assert names(trends(DAYS, np.full((9, 365), 3.0)).verdicts()) == ["steady"] * 9
    for days in (1, 5, 10):
        found = trends(DAYS[:days], np.exp(noise(9, days=days)))
        assert names(found.verdicts()) == ["cannot tell"] * 9
        assert "are no trend" in found.notices[0].text
    minute = trends(np.arange(60.0), np.linspace(1, 0.9, 60))
    assert names(minute.verdicts()) == ["cannot tell"]
    assert names(trends(DAYS, np.full((6, 365), np.nan)).verdicts()) == ["cannot tell"] * 6
    short = trends(DAYS[:20], np.exp(5 * noise(9, days=20)))
    assert names(short.verdicts()) == ["cannot tell"] * 9


@pytest.mark.parametrize(("t", "freedom"), [(2.5, 8.0), (5.0, 24.0), (8.0, 24.0)])
def test_tail_of_t_is_that_of_student(t: float, freedom: float) -> None:
    half = student.quantile(0.975, freedom)
    (p,) = _two_sided(np.array([t]), np.array([half]), np.array([freedom]))
    assert p == pytest.approx(student.two_sided(t, freedom), rel=0.1)


@pytest.mark.parametrize(
    ("values", "message"),
    [(np.zeros((2, 365)), "above zero"), (-np.ones(365), "above zero"), (np.full(365, np.inf), "finite"), (np.ones(9), "365 times"), (iter(()), "no devices"), (np.ones((0, 365)), "are needed")],
)
def test_values_that_make_no_sense_are_refused(values: Floats, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trends(DAYS, values)


@pytest.mark.parametrize("times", [DAYS[::-1], np.zeros(365), np.full(365, np.nan), []])
def test_times_must_ascend(times: Floats) -> None:
    with pytest.raises(ValueError, match=r"times"):
        trends(times, np.ones((2, 365)))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"better": ["lower"] * 3}, "better is"), ({"better": "more"}, "better is"), ({"baseline": [1.0, 2.0, 3.0]}, "baseline"), ({"baseline": 0.0}, "baseline"), ({"boundaries": [np.nan]}, "no time"), ({"peers": np.ones((2, 4, 365))}, "metrics")],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trends(DAYS, np.ones((2, 365)), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["normal", "t3", "spikes"])
def test_p_and_interval_say_the_same_of_a_slope(kind: str) -> None:
    """Of few points an interval is far from symmetric: one that held zero came with a p below 5 %."""
    found = slopes(DAYS[:15], noise(500, kind, days=15).astype(np.float32), pool=False)
    out = (found.low > 0) | (found.high < 0)
    assert 5 < out.sum() < 75
    assert np.array_equal(found.p < 0.05, out)
