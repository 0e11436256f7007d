"""Benjamini and Hochberg: their own example, and the rate it promises; Holm on the same tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.core.stats.multiple_testing import benjamini_hochberg, holm

# Benjamini and Hochberg 1995, section 4: 15 tests of thrombolysis; at 5 % the first four are rejected, Bonferroni rejects three
PUBLISHED = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000]


def test_the_published_example() -> None:
    adjusted = benjamini_hochberg(PUBLISHED)
    assert [q <= 0.05 for q in adjusted if q is not None] == [True] * 4 + [False] * 11
    assert adjusted[3] == pytest.approx(0.0095 * 15 / 4)


def test_holm_rejects_three_of_the_published_example() -> None:
    adjusted = holm(PUBLISHED)
    assert [q <= 0.05 for q in adjusted if q is not None] == [True] * 3 + [False] * 12
    assert adjusted[3] == pytest.approx(0.0095 * 12)
    assert holm([0.03, None, 0.01, 0.04]) == [pytest.approx(0.06), None, pytest.approx(0.03), pytest.approx(0.06)]
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([1.5])


def test_order_and_missing_tests_are_kept() -> None:
    assert benjamini_hochberg([0.04, None, 0.01, 0.03]) == [pytest.approx(0.04), None, pytest.approx(0.03), pytest.approx(0.04)]
    assert benjamini_hochberg([]) == []
    assert benjamini_hochberg([None]) == [None]


@given(st.lists(st.floats(0, 1), max_size=30))
def test_never_smaller_than_p_never_above_1_and_in_the_same_order(p: list[float]) -> None:
    adjusted = [q for q in benjamini_hochberg(p) if q is not None]
    assert all(q >= one - 1e-12 and q <= 1 for one, q in zip(p, adjusted, strict=True))
    assert sorted(adjusted) == [q for _, q in sorted(zip(p, adjusted, strict=True))]


@pytest.mark.slow("error rate by simulation")
def test_any_alarm_among_200_true_equalities_is_as_rare_as_one_test() -> None:
    rng = np.random.default_rng(11)
    alarms = sum(min(q for q in benjamini_hochberg(rng.random(200).tolist()) if q is not None) <= 0.05 for _ in range(1000))
    assert 30 <= alarms <= 70


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, math.inf])
def test_what_is_no_probability_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        benjamini_hochberg([0.5, bad])
