"""Limits: bounds against published measurements and by hand, what is left unknown, and how bounds must move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import examples
from hotlap.core import plan, work
from hotlap.core.model import cpu, machines
from hotlap.core.model.limits import dram_bytes, limit, spec_for
from hotlap.core.record import Case, Cpu, Device, Limit, Machine

HOST = Cpu(
    name="AMD EPYC", vendor="AuthenticAMD", family=25, model=17, cores=2, flags=["avx2", "fma", "avx512f", "avx512_bf16"],
    cache_bytes={"l1d": 32768, "l2": 2**20, "l3": 2**25},
)
PROCESSOR = cpu.spec(HOST, 3.7e9)


def of(workload: str, machine: str, **params: object) -> Limit:
    return limit(plan.case(workload, params), machines.load(machine))


def rate(workload: str, machine: str, **params: object) -> float:
    """The bound as the workload's metric."""
    case = plan.case(workload, params)
    return work.find(workload).value(limit(case, machines.load(machine)).bound_s, case.params)


# ---------------------------------------------------------------- against published measurements


@pytest.mark.parametrize(
    ("machine", "measured_tflops"),
    [("h100-sxm", 909), ("h200-sxm", 904), ("a100-sxm-80gb", 290), ("l40s", 279), ("b200", 1920), ("gb200", 2002), ("rtx-pro-6000", 451)],
)
def test_bf16_products_measured_by_aiconfigurator_are_below_the_bound(machine: str, measured_tflops: float) -> None:
    bound = rate("gemm", machine, dtype="bf16", m=8192, n=8192, k=8192)
    assert measured_tflops * 1e12 < bound < 1.7 * measured_tflops * 1e12


def test_streaming_measured_on_h200_is_below_its_bound() -> None:
    assert 4203e9 < 4.8e12 <= rate("stream", "h200-sxm", op="copy", size="32 GiB") < 4.81e12


def test_vector_peak_of_h100_is_the_published_one_at_the_highest_clock() -> None:
    assert rate("fma", "h100-sxm", dtype="fp32") == pytest.approx(66.9e12, rel=1e-3)


# ---------------------------------------------------------------- by hand


def test_beyond_the_cache_all_but_what_it_holds_must_cross_the_memory_interface() -> None:
    size, held = 2**30, 50 * 2**20
    asked = of("stream", "h200-sxm", op="copy", size=size)
    assert asked.kind == "bound"
    assert asked.limiter == "memory"
    assert asked.bound_s == pytest.approx(size * (1 - held / size) / 4.8e12)


def test_within_the_cache_no_bound_is_published() -> None:
    asked = of("stream", "h200-sxm", op="copy", size="32 MiB")
    assert (asked.kind, asked.bound_s) == ("unknown", None)
    assert "32 MiB may stay in NVIDIA H200 SXM 141 GB's cache of 50 MiB" in asked.reason


def test_cold_reads_must_all_come_from_memory_and_writes_may_stay() -> None:
    size = 64 * 2**20
    read = of("stream", "h200-sxm", op="read", size=size, cache="cold")
    assert read.bound_s == pytest.approx(size / 4.8e12)
    assert of("stream", "h200-sxm", op="write", size=size, cache="cold").bound_s == pytest.approx(14 * 2**20 / 4.8e12)


def test_last_level_caches_count_beside_l2() -> None:
    assert of("stream", "mi300x", op="read", size="280 MiB").kind == "unknown"
    assert of("stream", "mi300x", op="read", size="300 MiB").bound_s == pytest.approx((300 - 288) * 2**20 / 5.3e12, rel=1e-4)


def test_random_gathers_read_fewer_distinct_elements_than_they_count() -> None:
    case = plan.case("gather", {"size": "1 GiB"})
    asked = work.find("gather").work(case.params)
    draws = 2**30 // 4 * 2 // 3 // 4
    assert asked.memory_bytes == 12 * draws
    assert dram_bytes(case, asked, 0.0) == pytest.approx((8 + 4 * 0.8848) * draws, rel=1e-3)


def test_a_product_is_bound_by_the_longer_of_arithmetic_and_traffic() -> None:
    assert of("gemm", "h100-sxm", dtype="bf16").limiter == "arithmetic unit"
    thin = of("gemm", "h100-sxm", dtype="bf16", m=1, n=65536, k=51200)
    assert thin.limiter == "memory"
    assert thin.bound_s == pytest.approx(2 * 65536 * 51200 / 3.352e12, rel=0.01)


