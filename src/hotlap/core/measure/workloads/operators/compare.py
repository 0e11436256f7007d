"""An output against what it should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hotlap.core.measure.workloads.operators.base import KINDS, UNIT, Exact

_SPACING = {KINDS[name]: unit for name, unit in UNIT.items() if name != "tf32"}  # by PyTorch's names
INFINITE = float("inf")


def farthest(outputs: Sequence[Any], exact: Sequence[Exact], dtype: str) -> tuple[float, float, str]:
    """`held` of all outputs in all their views: error and allowance of the one that is farthest off, and what is wrong by itself."""
    if len(exact) != len(outputs):
        return INFINITE, 1.0, f"{len(outputs)} outputs, where the reference has {len(exact)}"
    pairs = [held(one, view, dtype) for one, want in zip(outputs, exact, strict=True) for view in (want, *want.also)]
    error, allowed, _ = max(pairs, key=lambda found: found[0] / found[1], default=(0.0, 1.0, ""))
    return error, allowed, next((said for _, _, said in pairs if said), "")


def held(have: Any, want: Exact, dtype: str) -> tuple[float, float, str]:
    """The largest error ÷ scale, what is allowed, and what is wrong by itself: a shape, or a narrower type than is due. One unequal element
    of whole numbers is an error of infinity, and so is a NaN that the reference has not."""
    allowed = want.allowed(dtype)
    whole = have
    if want.part is not None:
        try:
            have = want.part(have.double() if want.value.is_floating_point() else have)
        except (IndexError, RuntimeError):
            return INFINITE, allowed or 1.0, f"an output of shape {tuple(whole.shape)}, which lacks parts that are due"
    if tuple(have.shape) != tuple(want.value.shape):
        return INFINITE, allowed or 1.0, f"an output of shape {tuple(have.shape)}, where {tuple(want.value.shape)} is due"
    if not (want.value.is_floating_point() or want.value.is_complex()):
        return (0.0 if bool((have == want.value).all()) else INFINITE), 1.0, ""
    if have.is_complex() != want.value.is_complex():
        return INFINITE, allowed or 1.0, f"an output of {_name(have)}, where {_name(want.value)} is due"
    if narrow := _narrow(whole, dtype):
        return INFINITE, allowed or 1.0, narrow
    scale = want.value.abs() if want.scale is None else want.scale
    wide = have if have.is_complex() else have.double()
    worst = _worst(wide, want.value, scale)
    if want.slack is not None and allowed and allowed < worst < INFINITE:
        worst = _worst(wide, want.value, scale + want.slack() / allowed)
    return worst, max(allowed, 1e-300), ""


def _worst(have: Any, exact: Any, scale: Any) -> float:
    error = (have - exact).abs() / scale.clamp_min(1e-300)
    error = error.where(~alike(have, exact), error.new_zeros(()))  # equal infinities have no difference
    worst = float(error.max()) if error.numel() else 0.0
    return INFINITE if worst != worst else worst


def alike(have: Any, exact: Any) -> Any:
    """Where two tensors are equal, or neither is a number."""
    return (have == exact) | ((have != have) & (exact != exact))


def _name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _narrow(have: Any, dtype: str) -> str:
    """What is wrong with the type of an output that is due in `dtype`; "" if it is at least as fine."""
    have = have.real if have.is_complex() else have
    here, due = _name(have), KINDS[dtype]
    return f"an output of {here}, where {due} is due" if not have.is_floating_point() or _SPACING.get(here, 0.0) > _SPACING[due] else ""
