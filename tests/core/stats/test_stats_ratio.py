"""Ratios: by hand where that is possible, else how often the test errs and the interval holds the truth; seeds are fixed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import draws, examples, room
from hotlap.core.stats import ratio as module
from hotlap.core.stats.ratio import Estimates, Ratio, estimate, ratio, verdict

A = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.9, 99.1, 100.0]


def held(**fields: object) -> Ratio:
    """A ratio as it might be found: 1.03, interval 1.02 to 1.04."""
    base = {"ratio": 1.03, "low": 1.02, "high": 1.04, "low_90": 1.021, "high_90": 1.039, "p": 0.001, "confidence": 0.95, "n_a": 10, "n_b": 10}
    return Ratio(**{**base, **fields})  # type: ignore[arg-type]


def pairs(seed: int, series: int, n: int, phi: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms with 1 % noise run A B, B A …; autocorrelated from run to run."""
    rng = np.random.default_rng(seed)
    runs = rng.normal(size=(series, 2 * n))
    for i in range(1, 2 * n):
        runs[:, i] = phi * runs[:, i - 1] + math.sqrt(1 - phi**2) * runs[:, i]
    swapped = np.arange(n) % 2 == 1
    return 0.01 * np.where(swapped, runs[:, 1::2], runs[:, 0::2]), 0.01 * np.where(swapped, runs[:, 0::2], runs[:, 1::2])


def alarms(found: Estimates) -> float:
    return float(np.mean(found.p <= 0.05))


# ---------------------------------------------------------------- the ratio


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("assume", ["nothing", "normal"])
def test_a_plain_difference(paired: bool, assume: str) -> None:
    found = ratio(A, [v * 1.1 * (1 + 0.001 * (-1) ** i) for i, v in enumerate(A)], paired=paired, assume=assume)  # type: ignore[arg-type]
    assert found.ratio == pytest.approx(1.1, rel=0.005)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.1 < found.high
    assert found.p is not None
    assert found.p < 0.01
    assert verdict(found) == "larger"
    assert (found.n_a, found.n_b, found.pairs) == (10, 10, 10 if paired else 0)


def test_students_t_by_hand() -> None:
    """Differences of logarithms 0.01 to 0.04: mean 0.025, standard error 0.00645; t of 3 degrees at 95 % is 3.182."""
    found = ratio([1.0] * 4, np.exp([0.01, 0.02, 0.03, 0.04]), paired=True, assume="normal")
    wide = 3.182446 * 0.012909944 / 2 * math.sqrt(module.SERIAL_FEW)
    assert found.low == pytest.approx(math.exp(0.025 - wide))
    assert found.high == pytest.approx(math.exp(0.025 + wide))


def test_welch_by_hand() -> None:
    """Welch's own arithmetic for logarithms 1 2 3 4 and 2 4 6 8: variances 5/3 and 20/3, so df = 4.41 and t = 1.732."""
    found = ratio(np.exp([1, 2, 3, 4]), np.exp([2, 4, 6, 8]), assume="normal")
    assert found.ratio == pytest.approx(math.exp(2.5))
    assert found.p == pytest.approx(0.1516, abs=0.001)


def test_the_test_by_signs_agrees_with_all_signs_counted() -> None:
    """The expansion against the full distribution of 2^n changes of sign, for values that are not drawn in."""
    rng = np.random.default_rng(4)
    for n in (8, 10, 12):
        d = rng.uniform(0.5, 1.0, n) * rng.choice([-1, 1], n)  # none is drawn in, since all have about one size
        signs = np.array(list(itertools.product([-1, 1], repeat=n)))
        exact = np.mean(np.abs(signs @ np.abs(d)) >= abs(d.sum()) - 1e-12)
        assert math.erfc(abs(float(module._sign_flips(d[None])[0])) / math.sqrt(2)) == pytest.approx(float(exact), abs=0.03)


@pytest.mark.slow("error rate by simulation")
def test_sides_swapped_give_the_inverse() -> None:
    rng = np.random.default_rng(6)
    for paired in (True, False):
        a, b = (np.exp(0.02 * rng.normal(size=12)) for _ in "AB")
        one, other = ratio(a, b, paired=paired), ratio(b, a, paired=paired)
        assert one.ratio == pytest.approx(1 / (other.ratio or math.nan), rel=1e-6)
        assert one.low == pytest.approx(1 / (other.high or math.nan), rel=1e-6)
        assert one.p == pytest.approx(other.p)


@pytest.mark.slow("error rate by simulation")
@given(st.floats(1e-12, 1e12), st.floats(0.2, 5))
@settings(max_examples=25)
def test_units_do_not_matter_and_a_factor_multiplies(unit: float, factor: float) -> None:
    rng = np.random.default_rng(8)
    a, b = (np.exp(0.02 * rng.normal(size=9)) for _ in "AB")
    plain, scaled = ratio(a, b, paired=True), ratio(a * unit, b * unit * factor, paired=True)
    for name in ("ratio", "low", "high", "low_90", "high_90"):
        assert getattr(scaled, name) == pytest.approx(getattr(plain, name) * factor, rel=1e-6)


