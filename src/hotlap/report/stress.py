"""A stress run's live lines, its report as text, and its section of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from hotlap.judge.stress import DeviceVerdict, StressVerdict
from hotlap.judge.throughput import Rate
from hotlap.record import Device, Readings
from hotlap.report import charts, layout
from hotlap.report.layout import Cell, Column
from hotlap.units import percent, show
from hotlap.work.stress import Tick

BLOCKS = "▁▂▃▄▅▆▇█"
STYLES = {"pass": "good", "fail": "bad", "inconclusive": "warn"}
DRAWN = (("power_w", "W", "power"), ("clock_hz.sm", "Hz", "clock"), ("temperature_c", "°C", "temperature"))
MOST = 600  # points of a line


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as blocks between the lowest and the highest; a flat one in the middle."""
    last = [v for v in values[-width:] if math.isfinite(v)]
    if not last:
        return ""
    low, high = min(last), max(last)
    return "".join(BLOCKS[int((v - low) / (high - low) * 7.999)] if high > low * 1.001 else BLOCKS[3] for v in last)


def rate(tick: Tick) -> str:
    """Throughput while busy of the unit that ran last, with its name; or idle."""
    done = tick.parts().get(tick.unit) or next(reversed(list(tick.parts().values())), None)
    if done is None or done.busy_s <= 0:
        return "idle"
    name = (tick.unit or tick.phase).removeprefix("products ")
    value = (
        show(done.flop / done.busy_s, "FLOP/s") if done.flop else show(done.moved_bytes / done.busy_s, "B/s") if done.moved_bytes else ""
    )
    return f"{name} {value}".strip()


def _course(ticks: Sequence[Tick]) -> list[float]:
    """Rates of the kind that ran last, tick by tick: those of others would be steps that are none."""
    if not ticks:
        return []
    parts = [tick.parts().get(ticks[-1].unit or ticks[-1].phase) for tick in ticks]
    return [(done.flop or done.moved_bytes) / done.busy_s for done in parts if done and done.busy_s > 0]


def rows(
    devices: Mapping[str, Device], ticks: Mapping[str, Sequence[Tick]], errors: Mapping[str, int], state: Mapping[str, str], width: int
) -> list[str]:
    """One row per device: what it does and shows now."""
    last = {key: (ticks[key][-1] if ticks.get(key) else None) for key in devices}

    def cell(sensor: str, unit: str) -> list[Cell]:
        return [Cell(show(t.shown[sensor], unit) if t and sensor in t.shown else "–") for t in last.values()]

    def held(t: Tick | None, past: Sequence[Tick]) -> str:
        masks = [int(one.shown["throttle"]) for one in past if "throttle" in one.shown]
        return percent(sum(1 for m in masks if m & ~0x113) / len(masks)) if t and masks else "–"

    clock = "clock_hz.sm" if any(t and "clock_hz.sm" in t.shown for t in last.values()) else "clock_hz"
    heat = [Cell(f"{t.shown['temperature_c']:.0f}" if t and "temperature_c" in t.shown else "–") for t in last.values()]
    spark = [sparkline(_course(ticks.get(key, [])), 12) for key in devices]
    columns = [
        Column("device", [Cell(d.selector) for d in devices.values()]),
        Column("now", [Cell(state.get(key) or (t.phase if t else "starting")) for key, t in last.items()]),
        Column("power", cell("power_w", "W"), right=True),
        Column("clock", cell(clock, "Hz"), right=True),
        Column("°C", heat, right=True),
        Column("throughput", [Cell(rate(t) if t else "–") for t in last.values()], right=True),
        Column("held", [Cell(held(t, ticks.get(key, []))) for key, t in last.items()], right=True),
        Column("errors", [Cell(str(errors.get(key, 0)), "bad" if errors.get(key) else "") for key in devices], right=True),
        Column("", [Cell(s) for s in spark]),
    ]  # fmt: skip
    return layout.fitted(columns, width, ("", "held", "clock")).lines(False)


def report(found: StressVerdict, devices: Mapping[str, Device], width: int = 100, color: bool = False) -> str:
    """The verdict and what it rests on, a block per device."""
    lines: list[str] = []
    for one in found.devices:
        lines += [*_device(one, devices, width, color), ""]
    head = layout.painted(found.state.upper(), STYLES.get(found.state, "dim"), color)
    return "\n".join([*lines, f"{head}  {found.reason}"])