def test_fp32_products_run_on_vector_units_where_there_is_no_faster_matrix_unit() -> None:
    assert rate("gemm", "h100-sxm", dtype="fp32") == pytest.approx(66.9e12, rel=1e-3)
    assert rate("gemm", "mi210", dtype="fp32") == pytest.approx(45.3e12, rel=1e-2)
    assert rate("gemm", "v100-sxm2-32gb", dtype="fp64") == pytest.approx(7.8e12, rel=1e-2)


def test_links_one_way_and_both() -> None:
    one = of("transfer", "h200-sxm", size="64 MiB").bound_s
    assert one == pytest.approx(2**26 / 63.015e9, rel=1e-3)
    assert of("transfer", "h200-sxm", size="64 MiB", direction="both").bound_s == pytest.approx(one)
    assert rate("transfer", "gh200", size="64 MiB") == pytest.approx(450e9)  # NVLink-C2C, not PCI Express
    assert rate("peer", "h200-sxm", size="64 MiB") == pytest.approx(450e9)
    assert rate("peer", "rtx-4090", size="64 MiB") == pytest.approx(31.5e9, rel=1e-3)  # no NVLink: PCI Express
    assert "no published link" in of("peer", "l4", size="64 MiB").reason


@pytest.mark.parametrize(
    ("workload", "machine", "params", "reason"),
    [
        ("fma", "h100-sxm", {"dtype": "int8"}, "no published rate of fma.int8 on NVIDIA H100"),
        ("gemm", "t4", {"dtype": "bf16"}, "no published rate of matrix.bf16 on NVIDIA T4"),
        ("gemm", "b100", {"dtype": "bf16"}, "no published rate of matrix.bf16"),
        ("launch", "h100-sxm", {}, "no published figure for launch"), ("sync", "h100-sxm", {}, "no published figure for sync"),
        ("chase", "h100-sxm", {"size": "1 GiB"}, "no published figure for chase"), ("atomic", "h100-sxm", {}, "no published figure for atomic"),
        ("command", "h100-sxm", {"argv": ["true"]}, "what a program computes is not counted, so nothing says how fast it could be"),
        ("barrier", "h100-sxm", {}, "no published figure for barrier"), ("transfer", "gb200", {"size": "1 GiB"}, "no published link between host"),
    ],
)
def test_what_nobody_publishes_is_unknown_with_its_reason(workload: str, machine: str, params: dict[str, object], reason: str) -> None:
    asked = of(workload, machine, **params)
    assert (asked.kind, asked.bound_s, asked.expected_s) == ("unknown", None, None)
    assert reason in asked.reason


def test_without_a_highest_clock_or_a_cache_size_it_is_an_expectation() -> None:
    b60 = of("gemm", "arc-pro-b60", dtype="bf16", m=8192, n=8192, k=8192)
    assert b60.kind == "expected"
    assert b60.expected_s == pytest.approx(2 * 8192**3 / 98.3e12, rel=0.001)
    assert of("stream", "gh200", op="copy", size="1 GiB").kind == "expected"


def test_every_term_names_its_source_and_unit() -> None:
    for asked in (of("gemm", "h200-sxm", dtype="fp8"), of("transfer", "h200-sxm", size="1 MiB"), of("stream", "mi300x", size="4 GiB")):
        assert len(asked.provenance) >= 2
        assert all(t.source and t.unit and t.value > 0 for t in asked.provenance)
    vector = next(t for t in of("fma", "a100", dtype="bf16").provenance if t.name == "peak fma.bf16")
    assert "A100 architecture white paper" in vector.source


def test_integers_are_operations_not_floating_point_operations() -> None:
    assert {t.unit for t in of("gemm", "h100-sxm", dtype="int8").provenance if "peak" in t.name} == {"OP/s"}


# ---------------------------------------------------------------- processors


def host(workload: str, **params: object) -> Limit:
    return limit(plan.case(workload, params), PROCESSOR)


