"""Something of every row: softmax, norms, sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hotlap.errors import NotSupported
from hotlap.record import Case
from hotlap.workloads.operators import in_triton
from hotlap.workloads.operators.base import Exact, Maker, Operator, sizes

EPSILON = 1e-5


def operator(case: Case, library: Any) -> Operator:
    """Raises NotSupported for what PyTorch has no operator of."""
    rows, columns = sizes(case.params, "rows", "columns")
    op, dtype = str(case.params["op"]), str(case.params["dtype"])
    if op not in OPERATORS:
        raise NotSupported(f"PyTorch has no operator for rowwise {op}")

    def inputs(make: Maker) -> dict[str, Any]:
        found = {"x": make.normal(rows, columns, dtype=dtype)}
        return found | ({"weight": make.normal(columns, dtype=dtype)} if op in ("layernorm", "rmsnorm") else {})

    launch, reference = OPERATORS[op](library)
    found = Operator(inputs, launch, reference, variant=f"torch {op} {dtype}", dtype=dtype)
    return in_triton.rowwise(case, found, EPSILON) if case.implementation == "triton" else found


Inputs = Mapping[str, Any]
Pair = tuple[Callable[[Inputs], Any], Callable[[Inputs], Sequence[Exact]]]


def _softmax(torch: Any) -> Pair:
    return (lambda i: torch.softmax(i["x"], -1)), lambda i: [Exact(torch.softmax(i["x"], -1), terms=i["x"].shape[-1], roundings=2)]


def _sum(torch: Any) -> Pair:
    return (lambda i: i["x"].sum(-1)), lambda i: [Exact(i["x"].sum(-1), i["x"].abs().sum(-1), terms=i["x"].shape[-1])]


def _rmsnorm(torch: Any) -> Pair:
    norm = torch.nn.functional.rms_norm

    def reference(i: Inputs) -> list[Exact]:
        return [Exact(norm(i["x"], i["x"].shape[-1:], i["weight"], EPSILON), terms=i["x"].shape[-1], roundings=3)]

    return (lambda i: norm(i["x"], i["x"].shape[-1:], i["weight"], EPSILON)), reference


def _layernorm(torch: Any) -> Pair:
    norm = torch.nn.functional.layer_norm

    def reference(i: Inputs) -> list[Exact]:
        value = norm(i["x"], i["x"].shape[-1:], i["weight"], None, EPSILON)
        scale = value.abs() + i["weight"].abs()  # a mean is taken away: elements near it keep its error
        return [Exact(value, scale, terms=i["x"].shape[-1], roundings=3)]

    return (lambda i: norm(i["x"], i["x"].shape[-1:], i["weight"], None, EPSILON)), reference


OPERATORS: Mapping[str, Callable[[Any], Pair]] = {"softmax": _softmax, "sum": _sum, "rmsnorm": _rmsnorm, "layernorm": _layernorm}
