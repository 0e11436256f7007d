"""What a compiled kernel costs before it runs: how many of its warps fit, and what in its code speaks against it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hotlap.core.record import Finding, Record
from hotlap.kernels.binaries.base import Compiled
from hotlap.traces.counters import occupancy
from hotlap.traces.counters.occupancy import Occupancy

THREADS = 256  # of a block, where the kernel declares none
LOW = 0.5  # share of the warps below which a bound by registers is worth mentioning
PRODUCT = 4.0  # multiply-adds for each access to memory from which code looks like a matrix product
FEWEST = 32  # multiply-adds of such code
SPILL = "raise the limit of registers (launch bounds, maxnreg), fewer warps, smaller tiles, or split the kernel"


class Studied(Record, frozen=True, kw_only=True):
    """A compiled kernel and the warps of it that a multiprocessor (compute unit) holds."""

    compiled: Compiled
    threads: int  # of a block, for which it was counted
    assumed: bool = False  # nobody says how many threads: `threads` is an assumption
    occupancy: Occupancy | None = None
    reason: str = ""  # why there is none

    @property
    def variant(self) -> str:
        return " ".join(part for part in (self.compiled.architecture, self.compiled.flags) if part) or self.compiled.how


def capability(architecture: str) -> str:
    """9.0 of sm_90a, 12.1 of sm_121; "" of what is not NVIDIA's."""
    found = re.fullmatch(r"(?:sm|compute)_(\d+)(\d)[af]?", architecture)
    return f"{found[1]}.{found[2]}" if found else ""


def study(kernel: Compiled, threads: int | None = None) -> Studied:
    """`threads`: of a block, as it will be launched."""
    declared = min(kernel.threads, threads or kernel.threads) if kernel.threads else threads
    many = declared or THREADS
    reason, occupied = "", None
    if kernel.registers is None:
        reason = "its registers are not known"
    elif kernel.architecture.startswith("gfx"):
        occupied = occupancy.amd(kernel.architecture, many, kernel.registers, kernel.shared_all_bytes)
    else:
        occupied = occupancy.nvidia(capability(kernel.architecture), many, kernel.registers, kernel.shared_all_bytes)
    if occupied is None and not reason:
        reason = f"what a unit of {kernel.architecture or 'this device'} holds is not in the table"
    return Studied(compiled=kernel, threads=many, assumed=declared is None, occupancy=occupied, reason=reason)


def findings(studied: Sequence[Studied]) -> list[Finding]:
    """The worst first: code that cannot launch, spills, local memory, products without the matrix unit, registers that bound occupancy."""
    found = [finding for one in studied for finding in _of(one)]
    return sorted(found, key=lambda one: ("error", "warning", "info").index(one.severity))


def _of(studied: Studied) -> list[Finding]:
    return [found for rule in (_launch, _spills, _local, _product, _occupancy) if (found := rule(studied)) is not None]


def _where(studied: Studied) -> str:
    return f"{studied.compiled.kernel} {studied.variant}".strip()


def _launch(studied: Studied) -> Finding | None:
    held = studied.occupancy
    if held is None or held.warps:
        return None
    which = ", ".join(name for name, blocks in held.limits.items() if not blocks)
    return Finding(
        title=f"not one block of {studied.threads} threads fits",
        severity="error",
        rule="compiled-launch",
        where=_where(studied),
        confidence="high",
        detail=f"a unit of {studied.compiled.architecture} has too little of: {which}",
        action="fewer threads a block, less shared memory or registers",
    )


def _spills(studied: Studied) -> Finding | None:
    kernel = studied.compiled
    if not kernel.spills:
        return None
    return Finding(
        title="registers are spilled to memory",
        rule="compiled-spills",
        where=_where(studied),
        action=SPILL,
        confidence="high",
        detail=f"{_bytes(kernel)} at {kernel.registers} registers a thread",
        evidence={"stored_bytes": kernel.spill_store_bytes, "loaded_bytes": kernel.spill_load_bytes},
    )


def _local(studied: Studied) -> Finding | None:
    kernel = studied.compiled
    if kernel.spills or not kernel.stack_bytes or kernel.registers is None:
        return None
    return Finding(
        title="local memory is used",
        rule="compiled-local",
        where=_where(studied),
        confidence="medium",
        evidence={"stack_bytes": kernel.stack_bytes},
        detail=f"{kernel.stack_bytes} B of a thread's stack lie in memory: spilled registers, or arrays with an index of run time",
        action="unroll loops that index local arrays; else see spills with the source: hotlap kernel compiled SOURCE",
    )


def _product(studied: Studied) -> Finding | None:
    wanted = _unused_matrix(studied.compiled)
    if not wanted or not studied.compiled.dtypes:
        return None
    return Finding(
        title="a product without matrix instructions",
        rule="compiled-matrix",
        where=_where(studied),
        detail=wanted,
        confidence="medium",
        action="let tiles meet the matrix unit's shapes (Triton: tl.dot; CUDA: mma, wgmma or a library)",
    )


def _occupancy(studied: Studied) -> Finding | None:
    held = studied.occupancy
    if held is None or not held.warps or held.share >= LOW or "registers per thread" not in held.limited_by:
        return None
    assumed = "; the threads of a block are assumed" if studied.assumed else ""
    return Finding(
        title=f"registers bound occupancy to {100 * held.share:.0f} %",
        severity="info",
        rule="compiled-occupancy",
        where=_where(studied),
        confidence="high",
        detail=f"{studied.compiled.registers} registers × {studied.threads} threads: {held.warps} of {held.most} warps fit{assumed}",
        action="matters where latency is not hidden otherwise: kernels of few warps with asynchronous copies are well",
        evidence={"warps": held.warps, "most": held.most},
    )


def _bytes(kernel: Compiled) -> str:
    stored, loaded = kernel.spill_store_bytes, kernel.spill_load_bytes
    if loaded is None:
        return f"{stored} B of a thread lie in memory"
    return f"{stored} B are stored and {loaded} B loaded by a thread, each instruction counted once,"


def _unused_matrix(kernel: Compiled) -> str:
    """Words for multiply-adds of narrow types in number, none of them by the matrix unit; "" where that is not so."""
    if kernel.matrix or kernel.of not in ("SASS", "AMDGCN", "PTX"):
        return ""
    counted = kernel.instructions
    many = counted.get("fma", 0) + counted.get("half", 0)
    moved = counted.get("global", 0) + counted.get("shared", 0)
    if many < FEWEST or many < PRODUCT * max(moved, 1):
        return ""
    return f"{many} multiply-adds on vector units for {moved} accesses to memory, and its code names {', '.join(kernel.dtypes)}"
