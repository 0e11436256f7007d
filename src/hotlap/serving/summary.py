"""What a run of serving comes to: latencies from when requests were due, attainment, goodput, with intervals.

Every latency has two populations. *Answered*: errors, refusals and time-outs left out. *All*: they never came, which is what their users
saw. Requests that the run's end cut are in both, known only to take longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from hotlap.core import objectives
from hotlap.core.objectives import Objective
from hotlap.core.record import Notice, Record
from hotlap.serving import arrivals, doubts, quantiles, scraped, steady
from hotlap.serving.quantiles import Quantile
from hotlap.serving.reading import Floats, ServingRun
from hotlap.serving.record import Attainment, Request
from hotlap.serving.steady import SteadyWindow

METRICS: Mapping[str, str] = {  # that an objective can be on
    "ttft": "time to first token, from when the request was due", "tpot": "time per output token after the first",
    "e2e": "from when the request was due to its end", "stall": "the longest time between two chunks",
}  # fmt: skip
SHARES = (0.5, 0.9, 0.99)
BAD = ("error", "refused", "timeout")


class LatencyFigures(Record, frozen=True, kw_only=True):
    """Quantiles of one metric over so many values."""

    name: str
    about: str
    population: str  # answered, all, events
    count: int
    cut: int = 0  # of them, known only to take longer
    never: int = 0  # of them, that failed
    quantiles: list[Quantile] = []


class SteadyFigures(Record, frozen=True, kw_only=True):
    """Figures of requests that were due in the steady part of a run."""

    window: SteadyWindow
    latencies: list[LatencyFigures]
    attainment: Attainment | None = None
    goodput: tuple[float, float, float] | None = None
    rate_ok: float | None = None


class ServingSummary(Record, frozen=True, kw_only=True):
    """All figures of a run."""

    due: int  # requests of which something is known, without the warm-up
    outcomes: dict[str, int]
    reasons: dict[str, int]  # of those that are bad, the most frequent first
    span_s: float  # from the first that was due to the last end
    latencies: list[LatencyFigures]
    rate_due: float | None  # requests a second; None of a closed loop, where none is asked for
    rate_ok: float | None
    tokens_rate: float | None  # output tokens a second of good answers; None where the server does not count
    attainment: Attainment | None = None
    goodput: tuple[float, float, float] | None = None  # good requests a second, with its interval
    input_tokens: float | None = None  # median, as the server counts
    output_tokens: float | None = None
    cached_share: float | None = None  # of the input
    ttft_parts: dict[str, float] = {}  # means, in seconds: client, server_queue, prefill, rest; front, of the rest
    ttft_missing: list[str] = []  # of those parts, which the server has no counter of
    steady: SteadyFigures | None = None  # the part for which latencies and attainment hold; None: all of the run
    notices: list[Notice] = []

    @property
    def held(self) -> ServingSummary | SteadyFigures:
        """Where latencies, attainment and goodput are that the answer stands on."""
        return self.steady or self


def of(serving: ServingRun) -> ServingSummary:
    """`requests` of the warm-up are left out of all figures."""
    asked = serving.served.asked
    requests = [request for request in serving.requests if request.index >= asked.warm_up]
    ok = [request for request in requests if request.outcome == "ok"]
    span_s = max((r.ended_s or r.due_s for r in requests), default=0.0) - min((r.due_s for r in requests), default=0.0)
    counted = [request.output_tokens for request in ok if request.output_tokens is not None]
    process = arrivals.kept(asked.arrivals)
    slow = steady.slow_start(requests, lambda request: request.tpot_s or _service_s(request))
    rate_due = None if process.kind == "closed" else _rate_due(requests)
    if rate_due:
        span_s = max(span_s, len(requests) / rate_due)  # each request stands for the time to the next: no more come out than went in
    latencies, attained, goodput = _figures_of(serving, requests, span_s)
    speaks = any(request.cached_tokens is not None for request in ok)  # earlier vLLM says it of hits alone
    given = sum(request.input_tokens or 0 for request in ok) if speaks else 0
    cached = sum(request.cached_tokens or 0 for request in ok) / given if given else None
    summary = ServingSummary(
        due=len(requests), outcomes={name: sum(r.outcome == name for r in requests) for name in ("ok", *BAD, "censored")},
        reasons=_reasons(requests), span_s=span_s, latencies=latencies, rate_due=rate_due,
        rate_ok=len(ok) / span_s if span_s > 0 else None,
        tokens_rate=sum(counted) / span_s if counted and span_s > 0 and asked.api != "embeddings" else None,
        attainment=attained, goodput=goodput, cached_share=_cached(serving, cached),
        input_tokens=_median([r.input_tokens for r in ok]), output_tokens=_median([r.output_tokens for r in ok]),
        ttft_parts=_parts(serving, ok), steady=_steady(serving, requests, rate_due, slow),
        ttft_missing=[] if asked.api == "embeddings" else scraped.missing(serving.served.server),
    )  # fmt: skip
    queue = steady.doubts(requests) if process.kind not in ("closed", "ramp") else []
    itl_known = any(figures.name == "ITL" for figures in latencies)
    known = doubts.of(serving, requests, summary.cached_share, summary.ttft_parts, itl_known)
    return replace(summary, notices=[*known, *queue, *([steady.cold(slow)] if slow else [])])


def _figures_of(
    serving: ServingRun, requests: Sequence[Request], span_s: float
) -> tuple[list[LatencyFigures], Attainment | None, tuple[float, float, float] | None]:
    """Latencies, attainment and goodput of some of the requests."""
    asked, ok = serving.served.asked, [request for request in requests if request.outcome == "ok"]
    latencies = [*_latencies(requests, asked.api == "embeddings"), *_events(serving, ok)]
    if not asked.objectives:
        return latencies, None, None
    attained, marks = attainment(requests, objectives.parse(asked.objectives, METRICS))
    if attained.share is None or attained.low is None or attained.high is None or attained.unknown or span_s <= 0:
        return latencies, attained, None
    rate = len(marks) / span_s
    return latencies, attained, (attained.share * rate, attained.low * rate, attained.high * rate)


def _steady(
    serving: ServingRun, requests: Sequence[Request], rate_due: float | None, slow: steady.ColdStart | None
) -> SteadyFigures | None:
    """An open loop that does not grow answers as many as come: its rate is that of the whole run, which more requests tell."""
    process = arrivals.kept(serving.served.asked.arrivals)
    window = steady.window(requests, process, serving.served.asked.seconds is None, slow)
    if window is None:
        return None
    some = steady.within(requests, window)
    span_s = len(some) / rate_due if rate_due else (window.end_s or requests[-1].due_s) - window.begin_s
    latencies, attained, goodput = _figures_of(serving, some, span_s)
    rate_ok = sum(request.outcome == "ok" for request in some) / span_s if span_s > 0 else None
    return SteadyFigures(window=window, latencies=latencies, attainment=attained, goodput=goodput, rate_ok=rate_ok)


def good(request: Request, limits: Sequence[Objective]) -> bool | None:
    """Whether it met every objective; None where the run's end cut it before that could be said, or the server does not say what an
    objective needs. TPOT of a single token is none: met."""
    if request.outcome in BAD:
        return False
    undecided = False
    for limit in limits:
        value = value_of(request, limit.metric)
        if unknown(request, limit.metric):
            undecided = True
        elif value is None and request.outcome == "censored":
            passed = limit.metric in ("ttft", "e2e") and request.ended_s is not None and request.ended_s - request.due_s > limit.limit_s
            if passed:
                return False
            undecided = True
        elif limit.metric in ("ttft", "e2e") if value is None else value > limit.limit_s:
            return False
    return None if undecided or request.outcome == "censored" else True


def unknown(request: Request, metric: str) -> str:
    """Why an answer has no such metric although it may have several tokens, or one in doubt; "" where it has one, or has none to have."""
    if request.outcome != "ok" or metric not in ("tpot", "stall"):
        return ""
    if value_of(request, metric) is not None:
        return request.miscounted if metric == "tpot" else ""
    if request.one_chunk:
        return "answers come in one chunk"
    return "the server does not count tokens" if metric == "tpot" and request.output_tokens is None else ""


def value_of(request: Request, metric: str) -> float | None:
    """A metric of a request, in seconds."""
    return {"ttft": request.ttft_s, "tpot": request.tpot_s, "e2e": request.e2e_s, "stall": request.stall_s}[metric]


def attainment(requests: Sequence[Request], limits: Sequence[Objective]) -> tuple[Attainment, list[bool]]:
    """The share that met every objective; and for each that could be decided, in order, whether it did."""
    every = [good(request, limits) for request in requests]
    marks = [mark for mark in every if mark is not None]
    open_, why = _unknown(requests, every, limits)
    worst, best = (quantiles.share(
        [may if mark is None else mark for place, mark in enumerate(every) if place in open_ or mark is not None]
    ) for may in (False, True))  # fmt: skip
    share = quantiles.share(marks)
    return Attainment(
        objectives=objectives.show(tuple(limits)), requests=len(requests), met=sum(marks), share=share[0] if share else None,
        low=worst[1] if worst else None, high=best[2] if best else None, censored=len(every) - len(marks) - len(open_),
        unknown=len(open_), why_unknown=why,
    ), marks  # fmt: skip


def _unknown(requests: Sequence[Request], every: Sequence[bool | None], limits: Sequence[Objective]) -> tuple[set[int], str]:
    """Places of answers that cannot be judged, and why in a sentence."""
    reasons: dict[str, str] = {}  # by metric
    open_ = set[int]()
    for place, (request, mark) in enumerate(zip(requests, every, strict=True)):
        for limit in limits if mark is None else ():
            if why := unknown(request, limit.metric):
                open_.add(place)
                known = value_of(request, limit.metric) is not None
                reasons.setdefault(limit.metric, f"{limit.metric} is {'in doubt' if known else 'not known'} ({why})")
    shown = " and ".join(reasons.values())
    objective = "objective" if len(limits) == 1 else "objectives"
    return open_, f"{shown}, so the {objective} cannot be judged" if shown else ""


def _latencies(requests: Sequence[Request], embeddings: bool) -> list[LatencyFigures]:
    metrics: list[tuple[str, str, Callable[[Request], float | None]]] = [] if embeddings else [
        ("TTFT", METRICS["ttft"], lambda r: r.ttft_s),
        ("TTFT of the server", "time to first token, from when the request was sent", _service_ttft),
    ]  # fmt: skip
    metrics.append(("E2E", METRICS["e2e"], lambda r: r.e2e_s))
    answered = [request for request in requests if request.outcome not in BAD]
    populations = [("answered", answered)] if len(answered) == len(requests) else [("answered", answered), ("all", list(requests))]
    figures = [_figures(name, about, whom, some, of_request) for name, about, of_request in metrics for whom, some in populations]
    ok = [request for request in requests if request.outcome == "ok"]
    if not embeddings:
        for name, metric in (("TPOT", "tpot"), ("stall", "stall")):
            values = [value for request in ok if (value := value_of(request, metric)) is not None]
            figures.append(_of_values(name, METRICS[metric], "answered", values))
    return figures


def _service_ttft(request: Request) -> float | None:
    return None if request.first_s is None or request.sent_s is None else request.first_s - request.sent_s


def _service_s(request: Request) -> float | None:
    return None if request.ended_s is None or request.sent_s is None or request.outcome != "ok" else request.ended_s - request.sent_s


def _figures(
    name: str, about: str, population: str, requests: Sequence[Request], value: Callable[[Request], float | None]
) -> LatencyFigures:
    values, cut = list[float](), list[bool]()
    for request in requests:
        seen = value(request)
        if request.outcome in BAD:
            seen, censored = math.inf, False
        elif seen is None and request.outcome == "censored":
            seen, censored = max((request.ended_s or request.due_s) - request.due_s, 0.0), True
        elif seen is None:
            continue
        else:
            censored = False
        values.append(seen)
        cut.append(censored)
    shown = [quantiles.quantile(values, p, cut) for p in SHARES]
    return LatencyFigures(
        name=name, about=about, population=population, count=len(values), cut=sum(cut), never=values.count(math.inf), quantiles=shown
    )


def _of_values(name: str, about: str, population: str, values: Sequence[float] | Floats) -> LatencyFigures:
    shown = [quantiles.quantile(values, p) for p in SHARES] if len(values) else []
    return LatencyFigures(name=name, about=about, population=population, count=len(values), quantiles=shown)


def _events(serving: ServingRun, ok: Sequence[Request]) -> list[LatencyFigures]:
    """Of chunks: the gap between two, and the time per token where it is known how many tokens each has."""
    gaps = [serving.gaps_s[request.index] for request in ok if request.index in serving.gaps_s]
    if not gaps:
        return []
    figures = [_of_values("chunk gap", "time between two chunks with text", "events", np.concatenate(gaps))]
    per_token = [itl for request in ok if request.index in serving.gaps_s and (itl := _itl(serving, request)) is not None]
    if len(per_token) == len(gaps):
        figures.insert(0, _of_values("ITL", "time per token between two chunks", "events", np.concatenate(per_token)))
    return figures


def _itl(serving: ServingRun, request: Request) -> Floats | None:
    """Time per token at each chunk after the first; None where the server does not say how many tokens a chunk has."""
    gaps, total = serving.gaps_s[request.index], request.output_tokens
    if total is None:
        return None
    if request.index in serving.tokens:
        tokens = serving.tokens[request.index].astype(float)
        return gaps[tokens > 0] / tokens[tokens > 0] if len(tokens) == len(gaps) else None
    if request.even and request.first_tokens is not None:
        each = (total - request.first_tokens) / len(gaps)
        return gaps / each if each > 0 else None
    return gaps if total == request.chunks else None


def _parts(serving: ServingRun, ok: Sequence[Request]) -> dict[str, float]:
    """TTFT taken apart by the server's own counters, means: what the client waited, the server's queue, its prefill, and the rest, which
    is the network and the server's HTTP. {} where its counters do not cover these requests alone. A server counts a request where it
    begins or, as vLLM, where it ends: what was cut then is in none of them. `front`: of the rest, what its own TTFT has beside both."""
    server, started = serving.served.server, [r for r in serving.requests if r.first_s is not None and r.sent_s is not None]
    queue, prefill = scraped.mean_s(server, "queue"), scraped.mean_s(server, "prefill")
    whole, count = [request for request in started if request.outcome == "ok"], server.get("queue_count", 0.0)
    counted = next((some for some in (whole, started) if some and doubts.alike(count, len(some))), None)
    if not ok or not counted or queue is None or prefill is None:
        return {}
    client = float(np.mean([(r.sent_s or 0.0) - r.due_s for r in counted]))
    total = float(np.mean([(r.first_s or 0.0) - r.due_s for r in counted]))
    parts = {"total": total, "client": client, "server_queue": queue, "prefill": prefill, "rest": total - client - queue - prefill}
    own = scraped.mean_s(server, "ttft")
    if own is None or not doubts.alike(server["ttft_count"], len(counted)):
        return parts
    return {**parts, "front": own - queue - prefill}


def _cached(serving: ServingRun, by_usage: float | None) -> float | None:
    server = serving.served.server
    if by_usage is None and server.get("cache_queries", 0.0) > 0:
        return server.get("cache_hits", 0.0) / server["cache_queries"]
    return by_usage


def _reasons(requests: Sequence[Request]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for request in requests:
        if request.outcome in BAD:
            counts[request.reason] = counts.get(request.reason, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _rate_due(requests: Sequence[Request]) -> float | None:
    span_s = requests[-1].due_s - requests[0].due_s if requests else 0.0
    return (len(requests) - 1) / span_s if span_s > 0 else None


def _median(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
