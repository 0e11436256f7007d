"""What a day of telemetry costs: a bundle of 8 devices × 20 sensors at 10 Hz for 24 hours, written, compacted, opened and drawn.

    python benchmarks/day.py [--hours 24] [--devices 8] [--json]

Readings are made, not measured: a load in phases of minutes, power and clocks with noise, temperatures that follow, counters that
grow, 2 ms of jitter between sweeps; in steps of the sensors (mW, MHz, °C). The writer is the one of every run. Sizes are of files;
opening and drawing is a new process, so that its memory is its own. Needs pyarrow.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from hotlap.core.record import Machine, Plan, Readings, RunRecord
from hotlap.core.store import bundle

RATE_HZ, DRAIN_S = 10.0, 60.0
NOISY = {  # level, noise, steps a unit
    "power_w": (600.0, 4.0, 1e3), "power_w.average": (600.0, 1.0, 1e3), "power_w.memory": (90.0, 1.0, 1e3),
}  # fmt: skip
CLOCKS = {"clock_hz.sm": (1.7e9, 15e6, 15e6), "clock_hz.memory": (3.2e9, 0.0, 1e6), "clock_hz.video": (1.5e9, 15e6, 15e6)}
COUNTERS = ("energy_j", "pcie_rx_bytes", "pcie_tx_bytes", "throttle_s.power")
STEADY = ("pcie_generation", "pcie_width", "ecc_corrected", "ecc_uncorrected", "processes", "memory_used_bytes", "throttle")
STEADY += ("fan", "utilization")


def drained(device: int, start_s: float, random: np.random.Generator, held: dict[str, float]) -> list[Readings]:
    """A minute of one device's sensors."""
    count = int(DRAIN_S * RATE_HZ)
    times = start_s + np.arange(count) / RATE_HZ + random.uniform(0, 2e-3, count)
    load = 0.7 + 0.3 * np.sign(np.sin(times / 97.0 + device))
    columns = {}
    for name, (level, noise, steps) in NOISY.items():
        columns[name] = np.round((level * load + random.normal(0, noise, count)) * steps) / steps
    for name, (level, noise, step) in CLOCKS.items():
        columns[name] = np.round((level + random.normal(0, 1, count) * noise) / step) * step
    held["heat"] = held.get("heat", 50.0) * 0.9 + 0.1 * (35 + 40 * float(load.mean()))
    columns["temperature_c"] = np.round(held["heat"] + random.normal(0, 0.3, count))
    columns["temperature_c.memory"] = np.round(held["heat"] + 8 + random.normal(0, 0.3, count))
    for name in COUNTERS:
        grown = held.get(name, 0.0) + np.cumsum(columns["power_w"] / RATE_HZ)
        columns[name] = np.round(grown, 3)
        held[name] = float(grown[-1])
    for n, name in enumerate(STEADY):
        columns[name] = np.full(count, float(n)) if name != "utilization" else np.round(load, 2)
    at = times.tolist()
    return [Readings(sensor=name, device=f"gpu-{device}", times_s=at, values=values.tolist()) for name, values in columns.items()]


def day(home: Path, hours: float, devices: int) -> tuple[Path, int, int, float]:
    """Writes it: the folder, values, the largest uncompacted tail in bytes, CPU seconds of the writer without making the values."""
    machine = Machine(host="benchmark")
    began = "2026-11-21T00:00:00+00:00"
    run = RunRecord(
        id="20261121T000000-day000", began=began, hotlap="0", plan=Plan(name="day"), machine=machine, target="simulated", devices=[],
    )  # fmt: skip
    writer = bundle.Writer.create(run, home)
    values = tail = 0
    spent = 0.0
    for readings in _minutes(hours, devices):
        began = time.process_time()
        writer.readings(readings)
        spent += time.process_time() - began
        values += sum(len(one.values) for one in readings)
        tail = max(tail, _tail_bytes(writer.path))
    writer.finish(run)
    return writer.path, values, tail, spent


def _tail_bytes(folder: Path) -> int:
    """Of what is still text; a log may go while it is looked at."""
    size = 0
    for log in folder.glob("readings*.log"):
        with suppress(FileNotFoundError):
            size += log.stat().st_size
    return size


def _minutes(hours: float, devices: int) -> Iterator[list[Readings]]:
    random = np.random.default_rng(7)
    held: list[dict[str, float]] = [{} for _ in range(devices)]
    for minute in range(round(hours * 60)):
        for device in range(devices):
            yield drained(device, minute * DRAIN_S, random, held[device])


def opened(folder: Path) -> None:
    """In a process of its own: reads the bundle and draws power and temperature of every device from the levels."""
    from hotlap.core.show import charts
    from hotlap.core.store import chunks

    began = time.perf_counter()
    opened_bundle = bundle.load(folder)
    levels = chunks.levels(folder)
    drawn = ""
    for (_, sensor), level in levels.items():
        if sensor in ("power_w", "temperature_c"):
            span = max(float(level.last_s[-1]), 1.0)
            for edge in (level.low, level.high):
                drawn += charts.path(list(zip((level.first_s / span * 960).tolist(), (100 - edge / edge.max() * 90).tolist(), strict=True)))
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": took, "bytes": peak, "series": len(opened_bundle.readings), "svg": len(drawn)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        return opened(options.open)
    with tempfile.TemporaryDirectory() as home:
        folder, values, tail, spent = day(Path(home), options.hours, options.devices)
        size = sum(file.stat().st_size for file in folder.iterdir())
        out = subprocess.run([sys.executable, __file__, "--open", str(folder)], capture_output=True, text=True, check=True).stdout
    seen = json.loads(out)
    figures = {"values": values, "bytes": size, "tail_bytes": tail, "writer_s": spent}
    figures |= {"open_s": seen["seconds"], "open_bytes": seen["bytes"]}
    if options.json:
        return print(json.dumps(figures))
    print(f"{values:,} values of {options.devices} devices in {options.hours:g} h: {size / 1e6:.1f} MB, {size / values:.2f} bytes a value")
    print(f"not compacted at most {tail / 1e6:.1f} MB; the writer took {spent:.1f} s of a core, {spent / options.hours / 36:.2f} % of it")
    print(f"opened and drawn in {seen['seconds']:.2f} s and {seen['bytes'] / 1e6:.0f} MB: {seen['series']} series")
    return None


if __name__ == "__main__":
    main()
