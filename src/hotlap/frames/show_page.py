"""Captures as part of a page: frame times, the curve of their percentiles, how far definitions of 1 % low lie apart, hitches."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from hotlap.core import units
from hotlap.core.record import Summary
from hotlap.core.show import charts
from hotlap.core.show.bands import figure
from hotlap.core.show.sections.base import facts as listed
from hotlap.core.show.table import Cell, Column, Table, html
from hotlap.frames import lows, show
from hotlap.frames.judged import JudgedFrames
from hotlap.frames.record import Floats, Hitch, Stream

BINS, DRAWN_HITCHES, LISTED = 400, 200, 30
CURVE = 1 - np.logspace(0, -4, 160)  # from the fastest frame to 99.99 %


def lead(judged: JudgedFrames) -> str:
    """The answer in a sentence, and the files."""
    if not judged.figures:
        return "<p class=\"lead\">No stream of the captures has two frames.</p>"
    key = judged.keys[0]
    average = judged.over(key, lambda one: one.average_fps)
    slow = judged.over(key, show.low("slowest frames", 0.01))
    assert average is not None
    words = f"{key or 'The program'}: {units.round_to(average.median or 0.0)} frames per second"
    words += f", 1 % low {units.round_to(slow.median or 0.0)} by the slowest frames" if slow else ""
    hitches = sum(len(one.hitches) for one in judged.of(key))
    words += f", {hitches or 'no'} hitch{'' if hitches == 1 else 'es'}"
    return f'<p class="lead">{escape(words)}.</p><p class="sub">{escape(show.files(judged))}</p>'


def section(judged: JudgedFrames) -> str:
    """Table, charts, hitches of the stream with most frames; those of the others are in the table."""
    if not judged.figures:
        return ""
    key = judged.keys[0]
    streams = [stream for stream in judged.streams if stream.key == key]
    hitches = show.worst(judged, key)
    longest = max(streams, key=lambda stream: len(stream.times_s))
    at = [hitch for number, hitch in hitches if number == longest.round]
    drawn = [over_time(longest, at, len(judged.captures)), percentiles(streams), _definitions(judged, key)]
    slow = f"<h3>Hitches</h3>{html(show.hitch_table(hitches[:LISTED]))}" if hitches else "<p>No hitch.</p>"
    more = f"<p>and {len(hitches) - LISTED} shorter ones</p>" if len(hitches) > LISTED else ""
    known = listed((name.capitalize(), words) for name, words in show.facts(judged, key))
    return f'{html(show.table(judged))}{known}<div class="plots">{"".join(drawn)}</div>{_lows(judged, key)}{slow}{more}'


def _ms(value: float) -> str:
    return units.show(value, "s", 2)


def over_time(stream: Stream, hitches: Sequence[Hitch], captures: int) -> str:
    """Least, median and longest frame time of as many stretches of frames as a chart shows, and a dot at each hitch."""
    times = stream.times_s
    ends = stream.begins_s + times
    parts = np.array_split(times, min(BINS, len(times)))
    at = ends[np.cumsum([len(part) for part in parts]) - 1].tolist()
    axis = charts.linear_axis(0.0, float(ends[-1]), lambda v: f"{v:g} s")
    axis = charts.Axis(0.0, float(ends[-1]), axis.show, "", False, tuple(tick for tick in axis.ticks if tick <= float(ends[-1])))
    chart = charts.Chart(axis, charts.log_axis([float(times.min()), float(times.max())], _ms), "frame times over time", height=260.0)
    chart.band([(x, float(part.min()), float(part.max())) for x, part in zip(at, parts, strict=True)])
    chart.line([(x, float(np.median(part))) for x, part in zip(at, parts, strict=True)], "main")
    for hitch in sorted(hitches, key=lambda one: -one.seconds)[:DRAWN_HITCHES]:
        chart.dot((hitch.time_s, min(hitch.seconds, float(times.max()))), "s1", f"{units.show(hitch.seconds, 's')}: {show.because(hitch)}")
    which = f" capture {stream.round + 1} of {captures};" if captures > 1 else ""
    return figure("Frame times", f"{which} median, shortest to longest; dots are hitches", chart)


def percentiles(streams: Sequence[Stream]) -> str:
    """Time that a share of the frames does not exceed, a line for each capture."""
    curves = [_curve(np.sort(stream.times_s)) for stream in streams]
    every = [value for curve in curves for _, value in curve]
    ticks = tuple(float(-np.log10(place)) for place in (0.5, 0.1, 0.01, 0.001, 0.0001))
    axis = charts.Axis(0.0, 4.3, lambda v: f"{100 * (1 - 10**-v):.6g} %", "", False, ticks)
    chart = charts.Chart(axis, charts.log_axis([min(every), max(every)], _ms), "percentiles of frame times", height=260.0)
    for number, curve in enumerate(curves):
        chart.line(curve, "main" if number == 0 else "s1")
    return figure("Percentiles", " share of frames that took no longer", chart)


def _curve(ascending: Floats) -> list[tuple[float, float]]:
    """As far as there are frames: beyond the last tenth of one frame nothing is known."""
    shares = CURVE[(1 - CURVE) * len(ascending) >= 1]
    return [(float(-np.log10(1 - share)), lows.quantile(ascending, float(share))) for share in shares]


def _definitions(judged: JudgedFrames, key: str) -> str:
    over = {name: judged.over(key, show.low(name, 0.01)) for name in lows.DEFINITIONS}
    rates = {name: summary.median for name, summary in over.items() if summary and summary.median is not None}
    return definitions(rates) if rates else ""


def definitions(rates: dict[str, float]) -> str:
    """Eight definitions of 1 % low on one scale."""
    axis = charts.log_axis(list(rates.values()), lambda v: f"{v:g} fps")
    size = len(rates)
    rows = charts.Axis(0.0, float(size), lambda _: "")
    chart = charts.Chart(axis, rows, "definitions of 1 % low on one scale", height=46.0 + 30.0 * size)
    for number, (name, rate) in enumerate(sorted(rates.items(), key=lambda pair: pair[1])):
        height = size - number - 0.5
        chart.dot((rate, height), "main", f"{name}: {rate:.4g} fps", 5.0)
        left = axis.place(rate) < 0.5
        x = rate * (axis.high / axis.low) ** (0.02 if left else -0.02)
        chart.label((x, height - 0.12), f"{name} {rate:.4g}", "", "start" if left else "end")
    return figure("1 % low by definition", " of the same frames", chart)


def _shown(summary: Summary | None) -> Cell:
    return Cell(units.round_to(summary.median, 4) if summary and summary.median is not None else show.DASH)


def _lows(judged: JudgedFrames, key: str) -> str:
    names = list(lows.DEFINITIONS)
    rates = {share: [judged.over(key, show.low(name, share)) for name in names] for share in (0.01, 0.001)}
    if not any(rates[0.01]):
        return ""
    columns = [
        Column("1 % low, 0.1 % low by", [Cell(name) for name in names]),
        Column("formula", [Cell(lows.DEFINITIONS[name].formula) for name in names]),
        Column("used by", [Cell(lows.DEFINITIONS[name].used_by) for name in names]),
        *(Column(head, [_shown(summary) for summary in rates[share]], right=True) for head, share in (("1 %", 0.01), ("0.1 %", 0.001))),
    ]  # fmt: skip
    return html(Table(columns))
