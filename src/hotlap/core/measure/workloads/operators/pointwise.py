"""The same arithmetic on every element: activations, gates, rotary embedding, dropout, and their backward passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators.base import Exact, Maker, Operator, kind, sizes
from hotlap.core.measure.workloads.operators.values import draw, floating, near, same
from hotlap.core.record import Case

Inputs = Mapping[str, Any]
HEAD, POSITIONS = 128, 4096  # of rotary embeddings: elements that turn together, and rows of their table of angles
ROW = 4096  # elements that share a scale, at most
KEPT = 0.9  # share of the elements that dropout leaves
EXACT_OPS = ("add", "mul", "relu", "copy", "scale", "relu_backward")  # run on whole numbers too


class PointwiseStep(NamedTuple):
    """One operation: the arrays it reads, what is called, and what that has to give."""

    arrays: tuple[str, ...]
    launch: Callable[[Inputs], Any]
    reference: Callable[[Inputs], Sequence[Exact]]
    how: str = ""  # where it is no single kernel of the library
    settle: Callable[[Inputs, Sequence[Any]], Sequence[Any]] | None = None


def operator(case: Case, library: Any) -> Operator:
    """Raises NotSupported for what PyTorch has no operator of."""
    (elements,) = sizes(case.params, "elements")
    op, dtype = str(case.params["op"]), str(case.params["dtype"])
    if op not in EXACT_OPS:
        floating(dtype, op)
    if op in SPECIAL:
        return SPECIAL[op](library, elements, dtype)
    if op not in STEPS:
        raise NotSupported(f"PyTorch has no operator for pointwise {op}")
    step = STEPS[op](library, dtype)

    def inputs(make: Maker) -> dict[str, Any]:
        return {name: draw(make, elements, dtype=dtype) for name in step.arrays}

    variant = f"torch {op} {dtype}" + (f" ({step.how})" if step.how else "")
    return Operator(inputs, step.launch, step.reference, variant=variant, dtype=dtype, settle=step.settle)


def _add(torch: Any, dtype: str) -> PointwiseStep:
    return PointwiseStep(("x", "y"), lambda i: torch.add(i["x"], i["y"]), lambda i: [near(i["x"] + i["y"], dtype)])


def _mul(torch: Any, dtype: str) -> PointwiseStep:
    return PointwiseStep(("x", "y"), lambda i: torch.mul(i["x"], i["y"]), lambda i: [near(i["x"] * i["y"], dtype)])


def _scale(torch: Any, dtype: str) -> PointwiseStep:
    return PointwiseStep(("x",), lambda i: torch.mul(i["x"], 3), lambda i: [near(i["x"] * 3, dtype)])


def _copy(_: Any, dtype: str) -> PointwiseStep:
    return PointwiseStep(("x",), lambda i: i["x"].clone(), lambda i: [same(i["x"])])


def _relu(torch: Any, dtype: str) -> PointwiseStep:
    return PointwiseStep(("x",), lambda i: torch.relu(i["x"]), lambda i: [same(i["x"].clamp_min(0))])


def _sigmoid(torch: Any, dtype: str) -> PointwiseStep:
    return PointwiseStep(("x",), lambda i: torch.sigmoid(i["x"]), lambda i: [near(1 / (1 + torch.exp(-i["x"])), dtype, 2)])


def _tanh(torch: Any, dtype: str) -> PointwiseStep:
    return PointwiseStep(("x",), lambda i: torch.tanh(i["x"]), lambda i: [near(torch.tanh(i["x"]), dtype, 2)])


def _silu(torch: Any, dtype: str) -> PointwiseStep:
    silu = torch.nn.functional.silu
    return PointwiseStep(("x",), lambda i: silu(i["x"]), lambda i: [near(i["x"] / (1 + torch.exp(-i["x"])), dtype, 3)])


def _gelu(torch: Any, dtype: str) -> PointwiseStep:
    gelu = torch.nn.functional.gelu
    return PointwiseStep(("x",), lambda i: gelu(i["x"]), lambda i: [near(i["x"] * _normal(torch, i["x"]), dtype, 3, wide=i["x"].abs())])


def _normal(torch: Any, x: Any) -> Any:
    """The normal distribution's share below x."""
    return 0.5 * torch.erfc(-x / math.sqrt(2))


def _silu_mul(torch: Any, dtype: str) -> PointwiseStep:
    silu = torch.nn.functional.silu
    return PointwiseStep(
        ("x", "y"), lambda i: silu(i["x"]).mul_(i["y"]), lambda i: [near(i["x"] / (1 + torch.exp(-i["x"])) * i["y"], dtype, 4)],
        "silu, then mul",
    )  # fmt: skip


def _gelu_mul(torch: Any, dtype: str) -> PointwiseStep:
    gelu = torch.nn.functional.gelu

    def reference(i: Inputs) -> list[Exact]:
        return [near(i["x"] * _normal(torch, i["x"]) * i["y"], dtype, 4, wide=(i["x"] * i["y"]).abs())]

    return PointwiseStep(("x", "y"), lambda i: gelu(i["x"]).mul_(i["y"]), reference, "gelu, then mul")


def _relu_backward(torch: Any, dtype: str) -> PointwiseStep:
    backward = torch.ops.aten.threshold_backward
    return PointwiseStep(("g", "x"), lambda i: backward(i["g"], i["x"], 0), lambda i: [same(torch.where(i["x"] > 0, i["g"], 0))])


