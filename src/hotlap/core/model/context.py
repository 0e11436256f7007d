"""What a run says about a device beside one case: its best rates, its clocks, its sensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hotlap.core.model.calibration import Calibration
from hotlap.core.model.ceilings import Ceilings, ceilings
from hotlap.core.model.machines import Spec
from hotlap.core.record import Readings, Result


@dataclass(frozen=True)
class Context:
    """What a run says about a device beside the case itself. `clock_max_hz` is the highest that the device can reach."""

    spec: Spec | None = None
    ceilings: Ceilings = field(default_factory=Ceilings)
    clock_max_hz: float | None = None
    clocks_hz: tuple[float, float] | None = None  # lowest and highest seen in the run
    power_limit_w: float | None = None
    readings: Mapping[str, tuple[Readings, ...]] = field(default_factory=dict)  # of the device, by sensor
    calibration: Calibration | None = None  # of this machine, by a sweep in another run


def context(results: Sequence[Result], spec: Spec | None = None, readings: Sequence[Readings] = ()) -> Context:
    """The context of one device's results; `readings` are of the same device."""
    sensors: dict[str, list[Readings]] = {}
    for reading in readings:
        if reading.status == "ok":
            sensors.setdefault(reading.sensor, []).append(reading)
    clocks = [hz for r in results for s in r.rounds for hz in s.clocks_hz]
    clocks += [v for r in sensors.get("clock_hz.sm", ()) for v in r.values if v]
    top = max([*clocks, spec.clock_max_hz if spec and spec.clock_max_hz else 0.0]) or None
    return Context(
        spec=spec, ceilings=ceilings(results, spec), clock_max_hz=top, clocks_hz=(min(clocks), max(clocks)) if clocks else None,
        power_limit_w=spec.power_w if spec else None, readings={name: tuple(parts) for name, parts in sensors.items()},
    )
