"""Runs compared with what is normal: for this device, for its model, and in the fleet."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from judging import COPY, H200, make
from msgspec.structs import replace

from hotlap.core.analysis import reference
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.fleet import AgainstFleet, parted, peers
from hotlap.core.analysis.reference import AgainstBaseline
from hotlap.core.errors import InputError, SchemaError
from hotlap.core.record import Baseline, Device, Row, Verdict
from hotlap.core.show import listing
from hotlap.core.store import baselines
from hotlap.core.store.bundle import Bundle

RNG = np.random.default_rng(11)


def run(day: float = 0, level: float = 1e-3, between: float = 0.003, within: float = 0.002, **fields: object) -> Bundle:
    """One run of six rounds: its own level, and noise within."""
    mine = level * np.exp(RNG.normal(0, between))
    return make({"copy": (mine * np.exp(RNG.normal(0, within, 6))).tolist()}, day=day, **fields)  # type: ignore[arg-type]


def judged(bundle: Bundle, baseline: Baseline) -> Verdict:
    (verdict,) = AgainstBaseline(baseline, bundle.run.machine).judge(tables.rows(bundle))
    return verdict


NORMAL = baselines.learn("normal", [run(day=n) for n in range(10)])


def test_a_run_like_the_others_passes_and_says_what_would_have_been_seen() -> None:
    verdict = judged(run(day=20), NORMAL)
    assert (verdict.state, verdict.against) == ("pass", "baseline normal")
    assert "would have been seen" in verdict.reason
    assert "10 runs of this device" in verdict.provenance


def test_a_loss_beyond_gate_and_noise_fails_a_gain_does_not() -> None:
    worse = judged(run(day=20, level=1.05e-3), NORMAL)
    assert worse.state == "fail"
    assert worse.ratio == pytest.approx(1 / 1.05, rel=0.01)
    assert worse.threshold is not None
    assert judged(run(day=20, level=0.9e-3), NORMAL).state == "pass"


def test_a_loss_beside_other_programs_is_no_fail() -> None:
    """They only ever make a number worse: with too few good rounds, what they may have made is inconclusive."""
    slow = run(day=20, level=1.25e-3)
    for share, state in ((0.7, "inconclusive"), (0.05, "fail")):
        verdict = judged(dataclasses.replace(slow, samples=[replace(each, disturbed=share) for each in slow.samples]), NORMAL)
        assert verdict.state == state
        assert ("other programs ran during 6 of its 6 rounds" in verdict.reason) == (state == "inconclusive")
    beside = [replace(each, disturbed=0.7 * (each.round < 2)) for each in slow.samples]
    assert judged(dataclasses.replace(slow, samples=beside), NORMAL).state == "fail"  # four good rounds make the number


def test_a_loss_of_samples_that_were_left_on_a_busy_machine_is_no_fail() -> None:
    """Of two cases of a run the other one was disturbed in all its rounds: this one's bad samples were replaced."""
    usual = baselines.learn("both", [make({name: [1e-3 + 1e-6 * n] * 6 for name in ("copy", "chase")}, day=n) for n in range(8)])
    slow = make({name: [1.25e-3 + 1e-6 * n for n in range(6)] for name in ("copy", "chase")}, day=20)

    def verdicts(left: list[float], share: float) -> list[str]:
        samples = [replace(each, disturbed=share) if each.case == COPY.id else replace(each, replaced=left) for each in slow.samples]
        beside = dataclasses.replace(slow, samples=samples)
        return [one.state for one in AgainstBaseline(usual, slow.run.machine).judge(tables.rows(beside))]

    assert verdicts([2e-3], 0.7) == ["inconclusive", "inconclusive"]
    assert verdicts([], 0.7) == ["inconclusive", "fail"]
    assert verdicts([2e-3], 0.0) == ["fail", "fail"]


