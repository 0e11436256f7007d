"""Convolutions of lines, images and volumes, and both of their gradients, by the vendor's library, by way of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators.base import Exact, Maker, Operator, complete, sizes
from hotlap.core.measure.workloads.operators.gemm import precision
from hotlap.core.measure.workloads.operators.products import SIGMAS, WHOLE_FLOP, Finish, some
from hotlap.core.record import Case
from hotlap.core.work.convolution import conv_sides

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class ConvShape:
    """One convolution; sides are depth, height, width, as many as there are."""

    images: int
    channels: int
    filters: int
    groups: int
    gap: int  # between taps
    op: str
    dtype: str
    last: bool  # channels lie last in memory
    sides: tuple[int, ...]
    taps: tuple[int, ...]
    results: tuple[int, ...]
    pads: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def inner(self) -> int:
        return self.channels // self.groups

    @property
    def terms(self) -> int:
        """Products that are summed for one element of the result."""
        taps = math.prod(self.taps)
        return {
            "forward": self.inner * taps, "input_gradient": self.filters // self.groups * taps,
            "weight_gradient": self.images * math.prod(self.results),
        }[self.op]  # fmt: skip

    @property
    def flop(self) -> float:
        return 2.0 * self.images * self.filters * self.inner * math.prod(self.taps) * math.prod(self.results)


def operator(case: Case, library: Any) -> Operator:
    """Gradients are aten's convolution_backward, asked for one of them: the forward pass is not run. Raises NotSupported."""
    shape = read(case)
    name = f"conv{len(shape.sides)}d" if shape.op == "forward" else f"convolution_backward, {shape.op.replace('_', ' ')}"
    return Operator(
        lambda make: inputs(make, shape), _launch(library, shape), lambda i: reference(i, shape),
        variant=f"torch {name} {shape.dtype}{', channels last' if shape.last else ''}", dtype=shape.dtype,
    )  # fmt: skip


def read(case: Case) -> ConvShape:
    """A case's parameters. Raises NotSupported for types and layouts that PyTorch has no convolution of."""
    given = complete(case)
    dtype = str(given["dtype"])
    if dtype in ("fp8", "int8"):
        raise NotSupported(f"PyTorch has no convolution of {dtype}")
    axes = conv_sides(given)
    line = given["depth"] == 0 and given["height"] == 1 and given["filter_height"] == 1
    names = ["width"] if line else ["height", "width"] if given["depth"] == 0 else ["depth", "height", "width"]
    last = given["layout"] == "nhwc"
    if last and line:
        raise NotSupported("PyTorch keeps channels last in images and volumes, not in lines")
    images, channels, filters, groups, gap = sizes(given, "images", "channels", "filters", "groups", "dilation")
    sides, taps, results, pads, steps = (tuple(int(axes[name][index]) for name in names) for index in range(5))
    return ConvShape(
        images=images, channels=channels, filters=filters, groups=groups, gap=gap, op=str(given["op"]), dtype=dtype, last=last,
        sides=sides, taps=taps, results=results, pads=pads, steps=steps,
    )  # fmt: skip


def inputs(make: Maker, shape: ConvShape) -> dict[str, Any]:
    """Images (x), filters (w) and, for gradients, that of the result (y)."""
    precision(make, shape.dtype)
    sizes_of = {
        "x": (shape.images, shape.channels, *shape.sides), "w": (shape.filters, shape.inner, *shape.taps),
        "y": (shape.images, shape.filters, *shape.results),
    }  # fmt: skip
    if shape.op == "forward":  # a gradient takes all three: of the operand whose gradient is wanted, aten reads the shape alone
        del sizes_of["y"]
    return {name: _tensor(make, size, shape) for name, size in sizes_of.items()}


def _tensor(make: Maker, size: tuple[int, ...], shape: ConvShape) -> Any:
    if not shape.last:
        return make.normal(*size, dtype=shape.dtype)
    return make.normal(size[0], *size[2:], size[1], dtype=shape.dtype).movedim(-1, 1)


def _launch(torch: Any, shape: ConvShape) -> Callable[[Inputs], Any]:
    rank = len(shape.sides)
    if shape.op == "forward":
        run = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
        return lambda i: run(i["x"], i["w"], None, shape.steps, shape.pads, shape.gap, shape.groups)
    backward, wanted = torch.ops.aten.convolution_backward, [shape.op == "input_gradient", shape.op == "weight_gradient", False]
    given = (None, list(shape.steps), list(shape.pads), [shape.gap] * rank, False, [0] * rank, shape.groups, wanted)
    return lambda i: backward(i["y"], i["x"], i["w"], *given)[wanted.index(True)]


# ---------------------------------------------------------------- reference

def reference(i: Inputs, shape: ConvShape) -> list[Exact]:
    """`i` in fp64. All of the result where that is cheap; else some images, or filters, in full, and sums with random signs over the
    channels of the result for all of it."""
    added_up = shape.dtype == "fp16" and shape.op == "input_gradient" and i["w"].device.type == "cpu"  # tap by tap in fp16 (PyTorch 2.13)
    finish = Finish(shape.dtype, parts=math.prod(shape.taps) if added_up else 1)
    if shape.flop <= WHOLE_FLOP:
        return [_exact(i, shape, finish, None)]
    if shape.op != "weight_gradient":
        whole = some(shape.images, max(1, int(shape.images * WHOLE_FLOP / shape.flop)))
        few = {name: (x if name == "w" else x[whole]) for name, x in i.items()}
        return [_exact(few, shape, finish, lambda c: c[whole])._replace(also=(_sketch(i, shape, finish),))]
    if shape.groups > 1:
        return [_exact(i, shape, finish, None)]
    whole = some(shape.filters, max(1, int(shape.filters * WHOLE_FLOP / shape.flop)))
    few = {"x": i["x"], "y": i["y"][:, whole], "w": i["w"][whole]}
    return [_exact(few, shape, finish, lambda c: c[whole])._replace(also=(_sketch(i, shape, finish),))]


