"""Which variant of the multiply-add chains is measured: the best one on a warm device, and the same one in all rounds of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hotlap.core import work
from hotlap.core.measure import workloads
from hotlap.core.measure.protocol import CaseChoice
from hotlap.core.measure.rounds import Rounds
from hotlap.core.measure.targets.base import Buffer, Timing
from hotlap.core.measure.targets.virtual_clock import VirtualClock
from hotlap.core.measure.workloads import arithmetic
from hotlap.core.record import Case, Device, MeasureOptions, Samples

CASE = Case(workload="fma", params=work.find("fma").parse({"dtype": "fp32"}))
WARM_UP_S = 0.05


class RisingClock:
    """A GPU whose clock rises fivefold while it is busy for 50 ms; more chains are a little faster, but for one variant."""

    dialect, features, library, timer_resolution_s = "c", frozenset({"fp32"}), None, 1e-6

    def __init__(self) -> None:
        self.device = Device(target="script", index=0, name="rising", kind="gpu", compute_units=4)
        self.clock, self.busy_s, self.pending_s = VirtualClock(), 0.0, 0.0
        self.compiled: list[tuple[int, int]] = []
        self.order: list[tuple[int, int, float]] = []

    def kernel(self, source: str, name: str, defines: Sequence[str] = ()) -> Any:
        named = dict(one.split("=", 1) for one in defines)
        width, chains = (1 if named["T"] == "float" else 2), int(named["CHAINS"])
        self.compiled.append((width, chains))
        rate = 1e12 * (1 + chains / 1000) * (1.02 if (width, chains) == (1, 4) else 1.0)

        def launch(items: int, group: int, *args: Any) -> None:
            self.pending_s += 2 * items * width * chains * float(args[-1]) / (rate * min(0.2 + self.busy_s / WARM_UP_S, 1.0))
            self.order.append((width, chains, self.busy_s))

        return launch

    def buffer(self, data: Any, where: Any = "device") -> Buffer:
        return Buffer(None, 4, "device", np.dtype(np.float32))

    def time(self, enqueue: Any, calls: int, graph: bool = False, ahead: Any = None) -> Timing:
        self.pending_s = 0.0
        enqueue(calls)
        self.clock.sleep(self.pending_s)
        self.busy_s += self.pending_s
        return Timing(self.pending_s, self.pending_s)


def prepared(target: Any, variant: str = "") -> Any:
    return workloads.prepare(target, CASE, 1, variant)


def test_the_best_variant_is_found_on_a_clock_that_rises() -> None:
    """The best one is tried first: from an idle clock all that come later would look faster."""
    target = RisingClock()
    assert prepared(target).variant == "float1 × 4 chains"
    assert target.compiled[0] == (1, 4)


def test_the_device_is_warm_and_the_variants_take_turns() -> None:
    target = RisingClock()
    prepared(target)
    names = [(width, chains) for width, chains, _ in target.order]
    variants = list(dict.fromkeys(names))
    assert len(variants) == 6
    turns = names[-arithmetic.TRIALS * len(variants) :]
    assert turns == variants * arithmetic.TRIALS
    assert min(busy_s for *_, busy_s in target.order[-len(turns) :]) >= arithmetic.WARM_S


def test_a_trial_takes_3_ms() -> None:
    target = RisingClock()
    took = []
    real = target.time

    def timed(*given: Any) -> Timing:
        took.append(real(*given))
        return took[-1]

    target.time = timed  # type: ignore[method-assign]
    prepared(target)
    assert [one.wall_s for one in took[-18:]] == pytest.approx([arithmetic.TRIAL_S] * 18, rel=0.05)


def test_a_later_round_takes_the_variant_it_is_given() -> None:
    target = RisingClock()
    assert prepared(target, "float2 × 16 chains").variant == "float2 × 16 chains"
    assert target.compiled == [(2, 16)]
    assert target.order == []
    assert prepared(target, "float9 × 1 chains").variant == "float1 × 4 chains"  # none of this device: it chooses


def test_what_the_first_round_chose_is_handed_on() -> None:
    """From what is kept, so that a run that goes on has it too."""
    rounds = Rounds([CASE], MeasureOptions())
    assert rounds.choices([CASE]) == {}
    rounds.add(Samples(case=CASE.id, device="d", round=0, status="error", variant="none"))
    assert rounds.choices([CASE]) == {}
    for number, variant in ((1, "float1 × 8 chains"), (2, "float2 × 8 chains")):
        rounds.add(Samples(case=CASE.id, device="d", round=number, values=[1.0], variant=variant, method="event-graph"))
    assert rounds.choices([CASE]) == {CASE.id: CaseChoice("float1 × 8 chains", "event-graph")}
