"""Matrix products by the vendor's library, by way of PyTorch: every type, layout, stride and epilogue that it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators import in_triton
from hotlap.core.measure.workloads.operators.base import Exact, Maker, Operator, complete, sizes
from hotlap.core.measure.workloads.operators.products import Finish, product
from hotlap.core.record import Case

Inputs = Mapping[str, Any]
OUTPUTS = {"fp8": "bf16", "fp8_block": "bf16", "int4": "bf16", "int8": "int32"}
BLOCK = 128  # elements of k that share a scale in fp8_block and int4


@dataclass(frozen=True)
class GemmShape:
    """One gemm case."""

    m: int
    n: int
    k: int
    batch: int
    pad: int
    dtype: str
    layout: str
    epilogue: str
    scaling: str
    accumulation: str

    @property
    def fast(self) -> bool:
        return self.accumulation == "fast"

    @property
    def out(self) -> str:
        return OUTPUTS.get(self.dtype, self.dtype)

    @property
    def lead(self) -> tuple[int, ...]:
        return () if self.batch == 1 else (self.batch,)

    @property
    def fp8(self) -> bool:
        return self.dtype in ("fp8", "fp8_block")


def operator(case: Case, library: Any) -> Operator:
    """Raises NotSupported for what PyTorch has no product of."""
    shape = read(case)
    words = f"torch {_function(shape)} {shape.dtype}{_remark(shape)}"
    writes = () if shape.dtype == "int4" else ("c",)
    found = Operator(
        lambda make: inputs(make, shape), _launch(library, shape), lambda i: reference(i, shape), writes=writes, variant=words,
        dtype=shape.out,
    )  # fmt: skip
    return in_triton.gemm(case, found) if case.implementation == "triton" else found


def read(case: Case) -> GemmShape:
    """A case's parameters. Raises NotSupported for combinations that PyTorch has no product of."""
    given = complete(case)
    m, n, k, batch, pad = sizes(given, "m", "n", "k", "batch", "pad")
    shape = GemmShape(m, n, k, batch, pad, *(str(given[name]) for name in ("dtype", "layout", "epilogue", "scaling", "accumulation")))
    if shape.dtype == "fp4":
        raise NotSupported("PyTorch makes no 4-bit floating-point tensors from others; such products are only predicted and simulated")
    if shape.out != shape.dtype and batch != 1:
        raise NotSupported(f"PyTorch has no batched {shape.dtype} product")
    if shape.dtype in ("int8", "int4") and shape.epilogue != "none":
        raise NotSupported(f"PyTorch has no {shape.dtype} product with the epilogue {shape.epilogue}")
    if shape.scaling == "row" and shape.dtype != "fp8":
        raise NotSupported(f"PyTorch scales rows of fp8 products only, not of {shape.dtype}")
    if shape.fast and shape.dtype != "fp8":
        raise NotSupported(f"PyTorch chooses the accumulation of fp8 products only, not of {shape.dtype}")
    if shape.dtype == "int4" and (shape.layout not in ("nn", "nt") or pad):
        raise NotSupported("PyTorch packs int4 weights its own way: layout nn or nt, and no padding")
    return shape


def _function(shape: GemmShape) -> str:
    """PyTorch's function, with what is done apart from it."""
    if shape.dtype == "int8":
        return "_int_mm"
    if shape.dtype == "int4":
        return "_weight_int4pack_mm"
    if shape.fp8:
        apart = {"bias_relu": ", relu apart", "bias_gelu": ", gelu apart", "residual": ", residual apart"}
        return "_scaled_mm" + apart.get(shape.epilogue, "")
    if shape.epilogue == "none":
        return "matmul"
    if shape.batch > 1:
        return "baddbmm" + {"bias_relu": ", relu apart", "bias_gelu": ", gelu apart"}.get(shape.epilogue, "")
    return "_addmm_activation" if shape.epilogue in ("bias_relu", "bias_gelu") else "addmm"


def _remark(shape: GemmShape) -> str:
    by_columns = ", B by columns as the library wants it" if shape.fp8 and shape.layout[1] == "n" else ""
    return by_columns + (", fast accumulation" if shape.fast else "")


# ---------------------------------------------------------------- inputs


