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

from hotlap.stats import student
from hotlap.stats.series import MAD_TO_SD, finite

Floats = NDArray[np.float64]
Verdict = Literal["good", "usable", "too noisy", "cannot tell"]

WIDTH = 6.0  # standard deviations that count as the measurement's spread: 99.7 % of normal data
GOOD, USABLE = 0.10, 0.30  # of the tolerance; AIAG, Measurement Systems Analysis, 4th ed. 2010, II.D


class GaugeRR(msgspec.Struct, frozen=True, kw_only=True):
    """Relative standard deviations; None where they cannot be known."""

    repeatability: float | None  # from run to run on one node
    reproducibility: float | None  # from node to node, beyond what repeatability explains
    total: float | None
    low: float | None  # 95 % interval of repeatability
    high: float | None
    nodes: int
    runs: int

    def share(self, tolerance: float) -> float | None:
        """What the measurement's spread takes of a tolerance (a share of the value, full width)."""
        return None if self.repeatability is None else WIDTH * self.repeatability / tolerance

    def may_gate(self, tolerance: float) -> Verdict:
        """Under 10 % of the tolerance good, up to 30 % usable, above too noisy. Raises ValueError for a tolerance not above 0."""
        if not tolerance > 0:
            raise ValueError(f"a tolerance is a share above 0, not {tolerance}")
        share = self.share(tolerance)
        if share is None:
            return "cannot tell"
        return "good" if share < GOOD else "usable" if share <= USABLE else "too noisy"


def gauge(values: Sequence[Sequence[float]], robust: bool = True) -> GaugeRR:
    """`values`: nodes → runs, above zero; numbers of runs may differ. At least one node with 2 runs is needed for repeatability, and
    2 nodes for reproducibility.

    One-way random effects on logarithms by the method of moments (Searle, Casella and McCulloch, Variance Components, 1992, 3.6);
    a negative estimate is 0. `robust`: deviations within a node by their median, drawn in at 3 robust standard deviations, so
    that a bad run does not make a good gauge look bad. Assumes the same repeatability on all nodes; the interval assumes normal
    logarithms. Raises ValueError for values that are not finite or not above zero.
    """
    nodes = [np.log(_positive(one)) for one in values if len(one)]
    runs = sum(map(len, nodes))
    freedom = sum(len(one) - 1 for one in nodes)
    if freedom < 1:
        return GaugeRR(repeatability=None, reproducibility=None, total=None, low=None, high=None, nodes=len(nodes), runs=runs)
    within = _within(nodes, freedom, robust)
    between = _between(nodes, within) if len(nodes) > 1 else None
    low, high = (within * math.sqrt(freedom / _chi_square(p, freedom)) for p in (0.975, 0.025))
    total = None if between is None else math.hypot(within, between)
    return GaugeRR(repeatability=within, reproducibility=between, total=total, low=low, high=high, nodes=len(nodes), runs=runs)


def _positive(one: Sequence[float]) -> Floats:
    x = finite(one)
    if np.any(x <= 0):
        raise ValueError(f"{np.count_nonzero(x <= 0)} of {len(x)} values are zero or negative: there is no relative spread")
    return x


def _within(nodes: Sequence[Floats], freedom: int, robust: bool) -> float:
    off = np.concatenate([one - (np.median(one) if robust else one.mean()) for one in nodes if len(one) > 1])
    if robust:
        reach = 3 * MAD_TO_SD * float(np.median(np.abs(off)))
        off = np.clip(off, -reach, reach) if reach else off
    return math.sqrt(float(off @ off) / freedom)


def _between(nodes: Sequence[Floats], within: float) -> float:
    """Spread of the nodes' centres less what their runs explain."""
    centres = [float(np.median(one)) for one in nodes]
    explained = statistics.mean(within**2 / len(one) for one in nodes)
    return math.sqrt(max(statistics.variance(centres) - explained, 0.0))


def _chi_square(p: float, freedom: int) -> float:
    """The point below which chi-square lies with probability `p`: Wilson and Hilferty (PNAS 17, 1931), within 1 % from 3 degrees on."""
    z = student.quantile(p, 1e6)
    return freedom * max(1 - 2 / (9 * freedom) + z * math.sqrt(2 / (9 * freedom)), 1e-3) ** 3
