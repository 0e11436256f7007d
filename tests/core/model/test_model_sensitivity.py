"""What a plan gains from more of each figure: elasticities that are known from theory, weights by networks, the balance point, bad asking."""

from __future__ import annotations

import math

import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import edits, machines
from hotlap.core.model.cases import alike, times
from hotlap.core.model.sensitivity import SensitivityOptions, sensitivity
from hotlap.core.plan import read as plans
from hotlap.core.record import Plan, Use
from hotlap.core.show import sensitivity as report

H200 = machines.load("h200-sxm")
COPY = plans.case("pointwise", {"op": "copy", "elements": 2**30})
PRODUCT = plans.case("gemm", {"m": 8192, "n": 8192, "k": 8192, "dtype": "bf16"})
DECODE = plans.case("attention", {"query": 1, "kv": 8192, "batch": 32})
SHORT_REDUCE = plans.case("collective", {"op": "all_reduce", "size": 2**17, "gpus": 8})
REDUCE = plans.case("collective", {"op": "all_reduce", "size": 2**28, "gpus": 8})
SMALL = plans.case("gemm", {"m": 16, "n": 256, "k": 256, "dtype": "bf16"})
MIXED = Plan(name="mixed", cases=[COPY, PRODUCT, DECODE, REDUCE, SHORT_REDUCE, SMALL])
WHOLE = ("memory_bandwidth_b_s", "clock_max_hz", "scaleup_b_s", "power_w")


def by_figure(found: object) -> dict[str, float]:
    return {one.figure: one.elasticity for one in found.figures}  # type: ignore[attr-defined]


def test_twice_everything_is_half_the_time() -> None:
    twice = edits.apply(H200, {**dict.fromkeys(WHOLE, 2.0), "launch_factor": 0.5, "link_latency_factor": 0.5})
    groups = alike(MIXED.cases)
    ratio = times(groups, twice).seconds / times(groups, H200).seconds
    assert ratio == pytest.approx(0.5, rel=0.06)


@pytest.mark.slow("estimates networks again and again")
def test_elasticities_of_the_whole_machine_sum_to_one() -> None:
    found = sensitivity(MIXED, H200)
    assert found.whole == pytest.approx(1.0, abs=0.06)
    assert found.cases == 6
    assert [one.elasticity for one in found.figures] == sorted((one.elasticity for one in found.figures), reverse=True)


@pytest.mark.slow("estimates networks again and again")
def test_a_copy_gains_from_memory_and_a_product_from_arithmetic() -> None:
    copy, product = (by_figure(sensitivity(Plan(name="one", cases=[case]), H200)) for case in (COPY, PRODUCT))
    assert copy["memory_bandwidth"] > 0.9 > 0.05 > copy["matrix_rate"]
    assert product["memory_bandwidth"] < 0.05
    assert product["clock"] + product["power_limit"] > 0.9  # the limit holds its clock
    link = by_figure(sensitivity(Plan(name="one", cases=[REDUCE]), H200, SensitivityOptions(keys=["link_bandwidth"])))
    assert link["link_bandwidth"] > 0.6


def test_memory_bandwidth_has_its_balance_point() -> None:
    """A copy is held by memory until L2 holds it; beyond, more memory bandwidth gains nothing."""
    (found,) = sensitivity(Plan(name="copy", cases=[COPY]), H200, SensitivityOptions(keys=["memory_bandwidth"])).figures
    assert found.enough is not None
    assert 1.5 <= found.enough <= 12
    assert found.low is not None
    assert found.high is not None
    assert 0.8 < found.low <= found.elasticity <= found.high <= 1.01
    assert found.gains["2"] > found.gains["1.5"] > found.gains["1.1"] > 1 > found.gains["0.9"]


@pytest.mark.slow("estimates networks again and again")
def test_networks_weigh_by_calls() -> None:
    uses = [
        Use(case=COPY.id, step="mostly copies", kernel="copy", calls=100), Use(case=PRODUCT.id, step="mostly copies", kernel="product", calls=1),
        Use(case=PRODUCT.id, step="products", kernel="product", calls=7),
    ]
    found = sensitivity(Plan(name="net", cases=[COPY, PRODUCT], uses=uses), H200)
    copies, products = found.steps
    assert copies.elasticities["memory_bandwidth"] > 0.9
    assert products.elasticities["memory_bandwidth"] < 0.05
    whole = by_figure(found)["memory_bandwidth"]
    assert whole == pytest.approx((copies.elasticities["memory_bandwidth"] + products.elasticities["memory_bandwidth"]) / 2, abs=0.01)
    assert "mostly copies" in report.sensitivity(found, 80, networks=True)


