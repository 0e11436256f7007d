"""The simulated time of a case, without noise and faults, against what the model expects of it: both count the same work."""

from __future__ import annotations

from functools import cache

import pytest

from hotlap.core import plan as plans
from hotlap.core import work
from hotlap.core.model import limits, machines, predict
from hotlap.core.model.simulate import cases
from hotlap.core.record import Case

MACHINE = "h200-sxm"  # the machine table has all facts that kernels are played by
OUTSIDE = {  # workload → why its simulated time may lie outside of the expectation's interval
    "gemm": "expected as cuBLAS was measured, within 8 to 15 %; played as tiles, which skinny products and small ones are further off from",
    "attention": "expected as FlashAttention was measured; played as tiles without a library's own work",
    "moe": "plain time: the bound; what libraries take for routing and small products is in the expectation alone",
    "rnn": "plain time: the bound, or a launch per step; the expectation has a product per step",
    "transfer": "plain time: the bound of the link; the expectation adds 5 µs for a copy",
    "rowwise": "a single row: expected as by one block, which is how libraries do it; played by all of them",
}


@cache
def by_workload() -> dict[str, list[Case]]:
    """The cases of the plan `kernels` whose workload has a model, each once."""
    found: dict[str, list[Case]] = {}
    for case in plans.load("kernels").cases:
        if work.find(case.workload).model:
            found.setdefault(case.workload, []).append(case)
    return found


def outside(case: Case) -> str:
    """The case with both times, where the simulated one is outside of the interval; "" where it is inside, or nothing is expected."""
    spec = machines.load(MACHINE)
    limit = predict.expected(case, spec, limits.limit(case, spec))
    if limit.expected_s is None:
        return ""
    seconds = cases.call(case, spec).seconds
    return "" if limit.low_s <= seconds <= limit.high_s else f"{work.label(case)}: {seconds:.3g} s, not {limit.low_s:.3g} to {limit.high_s:.3g} s"


@pytest.mark.parametrize("workload", sorted(by_workload()))
def test_a_simulated_time_lies_within_what_is_expected(workload: str) -> None:
    found = [text for text in map(outside, by_workload()[workload]) if text]
    if workload in OUTSIDE:
        assert found, f"an exception that is none: {OUTSIDE[workload]}"
    else:
        assert found == []


def test_every_launch_of_a_call_is_waited_for() -> None:
    spec = machines.load(MACHINE)

    def seconds(workload: str, **params: object) -> float:
        return cases.call(plans.case(workload, params), spec).seconds

    small = {"elements": 4096, "dtype": "fp32"}
    assert seconds("reduce", **small) > 1.3 * seconds("scan", **small)  # two kernels against one, and little else
    assert cases.call(plans.case("reduce", small), spec).counters["stall_s.launch"] > 0
