"""How many cases beyond an interval a healthy plan has."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hotlap.core.stats.beyond import Beyond, alike, distribution, most


def test_independent_cases_are_binomial() -> None:
    assert distribution(Beyond(3, 0.5, 0.0)) == pytest.approx([0.125, 0.375, 0.375, 0.125])
    # P(K > 4) of 20 at 5 % is 0.0026, P(K > 3) is 0.0159: tables of the binomial
    assert most([Beyond(20, 0.05, 0.0)]) == 4
    assert most([Beyond(20, 0.05, 0.0)], chance=0.02) == 3
    assert most([Beyond(10, 0.05, 0.0), Beyond(10, 0.05, 0.0)]) == 4


def test_cases_that_go_together_allow_more() -> None:
    # a = b = 1: uniform over 0 to n
    assert distribution(Beyond(4, 0.5, 1 / 3)) == pytest.approx([0.2] * 5)
    allowed = [most([Beyond(20, 0.05, share)]) for share in (0.0, 0.05, 0.2, 0.9)]
    assert allowed == sorted(allowed)
    assert allowed[0] < allowed[2] < allowed[3] == 20
    mean = distribution(Beyond(20, 0.05, 0.2)) @ np.arange(21)
    assert mean == pytest.approx(1.0)


@pytest.mark.parametrize(("kind", "wanted"), [(Beyond(0, 0.1, 0.1), [1.0]), (Beyond(2, 0.0, 0.1), [1, 0, 0]), (Beyond(2, 1.0, 0.1), [0, 0, 1])])
def test_ends(kind: Beyond, wanted: list[float]) -> None:
    assert list(distribution(kind)) == wanted


def test_nothing_to_judge_allows_nothing() -> None:
    assert most([]) == 0
    assert most([Beyond(1, 0.05, 0.0)]) == 1


def test_intraclass_correlation_is_found() -> None:
    rng = np.random.default_rng(1)
    for truth in (0.0, 0.1, 0.4):
        scale = 1 / max(truth, 1e-9) - 1
        shares = rng.beta(0.1 * scale, 0.9 * scale, 3000) if truth else np.full(3000, 0.1)
        values = (rng.random((3000, 20)) < shares[:, None]).ravel()
        assert alike(values, np.repeat(np.arange(3000).astype(str), 20)) == pytest.approx(truth, abs=0.03)
    assert alike([True, True, False, False], ["a", "a", "b", "b"]) == 1.0
    assert alike([False] * 4, ["a", "a", "b", "b"]) == 0.0
    assert math.isnan(alike([True, False], ["a", "a"]))
    with pytest.raises(ValueError, match="two members"):
        alike([True, False], ["a", "b"])
