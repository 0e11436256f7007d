"""Operators that PyTorch has for GPUs alone, worked out on the processor from what their arguments mean: that they are given the right ones is what
the tests of the torch target are about. Shapes of what they return beside the result are PyTorch's; what is only passed on to the gradient is empty."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


def _scores(q: Any, k: Any, bias: Any, causal: bool, scale: float | None) -> Any:
    """(batch, heads, query, key) in fp64; heads of q share those of k."""
    q, k = q.double(), k.double()
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    found = q @ k.transpose(-1, -2) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    if bias is not None:
        found = found + bias.double()
    if causal:  # the first query sees the first key alone
        unseen = torch.ones(found.shape[-2:], dtype=torch.bool).triu(1)
        found = found.masked_fill(unseen, -math.inf)
    return found


def _attend(q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: float | None) -> tuple[Any, Any]:
    scores = _scores(q, k, bias, causal, scale)
    wide = v.double().repeat_interleave(q.shape[1] // v.shape[1], 1)
    return (torch.softmax(scores, -1) @ wide).to(q.dtype), torch.logsumexp(scores, -1).float()


def _gradients(grad: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, bias: Any, causal: bool, scale: float | None) -> tuple[Any, Any, Any]:
    """From what the forward pass has kept, as the kernels do: its output and the logarithm of each row's sum."""
    shared = q.shape[1] // k.shape[1]
    factor = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    weights = torch.exp(_scores(q, k, bias, causal, scale) - sums.double()[..., : q.shape[2], None])
    wide_k, wide_v, send = k.double().repeat_interleave(shared, 1), v.double().repeat_interleave(shared, 1), grad.double()
    inner = (send @ wide_v.transpose(-1, -2) - (send * out.double()).sum(-1, keepdim=True)) * weights * factor
    by_k, by_v = (one.unflatten(1, (-1, shared)).sum(2) for one in (inner.transpose(-1, -2) @ q.double(), weights.transpose(-1, -2) @ send))
    return (inner @ wide_k).to(q.dtype), by_k.to(k.dtype), by_v.to(v.dtype)


def _seeds() -> list[Any]:
    return [torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)]


def _flash(q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, debug: bool = False, *, scale: float | None = None) -> Any:
    out, sums = _attend(q, k, v, None, causal, scale)
    none = torch.empty(0, dtype=torch.int32)
    return out, sums, none, none, q.shape[2], k.shape[2], *_seeds(), torch.empty(0)


def _flash_backward(grad: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, *rest: Any, scale: float | None = None) -> Any:
    causal = rest[5]  # after both lengths' sums, both lengths and dropout
    return _gradients(grad, q, k, v, out, sums, None, causal, scale)


def _efficient(
    q: Any, k: Any, v: Any, bias: Any, compute_sums: bool, dropout: float = 0.0, causal: bool = False, *, scale: float | None = None
) -> Any:
    return (*_attend(q, k, v, bias, causal, scale), *_seeds())


def _efficient_backward(
    grad: Any, q: Any, k: Any, v: Any, bias: Any, out: Any, sums: Any, seed: Any, offset: Any, dropout: float, wanted: Any,
    causal: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    return (*_gradients(grad, q, k, v, out, sums, bias, causal, scale), torch.empty(0))


def _cudnn(
    q: Any, k: Any, v: Any, bias: Any, compute_sums: bool, dropout: float = 0.0, causal: bool = False, debug: bool = False, *,
    scale: float | None = None,
) -> Any:  # fmt: skip
    out, sums = _attend(q, k, v, bias, causal, scale)
    none = torch.empty(0, dtype=torch.int32)
    return out, sums, none, none, q.shape[2], k.shape[2], *_seeds(), torch.empty(0)


def _cudnn_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, seed: Any, offset: Any, bias: Any, queries: Any, keys: Any, most_q: int,
    most_k: int, dropout: float, causal: bool, *, scale: float | None = None,
) -> Any:  # fmt: skip
    return _gradients(grad, q, k, v, out, sums, bias, causal, scale)


def _flash_forward(
    q: Any, k: Any, v: Any, queries: Any, keys: Any, most_q: int, most_k: int, dropout: float, causal: bool, debug: bool, *,
    scale: float | None = None, window_size_left: int | None = None, window_size_right: int | None = None, **_: Any,
) -> Any:  # fmt: skip
    """Tokens before heads. A causal mask ends at the last key for the last query; a window counts keys to either side."""
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    at = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    key = torch.arange(k.shape[2])[None, :]
    left = -1 if window_size_left is None else window_size_left
    right = 0 if causal else -1 if window_size_right is None else window_size_right
    seen = ((key >= at - left) | torch.tensor(left < 0)) & ((key <= at + right) | torch.tensor(right < 0))
    out, sums = _attend(q, k, v, torch.zeros(seen.shape).masked_fill(~seen, -math.inf), False, scale)
    return (out.transpose(1, 2), sums, *_seeds(), torch.empty(0))


