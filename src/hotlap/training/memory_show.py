"""What `training memory` prints."""

from __future__ import annotations

import os
from pathlib import Path

from hotlap.core import units
from hotlap.core.show import layout
from hotlap.core.show.table import Cell, Column, Table, harmless
from hotlap.training.memory_record import IN_SNAPSHOT, KINDS, MemoryAccount, MemoryReport, SwitchSet

SHOWN = 6
EXACT = 0.01
CACHED = 1.2  # times what tensors held
EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets less of it lie unused"
SPARE = "what is no tensor (context, workspaces, fragments) comes on top"


def lines(report: MemoryReport, width: int, color: bool) -> list[str]:
    """The answer first, then each method, the lines that own the peak, and what to switch."""
    first = report.accounts[0]
    text = [*layout.paragraph("peak      ", answer(report), width), ""]
    text += [*layout.fitted(table(report.accounts).columns, width).lines(color), ""]
    for doubt in doubts(report):
        text += layout.paragraph("note      ", doubt, width)
    if first.lines:
        text += ["", *layout.fitted(owners(first).columns, width).lines(color)]
    if report.switches:
        text += ["", *layout.fitted(switches(report).columns, width).lines(color)]
    if report.together:
        text += ["", *layout.paragraph("together  ", together(report.together), width)]
    return text


def together(needed: SwitchSet) -> str:
    """Which switches it takes, where none alone fits."""
    *others, last = needed.switches
    names = f"{', '.join(others)} and {last}" if others else last
    if needed.fits != "fits":
        remedy = "take a larger GPU or a smaller network, or split parameters and moments over several GPUs"
        return f"no switches fit: with {names} the peak is {size(needed.peak_bytes)}, {needed.fits}; {remedy}"
    do, cost = ("do", "they cost") if others else ("does", "it costs")
    return f"no row above fits; {names} {do}: {size(needed.peak_bytes)}, {size(needed.saved_bytes)} less; {cost} {'; '.join(needed.costs)}"


def doubts(report: MemoryReport) -> list[str]:
    """Methods that were ended or did not run, and what a snapshot says beside its peak."""
    doubtful = [f"{account.how}: {account.ended}" for account in report.accounts if account.ended]
    doubtful += [f"{how}: not run: {why}" for how, why in report.failed.items()]
    doubtful += _inside(report)
    for account in report.accounts:
        if account.refused_bytes is not None:
            free = "" if account.free_bytes is None else f", {size(account.free_bytes)} were free on the device"
            held = f"; with it tensors would have held {size(account.wanted_bytes or 0)}"
            doubtful.append(f"the last request that failed was of {size(account.refused_bytes)}{free}{held}")
        if account.reserved_bytes is not None and account.reserved_bytes > CACHED * account.peak_bytes:
            more = size(account.reserved_bytes - account.peak_bytes)
            doubtful.append(f"the allocator had {more} more from the driver than tensors held at the peak: {EXPANDABLE}")
    return [harmless(doubt) for doubt in doubtful]


def _inside(report: MemoryReport) -> list[str]:
    """Why fake tensors are not what the allocator counted."""
    by = {account.how: account for account in report.accounts}
    fake, real = by.get("fake tensors"), by.get("allocator")
    if fake is None or real is None or abs(fake.peak_bytes / real.peak_bytes - 1) <= EXACT:
        return []
    off = f"fake tensors are {units.percent(abs(fake.peak_bytes / real.peak_bytes - 1))} off the allocator's count"
    if not real.inside_bytes:
        return [off]
    return [f"{off}: at its peak {real.operator} held {size(real.inside_bytes)} inside, its library's own, which depends on the processor"]


def answer(report: MemoryReport) -> str:
    """How much, how, and whether it fits."""
    first = report.accounts[0]
    if first.how == "snapshot":
        return harmless(f"{size(first.peak_bytes)} of tensors on GPU {first.device} (by the snapshot {report.target}){_fits(report)}")
    how = {"formula": "by formula", "fake tensors": "by fake tensors, exact for what operators return", "allocator": "by the allocator"}
    text = f"{size(first.peak_bytes)} of tensors in the {first.phase or 'step'} phase ({how[first.how]})"
    text += f": {report.target}" + (f", {report.variant.name}" if report.variant else "")
    return harmless(text + _fits(report))


