"""Products, experts, convolutions, attention and recurrent layers through PyTorch: right on the CPU, and wrong ones are caught."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hotlap.core import work
from hotlap.core.errors import HotlapError, NotSupported
from hotlap.core.measure import targets, workloads
from hotlap.core.measure.workloads.operators import (
    attention,
    attention_reference,
    conv,
    gemm,
    grouped,
    harness,
    in_triton,
    moe,
    products,
    rnn,
)
from hotlap.core.measure.workloads.operators.compare import farthest, held
from hotlap.core.record import Case, Check

torch = pytest.importorskip("torch")
Given = dict[str, Any]

GEMM: Given = {"m": 33, "n": 48, "k": 130}
CONV: Given = {"images": 3, "channels": 8, "height": 9, "width": 11, "filters": 12, "filter": 3}
HEADS: Given = {"batch": 2, "query": 33, "heads": 4, "kv_heads": 2, "head_dim": 16, "dtype": "fp32", "kv_dtype": "fp32"}
EXPERTS: Given = {"tokens": 50, "hidden": 48, "inter": 32, "topk": 3, "experts": 8, "dtype": "bf16"}
CELL: Given = {"steps": 9, "batch": 3, "inputs": 33, "hidden": 65}
RIGHT: list[tuple[str, Given]] = [
    *(("gemm", {**GEMM, "dtype": dtype}) for dtype in ("fp64", "fp32", "fp16", "bf16", "fp8", "int8")),
    *(("gemm", {**GEMM, "dtype": dtype, "layout": layout, "pad": 3}) for dtype in ("fp32", "bf16") for layout in ("nn", "nt", "tn", "tt")),
    *(("gemm", {**GEMM, "dtype": dtype, "epilogue": e}) for dtype in ("fp32", "bf16", "fp8") for e in ("bias", "bias_relu", "bias_gelu", "residual")),
    *(("gemm", {**GEMM, "dtype": "fp32", "batch": 3, "epilogue": e}) for e in ("none", "bias", "bias_gelu", "residual")),
    ("gemm", {**GEMM, "dtype": "fp8", "scaling": "row"}), ("gemm", {"dtype": "int4", "m": 5, "n": 32, "k": 256}),
    ("gemm", {"dtype": "fp32", "m": 1, "n": 1, "k": 1}), ("gemm", {"dtype": "bf16", "m": 1, "n": 65, "k": 300, "cache": "cold"}),
    *(("grouped_gemm", {"groups": 5, "m": 37, "n": 48, "k": 64, "dtype": dtype, "distribution": "power_law_1.2"}) for dtype in ("fp32", "fp16", "bf16")),
    ("grouped_gemm", {"groups": 20, "m": 7, "n": 48, "k": 64, "dtype": "fp32"}),
    *(("moe", {**EXPERTS, "dtype": dtype}) for dtype in ("fp16", "bf16")),
    ("moe", {**EXPERTS, "gated": False, "ep": 2, "tp": 2, "distribution": "power_law_1.2"}),
    *(("conv", {**CONV, "op": op, "dtype": dtype}) for op in ("forward", "input_gradient", "weight_gradient") for dtype in ("fp32", "fp16", "bf16")),
    *(("conv", {**CONV, "op": op, "dtype": "fp32", "layout": "nhwc", "groups": 4, "stride": 2, "dilation": 2, "pad": 2}) for op in ("forward", "input_gradient", "weight_gradient")),
    ("conv", {**CONV, "dtype": "fp32", "groups": 8, "filters": 8}),
    *(("conv", {**CONV, "op": op, "dtype": "fp32", "height": 1, "filter_height": 1, "stride": 2}) for op in ("forward", "input_gradient", "weight_gradient")),
    *(("conv", {**CONV, "op": op, "dtype": "fp32", "depth": 5, "filter_depth": 2}) for op in ("forward", "input_gradient", "weight_gradient")),
    *(("attention", {**HEADS, "op": op, "dtype": dtype, "kv_dtype": dtype}) for op in ("forward", "backward") for dtype in ("fp32", "fp16", "bf16")),
    *(("attention", {**HEADS, "op": op, **more}) for op in ("forward", "backward") for more in ({"mask": "full"}, {"kv": 70}, {"window": 9}, {"kv_heads": 4})),
    ("attention", {**HEADS, "mask": "full", "window": 9, "kv": 50}), ("attention", {**HEADS, "query": 1, "kv": 77, "window": 20}),
    ("attention", {**HEADS, "kv_heads": 1, "head_dim": 24, "value_dim": 16, "latent": 24}),
    ("attention", {**HEADS, "query": 1, "kv": 77, "page": 16}), ("attention", {**HEADS, "query": 5, "kv": 77, "page": 16, "window": 33}),
    ("attention", {**HEADS, "dtype": "bf16", "kv_dtype": "fp8"}),
    *(("rnn", {**CELL, "op": op, "dtype": dtype}) for op in ("lstm", "gru") for dtype in ("fp32", "fp16", "bf16")),
]  # fmt: skip


@pytest.fixture(scope="module")
def cpu() -> Any:
    spec = targets.parse("torch:cpu")
    try:
        return targets.open_device(spec, targets.find(spec)[0])
    except HotlapError as error:
        pytest.skip(str(error))


def case_of(name: str, given: Given, implementation: str = "") -> Case:
    return Case(workload=name, params=work.find(name).parse(given), implementation=implementation)


FAMILY: dict[str, Any] = {"gemm": gemm, "grouped_gemm": grouped, "moe": moe, "conv": conv, "attention": attention, "rnn": rnn}


def checked(target: Any, case: Case, spoil: Callable[[Any], None] | None = None) -> Check:
    """The check of one case, whose outputs `spoil` has had first."""
    operator = FAMILY[case.workload].operator(case, target.library)
    if spoil is not None:
        launch = operator.launch

        def spoilt(inputs: Any) -> Any:
            found = launch(inputs)
            outputs = found if isinstance(found, tuple) else (found,)
            spoil(outputs[-1])
            return found

        operator = replace(operator, launch=spoilt)
    prepared = harness.prepared(target, case, operator, np.random.default_rng(5))
    prepared.enqueue(1)
    return prepared.check()


@pytest.mark.parametrize(("name", "given"), RIGHT, ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())))
def test_it_is_right_on_the_cpu(cpu: Any, name: str, given: Given) -> None:
    check = checked(cpu, case_of(name, given))
    assert check.passed, check


@pytest.mark.parametrize(("name", "implementation"), [("gemm", ""), ("grouped_gemm", "loop"), ("moe", "loop"), ("attention", "flash"), ("attention", "math")])
def test_implementations_by_name(cpu: Any, name: str, implementation: str) -> None:
    given = {"gemm": {**GEMM, "dtype": "fp32"}, "grouped_gemm": {"groups": 5, "m": 37, "n": 48, "k": 64, "dtype": "bf16"}, "moe": EXPERTS, "attention": HEADS}[name]
    assert checked(cpu, case_of(name, given, implementation)).passed


def test_fast_accumulation_of_fp8_is_asked_of_the_library_and_named(cpu: Any) -> None:
    asked: list[dict[str, Any]] = []
    library = SimpleNamespace(bfloat16="bf16", relu_=None, nn=torch.nn, _scaled_mm=lambda a, b, **given: asked.append(given))
    inputs = dict.fromkeys(("a", "b", "c", "scale_a", "scale_b"), 0)
    before, fast = (gemm.operator(case_of("gemm", {**GEMM, "dtype": "fp8", **more}), library) for more in ({}, {"accumulation": "fast"}))
    before.launch(inputs)
    fast.launch(inputs)
    assert [one.get("use_fast_accum") for one in asked] == [None, True]  # None: as in 0.1, which is PyTorch's own False
    assert fast.variant == f"{before.variant}, fast accumulation"


def test_products_summed_in_14_bits_are_right_where_they_were_asked_for_and_not_else(cpu: Any) -> None:
    """As Hopper's matrix engine does it: 32 terms at a time, the sum cut off to 13 bits of mantissa."""
    torch, k = cpu.library, 65536
    shapes = [gemm.read(case_of("gemm", {"m": 64, "n": 48, "k": k, "dtype": "fp8", "accumulation": how})) for how in ("fast", "full")]
    fp8 = {name: torch.randn(*side, generator=torch.Generator().manual_seed(3)).to(torch.float8_e4m3fn) for name, side in (("a", (64, k)), ("b", (k, 48)))}
    a, b = fp8["a"].float(), fp8["b"].float()
    c = torch.zeros(64, 48)
    for at in range(0, k, 32):
        c = ((c + a[:, at : at + 32] @ b[at : at + 32]).view(torch.int32) & ~0x3FF).view(torch.float32)
    inputs = {**fp8, "scale_a": torch.ones(()), "scale_b": torch.ones(()), "c": c}
    errors = [farthest([c.bfloat16()], gemm.reference(inputs, shape), "bf16") for shape in shapes]
    (fast, allowed, _), (full, allowed_full, _) = errors
    assert fast <= allowed
    assert full > allowed_full
    c[7, :32] = 0.0
    error, allowed, _ = farthest([c.bfloat16()], gemm.reference(inputs, shapes[0]), "bf16")
    assert error > allowed  # a tile that was left out


