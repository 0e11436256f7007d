"""MLPerf's rules for a run of inference: which latencies count, when a run is valid, how many queries it needs. Pure statistics.

The rules are those of LoadGen 6.0 (mlcommons/inference, loadgen/early_stopping.cc and results.cc; inference_policies, "Early stopping").
Early stopping asks how sure so few queries can be: with `t` queries over the limit, a share `p` of all is within it with confidence
0.99 only where P(Binomial(n, 1 − p) ≤ t) < 0.01.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Record

CONFIDENCE = 0.99
Scenario = Literal["single", "multi", "offline", "server", "closed"]
SCENARIOS: dict[str, str] = {
    "single": "one query of one sample at a time", "multi": "one query of 8 samples at a time", "offline": "all samples in one query",
    "server": "queries of one sample at random times (Poisson)", "closed": "so many clients, each with one query at a time",
}  # fmt: skip
PERCENTILE = {"single": 0.9, "multi": 0.99, "server": 0.99}  # test_settings.h: that a result is of
PER_QUERY = 8  # samples of a query of multi
SUBMITTED_S, OFFLINE_SAMPLES = 600.0, 24_576  # inference_rules: of a run that is submitted


class RunRules(Record, frozen=True, kw_only=True):
    """What a run has to keep. A submission has MLPerf's own; shorter ones are for looking."""

    scenario: Scenario
    min_s: float
    min_queries: int = 1  # of offline: samples
    percentile: float = 0.99
    bound_s: float | None = None  # of server: the latency that `percentile` of the queries has to keep


class RunValidity(Record, frozen=True, kw_only=True):
    """Which rules a run kept. None: the scenario has no such rule."""

    valid: bool
    duration: bool
    queries: bool
    performance: bool | None = None
    early_stopping: bool | None = None
    over: int = 0  # queries above the bound
    needed: int | None = None  # queries in all, with which it would have been enough, were all further ones in time
    estimate_s: float | None = None  # of the percentile, from above with confidence 0.99 (single, multi)


@lru_cache(maxsize=4096)
def queries_needed(over: int, percentile: float, confidence: float = CONFIDENCE) -> int:
    """The fewest queries, of which `over` were above the bound, that show that `percentile` of all are within it.

    The smallest n with P(Binomial(n, 1 − percentile) ≤ over) < 1 − confidence. Raises ValueError for shares outside 0 to 1.
    """
    if over < 0 or not 0 < percentile < 1 or not 0 < confidence < 1:
        raise ValueError(f"no such rule: {over} over, percentile {percentile}, confidence {confidence}")
    low, high = over, max(2 * (over + 1), 8)
    while _at_most(over, high, 1 - percentile) >= 1 - confidence:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _at_most(over, middle, 1 - percentile) >= 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(k: int, n: int, share: float) -> float:
    """P(Binomial(n, share) ≤ k), by logarithms of factorials, from the largest term down."""
    if k >= n:
        return 1.0
    odds = math.log(share) - math.log1p(-share)
    logs = [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * odds for i in range(k + 1)]
    most = max(logs)
    return min(math.exp(most + n * math.log1p(-share)) * math.fsum(math.exp(value - most) for value in logs), 1.0)


def discarded(queries: int, percentile: float) -> int | None:
    """How many of the slowest queries may be left out, so that the slowest of the rest bounds the percentile; None of too few."""
    if queries < queries_needed(1, percentile):
        return None
    low, high = 1, 2
    while queries_needed(high, percentile) <= queries:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if queries_needed(middle, percentile) <= queries else (low, middle)
    return low


def judge(rules: RunRules, latencies_s: Sequence[float] | NDArray[np.float64], issued_s: float) -> RunValidity:
    """Whether a run is valid. `latencies_s`: a value per query (of offline one alone: of all samples); `issued_s`: when the last query
    was issued, of server when it was due, of offline the whole time."""
    ordered = np.sort(np.asarray(latencies_s, float))
    n = len(ordered)
    duration = issued_s >= rules.min_s
    queries = n >= (1 if rules.scenario == "offline" else rules.min_queries)
    if rules.scenario in ("offline", "closed"):
        return RunValidity(valid=duration and queries, duration=duration, queries=queries)
    if rules.scenario == "server":
        bound_s = rules.bound_s if rules.bound_s is not None else math.inf
        over = n - int(np.searchsorted(ordered, bound_s, side="right"))
        needed = queries_needed(over, rules.percentile)
        performance = bool(n) and bool(ordered[int(n * rules.percentile)] <= bound_s)
        valid = duration and queries and performance and n >= needed
        return RunValidity(
            valid=valid, duration=duration, queries=queries, performance=performance, early_stopping=n >= needed, over=over, needed=needed
        )
    left_out = discarded(n, rules.percentile)
    estimate = None if left_out is None else float(ordered[n - left_out])
    return RunValidity(
        valid=duration and queries and left_out is not None, duration=duration, queries=queries, early_stopping=left_out is not None,
        needed=queries_needed(1, rules.percentile), estimate_s=estimate,
    )  # fmt: skip


def at(latencies_s: Sequence[float] | NDArray[np.float64], share: float) -> float:
    """A percentile as LoadGen takes it: the value at index ⌊n·p⌋ of the ordered ones (results.cc)."""
    ordered = np.sort(np.asarray(latencies_s, float))
    return float(ordered[min(int(len(ordered) * share), len(ordered) - 1)])
