"""What a vendor is sent about one node: a zip of its events and their evidence with a script that checks it, and a page to read.

The same ledger makes the same zip, byte for byte.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import msgspec

import hotlap
from hotlap.bringup import accept_show, rma_verify
from hotlap.bringup.accept_folder import AcceptFolder
from hotlap.bringup.accept_record import AcceptEvent, NodeEvidence, NodeStanding, line
from hotlap.core.errors import InputError, SchemaError
from hotlap.core.record import Record
from hotlap.core.show import page as pages
from hotlap.core.show.table import Cell, Column, Table, html
from hotlap.core.units import show

VERIFY = "verify.py"
NODE = "node.json"
DATE = (2020, 1, 1, 0, 0, 0)  # of every file in the zip


class PackAbout(Record, frozen=True, kw_only=True):
    """node.json: which node this is about."""

    node: str
    product: str
    acceptance: str
    hotlap: str
    inventory: dict[str, Any]  # what the plan says its product is
    standing: NodeStanding
    causes: list[str]
    commands: list[str]
    simulated: str = ""  # the fleet that stands in place of nodes


class PackFiles(Record, frozen=True, kw_only=True):
    """What was written. `sha256`: of the zip."""

    zip: str
    page: str
    sha256: str
    files: int


def pack(folder: AcceptFolder, node: str, purpose: str) -> tuple[bytes, str]:
    """The zip's content and the page. Raises InputError for a node without events, SchemaError where evidence was changed."""
    events = [event for event in folder.events() if event.node == node]
    if not events:
        raise InputError(f"there is nothing to pack about {node}: it has no event yet; hotlap cluster accept run measures it")
    evidence = {event.evidence: _evidence(folder, event) for event in events if event.evidence}
    product, standing = folder.plan.product(node), folder.standings()[node]
    about = PackAbout(
        node=node, product=product.name, acceptance=folder.id, hotlap=hotlap.__version__, standing=standing,
        inventory={
            "gpus": product.gpus, "rails": product.rails, "expect": product.expect, "serial": product.serials.get(node, ""),
            "bmc": product.bmc.get(node, ""),
        },
        causes=[accept_show.cause(each) for each in standing.faults],
        simulated=str(folder.plan.launch.get("simulate", "")),
        commands=[f"hotlap cluster accept retest {node} --of {folder.id}", f"hotlap cluster accept status {folder.id}"],
    )  # fmt: skip
    files = {
        NODE: msgspec.json.format(msgspec.json.encode(about), indent=1) + b"\n", rma_verify.LEDGER: b"".join(map(line, events)),
        VERIFY: Path(rma_verify.__file__).read_bytes(), **{f"{rma_verify.EVIDENCE}{name}.json": data for name, data in evidence.items()},
    }  # fmt: skip
    manifest = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    data = _zipped({rma_verify.MANIFEST: manifest.encode(), **files})
    shown = [msgspec.json.decode(row, type=NodeEvidence) for row in evidence.values()]
    return data, _page(about, events, shown, hashlib.sha256(data).hexdigest(), purpose)


def _evidence(folder: AcceptFolder, event: AcceptEvent) -> bytes:
    row = folder.step_lines(event.phase).get(event.evidence)
    if row is None:
        raise SchemaError(f"the evidence of event {event.number} is not in step {event.phase} of '{folder.path}'; restore it from a copy")
    return row


def _zipped(files: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, data)
    return held.getvalue()


