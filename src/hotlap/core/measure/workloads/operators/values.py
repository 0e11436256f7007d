"""Inputs of every type, and how near an elementwise answer has to be."""

from __future__ import annotations

from typing import Any

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators.base import UNIT, Exact, Maker

FLOATS = ("fp64", "fp32", "fp16", "bf16")
SMALLEST = {"fp64": 2.0**-1022, "fp32": 2.0**-126, "fp16": 2.0**-14, "bf16": 2.0**-126, "fp8": 2.0**-6}
"""The smallest normal number of a type: below it, errors are absolute."""
WHOLE = 11  # whole numbers are below this in magnitude, so that no product of two leaves 8 bits


def draw(make: Maker, *shape: int, dtype: str) -> Any:
    """Standard normal, or whole numbers whose sums and products fit 8 bits."""
    if dtype in ("int8", "int32"):
        return make.whole(WHOLE, *shape, dtype=dtype, low=1 - WHOLE)
    return make.normal(*shape, dtype=dtype)


def floating(dtype: str, what: str) -> None:
    """Raises NotSupported where `what` is arithmetic on floating-point numbers and `dtype` is none that PyTorch computes in."""
    if dtype not in FLOATS:
        raise NotSupported(f"PyTorch has no {what} of {dtype}; with {', '.join(FLOATS[1:])} it has")


def sums(dtype: str) -> str:
    """The type that PyTorch adds up in."""
    return "fp64" if dtype == "fp64" else "fp32"


def near(value: Any, dtype: str, roundings: int = 1, terms: int = 1, *, scale: Any = None, wide: Any = None) -> Exact:
    """An answer relative to itself or to `scale`, absolute below the smallest normal number. `wide`: magnitudes that cancelled on the way
    within the wider type in which it is computed."""
    if not value.is_floating_point():
        return Exact(value)
    scale = (value.abs() if scale is None else scale).clamp_min(SMALLEST[dtype])
    if wide is not None:
        scale = scale + wide * (8 * UNIT[sums(dtype)] / UNIT[dtype])
    return Exact(value, scale, terms=terms, roundings=roundings, accumulate=sums(dtype))


def same(value: Any) -> Exact:
    """Every element as it is: where nothing is rounded."""
    return Exact(value, tolerance=0.0) if value.is_floating_point() else Exact(value)
