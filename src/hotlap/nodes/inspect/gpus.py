"""GPUs by their place on the bus: what the kernel shows of each, and what nvidia-smi says of NVIDIA's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from hotlap.nodes.inspect import pci
from hotlap.nodes.inspect.noting import FactNotes, scaled

VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
COUNT, MIB, MHZ = 1, 2**20, 1e6
NUMBERS = {  # fact → path in nvidia-smi's XML, unit, factor; source: nvidia-smi -q -x, nvsmi_device.dtd
    "memory_bytes": ("fb_memory_usage/total", "B", MIB),
    "power.limit_w": ("gpu_power_readings/current_power_limit", "W", COUNT),
    "power.default_w": ("gpu_power_readings/default_power_limit", "W", COUNT),
    "power.max_w": ("gpu_power_readings/max_power_limit", "W", COUNT),
    "clock.application_hz": ("applications_clocks/graphics_clock", "Hz", MHZ),
    "clock.application_default_hz": ("default_applications_clocks/graphics_clock", "Hz", MHZ),
    "clock.max_hz": ("max_clocks/sm_clock", "Hz", MHZ),
    "clock.max_memory_hz": ("max_clocks/mem_clock", "Hz", MHZ),
    "clock.memory_hz": ("clocks/mem_clock", "Hz", MHZ),
    "pcie.replays": ("pci/replay_counter", "", COUNT),
    "ecc.uncorrected": ("ecc_errors/aggregate/dram_uncorrectable", "", COUNT),
    "ecc.corrected": ("ecc_errors/aggregate/dram_correctable", "", COUNT),
    "remap.uncorrected": ("remapped_rows/remapped_row_unc", "", COUNT),
}
OLDER = {  # path → its name before driver 535
    "gpu_power_readings/current_power_limit": "power_readings/power_limit",
    "gpu_power_readings/default_power_limit": "power_readings/default_power_limit",
    "gpu_power_readings/max_power_limit": "power_readings/max_power_limit",
}
SRAM = "ecc_errors/aggregate"
SRAM_UNCORRECTED = ("sram_uncorrectable_parity", "sram_uncorrectable_secded", "sram_uncorrectable")  # the last before driver 535: one count
TEXTS = {
    "name": "product_name",
    "persistence": "persistence_mode",
    "mig": "mig_mode/current_mig",
    "mig_pending": "mig_mode/pending_mig",
    "ecc.now": "ecc_mode/current_ecc",
    "ecc.pending": "ecc_mode/pending_ecc",
    "ecc.sram_threshold": "ecc_errors/aggregate/sram_threshold_exceeded",
    "compute_mode": "compute_mode",
    "pstate": "performance_state",
    "vbios": "vbios_version",
    "inforom": "inforom_version/img_version",
    "gsp": "gsp_firmware_version",
    "fabric.state": "fabric/state",
    "fabric.status": "fabric/status",
    "display_active": "display_active",
    "remap.pending": "remapped_rows/remapped_row_pending",
    "remap.failure": "remapped_rows/remapped_row_failure",
    "retired.pending": "retired_pages/pending_retirement",
    "addressing": "addressing_mode",
    "virtualization": "gpu_virtualization_mode/virtualization_mode",
}
SLOWED = (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
    "sync_boost",
    "applications_clocks_setting",
)
NOTHING = ("", "N/A", "[N/A]", "Not Supported", "Unknown", "Unknown Error")


def collect(notes: FactNotes) -> None:
    """Facts of each GPU as ``gpu[0]…``, in the order of their addresses, and of the NVIDIA driver."""
    place, addresses = notes.place, list[str]()
    for folder in place.glob(f"{pci.FOLDER}/*"):
        kind, vendor = place.text(f"{folder}/class").removeprefix("0x"), place.text(f"{folder}/vendor")
        if (kind[:2] in (pci.DISPLAY, pci.ACCELERATOR)) and vendor in VENDORS:
            addresses.append(folder)
    out = place.command("nvidia-smi-q.xml")
    document, why = _document(out.text, out.reason)
    _driver(notes, document, out.source, why)
    notes.note("gpus.count", len(addresses), pci.FOLDER)
    elements = {_address(one.get("id", "")): one for one in document.iter("gpu")} if document is not None else {}
    for index, folder in enumerate(addresses):
        name, address = f"gpu[{index}]", folder.rpartition("/")[2]
        _bus(notes, name, folder)
        if VENDORS[place.text(f"{folder}/vendor")] == "nvidia":
            _told(notes, name, elements.get(_address(address)), out.source, why or f"nvidia-smi does not list {address}")
        if VENDORS[place.text(f"{folder}/vendor")] == "amd":
            _amd(notes, name, folder)
    _links(notes, [folder.rpartition("/")[2] for folder in addresses], [_address(key) for key in elements])


def _address(text: str) -> str:
    """00000000:17:00.0 and 0000:17:00.0 are one."""
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain or '0', 16):04x}:{rest}" if re.fullmatch(r"[0-9a-f]+", domain) else text


def _document(text: str, reason: str) -> tuple[ElementTree.Element | None, str]:
    if not text:
        return None, reason or "nvidia-smi printed nothing"
    try:
        return ElementTree.fromstring(re.sub(r"<!DOCTYPE[^>]*>", "", text)), ""
    except ElementTree.ParseError as error:
        return None, f"nvidia-smi's XML is broken: {error}"


def _driver(notes: FactNotes, document: ElementTree.Element | None, source: str, why: str) -> None:
    text = notes.place.text("proc/driver/nvidia/version")
    match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    notes.note("nvidia.driver", match[1] if match else None, "proc/driver/nvidia/version", reason="the NVIDIA driver is not loaded")
    notes.note(
        "nvidia.open",
        "Open Kernel Module" in text if text else None,
        "proc/driver/nvidia/version",
        reason="the NVIDIA driver is not loaded",
    )
    cuda = (document.findtext("cuda_version") or "").strip() if document is not None else ""
    notes.note("nvidia.cuda", cuda or None, source, reason=why or "not shown")
    for line in notes.place.text("proc/driver/nvidia/params").splitlines():
        name, sign, value = line.partition(": ")
        if sign and name in ("EnablePCIeGen3", "DynamicPowerManagement", "RestrictProfilingToAdminUsers", "PreserveVideoMemoryAllocations"):
            notes.note(f"nvidia_param[{name}]", value.strip(), "proc/driver/nvidia/params")


def _bus(notes: FactNotes, name: str, folder: str) -> None:
    place, address = notes.place, folder.rpartition("/")[2]
    notes.note(f"{name}.address", address, folder)
    notes.note(f"{name}.vendor", VENDORS[place.text(f"{folder}/vendor")], f"{folder}/vendor")
    notes.file(f"{name}.device_id", f"{folder}/device")
    notes.note(f"{name}.driver", pci.driver(place, folder) or None, f"{folder}/driver", reason="no driver bound")
    notes.file(f"{name}.numa_node", f"{folder}/numa_node", int)
    notes.file(f"{name}.runtime_power", f"{folder}/power/control")
    pci.link(notes, name, folder)
    now, possible = pci.bars(place, folder)
    notes.note(f"{name}.bar_bytes", now, f"{folder}/resource", "B")
    notes.note(f"{name}.bar_possible_bytes", possible, f"{folder}/resource*_resize", "B", "no resizable BAR")
    group = place.link(f"{folder}/iommu_group").rpartition("/")[2]
    if group:
        notes.file(f"{name}.iommu_type", f"sys/kernel/iommu_groups/{group}/type")
    else:
        notes.note(f"{name}.iommu_type", None, f"{folder}/iommu_group", reason="in no IOMMU group")
    bridges = [notes.facts.get(f"pci[{above}].acs_redirect") for above in pci.ancestry(place, address)]
    known = [fact.value for fact in bridges if fact and fact.status == "ok"]
    whole = len(known) == len(bridges) and bridges
    why = "needs root: the bridges above show 64 bytes of their configuration" if bridges else "no bridge above"
    value = True if any(known) else (False if whole else None)
    notes.note(f"{name}.acs_redirect", value, "config of the bridges above", reason=why)


def _told(notes: FactNotes, name: str, element: ElementTree.Element | None, source: str, why: str) -> None:
    def text(path: str) -> str | None:
        found = (element.findtext(path) or "").strip() if element is not None else ""
        return None if found in NOTHING else found

    for fact, path in TEXTS.items():
        notes.note(f"{name}.{fact}", text(path), f"{source}: {path}", reason=why if element is None else "not shown")
    for fact, (path, unit, factor) in NUMBERS.items():
        value = _number(text(path) or text(OLDER.get(path, path)), factor)
        notes.note(f"{name}.{fact}", value, f"{source}: {path}", unit, why if element is None else "not shown")
    counts = [int(value) for leaf in SRAM_UNCORRECTED if (value := _number(text(f"{SRAM}/{leaf}"), COUNT)) is not None]
    reason = why if element is None else "not shown"
    notes.note(f"{name}.ecc.sram_uncorrected", sum(counts) if counts else None, f"{source}: {SRAM}/sram_uncorrectable*", reason=reason)
    for group in ("clocks_event_reasons", "clocks_throttle_reasons"):
        if element is not None and (reasons := element.find(group)) is not None:
            active = [
                word for word in SLOWED if any(child.tag.endswith(word) and (child.text or "").strip() == "Active" for child in reasons)
            ]
            notes.note(f"{name}.slowed", active, f"{source}: {group}")


def _number(text: str | None, factor: float) -> float | int | None:
    match = re.match(r"\s*([\d.]+)", text or "")
    if not match:
        return None
    value = float(match[1]) * factor
    return int(value) if value.is_integer() else value


def _links(notes: FactNotes, addresses: list[str], lines: list[str]) -> None:
    """NVLinks of each GPU from ``nvidia-smi nvlink -s``, whose GPU 0 is the first that nvidia-smi -q lists."""
    out = notes.place.command("nvidia-smi-nvlink")
    for block in re.split(r"^(?=GPU \d+:)", out.text, flags=re.MULTILINE):
        match = re.match(r"GPU (\d+):", block)
        if match and int(match[1]) < len(lines) and lines[int(match[1])] in addresses:
            name = f"gpu[{addresses.index(lines[int(match[1])])}]"
            speeds = [float(value) for value in re.findall(r"Link \d+: ([\d.]+) GB/s", block)]
            down = len(re.findall(r"Link \d+: <inactive>", block))
            notes.note(f"{name}.nvlink.links", len(speeds) + down, out.source)
            notes.note(f"{name}.nvlink.active", len(speeds), out.source)
            for leaf, value in (("bytes_per_s", min(speeds, default=0)), ("highest_bytes_per_s", max(speeds, default=0))):
                notes.note(f"{name}.nvlink.{leaf}", value * 1e9 if speeds else None, out.source, "B/s", "no link is up")


def _amd(notes: FactNotes, name: str, folder: str) -> None:
    table: dict[str, tuple[str, Callable[[str], Any], str]] = {
        "vbios": ("vbios_version", str, ""),
        "performance_level": ("power_dpm_force_performance_level", str, ""),
        "memory_bytes": ("mem_info_vram_total", int, "B"),
        "visible_bytes": ("mem_info_vis_vram_total", int, "B"),
        "compute_partition": ("current_compute_partition", str, ""),
        "memory_partition": ("current_memory_partition", str, ""),
    }
    for fact, (leaf, parse, unit) in table.items():
        notes.file(f"{name}.{fact}", f"{folder}/{leaf}", parse, unit)
    for monitor in notes.place.glob(f"{folder}/hwmon/hwmon*")[:1]:
        for fact, leaf in (("limit_w", "power1_cap"), ("default_w", "power1_cap_default"), ("max_w", "power1_cap_max")):
            notes.file(f"{name}.power.{fact}", f"{monitor}/{leaf}", scaled(1e-6), "W")
