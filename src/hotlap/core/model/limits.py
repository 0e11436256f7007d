"""What the hardware allows for a case: the roofline of compulsory bytes and operations, link rates, first-cache port widths.

A bound is provable: compulsory traffic only, the highest clock the part can reach, every unit busy. What cannot be proved is
an expected value or unknown, with the reason. Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009; compulsory
traffic beyond a cache after the residency argument of `dram_bytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from hotlap.core import work
from hotlap.core.model import cpu, machines, raster
from hotlap.core.model.levels import MEMORY, place
from hotlap.core.model.limit_part import COUNTED, LimitPart
from hotlap.core.model.machines import Spec
from hotlap.core.model.spec import SLICE
from hotlap.core.record import Case, Device, Limit, Machine, Notice, Term
from hotlap.core.units import show, size
from hotlap.core.work.base import Work
from hotlap.core.work.traits import Link

FOREIGN = {"program": "a program", "python": "a function of Python", "file": "a case of another tool"}  # by where its numbers come from
MEMORY_SLICES = 8  # of a card that can be sliced
REPORTED_UNITS = ("NVIDIA", "AMD")  # their drivers count SMs and CUs as the table does; Intel's count something else


# ---------------------------------------------------------------- the machine of a device


def spec_for(device: Device, machine: Machine, clocks_hz: Sequence[float] = ()) -> Spec | None:
    """What is known of a device: the processor as it reports itself, or the table's GPU with what its driver counts put first.

    `clocks_hz` are those measured in the run. None for a GPU that is not in the table, and for what only plays one.
    """
    if device.stand_in:
        return None
    seen = max(clocks_hz, default=None)
    if device.kind == "cpu":
        found = cpu.spec(machine.cpu, seen)
        return replace(found, compute_units=found.compute_units or device.compute_units, llc_bytes=found.llc_bytes or device.cache_bytes)
    if card := machines.card_of_slice(device):
        return _slice(machines.load(card), device, seen)
    slug = device.machine or machines.recognise(device)
    return _with_driver(machines.load(slug), device, seen) if slug and machines.known(slug) else None


def _slice(card: Spec, device: Device, seen_hz: float | None) -> Spec:
    """The part of a card that a MIG slice has: the units and the memory that its driver counts, and of the bandwidth as many eighths as of
    the memory. A slice has no link to peers, and of the card's power an unknown part. Source: NVIDIA, MIG User Guide, partitioning."""
    profile, whole = f"{SLICE} {device.facts['mig']}", card.memory_bytes
    eighths = min(max(round(MEMORY_SLICES * device.memory_bytes / whole), 1), MEMORY_SLICES) if whole and device.memory_bytes else None
    rate = card.memory_bandwidth_b_s * eighths / MEMORY_SLICES if card.memory_bandwidth_b_s and eighths else None
    spec = replace(
        card, slug=f"{card.slug}, {profile}", name=f"{card.name}, {profile}", aliases=(), names=(), pci_ids=(), original=card,
        compute_units=device.compute_units, memory_bytes=device.memory_bytes and float(device.memory_bytes), memory_bandwidth_b_s=rate,
        memory_bandwidth_source=f"{eighths} of {MEMORY_SLICES} memory slices of {card.slug}: {card.source()}" if rate else "",
        scaleup_b_s=None, power_w=None, published_peak=None, rops=None, texels_per_clock=None, triangles_per_clock=None,
        edits={profile: f"all of {card.slug}"},
    )  # fmt: skip
    facts = {name: value for name, value in device.facts.items() if not name.startswith("memory_")}  # those are the card's
    return _with_driver(spec, structs.replace(device, facts=facts), seen_hz)


def _with_driver(spec: Spec, device: Device, seen_hz: float | None) -> Spec:
    """The driver's figures where they are higher, so that a bound stays one; its count of units in any case."""
    if device.compute_units and spec.vendor in REPORTED_UNITS:
        spec = replace(spec, compute_units=device.compute_units)
    for clock, where in ((device.clock_max_hz, "highest clock the driver reports"), (seen_hz, "highest clock seen in the run")):
        if clock and clock > (spec.clock_max_hz or 0.0):
            spec = replace(spec, clock_max_hz=clock, clock_source=where)
    if device.cache_bytes and device.cache_bytes > (spec.l2_bytes or 0.0) + (spec.llc_bytes or 0.0):
        spec = replace(spec, l2_bytes=float(device.cache_bytes), llc_bytes=None)
    clock, bits = device.facts.get("memory_clock_hz"), device.facts.get("memory_bus_bits")
    rate = 2.0 * clock * bits / 8 if clock and bits else 0.0
    if spec.memory_bandwidth_b_s and rate > spec.memory_bandwidth_b_s:
        spec = replace(spec, memory_bandwidth_b_s=rate, memory_bandwidth_source="2 × memory clock × bus width, both by the driver")
    return spec


