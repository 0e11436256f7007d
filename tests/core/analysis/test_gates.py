"""Every gate has one rule: a loss is called when the whole interval lies beyond the threshold, and is open when it may lie on either side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from judging import make
from msgspec.structs import replace

from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.base import AgainstBase
from hotlap.core.analysis.reference import AgainstBaseline
from hotlap.core.record import Baseline, Reference, RunRecord, Samples, Stop, Turns, Verdict
from hotlap.core.stats.ratio import beyond
from hotlap.core.store import baselines
from hotlap.core.store.bundle import Bundle

GATE, RNG = 0.02, np.random.default_rng(5)


def side(name: str, level: float, noise: float, turns: Turns) -> Bundle:
    """A run of 40 rounds, one of two in turns."""
    made = make({"copy": (1e-3 * level * np.exp(RNG.normal(0, noise, 40))).tolist()}, labels={"side": name})
    return replace_run(made, replace(made.run, turns=turns))


def replace_run(bundle: Bundle, run: RunRecord) -> Bundle:
    return Bundle(run, Path("nowhere"), list[Samples](bundle.samples))


def in_turns(loss: float, noise: float) -> Verdict:
    planned = Turns(id="a", side="A", difference=2 * GATE, min_effect=GATE, most=40)
    before, after = side("A", 1.0, noise, planned), side("B", 1 + loss, noise, planned)
    (verdict,) = AgainstBase(before, "base v1", Stop("rounds_max")).judge(tables.rows(after))
    return verdict


def by_baseline(loss: float, noise: float) -> Verdict:
    known = baselines.learn("b", [make({"copy": (1e-3 * np.exp(RNG.normal(0, noise, 6))).tolist()}, day=day) for day in range(10)])
    run = make({"copy": (1e-3 * (1 + loss) * np.exp(RNG.normal(0, noise, 6))).tolist()}, day=20)
    (verdict,) = AgainstBaseline(known, run.run.machine, GATE).judge(tables.rows(run))
    return verdict


@pytest.mark.parametrize("gate", [in_turns, by_baseline])
@pytest.mark.parametrize("noise", [0.001, 0.01])
@pytest.mark.parametrize("loss", [-0.05, 0.0, 0.018, 0.022, 0.03, 0.15])
def test_a_verdict_follows_from_the_whole_interval(gate, noise: float, loss: float) -> None:  # type: ignore[no-untyped-def]
    for _ in range(8):
        verdict = gate(loss, noise)
        way = beyond(verdict.low, verdict.high, GATE)
        assert (verdict.state == "fail") <= (way == "smaller")
        assert (way == "smaller") <= (verdict.state in ("fail", "inconclusive"))  # several cases together may leave it open
        assert (verdict.state == "pass") <= (way != "smaller")


def test_losses_far_beyond_fail_and_none_passes() -> None:
    assert [in_turns(0.15, 0.01).state, by_baseline(0.15, 0.01).state] == ["fail", "fail"]
    assert [in_turns(0.0, 0.001).state, by_baseline(0.0, 0.001).state] == ["pass", "pass"]
    assert in_turns(-0.05, 0.001).state == "pass"


def test_a_case_of_many_needs_more_evidence() -> None:
    """The level is shared among the cases of a plan."""
    from hotlap.core.stats.sequential import SequentialOptions, trial

    a, b = np.exp(RNG.normal(0, 0.02, 60)), 1.06 * np.exp(RNG.normal(0, 0.02, 60))
    designs = [trial(a, b, SequentialOptions(0.04, 0.02, 60, 0.05 / cases))[0] for cases in (1, 20)]
    assert all(design is not None for design in designs)
    assert designs[0].bounds[-1] < designs[1].bounds[-1]  # type: ignore[union-attr]


def test_few_days_allow_for_drift_of_the_class_and_more_do_not() -> None:
    """By the table: 10 % of a virtual machine, nothing of a simulated device."""
    run = make({"copy": [1.0e-3] * 6}, day=20)
    virtual = {"virtual": "kvm", "devices": [replace(run.run.machine.devices[0], kind="cpu", target="opencl")]}

    def reach(days: int) -> float:
        learnt = baselines.learn("d", [make({"copy": [1.0e-3 * (1 + n / 1000)] * 6}, day=0.001 * n, **virtual) for n in range(6)])
        references = [replace(one, target="simulated", runs=_on_days(one, days)) for one in learnt.references]
        baseline = Baseline(name="d", saved="", hotlap="", references=references)
        machine = replace(run.run.machine, **virtual)
        (verdict,) = AgainstBaseline(baseline, machine, GATE).judge(tables.rows(run))
        assert verdict.low is not None
        assert verdict.high is not None
        return float(np.log(verdict.high / verdict.low) / 2)

    assert reach(1) == pytest.approx(np.hypot(np.log(1.1), reach(3)), rel=1e-6)


def _on_days(reference: Reference, days: int) -> dict[str, list[float]]:
    return {f"2026110{n % days + 1}T00000{n}-abcdef": values for n, values in enumerate(reference.runs.values())}