def _device(one: DeviceVerdict, devices: Mapping[str, Device], width: int, color: bool) -> list[str]:
    device, f = devices.get(one.device), one.figures
    name = f"{device.selector}  {device.name}" if device else one.device
    lines = [f"{name}: {layout.painted(one.state, STYLES.get(one.state, 'dim'), color)}"]

    def said(what: str, text: str) -> None:
        lines.extend(layout.paragraph(f"  {what:<14}", text, width))

    share = f["check_s"] / (f["busy_s"] + f["check_s"]) if f["busy_s"] + f["check_s"] else 0.0
    said(
        "work",
        f"{f['units']:.0f} units, {f['checked']:.0f} checked, {show(f['flop'], 'FLOP')}, {show(f['moved_bytes'], 'B')} moved; "
        f"checks took {percent(share)}",
    )
    lines += _rates(one.rates, width, color)
    if "power_w.peak" in f:
        said("power", f"peak {f['power_w.peak']:.0f} W, average {f['power_w.average']:.0f} W")
    if "temperature_c.peak" in f:
        steady = (
            "steady at the end"
            if f.get("thermal.steady")
            else f"still moving: {f['temperature_c.rise']:+.1f} °C over the last third"
            if "temperature_c.rise" in f
            else "too short to tell"
        )
        said("temperature", f"peak {f['temperature_c.peak']:.0f} °C; {steady}")
    if one.throttling:
        said("held by", ", ".join(f"{name} {percent(share)}" for name, share in one.throttling.items() if name != "idle") or "nothing")
    said("power limit", one.reached)
    if one.dtypes:
        said(
            "checksum",
            "sees this share of bit flips alone, the rest is for the repeat: "
            + ", ".join(f"{n} {percent(s)}" for n, s in one.dtypes.items()),
        )
    for finding in one.findings:
        more = f" → {finding.action}" if finding.action else ""
        lines += layout.paragraph(f"  {'!' if finding.severity != 'info' else '·'} ", f"{finding.title}: {finding.detail}{more}", width)
    for wrong in one.wrong[:5]:
        lines += layout.paragraph(
            "    ",
            f"{wrong.unit}, {wrong.place}: expected {wrong.expected}, got {wrong.got}, bits {wrong.bits}, {wrong.kind}, by {wrong.by}",
            width,
        )
    return lines


def _rates(found: Sequence[Rate], width: int, color: bool) -> list[str]:
    """A row per kind of unit: how fast, how steady, and beside what."""
    if not found:
        return []

    def share(value: float, of: float | None) -> Cell:
        return Cell(percent(value / of) if of else "–")

    columns = [
        Column("  throughput", [Cell(f"  {one.kind}") for one in found]),
        Column("peak", [Cell(show(one.peak, one.unit)) for one in found], right=True),
        Column("sustained", [Cell(show(one.sustained, one.unit)) for one in found], right=True),
        Column("slope", [Cell("–" if one.slope is None else f"{one.slope:+.1%}", "bad" if one.falls else "") for one in found], right=True),
        Column("spread", [Cell("–" if one.spread is None else f"±{one.spread:.1%}") for one in found], right=True),
        Column("of bound", [share(one.sustained, one.bound) for one in found], right=True),
        Column("of expected", [share(one.sustained, one.expected) for one in found], right=True),
    ]  # fmt: skip
    if any(one.reference for one in found):
        columns.append(Column("of reference", [share(one.sustained, one.reference) for one in found], right=True))
    lines = layout.fitted(columns, width, ("spread", "of expected", "peak")).lines(color)
    why = dict.fromkeys(one.no_limit for one in found if one.no_limit)
    for reason in why:
        kinds = ", ".join(one.kind for one in found if one.no_limit == reason)
        lines += layout.paragraph("  · ", f"no bound of {kinds}: {reason}", width)
    return lines


def section(found: StressVerdict, devices: Mapping[str, Device], ticks: Sequence[Tick], readings: Sequence[Readings]) -> str:
    """HTML: the report, and per device a chart each of throughput, power, clock and temperature over time."""
    parts = [f"<pre>{escape(report(found, devices, 100))}</pre>"]
    for key, device in devices.items():
        curves = {"throughput": ("FLOP/s", [(t.time_s, t.flop / t.busy_s) for t in ticks if t.device == key and t.flop and t.busy_s > 0])}
        for sensor, unit, name in DRAWN:
            some = [r for r in readings if r.sensor == sensor and r.device == key]
            curves[name] = (unit, [(t, v) for r in some for t, v in zip(r.times_s, r.values, strict=True) if v is not None])
        for name, (unit, points) in curves.items():
            if len(points) > 1:
                parts.append(f"<h3>{escape(device.selector)}: {name}</h3>{_chart(name, unit, points)}")
    return "\n".join(parts)


def _chart(name: str, unit: str, points: Sequence[tuple[float, float]]) -> str:
    step = max(1, len(points) // MOST)
    kept = [(t - points[0][0], v) for t, v in points[::step]]
    values = [v for _, v in kept]

    def written(v: float) -> str:
        return f"{v:.0f} °C" if unit == "°C" else show(v, unit)

    x = charts.linear_axis(kept[0][0], kept[-1][0], lambda v: f"{v:.0f} s", "time")
    chart = charts.Chart(x, charts.linear_axis(min(0.0, *values), max(values), written, name), f"{name} over time", height=180.0)
    chart.line(kept, "s0")
    return chart.svg()
