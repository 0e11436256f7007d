"""Readings as families of Prometheus metrics, and Prometheus text as readings, by prometheus_client.

Names are hotlap_NAME_UNIT in base units; the part of a sensor is the label `sensor`. A reading that failed is left out: absent,
not zero. Source: Prometheus, "Metric and label naming".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hotlap.core.errors import Unavailable
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
    "battery": "Charge of the battery as a share of full",
    "load": "Load average of the host", "pressure": "Share of time in which tasks waited for a resource",
    "reachable": "1 where the source answers",
}  # fmt: skip
RATIOS = ("utilization", "fan", "pressure", "battery")
EXEMPLAR = re.compile(r"\s#\s*\{.*\Z")  # of OpenMetrics, after a sample
REMEDY = "pip install prometheus-client"


def client() -> Any:
    """prometheus_client. Raises Unavailable that names the extra."""
    try:
        import prometheus_client
        import prometheus_client.parser
    except ImportError as error:
        raise Unavailable(f"Prometheus metrics need prometheus_client ({error})", REMEDY) from error
    return prometheus_client


def families(readings: Iterable[Reading], labels: Mapping[str, Mapping[str, str]]) -> Iterator[Any]:
    """Families of metrics in order of their names. `labels`: device → its labels, as gpu, uuid, host."""
    metrics: dict[str, Any] = {}
    make = client().Metric
    for row in readings:
        if row.status != "ok" or row.value is None:
            continue
        stem, _, part = row.sensor.partition(".")
        own = dict(labels.get(row.device, {"device": row.device})) | ({"sensor": part} if part else {})
        if stem == "throttle":
            name, kind, about = "hotlap_throttle_active", "gauge", "1 while the clock is throttled by the cause"
            causes = [({**own, "cause": cause.replace(" ", "_")}, float(bool(int(row.value) & bit))) for bit, cause in THROTTLE.items()]
        else:
            name, kind = named(stem)
            about, causes = HELP.get(stem, f"Sensor {stem}, a {kind} in the unit of its name"), [(own, row.value)]
        family = metrics.setdefault(name, make(name.removesuffix("_total") if kind == "counter" else name, about, kind))
        for with_labels, value in causes:
            family.add_sample(name, with_labels, value)
    return iter([metrics[name] for name in sorted(metrics)])


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


def reading(sample: Sample, sensor: str, device: str, time_s: float, by: float = 1.0) -> Reading:
    """A sample under another name, its value times `by`."""
    if sample.value is None:
        return Reading(sensor=sensor, device=device, time_s=time_s, status="error", reason=sample.reason, sensor_s=sample.sensor_s)
    return Reading(sensor=sensor, device=device, time_s=time_s, value=sample.value * by, sensor_s=sample.sensor_s)


def samples(text: str) -> list[Sample]:
    """All lines that are no comment. Raises Unavailable without prometheus_client."""
    parse = client().parser.text_string_to_metric_families
    by = 1e3 if "# EOF" in text else 1.0  # OpenMetrics counts seconds, where the parser expects milliseconds
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [_sample(parse, line, number, by) for number, line in lines if line and not line.startswith("#")]


def _sample(parse: Callable[[str], Iterable[Any]], line: str, number: int, by: float) -> Sample:
    """Each line by itself, so that one that is broken costs no other."""
    try:
        ((sample,),) = (family.samples for family in parse(EXEMPLAR.sub("", line)))
    except (ValueError, IndexError, KeyError):
        return Sample(f"line_{number}", {}, None, reason=f"not the text format: {line[:60]!r}", bad=True)
    own = None if sample.timestamp is None else round(float(sample.timestamp) * by, 6)
    if not math.isfinite(sample.value):
        return Sample(sample.name, sample.labels, None, own, f"no finite number: {sample.value}")
    return Sample(sample.name, sample.labels, sample.value, own)
