"""The definitions of "1 % low" that shipped tools use, each with its source. On one capture they differ by more than tenfold.

`times`: frame times in ms, slowest first; `share`: 0.01 or 0.001. Each gives frames per second, None where its formula has no frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from hotlap.frames.record import Floats

FEWEST = 10  # frames in the slow share from which a low means anything


class LowDefinition(NamedTuple):
    formula: str
    used_by: str
    rate: Callable[[Floats, float], float | None]


def quantile(ascending: Floats, p: float, median_unbiased: bool = False) -> float:
    """Types 7 and 8 of Hyndman and Fan, Sample quantiles in statistical packages, 1996."""
    n = len(ascending)
    place = p * (n + 1 / 3) + 1 / 3 - 1 if median_unbiased else p * (n - 1)
    below = min(max(math.floor(place), 0), n - 1)
    above = min(below + 1, n - 1)
    part = min(max(place - below, 0.0), 1.0)
    return float(ascending[below] + part * (ascending[above] - ascending[below]))


def percentile_of_times(times: Floats, share: float) -> float | None:
    """1000 ÷ Q7(times, 1 − share). GameTechDev/PresentMon@18f60475 DynamicStat.cpp: of rates it takes the percentile of times."""
    return 1000 / quantile(times[::-1], 1 - share)


def percentile_of_rates(times: Floats, share: float) -> float | None:
    """Q7(1000 ÷ times, share): PERCENTILE of spreadsheets (GameTechDev/PresentMon#153)."""
    return quantile(1000 / times, share)


def median_unbiased_rates(times: Floats, share: float) -> float | None:
    """Q8(1000 ÷ times, share). CXWorld/CapFrameX@59b14cf FrametimeStatisticProvider.cs, P1: Quantile of Math.NET, which is type 8."""
    return quantile(1000 / times, share, median_unbiased=True)


def beyond_percentile(times: Floats, share: float) -> float | None:
    """1000 ÷ mean of the times ≥ Q8(times, 1 − share), ties among them. CXWorld/CapFrameX@59b14cf GetPercentageHighAverageSequence."""
    least = quantile(times[::-1], 1 - share, median_unbiased=True)
    return 1000 / float(times[times >= least].mean())


def slowest_times(times: Floats, share: float) -> float | None:
    """1000 ÷ mean of the ⌈share·N⌉ slowest times: GameBench's documents, most articles."""
    return 1000 / float(times[: _ceiling(len(times), share)].mean())


def slowest_rates(times: Floats, share: float) -> float | None:
    """Mean of the ⌈share·N⌉ lowest rates. flightlessmango/MangoHud@021df9b (0.6.8) logging.cpp, writeSummary."""
    return float((1000 / times[: _ceiling(len(times), share)]).mean())


def place_in_order(times: Floats, share: float) -> float | None:
    """1000 ÷ the time at place share·N − 1, cut to a whole number, from 0. flightlessmango/MangoHud@373c158 (0.7) fps_metrics.h."""
    place = float(np.float32(share) * np.float32(len(times))) - 1
    return None if place < 0 else 1000 / float(times[int(place)])


def integral(times: Floats, share: float) -> float | None:
    """1000 ÷ the first time at which the slowest frames so far take share of the whole time. RTSS and MSI Afterburner;
    CXWorld/CapFrameX@59b14cf GetPercentageHighIntegralSequence."""
    sums = np.cumsum(times)
    place = int(np.searchsorted(sums, share * float(sums[-1])))
    return 1000 / float(times[min(place, len(times) - 1)])


def _ceiling(n: int, share: float) -> int:
    """As MangoHud: single precision, so that 1 % of 100 is 1."""
    return max(math.ceil(np.float32(n) * np.float32(share)), 1)


DEFINITIONS: Mapping[str, LowDefinition] = {
    "percentile of times": LowDefinition("1000 ÷ Q7(t, 1 − p)", "PresentMon, CapFrameX for Linux", percentile_of_times),
    "percentile of rates": LowDefinition("Q7(1000 ÷ t, p)", "spreadsheets", percentile_of_rates),
    "median-unbiased": LowDefinition("Q8(1000 ÷ t, p)", "CapFrameX P1", median_unbiased_rates),
    "beyond percentile": LowDefinition("1000 ÷ mean{t ≥ Q8(t, 1 − p)}", "CapFrameX 1 % low average", beyond_percentile),
    "slowest frames": LowDefinition("1000 ÷ mean of ⌈pN⌉ slowest", "GameBench, most articles", slowest_times),
    "lowest rates": LowDefinition("mean of ⌈pN⌉ lowest rates", "MangoHud to 0.6.8", slowest_rates),
    "place in order": LowDefinition("1000 ÷ s[⌊pN − 1⌋]", "MangoHud from 0.7", place_in_order),
    "slowest time": LowDefinition("1000 ÷ s[k], s0 + … + sk ≥ pΣt", "RTSS, MSI Afterburner, CapFrameX integral", integral),
}
SHOWN = ("slowest frames", "slowest time")
