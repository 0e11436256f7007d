"""What `hotlap watch` shows of a tally: a table, lines of a log, a summary."""

from __future__ import annotations

import textwrap
from typing import Any

from hotlap.sensors import crosscheck
from hotlap.sensors.base import THROTTLE
from hotlap.sensors.tally import Tally

FEW = 4  # sensors that stayed at 0 and still have a line each
SHOWN = ("power_w", "temperature_c", "clock_hz.sm", "clock_hz", "utilization", "memory_used_bytes", "throttle", "reachable")
UNITS = {"_bytes_per_s": "B/s", "_v": "V", "_a": "A", "_w": "W", "_j": "J", "_c": "°C", "_hz": "Hz", "_bytes": "B", "_s": "s"}


def _value(sensor: str, value: float | None) -> str:
    if value is None:
        return "?"
    stem = sensor.partition(".")[0]
    if stem == "throttle":
        return "+".join(name for bit, name in THROTTLE.items() if int(value) & bit) or "none"
    unit = next((u for end, u in UNITS.items() if stem.endswith(end)), "")
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if unit in ("Hz", "B", "B/s", "J") and abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.1%}" if stem in ("utilization", "fan", "pressure") else f"{value:.4g} {unit}".strip()


def table(tally: Tally, names: dict[str, str]) -> list[str]:
    """A row per device, the sensors that matter most as columns."""
    columns = [name for name in SHOWN if any(sensor == name for _, sensor in tally.sensors)]
    rows = [["device", *columns]]
    for device in dict.fromkeys(device for device, _ in tally.sensors):
        last = [tally.sensors[device, name].last if (device, name) in tally.sensors else None for name in columns]
        if any(last):
            rows.append([names.get(device, device), *(_value(one.sensor, one.value) if one else "" for one in last)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def plain(tally: Tally, names: dict[str, str]) -> list[str]:
    """A line per device for a log."""
    last: dict[str, list[str]] = {}
    for (device, sensor), one in tally.sensors.items():
        if sensor in SHOWN and one.last:
            last.setdefault(device, []).append(f"{sensor}={_value(sensor, one.last.value)}")
    return [f"{names.get(device, device)}: {', '.join(shown)}" for device, shown in last.items()]


def told(tally: Tally, names: dict[str, str]) -> list[str]:
    lines = []
    for device in dict.fromkeys(device for device, _ in tally.sensors):
        lines += ["", names.get(device, device), f"  {'sensor':<24} {'least':>12} {'mean':>12} {'most':>12}"]
        still = [s for (of, s), one in sorted(tally.sensors.items()) if of == device and one.count and one.low == one.high == 0]
        for (of, sensor), one in sorted(tally.sensors.items()):
            if of != device or sensor == "throttle" or (sensor in still and len(still) > FEW):
                continue
            if one.count:
                shown = (_value(sensor, v) for v in (one.low, one.total / one.count, one.high))
                lines.append(f"  {sensor:<24} " + " ".join(f"{text:>12}" for text in shown))
            else:
                lines.append(f"  {sensor:<24} no value: {one.last.reason if one.last else ''}")
        if len(still) > FEW:
            shown_still = [name for name in still if name != "throttle"]
            lines += textwrap.wrap(f"0 throughout: {', '.join(shown_still)}", 100, initial_indent="  ", subsequent_indent="    ")
        held = {name: share for name, share in tally.residency(device).items() if name != "idle"}
        lines += [f"  held down by {name}: {share:.1%} of the time" for name, share in held.items()]
        found = tally.energy(device)
        if found and found.joules is not None:
            error = _value("energy_j", found.error_j)
            how = "counter" if found.source == "counter" else "integral of power, which is taken to be monotonic between readings"
            lines.append(f"  energy {_value('energy_j', found.joules)} ± {error} over {found.seconds:.4g} s, by {how}")
            lines += [f"  {warning}" for warning in found.warnings]
    lines += [_crossed(one) for one in crosscheck.compare(tally, names)]
    return lines or ["nothing was read"]


def _crossed(one: crosscheck.Cross) -> str:
    if one.difference is None or one.bound is None:
        return f"\nenergy by BMC {one.bmc} is not held against the GPUs' own: {one.reason}"
    gpus = f"{one.own} GPUs" if one.own > 1 else "the GPU"
    shown = f"{_value('energy_j', one.bmc_j)} by BMC {one.bmc}, {_value('energy_j', one.own_j)} by their own sensors"
    beyond = "" if abs(one.difference) <= one.bound else "; beyond both errors: one is wrong, or they measure different things"
    return f"\nenergy of {gpus} over {one.seconds:.4g} s: {shown}: {one.difference:+.1%} (errors explain up to ±{one.bound:.1%}){beyond}"


def summary(tally: Tally, names: dict[str, str]) -> dict[str, Any]:
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