def test_a_processor_is_bound_by_its_multiply_add_pipes() -> None:
    assert host("fma").bound_s == pytest.approx(4e9 / (2 * 32 * 3.7e9))
    assert host("fma", dtype="fp64").bound_s == pytest.approx(2 * host("fma").bound_s)
    assert host("gemm", dtype="bf16").bound_s == pytest.approx(2 * 4096**3 / (2 * 64 * 3.7e9))
    assert "no published rate of matrix.fp16" in host("gemm", dtype="fp16").reason


def test_the_ports_of_the_first_cache_bound_what_fits_it_and_nothing_else() -> None:
    fits = host("stream", op="read", size="32 KiB")
    assert (fits.kind, fits.limiter) == ("bound", "cache")
    assert fits.bound_s == pytest.approx(32768 / (2 * 64 * 3.7e9))
    for size, of in (("512 KiB", "bandwidth of L2"), ("1 GiB", "memory bandwidth")):
        assert host("stream", op="read", size=size).reason == f"no published {of} for AMD EPYC"


def test_a_limit_that_leaves_memory_out_says_so() -> None:
    asked = host("intensity", fmas=4, size="256 MiB")
    assert asked.kind == "bound"
    assert any("leaves memory out" in cause for cause in asked.causes)


def test_a_clock_that_was_not_measured_bounds_nothing() -> None:
    guess = cpu.spec(replace_clock(HOST, 2.6e9))
    asked = limit(plan.case("fma", {}), guess)
    assert (asked.kind, asked.bound_s) == ("expected", None)
    assert any("may be a base clock" in cause for cause in asked.causes)
    assert limit(plan.case("fma", {}), cpu.spec(replace_clock(HOST, None))).kind == "unknown"


def replace_clock(given: Cpu, hz: float | None) -> Cpu:
    from msgspec.structs import replace as changed

    return changed(given, clock_max_hz=hz)


def test_host_and_device_memory_of_a_processor_are_the_same() -> None:
    assert "share one memory" in host("transfer", size="1 MiB").reason


# ---------------------------------------------------------------- the machine of a device


def gpu(**more: object) -> Device:
    return Device(target="cuda", index=0, name="NVIDIA H200", kind="gpu", memory_bytes=int(139.8 * 2**30), **more)  # type: ignore[arg-type]


MACHINE = Machine(host="h", cpu=HOST)


def test_a_processor_takes_the_highest_clock_of_the_run() -> None:
    found = spec_for(Device(target="opencl", index=0, name="pocl", kind="cpu", cache_bytes=2**26), MACHINE, [3.4e9, 3.69e9, 3.6e9])
    assert found is not None
    assert (found.clock_max_hz, found.clock_proven, found.llc_bytes) == (3.69e9, True, 2**25)


def test_the_driver_comes_first_where_it_would_loosen_a_bound() -> None:
    facts = {"memory_clock_hz": 3.201e9, "memory_bus_bits": 6144}
    found = spec_for(gpu(compute_units=131, cache_bytes=60 * 2**20, clock_max_hz=2.0e9, facts=facts), MACHINE)
    assert found is not None
    assert (found.compute_units, found.resident_bytes, found.clock_max_hz) == (131, 60 * 2**20, 2.0e9)
    assert found.memory_bandwidth_b_s == pytest.approx(4.917e12, rel=1e-3)
    assert found.clock_source == "highest clock the driver reports"


def test_the_driver_does_not_tighten_a_bound() -> None:
    found = spec_for(gpu(cache_bytes=4 * 2**20, clock_max_hz=1.2e9, facts={"memory_clock_hz": 1e9, "memory_bus_bits": 6144}), MACHINE, [1.1e9])
    table = machines.load("h200-sxm")
    assert found is not None
    assert (found.resident_bytes, found.clock_max_hz, found.memory_bandwidth_b_s) == (table.l2_bytes, 1.98e9, 4.8e12)


def test_a_gpu_that_is_not_in_the_table_has_no_limit() -> None:
    unknown = Device(target="cuda", index=0, name="Some future GPU", kind="gpu")
    assert spec_for(unknown, MACHINE) is None
    assert limit(plan.case("fma", {}), None).reason.startswith("the device is not in the machine table")


