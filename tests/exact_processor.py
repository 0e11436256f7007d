"""A processor whose rates are known exactly, as a sweep of the plan `calibrate-cpu` would find it."""

from __future__ import annotations

from hotlap.core import plan, work
from hotlap.core.model import processor
from hotlap.core.model.calibration import Calibration, Factor
from hotlap.core.work import traits

FLOP_S, BYTES_S, CALL_S = 1e11, 2e10, 1e-6


def swept(name: str = "A processor", fresh_s: float | None = None) -> Calibration:
    """One rate of arithmetic, one of memory, and one smallest operation. `fresh_s`: of 64 MiB that are taken anew."""
    facts = {}
    for case in plan.load("calibrate-cpu").cases:
        counted = work.find(case.workload).work(case.params)
        multiplies = traits(case.workload).model in ("product", "attention")
        seconds = CALL_S + (counted.total_operations / FLOP_S if multiplies else counted.memory_bytes / BYTES_S)
        seconds = CALL_S if case.params.get("elements") == 1 else seconds
        facts[processor.fact_name(case.workload, case.params)] = Factor(seconds, seconds * 0.98, seconds * 1.02)
    if fresh_s is not None:
        facts[processor.FRESH] = Factor(fresh_s, fresh_s, fresh_s)
    return Calibration("cpu", "torch:0", name, "torch 2", "torch", "2026-11-25", "r", {}, facts)
