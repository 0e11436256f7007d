"""Backward passes of norms, softmax and cross entropy, timed alone: PyTorch's own backward operators on what a forward pass kept.

What is kept (means, deviations, probabilities) is an input like any other: references start from it as it is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators.base import Exact, Maker, Operator, kind
from hotlap.core.measure.workloads.operators.values import draw, near

EPSILON = 1e-5
IMAGES, GROUPS = 32, 32  # that rows and columns are parted into, where they can be

Inputs = Mapping[str, Any]


class BackwardStep(NamedTuple):
    """One operation of rows and columns: its inputs, what is called, and what that has to give."""

    inputs: Callable[[Maker], Inputs]
    launch: Callable[[Inputs], Any]
    reference: Callable[[Inputs], Sequence[Exact]]
    how: str = ""  # where it is no single kernel of the library


def operator(op: str, rows: int, columns: int, dtype: str, library: Any) -> Operator:
    """Raises NotSupported for what PyTorch has no operator of."""
    if op not in STEPS:
        raise NotSupported(f"PyTorch has no operator for rowwise {op}")
    step = STEPS[op](library, rows, columns, dtype)
    return Operator(step.inputs, step.launch, step.reference, variant=f"torch {op} {dtype} ({step.how})", dtype=dtype)


def _softmax(torch: Any, rows: int, columns: int, dtype: str) -> BackwardStep:
    backward, given = torch.ops.aten._softmax_backward_data, kind(torch, dtype)

    def inputs(make: Maker) -> Inputs:
        return {"g": draw(make, rows, columns, dtype=dtype), "y": torch.softmax(draw(make, rows, columns, dtype=dtype), -1)}

    def reference(i: Inputs) -> list[Exact]:
        both = i["g"] * i["y"]
        scale = both.abs() + i["y"] * both.abs().sum(-1, keepdim=True)
        value = both - i["y"] * both.sum(-1, keepdim=True)
        return [near(value, dtype, 2, columns, scale=scale)]

    return BackwardStep(inputs, lambda i: backward(i["g"], i["y"], -1, given), reference, "aten _softmax_backward_data")


def _cross_entropy(torch: Any, rows: int, columns: int, dtype: str) -> BackwardStep:
    loss, softmax, given = torch.ops.aten.nll_loss_backward, torch.ops.aten._log_softmax_backward_data, kind(torch, dtype)

    def inputs(make: Maker) -> Inputs:
        logits = torch.log_softmax(draw(make, rows, columns, dtype=dtype), -1)
        g, classes = draw(make, rows, dtype=dtype), make.whole(columns, rows).long()
        return {"g": g, "logp": logits, "classes": classes, "weight": torch.zeros((), dtype=given, device=make.place)}

    def launch(i: Inputs) -> Any:
        to_loss = loss(i["g"], i["logp"], i["classes"], None, 0, -100, i["weight"])  # 0: no reduction over rows
        return softmax(to_loss, i["logp"], -1, given)

    def reference(i: Inputs) -> list[Exact]:
        share = i["logp"].exp()
        one = torch.zeros_like(share).scatter_(-1, i["classes"][:, None], 1.0)
        g = i["g"][:, None]
        return [near((share - one) * g, dtype, 3, columns, scale=(share + one) * g.abs())]

    return BackwardStep(inputs, launch, reference, "aten nll_loss_backward, _log_softmax_backward_data")


def _layernorm(torch: Any, rows: int, columns: int, dtype: str) -> BackwardStep:
    backward = torch.ops.aten.native_layer_norm_backward

    def inputs(make: Maker) -> Inputs:
        x, weight = draw(make, rows, columns, dtype=dtype), make.normal(columns, dtype=dtype)
        _, mean, deviation = torch.native_layer_norm(x, (columns,), weight, weight, EPSILON)
        return {"g": draw(make, rows, columns, dtype=dtype), "x": x, "weight": weight, "mean": mean, "rstd": deviation}

    def launch(i: Inputs) -> tuple[Any, ...]:
        mask = [True, True, True]
        return tuple(backward(i["g"], i["x"], (columns,), i["mean"], i["rstd"], i["weight"], i["weight"], mask))

    def reference(i: Inputs) -> list[Exact]:
        hat, lost = _hat(i["x"], i["mean"], i["rstd"])
        return [_to_x(i["g"] * i["weight"], hat, lost, i["rstd"], (-1,), dtype), *_to_weights(i["g"], hat, lost, (0,), dtype)]

    return BackwardStep(inputs, launch, reference, "aten native_layer_norm_backward: to x, weight and bias")


def _hat(x: Any, mean: Any, rstd: Any) -> tuple[Any, Any]:
    """x̂, and the magnitudes that cancelled in it."""
    return (x - mean) * rstd, (x.abs() + mean.abs()) * rstd


def _to_x(g: Any, hat: Any, lost: Any, rstd: Any, over: tuple[int, ...], dtype: str) -> Exact:
    """(g − mean(g) − x̂·mean(g·x̂)) ÷ deviation, means over the normed sides; `g` with the weight in it."""
    value = (g - g.mean(over, keepdim=True) - hat * (g * hat).mean(over, keepdim=True)) * rstd
    scale = (g.abs() + g.abs().mean(over, keepdim=True) + hat.abs() * (g * hat).abs().mean(over, keepdim=True)) * rstd
    wide = (lost * (g * hat).abs().mean(over, keepdim=True) + hat.abs() * (g.abs() * lost).mean(over, keepdim=True)) * rstd
    terms = math.prod(int(g.shape[side]) for side in over)
    return near(value, dtype, 3, terms, scale=scale, wide=wide)


def _to_weights(g: Any, hat: Any, lost: Any, over: tuple[int, ...], dtype: str) -> list[Exact]:
    """Σ g·x̂ and Σ g. Where such sums are made in parts, each part is rounded."""
    terms = math.prod(int(g.shape[side]) for side in over)
    found = []
    for one, wide in ((g * hat, (g.abs() * lost).sum(over)), (g, None)):
        found.append(near(one.sum(over), dtype, 3, terms, scale=one.abs().sum(over), wide=wide))
    return found


def _rmsnorm(torch: Any, rows: int, columns: int, dtype: str) -> BackwardStep:
    """The fused operator where the device has it, else its arithmetic in PyTorch's elementwise operators, in fp32."""
    dtype_of = kind(torch, dtype)

    def inputs(make: Maker) -> Inputs:
        x, g = (draw(make, rows, columns, dtype=dtype) for _ in range(2))
        wide = x.double() if dtype == "fp64" else x.float()
        rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON)
        return {"g": g, "x": x, "weight": make.normal(columns, dtype=dtype), "rstd": rstd}

    def composed(i: Inputs) -> tuple[Any, Any]:
        hat, g = i["x"] * i["rstd"], i["g"] * i["weight"]
        return (torch.addcmul(g, hat, (hat * g).mean(-1, keepdim=True), value=-1) * i["rstd"]).to(dtype_of), (i["g"] * hat).sum(0).to(
            dtype_of
        )

    def fused(i: Inputs) -> tuple[Any, Any]:
        to_x, to_weight = torch.ops.aten._fused_rms_norm_backward(i["g"], i["x"], (columns,), i["rstd"], i["weight"], [True, True])
        return to_x, to_weight

    def reference(i: Inputs) -> list[Exact]:
        hat, g = i["x"] * i["rstd"], i["g"] * i["weight"]
        value = (g - hat * (g * hat).mean(-1, keepdim=True)) * i["rstd"]
        scale = (g.abs() + hat.abs() * (g * hat).abs().mean(-1, keepdim=True)) * i["rstd"]
        to_x = near(value, dtype, 4, columns, scale=scale)
        return [to_x, _to_weights(i["g"], hat, hat.abs(), (0,), dtype)[0]]

    def launch(i: Inputs) -> tuple[Any, Any]:
        return (fused if _has_kernel(torch, "_fused_rms_norm_backward", i["x"].device.type) else composed)(i)

    return BackwardStep(
        inputs, launch, reference, "to x and weight: aten _fused_rms_norm_backward; where there is none: mul, mean, addcmul, sum"
    )


