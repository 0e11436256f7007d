"""A power limit that somebody lowered: power at the card's own limit is what a heavy load does, below it the number is the limit's."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import structs

from hotlap.core.record import Device, Notice, Result
from hotlap.core.units import percent

LOWERED = 0.98  # of the machine table's power limit: below that somebody lowered it
RAISE = "raise the limit: nvidia-smi -pl, rocm-smi --setpoweroverdrive"
UNEVEN = 0.2  # between rounds, of the readings in which the clock was held back: from there on it is why they differ
LASTING = "more rounds help little: measure the rate that lasts (--sustain '5 min'), or lock the clock (nvidia-smi -lgc)"
HOLDS = "software power cap"  # the reason that a driver gives where the limit holds the clock


def in_force(device: Device | None, values: Iterable[float | None]) -> float | None:
    """The limit in W by the driver: the last reading, else what stood in the run's facts; None where neither is known."""
    read = [value for value in values if value is not None and math.isfinite(value) and value > 0]
    if read:
        return float(read[-1])
    nvml = device.facts.get("nvml", {}) if device else {}
    known = nvml.get("power_limit_w") if isinstance(nvml, dict) else None
    return float(known) if known else None


def uneven(result: Result) -> bool:
    """Whether the clock was held back in some rounds more than in others, or to clocks that differ, so that rounds differ."""
    held = [max((share for notice in one.notices for share in notice.shares.values()), default=0.0) for one in result.used]
    if not held or not max(held):
        return False
    return max(held) - min(held) >= UNEVEN or any(notice.code == "clock_varied" for notice in result.notices)


def is_lowered(limit_w: float | None, table_w: float | None) -> bool:
    """Whether a limit in W is below the machine table's; False where either is not known."""
    return bool(limit_w and table_w and limit_w < LOWERED * table_w)


def pair(limit_w: float, table_w: float) -> str:
    """Both limits in words."""
    return f"{limit_w:.0f} W in force, {table_w:.0f} W in the machine table"


def noticed(result: Result, limit_w: float | None, table_w: float | None) -> Result:
    """The same result; with a notice where a lowered limit held its clock."""
    held = [notice.shares[HOLDS] for notice in result.notices if HOLDS in notice.shares]
    if not held or limit_w is None or table_w is None or not is_lowered(limit_w, table_w):
        return result
    seen = f"{pair(limit_w, table_w)}; it held the clock in {percent(max(held))} of the readings"
    return structs.replace(result, notices=[*result.notices, Notice("limit_lowered", seen, RAISE)])
