"""The heading of a kernel that multiplies matrices: which argument is which, from a signature as of `mm(A, B, C, M, N, K)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hotlap.core.work.base import Workload
from hotlap.kernels.own.signatures import DTYPES, SCALARS, Argument, listed

WORKLOAD = "gemm"
SIZES = ("m", "n", "k")
RESULTS = ("c", "d", "out", "output", "result")
LEADING = {"lda": "k", "ldb": "n", "ldc": "n"}  # of matrices that are stored by rows, without gaps
FACTORS = {"alpha": "1", "beta": "0"}
ONLY = 'batch = 1, layout = "nn", epilogue = "none", pad = 0'  # what a plain kernel can do of the workload
BODY = """{{
    int i = {item};
    if (i >= m * n)
        return;
    float sum = 0.0f;
    for (int j = 0; j < k; j++)
        sum += a[i / n * k + j] * b[j * n + i % n];
    c[i] = sum;
}}
"""
SKELETON = {
    ".cl": "__kernel void {name}(__global const float *a, __global const float *b, __global float *c, int m, int n, int k)\n"
    + BODY.replace("{item}", "get_global_id(0)"),
    ".cu": "__global__ void {name}(const float *a, const float *b, float *c, int m, int n, int k)\n"
    + BODY.replace("{item}", "blockIdx.x * blockDim.x + threadIdx.x"),
}


class Product(NamedTuple):
    """Arguments of a product: two matrices, the result, and the sizes by their lower-case names."""

    a: Argument
    b: Argument
    c: Argument
    sizes: dict[str, str]


def of(arguments: Sequence[Argument]) -> Product | None:
    """None where the signature is not that of a matrix product: three pointers, one of them written, and sizes m, n and k."""
    pointers = [one for one in arguments if one.pointer]
    written = [one for one in pointers if not one.const]
    sizes = {one.name.lower(): one.name for one in arguments if not one.pointer and one.name.lower() in SIZES}
    if len(pointers) != 3 or not written or set(sizes) != set(SIZES):
        return None
    result = next((one for one in written if one.name.lower() in RESULTS), written[-1])  # where nothing is const, by its name or place
    a, b = (one for one in pointers if one is not result)
    return Product(a, b, result, sizes)


def heading(function: str, arguments: Sequence[Argument], product: Product, spec: Workload | None) -> list[str]:
    """The lines of it, for row-major matrices and a work-item for each element of the result."""
    dtype = DTYPES.get(product.a.kind, "fp32")
    names = {size: size for size in SIZES} if spec else product.sizes
    m, n, k = (names[size] for size in SIZES)
    cases = ", ".join(f"{size} = 512" for size in (m, n, k))
    if spec:
        tensors = {product.a.name: "a", product.b.name: "b", product.c.name: "c"}
        lines = [f'workload = "{spec.name}"', f'only = {{ dtype = "{dtype}", {ONLY} }}', f"cases = [{{ {cases} }}]"]
        output = 'writes = ["c"]  # operands and result are a, b and c; row-major, without gaps'
    else:
        tensors = {one.name: one.name for one in (product.a, product.b, product.c)}
        lines = [
            "# a matrix product: hotlap kernel new FILE --like gemm compares it with the library's",
            f'params = {{ {cases}, dtype = "{dtype}" }}', f'read_bytes = "({m} * {k} + {k} * {n}) * size(dtype)"',
            f'written_bytes = "{m} * {n} * size(dtype)"', f'operations = "2 * {m} * {n} * {k}"', 'unit_of_arithmetic = "fma.{dtype}"',
            f"inputs = {{ {product.a.name} = {{ shape = {listed((m, k))} }}, {product.b.name} = {{ shape = {listed((k, n))} }} }}",
            f'reference = "{product.a.name} @ {product.b.name}"', f'terms = "{k}"',
        ]
        output = f"outputs = {{ {product.c.name} = {{ shape = {listed((m, n))} }} }}"
    given = [tensors[one.name] if one.pointer else _number(one, names) for one in arguments]
    return [
        *lines, f'function = "{function}"', output, f"arguments = {listed(given)}",
        f'items = "{m} * {n}"  # work-items in all: one for each element of the result', "group = 64",
    ]


def _number(argument: Argument, names: dict[str, str]) -> str:
    """A size, a leading dimension, or a factor, with its type."""
    name = argument.name.lower()
    kind = SCALARS.get(argument.kind, "int32")
    return f"{names.get(LEADING.get(name, name), FACTORS.get(name, '1'))}:{kind}"
