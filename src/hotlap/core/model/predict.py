"""What a machine of the table allows for a workload, and what to expect of it, for single parameters or arrays of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from hotlap.core import work
from hotlap.core.errors import InputError, nearest
from hotlap.core.model import machines
from hotlap.core.model.bounds import MANY, bounds
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.expect import Expected, check_implementation, expect
from hotlap.core.model.limits import limit
from hotlap.core.model.machines import Spec
from hotlap.core.record import Case, Limit, Notice, Term
from hotlap.core.units import size
from hotlap.core.work.base import Param

FIELDS = ("bound_s", "expected_s", "low_s", "high_s", "clock_hz")
OUTSIDE = Notice("outside_measured", "outside of what was measured: the interval is wide")


def predict(workload: str, machine: str, implementation: str = "", calibration: Calibration | None = None, **params: Any) -> Limit:
    """The limit of a workload on a machine of the table, with an expectation where a family of kernels knows it.

    Parameters as in a plan ("256 MiB", "bf16"). Lists and NumPy arrays are broadcast against each other and make every field an
    array, with nan where it is not known. `implementation`: the library's kernel, as the model's coefficients name it.
    `calibration`: what a sweep on this machine taught. Raises
    InputError for unknown names and wrong values.
    """
    spec, kind = machines.load(machine), work.find(workload)
    if implementation:
        check_implementation(workload, implementation, spec)
    arrays = {n: np.asarray(v) for n, v in params.items() if _many(v, kind.param(n))}
    plain = {n: _plain(v) for n, v in params.items() if n not in arrays}
    if not arrays:
        case = Case(workload=workload, params=kind.parse(plain))
        return _room(case, spec, expected(case, spec, limit(case, spec), implementation, calibration))
    try:
        grid = np.broadcast(*arrays.values())
    except ValueError:
        shapes = ", ".join(f"{n} {a.shape}" for n, a in arrays.items())
        raise InputError(f"these arrays do not go together: {shapes}; valid: equal lengths, or shapes that broadcast") from None
    if workload in MANY and all(np.issubdtype(a.dtype, np.number) for a in arrays.values()):
        return _at_once(
            workload,
            spec,
            {**kind.parse({**plain, **{n: _plain(a.flat[0]) for n, a in arrays.items()}}), **arrays},
            grid.shape,
            implementation,
            calibration,
        )
    rows = [{**plain, **dict(zip(arrays, map(_plain, row), strict=True))} for row in grid]
    cases = [Case(workload=workload, params=kind.parse(row)) for row in rows]
    return _stack([expected(case, spec, limit(case, spec), implementation, calibration) for case in cases], grid.shape)


def expected(case: Case, spec: Spec, bound: Limit, implementation: str = "", calibration: Calibration | None = None) -> Limit:
    """The same limit with what to expect; unchanged where no family knows the kernel or the table lacks a figure."""
    try:
        known = expect(case.workload, case.params, spec, implementation or case.implementation, calibration, bound.bound_s)
    except InputError as error:
        return replace(bound, notes=[*bound.notes, Notice("no_expectation", str(error))]) if work.find(case.workload).model else bound
    parts = {name: float(value[0]) for name, value in known.parts.items() if value[0]}
    choice = {name: value[0].item() for name, value in known.choice.items()}
    notes = [*([OUTSIDE] if not known.inside[0] else []), *_remarks(known)]
    kind = "expected" if bound.kind == "unknown" else bound.kind
    return replace(
        bound, kind=kind, expected_s=float(known.seconds[0]), low_s=float(known.low_s[0]), high_s=float(known.high_s[0]),
        power_w=_number(known.power_w), energy_j=_number(known.power_w * known.seconds), clock_hz=_number(known.clock_hz) or bound.clock_hz,
        parts=parts, choice=choice,
        calibration_level=known.known.words, notes=[*bound.notes, *notes], provenance=[*bound.provenance, _source(case.workload, known)],
    )  # fmt: skip


def _remarks(known: Expected) -> list[Notice]:
    """What the family says of the kernel that it took."""
    return [Notice("nearest_kernel", text) for text in known.remarks]


def _room(case: Case, spec: Spec, bound: Limit) -> Limit:
    """The same with a word where the machine's memory cannot hold the case."""
    needed = work.find(case.workload).work(case.params).working_set_bytes
    if not spec.memory_bytes or needed <= spec.memory_bytes:
        return bound
    seen = f"does not fit: it needs {size(needed)}, and {spec.slug} has {size(spec.memory_bytes)}"
    return replace(bound, notes=[*bound.notes, Notice("does_not_fit", seen)])