def test_a_machine_that_was_slow_for_a_while_is_no_fail() -> None:
    """100 rounds of unchanged code, of which many are 20 to 50 % slower, in stretches: the others are as fast as the baseline. Code that is
    slower has no such stretch, and a noise that comes and goes from round to round hides nothing."""
    chance = np.random.default_rng(3)
    levels = np.repeat([1.02, 1.5, 1.25, 1.5, 1.02, 1.3], [13, 18, 12, 24, 13, 20])
    noise = np.exp(chance.normal(0, 0.02, len(levels)))
    usual = baselines.learn("normal", [run(day=0)])

    def verdict(values: np.ndarray) -> Verdict:
        return judged(make({"copy": (1e-3 * values).tolist()}, day=1), usual)

    wandered = verdict(levels * noise)
    assert wandered.state == "inconclusive"
    assert "its rounds are alike in stretches, the fastest of 10 rounds at 1.0" in wandered.reason
    assert verdict(1.8 * levels * noise).state == "fail"
    assert verdict(chance.permutation(levels) * noise).state == "fail"
    assert verdict(1.25 * noise).state == "fail"


@pytest.mark.parametrize("name", ["copy", "chase"])  # a rate and a time
def test_a_virtual_machine_that_others_slowed_is_no_fail(name: str) -> None:
    """60 rounds of unchanged code, most of them slower by up to 60 %: the fastest tenth is as fast as usual. On a machine of its own nobody
    else slows it, and code that is slower has no round as fast as the baseline."""
    chance = np.random.default_rng(5)
    usual = [(1e-3 * np.exp(chance.normal(0, 0.03, 12))).tolist() for _ in range(4)]
    quiet = np.exp(chance.normal(0, 0.03, 60))
    slowed = np.exp(chance.normal(0, 0.03, 60)) * np.where(chance.random(60) < 0.15, 1.0, 1 + 0.6 * chance.random(60))

    def verdict(values: np.ndarray, virtual: str = "kvm", kind: Literal["cpu", "gpu"] = "cpu") -> Verdict:
        device = Device(target="opencl", index=0, name="one", kind=kind)
        *learnt, now = [make({name: one}, day=n, device=device, virtual=virtual) for n, one in enumerate([*usual, (1e-3 * values).tolist()])]
        return judged(now, baselines.learn("usual", learnt))

    loss = verdict(slowed)
    assert loss.state == "inconclusive"
    assert "the fastest tenth of its rounds reaches" in loss.reason
    assert "the base in turns (--measure PLAN --base REF)" in loss.reason
    assert verdict(slowed, virtual="").state == "fail"
    assert verdict(slowed, kind="gpu").state == "fail"
    assert verdict(1.4 * slowed).state == "fail"
    assert verdict(1.3 * quiet).state == "fail"
    assert verdict(quiet).state == "pass"


def test_other_programs_do_not_change_a_size() -> None:
    slow = run(day=20, level=1.25e-3)
    beside = dataclasses.replace(slow, samples=[replace(each, disturbed=0.7) for each in slow.samples])
    (row,) = tables.rows(beside)
    for unit, state in (("B", "fail"), ("s", "inconclusive")):
        usual = replace(NORMAL, references=[replace(one, unit=unit) for one in NORMAL.references])
        (verdict,) = AgainstBaseline(usual, slow.run.machine).judge([replace(row, result=replace(row.result, unit=unit))])
        assert verdict.state == state


@pytest.mark.slow("hundreds of comparisons")
def test_error_rate_of_a_healthy_device() -> None:
    states = [judged(run(day=20 + n), baselines.learn("n", [run(day=m) for m in range(8)])).state for n in range(150)]
    assert states.count("fail") <= 5


def test_a_sure_loss_that_may_be_above_the_gate_is_no_pass() -> None:
    exact = baselines.learn("exact", [run(day=n, between=0.001, within=1e-4) for n in range(12)])
    verdict = judged(run(day=20, level=1.019e-3, between=0.0, within=1e-4), exact)
    assert verdict.state == "inconclusive"
    assert "perhaps by less than 2.0 %, which is no loss: from 1.05 TB/s (-2.2 %) on it would fail" in verdict.reason
    assert verdict.threshold == pytest.approx(1.05e12, rel=0.005)
    assert verdict.low is not None
    assert verdict.low < 0.98
    assert judged(run(day=20, level=1.008e-3, between=0.0, within=1e-4), exact).state == "pass"