@pytest.mark.slow("error rate by simulation")
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=4, max_size=30), st.booleans())
@settings(max_examples=examples(60))
def test_interval_and_test_never_contradict_each_other_even_on_ticks(values: list[tuple[int, int]], paired: bool) -> None:
    found = ratio([a for a, _ in values], [b for _, b in values], paired=paired)
    if found.low is not None and found.high is not None:
        assert found.ratio is not None
        assert found.low <= found.ratio * (1 + 1e-9)
        assert found.ratio <= found.high * (1 + 1e-9)
        assert found.p is not None
        if found.p > 0.05:
            assert found.low <= 1 <= found.high


@pytest.mark.parametrize("paired", [True, False])
def test_one_wild_run_does_not_hide_a_difference(paired: bool) -> None:
    rng = np.random.default_rng(9)
    a, b = np.exp(0.01 * rng.normal(size=15)), 1.05 * np.exp(0.01 * rng.normal(size=15))
    a[4] *= 30
    found = ratio(a, b, paired=paired)
    assert verdict(found) == "larger"
    assert found.ratio == pytest.approx(1.05, abs=0.02)
    assert verdict(ratio(a, b, paired=paired, assume="normal")) == "inconclusive"


@pytest.mark.slow("error rate by simulation")
def test_pairs_take_a_drift_off_that_would_hide_a_difference() -> None:
    drift = np.exp(np.linspace(0, 0.5, 12))
    rng = np.random.default_rng(10)
    a, b = drift * np.exp(0.01 * rng.normal(size=12)), 1.05 * drift * np.exp(0.01 * rng.normal(size=12))
    assert verdict(ratio(a, b, paired=True)) == "larger"
    apart = ratio(a, b)
    assert verdict(apart) == "inconclusive"
    assert any("in turns" in notice.text for notice in apart.notices)


# ---------------------------------------------------------------- how often it errs


@pytest.mark.slow("error rate by simulation")
@pytest.mark.parametrize(("n", "phi"), [(10, 0.0), (10, 0.5), (20, 0.0), (20, 0.5)])
def test_false_alarms_are_near_nominal_from_10_pairs_on(n: int, phi: float) -> None:
    more = room(0.05, 4000)  # ± 3 standard errors about 0.045 … 0.055
    assert 0.038 - more <= alarms(estimate(*pairs(n, draws(4000), n, phi), paired=True)) <= 0.062 + more


@pytest.mark.slow("error rate by simulation")
@pytest.mark.parametrize("n", [4, 5, 6, 8])
def test_few_pairs_err_on_the_safe_side(n: int) -> None:
    assert alarms(estimate(*pairs(n, draws(4000), n), paired=True)) <= 0.06 + room(0.05, 4000)
    assert alarms(estimate(*pairs(n + 1, draws(4000), n, 0.5), paired=True)) <= 0.066 + room(0.055, 4000)


@pytest.mark.slow("error rate by simulation")
@pytest.mark.parametrize("n", [4, 6, 12])
def test_permutations_keep_the_level(n: int) -> None:
    rng = np.random.default_rng(n)
    found = estimate(rng.normal(size=(draws(3000), n)), rng.normal(size=(draws(3000), n + 2)), paired=False)
    assert 0.03 - room(0.05, 3000) <= alarms(found) <= 0.06 + room(0.05, 3000)


@pytest.mark.slow("error rate by simulation")
def test_the_interval_holds_the_true_ratio() -> None:
    x, y = pairs(3, 2000, 12)
    found = estimate(x, y + 0.03, paired=True)
    assert 0.935 <= np.mean((found.low <= 0.03) & (found.high >= 0.03)) <= 0.97


@pytest.mark.slow("error rate by simulation")
def test_resolvable_is_found_with_80_percent_power() -> None:
    x, y = pairs(5, 1500, 16)
    typical = np.median([ratio(np.exp(a), np.exp(b), paired=True).mde for a, b in zip(x[: draws(200)], y[: draws(200)], strict=True)])
    found = estimate(x, y + math.log1p(float(typical)), paired=True)
    assert 0.72 <= alarms(found) <= 0.88


# ---------------------------------------------------------------- what cannot be known


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_fewer_than_4_cannot_tell(n: int) -> None:
    for paired in (True, False):
        found = ratio([1.0] * n, [2.0] * n, paired=paired)
        assert (found.low, found.p, found.confidence, found.mde) == (None, None, None, None)
        assert verdict(found) == "inconclusive"
        assert f"there are {n}" in found.notices[0].text


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_no_ratio_of_what_is_not_above_zero(bad: float) -> None:
    found = ratio([1.0] * 5 + [bad], [1.0] * 6, paired=True)
    assert (found.ratio, found.low) == (1.0, None)
    assert "zero or negative" in found.notices[0].text
    assert ratio([bad] * 6, [1.0] * 6).ratio is None


