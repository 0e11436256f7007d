"""The table of `hotlap node watch --periods`."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.show import layout, telemetry
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import show
from hotlap.nodes.sensors.periods import Period, PeriodRequest

FAST_S = 0.0205  # sensors that update at least so often are worth more than 10 readings a second


def lines(periods: Sequence[Period], asked: Sequence[PeriodRequest], names: dict[str, str], width: int) -> list[str]:
    """A table per device, what is asked for together, and which sensors are worth reading fast."""
    lines_: list[str] = []
    for device in dict.fromkeys(one.device for one in periods):
        mine = [one for one in periods if one.device == device and one.readings]
        lines_ += ["", names.get(device, device)]
        if mine:
            columns = [
                Column("  sensor", [Cell(f"  {one.sensor}") for one in mine]),
                Column("unit", [Cell(telemetry.unit(one.sensor)) for one in mine]),
                Column("read every", [Cell(show(one.read_s, "s") if one.read_s else "–") for one in mine], right=True),
                Column("new every", [Cell(_found(one)) for one in mine], right=True),
                Column("driver, per read", [Cell("–" if one.driver_s is None else show(one.driver_s, "s")) for one in mine], right=True),
                Column("averaged over", [Cell(telemetry.window(one.window_s) or "not known") for one in mine], right=True),
            ]  # fmt: skip
            lines_ += layout.fitted(columns, width, ("unit",)).lines(False)
        for one in asked:
            if one.device == device:
                lines_.append(f"  asked together: {one.what}, {show(one.seconds, 's')} a call")
        lines_ += _fast(mine) + telemetry.absent([(one.sensor, one.reason) for one in periods if one.device == device and not one.readings])
    return lines_ or ["nothing was read"]


def _found(period: Period) -> str:
    if period.since_last:
        return "each reading"
    if period.found_s is None:
        return "never changed" if not period.changes else f"changed {period.changes} ×"
    return f"{'≤ ' if period.at_most else ''}{show(period.found_s, 's')}"


def _fast(mine: Sequence[Period]) -> list[str]:
    if not mine:
        return []
    fast = [one.sensor for one in mine if one.found_s is not None and one.found_s <= FAST_S and not one.since_last]
    what = f"worth reading at 100 Hz: {', '.join(fast)}" if fast else "no sensor was seen to be worth more than 10 readings a second"
    return [f"  {what}"]
