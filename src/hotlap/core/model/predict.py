"""What a machine of the table allows for a workload, and what to expect of it, for single parameters or arrays of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.model.bounds import MANY
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.expect import PRODUCTS, Expected, check_implementation, expect
from hotlap.core.model.kernels import gemm_kernels
from hotlap.core.model.kernels.base import stored
from hotlap.core.model.limits import limit
from hotlap.core.model.machines import Spec
from hotlap.core.model.predict_many import IMPLEMENTATION, OUTSIDE, at_once, remarks
from hotlap.core.record import Case, Limit, Notice, Term
from hotlap.core.units import size
from hotlap.core.work.base import Param, Workload

FIELDS = ("bound_s", "expected_s", "low_s", "high_s", "clock_hz")


def predict(
    workload: str, machine: str, implementation: Any = "", calibration: Calibration | None = None, **params: Any,
) -> Limit:  # fmt: skip
    """The limit of a workload on a machine of the table, with an expectation where a family of kernels knows it.

    Parameters as in a plan ("256 MiB", "bf16"). Lists and NumPy arrays are broadcast against each other and make every field an
    array, with nan where it is not known: so are the limits of a case that is impossible beside others that are not.
    `implementation`: the library's kernel, as the model's coefficients name it; may be an array. `calibration`: what a sweep on this
    machine taught. Raises InputError for unknown names and wrong values.
    """
    spec, kind = machines.load(machine), work.find(workload)
    for name in [implementation] if isinstance(implementation, str) else np.unique(np.asarray(implementation, dtype=str)).tolist():
        if name:
            check_implementation(workload, name, spec)
    arrays = {n: np.asarray(v) for n, v in params.items() if not isinstance(v, (str, int, float)) and _many(v, kind.param(n))}
    if not isinstance(implementation, str) and np.ndim(implementation):
        arrays[IMPLEMENTATION] = np.asarray(implementation, dtype=str)
    plain = {n: _plain(v) for n, v in params.items() if n not in arrays}
    if not arrays:
        case = Case(workload=workload, params=kind.parse(plain))
        return _room(case, spec, expected(case, spec, limit(case, spec), implementation, calibration))
    try:
        grid = np.broadcast(*arrays.values())
    except ValueError:
        shapes = ", ".join(f"{n} {a.shape}" for n, a in arrays.items())
        raise InputError(f"these arrays do not go together: {shapes}; valid: equal lengths, or shapes that broadcast") from None
    if workload in MANY:
        same = plain if IMPLEMENTATION in arrays else {**plain, IMPLEMENTATION: implementation}
        return at_once(workload, spec, same, arrays, calibration)
    rows = [{**plain, **dict(zip(arrays, map(_plain, row), strict=True))} for row in grid]
    return _stack([_row(kind, spec, row, implementation, calibration) for row in rows], grid.shape)


def _row(kind: Workload, spec: Spec, row: dict[str, Any], implementation: str, calibration: Calibration | None) -> Limit | InputError:
    """The limit of one case among many, or why it is impossible."""
    try:
        case = Case(workload=kind.name, params=kind.parse({name: value for name, value in row.items() if name != IMPLEMENTATION}))
    except InputError as error:
        return error
    return expected(case, spec, limit(case, spec), str(row.get(IMPLEMENTATION, implementation)), calibration)


def expected(case: Case, spec: Spec, bound: Limit, implementation: str = "", calibration: Calibration | None = None) -> Limit:
    """The same limit with what to expect; unchanged where no family knows the kernel or the table lacks a figure."""
    try:
        known = expect(case.workload, case.params, spec, implementation or case.implementation, calibration, bound.bound_s)
    except InputError as error:
        return replace(bound, notes=[*bound.notes, Notice("no_expectation", str(error))]) if work.find(case.workload).model else bound
    parts = {name: float(value[0]) for name, value in known.parts.items() if value[0]}
    choice = {name: value[0].item() for name, value in known.choice.items()}
    notes = [*([OUTSIDE] if not known.inside[0] else []), *remarks(known)]
    notes += _taken(case, spec, implementation or case.implementation)
    kind = "expected" if bound.kind == "unknown" else bound.kind
    return replace(
        bound, kind=kind, expected_s=float(known.seconds[0]), low_s=float(known.low_s[0]), high_s=float(known.high_s[0]),
        power_w=_number(known.power_w), energy_j=_number(known.power_w * known.seconds), clock_hz=_number(known.clock_hz) or bound.clock_hz,
        parts=parts, choice=choice,
        calibration_level=known.known.words, inside=bool(known.inside[0]), known=known.known.words,
        notes=[*bound.notes, *notes], provenance=[*bound.provenance, _source(case.workload, known)],
    )  # fmt: skip


def _room(case: Case, spec: Spec, bound: Limit) -> Limit:
    """The same with a word where the machine's memory cannot hold the case."""
    needed = work.find(case.workload).work(case.params).working_set_bytes
    if not spec.memory_bytes or needed <= spec.memory_bytes:
        return bound
    seen = f"does not fit: it needs {size(needed)}, and {spec.slug} has {size(spec.memory_bytes)}"
    return replace(bound, notes=[*bound.notes, Notice("does_not_fit", seen)])