# ---------------------------------------------------------------- limits


def limit(case: Case, spec: Spec | None, clock_hz: float | None = None) -> Limit:
    """The limit of one call in seconds. `clock_hz` raises the clock where it is higher than the machine's own.

    Kind "unknown" carries its reason. Raises InputError for an unknown workload.
    """
    if spec is None:
        return unknown("the device is not in the machine table; 'hotlap model machines' lists what is")
    if clock_hz and clock_hz > (spec.clock_max_hz or 0.0):
        spec = replace(spec, clock_max_hz=clock_hz, clock_source="highest clock seen in the run")
    if work.find(case.workload).on_host:
        return unknown(f"no table of machines says what {case.workload} reaches: it depends on the host")
    asked = work.find(case.workload).work(case.params)
    if link := work.find(case.workload).link:
        return _link(link, case, asked, spec)
    if drawn := work.find(case.workload).drawn:
        parts = raster.parts(drawn(case.params), asked, spec)
        return unknown(parts) if isinstance(parts, str) else _join(parts, [], spec)
    if not asked.memory_bytes and not asked.total_operations:
        if foreign := FOREIGN.get(work.find(case.workload).source):
            return unknown(f"what {foreign} computes is not counted, so nothing says how fast it could be")
        return unknown(f"no published figure for {case.workload} on {spec.name}")
    return _roofline(case, asked, spec)


def unknown(reason: str) -> Limit:
    return Limit(kind="unknown", reason=reason)


def _roofline(case: Case, asked: Work, spec: Spec) -> Limit:
    arithmetic = _arithmetic(asked, spec)
    memory = _memory(case, asked, spec) if spec.kind == "gpu" else _first_cache(asked, spec)
    computes = asked.total_operations > 0 and work.find(case.workload).metric != "bandwidth"
    if isinstance(arithmetic, str) and computes:
        return unknown(arithmetic)
    if isinstance(memory, str) and not computes:
        return unknown(memory)
    parts = [part for part in (arithmetic, memory) if isinstance(part, LimitPart)]
    without = isinstance(memory, str) and asked.memory_bytes
    left_out = [Notice("memory_left_out", f"{memory}: the limit leaves memory out")] if without else []
    return _join(parts, left_out, spec)


def _join(parts: list[LimitPart], left_out: list[Notice], spec: Spec) -> Limit:
    """The longest part sets the limit; it is a bound if that part is a hard one."""
    longest = max(parts, key=lambda p: p.seconds)
    hard = [p.seconds for p in parts if p.is_hard_bound and p.seconds > 0]
    made_of = [
        Notice("limit_part", f"{p.name}: {show(p.seconds, 's')} of {show(longest.seconds, 's')}")
        for p in sorted(parts, key=lambda p: -p.seconds)
    ]
    return Limit(
        kind="bound" if longest.is_hard_bound else "expected", bound_s=max(hard) if hard else None,
        expected_s=None if longest.is_hard_bound else longest.seconds, clock_hz=spec.clock_max_hz, limiter=longest.limiter,
        notes=made_of + [note for p in parts for note in p.notes] + left_out, provenance=[t for p in parts for t in p.terms],
    )


# ---------------------------------------------------------------- arithmetic


def _arithmetic(asked: Work, spec: Spec) -> LimitPart | str:
    """Operations ÷ peak of the unit that does them; units may run side by side, so the slowest counts."""
    parts = []
    for unit, count in asked.operations.items():
        if count <= 0:
            continue
        rate = quickest(spec, unit, asked)
        if rate is None:
            return f"no published rate of {unit} on {spec.name}"
        clock, is_hard_bound = spec.clock_max_hz, spec.clock_proven
        if clock is None:
            clock, is_hard_bound = spec.clock_for_peak_hz, False
        if clock is None or spec.compute_units is None:
            return f"no published {'clock' if clock is None else 'number of units'} of {spec.name}"
        parts.append(_operations(rate, count, clock, is_hard_bound, spec))
    return max(parts, key=lambda p: p.seconds) if parts else "no operations are counted"


