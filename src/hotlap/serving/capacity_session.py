"""A search for the capacity of a real server: each rate is a bench of its own, and says whether each request met its objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from hotlap.core import objectives
from hotlap.core.objectives import Objective
from hotlap.serving import capacity, steady, summary, verdict
from hotlap.serving.capacity import Capacity, CapacityOptions, CapacitySearch, SearchEnded
from hotlap.serving.capacity_record import ArrivalsAsked, RateVisited, ServerCapacity
from hotlap.serving.record import Request
from hotlap.serving.several import SeveralBenches, SeveralEnded
from hotlap.serving.verdict import ServingVerdict

UNKNOWN = 0.01  # of requests, that may lack what an objective needs: they are left out

Listener = Callable[[RateVisited, Capacity], None]


class ServerSearch:
    """`listen` hears of each rate when it was measured, with what is known by then."""

    def __init__(self, benches: SeveralBenches, process: ArrivalsAsked, options: CapacityOptions, listen: Listener) -> None:
        self.benches, self.process, self.options, self.listen = benches, process, options, listen
        self.limits = objectives.parse(benches.asked.objectives, summary.METRICS)
        long_s = capacity.LASTS * longest_s(self.limits)
        self.search = CapacitySearch(self.measure, options, long_s=long_s, hurried=benches.until_s is not None)
        self.rates: list[RateVisited] = []
        self.unknown = ""

    def run(self) -> Capacity:
        """What is known at its end, however that came."""
        try:
            self.search.run()
        except KeyboardInterrupt:
            self.benches.interrupt()
        return self.search.answer()

    def measure(self, rate: float, requests: int) -> Sequence[bool] | None:
        if self.rates:
            self.listen(self.rates[-1], self.search.answer())
        try:
            judged = self.benches.bench(self.process.at(rate), requests)
        except SeveralEnded:
            raise SearchEnded from None
        every = judged.serving.requests
        attained = judged.summary.attainment
        if attained and attained.unknown > UNKNOWN * len(every):
            self.unknown = attained.why_unknown
            self.rates.append(visited(rate, judged, [], False))
            raise SearchEnded
        known = [one for one in every if not any(summary.unknown(one, limit.metric) for limit in self.limits)]
        answer = marks([summary.good(request, self.limits) for request in known])
        outrun = steady.outrun([request.due_s for request in every], [begun(request) for request in every])
        ok = [one for one in every if one.outcome == "ok"]
        per_s = steady.answered([one.due_s for one in ok], [one.first_s for one in ok], [one.ended_s for one in ok], outrun)
        flaws = verdict.matter(judged.client, self.limits)
        late = bool(flaws) and not outrun and self._met(judged)
        flaws = [] if late else flaws
        self.rates.append(replace(visited(rate, judged, answer, outrun, flaws), late=late))
        took = [request.e2e_s for request in every if request.e2e_s is not None]
        if took:
            self.search.took(float(np.median(took)))
        if not answer:
            raise SearchEnded
        if flaws:
            return None
        self.search.answered(rate, outrun, per_s)
        return [False] * len(answer) if outrun else answer

    def _met(self, judged: ServingVerdict) -> bool:
        """Whether the run alone shows that this rate is held, though its client was late: as `serving bench` judges."""
        attained = judged.summary.attainment
        low = attained.low if attained else None
        return low is not None and low >= self.options.attain and verdict.lengthens(judged.client, self.limits)

    def kept(self, known: Capacity, expected: Capacity | None = None, expected_of: str = "") -> ServerCapacity:
        stop = self.benches.stop
        rates = [replace(one, outrun=one.outrun or (not one.flaws and self.search.outruns(one.rate))) for one in self.rates]
        return ServerCapacity(
            asked=self.benches.asked, arrivals=self.process.text, options=self.options, label=self.benches.id, rates=rates,
            capacity=known, ended=stop.kind, detail=stop.detail, seconds=self.benches.seconds,
            expected=expected, expected_of=expected_of, unknown=self.unknown,
        )  # fmt: skip


def longest_s(limits: Sequence[Objective]) -> float:
    """The longest of the objectives in which a queue may hide; 0 where there is none."""
    return max((limit.limit_s for limit in limits if limit.metric in ("ttft", "e2e")), default=0.0)


def marks(every: Sequence[bool | None]) -> list[bool]:
    """In the order in which requests were due. From the first that the run's end cut on, only slow ones are cut, so what is left flatters:
    it is left out where that leaves half of all."""
    first = next((place for place, mark in enumerate(every) if mark is None), len(every))
    return [mark for mark in (every[:first] if first * 2 >= len(every) else every) if mark is not None]


def begun(request: Request) -> float | None:
    """When it was served: its first token, or how it ended."""
    if request.first_s is not None:
        return request.first_s
    return None if request.outcome == "censored" else request.ended_s


def visited(rate: float, judged: ServingVerdict, answer: Sequence[bool], outrun: bool, flaws: Sequence[str] = ()) -> RateVisited:
    """Goodput is at the rate that was asked: how many came by chance is no matter of the server."""
    figures = judged.summary
    attained, goodput = figures.attainment, figures.goodput[0] if figures.goodput else None
    if goodput is not None and figures.rate_due:
        goodput *= rate / figures.rate_due
    return RateVisited(
        rate=rate, run=judged.serving.run.id, requests=figures.due, met=sum(answer), decided=len(answer),
        low=attained.low if attained else None, high=attained.high if attained else None,
        goodput=goodput, failed=sum(figures.outcomes[name] for name in summary.BAD),
        outrun=outrun, flaws=list(flaws),
    )  # fmt: skip
