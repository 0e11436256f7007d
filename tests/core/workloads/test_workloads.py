"""Every workload on every target found here: it runs, its result is right, and a kernel that does nothing is caught."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from cuda_stand_in import build, lighter
from hotlap.core import work
from hotlap.core.errors import HotlapError, NotSupported
from hotlap.core.measure import targets, workloads
from hotlap.core.measure.workloads import operators
from hotlap.core.record import Case

SMALL: list[tuple[str, dict[str, Any]]] = [
    *(("stream", {"op": op, "dtype": dtype, "size": "1 MiB"}) for op in ("read", "write", "copy", "scale", "add", "triad") for dtype in ("fp32", "fp64")),
    ("stream", {"op": "triad", "size": 4096}), ("stream", {"op": "copy", "size": 1_234_567}), ("stream", {"size": "1 MiB", "cache": "cold"}),
    ("gather", {"pattern": "random", "size": "1 MiB"}), ("gather", {"pattern": "strided", "stride": 7, "size": "1 MiB"}),
    ("chase", {"size": 4096, "hops": 1000}), ("chase", {"size": "1 MiB", "hops": 5000}),
    *(("fma", {"dtype": dtype, "operations": 10**7}) for dtype in ("fp64", "fp32", "fp16", "bf16", "int32", "int8")),
    *(("intensity", {"fmas": fmas, "dtype": dtype, "size": "1 MiB"}) for fmas in (1, 7, 64) for dtype in ("fp32", "fp64")),
    *(("gemm", {"dtype": dtype, "m": 64, "n": 48, "k": 80}) for dtype in ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")),
    ("gemm", {"dtype": "fp32", "m": 32, "n": 32, "k": 32, "batch": 3}), ("gemm", {"dtype": "bf16", "m": 32, "n": 48, "k": 64, "layout": "nt", "epilogue": "bias_gelu"}),
    *(("gemm", {"dtype": dtype, "m": 128, "n": 256, "k": 256, **more}) for dtype, more in (("fp8", {"scaling": "row"}), ("fp8_block", {}), ("int4", {}))),
    *(("grouped_gemm", {"groups": 4, "m": 96, "n": 64, "k": 64, "dtype": dtype}) for dtype in ("bf16", "fp8")),
    ("moe", {"tokens": 64, "hidden": 64, "inter": 128, "topk": 2, "experts": 4}), ("rnn", {"steps": 8, "batch": 4, "inputs": 32, "hidden": 64}),
    *(("conv", {"op": op, "images": 2, "channels": 16, "height": 14, "width": 14, "filters": 32}) for op in ("forward", "input_gradient", "weight_gradient")),
    *(("attention", {"op": op, "batch": 2, "query": 64, "heads": 4, "kv_heads": 2, "head_dim": 64}) for op in ("forward", "backward")),
    *(("attention", {"batch": 2, "query": 1, "kv": 100, "heads": 4, "kv_heads": 2, "head_dim": 64, **more}) for more in ({}, {"page": 16}, {"kv_heads": 1, "latent": 96, "window": 40})),
    *(("launch", {"mode": mode}) for mode in ("single", "stream", "graph")), *(("sync", {"kind": kind}) for kind in ("synchronize", "event")),
    *(("atomic", {"contention": c, "repeats": 3}) for c in ("same", "spread")), ("barrier", {"repeats": 20}), ("barrier", {"repeats": 6, "group": 32}),
    *(("transfer", {"direction": d, "memory": m, "size": 100_003}) for d in ("h2d", "d2h", "both") for m in ("pinned", "pageable")),
    ("peer", {"size": 4096}),
    *(("rowwise", {"op": op, "dtype": dtype, "rows": 33, "columns": 77}) for op in ("softmax", "sum", "rmsnorm", "layernorm") for dtype in ("fp32", "bf16")),
    ("rowwise", {"op": "layernorm_backward", "rows": 33, "columns": 77}), ("rowwise", {"op": "quantise", "rows": 33, "columns": 77}),
    ("pointwise", {"op": "silu_mul", "elements": 1237}), ("pointwise", {"op": "rope", "elements": 1280}), ("embedding", {"tokens": 53, "columns": 7, "vocabulary": 31}),
    ("scatter", {"tokens": 53, "columns": 7, "vocabulary": 31}), ("embedding_bag", {"bags": 13, "lookups": 5, "columns": 7, "vocabulary": 31}),
    ("permute", {"tokens": 13, "columns": 7, "topk": 3}), ("transpose", {"rows": 13, "columns": 27}), ("topk", {"rows": 5, "columns": 301, "k": 17}),
    ("sampling", {"rows": 37, "columns": 131, "topk": 20}), ("routing", {"tokens": 57, "experts": 19, "topk": 3}), ("optimizer", {"elements": 1237}),
    ("pool", {"images": 2, "channels": 3, "height": 13, "width": 11}), ("fft", {"batch": 3, "n": 32}), ("spmv", {"rows": 57, "columns": 43, "nonzeros": 5}),
    ("stencil", {"width": 13, "height": 7, "depth": 5}), ("montecarlo", {"paths": 1237}), ("reduce", {"elements": 1237}), ("scan", {"elements": 1237}),
    ("sort", {"elements": 1237}), ("histogram", {"elements": 1237, "bins": 37}),
]
MAY_BE_MISSING = {"fp16", "bf16", "fp8", "fp8_block", "tf32", "int8", "int4", "graph", "peer"}


BY_NAME = [("gemm", {"dtype": "bf16", "m": 256, "n": 128, "k": 192}, "triton"), ("rowwise", {"op": "softmax", "rows": 33, "columns": 77}, "triton"), ("rowwise", {"op": "rmsnorm", "rows": 33, "columns": 77}, "triton"),
    *(("attention", {"op": op, "batch": 2, "query": 64, "heads": 4, "kv_heads": 4, "head_dim": 64}, name) for op in ("forward", "backward") for name in ("flash", "efficient", "cudnn", "math")),
    *(("attention", {"query": 64, "heads": 4, "kv_heads": 4, "head_dim": 64, **more}, "flash") for more in ({"window": 20}, {"kv": 100}, {"window": 20, "mask": "full"})),
    *(("attention", {"query": 64, "heads": 4, "kv_heads": 2, "head_dim": 64, **more}, "flex") for more in ({"window": 20}, {"kv": 100, "page": 16}, {"window": 20, "mask": "full"})),
    *(("grouped_gemm", {"groups": 4, "m": 96, "n": 64, "k": 64}, name) for name in ("grouped", "loop"))]  # fmt: skip


@functools.cache
def _target(name: str) -> Any:
    try:
        spec = targets.parse(name)
        return targets.open_device(spec, targets.find(spec)[0])
    except HotlapError as error:
        return str(error)


@pytest.fixture(scope="module", params=["opencl", "torch:cpu", "cuda", "torch:cuda", "torch:cuda as ROCm"])
def target(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Where PyTorch sees no GPU, the stand-in for one."""
    name, _, looks = request.param.partition(" as ")
    if name == "cuda" and not build.missing():
        with build.on(units=1), pytest.MonkeyPatch.context() as patch:
            lighter.use(patch)
            yield _target(name)
        return
    opened = _target(name)
    if name != "torch:cuda" or (not looks and not isinstance(opened, str)):
        if isinstance(opened, str):
            pytest.skip(f"{request.param}: {opened}")
        yield opened
        return
    pytest.importorskip("torch", reason="PyTorch is not installed")
    import torch_stand_in

    with torch_stand_in.standing_in(torch_stand_in.LOOKS[looks or "CUDA"]):
        spec = targets.parse(name)
        yield targets.open_device(spec, targets.find(spec)[0])