def per_clock(spec: Spec, unit: str) -> tuple[str, float] | None:
    """The unit that does it and its operations per clock. Matrix products of fp32 and fp64 run on the vector units where
    there is no matrix unit for them, or a slower one; emulation by several narrower products is not that arithmetic."""
    options = [unit, unit.replace("matrix", "fma")] if unit in ("matrix.fp32", "matrix.fp64") else [unit]
    found = [(spec.flop_per_clock[u], u) for u in options if u in spec.flop_per_clock]
    if not found:
        return None
    rate, name = max(found)
    return name, rate


def quickest(spec: Spec, unit: str, asked: Work) -> tuple[str, float] | None:
    """The same, by the quicker unit where operands may be narrowed: no other rate gives a bound."""
    own, other = per_clock(spec, unit), asked.quicker.get(unit)
    narrow = per_clock(spec, other) if own and other else None
    return narrow if own and narrow and narrow[1] > own[1] else own


def operation_unit(unit: str) -> str:
    """FLOP, or OP for whole numbers."""
    return "OP" if ".int" in unit else "FLOP"


def _operations(per_clock_rate: tuple[str, float], count: float, clock_hz: float, is_hard_bound: bool, spec: Spec) -> LimitPart:
    unit, rate = per_clock_rate
    assert spec.compute_units is not None
    peak, flop = spec.compute_units * rate * clock_hz, operation_unit(unit)
    clock_source = spec.clock_source if spec.clock_max_hz else "clock at which the published peak holds"
    terms = (
        Term(name="operations", value=count, unit=flop, source=COUNTED),
        Term(
            name=f"peak {unit}", value=peak, unit=f"{flop}/s",
            source=f"{spec.compute_units} units × {rate:g} a clock: {spec.source_of(unit)}",
        ),
        Term(name="clock", value=clock_hz, unit="Hz", source=clock_source),
    )
    notes = () if is_hard_bound else (Notice("not_proven", f"expected, not bound: {clock_source}"),)
    return LimitPart("arithmetic", "arithmetic unit", count / peak, is_hard_bound, terms, notes)


# ---------------------------------------------------------------- memory


def compulsory(case: Case, asked: Work) -> tuple[float, float]:
    """Distinct bytes that a call must read and write: fewer than it counts where it may meet the same ones again."""
    least = work.find(case.workload).least_bytes
    return least(case.params, asked) if least else asked.read_bytes, asked.written_bytes


def dram_bytes(case: Case, asked: Work, resident_bytes: float) -> float:
    """The least that must cross the memory interface in one call.

    Warm: of what a pass reads and writes, at most the bytes that the caches hold can have stayed there from the pass before,
    so bytes − L (bytes·(1 − L/W) where a pass touches all of W once). Cold: all reads, and writes beyond what the caches keep.
    """
    read, written = compulsory(case, asked)
    if case.params.get("cache") == "cold":
        return read + max(written - resident_bytes, 0.0)
    return max(read + written - resident_bytes, 0.0)


def cached_share(case: Case, bound_s: float | None, spec: Spec | None) -> float:
    """Share of the compulsory bytes that memory has no time to move within a bound: a cache must hold them, and nobody publishes its rate.

    0 where memory's bandwidth is not known, and for what moves nothing.
    """
    kind = work.find(case.workload)
    nbytes = 0.0 if kind.link or kind.on_host else sum(compulsory(case, kind.work(case.params)))
    if not (nbytes and bound_s and spec and spec.memory_bandwidth_b_s):
        return 0.0
    return max(1 - bound_s * spec.memory_bandwidth_b_s / nbytes, 0.0)