def _scaled_mm(
    a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any = None, scale_result: Any = None, out_dtype: Any = None, fast: bool = False, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """Scales of a whole operand, of each row of A and column of B, or of blocks, whose sides follow from the shapes."""
    wide = [_unscaled(a, scale_a), _unscaled(b, scale_b)]
    found = wide[0] @ wide[1] + (0.0 if bias is None else bias.double())
    return found.to(out_dtype or a.dtype) if out is None else out.copy_(found)


def _unscaled(x: Any, scale: Any) -> Any:
    if scale.numel() > 1:
        for side in (0, 1):
            scale = scale.repeat_interleave(-(-x.shape[side] // scale.shape[side]), side).narrow(side, 0, x.shape[side])
    return x.double() * scale.double()


def _scaled_grouped_mm(
    a: Any, b: Any, scale_a: Any, scale_b: Any, offs: Any = None, bias: Any = None, scale_result: Any = None, out_dtype: Any = None, fast: bool = False
) -> Any:
    """Rows of A up to offs[g] belong to group g; a scale for each row of A and each column of each group's B."""
    found, first = torch.zeros(a.shape[0], b.shape[2], dtype=torch.float64), 0
    for group, last in enumerate(offs.tolist()):
        rows = slice(first, last)
        found[rows] = (a[rows].double() * scale_a[rows, None].double()) @ (b[group].double() * scale_b[group][None, :].double())
        first = last
    return found.to(out_dtype or torch.bfloat16)


def _int4_pack(octets: Any, inner_tiles: int) -> Any:
    """Two weights in a byte, the even one above. The order in which the library keeps them is its own: here the given one, in its shape."""
    n, half = octets.shape
    return octets.contiguous().view(torch.int32).view(n // 8, 2 * half // (inner_tiles * 16), 32, inner_tiles // 2)


def _int4_mm(a: Any, packed: Any, group: int, scales: Any) -> Any:
    octets = packed.view(torch.uint8).view(packed.shape[0] * 8, -1)
    whole = torch.stack([octets >> 4, octets & 15], -1).flatten(1).double() - 8
    by_k = scales.double().repeat_interleave(group, 0)[: whole.shape[1]]
    return (a.double() @ (whole.t() * by_k[..., 0] + by_k[..., 1])).to(a.dtype)


GAP = 16  # elements between cuDNN's weights, so that places that are not asked for are wrong


def _rnn_flatten(
    weights: Any, stride: int, width: int, mode: int, hidden: int, projected: int, layers: int, batch_first: bool, both_ways: bool
) -> Any:
    """One piece of memory with all weights, which become views of it."""
    flat = torch.zeros(sum(one.numel() + GAP for one in weights), dtype=weights[0].dtype)
    at = 0
    for one in weights:
        flat[at : at + one.numel()] = one.flatten()
        one.set_(flat.untyped_storage(), at, one.shape, one.stride())
        at += one.numel() + GAP
    return flat


def _rnn(
    x: Any, weights: Any, stride: int, flat: Any, h: Any, c: Any, mode: int, hidden: int, projected: int, layers: int, batch_first: bool,
    dropout: float, train: bool, both_ways: bool, sizes: Any, state: Any,
) -> Any:  # fmt: skip
    """cuDNN's numbers of kinds: 2 is LSTM, 3 is GRU."""
    assert all(one.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr() for one in weights), "weights outside of their buffer"
    if mode == 2:
        out, last, cell = torch.lstm(x, (h, c), weights, True, layers, dropout, train, both_ways, batch_first)
    else:
        assert mode == 3, mode
        (out, last), cell = torch.gru(x, h, weights, True, layers, dropout, train, both_ways, batch_first), torch.empty(0)
    return out, last, cell, torch.empty(0, dtype=torch.uint8), flat.clone()


TABLE: dict[str, Callable[..., Any]] = {
    "aten::_scaled_dot_product_flash_attention": _flash,
    "aten::_scaled_dot_product_flash_attention_backward": _flash_backward,
    "aten::_scaled_dot_product_efficient_attention": _efficient,
    "aten::_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "aten::_scaled_dot_product_cudnn_attention": _cudnn,
    "aten::_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
    "aten::_flash_attention_forward": _flash_forward,
    "aten::_scaled_mm": _scaled_mm,
    "aten::_scaled_grouped_mm": _scaled_grouped_mm,
    "aten::_convert_weight_to_int4pack": _int4_pack,
    "aten::_weight_int4pack_mm": _int4_mm,
    "aten::_cudnn_rnn_flatten_weight": _rnn_flatten,
    "aten::_cudnn_rnn": _rnn,
}
