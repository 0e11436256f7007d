"""Jetson boards by the lines that NVIDIA's `tegrastats` prints: load and clock of the GPU, temperatures, power rails.

A line of today and one of 2019; the first number of a rail is now, the second an average since the program began:

    … CPU [1%@729,off] GR3D_FREQ 99%@[1300] cpu@62.8C tj@62.8C VDD_IN 3913mW/3922mW VDD_SOC 1238mW/1237mW
    … EMC_FREQ 0% GR3D_FREQ 0% PMIC@100C GPU@23.5C POM_5V_IN 2545/2547

Source: NVIDIA, Jetson Linux Developer Guide, tegrastats utility. No board was here: its lines were.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Sequence

from hotlap.core.errors import MachineError
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.gauge import SensorProbe, read_all
from hotlap.core.record import Reading

PROGRAM, PERIOD_MS = "tegrastats", 100
FIRST_S, OLD_S = 2.0, 1.0  # that the first line may take; after which a line says nothing of now
CLOCKED = re.compile(r"\b(GR3D_FREQ|EMC_FREQ) (\d+)%(?:@\[?(\d+))?")
HEAT = re.compile(r"(?<!\S)([A-Za-z][\w-]*)@(-?\d+(?:\.\d+)?)C(?!\S)")
RAIL = re.compile(r"(?<!\S)((?:VDD|POM|VIN|CV|CPU|GPU|SOC|SYS|NC|DDR)_?\w*) (\d+)(?:mW)?/(\d+)(?:mW)?(?!\S)")
PARTS = {"GR3D_FREQ": "gpu", "EMC_FREQ": "emc"}
FIXED = ("pmic", 100.0)  # a thermometer that always says so
COLDEST_C = -40.0


def read_line(line: str) -> dict[str, float]:
    """Sensor → value, of what the line has; empty for another program's line."""
    values: dict[str, float] = {}
    for name, load, mhz in CLOCKED.findall(line):
        values[f"utilization.{PARTS[name]}"] = int(load) / 100
        if mhz:
            values[f"clock_hz.{PARTS[name]}"] = int(mhz) * 1e6
    for name, celsius in HEAT.findall(line):
        if float(celsius) > COLDEST_C and float(celsius) != -1 and (name.casefold(), float(celsius)) != FIXED:
            values[f"temperature_c.{name}"] = float(celsius)
    values |= {f"power_w.{name}": int(now) / 1e3 for name, now, _ in RAIL.findall(line)}
    return values


class _Newest:
    """The last line, and when it came by the system's clock."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.at_s = 0.0
        self.came = threading.Event()

    def follow(self, lines: Iterable[str]) -> None:
        for line in lines:
            if values := read_line(line):
                self.values, self.at_s = values, time.monotonic()
                self.came.set()


class TegraStats:
    """The program, running; it ends with this. `known`: sensors that another source reads already."""

    name, device = "tegrastats", "host"

    def __init__(self, program: str, known: Collection[str] = ()) -> None:
        argv = [program, "--interval", str(PERIOD_MS)]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.newest = _Newest()
        self.close = weakref.finalize(self, _end, process)
        threading.Thread(target=self.newest.follow, args=(process.stdout,), daemon=True).start()
        self.newest.came.wait(FIRST_S)
        self.gauges = [
            SensorProbe(name, functools.partial(_now, self.newest, name), window_s=PERIOD_MS / 1e3)
            for name in self.newest.values if name not in known
        ]  # fmt: skip

    def names(self) -> Sequence[str]:
        return [gauge.name for gauge in self.gauges]

    def read(self, time_s: float) -> list[Reading]:
        return read_all(self.gauges, self.device, time_s)


def find(known: Collection[str]) -> list[SensorSource]:
    """Never raises; nothing where the program is not here, or says nothing that is not known."""
    program = shutil.which(PROGRAM)
    if program is None:
        return []
    try:
        source = TegraStats(program, known)
    except OSError:
        return []
    if source.gauges:
        return [source]
    source.close()
    return []


def _now(newest: _Newest, name: str, _time_s: float) -> float:
    age_s = time.monotonic() - newest.at_s
    if age_s > OLD_S:
        raise MachineError(f"tegrastats printed nothing for {age_s:.0f} s")
    if name not in newest.values:
        raise MachineError(f"the last line of tegrastats has no {name.partition('.')[2]}")
    return newest.values[name]


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