def _memory(case: Case, asked: Work, spec: Spec) -> LimitPart | str:
    if not asked.memory_bytes:
        return "no memory traffic is counted"
    if spec.memory_bandwidth_b_s is None:
        return f"no published memory bandwidth of {spec.name}"
    held = spec.resident_bytes
    least = dram_bytes(case, asked, held or 0.0)
    if least <= 0:
        return f"{size(asked.memory_bytes)} may stay in {spec.name}'s cache of {size(held or 0.0)}, whose bandwidth is not published"
    terms = (
        Term(name="least memory traffic", value=least, unit="B", source=_traffic_source(case, held)),
        Term(name="memory bandwidth", value=spec.memory_bandwidth_b_s, unit="B/s", source=spec.memory_bandwidth_source or spec.source()),
    )
    unproven = f"memory is expected, not bound: the size of {spec.name}'s cache is not known"
    notes = () if held is not None else (Notice("not_proven", unproven),)
    return LimitPart("memory", "memory", least / spec.memory_bandwidth_b_s, held is not None, terms, notes)


def _traffic_source(case: Case, held: float | None) -> str:
    if held is None:
        return "compulsory bytes, none of them cached"
    if case.params.get("cache") == "cold":
        return f"compulsory bytes, less writes that may stay in {size(held)} of cache"
    return f"compulsory bytes, less {size(held)} that may have stayed in cache"


def _first_cache(asked: Work, spec: Spec) -> LimitPart | str:
    """Bytes ÷ port width of the first caches, which everything passes through; of use only where everything fits them."""
    footprint, unit_bytes = max(asked.working_set_bytes, asked.memory_bytes), spec.l1_bytes
    if not asked.memory_bytes:
        return "no memory traffic is counted"
    if not (unit_bytes and spec.compute_units and footprint <= unit_bytes * spec.compute_units):
        level = place(footprint, spec)
        what = "memory bandwidth" if level in ("", MEMORY) else f"bandwidth of {level}"
        return f"no published {what} for {spec.name}" if unit_bytes else f"the first cache of {spec.name} is not known"
    load, store, clock = spec.l1_load_bytes_per_clock, spec.l1_store_bytes_per_clock, spec.clock_max_hz
    if not (load and store and clock):
        return f"no published port width of {spec.name}'s first cache" if clock else f"no clock of {spec.name} is known"
    rate = clock * spec.compute_units
    terms = (
        Term(name="first-cache load rate", value=load * rate, unit="B/s", source=f"{load:g} B a clock and core: {spec.source()}"),
        Term(name="first-cache store rate", value=store * rate, unit="B/s", source=f"{store:g} B a clock and core: {spec.source()}"),
        Term(name="clock", value=clock, unit="Hz", source=spec.clock_source),
    )
    seconds = max(asked.read_bytes / load, asked.written_bytes / store) / rate
    notes = () if spec.clock_proven else (Notice("not_proven", f"expected, not bound: {spec.clock_source}"),)
    return LimitPart("first cache", "cache", seconds, spec.clock_proven, terms, notes)


# ---------------------------------------------------------------- links


def _link(link: Link, case: Case, asked: Work, spec: Spec) -> Limit:
    found = link_rate(link.between, spec)
    if isinstance(found, str):
        return unknown(found)
    rate, source = found
    each = link.least(case.params, asked)
    return Limit(
        kind="bound", bound_s=each / rate, limiter="link",
        notes=[Notice("limit_part", f"link: {size(each)} each way used at {show(rate, 'B/s')}")],
        provenance=[
            Term(name="link traffic, one way", value=each, unit="B", source=COUNTED),
            Term(name="link bandwidth, one way", value=rate, unit="B/s", source=source),
        ],
    )


def link_rate(between: str, spec: Spec) -> tuple[float, str] | str:
    """The fastest link between host and device, or between peers, one way, and where the figure comes from; or why it is unknown."""
    if spec.kind == "cpu":
        return "host and device share one memory: a copy crosses no link"
    options = []
    if spec.pcie_b_s is not None:
        options.append((spec.pcie_b_s, _pcie_source(spec)))
    if between == "peers":
        if spec.scaleup_b_s is None:
            return f"no published link between {spec.name} and its peers"
        options.append((spec.scaleup_b_s / 2, f"half of the published figure for both ways: {spec.source('scaleup_b_s')}"))
    elif spec.host_b_s is not None:
        options.append((spec.host_b_s / 2, f"half of the published figure for both ways: {spec.source('host_b_s')}"))
    return max(options) if options else f"no published link between host and {spec.name}"


def _pcie_source(spec: Spec) -> str:
    source = spec.source("pcie_generation", "pcie_lanes")
    return f"PCI Express {spec.pcie_generation}.0 × {spec.pcie_lanes} lanes × 128/130, before packet headers: {source}"
