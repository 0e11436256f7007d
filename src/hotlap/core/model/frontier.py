"""Time and energy of calls over clocks and power caps, by the model of the board's power: what a setting would do before it is set.

Parts of the expected time that go with the clock take longer at a lower one, the others do not (`model/expect.py`); power follows
`model/kernels/power.py`. What was not measured at other clocks than the board's own is an assumption, and the intervals of the expected
times hold at the board's own alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model.chips import chip
from hotlap.core.model.expect import settled
from hotlap.core.model.kernels import power
from hotlap.core.model.kernels.base import Chip, Demand
from hotlap.core.model.machines import Spec
from hotlap.core.record import Case


class FrontierSetting(NamedTuple):
    """What a card is held to; None: its own."""

    clock_hz: float | None = None
    power_w: float | None = None


class FrontierSum(NamedTuple):
    """All calls of a plan at a setting."""

    seconds: float
    joules: float
    clock_hz: float  # mean over time


class FrontierSweep(NamedTuple):
    """Of each setting, in the order given; and the cases that the model does not know, with the reason."""

    sums: list[FrontierSum]
    unknown: dict[str, str]


def over(cases: Sequence[Case], calls: Mapping[str, float], spec: Spec, settings: Sequence[FrontierSetting]) -> FrontierSweep:
    """`calls`: of each Case.id; 1 where it is not in there. Raises InputError where the model knows none of them, or a setting is beyond
    the machine."""
    for setting in settings:
        check(setting, spec)
    unknown: dict[str, str] = {}
    totals = [(0.0, 0.0, 0.0)] * len(settings)
    for case in cases:
        many = calls.get(case.id, 1.0)
        try:
            found = _each(case, spec, settings)
        except InputError as error:
            unknown[work.label(case)] = str(error)
            continue
        totals = [(s + many * t, j + many * t * w, c + many * t * hz) for (s, j, c), (t, w, hz) in zip(totals, found, strict=True)]
    if len(unknown) == len(cases):
        raise InputError(f"the model knows the energy of none of these cases; {next(iter(unknown.values()), 'the plan has no case')}")
    return FrontierSweep([FrontierSum(seconds, joules, hertz / seconds) for seconds, joules, hertz in totals], unknown)


def _each(case: Case, spec: Spec, settings: Sequence[FrontierSetting]) -> list[tuple[float, float, float]]:
    kind, demand, spent = settled(case, spec)
    machine = chip(spec, "max")
    return [_one(kind, demand, spent, machine, setting) for setting in settings]


def _one(kind: str, demand: Demand, spent: power.PowerDemand, machine: Chip, setting: FrontierSetting) -> tuple[float, float, float]:
    """Seconds, watts and clock of one call, repeated until it has settled."""
    held = power.clock(demand, spent, machine, setting.power_w, kind)
    clock_hz, seconds, watts = float(held.clock_hz[0]), float(held.seconds[0]), float(held.power_w[0])
    if setting.clock_hz is None or setting.clock_hz >= clock_hz:
        return seconds, watts, clock_hz
    share = setting.clock_hz / machine.clock_max_hz
    scaling, fixed = (float(np.atleast_1d(np.asarray(one))[0]) for one in spent)
    slower = scaling / share + fixed
    return slower, float(np.atleast_1d(power.at_share_w(demand, slower, share, machine, kind))[0]), setting.clock_hz


def check(setting: FrontierSetting, spec: Spec) -> None:
    """Raises InputError for a cap above the card's, and for a clock that the model does not know."""
    if setting.power_w is not None and spec.power_w and setting.power_w > spec.power_w:
        raise InputError(f"{setting.power_w:g} W is above the limit of {spec.name}, {spec.power_w:g} W")
    top = chip(spec, "max").clock_max_hz
    least = power.stored()["clock_least_share"] * top
    if setting.clock_hz is not None and not least <= setting.clock_hz <= top * 1.001:
        raise InputError(
            f"{setting.clock_hz / 1e6:g} MHz is outside of what the model knows of {spec.name}: {least / 1e6:.0f} to {top / 1e6:.0f} MHz"
        )
