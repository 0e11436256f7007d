"""A stress run's live lines and its report as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hotlap.judge.stress import DeviceVerdict, Judged, Skew, StressVerdict, span
from hotlap.judge.symptoms import REASONS
from hotlap.judge.throughput import Rate
from hotlap.record import Device
from hotlap.report import layout
from hotlap.report.layout import Cell, Column
from hotlap.units import percent, show
from hotlap.work.stress import ALLOWED, FILE, Tick

MANY = 2  # devices: beyond, those that pass have a line each
BLOCKS = "▁▂▃▄▅▆▇█"
STYLES = {"pass": "good", "fail": "bad", "inconclusive": "warn"}


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


def logged(tick: Tick, past_s: float, errors: int) -> str:
    """A line of a plain log: when, what runs and how fast, what the sensors show, errors so far."""
    said = [f"{past_s:.0f} s", rate(tick)]
    shown = tick.shown
    said += [show(shown["power_w"], "W")] if "power_w" in shown else []
    said += [f"{shown['temperature_c']:.0f} °C"] if "temperature_c" in shown else []
    said += [show(shown[clock], "Hz") for clock in ("clock_hz.sm", "clock_hz") if clock in shown][:1]
    held = [name for bit, name in REASONS.items() if int(shown.get("throttle", 0.0)) & bit and name != "idle"]
    said += [f"held by {' and '.join(held)}"] if held else []
    return ", ".join([*said, f"{errors} error{'s' * (errors != 1)}"])


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
    devices = dict(sorted(devices.items(), key=lambda pair: (pair[1].target, pair[1].index)))
    over = {key for key in devices if state.get(key) in ("ended", "lost", "limit")}  # what it showed last is no longer so
    last = {key: (ticks[key][-1] if ticks.get(key) else None) for key in devices}
    live = {key: None if key in over else t for key, t in last.items()}

    def cell(sensor: str, unit: str) -> list[Cell]:
        return [Cell(show(t.shown[sensor], unit) if t and sensor in t.shown else "–") for t in live.values()]

    def held(t: Tick | None, past: Sequence[Tick]) -> str:
        masks = [int(one.shown["throttle"]) for one in past if "throttle" in one.shown]
        return percent(sum(1 for m in masks if m & ~0x113) / len(masks)) if t and masks else "–"

    clock = "clock_hz.sm" if any(t and "clock_hz.sm" in t.shown for t in last.values()) else "clock_hz"
    heat = [Cell(f"{t.shown['temperature_c']:.0f}" if t and "temperature_c" in t.shown else "–") for t in live.values()]
    spark = [sparkline(_course(ticks.get(key, [])), 12) for key in devices]
    columns = [
        Column("device", [Cell(d.selector) for d in devices.values()]),
        Column("now", [Cell(state.get(key) or (t.phase if t else "starting")) for key, t in last.items()]),
        Column("power", cell("power_w", "W"), right=True),
        Column("clock", cell(clock, "Hz"), right=True),
        Column("°C", heat, right=True),
        Column("throughput", [Cell(rate(t) if t else "–") for t in live.values()], right=True),
        Column("held", [Cell(held(t, ticks.get(key, []))) for key, t in last.items()], right=True),
        Column("errors", [Cell(str(errors.get(key, 0)), "bad" if errors.get(key) else "") for key in devices], right=True),
        Column("", [Cell(s) for s in spark]),
    ]  # fmt: skip
    return layout.fitted(columns, width, ("", "held", "clock")).lines(False)


def report(found: StressVerdict, devices: Mapping[str, Device], width: int = 100, color: bool = False) -> str:
    """The verdict and what it rests on, a block per device."""
    lines: list[str] = []
    brief = [one for one in found.devices if one.state == "pass"] if len(found.devices) > MANY else []
    for one in found.devices:
        if one not in brief:
            lines += [*_device(one, devices, width, color), ""]
    for one in brief:
        lines += _brief(one, devices, width, color)
    lines += [""] if brief else []
    if found.skew:
        lines += [*layout.paragraph("pulses   ", together(found.skew), width), ""]
    if found.allowed:
        lines += [*layout.paragraph("allowed  ", allowed(found), width), ""]
    state = found.state.upper()
    first, *rest = layout.paragraph(f"{state}  ", found.reason, width)
    return "\n".join([*lines, layout.painted(state, STYLES.get(found.state, "dim"), color) + first.removeprefix(state), *rest])


def allowed(found: StressVerdict) -> str:
    """The violation budgets that a run was judged by, as `--allow` takes them."""
    return ", ".join(f"{name}={100 * v:g}%" if ALLOWED[name][0] == "share" else f"{name}={v:.0f}" for name, v in found.allowed.items())


def together(skew: Skew) -> str:
    """How well synchronised devices began their pulses together, in words."""
    apart = f"{show(skew.median_s, 's')} apart in the median, {show(skew.most_s, 's')} at most"
    return f"{skew.pulses} began on {skew.devices} devices {apart}"


def facts(one: DeviceVerdict) -> list[tuple[str, str]]:
    """What a device did and showed: name and words."""
    f = one.figures
    share = f["check_s"] / (f["busy_s"] + f["check_s"]) if f["busy_s"] + f["check_s"] else 0.0
    work = f"{f['units']:.0f} units, {f['checked']:.0f} checked, {show(f['flop'], 'FLOP')}, {show(f['moved_bytes'], 'B')} moved; "
    sampled = [f"{name} {percent(part)}" for name, part in one.throttling.items() if name != "idle" and name not in one.counted]
    counted = [f"{name} {percent(part)}" for name, part in one.throttling.items() if name in one.counted]
    cover = ", ".join(f"{n} {percent(s)}" for n, s in one.dtypes.items())
    found = [("time", span(f.get("seconds", 0.0))), ("work", f"{work}checks took {percent(share)}")]
    if "power_w.peak" in f:
        how = "" if f.get("energy_j.counted") else ", power over time"
        energy = f"; {show(f['energy_j'], 'J')}{how}" if "energy_j" in f else ""
        found.append(("power", f"peak {f['power_w.peak']:.0f} W, average {f['power_w.average']:.0f} W{energy}{_doubted(one, 'power_w')}"))
    if one.goal:
        found.append(("set point", one.goal))
    found.append(("power limit", one.reached))
    if "temperature_c.peak" in f:
        found.append(("temperature", f"peak {f['temperature_c.peak']:.0f} °C; {_heat(f)}{_doubted(one, 'temperature_c')}"))
    if sampled or counted:
        by_mask = [f"{', '.join(sampled)} of readings"] if sampled else []
        by_counter = [f"{', '.join(counted)} of the time, by the driver's counters"] if counted else []
        found.append(("held by", "; ".join([*by_counter, *by_mask])))
    if cover:
        found.append(("checksum", f"sees this share of bit flips alone, the rest is for the repeat: {cover}"))
    return found


def _doubted(one: DeviceVerdict, sensor: str) -> str:
    """A word where a finding says that this sensor is not to be believed."""
    kinds = [x.title.partition(" sensor: ")[0] for x in one.findings if x.title.endswith(f"sensor: {sensor}")]
    return f" (of a {kinds[0].replace('nonsense from', 'lying')} sensor: only until then)" if kinds else ""


def signed(share: float) -> str:
    """A change in per cent; one that rounds to nothing has no minus."""
    return f"{round(share, 3) + 0.0:+.1%}"


def _heat(f: Mapping[str, float]) -> str:
    if "temperature_c.rise" not in f:
        return "too few readings to tell whether it is steady"
    return "steady at the end" if f.get("thermal.steady") else f"still moving: {f['temperature_c.rise']:+.1f} °C over the last third"


def _brief(one: DeviceVerdict, devices: Mapping[str, Device], width: int, color: bool) -> list[str]:
    """One that passed among many: what it did and drew; --json and the page have all of it."""
    f, device = one.figures, devices.get(one.device)
    said = [span(f.get("seconds", 0.0)), f"{f['checked']:.0f} units checked"]
    said += [f"{f['power_w.peak']:.0f} W peak"] if "power_w.peak" in f else []
    said += [f"{f['temperature_c.peak']:.0f} °C peak"] if "temperature_c.peak" in f else []
    best = max((r for r in one.rates if r.unit == "FLOP/s"), key=lambda r: r.sustained, default=None)
    said += [f"{best.kind.removeprefix('products ')} {show(best.sustained, best.unit)}"] if best else []
    name = device.selector if device else one.device
    first, *rest = layout.paragraph(f"{name}: pass  ", ", ".join(said), width)
    return [first.replace(": pass", f": {layout.painted('pass', 'good', color)}", 1), *rest]


def _device(one: DeviceVerdict, devices: Mapping[str, Device], width: int, color: bool) -> list[str]:
    device = devices.get(one.device)
    name = f"{device.selector} {device.name}" if device else one.device
    lines = [f"{name}: {layout.painted(one.state, STYLES.get(one.state, 'dim'), color)}"]
    for what, text in facts(one):
        lines += layout.paragraph(f"  {what:<13}", text, width)
    if one.rates:
        lines += ["", *_rates(one.rates, width, color)]
    if one.findings:
        lines.append("")
    for finding in one.findings:
        more = f" → {finding.action}" if finding.action else ""
        lines += layout.paragraph(f"  {'!' if finding.severity != 'info' else '·'} ", f"{finding.title}: {finding.detail}{more}", width)
    for wrong in one.wrong[:5]:
        bits = f"bit{'s' * (len(wrong.bits) != 1)} {', '.join(map(str, wrong.bits))}"
        text = f"{wrong.unit}, {wrong.place}: expected {wrong.expected}, got {wrong.got}, {bits}, {wrong.kind}, by {wrong.by}"
        lines += layout.paragraph("    ", text, width)
    return lines


def _changed(one: Rate) -> Cell:
    return Cell("–" if one.change is None else signed(one.change), "bad" if one.falls else "")


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
        Column("change", [_changed(one) for one in found], right=True),
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


def devices(found: Judged) -> dict[str, Device]:
    """The devices of the run by their keys."""
    run = found.bundle.run
    return {d.key: d for d in run.machine.devices if d.key in run.devices}


def torn(found: Judged) -> list[str]:
    """A warning where lines could not be read."""
    n = found.torn
    return [f"{n} line{'s' * (n > 1)} of {FILE} {'are' if n > 1 else 'is'} torn and left out"] if n else []
