"""Points that lie apart: found when they are a group far off, and hardly ever in noise."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.stats.changes import changes
from hotlap.core.stats.excursions import excursions


@pytest.mark.parametrize("width", [3, 5, 6])
def test_a_few_days_up_and_back_are_said_to_lie_apart(width: int) -> None:
    for seed in range(20):
        x = np.random.default_rng(seed).normal(10, 0.04, 30)
        x[12 : 12 + width] *= 1.08
        (found,) = excursions(x, [one.index for one in changes(x)])
        assert (found.index, found.end, found.last) == (12, 12 + width, False)
        assert found.ratio == pytest.approx(1.08, rel=0.01)


def test_two_points_at_the_end_do_two_in_the_middle_do_not() -> None:
    x = np.random.default_rng(1).normal(10, 0.04, 30)
    x[10:12] *= 1.08
    assert excursions(x) == []
    x[28:] *= 0.92
    (found,) = excursions(x)
    assert (found.index, found.end, found.last) == (28, 30, True)
    assert excursions(x, min_effect=0.1) == []


@pytest.mark.slow("error rate by simulation")
def test_noise_has_none() -> None:
    random = np.random.default_rng(7)
    dependent = random.normal(size=(3000, 140))
    for n in range(1, 140):
        dependent[:, n] += 0.8 * dependent[:, n - 1]
    heavy = random.standard_t(3, size=(3000, 60))
    modes = 0.3 * random.normal(size=(3000, 30)) + random.choice([-1.0, 1.0], size=(3000, 30))
    for rows in (dependent[:, 80:], dependent[:, 110:], heavy, heavy[:, :20], modes):
        assert sum(bool(excursions(100 + row)) for row in rows) <= 3


def test_levels_are_looked_at_by_themselves() -> None:
    x = np.random.default_rng(2).normal(10, 0.04, 80)
    x[40:] *= 1.2
    x[60:64] *= 1.08
    assert [(one.index, one.end) for one in excursions(x, [40])] == [(60, 64)]


@pytest.mark.parametrize("values", [[], [1.0], [7.0] * 30, [0.0] * 30, list(range(30))])
def test_nothing_to_tell(values: list[float]) -> None:
    assert excursions(values) == []


def test_levels_that_are_not_positive_have_no_ratio() -> None:
    x = np.random.default_rng(3).normal(-10, 0.04, 30)
    x[12:16] += 1
    (found,) = excursions(x)
    assert np.isnan(found.ratio)
    with pytest.raises(ValueError, match="finite"):
        excursions([1.0, float("nan")])
