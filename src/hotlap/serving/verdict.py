"""What to believe of a bench, and whether the objectives are met.

First the client is judged: was it late, was it starved, did arrivals follow what was asked. A client that fails makes its own delays the
server's, so no verdict stands on its numbers: `inconclusive: the client`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from hotlap.core import objectives
from hotlap.core.errors import InputError
from hotlap.core.objectives import Objective
from hotlap.core.record import Notice, Record
from hotlap.serving import arrivals, expected, quantiles
from hotlap.serving.arrivals import ArrivalProcess
from hotlap.serving.expected import ExpectedServing
from hotlap.serving.reading import ServingRun
from hotlap.serving.record import Request
from hotlap.serving.summary import METRICS, ServingSummary

LATE_S = 0.001  # p90 of a delay of the client's own that is always allowed …
LATE_SHARE = 0.02  # … and as a share of the median TTFT (E2E of embeddings), beside which it does not matter
LATE_MET = 0.1  # of the tightest limit of TTFT or E2E: p99 of a delay beside which objectives that were met are met
CPU_SHARE = 0.9  # of its one core: beyond it the client is the bottleneck
FEW, ALPHA, FAR = 30, 0.001, 0.05  # arrivals: fewest gaps tested, chance of a false alarm, and the least distance that matters
TESTED = 5000


ServingState = Literal["measured", "pass", "fail", "inconclusive"]


class ClientVerdict(Record, frozen=True, kw_only=True):
    """`flaws`: what is wrong with it, codes; [] where its numbers are the server's."""

    flaws: list[Literal["late", "starved", "arrivals", "limit", "killed"]]
    lag_s: list[float] = []  # p50, p90, p99, largest: how late requests were handed to the socket
    loop_lag_s: list[float] = []  # the same of ticks of its event loop
    allowed_s: float | None = None  # of p90
    cpu_share: float | None = None  # of one core
    run_delay_share: float | None = None  # of the time, in which it was ready and waited for a processor
    distance: float | None = None  # of the gaps between requests from what was asked (Kolmogorov, Smirnov); None: not tested
    chance: float | None = None  # of one so large


class ServingVerdict(NamedTuple):
    """A run with all that is concluded from it. `state`: `measured` where no share that has to meet objectives was given."""

    serving: ServingRun
    summary: ServingSummary
    client: ClientVerdict
    state: ServingState
    expected: ExpectedServing | None = None  # by the model, where it is known what serves

    @property
    def code(self) -> int:
        """The exit code of the command that measured it."""
        if self.serving.run.stopped_by("interrupted"):
            return 130
        return {"measured": 0, "pass": 0, "fail": 1, "inconclusive": 3}[self.state]


def of(serving: ServingRun, summary: ServingSummary) -> ServingVerdict:
    judged = client(serving, summary)
    try:
        modelled = expected.of(serving, summary)
    except InputError as error:
        modelled, unknown = None, Notice("not_expected", f"the model expects nothing of this server: {error}")
        summary = replace(summary, notices=[*summary.notices, unknown])
    return ServingVerdict(serving, summary, judged, _state(serving, summary, judged), modelled)


def _state(serving: ServingRun, summary: ServingSummary, judged: ClientVerdict) -> ServingState:
    asked, attained = serving.served.asked, summary.held.attainment
    if attained is not None and attained.unknown and not attained.decided:
        return "inconclusive"
    if attained is None or asked.attain is None:
        return "inconclusive" if judged.flaws or not summary.outcomes["ok"] else "measured"
    if attained.low is None or attained.high is None:
        return "inconclusive"
    if judged.flaws:
        limits = objectives.parse(asked.objectives, METRICS)
        if refused_alone(serving):
            return "fail"
        return "pass" if attained.low >= asked.attain and lengthens(judged, limits) else "inconclusive"
    return "pass" if attained.low >= asked.attain else "fail" if attained.high < asked.attain else "inconclusive"


def refused_alone(serving: ServingRun) -> bool:
    """Whether so many were refused that the share asked is surely not met, whatever the client did to the times of the others."""
    asked = serving.served.asked
    share = quantiles.share([request.outcome != "refused" for request in serving.requests if request.index >= asked.warm_up])
    return asked.attain is not None and share is not None and share[2] < asked.attain


