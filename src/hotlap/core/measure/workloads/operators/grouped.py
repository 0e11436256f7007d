"""Products of several groups of rows, each by its own matrix: torch._grouped_mm, or one product after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators.base import Exact, Maker, Operator, complete, sizes
from hotlap.core.measure.workloads.operators.gemm import precision
from hotlap.core.measure.workloads.operators.products import Finish, product, within
from hotlap.core.record import Case

Inputs = Mapping[str, Any]
Product = Callable[[Any, Any, Any, Any], Any]
"""Rows, matrices, ends of the groups on the device, the same on the host."""


def operator(case: Case, library: Any) -> Operator:
    """Raises NotSupported where this PyTorch has no grouped product of the type."""
    given = complete(case)
    groups, m, n, k = sizes(given, "groups", "m", "n", "k")
    dtype = str(given["dtype"])
    if dtype == "fp8":
        return _fp8(case, library)
    multiply, name = products(library, case.implementation)
    shares = shared(m, groups, power(given))

    def inputs(make: Maker) -> dict[str, Any]:
        precision(make, dtype)
        found = {"a": make.normal(m, k, dtype=dtype), "b": make.normal(groups, k, n, dtype=dtype)}
        return found | ends(make, shares[make.order(groups).cpu().numpy()])

    return Operator(
        inputs, lambda i: multiply(i["a"], i["b"], i["ends"], i["host_ends"]), lambda i: reference(i, dtype),
        variant=f"torch {name} {dtype}", dtype=dtype, widen=False,
    )  # fmt: skip


def products(library: Any, implementation: str) -> tuple[Product, str]:
    """PyTorch's grouped product, and what it is called. Raises NotSupported."""
    grouped = getattr(library, "_grouped_mm", None)
    if implementation == "grouped" and grouped is None:
        raise NotSupported(f"PyTorch {library.__version__} has no _grouped_mm; it came with 2.8")
    if implementation == "loop" or grouped is None:
        return (lambda a, b, _, host: loop(library, a, b, host)), "matmul, group after group"
    return (lambda a, b, device, _: grouped(a, b, offs=device)), "_grouped_mm"


def loop(library: Any, a: Any, b: Any, host_ends: Any) -> Any:
    """One product after another, into one output."""
    c = library.empty(a.shape[0], b.shape[-1], dtype=a.dtype, device=a.device)
    start = 0
    for group, end in enumerate(host_ends.tolist()):
        if end > start:
            library.matmul(a[start:end], b[group], out=c[start:end])
        start = end
    return c


def power(given: Mapping[str, Any]) -> float:
    """The exponent of a power law in a distribution's name; 0 is balanced."""
    return float(str(given["distribution"]).removeprefix("power_law_")) if given["distribution"] != "balanced" else 0.0


def shared(rows: int, groups: int, exponent: float) -> Any:
    """So many rows for each group, in proportion to rank^−exponent, largest first; what rounding leaves goes to the largest."""
    weights = np.arange(1, groups + 1, dtype=np.float64) ** -exponent
    shares = np.floor(rows * weights / weights.sum()).astype(np.int64)
    left = rows - int(shares.sum())
    shares += left // groups + (np.arange(groups) < left % groups)
    return shares


def ends(make: Maker, shares: Any) -> dict[str, Any]:
    """Where each group ends: on the device for kernels, on the host for a loop, which need not wait for the device then."""
    torch = make.library
    host = torch.from_numpy(np.cumsum(shares).astype(np.int32))
    return {"ends": host.to(make.place), "host_ends": host}


def reference(i: Inputs, dtype: str) -> list[Exact]:
    """Group by group."""
    exacts: list[Exact] = []
    start = 0
    for group, end in enumerate(i["host_ends"].tolist()):
        if end > start:
            a, b = i["a"][start:end].double(), i["b"][group].double()
            if "scale_a" in i:
                a, b = a * i["scale_a"][start:end, None].double(), b * i["scale_b"][group].double()
            exacts += within(product(a, b, Finish("bf16" if dtype == "fp8" else dtype)), _rows(start, end))
        start = end
    return [exacts[0]._replace(also=tuple(exacts[1:]))]


def _rows(start: int, end: int) -> Callable[[Any], Any]:
    return lambda c: c[start:end]


def _fp8(case: Case, library: Any) -> Operator:
    """E4M3 with a scale for each row of A and each column of each B, to bf16."""
    given = complete(case)
    groups, m, n, k = sizes(given, "groups", "m", "n", "k")
    multiply = getattr(library, "_scaled_grouped_mm", None)
    if multiply is None or case.implementation == "loop":
        raise NotSupported("fp8 groups are multiplied by torch._scaled_grouped_mm, of PyTorch 2.8, alone")
    shares = shared(m, groups, power(given))

    def inputs(make: Maker) -> dict[str, Any]:
        if "cuda" not in str(make.place):
            raise NotSupported("PyTorch has grouped products of fp8 on CUDA and ROCm devices alone")
        return {
            "a": make.normal(m, k, dtype="fp8"), "b": make.normal(groups, n, k, dtype="fp8").transpose(-1, -2),
            "scale_a": make.uniform(m, dtype="fp32", low=0.5, high=2.0),
            "scale_b": make.uniform(groups, n, dtype="fp32", low=0.5, high=2.0),
            **ends(make, shares[make.order(groups).cpu().numpy()]),
        }  # fmt: skip

    def launch(i: Inputs) -> Any:
        return multiply(i["a"], i["b"], i["scale_a"], i["scale_b"], offs=i["ends"], out_dtype=library.bfloat16)

    return Operator(inputs, launch, lambda i: reference(i, "fp8"), variant="torch _scaled_grouped_mm fp8", dtype="bf16", widen=False)
