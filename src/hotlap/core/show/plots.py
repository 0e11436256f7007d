"""Which charts a run's rows give: the measured roofline, bandwidth and latency against the working set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hotlap.core import work
from hotlap.core.errors import HotlapError
from hotlap.core.model.levels import MEMORY, ModelLevel, cache_levels
from hotlap.core.record import Row
from hotlap.core.show import words
from hotlap.core.show.charts import Chart, log_axis, size_axis
from hotlap.core.show.conclusions import median_of, size_of
from hotlap.core.units import size
from hotlap.core.work.traits import Shows

SERIES = 6  # kinds of line that can be distinguished
ENOUGH = 5  # sizes from which levels are named: with fewer, any two points make a plateau


@dataclass(frozen=True)
class Plot:
    """A chart with its title and a sentence or two of what it shows."""

    title: str
    about: str
    svg: str
    wide: bool = False  # takes the page's whole width


def all_of(rows: Sequence[Row]) -> list[Plot]:
    """Of one device; those for which there is too little are left out."""
    found = [roofline(rows), working_sets(rows, "bandwidth"), working_sets(rows, "latency")]
    return [plot for plot in found if plot]


# ---------------------------------------------------------------- roofline


@dataclass(frozen=True)
class Roof:
    """A rate that holds whatever the intensity (operations per second), or per byte (B/s)."""

    name: str
    rate: float
    bound: float | None  # what the hardware allows, where it is known
    vector: str = ""  # the type, where vector units reach it


def roofline(rows: Sequence[Row]) -> Plot | None:
    """Operations per second over operations per byte; roofs as they were measured, bounds dashed."""
    standing = [row for row in rows if words.stands(row)]
    memory, flat = _memory_roof(standing), _flat_roofs(standing)
    points = [(x, row) for row in standing if (x := intensity(row)) is not None and row.result.unit == "FLOP/s"]
    streams = [(x, row) for row in _streams(standing) if _in_memory(row, standing) and (x := intensity(row))]
    if memory is None or not flat or not points:
        return None
    xs = [x for x, _ in [*points, *streams]] + [roof.rate / memory.rate for roof in flat]
    ys = [median_of(row) for _, row in points] + [_operations(row) for _, row in streams] + [roof.bound or roof.rate for roof in flat]
    x_axis = log_axis(xs, lambda v: f"{v:g}", "intensity, FLOP per byte of memory traffic", 2.0)
    y_axis = log_axis(ys, lambda v: words.quantity(v, "FLOP/s", 1), margin=1.8)
    chart = Chart(x_axis, y_axis, "Measured roofline", width=1040, height=430, right=170)
    _draw_roofs(chart, memory, flat)
    for x, row in streams:
        chart.dot((x, _operations(row)), "quiet", f"{row.label}: {words.value(row)}")
    for x, row in points:
        kind = "main" if _shows(row) == "roofline" else "second"
        chart.dot((x, median_of(row)), kind, f"{row.label}: {words.value(row)}, {x:.3g} FLOP/B", 4.2)
    return Plot("Measured roofline", _roofline_words(memory, flat), chart.svg(), wide=True)


def _draw_roofs(chart: Chart, memory: Roof, flat: Sequence[Roof]) -> None:
    top = max(roof.rate for roof in flat)
    for rate, peak, kind in ((memory.rate, top, "roof"), (memory.bound, max(roof.bound or roof.rate for roof in flat), "bound")):
        if rate:
            begin = max(chart.x.low, chart.y.low / rate)
            end = min(peak / rate, chart.x.high)
            chart.line([(begin, begin * rate), (end, end * rate)], kind)
    for roof in flat:
        for height, kind in ((roof.rate, "roof"), (roof.bound, "bound")):
            start = (height or 0.0) / (memory.bound if kind == "bound" and memory.bound else memory.rate)
            if height and start < chart.x.high:
                chart.line([(max(start, chart.x.low), height), (chart.x.high, height)], kind)
        chart.label((chart.x.high, roof.rate), f"{roof.name} {words.quantity(roof.rate, 'FLOP/s')}", "beside")
    along = max(chart.x.low, chart.y.low / memory.rate) * 2.2
    chart.label((along * 1.12, along * memory.rate / 1.25), f"{memory.name} {words.quantity(memory.rate, 'B/s')}")


def _roofline_words(memory: Roof, flat: Sequence[Roof]) -> str:
    ridges = [f"{roof.rate / memory.rate:.3g} FLOP/B for {roof.name}" for roof in flat if roof.vector == "fp32"]
    ridge = f" The ridge, where memory and arithmetic take equally long, lies at {ridges[0]}." if ridges else ""
    dashed = " Dashed: what the hardware allows." if memory.bound or any(roof.bound for roof in flat) else ""
    return f"Solid lines are the best median rates of this run; points are the cases.{dashed}{ridge}"


def _streams(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if _shows(row) == "memory"]


def _memory_roof(rows: Sequence[Row]) -> Roof | None:
    """The best rate of memory, of a stream or of arithmetic on one; the bound is a stream's."""
    streams = [row for row in _streams(rows) if _in_memory(row, rows)]
    best = max(streams, key=median_of, default=None)
    if best is None:
        return None
    joined = [median_of(row) / x for row in rows if _shows(row) == "roofline" and _of_memory(row) and (x := intensity(row))]
    return Roof("memory", max([median_of(best), *joined]), _bound(best))


def _of_memory(row: Row) -> bool:
    return row.gap.limiter in (MEMORY, f"bandwidth {MEMORY}")


def _in_memory(row: Row, rows: Sequence[Row]) -> bool:
    """Of the largest working set measured."""
    return size_of(row) == max(map(size_of, _streams(rows)), default=0.0)


