"""Throughput against interactivity: a point for each load, with intervals from blocks of its runs, and which points no other surely beats.

Throughput: output tokens a second, of a GPU where it is said how many there are. Interactivity: 1 ÷ TPOT, the tokens a second that one
user sees. A run is read from the first request after its warm-up to the last that was due, in BLOCKS stretches of equal time; tokens of a
request lie evenly between its first and its last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from hotlap.core.analysis.frontier import FrontierSpan, front
from hotlap.core.record import Record
from hotlap.core.stats import student
from hotlap.serving.record import Request, ServingAsked

KIND, FILE, LABEL = "serving-frontier", "frontier.json", "frontier"  # of the bundle; label of its runs
BLOCKS, FEWEST, ROUNDS = 4, 3, 3  # of a run; blocks that a point needs; rounds from which their own scatter counts
CONFIDENCE = 0.95


class FrontierMean(Record, frozen=True, kw_only=True):
    """A mean with its interval."""

    value: float
    low: float
    high: float

    @property
    def span(self) -> FrontierSpan:
        return FrontierSpan(self.low, self.high)


class FrontierBlock(Record, frozen=True, kw_only=True):
    """A stretch of a run, both in tokens a second."""

    throughput: float
    interactivity: float


class FrontierVisit(Record, frozen=True, kw_only=True):
    """One run at one load. `flaws`: of the client; then its blocks count for nothing."""

    setting: str  # arrivals: closed:8, poisson:4
    round: int
    run: str
    requests: int
    failed: int
    blocks: list[FrontierBlock]
    met: int = 0
    decided: int = 0
    flaws: list[str] = []
    unknown: int = 0  # of which that cannot be said …
    why_unknown: str = ""  # … and why


class ServingPoint(Record, frozen=True, kw_only=True):
    """One load, over all of its runs. `front`: no other load is surely better in one direction and as good in the other."""

    setting: str
    blocks: int
    throughput: FrontierMean
    interactivity: FrontierMean
    front: bool = False


class ServerFrontier(Record, frozen=True, kw_only=True):
    """As it is kept."""

    asked: ServingAsked  # of each run, without its arrivals
    settings: list[str]
    gpus: int | None  # throughput is of one of them; None: of the server
    label: str  # value of the label `frontier` of its runs
    visits: list[FrontierVisit]  # as measured
    points: list[ServingPoint]  # in the order of the settings; those without enough blocks are missing
    ended: str
    detail: str = ""
    seconds: float = 0.0
    expected: list[ServingPoint] = []  # by the model
    expected_of: str = ""


def blocks(requests: Sequence[Request], warm_up: int, gpus: int | None = None) -> list[FrontierBlock]:
    """Of one run; [] where nothing was due after its warm-up, or the server does not count tokens."""
    ordered = sorted(requests, key=lambda request: request.due_s)
    after = [request for request in ordered if request.index >= warm_up]
    counted = [request for request in ordered if request.outcome == "ok" and request.output_tokens and request.first_s is not None]
    if not after or not counted or after[-1].due_s <= after[0].due_s:
        return []
    edges = np.linspace(after[0].due_s, after[-1].due_s, BLOCKS + 1)
    tokens = np.array([request.output_tokens or 0 for request in counted], float)
    first = np.array([request.first_s or 0.0 for request in counted])
    last = np.array([max(request.last_s or 0.0, request.first_s or 0.0) for request in counted])
    stretches = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        inside = (np.minimum(last, high) - np.maximum(first, low)).clip(0) / np.maximum(last - first, 1e-9)
        total = ((first >= low) & (first < high)).sum() + (inside * (tokens - 1)).sum()
        tpots = [value for request in after if low <= request.due_s < high and request.outcome == "ok" and (value := request.tpot_s)]
        if tpots and total:
            stretches.append(FrontierBlock(throughput=float(total / (high - low) / (gpus or 1)), interactivity=float(1 / np.mean(tpots))))
    return stretches


def mean(rounds: Sequence[Sequence[float]]) -> FrontierMean | None:
    """Of blocks, by round, with Student's interval: of all blocks alike, or of the rounds' means where those scatter more. None of fewer
    than FEWEST blocks."""
    every = np.array([value for values in rounds for value in values])
    if len(every) < FEWEST:
        return None
    value, variance, freedom = float(every.mean()), float(every.var(ddof=1)) / len(every), len(every) - 1
    means = np.array([np.mean(values) for values in rounds if len(values)])
    if len(means) >= ROUNDS and (between := float(means.var(ddof=1)) / len(means)) > variance:
        variance, freedom = between, len(means) - 1
    half = student.quantile(0.5 + CONFIDENCE / 2, freedom) * math.sqrt(variance)
    return FrontierMean(value=value, low=max(value - half, 0.0), high=value + half)


def points(settings: Sequence[str], visits: Sequence[FrontierVisit]) -> list[ServingPoint]:
    """Of each setting that has enough blocks of sound runs, and which are on the frontier."""
    every = []
    for setting in settings:
        sound = [visit.blocks for visit in visits if visit.setting == setting and not visit.flaws]
        both = [mean([[getattr(block, axis) for block in some] for some in sound]) for axis in ("throughput", "interactivity")]
        if both[0] is not None and both[1] is not None:
            count = sum(map(len, sound))
            every.append(ServingPoint(setting=setting, blocks=count, throughput=both[0], interactivity=both[1]))
    kept = front([(point.throughput.span, point.interactivity.span) for point in every], ("most", "most"))
    return [replace(point, front=on) for point, on in zip(every, kept, strict=True)]
