"""A stress run as part of a page: the verdict and what it rests on, rates by kind of unit, and what sensors said over time."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.judge.stress import DeviceVerdict, Judged
from hotlap.judge.throughput import Rate
from hotlap.record import Device
from hotlap.report import charts, stress
from hotlap.store import chunks
from hotlap.store.bundle import Bundle
from hotlap.units import percent, show
from hotlap.work.stress import Tick

Floats = NDArray[np.float64]
BINS = 320  # stretches of a chart: what its pixels can show
DRAWN = (  # sensors, the first that is there; unit, name, whether the axis begins at zero
    (("power_w", "power_w.package-0"), "W", "Power", True),
    (("clock_hz.sm", "clock_hz"), "Hz", "Clock", True),
    (("temperature_c", "temperature_c.package-0"), "°C", "Temperature", False),
)
SERIES = 6  # colours of the style sheet
SEVERITY = {"fail": "error", "inconclusive": "warning", "pass": "info"}


class Band(NamedTuple):
    """Stretches of a sensor: the middle of each, least, mean and highest."""

    times_s: Floats
    low: Floats
    mean: Floats
    high: Floats


def lead(found: Judged) -> str:
    """The verdict in a sentence, then findings with what to do, worst first."""
    verdict = found.verdict
    items, actions = [], []
    for one in verdict.devices:
        device = stress.devices(found).get(one.device)
        where = f"{device.selector}: " if device and len(verdict.devices) > 1 else ""
        for finding in sorted(one.findings, key=lambda f: ("error", "warning", "info").index(f.severity)):
            items.append(f'<li class="{finding.severity}"><b>{escape(where + finding.title)}</b><span>{escape(finding.detail)}</span></li>')
            if finding.action and finding.severity != "info":
                actions.append(f"<li>{escape(where + finding.action)}</li>")
    said = f"{verdict.state.capitalize()}: {verdict.reason}."
    warned = "".join(f'<p class="note">{escape(text)}</p>' for text in stress.torn(found))
    if not items:
        return f'<p class="lead">{escape(said)}</p>{warned}'
    todo = f'<ol class="actions">{"".join(actions)}</ol>' if actions else "<p>Nothing.</p>"
    return (
        f'<p class="lead">{escape(said)}</p>{warned}<div class="columns"><div><h3>What was found</h3><ul class="findings">{"".join(items)}'
        f"</ul></div><div><h3>What to do</h3>{todo}</div></div>"
    )


def section(found: Judged) -> str:
    """Per device: what it did, rates by kind of unit, wrong results, and charts over time."""
    drawable = bands(found.bundle)
    parts = []
    for one in found.verdict.devices:
        device = stress.devices(found).get(one.device)
        ticks = [x for x in found.lines if isinstance(x, Tick) and x.device == one.device]
        name = f"{device.selector} {device.name}" if device else one.device
        drawn = _charts(one, device, ticks, {sensor: band for (key, sensor), band in drawable.items() if key == one.device})
        head = f'<h3>{escape(name)}: <span class="state {_state(one)}">{escape(one.state)}</span></h3>'
        parts += [head, _facts(one), _rates(one.rates), _wrong(one), f'<div class="plots">{drawn}</div>']
    together = [f"<p>Pulses: {escape(stress.together(found.verdict.skew))}.</p>"] if found.verdict.skew else []
    budgets = [f'<p class="note">Allowed: {escape(stress.allowed(found.verdict))}.</p>'] if found.verdict.allowed else []
    return "".join([*parts, *together, *budgets])


def _state(one: DeviceVerdict) -> str:
    return {"fail": "error", "inconclusive": "inconclusive"}.get(one.state, "")


def _facts(one: DeviceVerdict) -> str:
    rows = [(name, said) for name, said in stress.facts(one) if said]
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>" for name, said in rows) + "</dl>"


def _rates(found: Sequence[Rate]) -> str:
    if not found:
        return ""
    heads = ["peak", "sustained", "change", "spread", "of bound", "of expected", "of reference"]
    rows = [_cells(r) for r in found]
    kept = [n for n in range(len(heads)) if n < 4 or any(row[n] != "–" for row in rows)]
    head = "".join(f'<th class="n">{heads[n]}</th>' for n in kept)
    body = "".join(
        f"<tr><th>{escape(r.kind)}</th>{''.join(f'<td class=n>{escape(row[n])}</td>' for n in kept)}</tr>"
        for r, row in zip(found, rows, strict=True)
    )
    return f'<div class="scroll"><table><thead><tr><th>throughput</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(r: Rate) -> list[str]:
    course = ["–" if r.change is None else stress.signed(r.change), "–" if r.spread is None else f"±{r.spread:.1%}"]
    shares = [percent(r.sustained / of) if of else "–" for of in (r.bound, r.expected, r.reference)]
    return [show(r.peak, r.unit), show(r.sustained, r.unit), *course, *shares]


def _wrong(one: DeviceVerdict) -> str:
    if not one.wrong:
        return ""
    rows = "".join(
        f"<tr><td>{escape(w.unit)}</td><td>{escape(w.place)}</td><td><code>{escape(w.expected)}</code></td><td><code>{escape(w.got)}</code></td>"
        f"<td>{', '.join(map(str, w.bits))}</td><td>{w.kind}</td><td>{w.by}</td></tr>"
        for w in one.wrong
    )
    head = "".join(f"<th>{name}</th>" for name in ("wrong result in", "at", "expected", "got", "bits", "kind", "found by"))
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


# ---------------------------------------------------------------- charts


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


def _charts(one: DeviceVerdict, device: Device | None, ticks: Sequence[Tick], bands: dict[str, Band]) -> str:
    spans = [band.times_s for band in bands.values()] + ([np.array([x.time_s for x in ticks])] if ticks else [])
    if not spans:
        return ""
    axis = Time(min(float(s[0]) for s in spans), max(float(s[-1]) for s in spans))
    figures = [_throughput(one, ticks, axis)] if ticks and one.rates else []
    for sensors, unit, name, zero in DRAWN:
        band = next((bands[sensor] for sensor in sensors if sensor in bands and len(bands[sensor].times_s) > 1), None)
        if band:
            limit = one.figures.get("power_limit_w") if unit == "W" else None
            figures.append(figure(name, range_said(band, unit), sensor_chart(band, name, unit, zero, limit, axis)))
    return "".join(figures)


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
        return f"{value:.0%}"
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


def _throughput(one: DeviceVerdict, ticks: Sequence[Tick], time: Time) -> str:
    """A dot per tick and kind, as a share of what that kind sustained."""
    sustained = {r.kind: r.sustained for r in one.rates if r.sustained}
    points: dict[str, list[tuple[float, float]]] = {kind: [] for kind in sustained}
    for tick in ticks:
        for kind, done in tick.parts().items():
            if kind in points and done.busy_s > 0.05:
                points[kind].append((time.at(tick.time_s), (done.flop or done.moved_bytes) / done.busy_s / sustained[kind]))
    shares = [v for some in points.values() for _, v in some]
    if not shares:
        return ""
    y = charts.linear_axis(min(0.8, *shares), max(1.1, *shares), lambda v: f"{v:.0%}", most=4)
    chart = charts.Chart(time.axis, y, "throughput over time", height=210.0)
    legend = []
    for number, (kind, some) in enumerate(points.items()):
        step = max(1, len(some) // BINS)
        chart.dots(some[::step], f"s{number % SERIES}")
        legend.append(f'<span class="key s{number % SERIES}">{escape(kind.removeprefix("products "))}</span>')
    return figure("Throughput", "of what each kind sustained; a dot is a tick of about a second", chart, " ".join(legend))


def figure(name: str, about: str, chart: charts.Chart, legend: str = "") -> str:
    caption = f'<b>{escape(name)}</b>{escape(about)}<span class="keys">{legend}</span>'
    return f"<figure><figcaption>{caption}</figcaption>{chart.svg()}</figure>"
