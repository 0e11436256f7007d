"""The exact test of pairs, held against sums over everything that could have been seen; the mean of skewed units."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hotlap.core.stats import means, paired

RNG = np.random.default_rng(3)


def chance(lost: int, gained: int, count: int, p: float, q: float) -> float:
    """Of so many lost and gained, of independent items."""
    ways = math.factorial(count) // (math.factorial(lost) * math.factorial(gained) * math.factorial(count - lost - gained))
    return float(ways * p**lost * q**gained * (1 - p - q) ** (count - lost - gained))


def test_the_score_at_no_margin_is_mcnemars() -> None:
    assert float(paired.score(11, 1, 2000, 0.0)) == pytest.approx(10 / math.sqrt(12))
    assert float(paired.score(0, 0, 2000, 0.0)) == 0.0


def test_tangos_published_interval_is_found() -> None:
    """Tango 1998, the example of 44 pairs (b 0, c 1 and others of Table): the score is zero where the margin is what was seen."""
    for lost, gained, count in ((7, 2, 44), (50, 10, 2000), (0, 5, 54)):
        assert float(paired.score(lost, gained, count, (lost - gained) / count)) == pytest.approx(0.0, abs=1e-9)
    margins = np.linspace(-0.3, 0.3, 61)
    assert (np.diff([float(paired.score(7, 2, 44, margin)) for margin in margins]) < 0).all()


@pytest.mark.parametrize(("count", "p", "q"), [(20, 0.1, 0.1), (20, 0.15, 0.05), (25, 0.2, 0.0), (18, 0.3, 0.25)])
def test_at_its_margin_a_loss_is_rejected_no_more_often_than_promised(count: int, p: float, q: float) -> None:
    """Exactly: the sum over all that could be seen."""
    margin, false, total = p - q, [0.0, 0.0], 0.0
    for lost, gained in itertools.product(range(count + 1), repeat=2):
        if lost + gained <= count and (weight := chance(lost, gained, count, p, q)) > 1e-9:
            total += weight
            false[0] += weight * (paired.below(lost, gained, count, margin) <= 0.025)
            false[1] += weight * (paired.above(lost, gained, count, margin) <= 0.025)
    assert total == pytest.approx(1.0, abs=1e-5)
    assert max(false) <= 0.025


def test_the_interval_ends_where_the_test_turns() -> None:
    seen = paired.loss(11, 1, 2000)
    assert seen.loss == 0.005
    assert (seen.low, seen.high) == pytest.approx((0.00156, 0.00926), abs=2e-5)
    assert seen.exact
    assert paired.below(11, 1, 2000, seen.high) <= 0.025 < paired.below(11, 1, 2000, seen.high - 2e-6)
    swapped = paired.loss(1, 11, 2000)
    assert (swapped.low, swapped.high) == pytest.approx((-seen.high, -seen.low))


def test_the_ends_of_the_scale() -> None:
    every = paired.loss(20, 0, 20)
    assert (every.loss, every.high) == (1.0, 1.0)
    assert 0.5 < every.low < 1
    none = paired.loss(0, 0, 2000)
    assert none.low == -none.high
    assert none.high == pytest.approx(-math.log(0.0245) / 2000, rel=0.02)  # the rule of three, one-sided 2.5 %
    assert paired.above(0, 0, 2000) == 1.0


def test_very_many_items_take_the_score_as_normal() -> None:
    seen = paired.loss(3000, 2900, 100_000)
    assert not seen.exact
    assert (seen.low, seen.high) == pytest.approx((0.001 - 1.96 * math.sqrt(5900) / 1e5, 0.001 + 1.96 * math.sqrt(5900) / 1e5), abs=2e-6)


def test_a_paired_loss_is_found_where_the_unpaired_test_is_blind() -> None:
    assert paired.above(11, 1, 2000) < 0.005
    assert paired.unpaired(1611, 1601, 2000) > 0.3
    assert paired.unpaired(2000, 2000, 2000) == 1.0


def test_the_loss_that_is_found_in_four_of_five() -> None:
    visible = paired.visible(0.006, 2000)
    assert visible == pytest.approx(2.8016 * math.sqrt(0.006 / 2000), rel=1e-4)
    lost = RNG.multinomial(2000, [(0.006 + visible) / 2, (0.006 - visible) / 2, 0.994], 300)
    assert 0.7 < np.mean([paired.above(int(b), int(c), 2000) <= 0.025 for b, c, _ in lost]) < 0.95


@pytest.mark.parametrize("counts", [(3, 1, 3), (-1, 0, 5), (0, 0, 0)])
def test_counts_that_are_none_are_refused(counts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="items lost"):
        paired.loss(*counts)
    with pytest.raises(ValueError, match="margin"):
        paired.below(0, 0, 5, 1.0)


# ---------------------------------------------------------------- means of units


def test_without_skewness_it_is_students() -> None:
    seen = means.mean([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    assert seen is not None
    half = 2.4469 * math.sqrt(28 / 6 / 7)
    assert (seen.low, seen.mean, seen.high) == pytest.approx((4 - half, 4, 4 + half), rel=1e-4)
    assert means.mean([1.0]) is None
    with pytest.raises(ValueError, match="finite"):
        means.mean([1.0, math.nan])


def test_a_weighted_mean_is_that_of_all_positions() -> None:
    seen = means.mean([1.0, 3.0, 2.0], [1, 3, 2])
    assert seen is not None
    assert seen.mean == pytest.approx(14 / 6)


def test_of_skewed_units_the_upper_end_reaches_further() -> None:
    draws = RNG.lognormal(0.0, 1.0, (800, 32))
    truth, found = math.exp(0.5), [means.mean(values) for values in draws]
    missed = np.mean([each.high < truth for each in found if each])
    plain = np.mean([each.mean + 2.04 * each.error < truth for each in found if each])
    assert missed < plain - 0.02
    assert missed < 0.09
    constant = means.mean([2.0] * 8)
    assert constant is not None
    assert (constant.low, constant.high) == (2.0, 2.0)


def test_means_of_few_uneven_distances_are_held_at_their_upper_end() -> None:
    random, truth, missed, plain = np.random.default_rng(3), math.exp(0.5), 0, 0
    for values in random.lognormal(0.0, 1.0, (1500, 32)):
        wide, narrow = means.mean(values, positive=True), means.mean(values)
        assert wide is not None
        assert narrow is not None
        assert wide.low <= narrow.low < narrow.mean < narrow.high <= wide.high
        missed, plain = missed + (wide.high < truth), plain + (narrow.high < truth)
    assert missed < 1500 * 0.045 < plain
    zero = [0.0, 1.0, 2.0, 4.0]
    assert means.mean(zero, positive=True) == means.mean(zero)
