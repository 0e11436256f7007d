"""Readings as Prometheus text and back: format 0.0.4, and what OpenMetrics adds when it is read.

Names are hotlap_NAME_UNIT in base units; the part of a sensor is the label `sensor`. A reading that failed is left out: absent,
not zero. Source: Prometheus, "Exposition formats" and "Metric and label naming".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hotlap.core.measure.sensors.base import THROTTLE
from hotlap.core.record import Reading

UNITS = {  # how a sensor's name ends: what Prometheus writes, and its type
    "_w": ("_watts", "gauge"),
    "_j": ("_joules_total", "counter"),
    "_c": ("_celsius", "gauge"),
    "_hz": ("_hertz", "gauge"),
    "_bytes": ("_bytes", "gauge"),
    "_s": ("_seconds", "gauge"),
    "_v": ("_volts", "gauge"),
    "_a": ("_amperes", "gauge"),
    "_share": ("_ratio", "gauge"),
    "_bytes_per_s": ("_bytes_per_second", "gauge"),
}
COUNTERS = {  # what only grows, by the sensor's name without its part
    "throttle_s": "_seconds_total", "pcie_bytes": "_bytes_total", "nvlink_bytes": "_bytes_total", "pcie_errors": "_total",
    "nvlink_errors": "_total", "ecc_corrected": "_total", "ecc_uncorrected": "_total", "pcie_replays": "_total",
    "retired_pages": "_total",
}
HELP = {  # of a sensor without its part
    "power_w": "Power drawn", "power_limit_w": "Power limit in force",
    "energy_j": "Energy drawn since the counter began",
    "temperature_c": "Temperature", "clock_hz": "Clock now", "utilization": "Share of time with work on the device, 0 to 1",
    "memory_used_bytes": "Memory in use", "memory_total_bytes": "Memory there is", "processes": "Processes of others on the device",
    "fan": "Fan speed as a share of full speed", "fan_rpm": "Fan speed in turns a minute",
    "throttle_s": "Time with the clock held, by cause",
    "ecc_corrected": "Memory errors corrected", "ecc_uncorrected": "Memory errors not corrected",
    "remapped_rows": "Memory rows remapped; sensor=pending, failure: 1 where there is one", "retired_pages": "Memory pages retired",
    "xid": "Code of the driver's last Xid, 0 for none", "pcie_generation": "PCIe generation of the link now",
    "pcie_width": "PCIe lanes of the link now", "pcie_replays": "PCIe packets sent again",
    "pcie_errors": "PCIe errors, by kind",
    "pcie_bytes": "Bytes over PCIe, by direction", "nvlink_bytes": "Bytes over NVLink, by direction",
    "nvlink_errors": "NVLink errors, by kind",
    "pcie_bytes_per_s": "Rate over PCIe between two readings", "nvlink_bytes_per_s": "Rate over NVLink between two readings",
    "load": "Load average of the host", "pressure": "Share of time in which tasks waited for a resource",
    "reachable": "1 where the source answers",
}  # fmt: skip
RATIOS = ("utilization", "fan", "pressure")
SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)\s*(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(\S+)(?:\s+(-?\d+(?:\.\d+)?))?\s*(?:#\s*\{.*)?\Z')
LABEL = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|\Z)')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
TYPE = "text/plain; version=0.0.4; charset=utf-8"


def write(readings: Iterable[Reading], labels: Mapping[str, Mapping[str, str]]) -> str:
    """One page of metrics. `labels`: device → its labels, as gpu, uuid, host."""
    families: dict[str, tuple[str, str, list[str]]] = {}
    for one in readings:
        if one.status != "ok" or one.value is None:
            continue
        stem, _, part = one.sensor.partition(".")
        own = dict(labels.get(one.device, {"device": one.device}))
        if part:
            own["sensor"] = part
        if stem == "throttle":
            lines = families.setdefault("hotlap_throttle_active", ("gauge", "1 while the clock is throttled by the cause", []))[2]
            for bit, cause in THROTTLE.items():
                lines.append(_line("hotlap_throttle_active", {**own, "cause": cause.replace(" ", "_")}, float(bool(int(one.value) & bit))))
            continue
        name, kind = named(stem)
        about = HELP.get(stem, f"Sensor {stem}, a {kind} in the unit of its name")
        families.setdefault(name, (kind, about, []))[2].append(_line(name, own, one.value))
    return "".join(f"# HELP {n} {about}\n# TYPE {n} {kind}\n" + "".join(lines) for n, (kind, about, lines) in sorted(families.items()))


def named(stem: str) -> tuple[str, str]:
    """hotlap_power_watts, gauge, of power_w."""
    clean = re.sub(r"\W", "_", stem)
    if clean in RATIOS:
        return f"hotlap_{clean}_ratio", "gauge"
    if clean in COUNTERS:
        ending = COUNTERS[clean]
        return f"hotlap_{clean.removesuffix('_s').removesuffix('_bytes')}{ending}", "counter"
    ending = max((end for end in UNITS if clean.endswith(end)), key=len, default="")
    put, kind = UNITS.get(ending, ("", "gauge"))
    return f"hotlap_{clean.removesuffix(ending)}{put}", kind


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inner}}} {value!r}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@dataclass(frozen=True)
class Sample:
    """One line of an endpoint. `value` None: the line or its number cannot be read, for `reason`."""

    name: str
    labels: dict[str, str]
    value: float | None
    sensor_s: float | None = None  # the endpoint's own time, UNIX
    reason: str = ""
    bad: bool = False  # the line is not of the text format


def read(text: str, device: str, time_s: float) -> list[Reading]:
    """Any endpoint's text as readings named NAME{labels}; NaN, infinities and lines that cannot be read are errors with their reason."""
    found = []
    for one in samples(text):
        sensor = one.name + ("{" + ",".join(f"{k}={v}" for k, v in one.labels.items()) + "}" if one.labels else "")
        found.append(reading(one, sensor, device, time_s))
    return found


def reading(one: Sample, sensor: str, device: str, time_s: float, by: float = 1.0) -> Reading:
    """A sample under another name, its value times `by`."""
    if one.value is None:
        return Reading(sensor=sensor, device=device, time_s=time_s, status="error", reason=one.reason, sensor_s=one.sensor_s)
    return Reading(sensor=sensor, device=device, time_s=time_s, value=one.value * by, sensor_s=one.sensor_s)


def samples(text: str) -> list[Sample]:
    """All lines that are no comment."""
    millis = "# EOF" not in text  # OpenMetrics counts seconds
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [_sample(line, number, millis) for number, line in lines if line and not line.startswith("#")]


def _sample(line: str, number: int, millis: bool) -> Sample:
    match = SAMPLE.match(line)
    labels = None if match is None else _labels(match[2] or "")
    if match is None or labels is None:
        return Sample(f"line_{number}", {}, None, reason=f"not the text format: {line[:60]!r}", bad=True)
    own = float(match[4]) / (1e3 if millis else 1.0) if match[4] else None
    try:
        value = float(match[3])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        return Sample(match[1], labels, None, own, f"no finite number: {match[3][:40]}")
    return Sample(match[1], labels, value, own)


def _labels(inner: str) -> dict[str, str] | None:
    """None where they cannot be read."""
    found, place = {}, 0
    while place < len(inner.rstrip()):
        match = LABEL.match(inner, place)
        if match is None:
            return None
        found[match[1]] = re.sub(r'\\[\\"n]', lambda m: ESCAPES[m[0]], match[2])
        place = match.end()
    return found
