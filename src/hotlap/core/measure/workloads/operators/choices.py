"""Choices: the largest of every row, a draw from a softmax, the experts of every token.

Equal scores may be chosen in any order, so places are checked by what stands there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hotlap.core.measure.workloads.operators.base import UNIT, Exact, Maker, Operator, kind, sizes
from hotlap.core.measure.workloads.operators.values import draw, floating, near, same
from hotlap.core.record import Case

Inputs = Mapping[str, Any]


def operator(case: Case, library: Any) -> Operator:
    """Topk, sampling or routing."""
    return {"topk": _topk, "sampling": _sampling, "routing": _routing}[case.workload](case, library)


def _distinct(index: Any) -> Any:
    """Different places in each row."""
    ordered = index.sort(-1).values
    return (ordered[..., 1:] != ordered[..., :-1]).sum(-1) + 1


def _topk(case: Case, torch: Any) -> Operator:
    rows, columns, k = sizes(case.params, "rows", "columns", "k")
    dtype = str(case.params["dtype"])

    def inputs(make: Maker) -> Inputs:
        return {"x": draw(make, rows, columns, dtype=dtype)}

    def settle(i: Inputs, outputs: Sequence[Any]) -> list[Any]:
        found, index = outputs
        return [found, i["x"].gather(-1, index), _distinct(index)]

    def reference(i: Inputs) -> list[Exact]:
        best = i["x"].sort(-1, descending=True).values[:, :k]
        return [same(best), same(best), Exact(torch.full((rows,), k, device=best.device))]

    return Operator(inputs, lambda i: torch.topk(i["x"], k), reference, variant=f"torch topk {dtype}", dtype=dtype, settle=settle)


def _sampling(case: Case, torch: Any) -> Operator:
    """From given uniform numbers: the first token whose running sum of probabilities passes the row's."""
    rows, columns, topk = sizes(case.params, "rows", "columns", "topk")
    dtype = str(case.params["dtype"])
    floating(dtype, "sampling")
    kept = min(topk, columns) if topk else columns

    def inputs(make: Maker) -> Inputs:
        return {"x": draw(make, rows, columns, dtype=dtype), "uniform": make.uniform(rows, 1, dtype="fp32")}

    def launch(i: Inputs) -> Any:
        x, index = torch.topk(i["x"], kept) if topk else (i["x"], None)
        sums = torch.softmax(x, -1, dtype=torch.float32).cumsum(-1)
        place = torch.searchsorted(sums, i["uniform"], right=True).clamp_max_(kept - 1)
        return place[:, 0] if index is None else index.gather(-1, place)[:, 0]

    def settle(i: Inputs, outputs: Sequence[Any]) -> list[Any]:
        """How far each row's number is outside of the probabilities that lead to the token found."""
        x, token = i["x"], outputs[0][:, None]
        score = x.gather(-1, token)
        if topk:
            best = x.sort(-1, descending=True).values[:, :kept]
            weight = torch.softmax(best, -1)
            above, at = (weight * (best > score)).sum(-1), (weight * (best == score)).sum(-1)
            outside = score[:, 0] < best[:, -1]
        else:
            weight, places = torch.softmax(x, -1), torch.arange(columns, device=x.device)
            above, at = (weight * (places < token)).sum(-1), weight.gather(-1, token)[:, 0]
            outside = torch.zeros(rows, dtype=torch.bool, device=x.device)
        given = i["uniform"][:, 0]
        return [torch.maximum(above - given, given - above - at).clamp_min(0).masked_fill(outside, float("inf"))]

    def reference(i: Inputs) -> list[Exact]:
        none = torch.zeros(rows, dtype=torch.float64, device=i["x"].device)
        return [Exact(none, torch.ones_like(none), tolerance=4 * kept**0.5 * UNIT["fp32"])]

    how = f"torch {'topk, ' if topk else ''}softmax, cumsum, searchsorted {dtype}"
    return Operator(inputs, launch, reference, variant=how, dtype=dtype, settle=settle)


def _routing(case: Case, torch: Any) -> Operator:
    """Scores in bf16, weights in fp32, and how many tokens each expert gets."""
    tokens, experts, topk = sizes(case.params, "tokens", "experts", "topk")

    def inputs(make: Maker) -> Inputs:
        return {"x": make.normal(tokens, experts, dtype="bf16"), "one": torch.ones((), dtype=kind(torch, "int32"), device=make.place)}

    def launch(i: Inputs) -> tuple[Any, Any, Any]:
        weight, index = torch.topk(torch.softmax(i["x"], -1, dtype=torch.float32), topk)
        counts = torch.zeros(experts, dtype=i["one"].dtype, device=i["x"].device)
        return weight, index, counts.scatter_add_(0, index.flatten(), i["one"].expand(tokens * topk))

    def settle(i: Inputs, outputs: Sequence[Any]) -> list[Any]:
        weight, index, counts = outputs
        chosen = torch.softmax(i["x"], -1).gather(-1, index)
        return [weight, chosen, _distinct(index), counts - torch.bincount(index.flatten(), minlength=experts)]

    def reference(i: Inputs) -> list[Exact]:
        best = torch.softmax(i["x"], -1).sort(-1, descending=True).values[:, :topk]
        whole = torch.full((tokens,), topk, device=best.device)
        none = torch.zeros(experts, dtype=torch.int64, device=best.device)
        return [near(best, "fp32", 2, experts), Exact(best, tolerance=1e-12), Exact(whole), Exact(none)]

    return Operator(inputs, launch, reference, variant="torch softmax, topk, scatter_add", dtype="fp32", settle=settle)