def client(serving: ServingRun, summary: ServingSummary, typical_s: float | None = None) -> ClientVerdict:
    """Its own verdict on itself. `typical_s`: what its delays are compared with; None: the median TTFT, or E2E of embeddings."""
    state, asked = serving.served.client, serving.served.asked
    if state is None:
        return ClientVerdict(flaws=["killed"])
    requests = [request for request in serving.requests if request.index >= asked.warm_up]
    lags = [request.lag_s for request in requests if request.lag_s is not None]
    process = arrivals.kept(asked.arrivals)
    allowed_s = max(LATE_S, LATE_SHARE * (_typical(summary) if typical_s is None else typical_s))
    lag_s = np.quantile(lags, (0.5, 0.9, 0.99, 1.0)).tolist() if lags else []
    cpu = state.cpu_s / state.wall_s if state.wall_s > 0 else 0.0
    distance, chance = _distance(process, requests)
    flaws: list[Literal["late", "starved", "arrivals", "limit", "killed"]] = []
    if lag_s and lag_s[1] > allowed_s:
        flaws.append("late")
    if cpu > CPU_SHARE or (state.tick_lags_s and state.tick_lags_s[1] > allowed_s):
        flaws.append("starved")
    if distance is not None and chance is not None and distance > FAR and chance < ALPHA:
        flaws.append("arrivals")
    if state.own_errors:
        flaws.append("limit")
    return ClientVerdict(
        flaws=flaws, lag_s=lag_s, loop_lag_s=state.tick_lags_s, allowed_s=allowed_s, cpu_share=cpu,
        run_delay_share=None if state.run_delay_s is None or not state.wall_s else state.run_delay_s / state.wall_s,
        distance=distance, chance=chance,
    )  # fmt: skip


def lengthens(judged: ClientVerdict, limits: Sequence[Objective]) -> bool:
    """Whether all that the client did wrong is to be late, by little: times count from when a request was due, so a late client makes them
    longer, and what met its objectives all the same would have met them. Of TPOT alone, which counts from the first token, it is not so,
    and a client that is late by more than LATE_MET of a limit offers another load than was asked."""
    first = [limit.limit_s for limit in limits if limit.metric in ("ttft", "e2e")]
    if not first or set(judged.flaws) - {"late", "starved"} or (judged.cpu_share or 0.0) > CPU_SHARE:
        return False
    return _within(judged.lag_s, LATE_MET * min(first)) and _within(judged.loop_lag_s, LATE_MET * min(first))


def matter(judged: ClientVerdict, limits: Sequence[Objective]) -> list[str]:
    """Flaws that matter to whether objectives are met. A delay of its own, of which p99 is at most LATE_SHARE of the tightest limit,
    decides of hardly any request; beside a TPOT, which is of many chunks, nothing is let pass."""
    if not limits or any(limit.metric == "tpot" for limit in limits):
        return list(judged.flaws)
    allowed_s = LATE_SHARE * min(limit.limit_s for limit in limits)
    idle = (judged.cpu_share or 0.0) <= CPU_SHARE
    small = {"late": _within(judged.lag_s, allowed_s), "starved": idle and _within(judged.loop_lag_s, allowed_s)}
    return [flaw for flaw in judged.flaws if not small.get(flaw, False)]


def _within(lags_s: Sequence[float], allowed_s: float) -> bool:
    return not lags_s or lags_s[2] <= allowed_s


def _typical(summary: ServingSummary) -> float:
    """The median time that the client's delays are held against; 0 where nothing was answered."""
    figures = [one for one in summary.latencies if one.population == "answered" and one.name in ("TTFT", "E2E")]
    return (figures[0].quantiles[0].value or 0.0) if figures and figures[0].quantiles else 0.0


def _distance(process: ArrivalProcess, requests: Sequence[Request]) -> tuple[float | None, float | None]:
    """How far the gaps between requests as they were sent are from the process asked for: gamma and Poisson have a distribution, and
    every other is a list of times, which the lag is held against."""
    sent = np.sort([request.sent_s for request in requests if request.sent_s is not None])
    gaps = np.diff(sent)[:TESTED]
    if process.kind not in ("poisson", "gamma") or len(gaps) < FEW:
        return None, None
    return kolmogorov(np.array([gamma_below(process.shape, gap * process.shape * process.rate) for gap in gaps.tolist()]))


def kolmogorov(shares: ArrayLike) -> tuple[float, float]:
    """Distance of values of a distribution function from the uniform one, and the chance of one so large (Stephens, J. R. Stat. Soc. B 32,
    1970)."""
    x = np.sort(np.asarray(shares, float))
    n = len(x)
    distance = float(max((np.arange(1, n + 1) / n - x).max(), (x - np.arange(n) / n).max()))
    scaled = (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * distance
    if scaled < 0.2:
        return distance, 1.0
    return distance, min(max(2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101)), 0.0), 1.0)


def gamma_below(shape: float, x: float) -> float:
    """The regularised lower incomplete gamma function P(shape, x): its series below shape + 1, its continued fraction above (Press et al.,
    Numerical Recipes, 6.2)."""
    if x <= 0:
        return 0.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        for k in range(1, 10_000):
            term *= x / (shape + k)
            total += term
            if term < total * 1e-14:
                break
        return min(front * total, 1.0)
    b, c = x + 1 - shape, 1e300
    d = 1 / b
    h = d
    for k in range(1, 10_000):
        a = -k * (k - shape)
        b += 2
        d = 1 / _away(a * d + b)
        c = _away(b + a / c)
        h *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return max(1 - front * h, 0.0)


def _away(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300