@pytest.mark.parametrize(("name", "said", "shift"), [("chase", "latency", "+2.0 %"), ("copy", "bandwidth", "-2.0 %")])
def test_a_loss_is_the_change_of_the_metric_as_printed(name: str, said: str, shift: str) -> None:
    """10.8 ns that became 16.4 ns are +52 %, not 34 % worse; both values stand beside it. 2 % of threshold are told the same way."""
    def held(seconds: float) -> Verdict:
        new = make({name: [seconds] * 6}, day=20)
        (row,) = tables.rows(new)
        return AgainstBaseline(learnt, new.run.machine).judge([row])[0]

    learnt = baselines.learn("n", [make({name: [10.8e-3 * (1 + n * 1e-4)] * 6}, day=n) for n in range(5)])
    verdict = held(16.4e-3)
    assert verdict.state == "fail"
    size = r"\+52 % \[\+5[12] %, \+52 %\]" if name == "chase" else r"-34 % \[-34 %, -34 %\]"
    assert re.match(rf"{said} \S+ \S+ → \S+ \S+, {size}: worse than the median of 5 runs of this device; threshold ", verdict.reason), verdict.reason
    end = rf"; threshold \S+ \S+: \S+ \S+ {re.escape(shift[0])}[\d.]+ %, from where all of its interval is beyond [\d.]+ %$"
    assert re.search(end, verdict.reason), verdict.reason
    assert held(10.8e-3).reason == f"{said} worse by {shift[1:]} or more would have been seen, against the median of 5 runs of this device"


def test_a_baseline_of_that_name_is_not_called_so_twice() -> None:
    names = [AgainstBaseline(replace(NORMAL, name=name), make({"copy": []}).run.machine).name for name in ("baseline", "nightly")]
    assert names == ["baseline", "baseline nightly"]


def test_a_noisy_case_has_not_earned_the_right_to_gate() -> None:
    noisy = baselines.learn("noisy", [run(day=n, between=0.2) for n in range(10)])
    verdict = judged(run(day=20), noisy)
    assert (verdict.state, "too noisy to gate" in verdict.reason) == ("inconclusive", True)


def test_what_is_surely_better_passes_however_noisy_its_baseline_is() -> None:
    """Too noisy to show a loss, and 2 × faster: that is no loss. A little faster shows nothing."""
    noisy = baselines.learn("noisy", [run(day=n, between=0.2) for n in range(10)])
    verdict = judged(run(day=20, level=0.25e-3, between=0.0), noisy)
    assert verdict.state == "pass"
    assert re.match(r"bandwidth \S+ \S+ → .*: better than the median of 10 runs of this device", verdict.reason), verdict.reason
    assert judged(run(day=20, level=0.95e-3, between=0.0), noisy).state == "inconclusive"


def test_few_runs_are_compared_by_rounds_and_say_so() -> None:
    few = baselines.learn("few", [run(day=1)])
    assert "rounds of 1 run of this device; 1 run cannot tell how runs differ (4 can)" in judged(run(day=20, between=0.0), few).reason
    noisy = judged(run(day=20, between=0.0, within=0.1), baselines.learn("few", [run(day=1, within=0.1)])).reason
    assert re.fullmatch(r"too noisy to gate: only bandwidth worse by \d+ % or more would show, against the rounds of 1 run of this device; 1 run .*", noisy), noisy
    assert noisy.endswith("; 'hotlap baseline save RUN --add' with the same --name or --to adds runs, of other days too")
    assert judged(run(day=20, level=1.2e-3), few).state == "fail"


