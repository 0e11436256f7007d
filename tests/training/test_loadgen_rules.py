"""MLPerf's rules: counts that LoadGen itself prints, exact binomial sums, each rule broken alone; and LoadGen, where it is installed."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks import training_infer
from hotlap.training import loadgen_rules, official, scenarios
from hotlap.training.loadgen_rules import RunRules
from hotlap.training.scenarios import ScenarioLoad

loadgen = pytest.mark.skipif(not official.version(), reason="LoadGen is not installed: pip install mlcommons-loadgen")
PRINTED = Path(__file__).parents[2] / "benchmarks" / "printed" / "training_infer.txt"


@pytest.mark.parametrize(
    ("percentile", "needed"),
    [(0.9, (44, 64, 127, 197, 1246)), (0.95, (90, 130, 259, 398, 2504)), (0.97, (152, 219, 433, 667, 4182)),
     (0.99, (459, 662, 1307, 2010, 12571)), (0.999, (4603, 6636, 13105, 20140, 125826))],
)  # fmt: skip
def test_as_many_queries_as_loadgen_asks_for(percentile: float, needed: tuple[int, ...]) -> None:
    """LoadGen 6.0.17's own counts, benchmarks/printed/training_infer.txt."""
    assert tuple(loadgen_rules.queries_needed(over, percentile) for over in (0, 1, 5, 10, 100)) == needed


@pytest.mark.parametrize("over", [0, 1, 2, 7])
def test_they_are_the_fewest_by_exact_sums(over: int) -> None:
    p = Fraction(9, 10)

    def at_most(n: int) -> Fraction:
        return sum((math.comb(n, k) * (1 - p) ** k * p ** (n - k) for k in range(over + 1)), Fraction(0))

    n = loadgen_rules.queries_needed(over, 0.9)
    assert at_most(n) < Fraction(1, 100) <= at_most(n - 1)


def test_the_shares_are_checked() -> None:
    for wrong in ((-1, 0.9), (0, 1.0), (0, 0.0)):
        with pytest.raises(ValueError, match="no such rule"):
            loadgen_rules.queries_needed(*wrong)


def test_a_percentile_is_bounded_by_what_may_be_left_out() -> None:
    assert loadgen_rules.discarded(63, 0.9) is None
    assert [loadgen_rules.discarded(n, 0.9) for n in (64, 126, 127, 1245, 1246)] == [1, 4, 5, 99, 100]
    latencies = np.arange(1.0, 128.0)
    judged = loadgen_rules.judge(RunRules(scenario="single", min_s=1, percentile=0.9), latencies, 2.0)
    assert (judged.valid, judged.estimate_s) == (True, latencies[127 - 5])
    assert loadgen_rules.at(latencies, 0.9) == latencies[114]  # ⌊127 · 0.9⌋


@pytest.mark.parametrize(
    ("latencies", "issued_s", "broken"),
    [([0.01] * 700, 2.0, ""), ([0.01] * 700, 0.5, "duration"), ([0.01] * 400, 2.0, "early_stopping"),
     ([0.01] * 690 + [0.2] * 10, 2.0, "performance early_stopping"), ([0.01] * 695 + [0.2] * 5, 2.0, "early_stopping"),
     ([0.01] * 40, 2.0, "queries early_stopping")],
)  # fmt: skip
def test_each_rule_of_server_can_be_broken(latencies: list[float], issued_s: float, broken: str) -> None:
    rules = RunRules(scenario="server", min_s=1.0, min_queries=50, bound_s=0.1)
    judged = loadgen_rules.judge(rules, latencies, issued_s)
    failed = [name for name in ("duration", "queries", "performance", "early_stopping") if getattr(judged, name) is False]
    assert failed == broken.split()
    assert judged.valid is not bool(broken)
    assert judged.over == sum(one > 0.1 for one in latencies)


def test_each_scenario_runs_as_it_says() -> None:
    calls: list[tuple[int, int]] = []

    def answer(first: int, count: int) -> None:
        calls.append((first, count))

    single = scenarios.run(answer, RunRules(scenario="single", min_s=0, min_queries=5), ScenarioLoad())
    assert (len(single.latencies_s), single.samples, calls) == (5, 5, [(n, 1) for n in range(5)])
    calls.clear()
    multi = scenarios.run(answer, RunRules(scenario="multi", min_s=0, min_queries=3), ScenarioLoad())
    assert (len(multi.latencies_s), multi.samples, calls) == (3, 24, [(0, 8), (8, 8), (16, 8)])
    calls.clear()
    offline = scenarios.run(answer, RunRules(scenario="offline", min_s=2.0), ScenarioLoad(rate=100))
    assert (len(offline.latencies_s), offline.samples, calls) == (1, 220, [(0, 220)])  # a tenth more than fill the time
    closed = scenarios.run(answer, RunRules(scenario="closed", min_s=0, min_queries=40), ScenarioLoad(clients=3))
    assert 40 <= len(closed.latencies_s) < 43


def test_a_server_s_latency_counts_from_when_a_query_was_due() -> None:
    """Answers take longer than the gaps between queries: each waits for those before it, and its latency holds that."""
    load, rules = ScenarioLoad(rate=2000.0, seed=3), RunRules(scenario="server", min_s=0, min_queries=30, bound_s=1.0)
    due = scenarios.due_times(rules, load)
    assert due == scenarios.due_times(rules, load)
    assert due != scenarios.due_times(rules, load._replace(seed=4))

    def answer(first: int, count: int) -> None:
        import time

        time.sleep(0.004)

    measured = scenarios.run(answer, rules, load)
    assert len(measured.latencies_s) == len(due) == 30
    assert measured.issued_s == due[-1]
    for number, latency_s in enumerate(measured.latencies_s):
        assert latency_s >= 0.004 * (number + 1) - due[number]


def test_an_engine_that_breaks_ends_the_scenario() -> None:
    def answer(first: int, count: int) -> None:
        raise RuntimeError("no memory")

    for scenario in ("single", "server", "closed", "offline"):
        with pytest.raises(RuntimeError, match="no memory"):
            scenarios.run(answer, RunRules(scenario=scenario, min_s=0.01, min_queries=4), ScenarioLoad(rate=1000.0, clients=2))  # type: ignore[arg-type]


@loadgen
@pytest.mark.slow("LoadGen runs 24 times")
def test_loadgen_itself_asks_for_as_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert training_infer.counts(3) == 0
    assert "20 of 20 counts equal" in capsys.readouterr().out


@loadgen
@pytest.mark.slow("LoadGen runs 32 times, a quarter of a second each")
def test_loadgen_calls_the_same_runs_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert training_infer.validity("far", training_infer.systems(0.25)[::2], 10) == 0
    assert training_infer.validity("near", training_infer.boundary(0.25), 6) == 0
    printed = capsys.readouterr().out
    assert "same run 10 of 10" in printed
    assert "same run 6 of 6" in printed


def test_the_printed_figures_are_those_of_the_manual() -> None:
    text = PRINTED.read_text()
    assert "505 of 505 counts equal" in text
    assert text.count("same run 40 of 40") == text.count("same run 12 of 12") == 2
    assert {f"LoadGen twice {twice} of 40; our generator {own} of 40" in text for twice, own in ((40, 39), (36, 34))} == {True}