def inputs(make: Maker, shape: GemmShape) -> dict[str, Any]:
    """Operands as they lie in memory, and the output, poisoned. Raises NotSupported for types that the device computes otherwise."""
    precision(make, shape.dtype)
    if shape.fast and ("cuda" not in str(make.place) or make.library.version.hip):
        raise NotSupported("fast accumulation of fp8 is a choice on NVIDIA's GPUs alone")
    if shape.dtype == "int4":
        return _packed(make, shape)  # its function takes no output to write into
    a = _operand(make, shape, (shape.m, shape.k), shape.layout[0])
    b = _operand(make, shape, (shape.k, shape.n), "t" if shape.fp8 else shape.layout[1])
    if shape.epilogue == "bias_gelu" and str(make.place).split(":")[0] not in ("cpu", "cuda"):
        raise NotSupported("PyTorch does not say which approximation of GELU its product on this device has")
    found = {"a": a, "b": b, "c": make.empty(*shape.lead, shape.m, shape.n, dtype=shape.out)}
    if shape.epilogue == "residual":
        found["add"] = make.normal(*shape.lead, shape.m, shape.n, dtype=shape.out)
    elif shape.epilogue != "none":
        found["add"] = make.normal(shape.n, dtype=shape.out)
    return found | (_scales(make, shape) if shape.fp8 else {})


def precision(make: Maker, dtype: str) -> None:
    """fp32 is not quietly tf32, and tf32 not quietly fp32. Raises NotSupported where the device has no tf32."""
    torch, gpu = make.library, "cuda" in str(make.place)
    if dtype == "tf32" and (not gpu or torch.version.hip or torch.cuda.get_device_capability(make.place) < (8, 0)):
        raise NotSupported("PyTorch has no tf32 on this device")
    if gpu and dtype in ("fp32", "tf32"):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype == "tf32"


def _operand(make: Maker, shape: GemmShape, sides: tuple[int, int], order: str) -> Any:
    """A matrix of these sides, stored by rows (n) or by columns (t), each stored line `pad` elements longer than it need be."""
    lines, length = sides if order == "n" else sides[::-1]
    stored = (*shape.lead, lines, length + shape.pad)
    made = make.whole(128, *stored, dtype="int8", low=-128) if shape.dtype == "int8" else make.normal(*stored, dtype=_stored(shape.dtype))
    used = made[..., :length]
    return used if order == "n" else used.transpose(-1, -2)


def _stored(dtype: str) -> str:
    return "fp8" if dtype == "fp8_block" else dtype


