"""What NVIDIA's dcgm-exporter tells, by the number of each field: DCGM renamed most of them and kept the numbers.

A value that DCGM marks as blank is no measurement. A GPU instance (MIG) is a device of its own, UUID/INSTANCE. Violation times
(240 to 247) are left as they are: DCGM's releases differ over their unit. Source: dcgm_fields.h, before and after the renaming.
"""

from __future__ import annotations

from hotlap.core.record import Reading
from hotlap.nodes.sensors.exposition import Sample, reading

PREFIX = "DCGM_FI_"
NAMES = {  # number: its names, after DCGM_FI_
    100: ("DEV_SM_CLOCK",), 101: ("DEV_MEM_CLOCK",), 112: ("DEV_CLOCK_THROTTLE_REASONS", "DEV_CLOCKS_EVENT_REASONS"),
    140: ("DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS"), 150: ("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS"),
    155: ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"), 156: ("DEV_TOTAL_ENERGY_CONSUMPTION",),
    157: ("DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS"),
    164: ("DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"), 191: ("DEV_FAN_SPEED",),
    202: ("DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL"), 203: ("DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO"),
    230: ("DEV_XID_ERRORS", "DEV_XID_ERROR"), 237: ("DEV_PCIE_LINK_GEN",), 238: ("DEV_PCIE_LINK_WIDTH",), 252: ("DEV_FB_USED",),
    310: ("DEV_ECC_SBE_VOL_TOTAL",), 311: ("DEV_ECC_DBE_VOL_TOTAL",), 312: ("DEV_ECC_SBE_AGG_TOTAL",), 313: ("DEV_ECC_DBE_AGG_TOTAL",),
    393: ("DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
    394: ("DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL"),
    395: ("DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED"), 396: ("DEV_ROW_REMAP_PENDING",),
    1002: ("PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO"), 1003: ("PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO"),
    1004: ("PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO"), 1005: ("PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO"),
}
SENSORS = {  # number: sensor, factor into its unit
    100: ("clock_hz.sm", 1e6), 101: ("clock_hz.memory", 1e6), 112: ("throttle", 1), 140: ("temperature_c.memory", 1),
    150: ("temperature_c", 1), 155: ("power_w.average", 1), 156: ("energy_j", 1e-3), 157: ("power_w", 1), 164: ("power_limit_w", 1),
    191: ("fan", 1e-2), 202: ("pcie_replays", 1), 203: ("utilization", 1e-2), 230: ("xid", 1), 237: ("pcie_generation", 1),
    238: ("pcie_width", 1), 252: ("memory_used_bytes", 2**20), 310: ("ecc_corrected", 1), 311: ("ecc_uncorrected", 1),
    312: ("ecc_corrected.aggregate", 1), 313: ("ecc_uncorrected.aggregate", 1), 393: ("remapped_rows.uncorrectable", 1),
    394: ("remapped_rows.correctable", 1), 395: ("remapped_rows.failure", 1), 396: ("remapped_rows.pending", 1),
    1002: ("utilization.sm", 1), 1003: ("utilization.warps", 1), 1004: ("utilization.tensor", 1), 1005: ("utilization.dram", 1),
}
NUMBERS = {PREFIX + name: number for number, names in NAMES.items() for name in names}
BLANKS = (  # from the first to the last of DCGM's marks: blank, not found, not supported, not permitted …
    (0x7FFFFFF0, 0x7FFFFFFF), (0x7FFFFFFFFFFFFC00, 0x8000000000000000), (140737488355328.0, 140737488355343.0),
)


def known(sample: Sample) -> bool:
    """Whether the exporter said it."""
    return sample.name.startswith(PREFIX)


def translate(sample: Sample, host: str, time_s: float) -> Reading:
    """Under Hotlap's name where the field has one, else under its own."""
    device = (
        sample.labels.get("UUID") or sample.labels.get("uuid") or (f"{host}:{sample.labels['gpu']}" if "gpu" in sample.labels else host)
    )
    if sample.labels.get("GPU_I_ID"):
        device = f"{device}/{sample.labels['GPU_I_ID']}"
    sensor, by = SENSORS.get(NUMBERS.get(sample.name, -1), (sample.name, 1.0))
    if sample.value is not None and any(low <= sample.value <= high for low, high in BLANKS):
        return Reading(
            sensor=sensor, device=device, time_s=time_s, status="error", reason="DCGM marks the value as blank", sensor_s=sample.sensor_s
        )
    return reading(sample, sensor, device, time_s, by)