def _flat_roofs(rows: Sequence[Row]) -> list[Roof]:
    """The best of each type of arithmetic, at most 5, highest first; of vector units also where arithmetic on a stream is faster."""
    best: dict[str, Row] = {}
    for row in rows:
        if _shows(row) in ("vector", "matrix") and row.result.unit == "FLOP/s":
            name = f"{row.case.workload} {row.case.params['dtype']}"
            if name not in best or median_of(row) > median_of(best[name]):
                best[name] = row
    found = [_flat_roof(name, row, rows) for name, row in best.items()]
    wanted = sorted(found, key=lambda roof: (not roof.vector, -roof.rate))[:5]
    return sorted(wanted, key=lambda roof: -roof.rate)


def _flat_roof(name: str, row: Row, rows: Sequence[Row]) -> Roof:
    vector = str(row.case.params["dtype"]) if _shows(row) == "vector" else ""
    joined = [one for one in rows if vector and _shows(one) == "roofline" and one.case.params["dtype"] == vector]
    fastest = max([row, *joined], key=median_of)
    shown = name if fastest is row else f"{fastest.case.workload} {vector}"
    return Roof(words.clean(shown), median_of(fastest), _bound(row), vector)


def _shows(row: Row) -> Shows:
    return work.traits(row.case.workload).shows


def _bound(row: Row) -> float | None:
    return row.gap.limit_value if row.gap.reference_kind == "bound" else None


def intensity(row: Row) -> float | None:
    """Operations per byte of compulsory memory traffic; None where either is nothing."""
    try:
        done = work.find(row.case.workload).work(row.case.params)
    except (HotlapError, KeyError):
        return None
    return done.total_operations / done.memory_bytes if done.memory_bytes and done.total_operations else None


def _operations(row: Row) -> float:
    return median_of(row) * (intensity(row) or 0.0)


# ---------------------------------------------------------------- working sets


def working_sets(rows: Sequence[Row], what: Literal["bandwidth", "latency"]) -> Plot | None:
    """Bandwidth of streams, or latency of the pointer chase, over the working set, with the levels that it shows."""
    series = _series(rows, "memory" if what == "bandwidth" else "load")
    if not series:
        return None
    unit = "B/s" if what == "bandwidth" else "s"
    everything = [row for members in series.values() for row in members]
    x = size_axis([size_of(row) for row in everything], size, "working set")
    ends = [end for row in everything for end in (median_of(row), row.summary.low, row.summary.high) if end]
    y = log_axis(ends, lambda v: words.quantity(v, unit, 1), margin=1.4)
    chart = Chart(x, y, f"{what} against working set")
    main = max(series, key=lambda name: len(series[name]))
    points = [(size_of(row), median_of(row)) for row in series[main]]
    levels = cache_levels(points, what) if len(points) >= ENOUGH else []
    _draw_levels(chart, levels, unit)
    for number, (name, members) in enumerate(series.items()):
        _draw_series(chart, name, members, f"s{number}" if name != main else "main", len(series) > 1)
    title = "Bandwidth against working set" if what == "bandwidth" else "Load latency against working set"
    return Plot(title, _levels_words(levels, main, unit), chart.svg())


def _series(rows: Sequence[Row], shows: Shows) -> dict[str, list[Row]]:
    """Rows that differ in size alone, smallest first; at least two sizes make a line, the longest lines first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if _shows(row) == shows and words.stands(row) and size_of(row) > 0 and median_of(row) > 0:
            rest = [str(v) for k, v in row.case.params.items() if k not in ("size", "hops") and (k, v) != ("cache", "warm")]
            found.setdefault(words.clean(" ".join(rest)) or row.case.workload, []).append(row)
    long = {name: sorted(members, key=size_of) for name, members in found.items() if len({size_of(r) for r in members}) > 1}
    return dict(sorted(long.items(), key=lambda item: -len(item[1]))[:SERIES])


def _draw_levels(chart: Chart, levels: Sequence[ModelLevel], unit: str) -> None:
    if len(levels) < 2:
        return
    for level in levels:
        last = level.capacity_bytes or chart.x.high
        chart.line([(max(level.first_bytes / 1.2, chart.x.low), level.value), (min(last, chart.x.high), level.value)], "level")
        middle = math.sqrt(level.first_bytes * min(max(level.last_bytes, level.first_bytes), chart.x.high))
        chart.label((middle, level.value), words.quantity(level.value, unit), "above", "middle")


def _draw_series(chart: Chart, name: str, rows: Sequence[Row], kind: str, named: bool) -> None:
    chart.line([(size_of(row), median_of(row)) for row in rows], kind)
    for row in rows:
        if row.summary.low and row.summary.high:
            chart.span(size_of(row), row.summary.low, row.summary.high, kind)
        chart.dot((size_of(row), median_of(row)), kind, f"{row.label}: {words.value(row)} {words.interval(row)}")
    if named:
        chart.label((size_of(rows[-1]), median_of(rows[-1])), name, f"{kind} below", "end")


def _levels_words(levels: Sequence[ModelLevel], name: str, unit: str) -> str:
    if not levels:
        return "Too few sizes to tell the levels of the memory hierarchy apart; the plan memory has more."
    if len(levels) == 1:
        return f"One level is seen by {name}: {words.quantity(levels[0].value, unit)}."
    said = [
        f"{words.quantity(level.value, unit)} up to about {size(_rounded(level.capacity_bytes))}" if level.capacity_bytes
        else f"{words.quantity(level.value, unit)} beyond"
        for level in levels
    ]
    return f"Levels seen by {name}: {'; '.join(said)}."


def _rounded(value: float) -> float:
    """To the nearest quarter of a power of two: a sweep cannot tell a capacity more finely."""
    base = 2.0 ** math.floor(math.log2(value))
    return base * round(value / base * 4) / 4
