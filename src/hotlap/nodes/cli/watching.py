"""What `hotlap node watch` shows of a tally: a table, lines of a log, a summary."""

from __future__ import annotations

from typing import Any

from hotlap.core.show import layout, telemetry
from hotlap.core.show.table import Cell, Column
from hotlap.nodes.sensors import crosscheck
from hotlap.nodes.sensors.tally import SensorStats, TalliedSensor

SHOWN = ("power_w", "temperature_c", "clock_hz.sm", "clock_hz", "utilization", "memory_used_bytes", "throttle", "reachable")
HEADS = {
    "power_w": "power", "temperature_c": "temp", "clock_hz.sm": "clock", "clock_hz": "clock", "utilization": "busy",
    "memory_used_bytes": "memory", "throttle": "throttled by",
}


def table(tally: SensorStats, names: dict[str, str], width: int = 100) -> list[str]:
    """A row per device, the sensors that matter most as columns; where there is no room, devices by selector alone, then fewer columns."""
    shown = [name for name in SHOWN if any(sensor == name for _, sensor in tally.sensors)]
    rows = {}
    for device in dict.fromkeys(device for device, _ in tally.sensors):
        last = [tally.sensors[device, name].last if (device, name) in tally.sensors else None for name in shown]
        if any(last):
            rows[device] = [telemetry.value(one.sensor, one.value) if one else "" for one in last]
    heads = [HEADS.get(name, name) for name in shown]
    columns = [Column(head, [Cell(row[n]) for row in rows.values()], wrap=head == "throttled by") for n, head in enumerate(heads)]
    for short in (False, True):
        named = [Cell(names.get(key, key).split(" ")[0] if short else names.get(key, key)) for key in rows]
        grid = layout.fitted([Column("device", named), *columns], width, ("memory", "reachable") if short else ())
        if grid.narrowest <= width:
            break
    return [line.rstrip() for line in grid.lines(False)]


def plain(tally: SensorStats, names: dict[str, str]) -> list[str]:
    """A line per device for a log."""
    last: dict[str, list[str]] = {}
    for (device, sensor), one in tally.sensors.items():
        if sensor in SHOWN and one.last:
            last.setdefault(device, []).append(f"{sensor}={telemetry.value(sensor, one.last.value)}")
    return [f"{names.get(device, device)}: {', '.join(shown)}" for device, shown in last.items()]


def worded(tally: SensorStats, names: dict[str, str], width: int = 100) -> list[str]:
    """The summary, as `hotlap show` prints it of a bundle."""
    lines = telemetry.lines([
        telemetry.Watched(
            device, names.get(device, device), [_sensor(s, one) for (of, s), one in sorted(tally.sensors.items()) if of == device],
            tally.residency(device), tally.energy(device),
        )
        for device in dict.fromkeys(device for device, _ in tally.sensors)
    ], width)  # fmt: skip
    return [*lines, *(_crossed(one) for one in crosscheck.compare(tally, names))]


def _sensor(name: str, sensor: TalliedSensor) -> telemetry.Sensor:
    reason = sensor.last.reason if sensor.last else ""
    if not sensor.count:
        return telemetry.Sensor(name, reason=reason)
    return telemetry.Sensor(
        name, sensor.count, sensor.low, sensor.total / sensor.count, sensor.high, sensor.last.window_s if sensor.last else None, reason,
        frozenset(sensor.codes),
    )


def _crossed(cross: crosscheck.Cross) -> str:
    if cross.difference is None or cross.bound is None:
        return f"\nenergy by BMC {cross.bmc} is not compared with the GPUs' own: {cross.reason}"
    gpus = f"{cross.own} GPUs" if cross.own > 1 else "the GPU"
    shown = (
        f"{telemetry.value('energy_j', cross.bmc_j)} by BMC {cross.bmc}, {telemetry.value('energy_j', cross.own_j)} by their own sensors"
    )
    beyond = "" if abs(cross.difference) <= cross.bound else "; beyond both errors: one is wrong, or they measure different things"
    return (
        f"\nenergy of {gpus} over {cross.seconds:.4g} s: {shown}: {100 * cross.difference:+.1f} % "
        f"(errors explain up to ±{100 * cross.bound:.1f} %){beyond}"
    )


def summary(tally: SensorStats, names: dict[str, str]) -> dict[str, Any]:
    crossed = {one.bmc: {"gpu_energy": one} for one in crosscheck.compare(tally, names)}
    return {
        device: crossed.get(device, {})
        | {
            "name": names.get(device, device),
            "throttle_share": tally.residency(device),
            "energy": tally.energy(device),
            "sensors": {
                s: {"count": one.count, "least": one.low, "mean": one.total / one.count, "most": one.high}
                for (of, s), one in tally.sensors.items()
                if of == device and one.count
            },
        }
        for device in dict.fromkeys(of for of, _ in tally.sensors)
    }
