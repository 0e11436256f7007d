"""Operations and bytes of the arithmetic workloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Value
from hotlap.core.work.base import DTYPES, STORED, Param, Work, Workload, cache_param, count, integer, text, unit_of
from hotlap.core.work.variety import Variety, VarietyColumns, VarietyForm, first

LAYOUTS = ("nn", "nt", "tn", "tt")
EPILOGUES = ("none", "bias", "bias_relu", "bias_gelu", "residual")
VECTOR_DTYPES = ("fp64", "fp32", "fp16", "bf16", "int32", "int8")
ARITHMETIC_FMAS = 16  # of `intensity`, from which arithmetic takes longer than memory on the processors of the machine table
MATRIX_DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "fp4", "int8", "int4")


def _fma(params: Mapping[str, Value]) -> Work:
    """2 operations per multiply-add. The working set is registers."""
    return Work(operations={f"fma.{text(params, 'dtype')}": float(integer(params, "operations"))})


def _gemm(params: Mapping[str, Value]) -> Work:
    """2·m·n·k operations per matrix; A (m·k) and B (k·n) read, C (m·n) written once; a bias or a residual read once more."""
    m, n, k, b = (count(params, name) for name in ("m", "n", "k", "batch"))
    dtype = text(params, "dtype")
    size = STORED[dtype]
    out = {"int8": 4.0, "fp8": 2.0, "fp8_block": 2.0, "fp4": 2.0, "int4": 2.0}.get(dtype, size)  # int32 and bf16 results
    read = (2.0 if dtype == "int4" else size) * m * k + size * k * n  # of 4 bits are the weights alone
    more = {"none": 0.0, "residual": b * out * m * n}.get(text(params, "epilogue"), out * n)
    return Work(
        read_bytes=b * read + more, written_bytes=b * out * m * n,
        operations={unit_of(dtype): 2 * b * m * n * k}, working_set_bytes=b * (read + out * m * n) + more,
    )


def intensity_elements(params: Mapping[str, Value]) -> int:
    """Elements: each is read once and written once."""
    return max(integer(params, "size") // 2 // DTYPES[text(params, "dtype")] // 4096 * 4096, 4096)


def _intensity(params: Mapping[str, Value]) -> Work:
    """`fmas` multiply-adds on every element, which is read and written once: 2·fmas ÷ (2·element size) FLOP/B."""
    n, dtype = intensity_elements(params), text(params, "dtype")
    size = float(n * DTYPES[dtype])
    return Work(
        read_bytes=size, written_bytes=size, operations={f"fma.{dtype}": 2.0 * n * integer(params, "fmas")}, working_set_bytes=2 * size,
    )



def _row_lengths(columns: VarietyColumns) -> list[NDArray[Any]]:
    """Elements from one stored row of A, and of B, to the next."""
    a = np.where(columns.by_word("layout", lambda word: word[0] == "n") > 0, columns["k"], columns["m"])
    b = np.where(columns.by_word("layout", lambda word: word[1] == "n") > 0, columns["n"], columns["k"])
    return [a + columns["pad"], b + columns["pad"]]


def _padded(params: dict[str, Any], _levels: Mapping[str, str], step: int) -> Iterator[dict[str, Any]]:
    yield from (params, {**params, "pad": step}, {**params, "pad": 2 * step})


_HALVES = tuple(dtype for dtype, size in STORED.items() if int(8 * size) == 4)
_GEMMS = Variety(
    edges=("m", "n", "k"), row_lengths=_row_lengths, padded=True,
    forms=(VarietyForm("products", {"one": {"batch": 1}, "several": {"batch": 2}}, lambda c: first(c["batch"] == 1)),),
    rules=tuple(  # half a byte an element: less than 32 elements below a tile, no row is aligned to 16 B
        {"dtype": _HALVES, "layout": layouts, "alignment": ("16 B",), f"edge {row}": ("below",)}
        for row, layouts in (("m", ("tn", "tt")), ("n", ("nn", "tn")), ("k", ("nn", "nt", "tt")))  # in which a stored row is so long
    ),
    fitted=_padded, directed={"dtype": "bf16", "cache": "rotated"}, beside=4096,
)  # fmt: skip


def _dim(name: str, about: str) -> Param:
    return Param(name, "int", about, 4096, low=1, high=2**24)


WORKLOADS = (
    Workload(
        "fma", "independent chains of multiply-adds in registers: the peak of the vector units",
        (
            Param("dtype", "str", "arithmetic type", "fp32", choices=VECTOR_DTYPES),
            Param("operations", "int", "operations of one call (a multiply-add is 2), in whole loops", 4 * 10**9, low=10**6, high=1e15),
        ),
        "compute", "FLOP/s", "higher", _fma, bound_by_clock=lambda _: True,
        heading="compute", shows="vector", preparer="arithmetic", ceilings=("compute",), variety=Variety(sized=False),
    ),
    Workload(
        "gemm", "matrix product C = A·B through the target's library: the peak of the matrix engines",
        (
            Param("dtype", "str", "type of A and B", "fp32", choices=MATRIX_DTYPES),
            _dim("m", "rows of A and C"), _dim("n", "columns of B and C"), _dim("k", "columns of A"),
            Param("batch", "int", "independent products", 1, low=1, high=65536),
            cache_param("rotated"),
            Param("layout", "str", "how A and B lie in memory: n by rows, t by columns", "nn", choices=LAYOUTS, added_after_release=True),
            Param("epilogue", "str", "what is done to C on the way out", "none", choices=EPILOGUES, added_after_release=True),
            Param(
                "pad", "int", "elements added to the length of stored rows: odd strides and alignments", 0, low=0, high=4096,
                added_after_release=True,
            ),
            Param(
                "scaling", "str", "8 bits: one scale for each operand, or for each row", "tensor", choices=("tensor", "row"),
                added_after_release=True,
            ),
            Param(
                "accumulation", "str", "of fp8: in fp32, or fast, in the matrix engine's own fewer bits, as of published peaks", "full",
                choices=("full", "fast"), added_after_release=True,
            ),
        ),
        "compute", "FLOP/s", "higher", _gemm, implementations=("triton",), bound_by_clock=lambda _: True,
        heading="compute", shows="matrix", operator="gemm", ceilings=("compute",), arrays=True, model="product", variety=_GEMMS,
    ),
    Workload(
        "intensity", "a chain of multiply-adds on every element of a stream: draws the measured roofline",
        (
            Param("fmas", "int", "multiply-adds per element", 1, low=1, high=4096),
            Param("dtype", "str", "element type", "fp32", choices=("fp32", "fp64")),
            Param("size", "int", "working set: input and output", unit="B", default=2**27, low=65536, high=2**46),
        ),
        "compute", "FLOP/s", "higher", _intensity, bound_by_clock=lambda params: integer(params, "fmas") >= ARITHMETIC_FMAS,
        heading="compute", shows="roofline", preparer="arithmetic", ceilings=("compute", "bandwidth"), traffic="contiguous",
        variety=Variety(),
    ),
)

FMA, GEMM, INTENSITY = WORKLOADS
