"""Objectives beside a client that is late: what was met is met, and nothing else is said."""

from __future__ import annotations

from msgspec.structs import replace
from tests.serving.played import PlayedBenches, asked, judged, model
from tests.serving.test_serving_figures import SOUND, run_of, sent

from hotlap.serving import show_capacity, summary, verdict
from hotlap.serving.capacity import CapacityOptions
from hotlap.serving.capacity_record import ArrivalsAsked, ServerCapacity
from hotlap.serving.capacity_session import ServerSearch
from hotlap.serving.verdict import ServingVerdict


def test_a_late_client_takes_no_objective_that_was_met_and_gives_none() -> None:
    """Times count from when a request was due: late by 10 ms, what is within 1 s is met. Beside 50 ms, of TPOT, or missed, nothing is said."""
    for limits, state in (("ttft<=1s", "pass"), ("e2e<=1s,tpot<=1s", "pass"), ("ttft<=95ms", "inconclusive"), ("tpot<=1s", "inconclusive")):
        serving = run_of(sent(0.01), SOUND, objectives=limits, attain=0.9)
        assert verdict.of(serving, summary.of(serving)).state == state


TIMES = ("sent_s", "first_s", "last_s", "ended_s")


class LateBenches(PlayedBenches):
    """Every request is sent late by `lag_s`, and all that follows comes later by it."""

    lag_s = 0.0

    def bench(self, arrivals: str, requests: int, warm_up: int = 0) -> ServingVerdict:
        sound = super().bench(arrivals, requests, warm_up).serving
        late = [replace(one, **{name: getattr(one, name) + self.lag_s for name in TIMES if getattr(one, name) is not None}) for one in sound.requests]
        return judged(sound.served.asked, late, SOUND, sound.run.id)


def searched(lag_s: float) -> ServerCapacity:
    benches = LateBenches(model(asked()))
    benches.lag_s = lag_s
    options = CapacityOptions(attain=0.9, start=8.0, requests=6000, max_rate=12.0, rates=6)
    search = ServerSearch(benches, ArrivalsAsked("poisson"), options, lambda *_: None)
    return search.kept(search.run())


def test_a_rate_that_was_met_beside_a_client_that_is_late_by_little_counts_in_a_search() -> None:
    """Beside 200 ms: 10 ms are more than 2 % and less than 10 %, 30 ms are more."""
    kept = searched(0.01)
    assert all(one.late and not one.flaws for one in kept.rates)
    assert kept.capacity.known_good == 12.0
    assert show_capacity.code(kept) == 0
    assert "the client was late, which only makes times longer" in show_capacity.text(kept, 200, False)
    far = searched(0.03)
    assert {tuple(one.flaws) for one in far.rates} == {("late",)}
    answer = show_capacity.answer(far)
    assert answer == f"inconclusive: the client: no rate was measured soundly; {show_capacity.CLIENT}"
    assert "begins a new search" not in show_capacity.text(replace(far, ended="budget"), 300, False)


def test_what_was_missed_beside_a_late_client_does_not_count() -> None:
    benches = LateBenches(model(asked()), failed=50)
    benches.lag_s = 0.01
    search = ServerSearch(benches, ArrivalsAsked("poisson"), CapacityOptions(attain=0.9, start=8.0, requests=6000), lambda *_: None)
    assert search.measure(8.0, 100) is None
    assert (search.rates[0].flaws, search.rates[0].late) == (["late"], False)
