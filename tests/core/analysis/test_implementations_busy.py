"""Implementations that were measured in turns while other programs ran beside both."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.analysis import implementations
from hotlap.core.record import Case, Comparison, Notice, Summary, Verdict

CODE = sorted(implementations.OTHERS_RAN)[0]


def side(name: str) -> Any:
    return SimpleNamespace(case=Case(workload="rowwise", implementation=name))


def row(busy: bool) -> Any:
    verdict = Verdict(state="inconclusive", reason="9 of 11 rounds were disturbed") if busy else Verdict(state="pass")
    return SimpleNamespace(verdict=verdict, result=SimpleNamespace(notices=[Notice(CODE, "others ran")] if busy else []))


@pytest.mark.parametrize(("first", "second", "answer"), [(True, True, "inconclusive"), (True, False, "faster"), (False, False, "faster")])
def test_a_sure_answer_beside_others_needs_one_side_that_they_left_alone(first: bool, second: bool, answer: str) -> None:
    a, b = side(""), side("mine")
    compared = Comparison(case=a.case, a=Summary(rounds=11), b=Summary(rounds=11), answer="faster", ratio=0.8, low=0.7, high=0.9)
    doubted = implementations._doubted(compared, a, b, {a.case.id: [row(first)], b.case.id: [row(second)]})
    assert doubted.answer == answer
    if answer == "inconclusive":
        assert "other programs ran while library was measured: 9 of 11 rounds were disturbed" in doubted.reason