# ---------------------------------------------------------------- wrong results

WRONG: list[tuple[str, Given]] = [
    ("gemm", {**GEMM, "dtype": "fp32"}), ("gemm", {**GEMM, "dtype": "bf16", "epilogue": "bias_gelu"}), ("gemm", {**GEMM, "dtype": "int8"}),
    ("gemm", {**GEMM, "dtype": "fp8"}), ("grouped_gemm", {"groups": 5, "m": 37, "n": 48, "k": 64, "dtype": "bf16"}), ("moe", EXPERTS),
    *(("conv", {**CONV, "op": op, "dtype": "fp32"}) for op in ("forward", "input_gradient", "weight_gradient")),
    *(("attention", {**HEADS, "op": op}) for op in ("forward", "backward")), ("rnn", {**CELL, "op": "gru", "dtype": "fp32"}),
]  # fmt: skip


def one_element(output: Any) -> None:
    middle = output.reshape(-1).shape[0] // 2
    at = np.unravel_index(middle, tuple(output.shape))
    output[at] += 1 if not output.is_floating_point() else output.double().std().to(output.dtype)


def last_row(output: Any) -> None:
    output[..., -1, :] = 0


@pytest.mark.parametrize("spoil", [one_element, last_row])
@pytest.mark.parametrize(("name", "given"), WRONG, ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())))
def test_a_wrong_result_is_caught(cpu: Any, name: str, given: Given, spoil: Callable[[Any], None]) -> None:
    assert not checked(cpu, case_of(name, given), spoil).passed


