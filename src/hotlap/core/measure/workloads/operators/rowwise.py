"""Something of every row: softmax, norms, losses, sums, quantisation. Backward passes are in rowwise_backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators import in_triton, rowwise_backward
from hotlap.core.measure.workloads.operators.base import UNIT, Exact, Maker, Operator, kind, sizes
from hotlap.core.measure.workloads.operators.rowwise_backward import EPSILON, GROUPS, IMAGES, BackwardStep
from hotlap.core.measure.workloads.operators.values import draw, floating, near, same
from hotlap.core.record import Case

LARGEST_FP8 = 448.0  # of E4M3

Inputs = Mapping[str, Any]


class RowwiseShape(NamedTuple):
    """Of one case."""

    rows: int
    columns: int
    dtype: str

    def matrix(self, make: Maker) -> Any:
        return draw(make, self.rows, self.columns, dtype=self.dtype)


def operator(case: Case, library: Any) -> Operator:
    """Raises NotSupported for what PyTorch has no operator of."""
    op, dtype = str(case.params["op"]), str(case.params["dtype"])
    rows, columns = sizes(case.params, "rows", "columns")
    shape = RowwiseShape(rows, columns, dtype)
    if op not in ("sum", "max"):
        floating(dtype, op)
    if op.endswith("_backward"):
        return rowwise_backward.operator(op, shape.rows, shape.columns, dtype, library)
    if op not in STEPS:
        raise NotSupported(f"PyTorch has no operator for rowwise {op}")
    step = STEPS[op](library, shape)
    variant = f"torch {op} {dtype}" + (f" ({step.how})" if step.how else "")
    found = Operator(step.inputs, step.launch, step.reference, variant=variant, dtype="fp8" if op == "quantise" else dtype)
    return in_triton.rowwise(case, found, EPSILON) if case.implementation == "triton" else found


def _softmax(torch: Any, shape: RowwiseShape) -> BackwardStep:
    def reference(i: Inputs) -> list[Exact]:
        return [near(torch.softmax(i["x"], -1), shape.dtype, 2, shape.columns)]

    return BackwardStep(lambda make: {"x": shape.matrix(make)}, lambda i: torch.softmax(i["x"], -1), reference)


def _sum(torch: Any, shape: RowwiseShape) -> BackwardStep:
    def reference(i: Inputs) -> list[Exact]:
        return [near(i["x"].sum(-1), shape.dtype, 1, shape.columns, scale=i["x"].abs().sum(-1))]

    return BackwardStep(lambda make: {"x": shape.matrix(make)}, lambda i: i["x"].sum(-1), reference)


def _max(torch: Any, shape: RowwiseShape) -> BackwardStep:
    def reference(i: Inputs) -> list[Exact]:
        return [same(i["x"].amax(-1))]

    return BackwardStep(lambda make: {"x": shape.matrix(make)}, lambda i: i["x"].amax(-1), reference)


def _rmsnorm(torch: Any, shape: RowwiseShape) -> BackwardStep:
    norm, columns = torch.nn.functional.rms_norm, shape.columns

    def reference(i: Inputs) -> list[Exact]:
        value = i["x"] * torch.rsqrt(i["x"].square().mean(-1, keepdim=True) + EPSILON) * i["weight"]
        return [near(value, shape.dtype, 3, columns)]

    return BackwardStep(lambda make: _weighted(make, shape), lambda i: norm(i["x"], (columns,), i["weight"], EPSILON), reference)


def _layernorm(torch: Any, shape: RowwiseShape) -> BackwardStep:
    norm, columns = torch.nn.functional.layer_norm, shape.columns

    def reference(i: Inputs) -> list[Exact]:
        return [_normed(i["x"], i["weight"], shape.dtype, (-1,))]

    return BackwardStep(lambda make: _weighted(make, shape), lambda i: norm(i["x"], (columns,), i["weight"], None, EPSILON), reference)


def _weighted(make: Maker, shape: RowwiseShape) -> Inputs:
    return {"x": shape.matrix(make), "weight": make.normal(shape.columns, dtype=shape.dtype)}


def _normed(x: Any, weight: Any, dtype: str, over: tuple[int, ...]) -> Exact:
    """(x − mean) ÷ deviation × weight. A mean is taken away: elements near it keep its error, which is some of the weight's, and as many
    times that as x and the mean are larger than the deviation."""
    mean = x.mean(over, keepdim=True)
    away = x - mean
    rstd = (away.square().mean(over, keepdim=True) + EPSILON).rsqrt()
    value = away * rstd * weight
    terms = math.prod(int(x.shape[side]) for side in over)
    return near(value, dtype, 3, terms, wide=weight.abs() * (1 + (x.abs() + mean.abs()) * rstd))


def _batchnorm(torch: Any, shape: RowwiseShape) -> BackwardStep:
    """Rows are channels, columns images × pixels; in training: the statistics are the batch's own."""
    norm, images = torch.nn.functional.batch_norm, math.gcd(shape.columns, IMAGES)

    def inputs(make: Maker) -> Inputs:
        made = {name: make.normal(shape.rows, dtype=shape.dtype) for name in ("weight", "bias")}
        return {"x": draw(make, images, shape.rows, shape.columns // images, dtype=shape.dtype), **made}

    def reference(i: Inputs) -> list[Exact]:
        x, weight = i["x"], i["weight"][:, None]
        spread = (x.var((0, 2), correction=0, keepdim=True) + EPSILON).sqrt()
        level = (x.mean((0, 2), keepdim=True) * weight / spread).abs()  # libraries compute x·α + β: what of it cancels keeps its error
        found = _shifted(_normed(x, weight, shape.dtype, (0, 2)), i["bias"][:, None])
        return [found._replace(scale=found.scale + level)]

    return BackwardStep(inputs, lambda i: norm(i["x"], None, None, i["weight"], i["bias"], True, 0.1, EPSILON), reference)


def _shifted(exact: Exact, bias: Any) -> Exact:
    """Plus a bias: what it cancels keeps its error."""
    return exact._replace(value=exact.value + bias, scale=exact.scale + bias.abs())


def _groupnorm(torch: Any, shape: RowwiseShape) -> BackwardStep:
    """Rows are images × groups, columns the channels of a group × pixels."""
    norm = torch.nn.functional.group_norm
    groups, inner = math.gcd(shape.rows, GROUPS), math.gcd(shape.columns, 8)
    sides = (shape.rows // groups, groups * inner, shape.columns // inner)

    def inputs(make: Maker) -> Inputs:
        made = {name: make.normal(groups * inner, dtype=shape.dtype) for name in ("weight", "bias")}
        return {"x": draw(make, *sides, dtype=shape.dtype), **made}

    def reference(i: Inputs) -> list[Exact]:
        x = i["x"].unflatten(1, (groups, inner))
        weight, bias = (i[name].view(groups, inner, 1) for name in ("weight", "bias"))
        found = _shifted(_normed(x, weight, shape.dtype, (2, 3)), bias)
        return [found._replace(value=found.value.reshape(sides), scale=found.scale.reshape(sides))]

    return BackwardStep(inputs, lambda i: norm(i["x"], groups, i["weight"], i["bias"], EPSILON), reference)


def _cross_entropy(torch: Any, shape: RowwiseShape) -> BackwardStep:
    """Of each row's logits with one class: log Σ exp − logit."""
    loss = torch.nn.functional.cross_entropy

    def inputs(make: Maker) -> Inputs:
        return {"x": shape.matrix(make), "classes": make.whole(shape.columns, shape.rows).long()}

    def reference(i: Inputs) -> list[Exact]:
        whole, one = torch.logsumexp(i["x"], -1), i["x"].gather(-1, i["classes"][:, None])[:, 0]
        # log Σ exp is rounded to the output's type before the logit is taken from it
        scale = whole.abs() + one.abs() + 1
        return [near(whole - one, shape.dtype, 2, shape.columns, scale=scale)]

    return BackwardStep(inputs, lambda i: loss(i["x"], i["classes"], reduction="none"), reference, "log_softmax, then nll_loss")


def _quantise(torch: Any, shape: RowwiseShape) -> BackwardStep:
    """Each row's largest becomes the largest number of fp8; scales are kept in fp32."""
    eight = kind(torch, "fp8")

    def launch(i: Inputs) -> tuple[Any, Any]:
        scale = i["x"].abs().amax(-1, keepdim=True).float().div_(LARGEST_FP8)
        return (i["x"] / scale).clamp_(-LARGEST_FP8, LARGEST_FP8).to(eight), scale

    def reference(i: Inputs) -> list[Exact]:
        scale = i["x"].abs().amax(-1, keepdim=True) / LARGEST_FP8
        codes = near(i["x"] / scale, "fp8")._replace(tolerance=0.51 * UNIT["fp8"])
        return [codes, Exact(scale, tolerance=2 * UNIT["fp32"])]

    return BackwardStep(lambda make: {"x": shape.matrix(make)}, launch, reference, "abs, amax, div, clamp, to fp8")


STEPS: Mapping[str, Callable[[Any, RowwiseShape], BackwardStep]] = {
    "softmax": _softmax, "sum": _sum, "max": _max, "rmsnorm": _rmsnorm, "layernorm": _layernorm, "batchnorm": _batchnorm,
    "groupnorm": _groupnorm, "cross_entropy": _cross_entropy, "quantise": _quantise,
}  # fmt: skip
