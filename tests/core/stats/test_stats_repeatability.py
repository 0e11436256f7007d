"""Gauge R&R on known spreads, and against published chi-square points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hotlap.core.stats.repeatability import _chi_square, gauge


def nodes(within: float, between: float, count: int = 60, runs: int = 8, seed: int = 1) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return (100 * np.exp(rng.normal(0, between, (count, 1)) + rng.normal(0, within, (count, runs)))).tolist()


@pytest.mark.parametrize("robust", [True, False])
def test_both_spreads_are_told_apart(robust: bool) -> None:
    found = gauge(nodes(0.01, 0.02), robust)
    assert found.repeatability == pytest.approx(0.01, rel=0.1)
    assert found.reproducibility == pytest.approx(0.02, rel=0.25)
    assert found.total == pytest.approx(math.hypot(0.01, 0.02), rel=0.2)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.01 < found.high


def test_nodes_that_do_not_differ_have_no_reproducibility_to_speak_of() -> None:
    assert (gauge(nodes(0.01, 0.0)).reproducibility or 0.0) < 0.003


def test_a_bad_run_does_not_spoil_a_good_gauge() -> None:
    x = nodes(0.001, 0.001)
    x[3][2] *= 2
    assert gauge(x).repeatability == pytest.approx(0.001, rel=0.15)
    assert (gauge(x, robust=False).repeatability or 0.0) > 0.01


def test_the_right_to_gate_is_earned() -> None:
    found = gauge(nodes(0.002, 0.002))
    assert [found.may_gate(t) for t in (0.2, 0.06, 0.02)] == ["good", "usable", "too noisy"]
    with pytest.raises(ValueError, match="tolerance"):
        found.may_gate(0.0)


@pytest.mark.slow("error rate by simulation")
def test_the_interval_holds_the_truth() -> None:
    held = 0
    for seed in range(200):
        found = gauge(nodes(0.01, 0.01, 6, 4, seed), robust=False)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.01 <= found.high
    assert 180 <= held <= 199


@pytest.mark.parametrize(("values", "nodes_", "runs"), [([], 0, 0), ([[1.0]], 1, 1), ([[1.0], [2.0]], 2, 2)])
def test_too_little_is_not_told(values: list[list[float]], nodes_: int, runs: int) -> None:
    found = gauge(values)
    assert (found.repeatability, found.nodes, found.runs, found.may_gate(0.1)) == (None, nodes_, runs, "cannot tell")
    assert gauge([[1.0, 1.0, 1.0]]).reproducibility is None


@pytest.mark.parametrize("wrong", [[[1.0, -1.0]], [[0.0, 1.0]], [[1.0, float("nan")]]])
def test_values_without_a_ratio_are_refused(wrong: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"zero or negative|not finite"):
        gauge(wrong)


@pytest.mark.parametrize(("p", "freedom", "value"), [(0.975, 10, 20.483), (0.025, 10, 3.247), (0.975, 30, 46.979), (0.025, 30, 16.791), (0.975, 3, 9.348)])
def test_chi_square_of_published_tables(p: float, freedom: int, value: float) -> None:
    """Abramowitz and Stegun, table 26.8."""
    assert _chi_square(p, freedom) == pytest.approx(value, rel=0.01)
