"""What of the CUDA target needs no GPU: the prelude and every kernel through the real NVRTC, and clear answers without a driver."""

from __future__ import annotations

import ctypes
import importlib.resources
import re
import struct
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

from hotlap.core.errors import InputError, NotSupported, Unavailable
from hotlap.core.measure.targets import cuda, cuda_driver
from hotlap.core.measure.targets.base import Buffer, mig_profile
from hotlap.core.measure.targets.cuda_kernel import Parameters
from hotlap.core.measure.workloads import source

pytestmark = pytest.mark.slow("compiles every kernel by NVRTC")

try:
    from hotlap.core.measure.targets import cuda_compile

    cuda_compile.version()
except Unavailable as missing:
    pytest.skip(f"NVRTC: {missing}", allow_module_level=True)

CHIPS = ("sm_75", "sm_80", "sm_90", "sm_100")
KERNELS = importlib.resources.files("hotlap.core.measure.workloads") / "kernels"
TYPES = {  # scalar: its vectors
    "float": ("float", "float2", "float4"), "double": ("double", "double2"), "half": ("half", "half2", "half4"),
    "bf16": ("bf16", "bf162", "bf164"), "int": ("int", "int2", "int4"), "uint": ("uint", "uint2", "uint4"),
    "uchar": ("uchar", "uchar2", "uchar4"), "signed char": ("char", "char2", "char4"),
}
EVERYTHING = """
KERNEL void everything(GLOBAL T *RESTRICT out, GLOBAL const T *RESTRICT in, const S s) {
    LOCAL_ARRAY(T, shared, 32);
    const T x = SPLAT(T, s), zero = SPLAT(T, (S)0);
    shared[LID % 32] = in[ID];
    BARRIER;
    out[ID] = MAD(shared[GROUP_SIZE - 1 - LID], x, zero) + x * in[ID % ITEMS];
    FENCE;
}
"""


@pytest.fixture(autouse=True)
def known() -> None:
    absent = [chip for chip in CHIPS if int(chip[3:]) not in cuda_compile.architectures()]
    if absent:
        pytest.skip(f"NVRTC {cuda_compile.version()} does not know {', '.join(absent)}")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("file", ["memory.c", "compute.c", "latency.c"])
def test_every_kernel_of_the_workloads_becomes_machine_code(chip: str, file: str) -> None:
    code = cuda_compile.compile_source(source(file[:-2]), file[:-2], chip, ("S=float", "T=VEC(float,4)", "CHAINS=8"))
    assert code.startswith(b"\x7fELF")
    for name in re.findall(r"^KERNEL void (\w+)\(", (KERNELS / file).read_text(), re.MULTILINE):
        assert name.encode() in code


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("scalar", TYPES)
def test_the_prelude_has_arithmetic_for_every_type(chip: str, scalar: str) -> None:
    if (scalar, chip) == ("bf16", "sm_75"):
        pytest.skip("chips before compute capability 8.0 have no bf16")
    for vector in TYPES[scalar]:
        code = cuda_compile.compile_source(EVERYTHING, "everything", chip, (f"S={scalar}", f"T={vector}"))
        assert code.startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("scalar", "vector", "instruction", "parts"),
    [
        ("float", "float", "fma.rn.f32", 1), ("float", "float2", "fma.rn.f32", 2), ("double", "double", "fma.rn.f64", 1),
        ("half", "half", "fma.rn.f16", 1), ("half", "half2", "fma.rn.f16x2", 1), ("half", "half4", "fma.rn.f16x2", 2),
        ("bf16", "bf162", "fma.rn.bf16x2", 1), ("uint", "uint", "mad.lo.s32", 1), ("uint", "uint4", "mad.lo.s32", 4),
    ],
)
def test_a_multiply_add_is_one_instruction(scalar: str, vector: str, instruction: str, parts: int) -> None:
    source = "KERNEL void f(GLOBAL T *out, GLOBAL const T *in) { out[0] = MAD(in[0], in[1], in[2]); }"
    ptx = cuda_compile.compile_source(source, "f", "compute_90", (f"S={scalar}", f"T={vector}")).decode()
    counted = Counter(re.findall(r"^\s*([a-z0-9.]+)\s", ptx, re.MULTILINE))
    assert counted[instruction] == parts
    assert not {name for name in counted if name.startswith(("mul.", "add.f", "add.rn", "add.s32"))}


def test_passes_over_memory_are_not_folded() -> None:
    """The loop over passes keeps its loads and stores inside: two nested loops, so at least two backward branches."""
    memory = source("memory")
    for op, loads in (("write", 0), ("copy", 1), ("add", 2)):
        ptx = cuda_compile.compile_source(memory, "m", "compute_90", ("S=float", "T=float4")).decode()
        body = ptx[ptx.index(f".entry stream_{op}(") :].split("\n}", 1)[0]
        labels = {at[1]: at.start() for at in re.finditer(r"^(\$\w+):", body, re.MULTILINE)}
        backward = [at for at in re.finditer(r"\bbra(?:\.uni)?\s+(\$\w+)", body) if labels[at[1]] < at.start()]
        assert len(backward) >= 2
        assert len(re.findall(r"\bst\.global", body)) >= 1
        assert len(re.findall(r"\bld\.global", body)) >= loads


