"""How a stress run was conducted: whether what was asked was held, whether all of it ran, and what else the host was doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hotlap.core.analysis import power_limit as core_limit
from hotlap.core.analysis.catalogue import Findings
from hotlap.core.analysis.symptoms import Columns, plausible
from hotlap.core.record import Device
from hotlap.core.units import percent, show
from hotlap.stress.record import Happened, Tick
from hotlap.stress.throughput import BEYOND, FASTER, Rate

POWER_OFF, HEAT_OFF_C = 0.05, 2.0  # by which a set point may be missed on average, once it was reached
HELD = 0.5  # share of the stretches after that which lie within twice as much
STRETCH_S = 10.0  # over which readings are averaged: a duty cycle is on and off within a fraction of a second
BELOW = 0.9  # of the power limit: what the driver's power cap holds below that, another limit holds
UNSTEADY = 0.2  # spread of ticks, as a share of their median
PRESSURE = 0.25  # share of the time in which some task waited for a processor


def set_point(events: Sequence[Happened], shown: Columns, findings: Findings) -> str:
    """How well a power or temperature that was asked for was held, in words; "" where none was. Missed, the verdict stays open."""
    goals = {name: value for x in events if x.what == "began" for name, value in x.numbers.items() if name.startswith("goal.")}
    if not goals:
        return ""
    name, goal = next(iter(goals.items()))
    sensor = name.removeprefix("goal.")
    power = sensor == "power_w"
    unit, off = ("W", POWER_OFF * goal) if power else ("°C", HEAT_OFF_C)
    may = f"{200 * POWER_OFF:.0f} %" if power else f"{2 * HEAT_OFF_C:g} °C"
    times, values = plausible(shown, sensor)
    if len(times) < 2:
        return f"{goal:g} {unit} asked; not known whether it was held: no reading"
    stretch_s = min(STRETCH_S, max(1.0, float(np.ptp(times)) / 10))
    bins = ((times - times[0]) / stretch_s).astype(int)
    means = np.bincount(bins, values)[np.unique(bins)] / np.bincount(bins)[np.unique(bins)]
    near = np.abs(means - goal) <= 2 * off
    since = int(np.argmax(near)) if near.any() else 0
    share, mean = float(np.mean(near[since:])), float(np.mean(means[since:]))
    goal_text = f"{goal:g} {unit} asked"
    if near.any() and share >= HELD and abs(mean - goal) <= off:
        return (
            f"{goal_text}; means over {stretch_s:.0f} s held within {may} for {percent(share)} of the time after "
            f"{since * stretch_s:.0f} s, {mean:.4g} {unit} on average"
        )
    goal_text += f"; {mean:.4g} {unit} on average, within {may} for {percent(float(np.mean(near)))} of the time"
    side = "lower it" if mean < goal else "raise it, or leave idle phases out"
    findings.add("set point not held", goal_text, "open", f"ask for what the card can hold: {side}")
    return f"not held: {goal_text}"


def reaction(events: Sequence[Happened], shown: Columns) -> str:
    """How soon after the first reading beyond a limit that was asked the load stopped, in words; "" where it did not stop by one."""
    asked = {name: value for x in events if x.what == "began" for name, value in x.numbers.items() if name.startswith("max.")}
    stopped = next((x.time_s for x in events if x.what == "limit" and not x.numbers.get("slowdown")), None)
    for name, most in asked.items():
        times, values = plausible(shown, name.removeprefix("max."))
        over = np.flatnonzero(values >= most)
        if stopped is not None and len(over):
            unit = "W" if name.endswith("_w") else "°C"
            late_s = max(stopped - float(times[over[0]]), 0.0)
            return f"; the load stopped {show(late_s, 's')} after the first reading there, the highest was {values.max():.4g} {unit}"
    return ""


def never_ran(ticks: Sequence[Tick], events: Sequence[Happened], findings: Findings) -> None:
    """Units that the device can do and the profile asks for, of which not one was done."""
    could = dict.fromkeys(name for x in events if x.what == "units" for name in x.numbers)
    ran = {kind for tick in ticks for kind, done in tick.parts().items() if done.units}
    if any(x.what in ("limit", "lost", "hung", "interrupted") for x in events):  # that it stopped says why
        return
    missing = [name for name in could if not any(one == name or one.startswith(f"{name} ") for one in ran)]
    if missing and ran:
        findings.add("never ran", f"{', '.join(missing)}: not one unit was done", "open", "run for longer")


def rates(found_rates: Sequence[Rate], findings: Findings) -> None:
    """Rates far below what the model expects, above what the hardware allows, or that scatter so much that a slope says little."""
    far = [r for r in found_rates if r.floor and r.sustained < r.floor]
    if far:
        worst = min(far, key=lambda r: r.sustained / (r.floor or 1.0))
        more = f", and {len(far) - 1} more kind{'s' * (len(far) > 2)}" if len(far) > 1 else ""
        least = show(worst.floor or 0.0, worst.unit)
        what = f"{worst.kind} {show(worst.sustained, worst.unit)}, under {least}, the least that is plausible"
        expected = f" ({show(worst.expected, worst.unit)} expected)" if worst.expected else ""
        action = "audit its settings: clocks, power limit, link, ECC, MIG"
        capped = "power limit lowered" in findings.open
        action = "raise the power limit first, and load it again: it held the clock" if capped else action
        findings.add("far below expectation", f"{what}{expected}{more}", "open" if capped else "fail", action)
    beyond = [r for r in found_rates if r.bound and r.sustained > BEYOND * r.bound]
    if beyond:
        one = max(beyond, key=lambda r: r.sustained / (r.bound or 1.0))
        what = f"{one.kind} {show(one.sustained, one.unit)} is above the {show(one.bound or 0.0, one.unit)} that the hardware allows"
        findings.add("faster than possible", what, "open", "the timer, the clock or the machine table is wrong")
    quick = [r for r in found_rates if r.quickest and r not in beyond and r.sustained > FASTER * r.quickest]
    if quick:
        kinds = ", ".join(r.kind for r in quick)
        findings.add("faster than expected", f"{kinds}: the model's expectation is too low here, and says little of this device", "note")
    loose = [r for r in found_rates if r.spread is not None and r.spread > UNSTEADY]
    if loose:
        said = ", ".join(f"{r.kind} ±{percent(r.spread or 0.0)}" for r in loose)
        findings.add("unsteady", f"{said}: a fall within that is not seen", "note", "see what else the host does")


def busy_host(device: Device | None, host: Columns, shown: Columns, findings: Findings) -> bool:
    """Whether others had the processors of a run on them, or the device itself."""
    busy = False
    pressure = plausible({**host, **shown}, "pressure")[1]
    if device is not None and device.kind == "cpu" and len(pressure) and (share := float(np.median(pressure))) > PRESSURE:
        what = f"tasks waited for a processor {percent(share)} of the time: what was slow may be the host's other work"
        findings.add("busy host", what, "open", "run it again with nothing else running")
        busy = True
    others = plausible(shown, "processes")[1]
    if len(others) and others.max() > 0:
        what = f"up to {others.max():.0f} other process{'es' * (others.max() > 1)} on the device"
        findings.add("shared device", what, "open", "end them, then run it again")
        busy = True
    return busy


def narrow_link(device: Device | None, lanes: int | None, shown: Columns, findings: Findings) -> None:
    """Fewer lanes than card and machine table have, during the whole run. `lanes`: of the table, which is good for simulated cards."""
    seen = plausible(shown, "pcie_width")[1]
    nvml = device.facts.get("nvml", {}) if device else {}
    full = nvml.get("pcie_width_max") if isinstance(nvml, dict) else None
    full = full or (lanes if device and device.target == "simulated" else None)
    if full and len(seen) and 0 < seen.max() < full:
        what = f"{seen.max():.0f} of {full:.0f} lanes during the whole run"
        findings.add("link narrow", what, action="reseat card and riser; look at the slot's wiring and at bifurcation")


def capped_below(throttling: Mapping[str, float], shown: Columns, limit_w: float, findings: Findings) -> bool:
    """Whether the driver's power cap holds the clock though the card draws far less than its limit."""
    share = throttling.get("software power cap", 0.0)
    if share <= POWER_OFF or not limit_w or "throttle" not in shown:
        return False
    times, masks = shown["throttle"]
    good = np.isfinite(masks)
    capped_s = times[good][masks[good].astype(int) & 0x4 != 0]
    at, values = plausible(shown, "power_w")
    if not len(capped_s) or not len(values):
        return False
    drawn = values[np.clip(np.searchsorted(at, capped_s), 0, len(values) - 1)]
    if np.percentile(drawn, 75) >= BELOW * limit_w:
        return False
    middle = f"drawing {np.median(drawn):.0f} W of {limit_w:.0f} W in the median"
    what = f"the driver's power cap held the clock for {percent(share)} of the time, {middle}"
    action = "look for a lower limit of module, board or rack, and whether the power sensor is right"
    findings.add("capped below its limit", what, "open", action)
    return True


