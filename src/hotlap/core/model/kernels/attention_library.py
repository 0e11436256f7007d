"""The estimate of attention calls: the kernels that they run (`attention_choice`), each by its traits and its coefficients.

A kernel is known by its traits (tile sizes, packing, split rule: public source code) and by a few fitted coefficients, the same for every
GPU. Those of a call are the family's ("default"), then its library's (what it launches beside the kernel), then the kernel's. A
kernel without a fit runs with those of the nearest that has one (`like`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.errors import InputError
from hotlap.core.model.kernels import attention_choice
from hotlap.core.model.kernels.attention import AttentionPlan, Cases, read
from hotlap.core.model.kernels.base import Chip, Coefficients, Demand, Estimate, Floats, stored


class LibraryFamily(NamedTuple):
    """What prefill and decode differ in."""

    phase: str
    kernels: Mapping[str, Any]  # traits
    plan: Callable[[Cases, Chip, Any, Mapping[str, float]], AttentionPlan]
    bound: Callable[[Cases, Chip], Floats]
    inside: Callable[[Cases], NDArray[np.bool_]]


class Runs(NamedTuple):
    """The kernel and the library of each case; a single name where all have the same."""

    kernel: NDArray[np.str_]
    library: NDArray[np.str_]
    sure: bool | NDArray[np.bool_]
    notes: tuple[str, ...]


def estimate(
    family: LibraryFamily, params: Mapping[str, ArrayLike], chip: Chip, implementation: str | ArrayLike, coefficients: Coefficients | None
) -> Estimate:
    """The expected time of each case; never less than what is provable."""
    c = read(params, family.phase)
    runs = choose(implementation, c, chip, family.phase)
    fitted = coefficients if coefficients is not None else stored(family.phase, "kernel")
    plan = _planned(family, c, chip, runs, fitted)
    seconds = np.asarray(sum(plan.parts.values()), dtype=float)
    if not np.isfinite(seconds).all():
        raise InputError("the sizes are too large to predict, or a fact of the machine is missing", about="attention: ")
    short = np.maximum(family.bound(c, chip) - seconds, 0.0)
    parts = {name: value + short if name == "DRAM" else value for name, value in plan.parts.items()}
    fit = [kernel for kernel, traits in family.kernels.items() if groups_of(family, kernel, "")[0] in fitted]
    known = np.isin(runs.kernel, fit) & runs.sure & ~excluded(runs.kernel, c)
    return Estimate(
        seconds + short, parts, Demand(_by_unit(plan.flop, c, chip), plan.special, plan.dram_bytes, plan.l2_bytes),
        {"kernel": runs.kernel, **plan.choice}, family.inside(c) & known & _familiar(chip), notes=runs.notes,
    )  # fmt: skip


def groups_of(family: LibraryFamily, kernel: str, library: str) -> tuple[str, ...]:
    """Whose coefficients a kernel has, the later ones first: its own, those of the kernel that it varies, its library's, the family's."""
    traits = family.kernels[kernel]
    own = (kernel,) if not traits.of else (kernel, traits.of) if traits.own else (traits.of,)
    return *own, library, "default"


def coefficients_of(family: LibraryFamily, kernel: str, library: str, fitted: Coefficients) -> Mapping[str, float]:
    """Of a call. A kernel of which nothing was fitted has those of the nearest of which something was."""
    chain = groups_of(family, kernel, library)
    near = chain[-3]
    while near not in fitted and family.kernels[near].like:
        near = family.kernels[near].like
    return {**fitted["default"], **fitted.get(library, {}), **fitted.get(near, {}), **(fitted.get(kernel, {}) if len(chain) > 3 else {})}


def _planned(family: LibraryFamily, c: Cases, chip: Chip, runs: Runs, fitted: Coefficients) -> AttentionPlan:
    first = str(runs.kernel[0]), str(runs.library[0])
    same = runs.kernel.strides == runs.library.strides == (0,) or len(c.batch) == 1
    if same or ((runs.kernel == first[0]).all() and (runs.library == first[1]).all()):
        return family.plan(c, chip, family.kernels[first[0]], coefficients_of(family, *first, fitted))
    plans = []
    for kernel, library in sorted(set(zip(runs.kernel.tolist(), runs.library.tolist(), strict=True))):
        mask = (runs.kernel == kernel) & (runs.library == library)
        plans.append((mask, family.plan(c.where(mask), chip, family.kernels[kernel], coefficients_of(family, kernel, library, fitted))))
    return _merged(plans)


def _merged(plans: list[tuple[NDArray[np.bool_], AttentionPlan]]) -> AttentionPlan:
    def merged(get: Callable[[AttentionPlan], Floats]) -> Floats:
        out = np.empty(len(plans[0][0]))
        for mask, plan in plans:
            out[mask] = get(plan)
        return out

    first = plans[0][1]
    return AttentionPlan(
        {n: merged(lambda p, n=n: p.parts[n]) for n in first.parts}, {n: merged(lambda p, n=n: p.choice[n]) for n in first.choice},  # type: ignore[misc]
        merged(lambda p: p.flop), merged(lambda p: p.special), merged(lambda p: p.dram_bytes), merged(lambda p: p.l2_bytes),
    )


def _by_unit(flop: Floats, c: Cases, chip: Chip) -> dict[str, Floats]:
    low = c.low * bool(chip.flop_per_clock.get("matrix.fp8"))
    return {"matrix.bf16": flop * (1 - low), **({"matrix.fp8": flop * low} if low.any() else {})}


def _familiar(chip: Chip) -> bool:
    """An NVIDIA GPU whose unit's balance is within those that were fitted."""
    rate, bytes_per_clock = chip.flop_per_clock.get("matrix.bf16", 0.0), chip.memory_b_s / chip.units / chip.clock_hz
    return chip.target.startswith("sm_") and 0.75 * 1024 <= rate <= 1.25 * 8192 and 0.75 * 2.4 <= bytes_per_clock <= 1.25 * 28


