"""Energy of steady steps, by the device's own sensors of power and energy."""

from __future__ import annotations

from collections.abc import Iterable

from hotlap.core.stats import energy
from hotlap.core.store.bundle import Bundle
from hotlap.training.reading import MeasuredProcess

Series = tuple[list[float], list[float | None]]
SENSORS = ("power_w", "energy_j")


def per_token(bundle: Bundle, launches: Iterable[list[MeasuredProcess]]) -> float | None:
    """Joules of the steady windows over their tokens, all ranks; None where no sensor covers them, tokens are not known, or two
    programs took turns."""
    device = bundle.run.devices[0] if bundle.run.devices else ""
    power, counter = (series(bundle, device, name) for name in SENSORS)
    if not power[0] and not counter[0]:
        return None
    spent = tokens = 0.0
    for launch in launches:
        steady = launch[0].steady
        if steady.ended_s <= steady.began_s or launch[0].process.resumed:  # the other program's energy is in the same window
            continue
        ranks = launch if launch[0].process.world > 1 else launch[:1]
        each = [one.steady.tokens for one in ranks]
        joules = energy.window(steady.began_s, steady.ended_s, power, counter).joules
        if joules is None or any(count is None for count in each):
            continue
        spent += joules
        tokens += sum(count or 0.0 for count in each) * steady.steps
    return spent / tokens if tokens else None


def series(bundle: Bundle, device: str, sensor: str) -> Series:
    """Times and values of a sensor, packages of a processor by themselves left out."""
    mine = [one for one in bundle.readings if one.device == device and one.sensor == sensor]
    pairs = sorted((time, value) for one in mine for time, value in zip(one.times_s, one.values, strict=True) if value is not None)
    return [time for time, _ in pairs], [value for _, value in pairs]
