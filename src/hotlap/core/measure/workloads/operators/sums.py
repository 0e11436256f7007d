"""All elements to one number, running sums, order, and counts.

Sums are of whole numbers small enough to be exact in any order, so that every single element counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hotlap.core.measure.workloads.operators.base import UNIT, Exact, Maker, Operator, kind, sizes
from hotlap.core.measure.workloads.operators.values import WHOLE, same, sums
from hotlap.core.record import Case

Inputs = Mapping[str, Any]


def operator(case: Case, library: Any) -> Operator:
    """Reduce, scan, sort or histogram."""
    return {"reduce": _reduce, "scan": _scan, "sort": _sort, "histogram": _histogram}[case.workload](case, library)


def _whole(make: Maker, elements: int, dtype: str) -> Any:
    """Whole numbers of a mean of zero; in fp16 ones so small that their sum stays below its largest number."""
    most = 2 if dtype == "fp16" else WHOLE
    made = make.whole(most, elements, dtype="int8", low=1 - most)
    return made.to(kind(make.library, dtype))


def _reduce(case: Case, torch: Any) -> Operator:
    (elements,) = sizes(case.params, "elements")
    op, dtype = str(case.params["op"]), str(case.params["dtype"])

    def inputs(make: Maker) -> Inputs:
        if op == "sum":
            return {"x": _whole(make, elements, dtype)}
        x = make.normal(elements, dtype=dtype)
        if op == "norm":
            return {"x": x}
        place = int(make.whole(3, 1)[0]), int(make.whole(elements, 1)[0])
        x[(0, elements - 1, place[1])[place[0]]] = 9.0  # the largest is in a place that a shortcut would miss
        return {"x": x}

    launch = {
        "sum": lambda i: i["x"].sum(),
        "max": lambda i: i["x"].amax(),
        "norm": lambda i: torch.linalg.vector_norm(i["x"]),
    }[op]

    def reference(i: Inputs) -> list[Exact]:
        x = i["x"]
        if op == "max":
            return [same(x.amax())]
        if op == "sum":
            value = x.sum()  # exact but for what does not fit the output's type
            return [Exact(value, value.abs().clamp_min(1), tolerance=UNIT[dtype] if dtype in ("fp16", "bf16") else 0.0)]
        # CPUs keep one running sum a lane, so errors walk at random over all of them; others add up in a tree of short stretches
        steps = 4 * elements**0.5 if x.device.type == "cpu" else math.log2(max(elements, 2)) + 16
        return [Exact(x.square().sum().sqrt(), tolerance=2 * UNIT[dtype] + steps * UNIT[sums(dtype)])]

    return Operator(inputs, launch, reference, variant=f"torch {op} of all {dtype}", dtype=dtype)


def _scan(case: Case, torch: Any) -> Operator:
    (elements,) = sizes(case.params, "elements")
    dtype = str(case.params["dtype"])
    dtype_of = kind(torch, dtype)

    def inputs(make: Maker) -> Inputs:
        return {"x": _whole(make, elements, dtype)}

    return Operator(
        inputs, lambda i: i["x"].cumsum(0, dtype=dtype_of), lambda i: [same(i["x"].cumsum(0))], variant=f"torch cumsum {dtype}", dtype=dtype
    )


def _sort(case: Case, torch: Any) -> Operator:
    """Values and their places; equal ones in any order."""
    (elements,) = sizes(case.params, "elements")
    dtype = str(case.params["dtype"])

    def inputs(make: Maker) -> Inputs:
        return {"x": make.whole(2**31 - 1, elements, low=-(2**31)) if dtype == "int32" else make.normal(elements, dtype=dtype)}

    def settle(i: Inputs, outputs: Sequence[Any]) -> list[Any]:
        found, index = outputs
        return [found, i["x"][index], torch.bincount(index, minlength=elements)]

    def reference(i: Inputs) -> list[Exact]:
        value = i["x"].sort().values
        return [same(value), same(value), Exact(torch.ones(elements, dtype=torch.int64, device=value.device))]

    return Operator(inputs, lambda i: torch.sort(i["x"]), reference, variant=f"torch sort {dtype}", dtype=dtype, settle=settle)


def _histogram(case: Case, torch: Any) -> Operator:
    """Fp32 numbers in [0, 1), none near the edge of a bin, where rounding would choose. Counts are fp32: exact below 2²⁴."""
    elements, bins = sizes(case.params, "elements", "bins")

    def inputs(make: Maker) -> Inputs:
        inside = make.uniform(elements, dtype="fp32", low=0.25, high=0.75)
        return {"x": make.whole(bins, elements).float().add_(inside).div_(bins)}

    def reference(i: Inputs) -> list[Exact]:
        return [Exact(torch.bincount((i["x"] * bins).floor().long(), minlength=bins).double(), tolerance=0.0)]

    return Operator(inputs, lambda i: torch.histc(i["x"], bins, 0.0, 1.0), reference, variant="torch histc fp32", dtype="fp32")
