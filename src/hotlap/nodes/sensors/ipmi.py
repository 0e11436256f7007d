"""The BMC of this machine through ipmitool: its sensors, and the power that DCMI tells.

Asking takes seconds, so it is done beside the sampler, and each answer is told once. A power of 0 W is no measurement: boards
that offer DCMI without filling it answer so. Only the BMC of this machine is asked, which needs no password.
Source: ipmitool's own output of `sensor`, `sdr`, `sdr elist` and `dcmi power reading`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence

from hotlap.core.errors import MachineError, Unavailable
from hotlap.core.record import Reading

DEVICE = "bmc"
TIMEOUT_S, PERIOD_S = 30.0, 5.0
UNITS = {  # as ipmitool writes them: the sensor's stem, factor
    "degrees c": ("temperature_c", 1.0), "watts": ("power_w", 1.0), "rpm": ("fan_rpm", 1.0), "volts": ("voltage_v", 1.0),
    "amps": ("current_a", 1.0), "percent": ("share", 1e-2), "unspecified": ("reading", 1.0), "cfm": ("airflow_cfm", 1.0),
}
NONE = ("na", "no reading", "disabled", "not readable", "")
ABSENT = ("ns", "na")  # states of a sensor that is not there
DCMI = {  # line: sensor
    "Instantaneous power reading": "power_w", "Minimum during sampling period": "power_w.lowest",
    "Maximum during sampling period": "power_w.highest", "Average power reading over sample period": "power_w.average",
}


def sensors(text: str, time_s: float) -> list[Reading]:
    """The numbers in the output of ipmitool's `sensor`, `sdr` or `sdr elist`; discrete sensors are left out."""
    readings = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) >= 4 and re.fullmatch(r"[0-9A-Fa-f]{2}h", cells[1]):  # elist: name, id, state, entity, reading
            number, unit, state = *_parted(cells[-1]), cells[2]
        elif len(cells) >= 4:  # sensor: name, number, unit, state, limits …
            number, unit, state = cells[1], cells[2], cells[3]
        elif len(cells) == 3:  # sdr: name, reading, state
            number, unit, state = *_parted(cells[1]), cells[2]
        else:
            continue
        one = _one(cells[0], (number, unit.lower(), state.lower()), time_s)
        if one is not None:
            readings.append(one)
    return readings


def _one(name: str, cells: tuple[str, str, str], time_s: float) -> Reading | None:
    number, unit, state = cells
    stem, by = UNITS.get(unit, ("", 1.0))
    part = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "unnamed"
    if number.lower() in NONE or state in ABSENT:
        if not stem:
            return None
        return Reading(sensor=f"{stem}.{part}", device=DEVICE, time_s=time_s, status="not_supported", reason=f"{name}: no reading")
    if not stem:
        return None
    try:
        value = float(number) * by
    except ValueError:
        reason = f"{name}: no number: {number[:40]!r}"
        return Reading(sensor=f"{stem}.{part}", device=DEVICE, time_s=time_s, status="error", reason=reason)
    return Reading(sensor=f"{stem}.{part}", device=DEVICE, time_s=time_s, value=value)


def _parted(text: str) -> tuple[str, str]:
    """45 degrees C → 45, degrees C; words alone are a number that is not there."""
    match = re.match(r"(-?\d+(?:\.\d+)?)\s+(.+)", text)
    return (match[1], match[2]) if match else (text, "")


def dcmi(text: str, time_s: float) -> list[Reading]:
    """The output of `ipmitool dcmi power reading`."""
    readings = []
    off = re.search(r"Power reading state is\s*:\s*deactivated", text, re.IGNORECASE)
    length = re.search(r"Sampling period\s*:\s*(\d+)\s*(Milliseconds|Seconds|Minutes)", text, re.IGNORECASE)
    window_s = int(length[1]) * {"m": 1e-3, "s": 1.0, "M": 60.0}[_unit(length[2])] if length else None
    for line, sensor in DCMI.items():
        match = re.search(rf"^\s*{line}\s*:\s*(\d+)\s*Watts", text, re.IGNORECASE | re.MULTILINE)
        if match is None:
            continue
        if off or int(match[1]) == 0:
            reason = "the BMC's power reading is switched off" if off else "answers 0 W, as boards that do not measure it do"
            readings.append(Reading(sensor=sensor, device=DEVICE, time_s=time_s, status="error", reason=reason))
        else:
            window = 0.0 if sensor == "power_w" else window_s
            readings.append(Reading(sensor=sensor, device=DEVICE, time_s=time_s, value=float(match[1]), window_s=window))
    return readings


def _unit(word: str) -> str:
    return "M" if word.lower().startswith("minute") else word[0].lower()


class Ipmi:
    """Raises Unavailable: ipmitool is not installed, or its first answer was a failure."""

    name, device = "ipmi", DEVICE

    def __init__(self, program: str = "ipmitool") -> None:
        found = shutil.which(program)
        if found is None:
            raise Unavailable("ipmitool is not installed", "apt-get install ipmitool")
        self.program, self.lock, self.ended = found, threading.Lock(), threading.Event()
        self.fresh = self._all()
        if not any(one.status == "ok" for one in self.fresh):
            reason = next((one.reason for one in self.fresh), "no sensor was listed")
            raise Unavailable(f"ipmitool reads nothing: {reason}", "load ipmi_si and ipmi_devintf; run as root")
        self.known = [one.sensor for one in self.fresh]
        threading.Thread(target=self._keep, daemon=True).start()

    def names(self) -> Sequence[str]:
        return self.known

    def read(self, time_s: float) -> list[Reading]:
        """What came since the last call, each with the time at which it was asked as its own; empty in between."""
        with self.lock:
            found, self.fresh = self.fresh, []
        return [
            Reading(sensor=one.sensor, device=one.device, time_s=time_s, value=one.value, status=one.status, reason=one.reason,
                    sensor_s=one.time_s, window_s=one.window_s)
            for one in found
        ]  # fmt: skip

    def close(self) -> None:
        self.ended.set()

    def _keep(self) -> None:
        while not self.ended.wait(PERIOD_S):
            found = self._all()
            with self.lock:
                self.fresh = found

    def _all(self) -> list[Reading]:
        readings: list[Reading] = []
        for words, parse, sensor in ((["sensor"], sensors, "reachable"), (["dcmi", "power", "reading"], dcmi, "power_w")):
            time_s = time.time()
            try:
                readings += parse(self._ask(words), time_s)
            except MachineError as error:
                readings.append(Reading(sensor=sensor, device=DEVICE, time_s=time_s, status="error", reason=str(error)))
        return readings

    def _ask(self, words: list[str]) -> str:
        """Raises MachineError."""
        try:
            done = subprocess.run([self.program, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, errors="replace")
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineError(f"ipmitool {' '.join(words)}: {type(error).__name__}") from None
        if done.returncode:
            raise MachineError((done.stderr.strip().splitlines() or [f"ipmitool ended with {done.returncode}"])[0][:200])
        return done.stdout
