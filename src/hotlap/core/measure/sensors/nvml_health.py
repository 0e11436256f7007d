"""What NVML counts of a GPU's health: time held back by cause, memory errors and repairs, the link to the host, NVLink.

All are counters since the driver was loaded unless their name says otherwise. `throttle_s.CAUSE` sees what falls between two
readings of the `throttle` mask, which is sampled. Three of its fields were renumbered within the driver's branch 580, and
their old numbers given to other things; so the driver's version decides which are asked. Throughput of the link is read from
counters of bytes, since `nvmlDeviceGetPcieThroughput` blocks for 20 ms a call.
Source: nvidia-ml-py 13.580.65 and 13.580.82 (numbers of fields), NVML API reference (units).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from hotlap.core.errors import NotSupported
from hotlap.core.measure.sensors.nvml_fields import EVERY_LINK, Field, Fields, NvLinks

Ask = Callable[[], float]

HELD = {  # cause → NVML_FI_DEV_PERF_POLICY_*, in ns
    "software_power_cap": 74, "thermal": 75, "sync_boost": 76, "board_limit": 77, "low_utilization": 78, "reliability": 79,
}
HELD_RENUMBERED = {  # cause → NVML_FI_DEV_CLOCKS_EVENT_REASON_* as of 580.82, and up to 580.65
    "software_thermal": (269, 251), "hardware_thermal": (270, 252), "hardware_power_brake": (271, 253),
}
LAST_OLD, FIRST_NEW = (580, 65), (580, 82)  # drivers between these are known to neither
REMAPPED_CORRECTABLE, REMAPPED_UNCORRECTABLE, REMAPPED_PENDING, REMAPPED_FAILURE = 142, 143, 144, 145  # NVML_FI_DEV_REMAPPED_*
RETIRED_SINGLE, RETIRED_DOUBLE, RETIRED_PENDING = 29, 30, 31  # NVML_FI_DEV_RETIRED_*
PCIE_REPLAYS, PCIE_SENT, PCIE_RECEIVED = 94, 197, 198  # NVML_FI_DEV_PCIE_*
PCIE_ERRORS = {"correctable": 173, "nonfatal": 179, "fatal": 180}  # NVML_FI_DEV_PCIE_COUNT_*
NVLINK_SENT, NVLINK_RECEIVED = (138, EVERY_LINK), (139, EVERY_LINK)  # NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_*, in KiB
NVLINK_COUNT = 91  # NVML_FI_DEV_NVLINK_LINK_COUNT
NVLINK_ERRORS = {  # per link, and the older fields that hold the sum
    "crc": (163, (38, 45)), "replay": (161, (52,)), "recovery": (162, (59,)),
    "receive": (208, ()), "recovery_failed": (214, ()), "effective": (219, ()),
}
CORRECTED, UNCORRECTED, VOLATILE, AGGREGATE = 0, 1, 0, 1  # nvmlMemoryErrorType_t, nvmlEccCounterType_t
LIMITS = {"shutdown": 0, "slowdown": 1, "memory": 2, "gpu": 3}  # NVML_TEMPERATURE_THRESHOLD_*
MARGINS = {"shutdown": 193, "slowdown": 194, "memory": 195, "gpu": 196}  # NVML_FI_DEV_TEMPERATURE_*_TLIMIT


class Health:
    """Sensor → how to ask: `asks` after `fields`, `rare` after `rare_fields`, which are a hundred where there are 18 links."""

    def __init__(self, binding: Any, handle: Any) -> None:
        self.n, self.h = binding, handle
        self.unlinked: Exception = NotSupported("the device has no NVLink")
        held = HELD | renumbered(_driver(binding))
        links = self._links()
        single: list[Field | int] = [
            *held.values(), REMAPPED_CORRECTABLE, REMAPPED_UNCORRECTABLE, REMAPPED_PENDING, REMAPPED_FAILURE, RETIRED_SINGLE,
            RETIRED_DOUBLE, RETIRED_PENDING, PCIE_REPLAYS, PCIE_SENT, PCIE_RECEIVED, *PCIE_ERRORS.values(), NVLINK_SENT, NVLINK_RECEIVED,
        ]
        several: list[Field | int] = []
        for of_link, sums in NVLINK_ERRORS.values():
            several += [*((of_link, link) for link in range(links)), *sums]
        self.fields, self.rare_fields = Fields(binding, handle, single), Fields(binding, handle, several if links else [])
        ways = {"sent": NVLINK_SENT, "received": NVLINK_RECEIVED}
        moved = {f"nvlink_bytes.{way}": _scaled(self.fields, field, 1024) for way, field in ways.items()}
        self.asks = {**self._held(held), **self._memory(), **self._pcie(), **moved}
        self.rare = self._nvlink(links)

    def _links(self) -> int:
        """How many NVLinks there are; 0 where the driver does not say, and then `unlinked` is why."""
        asked = Fields(self.n, self.h, [NVLINK_COUNT])
        asked.ask()
        try:
            return int(asked.get(NVLINK_COUNT))
        except (NotSupported, self.n.NVMLError, AttributeError) as error:
            self.unlinked = error
            return 0

    def _held(self, held: dict[str, int]) -> dict[str, Ask]:
        asks = {f"throttle_s.{cause}": _scaled(self.fields, field, 1e-9) for cause, field in held.items()}
        unknown = "the number of this counter in drivers between 580.65 and 580.82, or of unknown version, is not known"
        return asks | {f"throttle_s.{cause}": _failing(NotSupported(unknown)) for cause in HELD_RENUMBERED if cause not in held}

    def _memory(self) -> dict[str, Ask]:
        f, n, h = self.fields, self.n, self.h
        return {
            "ecc_corrected": lambda: n.nvmlDeviceGetTotalEccErrors(h, CORRECTED, VOLATILE),
            "ecc_uncorrected": lambda: n.nvmlDeviceGetTotalEccErrors(h, UNCORRECTED, VOLATILE),
            "ecc_corrected.aggregate": lambda: n.nvmlDeviceGetTotalEccErrors(h, CORRECTED, AGGREGATE),  # of the card's life
            "ecc_uncorrected.aggregate": lambda: n.nvmlDeviceGetTotalEccErrors(h, UNCORRECTED, AGGREGATE),
            "remapped_rows": lambda: f.total((REMAPPED_CORRECTABLE, REMAPPED_UNCORRECTABLE)),
            "remapped_rows.uncorrectable": lambda: f.get(REMAPPED_UNCORRECTABLE),
            "remapped_rows.pending": lambda: f.get(REMAPPED_PENDING),  # 1: one waits for a reset
            "remapped_rows.failure": lambda: f.get(REMAPPED_FAILURE),  # 1: no spare row was left
            "retired_pages": lambda: f.total((RETIRED_SINGLE, RETIRED_DOUBLE)),
            "retired_pages.pending": lambda: f.get(RETIRED_PENDING),
        }

    def _pcie(self) -> dict[str, Ask]:
        f, n, h = self.fields, self.n, self.h

        def replays() -> float:
            try:
                return f.get(PCIE_REPLAYS)
            except NotSupported:
                return float(n.nvmlDeviceGetPcieReplayCounter(h))

        return {
            "pcie_replays": replays,
            "pcie_bytes.sent": lambda: f.get(PCIE_SENT),
            "pcie_bytes.received": lambda: f.get(PCIE_RECEIVED),
            **{f"pcie_errors.{kind}": _scaled(f, field, 1) for kind, field in PCIE_ERRORS.items()},
        }

    def _nvlink(self, links: int) -> dict[str, Ask]:
        f = self.rare_fields
        asks: dict[str, Ask] = {}
        for kind, (field, sums) in NVLINK_ERRORS.items():
            name = f"nvlink_errors.{kind}"
            asks[name] = _over_links(NvLinks(f, field, links), f, sums) if links else _failing(self.unlinked)
        return asks


def renumbered(driver: tuple[int, int] | None) -> dict[str, int]:
    """Cause → field for this driver's major and minor version; empty where the numbers are not known."""
    if driver is None or LAST_OLD < driver < FIRST_NEW:
        return {}
    return {cause: new if driver >= FIRST_NEW else old for cause, (new, old) in HELD_RENUMBERED.items()}