def name_of(node: str, purpose: str) -> str:
    """Of the zip and the page, without their endings."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', node)}-{purpose}"


# ---------------------------------------------------------------- the page


def _page(about: PackAbout, events: Sequence[AcceptEvent], evidence: Sequence[NodeEvidence], digest: str, purpose: str) -> str:
    serial = next((str(each.facts["serial"]) for each in evidence if each.facts.get("serial")), "unknown")
    name = name_of(about.node, purpose)
    override = " (override)" if about.standing.overridden else ""
    top = f"<p>{escape(about.node)}, {escape(about.product)}, serial number {escape(serial)}: <b>{about.standing.state}{override}</b></p>"
    top += f"<p>Simulated: {escape(about.simulated)}. No node was measured.</p>" if about.simulated else ""
    reasons = [*(f"Override: {reason}" for reason in about.standing.overrides), *(f"Repair: {text}" for text in about.standing.repairs)]
    commands = f"unzip {name}.zip -d {name}\npython3 {name}/{VERIFY} {name}.zip {digest}"
    check = f"<p>Check it without Hotlap and without a network:</p><pre>{commands}</pre>"
    sections = [
        pages.Section("Causes", "What is wrong", pages.notes([*about.causes, *reasons] or ["Nothing is wrong with it now."])),
        pages.Section("Events", "What happened", html(_events(events))),
        pages.Section("Measured", "What was measured, and what it was compared with", html(_rates(evidence)) if _numbers(evidence) else ""),
        pages.Section("Facts", "Its inventory", html(_facts(evidence)) if any(each.facts for each in evidence) else ""),
        pages.Section("Check", "How to check this", f"{check}<p>SHA-256 of {name}.zip: <code>{digest}</code></p>"),
        pages.Section("Repeat", "How it is measured again", pages.notes(about.commands)),
    ]
    return pages.page(f"{about.node}: evidence for {purpose}", sections, {"node": msgspec.to_builtins(about)}, top)


def _events(events: Sequence[AcceptEvent]) -> Table:
    return Table([
        Column("time", [Cell(f"{datetime.fromtimestamp(each.time_s, UTC):%Y-%m-%d %H:%M:%S} UTC") for each in events]),
        Column("from", [Cell(each.was) for each in events]),
        Column("to", [Cell(f"{each.to}{' (override)' if each.override else ''}") for each in events]),
        Column("step", [Cell(each.step or "") for each in events]),
        Column("cause", [Cell("; ".join(filter(None, [accept_show.causes(each.faults), each.reason]))) for each in events]),
        Column("by", [Cell(each.by) for each in events]), Column("evidence", [Cell(each.evidence[:12]) for each in events]),
    ])  # fmt: skip


def _numbers(evidence: Sequence[NodeEvidence]) -> list[tuple[NodeEvidence, str, str, list[float]]]:
    return [
        (each, metric, device, values) for each in evidence for metric, devices in each.rates.items() for device, values in devices.items()
    ]  # fmt: skip


def _rates(evidence: Sequence[NodeEvidence]) -> Table:
    rows = _numbers(evidence)
    known = [each.reference.get(metric, {}) for each, metric, _, _ in rows]
    units = [each.units.get(metric, "") for each, metric, _, _ in rows]
    of = [f"{metric}, calls" if unit == "1/s" else metric for (_, metric, _, _), unit in zip(rows, units, strict=True)]
    return Table([
        Column("step", [Cell(f"{each.step}{' (retest)' if each.retest else ''}") for each, _, _, _ in rows]),
        Column("metric", [Cell(metric) for metric in of]),
        Column("device, partner", [Cell(device or "node") for _, _, device, _ in rows]),
        Column("least", [Cell(show(min(values), unit)) for (_, _, _, values), unit in zip(rows, units, strict=True)], right=True),
        Column("most", [Cell(show(max(values), unit)) for (_, _, _, values), unit in zip(rows, units, strict=True)], right=True),
        Column("samples", [Cell(str(len(values))) for _, _, _, values in rows], right=True),
        Column("fleet", [Cell(show(each.get("fleet"), unit)) for each, unit in zip(known, units, strict=True)], right=True),
        Column("model", [Cell(show(each.get("model"), unit)) for each, unit in zip(known, units, strict=True)], right=True),
        Column("nodes compared", [Cell(str(each.get("nodes", ""))) for each in known], right=True),
    ])  # fmt: skip


def _facts(evidence: Sequence[NodeEvidence]) -> Table:
    facts = {name: value for each in evidence for name, value in each.facts.items()}
    return Table([
        Column("fact", [Cell(name) for name in facts]),
        Column("value", [Cell("" if value is None else str(value)) for value in facts.values()]),
    ])  # fmt: skip
