"""A stress run as part of a page: the verdict and what it rests on, rates by kind of unit, and what sensors said over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Device
from hotlap.core.show import charts, telemetry, words
from hotlap.core.show.bands import BINS, Band, Time, bands, figure, range_said, sensor_chart
from hotlap.core.show.sections.base import facts
from hotlap.core.show.table import Cell, Column, Table, html
from hotlap.core.stats.energy import Energy
from hotlap.core.store.bundle import Bundle
from hotlap.stress import show as stress
from hotlap.stress.record import Tick
from hotlap.stress.throughput import PICTURES, Rate
from hotlap.stress.verdict import DeviceVerdict, StressRun, StressVerdict, span

Floats = NDArray[np.float64]
DRAWN = (  # sensors, the first that is there; unit, name, whether the axis begins at zero
    (("power_w", "power_w.package-0"), "W", "Power", True),
    (("clock_hz.sm", "clock_hz"), "Hz", "Clock", True),
    (("temperature_c", "temperature_c.package-0"), "°C", "Temperature", False),
)
ALWAYS = 4  # columns of the table of rates after the first that are shown even where nothing is known: peak, sustained, change, spread
LANE, FULL = 24.0, 0.25  # of the throughput chart: height in pixels, and room above a kind's fastest, where its line is


def lead(judged: StressRun) -> str:
    """The verdict in a sentence, then findings with what to do: of devices that fail first, and each but once."""
    verdict, known = judged.verdict, stress.devices(judged)
    items, actions = list[str](), dict[str, list[str]]()
    for (severity, title, detail, action), names in _findings(verdict, known):
        where = f"{words.some(names, 4)}: " if len(verdict.devices) > 1 else ""
        items.append(f'<li class="{severity}"><b>{escape(where + title)}</b><span>{escape(detail)}</span></li>')
        if action and severity != "info":
            actions.setdefault(action, []).extend(names)
    said = f'<b class="state {stress.CLASSES.get(verdict.state, "")}">{verdict.state.upper()}</b> {escape(stress.because(verdict))}.'
    warned = "".join(f'<p class="note">{escape(text)}</p>' for text in stress.torn(judged))
    top = f'<p class="lead">{said}</p><p class="sub">{escape(_span(judged))}</p>{warned}'
    if not items:
        return top
    todo = "".join(
        f"<li>{escape((f'{words.some(list(dict.fromkeys(names)), 4)}: ' if len(verdict.devices) > 1 else '') + action)}</li>"
        for action, names in actions.items()
    )
    done = f'<ol class="actions">{todo}</ol>' if todo else "<p>Nothing.</p>"
    return (
        f'{top}<div class="columns"><div><h3>What was found</h3><ul class="findings">{"".join(items)}'
        f"</ul></div><div><h3>What to do</h3>{done}</div></div>"
    )


def _findings(verdict: StressVerdict, known: Mapping[str, Device]) -> list[tuple[tuple[str, str, str, str], list[str]]]:
    """Severity, title, detail and action of each finding with its devices; errors first."""
    by: dict[tuple[str, str, str, str], list[str]] = {}
    for one in stress.worst_first(verdict):
        for f in one.findings:
            key = (f.severity, stress.named(f.title), stress.named(f.detail), f.action)
            by.setdefault(key, []).append(known[one.device].shown if one.device in known else one.device)
    return sorted(by.items(), key=lambda pair: ("error", "warning", "info").index(pair[0][0]))


def _span(judged: StressRun) -> str:
    """How many devices, how long they were under load, and the energy that it took."""
    seconds = [one.figures.get("seconds", 0.0) for one in judged.verdict.devices]
    spent = [one.joules for one in telemetry.energies(judged.bundle).values() if one.joules]
    energy = telemetry.value("energy_j", sum(spent)) if spent and len(spent) == len(seconds) else ""
    virtual = "virtual time" if judged.bundle.run.target.startswith("simulated") else ""
    load = f"{span(max(seconds, default=0.0))} under load{f' ({virtual})' if virtual else ''}"
    return " · ".join(filter(None, (words.counted(len(seconds), "device"), load, energy)))


def section(judged: StressRun) -> str:
    """Per device, the worst first: what it did, rates by kind of unit, wrong results, and charts. Of many, those that pass unfold."""
    drawable, known, spent = bands(judged.bundle), stress.devices(judged), telemetry.energies(judged.bundle)
    several, folded = len(judged.verdict.devices) > 1, stress.passing(judged.verdict)
    parts = [_overview(judged, known)] if several else []
    for verdict in stress.worst_first(judged.verdict):
        device = known.get(verdict.device)
        ticks = [x for x in judged.lines if isinstance(x, Tick) and x.device == verdict.device]
        name = f"{device.selector} {device.name}" if device else verdict.device
        drawn = _charts(verdict, device, ticks, {sensor: band for (key, sensor), band in drawable.items() if key == verdict.device})
        state = f'<span class="state {stress.CLASSES.get(verdict.state, "")}">{escape(verdict.state)}</span>'
        figures = f"{_facts(verdict, spent.get(verdict.device))}{_rates(verdict.rates)}{_wrong(judged.verdict.run, verdict)}"
        body = f'{figures}<div class="plots">{drawn}</div>'
        if verdict in folded:
            parts.append(f"<details><summary>{escape(name)}: {state}</summary>{body}</details>")
        else:
            parts.append(f"<h3>{escape(name)}: {state}</h3>{body}")
    together = [f"<p>Pulses: {escape(stress.together(judged.verdict.skew))}.</p>"] if judged.verdict.skew else []
    budgets = [f'<p class="note">Allowed: {escape(stress.allowed(judged.verdict))}.</p>'] if judged.verdict.allowed else []
    return "".join([*parts, *together, *budgets])


def _overview(judged: StressRun, known: Mapping[str, Device]) -> str:
    """A row per device, the worst first."""
    return html(Table(stress.device_columns(stress.worst_first(judged.verdict), known)))


def notices(judged: StressRun) -> str:
    """What the verdict does not rest on: sensors that were not read, work that was not done, figures that nothing is known for."""
    by_text: dict[str, list[str]] = {}
    known = stress.devices(judged)
    for one in judged.verdict.devices:
        name = known[one.device].shown if one.device in known else one.device
        for text in _doubted(one, judged.bundle):
            by_text.setdefault(text, []).append(name)
    count = len(judged.verdict.devices)
    items = [f"{text} ({words.some(names, 4)})" if len(names) < count else text for text, names in by_text.items()]
    items = [*(notice.text for notice in judged.bundle.notices), *stress.torn(judged), *items]
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in items) + "</ul>" if items else "<p>None.</p>"


def _doubted(device: DeviceVerdict, bundle: Bundle) -> list[str]:
    """The notices of one device in words."""
    texts = [stress.named(f"{f.title}: {f.detail}") for f in device.findings if f.severity != "error"]
    if not device.reached.startswith("reached"):
        texts += [f"power limit: {device.reached}"] * bool(device.reached)
    if "temperature_c.peak" in device.figures and not device.figures.get("thermal.steady"):
        moving = "temperature_c.rise" in device.figures
        texts.append(f"temperature: {'still moving when the load ended' if moving else 'too short to tell whether it is steady'}")
    for why in dict.fromkeys(r.no_limit for r in device.rates if r.no_limit):
        kinds = ", ".join(stress.named(r.kind) for r in device.rates if r.no_limit == why)
        texts.append(f"nothing to hold {kinds} against: {why}")
    if few := [stress.named(r.kind) for r in device.rates if r.change is None]:
        texts.append(f"too few ticks to see a trend of {', '.join(few)}")
    failed = dict.fromkeys((r.sensor, r.reason) for r in bundle.readings if r.device == device.device and r.status != "ok")
    return texts + [f"sensor {sensor} was not read at times or at all: {reason}" for sensor, reason in failed]


NARROW = 5  # columns of wrong results for which a phone has room
LISTED = 20  # wrong results of a device that the page lists
METHOD = (
    "Each device has a process of its own that does units of work one after another and checks every one: a GEMM by the sums of its rows "
    "and columns, computed apart from it in fp64, and bit by bit against the first; memory and copies by what was written. A tick is about "
    "a second of it. Throughput is of the time in which a kind of unit ran, checks aside, and never blended over kinds: sustained is "
    "the median of the second half of its ticks, change from the first quarter of its ticks to the last, "
    "spread the scatter of its ticks. Sensors are read beside "
    "the load. The verdict is fail where a result was wrong, the device erred, stopped or lost throughput beyond what is allowed; "
    "inconclusive where too little was done, checked or read to say; pass only for work that was checked."
)


def _facts(device: DeviceVerdict, spent: Energy | None) -> str:
    return facts(stress.facts(device, spent))


def _rates(rates: Sequence[Rate]) -> str:
    """Without columns of shares in which nothing is known."""
    columns = [column for n, column in enumerate(stress.rate_columns(rates)) if n <= ALWAYS or any(text != "–" for text in column.texts)]
    return html(Table(columns)) if rates else ""


def _wrong(run: str, device: DeviceVerdict) -> str:
    if not device.wrong:
        return ""
    rows = [(stress.named(w.unit), w.place, w.expected, w.got, ", ".join(map(str, w.bits)), w.kind, w.by) for w in device.wrong[:LISTED]]
    heads = ("wrong result in", "at", "expected", "got", "bits", "kind", "found by")
    columns = [Column(head, [Cell(row[n]) for row in rows], kind="" if n < NARROW else "spare") for n, head in enumerate(heads)]
    more = stress.unlisted(run, device, LISTED)
    return html(Table(columns), "wrong") + (f"<p>{escape(more)}</p>" if more else "")


# ---------------------------------------------------------------- charts


def _charts(verdict: DeviceVerdict, device: Device | None, ticks: Sequence[Tick], bands: dict[str, Band]) -> str:
    spans = [band.times_s for band in bands.values()] + ([np.array([x.time_s for x in ticks])] if ticks else [])
    if not spans:
        return ""
    axis = Time(min(float(s[0]) for s in spans), max(float(s[-1]) for s in spans))
    figures = [_throughput(verdict, ticks, axis)] if ticks and verdict.rates else []
    for sensors, unit, name, zero in DRAWN:
        band = next((bands[sensor] for sensor in sensors if sensor in bands and len(bands[sensor].times_s) > 1), None)
        if band:
            limit = verdict.figures.get("power_limit_w") if unit == "W" else None
            figures.append(figure(name, range_said(band, unit), sensor_chart(band, name, unit, zero, limit, axis)))
    return "".join(figures)


def _throughput(device: DeviceVerdict, ticks: Sequence[Tick], time: Time) -> str:
    """A lane per kind and a dot per tick, as a share of the kind's fastest."""
    points: dict[str, list[tuple[float, float]]] = {r.kind: [] for r in device.rates if r.sustained}
    for tick in ticks:
        for kind, done in tick.parts().items():
            if kind in points and done.busy_s > 0 and done.amount:
                points[kind].append((time.at(tick.time_s), done.amount / done.busy_s))
    kinds = [kind for kind, some in points.items() if some]
    if not kinds:
        return ""
    tops = {kind: max(v for _, v in points[kind]) for kind in kinds}
    least = min(v / tops[kind] for kind in kinds for _, v in points[kind])
    low = 0.5 if least >= 0.5 else 0.0
    names = {len(kinds) - n - FULL: stress.named(kind).removeprefix("GEMM ").removeprefix(PICTURES) for n, kind in enumerate(kinds)}
    axis = charts.Axis(0.0, float(len(kinds)), lambda place: names[place], "", False, tuple(names))
    chart = charts.Chart(time.axis, axis, "throughput over time", height=charts.TOP + charts.BOTTOM + LANE * len(kinds))
    for n, kind in enumerate(kinds):
        step = max(1, len(points[kind]) // BINS)
        base = len(kinds) - n - 1
        chart.dots([(t, base + (1 - FULL) * (v / tops[kind] - low) / (1 - low)) for t, v in points[kind][::step]], "main")
    about = f"a lane per kind: its line is its fastest, the one below {100 * low:.0f} % of it; a dot is a second or so"
    return figure("Throughput", about, chart)
