"""Firmware, BIOS settings and models by Redfish: from a BMC that answers, or from a recorded tree of JSON resources."""

from __future__ import annotations

import asyncio
import json
import re
import tarfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hotlap
from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure.machine.settings import SECRET
from hotlap.nodes.facts import Facts
from hotlap.nodes.inspect.noting import FactNotes
from hotlap.nodes.inspect.place import Packed
from hotlap.nodes.sensors import bmc, bmc_file
from hotlap.nodes.sensors.redfish_tree import Walk, link

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


AT_ONCE = 64  # BMCs asked at the same time
KEPT = {  # what is noted of a resource: our word, and the property
    "#ComputerSystem": (
        "system",
        {
            "model": "Model",
            "manufacturer": "Manufacturer",
            "part": "PartNumber",
            "bios_version": "BiosVersion",
            "power_state": "PowerState",
        },
    ),
    "#Manager": ("manager", {"firmware_version": "FirmwareVersion", "model": "Model"}),
}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def collect(notes: FactNotes, where: str, identifiers: bool = False) -> None:
    """``firmware[ID]``, ``bios[ATTRIBUTE]``, ``bios_setting[NAME]``, ``system[ID].…`` and ``manager[ID].…``.

    `where` is a recorded tree, or a TOML file that names this node's BMC. Raises InputError where there is nothing to read,
    MachineError where the BMC does not answer.
    """
    if where.endswith(".toml"):
        ends = bmc_file.load(Path(where))
        if len(ends) != 1:
            raise InputError(f"'{where}' names {len(ends)} BMCs and a node has one; hotlap node inspect --bmc reads them all")
        documents, reason = asyncio.run(_all(ends))[0]
        if reason:
            raise MachineError(f"{ends[0].name}: {reason}")
    else:
        documents = list(_documents(Path(where)))
    if not _noted(notes, documents, identifiers):
        raise InputError(
            f"'{where}' holds neither a Redfish firmware inventory nor BIOS attributes: JSON resources with @odata.id are needed"
        )


def read(ends: Sequence[bmc_file.Endpoint], identifiers: bool = False) -> tuple[dict[str, Facts], dict[str, str]]:
    """Facts of each BMC by its name, and of those that could not be read the reason. Raises Unavailable without aiohttp."""
    by_host, failed = dict[str, Facts](), dict[str, str]()
    for end, (documents, reason) in zip(ends, asyncio.run(_all(ends)), strict=True):
        notes = FactNotes(Packed(end.name))
        if not reason and not _noted(notes, documents, identifiers):
            reason = "the BMC offers no firmware inventory, BIOS attributes, systems or managers"
        if reason:
            failed[end.name] = reason
            continue
        taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        by_host[end.name] = Facts(host=end.name, taken=taken, hotlap=hotlap.__version__, facts=notes.facts)
    return by_host, failed


async def _all(ends: Sequence[bmc_file.Endpoint]) -> list[tuple[list[dict[str, Any]], str]]:
    """Documents of each, or why there are none."""
    few = asyncio.Semaphore(AT_ONCE)

    async def read(client: bmc.Client) -> tuple[list[dict[str, Any]], str]:
        async with few:
            try:
                return await _live(client), ""
            except MachineError as error:
                return [], str(error)

    async with bmc.opened(ends) as clients:
        return list(await asyncio.gather(*map(read, clients)))


async def _live(client: bmc.Client) -> list[dict[str, Any]]:
    """Systems with their BIOS, managers and the firmware inventory, by following links."""
    walk = Walk(client.get)
    root = await walk.root()
    systems = [await walk.read(path) for path in await walk.members(link(root, "Systems"))]
    inventory = link(await walk.read(link(root, "UpdateService")), "FirmwareInventory")
    paths = [link(system, "Bios") for system in systems]
    paths += [*await walk.members(link(root, "Managers")), *await walk.members(inventory)]
    return [*systems, *[await walk.read(path) for path in paths]]


def _noted(notes: FactNotes, documents: Iterable[dict[str, Any]], identifiers: bool) -> bool:
    """Whether there was anything to note."""
    complete, count = False, dict[str, int]()
    for document in documents:
        kind, path = str(document.get("@odata.type", "")).split(".")[0], str(document.get("@odata.id", ""))
        name = document.get("Id")
        if kind == "#SoftwareInventory" and "/FirmwareInventory/" in path:
            notes.note(f"firmware[{name}]", document.get("Version"), path, reason="the BMC gives no version")
        elif kind == "#Bios" and path.lower().endswith("/bios") and isinstance(document.get("Attributes"), dict):
            _bios(notes, document["Attributes"], UUID.sub("…", path))
        elif kind in KEPT:
            count[kind] = count.get(kind, -1) + 1
            _named(notes, kind, document, count[kind], identifiers)
        else:
            continue
        complete = True
    return complete


def _named(notes: FactNotes, kind: str, document: dict[str, Any], place: int, identifiers: bool) -> None:
    """Under its id, or its place where the id is a serial number or UUID: those differ on every node, and are nobody's business."""
    family, wanted = KEPT[kind]
    name, path = str(document.get("Id") or place), str(document.get("@odata.id", ""))
    if UUID.search(name) or name in (document.get("SerialNumber"), document.get("UUID")):
        name, path = str(place), path.replace(name, str(place))
    for word, key in {**wanted, **({"serial": "SerialNumber"} if identifiers and family == "system" else {})}.items():
        value = document.get(key)
        text = str(value).strip() if value is not None else ""
        notes.note(f"{family}[{name}].{word}", text or None, path, reason="the BMC does not say")


def _bios(notes: FactNotes, attributes: dict[str, Any], path: str) -> None:
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
