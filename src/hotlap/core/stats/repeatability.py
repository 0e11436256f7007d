"""Gauge R&R: how much of what one sees is the measurement (within a node) and how much are the nodes, against a tolerance.

A case must earn the right to gate: a measurement whose own spread fills a third of the tolerance cannot tell good from bad.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from hotlap.core.stats import student
from hotlap.core.stats.series import MAD_TO_SD, finite

Floats = NDArray[np.float64]
Verdict = Literal["good", "usable", "too noisy", "cannot tell"]

WIDTH = 6.0  # standard deviations that count as the measurement's spread: 99.7 % of normal data
DRAWN_IN = 3.0  # robust standard deviations
DRAWS = 20_000  # of chi-squares, for the interval of a difference of variances
GOOD, USABLE = 0.10, 0.30  # of the tolerance; AIAG, Measurement Systems Analysis, 4th ed. 2010, II.D


class GaugeRR(msgspec.Struct, frozen=True, kw_only=True):
    """Relative standard deviations; None where they cannot be known."""

    repeatability: float | None  # from run to run on one node
    reproducibility: float | None  # from node to node, beyond what repeatability explains
    total: float | None
    low: float | None  # 95 % interval of repeatability
    high: float | None
    reproducibility_low: float | None = None  # 95 % interval of reproducibility
    reproducibility_high: float | None = None
    nodes: int
    runs: int

    def share(self, tolerance: float) -> float | None:
        """What the measurement's spread takes of a tolerance (a share of the value, full width)."""
        return None if self.repeatability is None else WIDTH * self.repeatability / tolerance

    def may_gate(self, tolerance: float) -> Verdict:
        """Under 10 % of the tolerance good, up to 30 % usable, above too noisy. Raises ValueError for a tolerance not above 0."""
        if not 0 < tolerance < math.inf:
            raise ValueError(f"a tolerance is a share above 0, not {tolerance}")
        share = self.share(tolerance)
        if share is None:
            return "cannot tell"
        return "good" if share < GOOD else "usable" if share <= USABLE else "too noisy"


def gauge(values: Sequence[Sequence[float]], robust: bool = True) -> GaugeRR:
    """`values`: nodes → runs, above zero; numbers of runs may differ. At least one node with 2 runs is needed for repeatability, and
    2 nodes for reproducibility.

    One-way random effects on logarithms by the method of moments (Searle, Casella and McCulloch, Variance Components, 1992, 3.6);
    a negative estimate is 0. `robust`: runs farther from their node's median, and nodes farther from the nodes' median, than 3 robust
    standard deviations (from differences of pairs) are drawn in to there, so that a bad run or node does not make a good gauge
    look bad. Assumes the same repeatability on all nodes; intervals assume normal logarithms (of reproducibility: generalised
    confidence interval, Weerahandi, J. Am. Stat. Assoc. 88, 1993, 899). Raises ValueError for values that are not finite or not above zero.
    """
    nodes = [np.log(_positive(one)) for one in values if len(one)]
    runs = sum(map(len, nodes))
    freedom = sum(len(one) - 1 for one in nodes)
    if freedom < 1:
        return GaugeRR(repeatability=None, reproducibility=None, total=None, low=None, high=None, nodes=len(nodes), runs=runs)
    if robust:
        nodes = _winsorized(nodes)
    within = math.sqrt(sum(float(np.sum((one - one.mean()) ** 2)) for one in nodes) / freedom)
    low, high = (within * math.sqrt(freedom / _chi_square(p, freedom)) for p in (0.975, 0.025))
    found = GaugeRR(repeatability=within, reproducibility=None, total=None, low=low, high=high, nodes=len(nodes), runs=runs)
    if len(nodes) < 2:
        return found
    between, ends = _between(nodes, within, freedom, robust)
    return msgspec.structs.replace(
        found, reproducibility=between, reproducibility_low=ends[0], reproducibility_high=ends[1], total=math.hypot(within, between)
    )


def _positive(values: Sequence[float]) -> Floats:
    x = finite(values)
    if np.any(x <= 0):
        raise ValueError(f"{np.count_nonzero(x <= 0)} of {len(x)} values are zero or negative: there is no relative spread")
    return x


def _winsorized(nodes: Sequence[Floats]) -> list[Floats]:
    """Runs far from their node's median, brought nearer."""
    reach = DRAWN_IN * _scale([one for one in nodes if len(one) > 1])
    middles = [float(np.median(one)) for one in nodes]
    return [np.clip(one, middle - reach, middle + reach) for one, middle in zip(nodes, middles, strict=True)]


def _scale(groups: Sequence[Floats]) -> float:
    """Robust standard deviation from the differences of all pairs within groups: unlike deviations from a median, right for few.

    Infinite where most pairs are equal: then nothing is far.
    """
    pairs = [np.abs(one[i] - one[j]) for one in groups for i, j in [np.triu_indices(len(one), 1)]]
    return MAD_TO_SD / math.sqrt(2) * float(np.median(np.concatenate(pairs))) or math.inf


def _between(nodes: Sequence[Floats], within: float, freedom: int, robust: bool) -> tuple[float, tuple[float, float]]:
    """Spread of the nodes' means less what their runs explain, and its 95 % interval."""
    centres = np.array([one.mean() for one in nodes])
    if robust and len(centres) > 2:
        middle, reach = float(np.median(centres)), DRAWN_IN * _scale([centres])
        centres = np.clip(centres, middle - reach, middle + reach)
    spread, explained = float(np.var(centres, ddof=1)), statistics.mean(1 / len(one) for one in nodes)
    rng = np.random.default_rng(0)  # the same answer each time
    runs = within**2 * freedom / rng.chisquare(freedom, DRAWS)
    drawn = spread * (len(nodes) - 1) / rng.chisquare(len(nodes) - 1, DRAWS) - runs * explained
    low, high = np.sqrt(np.maximum(np.quantile(drawn, (0.025, 0.975)), 0.0)).tolist()
    return math.sqrt(max(spread - within**2 * explained, 0.0)), (low, high)


def _chi_square(p: float, freedom: int) -> float:
    """The point below which chi-square lies with probability `p`: Wilson and Hilferty (PNAS 17, 1931), within 1 % from 3 degrees on."""
    z = student.quantile(p, 1e6)
    return freedom * max(1 - 2 / (9 * freedom) + z * math.sqrt(2 / (9 * freedom)), 1e-3) ** 3
