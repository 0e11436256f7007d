"""All facts of a node, and the snapshot that they can be read from elsewhere."""

from __future__ import annotations

from pathlib import Path

import hotlap
from hotlap.core.errors import InputError, MachineError
from hotlap.nodes.facts import Facts, decode
from hotlap.nodes.inspect import bmc, gpus, host, network, pci
from hotlap.nodes.inspect.noting import FactNotes
from hotlap.nodes.inspect.place import FactPlace, PlaceRecorder, opened

COLLECTORS = (host.collect, gpus.collect, network.collect, host.disks, pci.collect)  # in the order of a print


def facts(place: FactPlace, redfish: str = "", identifiers: bool = False) -> Facts:
    """What is known of the node at `place`; a collector that fails costs its own facts only, and says so."""
    notes = FactNotes(place)
    pci.collect(notes)  # first: GPUs look up what is known of the bridges above
    bridges, notes.facts = notes.facts, {}
    notes.facts = dict(bridges)
    for collect in COLLECTORS:
        try:
            collect(notes)
        except (ValueError, KeyError, TypeError, ArithmeticError, OSError) as error:
            where = collect.__module__.rpartition(".")[2]
            notes.note(f"collector[{where}]", None, where, reason=f"{type(error).__name__}: {error}")
    if redfish:
        bmc.collect(notes, redfish, identifiers)
    ordered = {name: fact for name, fact in notes.facts.items() if name not in bridges} | {name: notes.facts[name] for name in bridges}
    about = place.about
    name = place.text("proc/sys/kernel/hostname") or about.get("host", "") or "unknown"
    return Facts(host=name, arch=about.get("arch") or _arch(place), taken=about.get("taken", ""), hotlap=hotlap.__version__, facts=ordered)


def _arch(place: FactPlace) -> str:
    text = place.text("proc/cpuinfo")
    return "aarch64" if "CPU implementer" in text else "x86_64" if "vendor_id" in text else ""


def read(where: str = "/", redfish: str = "", identifiers: bool = False) -> Facts:
    """Facts of this machine, a folder, a snapshot, or a file of facts. Raises InputError."""
    path = Path(where)
    if path.is_file() and path.open("rb").read(1) == b"{":
        if redfish:
            raise InputError(f"'{where}' holds facts that were read before; give --redfish when they are read")
        return decode(path.read_bytes(), where)
    place = opened(where)
    if place.live:
        place = PlaceRecorder("/", identifiers=identifiers)
    return facts(place, redfish, identifiers)


def snapshot(target: Path, identifiers: bool = False) -> tuple[Facts, int]:
    """Writes what this machine shows; its facts and the number of files. Raises InputError, MachineError."""
    if not target.parent.is_dir() or target.is_dir():
        raise InputError(f"'{target}' cannot be written: {'it is a folder' if target.is_dir() else f'there is no folder {target.parent}'}")
    place = PlaceRecorder("/", identifiers=identifiers)
    found = facts(place)
    try:
        count = place.write(target, {"host": found.host, "arch": found.arch, "taken": found.taken, "hotlap": found.hotlap})
    except OSError as error:
        raise MachineError(f"'{target}' cannot be written: {error.strerror}") from None
    return found, count