def _stands_in(target: Any) -> bool:
    return target.dialect == "torch" and hasattr(target.library.cuda, "hotlap_stand_in")


def _lacks(target: Any, reason: Exception) -> bool:
    """Whether an operator is refused for what the stand-in lacks: that is no reason to skip its test."""
    return _stands_in(target) and "PyTorch refuses" in str(reason)


def _case(name: str, given: dict[str, Any]) -> Case:
    return Case(workload=name, params=work.find(name).parse(given))


@pytest.mark.slow("compiles and checks every workload on OpenCL")
@pytest.mark.parametrize(("name", "given"), SMALL, ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())))
def test_the_result_is_right(target: Any, name: str, given: dict[str, Any]) -> None:
    words = {str(v) for v in given.values()} | {name}
    may_be_missing = bool(words & MAY_BE_MISSING) or target.dialect == "torch" or name in ("gemm", *operators.FAMILIES)
    try:
        prepared = workloads.prepare(target, _case(name, given), seed=5)
    except NotSupported as reason:
        if not may_be_missing or _lacks(target, reason):
            raise
        pytest.skip(f"not run: {reason}")
    timing = target.time(prepared.enqueue, prepared.multiple, prepared.graph)
    assert timing.wall_s > 0
    check = prepared.check()
    assert check.passed, check


