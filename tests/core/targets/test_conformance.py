"""One suite for every target found: what `targets.base` promises holds for all of them, or is refused with a reason."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cuda_stand_in import build
from hotlap.core import work
from hotlap.core.errors import HotlapError, NotSupported
from hotlap.core.measure import targets
from hotlap.core.measure.targets.base import Buffer, Enqueue, Target, Where
from hotlap.core.record import Case, Device

WHERES: tuple[Where, ...] = ("device", "pinned", "pageable")
C_TYPES = {"fp64": "double", "fp32": "float", "fp16": "half", "bf16": "bf16", "int32": "int", "int8": "uchar"}
NUMPY = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16, "int32": np.int32, "int8": np.uint8}
FEATURES = {*C_TYPES, "tf32", "fp8", "graph", "events", "ahead", "pinned", "peer", "two_queues"}
GROUP = 64

KERNELS = """
KERNEL void scale(GLOBAL const float *a, GLOBAL float *b, const float factor, const uint n) {
    if (ID < n) b[ID] = factor * a[ID];
}
KERNEL void widths(GLOBAL ulong *out, const uchar a, const uint b, const ulong c, const float d, const int e) {
    out[0] = a; out[1] = b; out[2] = c; out[3] = (ulong)d; out[4] = (ulong)(e + 8);
}
KERNEL void count(GLOBAL uint *cell) { if (ID == 0) cell[0] += 1; }
KERNEL void total(GLOBAL uint *cell, const uint value) { ATOMIC_ADD(cell, value); }
KERNEL void reverse(GLOBAL uint *out, GLOBAL const uint *in) {
    LOCAL_ARRAY(uint, local_values, 64);
    local_values[LID] = in[ID];
    BARRIER;
    out[ID] = local_values[GROUP_SIZE - 1 - LID] + (uint)(ITEMS - ITEMS);
}
"""
ARITHMETIC = """
DEVICE T both(T a, T b) { return a * b + a; }
KERNEL void arithmetic(GLOBAL T *RESTRICT out, GLOBAL const T *RESTRICT in, const S s) {
    const T x = SPLAT(T, s), one = SPLAT(T, (S)1);
    out[2 * ID] = MAD(in[ID], x, one);
    FENCE;
    out[2 * ID + 1] = both(in[ID], x);
}
"""

WGSL_KERNELS = """
var<workgroup> local_values: array<u32, 64>;
KERNEL scale(a: read f32, b: write f32, factor: f32, n: u32) { if (ID < n) { b[ID] = factor * a[ID]; } }
KERNEL widths(out: write u32, a: u32, b: u32, c: u32, d: f32, e: i32) {
    out[0] = a; out[2] = b; out[4] = c; out[6] = u32(d); out[8] = u32(e + 8);
}
KERNEL count(cell: write u32) { if (ID == 0u) { cell[0] += 1u; } }
KERNEL total(cell: atomic u32, value: u32) { atomicAdd(&cell[0], value); }
KERNEL reverse(out: write u32, data: read u32) {
    local_values[LID] = data[ID];
    workgroupBarrier();
    out[ID] = local_values[GROUP_SIZE - 1u - LID] + (ITEMS - ITEMS);
}
"""
WGSL_ARITHMETIC = """
fn both(a: T, b: T) -> T { return a * b + a; }
KERNEL arithmetic(out: write T, data: read T, s: S) {
    let x = T(s);
    let one = T(S(1));
    out[2u * ID] = data[ID] * x + one;
    storageBarrier();
    out[2u * ID + 1u] = both(data[ID], x);
}
"""
IN_WGSL = {KERNELS: WGSL_KERNELS, ARITHMETIC: WGSL_ARITHMETIC}
DIALECTS = ("c", "wgsl")  # of targets that have kernels


def _found() -> list[Any]:
    with build.if_possible():
        devices, missing = targets.survey()
    params = [pytest.param((targets.TargetSpec(d.target), d), id=d.selector) for d in devices if d.target != "host"]
    params += [pytest.param(None, id="host", marks=pytest.mark.skip(reason="it has no memory and no kernels; test_targets_host.py"))]
    if any(d.target == "torch" and d.kind != "cpu" for d in devices):
        spec = targets.TargetSpec("torch", "cpu")
        params += [pytest.param((spec, d), id="torch:cpu") for d in targets.find(spec)]
    params += [pytest.param(None, id=name, marks=pytest.mark.skip(reason=f"{why} {build.missing() if name == 'cuda' else ''}".strip())) for name, why in missing.items()]
    params += [pytest.param(name, id=f"torch:cuda stand-in {name}") for name in ("CUDA", "ROCm")]
    return [*params, pytest.param((targets.TargetSpec("simulated", "h200-sxm"), None), id="simulated:h200-sxm")]


@pytest.fixture(scope="module", params=_found())
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    with contextlib.ExitStack() as stand_in:
        if isinstance(request.param, str):
            pytest.importorskip("torch", reason="PyTorch is not installed")
            import torch_stand_in

            stand_in.enter_context(torch_stand_in.standing_in(torch_stand_in.LOOKS[request.param]))
        spec, device = (targets.TargetSpec("torch", "cuda"), None) if isinstance(request.param, str) else request.param
        if spec.name == "cuda":
            stand_in.enter_context(build.if_possible())
        yield targets.open_device(spec, device or targets.find(spec)[0])


def _buffer(target: Target, data: Any, where: Where = "device") -> Buffer:
    """Only device and pageable memory are a must."""
    try:
        return target.buffer(data, where)
    except NotSupported as reason:
        if where != "pinned" or "pinned" in target.features:
            raise
        pytest.skip(str(reason))


def _kernel(target: Target, name: str, source: str = KERNELS, defines: tuple[str, ...] = ()) -> Any:
    if target.dialect not in DIALECTS:
        with pytest.raises(NotSupported):
            target.kernel(source, name, defines)
        pytest.skip(f"targets of the dialect {target.dialect} have no kernels of their own")
    return target.kernel(IN_WGSL[source] if target.dialect == "wgsl" else source, name, defines)


def _work(target: Target) -> tuple[Enqueue, Buffer | None]:
    """Calls that each add 1 to the first element of a buffer, with that buffer; simulated: a case of the model, with none."""
    if target.dialect == "model":
        stream = work.find("stream")
        return target.library.prepare(Case(workload="stream", params=stream.parse({"op": "copy", "size": 2**24}))).enqueue, None
    cell = target.buffer(np.zeros(4096, np.uint32 if target.dialect in DIALECTS else np.int32))
    call = _adder(target, cell)

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            call()

    return enqueue, cell


def _adder(target: Target, cell: Buffer) -> Any:
    if target.dialect == "torch":
        return lambda: cell.handle.add_(1)
    kernel = _kernel(target, "count")
    return lambda: kernel(GROUP, GROUP, cell)


def test_a_device_says_who_it_is(target: Target) -> None:
    device: Device = target.device
    assert device.name
    assert device.key
    assert device.target in targets.TARGETS
    assert device.memory_bytes is None or device.memory_bytes > 0
    assert device.compute_units is None or device.compute_units > 0
    assert device.clock_max_hz is None or 1e7 < device.clock_max_hz < 1e11
    assert (target.library is not None) == (target.dialect not in DIALECTS)


@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "uint32", "uint64", "float16", "float32", "float64"])
@pytest.mark.parametrize("count", [1, 3, 1000, 65537])
def test_a_buffer_gives_back_what_it_was_given(target: Target, where: Where, dtype: str, count: int) -> None:
    data = np.random.default_rng(count).integers(0, 100, count).astype(dtype)
    buffer = _buffer(target, data, where)
    back = target.read(buffer)
    assert (buffer.nbytes, buffer.where, buffer.dtype) == (data.nbytes, where, data.dtype)
    assert back.dtype == data.dtype
    assert np.array_equal(back, data)


@pytest.mark.parametrize("where", WHERES)
def test_memory_of_a_size_holds_zeros(target: Target, where: Where) -> None:
    buffer = _buffer(target, 100_001, where)
    assert (buffer.nbytes, buffer.dtype) == (100_001, np.dtype(np.uint8))
    assert not target.read(buffer).any()


def test_a_buffer_does_not_share_the_callers_array(target: Target) -> None:
    data = np.arange(1000, dtype=np.float32)
    for where in ("device", "pageable"):
        given = data.copy()
        buffer = target.buffer(given, where)
        given[:] = -1
        assert np.array_equal(target.read(buffer), data)


@pytest.mark.parametrize("queue", [0, 1])
@pytest.mark.parametrize(("to", "source"), [(a, b) for a in WHERES for b in WHERES])
def test_a_copy_carries_every_byte(target: Target, to: Where, source: Where, queue: int) -> None:
    data = np.random.default_rng(7).integers(0, 256, 100_003, np.uint8)
    destination, origin = _buffer(target, data.nbytes, to), _buffer(target, data, source)
    target.copy(destination, origin, queue)
    target.sync()
    assert np.array_equal(target.read(destination), data)


def test_a_copy_is_as_long_as_the_smaller_one(target: Target) -> None:
    data = np.arange(1, 101, dtype=np.float32)
    wide, narrow = target.buffer(np.zeros(200, np.float32)), target.buffer(np.zeros(50, np.float32), "pageable")
    target.copy(wide, target.buffer(data))
    target.copy(narrow, wide)
    target.sync()
    assert np.array_equal(target.read(wide)[:100], data)
    assert not target.read(wide)[100:].any()
    assert np.array_equal(target.read(narrow), data[:50])


def test_two_queues_carry_both_directions_in_one_batch(target: Target) -> None:
    data = np.random.default_rng(8).integers(0, 256, 1 << 20, np.uint8)
    where: Where = "pinned" if "pinned" in target.features else "pageable"
    outgoing, stored = target.buffer(data, where), target.buffer(data[::-1].copy())
    inbound, incoming = target.buffer(data.nbytes), target.buffer(data.nbytes, where)

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            target.copy(inbound, outgoing)
            target.copy(incoming, stored, queue=1)

    timing = target.time(enqueue, 3)
    assert timing.wall_s > 0
    assert np.array_equal(target.read(inbound), data)
    assert np.array_equal(target.read(incoming), data[::-1])


@pytest.mark.parametrize("where", WHERES)
def test_too_large_a_buffer_is_refused(target: Target, where: Where) -> None:
    if where == "pinned" and "pinned" not in target.features:
        pytest.skip("no pinned memory here")
    with pytest.raises(NotSupported):
        target.buffer(2**60, where)
    if where == "device" and target.device.memory_bytes:
        with pytest.raises(NotSupported):
            target.buffer(2 * target.device.memory_bytes)


def test_the_target_works_on_after_a_refusal(target: Target) -> None:
    with pytest.raises(NotSupported):
        target.buffer(2**60)
    assert np.array_equal(target.read(target.buffer(np.arange(10))), np.arange(10))


@pytest.mark.parametrize("n", [1, 63, 64, 1000])
def test_a_kernel_runs_with_the_prelude(target: Target, n: int) -> None:
    kernel = _kernel(target, "scale")
    a = np.arange(n, dtype=np.float32)
    out = target.buffer(np.full(n, -1, np.float32))
    kernel(-(-n // GROUP) * GROUP, GROUP, target.buffer(a), out, np.float32(2.5), np.uint32(n))
    assert np.array_equal(target.read(out), 2.5 * a)


def test_scalars_have_the_width_they_are_given_with(target: Target) -> None:
    kernel = _kernel(target, "widths")
    out, large = target.buffer(np.zeros(5, np.uint64)), 2**63 + 5
    if target.dialect == "wgsl":
        with pytest.raises(NotSupported, match="64 bits"):
            kernel(1, 1, out, np.uint8(200), np.uint32(4_000_000_000), np.uint64(large), np.float32(3.75), np.int32(-7))
        large = 2**31 + 5
    kernel(1, 1, out, np.uint8(200), np.uint32(4_000_000_000), np.uint64(large), np.float32(3.75), np.int32(-7))
    assert target.read(out).tolist() == [200, 4_000_000_000, large, 3, 1]
    kernel(1, 1, out, np.uint8(1), np.uint32(2), np.uint64(3), np.float32(4), np.int32(5))
    assert target.read(out).tolist() == [1, 2, 3, 4, 13]


def test_groups_share_memory_and_wait_for_each_other(target: Target) -> None:
    kernel = _kernel(target, "reverse")
    data = np.arange(4 * GROUP, dtype=np.uint32)
    out = target.buffer(np.zeros_like(data))
    kernel(len(data), GROUP, out, target.buffer(data))
    assert np.array_equal(target.read(out).reshape(4, GROUP), data.reshape(4, GROUP)[:, ::-1])


def test_atomic_additions_lose_none(target: Target) -> None:
    kernel = _kernel(target, "total")
    cell = target.buffer(np.zeros(1, np.uint32))
    kernel(100 * GROUP, GROUP, cell, np.uint32(3))
    assert target.read(cell)[0] == 300 * GROUP


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("dtype", C_TYPES)
def test_a_claimed_type_computes(target: Target, dtype: str, width: int) -> None:
    """Whole numbers below 2^8, exact in every type: s·in + 1 by MAD, in·s + in by operators."""
    if dtype not in target.features:
        pytest.skip(f"{dtype} is not claimed")
    if target.device.target == "cuda" and (dtype, width) == ("fp64", 4):
        pytest.skip("CUDA has no vector of four doubles")
    scalar = C_TYPES[dtype]
    vector = scalar if width == 1 else f"VEC({scalar},{width})"
    kernel = _kernel(target, "arithmetic", ARITHMETIC, (f"S={scalar}", f"T={vector}"))
    data = np.arange(GROUP * width) % 8
    out = target.buffer(_encoded(np.zeros(2 * len(data)), dtype))
    kernel(GROUP, GROUP, out, target.buffer(_encoded(data, dtype)), _encoded(np.array([5]), dtype)[0])
    got = _decoded(target.read(out), dtype).reshape(GROUP, 2, width)
    assert np.array_equal(got[:, 0].ravel(), 5 * data + 1)
    assert np.array_equal(got[:, 1].ravel(), 6 * data)


def _encoded(values: Any, dtype: str) -> Any:
    """bf16 is the upper half of an fp32; NumPy has no type for it."""
    if dtype == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(NUMPY[dtype])


def _decoded(values: Any, dtype: str) -> Any:
    return (values.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else values


@pytest.mark.parametrize("dtype", [*C_TYPES, "tf32", "fp8"])
def test_a_claimed_type_multiplies_matrices(target: Target, dtype: str) -> None:
    """By the library (int32: element by element), on whole numbers that every type holds exactly."""
    if target.dialect != "torch" or dtype not in target.features:
        pytest.skip(f"{dtype} is not claimed, or there is no library of matrix products")
    torch, place = target.library, target.device.facts["place"]
    whole = np.arange(32 * 32).reshape(32, 32) % 4
    kinds = {"fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}
    a = torch.from_numpy(whole.astype(np.int32)).to(place).to(getattr(torch, kinds.get(dtype, dtype)))
    if dtype == "int32":
        assert np.array_equal((a * a).cpu().numpy(), whole * whole)
        return
    if dtype == "int8":
        product = torch._int_mm(a, a)
    elif dtype == "fp8":
        one, columns = torch.ones((), device=place), a.t().contiguous().t()
        product = torch._scaled_mm(a, columns, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    else:
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"  # PyTorch starts without
        product = a @ a
        torch.backends.cuda.matmul.allow_tf32 = False
    rounding = 2.0**-8 if dtype in ("bf16", "fp8") else 0.0
    assert np.allclose(product.cpu().double().numpy(), whole @ whole, rtol=rounding)


@pytest.mark.parametrize(
    ("source", "name", "says"),
    [
        pytest.param("KERNEL void broken(GLOBAL float *a) { a[0] = nothing; }", "broken", "nothing", id="wrong"),
        pytest.param(KERNELS, "absent", "absent", id="absent"),
    ],
)
def test_a_kernel_that_does_not_compile_is_refused_in_one_line(target: Target, source: str, name: str, says: str) -> None:
    broken_in_wgsl = "KERNEL broken(a: write f32) { a[0] = nothing; }"
    with pytest.raises(NotSupported) as refused:
        target.kernel(IN_WGSL.get(source, broken_in_wgsl) if target.dialect == "wgsl" else source, name)
    if target.dialect not in DIALECTS:
        pytest.skip(f"targets of the dialect {target.dialect} have no kernels of their own")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_features_are_known_words(target: Target) -> None:
    assert target.features <= FEATURES
    assert "fp32" in target.features


def test_more_calls_take_longer(target: Target) -> None:
    enqueue, _ = _work(target)
    target.time(enqueue, 5)
    one = min(target.time(enqueue, 1).wall_s for _ in range(3))
    many = min(target.time(enqueue, 2000).wall_s for _ in range(3))
    assert 0 < one < many


@pytest.mark.parametrize("calls", [0, 1, 100])
def test_the_devices_time_fits_into_the_walls(target: Target, calls: int) -> None:
    enqueue, _ = _work(target)
    target.time(enqueue, 3)
    for _ in range(3):
        timing = target.time(enqueue, calls)
        assert timing.wall_s >= 0
        if timing.device_s is not None:
            assert "events" in target.features
            assert 0 <= timing.device_s <= timing.wall_s * 1.05 + target.timer_resolution_s


def test_time_runs_exactly_the_calls_asked_for(target: Target) -> None:
    enqueue, cell = _work(target)
    if cell is None:
        pytest.skip("a simulated GPU computes nothing")
    for calls in (0, 1, 7, 100):
        target.time(enqueue, calls)
    assert target.read(cell)[0] == 108


def test_a_graph_is_replayed_or_refused(target: Target) -> None:
    enqueue, cell = _work(target)
    if "graph" not in target.features:
        with pytest.raises(NotSupported):
            target.time(enqueue, 10, graph=True)
        return
    timings = [target.time(enqueue, calls, graph=True) for calls in (10, 10, 0, 1)]
    assert all(t.wall_s >= 0 for t in timings)
    if cell is not None:
        assert target.read(cell)[0] == 21
    target.time(enqueue, 4)
    if cell is not None:
        assert target.read(cell)[0] == 25


def test_a_failing_batch_leaves_the_target_usable(target: Target) -> None:
    def fails(calls: int) -> None:
        raise NotSupported("on purpose")

    for graph in (False, *([True] if "graph" in target.features and target.dialect != "model" else [])):
        with pytest.raises(NotSupported):
            target.time(fails, 1, graph=graph)
    enqueue, cell = _work(target)
    target.time(enqueue, 3)
    if cell is not None:
        assert target.read(cell)[0] == 3


def test_the_timer_has_a_resolution(target: Target) -> None:
    assert 0 < target.timer_resolution_s < 1e-3


def test_waiting_twice_is_as_good_as_once(target: Target) -> None:
    data = np.arange(1000, dtype=np.uint32)
    there = target.buffer(np.zeros_like(data))
    target.copy(there, target.buffer(data, "pageable"))
    for event in (True, False, False, True):
        target.sync(event) if event else target.sync()
    assert np.array_equal(target.read(there), data)


def test_the_clock_never_goes_back(target: Target) -> None:
    times = [target.clock.now() for _ in range(1000)]
    before = target.clock.now()
    target.clock.sleep(0.002)
    assert times == sorted(times)
    assert target.clock.now() >= before + 0.001


def test_the_clock_keeps_appointments(target: Target) -> None:
    calls: list[float] = []
    stop = target.clock.every(0.005, lambda: calls.append(target.clock.now()))
    for _ in range(200):
        target.clock.sleep(0.01)
        if len(calls) >= 3:
            break
    stop()
    assert len(calls) >= 3
    assert calls == sorted(calls)
    kept = len(calls)
    target.clock.sleep(0.02)
    assert len(calls) == kept


def test_unknown_options_are_refused(target: Target) -> None:
    spec = targets.TargetSpec(target.device.target, "h200-sxm" if target.dialect == "model" else "", {"no_such_option": "1"})
    with pytest.raises(HotlapError, match="no_such_option"):
        targets.find(spec)
