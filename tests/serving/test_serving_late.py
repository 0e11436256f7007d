"""Objectives beside a client that is late: what was met is met, and nothing else is said."""

from __future__ import annotations

from tests.serving.test_serving_figures import SOUND, run_of, sent

from hotlap.serving import summary, verdict


def test_a_late_client_takes_no_objective_that_was_met_and_gives_none() -> None:
    """Times count from when a request was due: late by 10 ms, what is within 1 s is met. Beside 50 ms, of TPOT, or missed, nothing is said."""
    for limits, state in (("ttft<=1s", "pass"), ("e2e<=1s,tpot<=1s", "pass"), ("ttft<=95ms", "inconclusive"), ("tpot<=1s", "inconclusive")):
        serving = run_of(sent(0.01), SOUND, objectives=limits, attain=0.9)
        assert verdict.of(serving, summary.of(serving)).state == state
