"""Settings of network cards that only commands show: ethtool's of the driver, mlxconfig's of the firmware."""

from __future__ import annotations

import re

from hotlap.nodes.inspect import pci
from hotlap.nodes.inspect.noting import FactNotes

MELLANOX = "0x15b3"
FIRMWARE = {  # fact → parameter of mlxconfig; source: NVIDIA Firmware Tools (MFT) documentation, mlxconfig
    "ats": "ATS_ENABLED", "write_ordering": "PCI_WR_ORDERING", "advanced_pci": "ADVANCED_PCI_SETTINGS", "max_reads": "MAX_ACC_OUT_READ",
    "link_type": "LINK_TYPE_P1", "sriov": "SRIOV_EN", "functions": "NUM_OF_VFS", "cqe_compression": "CQE_COMPRESSION",
    "roce_control": "ROCE_CONTROL", "ecn": "ROCE_CC_PRIO_MASK_P1", "keep_link": "KEEP_ETH_LINK_UP_P1",
}
ROW = re.compile(r"^\*?\s*(?:RO\s+)?([A-Z][A-Z0-9_]+)((?:\s+\S+){1,3})\s*$", re.MULTILINE)


def driver(notes: FactNotes, name: str, key: str) -> None:
    """What ethtool says of an interface: versions, rings, pause frames, the rates that it supports."""
    out = notes.place.command(f"ethtool-i/{key}")
    table = _pairs(out.text)
    for fact, label in (("driver_version", "version"), ("firmware", "firmware-version")):
        value = table.get(label, "")
        notes.note(f"{name}.{fact}", value if value not in ("", "N/A") else None, out.source, reason=out.reason or "not shown")
    out = notes.place.command(f"ethtool-g/{key}")
    highest, _, now = out.text.partition("Current hardware settings")
    for fact, text in (("ring_rx", now), ("ring_rx_max", highest), ("ring_tx", now), ("ring_tx_max", highest)):
        value = _pairs(text).get("RX" if "rx" in fact else "TX", "")
        notes.note(f"{name}.{fact}", int(value) if value.isdigit() else None, out.source, reason=out.reason or "not shown")
    out = notes.place.command(f"ethtool-a/{key}")
    for fact, label in (("pause_rx", "RX"), ("pause_tx", "TX")):
        value = _pairs(out.text).get(label, "")
        notes.note(f"{name}.{fact}", {"on": True, "off": False}.get(value), out.source, reason=out.reason or "not shown")
    out = notes.place.command(f"ethtool/{key}")
    modes = re.search(r"Supported link modes:(.*?)\n\s*[A-Z][\w -]*:", out.text, re.DOTALL)
    rates = [int(rate) for rate in re.findall(r"(\d+)base", modes[1])] if modes else []
    notes.note(f"{name}.speed_max_bits_per_s", max(rates) * 10**6 if rates else None, out.source, "b/s", out.reason or "not shown")
    value = _pairs(out.text).get("Auto-negotiation", "")
    notes.note(f"{name}.autonegotiation", {"on": True, "off": False}.get(value), out.source, reason=out.reason or "not shown")


def _pairs(text: str) -> dict[str, str]:
    """The first value of each label; ethtool writes some of them twice."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, sign, value = line.partition(":")
        if sign and value.strip():
            found.setdefault(name.strip(), value.strip())
    return found


def firmware(notes: FactNotes) -> None:
    """``nic[0000:17:00.0]…`` for the first function of each NVIDIA network card: settings in force, and those that wait for a reset."""
    for folder in notes.place.glob(f"{pci.FOLDER}/*"):
        address = folder.rpartition("/")[2]
        if notes.place.text(f"{folder}/vendor") != MELLANOX or not address.endswith(".0"):
            continue
        if notes.place.text(f"{folder}/class").removeprefix("0x")[:2] != pci.NETWORK:
            continue
        out, name = notes.place.command(f"mlxconfig/{address}"), f"nic[{address}]"
        rows = {match[1]: [_plain(value) for value in match[2].split()] for match in ROW.finditer(out.text)}
        reason = out.reason or "not understood" if not rows else "this card has no such setting"
        for fact, parameter in FIRMWARE.items():
            values = rows.get(parameter)
            notes.note(f"{name}.{fact}", values[-2] if values and len(values) > 1 else values and values[0], out.source, reason=reason)
        whole = {parameter: values for parameter, values in rows.items() if len(values) == 3}  # default, current, next boot
        waiting = [parameter for parameter, values in whole.items() if values[1] != values[2]]
        why = "it shows only what comes at the next boot: -e is missing" if rows else reason
        notes.note(f"{name}.pending", waiting if whole else None, out.source, reason=why)


def _plain(text: str) -> str:
    """``True(1)`` is True."""
    return re.sub(r"\(.*\)$", "", text)