@pytest.mark.parametrize(("name", "given", "implementation"), BY_NAME, ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())))
def test_an_implementation_that_is_there_is_right(target: Any, name: str, given: dict[str, Any], implementation: str) -> None:
    if implementation == "flex" and target.device.kind == "cpu":
        pytest.skip("a C++ compiler takes a minute for it")
    if implementation == "flex" and _stands_in(target):
        pytest.skip("flex attention is compiled for the GPU, and nothing stands in for that compiler")
    try:
        prepared = workloads.prepare(target, Case(workload=name, params=work.find(name).parse(given), implementation=implementation), seed=5)
    except NotSupported as reason:
        if _lacks(target, reason):
            raise
        pytest.skip(f"not run: {reason}")
    prepared.enqueue(1)
    check = prepared.check()
    assert check.passed, check


ELIDED = {
    "stream": "stream_triad", "gather": "gather_random", "chase": "chase", "fma": "fma_chains", "intensity": "intensity", "launch": "counted",
    "atomic": "atomic", "barrier": "barrier_ring",
}


@pytest.mark.slow("compiles and checks on OpenCL")
@pytest.mark.parametrize("name", ELIDED)
def test_a_kernel_that_does_nothing_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that a compiler or driver leaves out must never count as done."""
    opened = _target("opencl")
    if isinstance(opened, str):
        pytest.skip(opened)
    real = type(opened).kernel

    def lazy(self: Any, source: str, kernel: str, defines: Any = ()) -> Any:
        return (lambda *_: None) if kernel == ELIDED[name] else real(self, source, kernel, defines)

    monkeypatch.setattr(type(opened), "kernel", lazy)
    if name == "fma":  # its trials need a time: give them one
        monkeypatch.setattr("hotlap.core.measure.workloads.arithmetic._Chains.timed_s", lambda self, loops: 1.0)
    given = {"stream": {"size": "1 MiB"}, "gather": {"size": "1 MiB"}, "chase": {"size": "64 KiB", "hops": 1001}}.get(name, {})
    prepared = workloads.prepare(opened, _case(name, given), seed=5)
    prepared.enqueue(1)
    assert not prepared.check().passed


def test_a_read_that_skips_elements_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = _target("opencl")
    if isinstance(opened, str):
        pytest.skip(opened)
    original = workloads.source("memory")
    monkeypatch.setattr("hotlap.core.measure.workloads.stream.source", lambda name, *_: original.replace("s3 = s3 + b[i + 3 * STEP];", ""))
    prepared = workloads.prepare(opened, _case("stream", {"op": "read", "size": "1 MiB"}), seed=5)
    assert not prepared.check().passed
