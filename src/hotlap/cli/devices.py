"""hotlap devices"""

from __future__ import annotations

import argparse

from msgspec.structs import replace

from hotlap.cli import terminal
from hotlap.core.errors import HotlapError, Unavailable
from hotlap.core.measure import targets
from hotlap.core.measure.targets.faults import INJECTIONS
from hotlap.core.model import machines
from hotlap.core.show import listing


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="", help="only this target")
    parser.add_argument("--simulated", action="store_true", help="what a simulated GPU can be asked for: machines and faults")


def run(args: argparse.Namespace) -> int:
    """What is here; for each target that is not usable, why, and what would make it so. What can be simulated when asked."""
    missing: dict[str, HotlapError] = {}
    devices = targets.find(targets.parse(args.target)) if args.target else []
    if not args.target:
        devices, missing = targets.survey()
    devices = [d if d.stand_in else replace(d, machine=d.machine or machines.recognise(d)) for d in devices]
    reasons = {
        name: {"reason": e.reason, "remedy": e.remedy} if isinstance(e, Unavailable) else {"reason": str(e), "remedy": ""}
        for name, e in missing.items()
    }
    injections = {name: {"about": what, "example": f"{name}={how}", "answer": answer} for name, (what, how, answer) in INJECTIONS.items()}
    if args.json:
        simulated = {"machines": machines.names(), "options": injections}
        terminal.answer(args.json, {"devices": devices, "unavailable": reasons, "simulated": simulated})
    elif args.simulated:
        print(listing.simulated(machines.names(), injections, terminal.width(), color=terminal.color()))
    else:
        print(listing.devices(devices, reasons, terminal.width(), color=terminal.color()))
    return 0
