"""Two groups of runs: the answer, what it is of, and what could explain it."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from judging import CHASE, COPY, H200, NAMED, make
from msgspec.structs import replace

from hotlap.core.analysis import changes, drift, environment
from hotlap.core.analysis.compare import compare
from hotlap.core.record import Comparison, Device, Notice
from hotlap.core.show import comparison, comparison_page, sides
from hotlap.core.store.bundle import Bundle, Writer

DOCS = Path(__file__).resolve().parents[3] / "docs"
RNG = np.random.default_rng(7)


def seconds(level: float = 1e-3, sd: float = 0.002, n: int = 12) -> list[float]:
    return (level * np.exp(RNG.normal(0, sd, n))).tolist()


def one(a: list[float], b: list[float], name: str = "copy", min_effect: float = 0.02) -> Comparison:
    (found,) = compare([make({name: a})], [make({name: b}, day=1)], min_effect)
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
    assert one(seconds(sd=1e-4), seconds(1.005e-3, sd=1e-4), min_effect=0.0).answer == "slower"


def test_noise_says_how_small_a_change_would_hide_in_it() -> None:
    found = one(seconds(sd=0.05), seconds(sd=0.05))
    assert found.answer == "inconclusive"
    assert found.mde is not None
    assert found.mde_of_answer == pytest.approx((1 + found.mde) * 1.02 - 1)
    assert found.reason.startswith("no significant difference; minimum detectable effect ")


def test_three_rounds_a_side_cannot_tell() -> None:
    found = one(seconds(n=3), seconds(2e-3, n=3))
    assert (found.answer, found.low, "4 rounds a side are needed" in found.reason) == ("inconclusive", None, True)


def test_runs_are_the_replicates_where_there_are_four() -> None:
    """Runs that differ by 3 % among themselves hide a change of 2.5 %, however exact each is."""
    a, b = ([make({"copy": seconds(level * f, sd=1e-4)}, day=n + day) for n, f in enumerate((0.97, 1.0, 1.03, 1.01))] for day, level in ((0, 1e-3), (9, 1.025e-3)))
    (found,) = compare(a, b)
    assert (found.replicates, found.n_a, found.n_b) == ("runs", 4, 4)
    assert found.answer == "inconclusive"
    (single,) = compare(a[1:2], b[1:2])
    assert (single.replicates, single.answer) == ("rounds", "slower")
    assert "intervals cover the rounds of these runs, not changes from run to run; measure 4 runs a side for those" in comparison.comparison([single], width=300)


@pytest.mark.slow("error rate by simulation")
def test_error_rate_is_held_over_all_cases() -> None:
    """Of 60 A/A comparisons with single p-values 3 would be called different; after adjustment hardly any."""
    called = 0
    for day in range(20):
        found = compare([make({n: seconds() for n in ("copy", "gemm", "chase")})], [make({n: seconds() for n in ("copy", "gemm", "chase")}, day=day + 1)], min_effect=0.0)
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
    assert forced.forced.startswith("A is of h200-sxm")


def test_what_one_side_lacks_is_not_comparable_and_says_why() -> None:
    found = compare([make({"copy": seconds(), "gemm": seconds()})], [make({"copy": seconds()}, day=1)])
    assert [(c.answer, c.reason) for c in found][1] == ("not comparable", "not measured in B")


def test_only_what_can_move_the_metric_explains_it() -> None:
    devices = [replace(H200, facts={"nvml": {"ecc": on}}, driver=d) for on, d in ((True, "550"), (False, "560"))]
    a, b = (make({"copy": seconds(level), "gemm": seconds(level)}, day=n, device=devices[n]) for n, level in enumerate((1e-3, 1.1e-3)))
    copy, gemm = compare([a], [b])
    assert (copy.environment_suspects, gemm.environment_suspects) == (["device.driver", "device.ecc"], ["device.driver"])


def test_a_slow_tail_shows_though_the_median_does_not_move() -> None:
    def tailed(day: int, tail: float) -> object:
        bundle = make({"copy": seconds()}, day=day)
        return replace_samples(bundle, tail)

    def replace_samples(bundle: object, tail: float) -> object:
        samples = [replace(s, values=[s.values[0]] * 36 + [s.values[0] * tail] * 4) for s in bundle.samples]  # type: ignore[attr-defined]
        return dataclasses.replace(bundle, samples=samples)  # type: ignore[type-var]

    (found,) = compare([tailed(0, 1.0)], [tailed(1, 1.3)])  # type: ignore[list-item]
    assert found.answer == "same"
    assert found.tail is not None
    assert found.tail == pytest.approx(1 / 1.3, rel=0.02)
    assert "the slowest 5 % of calls are worse" in comparison.comparison([found], width=200)


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


# ---------------------------------------------------------------- one rule, true reasons, rows that can be checked


def test_slower_needs_the_whole_interval_beyond_the_threshold() -> None:
    even = [math.exp(0.01 * NormalDist().inv_cdf((n + 0.5) / 12)) for n in (5, 0, 8, 3, 11, 6, 1, 9, 4, 10, 2, 7)]  # 1 %, in no order
    found = one([1e-3 * v for v in even], [1.025e-3 * v for v in even])
    assert found.high is not None
    assert 1 / 1.02 < found.high < 1
    assert (found.answer, found.reason.startswith("differs, by at least "), "; the threshold is 2.0 %" in found.reason) == ("inconclusive", True, True)
    assert one([1e-3 * v for v in even], [1.05e-3 * v for v in even]).answer == "slower"


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([1e-3] * 4, [2e-3] * 4, ""), ([1e-3] * 3, [2e-3] * 3, "4 rounds a side are needed for an interval, there are 3 and 3"),
        ([1e-3] * 4, [1e-3, 2e-3, 1e-3], "4 rounds a side are needed for an interval, there are 4 and 3"),
    ],
)
def test_a_missing_interval_has_its_true_reason(a: list[float], b: list[float], reason: str) -> None:
    found = one(a, b)
    assert found.low is None or reason == ""
    if reason:
        assert (found.answer, found.reason) == ("inconclusive", reason)


def test_no_noise_is_called_no_noise() -> None:
    found = groups([1.0], [1.0])
    assert found.low is not None
    (still,) = compare([make({"copy": [1e-3] * 6}, day=n) for n in range(4)], [make({"copy": [1e-3] * 6}, day=9 + n) for n in range(4)])
    assert still.low is None or still.answer == "same"
    if still.low is None:
        assert still.reason.startswith("no noise was seen")


def test_notices_of_a_ratio_reach_the_reader() -> None:
    a, b = seconds(sd=0.001, n=12), seconds(1.2e-3, sd=0.05, n=12)
    found = one(a, b)
    assert [notice.text for notice in found.notices] == ["one side is over 3 times as noisy as the other; look for what differs"]
    assert "one side is over 3 times as noisy" in comparison.comparison([found], width=300)


@pytest.mark.parametrize("name", ["copy", "chase"])
@pytest.mark.parametrize(("factor", "sd"), [(1.26, 0.02), (1.0004, 1e-5), (0.3, 0.05), (3.7, 1e-3), (1.0, 0.2)])
def test_both_sides_are_printed_as_measured(name: str, factor: float, sd: float) -> None:
    """A and B are the medians of their rounds, in the text, on the page and in JSON; the change is that of the estimate."""
    found = one(seconds(sd=sd), seconds(factor * 1e-3, sd=sd), name)
    assert found.ratio is not None
    shown = sides.sides(found)
    scale = {"M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
    for said, side in ((shown.a, found.a), (shown.b, found.b)):
        number, unit = said.split()
        assert float(number) * scale[unit[0]] == pytest.approx(side.median, rel=1e-3)
    decimals = len(shown.change.split()[0].partition(".")[2])
    assert shown.change == f"{((found.ratio if found.better == 'higher' else 1 / found.ratio) - 1) * 100:+.{decimals}f} %"
    assert sides.subject(found) == ("time" if found.better == "lower" else "rate")
    assert sides.subject(replace(found, metric="own", unit="points")) == "value"  # a program's own number has no name of its own
    printed = comparison.comparison([found], width=300)
    row = next(line for line in printed.splitlines() if shown.a.split()[0] in line)
    assert all(text in " ".join(row.split()) for text in shown[:3])
    assert "A and B are medians; the change is estimated from all rounds, by Huber's M-estimator, so it can differ from B ÷ A − 1" in printed
    runs = [make({name: [1e-3]})]
    page = comparison_page.page("old", runs, {"new": comparison.Other([found], runs)})
    assert all(text.split()[0] in page for text in shown[:3])
    far = not 0.5 <= found.ratio <= 2
    assert ('class="beyond"' in page, "an arrow is a change beyond the axis" in page) == (far, far)


def test_medians_outside_of_the_interval_are_said() -> None:
    """Rounds lie in two groups 30 % apart: 5 of 13 are slow in A, 7 in B, and the medians are of different groups."""
    a, b = ([1e-3 * (1.3 if n * 5 % 13 < slow else 1.0) * (1 + n * 3e-4) for n in range(13)] for slow in (5, 7))
    found = one(a, b)
    assert [notice.code for notice in found.notices] == ["medians_apart"]
    assert "B ÷ A − 1 of the medians is -23 %, outside of the interval of the change: values" in comparison.comparison([found], width=300)


def busy(bundle: Bundle, share: float) -> Bundle:
    """The same beside programs that ran during so much of the samples."""
    notice = Notice("shared_device", f"others ran during {share:.0%} of the samples that are left")
    return dataclasses.replace(bundle, samples=[replace(s, disturbed=share, notices=[notice]) for s in bundle.samples])


@pytest.mark.parametrize(
    ("a_busy", "b_busy", "factor", "answer"),
    [
        (True, False, 0.8, "inconclusive"), (True, False, 1.25, "slower"), (False, True, 1.25, "inconclusive"), (False, True, 0.8, "faster"),
        (True, False, 1.0, "inconclusive"), (True, True, 0.8, "inconclusive"), (False, False, 0.8, "faster"),
    ],
)
def test_a_busy_side_proves_only_what_it_can_only_hide(a_busy: bool, b_busy: bool, factor: float, answer: str) -> None:
    """Others only ever make a number worse: B is not called faster than an A that was disturbed, but slower than it."""
    quiet = make({"copy": seconds(sd=1e-4)}), make({"copy": seconds(factor * 1e-3, sd=1e-4)}, day=1)
    a, b = (busy(bundle, 0.7) if is_busy else bundle for bundle, is_busy in zip(quiet, (a_busy, b_busy), strict=True))
    (found,) = compare([a], [b])
    assert found.answer == answer
    assert ("busy" in [notice.code for notice in found.notices]) == (a_busy or b_busy)
    printed = comparison.comparison([found], ([a], [b]), width=300)
    heading = "the machine was busy: other programs ran during 70 % of the samples; numbers are lower limits of the speed"
    assert printed.count(heading) == a_busy + b_busy
    if answer == "inconclusive":
        assert found.environment_suspects == []
        assert "the clock is not the cause" not in printed
        assert f"it was busy during {'A' if a_busy else 'B'}" in printed


@pytest.mark.parametrize(("replaced", "answer"), [([2e-3], "inconclusive"), ([], "slower")])
def test_a_case_of_a_busy_run_whose_bad_samples_were_replaced_is_of_a_busy_machine(replaced: list[float], answer: str) -> None:
    """Three of four cases were disturbed; of the fourth only samples were, that are no more."""
    cases = ("copy", "gemm", "atomic", "chase")
    a, b = make({name: seconds(sd=1e-4) for name in cases}), make({name: seconds(1.25e-3, sd=1e-4) for name in cases}, day=1)
    clean = CHASE.workload
    beside = busy(b, 0.7).samples
    samples = [replace(s, replaced=replaced) if NAMED["chase"].id == s.case else one for s, one in zip(b.samples, beside, strict=True)]
    found = {one.case.workload: one for one in compare([a], [dataclasses.replace(b, samples=samples)])}
    assert found[clean].answer == answer
    assert ("it was busy during B" in found[clean].reason) == (answer == "inconclusive")
    assert found[COPY.workload].answer == "inconclusive"


@pytest.mark.parametrize("factor", [0.6, 1.6])
@pytest.mark.parametrize("side", ["A", "B"])
def test_other_programs_leave_atomics_fewer_cores_which_may_make_them_faster(side: str, factor: float) -> None:
    quiet = make({"atomic": seconds(sd=1e-4)}), make({"atomic": seconds(factor * 1e-3, sd=1e-4)}, day=1)
    a, b = (busy(bundle, 0.7) if name == side else bundle for name, bundle in zip("AB", quiet, strict=True))
    (found,) = compare([a], [b])
    assert found.answer == "inconclusive"
    assert found.reason.startswith("slower" if factor > 1 else "faster")
    printed = " ".join(comparison.comparison([found], ([a], [b]), width=300).split())
    assert "numbers are lower limits of the speed, but for atomics, for which fewer cores contend" in printed
    assert "its number is a lower limit" not in printed
    assert f"other programs ran beside {side}: fewer cores contended, which may make atomics faster or slower" in printed


def test_a_program_beside_which_others_ran_is_not_called_slower() -> None:
    """Its rounds say so by their share alone: the numbers are its own, and carry no notice."""
    quiet, slower = make({"copy": seconds(sd=1e-4)}), make({"copy": seconds(1.25e-3, sd=1e-4)}, day=1)
    for share, answer in ((0.7, "inconclusive"), (0.05, "slower")):
        beside = dataclasses.replace(slower, samples=[replace(each, disturbed=share) for each in slower.samples])
        (found,) = compare([quiet], [beside])
        assert (found.answer, [notice.code for notice in found.notices]) == (answer, ["busy"] if answer == "inconclusive" else [])


def test_few_disturbed_samples_leave_the_answer_and_a_notice() -> None:
    stolen = busy(make({"copy": seconds(sd=1e-4)}), 0.05)
    (found,) = compare([stolen], [make({"copy": seconds(0.8e-3, sd=1e-4)}, day=1)])
    assert (found.answer, [notice.code for notice in found.notices]) == ("faster", ["busy"])


def test_free_memory_of_a_processor_explains_nothing() -> None:
    devices = [Device(target="opencl", index=0, name="EPYC", kind="cpu", memory_bytes=size) for size in (8_420_000_000, 9_890_000_000)]
    a, b = (make({"copy": seconds(level)}, day=n, device=devices[n]) for n, level in enumerate((1e-3, 1.5e-3)))
    (found,) = compare([a], [b])
    assert (found.answer, found.environment_suspects) == ("slower", [])
    gpus = [replace(H200, memory_bytes=size) for size in (141_000_000_000, 80_000_000_000)]
    assert "device.memory_bytes" in [d.name for d in environment.differences(*([make({"copy": [1e-3]}, device=gpu).run] for gpu in gpus))]


def test_words_fit_the_metric() -> None:
    """A slower case: its time grows, its rate falls; joules get worse, not slower."""
    for name, sign in (("chase", "+"), ("copy", "-")):
        found = one(seconds(), seconds(1.26e-3), name)
        assert (found.answer, sides.sides(found).change[0]) == ("slower", sign)
    assert comparison.answer(replace(found, unit="J", metric="energy", better="lower")) == "worse"
    mixed = compare([make({"copy": seconds(), "chase": seconds()})], [make({"copy": seconds(1.2e-3), "chase": seconds(1.2e-3)}, day=1)])
    said = comparison.comparison(mixed, width=300)
    assert " B vs A " in said
    assert "rate -16" in said
    assert "time +" in said


# ---------------------------------------------------------------- one after the other

CPU = Device(target="opencl", index=0, name="EPYC", kind="cpu")
IMPORTED_CPU = Device(target="imported", index=0, name="EPYC", kind="cpu")


def cpu(level: float = 1e-3, day: float = 0.0, **machine: str) -> Bundle:
    return make({"copy": seconds(level, sd=0.002)}, day=day, device=CPU, **machine)


def test_sides_one_after_the_other_get_the_tables_allowance_and_it_is_said() -> None:
    a, b = cpu(), cpu(1.025e-3, day=1)
    (found,) = compare([a], [b])
    assert found.allowance is not None
    assert (found.allowance.basis, found.allowance.machine, found.allowance.drift) == ("table", "dedicated", 0.03)
    assert (found.answer, found.low is not None and found.low < 1 < (found.high or 0.0)) == ("inconclusive", True)
    said = " ".join(comparison.comparison([found], width=400).split())
    assert "A and B were measured one after the other" in said
    assert "allow for drift of ± 3.0 %, usual for a dedicated machine (docs/statistics.md)" in said
    (virtual,) = compare([cpu(virtual="virtual machine (KVM)")], [cpu(1.025e-3, day=1, virtual="virtual machine (KVM)")])
    assert virtual.allowance is not None
    assert virtual.allowance.machine == "virtual"
    elsewhere = [make({"copy": seconds(level, sd=0.002)}, day=day, device=IMPORTED_CPU) for level, day in ((1e-3, 0.0), (1.025e-3, 1))]
    (unknown,) = compare(elsewhere[:1], elsewhere[1:])
    assert (unknown.allowance.machine, unknown.allowance.drift) == ("unknown", 0.03)  # type: ignore[union-attr]
    said = " ".join(comparison.comparison([unknown], width=400).split())
    assert "± 3.0 %, usual for a dedicated machine: the files do not say on which kind they were measured, and a virtual one drifts by more" in said
    (large,) = compare([a], [cpu(1.1e-3, day=1)])
    assert large.answer == "slower"
    (stable,) = compare([a], [b], stable=True)
    assert (stable.allowance and stable.allowance.basis, stable.answer) == ("stable", "slower" if stable.high and stable.high < 1 / 1.02 else "inconclusive")
    assert stable.high is not None
    assert stable.high < 1
    assert "--assume-stable: the intervals allow for none" in " ".join(comparison.comparison([stable], width=400).split())


def test_interleaved_runs_and_simulation_need_no_allowance() -> None:
    a, b = ([cpu(level, day=2 * n + side) for n in range(4)] for side, level in ((0, 1e-3), (1, 1.05e-3)))
    (found,) = compare(a, b)
    assert (found.allowance, found.answer, found.replicates) == (None, "slower", "runs")
    (simulated,) = compare([make({"copy": seconds()})], [make({"copy": seconds(1.04e-3)}, day=1)])
    assert simulated.allowance is not None
    assert (simulated.allowance.machine, simulated.allowance.drift, simulated.answer) == ("simulated", 0.0, "slower")


def test_the_series_own_history_takes_the_tables_place() -> None:
    """A quiet history narrows the interval, one whose days differ by 5 % widens it; too short a one changes nothing."""
    def known(sd: float, days: int = 12) -> drift.Past:
        rng = np.random.default_rng(3)
        before = [cpu(1e-3 * float(np.exp(rng.normal(0, sd))), day=n - 20 + k / 10) for n in range(days) for k in range(2)]
        return drift.past(before, [a.run], [b.run])

    a, b = cpu(), cpu(1.03e-3, day=1)
    (quiet,) = compare([a], [b], past=known(0.0005))
    assert quiet.allowance is not None
    assert (quiet.allowance.basis, quiet.allowance.runs, quiet.allowance.days, quiet.answer) == ("history", 24, 12, "slower")
    assert quiet.allowance.drift < 0.01
    assert "by 24 earlier runs of the same cases on 12 days" in " ".join(comparison.comparison([quiet], width=400).split())
    (loud,) = compare([a], [b], past=known(0.05))
    assert loud.allowance is not None
    assert (loud.allowance.drift > 0.05, loud.answer) == (True, "inconclusive")
    (short,) = compare([a], [b], past=known(0.0005, days=2))
    assert short.allowance is not None
    assert short.allowance.basis == "table"
    assert "10 on 3 days are needed, there are 4" in " ".join(comparison.comparison([short], width=400).split())


def test_a_history_is_of_the_same_machine_and_before_both_sides() -> None:
    a, b = cpu(day=5), cpu(day=6)
    other = [make({"copy": seconds()}, day=n, device=replace(CPU, name="else")) for n in range(4)]
    elsewhere = [cpu(day=n, host="node2") for n in range(4)]
    assert drift.past([*other, *elsewhere, cpu(day=7), a, b], [a.run], [b.run]) == {}
    assert len(drift.past([cpu(day=1), cpu(day=2)], [a.run], [b.run])[a.run.plan.cases[0].id]) == 2


def test_the_history_is_found_in_the_home(tmp_path: Path) -> None:
    """What `compare` reads of the catalog: the runs of this machine before the older side."""
    def save(bundle: Bundle) -> None:
        run = replace(bundle.run, id=f"{bundle.run.began[:10]}-{bundle.run.machine.host}")
        writer = Writer.create(run, tmp_path)
        for one in bundle.samples:
            writer.append(one)
        writer.finish(run)

    for day in range(12):
        save(cpu(day=day))
    save(cpu(day=3, host="node2"))
    a, b = cpu(day=11), cpu(1.03e-3, day=12)
    save(b)
    found = drift.kept([a.run], [b.run], tmp_path)
    assert [len(points) for points in found.values()] == [11]
    (answer,) = compare([a], [b], past=found)
    assert answer.allowance is not None
    assert (answer.allowance.basis, answer.allowance.runs) == ("history", 11)

def test_what_neither_side_measured_is_said_of_both() -> None:
    def without(day: int) -> Bundle:
        made = make({"copy": seconds(), "gemm": seconds()}, day=day)
        lost = [replace(s, values=[], status="not_run", reason="no library") if s.case != made.samples[0].case else s for s in made.samples]
        return dataclasses.replace(made, samples=lost)

    found = compare([without(0)], [without(1)])
    assert [c.reason for c in found if c.answer == "not comparable"] == ["measured in neither: no library"]


@pytest.mark.parametrize(("estimate", "low", "high", "by_hand", "told"), [
    (0.30, 0.058, 0.60, 0.346, False), (-0.284, -0.45, -0.10, -0.33, False), (0.421, 0.048, 0.927, 0.295, False),
    (0.173, 0.05, 0.30, 0.268, True), (0.01, -0.05, 0.07, -0.01, True),
])  # fmt: skip
def test_medians_stand_in_the_row_by_the_rule_of_the_manual(estimate: float, low: float, high: float, by_hand: float, told: bool) -> None:
    """Another sign, or off by over a quarter of the interval's width: the rows of a reader who took the manual at its word."""
    assert changes.another(by_hand, estimate, high - low) == told
    assert all("a quarter of the interval's width" in " ".join((DOCS / name).read_text("utf-8").split()) for name in ("judging.md", "statistics.md"))
    steady = [1e-3 * (1 + n / 1000) for n in range(12)]
    made = replace(one(steady, steady[::-1]), ratio=1 / (1 + estimate), low=1 / (1 + high), high=1 / (1 + low), unit="s", better="lower")
    made = replace(made, a=replace(made.a, median=1.0), b=replace(made.b, median=1 + by_hand))
    assert bool(sides.of_medians(made)) == told


def test_medians_that_tell_another_change_stand_in_the_row() -> None:
    found = replace(one(seconds(sd=0.05), seconds(sd=0.05)), ratio=1 / 1.012, low=1 / 1.05, high=1 / 0.97, unit="s", better="lower")
    turned = replace(found, a=replace(found.a, median=1.0), b=replace(found.b, median=0.99))
    assert sides.of_medians(turned) == "the medians -1.0 %"
    row = next(line for line in comparison.comparison([turned], width=200).splitlines() if "+1.2 %" in line)
    assert "inconclusive (MDE" in row
    assert "; the medians -1.0 %)" in row
    far = replace(turned, b=replace(found.b, median=1.045))
    assert sides.of_medians(far) == "the medians +4.5 %"
    narrow = comparison.comparison([turned], width=70)
    assert "the medians" not in narrow.partition("\n\n")[0]
    assert "  medians         they say another change: " in narrow
    assert "-1.0 %" in narrow
    assert "B ÷ A − 1 of the medians, which is shown where it is far" in " ".join(narrow.split())
    near = replace(turned, b=replace(found.b, median=1.02))
    assert sides.of_medians(near) == ""
    assert "medians -" not in comparison.comparison([near], width=200)
