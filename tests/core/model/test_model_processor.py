"""Kernels of a processor between those that a sweep measured: on a machine whose rates are known exactly."""

from __future__ import annotations

import math

import pytest

from exact_processor import BYTES_S, CALL_S, FLOP_S, swept
from hotlap.core import work
from hotlap.core.errors import InputError, SchemaError
from hotlap.core.measure.machine import fresh_memory
from hotlap.core.model import calibration_text, processor, sweep
from hotlap.core.model.calibration import Calibration, Factor
from hotlap.core.record import Case, Device, Result, Samples
from hotlap.core.show import calibration as shown
from hotlap.core.store.fold import fold
from hotlap.core.work.compute import GEMM
from hotlap.core.work.layers import GROUPED_GEMM, OPTIMIZER
from hotlap.core.work.network import POINTWISE


def test_a_product_takes_its_operations_at_the_measured_rate_wherever_it_lies() -> None:
    times = processor.times(swept())
    assert times.off < 1e-9  # products say the same of each other
    for m, n, k in ((64, 256, 256), (100, 700, 900), (4096, 8192, 4096)):
        for layout in ("nt", "tn", "nn"):
            one = times.time(GEMM.name, {"m": m, "n": n, "k": k, "dtype": "fp32", "layout": layout})
            assert (one.family, one.call_s) == ("products", CALL_S)
            assert one.seconds == pytest.approx(CALL_S + 2.0 * m * n * k / FLOP_S)
            assert one.low_s < one.seconds < one.high_s


def test_passes_and_updates_take_their_bytes_and_others_pass_as_an_addition_does() -> None:
    times = processor.times(swept())
    for elements in (1000, 300_000, 10**8):
        added = times.time(POINTWISE.name, {"op": "add", "elements": elements, "dtype": "fp32"})
        assert added.seconds == pytest.approx(CALL_S + 12.0 * elements / BYTES_S)
        copied = times.time(POINTWISE.name, {"op": "copy", "elements": elements, "dtype": "fp32"})
        assert (copied.family, copied.seconds) == ("passes", pytest.approx(CALL_S + 8.0 * elements / BYTES_S))
        moved = times.time(OPTIMIZER.name, {"op": "adamw", "elements": elements, "dtype": "fp32"})
        assert (moved.family, moved.seconds) == ("updates", pytest.approx(CALL_S + 28.0 * elements / BYTES_S))


def test_groups_are_products_one_after_another() -> None:
    one = processor.times(swept()).time(GROUPED_GEMM.name, {"groups": 4, "m": 256, "n": 512, "k": 128, "dtype": "fp32"})
    assert one.seconds == pytest.approx(4 * (CALL_S + 2.0 * 64 * 512 * 128 / FLOP_S))
    assert one.call_s == pytest.approx(4 * CALL_S)


def test_between_two_sizes_the_rate_goes_evenly_in_logarithms() -> None:
    facts = dict(swept().facts)
    slow = processor.fact_name(POINTWISE.name, {"op": "add", "elements": 4194304, "dtype": "fp32"})
    seconds = CALL_S + 12.0 * 4194304 / (BYTES_S / 4)  # beyond the caches: a quarter of the rate
    facts[slow] = Factor(seconds, seconds, seconds)
    one = swept()
    times = processor.times(Calibration(one.machine, one.device, one.name, one.driver, one.target, one.date, one.run, {}, facts))
    between = times.time(POINTWISE.name, {"op": "add", "elements": 1048576, "dtype": "fp32"})  # half-way from 262144 in logarithms
    assert between.seconds == pytest.approx(CALL_S + 12.0 * 1048576 / (BYTES_S / 2))


def test_other_types_and_kernels_that_were_not_measured_are_refused() -> None:
    times = processor.times(swept())
    with pytest.raises(InputError, match="no product in bf16"):
        times.time(GEMM.name, {"m": 8, "n": 8, "k": 8, "dtype": "bf16"})
    with pytest.raises(InputError, match="of no processor"):
        processor.times(Calibration("h200-sxm", "cuda:0", "x", "", "cuda", "", "", {}, {"launch single": Factor(1e-6, 1e-6, 1e-6)}))


