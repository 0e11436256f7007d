"""Firmware and BIOS settings from a recorded Redfish tree: a folder or tarball of JSON resources, each with its @odata.id."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hotlap.errors import InputError
from hotlap.inspect.noting import Notes
from hotlap.inspect.settings import SECRET

SETTINGS = {  # what vendors call one thing; compared without case, spaces or marks
    "smt": ("LogicalProc", "ProcHyperthreading", "HyperThreading", "HyperThreadingALL", "SMTControl", "SMTMode", "ProcSMT"),
    "sriov": ("SriovGlobalEnable", "SR_IOVSupport", "SRIOVSupport", "Sriov"),
    "above_4g": ("Above4GDecoding", "MmioAbove4Gb", "PciResourcesAbove4G"),
    "resizable_bar": ("ResizeBARSupport", "ReSizeBARSupport", "PcieResizeBar"),
    "iommu": ("ProcVirtualization", "IntelVTforDirectedIO", "VTdSupport", "IOMMU", "AmdIommu"),
    "c_states": ("ProcCStates", "CpuC6Report", "GlobalCstateControl", "MinProcIdlePower", "CStates"),
    "profile": ("SysProfile", "WorkloadProfile", "PowerProfile", "EnergyPerformanceBiasSetting", "DeterminismControl"),
    "numa_per_socket": ("NumaNodesPerSocket", "NUMANodesPerSocket", "NumaGroupSizeOpt", "SubNumaClustering", "SNC"),
    "acs": ("ACSControl", "PcieAcs", "AcsEnable"),
}
LARGEST_BYTES, MOST_FILES = 4 << 20, 50_000


def collect(notes: Notes, where: str) -> None:
    """``firmware[ID]``, ``bios[ATTRIBUTE]`` and ``bios_setting[NAME]``. Raises InputError where there is no such tree."""
    found = False
    for document in _documents(Path(where)):
        kind, path = str(document.get("@odata.type", "")), str(document.get("@odata.id", ""))
        if kind.startswith("#SoftwareInventory.") and "/FirmwareInventory/" in path:
            found = True
            notes.note(f"firmware[{document.get('Id')}]", document.get("Version"), path, reason="the BMC gives no version")
        elif kind.startswith("#Bios.") and path.endswith("/Bios") and isinstance(document.get("Attributes"), dict):
            found = True
            _bios(notes, document["Attributes"], path)
    if not found:
        raise InputError(
            f"'{where}' holds neither a Redfish firmware inventory nor BIOS attributes: JSON resources with @odata.id are needed"
        )


def _bios(notes: Notes, attributes: dict[str, Any], path: str) -> None:
    plain = {_plain(key): value for key, value in attributes.items()}
    for key, value in sorted(attributes.items()):
        if isinstance(value, (str, int, float)) and not SECRET.search(key) and "asset" not in key.lower() and "serial_n" not in key.lower():
            notes.note(f"bios[{key}]", value, path, reason="empty")
    for name, spellings in SETTINGS.items():
        known = [plain[_plain(word)] for word in spellings if _plain(word) in plain]
        if known:
            notes.note(f"bios_setting[{name}]", known[0] if isinstance(known[0], bool) else str(known[0]), path)


def _plain(text: str) -> str:
    return "".join(mark for mark in text.lower() if mark.isalnum())


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        raise InputError(f"there is no folder or tarball '{path}' with a recorded Redfish tree")
    for content in _contents(path):
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            continue  # a crawl keeps error pages, too
        if isinstance(document, dict):
            yield document


def _contents(path: Path) -> Iterator[bytes]:
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*.json"))[:MOST_FILES]:
                if file.stat().st_size <= LARGEST_BYTES:
                    yield file.read_bytes()
            return
        with tarfile.open(path) as archive:
            for entry in archive:
                if entry.isfile() and entry.size <= LARGEST_BYTES and (member := archive.extractfile(entry)):
                    yield member.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(f"'{path}' cannot be read as a recorded Redfish tree: {str(error).splitlines()[0]}") from None
