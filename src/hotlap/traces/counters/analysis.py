"""What bounds each kernel, how far it is from the peak, and what its counters say could be gained."""

from __future__ import annotations

import math
from typing import Literal

from hotlap.core.record import Record
from hotlap.core.units import percent
from hotlap.traces.counters import metrics, occupancy, rules
from hotlap.traces.counters.kernel import CountedKernel, KernelProfile
from hotlap.traces.counters.occupancy import Occupancy
from hotlap.traces.counters.rules import Hint

Kind = Literal["compute", "memory", "both", "latency", "small grid", "unknown"]
OPCODES = ("FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA")
LEVELS = {"dram_share": "DRAM", "l2_share": "L2", "l1_share": "L1"}


class Bound(Record, frozen=True, kw_only=True):
    """What sets the pace of a kernel. Shares of a peak, of 1; None where they are not known."""

    kind: Kind
    level: str = ""  # of memory: DRAM, L2, L1
    compute: float | None = None
    memory: float | None = None
    headroom: float | None = None  # share of time that would go at the peak of the busier of the two


class Analysis(Record, frozen=True, kw_only=True):
    """One kernel, analysed."""

    kernel: CountedKernel
    bound: Bound
    occupancy: Occupancy | None
    hints: list[Hint]  # largest gain first
    errors: list[str]  # data that cannot be


def analyse(profile: KernelProfile) -> list[Analysis]:
    """Every kernel of a file, in its order."""
    return [of(kernel) for kernel in profile.kernels]


def of(kernel: CountedKernel) -> Analysis:
    """One kernel; metrics that cannot be (more than the peak) are left out of all that is computed, and named."""
    known = metrics.completed(kernel.metrics)
    wrong = metrics.impossible(known)
    errors = [f"{metrics.worded(name, known[name])}: more than a peak allows is an error of the data" for name in wrong]
    if wrong:
        known = metrics.completed({name: value for name, value in kernel.metrics.items() if name not in wrong})
        known = {name: value for name, value in known.items() if name not in wrong}
    fits = occupancy.of(kernel)
    names = _names(kernel, known, fits)
    bound = _bound(names)
    errors += _contradictions(names, fits)
    return Analysis(
        kernel=kernel, bound=bound, occupancy=fits, hints=rules.matching(kernel.name, kernel.place, names, bound.headroom), errors=errors
    )


WARPS = (16.0, 32.0, 64.0, 128.0)


def _names(kernel: CountedKernel, known: dict[str, float], fits: Occupancy | None) -> dict[str, float]:
    """What rules can ask for: metrics, and what follows from the launch."""
    names = dict(known)
    usual = 64.0 if kernel.vendor == "amd" else 32.0
    told = known.get("warp_threads", usual)
    warp = names["warp"] = told if told in WARPS else usual  # anything else is a damaged cell, not a warp
    if kernel.block is not None:
        names.setdefault("block_threads", float(math.prod(kernel.block)))
    if kernel.grid is not None:
        names.setdefault("blocks", float(math.prod(kernel.grid)))
    if "block_threads" in names:
        names["warps_block"] = float(math.ceil(names["block_threads"] / warp))
        names["last_threads"] = math.fmod(names["block_threads"], warp)
    if kernel.shared_bytes:
        names["shared_bytes"] = float(kernel.shared_bytes)
    _waves(names, fits)
    if "occupancy_theoretical" in names or fits is not None:
        names["occupancy"] = names.get("occupancy_theoretical", fits.share if fits else 0.0)
    pipes = [value for name, value in names.items() if name.startswith("pipe_")]
    if pipes:
        names["pipe_most"] = max(pipes)
    if kernel.opcodes:
        names |= {f"op_{name.lower()}": kernel.opcodes.get(name, 0.0) for name in OPCODES}
    holds = occupancy.table().get(kernel.capability, {})
    if "fp64_ratio" in holds:
        names["fp64_ratio"] = float(holds["fp64_ratio"])
    return names


def _waves(names: dict[str, float], fits: Occupancy | None) -> None:
    """Waves from blocks and what fits, exact where the profiler printed two digits of them."""
    room = names.get("multiprocessors", 0.0) * (min(fits.limits.values()) if fits is not None else 0)
    if room and "blocks" in names:
        waves = names["blocks"] / room
        if abs(waves - names.get("waves", waves)) <= 0.006 * max(1.0, waves):
            names["waves"] = waves
    if "waves" in names:
        names["waves_whole"] = float(math.floor(names["waves"]))
        names["waves_part"] = names["waves"] - names["waves_whole"]


def _bound(names: dict[str, float]) -> Bound:
    """By the rule SOLBottleneck: shares of the peaks of compute and memory."""
    compute, memory, limits = names.get("compute_share"), names.get("memory_share"), rules.bounds()
    if compute is None or memory is None:
        return Bound(kind="unknown", compute=compute, memory=memory)
    kind: Kind = "compute" if compute > memory else "memory"
    if max(compute, memory) < limits["latency"]:
        kind = "small grid" if names.get("waves", math.inf) < limits["waves"] else "latency"
    elif max(compute, memory) < limits["well_used"] and abs(compute - memory) < limits["balanced"]:
        kind = "both"
    shares = {level: names[name] for name, level in LEVELS.items() if name in names}
    level = max(shares, key=lambda one: shares[one]) if kind == "memory" and shares else ""
    return Bound(kind=kind, level=level, compute=compute, memory=memory, headroom=max(0.0, 1 - max(compute, memory)))


def _contradictions(names: dict[str, float], fits: Occupancy | None) -> list[str]:
    """Two sources that should agree and do not."""
    if fits is None or "occupancy_theoretical" not in names or abs(fits.share - names["occupancy_theoretical"]) < 0.005:
        return []
    told, own = percent(names["occupancy_theoretical"]), percent(fits.share)
    return [f"theoretical occupancy: the profiler says {told}, registers, shared memory and block size {own}; the profiler's is used"]
