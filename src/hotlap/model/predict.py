"""What a machine of the table allows for a workload, and what to expect of it, for single parameters or arrays of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from hotlap import work
from hotlap.errors import InputError
from hotlap.model import machines
from hotlap.model.limits import limit, per_clock
from hotlap.model.machines import Spec
from hotlap.record import Case, Limit, Term
from hotlap.work.base import Param

EFFICIENCY, FIXED_S = 0.8, 3e-6  # aiconfigurator's two constants, in systems/*.yaml
# Mean absolute error, as a share of the measured time, of peak roofline ÷ 0.8 + 3 µs on aiconfigurator's public bf16 matrix
# products (35,742 shapes each, 11,088 on the B60), from this project's evaluation of them. H200: the greater of two
# collections, 0.120 and 0.152; the latter ran longer and at the power limit.
ERRORS = {
    "a100-sxm-80gb": 0.228, "l40s": 0.348, "h100-sxm": 0.117, "h200-sxm": 0.152, "b200": 0.183, "gb200": 0.194, "b300": 0.180,
    "rtx-pro-6000": 0.205, "arc-pro-b60": 0.307,
}
WORST = max(ERRORS.values())
FIELDS = ("bound_s", "expected_s", "low_s", "high_s", "clock_hz")


def predict(workload: str, machine: str, **params: Any) -> Limit:
    """The limit of a workload on a machine of the table, with an expectation where published errors carry one.

    Parameters as in a plan ("256 MiB", "bf16"). Lists and NumPy arrays are broadcast against each other and make every field an
    array, with nan where it is not known. Raises InputError for unknown names and wrong values.
    """
    spec, kind = machines.load(machine), work.find(workload)
    arrays = {n: np.asarray(v) for n, v in params.items() if _many(v, kind.param(n))}
    plain = {n: _plain(v) for n, v in params.items() if n not in arrays}
    if not arrays:
        return _one(Case(workload=workload, params=kind.parse(plain)), spec)
    try:
        grid = np.broadcast(*arrays.values())
    except ValueError:
        shapes = ", ".join(f"{n} {a.shape}" for n, a in arrays.items())
        raise InputError(f"these arrays do not go together: {shapes}; valid: equal lengths, or shapes that broadcast") from None
    rows = [{**plain, **dict(zip(arrays, map(_plain, row), strict=True))} for row in grid]
    return _stack([_one(Case(workload=workload, params=kind.parse(row)), spec) for row in rows], grid.shape)


def _many(value: Any, param: Param | None) -> bool:
    """Several values of one parameter; a list is one value where the parameter is a list itself."""
    if param is not None and param.kind == "list":
        return False
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value


def _one(case: Case, spec: Spec) -> Limit:
    found = limit(case, spec)
    return replace(found, **_expectation(case, spec, found))


def _expectation(case: Case, spec: Spec, found: Limit) -> dict[str, Any]:
    """Peak roofline ÷ 0.8 + 3 µs: every byte at published bandwidth, operations at the clock of the published peak. Only for
    bf16 matrix products, where its error is known; on fp8 the same formula is off by half."""
    if case.workload != "gemm" or case.params.get("dtype") != "bf16" or found.kind == "unknown" or not spec.memory_bandwidth_b_s:
        return {}
    asked = work.find(case.workload).work(case.params)
    times = [count / rate for unit, count in asked.operations.items() if (rate := _peak(spec, unit))]
    expected = max([*times, asked.memory_bytes / spec.memory_bandwidth_b_s]) / EFFICIENCY + FIXED_S
    error = ERRORS.get(spec.slug, WORST)
    return {
        "expected_s": expected, "low_s": expected / (1 + error), "high_s": expected / (1 - error),
        "provenance": [*found.provenance, *_sources(expected, error, spec)],
    }


def _peak(spec: Spec, unit: str) -> float | None:
    chosen = per_clock(spec, unit)
    return spec.rate(chosen[0], spec.clock_for_peak_hz) if chosen else None


def _sources(expected_s: float, error: float, spec: Spec) -> list[Term]:
    formula = (
        "all bytes at published bandwidth or operations at the published peak, whichever takes longer, ÷ 0.8 + 3 µs: aiconfigurator's "
        "two constants"
    )
    where = f"measured on {spec.slug}" if spec.slug in ERRORS else f"on the worst of {len(ERRORS)} GPUs, for {spec.slug} was not among them"
    interval = f"mean absolute error of that formula on public bf16 matrix products {where}; low and high are one such error away, "
    return [
        Term(name="expected time", value=expected_s, unit="s", source=formula),
        Term(name="published error", value=error, unit="", source=interval + "which promises no coverage"),
    ]


def _stack(found: Sequence[Limit], shape: tuple[int, ...]) -> Limit:
    """One limit with arrays for fields. Counts differ from case to case, so of the provenance only rates stay."""
    first = next((f for f in found if f.kind != "unknown"), found[0])
    values: dict[str, Any] = {name: _array(found, name, shape) for name in FIELDS}
    rates = {(t.name, t.value): t for f in found for t in f.provenance if t.unit.endswith(("/s", "Hz")) or t.unit == ""}
    limiters, reasons = _distinct(f.limiter for f in found), _distinct(f.reason for f in found)
    kinds = {f.kind for f in found} - {"unknown"}
    return Limit(
        kind="expected" if "expected" in kinds else first.kind, **values, limiter=", ".join(limiters), causes=[],
        provenance=list(rates.values()), reason="; ".join(reasons),
    )


def _distinct(texts: Any) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))


def _array(found: Sequence[Limit], name: str, shape: tuple[int, ...]) -> Any:
    column = [getattr(f, name) for f in found]
    if all(value is None for value in column):
        return None
    return np.array([np.nan if value is None else value for value in column], np.float64).reshape(shape)