def _scales(make: Maker, shape: GemmShape) -> dict[str, Any]:
    """fp32: one for each operand, for each row of A and column of B, or for 1 × 128 of A and 128 × 128 of B."""
    if shape.dtype == "fp8_block":
        if "cuda" not in str(make.place):
            raise NotSupported("PyTorch scales blocks of fp8 on CUDA and ROCm devices alone")
        along = -(-shape.k // BLOCK)
        a = make.uniform(along, shape.m, dtype="fp32", low=0.5, high=2.0).t()  # the library wants these by columns
        b = make.uniform(-(-shape.n // BLOCK), along, dtype="fp32", low=0.5, high=2.0).t()
    elif shape.scaling == "row":
        a, b = (make.uniform(*side, dtype="fp32", low=0.5, high=2.0) for side in ((shape.m, 1), (1, shape.n)))
    else:
        a, b = (make.uniform(1, dtype="fp32", low=0.5, high=2.0).squeeze() for _ in range(2))
    return {"scale_a": a, "scale_b": b}


def _packed(make: Maker, shape: GemmShape) -> dict[str, Any]:
    """Weights of 4 bits, two in a byte in the library's own order; for each 128 of k and each column a scale and a zero point."""
    torch = make.library
    whole = make.whole(16, shape.n, shape.k, dtype="int32")
    if "cuda" in str(make.place):
        packed = torch._convert_weight_to_int4pack((whole[:, ::2] << 4 | whole[:, 1::2]).to(torch.uint8), 8)
    else:
        packed = torch._convert_weight_to_int4pack_for_cpu(whole, 1)
    scales = make.uniform(-(-shape.k // BLOCK), shape.n, 2, dtype="bf16", low=0.5, high=1.0)
    return {"a": make.normal(shape.m, shape.k, dtype="bf16"), "b": packed, "whole": whole, "scales": scales}


# ---------------------------------------------------------------- launch


def _launch(torch: Any, shape: GemmShape) -> Callable[[Inputs], Any]:
    if shape.dtype == "int8":
        return lambda i: torch._int_mm(i["a"], i["b"], out=i["c"])
    if shape.dtype == "int4":
        return lambda i: _int4(torch, i)
    if shape.fp8:
        return _scaled(torch, shape)
    if shape.epilogue == "none":
        return lambda i: torch.matmul(i["a"], i["b"], out=i["c"])
    activation = shape.epilogue.removeprefix("bias_")
    if shape.batch == 1 and activation in ("relu", "gelu"):
        fused, gelu = torch._addmm_activation, activation == "gelu"
        return lambda i: fused(i["add"], i["a"], i["b"], use_gelu=gelu, out=i["c"])
    add = torch.addmm if shape.batch == 1 else torch.baddbmm
    apart = _activation(torch, activation)
    if apart is None:
        return lambda i: add(i["add"], i["a"], i["b"], out=i["c"])
    return lambda i: apart(add(i["add"], i["a"], i["b"], out=i["c"]))


def _activation(torch: Any, name: str) -> Callable[[Any], Any] | None:
    """GELU by tanh, as in PyTorch's fused products on GPUs."""
    gelu = torch.nn.functional.gelu
    return {"relu": torch.relu_, "gelu": lambda x: gelu(x, approximate="tanh")}.get(name)


def _int4(torch: Any, i: Inputs) -> Any:
    run = torch._weight_int4pack_mm if i["a"].is_cuda else torch._weight_int4pack_mm_for_cpu
    return run(i["a"], i["b"], BLOCK, i["scales"])


def _scaled(torch: Any, shape: GemmShape) -> Callable[[Inputs], Any]:
    apart = _activation(torch, shape.epilogue.removeprefix("bias_"))
    bias, residual = shape.epilogue.startswith("bias"), shape.epilogue == "residual"
    fast = {"use_fast_accum": True} if shape.fast else {}

    def launch(i: Inputs) -> Any:
        scales, add = {name: i[name] for name in ("scale_a", "scale_b")}, i["add"] if bias else None
        c = torch._scaled_mm(i["a"], i["b"], **scales, **fast, bias=add, out_dtype=torch.bfloat16, out=i["c"])
        c = c.add_(i["add"]) if residual else c
        return apart(c) if apart else c

    return launch


# ---------------------------------------------------------------- reference


def reference(i: Inputs, shape: GemmShape) -> list[Exact]:
    """`i` in fp64, but for whole numbers."""
    a, b = i["a"].double(), (_unpacked(i) if shape.dtype == "int4" else i["b"].double())
    if shape.dtype == "fp8_block":
        a = a * i["scale_a"].repeat_interleave(BLOCK, -1)[:, : shape.k]
        b = b * i["scale_b"].repeat_interleave(BLOCK, 0)[: shape.k].repeat_interleave(BLOCK, 1)[:, : shape.n]
    elif shape.fp8:
        a, b = a * i["scale_a"], b * i["scale_b"]
    summed = "fp64" if shape.dtype == "fp64" else "fp22" if shape.fast else "fp32"
    return [product(a, b, Finish(shape.out, summed, i.get("add"), _smooth(i, shape)))]


def _unpacked(i: Inputs) -> Any:
    """(whole number − 8) · scale + zero, as B: k × n."""
    by_k = i["scales"].repeat_interleave(BLOCK, 0)[: i["whole"].shape[1]]
    return (i["whole"].t().double() - 8) * by_k[..., 0] + by_k[..., 1]


def _smooth(i: Inputs, shape: GemmShape) -> Callable[[Any], Any] | None:
    """The activation; PyTorch's fused product on the CPU has GELU by the error function."""
    import torch

    if shape.epilogue == "bias_gelu" and i["c"].device.type == "cpu" and _function(shape) == "_addmm_activation":
        exact: Callable[[Any], Any] = torch.nn.functional.gelu
        return exact
    return _activation(torch, shape.epilogue.removeprefix("bias_"))
