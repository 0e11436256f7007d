"""LSTM and GRU as one operator for each layer and direction, as cuDNN runs them: PyTorch on tensors without data takes them apart into the
products and gates of every step, which no GPU runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hotlap.core.work.aten import CallRequest
from hotlap.core.work.compute import GEMM
from hotlap.core.work.layers import GATES, RNN, rnn_weight_gradient

DTYPES = {"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16"}
Note = Callable[[str, list[CallRequest]], None]
"""Takes an operator and what it runs."""


def whole(torch: Any, note: Note) -> Any:
    """A context in which LSTM and GRU are noted whole, forward and backward, and return tensors of the right shapes."""
    from torch.overrides import TorchFunctionMode

    class Layers(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, op: str, layers: list[CallRequest], shapes: Sequence[Sequence[int]], *tensors: Any) -> Any:
            ctx.asked = op, layers
            ctx.save_for_backward(*tensors)
            note(op, layers)
            return tuple(tensors[0].new_empty(shape) for shape in shapes)

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            op, layers = ctx.asked
            weights = [CallRequest(GEMM.name, rnn_weight_gradient(one.params)) for one in layers]
            note(f"{op}_backward", [*layers, *weights])
            wanted = zip(ctx.saved_tensors, ctx.needs_input_grad[3:], strict=True)
            return None, None, None, *(torch.empty_like(one) if is_wanted else None for one, is_wanted in wanted)

    class Whole(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            op = getattr(func, "__name__", "")
            if op not in GATES or not (layers := _layers(op, args)):
                return func(*args, **(kwargs or {}))
            given, states = args[0], _states(op, args)
            wide = states[0].shape[-1] * (2 if args[7] else 1)
            shapes = [(*given.shape[:2], wide), *(one.shape for one in states)]
            return Layers.apply(op, layers, shapes, given, *states, *args[2])

    return Whole()


def _states(op: str, args: Sequence[Any]) -> list[Any]:
    """The first states: of a GRU one tensor, of an LSTM two."""
    return list(args[1]) if op == "lstm" else [args[1]]


def _layers(op: str, args: Sequence[Any]) -> list[CallRequest]:
    """Of torch.lstm or torch.gru: (input, states, weights, bias, layers, dropout, train, bidirectional, batch first). None for what is
    no workload and stays taken apart: packed sequences, an LSTM with projections, fp64."""
    if len(args) != 9 or not isinstance(args[2], (list, tuple)) or isinstance(args[1], (list, tuple)) != (op == "lstm"):
        return []
    given, states, directions = args[0], _states(op, args), 2 if args[7] else 1
    hidden, dtype = states[0].shape[-1], DTYPES.get(str(given.dtype), "")
    if not dtype or any(one.shape[-1] != hidden for one in states):
        return []
    batch, steps = given.shape[:2] if args[8] else (given.shape[1], given.shape[0])
    sizes = {"op": op, "steps": steps, "batch": batch, "hidden": hidden, "dtype": dtype}
    inputs = [given.shape[2], *[hidden * directions] * (args[4] - 1)]
    return [CallRequest(RNN.name, {**sizes, "inputs": wide}) for wide in inputs for _ in range(directions)]
