"""Samples over time, case by case: rounds side by side, and beneath them what sensors said meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from html import escape
from statistics import median

from hotlap.core.analysis.rows import sample_values
from hotlap.core.record import Readings, Row, Samples
from hotlap.core.show import words
from hotlap.core.show.charts import cloud, path

WIDTH, HEIGHT, STRIP, CAPTION = 320.0, 96.0, 34.0, 14.0  # pixels of the drawing
EDGE = 3.0
BUDGET, MOST = 7000, 40  # dots on the page, and in one round
NARROWEST = 0.02  # of the median: a range shown at least, so that quiet cases look quiet
SENSORS = (  # what is drawn: its name in words, the sensors that show it (the first that is there; * for any end), its unit
    ("clock", ("clock_hz.sm", "clock_hz.core", "clock_hz.package*", "clock_hz"), "Hz"),
    ("power", ("power_w", "power_w.package*"), "W"),
    ("temperature", ("temperature_c", "temperature_c.package*"), "°C"),
    ("tasks waiting for a processor", ("pressure",), "%"),
)


@dataclass(frozen=True)
class Window:
    """A round of one case: when it was, and where it stands in the drawing."""

    number: int
    began_s: float
    ended_s: float
    left: float
    width: float

    def at(self, share: float) -> float:
        return self.left + share * self.width


def chart(row: Row, readings: Sequence[Readings], rows: int) -> str:
    """The samples of one case as SVG, with strips for the sensors of its device; "" where nothing was measured."""
    values = [one.tolist() for one in sample_values(row.result)]
    rounds = row.result.used[: len(values)]
    if not values:
        return ""
    windows = _windows(rounds)
    most = max(6, min(MOST, BUDGET // max(rows * len(rounds), 1)))
    strips = _strips(row, readings, windows)
    height = HEIGHT + len(strips) * STRIP
    body = _samples(row, values, windows, most) + "".join(_strip(s, HEIGHT + n * STRIP) for n, s in enumerate(strips))
    name = escape(f"samples of {row.label} over time")
    return f'<svg class="samples" viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{name}">{body}</svg>'


def _windows(rounds: Sequence[Samples]) -> list[Window]:
    each = WIDTH / len(rounds)
    return [Window(one.round, one.began_s, one.ended_s, n * each + EDGE, each - 2 * EDGE) for n, one in enumerate(rounds)]


def _samples(row: Row, values: Sequence[Sequence[float]], windows: Sequence[Window], most: int) -> str:
    middle = row.summary.median or median(v for one in values for v in one)
    everything = [v for one in values for v in one]
    low, high = min(*everything, middle), max(*everything, middle)
    if high - low < NARROWEST * abs(middle):
        low, high = middle - NARROWEST * abs(middle) / 2, middle + NARROWEST * abs(middle) / 2

    def up(value: float) -> float:
        return 10 + (HEIGHT - 20) * (1 - (value - low) / ((high - low) or 1.0))

    dots = [
        (window.at((place + 0.5) / len(one)), up(value))
        for one, window in zip(values, windows, strict=True) for place, value in _thinned(one, most)
    ]
    walls = "".join(f"M{window.left - EDGE:.1f} 0V{HEIGHT:g}" for window in windows[1:])
    medians = "".join(f"M{w.left:.1f} {up(median(one)):.1f}h{w.width:.1f}" for one, w in zip(values, windows, strict=True))
    ends = _range(low, high, words.unit_of(row))
    return (
        f'<rect class="back" width="{WIDTH:g}" height="{HEIGHT:g}"/><path class="wall" d="{walls}"/>'
        f'<path class="middle" d="M0 {up(middle):.1f}H{WIDTH:g}"/><path class="dots" d="M0 0{cloud(dots)}"/>'
        f'<path class="rounds" d="{medians}"/>'
        f'<text class="tick" x="4" y="9">{escape(ends[1])}</text><text class="tick" x="4" y="{HEIGHT - 3:g}">{escape(ends[0])}</text>'
    )


def _range(low: float, high: float, unit: str) -> tuple[str, str]:
    """Both ends with as many digits as it takes to tell them apart."""
    for digits in (3, 4, 5):
        ends = words.quantity(low, unit, digits), words.quantity(high, unit, digits)
        if ends[0] != ends[1]:
            return ends
    return ends


def _thinned(values: Sequence[float], most: int) -> list[tuple[int, float]]:
    """At most `most` of them with their places: evenly spaced, and the lowest and the highest in any case."""
    if len(values) <= most:
        return list(enumerate(values))
    step = len(values) / most
    extremes = {pick(range(len(values)), key=values.__getitem__) for pick in (min, max)}
    places = {int(n * step) for n in range(most)} | extremes
    return [(place, values[place]) for place in sorted(places)]


# ---------------------------------------------------------------- sensors


@dataclass(frozen=True)
class Strip:
    """One sensor during the case: a curve per round, in pixels across and the sensor's unit up."""

    name: str
    unit: str
    curves: tuple[tuple[tuple[float, float], ...], ...]