def test_no_noise_is_not_taken_for_certainty_with_4_pairs() -> None:
    found = ratio([1.0] * 4, [2.0] * 4, paired=True)
    assert (found.ratio, found.low, found.p) == (2.0, None, 0.125)
    assert verdict(found) == "inconclusive"
    assert verdict(ratio([1.0] * 8, [2.0] * 8, paired=True)) == "larger"
    assert verdict(ratio([1.0] * 8, [1.0] * 8, paired=True)) == "same"
    assert verdict(ratio([1.0] * 8, [1.0] * 8)) == "same"


def test_a_confidence_out_of_reach_gives_no_interval() -> None:
    rng = np.random.default_rng(2)
    a, b = (np.exp(rng.normal(size=7)) for _ in "AB")
    assert ratio(a, b, paired=True, confidence=0.999).low is None
    assert ratio(a, b, paired=True, confidence=0.9).confidence == 0.9


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        ([1.0, math.nan], [1.0, 2.0], {}),
        ([1.0, math.inf], [1.0, 2.0], {}),
        ([1.0, 2.0], [1.0], {"paired": True}),
        (A, A, {"confidence": 1.0}),
        (A, A, {"confidence": 0.3}),
        (A, A, {"assume": "luck"}),
    ],
)
def test_bad_input_is_one_line(a: list[float], b: list[float], options: dict) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        ratio(a, b, **options)


def test_very_large_and_very_small_values() -> None:
    found = ratio([1e-300] * 8, [1e300] * 8, paired=True)
    assert found.ratio is None
    assert verdict(found) == "inconclusive"


def test_doubts_are_said() -> None:
    rng = np.random.default_rng(12)
    assert any("taken to be normal" in notice.text for notice in ratio(A[:5], A[5:], paired=True).notices)
    noisy = ratio(np.exp(0.01 * rng.normal(size=12)), np.exp(0.2 * rng.normal(size=12)))
    assert any("3 times as noisy" in notice.text for notice in noisy.notices)
    slow = np.exp(0.05 * np.sin(np.arange(40) / 4))
    assert any("widened" in notice.text for notice in ratio(slow[0::2], slow[1::2], paired=True).notices)


def test_sides_of_one_noise_are_seldom_called_unlike() -> None:
    """The median distance of eight values is over three times another's in some percent of draws of the same noise."""
    rng = np.random.default_rng(5)
    sides = np.exp(rng.normal(0, 0.01, (400, 2, 8)))
    far = sum(max(spread) > 3 * min(spread) for spread in (np.median(np.abs(s - np.median(s, axis=1, keepdims=True)), axis=1) for s in sides))
    called = sum(any(notice.code == "unlike_noise" for notice in ratio(a, b).notices) for a, b in sides)
    assert far >= 8
    assert called <= 4


# ---------------------------------------------------------------- exact values


def test_any_difference_of_counts_is_real() -> None:
    found = ratio([1000], [1001], assume="exact")
    assert (found.ratio, found.low, found.high, found.p, found.method) == (1.001, 1.001, 1.001, 0.0, "exact")
    assert verdict(found, margin=0) == "larger"
    assert verdict(found) == "same"
    assert verdict(ratio([7, 7], [7], assume="exact"), margin=0.01) == "same"
    assert ratio([0], [0], assume="exact").ratio == 1
    assert ratio([0], [5], assume="exact").p == 0


def test_counts_that_vary_are_taken_as_noisy() -> None:
    found = ratio([10, 11, 10, 11, 10, 11], [10, 11, 10, 11, 10, 11], assume="exact")
    assert found.method == "permutations"
    assert "not exact" in found.notices[0].text


# ---------------------------------------------------------------- quantiles


def test_larger_needs_the_test_and_the_gate() -> None:
    assert verdict(held()) == "larger"
    assert verdict(held(), margin=0.05) == "same"  # significant, and yet within the margin
    assert verdict(held(), margin=0.035) == "inconclusive"  # significant, below the gate, not shown to be the same
    assert verdict(held(), p=0.2) == "inconclusive"  # no longer significant among many tests
    assert verdict(held(p=0.2)) == "inconclusive"
    assert verdict(held(low=0.99)) == "inconclusive"
    assert verdict(held(), margin=0) == "larger"


def test_smaller_and_same() -> None:
    down = held(ratio=1 / 1.03, low=1 / 1.04, high=1 / 1.02, low_90=1 / 1.039, high_90=1 / 1.021)
    assert verdict(down) == "smaller"
    assert verdict(down, margin=0.05) == "same"
    equal = held(ratio=1.0, low=0.985, high=1.015, low_90=0.99, high_90=1.01, p=0.9)
    assert verdict(equal) == "same"
    assert verdict(equal, margin=0.01) == "inconclusive"
    assert verdict(equal, margin=0) == "inconclusive"