def test_a_product_of_lower_precision_is_caught(cpu: Any) -> None:
    def in_bf16(output: Any) -> None:
        output.copy_(output.bfloat16())

    assert not checked(cpu, case_of("gemm", {**GEMM, "dtype": "fp32"}), in_bf16).passed


LARGE: dict[str, Given] = {
    "gemm": {"m": 300, "n": 310, "k": 40, "dtype": "fp32"}, "conv": {**CONV, "images": 5, "dtype": "fp32"}, "moe": {**EXPERTS, "tokens": 300},
    "attention": {**HEADS, "query": 90},
}  # fmt: skip


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every case counts as too large to be recomputed in full."""
    for module in (products, conv, moe, attention_reference):
        monkeypatch.setattr(module, "WHOLE_FLOP", 1.0)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("name", LARGE)
def test_large_cases_are_checked_in_part(cpu: Any, name: str) -> None:
    assert checked(cpu, case_of(name, LARGE[name])).passed


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(("name", "more"), [("gemm", {"dtype": "int8"}), ("gemm", {"epilogue": "bias_gelu"}), ("gemm", {"batch": 3}), ("conv", {"op": "input_gradient"}), ("conv", {"op": "weight_gradient"}), ("conv", {"groups": 4}), ("conv", {"groups": 4, "op": "input_gradient"}), ("attention", {"op": "backward"}), ("attention", {"window": 20})])
def test_large_cases_of_other_kinds_too(cpu: Any, name: str, more: Given) -> None:
    assert checked(cpu, case_of(name, {**LARGE[name], **more})).passed


def spoilt_tile(output: Any) -> None:
    """A tile in the middle of the last two sides is skipped."""
    output[..., 40:60, 33:70] = 0


def spoilt_channel(output: Any) -> None:
    output[1, 3] = 0


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(("name", "more", "spoil"), [("gemm", {}, spoilt_tile), ("gemm", {"dtype": "bf16"}, spoilt_tile), ("gemm", {"dtype": "int8"}, spoilt_tile), ("gemm", {"batch": 3}, spoilt_tile), ("gemm", {"epilogue": "bias_relu"}, spoilt_tile), ("conv", {}, spoilt_channel), ("conv", {"op": "input_gradient"}, spoilt_channel), ("conv", {"op": "weight_gradient"}, spoilt_channel), ("conv", {"groups": 4}, spoilt_channel)])
def test_what_is_skipped_of_a_large_case_is_caught(cpu: Any, name: str, more: Given, spoil: Callable[[Any], None]) -> None:
    assert not checked(cpu, case_of(name, {**LARGE[name], **more}), spoil).passed


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_sums_with_random_signs_see_a_tile_by_themselves(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what is left of the check where no probed row or column meets the tile."""
    monkeypatch.setattr(products, "WHOLE_FLOP", 1.0)
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    a, b = (torch.randn(300, 300, generator=torch.Generator().manual_seed(n)).to(kind) for n in (1, 2))
    c = a @ b
    *_, whole = products.product(a.double(), b.double(), products.Finish(dtype)).also
    error, allowed, _ = held(c, whole, dtype)
    assert error <= allowed
    c[100:132, 200:232] = 0
    error, allowed, _ = held(c, whole, dtype)
    assert error > 3 * allowed


