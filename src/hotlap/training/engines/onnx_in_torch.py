"""An ONNX graph, run by PyTorch operator by operator, as eager mode runs a module. Semantics: onnx/docs/Operators.md, from opset 7 on.

Small: the operators that the networks of our tests use. A graph with others is refused before it runs, with the first one's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hotlap.training.onnx_graph import DTYPES, Graph, Node

Operator = Callable[..., Any]


class NoOperator(Exception):
    """An operator that is not in the table."""


class GraphModule:
    """A graph as a function of its inputs, in order. Constants become tensors once."""

    def __init__(self, graph: Graph) -> None:
        import torch

        self.torch, self.graph, self.table = torch, graph, _table(torch)
        for node in graph.nodes:
            if node.kind not in self.table:
                raise NoOperator(f"the operator {node.kind}")
        self.constants = {name: torch.from_numpy(np.array(value)) for name, value in graph.constants.items()}
        folded = [node for node in graph.nodes if node.kind == "Constant"]
        self.constants |= {node.outputs[0]: self.table["Constant"](node) for node in folded}
        self.nodes = [node for node in graph.nodes if node.kind != "Constant"]

    def __call__(self, *inputs: Any) -> list[Any]:
        values = dict(self.constants)
        values |= {given.name: value for given, value in zip(self.graph.inputs, inputs, strict=True)}
        for node in self.nodes:
            results = self.table[node.kind](node, *(values[name] if name else None for name in node.inputs))
            every = results if isinstance(results, (tuple, list)) else (results,)
            values |= dict(zip(node.outputs, every, strict=False))
        return [values[name] for name in self.graph.outputs]


def _table(torch: Any) -> dict[str, Operator]:
    functional = torch.nn.functional
    plain: dict[str, Operator] = {
        "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Pow": torch.pow, "Sqrt": torch.sqrt, "Tanh": torch.tanh, "Exp": torch.exp,
        "Sigmoid": torch.sigmoid, "Relu": torch.relu, "Reciprocal": torch.reciprocal, "MatMul": torch.matmul, "Equal": torch.eq,
        "Erf": torch.erf, "Neg": torch.neg, "Where": torch.where, "Identity": lambda x: x, "Not": torch.logical_not,
        "Max": lambda *x: _folded(torch.maximum, x), "Min": lambda *x: _folded(torch.minimum, x), "Log": torch.log, "Abs": torch.abs,
        "Div": lambda a, b: torch.div(a, b) if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc"),
        "GlobalMaxPool": lambda x: torch.amax(x, tuple(range(2, x.dim())), keepdim=True), "Size": lambda x: torch.tensor(x.numel()),
        "GlobalAveragePool": lambda x: torch.mean(x, tuple(range(2, x.dim())), keepdim=True),
        "Expand": lambda x, shape: torch.broadcast_to(x, torch.broadcast_shapes(tuple(x.shape), tuple(shape.tolist()))),
    }  # fmt: skip
    table = {kind: _without_node(function) for kind, function in plain.items()}
    dtypes = {number: getattr(torch, name) for number, name in DTYPES.items() if hasattr(torch, name)}
    return {
        **table,
        "Constant": lambda node: _constant(torch, node),
        "ConstantOfShape": lambda node, shape: torch.full(
            tuple(shape.tolist()), node.attributes["value"].item() if "value" in node.attributes else 0.0,
            dtype=torch.from_numpy(node.attributes["value"]).dtype if "value" in node.attributes else torch.float32,
        ),
        "Shape": lambda node, x: torch.tensor(tuple(x.shape)[node.attributes.get("start", 0) : node.attributes.get("end")]),
        "Cast": lambda node, x: x.to(dtypes[node.attributes["to"]]),
        "Reshape": lambda node, x, shape: x.reshape([x.shape[at] if size == 0 else size for at, size in enumerate(shape.tolist())]),
        "Transpose": lambda node, x: x.permute(node.attributes.get("perm", list(range(x.dim()))[::-1])),
        "Concat": lambda node, *x: torch.cat(x, node.attributes["axis"]),
        "Squeeze": lambda node, x, axes=None: _squeezed(x, _axes(node, axes)),
        "Unsqueeze": lambda node, x, axes=None: _unsqueezed(x, _axes(node, axes) or []),
        "Flatten": lambda node, x: x.flatten(node.attributes.get("axis", 1)),
        "Slice": lambda node, x, *how: _sliced(torch, x, *how),
        "Split": lambda node, x, sizes=None: torch.split(
            x, sizes.tolist() if sizes is not None else x.shape[node.attributes.get("axis", 0)] // len(node.outputs),
            node.attributes.get("axis", 0),
        ),
        "Gather": lambda node, x, index: _gathered(torch, x, index, node.attributes.get("axis", 0)),
        "Softmax": lambda node, x: torch.softmax(x, node.attributes.get("axis", -1)),
        "ReduceSum": lambda node, x, axes=None: _reduced(torch.sum, node, x, axes),
        "ReduceMean": lambda node, x, axes=None: _reduced(torch.mean, node, x, axes),
        "ReduceMax": lambda node, x, axes=None: _reduced(torch.amax, node, x, axes),
        "Conv": lambda node, x, w, b=None: _conv(functional, node, x, w, b),
        "Gemm": lambda node, a, b, c=None: _gemm(node, a, b, c),
        "Pad": lambda node, x, pads, value=None, axes=None: _pad(functional, node, x, pads, value),
        "LSTM": lambda node, *given: _lstm(torch, node, *given),
    }  # fmt: skip


def _without_node(function: Operator) -> Operator:
    return lambda node, *inputs: function(*inputs)


def _folded(function: Operator, values: Sequence[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = function(total, value)
    return total


def _constant(torch: Any, node: Node) -> Any:
    (name, value), *_ = node.attributes.items()
    return torch.from_numpy(np.array(value)) if name == "value" else torch.tensor(value)


def _axes(node: Node, axes: Any) -> list[int] | None:
    """From opset 13 on an input, before it an attribute."""
    found = axes.tolist() if axes is not None else node.attributes.get("axes")
    return [found] if isinstance(found, int) else found


def _squeezed(x: Any, axes: list[int] | None) -> Any:
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def _unsqueezed(x: Any, axes: list[int]) -> Any:
    dimensions = x.dim() + len(axes)
    for axis in sorted(axis % dimensions for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _sliced(torch: Any, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    every = axes.tolist() if axes is not None else list(range(len(starts)))
    for at, axis in enumerate(every):
        step = int(steps[at]) if steps is not None else 1
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(int(starts[at]), int(ends[at]), step),)]
        else:  # tensors have no negative steps
            chosen = list(range(x.shape[axis]))[slice(int(starts[at]), None if int(ends[at]) < -x.shape[axis] else int(ends[at]), step)]
            x = x.index_select(axis % x.dim(), torch.tensor(chosen, dtype=torch.long))
    return x


def _gathered(torch: Any, x: Any, index: Any, axis: int) -> Any:
    axis %= x.dim()
    picked = x.index_select(axis, torch.where(index < 0, index + x.shape[axis], index).reshape(-1).long())
    return picked.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def _reduced(function: Operator, node: Node, x: Any, axes: Any) -> Any:
    chosen = _axes(node, axes)
    if not chosen and node.attributes.get("noop_with_empty_axes", 0):
        return x
    return function(x, tuple(chosen or range(x.dim())), keepdim=bool(node.attributes.get("keepdims", 1)))


def _conv(functional: Any, node: Node, x: Any, w: Any, b: Any) -> Any:
    given, dimensions = node.attributes, w.dim() - 2
    pads = given.get("pads", [0] * 2 * dimensions)
    if given.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise NoOperator(f"Conv with auto_pad {given['auto_pad']}")
    if pads[:dimensions] != pads[dimensions:]:
        x = functional.pad(x, [side for at in reversed(range(dimensions)) for side in (pads[at], pads[dimensions + at])])
        pads = [0] * 2 * dimensions
    convolution = (functional.conv1d, functional.conv2d, functional.conv3d)[dimensions - 1]
    ones = [1] * dimensions
    return convolution(x, w, b, given.get("strides", ones), pads[:dimensions], given.get("dilations", ones), given.get("group", 1))


def _gemm(node: Node, a: Any, b: Any, c: Any) -> Any:
    given = node.attributes
    product = (a.T if given.get("transA") else a) @ (b.T if given.get("transB") else b) * given.get("alpha", 1.0)
    return product if c is None else product + given.get("beta", 1.0) * c


def _pad(functional: Any, node: Node, x: Any, pads: Any, value: Any) -> Any:
    sides = pads.tolist()
    half = len(sides) // 2
    mode = {"edge": "replicate"}.get(node.attributes.get("mode", "constant"), node.attributes.get("mode", "constant"))
    used = half if mode == "constant" else max(at for at in range(half) if sides[at] or sides[half + at]) + 1
    padded = range(used) if mode == "constant" else range(next(at for at in range(half) if sides[at] or sides[half + at]), used)
    listed = [side for at in reversed(padded) for side in (sides[at], sides[half + at])]
    if mode == "constant":
        return functional.pad(x, listed, value=0.0 if value is None else value.item())
    return functional.pad(x, listed, mode=mode)


def _lstm(torch: Any, node: Node, *given: Any) -> Any:
    """One direction. Gates stand as input, output, forget, cell in ONNX, as input, forget, cell, output in PyTorch."""
    every: list[Any] = [*given, *[None] * (7 - len(given))]
    x, w, r, b, lengths, h, c = every
    if node.attributes.get("direction", "forward") != "forward" or lengths is not None or node.attributes.get("layout", 0):
        raise NoOperator("LSTM backwards, with lengths or with another layout")
    size = r.shape[-1]

    def ordered(gates: Any) -> Any:
        i, o, f, g = gates.split(size)
        return torch.cat((i, f, g, o))

    weights = [ordered(w[0]), ordered(r[0])]
    if b is not None:
        weights += [ordered(b[0][: 4 * size]), ordered(b[0][4 * size :])]
    zeros = torch.zeros(1, x.shape[1], size, dtype=x.dtype)
    y, h_n, c_n = torch.lstm(x, (zeros if h is None else h, zeros if c is None else c), weights, b is not None, 1, 0.0, False, False, False)
    return y.unsqueeze(1), h_n, c_n
