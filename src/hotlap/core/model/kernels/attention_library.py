"""Which library kernel an attention call runs, its coefficients, and the estimate that follows from its plan.

A kernel is known by its traits (tile sizes, packing, split rule: public source code) and by a few fitted coefficients, the same
for every GPU. A kernel without a fit, and an implementation that nobody knows, run with those of "default", fitted to all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.attention import AttentionPlan, Cases, read
from hotlap.core.model.kernels.base import Chip, Coefficients, Demand, Estimate, Floats, stored

WARP_SPECIALISED = 4096.0  # FLOP per clock and SM from which libraries ship asynchronous (Hopper and later) kernels


class LibraryFamily(NamedTuple):
    """What prefill and decode differ in."""

    phase: str
    kernels: Mapping[str, Any]  # traits
    plan: Callable[[Cases, Chip, Any, Mapping[str, float]], AttentionPlan]
    bound: Callable[[Cases, Chip], Floats]
    inside: Callable[[Cases], NDArray[np.bool_]]


def estimate(
    family: LibraryFamily, params: Mapping[str, ArrayLike], chip: Chip, implementation: str | ArrayLike, coefficients: Coefficients | None
) -> Estimate:
    """The expected time of each case; never less than what is provable."""
    c = read(params, family.phase)
    kernels = choose(implementation, c, chip, family.phase)
    fitted = coefficients if coefficients is not None else stored(family.phase, "kernel")
    plan = _planned(family, c, chip, kernels, fitted)
    seconds = np.asarray(sum(plan.parts.values()), dtype=float)
    if not np.isfinite(seconds).all():
        raise InputError("the sizes are too large to predict, or a fact of the machine is missing", about="attention: ")
    short = np.maximum(family.bound(c, chip) - seconds, 0.0)
    parts = {name: value + short if name == "DRAM" else value for name, value in plan.parts.items()}
    known = np.isin(kernels, [k for k in fitted if k != "default"]) & ~excluded(kernels, c)
    return Estimate(
        seconds + short, parts, Demand(_by_unit(plan.flop, c, chip), plan.special, plan.dram_bytes, plan.l2_bytes),
        {"kernel": kernels, **plan.choice}, family.inside(c) & known & _familiar(chip),
    )


def _planned(family: LibraryFamily, c: Cases, chip: Chip, kernels: NDArray[np.str_], fitted: Coefficients) -> AttentionPlan:
    names = np.unique(kernels)
    plans = {}
    for name in names:
        mask = kernels == name
        some = c if len(names) == 1 else c.where(mask)
        traits = family.kernels.get(str(name), family.kernels["default"])
        plans[str(name)] = family.plan(some, chip, traits, fitted.get(str(name), fitted["default"]))
    return next(iter(plans.values())) if len(names) == 1 else _merged(plans, kernels)


def _merged(plans: Mapping[str, AttentionPlan], kernels: NDArray[np.str_]) -> AttentionPlan:
    def merged(get: Callable[[AttentionPlan], Floats]) -> Floats:
        out = np.empty(len(kernels))
        for name, plan in plans.items():
            out[kernels == name] = get(plan)
        return out

    first = next(iter(plans.values()))
    return AttentionPlan(
        {n: merged(lambda p, n=n: p.parts[n]) for n in first.parts}, {n: merged(lambda p, n=n: p.choice[n]) for n in first.choice},  # type: ignore[misc]
        merged(lambda p: p.flop), merged(lambda p: p.special), merged(lambda p: p.dram_bytes), merged(lambda p: p.l2_bytes),
    )


def _by_unit(flop: Floats, c: Cases, chip: Chip) -> dict[str, Floats]:
    low = c.low * bool(chip.flop_per_clock.get("matrix.fp8"))
    return {"matrix.bf16": flop * (1 - low), **({"matrix.fp8": flop * low} if low.any() else {})}


def _familiar(chip: Chip) -> bool:
    """The unit's balance is within a quarter of those that were fitted: A100 and H100."""
    rate, bytes_per_clock = chip.flop_per_clock.get("matrix.bf16", 0.0), chip.memory_b_s / chip.units / chip.clock_hz
    return 0.75 * 2048 <= rate <= 1.25 * 4096 and 0.75 * 12.8 <= bytes_per_clock <= 1.5 * 13.4


# ---------------------------------------------------------------- which kernel runs


def choose(implementation: str | ArrayLike, c: Cases, chip: Chip, phase: str) -> NDArray[np.str_]:
    """The kernel of each case, for one implementation or an array of them."""
    names = np.broadcast_to(np.atleast_1d(np.asarray(implementation, dtype=str)), len(c.batch))
    if names.strides == (0,) or len(names) == 1:
        return library(str(names[0]), c, chip, phase)
    out = np.full(len(names), "default", dtype="<U10")
    for name in np.unique(names):
        out[names == name] = library(str(name), c.where(names == name), chip, phase)
    return out


def library(implementation: str, c: Cases, chip: Chip, phase: str) -> NDArray[np.str_]:
    """The kernel that an implementation ("vllm vllm_flash_attn", "trtllm torch_flow", …) starts. Sources: vLLM
    `fa_utils.get_flash_attn_version` (version 3 from Hopper on), SGLang's default backends (the same), TensorRT-LLM
    `xqaDispatcher` (groups of 2 to 32; 8-bit caches have a Hopper kernel), else its masked multi-head attention."""
    name, modern = implementation.lower(), (chip.original or chip).flop_per_clock.get("matrix.bf16", 0) >= WARP_SPECIALISED
    size = len(c.batch)
    if "trt" in name:
        return _tensorrt(c, modern, phase)
    for kernel in ("fa4", "fa3", "fa2"):
        if kernel in name:
            return np.full(size, kernel, dtype="<U10")
    if "flash_att" in name:
        wide = (c.head_dim > 256) & ("vllm" in name)  # beyond versions 2 and 3
        usual = "fa3" if modern else "fa3_sm80" if "sglang" in name else "fa2"
        return np.where(wide, "fa4", usual).astype("<U10")
    return np.full(size, "default", dtype="<U10")


def _tensorrt(c: Cases, modern: bool, phase: str) -> NDArray[np.str_]:
    if phase == "prefill":
        return np.full(len(c.batch), "fmha", dtype="<U10")
    shared = (c.group > 1) & (c.group <= 32)
    return np.where(shared, np.where((c.kv_bytes < 2) & modern, "xqa_fp8", "xqa"), "mmha").astype("<U10")


def excluded(kernels: NDArray[np.str_], c: Cases) -> NDArray[np.bool_]:
    """Calls of which nothing is known but that they are slow: vLLM's FA4 (head dimension 512) with one new token, in decode and in
    prefill, runs at 0.1 to 5 % of the memory bandwidth (models.md, section 3)."""
    return np.asarray((kernels == "fa4") & (c.query == 1))
