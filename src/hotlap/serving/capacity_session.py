"""A search for the capacity of a real server: each rate is a bench of its own, and says whether each request met its objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hotlap.core import objectives
from hotlap.serving import steady, summary, verdict
from hotlap.serving.capacity import Capacity, CapacityOptions, CapacitySearch, SearchEnded
from hotlap.serving.capacity_record import ArrivalsAsked, RateVisited, ServerCapacity
from hotlap.serving.record import Request
from hotlap.serving.several import SeveralBenches, SeveralEnded
from hotlap.serving.verdict import ServingVerdict

Listener = Callable[[RateVisited, Capacity], None]


class ServerSearch:
    """`listen` hears of each rate when it was measured, with what is known by then."""

    def __init__(self, benches: SeveralBenches, process: ArrivalsAsked, options: CapacityOptions, listen: Listener) -> None:
        self.benches, self.process, self.options, self.listen = benches, process, options, listen
        self.limits = objectives.parse(benches.asked.objectives, summary.METRICS)
        self.search = CapacitySearch(self.measure, options)
        self.rates: list[RateVisited] = []

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
        answer = marks([summary.good(request, self.limits) for request in every])
        outrun = steady.outrun([request.due_s for request in every], [begun(request) for request in every])
        flaws = verdict.matter(judged.client, self.limits)
        self.rates.append(visited(rate, judged, answer, outrun, flaws))
        took = [request.e2e_s for request in every if request.e2e_s is not None]
        if took:
            self.search.took(float(np.median(took)))
        if not answer:
            raise SearchEnded
        if flaws:
            return None
        return [False] * len(answer) if outrun else answer

    def kept(self, capacity: Capacity, expected: Capacity | None = None, expected_of: str = "") -> ServerCapacity:
        stop = self.benches.stop
        return ServerCapacity(
            asked=self.benches.asked, arrivals=self.process.text, options=self.options, label=self.benches.id, rates=self.rates,
            capacity=capacity, ended=stop.kind, detail=stop.detail, seconds=self.benches.seconds,
            expected=expected, expected_of=expected_of,
        )  # fmt: skip


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