def lowered(throttling: Mapping[str, float], limit_w: float, table_w: float | None, findings: Findings) -> None:
    """A power limit in force below the machine table's: where it holds the clock, the card is not what the table says, and the verdict
    stays open as with any other limit below the card's own."""
    if not table_w or not core_limit.is_lowered(limit_w, table_w):
        return
    share = throttling.get("software power cap", 0.0)
    held = share > POWER_OFF
    what = core_limit.pair(limit_w, table_w)
    what += f"; it held the clock for {percent(share)} of the time" if held else ""
    findings.add("power limit lowered", what, "open" if held else "note", core_limit.RAISE)


def figures(shown: Columns) -> dict[str, float]:
    """Power and temperature where a sensor showed what can be, and energy by its counter, else by power over time."""
    figures_: dict[str, float] = {}
    for sensor, name in (("power_w", "power_w"), ("temperature_c", "temperature_c"), ("clock_hz.sm", "clock_hz")):
        values = plausible(shown, sensor)[1]
        if len(values):
            figures_[f"{name}.peak"], figures_[f"{name}.average"] = float(values.max()), float(values.mean())
    steps = np.diff(plausible(shown, "energy_j")[1])
    times, watts = plausible(shown, "power_w")
    if (steps > 0).any():
        figures_["energy_j"], figures_["energy_j.counted"] = float(steps[steps > 0].sum()), 1.0
    elif len(times) > 1:
        figures_["energy_j"] = float(np.sum(np.diff(times) * (watts[1:] + watts[:-1]) / 2))
    return figures_