def _gelu_backward(torch: Any, dtype: str) -> PointwiseStep:
    backward = torch.ops.aten.gelu_backward

    def reference(i: Inputs) -> list[Exact]:
        x = i["x"]
        share, slope = _normal(torch, x), x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return [near(i["g"] * (share + slope), dtype, 4, wide=i["g"].abs() * (1 + slope.abs()))]

    return PointwiseStep(("g", "x"), lambda i: backward(i["g"], i["x"]), reference)


def _silu_mul_backward(torch: Any, dtype: str) -> PointwiseStep:
    """Of silu(x)·y: to x and to y."""
    backward, silu = torch.ops.aten.silu_backward, torch.nn.functional.silu

    def launch(i: Inputs) -> tuple[Any, Any]:
        return backward(i["g"] * i["y"], i["x"]), silu(i["x"]).mul_(i["g"])

    def reference(i: Inputs) -> list[Exact]:
        x, share = i["x"], torch.sigmoid(i["x"])
        to_x, both = share * (1 + x * (1 - share)), i["g"] * i["y"]
        return [near(both * to_x, dtype, 5, wide=both.abs() * share * (1 + x.abs())), near(i["g"] * x * share, dtype, 4)]

    return PointwiseStep(("g", "x", "y"), launch, reference, "mul, silu_backward; silu, mul")


def _dropout(torch: Any, dtype: str) -> PointwiseStep:
    """The mask is random, so the outputs are compared with the mask that came with them, and its share of kept elements against chance."""

    def settle(i: Inputs, outputs: Sequence[Any]) -> list[Any]:
        found, mask = outputs
        return [found.double() - i["x"] * mask / KEPT, mask.double().mean()]

    def reference(i: Inputs) -> list[Exact]:
        x = i["x"]
        six_sigma = 6 * math.sqrt(KEPT * (1 - KEPT) / max(x.numel(), 1)) + 1 / x.numel()
        share = torch.full((), KEPT, dtype=torch.float64, device=x.device)
        return [near(torch.zeros_like(x), dtype, 2, scale=x.abs()), Exact(share, tolerance=six_sigma / KEPT)]

    return PointwiseStep(("x",), lambda i: torch.native_dropout(i["x"], 1 - KEPT, True), reference, settle=settle)


def _rope(torch: Any, elements: int, dtype: str) -> Operator:
    """Pairs half a head apart are turned by an angle of their row: x·cos, then two halves with sin added, in place."""
    width = next((w for w in (HEAD, 64, 32, 16, 8, 4, 2) if elements % w == 0), 0)
    if not width:
        raise NotSupported(f"a rotary embedding turns pairs: an even number of elements is needed, not {elements}")
    rows, half = elements // width, width // 2
    positions = math.gcd(rows, POSITIONS)

    def inputs(make: Maker) -> dict[str, Any]:
        angle = make.uniform(positions, half, dtype="fp32", high=2 * math.pi)
        made = kind(torch, dtype)
        return {"x": draw(make, rows // positions, positions, width, dtype=dtype), "cos": angle.cos().to(made), "sin": angle.sin().to(made)}

    def launch(i: Inputs) -> Any:
        x, sin = i["x"], i["sin"]
        out = torch.empty_like(x)
        low, high = x[..., :half], x[..., half:]
        torch.mul(x.unflatten(-1, (2, half)), i["cos"][:, None], out=out.unflatten(-1, (2, half)))
        out[..., :half].addcmul_(high, sin, value=-1)
        out[..., half:].addcmul_(low, sin)
        return out

    def reference(i: Inputs) -> list[Exact]:
        low, high, cos, sin = i["x"][..., :half], i["x"][..., half:], i["cos"], i["sin"]
        value = torch.cat([low * cos - high * sin, low * sin + high * cos], -1)
        scale = torch.cat([(low * cos).abs() + (high * sin).abs(), (low * sin).abs() + (high * cos).abs()], -1)
        return [near(value, dtype, 3, scale=scale)]

    return Operator(inputs, launch, reference, variant=f"torch rope {dtype} (mul, then addcmul on each half)", dtype=dtype)


def _dequantise(torch: Any, elements: int, dtype: str) -> Operator:
    """fp8 by a scale for each row, in fp32, as `rowwise quantise` makes them."""
    columns = math.gcd(elements, ROW)
    dtype_of = kind(torch, dtype)

    def inputs(make: Maker) -> dict[str, Any]:
        codes = make.normal(elements // columns, columns, dtype="fp8")
        return {"x": codes, "scale": make.uniform(elements // columns, 1, dtype="fp32", low=0.5, high=2.0)}

    def reference(i: Inputs) -> list[Exact]:
        return [near(i["x"] * i["scale"], dtype, 2)]

    floating(dtype, "dequantise")
    how = f"torch dequantise fp8 to {dtype} (to {dtype}, then mul)"
    return Operator(inputs, lambda i: i["x"].to(dtype_of).mul_(i["scale"]), reference, variant=how, dtype=dtype)


STEPS: Mapping[str, Callable[[Any, str], PointwiseStep]] = {
    "add": _add, "mul": _mul, "scale": _scale, "copy": _copy, "relu": _relu, "sigmoid": _sigmoid, "tanh": _tanh, "silu": _silu,
    "gelu": _gelu, "silu_mul": _silu_mul, "gelu_mul": _gelu_mul, "dropout": _dropout, "relu_backward": _relu_backward,
    "gelu_backward": _gelu_backward, "silu_mul_backward": _silu_mul_backward,
}  # fmt: skip
SPECIAL: Mapping[str, Callable[[Any, int, str], Operator]] = {"rope": _rope, "dequantise": _dequantise}