def limits(binding: Any, handle: Any) -> dict[str, Callable[[], float]]:
    """Facts: temperatures at which the device slows itself or stops, and, since Ada, the margins to them in °C below the limit."""
    fields = Fields(binding, handle, MARGINS.values())
    fields.ask()
    asks: dict[str, Callable[[], float]] = {}
    for name, threshold in LIMITS.items():
        asks[f"temperature_limit_c.{name}"] = functools.partial(_threshold, binding, handle, threshold)
    for name, field in MARGINS.items():
        asks[f"temperature_margin_c.{name}"] = _scaled(fields, field, 1)
    asks["temperature_limit_c.slowdown"] = functools.partial(_slowdown, binding, handle, fields)
    return asks


def _slowdown(binding: Any, handle: Any, fields: Fields) -> float:
    """The threshold; where the driver tells margins alone: now + the margin now - the margin at which the device slows down."""
    try:
        return _threshold(binding, handle, LIMITS["slowdown"])
    except (NotSupported, binding.NVMLError):
        at = fields.get(MARGINS["slowdown"])
        return float(binding.nvmlDeviceGetTemperature(handle, 0)) + float(binding.nvmlDeviceGetMarginTemperature(handle)) - at


def _threshold(binding: Any, handle: Any, which: int) -> float:
    return float(binding.nvmlDeviceGetTemperatureThreshold(handle, which))


def _driver(binding: Any) -> tuple[int, int] | None:
    try:
        match = re.match(r"(\d+)\.(\d+)", str(binding.nvmlSystemGetDriverVersion()))
    except (binding.NVMLError, AttributeError):
        return None
    return (int(match[1]), int(match[2])) if match else None


def _scaled(fields: Fields, field: Field | int, by: float) -> Ask:
    return lambda: fields.get(field) * by


def _failing(error: Exception) -> Ask:
    def ask() -> float:
        raise error

    return ask


def _over_links(links: NvLinks, fields: Fields, sums: tuple[int, ...]) -> Ask:
    """Each link's counter summed, else the driver's own sum."""

    def ask() -> float:
        try:
            return links.total()
        except NotSupported:
            if not sums:
                raise
            return fields.total(sums)

    return ask
