"""What `predict net`, `correlate` and `explain` print of the model, compared with golden files; figures stand here, so a refit changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from msgspec.structs import replace

from hotlap.core.analysis.correlate import Agreement, Correlated, Correlation
from hotlap.core.model.networks.result import StepEstimate, StepPart
from hotlap.core.plan import case
from hotlap.core.record import Gap, Limit, Notice, Row
from hotlap.core.show import correlation, network, text
from hotlap.core.store.bundle import Bundle
from hotlap.core.work.networks.calls import Setting

Kept = tuple[Bundle, list[Row]]
Golden = Callable[[str, str], None]

PARTS = (  # name, group, times, seconds of one, limiter
    ("attention", "attention", 80, 251e-6, "DRAM"), ("gate and up", "feed-forward", 80, 62e-6, "DRAM"),
    ("all-reduce after feed-forward", "communication", 80, 21e-6, "hops"), ("norm", "norms", 160, 3.5e-6, "launch"), ("softmax", "head", 1, 6e-6, "launch"),
)  # fmt: skip
SPLIT = {"DRAM": 21e-6, "tile quantisation": 11e-6, "clock under the power cap": 6e-6, "launch": 2e-6}


def step() -> StepEstimate:
    total = sum(times * each for _, _, times, each, _ in PARTS)
    parts = [StepPart(name=n, group=g, times=t, each_s=s, total_s=t * s, share=t * s / total, limiter=by) for n, g, t, s, by in PARTS]
    return StepEstimate(
        network="llama-3-70b", phase="decode", machine="h200-sxm", setting=asdict(Setting("decode", batch=32, context=8192, tp=8)), gpus=8,
        seconds=total, low_s=0.87 * total, high_s=1.16 * total, tokens_s=32 / total, operations=4.5e12, share_of_peak=0.021, energy_j=120.0,
        energy_per_token_j=3.75, memory_bytes={"weights": 17.6e9, "cache of keys and values": 10.7e9, "activations": 4e6, "runtime": 1.5e9},
        memory_total_bytes=29.8e9, fits=True, parts=sorted(parts, key=lambda one: -one.total_s), notices=[Notice("back_to_back", "kernels back to back, as in recorded graphs")],
    )  # fmt: skip


def correlated() -> Correlation:
    traffic = Gap(cause="bandwidth", basis="traffic", share=0.8, reference_kind="bound", numbers={"moved_b_s": 3.4e12})
    known: tuple[tuple[str, float, float, dict[str, Any]], ...] = (
        ("gemm", 81.2e-6, 79.5e-6, {"differ": {"DRAM": 4e-6}}),
        ("stream", 512e-6, 640e-6, {"spent": {"DRAM": 0.9, "launch": 0.1}, "gaps": {"measured": traffic}}),
    )
    cases = [
        Correlated(case=case(name, {"dtype": "bf16"} if name == "gemm" else {"size": "1 GiB"}), label=f"{name} sample", regime=name,
                   simulated_s=s, measured_s=m, error=s / m - 1, **causes)
        for name, s, m, causes in known
    ]  # fmt: skip
    regimes = [
        Agreement(regime="all", cases=40, mape=0.062, median=0.048, p90=0.13, bias=-0.021, rank=0.991),
        Agreement(regime="gemm", cases=38, mape=0.054, median=0.044, p90=0.11, bias=0.0002, rank=0.993),
        Agreement(regime="stream", cases=2, mape=0.2, median=0.2, p90=0.2, bias=-0.2),
    ]  # fmt: skip
    return Correlation(simulated=["a"], measured=["b"], regimes=regimes, cases=sorted(cases, key=lambda one: -abs(one.error)), missing=3)


def explained(rows: list[Row], missed_s: float) -> list[Row]:
    """A case that is measured, with a limit that the model expects something of and causes that add up to what is over the bound."""
    row = next(row for row in rows if row.verdict.state == "measured" and row.gap.reference_kind == "bound")
    limit = Limit(
        kind="bound", bound_s=80e-6, expected_s=120e-6, low_s=105e-6, high_s=136e-6, limiter="memory",
        calibration_level="fitted to measurements on other machines of its architecture",
    )  # fmt: skip
    return [replace(row, gap=replace(row.gap, split={**SPLIT, "unexplained": missed_s}, limit=limit))]


@pytest.mark.parametrize("width", [80, 100])
def test_a_step_of_a_network(golden: Golden, width: int) -> None:
    printed = network.step(step(), width)
    assert max(map(len, printed.splitlines())) <= width
    golden(f"net-{width}.txt", printed + "\n")


def test_colour_adds_nothing_but_colour() -> None:
    assert "\x1b" not in network.step(step()) + correlation.correlation(correlated())
    assert "\x1b" in correlation.correlation(correlated(), color=True)


def test_small_parts_of_a_step_are_put_together() -> None:
    printed = network.step(step(), 100)
    assert "the rest" in printed
    assert "softmax" not in printed


@pytest.mark.parametrize("width", [80, 100])
def test_a_correlation(golden: Golden, width: int) -> None:
    printed = correlation.correlation(correlated(), width)
    assert max(map(len, printed.splitlines())) <= width
    golden(f"correlation-{width}.txt", printed + "\n")


def test_an_explanation_with_its_split(gpu: Kept, golden: Golden) -> None:
    slower, quicker = (text.explain(explained(gpu[1], missed_s), 100) for missed_s in (5e-6, -3e-6))
    for name in (*SPLIT, "beyond what is expected"):
        assert name in " ".join(slower.split())
    (unknown,) = explained(gpu[1], 5e-6)
    alone = text.explain([replace(unknown, gap=replace(unknown.gap, cause="unknown", basis="unexplained"))], 100)
    assert "unexplained" in " ".join(alone.split())
    assert "unexplained" not in slower
    assert "faster than expected" in " ".join(quicker.split())
    golden("explain-split.txt", f"{slower}\n\n{quicker}\n")


def test_a_bound_is_named_beside_the_best_of_the_run(gpu: Kept) -> None:
    """A bound that leaves memory out yields to the run's own best: it is there all the same, in a run with and one without such a case."""
    (row,) = explained(gpu[1], 5e-6)
    gap = replace(row.gap, reference_kind="ceiling", share=0.5, split={}, limit=replace(row.gap.limit, limiter="arithmetic unit"))
    said = " ".join(text.explain([replace(row, gap=gap)], 100).split())
    assert "set by arithmetic unit, is higher: it leaves out the time of memory, or most of it" in said
    assert "no limit is known" in " ".join(text.explain([replace(row, gap=replace(gap, limit=None))], 100).split())


