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
from hotlap.core.model.kernels.numeric import Plain

TOO_LARGE = "the sizes are too large to predict, or a fact of the machine is missing"


class LibraryFamily(NamedTuple):
    """What prefill and decode differ in."""

    phase: str
    kernels: Mapping[str, Any]  # traits
    plan: Callable[[Cases, Chip, Any, Mapping[str, float]], AttentionPlan]
    bound: Callable[[Cases, Chip], Floats]
    inside: Callable[[Cases], NDArray[np.bool_]]


class Runs(NamedTuple):
    """The kernel and the library of each case; a single name where all have the same."""

    kernel: Any  # names: an array, or one
    library: Any
    sure: bool | NDArray[np.bool_]
    remarks: tuple[str, ...]


def estimate(
    family: LibraryFamily, params: Mapping[str, ArrayLike], chip: Chip, implementation: str | ArrayLike, coefficients: Coefficients | None
) -> Estimate:
    """The expected time of each case; never less than what is provable."""
    c = read(params, family.phase)
    runs = choose(implementation, c, chip, family.phase)
    fitted = coefficients if coefficients is not None else stored(family.phase, "kernel")
    try:
        plan, least = _planned(family, c, chip, runs, fitted), family.bound(c, chip)
    except OverflowError:
        raise InputError(TOO_LARGE, about="attention: ") from None
    total = sum(plan.parts.values())
    if c.of is Plain:
        plan, total, least = _as_arrays(plan), np.array([total]), np.array([least])
    seconds = np.asarray(total, dtype=float)
    if not np.isfinite(seconds).all():
        raise InputError(TOO_LARGE, about="attention: ")
    short = np.maximum(least - seconds, 0.0)
    parts = {**plan.parts, "DRAM": plan.parts["DRAM"] + short}
    kernels = np.full(len(seconds), runs.kernel) if isinstance(runs.kernel, str) else runs.kernel
    known = _fitted(family, runs.kernel, fitted) & runs.sure & np.logical_not(excluded(runs.kernel, c))
    return Estimate(
        seconds + short, parts, Demand(_by_unit(plan.flop, c, chip), plan.special, plan.dram_bytes, plan.l2_bytes),
        {"kernel": kernels, **plan.choice}, family.inside(c) & known & _familiar(chip), remarks=runs.remarks,
    )  # fmt: skip


def _as_arrays(plan: AttentionPlan) -> AttentionPlan:
    """Of a single case: arrays of one entry."""
    names = (*plan.parts, *plan.choice)
    numbers = np.array([*plan.parts.values(), *plan.choice.values(), *plan[2:]], dtype=float)[:, None]
    values, count = dict(zip(names, numbers, strict=False)), len(plan.parts)
    return AttentionPlan({n: values[n] for n in names[:count]}, {n: values[n] for n in names[count:]}, *numbers[len(names) :])


def _fitted(family: LibraryFamily, kernel: Any, fitted: Coefficients) -> Any:
    """Whether a kernel's own coefficients are there."""
    if isinstance(kernel, str):
        return groups_of(family, kernel, "")[0] in fitted
    return np.isin(kernel, [name for name in family.kernels if groups_of(family, name, "")[0] in fitted])


def groups_of(family: LibraryFamily, kernel: str, library: str) -> tuple[str, ...]:
    """Whose coefficients a kernel has, the later ones first: its own, those of the kernel that it varies, its library's, the family's."""
    traits = family.kernels[kernel]
    own = (kernel,) if not traits.of else (kernel, traits.of) if traits.own else (traits.of,)
    return *own, library, "default"


def coefficients_of(family: LibraryFamily, kernel: str, library: str, fitted: Coefficients) -> Mapping[str, float]:
    """Of a call. A kernel of which nothing was fitted has those of the nearest of which something was."""
    chain = groups_of(family, kernel, library)
    near, tried = chain[-3], set[str]()
    while near not in fitted and near not in tried and family.kernels[near].like:
        tried.add(near)
        near = family.kernels[near].like
    return {**fitted["default"], **fitted.get(library, {}), **fitted.get(near, {}), **(fitted.get(kernel, {}) if len(chain) > 3 else {})}


def _planned(family: LibraryFamily, c: Cases, chip: Chip, runs: Runs, fitted: Coefficients) -> AttentionPlan:
    if isinstance(runs.kernel, str) and isinstance(runs.library, str):
        return family.plan(c, chip, family.kernels[runs.kernel], coefficients_of(family, runs.kernel, runs.library, fitted))
    kernels, libraries = (np.broadcast_to(np.asarray(names), c.count) for names in (runs.kernel, runs.library))
    plans = []
    for kernel, library in sorted(set(zip(kernels.tolist(), libraries.tolist(), strict=True))):
        mask = (kernels == kernel) & (libraries == library)
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
    if c.of is Plain:
        return {"matrix.fp8" if c.low and chip.flop_per_clock.get("matrix.fp8") else "matrix.bf16": flop}
    low = c.low * bool(chip.flop_per_clock.get("matrix.fp8"))
    return {"matrix.bf16": flop * (1 - low), **({"matrix.fp8": flop * low} if low.any() else {})}


def _familiar(chip: Chip) -> bool:
    """An NVIDIA GPU whose unit's balance is within those that were fitted."""
    rate, bytes_per_clock = chip.flop_per_clock.get("matrix.bf16", 0.0), chip.memory_b_s / chip.units / chip.clock_hz
    return chip.target.startswith("sm_") and 0.75 * 1024 <= rate <= 1.25 * 8192 and 0.75 * 2.4 <= bytes_per_clock <= 1.25 * 28


# ---------------------------------------------------------------- which kernel runs


def choose(implementation: str | ArrayLike, c: Cases, chip: Chip, phase: str) -> Runs:
    """The kernel of each case, for one implementation or an array of them. Raises InputError for what is not known."""
    target = (chip.original or chip).target
    if isinstance(implementation, str):
        return _of_one(implementation, c, target, phase)
    names = np.broadcast_to(np.atleast_1d(np.asarray(implementation, dtype=str)), c.count)
    different, which = np.unique(names, return_inverse=True)
    if len(different) == 1:
        return _of_one(str(different[0]), c, target, phase)
    kernels, libraries, sure, notes = np.empty(len(names), "<U16"), np.empty(len(names), "<U16"), np.empty(len(names), bool), list[str]()
    for n, name in enumerate(different.tolist()):
        mask = which == n
        own = _of_one(name, c.where(mask), target, phase)
        kernels[mask], libraries[mask], sure[mask] = own.kernel, own.library, own.sure
        notes += own.remarks
    return Runs(kernels, libraries, sure, tuple(dict.fromkeys(notes)))


def _of_one(name: str, c: Cases, target: str, phase: str) -> Runs:
    chosen = attention_choice.chosen(name or "vllm", target)
    return Runs(attention_choice.of_cases(chosen.kernel, chosen.library, c, phase, target), chosen.library, chosen.sure, chosen.remarks)


def excluded(kernels: Any, c: Cases) -> Any:
    """Calls of which nothing is known but that they are slow: vLLM's FA4 (head dimension 512) with one new token, in decode and in
    prefill, runs at 0.1 to 5 % of the memory bandwidth (models.md, section 3)."""
    return (kernels == "fa4") & (c.query == 1) & (c.head_dim > 256)
