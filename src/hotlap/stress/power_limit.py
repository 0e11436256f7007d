"""Whether a stress run truly reached the card's power limit, or the named reason why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hotlap.core.analysis import power_limit as core_limit
from hotlap.core.analysis.symptoms import Columns
from hotlap.core.model.machines import Spec
from hotlap.core.record import Device
from hotlap.core.units import percent
from hotlap.stress.record import Happened, Tick
from hotlap.stress.throughput import PRODUCTS, Rate

AT_LIMIT = 0.95  # of the power limit: reached
CAPPED = 0.05  # share of the time with the power cap's bit: the limit held the card
LOADED = 0.9  # share of the time with load, below which pauses are the reason
OWN_KERNELS = ("cuda", "opencl")  # targets whose products are Hotlap's simple kernels


class Reached(NamedTuple):
    """In words; and `yes`: None where it cannot be known."""

    yes: bool | None
    text: str


class PowerLimitSeen(NamedTuple):
    """What a device's run rests on."""

    shown: Columns
    ticks: Sequence[Tick]
    events: Sequence[Happened]
    rates: Sequence[Rate]
    throttling: Mapping[str, float]


def known(device: Device | None, shown: Columns, spec: Spec | None) -> tuple[float, str]:
    """The power limit in force in W and where it is from; 0 where it is not known. The table's figure is only good for simulated cards:
    a real one may be set to another."""
    values = shown["power_limit_w"][1] if "power_limit_w" in shown else np.zeros(0)
    if driver := core_limit.in_force(device, values):
        return driver, "in force by the driver"
    if device and device.target == "simulated" and spec and spec.power_w:
        return spec.power_w, "of the machine table"
    return 0.0, ""


def reached(device: Device | None, spec: Spec | None, seen: PowerLimitSeen) -> Reached:
    """Power at 95 % of the limit or above, and for how much of the time with load; else why not."""
    limit_w, source = known(device, seen.shown, spec)
    times, values = seen.shown.get("power_w", (np.zeros(0), np.zeros(0)))
    good = np.isfinite(values)
    times, values = times[good], values[good]
    if not len(values):
        return Reached(None, "not known whether the power limit was reached: no power sensor")
    peak = float(values.max())
    if not limit_w:
        return Reached(None, f"not known whether the power limit was reached ({peak:.0f} W peak): no limit is known")
    if peak >= AT_LIMIT * limit_w:
        at = values >= AT_LIMIT * limit_w
        after = float(times[at][0] - times[0])
        return Reached(
            True,
            f"reached: {peak:.0f} of {limit_w:.0f} W ({source}), first after {after:.0f} s; "
            f"{percent(float(np.mean(at)))} of readings at {percent(AT_LIMIT)} or above",
        )
    if (share := seen.throttling.get("software power cap", 0.0)) > CAPPED:
        capped = f"the driver's power cap held the card for {percent(share)} of the time"
        return Reached(True, f"reached: {capped}, with a peak of {peak:.0f} of {limit_w:.0f} W")
    return Reached(False, f"not reached: {peak:.0f} of {limit_w:.0f} W ({source}); {_why(device, seen)}")


def _why(device: Device | None, seen: PowerLimitSeen) -> str:
    """The first reason that holds."""
    goals = {name: value for x in seen.events if x.what == "began" for name, value in x.numbers.items() if name.startswith("goal.")}
    if "goal.power_w" in goals:
        return f"{goals['goal.power_w']:.0f} W were asked for"
    if "goal.temperature_c" in goals:
        return f"it was held at {goals['goal.temperature_c']:.0f} °C as asked"
    stopped = next((x.detail for x in seen.events if x.what == "limit"), "")
    if stopped:
        return f"the load was stopped: {stopped}"
    held = [f"{name} for {percent(share)} of the time" for name, share in seen.throttling.items() if share > CAPPED and name != "idle"]
    if held:
        return f"the clock was held back by {', '.join(held)}"
    if not any(one.kind.startswith(PRODUCTS) for one in seen.rates):
        return "the profile makes no matrix products, which draw the most"
    if device and device.target in OWN_KERNELS:
        return "Hotlap's own simple kernels do not load a card fully: --target torch:cuda does"
    times = [tick.time_s for tick in seen.ticks]
    span_s = max(times) - min(times) if times else 0.0
    duty = min(sum(tick.busy_s + tick.check_s for tick in seen.ticks) / span_s, 1.0) if span_s else 1.0
    if duty < LOADED:
        return f"it was under load for {percent(duty)} of the time: the profile leaves pauses, or the host does"
    return "nothing held it back: these kernels draw no more"