def test_an_explanation_says_where_the_inputs_of_operators_come_from(gpu: Kept) -> None:
    (row,) = explained(gpu[1], 5e-6)
    softmax = case("rowwise", {"op": "softmax", "rows": 4096, "columns": 4096})
    operator = replace(row, case=softmax)
    said = " ".join(text.explain([operator], 300).split())
    assert "inputs: operators read other inputs in each call, up to 64 sets in turn" in said
    warm = replace(operator, case=replace(softmax, params={**softmax.params, "cache": "warm"}))
    for other in (row, warm, replace(operator, result=replace(row.result, target="imported"))):
        assert "inputs:" not in text.explain([other], 300)


def test_a_rate_of_another_kind_is_said_as_what_the_case_would_reach(gpu: Kept) -> None:
    """158 GFLOP/s that no case had: it is this case's work at the best memory rate of the run, whose case is named."""
    (row,) = explained(gpu[1], 5e-6)
    gap = replace(
        row.gap, reference_kind="ceiling", share=0.27, limit_value=158e9, limiter="bandwidth memory", split={}, names={"best_case": "stream copy fp32 1 GiB"},
        numbers={"best_rate": 19.75e9},
    )
    flops = replace(row, gap=gap, result=replace(row.result, unit="FLOP/s"))
    said = " ".join(text.explain([flops], 300).split())
    assert "158 GFLOP/s, what this case would reach at the best median rate (memory) of this run, 19.8 GB/s of stream copy fp32 1 GiB, reached 0.27" in said
    moved = " ".join(text.explain([replace(row, gap=gap, result=replace(row.result, unit="B/s"))], 300).split())
    assert "best median of this run, of stream copy fp32 1 GiB: 158 GB/s (memory), reached 0.27" in moved