def _fits(report: MemoryReport) -> str:
    return f". {report.fit.machine} ({size(report.fit.memory_bytes)}): {report.fit.state}; {SPARE}" if report.fit else ""


def size(bytes_: float) -> str:
    """In binary units: memory is sold and allocated in them."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if bytes_ < 1024 or unit == "TiB":
            return f"{units.round_to(bytes_, 4) if unit != 'B' else int(bytes_)} {unit}"
        bytes_ /= 1024
    raise AssertionError


def table(accounts: list[MemoryAccount]) -> Table:
    """A row per method, its parts, and how far it is from the allocator's own count."""
    measured = next((account.peak_bytes for account in accounts if account.how == "allocator"), None)
    kinds = [kind for kind in dict.fromkeys((*KINDS, *IN_SNAPSHOT)) if any(account.parts.get(kind) for account in accounts)]
    return Table([
        Column("by", [Cell(account.how) for account in accounts], names=True),
        Column("peak", [Cell(size(account.peak_bytes), value=account.peak_bytes) for account in accounts], right=True),
        *([Column("off", [_off(account, measured) for account in accounts], right=True)] if measured else []),
        *(Column(kind, [_part(account, kind) for account in accounts], right=True) for kind in kinds),
        *([Column("reserved", [_reserved(account) for account in accounts], right=True)] if any(map(_is_recorded, accounts)) else []),
    ])  # fmt: skip


def _off(account: MemoryAccount, measured: int | None) -> Cell:
    if not measured or account.how == "allocator":
        return Cell("–")
    return Cell(f"{100 * (account.peak_bytes / measured - 1):+.2f} %", value=account.peak_bytes / measured - 1)


def _part(account: MemoryAccount, kind: str) -> Cell:
    value = account.parts.get(kind)
    return Cell("–") if value is None else Cell(size(value), value=value)


def _is_recorded(account: MemoryAccount) -> bool:
    return account.reserved_bytes is not None


def _reserved(account: MemoryAccount) -> Cell:
    return Cell("–") if account.reserved_bytes is None else Cell(size(account.reserved_bytes), value=account.reserved_bytes)


def owners(account: MemoryAccount) -> Table:
    """Which lines hold the peak."""
    shown = account.lines[:SHOWN]
    return Table([
        Column("held at the peak", [Cell(size(line.bytes), value=line.bytes) for line in shown], right=True),
        Column("share", [Cell(units.percent(line.bytes / account.peak_bytes)) for line in shown], right=True),
        Column("kind", [Cell(line.kind) for line in shown]),
        Column("by", [Cell(_short(line.where)) for line in shown], wrap=True),
        Column("operator", [Cell(f"{line.op or '–'} ({line.tensors})") for line in shown], wrap=True),
    ])  # fmt: skip


def _short(where: str) -> str:
    """Relative to here, or the file's name alone."""
    path, _, rest = where.rpartition(":")
    if not path:
        return where or "–"
    relative = os.path.relpath(path)
    return f"{relative if not relative.startswith('..') else Path(path).name}:{rest}"


def switches(report: MemoryReport) -> Table:
    """What to switch first."""
    every = report.switches
    columns = [
        Column("switch first", [Cell(one.what) for one in every], names=True),
        Column("peak", [Cell(f"{'≥ ' * one.at_most}{size(one.peak_bytes)}", value=one.peak_bytes) for one in every], right=True),
        Column("saves", [Cell(f"{'≤ ' * one.at_most}{size(one.saved_bytes)}", value=one.saved_bytes) for one in every], right=True),
    ]
    if report.fit:
        columns.append(Column(report.fit.machine, [Cell(one.fits, "good" if one.fits == "fits" else "warn") for one in every]))
    return Table([*columns, Column("costs", [Cell(one.cost) for one in every], wrap=True)])
