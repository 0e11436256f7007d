"""Kernels that are expected as products or passes of another shape: convolutions and their gradients, grouped products, recurrent layers,
the backward pass of attention, epilogues of products. What was never measured as it is says so: its interval is wide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hotlap.core.model.kernels import gemm, streaming
from hotlap.core.model.kernels.base import Chip, Demand, Estimate
from hotlap.core.work.attention import ATTENTION
from hotlap.core.work.compute import GEMM
from hotlap.core.work.convolution import CONV, conv_sides
from hotlap.core.work.layers import GATES
from hotlap.core.work.network import POINTWISE

Params = Mapping[str, Any]
DIRECT_INNER = 4.0  # channels of a group up to which libraries convolve without a matrix product: depthwise
BACKWARD_SHARE = 63 / 73  # of the forward pass's rate: FlashAttention-2 reaches 63 % of A100's peak, 73 % forward; Dao, arXiv 2307.08691
MEMORY_PARTS = ("DRAM", "L2", "query and output", "pipeline fill", "bytes in flight")
FIXED_PARTS = ("launch", "latency", "host")


def product(params: Params, chip: Chip, implementation: str | ArrayLike) -> Estimate:
    """A matrix product with what its epilogue reads. Rows that are not aligned, and scales for each row, were not measured."""
    names = ("m", "n", "k", "batch", "dtype")
    estimate = gemm.estimate({name: params[name] for name in names}, chip, implementation)
    full = GEMM.full(params)
    more = full["epilogue"]
    if more != "none":
        extra = _bytes(params) - _bytes({**params, "epilogue": "none"})
        rate = streaming.stored()["read_share"] * chip.memory_b_s
        seconds = np.broadcast_to(np.asarray(extra, dtype=float), estimate.seconds.shape) / rate
        parts = {**estimate.parts, "epilogue": estimate.parts["epilogue"] + seconds}
        demand = estimate.demand._replace(dram_bytes=estimate.demand.dram_bytes + seconds * chip.memory_b_s)
        estimate = estimate._replace(parts=parts, seconds=estimate.seconds + seconds, demand=demand)
    measured = np.asarray(full["pad"]) * 1.0 == 0
    return estimate._replace(inside=estimate.inside & measured & (full["scaling"] == "tensor"))


def _bytes(params: Params) -> Any:
    return GEMM.work(params).read_bytes


# ---------------------------------------------------------------- convolutions


def convolution(params: Params, chip: Chip, implementation: str | ArrayLike) -> Estimate:
    """As the product that an implicit GEMM computes, one for each group; depthwise ones as passes where that is quicker."""
    full = CONV.full(params)
    counted = CONV.work(params)
    m, n, k, groups = implicit(full)
    found = gemm.estimate({"m": m, "n": n, "k": k, "batch": groups, "dtype": full["dtype"]}, chip, implementation)
    moved = np.minimum(np.asarray(counted.read_bytes + counted.written_bytes, dtype=float) / np.maximum(found.demand.dram_bytes, 1.0), 1.0)
    parts = {name: value * moved if name == "DRAM" else value for name, value in found.parts.items()}
    demand = found.demand._replace(dram_bytes=found.demand.dram_bytes * moved)
    made = found._replace(
        seconds=np.sum(list(parts.values()), axis=0), parts=parts, demand=demand, inside=np.zeros(len(found.seconds), dtype=bool)
    )
    direct = np.broadcast_to(depthwise(full), made.seconds.shape)
    return _quicker(made, _direct(counted, len(made.seconds), chip), direct) if direct.any() else made


def implicit(full: Params) -> tuple[Any, Any, Any, Any]:
    """m × n × k of each group. The gradient of the input runs over its pixels and the filters; that of the weights over all pixels."""
    sides = conv_sides(full)
    out, pixels, taps = (np.asarray(np.prod(np.broadcast_arrays(*(side[i] for side in sides.values())), axis=0)) for i in (2, 0, 1))
    groups = np.asarray(full["groups"])
    inner, filters = np.asarray(full["channels"]) / groups, np.asarray(full["filters"]) / groups
    images = np.asarray(full["images"])
    multiplied = images * out * filters * inner * taps  # of one group; strides leave out taps of the input's gradient
    m, n, k = images * out, filters, inner * taps
    if full["op"] == "input_gradient":
        m, n = images * pixels, inner
        k = np.maximum(multiplied / (m * n), 1.0)
    elif full["op"] == "weight_gradient":
        m, n, k = inner * taps, filters, images * out
    return m, n, k, groups


def depthwise(full: Params) -> Any:
    """Whether groups are so narrow that libraries need no matrix product."""
    narrow = np.minimum(np.asarray(full["channels"]), np.asarray(full["filters"])) / np.asarray(full["groups"])
    return (narrow <= DIRECT_INNER) & (np.asarray(full["groups"]) > 1)


def _direct(counted: Any, count: int, chip: Chip) -> Estimate:
    """Each byte once, products on the vector units."""
    read, written = (np.broadcast_to(np.asarray(value, dtype=float), (count,)) for value in (counted.read_bytes, counted.written_bytes))
    flop = np.broadcast_to(np.asarray(sum(counted.operations.values()), dtype=float), (count,))
    none = np.zeros(count)
    moves = streaming.Moves(
        read, written, none, none + 1.0, none, none, none, {"fma.fp32": flop}, 1.0, none + 1.0, none.astype(bool)
    )  # fmt: skip
    return streaming.timed(moves, chip, streaming.stored())


def _quicker(first: Estimate, other: Estimate, may: Any) -> Estimate:
    """`other` where it may be taken and is quicker."""
    take = may & (other.seconds < first.seconds)

    def mixed(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
        zero = np.zeros(len(take))
        return {name: np.where(take, b.get(name, zero), a.get(name, zero)) for name in {**a, **b}}

    demand = Demand(mixed(first.demand.operations, other.demand.operations),
        *(np.where(take, b, a) for a, b in zip(first.demand[1:], other.demand[1:], strict=True)))
    choice = {name: np.where(take, 0.0, value) for name, value in first.choice.items()}
    clock = None if first.clock_hz is None else np.where(take, np.nan, first.clock_hz)  # not held down by this one's power
    return Estimate(
        np.where(take, other.seconds, first.seconds), mixed(first.parts, other.parts), demand, choice, first.inside & ~take, clock
    )


# ---------------------------------------------------------------- groups, recurrences, gradients


def grouped(params: Params, chip: Chip, implementation: str | ArrayLike) -> Estimate:
    """As a batch of products of the mean number of rows; groups without rows are left out. Never measured: outside."""
    m, groups = np.asarray(params["m"], dtype=float), np.asarray(params["groups"], dtype=float)
    used = np.minimum(groups, m)
    sizes = {"m": np.maximum(m / used, 1.0), "n": params["n"], "k": params["k"], "batch": used}
    found = gemm.estimate({**sizes, "dtype": params["dtype"]}, chip, implementation)
    return found._replace(inside=np.zeros(len(found.seconds), dtype=bool))


def recurrent(params: Params, chip: Chip, implementation: str | ArrayLike) -> Estimate:
    """One product for all inputs; for each step, which waits for the one before, a product of the state and its gates."""
    steps, batch, inputs, hidden = (np.asarray(params[name], dtype=float) for name in ("steps", "batch", "inputs", "hidden"))
    gates = float(GATES[str(params["op"])]) * hidden
    first = gemm.estimate({"m": steps * batch, "n": gates, "k": inputs, "dtype": params["dtype"]}, chip, implementation)
    each = gemm.estimate({"m": batch, "n": gates, "k": hidden, "dtype": params["dtype"]}, chip, implementation)
    count = max(len(first.seconds), len(each.seconds))
    steps = np.broadcast_to(steps, (count,))
    cell = streaming.estimate(POINTWISE.name, {"op": "silu_mul", "elements": batch * gates, "dtype": params["dtype"]}, chip)
    parts = {name: first.parts.get(name, 0.0) + steps * each.parts.get(name, 0.0) for name in {**first.parts, **each.parts}}
    parts["gates"] = steps * (cell.seconds - cell.parts["launch"])  # in the product's kernel, or beside it in a graph
    parts = {name: np.broadcast_to(np.asarray(value, dtype=float), (count,)) for name, value in parts.items()}
    a, b = first.demand, each.demand
    operations = {unit: value + steps * b.operations[unit] for unit, value in a.operations.items()}
    demand = Demand(operations, *(x + steps * y for x, y in zip(a[1:], b[1:], strict=True)))
    return Estimate(np.sum(list(parts.values()), axis=0), parts, demand, each.choice, np.zeros(count, dtype=bool))


def attention_backward(params: Params, forward: Estimate) -> Estimate:
    """Of the forward pass's parts: products by their operations (2.5 times, scores made again) at the backward pass's rate, bytes by
    their number."""
    back, front = (ATTENTION.work({**params, "op": op}) for op in ("backward", "forward"))
    flop = np.asarray(back.total_operations) / np.asarray(front.total_operations)
    moved = np.asarray(back.memory_bytes) / np.asarray(front.memory_bytes)
    by = {**dict.fromkeys(MEMORY_PARTS, moved), **dict.fromkeys(FIXED_PARTS, 1.0)}
    kept = {name: value for name, value in forward.parts.items() if name != "cache write"}  # training has no cache
    parts = {name: value * by.get(name, flop / BACKWARD_SHARE) for name, value in kept.items()}
    d = forward.demand
    demand = Demand({unit: value * flop for unit, value in d.operations.items()}, d.special * 1.0, d.dram_bytes * moved, d.l2_bytes * moved)
    seconds = np.sum(list(parts.values()), axis=0)
    return forward._replace(parts=parts, seconds=seconds, demand=demand, inside=np.zeros(len(seconds), dtype=bool))