def _strips(row: Row, readings: Sequence[Readings], windows: Sequence[Window]) -> list[Strip]:
    by_sensor: dict[str, list[Readings]] = {}
    for one in readings:
        if one.status == "ok" and one.device in (row.device, "host"):
            by_sensor.setdefault(one.sensor, []).append(one)
    strips = []
    for title, sensors, unit in SENSORS:
        curves = _clocks(row, windows) if title == "clock" else ()
        named = (name for sensor in sensors for name in by_sensor if fnmatchcase(name, sensor))
        curves = curves or next((found for name in named if (found := _curves(by_sensor[name], windows))), ())
        if curves:
            strips.append(Strip(title, unit, curves))
    return strips


def _curves(readings: Sequence[Readings], windows: Sequence[Window]) -> tuple[tuple[tuple[float, float], ...], ...]:
    """Readings within each round's own window."""
    curves = []
    for window in windows:
        length = window.ended_s - window.began_s
        curve = tuple(
            (window.at((t - window.began_s) / length), v)
            for one in readings if one.round == window.number
            for t, v in zip(one.times_s, one.values, strict=True)
            if v is not None and length > 0 and window.began_s <= t <= window.ended_s and math.isfinite(v)
        )
        curves.append(curve)
    return tuple(curves) if any(curves) else ()


def _clocks(row: Row, windows: Sequence[Window]) -> tuple[tuple[tuple[float, float], ...], ...]:
    """The device's clock before, between and after the samples, where the loop measured it itself."""
    by_round: Mapping[int, Samples] = {one.round: one for one in row.result.rounds}
    clocks = [by_round[window.number].clocks_hz for window in windows]
    if not any(clocks):
        return ()
    return tuple(
        tuple((window.at(n / max(len(one) - 1, 1)), hz) for n, hz in enumerate(one)) for window, one in zip(windows, clocks, strict=True)
    )


def _strip(strip: Strip, top: float) -> str:
    values = [v for curve in strip.curves for _, v in curve]
    low, high = min(values), max(values)
    least = 0.05 * abs(high)
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2

    def up(value: float) -> float:
        return top + CAPTION + (STRIP - CAPTION - 3) * (1 - (value - low) / ((high - low) or 1.0))

    said = f"{strip.name} {words.quantity(median(values), strip.unit)}"
    if words.quantity(min(values), strip.unit) != words.quantity(max(values), strip.unit):
        said += f", {words.quantity(min(values), strip.unit)} to {words.quantity(max(values), strip.unit)}"
    lines = "".join(path(_seen([(x, up(v)) for x, v in curve])) for curve in strip.curves if curve)
    return f'<path class="sensor" d="{lines}"/><text class="tick" x="4" y="{top + 10:.1f}">{escape(said)}</text>'


def _seen(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """A curve of one point as a short line, which can be seen."""
    return curve if len(curve) > 1 else [(curve[0][0] - EDGE, curve[0][1]), (curve[0][0] + EDGE, curve[0][1])]
