"""The loop on one case: batches, overhead, timers, checks, flags; on the real CPU and on the simulated GPU."""

from __future__ import annotations

import statistics

import pytest

from hotlap import targets, work
from hotlap.errors import HotlapError
from hotlap.measure import loop
from hotlap.measure.loop import Slot, measure
from hotlap.record import Case
from hotlap.targets.base import Target


def _case(name: str, **given: object) -> Case:
    return Case(workload=name, params=work.find(name).parse(given))


def _open(text: str) -> Target:
    spec = targets.parse(text)
    try:
        return targets.open_device(spec, targets.find(spec)[0])
    except HotlapError as error:
        pytest.skip(f"{text}: {error}")


@pytest.fixture(scope="module")
def cpu() -> Target:
    return _open("opencl:cpu")


@pytest.mark.thorough("compares times of a real device, which depend on who else uses it")
def test_batches_make_the_timers_step_negligible(cpu: Target) -> None:
    samples = measure(cpu, _case("launch", mode="stream"), Slot(seconds=0.05))
    assert samples.status == "measured"
    assert samples.calls > 1
    assert samples.resolution_s < 1e-3 * statistics.median(samples.seconds) * samples.calls
    assert "timer_coarse" not in [f.name for f in samples.flags]


@pytest.mark.thorough("compares times of a real device, which depend on who else uses it")
def test_seconds_are_per_call_whatever_the_batch(cpu: Target) -> None:
    """The same kernel, few and many in a batch: a batch that was not divided would be 8 times off."""
    case = _case("fma", operations=2 * 10**8)
    alone = measure(cpu, case, Slot(seconds=0.2, seed=1))
    many = measure(cpu, case, Slot(seconds=0.2, seed=1, sample_s=0.04))
    assert many.calls >= 8 * alone.calls
    assert min(alone.seconds) / 4 < min(many.seconds) < min(alone.seconds) * 4


def test_a_case_that_cannot_run_says_why(cpu: Target) -> None:
    samples = measure(cpu, _case("gemm"), Slot(seconds=0.1))
    assert samples.status == "not_run"
    assert "torch" in samples.reason
    assert not samples.seconds


def test_a_working_set_beyond_memory_is_not_run(cpu: Target) -> None:
    samples = measure(cpu, _case("stream", size="8 TiB"), Slot(seconds=0.1))
    assert samples.status in ("not_run", "error")
    assert samples.reason


@pytest.mark.thorough("compares times of a real device, which depend on who else uses it")
def test_cold_samples_are_single_and_slower_than_warm(cpu: Target) -> None:
    warm = measure(cpu, _case("stream", op="read", size="256 KiB"), Slot(seconds=0.2))
    cold = measure(cpu, _case("stream", op="read", size="256 KiB", cache="cold"), Slot(seconds=0.2))
    assert cold.calls >= 1
    assert min(cold.seconds) > min(warm.seconds)


def test_a_lying_timer_is_invalid() -> None:
    samples = measure(_open("simulated:h200-sxm?timer=0.5&noise=0.01"), _case("gemm", dtype="bf16"), Slot(seconds=0.3))
    assert samples.status == "invalid"
    assert "timers disagree" in samples.reason


def test_a_flipped_bit_is_invalid() -> None:
    samples = measure(_open("simulated:h200-sxm?flip=1"), _case("gemm", dtype="bf16"), Slot(seconds=0.3))
    assert samples.status == "invalid"
    assert "wrong result" in samples.reason


def test_a_clock_that_jumps_is_invalid() -> None:
    target = _open("simulated:h200-sxm?throttle=0.3@0.2s")
    samples = measure(target, _case("gemm", dtype="bf16"), Slot(seconds=0.3, clock=target.library.clock_hz))
    assert samples.status == "invalid"
    assert "clock jumped" in samples.reason


def test_drift_is_flagged() -> None:
    samples = measure(_open("simulated:h200-sxm?drift=20&noise=0.002"), _case("gemm", dtype="bf16"), Slot(seconds=1.0))
    assert {"drift", "not_steady"} & {f.name for f in samples.flags}


def test_the_same_seed_gives_the_same_numbers() -> None:
    one, two = (measure(_open("simulated:h200-sxm?noise=0.05&seed=4"), _case("gemm"), Slot(seconds=0.1)).seconds for _ in range(2))
    other = measure(_open("simulated:h200-sxm?noise=0.05&seed=5"), _case("gemm"), Slot(seconds=0.1)).seconds
    assert one == two
    assert one != other


def test_overhead_is_of_an_empty_batch(cpu: Target) -> None:
    overhead = loop.timing_overhead(cpu)
    assert 0 <= overhead.device_s < 1
    assert 0 < overhead.wall_s < 1
