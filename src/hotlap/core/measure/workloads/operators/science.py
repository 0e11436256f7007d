"""Fourier transforms, sparse products, stencils and option prices."""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hotlap.core.measure.workloads.operators.base import UNIT, Exact, Maker, Operator, sizes
from hotlap.core.measure.workloads.operators.values import draw, near
from hotlap.core.record import Case

Inputs = Mapping[str, Any]
SPOT, STRIKE, INTEREST, VOLATILITY, YEARS = 100.0, 105.0, 0.03, 0.2, 1.0  # of the option


def operator(case: Case, library: Any) -> Operator:
    """fft, spmv, stencil or montecarlo."""
    return {"fft": _fft, "spmv": _spmv, "stencil": _stencil, "montecarlo": _montecarlo}[case.workload](case, library)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch says once in a process that a type is new; this is where."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _fft(case: Case, torch: Any) -> Operator:
    """Complex numbers are pairs of their parts. The error of each output is compared with the norm of its transform's input: rounding
    grows with the stages, log₂ n of them (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, theorem 24.2)."""
    batch, n, dims = sizes(case.params, "batch", "n", "dims")
    dtype, call = str(case.params["dtype"]), torch.fft.fft if dims == 1 else torch.fft.fft2
    over = tuple(range(1, dims + 2))

    def inputs(make: Maker) -> Inputs:
        with _quiet():
            torch.empty(0, dtype=torch.complex32)
        return {"x": make.normal(batch, *[n] * dims, 2, dtype=dtype)}

    def launch(i: Inputs) -> Any:
        return torch.view_as_real(call(torch.view_as_complex(i["x"])))

    def reference(i: Inputs) -> list[Exact]:
        value = launch(i)
        norm = i["x"].square().sum(over, keepdim=True).sqrt().expand_as(value)
        return [Exact(value, norm, tolerance=2 * UNIT[dtype] * (1 + math.log2(max(n**dims, 2))))]

    return Operator(inputs, launch, reference, variant=f"torch fft {dims}-D {dtype}", dtype=dtype)


def _spmv(case: Case, torch: Any) -> Operator:
    """Compressed rows of as many nonzeros each. Random ones: one in each of as many equal stripes of the row, so that they are in order
    and none is there twice. Banded ones: side by side about the diagonal."""
    rows, columns, each = sizes(case.params, "rows", "columns", "nonzeros")
    dtype, banded = str(case.params["dtype"]), case.params["pattern"] == "banded"

    def inputs(make: Maker) -> Inputs:
        place = {"dtype": torch.int64, "device": make.place}
        first = torch.arange(each, **place)
        if banded:
            middle = torch.arange(rows, **place) * columns // rows
            columns_of = (middle - each // 2).clamp(0, columns - each)[:, None] + first
        else:
            low, high = first * columns // each, (first + 1) * columns // each
            share = make.uniform(rows, each, dtype="fp32")
            columns_of = low + ((high - low) * share).long().clamp_max(high - low - 1)
        with _quiet():
            torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)
        starts = torch.arange(rows + 1, **place) * each
        index = torch.int32 if rows * each < 2**31 else torch.int64
        values = make.normal(rows * each, dtype=dtype)
        return {
            "starts": starts.to(index), "columns": columns_of.flatten().to(index), "values": values, "x": make.normal(columns, dtype=dtype),
        }  # fmt: skip

    def launch(i: Inputs) -> Any:
        matrix = torch.sparse_csr_tensor(i["starts"], i["columns"], i["values"], (rows, columns), check_invariants=False)
        return matrix @ i["x"]

    def reference(i: Inputs) -> list[Exact]:
        parts = (i["values"] * i["x"][i["columns"].long()]).view(rows, each)
        return [near(parts.sum(-1), dtype, 2, each, scale=parts.abs().sum(-1))]

    how = f"torch sparse_csr @ vector {dtype}, {'banded' if banded else 'random'}"
    return Operator(inputs, launch, reference, variant=how, dtype=dtype)


def _stencil(case: Case, torch: Any) -> Operator:
    """By slices: one pass over the grid for each point. PyTorch's convolution of one channel does it in one pass, far slower on CPUs.
    Outside of the grid is zero."""
    points, *sides = sizes(case.params, "points", "depth", "height", "width")
    dtype = str(case.params["dtype"])
    weights = _weights(points)

    def inputs(make: Maker) -> Inputs:
        return {"x": draw(make, *sides, dtype=dtype)}

    def launch(i: Inputs) -> Any:
        x = i["x"]
        out = x * weights[0, 0, 0]
        for offset, weight in weights.items():
            if any(offset):
                out[_part(offset, -1)].add_(x[_part(offset, 1)], alpha=weight)
        return out

    def reference(i: Inputs) -> list[Exact]:
        padded = torch.nn.functional.pad(i["x"], (1,) * 6)
        value, scale = (torch.zeros_like(i["x"]) for _ in range(2))
        for offset, weight in weights.items():
            moved = padded[tuple(slice(1 + o, 1 + o + side) for o, side in zip(offset, sides, strict=True))]
            value += weight * moved
            scale += abs(weight) * moved.abs()
        return [near(value, dtype, points + 1, scale=scale)]

    return Operator(inputs, launch, reference, variant=f"torch stencil {dtype} ({points} passes over slices)", dtype=dtype)


def _weights(points: int) -> Mapping[tuple[int, ...], float]:
    """Offset (depth, height, width) → weight, all different, so that no two can be exchanged unseen."""
    most = {5: 1, 7: 1, 27: 3}[points]
    near_ones = [o for o in itertools.product((-1, 0, 1), repeat=3) if sum(map(abs, o)) <= most and (points != 5 or o[0] == 0)]
    ordered = sorted(near_ones, key=lambda o: (sum(map(abs, o)), o))
    return {offset: (-1.0) ** place / (2.0 + place) for place, offset in enumerate(ordered)}


def _part(offset: Sequence[int], sign: int) -> tuple[slice, ...]:
    """The cells that have a neighbour there (sign −1), or those neighbours (1)."""
    return tuple(slice(max(sign * o, 0), min(sign * o, 0) or None) for o in offset)


def _montecarlo(case: Case, torch: Any) -> Operator:
    """A European call: the discounted mean of what paths of geometric Brownian motion pay, from given normal numbers (Glasserman, "Monte
    Carlo Methods in Financial Engineering", 2003, section 1.1)."""
    paths, steps = sizes(case.params, "paths", "steps")
    dtype = str(case.params["dtype"])
    drift, spread = (INTEREST - VOLATILITY**2 / 2) * YEARS, VOLATILITY * math.sqrt(YEARS / steps)
    discount = math.exp(-INTEREST * YEARS)

    def price(i: Inputs) -> Any:
        paid = i["normal"].sum(0).mul_(spread).add_(drift + math.log(SPOT)).exp_().sub_(STRIKE).clamp_min_(0)
        return paid.mean() * discount

    def reference(i: Inputs) -> list[Exact]:
        """Where a path ends is wrong by a few units of the spot; the mean adds those up."""
        value = price(i)
        units = 8 + 2 * math.sqrt(steps) + 2 * math.log2(max(paths, 2))
        return [Exact(value, value.abs() + discount * SPOT, tolerance=UNIT[dtype] * units)]

    def inputs(make: Maker) -> Inputs:
        return {"normal": make.normal(steps, paths, dtype=dtype)}

    return Operator(inputs, price, reference, variant=f"torch sum, exp, mean {dtype}", dtype=dtype)
