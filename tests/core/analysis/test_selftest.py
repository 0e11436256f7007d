"""A/A on known noise: the error rate, what the noise is made of, and what a drift does to a careless order."""

from __future__ import annotations

import numpy as np
import pytest
from judging import make

from draws import FULL, draws
from hotlap.core.analysis.selftest import Selftest, binomial_interval, selftest
from hotlap.core.show import selftest as shown
from hotlap.core.store.select import results

RNG = np.random.default_rng(3)


def measured(rounds: int, drift: float = 0.0, sd: float = 0.01, names: tuple[str, ...] = ("copy", "gemm", "chase")) -> Selftest:
    cases = {name: (1e-3 * np.exp(RNG.normal(0, sd, rounds) + drift * np.arange(rounds) / rounds)).tolist() for name in names}
    return selftest(results(make(cases)))


@pytest.mark.slow("error rate by simulation")
def test_independent_noise_keeps_the_error_rate() -> None:
    runs, rounds = (4, 240) if FULL else (1, 120)
    found = [measured(rounds) for _ in range(runs)]
    called, comparisons = sum(one.called for one in found), sum(one.comparisons for one in found)
    assert comparisons == runs * 3 * rounds // 12
    assert binomial_interval(called, comparisons, 0.99)[0] <= 0.05
    assert all(one.state == "pass" for one in found)


@pytest.mark.slow("error rate by simulation")
def test_a_drift_fools_blocks_and_not_turns() -> None:
    found = [measured(60, drift=0.15, sd=0.005) for _ in range(draws(20))]
    called, blocked, comparisons = (sum(getattr(one, name) for one in found) for name in ("called", "blocked", "comparisons"))
    assert blocked > 0.3 * comparisons
    assert called < 0.15 * comparisons
    assert all(case.drift is not None and abs(case.drift) > 0.1 for case in found[0].cases)


@pytest.mark.slow("hundreds of comparisons")
def test_the_noise_is_told_apart_and_says_what_can_be_seen() -> None:
    (copy,) = measured(240, sd=0.01, names=("copy",)).cases
    assert copy.between == pytest.approx(0.01, rel=0.2)
    assert copy.within == pytest.approx(0.0, abs=1e-6)
    assert copy.mde[6] > copy.mde[12] > copy.mde[24] > 0.005
    assert copy.mde[24] == pytest.approx((2.069 + 0.858) * 0.01 * np.sqrt(2) / np.sqrt(24), rel=0.25)


@pytest.mark.slow("hundreds of comparisons")
def test_a_drift_that_is_no_line_is_found_in_every_case_and_only_then_blamed() -> None:
    minutes = np.arange(24) * 8 / 60
    rng = np.random.default_rng(4)
    cases = {name: (1e-3 / (1 + 0.3 * minutes) * np.exp(rng.normal(0, 0.01, 24))).tolist() for name in ("copy", "gemm", "chase")}
    bent = selftest(results(make(cases)))
    assert len(bent.cases) == 3
    assert all(one.drift is not None for one in bent.cases)
    said = " ".join(shown.selftest(bent).split())
    assert "That is what drift does" in said
    assert "drift: the change from the first round to the last" in said
    assert "That is what drift does" not in shown.selftest(measured(60))


def test_what_gave_no_number_is_listed_with_its_reason() -> None:
    found = selftest(results(make({"copy": [1e-3] * 8, "gemm": []})))
    assert list(found.left_out.values()) == ["not run: no round of it was measured"]
    assert "not run: no round of it was measured" in shown.selftest(found)
    assert "not run" in shown.selftest(selftest(results(make({"gemm": []}))))


@pytest.mark.parametrize("rounds", [0, 1, 6, 8])
def test_too_few_rounds_are_inconclusive(rounds: int) -> None:
    found = measured(rounds)
    assert found.state == "inconclusive"
    assert shown.selftest(found)


def test_wilson_interval_of_published_examples() -> None:
    """Newcombe, Statistics in Medicine 17, 1998, table I, method 3."""
    assert binomial_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert binomial_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