# ---------------------------------------------------------------- which kernel runs


def choose(implementation: str | ArrayLike, c: Cases, chip: Chip, phase: str) -> Runs:
    """The kernel of each case, for one implementation or an array of them. Raises InputError for what is not known."""
    target, size = (chip.original or chip).target, len(c.batch)
    if isinstance(implementation, str):
        return _of_one(implementation, c, target, phase, size)
    names = np.broadcast_to(np.atleast_1d(np.asarray(implementation, dtype=str)), size)
    different = np.unique(names)
    if len(different) == 1:
        return _of_one(str(different[0]), c, target, phase, size)
    kernels, libraries, sure, notes = np.empty(size, "<U16"), np.empty(size, "<U16"), np.empty(size, bool), list[str]()
    for name in different:
        mask = names == name
        own = _of_one(str(name), c.where(mask), target, phase, int(mask.sum()))
        kernels[mask], libraries[mask], sure[mask] = own.kernel, own.library, own.sure
        notes += own.notes
    return Runs(kernels, libraries, sure, tuple(dict.fromkeys(notes)))


def _of_one(name: str, c: Cases, target: str, phase: str, size: int) -> Runs:
    one = attention_choice.chosen(name or "vllm", target)
    kernel = attention_choice.of_cases(one.kernel, one.library, c, phase, target)
    kernels = np.broadcast_to(np.array([kernel]), size) if isinstance(kernel, str) else kernel
    return Runs(kernels, np.broadcast_to(np.array([one.library]), size), one.sure, one.notes)


def excluded(kernels: NDArray[np.str_], c: Cases) -> NDArray[np.bool_]:
    """Calls of which nothing is known but that they are slow: vLLM's FA4 (head dimension 512) with one new token, in decode and in
    prefill, runs at 0.1 to 5 % of the memory bandwidth (models.md, section 3)."""
    return np.asarray((kernels == "fa4") & (c.query == 1) & (c.head_dim > 256))
