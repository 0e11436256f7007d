"""Experts of a mixture: tokens' rows gathered by expert, gate and up, activation, down, and the weighted sum for each token.

Which expert takes which token is given: the choice itself is the workload `routing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators.base import UNIT, Exact, Maker, Operator, complete, sizes
from hotlap.core.measure.workloads.operators.grouped import ends, power, products
from hotlap.core.measure.workloads.operators.products import WHOLE_FLOP, stretched
from hotlap.core.record import Case

Inputs = Mapping[str, Any]
ROUNDINGS = 3  # of the inner width, of the activation and of the output
FEWEST_TOKENS = 64
DRAW = 20261121  # seed of the routing


def operator(case: Case, library: Any) -> Operator:
    """Raises NotSupported for types that PyTorch has no experts of."""
    given = complete(case)
    dtype, gated = str(given["dtype"]), bool(given["gated"])
    if dtype in ("int4", "mxfp4"):
        raise NotSupported(f"PyTorch has no experts of {dtype}: its grouped products take no weights of 4 bits")
    if dtype not in ("fp16", "bf16"):
        raise NotSupported(f"PyTorch has no experts of {dtype}: it would have to quantise activations between its two products")
    multiply, name = products(library, case.implementation)
    whole = given["ep"] == 1
    return Operator(
        lambda make: inputs(make, given), lambda i: _experts(library, i, multiply, gated, whole), lambda i: reference(i, dtype, gated),
        variant=f"torch index_select, {name}, silu, {'index_select and bmm' if whole else 'index_add'} {dtype}", dtype=dtype, widen=False,
    )  # fmt: skip


def inputs(make: Maker, given: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens, the weights of this GPU's experts, and the routing: `rows` names each row's token in the experts' order, `places` where the
    rows of each token lie."""
    tokens, hidden, topk, experts, ep, tp = sizes(given, "tokens", "hidden", "topk", "experts", "ep", "tp")
    inner, dtype = int(given["inter"]) // tp, str(given["dtype"])
    torch, own = make.library, experts // ep
    chosen = _choices(make, tokens, experts, topk, power(given))
    here = chosen < own
    order = torch.where(here, chosen, experts).flatten().argsort(stable=True)[: int(here.sum())]
    shares = torch.bincount(chosen[here], minlength=own).cpu().numpy()
    weights = make.uniform(tokens, topk, dtype="fp32", low=0.1, high=1.0)
    weights = weights / weights.sum(-1, keepdim=True)
    tensors = {
        "x": make.normal(tokens, hidden, dtype=dtype),
        "up": make.normal(own, hidden, inner * (2 if given["gated"] else 1), dtype=dtype).mul_(hidden**-0.5),
        "down": make.normal(own, inner, hidden, dtype=dtype).mul_(inner**-0.5),
        "rows": order // topk, "weights": weights.to(make.empty(1, dtype=dtype).dtype), "chosen": order % topk,
        **ends(make, shares),
    }  # fmt: skip
    return tensors | ({"places": order.argsort()} if ep == 1 else {})


def _choices(make: Maker, tokens: int, experts: int, topk: int, exponent: float) -> Any:
    """`topk` different experts of each token, drawn in proportion to rank^−exponent (Gumbel's trick). The draw is the same each time and
    tokens are shuffled: every round has as many rows for each expert, since their numbers decide the time."""
    torch = make.library
    generator = torch.Generator(device=make.place).manual_seed(DRAW)
    popular = torch.from_numpy(np.log(np.arange(1, experts + 1, dtype=np.float64) ** -exponent)).float().to(make.place)
    drawn = torch.rand(tokens, experts, device=make.place, generator=generator).clamp(1e-7, 1 - 1e-7)
    spread = torch.randperm(experts, device=make.place, generator=generator)
    return (popular[spread] - (-drawn.log()).log()).topk(topk, -1).indices[make.order(tokens)]


def _experts(torch: Any, i: Inputs, multiply: Callable[..., Any], gated: bool, whole: bool) -> Any:
    x, rows, weights = i["x"], i["rows"], i["weights"]
    inner = multiply(x.index_select(0, rows), i["up"], i["ends"], i["host_ends"])
    silu = torch.nn.functional.silu
    if gated:
        gate, up = inner.chunk(2, -1)
        inner = silu(gate) * up
    else:
        inner = silu(inner)
    y = multiply(inner, i["down"], i["ends"], i["host_ends"])
    if whole:  # every choice of a token is here: its rows side by side, and one small product
        side_by_side = y.index_select(0, i["places"]).view(x.shape[0], -1, x.shape[1])
        return torch.bmm(weights.unsqueeze(1), side_by_side).squeeze(1)
    return torch.zeros_like(x).index_add_(0, rows, y * weights[rows, i["chosen"], None])


def reference(i: Inputs, dtype: str, gated: bool) -> list[Exact]:
    """In fp64, of a random token in every stretch of tokens, of all of them where that is cheap."""
    import torch

    x, down = i["x"], i["down"]
    each = 2.0 * (i["up"][0].numel() + down[0].numel()) * i["rows"].numel() / max(len(x), 1)  # operations of a token
    count = int(min(len(x), max(FEWEST_TOKENS, WHOLE_FLOP / max(each, 1.0))))
    picked = stretched(len(x), count).to(x.device)
    slot = torch.full((len(x),), -1, device=x.device).index_put((picked,), torch.arange(count, device=x.device))
    value, wander = (torch.zeros(count, x.shape[1], dtype=torch.float64, device=x.device) for _ in range(2))
    start = 0
    for expert, end in enumerate(i["host_ends"].tolist()):
        at = torch.arange(start, end, device=x.device)
        at = at[slot[i["rows"][at]] >= 0]
        start = end
        if not len(at):
            continue
        rows = i["rows"][at]
        inner = x[rows].double() @ i["up"][expert].double()
        gate, up = inner.chunk(2, -1) if gated else (inner, 1.0)
        inner, last = torch.nn.functional.silu(gate) * up, down[expert].double()
        by = i["weights"][rows, i["chosen"][at], None].double()
        value.index_add_(0, slot[rows], by * (inner @ last))
        wander.index_add_(0, slot[rows], by * inner.norm(dim=-1, keepdim=True) * last.norm(dim=0) / last.shape[0] ** 0.5)
    allowed = 2 * ROUNDINGS * UNIT[dtype] * (value.abs() + 4 * wander)
    return [Exact(value, allowed, tolerance=1.0, part=lambda c: c[picked])]
