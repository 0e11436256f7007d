"""What a simulated GPU takes for a case: the bound where there is one, plain assumptions elsewhere.

Nothing here is ever a limit or an expectation of a real device; the model is tested against published measurements, never
against this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from hotlap.core import work
from hotlap.core.errors import NotSupported
from hotlap.core.model import limits
from hotlap.core.model.machines import Spec
from hotlap.core.record import Case
from hotlap.core.work.base import Work, integer, text
from hotlap.core.work.latency import ATOMIC_ITEMS

LAUNCH_S = {"single": 3e-6, "stream": 2e-6, "graph": 1e-6}  # assumed, of the size that NVIDIA drivers show
SYNC_S = {"synchronize": 2e-6, "event": 3e-6}  # assumed
PASSED_BYTES_A_UNIT = 32 * 2**20  # moved in one launch per compute unit, by passes over a small working set: as real targets do
DRAW_S = 0.5e-6  # from one draw call to the next: assumed
WAITED_S = {"cold": 20e-3, "warm": 1e-3, "cached": 50e-6, "fifo": 1 / 60, "immediate": 50e-6}  # for a pipeline's picture; a frame: assumed
TRIANGLES = 4.0  # rasterised a clock, of chips whose vendor says none: assumed
REJECTED = 4.0  # pixels that the depth test rejects while a ROP writes one: assumed
COPY_S = 1e-6  # from one command of a copy engine to the next: assumed
L2_OF_MEMORY = 2.0  # L2 bandwidth ÷ memory bandwidth: assumed; A100's published 5120 B a clock is 3.5 times, L4's more
L1_BYTES = 128 * 2**10  # one unit's share of first cache that a chase can use: assumed
# Cycles of a dependent load that hits the first cache, L2, memory: Luo and others, arXiv 2402.13499, H100, rounded.
L1_CYCLES, L2_CYCLES, MEMORY_CYCLES = 40.0, 260.0, 480.0
ATOMICS_PER_CLOCK_SAME, ATOMICS_PER_CLOCK_UNIT_SPREAD = 1.0, 16.0  # one address in one L2 slice; spread, per unit: assumed
BARRIER_CYCLES, BARRIER_CYCLES_PER_ITEM = 20.0, 0.05  # assumed
SECTOR_BYTES = 32.0  # the least that a miss fetches; NVIDIA CUDA C++ Best Practices Guide, coalesced access


def expected_call_s(case: Case, spec: Spec) -> float:
    """Seconds of one call at 100 % efficiency, without noise.

    Bandwidth and arithmetic: the longest of the bound, of L2 at twice memory bandwidth (assumed) and of one launch in a long
    queue. Gathers fetch sectors of 32 B. Latencies in cycles of the highest clock by cache level. Raises NotSupported where the
    table lacks a figure.
    """
    kind = work.find(case.workload)
    asked = kind.work(case.params)
    if not kind.counted:
        raise NotSupported("a simulated GPU cannot run programs")
    if latency := _LATENCIES.get(kind.shows):
        return latency(case, spec)
    if kind.heading == "graphics":
        return _drawn_s(case, asked, spec)
    if kind.model == "recurrence":  # every step waits for the one before
        return max(_bound_s(case, spec), integer(case.params, "steps") * LAUNCH_S["graph"])
    floor_s = COPY_S if asked.link_bytes else LAUNCH_S["stream"] * launches(case) / _calls_a_launch(case, asked, spec)
    return max(_bound_s(case, spec), _traffic_s(case, asked, spec), floor_s)


def _drawn_s(case: Case, asked: Work, spec: Spec) -> float:
    """Of what draws: its limit, with assumed rates of triangles and of the depth test where the table has none; draw calls,
    compiling and a display of 60 Hz take assumed times."""
    kind = work.find(case.workload)
    if spec.rops is None:
        raise NotSupported(f"no published number of pixels written a clock (ROPs) of {spec.name}: nothing is known of what it draws")
    if kind.drawn is None:
        waits = kind.metric == "latency"
        return WAITED_S[text(case.params, kind.params[0].name)] if waits else max(asked.steps * DRAW_S, LAUNCH_S["stream"])
    drawn = kind.drawn(case.params)
    if drawn.lacks:
        return max(asked.steps / (REJECTED * spec.rops * _clock(spec)), LAUNCH_S["stream"])
    assumed = replace(spec, triangles_per_clock=spec.triangles_per_clock or TRIANGLES)
    return max(_bound_s(case, assumed), LAUNCH_S["stream"])


def launches(case: Case) -> float:
    """Kernels that a call is of, one behind the other: those of its workload's passes."""
    kind = work.find(case.workload)
    if kind.passes is None:
        return 1.0
    params = {name: value if isinstance(value, str) else np.atleast_1d(value) for name, value in kind.full(case.params).items()}
    return float(np.max(kind.passes.launches(params)))


