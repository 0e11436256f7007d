"""What kernels take on a processor: between those that a sweep measured there, by their size.

The model's families are of GPUs; of a processor nothing is expected but what its own kernels, measured alone, gave (plan
`calibrate-cpu`, `model calibrate --target torch:cpu`). A call takes what the smallest operation takes, and beside that: a product a fixed
time, its operations and its operands' elements at one rate each, by least squares of the relative error; all else its operations or bytes
at a rate that is interpolated in logarithms, outside of what was measured at that of the nearest size. Memory that is taken anew costs
more, and is counted by whoever knows which.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model.calibration import Calibration, Factor
from hotlap.core.work import traits
from hotlap.core.work.compute import GEMM
from hotlap.core.work.layers import OPTIMIZER

NAME = "cpu"  # of the calibration of the processor
FAMILIES = ("products", "attention", "passes", "tables", "updates")
ASSUMED = {"products": 0.15, "attention": 0.25, "passes": 0.30, "tables": 0.50, "updates": 0.30}
# ^ the least that a time may be off, 90 %, of logarithm: assumed; products: or what they are off where each is expected by the others
Z90 = 1.645
UPDATES = traits(OPTIMIZER.name).operator
SMALLEST = 1.0  # elements of the smallest operation
FRESH_BYTES = 2**26  # that are taken anew at a time
FRESH = "fresh memory, 64 MiB"  # what that takes, in a calibration
FEWEST = 4  # products, below which it is not known how far they are off
Params = Mapping[str, Any]
Floats = NDArray[np.float64]


class KernelTime(NamedTuple):
    """One call. `call_s` is of `seconds`: what the smallest operation takes; low and high are those of a 90 % interval."""

    family: str
    seconds: float
    call_s: float
    low_s: float
    high_s: float


class _Measured(NamedTuple):
    """A kernel of the sweep: where it lies, and its work a second without the smallest operation."""

    where: float
    rate: float


@dataclass(frozen=True)
class ProcessorTimes:
    """Kernels of one processor. `call`: what the smallest operation takes."""

    calibration: Calibration
    call: Factor
    kernels: Mapping[tuple[str, ...], Sequence[_Measured]]  # by workload and what else divides them
    products: Mapping[str, Floats]  # by type: seconds of a product, of an operation, and of an element of its operands
    off: float  # that products are off where each is expected by the others; of logarithm, 90 %
    noise: float  # of logarithm, of the rounds
    fresh_s: Factor | None  # of a byte that is taken anew; None: it was not measured

    def time(self, workload: str, params: Params) -> KernelTime:
        """Raises InputError for a workload that the sweep has no kernel of."""
        kind = work.find(workload)
        full = kind.full(params)
        if kind.model == "groups":
            return self._of_groups(full)
        family, keys = _family(workload), _keys(workload, full)
        seconds = self.call.value + (self._product_s(full) if family == "products" else self._interpolated_s(workload, full, keys))
        reach = math.hypot(max(ASSUMED[family], self.off if family == "products" else 0.0), self.noise)
        low, high = ((seconds - self.call.value) * math.exp(sign * reach) for sign in (-1, 1))
        return KernelTime(family, seconds, self.call.value, low + self.call.low, high + self.call.high)

    def _product_s(self, params: Params) -> float:
        if str(params["dtype"]) not in self.products:
            raise InputError(f"the sweep of this processor has no product in {params['dtype']}")
        return float(_terms(params) @ self.products[str(params["dtype"])])

    def _interpolated_s(self, workload: str, params: Params, keys: Sequence[tuple[str, ...]]) -> float:
        measured = next((self.kernels[key] for key in keys if key in self.kernels), None)
        if measured is None:
            raise InputError(f"the sweep of this processor has no kernel like {' '.join(keys[0])}")
        return _amount(workload, params) / _rate(measured, _where(workload, params))

    def _of_groups(self, params: Params) -> KernelTime:
        """As one product after another, each of the mean number of rows."""
        groups = float(min(params["groups"], params["m"]))
        rows = max(round(float(params["m"]) / groups), 1)
        each = self.time(GEMM.name, {"m": rows, "n": params["n"], "k": params["k"], "dtype": params["dtype"], "layout": "nt"})
        return KernelTime(each.family, *(groups * seconds for seconds in each[1:]))


def times(calibration: Calibration) -> ProcessorTimes:
    """From what a sweep measured. Raises InputError for a calibration that is of no processor."""
    known = {name: (parsed, factor) for name, factor in calibration.facts.items() if (parsed := _parsed(name)) is not None}
    call = next(
        (one for (workload, params), one in known.values() if _elementwise(workload) and params["elements"] == SMALLEST), None
    )  # fmt: skip
    if call is None or calibration.machine != NAME:
        raise InputError(f"the calibration '{calibration.machine}' has no smallest operation: it is of no processor")
    others = {name: pair for name, pair in known.items() if pair[1] is not call}
    kernels: dict[tuple[str, ...], list[_Measured]] = {}
    products: dict[str, list[tuple[Params, float]]] = {}
    for (workload, params), factor in others.values():
        seconds = max(factor.value - call.value, 0.05 * factor.value)
        if _family(workload) == "products":
            products.setdefault(str(params["dtype"]), []).append((params, seconds))
        for key in _own_keys(workload, params):
            kernels.setdefault(key, []).append(_Measured(_where(workload, params), _amount(workload, params) / seconds))
    noise = float(np.median([math.log(factor.high / factor.low) / 2 for _, factor in others.values()])) if others else 0.0
    fresh = calibration.facts.get(FRESH)
    return ProcessorTimes(
        calibration, call, kernels, {dtype: _fitted(measured) for dtype, measured in products.items()},
        max((_missed(measured) for measured in products.values()), default=0.0), noise,
        Factor(*(one / FRESH_BYTES for one in (fresh.value, fresh.low, fresh.high))) if fresh else None,
    )  # fmt: skip


def fact_name(workload: str, params: Params) -> str:
    """How the seconds of a kernel are called in a calibration: what differs from the workload's defaults, in its own order."""
    kind = work.find(workload)
    return " ".join([workload, *(f"{name}={value}" for name, value in params.items() if value != kind.defaults.get(name))])


