"""PCI Express: generation and width of every link now and possible, errors, ACS, resizable BAR, payload.

Offsets are those of the PCI Express Base Specification 5.0, chapters 7.5 to 7.8.
"""

from __future__ import annotations

import re

from hotlap.nodes.inspect.noting import FactNotes
from hotlap.nodes.inspect.place import FactPlace

FOLDER = "sys/bus/pci/devices"
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # GT/s
ACS, RESIZABLE_BAR = 0x000D, 0x0015  # extended capabilities
REDIRECTS = 0x04 | 0x08 | 0x10  # ACS control: request redirect, completion redirect, upstream forwarding
DISPLAY, NETWORK, BRIDGE, ACCELERATOR = "03", "02", "0604", "12"


def collect(notes: FactNotes) -> None:
    """Every function of the tree; links where it has one."""
    for folder in notes.place.glob(f"{FOLDER}/*"):
        address = folder.rpartition("/")[2]
        name = f"pci[{address}]"
        notes.file(f"{name}.class", f"{folder}/class", lambda text: text[2:6])
        ids = [notes.place.text(f"{folder}/{leaf}").removeprefix("0x") for leaf in ("vendor", "device")]
        notes.note(f"{name}.id", ":".join(ids) if all(ids) else None, f"{folder}/vendor, device")
        notes.note(f"{name}.driver", driver(notes.place, folder) or None, f"{folder}/driver", reason="no driver bound")
        link(notes, name, folder)


def driver(place: FactPlace, folder: str) -> str:
    return place.link(f"{folder}/driver").rpartition("/")[2]


def link(notes: FactNotes, name: str, folder: str) -> None:
    """Link, errors and extended capabilities of a device; nothing for one that has no PCI Express link."""
    place = notes.place
    if not place.exists(f"{folder}/max_link_width"):
        return
    for leaf in ("now", "max"):
        stem = "current" if leaf == "now" else "max"
        notes.file(f"{name}.pcie.width_{leaf}", f"{folder}/{stem}_link_width", _width)
        notes.file(f"{name}.pcie.gen_{leaf}", f"{folder}/{stem}_link_speed", generation)
    rate, width = (_parsed(parse, place.text(f"{folder}/current_link_{leaf}")) for leaf, parse in (("speed", _rate), ("width", _width)))
    line = rate * width if rate and width else None
    notes.note(f"{name}.pcie.line_bits_per_s", line, f"{folder}/current_link_speed, _width", "b/s", "no link, or its rate is unknown")
    above = [folder, *(f"{FOLDER}/{parent}" for parent in _parents(place, folder)[-1:])]
    for kind, parse in (("width", _width), ("speed", generation)):
        found = [_parsed(parse, place.text(f"{one}/max_link_{kind}")) for one in above]
        known = [value for value in found if value]
        label = "width" if kind == "width" else "gen"
        notes.note(f"{name}.pcie.{label}_possible", min(known) if known else None, f"{' and '.join(above)}: max_link_{kind}")
    for kind, total in (("correctable", "TOTAL_ERR_COR"), ("nonfatal", "TOTAL_ERR_NONFATAL"), ("fatal", "TOTAL_ERR_FATAL")):
        match = re.search(rf"{total} (\d+)", place.text(f"{folder}/aer_dev_{kind}"))
        notes.note(f"{name}.pcie.aer_{kind}", int(match[1]) if match else None, f"{folder}/aer_dev_{kind}", reason="no AER counters")
    _config(notes, name, folder)


def _parsed(parse: object, text: str) -> int | None:
    try:
        return parse(text)  # type: ignore[operator,no-any-return]
    except (ValueError, KeyError):
        return None


def _width(text: str) -> int:
    width = int(text)
    if not 0 < width <= 32:
        raise ValueError(text)  # 0 and 255 are "unknown": a link that is down
    return width


def _rate(text: str) -> int:
    """Bits of one lane in a second, with those of the line code."""
    generation(text)
    return int(float(text.split()[0]) * 1e9)


def generation(text: str) -> int:
    """``16.0 GT/s PCIe`` is 4. Raises ValueError."""
    match = re.match(r"([\d.]+) GT/s", text)
    if not match or float(match[1]) not in GENERATIONS:
        raise ValueError(text)
    return GENERATIONS[float(match[1])]


def _parents(place: FactPlace, folder: str) -> list[str]:
    """Addresses from the root port down to the bridge above a device."""
    return re.findall(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", place.real(folder))[:-1]


def ancestry(place: FactPlace, address: str) -> list[str]:
    return _parents(place, f"{FOLDER}/{address}")


def _config(notes: FactNotes, name: str, folder: str) -> None:
    try:
        content = notes.place.content(f"{folder}/config")
    except OSError:
        content = b""
    why = "needs root: only 64 bytes of the configuration are shown" if content else "not present"
    express = _capability(content, 0x10)
    control = int.from_bytes(content[express + 8 : express + 10], "little") if express else None
    source = f"{folder}/config"
    for label, shift in (("max_payload_bytes", 5), ("max_read_request_bytes", 12)):
        notes.note(f"{name}.pcie.{label}", 128 << (control >> shift & 7) if control is not None else None, source, "B", why)
    whole = len(content) > 256
    acs = extended(content, ACS)
    bits = int.from_bytes(content[acs + 6 : acs + 8], "little") & REDIRECTS if acs else 0
    notes.note(f"{name}.acs_redirect", bool(bits) if whole else None, source, reason=why)


def _capability(content: bytes, wanted: int) -> int:
    place = content[0x34] & ~3 if len(content) > 0x100 - 1 else 0
    for _ in range(48):
        if not 0x40 <= place < 0xF0:
            return 0
        if content[place] == wanted:
            return place
        place = content[place + 1] & ~3
    return 0


def extended(content: bytes, wanted: int) -> int:
    """Offset of an extended capability, 0 where there is none."""
    place = 0x100
    for _ in range(64):
        if place < 0x100 or place + 8 > len(content):
            return 0
        head = int.from_bytes(content[place : place + 4], "little")
        if head & 0xFFFF == wanted:
            return place
        place = head >> 20
    return 0


def bars(place: FactPlace, folder: str) -> tuple[int | None, int | None]:
    """The largest BAR now, and the largest that the device offers, B."""
    rows = [line.split() for line in place.text(f"{folder}/resource").splitlines()[:6]]
    sizes = [int(row[1], 16) - int(row[0], 16) + 1 for row in rows if len(row) == 3 and int(row[1], 16)]
    now = max(sizes, default=None)
    offers = [place.text(path) for path in place.glob(f"{folder}/resource[0-9]_resize")]
    possible = [1 << (20 + int(text, 16).bit_length() - 1) for text in offers if text and int(text, 16)]
    return now, max(possible, default=None)