def test_a_change_that_the_medians_do_not_tell_says_so_and_a_threshold_of_the_spread_says_where_it_comes_from() -> None:
    """The middles of two modes jump further than the rounds as a whole."""
    few = baselines.learn("few", [make({"chase": [100e-3, 101e-3, 103e-3, 109e-3, 112e-3, 131e-3, 135e-3]}, day=1)])
    verdict = judged(make({"chase": [130e-3, 133e-3, 140e-3, 190e-3, 191e-3, 193e-3, 194e-3]}, day=2), few)
    assert verdict.state == "fail"
    assert verdict.ratio is not None
    assert re.search(r"latency \S+ \S+ → \S+ \S+ \(medians \+74 %\), \+\d+ % \[", verdict.reason), verdict.reason
    assert not re.search(r", \+74 %", verdict.reason)
    assert re.search(r"; threshold \S+ \S+: \S+ \S+ \+\d+ %, from where all of its interval is beyond [\d.]+ %$", verdict.reason), verdict.reason
    assert verdict.threshold is not None
    assert 1.09e-6 < verdict.threshold < 1.90e-6, "what fails lies beyond it"


def test_another_device_is_held_against_its_model() -> None:
    other = run(day=20, level=1.001e-3, device=replace(H200, uuid="GPU-9", serial="9"))
    verdict = judged(other, NORMAL)
    assert verdict.state == "pass"
    assert "other devices of its model h200-sxm" in verdict.provenance
    b200 = run(day=20, device=replace(H200, uuid="GPU-8", machine="b200"))
    assert "does not know it" in judged(b200, NORMAL).reason


def test_a_case_that_was_lost_is_not_left_out() -> None:
    (row,) = tables.rows(make({"copy": []}, day=20))
    verdict = AgainstBaseline(NORMAL, make({"copy": []}).run.machine).judge([row])[0]
    assert (verdict.state, "measured in the baseline, not now" in verdict.reason) == ("inconclusive", True)


def test_processors_of_two_hosts_are_two_devices() -> None:
    cpu = replace(H200, uuid="", kind="cpu", machine="", name="EPYC", target="opencl")
    learnt = baselines.learn("cpus", [run(day=n, device=cpu, host=host) for n in range(4) for host in ("a", "b")])
    assert len(learnt.references) == 2
    assert "4 runs of this device" in judged(run(day=9, device=cpu, host="b"), learnt).provenance


# ---------------------------------------------------------------- fleet


def fleet_rows(levels: list[float]) -> list[tuple[Row, AgainstFleet]]:
    runs = [run(day=n, level=level, device=replace(H200, uuid=f"GPU-{n}", pci_address="")) for n, level in enumerate(levels)]
    known = peers(baselines.learn("fleet", runs).references)
    return [(tables.rows(one)[0], AgainstFleet(known, one.run.machine)) for one in runs]


def test_the_slow_device_of_a_fleet_is_named() -> None:
    states = [standard.judge([row])[0].state for row, standard in fleet_rows([1e-3] * 9 + [1.06e-3])]
    assert states == ["pass"] * 9 + ["fail"]


def test_two_groups_of_a_few_devices_are_named_rather_than_noise() -> None:
    for row, standard in fleet_rows([1e-3, 1.001e-3, 1.002e-3, 1.56e-3, 1.561e-3]):
        verdict = standard.judge([row])[0]
        assert (verdict.state, verdict.code) == ("inconclusive", "two_groups")
        assert "the devices form two groups, " in verdict.reason
        assert "give a limit, or a baseline" in verdict.reason


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        ([963.0, 960, 965, 615, 617], (2, 3)), ([963.0, 960, 965, 615], None),  # one alone is an outlier, no group
        ([963.0, 900, 830, 760, 700], None), ([100.0, 101, 103, 104], None), ([0.0, 1, 2, 3], None),
    ],
)  # fmt: skip
def test_two_groups_are_clearly_apart(values: list[float], sizes: tuple[int, int] | None) -> None:
    parts = parted(values)
    assert (parts and tuple(map(len, parts))) == sizes


def test_two_devices_are_no_fleet() -> None:
    row, standard = fleet_rows([1e-3, 1e-3])[0]
    assert "1 other device of" in standard.judge([row])[0].reason


