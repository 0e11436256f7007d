"""Student's t against published tables (Abramowitz and Stegun, table 26.10)."""

from __future__ import annotations

import pytest

from hotlap.core.stats.student import quantile, two_sided


@pytest.mark.parametrize(
    ("freedom", "p", "value"),
    [(1, 0.975, 12.706), (2, 0.975, 4.303), (3, 0.975, 3.182), (9, 0.975, 2.262), (30, 0.975, 2.042), (120, 0.975, 1.980), (5, 0.95, 2.015), (10, 0.995, 3.169), (4, 0.9, 1.533)],
)
def test_quantiles_are_the_published_ones(freedom: float, p: float, value: float) -> None:
    assert quantile(p, freedom) == pytest.approx(value, abs=6e-4)
    assert quantile(1 - p, freedom) == pytest.approx(-value, abs=6e-4)
    assert two_sided(value, freedom) == pytest.approx(2 * (1 - p), abs=1e-4)


def test_the_ends() -> None:
    assert (two_sided(0.0, 5), two_sided(float("inf"), 5), two_sided(float("nan"), 5)) == (1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile(1.0, 5)