def test_what_is_not_a_number_anywhere_is_caught(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_reference, "WHOLE_FLOP", 1.0)

    def spoil(output: Any) -> None:
        output[0, 1, 17, 3] = float("nan")

    assert not checked(cpu, case_of("attention", {**HEADS, "query": 90}), spoil).passed


# ---------------------------------------------------------------- what is not there

REFUSED: list[tuple[str, Given, str, str]] = [
    ("gemm", {**GEMM, "dtype": "tf32"}, "", "no tf32"), ("gemm", {**GEMM, "dtype": "fp4"}, "", "4-bit"),
    ("gemm", {**GEMM, "dtype": "fp8", "batch": 2}, "", "no batched fp8"), ("gemm", {**GEMM, "dtype": "int8", "epilogue": "bias"}, "", "int8 product with the epilogue bias"),
    ("gemm", {**GEMM, "dtype": "bf16", "scaling": "row"}, "", "fp8 products only"),
    ("gemm", {**GEMM, "dtype": "bf16", "accumulation": "fast"}, "", "accumulation of fp8 products only"),
    ("gemm", {**GEMM, "dtype": "fp8", "accumulation": "fast"}, "", "on NVIDIA's GPUs alone"), ("moe", {**EXPERTS, "dtype": "fp8"}, "", "no experts of fp8"),
    ("moe", {**EXPERTS, "dtype": "mxfp4"}, "", "no weights of 4 bits"),
    ("conv", {**CONV, "dtype": "fp8"}, "", "no convolution of fp8"), ("conv", {**CONV, "height": 1, "filter_height": 1, "dtype": "fp32", "layout": "nhwc"}, "", "not in lines"),
    ("attention", {**HEADS, "dtype": "fp8"}, "", "no attention of fp8"), ("attention", {**HEADS, "op": "backward", "kv_dtype": "bf16"}, "", "set kv_dtype"),
    ("attention", {**HEADS, "op": "backward", "page": 16}, "", "keeps no pages"), ("attention", HEADS, "cudnn", "CUDA and ROCm"),
    ("attention", {**HEADS, "op": "backward"}, "math", "no gradient kernel"), ("attention", HEADS, "efficient", "as many key heads"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "implementation", "reason"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_pytorch_lacks_is_not_run_with_the_reason(cpu: Any, name: str, given: Given, implementation: str, reason: str) -> None:
    with pytest.raises(NotSupported, match=reason):
        workloads.prepare(cpu, case_of(name, given, implementation), seed=1)


@pytest.mark.parametrize(("name", "given"), [*LARGE.items(), ("grouped_gemm", {"groups": 5, "m": 37, "n": 48, "k": 64}), ("rnn", {**CELL, "op": "lstm"})])
def test_every_family_is_simulated(name: str, given: Given) -> None:
    spec = targets.parse("simulated:h200-sxm")
    simulated = targets.open_device(spec, targets.find(spec)[0])
    prepared = workloads.prepare(simulated, case_of(name, given), seed=1)
    timing = simulated.time(prepared.enqueue, 10)
    assert timing.device_s is not None
    assert timing.device_s > 0
    assert prepared.check().passed


# ---------------------------------------------------------------- Triton


def test_kernels_in_triton_are_not_run_without_a_gpu(cpu: Any) -> None:
    with pytest.raises(NotSupported, match=r"CUDA and ROCm|pip install"):
        workloads.prepare(cpu, case_of("gemm", {**GEMM, "dtype": "fp16"}, "triton"), seed=1)


@pytest.mark.parametrize(("backend", "architecture", "threads", "code"), [*(("cuda", capability, 32, "ptx") for capability in (80, 90, 100, 120)), ("hip", "gfx942", 64, "amdgcn")])
def test_kernels_in_triton_compile_without_a_gpu(backend: str, architecture: Any, threads: int, code: str) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernels = in_triton.kernels()
    constants = {**in_triton.product_constants("bf16", "bias_relu"), **in_triton.tiles(4096, "bf16", 2**20)}
    options = {name: constants.pop(name) for name in ("num_warps", "num_stages")}
    types = {"a": "*bf16", "b": "*bf16", "c": "*bf16", "add": "*bf16", **dict.fromkeys(("m", "n", "k"), "i32")}
    strides = {name: "i32" for name in kernels.matmul.arg_names if name.endswith(("_batch", "_row", "_column"))}
    signature = {name: {**types, **strides}.get(name, "constexpr") for name in kernels.matmul.arg_names}
    made = triton.compile(ASTSource(kernels.matmul, signature=signature, constexprs=constants), target=GPUTarget(backend, architecture, threads), options=options)
    assert {"ptx": "mma", "amdgcn": "v_mfma"}[code] in made.asm[code]  # on the matrix units, not on the vector ones


INTERPRETED = """
import numpy as np
from hotlap.core import work
from hotlap.core.measure import targets, workloads
from hotlap.core.record import Case
spec = targets.parse("torch:cpu")
target = targets.open_device(spec, targets.find(spec)[0])
for name, given in [
    ("gemm", {"dtype": "fp32", "m": 37, "n": 50, "k": 70, "layout": "tt", "pad": 3, "epilogue": "bias_relu"}),
    ("gemm", {"dtype": "fp16", "m": 5, "n": 50, "k": 70, "batch": 2}), ("gemm", {"dtype": "int8", "m": 17, "n": 50, "k": 70}),
    ("rowwise", {"op": "softmax", "rows": 5, "columns": 77, "dtype": "bf16"}), ("rowwise", {"op": "rmsnorm", "rows": 5, "columns": 77, "dtype": "fp32"}),
]:
    case = Case(workload=name, params=work.find(name).parse(given), implementation="triton")
    prepared = workloads.prepare(target, case, seed=3)
    prepared.enqueue(1)
    check = prepared.check()
    print(check.passed or f"{name}: {check}", prepared.variant.split()[0])
"""


def test_kernels_in_triton_are_right_in_its_interpreter() -> None:
    pytest.importorskip("triton")
    done = subprocess.run([sys.executable, "-c", INTERPRETED], capture_output=True, text=True, env={**os.environ, "TRITON_INTERPRET": "1"}, timeout=120)
    assert done.stdout.split("\n") == ["True triton"] * 5 + [""], done.stdout + done.stderr
