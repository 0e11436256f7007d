"""The state of a member from events and beats: exactly one of the eight, and a result is not lost or counted twice."""

from __future__ import annotations

import pytest

from hotlap.cluster import states
from hotlap.cluster.record import Member, MemberEvent, State

N1 = Member(name="n1", index=0)


def event(to: State, time_s: float, attempt: int = 1, **more: str) -> MemberEvent:
    return MemberEvent(time_s=time_s, member="n1", step=1, attempt=attempt, to=to, **more)


def state(*events: MemberEvent, beat_s: float | None = None, now_s: float = 100.0) -> tuple[State, int]:
    beats = {} if beat_s is None else {(1, "n1"): beat_s}
    (derived,) = states.derive([N1], [1], events, beats, now_s, 20.0)
    return derived.state, derived.attempt


@pytest.mark.parametrize("end", ["measured", "died", "timed out", "truncated", "refused"])
def test_an_end_is_the_state(end: State) -> None:
    assert state(event("running", 0.0), event(end, 5.0)) == (end, 1)


def test_open_attempts_run_while_they_beat() -> None:
    assert state() == ("never started", 0)
    assert state(event("running", 95.0)) == ("running", 1)
    assert state(event("running", 0.0), beat_s=90.0) == ("running", 1)
    assert state(event("running", 0.0), beat_s=70.0) == ("silent", 1)
    assert state(event("running", 0.0), event("silent", 99.0), beat_s=70.0) == ("silent", 1)
    assert state(event("running", 0.0), event("silent", 50.0), event("running", 99.0), beat_s=99.0) == ("running", 1)


def test_a_later_attempt_does_not_undo_a_result_and_its_refutation_does() -> None:
    assert state(event("measured", 1.0), event("running", 2.0, attempt=2), event("died", 3.0, attempt=2)) == ("measured", 1)
    assert state(event("measured", 1.0), event("truncated", 2.0)) == ("truncated", 1)
    assert state(event("measured", 1.0), event("truncated", 2.0), event("measured", 3.0, attempt=2)) == ("measured", 2)
    assert states.attempts([event("died", 1.0), event("died", 2.0, attempt=3)]) == {(1, "n1"): 3}
