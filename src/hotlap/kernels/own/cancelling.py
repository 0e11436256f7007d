"""What an element of a user's reference may be off by where its parts cancelled: worked out only for outputs that are not right by their
own magnitude."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hotlap.core.measure.workloads.operators.base import UNIT

MOVE = 2.0**-14  # of an input, relative: seen well in fp32 too, where the reference computes in that
PROBES, FEW, LARGE = 16, 4, 2**22  # random moves of all inputs; that many where there are more elements than LARGE
ABOUT = 2.0**-6  # of an input: so far other inputs meet other roundings, and lose about as much
BENT = 0.1  # share by which twice the move may give other than twice the answer; where it does, a step was crossed and nothing is learnt

Answer = Callable[[Mapping[str, Any]], Any]  # one output of the reference, for these inputs


def cancellation_tolerance(answer: Answer, still: Any, inputs: Mapping[str, Any], dtype: str, terms: int, library: Any) -> Any:
    """For each element of an output, which is `still` for these inputs: the size of its parts × the roundings that formulas and sums
    have, and four times what the reference loses in fp32 itself. Parts are as large as the element moves when each input moves by its own
    size, r.m.s. over random moves: what a backward stable algorithm may err by (Higham, "Accuracy and Stability of Numerical Algorithms",
    2002, section 1.5)."""
    few = sum(one.numel() for one in (still, *inputs.values()) if isinstance(one, library.Tensor)) > LARGE
    probes = FEW if few else PROBES
    parts = _parts(answer, inputs, still, probes, library)
    sums = UNIT["fp64" if dtype == "fp64" else "fp32"]
    rounded = 2 * UNIT[dtype] + 4 * terms**0.5 * sums if terms > 1 else 4 * UNIT[dtype]
    return rounded * parts + (0.0 if dtype == "fp64" else 4 * _lost(answer, inputs, still, probes, library))


def _parts(answer: Answer, inputs: Mapping[str, Any], still: Any, probes: int, library: Any) -> Any:
    total = library.zeros_like(still.abs())
    whole = _takes_fractions(answer, inputs, library)
    for once, twice in _moves(inputs, probes, whole, library):
        one, two = answer(once) - still, answer(twice) - still
        smooth = (two - 2 * one).abs() <= BENT * one.abs()
        total += (one.abs() / MOVE).where(smooth, 0.0).nan_to_num(0.0, posinf=0.0) ** 2
    return (total / probes).sqrt()


def _takes_fractions(answer: Answer, inputs: Mapping[str, Any], library: Any) -> bool:
    """Whether whole numbers among the inputs may be moved too; those that count or point may not."""
    try:
        answer(next(_moves(inputs, 1, True, library))[0])
    except Exception:  # a user's code raises what it likes
        return False
    return True


def _moves(inputs: Mapping[str, Any], probes: int, whole: bool, library: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """All inputs moved at random, and moved twice as far the same way; the same moves every time."""
    for probe in range(probes):
        once, twice = (_moved(dict(inputs), far * MOVE, library.Generator().manual_seed(probe), whole, library) for far in (1, 2))
        yield once, twice


def _moved(value: Any, by: float, chance: Any, whole: bool, library: Any) -> Any:
    if isinstance(value, dict):
        return {name: _moved(one, by, chance, whole, library) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(one, by, chance, whole, library) for one in value)
    if not isinstance(value, library.Tensor) or value.layout is not library.strided or value.dtype is library.bool:
        return value
    fractions = value.is_floating_point() or value.is_complex()
    if not (fractions or whole):
        return value
    step = library.randn(value.shape, generator=chance, dtype=library.float64).to(value.device)
    return (value if fractions else value.double()) * (1 + by * step)


def _lost(answer: Answer, inputs: Mapping[str, Any], still: Any, probes: int, library: Any) -> Any:
    """The most that the reference in fp32 differs from itself in fp64, over inputs about these; nothing where it takes no fp32."""
    most = library.zeros_like(still.abs())
    with contextlib.suppress(Exception):  # a user's code raises what it likes
        for probe in range(probes):
            by = UNIT["fp32"] if probe % 2 else ABOUT  # errors of an approximation are alike about here, those of roundings are not
            near = _cast(_moved(dict(inputs), by, library.Generator().manual_seed(probe), False, library), "float32", library)
            fine = answer(_cast(near, "float64", library))
            most = most.maximum((answer(near).to(fine.dtype) - fine).abs().nan_to_num(0.0, posinf=0.0))
    return most


def _cast(value: Any, dtype: str, library: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cast(one, dtype, library) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(one, dtype, library) for one in value)
    return value.to(getattr(library, dtype)) if isinstance(value, library.Tensor) and value.is_floating_point() else value