def _calls_a_launch(case: Case, asked: Work, spec: Spec) -> float:
    """Streams over small working sets pass over them many times in one launch, as on real targets."""
    if not work.find(case.workload).shares_launch or case.params.get("cache") == "cold":
        return 1.0
    return max(1.0, PASSED_BYTES_A_UNIT * (spec.compute_units or 1) // asked.memory_bytes)


def _bound_s(case: Case, spec: Spec) -> float:
    """0 where only the cache is at work."""
    limit = limits.limit(case, spec)
    if limit.kind == "unknown":
        kind = work.find(case.workload)
        asked = kind.work(case.params)
        moves_only = kind.metric == "bandwidth" or (asked.memory_bytes > 0 and not asked.total_operations)
        if moves_only and spec.memory_bandwidth_b_s and not _on_link(case):
            return 0.0
        raise NotSupported(limit.reason)
    return float(max(limit.bound_s or 0.0, limit.expected_s or 0.0))


def _on_link(case: Case) -> bool:
    link = work.find(case.workload).link
    return link is not None and link.copied


def _traffic_s(case: Case, asked: Work, spec: Spec) -> float:
    if not asked.memory_bytes or spec.memory_bandwidth_b_s is None:
        return 0.0
    cached_s = asked.memory_bytes / (L2_OF_MEMORY * spec.memory_bandwidth_b_s)
    if work.find(case.workload).traffic != "gathered":
        return cached_s
    reads = asked.written_bytes / 4  # one element is written for each that is read
    fetched = reads * (4.0 * min(integer(case.params, "stride"), 8) if text(case.params, "pattern") == "strided" else SECTOR_BYTES)
    fits = asked.working_set_bytes <= (spec.resident_bytes or 0.0)
    return max(cached_s, (fetched + asked.memory_bytes - 4 * reads) / spec.memory_bandwidth_b_s / (L2_OF_MEMORY if fits else 1.0))


def _clock(spec: Spec) -> float:
    clock = spec.clock_max_hz or spec.clock_for_peak_hz
    if clock is None:
        raise NotSupported(f"no published clock of {spec.name}")
    return clock


def _load_cycles(working_set_bytes: float, spec: Spec) -> float:
    if working_set_bytes <= L1_BYTES:
        return L1_CYCLES
    return L2_CYCLES if working_set_bytes <= (spec.resident_bytes or 0.0) else MEMORY_CYCLES


def _launch_s(case: Case, _: Spec) -> float:
    return LAUNCH_S[text(case.params, "mode")]


def _wait_s(case: Case, _: Spec) -> float:
    return SYNC_S[text(case.params, "kind")]


def _loads_s(case: Case, spec: Spec) -> float:
    asked = work.find(case.workload).work(case.params)
    return asked.steps * _load_cycles(asked.working_set_bytes, spec) / _clock(spec)


def _barriers_s(case: Case, spec: Spec) -> float:
    cycles = BARRIER_CYCLES + BARRIER_CYCLES_PER_ITEM * integer(case.params, "group")
    return work.find(case.workload).work(case.params).steps * cycles / _clock(spec)


def _atomics_s(case: Case, spec: Spec) -> float:
    if spec.compute_units is None:
        raise NotSupported(f"no published number of units of {spec.name}")
    same = text(case.params, "contention") == "same"
    per_clock = ATOMICS_PER_CLOCK_SAME if same else ATOMICS_PER_CLOCK_UNIT_SPREAD * spec.compute_units
    return max(ATOMIC_ITEMS * integer(case.params, "repeats") / per_clock / _clock(spec), LAUNCH_S["stream"])


_LATENCIES: Mapping[str, Callable[[Case, Spec], float]] = {
    "launch": _launch_s, "wait": _wait_s, "load": _loads_s, "barriers": _barriers_s, "atomics": _atomics_s,
}  # fmt: skip
"""Seconds of a call, by what a workload shows of a machine."""
