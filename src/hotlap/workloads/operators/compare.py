"""An output against what it should be."""

from __future__ import annotations

from typing import Any

from hotlap.workloads.operators.base import KINDS, UNIT, Exact

_SPACING = {KINDS[name]: unit for name, unit in UNIT.items() if name != "tf32"}  # by PyTorch's names
INFINITE = float("inf")


def held(found: Any, want: Exact, dtype: str) -> tuple[float, float, str]:
    """The largest error ÷ scale, what is allowed, and what is wrong by itself: a shape, or a narrower type than is due. One unequal element
    of whole numbers is an error of infinity, and so is a NaN that the reference has not."""
    allowed = want.allowed(dtype)
    if tuple(found.shape) != tuple(want.value.shape):
        return INFINITE, allowed or 1.0, f"an output of shape {tuple(found.shape)}, where {tuple(want.value.shape)} is due"
    if not want.value.is_floating_point():
        return (0.0 if bool((found == want.value).all()) else INFINITE), 1.0, ""
    here, due = str(found.dtype).removeprefix("torch."), KINDS[dtype]
    if not found.is_floating_point() or _SPACING.get(here, 0.0) > _SPACING[due]:
        return INFINITE, allowed or 1.0, f"an output of {here}, where {due} is due"
    scale = want.value.abs() if want.scale is None else want.scale
    exact = found.double()
    error = (exact - want.value).abs() / scale.clamp_min(1e-300)
    error = error.where(exact != want.value, error.new_zeros(()))  # equal infinities have no difference
    worst = float(error.max()) if error.numel() else 0.0
    return (INFINITE if worst != worst else worst), max(allowed, 1e-300), ""
