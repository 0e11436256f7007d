"""Numbers that were timed in ways which mean different things: a recorded graph of calls against calls one by one. No answer is 'faster'."""

from __future__ import annotations

from dataclasses import replace as with_fields

import pytest
from judging import GEMM, NAMED, make
from msgspec.structs import replace

from hotlap.core.analysis import compare, verdicts
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.history import history
from hotlap.core.analysis.reference import AgainstBaseline
from hotlap.core.record import Samples
from hotlap.core.store import baselines
from hotlap.core.store.bundle import Bundle
from hotlap.core.store.fold import fold
from hotlap.core.timing import timing_of

EAGER = [8.0e-4, 8.1e-4, 7.9e-4, 8.05e-4, 7.95e-4, 8.0e-4]
GRAPH = [value / 4 for value in EAGER]


def timed(seconds: list[float], method: str, day: float = 0) -> Bundle:
    made = make({"gemm": seconds}, day=day)
    return with_fields(made, samples=[replace(one, method=method) for one in made.samples])


@pytest.mark.parametrize(
    ("method", "timing"),
    [
        ("event-batch", ""), ("event-single", ""), ("wall-batch", ""), ("wall-graph", ""), ("program", ""), ("", ""), ("event-graph", "graph"),
        ("event-queued-single", "queued"), ("event-queued-graph", "queued-graph"),
    ],
)
def test_what_of_a_method_changes_the_meaning(method: str, timing: str) -> None:
    assert timing_of(method) == timing
    rounds = [Samples(case=GEMM.id, device="d", round=n, values=[1e-6], method=method) for n in range(3)]
    assert fold(GEMM, rounds, "cuda").timing == timing


def test_compare_answers_method_changed() -> None:
    """A quarter of the time, and not faster: it is another time."""
    (found,) = compare.compare([timed(EAGER, "event-batch")], [timed(GRAPH, "event-graph", day=1)])
    assert (found.answer, found.ratio) == ("not comparable", None)
    assert found.reason == "method changed: the time is of calls enqueued one by one in A, of a recorded graph of calls in B"
    (same,) = compare.compare([timed(EAGER, "event-graph")], [timed(GRAPH, "event-graph", day=1)])
    assert same.ratio == pytest.approx(4.0)
    (batch,) = compare.compare([timed(EAGER, "event-batch")], [timed(GRAPH, "event-single", day=1)])
    assert batch.ratio == pytest.approx(4.0)


def test_history_seeks_no_change_across_methods() -> None:
    days = [timed(EAGER, "event-batch", day=n) for n in range(12)] + [timed(GRAPH, "event-graph", day=n) for n in range(12, 24)]
    (series,) = history(days)
    assert series.changes == []
    assert list(series.boundaries) == [12]
    assert series.boundaries[12].startswith("method changed: the time is of calls enqueued one by one before, of a recorded graph")
    (stepped,) = history([timed(EAGER, "event-batch", day=n) for n in range(12)] + [timed(GRAPH, "event-batch", day=n) for n in range(12, 24)])
    assert len(stepped.changes) == 1


def test_a_baseline_of_another_method_judges_nothing() -> None:
    learnt = baselines.learn("old", [timed(EAGER, "event-batch", day=n) for n in range(5)])
    new = timed(GRAPH, "event-graph", day=9)
    rows = tables.rows(new)
    (verdict,) = verdicts.judge("r", rows, AgainstBaseline(learnt, new.run.machine)).rows
    assert verdict.verdict.state == "inconclusive"
    assert verdict.verdict.reason.startswith("method changed: the time is of calls enqueued one by one in the baseline")
    assert verdict.verdict.ratio is None
    both = baselines.learn("old", [timed(GRAPH, "event-graph", day=n) for n in range(5, 9)], learnt)
    assert {one.timing: len(one.runs) for one in both.references} == {"": 5, "graph": 4}
    (judged,) = verdicts.judge("r", rows, AgainstBaseline(both, new.run.machine)).rows
    assert judged.verdict.ratio == pytest.approx(1.0, abs=0.01)


def test_baselines_of_earlier_versions_know_calls_one_by_one() -> None:
    learnt = baselines.learn("old", [timed(EAGER, "event-batch", day=n) for n in range(5)])
    assert [one.timing for one in learnt.references] == [""]
    assert NAMED["gemm"].id == learnt.references[0].case.id