def _parsed(name: str) -> tuple[str, dict[str, Any]] | None:
    """Workload and full parameters; None for a fact that is of no kernel."""
    try:
        case = work.case_of(name)
    except InputError:
        return None
    return case.workload, work.find(case.workload).full(case.params)


def _family(workload: str) -> str:
    known = traits(workload)
    of_model = {"product": "products", "attention": "attention"}
    return of_model.get(known.model) or {"tables": "tables", UPDATES: "updates"}.get(known.operator, "passes")


def _elementwise(workload: str) -> bool:
    return traits(workload).traffic == "elements"


def _own_keys(workload: str, params: Params) -> list[tuple[str, ...]]:
    """What divides the kernels of a workload, the narrowest first; each is of one type."""
    model, dtype, op = traits(workload).model, str(params.get("dtype", "")), str(params.get("op", ""))
    if model == "attention":
        return [(workload, dtype, op, str(params.get("mask"))), (workload, dtype, op)]
    return [(workload, dtype, op), (workload, dtype)]


def _keys(workload: str, params: Params) -> list[tuple[str, ...]]:
    """By which a kernel is looked for: operations that were not measured pass as an addition does."""
    first, *wider = _own_keys(workload, params)
    return [first, *([(*first[:2], "add")] if _elementwise(workload) else []), *wider]


def _amount(workload: str, params: Params) -> float:
    """Operations of products, bytes of all else: what a kernel's time goes with."""
    counted = work.find(workload).work(params)
    return float(counted.total_operations if traits(workload).model in ("product", "attention") else counted.memory_bytes)


def _where(workload: str, params: Params) -> float:
    """A kernel's place among its like, in logarithms of 2: attention by its length, all else by its bytes."""
    if traits(workload).model == "attention":
        return math.log2(float(params["query"]))
    return math.log2(max(_amount(workload, params), 1.0))


def _rate(kernels: Sequence[_Measured], where: float) -> float:
    """Between the measured ones; beyond them that of the nearest."""
    ordered = sorted(kernels)
    return float(np.exp(np.interp(where, [one.where for one in ordered], np.log([one.rate for one in ordered]))))


# ---------------------------------------------------------------- products


def _terms(params: Params) -> Floats:
    """Of a product: one, its operations, and the elements of its three operands."""
    m, n, k, batch = (float(params[name]) for name in ("m", "n", "k", "batch"))
    return np.array([1.0, 2.0 * m * n * k * batch, (m * k + k * n + m * n) * batch])


def _fitted(measured: Sequence[tuple[Params, float]]) -> Floats:
    """Seconds of each term, none below zero: the best of all choices of terms."""
    terms = np.array([_terms(params) / seconds for params, seconds in measured])
    best, least = np.zeros(terms.shape[1]), math.inf
    for count in range(1, terms.shape[1] + 1):
        for chosen in itertools.combinations(range(terms.shape[1]), count):
            each, *_ = np.linalg.lstsq(terms[:, chosen], np.ones(len(terms)), rcond=None)
            missed = float(np.sum((terms[:, chosen] @ each - 1) ** 2))
            if np.all(each >= 0) and missed < least - 1e-12:
                best, least = np.zeros(terms.shape[1]), missed
                best[list(chosen)] = each
    return best


def _missed(measured: Sequence[tuple[Params, float]]) -> float:
    """How far products are off where each is left out and expected by the others."""
    if len(measured) < FEWEST:
        return 0.0
    errors = [
        math.log(max(float(_terms(params) @ _fitted([*measured[:place], *measured[place + 1 :]])), 1e-12) / seconds)
        for place, (params, seconds) in enumerate(measured)
    ]  # fmt: skip
    return Z90 * float(np.sqrt(np.mean(np.square(errors))))
