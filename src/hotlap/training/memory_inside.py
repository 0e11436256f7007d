"""What operators hold while they run, beyond what they return: oneDNN's copies of tensors and its scratchpads. PyTorch's CPU alone.

Imported only where PyTorch runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map_only

TRIED = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::convolution_backward")
TRIED_BYTES = 2**25  # of operands, at most: scratchpads do not grow with them, so they say little of larger ones
_tried: dict[Any, int] = {}


def held(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    """Bytes that are there at most within an operator, its results among them; 0 where it is not known to hold more than these."""
    if func.namespace != "aten" or func._schema.name not in TRIED:
        return 0
    tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, torch.Tensor)]
    if any(one.device.type != "cpu" for one in tensors):
        return 0
    if any(one.element_size() == 2 for one in tensors) and sum(map(_bytes, tensors)) <= TRIED_BYTES:
        key = str(func), *(_key(one) for one in tree_flatten((args, kwargs))[0])
        if key not in _tried:
            _tried[key] = _try(func, args, kwargs)
        if _tried[key]:
            return _tried[key]
    formula = INSIDE.get(func._schema.name)
    return formula(args, result) if formula else 0


def _key(value: Any) -> Any:
    return (value.shape, value.stride(), value.dtype) if isinstance(value, torch.Tensor) else repr(value)


def _zeros(like: Any) -> Any:
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype).zero_()


def _try(func: Any, args: Any, kwargs: Any) -> int:
    """The operator alone, once, on zeros: what a scratchpad takes in 16 bits depends on the processor. 0 where it cannot be tried."""
    with _disable_current_modes(), torch.no_grad():
        try:
            given, named = tree_map_only(torch.Tensor, _zeros, (args, kwargs))
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiled:
                kept = func(*given, **named)
            del kept
        except RuntimeError:  # of another profiler that runs, of types that the operator does not take
            return 0
    total = peak = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]" and str(event.device_type()).endswith("CPU"):
            total += event.nbytes()
            peak = max(peak, total)
    return peak


def _convolution(args: Any, result: Any) -> int:
    """oneDNN takes tensors in blocks of channels: input, weights and result are there a second time, seen in the allocator's own record
    of mkldnn_convolution (PyTorch 2.13, aten/src/ATen/native/mkldnn/Conv.cpp)."""
    return 0 if not _on_onednn(args[0]) else max(_bytes(args[0]) + _bytes(args[1]) + _bytes(result), 2 * _bytes(result))


def _convolution_backward(args: Any, result: Any) -> int:
    """The same of the gradient's input, and then of both operands of the weights' gradient, beside the first result. One of 16 bits
    is added up in fp32 first; what oneDNN takes beside that, some 10 KB, depends on the processor."""
    grad, given, weight, first = args[0], args[1], args[2], _bytes(result[0])
    if not _on_onednn(grad):
        return 0
    sums = 4 * weight.numel() if weight.element_size() == 2 else 0
    return max(_bytes(grad) + _bytes(weight) + first, 2 * first, first + _bytes(grad) + _bytes(given) + _bytes(weight) + sums)


def _on_onednn(tensor: Any) -> bool:
    return bool(tensor.device.type == "cpu" and torch.backends.mkldnn.is_available() and tensor.dim() > 3)


def _bytes(tensor: Any) -> int:
    return 0 if tensor is None else int(tensor.numel() * tensor.element_size())


INSIDE = {"aten::convolution": _convolution, "aten::convolution_backward": _convolution_backward}
"""Operators that hold more while they run than they return."""
