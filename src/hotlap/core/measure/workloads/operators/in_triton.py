"""Operators whose launch is a kernel in Triton: inputs and references are those of the library's operator for the same case."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators.base import Maker, Operator, complete, sizes
from hotlap.core.record import Case

Inputs = Mapping[str, Any]
DEEP_BYTES = 128 * 1024  # 3 stages of 2 · 128 × 64 elements of 2 B, and room for the result
WIDEST_ROW = 65536  # elements that one program holds
EPILOGUES = ("none", "bias", "bias_relu")


def kernels() -> Any:
    """The module of kernels. Raises NotSupported where there is no Triton."""
    try:
        from hotlap.core.measure.workloads.operators import triton_kernels
    except ImportError as error:
        raise NotSupported(f"Triton cannot be imported ({error}): pip install triton") from error
    return triton_kernels


def gemm(case: Case, operator: Operator) -> Operator:
    """`operator`: the library's for the same case. Raises NotSupported."""
    given = complete(case)
    dtype, epilogue = str(given["dtype"]), str(given["epilogue"])
    if dtype not in ("fp32", "tf32", "fp16", "bf16", "int8") or epilogue not in EPILOGUES:
        raise NotSupported(f"the Triton product has no {dtype} with the epilogue {epilogue}")
    m, n, k, batch = sizes(given, "m", "n", "k", "batch")
    run, constants, options = kernels().matmul, product_constants(dtype, epilogue), dict[str, int]()

    def inputs(make: Maker) -> Mapping[str, Any]:
        on_gpu(make)
        if dtype == "bf16" and "cuda" not in str(make.place):
            raise NotSupported("Triton's interpreter multiplies the bits of bf16 as whole numbers")
        options.update(tiles(m, dtype, _shared_bytes(make)))
        return operator.inputs(make)

    def launch(i: Inputs) -> Any:
        a, b, c = i["a"], i["b"], i["c"]
        lead = [x.stride(0) if batch > 1 else 0 for x in (a, b, c)]
        run[-(-m // options["tile_m"]) * -(-n // options["tile_n"]), batch](
            a, b, c, i.get("add", c), m, n, k, lead[0], a.stride(-2), a.stride(-1), lead[1], b.stride(-2), b.stride(-1), lead[2],
            c.stride(-2), **constants, **options,
        )  # fmt: skip
        return c

    def variant() -> str:
        return f"triton {options['tile_m']} × {options['tile_n']} × {options['tile_k']}, {options['num_warps']} warps, {dtype}"

    return replace(operator, inputs=inputs, launch=launch, variant="", chosen=variant)


def tiles(m: int, dtype: str, shared_bytes: int) -> dict[str, int]:
    """Sides of a tile, warps and stages, chosen by size, not by trial: 128 × 128 once there are that many rows, less for decoding; deeper
    where the stages of two operands fit the memory that a block may have."""
    rows = 128 if m > 64 else 64 if m > 16 else 16
    wide = dtype in ("fp32", "tf32")
    deep = not wide and shared_bytes >= DEEP_BYTES
    sides = {"tile_m": rows, "tile_n": 64 if wide else 128, "tile_k": 64 if deep else 32}
    return {**sides, "group": 8, "num_warps": 8 if rows == 128 else 4, "num_stages": 3}


def _shared_bytes(make: Maker) -> int:
    if "cuda" not in str(make.place):
        return 0
    return int(getattr(make.library.cuda.get_device_properties(make.place), "shared_memory_per_block_optin", 0))


def product_constants(dtype: str, epilogue: str) -> dict[str, Any]:
    """What the product is compiled for, beside its tiles."""
    import triton.language as tl

    return {
        "precision": "tf32" if dtype == "tf32" else "ieee", "has_bias": epilogue != "none", "has_relu": epilogue == "bias_relu",
        "sum_type": tl.int32 if dtype == "int8" else tl.float32,
    }  # fmt: skip


def rowwise(case: Case, operator: Operator, epsilon: float) -> Operator:
    """`operator`: the library's for the same case. Raises NotSupported."""
    op, (rows, columns) = str(case.params["op"]), sizes(case.params, "rows", "columns")
    if op not in ("softmax", "rmsnorm") or case.params["dtype"] not in ("fp32", "fp16", "bf16"):
        raise NotSupported(f"there is no Triton kernel for rowwise {op} of {case.params['dtype']}")
    if columns > WIDEST_ROW:
        raise NotSupported(f"the Triton kernel holds a row at once: {WIDEST_ROW} columns at most, not {columns}")
    module, block = kernels(), max(1 << (columns - 1).bit_length(), 16)
    warps = min(max(block // 512, 1), 16)

    def launch(i: Inputs) -> Any:
        x = i["x"]
        y = x.new_empty(x.shape)
        if op == "softmax":
            module.softmax[rows,](x, y, columns, x.stride(0), block=block, num_warps=warps)
        else:
            module.rmsnorm[rows,](x, i["weight"], y, columns, x.stride(0), epsilon, block=block, num_warps=warps)
        return y

    def inputs(make: Maker) -> Mapping[str, Any]:
        on_gpu(make)
        return operator.inputs(make)

    words = f"triton {op}, a row at once by {warps} warp{'s' if warps > 1 else ''}, {case.params['dtype']}"
    return replace(operator, inputs=inputs, launch=launch, variant=words)


def on_gpu(make: Maker) -> None:
    """Raises NotSupported elsewhere, but under Triton's interpreter."""
    if "cuda" not in str(make.place) and os.environ.get("TRITON_INTERPRET") != "1":
        raise NotSupported("kernels in Triton run on CUDA and ROCm devices, not on this one")