def _exact(i: Inputs, shape: ConvShape, finish: Finish, part: Any) -> Exact:
    value = _apply(i, shape)
    return Exact(value, finish.bound(value, _norms(i, shape), shape.terms), tolerance=1.0, part=part)


def _apply(i: Inputs, shape: ConvShape) -> Any:
    import torch

    return _launch(torch, shape)(i)


def _norms(i: Inputs, shape: ConvShape) -> Any:
    """Of the two vectors whose product each element is, multiplied: for gradients of weights at most that."""
    every = tuple(range(2, 2 + len(shape.sides)))
    if shape.op == "weight_gradient":
        of_y = i["y"].square().sum((0, *every)).sqrt()
        of_x = i["x"].square().sum((0, *every)).sqrt().unflatten(0, (shape.groups, shape.inner))
        return (of_y.unflatten(0, (shape.groups, -1)).unsqueeze(-1) * of_x.unsqueeze(1)).flatten(0, 1)[(..., *(None,) * len(shape.sides))]
    squares = {name: x.square() for name, x in i.items()}
    if shape.op == "forward":  # a filter of ones adds up the squares under it
        of_w = squares["w"].sum((1, *every)).sqrt()
        ones = {"x": squares["x"], "w": squares["w"][:: len(of_w) // shape.groups] * 0 + 1}
    else:
        by_channel = squares["w"].unflatten(0, (shape.groups, -1)).sum((1, *(side + 1 for side in every)))  # groups, inner
        of_w = by_channel.flatten().sqrt()
        ones = {"y": squares["y"], "x": squares["x"][:, :: shape.inner], "w": squares["w"][:, :1] * 0 + 1}
    under = _apply(ones, shape).clamp_min(0).sqrt()  # of each group
    return under.repeat_interleave(len(of_w) // shape.groups, 1) * of_w[(None, slice(None), *(None,) * len(shape.sides))]


def _sketch(i: Inputs, shape: ConvShape, finish: Finish) -> Exact:
    """Sums over the result's channels of each group, with random signs, as one convolution with so fewer channels."""
    axis = 1 if shape.op != "weight_gradient" else 0
    of = shape.channels if shape.op == "input_gradient" else shape.filters
    sums = _Signs.drawn(of, shape.groups, i["w"])
    if shape.op == "forward":
        few = {"x": i["x"], "w": sums(i["w"], 0)}
    elif shape.op == "weight_gradient":
        few = {"x": i["x"], "y": sums(i["y"], 1), "w": i["w"][:: of // shape.groups]}
    else:
        few = {"y": i["y"], "w": sums.inner(i["w"]), "x": i["x"][:, :: shape.inner]}
    value = _apply(few, shape)
    return Exact(value, SIGMAS * _spread(i, shape, finish), tolerance=1.0, part=lambda c: sums(c, axis))


class _Signs(NamedTuple):
    """Random signs of channels, which no kernel can know: adds up the channels of each group along an axis."""

    signs: Any
    groups: int

    @classmethod
    def drawn(cls, of: int, groups: int, like: Any) -> _Signs:
        import torch

        return cls(torch.from_numpy(np.random.default_rng().choice([-1.0, 1.0], of)).to(like.device), groups)

    def __call__(self, x: Any, axis: int) -> Any:
        by = self.signs.reshape(-1, *(1,) * (x.dim() - axis - 1))
        return (x * by).unflatten(axis, (self.groups, -1)).sum(axis + 1)

    def inner(self, w: Any) -> Any:
        """Filters (filters, inner, …) with the channels of their group added up."""
        by_group = self.signs.reshape(self.groups, 1, -1, *(1,) * (w.dim() - 2))
        return (w.unflatten(0, (self.groups, -1)) * by_group).sum(2, keepdim=True).flatten(0, 1)


def _spread(i: Inputs, shape: ConvShape, finish: Finish) -> Any:
    """The root mean square error of a sum over a group's channels."""
    every = tuple(range(2, 2 + len(shape.sides)))
    unit = finish.typical(1.0, shape.terms)
    if shape.op == "weight_gradient":
        of_y = i["y"].square().sum((0, *every)).unflatten(0, (shape.groups, -1)).sum(1)
        of_x = i["x"].square().sum((0, *every)).unflatten(0, (shape.groups, shape.inner))
        return unit * (of_y[:, None] * of_x).sqrt()[(..., *(None,) * len(shape.sides))]
    of_w = i["w"].square().unflatten(0, (shape.groups, -1)).sum(tuple(range(1, 3 + len(shape.sides))))
    squares = {name: x.square() for name, x in i.items() if name != "w"}
    if shape.op == "forward":
        ones = {**squares, "w": i["w"][:: shape.filters // shape.groups] * 0 + 1}
    else:
        ones = {"y": squares["y"], "x": i["x"][:, :: shape.inner], "w": i["w"][:, :1] * 0 + 1}
    under = _apply(ones, shape).clamp_min(0)
    return unit * (under * of_w[(None, slice(None), *(None,) * len(shape.sides))]).sqrt()


