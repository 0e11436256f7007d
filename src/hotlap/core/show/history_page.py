"""A history as one HTML page: a chart per series with its levels, changes and what changed there."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from hotlap.core.analysis.series import Series
from hotlap.core.record import Change
from hotlap.core.show import page as pages
from hotlap.core.show import words
from hotlap.core.show.charts import Axis, Chart, linear_axis
from hotlap.core.show.history import change_text, lies_apart, places, telling, when
from hotlap.core.show.page import Section
from hotlap.core.show.table import Cell, Column, Table, html, text

DAY_S = 86400.0
HOUR_S, SHORTEST_S = 3600.0, 6.0  # the least that a time axis spans
STEPS_S = (  # each at most 3.5 times the one before, so that at least two ticks fit
    1.0, 2.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0, HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S,
    DAY_S, 2 * DAY_S, 7 * DAY_S, 14 * DAY_S, 30 * DAY_S, 90 * DAY_S, 180 * DAY_S, 365 * DAY_S,
)  # fmt: skip
SHOWN = 60  # series drawn in the open


def page(series: Sequence[Series]) -> str:
    """Series with changes first; the rest unfold beyond 60."""
    ordered = sorted(series, key=telling)
    changes = sum(len(each.changes) for each in series)
    title = f"History: {len(series)} series, {words.counted(changes, 'change')}"
    where = places(ordered)
    changed = [(each, place, index, about) for each, place in zip(ordered, where, strict=True) for index, about in _told(each)]
    table = Table([
        Column("when (UTC)", [Cell(when(each.points[index].time_s)) for each, _, index, _ in changed]),
        Column("case", [Cell(each.label) for each, *_ in changed]), Column("where", [Cell(place) for _, place, *_ in changed]),
        Column("what changed", [Cell(about) for *_, about in changed]),
    ])
    top = html(table) if changed else '<p class="sub">No level changed.</p>'
    return pages.page(title, [Section("Series", "Series", figures(ordered, where))], {"series": series}, top)


def figures(series: Sequence[Series], where: Sequence[str]) -> str:
    """A chart per series; those beyond 60 unfold."""
    drawn = [_figure(each, place) for each, place in zip(series, where, strict=True)]
    return pages.folded(drawn, SHOWN, f"{len(drawn) - SHOWN} further series", "plots")


def _told(series: Series) -> list[tuple[int, str]]:
    """Changes and groups of points that lie apart, each with its first point."""
    told = [(change.index, change_text(series, change)) for change in series.changes]
    return told + [(away.index, lies_apart(series, away)) for away in series.excursions]


def _figure(series: Series, place: str) -> str:
    now = words.quantity(series.points[-1].value, series.unit)
    unit = _scale([point.value for point in series.points], series.unit)[1]
    about = f"{place}, {words.counted(len(series.points), 'run')}, now {now}"
    about += f"; in {unit or 'its own unit'}, {series.better} is better"
    return f"<figure><figcaption><b>{text(series.label)}</b>{text(about)}</figcaption>{_chart(series).svg()}</figure>"


def _chart(series: Series) -> Chart:
    values = [point.value for point in series.points]
    times = [point.time_s for point in series.points]
    margin = (max(values) - min(values)) * 0.08 or abs(values[0]) * 0.02 or 1.0
    y = linear_axis(min(values) - margin, max(values) + margin, str)
    y = replace(y, show=_numbers(y.ticks, _scale(values, series.unit)[0]))
    chart = Chart(_time_axis(times), y, f"{series.label} over time")
    _draw_levels(chart, series, times, values)
    for point in series.points:
        about = f"{when(point.time_s)}: {words.quantity(point.value, series.unit)}, run {point.run}"
        chart.dot((point.time_s, point.value), "quiet", about, 2.6)
    for at, why in series.boundaries.items():
        _mark(chart, times[at], "bound", why.partition(":")[0], chart.y.low)
    for away in series.excursions:
        chart.line([(times[away.index], away.level), (times[away.end - 1], away.level)], "main")
    for change in series.changes:
        if change.kind == "step":
            _mark(chart, times[change.index], "roof", _size(change), chart.y.high)
        else:
            chart.label((times[change.index], chart.y.high), f" drift {_size(change)}")
    return chart


def _scale(values: Sequence[float], unit: str) -> tuple[float, str]:
    """One prefix for a whole axis, of the largest value: what a value is divided by, and the unit with the prefix."""
    most = max(values, key=abs)
    number, _, prefixed = words.quantity(most, unit, 9).partition(" ")
    return (most / float(number) if most else 1.0), prefixed


def _numbers(ticks: Sequence[float], scale: float) -> Callable[[float], str]:
    """As many decimals as tell the ticks apart; the unit stands in the caption, there is no room for it on a phone."""
    step = (ticks[1] - ticks[0]) / scale if len(ticks) > 1 else 1.0
    decimals = max(0, math.ceil(-math.log10(step) - 1e-9)) if step > 0 else 0
    return lambda value: f"{value / scale:.{decimals}f}"


def _draw_levels(chart: Chart, series: Series, times: Sequence[float], values: Sequence[float]) -> None:
    """The median of each stretch between changes; the slope of those from a drift on, up to the next boundary."""
    drifts = [change.index for change in series.changes if change.kind == "drift"]
    edges = sorted({0, len(values), *series.boundaries, *(change.index for change in series.changes)})
    for start, end in pairwise(edges):
        last = times[end] if end < len(times) else times[-1]
        slopes = any(at <= start and not any(at < bound <= start for bound in series.boundaries) for at in drifts)
        chart.line(_line(times[start:end], values[start:end], last) if slopes else _flat(times[start], last, values[start:end]), "main")


def _flat(first: float, last: float, values: Sequence[float]) -> list[tuple[float, float]]:
    level = statistics.median(values)
    return [(first, level), (last, level)]


def _line(times: Sequence[float], values: Sequence[float], last: float) -> list[tuple[float, float]]:
    """Through the medians of the thirds at both ends."""
    third = max(1, len(times) // 3)
    a, b = statistics.median(times[:third]), statistics.median(times[-third:])
    low, high = statistics.median(values[:third]), statistics.median(values[-third:])
    if b <= a:
        return _flat(times[0], last, values)
    return [(at, low + (high - low) / (b - a) * (at - a)) for at in (times[0], last)]


def _mark(chart: Chart, time_s: float, kind: str, label: str, height: float) -> None:
    chart.line([(time_s, chart.y.low), (time_s, chart.y.high)], kind)
    late = chart.x.place(time_s) > 0.75
    chart.label((time_s, height), f"{label} " if late else f" {label}", anchor="end" if late else "start")


def _size(change: Change) -> str:
    return change.kind if math.isnan(change.ratio) else f"{100 * (change.ratio - 1):+.1f} %"


def _time_axis(times: Sequence[float]) -> Axis:
    """Ticks at whole seconds, minutes, hours, days, weeks …, at most 7 of them."""
    low, high = min(times), max(times)
    if high <= low:
        low, high = low - DAY_S / 2, high + DAY_S / 2
    elif high - low < SHORTEST_S:
        low, high = (low + high - SHORTEST_S) / 2, (low + high + SHORTEST_S) / 2
    step = next((s for s in STEPS_S if (high - low) / s <= 7), STEPS_S[-1])
    first = int(low // step) + 1
    ticks = tuple(n * step for n in range(first, int(high // step) + 1))
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < DAY_S else "%d %b" if step < 365 * DAY_S else "%Y"
    margin = (high - low) * 0.02
    return Axis(low - margin, high + margin, lambda v: datetime.fromtimestamp(v, UTC).strftime(form), "time (UTC)", False, ticks)
