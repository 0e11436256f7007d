"""What kernels take on a processor: between those that a sweep measured there, by their size.

The model's families are of GPUs; of a processor nothing is expected but what its own kernels, measured alone, gave (plan
`calibrate-cpu`, `model calibrate --target torch:cpu`). A call takes what the smallest operation takes, and its operations or bytes at a
rate that is interpolated in logarithms: of products over m, n and k by the inverse square of the distance (Shepard, ACM 1968), of all
else over operations or bytes. Outside of what was measured the rate of the nearest size stands.
"""

from __future__ import annotations

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
from hotlap.core.work.network import POINTWISE

NAME = "cpu"  # of the calibration of the processor
FAMILIES = ("products", "attention", "passes", "tables", "updates")
ASSUMED = {"products": 0.15, "attention": 0.25, "passes": 0.30, "tables": 0.50, "updates": 0.30}
# ^ the least that an interpolated time may be off, 90 %, of logarithm: assumed; products: or what they are off among themselves
Z90 = 1.645
SMALLEST = 1.0  # elements of the smallest operation
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

    where: tuple[float, ...]
    rate: float


@dataclass(frozen=True)
class ProcessorTimes:
    """Kernels of one processor. `call`: what the smallest operation takes."""

    calibration: Calibration
    call: Factor
    kernels: Mapping[tuple[str, ...], Sequence[_Measured]]  # by workload and what else divides them
    noise: float  # of logarithm, of the rounds
    products: float  # that products are off where each is expected by the others; of logarithm, 90 %

    def time(self, workload: str, params: Params) -> KernelTime:
        """Raises InputError for a workload that the sweep has no kernel of."""
        kind = work.find(workload)
        full = kind.full(params)
        if kind.model == "groups":
            return self._of_groups(full)
        family, keys = _family(workload), _keys(workload, full)
        found = next((self.kernels[key] for key in keys if key in self.kernels), None)
        if found is None:
            raise InputError(f"the sweep of this processor has no kernel like {' '.join(keys[0])}")
        amount, where = _amount(workload, full), _where(workload, full)
        seconds = amount / _rate(found, where) + self.call.value
        reach = math.hypot(max(ASSUMED[family], self.products if family == "products" else 0.0), self.noise)
        low, high = ((seconds - self.call.value) * math.exp(sign * reach) for sign in (-1, 1))
        return KernelTime(family, seconds, self.call.value, low + self.call.low, high + self.call.high)

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
        (one for (workload, params), one in known.values() if workload == POINTWISE.name and params["elements"] == SMALLEST), None
    )  # fmt: skip
    if call is None or calibration.machine != NAME:
        raise InputError(f"the calibration '{calibration.machine}' has no smallest operation: it is of no processor")
    kernels: dict[tuple[str, ...], list[_Measured]] = {}
    spread = []
    for (workload, params), factor in known.values():
        if factor is call:
            continue
        rate = _amount(workload, params) / max(factor.value - call.value, 0.05 * factor.value)
        for key in _own_keys(workload, params):
            kernels.setdefault(key, []).append(_Measured(_where(workload, params), rate))
        spread.append(math.log(factor.high / factor.low) / 2)
    noise = float(np.median(spread)) if spread else 0.0
    return ProcessorTimes(calibration, call, kernels, noise, _missed(kernels))


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
    return of_model.get(known.model) or {"tables": "tables", "optimizer": "updates"}.get(known.operator, "passes")


def _own_keys(workload: str, params: Params) -> list[tuple[str, ...]]:
    """What divides the kernels of a workload, the narrowest first; each is of one type."""
    model, dtype, op = traits(workload).model, str(params.get("dtype", "")), str(params.get("op", ""))
    if model == "product":
        return [(workload, dtype, str(params.get("layout"))), (workload, dtype)]
    if model == "attention":
        return [(workload, dtype, op, str(params.get("mask"))), (workload, dtype, op)]
    return [(workload, dtype, op), (workload, dtype)]


def _keys(workload: str, params: Params) -> list[tuple[str, ...]]:
    """By which a kernel is looked for: operations that were not measured pass as an addition does."""
    first, *wider = _own_keys(workload, params)
    return [first, *([(*first[:2], "add")] if workload == POINTWISE.name else []), *wider]


def _amount(workload: str, params: Params) -> float:
    """Operations of products, bytes of all else: what a kernel's time goes with."""
    counted = work.find(workload).work(params)
    return float(counted.total_operations if traits(workload).model in ("product", "attention") else counted.memory_bytes)


def _where(workload: str, params: Params) -> tuple[float, ...]:
    """A kernel's place among its like, in logarithms of 2."""
    model = traits(workload).model
    if model == "product":
        return tuple(math.log2(float(params[side])) for side in ("m", "n", "k"))
    if model == "attention":
        return (math.log2(float(params["query"])),)
    return (math.log2(max(_amount(workload, params), 1.0)),)


def _rate(kernels: Sequence[_Measured], where: tuple[float, ...]) -> float:
    """Between the measured ones; beyond them that of the nearest."""
    places = np.array([one.where for one in kernels])
    logs = np.log([one.rate for one in kernels])
    if places.shape[1] == 1:
        order = np.argsort(places[:, 0])
        return float(np.exp(np.interp(where[0], places[order, 0], logs[order])))
    inside = np.clip(where, places.min(axis=0), places.max(axis=0))
    apart = ((places - inside) ** 2).sum(axis=1)
    if apart.min() < 1e-9:
        return float(np.exp(logs[int(apart.argmin())]))
    return float(np.exp((logs / apart).sum() / (1 / apart).sum()))


def _missed(kernels: Mapping[tuple[str, ...], Sequence[_Measured]]) -> float:
    """How far products are off where each is left out and expected by the others."""
    errors = []
    for key, measured in kernels.items():
        if len(key) == 3 and traits(key[0]).model == "product" and len(measured) > 3:
            for place, one in enumerate(measured):
                others = [*measured[:place], *measured[place + 1 :]]
                errors.append(math.log(_rate(others, one.where) / one.rate))
    return Z90 * float(np.sqrt(np.mean(np.square(errors)))) if errors else 0.0
