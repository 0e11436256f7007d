"""Energy of GPUs by their own sensors against what the BMC says of the same GPUs: two chains of measurement over one window.

Sums over all GPUs of a node are compared, and only where both sides see equally many: which GPU of the BMC is which of the driver
is not known for certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hotlap.core.errors import InputError
from hotlap.core.stats import energy
from hotlap.nodes.sensors.tally import SensorSeries, SensorStats

BMC_GPU = re.compile(r"(?P<bmc>[^/]+)/(?:\w*_)?(?:GPU|OAM)(?:_SXM)?_?\d+\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Cross:
    """`difference` is BMC ÷ own − 1, and `bound` the largest that the errors of both explain. None of both where they were not compared."""

    bmc: str
    own: int  # GPUs that are read here
    seen: int  # GPUs that the BMC has energy or power of
    seconds: float = 0.0
    own_j: float | None = None
    own_error_j: float | None = None
    bmc_j: float | None = None
    bmc_error_j: float | None = None
    difference: float | None = None
    bound: float | None = None
    reason: str = ""  # why not compared


def compare(tally: SensorStats, own: Iterable[str]) -> list[Cross]:
    """One for each BMC of the tally that sees GPUs; `own` are the keys of devices read here. Empty where either side has none."""
    here = [key for key in own if _series(tally, key)]
    sides: dict[str, list[str]] = {}
    for device in dict.fromkeys(device for device, _ in tally.series):
        match = BMC_GPU.match(device)
        if match and device not in here and _series(tally, device):
            sides.setdefault(match["bmc"], []).append(device)
    return [_crossed(tally, name, here, theirs) for name, theirs in sides.items()] if here else []


def _crossed(tally: SensorStats, name: str, here: list[str], theirs: list[str]) -> Cross:
    empty = Cross(name, len(here), len(theirs))
    if len(here) != len(theirs):
        return Cross(name, len(here), len(theirs), reason=f"{len(here)} GPUs are read here and {len(theirs)} by the BMC")
    spans = [_span(_series(tally, device)) for device in (*here, *theirs)]
    begin, end = max(low for low, _ in spans), min(high for _, high in spans)
    mine, other = _sum(tally, here, begin, end), _sum(tally, theirs, begin, end)
    if not mine or not other or mine[0] <= 0:
        return Cross(name, empty.own, empty.seen, reason="too few readings of both at one time")
    bound = (mine[1] + other[1]) / mine[0]
    return Cross(name, empty.own, empty.seen, end - begin, *mine, *other, other[0] / mine[0] - 1, bound)


def _series(tally: SensorStats, device: str) -> dict[str, SensorSeries]:
    """Those with two values or more."""
    found = {name: tally.series.get((device, name)) for name in ("power_w", "energy_j")}
    return {name: one for name, one in found.items() if one and sum(value is not None for value in one.values) > 1}


def _span(series: dict[str, SensorSeries]) -> tuple[float, float]:
    """The times that every series of a device covers."""
    times = [[t for t, value in zip(one.times, one.values, strict=True) if value is not None] for one in series.values()]
    return max(one[0] for one in times), min(one[-1] for one in times)


def _sum(tally: SensorStats, devices: list[str], begin: float, end: float) -> tuple[float, float] | None:
    """Energy and its error, both in J."""
    joules = error_j = 0.0
    for device in devices:
        series = _series(tally, device)
        power, counter = ((one.times, one.values) if one else ((), ()) for one in (series.get("power_w"), series.get("energy_j")))
        try:
            found = energy.window(begin, end, power, counter)
        except InputError:
            return None
        if found.joules is None or found.error_j is None:
            return None
        joules, error_j = joules + found.joules, error_j + found.error_j
    return joules, error_j