def test_definitions_do_not_reach_nvrtcs_own_headers() -> None:
    source = "KERNEL void f(GLOBAL float *a) { a[0] = T + S + FLAG; }"
    assert cuda_compile.compile_source(source, "f", "sm_90", ("T=1", "S=2", "FLAG")).startswith(b"\x7fELF")


def test_an_error_names_the_line_of_the_source() -> None:
    with pytest.raises(NotSupported, match=r"'f' does not compile: f\.cu\(2\): error: .*nothing") as refused:
        cuda_compile.compile_source("\nKERNEL void f(GLOBAL float *a) { a[0] = nothing; }", "f", "sm_90")
    assert "\n" not in str(refused.value)


def test_chips_unknown_to_nvrtc_get_the_newest_ptx_or_a_reason() -> None:
    newest = cuda_compile.architectures()[-1]
    assert cuda_compile.architecture(90) == "sm_90"
    assert cuda_compile.architecture(newest + 1) == f"compute_{newest}"
    assert b".version" in cuda_compile.compile_source("KERNEL void f() {}", "f", f"compute_{newest}")
    with pytest.raises(NotSupported, match="compute capability 2"):
        cuda_compile.architecture(20)


def test_parameters_lie_where_the_driver_looks_for_them() -> None:
    class Handle:
        address = 0x7F00_1234_5678

    buffer = Buffer(Handle(), 4, "device", np.dtype(np.uint8))
    parameters = Parameters(5)
    for factor in (2.5, -0.0):
        parameters.set((buffer, np.float32(factor), np.uint64(2**63 + 1), np.uint8(200), np.float16(0.5)))
        pointers = (ctypes.c_void_p * 5).from_address(parameters.address)
        raw = [ctypes.string_at(pointer, size) for pointer, size in zip(pointers, (8, 4, 8, 1, 2), strict=True)]
        assert raw == [
            struct.pack("<Q", 0x7F00_1234_5678), struct.pack("<f", factor), struct.pack("<Q", 2**63 + 1), b"\xc8", struct.pack("<e", 0.5),
        ]
    with pytest.raises(TypeError, match="parameter 0 has 16 bytes"):
        parameters.set((np.complex128(1),))


def test_a_machine_without_a_gpu_is_told_what_is_missing() -> None:
    try:
        devices = cuda.find()
    except Unavailable:
        with pytest.raises(Unavailable, match=r"(driver|device).+; (install NVIDIA's driver|check .*nvidia-smi|the kernel driver)"):
            cuda.find()
    else:
        assert all(device.uuid.startswith("GPU-") for device in devices)


def test_without_the_bindings_the_remedy_is_a_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda_driver.driver.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.delitem(sys.modules, "cuda.bindings.driver", raising=False)
    with pytest.raises(Unavailable, match=r"pip install cuda-bindings nvidia-cuda-nvrtc nvidia-ml-py"):
        cuda_driver.driver()


@pytest.mark.parametrize("given", [{"part": "h200"}, {"options": {"stream": "2"}}])
def test_parts_and_options_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"cuda (has no part 'h200'|takes no options, not 'stream')"):
        cuda.find(**given)


def test_errors_of_the_driver_become_the_right_kind() -> None:
    from cuda.bindings.driver import CUresult

    assert isinstance(cuda_driver.failure(CUresult.CUDA_ERROR_OUT_OF_MEMORY, "allocate"), NotSupported)
    lost = cuda_driver.failure(CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, "finish the queue")
    assert not isinstance(lost, NotSupported)
    assert str(lost).startswith("CUDA could not finish the queue: CUDA_ERROR_ILLEGAL_ADDRESS; a kernel failed: ")
    assert cuda_driver.check((CUresult.CUDA_SUCCESS, 5), "count") == 5


def test_a_uuid_is_spelt_as_nvml_spells_it() -> None:
    assert cuda_driver._uuid(bytes(range(16))) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert cuda_driver._uuid(bytes(range(16)), "1g.10gb") == "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert cuda_driver._uuid(bytes(16)) == ""


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "1g.5gb"), ("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", "1c.3g.40gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "1g.10gb+me"), ("NVIDIA H100 80GB HBM3", ""), ("MIGHTY 1g.5gb", ""),
    ],
)
def test_a_slice_is_recognised_by_the_driver_s_name(name: str, profile: str) -> None:
    assert mig_profile(name) == profile