@pytest.mark.parametrize(
    ("profile", "memory_gib", "units", "eighths"), [("1g.10gb", 9.75, 16, 1), ("1g.20gb", 19.62, 26, 2), ("3g.40gb", 39.5, 60, 4), ("7g.80gb", 79.1, 132, 8)]
)
def test_a_mig_slice_is_held_against_its_part_of_the_card(profile: str, memory_gib: float, units: int, eighths: int) -> None:
    facts = {"mig": profile, "memory_clock_hz": 2.619e9, "memory_bus_bits": 5120}  # those of the card
    name, nbytes = f"NVIDIA H100 80GB HBM3 MIG {profile}", int(memory_gib * 2**30)
    part = Device(target="cuda", index=0, name=name, kind="gpu", memory_bytes=nbytes, compute_units=units, facts=facts)
    found, card = spec_for(part, MACHINE), machines.load("h100-sxm")
    assert found is not None
    assert (found.compute_units, found.memory_bytes, found.scaleup_b_s) == (units, nbytes, None)
    assert found.memory_bandwidth_b_s == pytest.approx(3.352e12 * eighths / 8)
    assert found.flop_per_clock == card.flop_per_clock
    assert found.original is card  # the model was fitted to the card, not to this
    case = plan.case("stream", {"size": "4 GiB", "op": "copy"})
    assert seconds(found, case) == pytest.approx(seconds(card, case) * 8 / eighths)
    assert f"{eighths} of 8 memory slices of h100-sxm" in str(limit(case, found).provenance)


def test_a_slice_of_a_card_that_is_not_in_the_table_has_no_limit() -> None:
    assert spec_for(Device(target="cuda", index=0, name="NVIDIA X MIG 1g.10gb", kind="gpu", memory_bytes=2**33, facts={"mig": "1g.10gb"}), MACHINE) is None


# ---------------------------------------------------------------- how bounds move

SIZES = st.integers(64 * 2**20, 2**36)
DIMS = st.integers(1, 20000)
SLUGS = st.sampled_from(["h200-sxm", "a100-sxm-80gb", "mi300x", "l40s", "t4"])


def seconds(spec: machines.Spec, case: Case) -> float:
    asked = limit(case, spec)
    return asked.bound_s or 0.0


@settings(max_examples=examples(40))
@given(SLUGS, SIZES, st.integers(0, 2**33))
def test_more_bytes_never_take_less(slug: str, size: int, more: int) -> None:
    spec = machines.load(slug)
    small, large = (plan.case("stream", {"size": s, "op": "copy"}) for s in (size, size + more))
    assert seconds(spec, small) <= seconds(spec, large) * (1 + 1e-12)


@settings(max_examples=examples(40))
@given(SLUGS, DIMS, DIMS, DIMS, st.integers(0, 5000))
def test_a_larger_product_never_takes_less(slug: str, m: int, n: int, k: int, more: int) -> None:
    spec = machines.load(slug)
    small, large = (plan.case("gemm", {"dtype": "fp16", "m": m, "n": n, "k": d}) for d in (k, k + more))
    assert 0 < seconds(spec, small) <= seconds(spec, large) * (1 + 1e-12)


@settings(max_examples=examples(40))
@given(SLUGS, SIZES, st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.floats(1.0, 3.0))
def test_a_better_machine_never_takes_more(slug: str, size: int, clock: float, bandwidth: float, cache: float) -> None:
    spec = machines.load(slug)
    assert spec.clock_max_hz
    assert spec.memory_bandwidth_b_s
    assert spec.l2_bytes
    better = replace(
        spec, clock_max_hz=spec.clock_max_hz * clock, memory_bandwidth_b_s=spec.memory_bandwidth_b_s * bandwidth, l2_bytes=spec.l2_bytes * cache
    )
    for case in (plan.case("intensity", {"size": size, "fmas": 32}), plan.case("stream", {"size": size})):
        assert seconds(better, case) <= seconds(spec, case) * (1 + 1e-12)


@settings(max_examples=examples(40))
@given(SLUGS, SIZES, st.sampled_from(["read", "write", "copy", "triad"]))
def test_warm_never_needs_more_traffic_than_cold_and_never_more_than_all(slug: str, size: int, op: str) -> None:
    held = machines.load(slug).resident_bytes or 0.0
    warm, cold = (plan.case("stream", {"size": size, "op": op, "cache": c}) for c in ("warm", "cold"))
    asked = work.find("stream").work(warm.params)
    assert 0 <= dram_bytes(warm, asked, held) <= dram_bytes(cold, asked, held) <= asked.memory_bytes
