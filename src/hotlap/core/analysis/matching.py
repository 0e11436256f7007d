"""The same devices on two sides: one answer over all of them.

A device is a block: values of different devices are never thrown together. Where each run holds all devices, a run's value is the
geometric mean over them, so that what a run does to all of them alike is noise of the run; else devices are the pairs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotlap.core.stats.drift import Drift
from hotlap.core.stats.ratio import Ratio, ratio

FEWEST_RUNS = 4  # on each side, for runs to be the replicates
OF_RUNS = "devices of runs"  # other devices on each side: what a run does to all of its devices alike is not among their differences
Unit = tuple[str, str]
"""RunRecord.id and which very device (`record.identity`)."""
Values = Mapping[Unit, tuple[float, ...]]


class Replicates(NamedTuple):
    """What is compared: `kind` in the plural, and a value of each. `paired`: x[i] and y[i] are of one device."""

    kind: str
    x: list[float]
    y: list[float]
    paired: bool = False

    def better(self, lower: bool, drift: Drift | None = None) -> Ratio:
        """Above 1: the second is better. `drift`: of sides that were measured one after the other."""
        a, b = (self.y, self.x) if lower else (self.x, self.y)
        return ratio(a, b, paired=self.paired, drift=drift)


def common(a: Values, b: Values) -> list[str]:
    """Devices of both sides, if they are all that one of the sides has and there is more than one in all; else none."""
    ours, theirs = (list(dict.fromkeys(device for _, device in side)) for side in (a, b))
    both = [one for one in ours if one in theirs]
    return both if max(len(ours), len(theirs)) > 1 and len(both) == min(len(ours), len(theirs)) else []


def only(values: Values, devices: Sequence[str]) -> Values:
    return {unit: v for unit, v in values.items() if unit[1] in devices}


def replicates(a: Values, b: Values, devices: Sequence[str] = ()) -> Replicates:
    """Medians of runs where there are enough on both sides, else all rounds. `devices`: those that both sides have."""
    if len(devices) > 1 and min((v for side in (a, b) for values in side.values() for v in values), default=0.0) > 0:
        return _blocked(only(a, devices), only(b, devices), devices)
    return _plain(a, b)


def _plain(a: Values, b: Values) -> Replicates:
    if min(len(a), len(b)) >= FEWEST_RUNS:
        kind = "runs" if all(len({run for run, _ in side}) == len(side) for side in (a, b)) else OF_RUNS
        return Replicates(kind, [statistics.median(v) for v in a.values()], [statistics.median(v) for v in b.values()])
    return Replicates("rounds", [v for values in a.values() for v in values], [v for values in b.values() for v in values])


def _blocked(a: Values, b: Values, devices: Sequence[str]) -> Replicates:
    whole = [_over_devices(side, devices) for side in (a, b)]
    if min(map(len, whole)) >= FEWEST_RUNS or (len(devices) < FEWEST_RUNS and all(whole)):
        return _plain(*whole)
    levels = [{device: _level(side, device) for device in devices} for side in (a, b)]
    if len(devices) >= FEWEST_RUNS:
        x, y = ([side[device] for device in devices] for side in levels)
        return Replicates("devices", x, y, paired=True)
    usual = {device: math.sqrt(levels[0][device] * levels[1][device]) for device in devices}
    return _plain(*({unit: tuple(v / usual[unit[1]] for v in values) for unit, values in side.items()} for side in (a, b)))


def typical(side: Values, devices: Sequence[str]) -> list[float]:
    """What a side is said to give: each round over all devices, where each run holds them all; else every value."""
    whole = _over_devices(side, devices) if len(devices) > 1 and all(v > 0 for values in side.values() for v in values) else {}
    return [v for values in (whole or side).values() for v in values]


def _over_devices(side: Values, devices: Sequence[str]) -> Values:
    """Round by round the geometric mean over the devices, of the runs that hold them all."""
    found: dict[Unit, tuple[float, ...]] = {}
    for run, members in _by_run(side).items():
        if len(members) == len(devices):
            found[run, ""] = tuple(statistics.geometric_mean(values) for values in zip(*members.values(), strict=False))
    return found


def _by_run(side: Values) -> dict[str, dict[str, tuple[float, ...]]]:
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for (run, device), values in side.items():
        found.setdefault(run, {})[device] = values
    return found


def _level(side: Values, device: str) -> float:
    return statistics.median(statistics.median(values) for (_, one), values in side.items() if one == device)