def _taken(case: Case, spec: Spec, implementation: str) -> list[Notice]:
    """Which kernel was taken for one of a known library that nobody measured."""
    if work.find(case.workload).model not in PRODUCTS or not implementation:
        return []
    found = gemm_kernels.find(stored("gemm"), implementation, str(case.params.get("dtype", "")), spec.compile_target)
    return [Notice("nearest_kernel", f"'{implementation}' was not measured there: taken for {found.near}")] if found.near else []


def _number(values: Any) -> float | None:
    """The first, None where it is not known."""
    return None if np.isnan(values[0]) else float(values[0])


def _source(workload: str, known: Expected) -> Term:
    how = f"model of {known.family}, coefficients in core/model/coefficients/{known.family}.toml; {known.known.words}; "
    how += "interval: 90 % of cases like it" if known.inside[0] else "interval: wide by assumption, for nothing like it was measured"
    if work.find(workload).model == "copy":
        how = "0.84 of the link's rate (nvbandwidth: 0.79 to 0.88 of PCI Express) + 5 µs, assumed"
    return Term(name="expected time", value=float(known.seconds[0]), unit="s", source=how)


def _many(value: Any, param: Param | None) -> bool:
    """Several values of one parameter; a list is one value where the parameter is a list itself."""
    if param is not None and param.kind == "list":
        return False
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value


def _stack(answers: Sequence[Limit | InputError], shape: tuple[int, ...]) -> Limit:
    """One limit with arrays for fields. Counts differ from case to case, so of the provenance only rates stay. Raises InputError where
    every case is impossible."""
    limits_ = [one if isinstance(one, Limit) else Limit(kind="unknown", reason=str(one)) for one in answers]
    if isinstance(answers[0], InputError) and not any(isinstance(one, Limit) for one in answers):
        raise answers[0]
    first = next((f for f in limits_ if f.kind != "unknown"), limits_[0])
    values: dict[str, Any] = {name: _array(limits_, name, shape) for name in FIELDS}
    rates = {(t.name, t.value): t for f in limits_ for t in f.provenance if t.unit.endswith(("/s", "Hz")) or t.unit == ""}
    kinds = {f.kind for f in limits_} - {"unknown"}
    texts: dict[str, Any] = {name: np.array([getattr(f, name) for f in limits_], dtype=str).reshape(shape) for name in ("limiter", "known")}
    return Limit(
        kind="expected" if "expected" in kinds else first.kind,
        **values,
        **texts,
        inside=np.array([bool(f.inside) for f in limits_]).reshape(shape),
        notes=[],
        provenance=list(rates.values()),
        reason="; ".join(_distinct(f.reason for f in limits_)),
    )


def _distinct(texts: Any) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))


def _array(limits: Sequence[Limit], name: str, shape: tuple[int, ...]) -> Any:
    column = [getattr(f, name) for f in limits]
    if all(value is None for value in column):
        return None
    return np.array([np.nan if value is None else value for value in column], np.float64).reshape(shape)
