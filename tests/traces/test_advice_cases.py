"""Cases whose true first finding was written down before the rules were tried on them: benchmarks/advice, without what runs a profiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.advice.case import Case
from benchmarks.advice.cases import MADE
from benchmarks.advice.judge import judged
from benchmarks.advice.measured import CASES as MEASURED
from benchmarks.advice.programs import PLANS
from hotlap.traces.advice.base import rules
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline


def test_cases_are_over_all_rules_and_have_names_of_their_own() -> None:
    every = [*MADE, *MEASURED]
    assert {case.truth for case in every} - {""} == set(rules())
    assert len({case.name for case in every}) == len(every)
    assert {case.name for case in MEASURED} == set(PLANS)
    assert sum(case.fresh for case in MADE) >= 8


@pytest.mark.slow("writes and reads a trace of thousands of events for each")
@pytest.mark.parametrize("case", MADE, ids=lambda case: case.name)
def test_the_first_finding_is_the_true_one_and_its_interval_holds_the_gain(case: Case, tmp_path: Path) -> None:
    gain = case.gain()
    verdict = judged(case.write(tmp_path), case.truth, (gain, gain, gain), case.no_gain)
    assert (verdict.first, verdict.held) == (case.truth, True), verdict


@pytest.mark.parametrize("name", ["pointwise-alone", "plain-floats-alone", "single-requests", "strided-sum"])
def test_what_the_device_alone_shows_needs_no_calls_of_the_host(name: str, tmp_path: Path) -> None:
    (case,) = (case for case in MADE if case.name == name)
    study = Study(Timeline.open(case.write(tmp_path)[0], cache=False))
    assert (study.links.call < 0).all()
    assert judged([tmp_path / f"{name}.json"], case.truth, (0.0, 1.0, 0.0)).first == case.truth
