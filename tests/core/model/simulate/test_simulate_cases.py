"""Cases of plans as simulated kernels: which are played, what they count, and that nothing beats its bound."""

from __future__ import annotations

import pytest

from hotlap.core import plan
from hotlap.core.errors import NotSupported
from hotlap.core.model import machines
from hotlap.core.model.limits import limit
from hotlap.core.model.predict import expected
from hotlap.core.model.simulate import cases, expected_call_s
from hotlap.core.record import Case

CASES = list({case.id: case for name in plan.builtin() for case in plan.load(name).cases}.values())
NETWORK = [
    plan.case(workload, params)
    for workload, params in (
        ("attention", {}), ("attention", {"query": 1, "kv": 8192, "batch": 16}), ("conv", {}), ("pointwise", {}), ("rowwise", {}),
        ("embedding", {}), ("transpose", {}),
    )
]  # fmt: skip
H200 = machines.load("h200-sxm")


@pytest.mark.slow("simulates every case by tiles")
@pytest.mark.parametrize("slug", [name for name in machines.names() if machines.load(name).kind == "gpu"])
def test_every_case_runs_no_faster_than_its_bound_and_its_stalls_add_up(slug: str) -> None:
    spec = machines.load(slug)
    for case in [*CASES, *NETWORK]:
        found, reason = attempt(case, spec)
        if found is None:
            assert "no published" in reason or "cannot be" in reason
            continue
        assert found.seconds >= 0.999 * (limit(case, spec).bound_s or 0.0), (case, found.how)
        stalls = [value for name, value in found.counters.items() if name.startswith("stall_s.")]
        assert bool(stalls) == (not found.plain)
        if stalls:
            assert sum(stalls) == pytest.approx(found.seconds, rel=1e-9)
            assert found.counters["energy_j"] == pytest.approx(found.counters["power_w"] * found.seconds, rel=1e-9)


def attempt(case: Case, spec: machines.Spec) -> tuple[cases.SimulatedCall | None, str]:
    try:
        return cases.call(case, spec), ""
    except NotSupported as error:
        return None, str(error)


def test_what_is_not_played_takes_its_plain_time_and_says_why() -> None:
    chase, cdna = plan.case("chase", {"size": "1 MiB"}), machines.load("mi300x")
    found = cases.call(chase, H200)
    assert (found.seconds, found.path) == (expected_call_s(chase, H200), "plain time")
    assert found.plain == "kernels of this workload are not simulated tile by tile"
    product = cases.call(plan.case("gemm", {"dtype": "bf16"}), cdna)
    assert "the machine table lacks warps_max_per_unit" in product.plain
    assert product.how == f"plain time: {product.plain}"


@pytest.mark.parametrize(("case", "path"), [
    (plan.case("gemm", {"dtype": "bf16", "m": 4096, "n": 4096, "k": 4096}), "tile 256×128"), (plan.case("stream", {"size": "1 MiB"}), "stream"),
    (plan.case("attention", {"query": 1, "kv": 8192, "batch": 1}), "decode, split 16"),
])
def test_the_path_through_the_code_is_without_the_shape(case: Case, path: str) -> None:
    assert cases.call(case, H200).path == path


def test_a_case_is_played_once() -> None:
    case = plan.case("gemm", {"dtype": "bf16", "m": 777})
    assert cases.call(case, H200) is cases.call(case, H200)


@pytest.mark.parametrize("op", ["read", "write", "copy", "triad"])
def test_streams_reach_memory_or_l2(op: str) -> None:
    """Every operation moves what memory gives from there, and more than that where the working set stays in L2."""
    large, small = (plan.case("stream", {"op": op, "size": size}) for size in ("1 GiB", "16 MiB"))
    found, cached = cases.call(large, H200), cases.call(small, H200)
    assert 2.0**30 / found.seconds == pytest.approx(4203e9, rel=0.02)  # H200's best measured streaming
    assert found.counters["dram_bytes"] == pytest.approx(2.0**30, rel=0.01)
    assert 5e12 < 2.0**24 / cached.seconds < 9e12
    assert cached.counters["dram_bytes"] == 0.0


def test_cold_caches_bring_all_from_memory() -> None:
    warm, cold = (cases.call(plan.case("gemm", {"dtype": "bf16", "m": 16, "cache": cache}), H200) for cache in ("warm", "cold"))
    assert cold.counters["dram_bytes"] > 33e6 > 1.2 * warm.counters["dram_bytes"]
    assert cold.seconds > warm.seconds


def test_a_convolution_reads_its_input_once() -> None:
    found = cases.call(plan.case("conv", {}), H200)
    assert found.how.startswith("conv as gemm 100352×64×576")
    assert found.counters["dram_bytes"] < 1.05 * 2 * 2 * 32 * 64 * 56 * 56  # input and output in bf16, weights beside


def test_fp32_products_run_on_vector_units_where_no_matrix_unit_has_them() -> None:
    found = cases.call(plan.case("gemm", {"dtype": "fp32"}), H200)
    assert max((value, name) for name, value in found.counters.items() if name.startswith("stall_s."))[1] == "stall_s.vector unit"


@pytest.mark.parametrize("m", [64, 512, 4096])
@pytest.mark.parametrize("slug", ["a100-sxm-80gb", "h100-sxm", "h200-sxm"])
def test_products_agree_with_the_model(slug: str, m: int) -> None:
    """The model was taught with weights in turn, so caches are cold."""
    spec, case = machines.load(slug), plan.case("gemm", {"dtype": "bf16", "m": m, "n": 8192, "k": 8192, "cache": "cold"})
    assert cases.call(case, spec).seconds == pytest.approx(expected(case, spec, limit(case, spec)).expected_s, rel=0.15)
