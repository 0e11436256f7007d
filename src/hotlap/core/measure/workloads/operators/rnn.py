"""A recurrent layer over a whole sequence, by PyTorch's fused LSTM and GRU."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from hotlap.core.measure.workloads.operators.base import UNIT, Exact, Maker, Operator, complete, sizes
from hotlap.core.measure.workloads.operators.gemm import precision
from hotlap.core.record import Case
from hotlap.core.work.layers import GATES

Inputs = Mapping[str, Any]
ROUNDINGS = 3  # of the state: each step adds its own few, and forgets what came before by half or more
MODES = {"lstm": 2, "gru": 3}  # as cuDNN numbers its cells


class _Places:
    """Where weights lie in the one piece that they are kept in: input weights, state weights, and a bias of each."""

    def __init__(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        ends = list(itertools.accumulate(math.prod(shape) for shape in shapes))
        self.at = [(end - math.prod(shape), shape) for end, shape in zip(ends, shapes, strict=True)]

    def of(self, flat: Any) -> list[Any]:
        return [flat[at : at + math.prod(shape)].view(shape) for at, shape in self.at]


def operator(case: Case, library: Any) -> Operator:
    """Inputs (steps, batch, inputs) to states (steps, batch, hidden), one layer, one way."""
    given = complete(case)
    op, dtype = str(given["op"]), str(given["dtype"])
    width, hidden = sizes(given, "inputs", "hidden")
    rows = GATES[op] * hidden
    places = _Places(((rows, width), (rows, hidden), (rows,), (rows,)))

    def launch(i: Inputs) -> Any:
        flat, x, h, c = i["weights"], i["x"], i["h"], i.get("c")
        weights = places.of(flat)
        if x.is_cuda and not library.version.hip:  # given the piece as a whole, cuDNN need not gather it at every call
            mode = MODES[op]
            return library._cudnn_rnn(x, weights, 4, flat, h, c, mode, hidden, 0, 1, False, 0.0, False, False, [], None)[0]
        run, state = (library.lstm, (h, c)) if op == "lstm" else (library.gru, h)
        return run(x, state, weights, True, 1, 0.0, False, False, False)[0]

    def reference(i: Inputs) -> list[Exact]:
        return [(_lstm if op == "lstm" else _gru)(i, places.of(i["weights"]), dtype)]

    return Operator(lambda make: inputs(make, given, places), launch, reference, variant=f"torch {op} {dtype}", dtype=dtype)


def inputs(make: Maker, given: Mapping[str, Any], places: _Places) -> dict[str, Any]:
    """Weights between ∓1 ÷ √hidden, as PyTorch starts them, in the order that cuDNN wants where it is cuDNN that runs them."""
    steps, batch, width, hidden = sizes(given, "steps", "batch", "inputs", "hidden")
    op, dtype = str(given["op"]), str(given["dtype"])
    precision(make, dtype)
    torch, most = make.library, hidden**-0.5
    weights = [make.uniform(*shape, dtype=dtype, low=-most, high=most) for _, shape in places.at]
    if weights[0].is_cuda and not torch.version.hip:
        flat = torch._cudnn_rnn_flatten_weight(weights, 4, width, MODES[op], hidden, 0, 1, False, False)
        places.at = [(one.storage_offset(), tuple(one.shape)) for one in weights]
    else:
        flat = torch.cat([one.flatten() for one in weights])
    state = {name: make.normal(1, batch, hidden, dtype=dtype).tanh_() for name in ("h", "c")[: 2 if op == "lstm" else 1]}
    return {"x": make.normal(steps, batch, width, dtype=dtype), **state, "weights": flat}


def _lstm(i: Inputs, weights: list[Any], dtype: str) -> Exact:
    """Step by step; gates in PyTorch's order: input, forget, cell, output."""
    by_input, by_state, input_bias, state_bias = weights
    h, c, states = i["h"][0], i["c"][0], []
    for x in i["x"] @ by_input.T + input_bias:
        into, forget, cell, out = (x + h @ by_state.T + state_bias).chunk(4, -1)
        c = forget.sigmoid() * c + into.sigmoid() * cell.tanh()
        h = out.sigmoid() * c.tanh()
        states.append(h)
    return _exact(states, sum(one.shape[1] for one in (by_input, by_state)), dtype)


def _gru(i: Inputs, weights: list[Any], dtype: str) -> Exact:
    """Step by step; gates in PyTorch's order: reset, update, new. The reset acts on the state's product, as in cuDNN."""
    by_input, by_state, input_bias, state_bias = weights
    h, states = i["h"][0], []
    for x in i["x"] @ by_input.T + input_bias:
        (reset, update, new), (by_reset, by_update, by_new) = x.chunk(3, -1), (h @ by_state.T + state_bias).chunk(3, -1)
        gate = (update + by_update).sigmoid()
        h = (1 - gate) * (new + (reset + by_reset).sigmoid() * by_new).tanh() + gate * h
        states.append(h)
    return _exact(states, sum(one.shape[1] for one in (by_input, by_state)), dtype)


def _exact(states: list[Any], terms: int, dtype: str) -> Exact:
    """States lie between −1 and 1, so that the bound is absolute."""
    import torch

    value = torch.stack(states)
    return Exact(value, torch.ones_like(value), tolerance=2 * ROUNDINGS * UNIT[dtype] + 4 * terms**0.5 * UNIT["fp32"])