def _number(values: Any) -> float | None:
    """The first, None where it is not known."""
    return None if np.isnan(values[0]) else float(values[0])


def _source(workload: str, known: Expected) -> Term:
    how = f"model of {known.family}, coefficients in core/model/coefficients/{known.family}.toml; {known.known.words}; "
    how += "interval: 90 % of cases like it" if known.inside[0] else "interval: wide by assumption, for nothing like it was measured"
    if work.find(workload).model == "copy":
        how = "0.84 of the link's rate (nvbandwidth: 0.79 to 0.88 of PCI Express) + 5 µs, assumed"
    return Term(name="expected time", value=float(known.seconds[0]), unit="s", source=how)


def _at_once(
    workload: str, spec: Spec, params: dict[str, Any], shape: tuple[int, ...], implementation: str, by: Calibration | None
) -> Limit:
    """Many cases in one pass: numbers as arrays, texts the same for all."""
    names = [name for name, value in params.items() if isinstance(value, np.ndarray)]
    flat = {name: np.broadcast_to(params[name], shape).ravel().astype(float) for name in names}
    _check(workload, flat)
    full = {**params, **flat}
    floor, limiters = bounds(workload, full, spec)
    levels = expect(workload, full, spec, implementation, by)
    many = len(levels.seconds)

    def shaped(value: Any) -> Any:
        return np.broadcast_to(value, many).reshape(shape)

    return Limit(
        kind="bound", bound_s=shaped(floor), expected_s=shaped(levels.seconds), low_s=shaped(levels.low_s), high_s=shaped(levels.high_s),
        power_w=shaped(levels.power_w), energy_j=shaped(levels.power_w * levels.seconds), clock_hz=shaped(levels.clock_hz),
        limiter=", ".join(sorted(set(limiters.ravel().tolist()))),
        parts={name: shaped(value) for name, value in levels.parts.items()},
        choice={name: shaped(value) for name, value in levels.choice.items()},
        calibration_level=levels.known.words, notes=[*([] if levels.inside.all() else [OUTSIDE]), *_remarks(levels)],
    )  # fmt: skip


def _check(workload: str, flat: dict[str, Any]) -> None:
    """Numbers within the range of their parameter."""
    for name, values in flat.items():
        param = work.find(workload).param(name)
        if param is None:
            raise InputError(f"{workload} has no parameter '{name}'; {nearest(name, [p.name for p in work.find(workload).params])}")
        low, high = -np.inf if param.low is None else param.low, np.inf if param.high is None else param.high
        wrong = np.flatnonzero(~((values >= low) & (values <= high)))
        if len(wrong):
            param.parse(float(values[wrong[0]]))  # says what is wrong with it
            raise InputError(f"'{name}' must be finite, not {values[wrong[0]]}")


def _many(value: Any, param: Param | None) -> bool:
    """Several values of one parameter; a list is one value where the parameter is a list itself."""
    if param is not None and param.kind == "list":
        return False
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value


def _stack(limits_: Sequence[Limit], shape: tuple[int, ...]) -> Limit:
    """One limit with arrays for fields. Counts differ from case to case, so of the provenance only rates stay."""
    first = next((f for f in limits_ if f.kind != "unknown"), limits_[0])
    values: dict[str, Any] = {name: _array(limits_, name, shape) for name in FIELDS}
    rates = {(t.name, t.value): t for f in limits_ for t in f.provenance if t.unit.endswith(("/s", "Hz")) or t.unit == ""}
    limiters, reasons = _distinct(f.limiter for f in limits_), _distinct(f.reason for f in limits_)
    kinds = {f.kind for f in limits_} - {"unknown"}
    return Limit(
        kind="expected" if "expected" in kinds else first.kind,
        **values,
        limiter=", ".join(limiters),
        notes=[],
        provenance=list(rates.values()),
        reason="; ".join(reasons),
    )


def _distinct(texts: Any) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))


def _array(limits: Sequence[Limit], name: str, shape: tuple[int, ...]) -> Any:
    column = [getattr(f, name) for f in limits]
    if all(value is None for value in column):
        return None
    return np.array([np.nan if value is None else value for value in column], np.float64).reshape(shape)