@functools.cache
def _has_kernel(torch: Any, name: str, place: str) -> bool:
    """Whether PyTorch has this operator for a kind of device."""
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", place.upper()))
    except RuntimeError:  # an older PyTorch does not know the operator at all
        return False


def _batchnorm(torch: Any, rows: int, columns: int, dtype: str) -> BackwardStep:
    """Rows are channels, columns images × pixels."""
    backward, images = torch.ops.aten.native_batch_norm_backward, math.gcd(columns, IMAGES)

    def inputs(make: Maker) -> Inputs:
        x, g = (draw(make, images, rows, columns // images, dtype=dtype) for _ in range(2))
        weight = make.normal(rows, dtype=dtype)
        _, mean, deviation = torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, EPSILON)
        return {"g": g, "x": x, "weight": weight, "mean": mean, "rstd": deviation}

    def launch(i: Inputs) -> tuple[Any, ...]:
        mask = [True, True, True]
        return tuple(backward(i["g"], i["x"], i["weight"], None, None, i["mean"], i["rstd"], True, EPSILON, mask))

    def reference(i: Inputs) -> list[Exact]:
        mean, rstd, weight = (i[name][:, None] for name in ("mean", "rstd", "weight"))
        hat, lost = _hat(i["x"], mean, rstd)
        return [_to_x(i["g"] * weight, hat, lost, rstd, (0, 2), dtype), *_to_weights(i["g"], hat, lost, (0, 2), dtype)]

    return BackwardStep(inputs, launch, reference, "aten native_batch_norm_backward: to x, weight and bias")


def _groupnorm(torch: Any, rows: int, columns: int, dtype: str) -> BackwardStep:
    """Rows are images × groups, columns the channels of a group × pixels."""
    backward = torch.ops.aten.native_group_norm_backward
    groups, inner = math.gcd(rows, GROUPS), math.gcd(columns, 8)
    images, channels, pixels = rows // groups, groups * inner, columns // inner

    def inputs(make: Maker) -> Inputs:
        x, g = (draw(make, images, channels, pixels, dtype=dtype) for _ in range(2))
        weight = make.normal(channels, dtype=dtype)
        _, mean, deviation = torch.native_group_norm(x, weight, weight, images, channels, pixels, groups, EPSILON)
        return {"g": g, "x": x, "weight": weight, "mean": mean, "rstd": deviation}

    def launch(i: Inputs) -> tuple[Any, ...]:
        mask = [True, True, True]
        return tuple(backward(i["g"], i["x"], i["mean"], i["rstd"], i["weight"], images, channels, pixels, groups, mask))

    def reference(i: Inputs) -> list[Exact]:
        x, g = (i[name].view(images, groups, inner, pixels) for name in ("x", "g"))
        mean, rstd = (i[name].view(images, groups, 1, 1) for name in ("mean", "rstd"))
        hat, lost = _hat(x, mean, rstd)
        to_x = _to_x(g * i["weight"].view(groups, inner, 1), hat, lost, rstd, (2, 3), dtype)
        sides = (images, channels, pixels)
        to_x = to_x._replace(value=to_x.value.reshape(sides), scale=to_x.scale.reshape(sides))
        return [to_x, *_to_weights(i["g"], hat.reshape(sides), lost.reshape(sides), (0, 2), dtype)]

    return BackwardStep(inputs, launch, reference, "aten native_group_norm_backward: to x, weight and bias")


STEPS: Mapping[str, Callable[[Any, int, int, str], BackwardStep]] = {
    "softmax_backward": _softmax, "cross_entropy_backward": _cross_entropy, "layernorm_backward": _layernorm,
    "rmsnorm_backward": _rmsnorm, "batchnorm_backward": _batchnorm, "groupnorm_backward": _groupnorm,
}  # fmt: skip
