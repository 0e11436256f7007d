"""Set-up, machine and devices: which run, how and on what."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.record import IMPORTED, Device, Row
from hotlap.core.show import kinds, listing, words
from hotlap.core.show.sections.base import Report, ReportSection, facts
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import show, size


def _html(report: Report) -> str:
    parts = []
    for bundle, rows in report.runs:
        devices = "".join(device(d) for d in listing.measured(bundle.run))
        left, right = setup(bundle, rows) + sensors(bundle), devices + machine(bundle)
        parts.append(f'<div class="pair"><div>{left}</div><div>{right}</div></div>')
    return "".join(parts)


SECTION = ReportSection("Set-up", "Set-up, machine and devices", _html, new_page=True)


def setup(bundle: Bundle, rows: Sequence[Row]) -> str:
    """Which run this is and how it was measured."""
    run, options = bundle.run, bundle.run.asked
    rounds = len({s.round for s in bundle.samples})
    precision = f"± {show(options.precision, '%', 2)} of the median" if options else ""
    order = {"single": "", "one after another": "devices one after another", "together": "devices at once"}[run.order]
    ending, rate = listing.stopped(run.stops), f"{options.readings_hz:.3g} a second" if options and options.readings_hz else ""
    how: tuple[tuple[str, object], ...]
    if (run.plan.cases or bundle.samples) and kinds.has_cases(run.kind):
        process = "" if run.kind == IMPORTED else "each a block of requests" if words.of_blocks(rows) else "each a fresh process"
        counted = ", ".join(filter(None, (str(rounds), process)))
        how = (("Rounds", "; ".join(filter(None, (f"{counted}{listing.early(rows, rounds)}", ending)))), ("Precision asked", precision))
    else:
        virtual = "virtual: it passes faster than the clock of this machine" if run.target.startswith("simulated") else ""
        how = (("Why it ended", ending), ("Time", virtual), ("Readings", rate))
    share = f"{100 * run.sampler_share:.2f} % of one core, drivers included" if run.sampler_share is not None else ""
    return facts((
        ("Run", run.id), ("Plan", ": ".join(filter(None, (run.plan.name, run.plan.about)))),
        ("Began", _time(run.began)), ("Ended", _time(run.ended) or "not finished"), *how,
        ("Target", run.target), ("Order", order), ("Labels", ", ".join(f"{k}={v}" for k, v in run.labels.items())),
        ("Seed", run.seed or ""), ("Reading sensors took", share), ("Hotlap", run.hotlap),
    ))


def _time(moment: str) -> str:
    return f"{moment[:10]} {moment[11:19]} UTC" if moment else ""


def machine(bundle: Bundle) -> str:
    """Host, processor, software and settings."""
    seen, cpu = bundle.run.machine, bundle.run.machine.cpu
    caches = ", ".join(f"{level.upper()} {size(n)}" for level, n in cpu.cache_bytes.items())
    cores = f", {cpu.cores} cores" if cpu.cores else ""
    return facts((
        ("Host", seen.host), ("System", " ".join(filter(None, (seen.os, seen.kernel)))), ("Virtual", seen.virtual),
        ("Processor", f"{cpu.name}{cores}" if cpu.name else ""), ("Caches", caches),
        ("Memory", size(seen.memory_bytes) if seen.memory_bytes else ""),
        ("Software", ", ".join(f"{k} {v}" for k, v in seen.software.items())),
        ("Settings", ", ".join(f"{k}={v}" for k, v in seen.settings.items())),
    ))


def sensors(bundle: Bundle) -> str:
    """What was read while the run went on, and what could not be, with the reason."""
    read = dict.fromkeys(one.sensor for one in bundle.readings if one.status == "ok")
    failed = {(one.sensor, one.reason): None for one in bundle.readings if one.status == "error"}
    missing = {(one.sensor, one.reason): None for one in bundle.readings if one.status == "not_supported"}
    return facts((
        ("Sensors", ", ".join(read)), ("Failed", "; ".join(f"{name}: {reason}" for name, reason in failed)),
        ("Not supported", "; ".join(f"{name}: {reason}" for name, reason in missing)),
    ))


def device(dev: Device) -> str:
    """What a device says of itself."""
    return facts((
        ("Device", dev.name), ("Selector", dev.selector), ("UUID", dev.uuid),
        ("PCI", " ".join(filter(None, (dev.pci_address, dev.pci_id)))),
        ("Driver", dev.driver), ("Units", dev.compute_units), ("Highest clock", show(dev.clock_max_hz, "Hz") if dev.clock_max_hz else ""),
        ("Memory", size(dev.memory_bytes) if dev.memory_bytes else ""), ("Last cache", size(dev.cache_bytes) if dev.cache_bytes else ""),
        ("Machine table", dev.machine),
    ))
