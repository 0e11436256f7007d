"""What sensors read over time, as charts: each sensor's least, mean and highest in as many stretches as a chart has pixels for."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.show import charts
from hotlap.core.store import chunks
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import show

Floats = NDArray[np.float64]
BINS = 320  # stretches of a chart: what its pixels can show


class Band(NamedTuple):
    """Stretches of a sensor: the middle of each, least, mean and highest."""

    times_s: Floats
    low: Floats
    mean: Floats
    high: Floats


def bands(bundle: Bundle) -> dict[chunks.Key, Band]:
    """Stretches of every sensor: the levels of a run that was compacted, else of its readings."""
    path = bundle.path
    if chunks.stored(path, "levels") and chunks.available():
        return {
            key: _fewer(Band((x.first_s + x.last_s) / 2, x.low, x.mean, x.high)) for key, x in chunks.levels(path).items()
        }  # fmt: skip
    points: dict[chunks.Key, list[tuple[float, float]]] = {}
    for one in bundle.readings:
        some = points.setdefault((one.device, one.sensor), [])
        some += [(t, v) for t, v in zip(one.times_s, one.values, strict=True) if v is not None]
    found = {}
    for key, some in points.items():
        if some:
            times, values = np.array(sorted(some)).T
            found[key] = _fewer(Band(times, values, values, values))
    return found


def _fewer(band: Band) -> Band:
    """At most `BINS` stretches of equal length in time; empty ones are left out."""
    times = band.times_s
    if len(times) <= BINS:
        return band
    edges = np.linspace(times[0], times[-1], BINS + 1)[:-1]
    first = np.unique(np.searchsorted(times, edges))
    counts = np.diff([*first, len(times)])
    return Band(
        np.add.reduceat(times, first) / counts, np.minimum.reduceat(band.low, first), np.add.reduceat(band.mean, first) / counts,
        np.maximum.reduceat(band.high, first),
    )  # fmt: skip


class Time:
    """Time since the run began, in the unit that suits its length."""

    def __init__(self, first_s: float, last_s: float) -> None:
        self.first_s, length = first_s, last_s - first_s
        self.unit_s, self.unit = (3600.0, "h") if length > 2 * 3600 else (60.0, "min") if length > 180 else (1.0, "s")
        end = max(length, 1e-9) / self.unit_s
        round_off = charts.linear_axis(0.0, end, lambda v: f"{v:g} {self.unit}")
        ticks = tuple(tick for tick in round_off.ticks if tick <= end)
        self.axis = charts.Axis(0.0, end, round_off.show, "", False, ticks)  # ends with the run, not at the next round number

    def at(self, time_s: float) -> float:
        return (time_s - self.first_s) / self.unit_s


def _written(value: float, unit: str) -> str:
    if unit == "share":
        return f"{100 * value:.0f} %"
    return f"{value:.0f} °C" if unit == "°C" else show(value, unit)


def range_said(band: Band, unit: str) -> str:
    low, mean, high = (_written(float(v), unit) for v in (band.low.min(), band.mean.mean(), band.high.max()))
    return f"{low} to {high}, mean {mean}"


def sensor_chart(band: Band, name: str, unit: str, zero: bool, limit: float | None, time: Time) -> charts.Chart:
    high = max(float(band.high.max()), limit or 0.0)
    low = 0.0 if zero else min(float(band.low.min()), high - 5.0)
    chart = charts.Chart(time.axis, charts.linear_axis(low, high, lambda v: _written(v, unit), most=4), f"{name} over time", height=210.0)
    x = [time.at(t) for t in band.times_s.tolist()]
    chart.band(list(zip(x, band.low.tolist(), band.high.tolist(), strict=True)))
    if limit:
        chart.line([(x[0], limit), (x[-1], limit)], "bound")
        chart.label((x[-1], limit), f"limit {limit:.0f} W", "above", "end")
    chart.line(list(zip(x, band.mean.tolist(), strict=True)), "main")
    return chart


def figure(name: str, about: str, chart: charts.Chart) -> str:
    return f"<figure><figcaption><b>{escape(name)}</b>{escape(about)}</figcaption>{chart.svg()}</figure>"
