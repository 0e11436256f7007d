"""Exact intervals of shares, alone and over rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hotlap.core.stats import binomial


@pytest.mark.parametrize(("events", "count", "low", "high"), [
    (0, 10, 0.0, 0.3085), (5, 10, 0.1871, 0.8129), (1, 20, 0.0013, 0.2487), (20, 20, 0.8316, 1.0), (2, 2000, 0.000121, 0.003608),
])  # fmt: skip
def test_it_is_clopper_s_and_pearson_s(events: int, count: int, low: float, high: float) -> None:
    assert binomial.interval(events, count) == pytest.approx((low, high), rel=5e-3, abs=5e-5)


def test_each_tail_has_at_most_half() -> None:
    """By the sums of the definition."""
    events, count = 7, 50

    def at_most(k: int, p: float) -> float:
        return sum(math.comb(count, i) * p**i * (1 - p) ** (count - i) for i in range(k + 1))

    low, high = binomial.interval(events, count)
    assert 1 - at_most(events - 1, low) == pytest.approx(0.025, abs=1e-6)
    assert at_most(events, high) == pytest.approx(0.025, abs=1e-6)


def test_what_is_no_count_is_refused() -> None:
    for events, count in ((-1, 3), (4, 3), (0, 0)):
        with pytest.raises(ValueError, match="events of"):
            binomial.interval(events, count)


def test_rounds_that_differ_widen_it_and_rounds_alike_do_not() -> None:
    alike = binomial.over_rounds([10, 11, 9, 10, 10, 10], [100] * 6)
    differing = binomial.over_rounds([0, 0, 0, 20, 20, 20], [100] * 6)
    assert alike.share == differing.share == 0.1
    assert (alike.low, alike.high) == binomial.interval(60, 600)
    assert differing.effective < 100
    assert differing.low < alike.low < alike.high < differing.high


def test_where_all_or_none_are_events_rounds_show_nothing() -> None:
    assert binomial.over_rounds([0, 0], [50, 50])[1:3] == binomial.interval(0, 100)
    assert binomial.over_rounds([50, 50], [50, 50])[1:3] == binomial.interval(100, 100)
    assert binomial.over_rounds([5], [50])[1:3] == binomial.interval(5, 50)


def test_it_holds_where_rounds_have_a_level_of_their_own() -> None:
    random = np.random.default_rng(1)
    held = plain = 0
    for _ in range(400):
        levels = np.clip(random.normal(0.1, 0.04, 20), 0.0, 1.0)
        events = random.binomial(200, levels)
        found = binomial.over_rounds(events.tolist(), [200] * 20)
        held += found.low <= 0.1 <= found.high
        low, high = binomial.interval(int(events.sum()), 4000)
        plain += low <= 0.1 <= high
    assert held >= 0.92 * 400
    assert plain < 0.8 * 400