def test_it_is_kept_as_text_and_read_back() -> None:
    one = swept()
    again = calibration_text.read(calibration_text.write(one), "cpu.toml")
    assert (again.machine, again.families, set(again.facts)) == ("cpu", {}, set(one.facts))
    before, after = (processor.times(each).time(GEMM.name, {"m": 99, "n": 333, "k": 777, "dtype": "fp32"}) for each in (one, again))
    assert math.isclose(before.seconds, after.seconds, rel_tol=1e-4)


def test_cases_measured_beside_other_programs_are_marked_in_the_text_and_where_a_step_is_expected() -> None:
    def result(params: dict[str, object], disturbed: list[float]) -> Result:
        case = Case(workload=POINTWISE.name, params=POINTWISE.parse(params))
        return fold(case, [
            Samples(case=case.id, device="torch:0:A", round=number, values=[1e-5] * 5, method="host", disturbed=share)
            for number, share in enumerate(disturbed)
        ], "torch")  # fmt: skip

    smallest, quiet, busy = {"elements": 1}, {"elements": 1000}, {"elements": 2000}
    results = [result(smallest, [0.0] * 4), result(quiet, [0.0, 0.9, 0.0, 0.0]), result(busy, [0.9, 0.8, 0.9, 0.0])]
    device = Device(target="torch", index=0, name="A processor", kind="cpu")
    one = sweep.calibrate_processor(results, device, "r1", "2026-01-02")
    (name,) = one.disturbed
    assert "elements=2000" in name
    again = calibration_text.read(calibration_text.write(one), "cpu.toml")
    assert again.disturbed == one.disturbed
    printed = shown.learnt(one, [])
    assert [line.split()[-1] == "disturbed" for line in printed.splitlines() if "elements=" in line] == [False, False, True]
    assert "1 of its cases was measured beside other programs" in printed
    assert one.disturbed_words in printed
    with pytest.raises(SchemaError, match="'disturbed' lists names of cases"):
        calibration_text.read(calibration_text.write(one).replace("disturbed = [", "disturbed = [3, "), "cpu.toml")


def test_only_the_target_with_kernels_of_networks_calibrates_a_processor() -> None:
    assert sweep.is_processor(Device(target="torch", index=0, name="A processor", kind="cpu"))
    assert not sweep.is_processor(Device(target="cuda", index=0, name="A GPU", kind="gpu"))
    with pytest.raises(InputError, match="a processor, and opencl has no kernels of networks for it"):
        sweep.is_processor(Device(target="opencl", index=0, name="A processor", kind="cpu"))


def test_what_products_are_made_of_is_found_again_and_small_ones_are_named_apart() -> None:
    facts = dict(swept().facts)
    for name in [name for name in facts if name.startswith(GEMM.name)]:
        case = work.case_of(name)
        m, n, k = (float(case.params[side]) for side in ("m", "n", "k"))  # type: ignore[arg-type]
        seconds = CALL_S + 5e-5 + 2 * m * n * k / FLOP_S + 2e-10 * (m * n + n * k + m * k)
        facts[name] = Factor(seconds, seconds, seconds)
    one = swept()
    times = processor.times(Calibration(one.machine, one.device, one.name, one.driver, one.target, one.date, one.run, {}, facts))
    assert times.products["fp32"] == pytest.approx([5e-5, 1 / FLOP_S, 2e-10])
    few = times.time(GEMM.name, {"m": 8, "n": 8, "k": 8, "dtype": "fp32"})
    assert few.seconds == pytest.approx(CALL_S + 5e-5, rel=0.01)


def test_memory_that_is_taken_anew_is_a_fact_of_its_own_and_may_be_missing() -> None:
    assert processor.times(swept()).fresh_s is None
    fresh = processor.times(swept(fresh_s=0.01)).fresh_s
    assert fresh is not None
    assert fresh.value == pytest.approx(0.01 / 2**26)
    assert len(fresh_memory.seconds(2**20)) == fresh_memory.ROUNDS
    assert min(fresh_memory.seconds(2**20)) > 0
