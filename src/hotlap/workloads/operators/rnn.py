"""A recurrent layer over a whole sequence, by PyTorch's fused LSTM and GRU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotlap.record import Case
from hotlap.workloads.operators.base import UNIT, Exact, Maker, Operator, complete, sizes
from hotlap.workloads.operators.gemm import precision

Inputs = Mapping[str, Any]
GATES = {"lstm": 4, "gru": 3}
ROUNDINGS = 3  # of the state: each step adds its own few, and forgets what came before by half or more
WEIGHTS = ("input_weights", "state_weights", "input_bias", "state_bias")


def operator(case: Case, library: Any) -> Operator:
    """Inputs (steps, batch, inputs) to states (steps, batch, hidden), one layer, one way."""
    given = complete(case)
    op, dtype = str(given["op"]), str(given["dtype"])

    def launch(i: Inputs) -> Any:
        weights = [i[name] for name in WEIGHTS]
        if op == "lstm":
            return library.lstm(i["x"], (i["h"], i["c"]), weights, True, 1, 0.0, False, False, False)[0]
        return library.gru(i["x"], i["h"], weights, True, 1, 0.0, False, False, False)[0]

    return Operator(
        lambda make: inputs(make, given), launch, lambda i: [_lstm(i, dtype) if op == "lstm" else _gru(i, dtype)],
        variant=f"torch {op} {dtype}", dtype=dtype,
    )  # fmt: skip


def inputs(make: Maker, given: Mapping[str, Any]) -> dict[str, Any]:
    """Weights between ∓1 ÷ √hidden, as PyTorch starts them, in one piece where cuDNN wants that."""
    steps, batch, width, hidden = sizes(given, "steps", "batch", "inputs", "hidden")
    op, dtype = str(given["op"]), str(given["dtype"])
    precision(make, dtype)
    torch, rows, most = make.library, GATES[op] * hidden, hidden**-0.5
    shapes = ((rows, width), (rows, hidden), (rows,), (rows,))
    weights = [make.uniform(*shape, dtype=dtype, low=-most, high=most) for shape in shapes]
    if "cuda" in str(make.place) and torch.backends.cudnn.is_acceptable(weights[0]):
        mode = {"lstm": 2, "gru": 3}[op]  # as cuDNN numbers its cells
        torch._cudnn_rnn_flatten_weight(weights, 4, width, mode, hidden, 0, 1, False, False)
    state = {name: make.normal(1, batch, hidden, dtype=dtype).tanh_() for name in ("h", "c")[: 2 if op == "lstm" else 1]}
    return {"x": make.normal(steps, batch, width, dtype=dtype), **state, **dict(zip(WEIGHTS, weights, strict=True))}


def _lstm(i: Inputs, dtype: str) -> Exact:
    """Step by step; gates in PyTorch's order: input, forget, cell, output."""
    h, c, states = i["h"][0], i["c"][0], []
    for x in i["x"] @ i["input_weights"].T + i["input_bias"]:
        into, forget, cell, out = (x + h @ i["state_weights"].T + i["state_bias"]).chunk(4, -1)
        c = forget.sigmoid() * c + into.sigmoid() * cell.tanh()
        h = out.sigmoid() * c.tanh()
        states.append(h)
    return _exact(states, i, dtype)


def _gru(i: Inputs, dtype: str) -> Exact:
    """Step by step; gates in PyTorch's order: reset, update, new. The reset acts on the state's product, as in cuDNN."""
    h, states = i["h"][0], []
    for x in i["x"] @ i["input_weights"].T + i["input_bias"]:
        (reset, update, new), (by_reset, by_update, by_new) = x.chunk(3, -1), (h @ i["state_weights"].T + i["state_bias"]).chunk(3, -1)
        gate = (update + by_update).sigmoid()
        h = (1 - gate) * (new + (reset + by_reset).sigmoid() * by_new).tanh() + gate * h
        states.append(h)
    return _exact(states, i, dtype)


def _exact(states: list[Any], i: Inputs, dtype: str) -> Exact:
    """States lie between −1 and 1, so that the bound is absolute."""
    import torch

    value, terms = torch.stack(states), i["input_weights"].shape[1] + i["state_weights"].shape[1]
    return Exact(value, torch.ones_like(value), tolerance=2 * ROUNDINGS * UNIT[dtype] + 4 * terms**0.5 * UNIT["fp32"])
