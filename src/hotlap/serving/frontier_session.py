"""A server at several loads in rounds, each round in an order of its own: what drifts meets all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hotlap.core import objectives
from hotlap.serving import arrivals, frontier_points, summary
from hotlap.serving.capacity_expected import ServerModel
from hotlap.serving.frontier_points import FrontierVisit, ServerFrontier, ServingPoint
from hotlap.serving.record import Request
from hotlap.serving.several import SeveralBenches, SeveralEnded
from hotlap.serving.verdict import ServingVerdict

EACH, LEAST = 4, 32  # requests of a run: so many a place of a closed loop, and at least
WARM_SHARE = 0.1  # of the requests of an open loop
MODEL_TIMES = 8  # as many requests by the model: they cost little

Listener = Callable[[FrontierVisit, int], None]


def requests_of(setting: str, asked: int | None) -> tuple[int, int]:
    """Requests of a run, and those before them to warm up: of a closed loop one for each place."""
    process = arrivals.parse(setting)
    count = asked or max(EACH * process.concurrency, LEAST)
    return count, max(process.concurrency, round(WARM_SHARE * count))


def visit(
    benches: SeveralBenches, settings: Sequence[str], rounds: int, requests: int | None, gpus: int | None, listen: Listener
) -> list[FrontierVisit]:
    """All that was measured, however it ended."""
    order, visits = np.random.default_rng(benches.asked.seed), list[FrontierVisit]()
    try:
        for number in range(rounds):
            for place in order.permutation(len(settings)).tolist():
                count, warm_up = requests_of(settings[place], requests)
                judged = benches.bench(settings[place], count, warm_up)
                visits.append(_visit(judged, settings[place], number, warm_up, gpus))
                listen(visits[-1], len(visits))
    except SeveralEnded:
        pass
    except KeyboardInterrupt:
        benches.interrupt()
    return visits


def _visit(judged: ServingVerdict, setting: str, number: int, warm_up: int, gpus: int | None) -> FrontierVisit:
    figures, attained = judged.summary, judged.summary.attainment
    return FrontierVisit(
        setting=setting, round=number, run=judged.serving.run.id, requests=figures.due,
        failed=sum(figures.outcomes[name] for name in summary.BAD),
        blocks=frontier_points.blocks(judged.serving.requests, warm_up, gpus), met=attained.met if attained else 0,
        decided=attained.decided if attained else 0, flaws=list(judged.client.flaws),
        unknown=attained.unknown if attained else 0, why_unknown=attained.why_unknown if attained else "",
    )  # fmt: skip


def expected(model: ServerModel, settings: Sequence[str], requests: int | None, gpus: int | None) -> list[ServingPoint]:
    """The same points by the model, on a clock of its own."""
    limits = objectives.parse(model.asked.objectives, summary.METRICS) if model.asked.objectives else ()
    visits = []
    for setting in settings:
        count, warm_up = requests_of(setting, requests)
        for number in range(frontier_points.ROUNDS):
            played = model.play(setting, MODEL_TIMES * count + warm_up, number)
            every = [
                Request(index=place, due_s=p.due_s, first_s=p.first_s, last_s=p.ended_s, ended_s=p.ended_s, output_tokens=p.tokens)
                for place, p in enumerate(played)
            ]
            visits.append(FrontierVisit(
                setting=setting, round=number, run="", requests=len(every), failed=0, blocks=frontier_points.blocks(every, warm_up, gpus),
                met=sum(one.good(limits) for one in played), decided=len(played),
            ))  # fmt: skip
    return frontier_points.points(settings, visits)


def kept(
    benches: SeveralBenches, settings: Sequence[str], gpus: int | None, visits: Sequence[FrontierVisit],
    by_model: Sequence[ServingPoint] = (), expected_of: str = "",
) -> ServerFrontier:  # fmt: skip
    return ServerFrontier(
        asked=benches.asked, settings=list(settings), gpus=gpus, label=benches.id, visits=list(visits),
        points=frontier_points.points(settings, visits), ended=benches.stop.kind, detail=benches.stop.detail,
        seconds=benches.seconds, expected=list(by_model), expected_of=expected_of,
    )  # fmt: skip