def test_measured_times_weigh_in_place_of_expected_ones() -> None:
    uses = [Use(case=one.id, step="both", kernel="x", calls=1) for one in (COPY, PRODUCT)]
    plan = Plan(name="net", cases=[COPY, PRODUCT], uses=uses)
    slow = sensitivity(plan, H200, SensitivityOptions(keys=["memory_bandwidth"], measured={COPY.id: 1.0, PRODUCT.id: 1e-3}))
    quick = sensitivity(plan, H200, SensitivityOptions(keys=["memory_bandwidth"], measured={COPY.id: 1e-3, PRODUCT.id: 1.0}))
    assert slow.figures[0].elasticity > 0.9 > 0.1 > quick.figures[0].elasticity
    assert slow.unmeasured == 0


def test_what_a_run_did_not_measure_is_said_to_weigh_what_is_expected() -> None:
    plan = Plan(name="net", cases=[COPY, PRODUCT])
    found = sensitivity(plan, H200, SensitivityOptions(keys=["memory_bandwidth"], measured={COPY.id: 1.0}))
    assert "1 case that the run has no number of: what is expected weighs." in report.sensitivity(found, 200)


def test_simulation_agrees_on_what_holds_a_case() -> None:
    found = sensitivity(Plan(name="two", cases=[COPY]), H200, SensitivityOptions(keys=["memory_bandwidth", "matrix_rate"], simulation=True))
    assert by_figure(found)["memory_bandwidth"] > 0.7
    assert by_figure(found)["matrix_rate"] == 0
    assert found.figures[0].low is None


def test_what_nothing_is_expected_of_is_named_and_left_out() -> None:
    found = sensitivity(Plan(name="odd", cases=[COPY, plans.case("launch", {"mode": "single"}), plans.case("fma", {"dtype": "fp32"})]), H200)
    assert found.left_out == {"launch": 1}
    assert found.bounded == 1
    assert "left out, for no time is known: launch (1)" in report.sensitivity(found, 200)


def test_many_cases_are_asked_at_once() -> None:
    cases = [plans.case("gemm", {"m": m, "n": 4096, "k": 4096, "dtype": "bf16"}) for m in range(1, 301)]
    assert len(alike([*cases, DECODE, COPY])) == 3
    found = times(alike([*cases, DECODE, COPY]), H200)
    assert all(math.isfinite(value) for value in found.seconds)
    assert found.seconds[299] == pytest.approx(times(alike([cases[299]]), H200).seconds[0], rel=1e-12)


@pytest.mark.slow("estimates networks again and again")
@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits(width: int) -> None:
    assert max(map(len, report.sensitivity(sensitivity(MIXED, H200), width).splitlines())) <= width


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"by": 3.0}, "a step is from"), ({"keys": ["l2_siz"]}, "l2_size"), ({"keys": ["tensor"]}, "no figure"), ({"spec": "v100-sxm2-32gb", "keys": ["matrix.bf16"]}, "no figure")],
)
def test_wrong_asking_is_one_line(asked: dict[str, object], said: str) -> None:
    spec = machines.load(str(asked.pop("spec", "h200-sxm")))
    with pytest.raises(InputError, match=said):
        sensitivity(MIXED, spec, SensitivityOptions(**asked))  # type: ignore[arg-type]


@pytest.mark.slow("estimates networks again and again")
def test_the_page_holds_the_curves() -> None:
    page = report.page(sensitivity(MIXED, H200, SensitivityOptions(keys=["memory_bandwidth", "clock"])))
    assert page.count('class="line main"') == 2
    assert "memory bandwidth" in page


def test_the_smallest_step_of_units_is_one_unit() -> None:
    (found,) = sensitivity(Plan(name="one", cases=[PRODUCT]), H200, SensitivityOptions(by=0.001, keys=["units"])).figures
    assert math.isfinite(found.elasticity)
    few = edits.apply(H200, {"compute_units": 4 / 132})
    assert math.isfinite(sensitivity(Plan(name="one", cases=[PRODUCT]), few, SensitivityOptions(keys=["units"])).figures[0].elasticity)