# ---------------------------------------------------------------- the store of baselines


def test_saved_baselines_are_read_back_and_promoted(tmp_path: Path) -> None:
    baselines.save(NORMAL, tmp_path)
    assert baselines.load("normal", tmp_path) == NORMAL
    assert (baselines.names(tmp_path), baselines.promoted(tmp_path)) == (["normal"], "")
    baselines.promote("normal", tmp_path)
    assert baselines.load("", tmp_path) == NORMAL


def test_a_run_counts_once_and_more_can_be_added() -> None:
    first = run(day=1)
    again = baselines.learn("n", [first, first, run(day=2)], baselines.learn("n", [first]))
    assert [len(one.runs) for one in again.references] == [2]


def test_bad_baselines_are_answered(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no name for a baseline"):
        baselines.learn("a/b", [run()])
    with pytest.raises(InputError, match="nothing to learn"):
        baselines.learn("n", [make({"copy": []})])
    with pytest.raises(InputError, match="no baseline is promoted"):
        baselines.load("", tmp_path)
    with pytest.raises(InputError, match="none is saved yet"):
        baselines.load("x", tmp_path)
    path = baselines.save(NORMAL, tmp_path)
    path.write_text(path.read_text()[:-50])
    with pytest.raises(SchemaError, match="save it again"):
        baselines.load("normal", tmp_path)


@pytest.mark.parametrize(("new", "sign"), [([210.0, 260, 301, 340, 240, 400], "-"), ([400.0, 430, 300, 301, 560, 480], "+")])
def test_a_noisy_case_says_what_the_medians_tell_where_the_estimate_is_another(new: list[float], sign: str) -> None:
    learnt = baselines.learn("n", [make({"chase": [0.361, 0.365, 0.350, 0.450, 0.300, 0.480]}, day=0)])
    bundle = make({"chase": [value / 1000 for value in new]}, day=1)
    (row,) = tables.rows(bundle)
    verdict = AgainstBaseline(learnt, bundle.run.machine).judge([row])[0]
    assert verdict.state == "inconclusive"
    found = re.search(r"; ([+-])\S+ % is estimated from all rounds \(medians ([+-]\S+) %\)", verdict.reason)
    assert found, verdict.reason
    assert found[1] == sign
    assert float(found[2]) == pytest.approx(100 * (float(np.median(new)) / 363 - 1), abs=1)


def test_a_baseline_that_is_too_noisy_says_what_it_finds() -> None:
    noisy = baselines.learn("n", [make({"chase": [0.361, 0.365, 0.350, 0.450, 0.300, 0.480]}, day=0)])
    printed = " ".join(listing.baseline(noisy).split())
    found = re.search(r"noisy: by its noise alone a gate against it finds only losses above (\d+) % of \S", printed)
    assert found, printed
    assert 10 < int(found[1]) < 60
    assert "noisy: a gate" not in listing.baseline(NORMAL)


@pytest.mark.parametrize(("case", "better", "states"), [
    ("chase", "lower", ["pass", "inconclusive", "inconclusive"]), ("copy", "higher", ["pass", "pass", "inconclusive"]),
])  # fmt: skip
def test_a_pass_never_needs_a_loss_above_a_tenth_of_the_metric_as_printed(case: str, better: str, states: list[str]) -> None:
    """A ratio of 1.108 is a time 10.8 % longer, which is too coarse, and a rate 9.7 % lower, which is not."""
    (row,) = tables.rows(make({case: [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]}))
    assert row.result.better == better
    middle = row.summary.median or 0.0
    for ratio, state in zip((1.09, 1.108, 1.12), states, strict=True):
        (found,) = reference.decided([reference.ReferenceRatio(row, middle, 0.0, math.log(ratio), 1.0, "rounds of x")], "x", 0.02)
        assert found.state == state
        if state == "pass":
            assert found.threshold is not None
            assert abs(found.threshold / middle - 1) <= 0.10
