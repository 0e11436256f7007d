"""Windows of an image by their largest or mean, and pixels repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotlap.core.measure.workloads.operators.base import Exact, Maker, Operator, sizes
from hotlap.core.measure.workloads.operators.values import draw, floating, near, same
from hotlap.core.record import Case

Inputs = Mapping[str, Any]


def operator(case: Case, library: Any) -> Operator:
    """The mean counts the zeros that pad an image, as PyTorch does where it is not told otherwise."""
    images, channels, height, width, side, step, pad = sizes(
        case.params, "images", "channels", "height", "width", "filter", "stride", "pad"
    )  # fmt: skip
    op, dtype = str(case.params["op"]), str(case.params["dtype"])
    floating(dtype, f"{op} pool")
    call = library.nn.functional
    launch = {
        "max": lambda i: call.max_pool2d(i["x"], side, step, pad),
        "average": lambda i: call.avg_pool2d(i["x"], side, step, pad),
        "upsample": lambda i: call.interpolate(i["x"], scale_factor=step, mode="nearest"),
    }[op]

    def inputs(make: Maker) -> Inputs:
        return {"x": draw(make, images, channels, height, width, dtype=dtype)}

    def windows(x: Any, filler: float) -> Any:
        return call.pad(x, (pad, pad, pad, pad), value=filler).unfold(2, side, step).unfold(3, side, step)

    def reference(i: Inputs) -> list[Exact]:
        x = i["x"]
        if op == "upsample":
            return [same(x.repeat_interleave(step, 2).repeat_interleave(step, 3))]
        if op == "max":
            return [same(windows(x, float("-inf")).amax((-1, -2)))]
        parts = windows(x, 0.0)
        return [near(parts.mean((-1, -2)), dtype, 2, side * side, scale=parts.abs().mean((-1, -2)))]

    names = {"max": "max_pool2d", "average": "avg_pool2d", "upsample": "interpolate nearest"}
    return Operator(inputs, launch, reference, variant=f"torch {names[op]} {dtype}", dtype=dtype)
