"""The numbers of other tools, by their own arithmetic: what each would have printed of the same frames.

`times`: frame times in ms, in order. A number is text as the tool prints it; "–" where the tool has none of so few frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from hotlap.frames import lows
from hotlap.frames.record import Floats, Stream

NONE = "–"
Numbers = dict[str, str]


def presentmon(times: Floats) -> Numbers:
    """Statistics of the metric FPS. GameTechDev/PresentMon@18f60475 DynamicStat.cpp: percentiles of times, linear; average over time."""
    slowest = np.sort(times)[::-1]
    rates = {"FPS avg": 1000 / float(times.mean()), "FPS min": 1000 / float(slowest[0]), "FPS max": 1000 / float(slowest[-1])}
    for percent in (1, 5, 10, 90, 95, 99):
        rates[f"FPS {percent}%"] = lows.percentile_of_times(slowest, percent / 100) or math.nan
    return {name: f"{value:.2f}" for name, value in rates.items()}


def capframex(times: Floats) -> Numbers:
    """CXWorld/CapFrameX@59b14cf FrametimeStatisticProvider.cs GetFpsMetricValue, with one decimal."""
    slowest = np.sort(times)[::-1]
    rates = {"Max": 1000 / float(slowest[-1])}
    for name, p in (("P99", 0.99), ("P95", 0.95), ("Median", 0.5), ("P5", 0.05), ("P1", 0.01), ("P0.2", 0.002), ("P0.1", 0.001)):
        rates[name] = lows.median_unbiased_rates(slowest, p) or math.nan
    rates["Average"] = len(times) * 1000 / float(times.sum())
    for word, low in (("Average", lows.beyond_percentile), ("Integral", lows.integral)):
        for name, p in (("1%", 0.01), ("0.2%", 0.002), ("0.1%", 0.001)):
            rates[f"{name} Low {word}"] = low(slowest, p) or math.nan
    rates["Min"] = 1000 / float(slowest[0])
    return {name: f"{value:.1f}" for name, value in rates.items()}


def mangohud_old(times: Floats) -> Numbers:
    """The _summary.csv of MangoHud up to 0.6.8: flightlessmango/MangoHud@021df9b logging.cpp writeSummary, in single precision as there.
    Its average is the mean of rates, which is no rate over time."""
    single = np.float32
    microseconds = np.rint(times * 1000).astype(np.float32)
    rates = np.sort(single(1000) / (microseconds / single(1000)))
    text: Numbers = {}
    for name, share in (("0.1% Min FPS", 0.001), ("1% Min FPS", 0.01)):
        count = math.ceil(single(len(rates)) * single(share))
        text[name] = f"{_sum(rates[:count]) / single(count):.1f}"
    text["97% Percentile FPS"] = f"{rates[math.floor(0.97 * (len(rates) - 1))]:.1f}"
    text["Average FPS"] = f"{_sum(rates) / single(len(rates)):.1f}"
    return text


def _sum(rates: np.ndarray[tuple[int], np.dtype[np.float32]]) -> np.float32:
    """One after another, each sum in single precision."""
    return np.float32(np.add.accumulate(rates, dtype=np.float32)[-1])


def mangohud(times: Floats) -> Numbers:
    """The summary of MangoHud from 0.7 on: flightlessmango/MangoHud@373c158 fps_metrics.h."""
    slowest = np.sort(times)[::-1]
    text: Numbers = {}
    for name, share in (("0.1% Min FPS", 0.001), ("1% Min FPS", 0.01), ("97% Percentile FPS", 0.97)):
        rate = lows.place_in_order(slowest, share)
        text[name] = NONE if rate is None else f"{rate:.1f}"
    text["Average FPS"] = f"{1000 / float(times.mean()):.1f}"
    return text


def rtss(times: Floats) -> Numbers:
    """RivaTuner Statistics Server and MSI Afterburner: lows by time, as CXWorld/CapFrameX@59b14cf says of them ("equivalent")."""
    slowest = np.sort(times)[::-1]
    rates = {
        "Average": len(times) * 1000 / float(times.sum()), "Min": 1000 / float(slowest[0]), "Max": 1000 / float(slowest[-1]),
        "1% low": lows.integral(slowest, 0.01) or math.nan, "0.1% low": lows.integral(slowest, 0.001) or math.nan,
    }  # fmt: skip
    return {name: f"{value:.1f}" for name, value in rates.items()}


LIKE: Mapping[str, Callable[[Floats], Numbers]] = {
    "presentmon": presentmon, "capframex": capframex, "mangohud-0.6": mangohud_old, "mangohud": mangohud, "rtss": rtss,
}


def numbers(tool: str, stream: Stream) -> Numbers:
    """What a tool of `LIKE` would have printed of a stream. MangoHud 0.6 leaves no frame out, not even one since boot."""
    times = stream.whole_s if tool == "mangohud-0.6" else stream.times_s
    return LIKE[tool](times * 1000)
