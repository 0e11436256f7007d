"""Two groups of runs: the answer, what it is of, and what could explain it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from judging import CHASE, COPY, H200, make
from msgspec.structs import replace

from hotlap.judge.compare import compare
from hotlap.record import Comparison, Device
from hotlap.report import comparison
from hotlap.store.bundle import Bundle

RNG = np.random.default_rng(7)


def seconds(level: float = 1e-3, sd: float = 0.002, n: int = 12) -> list[float]:
    return (level * np.exp(RNG.normal(0, sd, n))).tolist()


def one(a: list[float], b: list[float], name: str = "copy", gate: float = 0.02) -> Comparison:
    (found,) = compare([make({name: a})], [make({name: b}, day=1)], gate)
    return found


def test_longer_times_are_slower_whichever_way_the_metric_points() -> None:
    for name in ("copy", "chase"):
        found = one(seconds(), seconds(1.1e-3), name)
        assert (found.answer, found.case.workload) == ("slower", (COPY if name == "copy" else CHASE).workload)
        assert found.ratio == pytest.approx(1 / 1.1, rel=0.01)
        assert found.low is not None
        assert found.high is not None
        assert found.low < 1 / 1.1 < found.high < 1
        assert one(seconds(1.1e-3), seconds(), name).answer == "faster"


def test_a_change_under_the_gate_is_the_same() -> None:
    assert one(seconds(sd=1e-4), seconds(1.005e-3, sd=1e-4)).answer == "same"
    assert one(seconds(sd=1e-4), seconds(1.005e-3, sd=1e-4), gate=0.0).answer == "slower"


def test_noise_says_how_small_a_change_would_hide_in_it() -> None:
    found = one(seconds(sd=0.05), seconds(sd=0.05))
    assert found.answer == "cannot tell"
    assert found.reason.startswith("below ")
    assert found.resolvable is not None


def test_three_rounds_a_side_cannot_tell() -> None:
    found = one(seconds(n=3), seconds(2e-3, n=3))
    assert (found.answer, found.low, "4 rounds a side needed" in found.reason) == ("cannot tell", None, True)


def test_runs_are_the_replicates_where_there_are_four() -> None:
    """Runs that differ by 3 % among themselves hide a change of 2.5 %, however exact each is."""
    a, b = ([make({"copy": seconds(level * f, sd=1e-4)}, day=n + day) for n, f in enumerate((0.97, 1.0, 1.03, 1.01))] for day, level in ((0, 1e-3), (9, 1.025e-3)))
    (found,) = compare(a, b)
    assert (found.replicates, found.n_a, found.n_b) == ("runs", 4, 4)
    assert found.answer == "cannot tell"
    (single,) = compare(a[1:2], b[1:2])
    assert (single.replicates, single.answer) == ("rounds", "slower")
    assert "differs from run to run is not in the intervals" in comparison.comparison([single], width=300)


@pytest.mark.slow("error rate by simulation")
def test_error_rate_is_held_over_all_cases() -> None:
    """Of 60 A/A comparisons with single p-values 3 would be called different; after adjustment hardly any."""
    called = 0
    for day in range(20):
        found = compare([make({n: seconds() for n in ("copy", "gemm", "chase")})], [make({n: seconds() for n in ("copy", "gemm", "chase")}, day=day + 1)], gate=0.0)
        called += sum(c.answer in ("faster", "slower") for c in found)
        assert all(c.q is not None and c.p is not None and c.q > c.p * (1 - 1e-9) for c in found)
    assert called <= 3


@pytest.mark.slow("hundreds of comparisons")
def test_a_difference_that_vanishes_in_cycles_is_one_of_clocks() -> None:
    fast, slow = make({"gemm": seconds()}, clocks_hz=[2e9]), make({"gemm": seconds(1.25e-3)}, day=1, clocks_hz=[1.6e9])
    (found,) = compare([fast], [slow])
    assert found.answer == "slower"
    assert "the clock differs, 2.00 GHz and 1.60 GHz" in found.reason
    (other,) = compare([fast], [make({"gemm": seconds(1.25e-3)}, day=1, clocks_hz=[2e9])])
    assert "the clock is not the cause" in other.reason


def test_other_models_are_not_comparable_unless_forced() -> None:
    b200 = make({"copy": seconds(5e-4)}, day=1, device=replace(H200, machine="b200", uuid="GPU-1"))
    (found,) = compare([make({"copy": seconds()})], [b200])
    assert (found.answer, "A is of h200-sxm, B is of b200" in found.reason) == ("not comparable", True)
    (forced,) = compare([make({"copy": seconds()})], [b200], force=True)
    assert forced.answer == "faster"
    assert forced.reason.startswith("forced: A is of h200-sxm")


def test_what_one_side_lacks_is_not_comparable_and_says_why() -> None:
    found = compare([make({"copy": seconds(), "gemm": seconds()})], [make({"copy": seconds()}, day=1)])
    assert [(c.answer, c.reason) for c in found][1] == ("not comparable", "not measured in B")


def test_only_what_can_move_the_metric_explains_it() -> None:
    devices = [replace(H200, facts={"nvml": {"ecc": on}}, driver=d) for on, d in ((True, "550"), (False, "560"))]
    a, b = (make({"copy": seconds(level), "gemm": seconds(level)}, day=n, device=devices[n]) for n, level in enumerate((1e-3, 1.1e-3)))
    copy, gemm = compare([a], [b])
    assert (copy.could, gemm.could) == (["device.driver", "device.ecc"], ["device.driver"])


def test_a_slow_tail_shows_though_the_median_does_not_move() -> None:
    def tailed(day: int, tail: float) -> object:
        bundle = make({"copy": seconds()}, day=day)
        return replace_samples(bundle, tail)

    def replace_samples(bundle: object, tail: float) -> object:
        samples = [replace(s, seconds=[s.seconds[0]] * 36 + [s.seconds[0] * tail] * 4) for s in bundle.samples]  # type: ignore[attr-defined]
        return dataclasses.replace(bundle, samples=samples)  # type: ignore[type-var]

    (found,) = compare([tailed(0, 1.0)], [tailed(1, 1.3)])  # type: ignore[list-item]
    assert found.answer == "same"
    assert found.tail is not None
    assert found.tail == pytest.approx(1 / 1.3, rel=0.02)
    assert "the slow 95 % tail is worse" in comparison.comparison([found], width=200)


# ---------------------------------------------------------------- several devices

GPUS = [replace(H200, uuid=f"GPU-{n}", index=n, pci_address=f"0000:{n}b:00.0") for n in range(8)]


def fleet(levels: list[float], day: float, devices: list[Device] = GPUS, sd: float = 0.002) -> Bundle:
    """One run of several devices, each with its own level; what the run does to all of them alike comes on top."""
    run = float(np.exp(RNG.normal(0, 0.004)))
    parts = [make({"copy": [s * run for s in seconds(1e-3 * level, sd)]}, day=day, device=d) for level, d in zip(levels, devices, strict=False)]
    whole = replace(parts[0].run, devices=[d.key for d in devices[: len(levels)]], machine=replace(parts[0].run.machine, devices=devices))
    return dataclasses.replace(parts[0], run=whole, samples=[s for one in parts for s in one.samples])


def groups(before: list[float], after: list[float], runs: int = 4) -> Comparison:
    (found,) = compare([fleet(before, n) for n in range(runs)], [fleet(after, 20 + n) for n in range(runs)])
    return found


@pytest.mark.parametrize("runs", [1, 4])
def test_one_slow_device_of_many_is_named(runs: int) -> None:
    """Devices of a fleet differ by 3 % among themselves; one of them loses 5 %."""
    before = [1.0, 1.03, 0.98, 1.01, 1.02, 0.99, 1.0, 1.01]
    found = groups(before, [*before[:2], before[2] * 1.05, *before[3:]], runs)
    assert found.answer != "slower"
    worst = found.devices[0]
    assert (worst.device, worst.answer, [one.answer for one in found.devices[1:]].count("worse")) == ("GPU-2", "worse", 0)
    assert worst.ratio == pytest.approx(1 / 1.05, rel=0.015)
    assert "GPU-2 differs from the other 7 in stream copy" in comparison.comparison([found], width=300)
    assert found.replicates == ("devices" if runs == 1 else "runs")
    assert (found.n_a, found.n_b) == ((8, 8) if runs == 1 else (4, 4))


@pytest.mark.slow("hundreds of comparisons")
def test_devices_that_differ_among_themselves_hide_nothing_when_matched() -> None:
    before = [1.0, 1.2, 0.9, 1.1]
    found = groups(before, [1.04 * level for level in before])
    assert found.answer == "slower"
    assert found.ratio == pytest.approx(1 / 1.04, rel=0.01)
    assert {one.answer for one in found.devices} == {"like the others"}
    assert groups([1.0, 1.2], [1.04, 1.2 * 1.04], runs=1).answer == "slower"


@pytest.mark.slow("error rate by simulation")
def test_error_rate_of_devices_is_held() -> None:
    called = sum(one.answer in ("better", "worse") for _ in range(25) for one in groups([1.0] * 4, [1.0] * 4).devices)
    assert called <= 3


@pytest.mark.slow("hundreds of comparisons")
def test_devices_of_other_runs_are_matched_too_and_other_devices_are_not() -> None:
    """A run per node, as clusters are measured: nodes are the pairs."""
    a = [make({"copy": seconds(1e-3 * (1 + n / 50))}, day=n, device=d) for n, d in enumerate(GPUS)]
    b = [make({"copy": seconds(1.05e-3 * (1 + n / 50))}, day=20 + n, device=d) for n, d in enumerate(GPUS)]
    (found,) = compare(a, b)
    assert (found.answer, found.replicates, found.n_a) == ("slower", "devices", 8)
    (subset,) = compare(a[:1], b)
    assert subset.ratio == pytest.approx(1 / 1.05, rel=0.01)  # GPU-0 against itself, not against the others
    others = [replace(d, uuid=f"GPU-b{d.index}") for d in GPUS]
    (apart,) = compare(a, [make({"copy": seconds()}, day=20 + n, device=d) for n, d in enumerate(others)])
    assert (apart.devices, apart.replicates) == ([], "runs")
